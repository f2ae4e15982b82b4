"""Types, and what is checked before anything is made of a program."""
