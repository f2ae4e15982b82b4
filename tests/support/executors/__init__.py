"""Two devices of one program, one for each executor, that are given the same and must do the same."""
