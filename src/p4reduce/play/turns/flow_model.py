"""Play a schedule at flow level: max-min shares of NICs and circuits, shared GPUs, dark times.

The turns are the same as on packets (`acts`). Each tree of a phase of a job is one flow, and so are all its blocks
together. A flow uses every NIC and every circuit that it crosses at the same rate, separately in each direction. Rates
are max-min fair (progressive filling), classes one after the other. Blocks have the pace that hosts have on packets,
before other flows of their class. Bytes are multiplied by a factor, and the time after the last byte is increased by a
lead, both measured on packets with jobs that are alone (`factors_of`).
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import ceil
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from p4reduce.control_plane.counters import Operation
from p4reduce.control_plane.tdm.jobs import OpticalNetwork, TdmError, TdmJob
from p4reduce.control_plane.tdm.schedule import (
    Configuration,
    Cycle,
    JobPlan,
    Matrix,
    PodRoute,
    PodTree,
    RoundProcess,
    Schedule,
)
from p4reduce.play.turns.acts import ITSELF, Acts, PlayedSchedule
from p4reduce.play.turns.installing import PHASES, WORD, busiest, cut_chunks, pieces_of, summed, turns_by_cycle
from p4reduce.play.turns.player import LANES, play
from p4switch.base.values import PS_PER_S

# Time on packets beyond bytes over rates, by the way that bytes are carried.


Way = Literal["tree", "push-pull", "all-to-all"]
"""Chunks up and down a tree at once; a push, then a pull; dispatch, then combine."""
WAYS: Final[tuple[Way, ...]] = ("tree", "push-pull", "all-to-all")


@dataclass(frozen=True)
class Factors:
    """Seconds on packets of an iteration = ``frames`` * seconds of bytes over rates + ``lead_s``."""

    frames: float
    lead_s: float
    """Lead of all its phases together."""
    chunk: int = 1
    """Bytes; a vector, a shard and a block are whole chunks."""

    def padded(self, size: float) -> float:
        """Return the bytes including those that fill up the last chunk."""
        return -(-size // self.chunk) * self.chunk if self.chunk > 1 else size

    def of(self, seconds: float) -> float:
        """Return the seconds on packets."""
        return self.frames * seconds + self.lead_s if seconds > 0 else 0.0


FactorsOf = Mapping[Way, Factors]
BYTES: Final[FactorsOf] = {way: Factors(1.0, 0.0) for way in WAYS}
"""Factors of plain bytes over rates."""


def way_of(job: TdmJob, plan: JobPlan) -> Way:
    """Return the way in which an iteration's bytes are carried."""
    if job.kind == "a2a":
        return "all-to-all"
    return "push-pull" if plan.ring is not None or any(not tree.pipelined for tree in plan.trees) else "tree"


# Flows of every job: their NICs and circuits, direction, phase and configuration.


Resource = tuple[object, ...]
"""(host, 'up' or 'down'), or (process, configuration, from pod, to pod)."""
ANSWER = 86 / 1110
"""Size of an empty frame, which answers or requests a full one, over that of a full frame of 256 lanes, on a link."""


@dataclass(frozen=True)
class PhaseFlow:
    """A tree, or all blocks, of one phase of a job in one configuration: one rate on all its resources."""

    job: str
    phase: int
    configuration: int
    """Configuration within the job's process; -1: it crosses no circuit."""
    uses: Mapping[Resource, float]
    """Bytes on each resource."""
    lead_s: float
    """Time after the last byte."""
    spread_s: float = 0.0
    """Least time over which hosts spread it; 0: they send as fast as links allow."""


def flows_of(schedule: Schedule, plan: JobPlan, job: TdmJob, factors: FactorsOf) -> list[PhaseFlow]:
    """Return the flows of one job: one for each phase and configuration.

    Raises
    ------
    TdmError
        When it has a circuit that is not lit.
    """
    factor = factors[way_of(job, plan)]
    uses = _blocks(schedule.network, plan, job, factor) if job.kind == "a2a" else _sums(schedule, plan, job, factor)
    phases = len({phase for phase, _, _ in uses})
    return [
        PhaseFlow(
            job.name,
            phase,
            configuration,
            {_named(schedule, plan, configuration, name): factor.frames * size for name, size in own.items() if size},
            factor.lead_s / phases,
        )
        for (phase, configuration, _), own in sorted(uses.items())
        if sum(own.values()) > 0
    ]


def capacity_of(schedule: Schedule, resource: Resource) -> float:
    """Return the bytes per second of a resource."""
    network = schedule.network
    if isinstance(resource[0], str):
        return network.nic
    process, configuration, a, b = resource
    assert isinstance(process, int) and isinstance(configuration, int) and isinstance(a, int)  # noqa: S101, PT018
    assert isinstance(b, int)  # noqa: S101
    return _lit(schedule, process, configuration)[a][b] * network.circuit


Uses = dict[tuple[int, int, int], defaultdict[Resource, float]]
"""Bytes on resources by (phase, configuration, tree); shards of a ring, and all blocks, are one."""


def _sums(schedule: Schedule, plan: JobPlan, job: TdmJob, factor: Factors) -> Uses:
    uses: Uses = {}
    network = schedule.network
    hosts = [host for host, _ in plan.placement]
    pieces = pieces_of(plan, network.pod_of(hosts[0]))
    spans = sorted({piece.span for piece in pieces})
    shares = [end - first for first, end in spans]
    # Cut whole chunks, as on packets.
    cut = [
        (end - first) * factor.chunk for first, end in cut_chunks(-(-job.bytes // factor.chunk), shares, 1)
    ] if factor.chunk > 1 else [job.bytes * share for share in shares]  # fmt: skip
    sizes = dict(zip(spans, cut, strict=True))
    for number, piece in enumerate(pieces):
        size = sizes[piece.span]
        up = size * (ANSWER if piece.operation is Operation.PULL else 1.0)
        down = size * (ANSWER if piece.operation is Operation.PUSH else 1.0)
        configuration = piece.tree.configuration if piece.tree.edges else -1
        tree = number if plan.ring is None else 0
        own = uses.setdefault((int(piece.operation is Operation.PULL), configuration, tree), defaultdict(float))
        for host in hosts:
            own[host, "up"] += up
            own[host, "down"] += down
        for child, parent in piece.tree.edges:
            own[child, parent] += up
            own[parent, child] += down
    return uses


def _blocks(network: OpticalNetwork, plan: JobPlan, job: TdmJob, factor: Factors) -> Uses:
    """Return the bytes of blocks; pairs within a pod go with those of the first configuration."""
    pods: Counter[int] = Counter()
    for host, units in plan.placement:
        pods[network.pod_of(host)] += units
    block = factor.padded(job.bytes)
    first = min((route.configuration for route in plan.routes), default=-1)
    uses: Uses = {}
    for phase in (0, 1):
        for route in plan.routes:
            own = uses.setdefault((phase, route.configuration, 0), defaultdict(float))
            a, b = route.path[0], route.path[-1]
            for host, units in plan.placement:
                if network.pod_of(host) == a:
                    own[host, "up"] += units * pods[b] * block * route.share
                if network.pod_of(host) == b:
                    own[host, "down"] += units * pods[a] * block * route.share
            for edge in pairwise(route.path):
                own[edge] += pods[a] * pods[b] * block * route.share
        own = uses.setdefault((phase, first, 0), defaultdict(float))
        for host, units in plan.placement:
            for way in ("up", "down"):
                own[host, way] += units * (pods[network.pod_of(host)] - units) * block
    return uses


def _named(schedule: Schedule, plan: JobPlan, configuration: int, name: Resource) -> Resource:
    """Return the resource that all its users share: jobs of one process and configuration share circuits."""
    if isinstance(name[0], str):
        return name
    a, b = name
    assert isinstance(a, int) and isinstance(b, int)  # noqa: S101, PT018
    lit = _lit(schedule, plan.process, configuration)
    if not lit[a][b] and any(map(any, lit)):
        raise TdmError(f"job {plan.job[:40]!r}: no circuit joins pods {a + 1} and {b + 1} in its process")
    return (plan.process, configuration, a, b)


def _lit(schedule: Schedule, process: int, configuration: int) -> Matrix:
    return schedule.processes[process].configurations[configuration].circuits


def all_flows(schedule: Schedule, jobs: Mapping[str, TdmJob], factors: FactorsOf) -> Sequence[PhaseFlow]:
    """Return the flows of all jobs of a schedule; those of all-to-alls have the pace of `installing.set_paces`."""
    flows = [flow for plan in schedule.jobs for flow in flows_of(schedule, plan, jobs[plan.job], factors)]

    alltoall = {flow.job for flow in flows if jobs[flow.job].kind == "a2a"}
    if not alltoall:
        return flows
    busy_ps: defaultdict[tuple[str, int], Counter[Resource]] = defaultdict(Counter)
    configurations: defaultdict[str, set[int]] = defaultdict(set)
    for flow in flows:
        configuration = max(0, flow.configuration)
        configurations[flow.job].add(configuration)
        for resource, size in flow.uses.items():
            if rate := capacity_of(schedule, resource):
                busy_ps[flow.job, configuration][resource] += round(size / rate * PS_PER_S)
    cycles = turns_by_cycle(schedule)
    longest = [busiest(summed(busy_ps[name, 0] for name in turn) for turn in turns) for turns in cycles]
    every = summed(longest)
    spread_s: dict[tuple[str, int], float] = {}
    for turns, own in zip(cycles, longest, strict=True):
        beside = every - own
        for turn in turns:
            spread = alltoall.intersection(turn)
            for configuration in {number for name in spread for number in configurations[name]}:
                total = summed(busy_ps[name, configuration] for name in turn) + beside
                for name in spread:
                    takes_ps = max((total[resource] for resource in busy_ps[name, configuration]), default=0)
                    spread_s[name, configuration] = takes_ps / PHASES / PS_PER_S
    return [replace(flow, spread_s=spread_s.get((flow.job, max(0, flow.configuration)), 0.0)) for flow in flows]


# Time on packets beyond the bytes of a schedule: headers, and the round trips before the first result.
#
# A schedule computes with bytes over rates. On packets a vector takes ``frames`` times as long (1,110 bytes on a link
# for 1,024 of 256 lanes are 1.084) and ``lead_s`` more, both measured here on jobs that have the network to themselves.


_SIZES: Final = (400_000, 3_200_000)
"""Bytes of the measured vectors."""


@lru_cache(maxsize=4)
def factors_of(network: OpticalNetwork) -> dict[Way, Factors]:
    """Measure the factors of each way in a network of at least two pods, from two sizes each."""
    factors: dict[Way, Factors] = {}
    for way in WAYS:
        points = []
        for size in _SIZES:
            schedule, job = _alone(network, way, size)
            points.append((schedule.round_s, play(schedule, {job.name: job}, rounds=1).round_s))
        (small, took_small), (large, took_large) = points
        frames = (took_large - took_small) / (large - small)
        factors[way] = Factors(frames, took_small - frames * small, LANES * WORD)
    return factors


def _alone(network: OpticalNetwork, way: Way, size: int) -> tuple[Schedule, TdmJob]:
    """Return a job of one host in each of two pods that only communicates; a round is its bytes' seconds on a NIC."""
    hosts = (network.host(0, 0), network.host(1, 0))
    circuits = tuple(tuple(int({i, j} == {0, 1}) for j in range(network.pods)) for i in range(network.pods))
    block = size // 4 * 4
    job = TdmJob("alone", "a2a" if way == "all-to-all" else "ps", block, 0.0, 2)
    plan = JobPlan(
        "alone",
        tuple((host, 1) for host in hosts),
        0,
        0,
        0,
        trees=() if way == "all-to-all" else (PodTree(0, ((1, 0),), 1.0, pipelined=way == "tree"),),
        routes=(PodRoute((0, 1), 1.0), PodRoute((1, 0), 1.0)) if way == "all-to-all" else (),
    )
    process = RoundProcess((Configuration(circuits, 0.0, 1.0),), 0.0, 1.0)
    takes = (1 if way == "tree" else 2) * block / min(network.nic, network.circuit)
    cycle = Cycle(("alone",), 1.0, "gated")
    bonded = replace(network, parallel="bonded")
    return Schedule("alone", bonded, (plan,), (process,), (cycle,), takes), job


_CLOSE: Final = 1e-9
Floats = npt.NDArray[np.float64]


def play_flows(
    schedule: Schedule, jobs: Mapping[str, TdmJob], *, rounds: int = 2, factors: FactorsOf = BYTES
) -> PlayedSchedule:
    """Play some rounds of a schedule, as `player.play` does.

    Parameters
    ----------
    schedule : Schedule
        Circuits that are all dark stand for an electrical network in which only NICs count.
    jobs : mapping of TdmJob
        By name.
    rounds : int
        Whole rounds after the first one; if no job is gated, iterations of each job.
    factors : mapping of Factors
        Factors of each way to carry bytes; default: bytes over rates.

    Returns
    -------
    Played
        Without frames: nothing is counted, lost or checked.

    Raises
    ------
    TdmError
        When a job has a circuit that is not lit.
    """
    if rounds < 1:
        raise TdmError(f"rounds: {rounds}; at least 1")
    return _FlowPlayer(schedule, jobs, rounds, factors).run()


@dataclass
class _Job:
    """A job, as turns see it."""

    job: TdmJob
    plan: JobPlan
    flows: list[int]
    local: bool
    together: bool


class _Fluid:
    """Flows that share resources."""

    def __init__(self, schedule: Schedule, flows: Sequence[PhaseFlow], classes: Mapping[str, int]) -> None:
        resources: dict[tuple[object, ...], int] = {}
        rows: list[int] = []
        columns: list[int] = []
        shares: list[float] = []
        capacity: list[float] = []
        self.size = np.array([max(flow.uses.values()) for flow in flows])
        self.lead_ps = np.array([round(flow.lead_s * PS_PER_S) for flow in flows], np.int64)
        for number, flow in enumerate(flows):
            for name, size in flow.uses.items():
                if name not in resources:
                    rate = capacity_of(schedule, name)
                    if not rate:  # electrical: the network is not modelled
                        continue
                    resources[name] = len(capacity)
                    capacity.append(rate / PS_PER_S)
                rows.append(number)
                columns.append(resources[name])
                shares.append(size / self.size[number])
            if flow.spread_s:
                rows.append(number)
                columns.append(len(capacity))
                shares.append(1.0)
                capacity.append(float(self.size[number]) / flow.spread_s / PS_PER_S)
        self.use = csr_matrix((shares, (rows, columns)), shape=(len(flows), len(capacity)))
        self.capacity = np.array(capacity)
        # Within a class, paced flows keep their pace: the windows of sums wait for results, and take the rest.
        self.classes = np.array([2 * classes[flow.job] + (flow.spread_s > 0) for flow in flows], np.int64)
        self.left = np.zeros(len(flows))
        self.active = np.zeros(len(flows), np.bool_)
        self.done_ps = np.full(len(flows), -1, np.int64)
        self.now = 0
        self._rate: Floats | None = None

    def begin(self, numbers: Sequence[int]) -> None:
        """Begin these flows."""
        for number in numbers:
            self.left[number] = self.size[number]
            self.active[number] = True
            self.done_ps[number] = -1
        self._rate = None

    def next_end(self) -> int | None:
        """Return when the next flow has sent its bytes or its last byte arrives, picoseconds; None if no flow sends."""
        ends = [int(end_ps) for end_ps in self.done_ps[self.done_ps > self.now]]
        if self.active.any():
            rate = self.rates()
            own = np.flatnonzero(self.active & (rate > 0))  # the others wait for higher classes
            ends.append(max(self.now + 1, ceil(self.now + float((self.left[own] / rate[own]).min()))))
        return min(ends) if ends else None

    def advance(self, now: int) -> None:
        """Advance the time."""
        if self.active.any() and now > self.now:
            rate = self.rates()
            self.left = np.where(self.active, self.left - rate * (now - self.now), self.left)
            ended = np.flatnonzero(self.active & (self.left <= np.maximum(rate, _CLOSE * self.size)))
            if len(ended):
                self.active[ended] = False
                self.done_ps[ended] = now + self.lead_ps[ended]
                self._rate = None
        self.now = now

    def rates(self) -> Floats:
        """Return the bytes per ps of each flow, max-min fair within a class by progressive filling."""
        if self._rate is not None:
            return self._rate
        rate = np.zeros(len(self.size))
        left = self.capacity.copy()
        for number in sorted(set(self.classes[self.active].tolist()), reverse=True):
            own = np.flatnonzero(self.active & (self.classes == number))
            use = self.use[own]
            rising = np.ones(len(own), np.bool_)
            while rising.any():
                load = np.asarray(use.T @ rising.astype(np.float64)).ravel()
                room = np.divide(left, load, out=np.full(len(left), np.inf), where=load > 1e-12)
                step = max(0.0, float(room.min(initial=np.inf)))
                rate[own[rising]] += step
                left = np.maximum(0.0, left - step * load)
                full = room <= step * (1 + _CLOSE)
                rising &= np.asarray(use @ full.astype(np.float64)).ravel() <= 0
        self._rate = rate
        return rate


class _Sent:
    """Flows of one job, or of a group, phase by phase."""

    def __init__(self, fluid: _Fluid, phases: Sequence[Sequence[int]]) -> None:
        self._fluid, self._phases = fluid, iter(phases)
        self.now: Sequence[int] = ()

    def go_on(self) -> None:
        """Begin the next phase."""
        self.now = next(self._phases, ())
        self._fluid.begin(self.now)

    def through(self) -> bool:
        """Return whether the present phase is through."""
        return all(0 <= self._fluid.done_ps[number] <= self._fluid.now for number in self.now)


class _FlowPlayer(Acts[_Job, _Sent]):
    def __init__(self, schedule: Schedule, jobs: Mapping[str, TdmJob], rounds: int, factors: FactorsOf) -> None:
        self._flows = all_flows(schedule, jobs, factors)
        own: dict[str, list[int]] = {plan.job: [] for plan in schedule.jobs}
        for number, flow in enumerate(self._flows):
            own[flow.job].append(number)
        known = {
            plan.job: _Job(
                jobs[plan.job],
                plan,
                own[plan.job],
                all(self._flows[number].configuration < 0 for number in own[plan.job]),
                way_of(jobs[plan.job], plan) == "push-pull",
            )
            for plan in schedule.jobs
        }
        super().__init__(schedule, known, rounds)
        self._fluid = _Fluid(schedule, self._flows, {plan.job: _class(schedule, plan) for plan in schedule.jobs})

    @property
    def now(self) -> int:
        """Present time, picoseconds."""
        return self._fluid.now

    def run(self) -> PlayedSchedule:
        """Play all rounds."""
        self.begin()
        self.drive()
        self.played.lasted_ps = self.now
        return self.played

    def send(self, jobs: Sequence[_Job], configuration: int) -> Sequence[_Sent]:
        """Begin to send, one phase of a job after the other, or of all jobs together if sub-phases are the group's."""
        all_sent = []
        for own in [jobs] if any(job.together for job in jobs) else [[job] for job in jobs]:
            numbers = [number for job in own for number in job.flows if self._in(number, configuration)]
            phases = sorted({self._flows[number].phase for number in numbers})
            all_sent.append(
                _Sent(self._fluid, [[flow for flow in numbers if self._flows[flow].phase == phase] for phase in phases])
            )
        for sent in all_sent:
            sent.go_on()
        return all_sent

    def let_pass(self, until: int | None, under: Sequence[_Sent]) -> None:
        """Let time pass until a flow ends."""
        del under
        times = [at for at in (until, self._fluid.next_end()) if at is not None]
        if not times:
            raise TdmError(ITSELF)
        self._fluid.advance(min(times))

    def ended_ps(self, job: _Job, start: int) -> int:
        """Return when the last byte of a job arrived, picoseconds."""
        return max((int(self._fluid.done_ps[number]) for number in job.flows), default=start)

    def light(self, matrix: Matrix, dark_ps: int) -> None:
        """Do nothing: a flow has the capacity of its own configuration."""

    def _in(self, number: int, configuration: int) -> bool:
        return configuration < 0 or max(0, self._flows[number].configuration) == configuration


def _class(schedule: Schedule, plan: JobPlan) -> int:
    """Return the class of a job, higher first: jobs with a priority before those without."""
    gated = schedule.cycles[plan.cycle].mode != "priority" or plan.priority is None
    return 0 if gated else 1_000 - (plan.priority or 0)
