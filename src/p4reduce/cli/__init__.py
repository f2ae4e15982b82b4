"""The ``p4reduce`` command, its reports, and what the Makefile calls."""
