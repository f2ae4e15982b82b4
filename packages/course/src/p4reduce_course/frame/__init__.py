"""What all graders share: labs and their parts, points, parameters drawn for a student, formats of reports."""
