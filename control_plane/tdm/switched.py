"""Two groups that take turns, each with its own circuits: the source's (`seed`), ours (`tdm`), and `random`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, product
from typing import Any, Final

import numpy as np

from p4reduce.control_plane.tdm.circuits import Reading, least_time, process_s
from p4reduce.control_plane.tdm.grouping import (
    Partition,
    Rounds,
    hill_climbing,
    process_times,
    random_split,
    search_partition,
)
from p4reduce.control_plane.tdm.groups import (
    NEVER,
    Group,
    GroupPlan,
    SeedGroups,
    TreeGroups,
    carry,
    configurations,
    placements,
    planned,
)
from p4reduce.control_plane.tdm.jobs import OpticalNetwork, TdmError, TdmJob, release_gpus
from p4reduce.control_plane.tdm.packing import Edge, Packed, demand, pack, parts_of, paths
from p4reduce.control_plane.tdm.registry import Options, register_scheduler
from p4reduce.control_plane.tdm.schedule import Cycle, JobPlan, Process, Schedule


@register_scheduler("seed")
def seed(jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options) -> Schedule:
    """The source: Algorithms 1 to 3, then GPUs released where a group waits (g_j <- ceil(g_j W / T))."""
    planner = SeedGroups(jobs, network, direct=options.best)
    rounds = Rounds(jobs, planner, network.delta_s, options.reading)
    found = search_partition(rounds, seed=options.seed) if options.best else hill_climbing(rounds)
    best = _released(found, planner, network, options)
    return two_groups("seed", jobs, network, options, best)


@register_scheduler("tdm")
def tdm(jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options) -> Schedule:
    """Ours: few pods, trees of ToRs, pipelined chunks, flips and swaps from several starts, local search."""
    return two_groups("tdm", jobs, network, options, best_partition(jobs, network, options))


@register_scheduler("random")
def random(jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options) -> Schedule:
    """Groups drawn at random, placed as `tdm` places: what choosing groups is worth."""
    rounds = Rounds(jobs, _trees(jobs, network, options), network.delta_s, options.reading)
    for attempt in range(100):
        drawn = random_split(jobs, network.all_gpus, options.seed * 1000 + attempt)
        found = None if drawn is None else rounds.of(drawn)
        if found is not None:
            return two_groups("random", jobs, network, options, found)
    raise TdmError("no random partition fits the GPUs; use fewer workers, or more hosts")


def best_partition(jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options) -> Partition:
    """Two groups, as `tdm` chooses them."""
    rounds = Rounds(jobs, _trees(jobs, network, options), network.delta_s, options.reading)
    return search_partition(rounds, restarts=options.restarts, seed=options.seed)


def two_groups(
    policy: str, jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options, partition: Partition
) -> Schedule:
    """A schedule of two processes; of one where a group is empty."""
    times = process_times(partition, network.delta_s, options.reading)
    starts = (0.0, times[0])
    alone = not all(group.jobs for group in partition.groups)
    plans: list[JobPlan] = []
    processes: list[Process] = []
    for number, group in enumerate(partition.groups):
        if not group.jobs:
            continue
        start = 0.0 if alone else starts[number]
        lasts = sum(times) if alone else times[number]
        carried = carry(jobs, group, network)
        process = Process(configurations(carried, start, lasts, network), start, lasts)
        where = placements(jobs, group, network, other_way=number == 1)
        for j, given in zip(group.jobs, group.given, strict=True):
            trained = jobs[j].compute_on(given)
            plans.append(
                JobPlan(
                    jobs[j].name,
                    where[j],
                    cycle=0,
                    process=len(processes),
                    group=number,
                    trees=carried.trees.get(j, ()),
                    ring=carried.rings.get(j),
                    routes=carried.routes.get(j, ()),
                    train_start_s=0.0 if alone else starts[1 - number],
                    train_s=trained,
                    start_s=start + (group.training_s if alone else network.delta_s),
                    duration_s=group.communication_s,
                )
            )
        processes.append(process)
    order = {job.name: place for place, job in enumerate(jobs)}
    plans.sort(key=lambda plan: order[plan.job])
    cycle = Cycle(tuple(job.name for job in jobs), sum(times), "gated")
    return Schedule(
        policy, network, tuple(plans), tuple(processes), (cycle,), sum(times), options.clock, options.guard_s
    )


def _trees(jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options) -> TreeGroups:
    return TreeGroups(jobs, network, moves=options.moves, seed=options.seed)


def _released(partition: Partition, planner: SeedGroups, network: OpticalNetwork, options: Options) -> Partition:
    """The end of Algorithm 1; what it evaluates is what it adopts."""
    one, other = partition.groups
    times = process_times(partition, network.delta_s, options.reading)
    found: list[GroupPlan] = []
    for group, window in ((one, times[1]), (other, times[0])):
        own = [planner.jobs[j] for j in group.jobs]
        given = release_gpus(own, group.given, group.training_s, window)
        found.append(planner.plan(group.jobs, given) if group.jobs and given != list(group.given) else group)
    released = Partition((found[0], found[1]), 0.0)
    time = sum(process_times(released, network.delta_s, options.reading))
    return Partition(released.groups, time) if time <= partition.round_s else partition


# A job that arrives while others run: the cheapest way in, without planning everybody anew (ours).


MOVES = 4000


def join(schedule: Schedule, jobs: Sequence[TdmJob], arrived: TdmJob, options: Options | None = None) -> Schedule:
    """The schedule of two groups with one job more, in the group where the round then is shorter.

    Units of jobs that run stay where they are (moving them would cost a checkpoint each); the trees of the group that
    it joins may move. The new schedule begins at the end of a round: until then the old one holds.

    Parameters
    ----------
    schedule : Schedule
        Of two gated groups, with trees.
    jobs : sequence of TdmJob
        Those in it, in its order.
    arrived : TdmJob
        The new one.
    options : Options or None
        As for a scheduler.

    Raises
    ------
    TdmError
        When it fits neither group, or the schedule is of another kind.
    """
    groups_of = {plan.group for plan in schedule.jobs}
    if len(schedule.processes) != len(groups_of) or any(plan.ring for plan in schedule.jobs):
        raise TdmError(f"policy {schedule.policy}: only schedules of two groups with trees take arrivals")
    chosen, network = options or Options(), schedule.network
    everybody = [*(_pinned(job, schedule.jobs[j]) for j, job in enumerate(jobs)), arrived]
    planner = TreeGroups(everybody, network, moves=MOVES, seed=chosen.seed)
    groups = [tuple(j for j, plan in enumerate(schedule.jobs) if plan.group == side) for side in (0, 1)]
    now = [_as_it_is(schedule, everybody, group, planner) for group in groups]
    best: Partition | None = None
    for side in (0, 1):
        try:
            with_it = _with(schedule, everybody, groups[side], planner)
        except TdmError:  # a host that it names trains for another one of this group
            continue
        if with_it is None:
            continue
        plans = (with_it, now[1]) if side == 0 else (now[0], with_it)
        time = sum(process_times(Partition(plans, 0.0), network.delta_s, chosen.reading))
        if time < NEVER and (best is None or time < best.round_s):
            best = Partition(plans, time)
    if best is None:
        raise TdmError(
            f"job {arrived.name[:40]!r}: workers: {arrived.units} units fit neither group as it lies; let it wait, or "
            "plan all anew"
        )
    return two_groups(schedule.policy, everybody, network, chosen, best)


def _pinned(job: TdmJob, plan: JobPlan) -> TdmJob:
    """A job on the hosts that it is on."""
    hosts = tuple(host for host, units in plan.placement for _ in range(units))
    return replace(job, hosts=hosts, units=len(hosts), compute_s=job.compute_on(len(hosts)), elastic=False)


def _units(schedule: Schedule, j: int) -> tuple[int, ...]:
    found = [0] * schedule.network.pods
    for host, units in schedule.jobs[j].placement:
        found[schedule.network.pod_of(host)] += units
    return tuple(found)


def _edges(schedule: Schedule, j: int) -> tuple[Edge, ...]:
    return tuple(edge for tree in schedule.jobs[j].trees for edge in tree.edges)


def _as_it_is(schedule: Schedule, jobs: Sequence[TdmJob], group: tuple[int, ...], planner: TreeGroups) -> GroupPlan:
    """A group that nothing happens to."""
    if not group:
        return GroupPlan((), (), (), 0.0)
    units = tuple(_units(schedule, j) for j in group)
    given = tuple(sum(row) for row in units)
    communicates = max(schedule.jobs[j].duration_s for j in group)
    trains = max(jobs[j].compute_on(count) for j, count in zip(group, given, strict=True))
    packed = Packed(units, tuple(_edges(schedule, j) for j in group), communicates * planner.network.circuit)
    return GroupPlan(group, given, (communicates,), trains, units, packed)


def _with(
    schedule: Schedule, everybody: Sequence[TdmJob], group: tuple[int, ...], planner: TreeGroups
) -> GroupPlan | None:
    """A group and the new job; None where there are too few GPUs or ports."""
    network = planner.network
    fixed = [_units(schedule, j) for j in group]
    new = len(everybody) - 1
    given = [*(sum(row) for row in fixed), everybody[new].units]
    if sum(given) > network.all_gpus:
        return None
    members = (*group, new)
    parts = parts_of([everybody[j] for j in members], given, network)
    placed = pack(parts, network.pods, network.pod_gpus)
    trees = [*([*_edges(schedule, j)] for j in group), paths([placed[-1]], [parts[-1]])[0]]
    start = Packed(tuple(map(tuple, placed)), tuple(map(tuple, trees)), 0.0)
    plan = planner.plan(members, given, start, parts)
    return plan if plan.communication_s < NEVER else None


# The least t_round there is, for small networks: branch and bound over groups, integer programs for each.
#
# The paper's "ILP" is not linear: D / (B L), AN_i AN_j and PN multiply variables. Ours is linear once T is fixed.
# For a group and a time T it asks whether there are, for every job, one column x_jc (a set of pods and a tree over
# them, or how an a2a's units are spread), units n_ij and circuits L_ik with
#
#     sum_c x_jc = 1,  sum_i n_ij = g_j,  x_in(j, i) <= n_ij <= s x_in(j, i),  sum_j n_ij <= s,
#     sum_jc x_jc load(j, c, i, k) <= B T L_ik,  sum_k L_ik <= R,  L symmetric and whole.
#
# T is found by bisection: every feasible answer gives a smaller T of its own.


PODS: Final = 5
JOBS: Final = 8
CLOSE: Final = 1e-4
"""relative: where bisection ends"""


@dataclass(frozen=True)
class Column:
    """A set of pods and a tree over them, or (a2a) the units in each pod."""

    pods: tuple[int, ...]
    edges: tuple[Edge, ...]
    units: tuple[int, ...] = ()


def solve(jobs: Sequence[TdmJob], network: OpticalNetwork, reading: Reading = "overlap") -> Partition:
    """The best partition with its groups placed as well as can be.

    Raises
    ------
    TdmError
        More than `PODS` pods or `JOBS` jobs, elastic jobs or named hosts, or nothing fits.
    """
    if network.pods > PODS or len(jobs) > JOBS:
        raise TdmError(f"exact: at most {PODS} pods and {JOBS} jobs; use policy tdm")
    if any(job.elastic or job.hosts for job in jobs) or network.gpus != 1:
        raise TdmError("exact: takes gangs that it may place, and servers of one GPU; use policy tdm")
    groups = _Exact(jobs, network)
    rounds = Rounds(jobs, groups, network.delta_s, reading)
    everybody = range(1, len(jobs))
    firsts = [(0, *chosen) for size in range(len(jobs)) for chosen in combinations(everybody, size)]
    bounds = {first: rounds.bound(first) for first in firsts}
    best: Partition | None = None
    for first in sorted(firsts, key=lambda one: (bounds[one], one)):
        if bounds[first] == NEVER or (best is not None and bounds[first] >= best.round_s * (1 - 1e-9)):
            break
        found = _partition(groups, rounds, first, reading, NEVER if best is None else best.round_s)
        if found is not None and (best is None or found.round_s < best.round_s):
            best = found
    if best is None:
        raise TdmError("the jobs do not fit two groups; use fewer workers, or more hosts")
    return best


def _partition(groups: "_Exact", rounds: Rounds, first: Group, reading: Reading, beaten: float) -> Partition | None:
    """A partition; communication that hides behind the others' training need not be shorter than that."""
    rest = rounds.rest(first)
    delta = groups.network.delta_s if rest else 0.0
    (c1, w1), (c2, w2) = groups.bound(first), groups.bound(rest)
    hide = 0.0 if reading == "serial" else delta
    one = groups.best(first, max(c1, w2 - hide))
    if one is None:
        return None
    if process_s(one.phases, w2, delta, reading) + process_s((c2,), w1, delta, reading) >= beaten:
        return None
    other = groups.best(rest, max(c2, w1 - hide))
    if other is None:
        return None
    time = process_s(one.phases, w2, delta, reading) + process_s(other.phases, w1, delta, reading)
    return Partition((one, other), time)


class _Exact:
    """Groups, placed by integer programs."""

    def __init__(self, jobs: Sequence[TdmJob], network: OpticalNetwork) -> None:
        self.jobs, self.network = jobs, network
        self._bounds = TreeGroups(jobs, network)
        self._known: dict[Group, tuple[float, GroupPlan | None]] = {}

    def bound(self, group: Group) -> tuple[float, float]:
        """NICs and training."""
        return self._bounds.bound(group)

    def options(self, group: Group) -> list[GroupPlan]:
        """The best one."""
        found = self.best(group, self.bound(group)[0])
        return [] if found is None else [found]

    def best(self, group: Group, enough_s: float) -> GroupPlan | None:
        """The plan that communicates for the least time, or for ``enough_s``."""
        if not group:
            return GroupPlan((), (), (), 0.0)
        if group in self._known:
            asked, plan = self._known[group]
            if asked <= enough_s or plan is None or plan.communication_s > asked * (1 + CLOSE):
                return plan
            if plan.communication_s <= enough_s:
                return plan
        found = self._bisect(group, enough_s)
        self._known[group] = (enough_s, found)
        return found

    def _bisect(self, group: Group, enough_s: float) -> GroupPlan | None:
        jobs = [self.jobs[j] for j in group]
        if sum(job.units for job in jobs) > self.network.all_gpus:
            return None
        low = enough_s * self.network.circuit
        best = self._place(jobs, low)
        if best is None:
            # Ours is a start for the search only: what it finds is feasible, and nothing that it misses is lost.
            options = TreeGroups(self.jobs, self.network).options(group)
            finite = [one.packed for one in options if one.packed and one.packed.circuit_bytes < NEVER]
            ceiling = 2.0 * sum(job.bytes * (job.units**2 if job.kind == "a2a" else 1) for job in jobs)
            best = finite[0] if finite else self._place(jobs, ceiling)
            while best is not None and best.circuit_bytes > low * (1 + CLOSE):
                middle = (low + best.circuit_bytes) / 2
                found = self._place(jobs, middle)
                if found is None:
                    low = middle
                else:
                    best = found
        if best is None:
            return None
        given = [job.units for job in jobs]
        return planned(group, jobs, given, parts_of(jobs, given, self.network), best, self.network)

    def _place(self, jobs: Sequence[TdmJob], limit: float) -> Packed | None:
        """A placement whose busiest circuit carries at most ``limit`` bytes."""
        return _Program(jobs, self.network, limit).solve()


class _Program:
    """The integer program of a group and a time."""

    def __init__(self, jobs: Sequence[TdmJob], network: OpticalNetwork, limit: float) -> None:
        self.jobs, self.network, self.limit = jobs, network, max(limit, 1e-9)
        self.pairs = list(combinations(range(network.pods), 2))
        self.columns = [
            (j, column) for j, job in enumerate(jobs) for column in columns_of(job, network.pods, network.pod_gpus)
        ]
        self.first_units = len(self.columns)
        self.first_circuits = self.first_units + len(jobs) * network.pods
        self.width = self.first_circuits + len(self.pairs)
        self._rows: list[tuple[dict[int, float], float, float]] = []

    def solve(self) -> Packed | None:
        """A solution, or None where there is none."""
        pods, seats, scale = self.network.pods, self.network.pod_gpus, 1.0 / self.limit
        for j, job in enumerate(self.jobs):
            own = [(x, column) for x, (k, column) in enumerate(self.columns) if k == j]
            self._row({x: 1.0 for x, _ in own}, 1.0, 1.0)
            self._row({self._n(j, i): 1.0 for i in range(pods)}, job.units, job.units)
            for i in range(pods):
                inside = {x: 1.0 for x, column in own if i in column.pods}
                if job.kind == "a2a":
                    spread = {x: -float(column.units[i]) for x, column in own if column.units[i]}
                    self._row({self._n(j, i): 1.0, **spread}, 0.0, 0.0)
                else:
                    self._row({self._n(j, i): 1.0, **dict.fromkeys(inside, -1.0)}, 0.0, np.inf)
                    self._row({self._n(j, i): 1.0, **{x: -float(seats) for x in inside}}, -np.inf, 0.0)
        for i in range(pods):
            self._row({self._n(j, i): 1.0 for j in range(len(self.jobs))}, -np.inf, seats)
            ports = {self.first_circuits + e: 1.0 for e, pair in enumerate(self.pairs) if i in pair}
            self._row(ports, -np.inf, self.network.ports)
        for e, pair in enumerate(self.pairs):
            loads = {x: load(self.jobs[j], column, pair) * scale for x, (j, column) in enumerate(self.columns)}
            used = {x: value for x, value in loads.items() if value}
            self._row({self.first_circuits + e: -1.0, **used}, -np.inf, 0.0)
        return self._answer()

    def _n(self, job: int, pod: int) -> int:
        return self.first_units + job * self.network.pods + pod

    def _row(self, values: dict[int, float], low: float, high: float) -> None:
        self._rows.append((values, low, high))

    def _answer(self) -> Packed | None:
        from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415  (slow to import)
        from scipy.sparse import coo_matrix  # noqa: PLC0415

        at = [(row, x, value) for row, (values, _, _) in enumerate(self._rows) for x, value in values.items()]
        rows, xs, values = zip(*at, strict=True)
        shape = (len(self._rows), self.width)
        matrix = coo_matrix((np.array(values), (np.array(rows), np.array(xs))), shape=shape).tocsc()
        limits: Any = LinearConstraint(matrix, [low for _, low, _ in self._rows], [high for _, _, high in self._rows])
        top = np.full(self.width, float(max(self.network.pod_gpus, self.network.ports)))
        top[: self.first_units] = 1.0
        solver: Any = milp
        solved = solver(
            np.zeros(self.width), constraints=limits, bounds=Bounds(0.0, top), integrality=np.ones(self.width)
        )
        if solved.x is None:
            return None
        whole = np.round(solved.x).astype(int)
        pods = self.network.pods
        units = tuple(tuple(int(whole[self._n(j, i)]) for i in range(pods)) for j in range(len(self.jobs)))
        edges: list[tuple[Edge, ...]] = [()] * len(self.jobs)
        for x, (j, column) in enumerate(self.columns):
            if whole[x]:
                edges[j] = column.edges
        packed = Packed(units, tuple(edges), 0.0)
        parts = parts_of(self.jobs, [job.units for job in self.jobs], self.network)
        sent = demand(packed, parts, pods).astype(np.float64)
        return Packed(units, tuple(edges), least_time(sent, self.network.ports).bytes)


def load(job: TdmJob, column: Column, pair: tuple[int, int]) -> float:
    """Bytes each way between two pods."""
    if job.kind == "a2a":
        return 2.0 * column.units[pair[0]] * column.units[pair[1]] * job.bytes
    return float(job.bytes) if pair in column.edges else 0.0


def columns_of(job: TdmJob, pods: int, seats: int) -> Iterator[Column]:
    """All ways for a job to be joined: every set of pods that its units can fill, with every tree over it."""
    if job.kind == "a2a":
        for units in product(range(min(seats, job.units) + 1), repeat=pods):
            if sum(units) == job.units:
                yield Column(tuple(i for i, count in enumerate(units) if count), (), units)
        return
    for size in range(1, pods + 1):
        if size <= job.units <= size * seats:
            for chosen in combinations(range(pods), size):
                for tree in trees(size):
                    edges = ((chosen[a], chosen[b]) for a, b in tree)
                    yield Column(chosen, tuple((min(edge), max(edge)) for edge in edges))


@cache
def trees(size: int) -> tuple[tuple[Edge, ...], ...]:
    """All size^(size - 2) trees on 0..size-1, from their Pruefer sequences."""
    if size <= 2:
        return ((),) if size == 1 else (((0, 1),),)
    found = []
    for sequence in product(range(size), repeat=size - 2):
        degree = [1 + sequence.count(node) for node in range(size)]
        edges = []
        for node in sequence:
            leaf = degree.index(1)
            edges.append((leaf, node))
            degree[leaf] -= 1
            degree[node] -= 1
        last = [node for node in range(size) if degree[node] == 1]
        found.append((*edges, (last[0], last[1])))
    return tuple(found)


# `exact`: groups, placement, trees and circuits at once, for small networks.


@register_scheduler("exact")
def exact(jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options) -> Schedule:
    """The least t_round of all (up to 5 pods and 8 jobs): branch and bound over groups, HiGHS within."""
    return two_groups("exact", jobs, network, options, solve(jobs, network, options.reading))
