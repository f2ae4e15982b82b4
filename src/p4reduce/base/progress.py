"""How whoever waits is told how far something is."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""(what is going on, how much is done, of how much)"""
