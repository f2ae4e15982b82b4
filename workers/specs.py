"""What an endpoint is made from, as plain values: virtual time adds them to its hosts, real time tells processes.

``WorkerSpec`` and ``ServerSpec`` are of jobs in the network, the others of the baselines without aggregation.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final, Literal

from p4reduce.workers.numbers import BlockFloat, FixedScale
from p4reduce.workers.settings import FIXED, Congestion, HostAddress, Timing

MAX_RING_WINDOW: Final = 32768
"""a gap report has 16 bits for its count"""
CLOSED: Final = 8
"""windows in the slots of a job with a deadline: room for whoever is late (docs/protocol.md)"""


@dataclass(frozen=True)
class _Spec:
    """What all endpoints have: their own address, whose chunks theirs are, from which seq on, and their class.

    priority: 0..7; a host asks its endpoints of the highest class first for frames, those of one class in turn.
    """

    link: HostAddress
    _: KW_ONLY
    job: int
    epoch: int
    lanes: int
    first_seq: int = 0
    priority: int = 0


@dataclass(frozen=True)
class _InNetwork(_Spec):
    """What all endpoints of an in-network job have alike.

    slots: P, the job's slots in each switch, a power of two. members: workers of the job. lead: how many chunks ahead
    exponents are agreed on with block floating point, 1..P/2 (default P/2).
    """

    parent: HostAddress
    """the first aggregating switch, for a server the root: its own address, by way of the next hop (its MAC)"""
    _: KW_ONLY
    slots: int
    members: int
    numbers: BlockFloat | FixedScale
    lead: int | None = None

    def __post_init__(self) -> None:
        if self.slots < 2 or self.slots & (self.slots - 1):
            raise ValueError(f"slots: {self.slots}, must be a power of two, at least 2")


@dataclass(frozen=True)
class WorkerSpec(_InNetwork):
    """A worker of an in-network job.

    deadline_ps: how long after a chunk was opened its tree closes it without the missing (None: never); with one its
    window is P/8. levels: of switches that aggregate; each has its share of the deadline, so it asks after each.
    window: chunks on their way at once, 1 to ``most`` (the default), which is that window, else P/2. repeats: it asks
    by sending its contribution again, where a switch cannot make a packet longer by its lanes. guesses: first chunks of
    an all-reduce whose exponents may be guessed, as many as a round trip needs; 0: none.
    """

    _: KW_ONLY
    window: int | None = None
    deadline_ps: int | None = None
    levels: int = 1
    repeats: bool = False
    guesses: int = 0
    timing: Timing = Timing()  # noqa: RUF009  (immutable)
    congestion: Congestion = FIXED
    kind: Literal["worker"] = "worker"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.deadline_ps is not None and not 1 <= self.levels <= self.deadline_ps:
            raise ValueError(f"deadline_ps: {self.deadline_ps} for {self.levels} levels of switches, one at least")
        if self.closes and self.slots < CLOSED:
            raise ValueError(f"slots: {self.slots}, but a job with a deadline needs {CLOSED} at least")

    @property
    def closes(self) -> bool:
        """Whether its chunks may be closed without some."""
        return self.deadline_ps is not None

    @property
    def most(self) -> int:
        """The window: how far before it the RESULT lies that a chunk waits for."""
        return self.slots // (CLOSED if self.closes else 2)


@dataclass(frozen=True)
class ServerSpec(_InNetwork):
    """The parameter server of an in-network job, parent of its root switch.

    repeats: it does not ask for chunks with lanes, since the workers send them again: as theirs.
    """

    _: KW_ONLY
    repeats: bool = False
    kind: Literal["server"] = "server"


@dataclass(frozen=True)
class PsWorkerSpec(_Spec):
    """A worker of the parameter-server baseline (float32, no aggregation).

    window: chunks on their way at once. What the workers' windows add up to should fit the queue before the server.
    reach: how far its chunks may lie apart, at most what the server remembers of each (default: the window).
    """

    server: HostAddress
    _: KW_ONLY
    window: int
    reach: int | None = None
    members: int
    timing: Timing = Timing()  # noqa: RUF009  (immutable)
    congestion: Congestion = FIXED
    kind: Literal["ps-worker"] = "ps-worker"


@dataclass(frozen=True)
class PsServerSpec(_Spec):
    """The server of the baseline: sums the members' chunks in the order of ``members``.

    window: the reach of the workers, at least. Needs 2 * window * len(members) chunks of memory (window rounded up to a
    power of two).
    """

    members: tuple[HostAddress, ...]
    _: KW_ONLY
    window: int
    kind: Literal["ps-server"] = "ps-server"


@dataclass(frozen=True)
class RingSpec(_Spec):
    """A worker of the ring baseline.

    rank: its place, 0..size-1. window: unacknowledged frames; must exceed ``ack_every`` for the stream to flow.
    ack_every: frames for each acknowledgement.
    """

    next: HostAddress
    previous: HostAddress
    _: KW_ONLY
    rank: int
    size: int
    window: int
    ack_every: int = 16
    timing: Timing = Timing()  # noqa: RUF009  (immutable)
    congestion: Congestion = FIXED
    kind: Literal["ring"] = "ring"

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.size:
            raise ValueError(f"rank: {self.rank}, must be 0..{self.size - 1}")
        if self.window > MAX_RING_WINDOW:
            raise ValueError(f"window: {self.window}, must be at most {MAX_RING_WINDOW}")
        if not 1 <= self.ack_every < max(self.window, 2):
            raise ValueError(f"ack_every: {self.ack_every}, must be 1..window-1 ({self.window - 1})")


@dataclass(frozen=True)
class AllToAllSpec(_Spec):
    """A worker of an all-to-all.

    others: the other workers, the next rank first; empty for one that is alone. rank: its place, 0..len(others).
    window: unacknowledged frames of each stream. ack_every: frames of a stream for each acknowledgement.
    """

    others: tuple[HostAddress, ...]
    _: KW_ONLY
    rank: int
    window: int
    ack_every: int = 16
    timing: Timing = Timing()  # noqa: RUF009  (immutable)
    congestion: Congestion = FIXED
    kind: Literal["all-to-all"] = "all-to-all"

    def __post_init__(self) -> None:
        if not 0 <= self.rank <= len(self.others):
            raise ValueError(f"rank: {self.rank}, must be 0..{len(self.others)}")
        if len({other.key for other in (self.link, *self.others)}) <= len(self.others):
            raise ValueError("others: two workers have the same IPv4 address and UDP port")
        if self.window > MAX_RING_WINDOW:
            raise ValueError(f"window: {self.window}, must be at most {MAX_RING_WINDOW}")
        if not 1 <= self.ack_every < max(self.window, 2):
            raise ValueError(f"ack_every: {self.ack_every}, must be 1..window-1 ({self.window - 1})")


EndpointSpec = WorkerSpec | ServerSpec | PsWorkerSpec | PsServerSpec | RingSpec | AllToAllSpec


def peers_of(spec: EndpointSpec) -> Sequence[HostAddress]:
    """Whom an endpoint talks to."""
    match spec:
        case WorkerSpec() | ServerSpec():
            return (spec.parent,)
        case PsWorkerSpec():
            return (spec.server,)
        case PsServerSpec():
            return spec.members
        case RingSpec():
            return (spec.next, spec.previous)
        case AllToAllSpec():
            return spec.others or (spec.link,)


def check_field(name: str, value: int, bits: int) -> None:
    """``ValueError`` for what does not fit a field of the header."""
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{name}: {value}, must be 0..{(1 << bits) - 1} ({bits} bits on the wire)")
