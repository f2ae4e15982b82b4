"""Schedules on packets beside both models; the same trees on electrical twins; windows that are too short."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final
from zlib import crc32

import numpy as np

from p4reduce.control_plane.plans import PlanRequest, TreeLayout
from p4reduce.control_plane.tdm.jobs import OpticalNetwork, TdmError, TdmJob
from p4reduce.control_plane.tdm.registry import TurnOptions, make_schedule
from p4reduce.control_plane.tdm.schedule import (
    Clock,
    Configuration,
    Cycle,
    JobPlan,
    Matrix,
    PodTree,
    RoundProcess,
    Schedule,
    turns_of,
)
from p4reduce.group.errors import ClusterError
from p4reduce.network.jobs.network import EmbeddedSwitches, Job, JobNetwork, bundled
from p4reduce.network.virtual import StopReason
from p4reduce.play.turns.acts import PlayedSchedule
from p4reduce.play.turns.flow_model import FactorsOf, factors_of, play_flows, way_of
from p4reduce.play.turns.installing import WORD
from p4reduce.play.turns.player import LANES, Keep, gantt_svg
from p4reduce.play.turns.player import play as play_turns
from p4reduce.topologies import Topology, fat_tree, leaf_spine
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from p4switch.base.values import PS_PER_S
from studies.frame import column, percent, record, scaled
from studies.turns.planning import HELD_OUT, KINDS, SIGMA, UNSEEN, X1, X2, Mix, TurnsSettings, gangs, scaled_job

# A schedule by hand in which the cross-connect must change: two groups on the same hosts, one with its circuits at a
# time.


FRAME = 1110 / 1024
"""bytes on a link per byte of data, with 256 lanes"""
CHAIN: Matrix = ((0, 1, 0, 0), (1, 0, 1, 0), (0, 1, 0, 1), (0, 0, 1, 0))
STAR: Matrix = ((0, 0, 1, 1), (0, 0, 0, 0), (1, 0, 0, 0), (1, 0, 0, 0))


def two_groups(
    network: OpticalNetwork,
    size: int,
    compute_s: float,
    *,
    clock: Clock = "completion",
    round_s: float = 0.0,
    guard_s: float = 0.0,
) -> tuple[Schedule, dict[str, TdmJob]]:
    """Return a schedule of a chain of pods, then a star, beside a job within a pod; for 4 pods of 2 hosts, 2 ports.

    Parameters
    ----------
    network : OpticalNetwork
        A network of 4 pods.
    size, compute_s : int and float
        Bytes and seconds of training of each job; the job within a pod sends half of the bytes.
    clock, round_s, guard_s
        Options of the schedule; round_s 0: computed from training, darkness and headers.
    """
    plans = tuple(
        JobPlan(
            name,
            tuple((host, 1) for host in hosts),
            0,
            process,
            process,
            trees=(tree,),
            start_s=process * (round_s / 2 or 1.0),
            duration_s=size / network.nic,
            train_s=compute_s,
        )
        for name, hosts, process, tree in (
            ("a", ("h1", "h3", "h5", "h7"), 0, PodTree(1, ((0, 1), (2, 1), (3, 2)), 1.0)),
            ("b", ("h1", "h2", "h5", "h7"), 1, PodTree(0, ((2, 0), (3, 0)), 1.0)),
            ("c", ("h3", "h4"), 1, PodTree(1, (), 1.0)),
        )
    )
    jobs = {
        plan.job: TdmJob(plan.job, "rar", size // 2 if plan.job == "c" else size, compute_s, len(plan.placement))
        for plan in plans
    }
    took = round_s or 2 * max(compute_s, network.delta_s + size / network.nic * FRAME)
    processes = tuple(
        RoundProcess((Configuration(matrix, number * took / 2, took / 2),), number * took / 2, took / 2)
        for number, matrix in enumerate((CHAIN, STAR))
    )
    cycle = Cycle(tuple(jobs), took, "gated")
    return Schedule("by hand", network, plans, processes, (cycle,), took, clock, guard_s), jobs


def model_round_s(schedule: Schedule, jobs: Sequence[TdmJob], factors: FactorsOf) -> float:
    """Return t_round of a gated schedule with these factors: sum over k of max(dark_j + C_j of its jobs, W of others).

    C_j is the communication in a job's scheduled window; each configuration of a process adds its round trips. With a
    single group, which communicates all at once, training comes before it.
    """
    plans = {plan.job: plan for plan in schedule.jobs}
    ways = {job.name: way_of(job, plans[job.name]) for job in jobs}
    groups = turns_of(schedule, schedule.cycles[0])

    def takes(name: str) -> float:
        plan, factor = plans[name], factors[ways[name]]
        several = len(schedule.processes[plan.process].configurations) - 1
        lead_s = several * factor.lead_s
        dark_s = several * schedule.network.delta_s
        return plan.dark_s + factor.of(max(0.0, plan.duration_s - dark_s)) + lead_s + dark_s

    sent = [max(map(takes, own)) for own in groups.values()]
    if len(groups) == 1:
        return max(plan.start_s for plan in schedule.jobs) + sent[0]
    trained = [max(plans[name].train_s for name in own) for own in groups.values()]
    return sum(max(took, *(own for x, own in enumerate(trained) if x != place)) for place, took in enumerate(sent))


# Random jobs under a policy, on packets and in both models.


@dataclass(frozen=True)
class RoundCell:
    """One instance and one policy. For packets, times of the network and of jobs are divided by ``scale``."""

    network: OpticalNetwork
    policy: str
    seed: int
    sigma: float = SIGMA
    ratio: float = 1.0
    """ratio of communication to training time for a job that has its NICs to itself"""
    least: int = 4
    most: int = 12
    """bounds of the number of units of a gang"""
    scale: float = 64.0
    rounds: int = 1
    mix: Mix = "sums"
    calibrated: OpticalNetwork = X1
    """network on which the factors of both models are measured"""

    def jobs(self) -> list[TdmJob]:
        """Return gangs that fill all GPUs twice, at the cell's scale."""
        drawn = gangs(
            self.network,
            self.seed,
            sigma=self.sigma,
            load=self.ratio,
            least=self.least,
            most=self.most,
            kinds=KINDS[self.mix],
        )
        return [scaled_job(job, self.scale) for job in drawn]


@record
class TurnRow:
    """The results of a cell; seconds at its scale.

    model_s: formulas (1) to (3) with calibrated factors; 0 unless the schedule is one gated cycle. flow_s: the flow
    model.
    """

    policy: str = column("policy")
    mix: str = column("jobs")
    pods: int = column("pods")
    servers: int
    ports: int = column("R")
    rate_bps: int
    delta_s: float = column("delta, ms", scaled(1e3, "{:g}"))
    seed: int
    sigma: float = column("sigma", "{:g}")
    ratio: float = column("c/w", "{:g}")
    scale: float = column("1/scale", "{:g}")
    jobs: int
    configurations: int = column("configurations", "{:g}")
    """number of configurations of the process with the most of them"""
    round_s: float = column("round, ms", scaled(1e3, "{:.3f}"))
    """mean round; if not all jobs are gated together, the mean iteration of all jobs"""
    model_s: float
    flow_s: float
    flow_error: float = column("flow model off", percent(2))
    """relative error of the flow model's round or iteration; positive: too long"""
    flow_job_error: float = column("worst job off", percent(2))
    """largest error of the flow model for a job's mean iteration"""
    planned_s: float
    dark_lost: int
    misrouted: int
    lost: int
    resends: int
    reconfigurations: int = column("reconfigured", "{:g}")
    exact: bool
    as_predicted: bool
    relative_mean: float = column("over alone", "{:.2f}", default=0.0)
    """mean over jobs of the throughput relative to that alone (training, and bytes with calibrated factors)"""
    relative_worst: float = column("worst job over alone", "{:.2f}", default=0.0)
    refused: str = ""

    @property
    def packets_over_model(self) -> float | None:
        """Ratio of packets to the formulas; None if the formulas do not apply."""
        return self.round_s / self.model_s if self.model_s else None


def run_round(case: RoundCell) -> list[TurnRow]:
    """Schedule a cell and run it, on packets and at flow level; ``refused`` has the reason of a policy that refuses."""
    factors = factors_of(case.calibrated)
    network = case.network.with_delta(case.network.delta_s / case.scale)
    jobs = case.jobs()
    by_name = {job.name: job for job in jobs}
    try:
        schedule = make_schedule(case.policy, jobs, network, TurnOptions(seed=case.seed, best=True))
        played = play_turns(schedule, by_name, rounds=case.rounds, seed=case.seed)
    except TdmError as error:
        return [_row(case, len(jobs), 0, PlayedSchedule(case.policy, 0.0), 0.0, (0.0, 0.0), [], str(error))]
    flows = play_flows(schedule, by_name, rounds=case.rounds, factors=factors)
    wrong = max(abs(flows.iteration_s(job.name) / played.iteration_s(job.name) - 1.0) for job in jobs)
    relative = []
    for job in jobs:
        factor = factors[way_of(job, schedule.plan(job.name))]
        sent = job.bytes * (2 * (job.units - 1) if job.kind == "a2a" else 1)
        relative.append((job.compute_s + factor.of(sent / network.nic)) / played.iteration_s(job.name))
    gated = all(cycle.mode == "gated" for cycle in schedule.cycles) and len(schedule.cycles) == 1
    several = max(len(process.configurations) for process in schedule.processes)
    model_s = model_round_s(schedule, jobs, factors) if gated else 0.0
    return [_row(case, len(jobs), several, played, model_s, (flows.round_s, wrong), relative, "")]


def _row(
    case: RoundCell,
    jobs: int,
    configurations: int,
    played: PlayedSchedule,
    model_s: float,
    flows: tuple[float, float],
    relative: Sequence[float],
    refused: str,
) -> TurnRow:
    network = case.network
    return TurnRow(
        policy=case.policy,
        mix=case.mix,
        pods=network.pods,
        servers=network.servers,
        ports=network.ports,
        rate_bps=network.rate_bps,
        delta_s=network.delta_s,
        seed=case.seed,
        sigma=case.sigma,
        ratio=case.ratio,
        scale=case.scale,
        jobs=jobs,
        configurations=configurations,
        round_s=0.0 if refused else played.round_s,
        model_s=model_s,
        flow_s=flows[0],
        flow_error=flows[0] / played.round_s - 1.0 if played.round_s else 0.0,
        flow_job_error=flows[1],
        planned_s=played.predicted_round_s,
        dark_lost=played.dark_lost,
        misrouted=played.misrouted,
        lost=played.lost,
        resends=played.resends,
        reconfigurations=played.reconfigurations,
        exact=played.exact,
        as_predicted=not played.differing,
        relative_mean=sum(relative) / max(1, len(relative)),
        relative_worst=min(relative, default=0.0),
        refused=refused,
    )


SMALL: Final = OpticalNetwork(4, 2, 25 * 10**9, 2, 25 * 10**9, delta_s=200e-6)
NARROW: Final = OpticalNetwork(4, 3, 25 * 10**9, 2, 25 * 10**9)
HAND: Final = SMALL.with_delta(20e-6)
DELTAS: Final = (0.0, 20e-6, 200e-6, 1.2e-3, 10e-3, 30e-3)
UNCOORDINATED: Final = "uncoordinated"
"""part with all-to-alls whose hosts know nothing of each other: they fill queues until frames are lost"""


def round_cells(part: str, settings: TurnsSettings) -> list[RoundCell]:
    """Return the cells of a part."""
    seeds = settings.seeds
    if settings.small:
        small = RoundCell(SMALL, "tdm", seeds[0], least=2, most=4, scale=640.0, calibrated=SMALL)
        match part:
            case "gain":
                return [
                    *(
                        replace(small, policy=policy, seed=seed, sigma=sigma)
                        for policy in ("tdm", "no-tdm")
                        for seed, sigma in zip(seeds, (0.0, 0.4), strict=False)
                    ),
                    replace(small, policy="seed"),
                ]
            case "all-to-all":
                return [replace(small, mix="all-to-all")]
        return []
    networks = (X1, X2)
    mixes: tuple[tuple[Mix, int, int], ...] = (("mixed", 4, 12), ("all-to-all", 8, 8), ("all-to-all", 16, 16))
    match part:
        case "gain":
            return [
                RoundCell(network, policy, seed, ratio=ratio)
                for network in networks
                for ratio, most in ((1.0, 5), (0.5, 3))
                for policy in ("tdm", "no-tdm", *(("seed", "static") if ratio == 1.0 else ()))
                for seed in seeds[: _seeds(policy, network.ports, most)]
            ]
        case "all-to-all":
            return [
                RoundCell(network, policy, seed, least=least, most=most, mix=mix)
                for network in networks
                for mix, least, most in mixes
                for policy, count in (("tdm", 2), ("no-tdm", 1))
                for seed in seeds[:count]
            ]
        case "hops":
            # Two jobs of 32 hosts over 8 pods, with darkness for which several configurations pay off, or hops do.
            return [
                RoundCell(replace(network, delta_s=delta), "tdm", seeds[0], least=32, most=32, mix="all-to-all")
                for network in networks
                for delta in (10e-3, 100e-3)
            ]
        case "sharing":
            cells = [
                RoundCell(network, policy, seed, sigma=0.4, least=8, most=8, rounds=4)
                for network, policies, most in (
                    (X1, ("pairs",), 5),
                    (X1, ("free", "tdm", "exclusive"), 3),
                    (X1, ("cassini",), 1),
                    (X2, ("pairs",), 5),
                    (X2, ("free",), 1),
                )
                for policy in policies
                for seed in seeds[:most]
            ]
            return cells + [RoundCell(X1, "pairs", seed, least=8, most=8, mix="all-to-all") for seed in seeds[:2]]
        case "uncoordinated":
            return [RoundCell(X2, "free", seeds[0], least=8, most=8, rounds=3, mix="all-to-all")]
        case "sigma":
            return [
                RoundCell(X2, policy, seed, sigma=sigma)
                for sigma in (0.0, 0.4, 0.8)
                for policy in ("tdm", "no-tdm")
                for seed in seeds[:2]
            ]
        case "delta":
            return [RoundCell(replace(X2, delta_s=delta), "tdm", seeds[0]) for delta in DELTAS]
        case "stripes":
            own = tuple(UNSEEN) if seeds == tuple(HELD_OUT) else seeds[:3]
            return [
                RoundCell(
                    replace(NARROW, port_rate_bps=round(NARROW.rate_bps * (0.25, 0.4, 1.0)[place % 3])),
                    "striped",
                    seed,
                    sigma=0.3,
                    ratio=(0.5, 1.0, 2.0)[seed // 3 % 3],
                    least=2,
                    most=7,
                    scale=128.0,
                    mix="mixed" if seed % 3 == 0 else "sums",
                )
                for place, seed in enumerate(own)
            ]
        case "configurations":
            own = tuple(UNSEEN)[:6] if seeds == tuple(HELD_OUT) else seeds[:2]
            return [
                RoundCell(network, policy, seed, mix="mixed" if seed % 2 else "all-to-all")
                for network in (X2, replace(X2, pods=6))
                for policy in ("tdm", "no-tdm")
                for seed in own
            ]
    return [RoundCell(X2, "tdm", seeds[0], scale=scale) for scale in (16.0, 64.0, 256.0)]


def _seeds(policy: str, ports: int, most: int) -> int:
    """Return the number of seeds; two ports are too few for half of the source's placements, so these need more."""
    if policy == "static":
        return 2
    return 2 * most if ports == X2.ports and policy in ("seed", "tdm") and most > 3 else most


# The same trees on electrical twins, where a hash chooses among equal paths (ECMP): on packets.
#
# Leaf-spine: as many spines as a ToR has ports to the cross-connect, uplinks as fast as those ports. An edge of a tree
# is one flow, or several: each flow is a share of the vector with a separate tree, whose path a hash chooses. If the
# hash does not include the switch, every stage makes the same choice (hash polarization): in a fat-tree a flow can then
# use k/2 cores instead of (k/2)^2.


Edge = tuple[str, str]
Wanted = tuple[tuple[str, ...], str, dict[str, str], int]
"""hosts, root, parent of every host and switch but the root, elements"""


@dataclass(frozen=True)
class TwinCell:
    """twin: 'leaf-spine', for the first group of a schedule; 'fat-tree': pairs of hosts across a network of k = 8."""

    twin: str
    flows: int
    polarized: bool
    seed: int
    ports: int = 2
    pods: int = 8
    servers: int = 4
    elements: int = 32_768
    """number of elements of a pair in a fat-tree"""


@record
class TwinRow:
    """took_s: time with a hash; ideal_s: over dedicated circuits (leaf-spine), or alone on a NIC (fat-tree)."""

    twin: str = column("twin")
    flows: int = column("flows an edge")
    polarized: bool = column("polarized")
    seed: int
    took_s: float
    ideal_s: float
    exact: bool

    @property
    def ratio(self) -> float:
        """Ratio C(ECMP) / C(OXC)."""
        return self.took_s / self.ideal_s


def run_twin(case: TwinCell) -> list[TwinRow]:
    """Run one twin with one number of flows."""
    if case.twin == "fat-tree":
        topology = fat_tree(8, rate="25G")
        wanted = _pairs(topology, case)
        alone, exact = _carry(topology, wanted[:1], case, flows=1)
        took, right = _carry(topology, wanted, case, flows=case.flows)
        return [TwinRow(case.twin, case.flows, case.polarized, case.seed, took, alone, exact and right)]
    network = OpticalNetwork(case.pods, case.servers, 25 * 10**9, case.ports, 25 * 10**9, delta_s=0.0)
    jobs = RoundCell(network, "tdm", case.seed).jobs()
    schedule = make_schedule("tdm", jobs, network, TurnOptions(seed=case.seed))
    played = play_turns(schedule, {job.name: job for job in jobs}, rounds=1)
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
    return [TwinRow(case.twin, case.flows, case.polarized, case.seed, took, ideal, exact and played.exact)]


def hashed_path(topology: Topology, source: str, target: str, key: str, *, polarized: bool) -> tuple[str, ...]:
    """Return the switches of a shortest path; at each, a hash of the flow chooses among the nearer neighbours.

    Without the switch in the hash, every stage chooses the port of the same index (``polarized``).
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


def _pairs(topology: Topology, case: TwinCell) -> list[Wanted]:
    """Pair each host of the first half of the pods with a random host of the second half."""
    names = [host.name for host in topology.hosts]
    draw = np.random.default_rng(case.seed)
    half = len(names) // 2  # hosts of the first half of the pods
    others = [names[half + place] for place in draw.permutation(half)]
    wanted: list[Wanted] = []
    for a, b in zip(names[:half], others, strict=True):
        switches = topology.neighbours(a)[0], topology.neighbours(b)[0]
        parents = {a: switches[0], b: switches[1], switches[1]: switches[0]}
        wanted.append(((a, b), switches[0], parents, case.elements))
    return wanted


def _carry(topology: Topology, wanted: Sequence[Wanted], case: TwinCell, *, flows: int) -> tuple[float, bool]:
    """Run all trees at once; return seconds until the last result, and whether all sums are right."""
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
                # Shares of one vector also share its window.
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
        if network.advance(watch=watched) is not StopReason.DONE:
            raise ClusterError(f"{case}: nothing moves any more")
        took = max(network.done_ps(job) for job, _, _ in posted) - start
        exact = all(
            np.array_equal(result, count * np.arange(result.size, dtype=np.int32))
            for _, results, count in posted
            for result in results
        )
        return took / PS_PER_S, exact


def twin_cells(settings: TurnsSettings) -> list[TwinCell]:
    """Return leaf-spines by flows per edge, and fat-trees with and without the switch in the hash."""
    seeds = settings.seeds
    if settings.small:
        return [TwinCell("leaf-spine", flows, False, seeds[0], pods=4, servers=2) for flows in (1, 4)]
    cells = [TwinCell("leaf-spine", flows, False, seed) for flows in (1, 4, 16) for seed in seeds[:4]]
    # A switch has counters for 512 trees: 64 pairs with 7 flows each.
    return cells + [
        TwinCell("fat-tree", flows, polarized, seeds[0]) for flows in (1, 4, 7) for polarized in (False, True)
    ]


# Slots too short for their data.


@record
class WindowRow:
    """Slots too short for their data, with one way to keep windows."""

    keep: str = column("kept by")
    iteration_s: float = column("iteration, us", scaled(1e6, "{:.0f}"))
    dark_lost: int = column("lost in darkness", "{:.0f}")
    misrouted: int = column("misrouted", "{:.0f}")
    resends: int = column("resends", "{:.0f}")


def run_window(keep: Keep) -> list[WindowRow]:
    """Run slots of 50 us with frames for 71 us: the rest must wait for the next window."""
    schedule, jobs = two_groups(HAND, 200_000, 1e-6, clock="slots", round_s=100e-6, guard_s=12e-6)
    played = play_turns(schedule, jobs, rounds=20, keep=keep)
    times = [time for own in played.iterations_ps.values() for time in own]
    mean = statistics.mean(times) / PS_PER_S if times else float("nan")
    return [WindowRow(keep, mean, played.dark_lost, played.misrouted, played.resends)]


def chart() -> str:
    """Return a chart of two groups on packets, SVG."""
    schedule, jobs = two_groups(HAND, 200_000, 60e-6)
    groups = {plan.job: plan.group for plan in schedule.jobs}
    title = "two groups on packets: circuits, jobs and darkness"
    return gantt_svg(play_turns(schedule, jobs, rounds=2), groups, title=title)
