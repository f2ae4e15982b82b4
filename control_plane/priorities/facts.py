"""What a priority policy is told: the jobs, and the flows of each that may have a class of their own."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from itertools import pairwise

from p4reduce.control_plane.errors import PlanError
from p4reduce.topologies.model import Hop

MOST_LAGS = 4
"""lags 0..3 are told apart; 3 stands for all that are older (the program looks at so many bits)"""


class Kind(Enum):
    """Which way lanes go."""

    PULL = "pull"
    """from the server, or the root of a tree, to the workers"""
    PUSH = "push"
    """from the workers"""


@dataclass(frozen=True)
class Flow:
    """Frames of one job, way and batch. ``lag``: iterations behind the newest batch of the job, at most 3."""

    job: str
    kind: Kind
    lag: int = 0


@dataclass(frozen=True)
class JobFacts:
    """What is known, predicted, or told by an oracle, of one job now. None: nobody knows.

    Attributes
    ----------
    name : str
        Unique among the jobs; breaks ties, so that no result depends on the order in which jobs are given.
    links : frozenset of Hop
        Directed links that its frames use.
    period_ps, compute_ps, communication_ps : int or None
        An iteration alone, and its two parts, picoseconds.
    bytes : int or None
        That an iteration puts on its busiest link.
    sent : float
        Share of the running iteration's bytes that it has sent, 0..1; 0 while it computes.
    attained : int
        Bytes of the running iteration that it has sent: known without any prediction.
    next_ps : int or None
        Until its next flow begins, picoseconds from now; negative: it has begun.
    deadline_ps : int or None
        Until the running iteration is due, picoseconds from now.
    newest, oldest : int
        Iterations of its newest and its oldest batch in flight; the same for a synchronous job.
    """

    name: str
    links: frozenset[Hop] = frozenset()
    period_ps: int | None = None
    compute_ps: int | None = None
    communication_ps: int | None = None
    bytes: int | None = None
    sent: float = 0.0
    attained: int = 0
    next_ps: int | None = None
    deadline_ps: int | None = None
    newest: int = 0
    oldest: int = 0

    def __post_init__(self) -> None:
        for field in ("period_ps", "compute_ps", "communication_ps", "bytes"):
            value = getattr(self, field)
            if value is not None and value < 0:
                raise PlanError(f"job {self.name!r}: {field}: {value}, must be at least 0, or None if it is not known")
        if not 0 <= self.sent <= 1:
            raise PlanError(f"job {self.name!r}: sent: {self.sent}, must be a share, 0..1")
        if not 0 <= self.oldest <= self.newest:
            raise PlanError(
                f"job {self.name!r}: oldest: {self.oldest}, newest: {self.newest}; needed: 0 <= oldest <= newest"
            )

    @property
    def lags(self) -> range:
        """Lags that its frames may have now."""
        return range(min(self.newest - self.oldest, MOST_LAGS - 1) + 1)

    @property
    def flows(self) -> tuple[Flow, ...]:
        """All its flows, pull before push, older batches first."""
        return tuple(Flow(self.name, kind, lag) for lag in reversed(self.lags) for kind in (Kind.PULL, Kind.PUSH))


@dataclass(frozen=True)
class Situation:
    """The jobs of a network at one moment; ``seed`` for policies that draw. Jobs are put in the order of their names.

    Raises
    ------
    PlanError
        When two jobs have one name.
    """

    jobs: tuple[JobFacts, ...]
    seed: int = 0

    def __init__(self, jobs: Iterable[JobFacts], seed: int = 0) -> None:
        ordered = tuple(sorted(jobs, key=lambda job: job.name))
        for before, after in pairwise(ordered):
            if before.name == after.name:
                raise PlanError(f"two jobs are called {after.name!r}; give each its own name")
        object.__setattr__(self, "jobs", ordered)
        object.__setattr__(self, "seed", seed)

    @cached_property
    def by_name(self) -> dict[str, JobFacts]:
        """The jobs by name."""
        return {job.name: job for job in self.jobs}

    @cached_property
    def flows(self) -> tuple[Flow, ...]:
        """All flows of all jobs."""
        return tuple(flow for job in self.jobs for flow in job.flows)
