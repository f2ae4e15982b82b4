"""Two compilers, one switch: whether programs compiled by both send the same packets, and how much that says."""
