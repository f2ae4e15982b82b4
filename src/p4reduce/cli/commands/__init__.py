"""One file for each command of ``p4reduce``."""
