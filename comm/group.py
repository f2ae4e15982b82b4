"""A group as those see it that start its participants, and what it needs of those that carry its collectives."""

from collections.abc import Callable, Sequence
from typing import Protocol

from p4reduce.comm.backend import Served
from p4reduce.comm.calls import Call
from p4reduce.comm.errors import ClusterError
from p4reduce.comm.membership import Decision
from p4reduce.comm.seat import Seat

Carry = Callable[[list[Call], Callable[[], None]], Sequence[Decision] | None]
"""``carry(calls, check)`` carries one collective out: fills ``done_ps`` of every call, or ``error`` of one that fails
alone; raises ``CollectiveError``, after which the group goes on if it is one of ``GOES_ON``. It calls ``check`` now and
then, which raises once the group has ended: then nobody needs the result any more. Returns what was decided of the
group's members meanwhile."""
Joined = Callable[[tuple[int, ...], int, tuple[int, ...]], None]
"""Told of participants that came in: their ranks, the group's view and members. Called under a lock: do not block."""
Death = Callable[[int, int, str], None]
"""Told of a participant that died: rank, where its clock stood (ps), and why."""
CarryStale = Callable[[list[Call], Callable[[], None]], list[Call]]
"""The same where workers do not wait for each other: takes the calls of all who are there, those that it has already
too, and carries on until at least one of them is done; which ones are."""


class Group(Protocol):
    """A group as whoever starts its participants sees it."""

    def backend(self, rank: int) -> Served:
        """The end of a participant; ``ValueError`` for a rank that the group has not."""

    def waiting(self) -> str:
        """Who waits for whom, as one line; empty when nobody waits."""

    def fail(self, error: ClusterError) -> None:
        """End the group: everyone who waits, or calls later, gets ``error``."""

    @property
    def failure(self) -> ClusterError | None:
        """What it has ended with."""

    def die(self, rank: int, reason: str) -> bool:
        """A participant's process has ended without leaving; False where the others cannot go on without it."""


Subgroup = Callable[[int, tuple[int, ...], int], Seat]
"""The seat of a rank in a group of some of the ranks: (rank, ranks, which of the groups of these ranks)."""
