"""Graders. A student's file is data: it is read, checked and loaded into switches, and nothing in it is executed."""
