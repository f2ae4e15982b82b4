"""``Backend``, the interface by which a ``Communicator`` has its collectives carried, and the records of a group."""

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
    """A float32 sum that a participant starts next; its exponents may travel with the collective before."""

    array: FloatArray
    start_ps: int
    poison: bool = False


@dataclass(frozen=True)
class Options:
    """Options of a collective, the same at all participants but for ``patience_s`` and ``ahead``."""

    words: bool = False
    """The arrays hold int32, which are added as they are, in place of float32."""
    poison: bool = False
    """Whether NaN and infinity come through, and are no error."""
    lane_bits: int = 0
    """Bits of the lanes in which an all-reduce of floats travels, 32, 16 or 8; 0: those of the run."""
    name: str = ""
    """The collective that the caller asked for, if it is carried as another one."""
    blocks: Literal["", "own", "all"] = ""
    """An all-reduce of as many equal blocks as there are ranks, that may be carried as less: 'own': each rank needs its
    own one only; 'all': each rank gives its own one only, and zeros for the others."""
    patience_s: float | None = None
    """Wall-clock seconds that this participant waits for the others; None: as long as the group does."""
    staleness: int | None = 0
    """For push_pull: rounds by which a worker may be ahead of the slowest; 0: all wait; None: no bound."""
    view: int = 0
    """Number of the group's changes that the caller had heard of when it called (``GroupChanged.view``)."""
    tensor: str = ""
    """The caller's name of the tensor: what a deadline left out goes into the next all-reduce of that name."""
    place: str = ""
    """The call's place in its step, used if there is no name; empty if it is not known."""
    ahead: Annotated[Ahead | None, Given("ahead", lambda _: None, lambda ahead, _: ahead)] = None
    """The participant's next call, if it is known; not used in real time."""

    @property
    def identity(self) -> str:
        """The name of the tensor, or else its place in a step; empty if both are unknown."""
        return f"name {self.tensor}" if self.tensor else self.place

    @property
    def stale(self) -> bool:
        """Whether workers do not wait for each other in every round."""
        return self.staleness != 0


PLAIN: Final = Options()


@dataclass(frozen=True)
class Asked:
    """A collective as one participant asks for it.

    array: 1-D, C-contiguous, float32; the result is written in place. root: a rank of the start. start_ps: of virtual
    time; None: where the participant's clock stands, which then goes on to the end.
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
        """Members whose arrays are in the result of the participant's last collective, as ranks of the start."""

    @property
    def summed(self) -> tuple[tuple[int, int], ...]:
        """The last result as stretches of (elements, contributions), one after the other.

        Empty if every element has the contributions of all contributors.
        """

    def collective(self, asked: Asked) -> int:
        """Take part in one collective; blocks.

        Returns when the result was there, picoseconds. Raises ``GroupChanged`` where the group has other members than
        ``options.view`` says.
        """

    def compute(self, seconds: float) -> None:
        """Let virtual time pass for this participant."""

    def now(self) -> float:
        """Virtual time of this participant, seconds."""

    def now_ps(self) -> int:
        """Virtual time of this participant, picoseconds."""

    def reach(self, time_ps: int, move: int = -1) -> None:
        """Move this participant's virtual time on to ``time_ps``, if it is earlier.

        move: number of its `move` that it waited for, for the trace; -1: none.
        """

    def record(self, name: str, value: float) -> None:
        """Keep a figure of the training, with the virtual time and the iteration."""

    def waited(self, wait: "Wait") -> None:
        """Note that the participant waited, for the trace; its clock stays."""

    def messenger(self) -> "Backend | None":
        """An end for `move` and `moved_ps`, which collectives do not keep waiting; None in real time."""

    def move(self, move: "Move") -> int:
        """Note the participant's part of what another library moves; returns the number of the note."""

    def moved_ps(self, number: int) -> int:
        """When it was moved, picoseconds; -1 as long as not all participants have noted their parts."""

    def tallied(self, rows: Sequence["Tallied"]) -> None:
        """Note the counts of all calls, at the end."""

    def group(self, ranks: tuple[int, ...], serial: int) -> "Backend":
        """The participant's end of the serial-th group of these workers; its rank there is its place in ``ranks``."""

    def close(self) -> None:
        """Leave the group."""


class Served(Backend, Protocol):
    """A backend in the coordinator's process, with what the coordinator notes beside a participant's calls."""

    def record(self, name: str, value: float, at_ps: int | None = None) -> None:
        """Keep a figure of ``at_ps``."""

    def group(self, ranks: tuple[int, ...], serial: int) -> "Served":
        """Its end of the serial-th group of these workers."""

    def computed(self, start_ps: int, end_ps: int) -> None:
        """Note computation for the timeline."""

    def lost(self) -> None:
        """Its process is gone without having left: tell the other participants."""


# How a participant's call becomes an operation of its endpoint.


COLLECTIVES: Final = {
    "all_reduce": Collective.ALL_REDUCE,
    "push": Collective.PUSH,
    "pull": Collective.PULL,
    "push_pull": Collective.PUSH_PULL,
    "barrier": Collective.BARRIER,
    "all_to_all": Collective.ALL_TO_ALL,
}
"""By the names of ``Communicator``; a broadcast is carried as a pull."""


def as_carried(operation: str, *, ring: bool) -> str:
    """The collective that carries a call: a broadcast pulls from its root; a ring's barrier all-reduces one element."""
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
    """The operation of one participant, with ``array`` as source or target (workers/operation.py has the table).

    serves: it is the job's server, of a host-side all-reduce too, whose sum it takes. lost: as of ``Post``.
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
        source, target = array.copy(), array  # blocks come while others still leave
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
    """Raise an error for an array that cannot be used; ``wanted``: types that the operation takes, None for any."""
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
    """A copy of an array's bytes as int32, padded with zeros."""
    octets = np.zeros(-(-array.nbytes // 4) * 4, np.uint8)
    octets[: array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return octets.view(np.int32)


# Counts of calls by collective, type and carrier, so that calls which do not use the network show.


DEBUG: Final = "P4REDUCE_DEBUG"
"""environment variable; INFO: ranks log on standard error how they joined, and what carries each kind of call."""
NETWORK, GLOO = "network", "gloo"


@dataclass(frozen=True)
class Tallied:
    """Calls of one kind: collective, type of the elements, what carried them; and bytes that callers gave."""

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
        """Set type and bytes for this thread's next call, if they are not those of the array that it passes.

        ``collective``: what was called, where it is carried as another.
        """
        self._called.what = kind, octets, collective

    def add(self, collective: str, kind: str, octets: int, by: str = NETWORK, why: str = "") -> int:
        """Count a call; return how many of this kind there have been, this one included."""
        set_before = self._called.__dict__.pop("what", None)  # of a call that never came, where this one goes by gloo
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
        """All kinds, in order."""
        with self._lock:
            return [Tallied(*key, count, self._octets[key]) for key, count in sorted(self._counts.items())]


def added_up(tallied: Iterable[Tallied]) -> list[Tallied]:
    """A row for each kind of several ranks' calls."""
    total = Tally()
    for row in tallied:
        key = row.collective, row.kind, row.by
        total._counts[key] += row.calls
        total._octets[key] += row.octets
    return total.rows()


def info(text: str) -> None:
    """Log a line on standard error, if `DEBUG` asks for that."""
    if os.environ.get(DEBUG, "").upper() == "INFO":
        print(f"{socket.gethostname()}:{os.getpid()} p4reduce INFO {text}", file=sys.stderr, flush=True)


# Virtual time of one participant, which its groups share.


class Clock:
    """A time that only grows, picoseconds. Safe to use from several threads."""

    def __init__(self, start_ps: int = 0) -> None:
        self._now_ps = start_ps
        self._lock = threading.Lock()

    @property
    def now_ps(self) -> int:
        """The time."""
        return self._now_ps

    def advance(self, by_ps: int) -> tuple[int, int]:
        """Let time pass; return when that began and ended, in picoseconds."""
        with self._lock:
            before = self._now_ps
            self._now_ps += by_ps
            return before, self._now_ps

    def reach(self, time_ps: int) -> None:
        """Move the time on to ``time_ps``, if it is earlier."""
        with self._lock:
            self._now_ps = max(self._now_ps, time_ps)


# A group as seen by the process that starts its participants, and the callbacks that carry its collectives.


# One participant's call of a collective, and the check that all participants call the same.


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
    """the error of this participant's call, if others' calls succeed"""
    raised: bool = False
    """whether it was not carried out because members died: the caller hears of the new group, and calls again"""
    contributors: tuple[int, ...] = ()
    """members whose arrays are in the result; empty: all members"""
    summed: tuple[tuple[int, int], ...] = ()
    """(elements, contributions) of one stretch of the result after the other; empty: as many as contributors."""


def check_agreement(calls: list[CollectiveCall], name: Callable[[int], str]) -> None:
    """`CollectiveError` where the participants of one collective do not call the same; ``name`` names a rank."""
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
    """`RefusedError` for lanes of 16 or 8 bits where there are none; ``where`` says why."""
    bits = calls[0].options.lane_bits
    if bits not in (0, WORD_BITS):
        raise RefusedError(f"{calls[0].operation}: lane_bits: {bits}, but {where} has lanes of {WORD_BITS} bits only")


def first_bad_value(array: FloatArray) -> int | None:
    """Index of the first value that is not finite, or None."""
    # A dot product is finite only if all is, and costs a tenth of isfinite; overflow alone may lie.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.dot(array, array)):
            return None
    bad = np.flatnonzero(~np.isfinite(array))
    return int(bad[0]) if bad.size else None


# What a group keeps for each participant: its clock, its call, its spans and its figures.


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
    """text on a time-line, if it is not the name"""


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
    """A participant's part of what another library moves: a message, or a collective of its group."""

    name: str
    at_ps: int
    sent: tuple[tuple[int, int], ...]
    """Rank in the group, and bytes that go there."""
    meets: tuple[int, ...]
    """All who note a part of it, in the same order if their ``key`` is the same."""
    key: str
    tag: int = OF_ALL
    """of a message"""


CarryMove = Callable[[str, Mapping[int, int], Sequence[tuple[int, int, int]]], dict[int, int]]
"""``carry(name, starts, sent)``: when each rank has its part, ps; ``sent``: (from, to, bytes)."""


@dataclass(frozen=True)
class Moved:
    """What one participant sent and got in what another library moved, for its trace."""

    number: int
    """of its `Move`"""
    at_ps: int
    flows: tuple[tuple[int, int, bool], ...]
    """The other end (rank in the group), bytes, and whether they go there."""
    tag: int


def _ends(member: int, sent: Sequence[tuple[int, int, int]], size: int) -> tuple[tuple[int, int, bool], ...]:
    """A participant's ends of flows, in turns in which each sends to one other, whichever part was noted first."""
    own = [(to if member == a else a, octets, a == member) for a, to, octets in sent if member in (a, to)]
    return tuple(sorted(own, key=lambda end: ((end[0] - member if end[2] else member - end[0]) % size, not end[2])))


class Moves:
    """Where participants' parts of what another library moves meet; its lock is the caller's.

    numbers: of parts, no two of a run alike. tell: told each participant's part when all are there.
    """

    def __init__(self, carry: CarryMove, numbers: Iterator[int], tell: Callable[[int, Moved], None]) -> None:
        self._carry, self._numbers, self._tell = carry, numbers, tell
        self._open: dict[str, list[dict[int, tuple[int, Move]]]] = {}
        self._done_ps: dict[tuple[int, int], int] = {}

    def post(self, rank: int, move: Move) -> int:
        """Note a part; the last one of all lets the time of it be known."""
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
        """When a participant has what it noted, once; -1 as long as others have not."""
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
    """One participant, as its group sees it."""

    clock: Clock
    ready_ps: int
    """when its last collective was done: the next one starts no earlier"""
    call: CollectiveCall | None = None
    under_way: bool = False
    """the network has its array"""
    finished: bool = False
    left: bool = False
    died: str = ""
    """the reason why it takes no part any more although it did not leave; empty otherwise"""
    contributors: tuple[int, ...] = ()
    """of its last collective"""
    summed: tuple[tuple[int, int], ...] = ()
    """the same: how many contributions each stretch of its result has"""
    iteration: int = 0
    figures: list[Figure] = field(default_factory=list)
    spans: list[TimeSpan] = field(default_factory=list)
    computed: list[TimeSpan] = field(default_factory=list)
    told: ParticipantTrace = field(default_factory=ParticipantTrace)

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

    def collective(self, asked: Asked) -> int:
        """Post the call and wait."""
        return self._rendezvous.post(self.rank, asked)

    @property
    def contributors(self) -> tuple[int, ...]:
        """Members whose arrays are in the result of its last collective."""
        return self._rendezvous.contributors(self.rank)

    @property
    def summed(self) -> tuple[tuple[int, int], ...]:
        """The result of its last collective as stretches of (elements, contributions)."""
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

    def reach(self, time_ps: int, move: int = -1) -> None:
        """Virtual time is at least this."""
        self.waited(Wait(self.now_ps(), time_ps, move))
        self._rendezvous.clock(self.rank).reach(time_ps)

    def waited(self, wait: Wait) -> None:
        """Note a wait; the clock stays."""
        self._rendezvous.told(self.rank).waits.append(wait)

    def tallied(self, rows: Sequence[Tallied]) -> None:
        """Note what was called in all."""
        self._rendezvous.told(self.rank).tallied.extend(rows)

    def messenger(self) -> "Seat":
        """Itself: it does not wait."""
        return self

    def move(self, move: Move) -> int:
        """Note a part of what another library moves."""
        return self._rendezvous.move(self.rank, move)

    def moved_ps(self, number: int) -> int:
        """When it was moved, or -1."""
        return self._rendezvous.moved_ps(self.rank, number)

    def computed(self, start_ps: int, end_ps: int) -> None:
        """Note computation for the timeline; the clock stays."""
        self._rendezvous.computed(self.rank, start_ps, end_ps)

    def group(self, ranks: tuple[int, ...], serial: int) -> "Seat":
        """Its end of the group of ``ranks``, in that order."""
        if self._rendezvous.subgroup is None:
            raise ClusterError("groups are made of the ranks of the whole run, not of another group")
        return self._rendezvous.subgroup(self.rank, ranks, serial)

    def lost(self) -> None:
        """Its process is gone without having left: tell the other participants."""
        self._rendezvous.lose(self.rank)

    def record(self, name: str, value: float, at_ps: int | None = None) -> None:
        """Keep a figure."""
        self._rendezvous.record(self.rank, name, value, at_ps)

    def close(self) -> None:
        """Leave."""
        self._rendezvous.leave(self.rank)


Carry = Callable[[list[CollectiveCall], Callable[[], None]], Sequence[MembershipDecision] | None]
"""``carry(calls, check)`` carries one collective out: fills ``done_ps`` of every call, or ``error`` of one that fails
alone; raises ``CollectiveError``, after which the group goes on if it is one of ``GOES_ON``. It calls ``check`` now and
then, which raises once the group has ended: the result is not needed any more. Returns what was decided of the
group's members meanwhile."""
Joined = Callable[[tuple[int, ...], int, tuple[int, ...]], None]
"""Called with the ranks that joined, the group's view and its members; under a lock, so it must not block."""
Death = Callable[[int, int, str], None]
"""Called for a participant that died, with its rank, its clock (ps) and the reason."""
CarryStale = Callable[[list[CollectiveCall], Callable[[], None]], list[CollectiveCall]]
"""As ``Carry``, for workers that do not wait for each other: takes the calls of all present, those that it has already
too, carries on until at least one of them is done, and returns those that are."""


class Group(Protocol):
    """A group, as the process that starts its participants sees it."""

    def backend(self, rank: int) -> Served:
        """The backend of participant ``rank``; ``ValueError`` for a rank that is not in the group."""

    def waiting(self) -> str:
        """Who waits for whom, as one line; empty when no participant waits."""

    def fail(self, error: ClusterError) -> None:
        """End the group: everyone who waits, or calls later, gets ``error``."""

    @property
    def failure(self) -> ClusterError | None:
        """The error that the group has ended with, or None."""

    def die(self, rank: int, reason: str) -> bool:
        """A participant's process has ended without leaving; False where the others cannot go on without it."""


Subgroup = Callable[[int, tuple[int, ...], int], Seat]
"""The seat of a rank in a group of some of the ranks: (rank, ranks, which of the groups of these ranks)."""
