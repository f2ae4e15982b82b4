"""The study on packets: what is played, on how many processes or machines."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final
from zlib import crc32

import numpy as np

from p4reduce.base.output import Progress
from p4reduce.control_plane.plans import PlanRequest, TreeLayout
from p4reduce.control_plane.tdm.jobs import OpticalNetwork
from p4reduce.control_plane.tdm.registry import Options, make_schedule
from p4reduce.control_plane.tdm.schedule import turns_of
from p4reduce.group.errors import ClusterError
from p4reduce.network.jobs.network import EmbeddedSwitches, Job, JobNetwork, bundled
from p4reduce.network.virtual import Stop
from p4reduce.play.turns.flow_model import Factors, Way
from p4reduce.play.turns.player import KEEPS, LANES, gantt_svg, play
from p4reduce.topologies import Topology, fat_tree, leaf_spine
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from p4switch.base.values import PS_PER_S
from studies.before import in_parallel
from studies.tdm.planning import X1, X2, Case, Mix, Row, measure_factors, run_case, two_groups

# The same trees on electrical twins, where a hash chooses among equal paths (ECMP): on packets.
#
# Leaf-spine: as many spines as a ToR has ports to the cross-connect, uplinks as fast as those ports. An edge of a
# tree is one flow, or several, each a share of the vector with a tree of its own whose path a hash picks. Where the
# switch is not in the hash, a later stage picks as the one before did (hash polarization): in a fat-tree a flow then
# has k/2 cores instead of (k/2)^2.


WORD: Final = 4
Edge = tuple[str, str]
Wanted = tuple[tuple[str, ...], str, dict[str, str], int]
"""hosts, root, parent of every host and switch but the root, elements"""


@dataclass(frozen=True)
class EcmpCase:
    """twin: 'leaf-spine', for the first group of a schedule; 'fat-tree': pairs of hosts across a network of k = 8."""

    twin: str
    flows: int
    polarized: bool
    seed: int
    ports: int = 2
    pods: int = 8
    servers: int = 4
    elements: int = 32_768
    """of a pair in a fat-tree"""


@dataclass(frozen=True)
class EcmpRow:
    """took_s with a hash; ideal_s over circuits of their own (leaf-spine), or on a NIC alone (fat-tree)."""

    twin: str
    flows: int
    polarized: bool
    seed: int
    took_s: float
    ideal_s: float
    exact: bool

    @property
    def ratio(self) -> float:
        """C(ECMP) / C(OXC)."""
        return self.took_s / self.ideal_s


def run_ecmp(case: EcmpCase) -> EcmpRow:
    """One twin, one number of flows."""
    if case.twin == "fat-tree":
        topology = fat_tree(8, rate="25G")
        wanted = _pairs(topology, case)
        alone, exact = _carry(topology, wanted[:1], case, flows=1)
        took, right = _carry(topology, wanted, case, flows=case.flows)
        return EcmpRow(case.twin, case.flows, case.polarized, case.seed, took, alone, exact and right)
    network = OpticalNetwork(case.pods, case.servers, 25 * 10**9, case.ports, 25 * 10**9, delta_s=0.0)
    jobs = Case("ecmp", network, "tdm", case.seed).jobs()
    schedule = make_schedule("tdm", jobs, network, Options(seed=case.seed))
    played = play(schedule, {job.name: job for job in jobs}, rounds=1)
    first, own = next(iter(turns_of(schedule, schedule.cycles[0]).items()))
    ideal = min(window.communicated_ps for window in played.windows if window.process == first) / PS_PER_S
    topology = leaf_spine(case.pods, case.ports, case.servers, rate=network.rate_bps, uplink=network.port_rate_bps)
    sizes = {job.name: job.bytes for job in jobs}
    chosen: list[Wanted] = []
    for name in own:
        plan = schedule.plan(name)
        hosts = tuple(host for host, _ in plan.placement)
        for tree in plan.trees:
            parents = {host: f"leaf{network.pod_of(host) + 1}" for host in hosts}
            parents |= {f"leaf{child + 1}": f"leaf{parent + 1}" for child, parent in tree.edges}
            chosen.append((hosts, f"leaf{tree.root + 1}", parents, round(sizes[name] / WORD * tree.share)))
    took, exact = _carry(topology, chosen, case, flows=case.flows)
    return EcmpRow(case.twin, case.flows, case.polarized, case.seed, took, ideal, exact and played.exact)


def hashed_path(topology: Topology, source: str, target: str, key: str, *, polarized: bool) -> tuple[str, ...]:
    """Switches of a shortest path; at each, a hash of the flow picks among the neighbours that are nearer.

    Without the switch in the hash every stage picks the same one of its ports (``polarized``).
    """
    distance = {target: 0}
    ring = [target]
    while ring:
        outer = []
        for name in ring:
            for other in topology.neighbours(name):
                if other not in distance and topology.node(other).is_switch:
                    distance[other] = distance[name] + 1
                    outer.append(other)
        ring = outer
    path = [source]
    while path[-1] != target:
        here = path[-1]
        nearer = [other for other in topology.neighbours(here) if distance.get(other, len(distance)) < distance[here]]
        text = key if polarized else f"{key}@{here}"
        path.append(nearer[_mixed(text) % len(nearer)])
    return tuple(path)


def _mixed(text: str) -> int:
    value = crc32(text.encode())
    value = (value ^ value >> 16) * 0x45D9F3B & 0xFFFFFFFF
    return value ^ value >> 16


def _pairs(topology: Topology, case: EcmpCase) -> list[Wanted]:
    """Every host with another one, of another pod."""
    names = [host.name for host in topology.hosts]
    draw = np.random.default_rng(case.seed)
    half = len(names) // 2  # the first half of the pods with the second
    others = [names[half + place] for place in draw.permutation(half)]
    found: list[Wanted] = []
    for a, b in zip(names[:half], others, strict=True):
        switches = topology.neighbours(a)[0], topology.neighbours(b)[0]
        parents = {a: switches[0], b: switches[1], switches[1]: switches[0]}
        found.append(((a, b), switches[0], parents, case.elements))
    return found


def _carry(topology: Topology, wanted: Sequence[Wanted], case: EcmpCase, *, flows: int) -> tuple[float, bool]:
    """All of them at once: seconds until the last result, and whether all sums are right."""
    with (
        EmbeddedSwitches(topology, bundled(LANES)) as switches,
        JobNetwork(switches) as network,
    ):
        posted: list[tuple[Job, list[np.ndarray[tuple[int], np.dtype[np.int32]]], int]] = []
        for number, (hosts, root, parents, elements) in enumerate(wanted):
            ends = [elements * flow // flows for flow in range(flows + 1)]
            for flow, (begin, end) in enumerate(pairwise(ends)):
                if end == begin:
                    continue
                paths = {
                    edge: edge
                    if topology.node(edge[0]).is_host
                    else hashed_path(topology, *edge, f"{case.seed}/{number}/{flow}/{edge}", polarized=case.polarized)
                    for edge in parents.items()
                }
                layout = TreeLayout(root, parents, paths=paths)
                # Shares of one vector share its window too.
                request = PlanRequest(
                    "ecmp", 1 + len(posted), workers=hosts, layout=layout, max_slots=max(32, 256 // flows)
                )
                job = network.add(switches.controller.start_job(request))
                results = [np.zeros(end - begin, np.int32) for _ in hosts]
                posted.append((job, results, len(hosts)))
        start = network.now
        for job, results, _ in posted:
            given = np.arange(results[0].size, dtype=np.int32)
            for result, index in zip(results, job.members.values(), strict=True):
                source, target = given.view(np.float32), result.view(np.float32)
                network.post(index, Post(Collective.ALL_REDUCE, source, target, words=True))
        watched = [index for job, _, _ in posted for index in job.endpoints]
        if network.advance(watch=watched) is not Stop.DONE:
            raise ClusterError(f"{case}: nothing moves any more")
        took = max(network.done_ps(job) for job, _, _ in posted) - start
        exact = all(
            np.array_equal(result, count * np.arange(result.size, dtype=np.int32))
            for _, results, count in posted
            for result in results
        )
        return took / PS_PER_S, exact


SMALL: Final = OpticalNetwork(4, 2, 25 * 10**9, 2, 25 * 10**9, delta_s=200e-6)
HAND: Final = SMALL.with_delta(20e-6)
DELTAS: Final = (0.0, 20e-6, 200e-6, 1.2e-3, 10e-3, 30e-3)


@dataclass(frozen=True)
class Kept:
    """Slots too short for what they carry, with one way to keep windows."""

    keep: str
    iteration_s: float
    dark_lost: int
    misrouted: int
    resends: int


@dataclass
class Study:
    """All of it."""

    factors: dict[Way, Factors]
    rows: list[Row]
    ecmp: list[EcmpRow]
    kept: list[Kept]
    chart: str
    """SVG"""

    def of(self, study: str, **fields: object) -> list[Row]:
        """Rows of a part, with these values, that were played."""
        return [
            row
            for row in self.rows
            if row.study == study
            and not row.refused
            and all(getattr(row, name) == value for name, value in fields.items())
        ]


def run_study(
    *, quick: bool, seeds: Sequence[int], jobs: int = 1, dask: str | None = None, bar: Callable[[str], Progress]
) -> Study:
    """Play everything; ``jobs`` processes, or the machines of a Dask scheduler."""
    base = SMALL if quick else X1
    factors = measure_factors(base)
    cases = _quick(seeds) if quick else whole(seeds)
    rows = in_parallel(
        run_case, [(case, factors) for case in cases], jobs=jobs, dask=dask, progress=bar("schedules"), label="played"
    )
    twins = _twins(quick=quick, seeds=seeds)
    ecmp = in_parallel(run_ecmp, twins, jobs=jobs, dask=dask, progress=bar("electrical twins"), label="played")
    kept = in_parallel(_keep, list(KEEPS), jobs=jobs, dask=dask, progress=bar("windows"), label="kept")
    return Study(factors, rows, ecmp, kept, _chart())


def _quick(seeds: Sequence[int]) -> list[Case]:
    small = Case("gain", SMALL, "tdm", seeds[0], least=2, most=4, scale=640.0)
    found = [
        replace(small, policy=policy, seed=seed, sigma=sigma)
        for policy in ("tdm", "no-tdm")
        for seed, sigma in zip(seeds, (0.0, 0.4), strict=False)
    ]
    return [*found, replace(small, policy="seed"), replace(small, study="all-to-all", mix="all-to-all")]


def whole(seeds: Sequence[int]) -> list[Case]:
    """What is played unless only a small part is wanted."""
    networks = (X1, X2)
    every = [
        Case("gain", network, policy, seed, ratio=ratio)
        for network in networks
        for ratio, most in ((1.0, 5), (0.5, 3))
        for policy in ("tdm", "no-tdm", *(("seed", "static") if ratio == 1.0 else ()))
        for seed in seeds[: _seeds(policy, network.ports, most)]
    ]
    mixes: tuple[tuple[Mix, int, int], ...] = (("mixed", 4, 12), ("all-to-all", 8, 8), ("all-to-all", 16, 16))
    every += [
        Case("all-to-all", network, policy, seed, least=least, most=most, mix=mix)
        for network in networks
        for mix, least, most in mixes
        for policy, count in (("tdm", 2), ("no-tdm", 1))
        for seed in seeds[:count]
    ]
    # Two jobs of 32 hosts over 8 pods, with darkness for which several configurations pay, and for which hops do.
    every += [
        Case("hops", replace(network, delta_s=delta), "tdm", seeds[0], least=32, most=32, mix="all-to-all")
        for network in networks
        for delta in (10e-3, 100e-3)
    ]
    every += [
        Case("sharing", network, policy, seed, sigma=0.4, least=8, most=8, rounds=4)
        for network, policies, most in (
            (X1, ("pairs", "free", "tdm", "exclusive"), 3),
            (X1, ("cassini",), 1),
            (X2, ("pairs", "free"), 1),
        )
        for policy in policies
        for seed in seeds[:most]
    ]
    every += [Case("sharing", X1, "pairs", seed, least=8, most=8, mix="all-to-all") for seed in seeds[:2]]
    every.append(Case("uncoordinated", X2, "free", seeds[0], least=8, most=8, rounds=3, mix="all-to-all"))
    every += [
        Case("sigma", X2, policy, seed, sigma=sigma)
        for sigma in (0.0, 0.4, 0.8)
        for policy in ("tdm", "no-tdm")
        for seed in seeds[:2]
    ]
    every += [Case("delta", replace(X2, delta_s=delta), "tdm", seed) for delta in DELTAS for seed in seeds[:1]]
    every += [Case("scale", X2, "tdm", seeds[0], scale=scale) for scale in (16.0, 64.0, 256.0)]
    return every


def _seeds(policy: str, ports: int, most: int) -> int:
    """Two ports are too few for half of what the source places: more instances."""
    if policy == "static":
        return 2
    return 2 * most if ports == X2.ports and policy in ("seed", "tdm") and most > 3 else most


def _twins(*, quick: bool, seeds: Sequence[int]) -> list[EcmpCase]:
    if quick:
        return [EcmpCase("leaf-spine", flows, False, seeds[0], pods=4, servers=2) for flows in (1, 4)]
    found = [EcmpCase("leaf-spine", flows, False, seed) for flows in (1, 4, 16) for seed in seeds[:4]]
    # A switch has counters for 512 trees: 64 pairs with 7 flows each.
    return found + [
        EcmpCase("fat-tree", flows, polarized, seeds[0]) for flows in (1, 4, 7) for polarized in (False, True)
    ]


def _keep(keep: str) -> Kept:
    """Slots of 50 us for 71 us of frames: what is not through must wait for its next window."""
    schedule, jobs = two_groups(HAND, 200_000, 1e-6, clock="slots", round_s=100e-6, guard_s=12e-6)
    played = play(schedule, jobs, rounds=20, keep=keep)  # type: ignore[arg-type]
    times = [time for own in played.iterations_ps.values() for time in own]
    mean = statistics.mean(times) / 1e12 if times else float("nan")
    return Kept(keep, mean, played.dark_lost, played.misrouted, played.resends)


def _chart() -> str:
    schedule, jobs = two_groups(HAND, 200_000, 60e-6)
    played = play(schedule, jobs, rounds=2)
    groups = {plan.job: plan.group for plan in schedule.jobs}
    return gantt_svg(played, groups, title="two groups on packets: circuits, jobs and darkness")
