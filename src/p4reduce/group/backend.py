"""``Backend``, the interface that carries a ``Communicator``'s collectives, and the records of a group."""

import os
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Protocol

import numpy as np
import numpy.typing as npt

from p4reduce.base.records import Given
from p4reduce.group.errors import ClusterError, CollectiveError, RefusedError
from p4reduce.group.membership import MembershipDecision
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from p4reduce.workers.wire import WORD_BITS
from p4switch.base.values import PS_PER_S

if TYPE_CHECKING:
    from p4reduce.group.rendezvous import Rendezvous


FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Ahead:
    """The float32 sum that a participant starts next; its exponents may travel with the collective before it."""

    array: FloatArray
    start_ps: int
    poison: bool = False


@dataclass(frozen=True)
class Options:
    """Options of a collective, the same at all participants except ``patience_s`` and ``ahead``."""

    words: bool = False
    """Whether the arrays hold int32 words, which are added as they are, instead of float32."""
    poison: bool = False
    """Whether NaN and infinity are carried to the result instead of raising an error."""
    lane_bits: int = 0
    """Lane width in bits of an all-reduce of floats: 32, 16 or 8; 0: that of the run."""
    name: str = ""
    """The collective that the caller called, if another one carries it; otherwise empty."""
    blocks: Literal["", "own", "all"] = ""
    """Blocks of an all-reduce, one per rank, that are used.

    'own': each rank needs only its own block of the result. 'all': each rank gives only its own block, and zeros for
    the others. Empty: all.
    """
    patience_s: float | None = None
    """Wall-clock seconds that this participant waits for the others; None: the group's time-out."""
    staleness: int | None = 0
    """For push_pull: rounds by which a worker may be ahead of the slowest; 0: all wait; None: no bound."""
    view: int = 0
    """Number of the group's changes that the caller knew at the call (``GroupChanged.view``)."""
    tensor: str = ""
    """The caller's name of the tensor: what a deadline left out goes into the next all-reduce of that name."""
    place: str = ""
    """The call's place in its step, used if there is no name; empty if unknown."""
    ahead: Annotated[Ahead | None, Given("ahead", lambda _: None, lambda ahead, _: ahead)] = None
    """The participant's next call, or None if unknown; not used in real time."""

    @property
    def identity(self) -> str:
        """Return the name of the tensor, or else its place in a step; empty if both are unknown."""
        return f"name {self.tensor}" if self.tensor else self.place

    @property
    def stale(self) -> bool:
        """Return whether workers do not wait for each other in every round."""
        return self.staleness != 0


PLAIN: Final = Options()


@dataclass(frozen=True)
class Asked:
    """One participant's request for a collective.

    array: 1-D, C-contiguous, float32; the result is written in place. root: a rank of the start. start_ps: start in
    virtual time; None: the time of the participant's clock, which then moves to the end of the collective.
    """

    operation: str
    array: FloatArray
    root: int = 0
    learning_rate: float = 0.0
    options: Options = PLAIN
    start_ps: int | None = None


class Backend(Protocol):
    """Carries one participant's calls to the network; see ``group/rendezvous.py`` and ``group/remote.py``."""

    rank: int
    """The participant's rank at the start; it never changes."""
    size: int
    is_server: bool
    looks_ahead: bool
    """Whether ``Options.ahead`` is used."""

    @property
    def contributors(self) -> tuple[int, ...]:
        """Return the members whose arrays are in the participant's last result, as ranks of the start."""

    @property
    def summed(self) -> tuple[tuple[int, int], ...]:
        """Return the last result as consecutive stretches of (elements, contributions).

        Empty if every element has the contributions of all contributors.
        """

    def collective(self, asked: Asked) -> int:
        """Take part in one collective, and block until it ends; return the time of the result, picoseconds.

        Raises ``GroupChanged`` if the group has changed since ``options.view``.
        """

    def compute(self, seconds: float) -> None:
        """Let virtual time pass for this participant."""

    def now(self) -> float:
        """Return the virtual time of this participant, seconds."""

    def now_ps(self) -> int:
        """Return the virtual time of this participant, picoseconds."""

    def reach(self, time_ps: int, move: int = -1) -> None:
        """Advance this participant's virtual time to ``time_ps`` if it is earlier.

        move: number of the `move` that it waited for, for the trace; -1: none.
        """

    def record(self, name: str, value: float) -> None:
        """Record a figure of the training, with the virtual time and the iteration."""

    def waited(self, wait: "Wait") -> None:
        """Record that the participant waited, for the trace; its clock stays."""

    def messenger(self) -> "Backend | None":
        """Return a backend for `move` and `moved_ps` that does not wait for collectives; None in real time."""

    def move(self, move: "Move") -> int:
        """Record the participant's part of another library's transfer; return the number of the record."""

    def moved_ps(self, number: int) -> int:
        """Return when the transfer was complete, picoseconds; -1 until all participants have recorded their parts."""

    def tallied(self, rows: Sequence["Tallied"]) -> None:
        """Record the counts of all calls, at the end."""

    def group(self, ranks: tuple[int, ...], serial: int) -> "Backend":
        """Return the backend for the serial-th group of these workers; its rank there is its place in ``ranks``."""

    def close(self) -> None:
        """Leave the group."""


class Served(Backend, Protocol):
    """A backend in the coordinator's process, with methods for the coordinator beside a participant's calls."""

    def record(self, name: str, value: float, at_ps: int | None = None) -> None:
        """Record a figure with time ``at_ps``, or now."""

    def group(self, ranks: tuple[int, ...], serial: int) -> "Served":
        """Return the backend for the serial-th group of these workers."""

    def computed(self, start_ps: int, end_ps: int) -> None:
        """Record computation for the timeline."""

    def lost(self) -> None:
        """Tell the other participants that this one's process ended without leaving."""


# The mapping from a participant's call to an operation of its endpoint.


COLLECTIVES: Final = {
    "all_reduce": Collective.ALL_REDUCE,
    "push": Collective.PUSH,
    "pull": Collective.PULL,
    "push_pull": Collective.PUSH_PULL,
    "barrier": Collective.BARRIER,
    "all_to_all": Collective.ALL_TO_ALL,
}
"""Collectives by the names of ``Communicator``; a broadcast is carried as a pull."""


def as_carried(operation: str, *, ring: bool) -> str:
    """Return the collective that carries a call: a broadcast is a pull; a ring's barrier all-reduces one element."""
    if operation == "broadcast":
        return "pull"
    return "all_reduce" if operation == "barrier" and ring else operation


def part(
    collective: Collective,
    array: FloatArray,
    iteration: int,
    learning_rate: float,
    options: Options = PLAIN,
    *,
    serves: bool,
    lost: FloatArray | None = None,
) -> Post:
    """Return the operation of one participant, with ``array`` as source or target (table in workers/operation.py).

    serves: whether the participant is the job's server; the server of a host-side all-reduce also gets the sum. lost:
    as in ``Post``.
    """
    source: FloatArray | None = None
    target: FloatArray | None = None
    if collective is Collective.ALL_REDUCE:
        source, target = (None, array) if serves else (array, array)
    elif collective is Collective.PUSH:
        source, target = (None, array) if serves else (array, None)
    elif collective is Collective.PULL:
        source, target = (array, None) if serves else (None, array)
    elif collective is Collective.PUSH_PULL:
        source, target = (None, array) if serves else (array, array)
    elif collective is Collective.ALL_TO_ALL:
        source, target = array.copy(), array  # blocks arrive while others still leave
    sums = collective is Collective.ALL_REDUCE
    return Post(
        collective,
        source,
        target,
        iteration,
        learning_rate,
        words=options.words and (sums or collective is Collective.PULL),
        poison=options.poison and sums,
        bits=options.lane_bits if options.lane_bits and sums and not (serves or options.words) else WORD_BITS,
        lost=lost,
    )


# Arrays of a training script as collectives take them: checked, and as 32-bit words.


Array = npt.NDArray[Any]


def check_array(operation: str, array: Any, wanted: set[np.dtype[Any]] | None) -> None:
    """Raise an error for an array that cannot be used; ``wanted``: dtypes that the operation takes, None for any."""
    if not isinstance(array, np.ndarray) or (wanted is not None and array.dtype not in wanted):
        kind = array.dtype if isinstance(array, np.ndarray) else f"{type(array).__name__}, which is no array"
        mend = "array.astype(np.float32)" if isinstance(array, np.ndarray) else "np.array(value, np.float32)"
        raise TypeError(f"{operation}: expected a float32 array, got {kind}; use {mend}")
    if not array.flags.c_contiguous:
        raise ValueError(f"{operation}: the array must be C-contiguous; use np.ascontiguousarray(array)")
    if array.size == 0:
        raise ValueError(f"{operation}: the array is empty")
    if not array.flags.writeable:
        raise ValueError(f"{operation}: the array is read-only, but results are written in place")
    if array.dtype.hasobject:
        raise TypeError(f"{operation}: arrays of Python objects have no bytes to send")


def as_words(array: Array) -> npt.NDArray[np.int32]:
    """Return a copy of an array's bytes as int32, padded with zeros."""
    octets = np.zeros(-(-array.nbytes // 4) * 4, np.uint8)
    octets[: array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return octets.view(np.int32)


# Counts of calls by collective, type and carrier, so that calls which do not use the network become visible.


DEBUG: Final = "P4REDUCE_DEBUG"
"""environment variable; INFO: ranks log to standard error how they joined, and what carries each kind of call."""
NETWORK, GLOO = "network", "gloo"


@dataclass(frozen=True)
class Tallied:
    """Counts of one kind of call: collective, element type, carrier (``by``), calls, and bytes that callers gave."""

    collective: str
    kind: str
    by: str
    calls: int
    octets: int


class Tally:
    """Counts the calls of a process. Safe to use from several threads."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._octets: Counter[tuple[str, str, str]] = Counter()
        self._lock = threading.Lock()
        self._called = threading.local()

    def call_next(self, kind: str, octets: int, collective: str = "") -> None:
        """Set type and bytes of this thread's next call, if they differ from those of the array that it passes.

        ``collective``: the collective that was called, if another one carries it.
        """
        self._called.what = kind, octets, collective

    def add(self, collective: str, kind: str, octets: int, by: str = NETWORK, why: str = "") -> int:
        """Count a call; return the number of calls of this kind so far."""
        set_before = self._called.__dict__.pop("what", None)  # dropped if this call goes by gloo, not the network
        if set_before is not None and by == NETWORK:
            kind, octets, called = set_before
            collective = called or collective
        key = collective, kind, by
        with self._lock:
            self._counts[key] += 1
            self._octets[key] += octets
            count = self._counts[key]
        if count == 1:
            info(f"{collective} of {kind}: by {by}{why and f', since {why}'}")
        return count

    def rows(self) -> list[Tallied]:
        """Return the counts of all kinds, in order."""
        with self._lock:
            return [Tallied(*key, count, self._octets[key]) for key, count in sorted(self._counts.items())]


def added_up(tallied: Iterable[Tallied]) -> list[Tallied]:
    """Add up the counts of several ranks; return one row for each kind."""
    total = Tally()
    for row in tallied:
        key = row.collective, row.kind, row.by
        total._counts[key] += row.calls
        total._octets[key] += row.octets
    return total.rows()


def info(text: str) -> None:
    """Log a line to standard error if `DEBUG` is INFO."""
    if os.environ.get(DEBUG, "").upper() == "INFO":
        print(f"{socket.gethostname()}:{os.getpid()} p4reduce INFO {text}", file=sys.stderr, flush=True)


# Virtual time of one participant, shared by its groups.


class Clock:
    """A time that only grows, picoseconds. Thread-safe."""

    def __init__(self, start_ps: int = 0) -> None:
        self._now_ps = start_ps
        self._lock = threading.Lock()

    @property
    def now_ps(self) -> int:
        """Return the time."""
        return self._now_ps

    def advance(self, by_ps: int) -> tuple[int, int]:
        """Advance the time; return the times before and after, picoseconds."""
        with self._lock:
            before = self._now_ps
            self._now_ps += by_ps
            return before, self._now_ps

    def reach(self, time_ps: int) -> None:
        """Advance the time to ``time_ps`` if it is earlier."""
        with self._lock:
            self._now_ps = max(self._now_ps, time_ps)


# One participant's call of a collective, and the check that all participants call the same one.


SERVED = frozenset({"push", "pull", "push_pull"})
"""Operations in which the server takes part."""
OPERATIONS = frozenset({"all_reduce", "broadcast", "barrier", "all_to_all"}) | SERVED


@dataclass
class CollectiveCall:
    """One participant's part of a collective."""

    rank: int
    operation: str
    array: FloatArray
    root: int
    learning_rate: float
    start_ps: int
    iteration: int
    done_ps: int = -1
    called_ps: int = 0
    """the participant's clock at the call; the collective may have begun later"""
    options: Options = PLAIN
    error: Exception | None = None
    """error of this participant's call if others' calls succeed, or None"""
    raised: bool = False
    """whether members died and it was not carried out: the caller gets `GroupChanged`, and calls again"""
    contributors: tuple[int, ...] = ()
    """members whose arrays are in the result; empty: all members"""
    summed: tuple[tuple[int, int], ...] = ()
    """consecutive stretches of the result, (elements, contributions); empty: those of all contributors"""


def check_agreement(calls: list[CollectiveCall], name: Callable[[int], str]) -> None:
    """Raise `CollectiveError` if the participants' calls of one collective differ; ``name`` names a rank."""
    first = calls[0]
    for call in calls[1:]:
        if _shape(call) != _shape(first):
            raise CollectiveError(
                f"participants disagree: {name(first.rank)} called {_describe(first)}, "
                f"{name(call.rank)} {_describe(call)}"
            )


def _shape(call: CollectiveCall) -> tuple[str, int, int, float, bool, bool, int, str, str, str, int | None]:
    chosen = call.options
    return (
        call.operation,
        call.array.size,
        call.root,
        call.learning_rate,
        chosen.words,
        chosen.poison,
        chosen.lane_bits,
        chosen.name,
        chosen.blocks,
        chosen.tensor,
        chosen.staleness,
    )


def _describe(call: CollectiveCall) -> str:
    extra = f", root={call.root}" if call.operation == "broadcast" else ""
    if call.operation == "push_pull":
        extra = f", learning_rate={call.learning_rate:g}"
        if call.options.stale:
            extra += f", staleness={call.options.staleness}"
    if call.options.tensor:
        extra += f", name={call.options.tensor!r}"
    if call.options.lane_bits:
        extra += f", lane_bits={call.options.lane_bits}"
    kind = " of int32" if call.options.words and call.operation == "all_reduce" and not call.options.name else ""
    return f"{call.options.name or call.operation}({call.array.size} elements{kind}{extra})"


def refuse_narrow(calls: list[CollectiveCall], where: str) -> None:
    """Raise `RefusedError` for lanes of 16 or 8 bits in a network without them; ``where`` names it."""
    bits = calls[0].options.lane_bits
    if bits not in (0, WORD_BITS):
        raise RefusedError(f"{calls[0].operation}: lane_bits: {bits}, but {where} has lanes of {WORD_BITS} bits only")


def first_bad_value(array: FloatArray) -> int | None:
    """Return the index of the first value that is not finite, or None."""
    # A dot product is finite only if all values are, and takes a tenth of isfinite's time; overflow may give false
    # alarms.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.dot(array, array)):
            return None
    bad = np.flatnonzero(~np.isfinite(array))
    return int(bad[0]) if bad.size else None


# A group's state of each participant: its clock, its call, its spans and its figures.


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
class TimeSpan:
    """An interval of a participant's time: a collective, or computation."""

    rank: int
    name: str
    start_ps: int
    end_ps: int
    elements: int = 0
    label: str = ""
    """text on the timeline, if it differs from the name"""


@dataclass(frozen=True)
class Called:
    """A collective as one participant called it, for its trace."""

    operation: str
    """the caller's operation, e.g. 'reduce_scatter' even if an all-reduce carried it"""
    elements: int
    root: int
    called_ps: int
    """the participant's clock at the call"""
    done_ps: int


@dataclass(frozen=True)
class Wait:
    """A wait from ``at_ps`` for something done at ``until_ps`` (picoseconds), which may have been earlier."""

    at_ps: int
    until_ps: int
    move: int = -1
    """number of the participant's `Move` that it waited for; -1: it waited for a collective"""


OF_ALL: Final = (1 << 31) - 1
"""in the place of a tag, for what moves in a collective"""


@dataclass(frozen=True)
class Move:
    """A participant's part of another library's transfer: a message, or a collective of its group."""

    name: str
    at_ps: int
    sent: tuple[tuple[int, int], ...]
    """Pairs of a rank in the group and the bytes sent to it."""
    meets: tuple[int, ...]
    """Ranks that record a part of the transfer; transfers of the same ``key`` are matched in order."""
    key: str
    tag: int = OF_ALL
    """tag of a message; `OF_ALL` for a collective"""


CarryMove = Callable[[str, Mapping[int, int], Sequence[tuple[int, int, int]]], dict[int, int]]
"""``carry(name, starts, sent)`` returns the time at which each rank has its part, ps; ``sent``: (from, to, bytes)."""


@dataclass(frozen=True)
class Moved:
    """One participant's part of another library's transfer, for its trace."""

    number: int
    """number of its `Move`"""
    at_ps: int
    flows: tuple[tuple[int, int, bool], ...]
    """For each flow: the other end (rank in the group), bytes, and whether this participant sends them."""
    tag: int


def _ends(member: int, sent: Sequence[tuple[int, int, int]], size: int) -> tuple[tuple[int, int, bool], ...]:
    """Return a participant's ends of flows, ordered by the distance of the other rank, not by who recorded first."""
    own = [(to if member == a else a, octets, a == member) for a, to, octets in sent if member in (a, to)]
    return tuple(sorted(own, key=lambda end: ((end[0] - member if end[2] else member - end[0]) % size, not end[2])))


class Moves:
    """Matches participants' parts of other libraries' transfers. The caller holds a lock.

    numbers: numbers of parts, unique in a run. tell: receives each participant's part once all parts are there.
    """

    def __init__(self, carry: CarryMove, numbers: Iterator[int], tell: Callable[[int, Moved], None]) -> None:
        self._carry, self._numbers, self._tell = carry, numbers, tell
        self._open: dict[str, list[dict[int, tuple[int, Move]]]] = {}
        self._done_ps: dict[tuple[int, int], int] = {}

    def post(self, rank: int, move: Move) -> int:
        """Record a part, and return its number; the last part of a transfer has it carried."""
        own = next(self._numbers)
        waiting = self._open.setdefault(move.key, [])
        meeting = next((begun for begun in waiting if rank not in begun), None)
        if meeting is None:
            waiting.append(meeting := {})
        meeting[rank] = own, move
        if meeting.keys() >= {*move.meets}:
            waiting.remove(meeting)
            if not waiting:
                del self._open[move.key]
            starts = {member: part.at_ps for member, (_, part) in meeting.items()}
            sent = [(member, *to) for member, (_, part) in meeting.items() for to in part.sent]
            done = self._carry(move.name, starts, sent)
            self._done_ps |= {(member, number): done[member] for member, (number, _) in meeting.items()}
            for member, (number, part) in meeting.items():
                self._tell(member, Moved(number, part.at_ps, _ends(member, sent, len(move.meets)), part.tag))
        return own

    def done_ps(self, rank: int, number: int) -> int:
        """Return when a participant's part was complete, ps, and forget it; -1 while others' parts are missing."""
        return self._done_ps.pop((rank, number), -1)


@dataclass
class ParticipantTrace:
    """A participant's collectives, waits and messages, for its trace."""

    calls: list[Called] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    moves: list[Moved] = field(default_factory=list)
    tallied: list[Tallied] = field(default_factory=list)


@dataclass
class Participant:
    """The group's state of one participant."""

    clock: Clock
    ready_ps: int
    """end of its last collective: the next one starts no earlier"""
    call: CollectiveCall | None = None
    under_way: bool = False
    """whether the network uses its array"""
    finished: bool = False
    left: bool = False
    died: str = ""
    """why it takes no part any more although it did not leave; otherwise empty"""
    contributors: tuple[int, ...] = ()
    """members whose arrays are in its last result"""
    summed: tuple[tuple[int, int], ...] = ()
    """contributions of each stretch of its last result"""
    iteration: int = 0
    figures: list[Figure] = field(default_factory=list)
    spans: list[TimeSpan] = field(default_factory=list)
    computed: list[TimeSpan] = field(default_factory=list)
    told: ParticipantTrace = field(default_factory=ParticipantTrace)

    @property
    def waits(self) -> bool:
        """Return whether the participant's call waits for others."""
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

    def collective(self, asked: Asked) -> int:
        """Post the call and wait for its result."""
        return self._rendezvous.post(self.rank, asked)

    @property
    def contributors(self) -> tuple[int, ...]:
        """Return the members whose arrays are in the result of the participant's last collective."""
        return self._rendezvous.contributors(self.rank)

    @property
    def summed(self) -> tuple[tuple[int, int], ...]:
        """Return the result of the last collective as stretches of (elements, contributions)."""
        return self._rendezvous.summed(self.rank)

    def compute(self, seconds: float) -> None:
        """Advance this participant's clock."""
        self._rendezvous.compute(self.rank, seconds)

    def now(self) -> float:
        """Return the virtual time, seconds."""
        return self._rendezvous.clock(self.rank).now_ps / PS_PER_S

    def now_ps(self) -> int:
        """Return the virtual time, picoseconds."""
        return self._rendezvous.clock(self.rank).now_ps

    def reach(self, time_ps: int, move: int = -1) -> None:
        """Advance virtual time to at least ``time_ps``, and record the wait."""
        self.waited(Wait(self.now_ps(), time_ps, move))
        self._rendezvous.clock(self.rank).reach(time_ps)

    def waited(self, wait: Wait) -> None:
        """Record a wait; the clock stays."""
        self._rendezvous.told(self.rank).waits.append(wait)

    def tallied(self, rows: Sequence[Tallied]) -> None:
        """Record the counts of all calls."""
        self._rendezvous.told(self.rank).tallied.extend(rows)

    def messenger(self) -> "Seat":
        """Return itself, as it does not wait."""
        return self

    def move(self, move: Move) -> int:
        """Record a part of another library's transfer; return its number."""
        return self._rendezvous.move(self.rank, move)

    def moved_ps(self, number: int) -> int:
        """Return when the transfer was complete, picoseconds, or -1."""
        return self._rendezvous.moved_ps(self.rank, number)

    def computed(self, start_ps: int, end_ps: int) -> None:
        """Record computation for the timeline; the clock stays."""
        self._rendezvous.computed(self.rank, start_ps, end_ps)

    def group(self, ranks: tuple[int, ...], serial: int) -> "Seat":
        """Return the participant's end of the group of ``ranks``, in that order."""
        if self._rendezvous.subgroup is None:
            raise ClusterError("groups are made of the ranks of the whole run, not of another group")
        return self._rendezvous.subgroup(self.rank, ranks, serial)

    def lost(self) -> None:
        """Tell the other participants that this one's process ended without leaving."""
        self._rendezvous.lose(self.rank)

    def record(self, name: str, value: float, at_ps: int | None = None) -> None:
        """Record a figure."""
        self._rendezvous.record(self.rank, name, value, at_ps)

    def close(self) -> None:
        """Leave the group."""
        self._rendezvous.leave(self.rank)


Carry = Callable[[list[CollectiveCall], Callable[[], None]], Sequence[MembershipDecision] | None]
"""``carry(calls, check)`` carries one collective.

It fills ``done_ps`` of every call, or ``error`` of a call that fails alone. It raises ``CollectiveError``; after an
error of ``GOES_ON`` the group goes on. It calls ``check`` regularly, which raises once the group has ended and the
result is not needed any more. It returns the decisions made meanwhile on the group's members.
"""
Joined = Callable[[tuple[int, ...], int, tuple[int, ...]], None]
"""Called with the ranks that joined, the group's view and its members; under a lock, so it must not block."""
Death = Callable[[int, int, str], None]
"""Called for a participant that died, with its rank, its clock (ps) and the reason."""
CarryStale = Callable[[list[CollectiveCall], Callable[[], None]], list[CollectiveCall]]
"""As ``Carry``, for workers that do not wait for each other.

It takes the calls of all participants, including those under way, carries them until at least one is done, and returns
the calls that are done.
"""


class Group(Protocol):
    """A group as seen by the process that starts its participants."""

    def backend(self, rank: int) -> Served:
        """Return the backend of participant ``rank``; raise ``ValueError`` for a rank outside the group."""

    def waiting(self) -> str:
        """Return one line that says which participants wait for which; empty if none waits."""

    def fail(self, error: ClusterError) -> None:
        """End the group: participants that wait, or call later, get ``error``."""

    @property
    def failure(self) -> ClusterError | None:
        """Return the error that ended the group, or None."""

    def die(self, rank: int, reason: str) -> bool:
        """Note that a participant's process has ended without leaving; return False if the others cannot go on."""


Subgroup = Callable[[int, tuple[int, ...], int], Seat]
"""Function that returns a rank's seat in a subgroup: (rank, ranks, number of the group of these ranks)."""
