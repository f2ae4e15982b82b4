"""Types, and the checks of a program before it is lowered."""
