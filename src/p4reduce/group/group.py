"""A group as those see it that start its participants, and what it needs of those that carry its collectives."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from p4reduce.group.backend import PLAIN, Clock, FloatArray, Options, Served
from p4reduce.group.errors import ClusterError, CollectiveError
from p4reduce.group.membership import Decision
from p4switch.base.units import PS_PER_S

if TYPE_CHECKING:
    from p4reduce.group.rendezvous import Rendezvous


# What one participant calls of a collective, and whether all of them call the same.


SERVED = frozenset({"push", "pull", "push_pull"})
"""Operations in which the server takes part."""
OPERATIONS = frozenset({"all_reduce", "broadcast", "barrier", "all_to_all"}) | SERVED


@dataclass
class Call:
    """One participant's part of a collective."""

    rank: int
    operation: str
    array: FloatArray
    root: int
    learning_rate: float
    start_ps: int
    iteration: int
    done_ps: int = -1
    options: Options = PLAIN
    error: Exception | None = None
    """What this participant's call fails with, where others' do not."""
    raised: bool = False
    """It was not carried out, as members died: the caller hears of the new group, and calls again."""
    contributors: tuple[int, ...] = ()
    """Whose arrays are in the result; empty for those of all members."""
    summed: tuple[tuple[int, int], ...] = ()
    """(elements, contributions) of one stretch of the result after the other; empty: as many as contributors."""


def check_agreement(calls: list[Call], name: Callable[[int], str]) -> None:
    """`CollectiveError` where the participants of one collective do not call the same; ``name`` names a rank."""
    first = calls[0]
    for call in calls[1:]:
        if _shape(call) != _shape(first):
            raise CollectiveError(
                f"participants disagree: {name(first.rank)} called {_describe(first)}, "
                f"{name(call.rank)} {_describe(call)}"
            )


def _shape(call: Call) -> tuple[str, int, int, float, bool, bool, str, str, int | None]:
    chosen = call.options
    return (
        call.operation,
        call.array.size,
        call.root,
        call.learning_rate,
        chosen.words,
        chosen.poison,
        chosen.name,
        chosen.tensor,
        chosen.staleness,
    )


def _describe(call: Call) -> str:
    extra = f", root={call.root}" if call.operation == "broadcast" else ""
    if call.operation == "push_pull":
        extra = f", learning_rate={call.learning_rate:g}"
        if call.options.stale:
            extra += f", staleness={call.options.staleness}"
    if call.options.tensor:
        extra += f", name={call.options.tensor!r}"
    kind = " of int32" if call.options.words and call.operation == "all_reduce" and not call.options.name else ""
    return f"{call.options.name or call.operation}({call.array.size} elements{kind}{extra})"


def first_bad_value(array: FloatArray) -> int | None:
    """Index of the first value that is not finite, or None."""
    # A dot product is finite only if all is, and costs a tenth of isfinite; overflow alone may lie.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.dot(array, array)):
            return None
    bad = np.flatnonzero(~np.isfinite(array))
    return int(bad[0]) if bad.size else None


# What a group keeps of each of its participants: its clock, its call, what it did and recorded.


COMPUTE = "compute"


@dataclass
class Figure:
    """A figure that a training script recorded."""

    rank: int
    name: str
    iteration: int
    time_ps: int
    value: float


@dataclass(frozen=True)
class Span:
    """What a participant did from when to when: a collective, or computation."""

    rank: int
    name: str
    start_ps: int
    end_ps: int
    elements: int = 0


@dataclass
class Participant:
    """One participant, as its group sees it."""

    clock: Clock
    ready_ps: int
    """When its last collective was done: the next one starts no earlier."""
    call: Call | None = None
    under_way: bool = False
    """the network has its array"""
    finished: bool = False
    left: bool = False
    died: str = ""
    """why it takes no part any more, though it did not leave"""
    contributors: tuple[int, ...] = ()
    """of its last collective"""
    summed: tuple[tuple[int, int], ...] = ()
    """the same: how many contributions each stretch of its result has"""
    iteration: int = 0
    figures: list[Figure] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    computed: list[Span] = field(default_factory=list)

    @property
    def waits(self) -> bool:
        """Whether its call waits for others."""
        return self.call is not None and not self.finished and not self.under_way and not self.died


# One participant's end of a group whose participants meet in this process.


class Seat:
    """One participant's end of a ``Rendezvous``; implements ``backend.Backend``."""

    looks_ahead = True

    def __init__(self, rendezvous: "Rendezvous", rank: int, size: int) -> None:
        self._rendezvous = rendezvous
        self.rank = rank
        self.size = size
        self.is_server = rank == size

    def collective(
        self,
        operation: str,
        array: FloatArray,
        root: int,
        learning_rate: float,
        options: Options = PLAIN,
        start_ps: int | None = None,
    ) -> int:
        """Post the call and wait."""
        return self._rendezvous.post(self.rank, operation, array, root, learning_rate, options, start_ps)

    @property
    def contributors(self) -> tuple[int, ...]:
        """Of its last collective: whose arrays are in the result."""
        return self._rendezvous.contributors(self.rank)

    @property
    def summed(self) -> tuple[tuple[int, int], ...]:
        """Of its last collective: (elements, contributions) of each stretch of the result."""
        return self._rendezvous.summed(self.rank)

    def compute(self, seconds: float) -> None:
        """Advance this participant's clock."""
        self._rendezvous.compute(self.rank, seconds)

    def now(self) -> float:
        """Virtual time, seconds."""
        return self._rendezvous.clock(self.rank).now_ps / PS_PER_S

    def now_ps(self) -> int:
        """Virtual time, picoseconds."""
        return self._rendezvous.clock(self.rank).now_ps

    def reach(self, time_ps: int) -> None:
        """Virtual time is at least this."""
        self._rendezvous.clock(self.rank).reach(time_ps)

    def computed(self, start_ps: int, end_ps: int) -> None:
        """Note computation for the timeline; the clock stays."""
        self._rendezvous.computed(self.rank, start_ps, end_ps)

    def group(self, ranks: tuple[int, ...], serial: int) -> "Seat":
        """Its end of the group of ``ranks``, in that order."""
        if self._rendezvous.subgroup is None:
            raise ClusterError("groups are made of the ranks of the whole run, not of another group")
        return self._rendezvous.subgroup(self.rank, ranks, serial)

    def lost(self) -> None:
        """Its process is gone without having left: everybody is told."""
        self._rendezvous.lose(self.rank)

    def record(self, name: str, value: float, at_ps: int | None = None) -> None:
        """Keep a figure."""
        self._rendezvous.record(self.rank, name, value, at_ps)

    def close(self) -> None:
        """Leave."""
        self._rendezvous.leave(self.rank)


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
