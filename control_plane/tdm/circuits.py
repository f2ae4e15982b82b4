"""Circuits for a demand: their number for each pair of pods, so that the slowest pair takes the least time.

Algorithm 2 only says "Determine the OXC topology by F". For direct circuits the least time is exact: T is feasible if
every ToR has the ports, sum_j ceil(D_ij / (T B)) <= R, and the least feasible T is some D_ij / (l B) with l <= R, found
by binary search among those.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from p4reduce.control_plane.tdm.jobs import TdmError, TdmJob
from p4reduce.control_plane.tdm.schedule import Matrix, PodRoute

# Bytes between pods and inside them: equations (4) and (5).
#
# The corrected reading is the default, ``literal=True`` the printed one:
#
# - (4) has a factor of 2 for RAR and A2A, and (1) sums over both sub-phases: each would count twice. Corrected: 1.
# - (4) counts GPUs (G), (5) units (AN): equal only if a unit is one GPU, as it is here. A_i = AN_i (U - 1) F.
# - (5) prints F_i for F_p, F_r and F_a, and A for R in its second line. A ring's link carries F (m - 1) / m in a
#   sub-phase, not F. PN of the pod that has the PS is 0: it sends nothing to itself over the OXC.


Phase = Literal[1, 2]
Floats = npt.NDArray[np.float64]


def pod_bytes(job: TdmJob, units: Sequence[int], *, literal: bool = False) -> Floats:
    """Return (4): the bytes between each pod's ToR and its servers in one sub-phase, equal in both directions.

    Parameters
    ----------
    job : TdmJob
        Its kind and bytes.
    units : sequence of int, (pods,)
        G_i, units in each pod.
    literal : bool
        Whether to use the printed equation.

    Returns
    -------
    float64 (pods,)
    """
    here = np.asarray(units, np.float64)
    factor = 2.0 if literal and job.kind != "ps" else 1.0
    others = float(here.sum()) - 1.0 if job.kind == "a2a" else 1.0
    return factor * here * others * job.bytes


def pair_bytes(
    job: TdmJob,
    units: Sequence[int],
    phase: Phase,
    *,
    ps_pod: int | None = None,
    ring: Sequence[int] = (),
    literal: bool = False,
) -> Floats:
    """Return (5): the bytes from pod to pod over the OXC in one sub-phase.

    ToRs aggregate their pod's data before it leaves (INC): PS and RAR send one copy for each pod.

    Parameters
    ----------
    job, units, literal
        As in :func:`pod_bytes`.
    phase : 1 or 2
        PS: push, pull. The others send the same in both.
    ps_pod : int
        n_p, of a PS.
    ring : sequence of int
        Pods of a RAR in the order of its ring; each sends to the next.

    Returns
    -------
    float64 (pods, pods)
        [i, j]: from i to j.
    """
    here = np.asarray(units, np.float64)
    traffic: Floats = np.zeros((len(here), len(here)))
    if job.kind == "ps":
        if ps_pod is None:
            raise ValueError("ps_pod: a PS job has its PS in a pod")
        for pod, units_here in enumerate(here):
            if units_here and pod != ps_pod:
                traffic[(pod, ps_pod) if phase == 1 else (ps_pod, pod)] = job.bytes
    elif job.kind == "rar":
        size = len(ring)
        share = 1.0 if literal else (size - 1) / max(size, 1)
        for place, pod in enumerate(ring if size > 1 else ()):
            traffic[pod, ring[(place + 1) % size]] += job.bytes * share
    else:
        traffic += np.outer(here, here) * job.bytes
        np.fill_diagonal(traffic, 0.0)
    return traffic


def both_ways(demand: Any) -> Floats:
    """Return the load of full-duplex circuits: the larger of both directions (max, not sum)."""
    largest: Floats = np.maximum(demand, np.transpose(demand))
    return largest


_SLACK = 1.0 - 1e-12
"""tolerates D / T slightly above a whole number by rounding"""


@dataclass(frozen=True)
class CircuitConfiguration:
    """A configuration for a demand."""

    matrix: Matrix
    bytes: float
    """bytes over a circuit of the busiest pair, T * B; 0 if nothing is sent"""


def least_time(demand: Floats, ports: int) -> CircuitConfiguration:
    """Return the circuits with the least time of the busiest pair of pods, and at least one for each pair that sends.

    O(P^2 R log(P R)).

    Parameters
    ----------
    demand : float64 (pods, pods)
        Bytes; the larger of both directions counts.
    ports : int
        R.

    Raises
    ------
    TdmError
        When a pod has more neighbours than ports, so that direct circuits do not suffice.
    """
    wanted = both_ways(demand)
    neighbours = (wanted > 0).sum(axis=1)
    worst = int(neighbours.argmax()) if len(neighbours) else 0
    if len(neighbours) and neighbours[worst] > ports:
        raise TdmError(
            f"pod {worst + 1} would need circuits to {neighbours[worst]} pods and has {ports} ports; place jobs in "
            "fewer pods, or give ToRs more ports"
        )
    used = wanted[wanted > 0]
    if not len(used):
        return CircuitConfiguration(_matrix(np.zeros(wanted.shape, np.int64)), 0.0)
    times = np.unique(np.divide.outer(np.unique(used), np.arange(1, ports + 1)))
    low, high = 0, len(times) - 1
    while low < high:
        middle = (low + high) // 2
        if (_needed(wanted, times[middle]).sum(axis=1) <= ports).all():
            high = middle
        else:
            low = middle + 1
    return CircuitConfiguration(_matrix(_needed(wanted, times[low])), float(times[low]))


def _needed(wanted: Floats, time: float) -> "np.typing.NDArray[np.int64]":
    return np.ceil(wanted / time * _SLACK).astype(np.int64)


def _matrix(values: "np.typing.NDArray[np.int64]") -> Matrix:
    return tuple(tuple(int(value) for value in row) for row in values)


# Algorithm 3: a ring over the pods of a job that reuses existing circuits.


def form_ring(root: Sequence[int], traffic: Floats) -> tuple[int, ...]:
    """Return the pods of a job in the order of a ring along as many existing links as possible.

    The algorithm begins with the links between pods of the job. While a pod has more than two, its link to the
    neighbour of highest degree is cut (among equals the one with least traffic, then the first pod: the paper leaves it
    open). Then every closed ring is cut at its least loaded link (left open, too), and the remaining paths are chained
    in the order of their smallest pods (the paper: "sequentially"). One pod needs no ring, and two have one link: the
    text does not mention this. Degrees are a list of |P| numbers (printed: a 1 x |P| matrix of 0 x |P|). O(m^2).

    Parameters
    ----------
    root : sequence of int
        root_node: pods of the job, each once.
    traffic : float64 (pods, pods)
        Bytes between pods so far in either direction, which define the links. (The paper calls demand and rate both B.)

    Returns
    -------
    tuple of int
        The pods, each sending to the next and the last to the first.
    """
    pods = sorted(root)
    if len(pods) <= 2:
        return tuple(pods)
    weight = traffic + traffic.T
    links = {pod: {other for other in pods if other != pod and weight[pod, other] > 0} for pod in pods}
    for pod in pods:
        while len(links[pod]) > 2:
            other = min(links[pod], key=lambda neighbour: (-len(links[neighbour]), weight[pod, neighbour], neighbour))
            _cut(links, pod, other)
    for part in _parts(links):
        if len(part) > 2 and all(len(links[pod]) == 2 for pod in part):
            pairs = [(pod, other) for pod in part for other in links[pod] if pod < other]
            _cut(links, *min(pairs, key=lambda pair: (weight[pair], pair)))
    return tuple(pod for part in _parts(links) for pod in _along(part, links))


def _cut(links: dict[int, set[int]], a: int, b: int) -> None:
    links[a].discard(b)
    links[b].discard(a)


def _parts(links: dict[int, set[int]]) -> list[list[int]]:
    """Return the connected parts, in the order of their smallest pods."""
    seen: set[int] = set()
    parts = []
    for pod in links:
        if pod not in seen:
            part = _reach(pod, links)
            seen.update(part)
            parts.append(sorted(part))
    return parts


def _reach(pod: int, links: dict[int, set[int]]) -> list[int]:
    """Return the reachable pods, each after a pod that it is joined to."""
    reached = [pod]
    for here in reached:
        reached += sorted(links[here] - set(reached))
    return reached


def _along(part: list[int], links: dict[int, set[int]]) -> list[int]:
    """Return the path of a part's pods, from one of its ends."""
    end: Callable[[int], bool] = lambda pod: len(links[pod]) < 2  # noqa: E731
    here = next(filter(end, part))
    way = [here]
    while following := [other for other in links[here] if other not in way]:
        here = following[0]
        way.append(here)
    return way


# The duration of a round: equations (1), (2) and (3).


Reading = Literal["overlap", "serial", "literal"]
READINGS: Final = ("overlap", "serial", "literal")


def communication_s(demand: Floats, circuits: Floats, circuit: float, nic_s: float) -> float:
    """Return (2), a lower bound on the seconds of a sub-phase: max over pairs of D_ij / (B L_ij), or the busiest NIC.

    In print D is in bytes and B in bits a second; here both are bytes. D_i / B_tor of (2) shares the pod's NICs among
    all jobs, but a job has only those of its own servers: ``nic_s`` is max over servers of D_server / b.

    Parameters
    ----------
    demand : float64 (pods, pods)
        Bytes from pod to pod.
    circuits : (pods, pods)
        L.
    circuit : float
        B, bytes a second.
    nic_s : float
        Seconds of the busiest NIC.

    Returns
    -------
    float
        Infinite if L_ij = 0 and D_ij > 0, which (2) leaves open.
    """
    wanted = demand > 0
    if not wanted.any():
        return nic_s
    if (np.asarray(circuits)[wanted] == 0).any():
        return float("inf")
    return max(nic_s, float((demand[wanted] / (circuit * np.asarray(circuits)[wanted])).max()))


def process_s(phases: Sequence[float], training_s: float, delta_s: float, reading: Reading = "overlap") -> float:
    """Return (3): the seconds of a process in which one group communicates and the other trains.

    Parameters
    ----------
    phases : sequence of float
        C_kt, seconds of each sub-phase; one for pipelined chunks; none, or zeros, without communication.
    training_s : float
        W, the longest training of the other group.
    delta_s : float
        Reconfiguration time of the OXC; in none of the paper's equations.
    reading : 'overlap', 'serial' or 'literal'
        overlap: max(delta + C, W), since dark time overlaps with training. serial: delta + max(C, W).
        literal: as printed, sum over sub-phases of max(C_t, W), which counts training in each of them: up to twice too
        long; without delta.
    """
    total = float(sum(phases))
    if reading == "literal":
        return float(sum(max(phase, training_s) for phase in phases)) if phases else training_s
    dark = delta_s if total > 0 else 0.0
    if reading == "serial":
        return dark + max(total, training_s)
    return max(dark + total, training_s)


def round_s(
    phases: Sequence[Sequence[float]],
    training_s: Sequence[float],
    delta_s: float,
    reading: Reading = "overlap",
) -> float:
    """Return (1): t_round of two processes. ``training_s[k]`` belongs to group k, which trains in the other process."""
    return process_s(phases[0], training_s[1], delta_s, reading) + process_s(phases[1], training_s[0], delta_s, reading)


# All-to-all over several hops: pods forward for each other, on circuits that stay.
#
# This is one way for a job over more pods than a ToR has ports; `split` below lights one configuration after the other
# instead. Here each byte may cross more than one circuit, and nothing goes dark. The circuits form a circulant graph
# over the pods (pod i is joined to i +- d for each offset d), which is symmetric. Data for one unit travels along one
# tree, as switches forward by destination; trees are laid one after the other along the least loaded circuits,
# repeatedly.


MOST_TREES: Final = 8
"""largest number of trees towards each pod; its units use them in turn"""
PASSES: Final = 4
"""number of passes that lay every tree again"""
GRAPHS: Final = 4
"""number of graphs that are tried, those with the shortest paths"""
_MOST_SETS: Final = 512
"""largest number of sets of offsets that are examined"""


@dataclass(frozen=True)
class Hops:
    """All-to-alls of a group on circuits that stay."""

    matrix: Matrix
    """matrix of these circuits alone"""
    bytes: float
    """bytes over the busiest circuit"""
    routes: tuple[tuple[PodRoute, ...], ...]
    """routes of each job"""


@dataclass(frozen=True)
class _Job:
    units: tuple[int, ...]
    load: float


def several_hops(units: Sequence[Sequence[int]], loads: Sequence[int], free: Sequence[int]) -> Hops | None:
    """Return circuits and routes for simultaneous all-to-alls; jobs with common pods share circuits.

    Parameters
    ----------
    units : sequence of sequences of int, (jobs, pods)
        Units of each job in each pod.
    loads : sequence of int
        Bytes between two units in each direction, in both phases together.
    free : sequence of int
        Ports of each pod that no tree uses.

    Returns
    -------
    Hops or None
        None if a pod has too few ports: a ring over more than two pods takes two.
    """
    pods = len(free)
    lit = np.zeros((pods, pods), np.int64)
    most = 0.0
    routes: list[tuple[PodRoute, ...]] = [()] * len(units)
    for own in _components(units):
        members = sorted({pod for j in own for pod, count in enumerate(units[j]) if count})
        if len(members) < 2:
            continue
        ports = min(free[pod] for pod in members)
        jobs = [_Job(tuple(units[j][pod] for pod in members), float(loads[j])) for j in own]
        routed = _best(jobs, len(members), ports)
        if routed is None:
            return None
        joined, load, ways = routed
        most = max(most, load)
        for a, b in joined:
            lit[members[a], members[b]] = lit[members[b], members[a]] = 1
        for j, way in zip(own, ways, strict=True):
            routes[j] = tuple(PodRoute(tuple(members[pod] for pod in path), share) for path, share in way)
    return Hops(tuple(tuple(int(value) for value in row) for row in lit), most, tuple(routes))


Paths = list[tuple[tuple[int, ...], float]]
"""(pods, share of the data from the first to the last)"""


def _components(units: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the jobs grouped by common pods."""
    components: list[tuple[set[int], list[int]]] = []
    for j, row in enumerate(units):
        pods = {pod for pod, count in enumerate(row) if count}
        touching = [component for component in components if component[0] & pods]
        components = [component for component in components if not component[0] & pods]
        components.append(
            (
                pods.union(*(component[0] for component in touching)),
                sorted([j, *(x for component in touching for x in component[1])]),
            )
        )
    return [own for _, own in components]


def _best(jobs: Sequence[_Job], size: int, ports: int) -> tuple[set[tuple[int, int]], float, list[Paths]] | None:
    best: tuple[set[tuple[int, int]], float, list[Paths]] | None = None
    for offsets in _offsets(size, ports):
        joined = {(pod, (pod + d) % size) for pod in range(size) for d in offsets}
        load, ways = _route(jobs, size, joined)
        if best is None or load < best[1]:
            best = (joined, load, ways)
    return best


def _offsets(size: int, ports: int) -> list[tuple[int, ...]]:
    """Return the offsets of circulant graphs within the ports, those with the shortest paths first."""
    if size == 2 and ports >= 1:
        return [(1,)]
    if ports < 2:
        return []
    pairs = list(range(2, (size - 1) // 2 + 1))  # 1 is always in the set, and joins all pods
    count = min(len(pairs), ports // 2 - 1)
    half = (size // 2,) if size % 2 == 0 and ports >= 2 * (count + 1) + 1 else ()
    sets = [(1, *chosen, *half) for chosen in islice(combinations(pairs, count), _MOST_SETS)]
    return sorted(sets, key=lambda offsets: (_ways(size, offsets), offsets))[:GRAPHS]


def _ways(size: int, offsets: Sequence[int]) -> int:
    """Return the sum of the hops from one pod to all others."""
    distance, ring = {0: 0}, deque([0])
    while ring:
        here = ring.popleft()
        for d in offsets:
            for there in ((here + d) % size, (here - d) % size):
                if there not in distance:
                    distance[there] = distance[here] + 1
                    ring.append(there)
    return sum(distance.values())


def _route(jobs: Sequence[_Job], size: int, joined: set[tuple[int, int]]) -> tuple[float, list[Paths]]:
    """Return the bytes over the busiest circuit in one direction, and the paths of every job."""
    near: list[list[int]] = [sorted({b if a == pod else a for a, b in joined if pod in (a, b)}) for pod in range(size)]
    load: Floats = np.zeros((size, size))
    trees: dict[tuple[int, int, int], list[int]] = {}
    keys = [
        (j, target, tree)
        for j, job in enumerate(jobs)
        for target in range(size)
        for tree in range(min(MOST_TREES, job.units[target]))
    ]
    scale = sum(job.load * sum(job.units) ** 2 for job in jobs) / (2 * len(joined))
    for _ in range(PASSES):
        for key in keys:
            job, target = jobs[key[0]], key[1]
            weight = job.load * job.units[target] / min(MOST_TREES, job.units[target])
            if key in trees:
                _carry(load, trees[key], job, target, -weight)
            trees[key] = _tree(near, load / scale, target)
            _carry(load, trees[key], job, target, weight)
    ways = []
    for j, job in enumerate(jobs):
        paths: Paths = []
        for target in range(size):
            count = min(MOST_TREES, job.units[target])
            for source in range(size):
                if source != target and job.units[source]:
                    paths += [(_path(trees[j, target, tree], source), 1.0 / count) for tree in range(count)]
        ways.append(paths)
    return float(load.max(initial=0.0)), ways


def _tree(near: Sequence[Sequence[int]], load: Floats, target: int) -> list[int]:
    """Return the next pod of each pod towards ``target``, by few hops over circuits with little load (Dijkstra)."""
    size = len(near)
    cost = [float("inf")] * size
    onward = [target] * size
    cost[target] = 0.0
    left = set(range(size))
    while left:
        here = min(left, key=lambda pod: (cost[pod], pod))
        left.remove(here)
        for pod in near[here]:
            value = cost[here] + 1.0 + 8.0 * float(load[pod, here]) ** 2
            if value < cost[pod] - 1e-12:
                cost[pod], onward[pod] = value, here
    return onward


def _carry(load: Floats, onward: Sequence[int], job: _Job, target: int, weight: float) -> None:
    for source, count in enumerate(job.units):
        here = source
        while here != target and count:
            load[here, onward[here]] += weight * count
            here = onward[here]


def _path(onward: Sequence[int], source: int) -> tuple[int, ...]:
    path = [source]
    while onward[path[-1]] != path[-1]:
        path.append(onward[path[-1]])
    return tuple(path)


# Several configurations in one process, and multi-hop routes: for all-to-all over more pods than ports.
#
# (2) divides by L_ij, which is 0 for pods without a circuit; the paper does not treat m - 1 > R.


@dataclass(frozen=True)
class LoadedConfiguration:
    """One configuration, and the demand that it carries."""

    matrix: Matrix
    demand: Floats
    bytes: float
    """bytes over a circuit of the busiest pair"""


def split(demand: Floats, ports: int, first: frozenset[tuple[int, int]] = frozenset()) -> list[LoadedConfiguration]:
    """Divide a demand into configurations, each within the ports; ``bytes`` of all add up to the total.

    Pairs are taken round by round as in a tournament (P pods need P - 1 rounds, each a matching), each to the first
    configuration with ports left: ``ports`` rounds fill one. For K_m with equal demand this number is the least. O(P^2
    configurations). Pairs in ``first``, (smaller, larger), are all in the first configuration: trees are not divided.

    Raises
    ------
    TdmError
        When ToRs have no port, or too few for ``first``.
    """
    wanted = both_ways(demand)
    pods = len(wanted)
    if not wanted.any():
        return []
    if ports < 1:
        raise TdmError("ports: a pod without a port to the OXC cannot reach other pods; write ports=1 or more")
    alive = np.flatnonzero(wanted.any(axis=1))
    parts: list[Floats] = [np.zeros((pods, pods))] if first else []
    for a, b in first:
        parts[0][a, b], parts[0][b, a] = demand[a, b], demand[b, a]
    if first and any(_neighbours(parts[0], pod) > ports for pod in range(pods)):
        raise TdmError("ports: trees join a pod to more pods than it has ports; place jobs in fewer pods")
    for round_ in tournament(len(alive)):
        pairs = [(int(alive[a]), int(alive[b])) for a, b in round_ if wanted[alive[a], alive[b]] > 0]
        pairs = [(min(pair), max(pair)) for pair in pairs if (min(pair), max(pair)) not in first]
        for a, b in sorted(pairs, key=lambda pair: -wanted[pair]):
            fitting = (x for x in parts if _neighbours(x, a) < ports and _neighbours(x, b) < ports)
            part = next(fitting, None)
            if part is None:
                part = np.zeros((pods, pods))
                parts.append(part)
            part[a, b], part[b, a] = demand[a, b], demand[b, a]
    cut = []
    for part in parts:
        circuits = least_time(part, ports)
        cut.append(LoadedConfiguration(circuits.matrix, part, circuits.bytes))
    return cut


def _neighbours(demand: Floats, pod: int) -> int:
    return int(((demand[pod] > 0) | (demand[:, pod] > 0)).sum())


def tournament(players: int) -> list[list[tuple[int, int]]]:
    """Return rounds in which every player meets every other once: the circle method."""
    size = players + players % 2
    ring = list(range(size))
    rounds = []
    for _ in range(size - 1):
        rounds.append(
            [(a, b) for a, b in zip(ring[: size // 2], ring[: size // 2 - 1 : -1], strict=True) if max(a, b) < players]
        )
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return rounds
