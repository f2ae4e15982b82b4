"""What hosts do at which virtual time: calls at given times, and calls when an endpoint has done its operation."""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from p4reduce.comm.errors import ClusterError
from p4reduce.fabric import Stop
from p4reduce.jobs.network import JobNetwork
from p4reduce.workers.operation import Post
from p4reduce.workers.records import State

Call = Callable[[], None]
Done = Callable[[int], None]
"""Told when the endpoint was done, virtual picoseconds."""


class Clockwork:
    """Drives a `JobNetwork`: the hosts' side of several jobs that compute and communicate at the same time.

    Calls at one time happen in the order in which they were asked for, those of endpoints in the order of indices.
    """

    def __init__(self, network: JobNetwork) -> None:
        self.network = network
        self._order = count()
        self._calls: list[tuple[int, int, Call]] = []
        self._waiting: dict[int, Done] = {}
        self._serving: set[int] = set()

    def at(self, time_ps: int, call: Call) -> None:
        """Call at this time, or now if it is past."""
        heappush(self._calls, (max(time_ps, self.network.now), next(self._order), call))

    def post(self, index: int, operation: Post, then: Done) -> None:
        """Give an endpoint an operation that begins now; ``then`` is called when it is done."""
        self.network.post(index, operation)
        self._waiting[index] = then

    def announce(self, index: int, operation: Post) -> None:
        """What an endpoint gets next is known: its exponents may travel with what it does now."""
        self.network.announce(index, operation)

    def serve(self, index: int, operation: Post, then: Done) -> None:
        """The same for an endpoint that others come to: that it waits for them keeps nobody from the end of a run."""
        self.post(index, operation, then)
        self._serving.add(index)

    def run(self, *, check: Call | None = None, until: Callable[[], bool] | None = None) -> None:
        """Until nobody has anything to do, or until something is so, which is asked after every step.

        ``ClusterError`` when an endpoint gives up or waits for ever.
        """
        while (self._calls or self._waiting.keys() - self._serving) and not (until is not None and until()):
            next_ps = self._calls[0][0] if self._calls else None
            reason = self.network.advance(next_ps, sorted(self._waiting), first=True, check=check)
            if reason is Stop.QUIET and next_ps is None:
                waiting = ", ".join(self.network.hosts[index] for index in sorted(self._waiting))
                raise ClusterError(f"nothing moves any more, but these still wait: {waiting}")
            self._collect()
            while self._calls and self._calls[0][0] <= self.network.now and not (until is not None and until()):
                heappop(self._calls)[2]()

    def _collect(self) -> None:
        records = self.network.endpoints.records
        for index in sorted(self._waiting):
            state = State(int(records[index]["status"]))
            if state is State.FAILED:
                error = self.network.status(index).error
                raise ClusterError(f"{self.network.hosts[index]}: {error}")
            if state is not State.ACTIVE:
                self._serving.discard(index)
                self._waiting.pop(index)(int(records[index]["done_at"]))
                records = self.network.endpoints.records
