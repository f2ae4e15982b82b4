"""The least t_round: optima of small networks, lower bounds for every plan, and `best`, the best of all policies."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, product
from typing import Any, Final

import numpy as np

from p4reduce.control_plane.linear import Rows
from p4reduce.control_plane.tdm.circuits import Reading, least_time, process_s
from p4reduce.control_plane.tdm.columns import free_bytes
from p4reduce.control_plane.tdm.grouping import Partition, RoundTimes, best_by_bounds
from p4reduce.control_plane.tdm.groups import NEVER, Group, GroupPlan, GroupPlanner, TreeGroups, planned
from p4reduce.control_plane.tdm.jobs import (
    OpticalNetwork,
    Placement,
    TdmError,
    TdmJob,
    busiest_gpu_s,
    busiest_nic_s,
)
from p4reduce.control_plane.tdm.packing import Edge, Packed, demand, parts_of
from p4reduce.control_plane.tdm.pairs import Sharing, TimesAlone, play
from p4reduce.control_plane.tdm.registry import TurnOptions, make_schedule, register_scheduler
from p4reduce.control_plane.tdm.schedule import Cycle, JobPlan, Schedule, Tried, turns_of
from p4reduce.control_plane.tdm.stripes import (
    Units,
    all_circuits,
    commodities_of,
    finished,
    whole_circuits,
)
from p4reduce.control_plane.tdm.switched import agree, nameless, striped_groups, two_groups

# The least t_round with one tree a job, over its own pods: branch and bound over groups, integer programs for each.
#
# The paper's "ILP" is not linear: D / (B L), AN_i AN_j and PN multiply variables. Ours is linear once T is fixed.
# For a group and a time T it asks whether there are, for every job, one column x_jc (a set of pods and a tree over
# them, or how an a2a's units are spread), units n_ij and circuits L_ik with
#
#     sum_c x_jc = 1,  sum_i n_ij = g_j,  x_in(j, i) <= n_ij <= s x_in(j, i),  sum_j n_ij <= s,
#     sum_jc x_jc load(j, c, i, k) <= B T L_ik,  sum_k L_ik <= R,  L symmetric and whole.
#
# Bisection finds T; the T of a feasible solution may be smaller than the T asked for.


PODS: Final = 5
JOBS: Final = 8
CLOSE: Final = 1e-4
"""relative gap at which bisection ends"""


@dataclass(frozen=True)
class TreeColumn:
    """A set of pods and a tree over them, or (a2a) the units in each pod."""

    pods: tuple[int, ...]
    edges: tuple[Edge, ...]
    units: tuple[int, ...] = ()


def solve(jobs: Sequence[TdmJob], network: OpticalNetwork, reading: Reading = "overlap") -> Partition:
    """Return the best partition, with optimal placements of its groups.

    Raises
    ------
    TdmError
        More than `PODS` pods or `JOBS` jobs, elastic jobs or named hosts, or no partition fits.
    """
    if network.pods > PODS or len(jobs) > JOBS:
        raise TdmError(f"exact-one-tree: at most {PODS} pods and {JOBS} jobs; use policy striped")
    if any(job.elastic or job.hosts for job in jobs) or network.gpus != 1:
        raise TdmError("exact-one-tree: takes gangs that it may place, and servers of one GPU; use policy striped")
    return _branch(jobs, _OneTree(jobs, network), reading)


class _Bounded:
    """Base class of planners that give a group its best plan, with the bounds of another planner."""

    def __init__(self, jobs: Sequence[TdmJob], network: OpticalNetwork, bounds: GroupPlanner) -> None:
        self.jobs, self.network, self._bounds = jobs, network, bounds
        self._known: dict[Group, tuple[float, GroupPlan | None]] = {}

    def bound(self, group: Group) -> tuple[float, float]:
        """Return the bounds of the other planner."""
        return self._bounds.bound(group)

    def options(self, group: Group) -> list[GroupPlan]:
        """Return the best plan, if there is one."""
        plan = self.best(group, self.bound(group)[0])
        return [] if plan is None else [plan]

    def best(self, group: Group, enough_s: float) -> GroupPlan | None:
        """Return the plan with the least communication time, or a plan with at most ``enough_s``; None: impossible."""
        raise NotImplementedError


def _branch(jobs: Sequence[TdmJob], groups: _Bounded, reading: Reading) -> Partition:
    """Return the best partition: plan partitions in the order of their bounds, until no other can be better."""
    rounds = RoundTimes(jobs, groups, groups.network.delta_s, reading)
    everybody = range(1, len(jobs))
    firsts = [(0, *chosen) for size in range(len(jobs)) for chosen in combinations(everybody, size)]
    bounds = {first: rounds.bound(first) for first in firsts}
    return best_by_bounds(bounds, lambda first, round_s: _partition(groups, rounds, first, reading, round_s))


def _partition(groups: _Bounded, rounds: RoundTimes, first: Group, reading: Reading, beaten: float) -> Partition | None:
    """Plan a partition; None: it is impossible, or its round is not below ``beaten``.

    Communication that the other group's training hides need not be any shorter.
    """
    rest = rounds.rest(first)
    delta = groups.network.delta_s if rest else 0.0
    (c1, w1), (c2, w2) = groups.bound(first), groups.bound(rest)
    hide = 0.0 if reading == "serial" else delta
    plan = groups.best(first, max(c1, w2 - hide))
    if plan is None:
        return None
    if process_s(plan.phases, w2, delta, reading) + process_s((c2,), w1, delta, reading) >= beaten:
        return None
    other = groups.best(rest, max(c2, w1 - hide))
    if other is None:
        return None
    time = process_s(plan.phases, w2, delta, reading) + process_s(other.phases, w1, delta, reading)
    return Partition((plan, other), time)


class _OneTree(_Bounded):
    """Groups, placed by integer programs, with a tree for each job; bounds are NICs and training."""

    def __init__(self, jobs: Sequence[TdmJob], network: OpticalNetwork) -> None:
        super().__init__(jobs, network, TreeGroups(jobs, network))

    def best(self, group: Group, enough_s: float) -> GroupPlan | None:
        """Return the plan with the least communication time, or a plan with at most ``enough_s``; None: impossible."""
        if not group:
            return GroupPlan((), (), (), 0.0)
        if group in self._known:
            asked, plan = self._known[group]
            if asked <= enough_s or plan is None or plan.communication_s > asked * (1 + CLOSE):
                return plan
            if plan.communication_s <= enough_s:
                return plan
        bisected = self._bisect(group, enough_s)
        self._known[group] = (enough_s, bisected)
        return bisected

    def _bisect(self, group: Group, enough_s: float) -> GroupPlan | None:
        jobs = [self.jobs[j] for j in group]
        if sum(job.units for job in jobs) > self.network.all_gpus:
            return None
        low = enough_s * self.network.circuit
        best = self._place(jobs, low)
        if best is None:
            # Our planner only gives a feasible start; the search does not depend on it.
            options = TreeGroups(self.jobs, self.network).options(group)
            finite = [option.packed for option in options if option.packed and option.packed.circuit_bytes < NEVER]
            ceiling = 2.0 * sum(job.bytes * (job.units**2 if job.kind == "a2a" else 1) for job in jobs)
            best = finite[0] if finite else self._place(jobs, ceiling)
            while best is not None and best.circuit_bytes > low * (1 + CLOSE):
                middle = (low + best.circuit_bytes) / 2
                packed = self._place(jobs, middle)
                if packed is None:
                    low = middle
                else:
                    best = packed
        if best is None:
            return None
        given = [job.units for job in jobs]
        return planned(group, jobs, given, parts_of(jobs, given, self.network), best, self.network)

    def _place(self, jobs: Sequence[TdmJob], limit: float) -> Packed | None:
        """Return a placement whose busiest circuit carries at most ``limit`` bytes; None: there is none."""
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
        self._rows = Rows()

    def solve(self) -> Packed | None:
        """Return a solution, or None if there is none."""
        pods, seats, scale = self.network.pods, self.network.pod_gpus, 1.0 / self.limit
        for j, job in enumerate(self.jobs):
            own = [(x, column) for x, (k, column) in enumerate(self.columns) if k == j]
            self._rows.row({x: 1.0 for x, _ in own}, 1.0, 1.0)
            self._rows.row({self._n(j, i): 1.0 for i in range(pods)}, job.units, job.units)
            for i in range(pods):
                inside = {x: 1.0 for x, column in own if i in column.pods}
                if job.kind == "a2a":
                    spread = {x: -float(column.units[i]) for x, column in own if column.units[i]}
                    self._rows.row({self._n(j, i): 1.0, **spread}, 0.0, 0.0)
                else:
                    self._rows.row({self._n(j, i): 1.0, **dict.fromkeys(inside, -1.0)}, 0.0, np.inf)
                    self._rows.row({self._n(j, i): 1.0, **{x: -float(seats) for x in inside}}, -np.inf, 0.0)
        for i in range(pods):
            self._rows.row({self._n(j, i): 1.0 for j in range(len(self.jobs))}, -np.inf, seats)
            ports = {self.first_circuits + e: 1.0 for e, pair in enumerate(self.pairs) if i in pair}
            self._rows.row(ports, -np.inf, self.network.ports)
        for e, pair in enumerate(self.pairs):
            loads = {x: load(self.jobs[j], column, pair) * scale for x, (j, column) in enumerate(self.columns)}
            used = {x: value for x, value in loads.items() if value}
            self._rows.row({self.first_circuits + e: -1.0, **used}, -np.inf, 0.0)
        return self._answer()

    def _n(self, job: int, pod: int) -> int:
        return self.first_units + job * self.network.pods + pod

    def _answer(self) -> Packed | None:
        top = np.full(self.width, float(max(self.network.pod_gpus, self.network.ports)))
        top[: self.first_units] = 1.0
        solved = self._rows.solve(np.zeros(self.width), whole=np.ones(self.width), most=top)
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


def load(job: TdmJob, column: TreeColumn, pair: tuple[int, int]) -> float:
    """Return the bytes of a job in each direction between two pods."""
    if job.kind == "a2a":
        return 2.0 * column.units[pair[0]] * column.units[pair[1]] * job.bytes
    return float(job.bytes) if pair in column.edges else 0.0


def columns_of(job: TdmJob, pods: int, seats: int) -> Iterator[TreeColumn]:
    """Yield all columns of a job: every set of pods that its units can fill, with every tree over it."""
    if job.kind == "a2a":
        for units in product(range(min(seats, job.units) + 1), repeat=pods):
            if sum(units) == job.units:
                yield TreeColumn(tuple(i for i, count in enumerate(units) if count), (), units)
        return
    for size in range(1, pods + 1):
        if size <= job.units <= size * seats:
            for chosen in combinations(range(pods), size):
                for tree in trees(size):
                    edges = ((chosen[a], chosen[b]) for a, b in tree)
                    yield TreeColumn(chosen, tuple((min(edge), max(edge)) for edge in edges))


@cache
def trees(size: int) -> tuple[tuple[Edge, ...], ...]:
    """Return all size^(size - 2) trees on 0..size-1, from their Pruefer sequences."""
    if size <= 2:
        return ((),) if size == 1 else (((0, 1),),)
    edge_lists = []
    for sequence in product(range(size), repeat=size - 2):
        degree = [1 + sequence.count(node) for node in range(size)]
        edges = []
        for node in sequence:
            leaf = degree.index(1)
            edges.append((leaf, node))
            degree[leaf] -= 1
            degree[node] -= 1
        last = [node for node in range(size) if degree[node] == 1]
        edge_lists.append((*edges, (last[0], last[1])))
    return tuple(edge_lists)


@register_scheduler("exact-one-tree")
def exact_one_tree(jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions) -> Schedule:
    """Minimize t_round with one tree a job over its own pods (to 5 pods and 8 jobs): no stripes, no relays."""
    return two_groups("exact-one-tree", jobs, network, options, solve(jobs, network, options.reading))


# `exact`: groups, placement, circuits, and stripes along all Steiner trees at once, to 4 pods.
#
# For given circuits L the program of a group is linear except for the placement, so there is one program for each L
# to which no circuit can be added, up to relabelling of pods:
#
#     min T,  sum_S x_jS = 1,  sum_t y_jSt = F_j x_jS,  sum_i n_ij = g_j,  x_jS <= n_ij <= s x_jS (i in S),
#     sum_j n_ij <= s,  sum y_jSt [e in t] <= B L_e T,   x_jS in {0, 1}, n whole, y >= 0,
#
# with all Steiner trees t of every set of pods S. An a2a has a column for each way to spread its units, and a flow
# along all paths for each pair of its pods. The best plan so far bounds all later programs.


WIDE_PODS: Final = 4
SLIGHT: Final = 1e-6
"""relative difference below which a value is no better"""


class _Wide(_Bounded):
    """Groups with stripes, placed by integer programs; the search begins with the plans of `striped`."""

    def __init__(self, jobs: Sequence[TdmJob], network: OpticalNetwork, moves: int, seed: int) -> None:
        self.striped = striped_groups(tuple(jobs), network, moves, seed)
        super().__init__(jobs, network, self.striped)

    def best(self, group: Group, enough_s: float) -> GroupPlan | None:
        """Return the plan with the least communication time, or a plan with at most ``enough_s``; None: impossible."""
        if not group:
            return GroupPlan((), (), (), 0.0)
        if group in self._known:
            asked, plan = self._known[group]
            if plan is None or asked <= enough_s or plan.communication_s <= enough_s:
                return plan
        plan = min(self.striped.options(group), key=lambda option: option.communication_s, default=None)
        jobs = [self.jobs[j] for j in group]
        given = [job.units for job in jobs]
        if sum(given) <= self.network.all_gpus and (plan is None or plan.communication_s > enough_s * (1 + SLIGHT)):
            for matrix in circuits_up_to_names(self.network.pods, self.network.ports):
                least = NEVER if plan is None else plan.communication_s
                if least <= enough_s * (1 + SLIGHT):
                    break
                units = place_stripes(jobs, self.network, matrix, least * self.network.circuit * (1 - SLIGHT))
                if units is None:
                    continue
                sent = whole_circuits(commodities_of(jobs, units), self.network.pods, self.network.ports)
                candidate = finished(group, jobs, given, units, sent, self.network)
                if plan is None or candidate.communication_s < plan.communication_s:
                    plan = candidate
        self._known[group] = (enough_s, plan)
        return plan


@cache
def circuits_up_to_names(pods: int, ports: int) -> tuple[Any, ...]:
    """Return configurations to which no circuit can be added, one of each class that differs only in pods' names."""
    listed = all_circuits(pods, ports, 10**5)
    if listed is None:
        raise TdmError(f"exact: {ports} ports of {pods} pods are too many ways to lay circuits; use policy striped")
    classes: dict[bytes, Any] = {}
    for matrix in listed:
        classes.setdefault(nameless(matrix)[0], matrix)
    return tuple(classes[key] for key in sorted(classes, reverse=True))


@cache
def steiner_trees(pods: int, terminals: tuple[int, ...]) -> tuple[tuple[Edge, ...], ...]:
    """Return all trees over some of the pods that contain all terminals, and whose leaves are terminals."""
    edge_sets = []
    for size in range(len(terminals), pods + 1):
        for others in combinations([pod for pod in range(pods) if pod not in terminals], size - len(terminals)):
            nodes = sorted((*terminals, *others))
            for tree in trees(size):
                edges = tuple(sorted((min(nodes[a], nodes[b]), max(nodes[a], nodes[b])) for a, b in tree))
                degree = {pod: sum(pod in edge for edge in edges) for pod in others}
                if all(count > 1 for count in degree.values()):
                    edge_sets.append(edges)
    return tuple(edge_sets)


def place_stripes(jobs: Sequence[TdmJob], network: OpticalNetwork, matrix: Any, beaten: float) -> Units | None:
    """Place units for the least bytes over the circuits of ``matrix``; None: no placement has fewer than ``beaten``."""
    pods, seats = network.pods, network.pod_gpus
    joined = {(a, b) for a, b in combinations(range(pods), 2) if matrix[a][b]}
    scale = max(job.bytes * (1 if job.kind != "a2a" else job.units**2) for job in jobs)
    rows = Rows()
    whole: list[int] = []
    top: list[float] = []
    loads: dict[Edge, dict[int, float]] = {pair: {} for pair in joined}

    def variable(most: float, integral: int) -> int:
        top.append(most)
        whole.append(integral)
        return len(top) - 1

    time = variable(1.001 * beaten / scale, 0)  # just above the bound, because at the bound tolerances decide
    seated: list[list[int]] = []
    for job in jobs:
        n = [variable(min(seats, job.units), 1) for _ in range(pods)]
        seated.append(n)
        columns = list(spreads(job, pods, seats))
        picked = [variable(1, 1) for _ in columns]
        rows.row(dict.fromkeys(picked, 1.0), 1.0, 1.0)
        rows.row(dict.fromkeys(n, 1.0), job.units, job.units)
        for i in range(pods):
            inside = [x for x, own in zip(picked, columns, strict=True) if own[i]]
            if job.kind == "a2a":
                spread = {x: -float(own[i]) for x, own in zip(picked, columns, strict=True) if own[i]}
                rows.row({n[i]: 1.0, **spread}, 0.0, 0.0)
            else:
                rows.row({n[i]: 1.0, **dict.fromkeys(inside, -1.0)}, 0.0, np.inf)
                rows.row({n[i]: 1.0, **dict.fromkeys(inside, -float(seats))}, -np.inf, 0.0)
        # Variables are shares of the demand, because the solver's tolerances suit numbers of about 1.
        wanted: dict[tuple[int, ...], dict[int, float]] = {}
        size = 2.0 * job.bytes * job.units**2 / 4 if job.kind == "a2a" else float(job.bytes)
        for x, own in zip(picked, columns, strict=True):
            used = tuple(pod for pod, count in enumerate(own) if count)
            if job.kind == "a2a":
                for a, b in combinations(used, 2):
                    wanted.setdefault((a, b), {})[x] = -2.0 * own[a] * own[b] * job.bytes / size
            elif len(used) > 1:
                wanted.setdefault(used, {})[x] = -1.0
        for used, asked in wanted.items():
            carried = {}
            for tree in steiner_trees(pods, used):
                if all(edge in joined for edge in tree):
                    y = variable(1.0, 0)
                    carried[y] = 1.0
                    for edge in tree:
                        loads[edge][y] = size / scale
            rows.row({**asked, **carried}, 0.0, 0.0)
    for i in range(pods):
        rows.row({row[i]: 1.0 for row in seated}, -np.inf, seats)
    for (a, b), carried in loads.items():
        rows.row({time: -float(matrix[a][b]), **carried}, -np.inf, 0.0)
    cost = np.zeros(len(top))
    cost[time] = 1.0
    solved = rows.solve(cost, whole=whole, most=top, mip_rel_gap=SLIGHT)
    if solved.x is None or float(solved.x[time]) * scale >= beaten:
        return None
    return tuple(tuple(round(float(solved.x[x])) for x in row) for row in seated)


def spreads(job: TdmJob, pods: int, seats: int) -> Iterator[tuple[int, ...]]:
    """Yield the placements of a job in the program: 1 for each pod that it uses, or (a2a) the units in each pod."""
    for units in product(range(min(seats, job.units) + 1), repeat=pods) if job.kind == "a2a" else ():
        if sum(units) == job.units:
            yield units
    if job.kind != "a2a":
        for used in product((0, 1), repeat=pods):
            if sum(used) <= job.units <= sum(used) * seats:
                yield used


@register_scheduler("exact", turns=False)
def exact(jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions) -> Schedule:
    """Minimize t_round of two groups with stripes and relays (to 4 pods, 8 jobs): integer programs, all circuits."""
    return wide_optimum(jobs, network, options)


def wide_optimum(
    jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions, pods: int = WIDE_PODS
) -> Schedule:
    """Return the schedule of `exact`; ``pods``: largest number of pods (programs with 5 take some seconds each)."""
    if network.pods > pods or len(jobs) > JOBS:
        raise TdmError(f"exact: at most {pods} pods and {JOBS} jobs; use policy striped")
    if any(job.elastic or job.hosts for job in jobs) or network.gpus != 1:
        raise TdmError("exact: takes gangs that it may place, and servers of one GPU; use policy striped")
    best = _branch(jobs, _Wide(jobs, network, options.moves, options.seed), options.reading)
    return two_groups("exact", jobs, network, options, agree(jobs, best, network, options.reading))


# A lower bound for all plans of a placement.


def bound_s(schedule: Schedule, jobs: Sequence[TdmJob]) -> float:
    """Return a lower bound in seconds on the round with these hosts and groups.

    Circuits, trees and shares are free, at any time and without dark time: a group's communication takes at least the
    time of its NICs, and that of a fractional packing of Steiner trees with l_e >= 0 (`columns`).
    """
    by_name = {job.name: job for job in jobs}
    return max(_cycle_bound_s(schedule, cycle, by_name) for cycle in schedule.cycles)


def _cycle_bound_s(schedule: Schedule, cycle: Cycle, jobs: Mapping[str, TdmJob]) -> float:
    plans = {name: schedule.plan(name) for name in cycle.jobs}
    if cycle.mode != "gated":  # its period is that of its first job
        first = plans[cycle.jobs[0]]
        return first.train_s + _least_s(schedule.network, [first], jobs)
    turns = [[plans[name] for name in own] for own in turns_of(schedule, cycle).values()]
    sent = [_least_s(schedule.network, own, jobs) for own in turns]
    trained = [max(plan.train_s for plan in own) for own in turns]
    if len(turns) == 1:
        return busiest_gpu_s(*_placed(turns[0], jobs), schedule.network) + sent[0]
    return sum(max(took, *(own for x, own in enumerate(trained) if x != place)) for place, took in enumerate(sent))


def _placed(plans: Sequence[JobPlan], jobs: Mapping[str, TdmJob]) -> tuple[list[TdmJob], list[Placement]]:
    return [jobs[plan.job] for plan in plans], [plan.placement for plan in plans]


def _least_s(network: OpticalNetwork, plans: Sequence[JobPlan], jobs: Mapping[str, TdmJob]) -> float:
    """Return a lower bound in seconds for jobs that communicate at the same time."""
    own, where = _placed(plans, jobs)
    units = []
    for placement in where:
        row = [0] * network.pods
        for host, count in placement:
            row[network.pod_of(host)] += count
        units.append(tuple(row))
    least = free_bytes(commodities_of(own, tuple(units)), network.pods, network.ports)
    return max(busiest_nic_s(own, where, network), least / network.circuit)


# `best`: the best plan of all other policies.


ASKED: Final = ("striped", "tdm", "exact", "no-tdm", "static", "pairs", "layers")
"""policies that `best` tries; exact up to 4 pods"""


@register_scheduler("best", turns=False)
def best(jobs: Sequence[TdmJob], network: OpticalNetwork, options: TurnOptions) -> Schedule:
    """Return the best schedule of striped, tdm, exact (to 4 pods), no-tdm, static, pairs and layers, by prediction."""
    tried: list[Tried] = []
    chosen: tuple[tuple[float, float], Schedule] | None = None
    for number, policy in enumerate(ASKED):
        if options.progress is not None:
            options.progress(policy, number, len(ASKED))
        try:
            schedule = make_schedule(policy, jobs, network, replace(options, progress=None))
        except TdmError as error:
            tried.append(Tried(policy, refused=str(error)))
            continue
        if options.clock == "slots" and len(schedule.cycles) > 1:
            tried.append(Tried(policy, refused="clock: slots are those of one cycle, and jobs have several"))
            continue
        rates = relative_to_alone(schedule, jobs)
        longest_s = longest_iteration_s(schedule, rates, jobs)
        mean = sum(rates.values()) / len(rates)
        tried.append(Tried(policy, longest_s, mean))
        # Ties are decided by the other criterion.
        value = (longest_s, -mean) if options.of == "round" else (-mean, longest_s)
        if chosen is None or _better(value, chosen[0]):
            chosen = value, schedule
    if chosen is None:
        raise TdmError(tried[0].refused)
    return replace(chosen[1], tried=tuple(tried))


def _better(value: tuple[float, float], other: tuple[float, float]) -> bool:
    if abs(value[0] - other[0]) > SLIGHT * abs(other[0]):
        return value[0] < other[0]
    return value[1] < other[1] - SLIGHT * abs(other[1])


def relative_to_alone(schedule: Schedule, jobs: Sequence[TdmJob]) -> dict[str, float]:
    """Return the predicted throughput of each job relative to that with dedicated GPUs and NICs."""
    relative: dict[str, float] = {}
    by_name = {job.name: job for job in jobs}
    for cycle in schedule.cycles:
        plans = [schedule.plan(name) for name in cycle.jobs]
        alone = [TimesAlone(plan.train_s, _alone_s(by_name[plan.job], plan, schedule.network)) for plan in plans]
        if cycle.mode == "gated" or len(plans) != 2:
            rates = [own.period_s / cycle.period_s if cycle.period_s else 1.0 for own in alone]
        else:
            as_planned = [TimesAlone(plan.train_s, plan.duration_s) for plan in plans]
            shared = Sharing("exclusive", (0.5, 0.5))
            if cycle.mode != "exclusive":
                first = (0 if plans[0].priority == 0 else 1) if cycle.mode == "priority" else None
                shift_s = abs(plans[1].train_start_s - plans[0].train_start_s)
                shared = Sharing(cycle.mode, play(as_planned[0], as_planned[1], first, shift_s=shift_s))
            rates = [
                rate * own.period_s / planned_.period_s if planned_.period_s else 1.0
                for rate, own, planned_ in zip(shared.relative, alone, as_planned, strict=True)
            ]
        relative |= {plan.job: min(1.0, rate) for plan, rate in zip(plans, rates, strict=True)}
    return relative


def _alone_s(job: TdmJob, plan: JobPlan, network: OpticalNetwork) -> float:
    """Return the seconds of a job's communication on its own NICs."""
    return busiest_nic_s([job], [plan.placement], network)


def longest_iteration_s(schedule: Schedule, rates: Mapping[str, float], jobs: Sequence[TdmJob]) -> float:
    """Return the longest predicted iteration of a job in seconds; for jobs that are gated together, the round."""
    longest = 0.0
    by_name = {job.name: job for job in jobs}
    for cycle in schedule.cycles:
        if cycle.mode == "gated":
            longest = max(longest, cycle.period_s)
            continue
        for plan in map(schedule.plan, cycle.jobs):
            alone = plan.train_s + _alone_s(by_name[plan.job], plan, schedule.network)
            longest = max(longest, alone / rates[plan.job] if rates[plan.job] > 0 else NEVER)
    return longest
