"""The common part of all graders: labs and their parts, points, parameters of a student, formats of reports."""
