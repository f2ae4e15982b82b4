"""Plans for a group of jobs that communicate together: placement, circuits, training and communication times."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Protocol

import numpy as np

from p4reduce.control_plane.tdm.circuits import (
    Floats,
    Reading,
    both_ways,
    communication_s,
    form_ring,
    least_time,
    pair_bytes,
    pod_bytes,
    several_hops,
    split,
)
from p4reduce.control_plane.tdm.jobs import (
    LEAST,
    OpticalNetwork,
    Placement,
    TdmError,
    TdmJob,
    busiest_nic_s,
    host_bytes,
    on_hosts,
    share_gpus,
)
from p4reduce.control_plane.tdm.packing import MOVES, Edge, Packed, PackingJob, demand, parts_of, search
from p4reduce.control_plane.tdm.schedule import Configuration, Matrix, PodRoute, PodTree, Ring

# Algorithm 2: the source's placement of a group of jobs, and the circuits for it.


@dataclass(frozen=True)
class SeedJob:
    """The placement of a job by Algorithm 2."""

    units: tuple[int, ...]
    """units in each pod"""
    ps_pod: int | None = None
    ring: tuple[int, ...] = ()


@dataclass(frozen=True)
class SeedGroup:
    """A group with its placement."""

    jobs: tuple[SeedJob, ...]
    """in the order of the given jobs"""
    demand: tuple[Floats, Floats]
    """D^t of the sub-phases, bytes from pod to pod"""
    circuits: Matrix | None
    """L; None if a pod would need more neighbours than it has ports, which the paper does not treat"""


def place_seed(jobs: Sequence[TdmJob], given: Sequence[int], network: OpticalNetwork) -> SeedGroup:
    """Place jobs one after the other, those with much traffic first. O(J log J + units P + J P^2).

    Our reading: the PS of a job is in the pod with the least OXC traffic; each unit goes to the pod, among those with a
    free GPU, where max(oxc, tor * B_oxc / B_tor) is least before the job, so units fill that pod, then spill to the
    next. (``exc_rate`` is described as B_oxc / B_tor; division by it is inverted: both planes are compared in seconds
    only with B_tor / B_oxc.) A PS job's own traffic counts once its pods are known, not before. Capacity is checked,
    traffic is updated after every job, and pods to which units spill are in ``root_node``: the printed text misses all
    three.

    Parameters
    ----------
    jobs : sequence of TdmJob
        Jobs of a group.
    given : sequence of int
        g_j, units of each: the job's own ('gang'), or those of :func:`p4reduce.control_plane.tdm.jobs.share_gpus`
        ('elastic').
    network : OpticalNetwork
        Its rates and GPUs.

    Raises
    ------
    TdmError
        When there are more units than GPUs.
    """
    pods = network.pods
    if sum(given) > network.all_gpus:
        raise TdmError(f"{sum(given)} units for {network.all_gpus} GPUs; use fewer workers, or more hosts")
    free = [network.pod_gpus] * pods
    named: dict[str, int] = {}
    for host in (host for job in jobs for host in job.hosts):
        free[network.pod_of(host)] -= 1
        named[host] = named.get(host, 0) + 1
        if named[host] > network.gpus:
            raise TdmError(f"workers: {host} is named more often than it has GPUs; name another host")
    oxc, tor = np.zeros(pods), np.zeros(pods)
    ratio = (network.ports * network.circuit) / (network.servers * network.nic) if network.ports else 0.0
    total = (np.zeros((pods, pods)), np.zeros((pods, pods)))
    placed: dict[int, SeedJob] = {}
    order = sorted(range(len(jobs)), key=lambda j: (-_traffic(jobs[j], given[j]), j))
    for j in order:
        job = jobs[j]
        ps_pod = int(oxc.argmin()) if job.kind == "ps" else None
        units = [0] * pods
        for host in job.hosts:
            units[network.pod_of(host)] += 1
        for _ in range(0 if job.hosts else given[j]):
            pod = min((p for p in range(pods) if free[p]), key=lambda p: (max(oxc[p], tor[p] * ratio), p))
            units[pod] += 1
            free[pod] -= 1
        ring = form_ring([p for p in range(pods) if units[p]], total[0] + total[1]) if job.kind == "rar" else ()
        placed[j] = SeedJob(tuple(units), ps_pod, ring)
        tor += pod_bytes(job, units)
        total[0][...] += pair_bytes(job, units, 1, ps_pod=ps_pod, ring=ring)
        total[1][...] += pair_bytes(job, units, 2, ps_pod=ps_pod, ring=ring)
        oxc = both_ways(np.maximum(*total)).sum(axis=1)
    try:
        circuits: Matrix | None = least_time(np.maximum(*total), network.ports).matrix
    except TdmError:
        circuits = None
    return SeedGroup(tuple(placed[j] for j in range(len(jobs))), total, circuits)


def _traffic(job: TdmJob, units: int) -> float:
    """Return the predicted bytes of a job, by which jobs are ordered."""
    return float(job.bytes) * units * (units - 1 if job.kind == "a2a" else 1)


# Crossing between pods for a group: direct circuits, several configurations, or several hops.
#
# The fastest of them is taken. With B = 25 Gb/s an all-to-all over 8 pods that direct circuits would carry in 72 ms
# takes two configurations and a dark time, or several hops on four ports: which is better depends on delta.


Ints = np.typing.NDArray[np.int64]


@dataclass(frozen=True)
class Crossing:
    """Circuits of one process, and their use by jobs."""

    seconds: float
    """seconds including the dark time between configurations"""
    matrices: tuple[Matrix, ...]
    lit_s: tuple[float, ...]
    """seconds of each configuration: the time of its busiest circuit or NIC"""
    routes: tuple[tuple[PodRoute, ...], ...]
    """routes of each job; empty for trees"""


def cross(
    parts: Sequence[PackingJob],
    packed: Packed,
    network: OpticalNetwork,
    where: Sequence[Placement],
    *,
    returns: bool = False,
) -> Crossing:
    """Return the fastest of the three crossings; direct circuits whenever there are enough ports for them.

    Parameters
    ----------
    parts, packed
        The jobs of a process, and their placement.
    network : OpticalNetwork
        Its ports, rates and dark time.
    where : sequence of placements
        Hosts of each job, for the bytes of NICs in each configuration.
    returns : bool
        Whether the process is the only one, and ends with a change back to its first configuration.

    Raises
    ------
    TdmError
        When there are too few ports for every crossing.
    """
    whole = demand(packed, parts, network.pods).astype(np.float64)
    if ((whole > 0).sum(axis=1) <= network.ports).all():
        circuits = least_time(whole, network.ports)
        at = np.zeros(whole.shape, np.int64)
        seconds = circuits.bytes / network.circuit
        return Crossing(seconds, (circuits.matrix,), (seconds,), direct_routes(packed, parts, at))
    first = frozenset((min(edge), max(edge)) for edges in packed.edges for edge in edges)
    ways = [_by_hops(parts, packed, network)]
    try:
        ways.append(_several(parts, packed, network, where, whole, first, returns=returns))
    except TdmError:
        if ways == [None]:
            raise
    return min((way for way in ways if way is not None), key=lambda way: way.seconds)


def direct_routes(
    packed: Packed, parts: Sequence[PackingJob], at: "np.typing.NDArray[np.int64]"
) -> tuple[tuple[PodRoute, ...], ...]:
    """Return the direct routes of every all-to-all; ``at``: the configuration of each pair of pods."""
    return tuple(
        tuple(
            PodRoute((a, b), 1.0, int(at[a, b]))
            for a, here in enumerate(units)
            for b, there in enumerate(units)
            if a != b and here and there
        )
        if part.alltoall
        else ()
        for units, part in zip(packed.units, parts, strict=True)
    )


def _several(
    parts: Sequence[PackingJob],
    packed: Packed,
    network: OpticalNetwork,
    where: Sequence[Placement],
    whole: Floats,
    first: frozenset[tuple[int, int]],
    *,
    returns: bool,
) -> Crossing:
    cut = split(whole, network.ports, first=first)
    at = np.zeros(whole.shape, np.int64)
    for number, part in enumerate(cut):
        at[part.demand > 0] = number
    changes = len(cut) if returns else len(cut) - 1
    lit_s = tuple(
        max(part.bytes / network.circuit, nic_bytes(parts, packed, at, number, where, network) / network.nic)
        for number, part in enumerate(cut)
    )
    seconds = sum(lit_s) + changes * network.delta_s
    return Crossing(seconds, tuple(part.matrix for part in cut), lit_s, direct_routes(packed, parts, at))


def nic_bytes(
    parts: Sequence[PackingJob],
    packed: Packed,
    at: "np.typing.NDArray[np.int64]",
    number: int,
    where: Sequence[Placement],
    network: OpticalNetwork,
) -> int:
    """Return the bytes of the busiest NIC in one of several configurations, in each direction.

    Trees send all of their bytes in the first configuration. Blocks within a pod go with the first configuration that
    their job needs.
    """
    carried: Counter[str] = Counter()
    for units, part, own in zip(packed.units, parts, where, strict=True):
        if not part.alltoall:
            carried.update({host: part.load if number == 0 else 0 for host, _ in own})
            continue
        used = [pod for pod, count in enumerate(units) if count]
        when = at[np.ix_(used, used)]
        apart = ~np.eye(len(used), dtype=np.bool_)
        first = int(when[apart].min(initial=int(when.max(initial=0))))
        others = dict(zip(used, (((when == number) & apart) @ np.array(units)[used]).tolist(), strict=True))
        for host, count in own:
            pod = network.pod_of(host)
            inside = units[pod] - count if number == first else 0
            carried[host] += part.load * count * (others[pod] + inside)
    return max(carried.values(), default=0)


def _by_hops(parts: Sequence[PackingJob], packed: Packed, network: OpticalNetwork) -> Crossing | None:
    """Lay trees on direct circuits, and all-to-alls over several hops on the other ports; None: too few ports."""
    places = [place for place, part in enumerate(parts) if part.alltoall]
    trees: Floats = np.zeros((network.pods, network.pods))
    for edges, part in zip(packed.edges, parts, strict=True):
        for a, b in edges:
            trees[a, b] += part.load
            trees[b, a] += part.load
    try:
        own = least_time(trees, network.ports) if trees.any() else None
    except TdmError:
        return None
    # One circuit for each pair in a tree; the other ports are for all-to-alls.
    lit = (trees > 0).astype(np.int64)
    free = (network.ports - lit.sum(axis=1)).tolist()
    hops = several_hops([packed.units[x] for x in places], [parts[x].load for x in places], free)
    if hops is None:
        return None
    both = np.array(hops.matrix, np.int64) + lit
    # A tree and an all-to-all that join the same pods share the circuits.
    carried = np.maximum(np.where(np.array(hops.matrix) > 0, hops.bytes, 0.0), 0.0) + trees
    most = float((carried[both > 0] / both[both > 0]).max(initial=0.0)) if own is not None else hops.bytes
    routes: list[tuple[PodRoute, ...]] = [()] * len(parts)
    for place, way in zip(places, hops.routes, strict=True):
        routes[place] = way
    matrix = tuple(tuple(int(value) for value in row) for row in both)
    return Crossing(most / network.circuit, (matrix,), (most / network.circuit,), tuple(routes))


Group = tuple[int, ...]
"""indices of jobs, ascending"""
NEVER: Final = float("inf")
SHARES: Final = (1.0, 0.75, 0.5)
"""shares of all GPUs that are tried for elastic jobs; fewer GPUs are in fewer pods"""


@dataclass(frozen=True)
class Striped:
    """The crossing of jobs of a group in stripes, over one configuration."""

    matrix: Matrix
    stripes: tuple[tuple[tuple[tuple[Edge, ...], float], ...], ...]
    """(edges, share) of each job's trees; empty for a2a"""
    routes: tuple[tuple[PodRoute, ...], ...]
    """routes of each job; empty for sums"""
    bytes: float
    """bytes over a circuit of the busiest pair"""


@dataclass(frozen=True)
class GroupPlan:
    """The plan of a group."""

    jobs: Group
    given: tuple[int, ...]
    """g_j"""
    phases: tuple[float, ...]
    """C_t, seconds of each sub-phase; a single one for pipelined chunks. Infinite: impossible"""
    training_s: float
    """W, seconds of training"""
    units: tuple[tuple[int, ...], ...] = ()
    """units of each job, in each pod"""
    packed: Packed | None = None
    seed: SeedGroup | None = None
    striped: Striped | None = None

    @property
    def communication_s(self) -> float:
        """C, seconds of all sub-phases together."""
        return sum(self.phases)


class GroupPlanner(Protocol):
    """Plans groups; the same group gives the same plans."""

    network: OpticalNetwork

    def options(self, group: Group) -> list[GroupPlan]:
        """Return the possible plans, among which the needs of the other group decide; empty: impossible."""

    def bound(self, group: Group) -> tuple[float, float]:
        """Return lower bounds on communication and training of every plan: seconds (C, W)."""


def nic_bound_s(job: TdmJob, network: OpticalNetwork) -> float:
    """Return a lower bound in seconds on communication by a job's own NICs, pipelined."""
    if job.kind != "a2a":
        return job.bytes / network.nic
    here = min(network.gpus, job.units)
    return 2 * here * (job.units - here) * job.bytes / network.nic


class KnownGroups:
    """Base class of planners that plan each group once and cache the plans."""

    def __init__(self, jobs: Sequence[TdmJob], network: OpticalNetwork) -> None:
        self.jobs, self.network = jobs, network
        self._known: dict[Group, list[GroupPlan]] = {}

    def options(self, group: Group) -> list[GroupPlan]:
        """See :class:`GroupPlanner`."""
        if group not in self._known:
            self._known[group] = self._options(group) if group else [GroupPlan((), (), (), 0.0)]
        return self._known[group]

    def _options(self, group: Group) -> list[GroupPlan]:
        raise NotImplementedError


class TreeGroups(KnownGroups):
    """Our planner: few pods, trees of ToRs, chunk pipelining, local search, several configurations for a2a."""

    def __init__(
        self,
        jobs: Sequence[TdmJob],
        network: OpticalNetwork,
        *,
        moves: int = MOVES,
        restarts: int = 1,
        seed: int = 1,
    ) -> None:
        super().__init__(jobs, network)
        self.moves, self.restarts, self.seed = moves, restarts, seed
        self._nic = [nic_bound_s(job, network) for job in jobs]

    def bound(self, group: Group) -> tuple[float, float]:
        """Return lower bounds: of NICs; of training on all GPUs."""
        if not group:
            return 0.0, 0.0
        gangs = [j for j in group if not self.jobs[j].elastic]
        elastic = [j for j in group if self.jobs[j].elastic]
        left = self.network.all_gpus - sum(self.jobs[j].units for j in gangs)
        if left < LEAST * len(elastic):
            return NEVER, NEVER
        work = sum(self.jobs[j].work for j in elastic)
        longest = max((self.jobs[j].compute_s for j in gangs), default=0.0)
        return max(self._nic[j] for j in group), max(longest, work / left if elastic else 0.0)

    def _options(self, group: Group) -> list[GroupPlan]:
        """Return one plan for gangs; for elastic jobs one for each share of the GPUs, and one with whole pods."""
        jobs = [self.jobs[j] for j in group]
        plans = []
        for given in self.givens(group):
            try:
                plan = self.plan(group, given)
            except TdmError:  # two jobs want the same host at once, and need different groups
                if len(jobs) == 1 or not any(job.hosts for job in jobs):
                    raise
                continue
            if plan.communication_s < NEVER:
                plans.append(plan)
        return plans

    def givens(self, group: Group) -> list[list[int]]:
        """Return numbers of units to try: those of gangs; for elastic jobs shares of the GPUs, and whole pods."""
        jobs = [self.jobs[j] for j in group]
        network = self.network
        tried: list[list[int]] = []
        if any(job.elastic for job in jobs):
            for share in SHARES:
                try:
                    tried.append(share_gpus(jobs, int(network.all_gpus * share)))
                except TdmError:
                    continue
            if all(job.elastic for job in jobs) and len(jobs) <= network.pods and network.pod_gpus >= LEAST:
                whole = [network.pod_gpus] * len(jobs)
                for _ in range(network.pods - len(jobs)):
                    most = max(range(len(jobs)), key=lambda j: jobs[j].work / whole[j])
                    whole[most] += network.pod_gpus
                tried.append(whole)
        elif sum(job.units for job in jobs) <= network.all_gpus:
            tried.append([job.units for job in jobs])
        return tried

    def plan(
        self,
        group: Group,
        given: Sequence[int],
        start: Packed | None = None,
        parts: Sequence[PackingJob] | None = None,
    ) -> GroupPlan:
        """Plan a group with ``given`` units for each job; from ``start``, and with ``parts``, if given."""
        jobs = [self.jobs[j] for j in group]
        parts = parts_of(jobs, given, self.network) if parts is None else parts
        slowest = max(self._nic[j] for j in group) * self.network.circuit
        packed = search(
            parts,
            self.network,
            start=start,
            enough=slowest,
            moves=self.moves,
            restarts=self.restarts,
            seed=self.seed,
        )
        return planned(group, jobs, given, parts, packed, self.network)


def planned(
    group: Group,
    jobs: Sequence[TdmJob],
    given: Sequence[int],
    parts: Sequence[PackingJob],
    packed: Packed,
    network: OpticalNetwork,
) -> GroupPlan:
    """Return the plan of a packing: the time of circuits, or of several configurations, and of NICs."""
    circuits_s = packed.circuit_bytes / network.circuit
    if circuits_s == NEVER:
        circuits_s = _crossing_s(parts, packed, network, on_hosts(jobs, packed.units, network))
    if network.gpus == 1 and not any(job.hosts for job in jobs):
        nic_s = max(
            (2 * (units - 1) if job.kind == "a2a" else 1) * job.bytes / network.nic
            for job, units in zip(jobs, given, strict=True)
        )
    else:
        nic_s = busiest_nic_s(jobs, on_hosts(jobs, packed.units, network), network)
    training = max(job.compute_on(units) for job, units in zip(jobs, given, strict=True))
    return GroupPlan(group, tuple(given), (max(nic_s, circuits_s),), training, packed.units, packed)


def _crossing_s(
    parts: Sequence[PackingJob], packed: Packed, network: OpticalNetwork, where: Sequence[Placement]
) -> float:
    """Return the seconds over several configurations or hops, for use when direct circuits do not suffice."""
    if network.ports < 1 or not any(part.alltoall for part in parts):
        return NEVER
    try:
        return cross(parts, packed, network, where).seconds
    except TdmError:
        return NEVER


class SeedGroups(KnownGroups):
    """The source's planner: Algorithm 2, rings and stars, push and pull one after the other."""

    def __init__(self, jobs: Sequence[TdmJob], network: OpticalNetwork, *, direct: bool = False) -> None:
        """``direct``: refuse a group if some pod has too few ports; otherwise it takes several configurations."""
        super().__init__(jobs, network)
        self.direct = direct
        self._bounds = TreeGroups(jobs, network)

    def bound(self, group: Group) -> tuple[float, float]:
        """Return twice the bound of pipelined chunks for PS and RAR; the bound of a2a covers both phases already."""
        nic_s, training_s = self._bounds.bound(group)
        if nic_s == NEVER:
            return nic_s, training_s
        times = (self._bounds.bound((j,))[0] * (1 if self.jobs[j].kind == "a2a" else 2) for j in group)
        return max(times, default=0.0), training_s

    def _options(self, group: Group) -> list[GroupPlan]:
        """Return one plan, or none."""
        jobs = [self.jobs[j] for j in group]
        try:
            given = share_gpus(jobs, self.network.all_gpus)
        except TdmError:
            return []
        plan = self.plan(group, given)
        return [] if self.direct and plan.seed is not None and plan.seed.circuits is None else [plan]

    def plan(self, group: Group, given: Sequence[int]) -> GroupPlan:
        """Plan a group with ``given`` units for each job."""
        jobs = [self.jobs[j] for j in group]
        seed = place_seed(jobs, given, self.network)
        units = tuple(seed_job.units for seed_job in seed.jobs)
        placements = on_hosts(jobs, units, self.network)
        nic_s = 0.0
        for job, placement in zip(jobs, placements, strict=True):
            own = busiest_nic_s([job], [placement], self.network)
            nic_s = max(nic_s, own / (2 if job.kind == "a2a" else 1))
        phases: tuple[float, ...] = (NEVER,)
        if seed.circuits is not None:
            phases = tuple(
                communication_s(sent, np.array(seed.circuits, np.float64), self.network.circuit, nic_s)
                for sent in seed.demand
            )
        elif self.network.ports:
            phases = tuple(self._phase_s(sent, nic_s) for sent in seed.demand)
        training = max(job.compute_on(count) for job, count in zip(jobs, given, strict=True))
        return GroupPlan(group, tuple(given), phases, training, units, seed=seed)

    def _phase_s(self, sent: Floats, nic_s: float) -> float:
        """Return the seconds of several configurations, as in our planner; the source ignores a lack of ports."""
        cut = split(sent, self.network.ports)
        dark = max(0, len(cut) - 1) * self.network.delta_s
        return max(nic_s, sum(part.bytes for part in cut) / self.network.circuit + dark)


# Conversion of group plans to a `Schedule`: hosts, trees with roots, rings, routes, windows, configurations.


@dataclass(frozen=True)
class CarriedJobs:
    """The crossing of the jobs of one process."""

    trees: dict[int, tuple[PodTree, ...]]
    """by job"""
    rings: dict[int, Ring]
    routes: dict[int, tuple[PodRoute, ...]]
    matrices: tuple[Matrix, ...]
    lit_s: tuple[float, ...]
    """seconds of each configuration: the time of its busiest circuit or NIC"""


def rooted(edges: Sequence[Edge], units: Sequence[int]) -> tuple[int, tuple[Edge, ...]]:
    """Return the root that makes a tree flattest (of two the one with more units), and (child, parent) of each edge."""
    if not edges:
        return next((pod for pod, count in enumerate(units) if count), 0), ()
    import networkx as nx  # noqa: PLC0415  (slow to import)

    graph: nx.Graph[int] = nx.Graph(list(edges))
    root = min(nx.center(graph), key=lambda pod: (-units[pod], pod))
    return root, tuple((child, parent) for parent, child in nx.bfs_edges(graph, root))


def carry_trees(
    jobs: Sequence[TdmJob],
    numbers: Sequence[int],
    plan: Packed,
    network: OpticalNetwork,
    where: Sequence[Placement],
    *,
    returns: bool = False,
) -> CarriedJobs:
    """Carry our packing: a tree for each PS and RAR, routes for a2a; ``where``, ``returns`` as in :func:`cross`."""
    parts = parts_of([jobs[j] for j in numbers], [sum(units) for units in plan.units], network)
    trees: dict[int, tuple[PodTree, ...]] = {}
    for place, j in enumerate(numbers):
        if not parts[place].alltoall:
            root, edges = rooted(plan.edges[place], plan.units[place])
            trees[j] = (PodTree(root, edges, 1.0),)
    crossing = cross(parts, plan, network, where, returns=returns)
    routes = {j: crossing.routes[place] for place, j in enumerate(numbers) if parts[place].alltoall}
    return CarriedJobs(trees, {}, routes, crossing.matrices, crossing.lit_s)


def carry_seed(jobs: Sequence[TdmJob], plan: GroupPlan, network: OpticalNetwork) -> CarriedJobs:
    """Carry the source's plan: stars for PS, rings for RAR, push and pull one after the other."""
    assert plan.seed is not None  # noqa: S101  (the caller made this plan)
    trees: dict[int, tuple[PodTree, ...]] = {}
    rings: dict[int, Ring] = {}
    whole: Floats = np.maximum(*plan.seed.demand)
    fits = plan.seed.circuits is not None
    cut = [] if fits else split(whole, network.ports)
    at = np.zeros(whole.shape, np.int64)
    for number, part in enumerate(cut):
        at[(part.demand > 0) | (part.demand.T > 0)] = number
    routes: dict[int, tuple[PodRoute, ...]] = {}
    for j, seed_job in zip(plan.jobs, plan.seed.jobs, strict=True):
        used = [pod for pod, count in enumerate(seed_job.units) if count]
        if seed_job.ps_pod is not None:
            edges = tuple((pod, seed_job.ps_pod) for pod in used if pod != seed_job.ps_pod)
            last = max((int(at[edge]) for edge in edges), default=0)
            trees[j] = (PodTree(seed_job.ps_pod, edges, 1.0, last, pipelined=False),)
        elif seed_job.ring:
            size = len(seed_job.ring)
            rings[j] = Ring(seed_job.ring, round(jobs[j].bytes * (size - 1) / size))
        else:
            routes[j] = tuple(PodRoute((a, b), 1.0, int(at[a, b])) for a in used for b in used if a != b)
    if plan.seed.circuits is not None:
        circuits = least_time(whole, network.ports)
        return CarriedJobs(trees, rings, routes, (circuits.matrix,), (circuits.bytes / network.circuit,))
    lit_s = tuple(part.bytes / network.circuit for part in cut)
    return CarriedJobs(trees, rings, routes, tuple(part.matrix for part in cut), lit_s)


def carry_stripes(plan: GroupPlan, striped: Striped, network: OpticalNetwork) -> CarriedJobs:
    """Carry our stripes: a tree for each share."""
    trees: dict[int, tuple[PodTree, ...]] = {}
    for j, units, own in zip(plan.jobs, plan.units, striped.stripes, strict=True):
        if own:
            trees[j] = tuple(PodTree(*rooted(edges, units), share) for edges, share in own)
    routes = {j: own for j, own in zip(plan.jobs, striped.routes, strict=True) if own}
    return CarriedJobs(trees, {}, routes, (striped.matrix,), (striped.bytes / network.circuit,))


def carry(jobs: Sequence[TdmJob], plan: GroupPlan, network: OpticalNetwork) -> CarriedJobs:
    """Return the crossing of a group's jobs; no circuits for an empty group."""
    if plan.seed is not None:
        return carry_seed(jobs, plan, network)
    if plan.striped is not None:
        return carry_stripes(plan, plan.striped, network)
    if plan.packed is None:
        return CarriedJobs({}, {}, {}, (dark_matrix(network.pods),), (0.0,))
    where = on_hosts([jobs[j] for j in plan.jobs], plan.packed.units, network)
    return carry_trees(jobs, plan.jobs, plan.packed, network, where)


def dark_matrix(pods: int) -> Matrix:
    """Return the configuration without circuits."""
    return tuple((0,) * pods for _ in range(pods))


def configurations(
    carried: CarriedJobs, start_s: float, duration_s: float, network: OpticalNetwork
) -> tuple[Configuration, ...]:
    """Return the configurations of a process: each lasts for its busiest circuit or NIC, the last one until the end."""
    lit, at = [], start_s
    for matrix, lit_s in zip(carried.matrices[:-1], carried.lit_s, strict=False):
        lasts = network.delta_s + lit_s
        lit.append(Configuration(matrix, at, lasts))
        at += lasts
    lit.append(Configuration(carried.matrices[-1], at, max(0.0, start_s + duration_s - at)))
    return tuple(lit)


def placements(
    jobs: Sequence[TdmJob], plan: GroupPlan, network: OpticalNetwork, *, other_way: bool = False
) -> dict[int, Placement]:
    """Return (host, units) of each job of a group, by job; ``other_way`` reverses the order of equal jobs."""
    own = [jobs[j] for j in plan.jobs]
    return dict(zip(plan.jobs, on_hosts(own, plan.units, network, longest_last=other_way), strict=True))


# Dark time applies to ports that change, and to the jobs on these circuits.


@dataclass(frozen=True)
class Ready:
    """Times of one job in its process."""

    dark_s: float
    """seconds until its circuits are lit"""
    communicates_s: float
    """seconds from then until its communication ends: the time of the busiest of its circuits and NICs"""


def pairs_of(carried: CarriedJobs, j: int, configuration: int = 0) -> set[Edge]:
    """Return the pods (smaller first) between which a job needs circuits in a configuration."""
    ring = carried.rings.get(j)
    edges = [edge for tree in carried.trees.get(j, ()) if tree.configuration == configuration for edge in tree.edges]
    for route in carried.routes.get(j, ()):
        if route.configuration == configuration:
            edges += list(pairwise(route.path))
    if ring is not None and ring.configuration == configuration and len(ring.order) > 1:
        edges += list(pairwise((*ring.order, ring.order[0])))
    return {(min(edge), max(edge)) for edge in edges}


def ready(
    jobs: Sequence[TdmJob],
    plan: GroupPlan,
    carried: CarriedJobs,
    where: Mapping[int, Placement],
    before: Matrix | None,
    network: OpticalNetwork,
) -> dict[int, Ready]:
    """Return the dark time of each job's circuits, and the time of its communication after that.

    A port stays lit if as many circuits join its pods as in ``before``, the configuration that was lit last (None:
    nothing changes). If a process has several configurations, or sub-phases, all its jobs end together.
    """
    lit = carried.matrices[0]
    used = {j: pairs_of(carried, j) for j in plan.jobs}
    dark = {
        j: network.delta_s if before and any(before[a][b] != lit[a][b] for a, b in used[j]) else 0.0 for j in plan.jobs
    }
    if len(carried.matrices) > 1 or plan.seed is not None:
        waits = max(dark.values(), default=0.0)
        return {j: Ready(waits if len(carried.matrices) > 1 else dark[j], plan.communication_s) for j in plan.jobs}
    load: Floats = np.zeros((network.pods, network.pods))
    nic: Counter[str] = Counter()
    for j in plan.jobs:
        nic.update(host_bytes(jobs[j], where[j]))
        for tree in carried.trees.get(j, ()):
            for a, b in tree.edges:
                load[a, b] += tree.share * jobs[j].bytes
                load[b, a] += tree.share * jobs[j].bytes
        units = dict(zip(range(network.pods), plan.units[plan.jobs.index(j)], strict=False))
        for route in carried.routes.get(j, ()):
            sent = 2.0 * jobs[j].bytes * route.share * units[route.path[0]] * units[route.path[-1]]
            for a, b in pairwise(route.path):
                load[a, b] += sent
    by_job = {}
    for j in plan.jobs:
        times = [nic[host] / network.nic for host, _ in where[j]]
        times += [max(load[a, b], load[b, a]) / (lit[a][b] * network.circuit) for a, b in used[j]]
        by_job[j] = Ready(dark[j], max(times))
    return by_job


def ends_s(times: Mapping[int, Ready], training_s: float, reading: Reading) -> float:
    """Return T_k of (3) with dark time by job: max over jobs of dark + communication, and the other group's training.

    ``serial`` adds the longest dark time to the longer of both; ``literal`` has none (the caller computes it).
    """
    dark = max((time.dark_s for time in times.values()), default=0.0)
    if reading == "serial":
        return dark + max([training_s, *(time.communicates_s for time in times.values())])
    return max([training_s, *(time.dark_s + time.communicates_s for time in times.values())])


def keep_lit(matrix: Matrix, other: Matrix, ports: int) -> tuple[Matrix, Matrix]:
    """Return two configurations with more in common: spare ports keep the other's circuits, which then stay lit."""
    pair = (np.array(matrix, np.int64), np.array(other, np.int64))
    for own, wanted in (pair, pair[::-1]):
        for a, b in sorted(map(tuple, np.argwhere(np.triu(wanted > own)).tolist()), key=lambda e: -int(wanted[e])):
            more = int(wanted[a, b] - own[a, b])
            if ports - own[a].sum() >= more and ports - own[b].sum() >= more:
                own[a, b] = own[b, a] = wanted[a, b]
    first, second = (tuple(tuple(int(value) for value in row) for row in circuits) for circuits in pair)
    return first, second
