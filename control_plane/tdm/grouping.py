"""Partitions of jobs into two groups: Algorithm 1, a local search, and the best of all partitions."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from random import Random
from typing import Final

import numpy as np

from p4reduce.control_plane.tdm.circuits import Floats, Reading, process_s, round_s
from p4reduce.control_plane.tdm.groups import NEVER, Group, GroupPlan, GroupPlanner
from p4reduce.control_plane.tdm.jobs import TdmError, TdmJob

# Local search for two groups on the bound of a round: flips and swaps of gangs, vectorized.


Mask = np.typing.NDArray[np.bool_]


def descend(
    first: Mask, nic_s: Floats, train_s: Floats, units: Floats, gpus: int, delta_s: float, reading: Reading
) -> Mask:
    """Return the local optimum below a partition: take the best flip or swap while the bound falls. O(J^2) a step.

    Parameters
    ----------
    first : bool (jobs,)
        Jobs of the first group; both groups must fit.
    nic_s, train_s, units : float64 (jobs,)
        Seconds of each job's NICs and training, and its GPUs.
    gpus, delta_s, reading
        Largest number of GPUs of a group; the others as in `process_s`.

    Returns
    -------
    bool (jobs,)
    """
    here = first.copy()
    least = float(_bound(*_tops(here, nic_s, train_s), delta_s, reading)[0])
    while True:
        inside, outside = np.flatnonzero(here), np.flatnonzero(~here)
        # A swap takes a job out of each side; index -1 stands for no job and makes it a flip.
        a, b = np.append(inside, -1), np.append(outside, -1)
        size_a, size_b = np.append(units[inside], 0.0), np.append(units[outside], 0.0)
        moved = size_b[None, :] - size_a[:, None]
        fits = (units[inside].sum() + moved <= gpus) & (units[outside].sum() - moved <= gpus)
        fits[-1, -1] = False
        values = []
        for of in (nic_s, train_s):
            own, other = np.append(of[inside], 0.0), np.append(of[outside], 0.0)
            values.append(np.maximum(_without(own)[:, None], other[None, :]))
            values.append(np.maximum(_without(other)[None, :], own[:, None]))
        time = _bound(values[0], values[1], values[2], values[3], delta_s, reading)
        time = np.where(fits, time, np.inf)
        best = int(np.argmin(time))
        if not time.size or time.flat[best] >= least * (1 - 1e-9):
            return here
        least = float(time.flat[best])
        x, y = divmod(best, len(b))
        if a[x] >= 0:
            here[a[x]] = False
        if b[y] >= 0:
            here[b[y]] = True


def _without(values: Floats) -> Floats:
    """Return, for each value, the largest of the others; the last value stands for no job and is never left out."""
    if len(values) == 1:
        return values
    order = np.argsort(values)
    largest = np.full(len(values), values[order[-1]])
    largest[order[-1]] = values[order[-2]]
    largest[-1] = values.max()
    return largest


def _tops(here: Mask, nic_s: Floats, train_s: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    return (
        np.array(nic_s[here].max(initial=0.0)),
        np.array(nic_s[~here].max(initial=0.0)),
        np.array(train_s[here].max(initial=0.0)),
        np.array(train_s[~here].max(initial=0.0)),
    )


def _bound(c1: Floats, c2: Floats, w1: Floats, w2: Floats, delta_s: float, reading: Reading) -> Floats:
    """Return `round_s` of arrays."""
    total: Floats = np.zeros(1)
    dark = np.where((c1 > 0) & (c2 > 0), delta_s, 0.0)
    for communicates, trains in ((c1, w2), (c2, w1)):
        if reading == "literal":
            total = total + np.maximum(communicates, trains)
        elif reading == "serial":
            total = total + dark + np.maximum(communicates, trains)
        else:
            total = total + np.maximum(dark + communicates, trains)
    return total


RESTARTS: Final = 12
_SAME: Final = 1.0 - 1e-9


@dataclass(frozen=True)
class Partition:
    """Two groups, each planned."""

    groups: tuple[GroupPlan, GroupPlan]
    round_s: float


class RoundTimes:
    """Computes t_round for partitions of the same jobs."""

    def __init__(
        self, jobs: Sequence[TdmJob], planner: GroupPlanner, delta_s: float, reading: Reading = "overlap"
    ) -> None:
        self.jobs = jobs
        self.planner = planner
        self.delta_s, self.reading = delta_s, reading

    def of(self, first: Group) -> Partition | None:
        """Return the best partition with this first group; None if it is impossible."""
        rest = self.rest(first)
        best: Partition | None = None
        for plan, other in product(self.planner.options(first), self.planner.options(rest)):
            time = self._time(plan, other)
            if time < NEVER and (best is None or time < best.round_s):
                best = Partition((plan, other), time)
        return best

    def bound(self, first: Group) -> float:
        """Return a lower bound on the round of the partition with this first group."""
        (c1, w1), (c2, w2) = self.planner.bound(first), self.planner.bound(self.rest(first))
        if NEVER in (c1, c2, w1, w2):
            return NEVER
        return round_s(((c1,), (c2,)), (w1, w2), self.delta_s, self.reading)

    def rest(self, first: Group) -> Group:
        """Return the other group."""
        return tuple(j for j in range(len(self.jobs)) if j not in first)

    def _time(self, plan: GroupPlan, other: GroupPlan) -> float:
        # A round without a second group does not switch, and nothing goes dark.
        delta = self.delta_s if plan.jobs and other.jobs else 0.0
        return round_s((plan.phases, other.phases), (plan.training_s, other.training_s), delta, self.reading)


def hill_climbing(rounds: RoundTimes) -> Partition:
    """Run Algorithm 1: flip the group of each job, take the best flip (ties: first job) while t_round falls.

    Our reading: t_round starts with A = J, without TDM, not at infinity; ``max{NS}`` of line 3 is min. If A = J does
    not fit (gangs), the start is balanced by units. GPUs are adjusted at the end, when the plan is adopted, if that is
    not worse: with an adjustment after each step, t_round would not be that of the adopted plan. Each step evaluates
    |J| partitions; the planner caches groups.

    Raises
    ------
    TdmError
        When none of the evaluated partitions fits.
    """
    everybody = tuple(range(len(rounds.jobs)))
    best = rounds.of(everybody)
    if best is None:
        start = fitting_split(rounds.jobs, rounds.planner.network.all_gpus, everybody)
        best = None if start is None else rounds.of(start)
    if best is None:
        raise TdmError("the jobs do not fit two groups; use fewer workers, or more hosts")
    while True:
        flipped = [rounds.of(_flipped(best.groups[0].jobs, job)) for job in everybody]
        better = [
            partition for partition in flipped if partition is not None and partition.round_s < best.round_s * _SAME
        ]
        if not better:
            return best
        best = min(better, key=lambda partition: partition.round_s)


def best_by_bounds(
    bounds: Mapping[Group, float],
    plan: Callable[[Group, float], Partition | None],
    best: Partition | None = None,
) -> Partition:
    """Return the best of some partitions, planned in the order of their bounds until no other can be better.

    Parameters
    ----------
    bounds : mapping
        Lower bounds of rounds, by the first group of each partition.
    plan : callable
        Takes that group and the best round so far; returns the partition, or None if it does not fit or is no better.
    best : Partition or None
        A partition that is known already.

    Raises
    ------
    TdmError
        When no partition fits.
    """
    for group in sorted(bounds, key=lambda candidate: (bounds[candidate], candidate)):
        if bounds[group] == NEVER or (best is not None and bounds[group] >= best.round_s * _SAME):
            break
        partition = plan(group, NEVER if best is None else best.round_s)
        if partition is not None and (best is None or partition.round_s < best.round_s):
            best = partition
    if best is None:
        raise TdmError("the jobs do not fit two groups; use fewer workers, or more hosts")
    return best


def search_partition(
    rounds: RoundTimes, *, restarts: int = RESTARTS, seed: int = 1, evaluations: int = 400
) -> Partition:
    """Search by flips and swaps from several starts (ours); plan only partitions whose bound beats the best so far.

    The bound (NICs and training, no circuits) is cheap and mostly tight, since packing keeps circuits from being the
    bottleneck. Local search therefore uses bounds first, and plans its optima in the order of their bounds.

    Raises
    ------
    TdmError
        When none of the evaluated partitions fits.
    """
    jobs = len(rounds.jobs)
    gpus = rounds.planner.network.all_gpus
    drawn = [random_split(rounds.jobs, gpus, seed * 1000 + number) for number in range(restarts + 1)]
    drawn.append(named_split(rounds.jobs, rounds.planner.network.gpus))
    starts = [tuple(range(jobs)), *(split for split in drawn if split is not None)]
    candidates: dict[Group, float] = {}
    gangs = not any(job.elastic for job in rounds.jobs)
    for start in starts:
        group = _descend_gangs(start, rounds) if gangs else _descend(start, rounds.bound, jobs)
        candidates[group] = rounds.bound(group)
        candidates.setdefault(start, rounds.bound(start))
    try:
        best = best_by_bounds(candidates, lambda group, _: rounds.of(group))
    except TdmError:
        for j in range(jobs):  # a job that is impossible by itself raises the reason
            rounds.planner.options((j,))
        raise
    seen = set(candidates)
    left = evaluations
    improved = True
    while improved and left > 0:
        improved = False
        near = {
            neighbour: rounds.bound(neighbour)
            for neighbour in neighbours(best.groups[0].jobs, jobs)
            if neighbour not in seen
        }
        for group in sorted(near, key=lambda neighbour: (near[neighbour], neighbour)):
            if near[group] >= best.round_s * _SAME or left <= 0:
                break
            seen.add(group)
            left -= 1
            partition = rounds.of(group)
            if partition is not None and partition.round_s < best.round_s * _SAME:
                best, improved = partition, True
                break
    return best


def all_partitions(rounds: RoundTimes) -> Partition:
    """Return the best of all 2^(J - 1) partitions, by branch and bound on :meth:`RoundTimes.bound`.

    Raises
    ------
    TdmError
        When no partition fits.
    """
    jobs = len(rounds.jobs)
    others = range(1, jobs)
    groups = [(0, *chosen) for size in range(jobs) for chosen in combinations(others, size)]
    bounds = {group: rounds.bound(group) for group in groups}
    return best_by_bounds(bounds, lambda group, _: rounds.of(group))


def process_times(partition: Partition, delta_s: float, reading: Reading = "overlap") -> tuple[float, float]:
    """Return T_1 and T_2 in seconds."""
    first, other = partition.groups
    delta = delta_s if first.jobs and other.jobs else 0.0
    return (
        process_s(first.phases, other.training_s, delta, reading),
        process_s(other.phases, first.training_s, delta, reading),
    )


def _flipped(group: Group, job: int) -> Group:
    return tuple(j for j in group if j != job) if job in group else tuple(sorted((*group, job)))


def neighbours(group: Group, jobs: int) -> list[Group]:
    """Return the groups that differ from a group by a flip, then those that differ by a swap."""
    inside, outside = list(group), [j for j in range(jobs) if j not in group]
    swaps = [tuple(sorted((*(x for x in inside if x != a), b))) for a in inside for b in outside]
    return [_flipped(group, job) for job in range(jobs)] + swaps


def _descend_gangs(start: Group, rounds: RoundTimes) -> Group:
    single = [rounds.planner.bound((j,)) for j in range(len(rounds.jobs))]
    nic_s, train_s = np.array([c for c, _ in single]), np.array([w for _, w in single])
    units = np.array([job.units for job in rounds.jobs], np.float64)
    gpus = rounds.planner.network.all_gpus
    first = np.isin(np.arange(len(units)), start)
    if units[first].sum() > gpus or units[~first].sum() > gpus:
        return start
    inside = descend(first, nic_s, train_s, units, gpus, rounds.delta_s, rounds.reading)
    return tuple(int(j) for j in np.flatnonzero(inside))


def _descend(start: Group, value: Callable[[Group], float], jobs: int) -> Group:
    here, least = start, value(start)
    while True:
        best = min(neighbours(here, jobs), key=lambda neighbour: (value(neighbour), neighbour), default=here)
        if value(best) >= least * _SAME and not (least == NEVER and value(best) < NEVER):
            return here
        here, least = best, value(best)


def fitting_split(jobs: Sequence[TdmJob], gpus: int, order: Sequence[int]) -> Group | None:
    """Return the jobs of the first of two groups that both fit, with about half of the units; None: impossible.

    Computed from the sums reachable with each job in the given ``order``, which decides among equals. O(J * units).
    """
    units = [2 if job.elastic else job.units for job in jobs]
    total = sum(units)
    reached = [{0}]
    for j in order:
        reached.append(reached[-1] | {before + units[j] for before in reached[-1]})
    fitting = [size for size in reached[-1] if size <= gpus and total - size <= gpus]
    if not fitting:
        return None
    left = min(fitting, key=lambda size: (abs(2 * size - total), size))
    first = []
    for place in range(len(order) - 1, -1, -1):
        if left not in reached[place]:
            first.append(order[place])
            left -= units[order[place]]
    return tuple(sorted(first))


def named_split(jobs: Sequence[TdmJob], gpus: int) -> Group | None:
    """Return the first of two groups in which no two jobs want more of a named host than its GPUs.

    Return None if there are no such groups, or no two jobs conflict on a host.
    """
    import networkx as nx  # noqa: PLC0415  (slow to import)

    graph: nx.Graph[int] = nx.Graph()
    wanted = [Counter(job.hosts) for job in jobs]
    for a, b in combinations(range(len(jobs)), 2):
        if any(wanted[a][host] + wanted[b][host] > gpus for host in wanted[a].keys() & wanted[b].keys()):
            graph.add_edge(a, b)
    if not graph or not nx.is_bipartite(graph):
        return None
    sides = [0, 0]
    first: list[int] = [j for j in range(len(jobs)) if j not in graph]
    for part in nx.connected_components(graph):
        colour = nx.bipartite.color(graph.subgraph(part))
        own = [[j for j in part if colour[j] == side] for side in (0, 1)]
        units = [sum(jobs[j].units for j in side) for side in own]
        turned = sides[0] + units[0] > sides[1] + units[1]
        first += own[1] if turned else own[0]
        sides[0] += units[turned]
        sides[1] += units[not turned]
    return tuple(sorted(first))


def random_split(jobs: Sequence[TdmJob], gpus: int, seed: int) -> Group | None:
    """Return the first group of a random partition that fits, balanced by units; None if there is none."""
    order = list(range(len(jobs)))
    Random(seed).shuffle(order)  # noqa: S311
    return fitting_split(jobs, gpus, order)
