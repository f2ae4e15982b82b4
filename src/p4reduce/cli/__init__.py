"""The ``p4reduce`` command, its reports, and the programs that the Makefile calls."""
