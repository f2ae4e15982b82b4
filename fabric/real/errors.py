"""Errors of runs in real time."""


class RealError(RuntimeError):
    """Something that this machine cannot do, or that failed on it; the text says what, and what to do."""
