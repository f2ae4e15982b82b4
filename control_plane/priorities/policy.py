"""Priority policies: plug-ins that order the flows of jobs, or set the pace or the start of jobs."""

import math
import statistics
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from p4reduce.base.errors import PlanError
from p4reduce.base.registry import Registry
from p4reduce.topologies.model import Hop

# Predictions of the start and bytes of a job's next flow from switch counters, without the application's help.
#
# A training job computes for about the same time in every iteration, while the duration of its flow depends on other
# traffic. The predicted start is therefore the *end* of the last flow plus the median of the last computing times;
# starts alone are less precise. The predicted bytes are those of the last iteration.


MEMORY: Final = 5
"""number of latest flows whose computing times count"""
PATIENCE: Final = 2
"""silence after which an incomplete flow is over, as a multiple of the longest time from start to start"""


@dataclass(frozen=True)
class ObservedFlow:
    """A flow that has ended: time in ps when its first and last bytes were counted, and its bytes."""

    start_ps: int
    end_ps: int
    bytes: int


@dataclass(frozen=True)
class Forecast:
    """Prediction of a job's next flow and rhythm; times in ps."""

    start_ps: int
    bytes: int
    compute_ps: int
    communication_ps: int
    """the shortest of the last flows: about the time that it takes alone"""

    @property
    def period_ps(self) -> int:
        """Duration of an iteration alone, in ps."""
        return self.compute_ps + self.communication_ps


class Predictor:
    """Forecasts the next flow of one job from its past flows."""

    def __init__(self, memory: int = MEMORY) -> None:
        self._computes: deque[int] = deque(maxlen=memory)
        self._takes: deque[int] = deque(maxlen=memory)
        self._last: ObservedFlow | None = None

    def observe(self, flow: ObservedFlow) -> None:
        """Add a flow that has ended; a flow with the same start as the last one replaces it."""
        if self._last is not None and flow.start_ps == self._last.start_ps:
            self._takes.pop()
        elif self._last is not None:
            self._computes.append(max(0, flow.start_ps - self._last.end_ps))
        self._takes.append(flow.end_ps - flow.start_ps)
        self._last = flow

    @property
    def last(self) -> ObservedFlow | None:
        """The last flow that has ended."""
        return self._last

    def forecast(self) -> Forecast | None:
        """Return a forecast of the next flow; None before two flows have ended."""
        if self._last is None or not self._computes:
            return None
        compute = round(statistics.median(self._computes))
        return Forecast(self._last.end_ps + compute, self._last.bytes, compute, min(self._takes))


class FlowDetector:
    """Detects the flows of one job from readings of its counter, which only grows.

    A flow begins with the first reading above the previous one. It ends when it has as many bytes as the previous flow
    (an iteration's first transmissions are always the same), or after ``quiet_ps`` without bytes. A flow that lacks
    bytes ends only after `PATIENCE` times the longest time between the starts of two flows (at least ``quiet_ps``), so
    that a job that waits for others in the middle of an iteration does not seem to compute. If more bytes arrive within
    ``quiet_ps`` of an end, the flow goes on.

    Between two readings, bytes are assumed to arrive at the fastest rate seen: if an interval has fewer bytes, only its
    beginning (at the end of a flow) or its end (at the start of a flow) belongs to the flow.
    """

    def __init__(self, quiet_ps: int) -> None:
        self._quiet_ps = quiet_ps
        self._time, self._total = 0, 0
        self._known = False
        self._rate = 0.0  # bytes a picosecond
        self._began: tuple[int, int] | None = None  # the present flow: its start, and the reading before it
        self._seen = 0  # estimated time of the last bytes
        self._ended: ObservedFlow | None = None
        self._apart = 0  # the longest time from start to start
        self._size: int | None = None

    @property
    def active(self) -> bool:
        """Whether a flow is in progress."""
        return self._began is not None

    @property
    def attained(self) -> int:
        """Bytes of the flow in progress; 0 if there is none."""
        return 0 if self._began is None else self._total - self._began[1]

    def read(self, now_ps: int, total: int, *, waiting: bool = False) -> ObservedFlow | None:
        """Process a reading; return the flow that it shows to have ended, or None.

        ``waiting``: contributions have arrived and are unanswered, so the job is in the middle of a flow even if
        nothing is counted.
        """
        if not self._known:
            self._known, self._time, self._total = True, now_ps, total
            return None
        grew, interval, before = total - self._total, now_ps - self._time, self._total
        self._time, self._total = now_ps, total
        if grew > 0 and interval > 0:
            self._grow(now_ps, before, grew, interval)
            return self._end() if self.attained == self._size and not waiting else None
        lacking = self._size is not None and self.attained < self._size
        patience = max(self._quiet_ps, PATIENCE * self._apart) if lacking else self._quiet_ps
        if self.active and not waiting and now_ps - self._seen >= patience:
            return self._end()
        return None

    def _grow(self, now_ps: int, before: int, grew: int, interval: int) -> None:
        self._rate = max(self._rate, grew / interval)
        busy = min(interval, round(grew / self._rate))
        if self._began is not None:
            self._seen = now_ps - interval + busy
            return
        start = now_ps - busy
        self._seen = now_ps
        if self._ended is not None and start - self._ended.end_ps < self._quiet_ps:
            self._began = (self._ended.start_ps, before - self._ended.bytes)
            self._size = None
        else:
            self._apart = max(self._apart, 0 if self._ended is None else start - self._ended.start_ps)
            self._began = (start, before)

    def _end(self) -> ObservedFlow:
        assert self._began is not None  # noqa: S101
        flow = ObservedFlow(self._began[0], max(self._seen, self._began[0]), self.attained)
        self._size, self._began, self._ended = flow.bytes, None, flow
        return flow


# The input of a priority policy: the jobs, and the flows of each, which may have separate classes.


MOST_LAGS = 4
"""number of different lags: 0..3, where 3 also stands for all older batches (as many as the program's bits allow)"""


class LaneDirection(Enum):
    """Direction of lanes."""

    PULL = "pull"
    """from the server, or the root of a tree, to the workers"""
    PUSH = "push"
    """from the workers"""


@dataclass(frozen=True)
class Flow:
    """Frames of one job, direction and batch. ``lag``: iterations behind the newest batch of the job, at most 3."""

    job: str
    kind: LaneDirection
    lag: int = 0


@dataclass(frozen=True)
class JobFacts:
    """Facts about one job now: known, predicted or from an oracle. None: unknown.

    Attributes
    ----------
    name : str
        Unique among the jobs; breaks ties, so that no result depends on the order in which jobs are given.
    links : frozenset of Hop
        Directed links that its frames use.
    period_ps, compute_ps, communication_ps : int or None
        Duration of an iteration alone, and its two parts, picoseconds.
    bytes : int or None
        Bytes of an iteration on its busiest link.
    sent : float
        Share of the running iteration's bytes that it has sent, 0..1; 0 while it computes.
    attained : int
        Bytes of the running iteration that it has sent: known without any prediction.
    next_ps : int or None
        Time until its next flow begins, picoseconds from now; negative: it has begun.
    deadline_ps : int or None
        Time until the running iteration is due, picoseconds from now.
    newest, oldest : int
        Iteration numbers of its newest and its oldest batch in flight; the same for a synchronous job.
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
        for member in ("period_ps", "compute_ps", "communication_ps", "bytes"):
            value = getattr(self, member)
            if value is not None and value < 0:
                raise PlanError(f"job {self.name!r}: {member}: {value}, must be at least 0, or None if it is not known")
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
        return tuple(
            Flow(self.name, kind, lag)
            for lag in reversed(self.lags)
            for kind in (LaneDirection.PULL, LaneDirection.PUSH)
        )


@dataclass(frozen=True)
class Situation:
    """The jobs of a network at one moment, sorted by name; ``seed`` for random policies.

    Raises
    ------
    PlanError
        When two jobs have the same name.
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


# The possible answers of a priority policy.


@dataclass(frozen=True)
class Order:
    """Groups of flows, the most urgent first; flows of one group tie. `cut` divides the groups among queues."""

    groups: tuple[tuple[Flow, ...], ...]

    def rotated(self, turn: int) -> "Order":
        """Return the order with ``turn`` groups moved from the front to the back, so that no group is always last."""
        place = turn % len(self.groups) if self.groups else 0
        return Order(self.groups[place:] + self.groups[:place])


@dataclass(frozen=True)
class Classes:
    """The class of every flow, 1..6, for policies that assign classes themselves."""

    by_flow: Mapping[Flow, int]


@dataclass(frozen=True)
class Paces:
    """Weights by which jobs share their common links: each sends at its share. All are in one class."""

    weights: Mapping[str, float]


@dataclass(frozen=True)
class Shifts:
    """One-time delay of each job's next flow in picoseconds. All are in one class."""

    by_job: Mapping[str, int]


Answer: TypeAlias = Order | Classes | Paces | Shifts


def tied(situation: Situation) -> Order:
    """Return an order in which all flows tie."""
    return Order((situation.flows,) if situation.flows else ())


def by_flow(situation: Situation, key: Callable[[JobFacts, Flow], Any]) -> Order:
    """Return an order of flows by a key, the smallest first; equal keys tie."""
    groups: dict[Any, list[Flow]] = {}
    for flow in situation.flows:
        groups.setdefault(key(situation.by_name[flow.job], flow), []).append(flow)
    return Order(tuple(tuple(groups[value]) for value in sorted(groups)))


def one_by_one(situation: Situation, key: Callable[[JobFacts], Any]) -> Order:
    """Return an order of jobs by a key, the smallest first, each with its flows as one group; equal keys by name.

    Jobs whose key is None (unknown) come last and tie.
    """
    keys = {job.name: key(job) for job in situation.jobs}
    known = sorted((job for job in situation.jobs if keys[job.name] is not None), key=lambda job: keys[job.name])
    unknown = [flow for job in situation.jobs if keys[job.name] is None for flow in job.flows]
    return Order((*(job.flows for job in known), *_some(unknown)))


def _some(flows: Iterable[Flow]) -> tuple[tuple[Flow, ...], ...]:
    group = tuple(flows)
    return (group,) if group else ()


class PriorityPolicy(Protocol):
    """Answers a situation with an `Order`, `Classes`, `Paces` or `Shifts`. Has no state between calls."""

    def __call__(self, situation: Situation, /) -> Answer:
        """Return the answer."""


PRIORITY_POLICIES: Registry[PriorityPolicy] = Registry("priority policy", PlanError)
"""Every known policy by name; :func:`register_priority_policy` and entry points of ``p4reduce.priority_policies``."""


@dataclass(frozen=True)
class Traits:
    """Properties of a policy. ``within``: its answer changes while flows are under way."""

    within: bool = False


_TRAITS: dict[str, Traits] = {}
_P = TypeVar("_P", bound=Callable[..., Answer])


def register_priority_policy(name: str, *, within: bool = False) -> Callable[[_P], _P]:
    """Return a decorator that registers a policy as ``name``; ``within``: call it also while flows are in progress."""

    def add(policy: _P) -> _P:
        PRIORITY_POLICIES.add(name, policy)
        _TRAITS[name] = Traits(within)
        return policy

    return add


def priority_policy_named(name: str) -> PriorityPolicy:
    """Return the policy with this name; `PlanError` lists the known names."""
    return PRIORITY_POLICIES.named(name)


def asked_within(name: str) -> bool:
    """Return whether a policy must be called while flows are in progress, and not only when a flow has ended."""
    return _TRAITS.get(name, Traits(within=True)).within


# Dividing an unlimited order among the few queues of a port.
#
# Queue 7 is for tiny frames (barriers, no lanes), queue 0 for plain IPv4 without a class, so jobs have 1..6. The order
# is cut where neighbours share fewest links: flows in one queue delay each other only where they meet (Crux,
# SIGCOMM'24, section 4.3).


JOB_CLASSES: Final = range(1, 7)


def cut(order: Order, situation: Situation, queues: int = len(JOB_CLASSES)) -> dict[Flow, int]:
    """Return the class of every flow: at most ``queues`` classes, from 6 downwards.

    The order is divided into runs so that the pairs of groups in the same queue share the fewest links; of such
    divisions, one with the most equal lengths of runs is taken. O(queues * groups**2).
    """
    count = min(len(order.groups), queues)
    if count == 0:
        return {}
    inside = _inside(_shared(order, situation))
    before = _best_cuts(inside, count)
    starts, end = [], len(order.groups)
    for number in range(count, 0, -1):
        start = int(before[number, end])
        starts.append(start)
        end = start
    bounds = [*reversed(starts), len(order.groups)]
    top = JOB_CLASSES[-1]
    return {
        flow: top - place
        for place in range(count)
        for group in order.groups[bounds[place] : bounds[place + 1]]
        for flow in group
    }


def _shared(order: Order, situation: Situation) -> NDArray[np.int64]:
    """Return the number of links that each two groups share, over all pairs of flows, int64 (groups, groups)."""
    names = {hop: place for place, hop in enumerate(sorted({hop for job in situation.jobs for hop in job.links}))}
    uses = np.zeros((len(order.groups), max(len(names), 1)), np.int64)
    for place, group in enumerate(order.groups):
        for flow in group:
            for hop in situation.by_name[flow.job].links:
                uses[place, names[hop]] += 1
    return np.asarray(uses @ uses.T, np.int64)


def _inside(shared: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the cost of runs of groups i .. j - 1: first the shared links of its pairs, then its squared length."""
    n = len(shared)
    weight = np.int64(n * n + 1)
    cost = np.zeros((n + 1, n + 1), np.int64)
    for i in range(n):
        # The cost that group j adds to the run from i on.
        added = np.array([int(shared[i:j, j].sum()) for j in range(i, n)], np.int64)
        lengths = np.arange(1, n - i + 1, dtype=np.int64) ** 2
        cost[i, i + 1 :] = np.cumsum(added) * weight + lengths
    return cost


def _best_cuts(inside: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the start of the last of q runs of the first j groups at least cost, int64 (count + 1, n + 1)."""
    n = len(inside) - 1
    never = np.iinfo(np.int64).max // 4
    best, before = np.full((count + 1, n + 1), never, np.int64), np.zeros((count + 1, n + 1), np.int64)
    best[0, 0] = 0
    for number in range(1, count + 1):
        for end in range(number, n + 1):
            totals = best[number - 1, :end] + inside[:end, end]
            before[number, end] = int(totals.argmin())
            best[number, end] = totals.min()
    return before


# Conversion of a policy's answer to settings: a class for every flow, paces, time shifts.


@dataclass(frozen=True)
class PriorityDecision:
    """The settings in force from now on, the same in all switches and hosts.

    Attributes
    ----------
    classes : mapping of Flow to int
        1..6 for every flow of every job, the highest first.
    weights : mapping of str to float
        Weights of jobs that send at their share of common links; empty: at the full rate.
    shifts : mapping of str to int
        Delay of a job's next flow in picoseconds; only jobs with a delay.
    """

    classes: Mapping[Flow, int]
    weights: Mapping[str, float] = field(default_factory=dict)
    shifts: Mapping[str, int] = field(default_factory=dict)

    def of_job(self, name: str) -> int:
        """Return the highest class of a job, which its endpoints use."""
        return max(value for flow, value in self.classes.items() if flow.job == name)


def decide(policy: str, situation: Situation, *, turn: int = 0, queues: int = len(JOB_CLASSES)) -> PriorityDecision:
    """Call a policy, and check its answer.

    Parameters
    ----------
    policy : str
        Name of a registered policy.
    situation : Situation
        The jobs at present.
    turn : int
        Number of places by which an order is rotated against starvation.
    queues : int
        1..6 queues for jobs.

    Raises
    ------
    PlanError
        Names the policy, the job and the fault: a flow without a class or with one outside 1..6, a pace
        that is no positive number, a shift below 0, an answer about unknown jobs.
    """
    if not 1 <= queues <= len(JOB_CLASSES):
        raise PlanError(f"queues: {queues}, must be 1..{len(JOB_CLASSES)}: 7 is for tiny frames, 0 for plain IPv4")
    return _checked(policy, situation, priority_policy_named(policy)(situation), turn, queues)


def _checked(name: str, situation: Situation, answer: Answer, turn: int, queues: int) -> PriorityDecision:
    match answer:
        case Order():
            _check_flows(name, situation, [flow for group in answer.groups for flow in group])
            if not all(answer.groups):
                raise PlanError(f"priority policy {name!r}: a group of its order is empty; leave it out")
            return PriorityDecision(cut(answer.rotated(turn), situation, queues))
        case Classes():
            _check_flows(name, situation, list(answer.by_flow))
            for flow, value in answer.by_flow.items():
                if isinstance(value, bool) or not isinstance(value, int) or value not in JOB_CLASSES:
                    raise PlanError(
                        f"priority policy {name!r}: class {value} for {flow.kind.value} of job {flow.job!r}, lag "
                        f"{flow.lag}: jobs have 1..6 (7: tiny frames, 0: plain IPv4); return one of these, or an Order"
                    )
            return PriorityDecision(dict(answer.by_flow))
        case Paces():
            _check_jobs(name, situation, answer.weights)
            for job, weight in answer.weights.items():
                if not (math.isfinite(weight) and weight > 0):
                    raise PlanError(f"priority policy {name!r}: weight {weight} of job {job!r}: must be above 0")
            return PriorityDecision(cut(tied(situation), situation), weights=dict(answer.weights))
        case Shifts():
            _check_jobs(name, situation, answer.by_job)
            for job, shift in answer.by_job.items():
                if shift < 0:
                    raise PlanError(
                        f"priority policy {name!r}: shift {shift} ps of job {job!r}: a flow can only be put off; "
                        "return at least 0"
                    )
            shifts = {job: shift for job, shift in answer.by_job.items() if shift}
            return PriorityDecision(cut(tied(situation), situation), shifts=shifts)
    raise PlanError(
        f"priority policy {name!r} returned a {type(answer).__name__}; return an Order, Classes, Paces or Shifts"
    )


def _check_flows(name: str, situation: Situation, flows: list[Flow]) -> None:
    wanted, answered = set(situation.flows), set(flows)
    for flow in situation.flows:
        if flow not in answered:
            raise PlanError(
                f"priority policy {name!r} says nothing of {flow.kind.value} of job {flow.job!r}, lag {flow.lag}; "
                "answer for all flows of the situation"
            )
    for flow in flows:
        if flow not in wanted:
            raise PlanError(
                f"priority policy {name!r} names {flow.kind.value} of job {flow.job!r}, lag {flow.lag}, which is not "
                "in the situation"
            )
    if len(flows) != len(answered):
        twice = next(flow for flow in flows if flows.count(flow) > 1)
        raise PlanError(
            f"priority policy {name!r} puts {twice.kind.value} of job {twice.job!r}, lag {twice.lag}, in two places"
        )


def _check_jobs(name: str, situation: Situation, jobs: Mapping[str, object]) -> None:
    for job in jobs:
        if job not in situation.by_name:
            raise PlanError(f"priority policy {name!r} names job {job!r}, which is not in the situation")


# Fairness between jobs.


def slowdowns(took: Mapping[str, float], alone: Mapping[str, float]) -> dict[str, float]:
    """Return each job's time over its time alone, at least about 1. Raises `PlanError` if a time alone is unknown."""
    for name in took:
        if alone.get(name, 0) <= 0:
            raise PlanError(f"job {name!r}: its time alone is not known")
    return {name: time / alone[name] for name, time in took.items()}


def jain(values: Sequence[float]) -> float:
    """Return Jain's index (sum x)^2 / (n * sum x^2), 1/n .. 1; 1 without values (Jain, Chiu, Hawe 1984, DEC-TR-301)."""
    largest = max(values, default=0.0)
    if largest <= 0:
        return 1.0
    scaled = [value / largest for value in values]  # squares of very large or small values stay finite
    return sum(scaled) ** 2 / (len(scaled) * sum(value * value for value in scaled))
