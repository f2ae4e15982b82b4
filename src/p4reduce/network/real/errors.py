"""Errors of runs in real time."""

from p4reduce.base.errors import P4ReduceError


class RealError(P4ReduceError, RuntimeError):
    """Something that this machine cannot do, or that failed on it; the text says what, and what to do."""
