"""A job of another scheduler in the network: its ranks, who come over a socket, and the collective they wait for."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from p4reduce.base.safe_yaml import short
from p4reduce.comm.backend import FloatArray, Served
from p4reduce.comm.calls import Call
from p4reduce.comm.errors import ClusterError, CollectiveError, RefusedError, SaturatedError
from p4reduce.comm.listener import Listener
from p4reduce.comm.remote import Membership
from p4reduce.comm.rendezvous import Rendezvous
from p4reduce.jobs.job import Job

CARRIED: Final = frozenset({"all_reduce", "barrier"})
"""what ranks may call here"""


@dataclass
class Open:
    """A collective of a job that all its ranks have called, on copies of their arrays."""

    calls: list[Call]
    copies: list[FloatArray]
    unposted: list[int]
    """ranks whose endpoints do not have it yet"""
    active: dict[int, int] = field(default_factory=dict)
    """rank by endpoint"""
    done: bool = False
    failed: SaturatedError | None = None
    """what its ranks are told when it is done, in the place of a result"""
    error: ClusterError | None = None
    """what ended the job meanwhile"""


@dataclass(frozen=True)
class Ended:
    """A job that has left the network, and when, in virtual picoseconds."""

    name: str
    begun_ps: int
    ended_ps: int
    rounds: int
    """collectives that it carried out"""
    error: str = ""


class Group:
    """What threads of its ranks touch is guarded by the network's condition, ``changed``."""

    def __init__(
        self,
        name: str,
        hosts: tuple[str, ...],
        job: Job | None,
        folder: Path,
        *,
        changed: threading.Condition,
        now_ps: int,
    ) -> None:
        self.name, self.hosts, self.job, self.folder = name, hosts, job, folder
        self.label: Final = name if name.isprintable() and 0 < len(name) <= 64 else short(name)
        """its name in messages, whatever users call it"""
        self._changed, self.begun_ps = changed, now_ps
        self.taken: set[int] = set()
        self.left: set[int] = set()
        self.open: Open | None = None
        self.failure: ClusterError | None = None
        self.rounds = 0
        self.saturated = 0
        self.rendezvous = Rendezvous(
            len(hosts), server=False, carry=self._carry, start_ps=self.begun_ps, patience_s=24 * 3600.0
        )
        self.listener = Listener(
            folder, self._seat, failed=self.fail, lost=self._lost, left=lambda seat: self._leave(seat.rank)
        )

    @property
    def over(self) -> bool:
        """Whether all ranks have left, or it has failed."""
        return self.failure is not None or len(self.left) == len(self.hosts)

    @property
    def ready(self) -> bool:
        """Whether time may pass as far as this job is concerned."""
        return self.over or self.open is not None

    def missing(self) -> str:
        """Whom it waits for."""
        away = sorted(set(range(len(self.hosts))) - self.taken)
        if away:
            return f"{self.label}: rank {', '.join(map(str, away))} has not come"
        return self.rendezvous.waiting() or f"{self.label}: its ranks compute"

    def end_ps(self, now_ps: int) -> int:
        """When its last rank left, virtual time."""
        if self.failure is not None:
            return now_ps
        return max([self.begun_ps, *(span.end_ps for span in self.rendezvous.spans())])

    def ended(self, end_ps: int) -> Ended:
        """What it came to."""
        return Ended(self.name, self.begun_ps, end_ps, self.rounds, "" if self.failure is None else str(self.failure))

    def fail(self, error: ClusterError) -> None:
        """End it: its ranks get the error."""
        self.rendezvous.fail(error)
        with self._changed:
            self.failure = self.failure or error
            if self.open is not None:
                self.open.error, self.open = error, None
            self._changed.notify_all()

    def finish(self, failed: SaturatedError | None = None) -> None:
        """Its collective is over: done, or ``failed`` at all ranks, which go on."""
        with self._changed:
            assert self.open is not None  # noqa: S101
            self.open.failed = failed
            self.open.done, self.open = True, None
            self.rounds += 1
            self._changed.notify_all()

    def _carry(self, calls: list[Call], check: Callable[[], None]) -> None:
        """Of the thread whose rank called last: wait until the network has carried it (``comm.rendezvous.Carry``)."""
        if calls[0].operation not in CARRIED:
            raise RefusedError(
                f"{calls[0].operation}: ranks that another scheduler starts have {' and '.join(sorted(CARRIED))}"
            )
        calls = sorted(calls, key=lambda call: call.rank)
        opened = Open(calls, [np.array(call.array) for call in calls], [call.rank for call in calls])
        with self._changed:
            if self.failure is not None:
                raise self.failure
            self.open = opened
            self._changed.notify_all()
        try:
            while not opened.done:
                with self._changed:
                    self._changed.wait_for(lambda: opened.done or opened.error is not None, 1.0)
                    if opened.error is not None:
                        raise opened.error
                check()
        except ClusterError as problem:
            self.fail(problem)
            raise
        if opened.failed is not None:
            raise opened.failed
        for call, copy in zip(calls, opened.copies, strict=True):
            call.array[:] = copy

    def _seat(self, rank: int, membership: Membership | None) -> Served:
        if membership is not None:
            raise ClusterError("group: ranks that another scheduler starts have no groups")
        with self._changed:
            if rank in self.taken:
                raise ClusterError(f"rank {rank} is connected already")
            seat = self.rendezvous.backend(rank)  # ValueError for a rank that there is not
            self.taken.add(rank)
            self._changed.notify_all()
        return seat

    def _leave(self, rank: int) -> None:
        """A rank has left in good order, and has its answer: its connection may be closed."""
        with self._changed:
            self.left.add(rank)
            self._changed.notify_all()

    def _lost(self, seat: Served) -> None:
        """A rank is gone without leaving: the job cannot go on."""
        self.fail(CollectiveError(f"{self.label}: rank {seat.rank} ended without leaving the group"))
