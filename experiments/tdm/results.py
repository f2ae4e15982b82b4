"""What came of a schedule on packets."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from p4reduce.base.units import PS_PER_S

What = Literal["train", "communicate", "dark"]


@dataclass(frozen=True)
class Span:
    """What a job did from when to when, or (job '') the cross-connect; picoseconds."""

    job: str
    what: What
    start_ps: int
    end_ps: int


@dataclass(frozen=True)
class Window:
    """One process of one round: from its beginning to the next one's, and how long it communicated; picoseconds."""

    process: int
    start_ps: int
    end_ps: int
    communicated_ps: int
    """from the first light of its circuits until the last result"""
    frames: int
    """first transmissions on all links"""
    differing: tuple[str, ...]
    """links whose first transmissions are not those predicted"""


@dataclass
class Played:
    """A schedule that was played.

    rounds_ps: how long each round took, whole rounds only. iterations_ps: of each job, from one end of communication to
    the next. dark_lost, misrouted, resends: frames. exact: every sum and block was right, everywhere. guard_s: of
    slots; least_guard_s: what the longest path and the queues may need.
    """

    policy: str
    predicted_round_s: float
    rounds_ps: list[int] = field(default_factory=list)
    iterations_ps: dict[str, list[int]] = field(default_factory=dict)
    windows: list[Window] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    dark_lost: int = 0
    misrouted: int = 0
    lost: int = 0
    resends: int = 0
    reconfigurations: int = 0
    exact: bool = True
    differing: list[str] = field(default_factory=list)
    lasted_ps: int = 0
    guard_s: float = 0.0
    least_guard_s: float = 0.0

    @property
    def round_s(self) -> float:
        """The mean round, seconds; of what has no rounds the mean iteration of all jobs."""
        every = self.rounds_ps or [one for own in self.iterations_ps.values() for one in own]
        return sum(every) / max(1, len(every)) / PS_PER_S

    @property
    def ratio(self) -> float:
        """Measured round over the predicted one."""
        return self.round_s / self.predicted_round_s if self.predicted_round_s else float("nan")

    def iteration_s(self, job: str) -> float:
        """The mean iteration of a job, seconds."""
        own = self.iterations_ps[job]
        return sum(own) / max(1, len(own)) / PS_PER_S

    def as_data(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        found = asdict(self)
        return {"round_s": self.round_s, "ratio": self.ratio, **found}
