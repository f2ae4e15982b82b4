"""Who is told of networks in virtual time that come to be in this process."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from p4reduce.jobs.network import JobNetwork

Observer = Callable[["JobNetwork"], None]
"""Told of a network at its time 0, before it has any job."""

_observers: list[Observer] = []


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Have ``observer`` told of every network that is made inside, in whichever thread."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


def announce(network: "JobNetwork") -> None:
    """A network is there."""
    for observer in _observers:
        observer(network)
