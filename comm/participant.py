"""What a group keeps of each of its participants: its clock, its call, what it did and recorded."""

from dataclasses import dataclass, field

from p4reduce.comm.calls import Call
from p4reduce.comm.clock import Clock

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
