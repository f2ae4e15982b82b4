"""Endpoints as C functions: the event loop calls them by address, so that it is compiled once for whatever they are."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from p4reduce.network.virtual.faults import FabricError
from p4reduce.workers.kernels.endpoint import deadline, expire, receive, resume, status, transmit


class EndpointCalls(NamedTuple):
    """Addresses of C functions on int64; ``eps`` is the address of the endpoints' records, ``i`` an index.

    All are called with five arguments, of which a function of C may take fewer; those not named are 0:
    ``receive(eps, i, frame, length, now_ps)`` -> 1 if the frame was for endpoint i, else 0;
    ``transmit(eps, i, now_ps, out, capacity)`` -> length of the next frame, written to ``out``, or 0;
    ``deadline(eps, i)`` -> when ``expire`` is to be called, 2^62: never (one that is past: in a microsecond);
    ``expire(eps, i, now_ps)`` -> 0;
    ``status(eps, i)`` -> 1 while the endpoint works;
    ``resume(eps, i, paused_ps)`` -> 0: for so long nothing was asked of it (address 0: it need not know).
    """

    receive: int
    transmit: int
    deadline: int
    expire: int
    status: int
    resume: int = 0


@dataclass(frozen=True)
class HostEndpoints:
    """Endpoints of the hosts.

    records : structured array, shape (n,)
        One record for each endpoint, with an integer field ``status`` (1: works) and perhaps ``priority``, its class
        (0..7, default 0): a host asks the highest class first. The caller keeps them and may change them between runs;
        after a change of classes, `VirtualNetwork.reorder_endpoints`.
    hosts : names, n of them
        The host of each.
    calls : functions on the records; ``worker_endpoints()`` for those of `workers/`.
    """

    records: NDArray[Any]
    hosts: Sequence[str]
    calls: EndpointCalls

    def __post_init__(self) -> None:
        if len(self.hosts) != len(self.records):
            raise FabricError(f"endpoints: {len(self.records)} records for {len(self.hosts)} hosts")
        if not self.records.flags.c_contiguous:
            raise FabricError("endpoints: the records are not contiguous in memory")


NO_ENDPOINTS: Final = HostEndpoints(np.zeros(0, dtype=[("status", np.int64)]), (), EndpointCalls(0, 0, 0, 0, 0))


def worker_endpoints() -> EndpointCalls:
    """The functions of `workers/kernels/endpoint.py`, on records of ENDPOINT_DTYPE."""
    return EndpointCalls(*(function.address for function in (receive, transmit, deadline, expire, status, resume)))


# Who looks on while virtual time passes, and may hold it.


class Pacer(Protocol):
    """Asked between slices of a network's run. What happens, and when in virtual time, does not depend on it."""

    @property
    def events(self) -> int:
        """Events after which it is asked again, at least 1."""

    def begin(self, check: Callable[[], None]) -> None:
        """A run begins, perhaps one of many: before its first slice it may wait as after every other."""

    def moving(self) -> AbstractContextManager[object]:
        """Entered while events happen: nobody else may read the network's memory then."""

    def passed(self, check: Callable[[], None]) -> None:
        """A slice is over. It may wait as long as it likes; meanwhile it calls ``check`` about ten times a second."""
