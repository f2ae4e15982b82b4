"""Specifications of endpoints, as plain values: virtual time adds them to hosts, real time sends them to processes.

``WorkerSpec`` and ``ServerSpec`` are for jobs in the network, the others for the baselines without aggregation.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, Literal

from p4reduce.workers.numbers import BlockFloat, FixedScale
from p4reduce.workers.wire import INC, INC_UDP_PORT
from p4switch.base.values import PS_PER_MS, PS_PER_US

# Parts of specifications: addresses, the timing of retransmission, congestion control.


TOKEN_BITS: Final = INC["token"].bits
MAX_BRAKE: Final = 1000
"""largest ``brake``, with which its product with round trips of minutes fits 64 bits"""


@dataclass(frozen=True)
class HostAddress:
    """An address that a frame goes to or comes from: MAC (48 bits), IPv4 address and UDP port, as integers.

    For a peer behind routers ``mac`` is that of the next hop; ``ip`` and ``udp`` are the peer's own.
    ``token`` (24 bits) authenticates peer and endpoint to each other (docs/protocol.md, Tokens); 0: none. Not printed.
    """

    mac: int
    ip: int
    udp: int = INC_UDP_PORT
    token: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        for name, value, bits in (("mac", self.mac, 48), ("ip", self.ip, 32), ("udp", self.udp, 16)):
            if not 0 <= value < 1 << bits:
                raise ValueError(f"{name}: {value:#x} does not fit {bits} bits")
        if not 0 <= self.token < 1 << TOKEN_BITS:
            raise ValueError(f"token: does not fit {TOKEN_BITS} bits")

    @property
    def key(self) -> int:
        """Key by which a sender is looked up: ip << 16 | udp."""
        return self.ip << 16 | self.udp

    def __str__(self) -> str:
        return ".".join(str(self.ip >> shift & 255) for shift in (24, 16, 8, 0)) + f":{self.udp}"


@dataclass(frozen=True)
class Timing:
    """When a sender resends, and when it gives up. Times in picoseconds.

    initial_ps: time-out before the first round trip was measured. min_ps, max_ps: its bounds afterwards (RFC 6298).
    retries: successive time-outs without an answer before the endpoint fails.
    reorder: how many later transmissions must be answered before a chunk counts as lost; it doubles,
    up to half the window, each time that this turns out to be wrong. None: only time-outs show losses, since chunks may
    overtake each other when their class changes in flight.
    question_ps: least time between two questions of a worker that are repeated or due to time, of all chunks; 0: none.
    """

    initial_ps: int = PS_PER_MS
    min_ps: int = 50 * PS_PER_US
    max_ps: int = 100 * PS_PER_MS
    retries: int = 24
    reorder: int | None = 8
    question_ps: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.min_ps <= self.max_ps or not 0 < self.initial_ps <= self.max_ps:
            raise ValueError(
                f"time-outs: initial {self.initial_ps}, min {self.min_ps}, max {self.max_ps} ps; "
                "needed: 0 < min <= max and 0 < initial <= max"
            )
        if self.question_ps < 0:
            raise ValueError(f"question_ps: {self.question_ps}, must be >= 0")
        if self.retries < 0 or (self.reorder is not None and self.reorder < 1):
            raise ValueError(f"retries: {self.retries}, must be >= 0; reorder: {self.reorder}, must be >= 1")


@dataclass(frozen=True)
class Congestion:
    """How many chunks a sender has in flight, within the window of its plan; docs/protocol.md has the rules.

    adaptive: False: as many as the window allows. True: additive increase, multiplicative decrease.
    initial, minimum: chunks that are allowed at the start, and always.
    decrease: share of the congestion window that is left after a loss or a congestion mark.
    pace_ps: least time between two new chunks that carry lanes or ask for them (`kernels/sender.py`); 0: none.
    brake, brake_ps: the window does not grow while a round trip takes more than ``brake`` times the shortest one, plus
    ``brake_ps`` picoseconds (if hosts share processors, round trips include the wait for a processor).
    """

    adaptive: bool = False
    initial: int = 4
    minimum: int = 2
    decrease: float = 0.5
    brake: float = 2.0
    brake_ps: int = 0
    pace_ps: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.minimum <= self.initial:
            raise ValueError(
                f"initial: {self.initial}, minimum: {self.minimum} chunks; needed: 1 <= minimum <= initial"
            )
        if not 0 < self.decrease < 1:
            raise ValueError(f"decrease: {self.decrease}, must be between 0 and 1")
        if self.pace_ps < 0:
            raise ValueError(f"pace_ps: {self.pace_ps}, must be >= 0")
        if not 1 <= self.brake <= MAX_BRAKE or self.brake_ps < 0:
            raise ValueError(f"brake: {self.brake}, must be 1..{MAX_BRAKE}; brake_ps: {self.brake_ps}, must be >= 0")


FIXED: Final = Congestion()
"""No congestion control: the whole window may always be in flight."""


MAX_RING_WINDOW: Final = 32768
"""largest window of a ring: a gap report has 16 bits for its count"""
MOST_CHILDREN: Final = 31
"""most children of a worker that adds up: it is also its own child, and the mask of missing children has 32 bits"""
CLOSED: Final = 8
"""number of windows in the slots of a job with a deadline, with room for late workers (docs/protocol.md)"""


@dataclass(frozen=True)
class _Spec:
    """Fields of all specifications: the endpoint's address, its job and epoch, its first seq, and its class.

    priority: class 0..7; a host asks endpoints of the highest class first for frames, those of one class in turn.
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
    """Fields that all endpoints of an in-network job share.

    slots: P, the job's slots in each switch, a power of two. members: workers of the job. lead: how many chunks ahead
    exponents are agreed on with block floating point, 1..P/2 (default P/2). terms: most numbers in a sum
    (default: one of each member; one more if the server contributes).
    """

    parent: HostAddress
    """the first aggregating switch (for a server, the root): its IP address, with the MAC address of the next hop"""
    _: KW_ONLY
    slots: int
    members: int
    numbers: BlockFloat | FixedScale
    lead: int | None = None
    terms: int | None = None

    def __post_init__(self) -> None:
        if self.slots < 2 or self.slots & (self.slots - 1):
            raise ValueError(f"slots: {self.slots}, must be a power of two, at least 2")


@dataclass(frozen=True)
class WorkerSpec(_InNetwork):
    """A worker of an in-network job.

    deadline_ps: time after which a tree closes an open chunk without the missing contributions (None: never). levels:
    levels of aggregating switches; each has an equal share of the deadline, and the worker asks after each share.
    window: chunks in flight, 1 to ``most`` (the default), which is P/8 with a deadline, else P/2. repeats: the worker
    asks by sending its contribution again, for switches that cannot lengthen a packet by its lanes. guesses: first
    chunks of an all-reduce whose exponents may be guessed, as many as a round trip needs; 0: none. children: workers
    whose contributions it adds to its own, at most :data:`MOST_CHILDREN`; it is then a relay, and its own parent if it
    is the root.
    """

    _: KW_ONLY
    children: tuple[HostAddress, ...] = ()
    window: int | None = None
    deadline_ps: int | None = None
    levels: int = 1
    repeats: bool = False
    guesses: int = 0
    timing: Timing = Timing()
    congestion: Congestion = FIXED
    kind: Literal["worker"] = "worker"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.deadline_ps is not None and not 1 <= self.levels <= self.deadline_ps:
            raise ValueError(f"deadline_ps: {self.deadline_ps} for {self.levels} levels of switches, one at least")
        if self.closes and self.slots < CLOSED:
            raise ValueError(f"slots: {self.slots}, but a job with a deadline needs {CLOSED} at least")
        if len(self.children) > MOST_CHILDREN:
            raise ValueError(f"children: {len(self.children)}, a worker that adds up has at most {MOST_CHILDREN}")
        if self.children and (self.closes or self.repeats):
            raise ValueError(f"children: none with {'deadline_ps' if self.closes else 'repeats'}; only switches add up")
        if self.parent.key == self.link.key and not self.children:
            raise ValueError("parent: is the worker itself, which only a root with children is")

    @property
    def closes(self) -> bool:
        """Whether its chunks may be closed without some contributions."""
        return self.deadline_ps is not None

    @property
    def most(self) -> int:
        """The largest window: a chunk waits for the RESULT that lies this many chunks before it."""
        return self.slots // (CLOSED if self.closes else 2)


@dataclass(frozen=True)
class ServerSpec(_InNetwork):
    """The parameter server of an in-network job, parent of its root switch.

    repeats: as of the workers; the server then does not ask for chunks with lanes, since the workers send them again.
    """

    _: KW_ONLY
    repeats: bool = False
    kind: Literal["server"] = "server"


@dataclass(frozen=True)
class PsWorkerSpec(_Spec):
    """A worker of the parameter-server baseline (float32, no aggregation).

    window: chunks in flight. The sum of the workers' windows should fit the queue in front of the server.
    reach: largest distance of its open chunks, at most what the server remembers of each worker (default: the window).
    """

    server: HostAddress
    _: KW_ONLY
    window: int
    reach: int | None = None
    members: int
    timing: Timing = Timing()
    congestion: Congestion = FIXED
    kind: Literal["ps-worker"] = "ps-worker"


@dataclass(frozen=True)
class PsServerSpec(_Spec):
    """The server of the baseline: sums the members' chunks in the order of ``members``.

    window: at least the ``reach`` of the workers. The server needs 2 * window * len(members) chunks of memory
    (window rounded up to a power of two).
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
    timing: Timing = Timing()
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

    others: the other workers, the next rank first; empty if there are none. rank: its place, 0..len(others).
    window: unacknowledged frames of each stream. ack_every: frames of a stream for each acknowledgement.
    """

    others: tuple[HostAddress, ...]
    _: KW_ONLY
    rank: int
    window: int
    ack_every: int = 16
    timing: Timing = Timing()
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
    """The peers that an endpoint talks to."""
    match spec:
        case WorkerSpec():
            return (spec.parent, *spec.children)
        case ServerSpec():
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
    """Raise ``ValueError`` if a value does not fit a field of ``bits`` bits."""
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{name}: {value}, must be 0..{(1 << bits) - 1} ({bits} bits on the wire)")
