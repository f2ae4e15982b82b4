"""The table of bars that need no packets."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from p4reduce.base.output import Progress
from p4reduce.control_plane.tdm.circuits import Reading
from p4reduce.control_plane.tdm.grouping import Rounds, all_partitions, hill_climbing, search_partition
from p4reduce.control_plane.tdm.groups import SeedGroups, TreeGroups
from p4reduce.control_plane.tdm.jobs import MODELS, Kind, OpticalNetwork, TdmError, TdmJob, model_job, parse_network
from p4reduce.control_plane.tdm.packing import demand, ecmp_s, ideal_s, parts_of, search
from p4reduce.control_plane.tdm.pairs import Alone, match, play, relative
from p4reduce.control_plane.tdm.registry import Options, make_schedule
from p4reduce.control_plane.tdm.schedule import (
    Clock,
    Configuration,
    Cycle,
    JobPlan,
    Matrix,
    Process,
    Route,
    Schedule,
    Tree,
    turns_of,
)
from p4reduce.control_plane.tdm.switched import join, solve
from p4reduce.play.turns.acts import Played
from p4reduce.play.turns.arrivals import draw_trace, run_trace
from p4reduce.play.turns.flow_model import WAYS, Factors, FactorsOf, Way, play_flows, way_of
from p4reduce.play.turns.installing import WORD
from p4reduce.play.turns.player import LANES
from p4reduce.play.turns.player import play as play_turns
from studies.before import in_parallel

# Random jobs under a policy, on packets and in the flow model: the pieces of the study.


# Random jobs for the experiments: gangs that fill the GPUs twice, elastic jobs, jobs of known models.


X1: Final = parse_network("oxc:pods=8,hosts=4,ports=4,rate=25G")
X2: Final = parse_network("oxc:pods=8,hosts=4,ports=2,rate=25G")
X3: Final = parse_network("oxc:pods=16,hosts=8,ports=8,rate=25G")
X4: Final = parse_network("oxc:pods=32,hosts=16,ports=8,rate=100G,gpus=8")
X5: Final = parse_network("oxc:pods=128,hosts=16,ports=8,rate=100G,gpus=8")
TRAIN_S: Final = 0.1
"""median of log-normal training times"""
SIGMA: Final = 0.2
"""of training times where gains of two groups are measured; beyond, unequal periods eat them (measured by itself)"""
Mix = Literal["sums", "mixed", "all-to-all"]
KINDS: Final[dict[Mix, tuple[Kind, ...]]] = {
    "sums": ("ps", "rar"),
    "mixed": ("ps", "rar", "a2a"),
    "all-to-all": ("a2a",),
}
"""what jobs are, in turns"""


def sizes(network: OpticalNetwork, random: np.random.Generator, least: int, most: int) -> list[int]:
    """Gangs of ``least`` to ``most`` units that fill all GPUs; the last is what is left, the ends moved to fit."""
    found: list[int] = []
    left = network.all_gpus
    while left:
        units = min(left, int(random.integers(least, most + 1)))
        if 0 < left - units < least:
            units = left if left <= most else left - least
        found.append(units)
        left -= units
    return found


def gangs(
    network: OpticalNetwork,
    seed: int,
    *,
    sigma: float = 0.4,
    load: float = 1.0,
    least: int = 4,
    most: int = 12,
    layers: int = 2,
    kinds: Sequence[Kind] = KINDS["sums"],
) -> list[TdmJob]:
    """Jobs that fill the GPUs ``layers`` times, ``kinds`` in turns.

    Training is log-normal around `TRAIN_S`; ``load`` is c/w, where c is what the job's NICs take for it alone.
    """
    random = np.random.default_rng(seed)
    units = [one for _ in range(layers) for one in sizes(network, random, least, most)]
    return [_job(network, random, place, one, sigma, load, kinds) for place, one in enumerate(units)]


def elastic(
    network: OpticalNetwork, seed: int, *, jobs: int = 8, sigma: float = 0.4, load: float = 1.0
) -> list[TdmJob]:
    """Jobs whose units the scheduler chooses; c/w is ``load`` on an equal share of the GPUs of a group."""
    random = np.random.default_rng(seed)
    share = max(2, 2 * network.all_gpus // jobs)
    return [_job(network, random, place, share, sigma, load, KINDS["sums"], elastic=True) for place in range(jobs)]


def of_models(network: OpticalNetwork, seed: int, *, jobs: int, units: int) -> list[TdmJob]:
    """Jobs of equal size, each of a model drawn from all."""
    random = np.random.default_rng(seed)
    names = sorted(MODELS)
    del network
    return [model_job(f"j{place}", names[int(random.integers(len(names)))], units) for place in range(jobs)]


def _job(
    network: OpticalNetwork,
    random: np.random.Generator,
    place: int,
    units: int,
    sigma: float,
    load: float,
    kinds: Sequence[Kind],
    *,
    elastic: bool = False,
) -> TdmJob:
    train_s = TRAIN_S * float(np.exp(random.normal(0.0, sigma)))
    kind = kinds[place % len(kinds)]
    sent = train_s * load * network.nic / (2 * (units - 1) if kind == "a2a" else 1)
    sent = max(4, round(sent / 4) * 4)
    return TdmJob(f"j{place}", kind, sent, train_s, units, elastic=elastic)


def scaled(job: TdmJob, scale: float) -> TdmJob:
    """Its bytes and times divided: packets of a 64th show the same as the whole."""
    return replace(job, bytes=max(4, round(job.bytes / scale / 4) * 4), compute_s=job.compute_s / scale)


# A schedule by hand in which the cross-connect must change: two groups on the same hosts, circuits for one of them.


FRAME = 1110 / 1024
"""bytes on a link for a byte of 256 lanes"""
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
    """A chain of pods, then a star of others, beside a job within a pod; in 4 pods of 2 hosts with 2 ports.

    Parameters
    ----------
    network : OpticalNetwork
        Of 4 pods.
    size, compute_s : int and float
        Bytes and training of each job; the one within a pod sends half.
    clock, round_s, guard_s
        Of the schedule; round_s: 0 is what training, darkness and headers make of it.
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
            ("a", ("h1", "h3", "h5", "h7"), 0, Tree(1, ((0, 1), (2, 1), (3, 2)), 1.0)),
            ("b", ("h1", "h2", "h5", "h7"), 1, Tree(0, ((2, 0), (3, 0)), 1.0)),
            ("c", ("h3", "h4"), 1, Tree(1, (), 1.0)),
        )
    )
    jobs = {
        plan.job: TdmJob(plan.job, "rar", size // 2 if plan.job == "c" else size, compute_s, len(plan.placement))
        for plan in plans
    }
    took = round_s or 2 * max(compute_s, network.delta_s + size / network.nic * FRAME)
    processes = tuple(
        Process((Configuration(matrix, number * took / 2, took / 2),), number * took / 2, took / 2)
        for number, matrix in enumerate((CHAIN, STAR))
    )
    cycle = Cycle(tuple(jobs), took, "gated")
    return Schedule("by hand", network, plans, processes, (cycle,), took, clock, guard_s), jobs


# What packets take beyond the bytes of a schedule: headers, and the round trips before the first result.
#
# A schedule reckons with bytes over rates. On packets a vector takes ``frames`` times as long (1,110 bytes on a link
# for 1,024 of 256 lanes are 1.084) and ``lead_s`` more, both measured here on jobs that have the network to
# themselves.


SIZES = (400_000, 3_200_000)
"""bytes of the vectors that are measured"""


def measure_factors(network: OpticalNetwork) -> dict[Way, Factors]:
    """Factors of each way in a network of at least two pods, from two sizes each."""
    found: dict[Way, Factors] = {}
    for way in WAYS:
        points = []
        for size in SIZES:
            schedule, job = alone(network, way, size)
            points.append((schedule.round_s, play_turns(schedule, {job.name: job}, rounds=1).round_s))
        (small, took_small), (large, took_large) = points
        frames = (took_large - took_small) / (large - small)
        found[way] = Factors(frames, took_small - frames * small, LANES * WORD)
    return found


def alone(network: OpticalNetwork, way: Way, size: int) -> tuple[Schedule, TdmJob]:
    """A job of one host in each of two pods that only communicates; a round is the seconds of its bytes on a NIC."""
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
        trees=() if way == "all-to-all" else (Tree(0, ((1, 0),), 1.0, pipelined=way == "tree"),),
        routes=(Route((0, 1), 1.0), Route((1, 0), 1.0)) if way == "all-to-all" else (),
    )
    process = Process((Configuration(circuits, 0.0, 1.0),), 0.0, 1.0)
    takes = (1 if way == "tree" else 2) * block / min(network.nic, network.circuit)
    cycle = Cycle(("alone",), 1.0, "gated")
    bonded = replace(network, parallel="bonded")
    return Schedule("alone", bonded, (plan,), (process,), (cycle,), takes), job


def model_round_s(schedule: Schedule, jobs: Sequence[TdmJob], factors: FactorsOf) -> float:
    """t_round of a gated schedule with these factors: sum over k of max(delta + C_k, W of the others).

    C_k is that of the group's longest window as scheduled. Where all communicate at once, training comes before.
    """
    plans = {plan.job: plan for plan in schedule.jobs}
    ways = {job.name: way_of(job, plans[job.name]) for job in jobs}
    groups = turns_of(schedule, schedule.cycles[0])
    sent = [max(factors[ways[name]].of(plans[name].duration_s) for name in own) for own in groups.values()]
    if len(groups) == 1:
        return max(plan.start_s for plan in schedule.jobs) + sent[0]
    trained = [max(plans[name].train_s for name in own) for own in groups.values()]
    circuits = [process.configurations[-1].circuits for process in schedule.processes]
    total = 0.0
    for place, took in enumerate(sent):
        changes = len(circuits) > 1 and circuits[place] != circuits[place - 1]
        others = max(own for other, own in enumerate(trained) if other != place)
        total += max(took + (schedule.network.delta_s if changes else 0.0), others)
    return total


@dataclass(frozen=True)
class Case:
    """One instance, one policy. Times of the network and of jobs are divided by ``scale`` when it is played."""

    study: str
    network: OpticalNetwork
    policy: str
    seed: int
    sigma: float = SIGMA
    ratio: float = 1.0
    """communication over training time of a job that has its NICs to itself"""
    least: int = 4
    most: int = 12
    """units of a gang"""
    scale: float = 64.0
    rounds: int = 1
    mix: Mix = "sums"

    def jobs(self) -> list[TdmJob]:
        """Gangs that fill all GPUs twice, at the case's scale."""
        drawn = gangs(
            self.network,
            self.seed,
            sigma=self.sigma,
            load=self.ratio,
            least=self.least,
            most=self.most,
            kinds=KINDS[self.mix],
        )
        return [scaled(job, self.scale) for job in drawn]


@dataclass(frozen=True)
class Row:
    """What came of a case; seconds at the case's scale.

    model_s: formulas (1) to (3) with calibrated factors (0: not one gated cycle). flow_s: the flow model with them.
    """

    study: str
    policy: str
    mix: str
    pods: int
    servers: int
    ports: int
    rate_bps: int
    delta_s: float
    seed: int
    sigma: float
    ratio: float
    scale: float
    jobs: int
    configurations: int
    """of the process that has most of them"""
    round_s: float
    """mean round; where nobody is gated, or not all together, the mean iteration of all jobs"""
    model_s: float
    flow_s: float
    flow_error: float
    """how much longer the flow model says a round, or an iteration, takes; relative"""
    flow_job_error: float
    """the largest error of a job's mean iteration, of the flow model"""
    planned_s: float
    dark_lost: int
    misrouted: int
    lost: int
    resends: int
    reconfigurations: int
    exact: bool
    as_predicted: bool
    relative_mean: float = 0.0
    """throughput of a job over that alone (training, and bytes with calibrated factors), the mean of all jobs"""
    relative_worst: float = 0.0
    refused: str = ""

    @property
    def packets_over_model(self) -> float:
        """1: the formulas are right."""
        return self.round_s / self.model_s if self.model_s else float("nan")


def run_case(work: tuple[Case, FactorsOf]) -> Row:
    """Schedule and play it, on packets and at flow level; a policy that refuses says why in ``refused``."""
    case, factors = work
    network = case.network.with_delta(case.network.delta_s / case.scale)
    jobs = case.jobs()
    by_name = {job.name: job for job in jobs}
    try:
        schedule = make_schedule(case.policy, jobs, network, Options(seed=case.seed, best=True))
        played = play_turns(schedule, by_name, rounds=case.rounds, seed=case.seed)
    except TdmError as error:
        return _row(case, len(jobs), 0, Played(case.policy, 0.0), 0.0, (0.0, 0.0), [], str(error))
    flows = play_flows(schedule, by_name, rounds=case.rounds, factors=factors)
    wrong = max(abs(flows.iteration_s(job.name) / played.iteration_s(job.name) - 1.0) for job in jobs)
    relative = []
    for job in jobs:
        factor = factors[way_of(job, schedule.plan(job.name))]
        sent = job.bytes * (2 * (job.units - 1) if job.kind == "a2a" else 1)
        relative.append((job.compute_s + factor.of(sent / network.nic)) / played.iteration_s(job.name))
    gated = all(cycle.mode == "gated" for cycle in schedule.cycles) and len(schedule.cycles) == 1
    several = max(len(process.configurations) for process in schedule.processes)
    # Formulas say nothing of how darkness and bytes of several configurations go together.
    model_s = model_round_s(schedule, jobs, factors) if gated and several == 1 else 0.0
    return _row(case, len(jobs), several, played, model_s, (flows.round_s, wrong), relative, "")


def _row(
    case: Case,
    jobs: int,
    configurations: int,
    played: Played,
    model_s: float,
    flows: tuple[float, float],
    relative: Sequence[float],
    refused: str,
) -> Row:
    network = case.network
    return Row(
        study=case.study,
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


# A line of the table of bars: what was demanded beside what was measured.


@dataclass(frozen=True)
class Bar:
    """A line of the table."""

    text: str
    demand: str
    measured: str
    holds: bool | None
    """None: to be reported"""


def at_least(text: str, values: Sequence[float], demanded: float | None) -> list[Bar]:
    """A mean that must not be lower; nothing where nothing was measured."""
    if not values:
        return []
    mean = statistics.fmean(values)
    said = f"mean {mean:.3g}, {min(values):.3g} to {max(values):.3g}"
    holds = None if demanded is None else mean >= demanded
    return [Bar(text, "report" if demanded is None else f">= {demanded:g}", said, holds)]


def at_most(text: str, values: Sequence[float], mean_most: float | None, worst_most: float | None = None) -> list[Bar]:
    """A mean, and a worst value, that must not be higher; nothing where nothing was measured."""
    if not values:
        return []
    mean, worst = statistics.fmean(values), max(values)
    holds = None
    if mean_most is not None:
        holds = mean <= mean_most + 1e-9 and (worst_most is None or worst <= worst_most + 1e-9)
    wanted = "report" if mean_most is None else f"mean <= {mean_most:g}"
    wanted += "" if worst_most is None else f", worst <= {worst_most:g}"
    return [Bar(text, wanted, f"mean {mean:.4g}, worst {worst:.4g}", holds)]


# Figures of a part.


Values = dict[str, list[float]]
"""figures by name, of one seed or of all"""


# Taking turns beside no TDM, the source's system, one topology, darkness, and electrical networks.


def gains(seed: int, quick: bool) -> Values:
    """no TDM, seed, one topology and ideal EPS over `tdm`, for R = 4, 3, 2 and both loads."""
    found: Values = {}
    for load in (1.0, 0.5):
        for ports in (4, 3, 2):
            network = replace(X1, ports=ports)
            jobs = gangs(network, seed, sigma=SIGMA, load=load)
            ours = make_schedule("tdm", jobs, network).round_s
            found[f"no-tdm R={ports} c/w={load:g}"] = [make_schedule("no-tdm", jobs, network).round_s / ours]
            if load == 1.0:
                rounds = Rounds(jobs, SeedGroups(jobs, network), network.delta_s)
                found[f"seed R={ports}"] = [search_partition(rounds, evaluations=50 if quick else 200).round_s / ours]
                found[f"static R={ports}"] = [make_schedule("static", jobs, network).round_s / ours]
                found[f"frozen R={ports}"] = _frozen(jobs, network)
                found[f"ideal R={ports}"] = [ours / make_schedule("eps-ideal", jobs, network).round_s]
    for ports in (4, 2):
        network = replace(X1, ports=ports)
        jobs = elastic(network, seed, jobs=12, sigma=SIGMA)
        ratio = make_schedule("no-tdm", jobs, network).round_s / make_schedule("tdm", jobs, network).round_s
        found[f"elastic R={ports}"] = [ratio]
    return found


def mixed(seed: int, quick: bool) -> Values:
    """The same with all-to-all jobs, which need a circuit to every pod they are in; 0 where no topology does."""
    del quick
    found: Values = {}
    for ports in (4, 3, 2):
        network = replace(X1, ports=ports)
        jobs = gangs(network, seed, sigma=SIGMA, kinds=KINDS["mixed"])
        ours = make_schedule("tdm", jobs, network).round_s
        for policy in ("no-tdm", "static"):
            try:
                value = make_schedule(policy, jobs, network).round_s / ours
            except TdmError:
                value = 0.0
            found[f"mixed {policy} R={ports}"] = [value]
    return found


def _frozen(jobs: Sequence[TdmJob], network: OpticalNetwork) -> list[float]:
    """One topology for the placements that `tdm` chose: only trees may change; 0 where ports are too few for that."""
    rounds = Rounds(jobs, TreeGroups(jobs, network), network.delta_s)
    best = search_partition(rounds)
    layers = [layer for layer, group in enumerate(best.groups) for _ in group.jobs]
    own = [jobs[j] for group in best.groups for j in group.jobs]
    units = [row for group in best.groups for row in group.units]
    parts = [
        replace(part, fixed=row)
        for part, row in zip(parts_of(own, [job.units for job in own], network, layers), units, strict=True)
    ]
    packed = search(parts, network, one_topology=True, restarts=2)
    if packed.circuit_bytes == float("inf"):
        return [0.0]
    times = [max(group.communication_s, packed.circuit_bytes / network.circuit) for group in best.groups]
    one, other = best.groups
    return [(max(times[0], other.training_s) + max(times[1], one.training_s)) / best.round_s]


def delta(seed: int, quick: bool) -> Values:
    """What darkness costs, hidden behind training and not."""
    del quick
    found: Values = {}
    jobs = gangs(X1, seed, sigma=SIGMA)
    readings: tuple[Reading, ...] = ("overlap", "serial")
    for reading in readings:
        options = Options(reading=reading)
        least = make_schedule("tdm", jobs, X1.with_delta(0.0), options).round_s
        for delta_s in (0.2e-3, 1e-3, 10e-3):
            round_s = make_schedule("tdm", jobs, X1.with_delta(delta_s), options).round_s
            found[f"{reading} {delta_s * 1e3:g} ms"] = [100 * (round_s / least - 1)]
    return found


def electrical(seed: int, quick: bool) -> Values:
    """Communication with ECMP over that with circuits, and ideal EPS, for groups of `tdm` at R = 2."""
    network = replace(X1, ports=2)
    jobs = gangs(network, seed, sigma=SIGMA)
    planner = TreeGroups(jobs, network)
    best = search_partition(Rounds(jobs, planner, network.delta_s))
    found: Values = {}
    for group in best.groups:
        if group.packed is None:
            continue
        parts = parts_of([jobs[j] for j in group.jobs], group.given, network)
        nic_s = planner.bound(group.jobs)[0]
        for flows in (1, 4, 16):
            for polarized in (False, True):
                draws = range(5 if quick else 20)
                times = [
                    max(nic_s, ecmp_s(group.packed, parts, network, flows=flows, polarized=polarized, seed=s))
                    for s in draws
                ]
                name = f"ecmp {flows}" + (" polarized" if polarized else "")
                found.setdefault(name, []).append(statistics.fmean(times) / group.communication_s)
        ideal = max(nic_s, ideal_s(demand(group.packed, parts, network.pods).astype(float), network))
        found.setdefault("over ideal", []).append(group.communication_s / ideal)
    return found


# Planning beside optima, and how long it takes.


def optima(seed: int, quick: bool) -> Values:
    """Against the best partition, and against the joint optimum."""
    found: Values = {"flips": [], "ours": [], "elastic flips": [], "exact": [], "seed placement": []}
    for ports in (4, 2):
        network = replace(X1, ports=ports)
        jobs = gangs(network, seed, sigma=0.4)
        if len(jobs) <= 10:
            rounds = Rounds(jobs, TreeGroups(jobs, network), network.delta_s)
            best = all_partitions(rounds).round_s
            found["flips"].append(hill_climbing(rounds).round_s / best)
            found["ours"].append(search_partition(rounds).round_s / best)
        few = elastic(network, seed, jobs=6)
        rounds = Rounds(few, TreeGroups(few, network), network.delta_s)
        found["elastic flips"].append(hill_climbing(rounds).round_s / all_partitions(rounds).round_s)
    for pods, ports, hosts in ((4, 2, 3),) if quick else ((4, 2, 3), (5, 3, 2), (5, 2, 2)):
        network = parse_network(f"oxc:pods={pods},hosts={hosts},ports={ports},rate=25G")
        for load in (1.0, 2.0):
            jobs = gangs(network, seed, sigma=SIGMA, load=load, least=3, most=6)
            if len(jobs) > (6 if pods == 4 else 7):
                continue
            best = solve(jobs, network).round_s
            found["exact"].append(make_schedule("tdm", jobs, network).round_s / best)
            placed = Rounds(jobs, SeedGroups(jobs, network), network.delta_s)
            found["seed placement"].append(all_partitions(placed).round_s / best)
    return found


def times(seed: int, quick: bool) -> Values:
    """Seconds of planning, on this machine as it is."""
    found: Values = {}
    shapes = ((16, 8, 32),) if quick else ((16, 8, 32), (128, 16, 100))
    for pods, hosts, number in shapes:
        network = parse_network(f"oxc:pods={pods},hosts={hosts},ports=8,rate=25G")
        random = np.random.default_rng(seed)
        share = 2 * network.all_gpus / number
        jobs = [
            TdmJob(
                f"j{place}",
                "rar",
                int(0.1 * np.exp(random.normal(0, 0.4)) * network.nic),
                float(0.1 * np.exp(random.normal(0, 0.4))),
                int(share * random.uniform(0.5, 0.98)),
            )
            for place in range(number)
        ]
        began = time.perf_counter()
        schedule = make_schedule("tdm", jobs[:-1], network)
        found[f"plan {pods}"] = [time.perf_counter() - began]
        began = time.perf_counter()
        join(schedule, jobs[:-1], jobs[-1])
        found[f"join {pods}"] = [time.perf_counter() - began]
    return found


# Jobs of unequal periods on the same GPUs: two groups, free, pairs; and with arrivals from traces.


TRACE_GPUS: Final = 32
TRACE_JOBS: Final = 3000


def pairs(seed: int, quick: bool) -> Values:
    """Throughput relative to alone: two groups, free, pairs; synthetic and of models at 100 Gb/s."""
    del quick
    random = np.random.default_rng(seed)
    train = 0.1 * np.exp(random.normal(0.0, 0.4, 8))
    synthetic = [Alone(float(w), float(w)) for w in train]
    nic = 100e9 / 8
    models = [Alone(one.compute_s, (2 if one.kind == "a2a" else 1) * one.unit_bytes / nic) for one in MODELS.values()]
    drawn = [models[int(x)] for x in random.integers(0, len(models), 12)]
    found: Values = {}
    for name, jobs in (("sigma 0.4", synthetic), ("models", drawn)):
        pairs, alone = match(jobs, [4] * len(jobs), 2 * len(jobs))
        rates = list(relative(pairs, alone).values())
        found[f"pairs {name}"] = [statistics.fmean(rates)]
        found[f"pairs {name} worst"] = [min(rates)]
        order = random.permutation(len(jobs))
        free = [play(jobs[a], jobs[b], None) for a, b in zip(order[::2], order[1::2], strict=True)]
        found[f"free {name}"] = [float(np.mean(free))]
        half = len(jobs) // 2
        first, second = [jobs[x] for x in order[:half]], [jobs[x] for x in order[half:]]
        round_s = _barrier(first, second)
        found[f"groups {name}"] = [statistics.fmean(job.period_s / round_s for job in jobs)]
    return found


def _barrier(first: Sequence[Alone], second: Sequence[Alone]) -> float:
    """t_round of two global groups."""
    (c1, w1), (c2, w2) = (
        (max(one.communicate_s for one in group), max(one.train_s for one in group)) for group in (first, second)
    )
    return max(c1, w2) + max(c2, w1)


def traces(seed: int, quick: bool) -> Values:
    """Mean JCT of exclusive over that of each policy."""
    found: Values = {}
    for load in (0.8, 1.0, 1.2):
        arrivals = draw_trace("philly", seed, jobs=150 if quick else TRACE_JOBS, gpus=TRACE_GPUS, load=load)
        alone = run_trace(arrivals, TRACE_GPUS, "exclusive").mean_jct_s
        for policy in ("pairs", "gated", "free"):
            found[f"{policy} {load:g}"] = [alone / run_trace(arrivals, TRACE_GPUS, policy).mean_jct_s]
    return found


# Every part with every seed, over cores or machines.


FEW: Final = {"times": 3, "optima": 6, "traces": 4}
"""seeds of parts that take long"""
PARTS: Final[dict[str, Callable[[int, bool], Values]]] = {
    "gains": gains,
    "mixed": mixed,
    "optima": optima,
    "delta": delta,
    "electrical": electrical,
    "pairs": pairs,
    "traces": traces,
    "times": times,
}


@dataclass(frozen=True)
class Unit:
    """One part with one seed."""

    part: str
    seed: int
    quick: bool


def run_unit(unit: Unit) -> Values:
    """The figures of a part, by name."""
    return PARTS[unit.part](unit.seed, unit.quick)


def measure(
    *,
    quick: bool,
    seeds: Sequence[int],
    parts: Sequence[str] = (),
    jobs: int = 1,
    dask: str | None = None,
    progress: Progress | None = None,
) -> Values:
    """Every part (of :data:`PARTS`; none named: all) with every seed."""
    chosen = seeds[:2] if quick else seeds
    units = [Unit(part, seed, quick) for part in parts or PARTS for seed in chosen[: FEW.get(part)]]
    found: Values = {}
    for own in in_parallel(run_unit, units, jobs=jobs, dask=dask, progress=progress, label="planned"):
        for name, values in own.items():
            found.setdefault(name, []).extend(values)
    return found


def bars(found: Values) -> list[Bar]:
    """The table: what was measured beside what is demanded; what was not measured is left out."""
    made: list[Bar] = []

    def least(text: str, name: str, demanded: float | None) -> None:
        made.extend(at_least(text, found.get(name, ()), demanded))

    def most(text: str, name: str, mean_most: float | None, worst_most: float | None = None) -> None:
        made.extend(at_most(text, found.get(name, ()), mean_most, worst_most))

    def shown(text: str, name: str) -> None:
        if values := found.get(name):
            possible = [value for value in values if value]
            said = f"mean {statistics.fmean(possible):.3g}, most {max(possible):.3g}; " if possible else ""
            said += f"impossible in {len(values) - len(possible)} of {len(values)}"
            made.append(Bar(text, "report", said, None))

    most("hill climbing over best partition, elastic", "elastic flips", None)
    most("flips over best partition, gangs", "flips", None)
    most("flips, swaps, restarts over best partition, gangs", "ours", 1.002, 1.002)
    most("tdm over joint optimum", "exact", 1.02, 1.05)
    most("seed's placement, best partition, over joint optimum", "seed placement", None)
    for ports, wanted in ((4, 1.6), (2, 2.1)):
        least(f"seed / tdm, each at its best partition, R={ports}", f"seed R={ports}", wanted)
    for load, gains in ((1.0, {4: 1.7, 2: 1.8}), (0.5, {4: 1.5, 2: 1.65})):
        for ports, value in gains.items():
            text = f"no TDM / TDM, gangs, c/w={load:g}, R={ports}"
            least(text, f"no-tdm R={ports} c/w={load:g}", value)
    for ports, value in ((4, 1.5), (2, 1.35)):
        least(f"no TDM / TDM, elastic, R={ports}", f"elastic R={ports}", value)
    for ports, one in ((2, 1.8), (3, 1.1), (4, None)):
        least(f"one topology (placed for it) / switching, R={ports}", f"static R={ports}", one)
        shown(f"one topology / switching, units where tdm put them, R={ports}", f"frozen R={ports}")
        shown(f"one topology / switching, a third all-to-all, R={ports}", f"mixed static R={ports}")
        shown(f"no TDM / TDM, a third all-to-all, R={ports}", f"mixed no-tdm R={ports}")
    for reading in ("overlap", "serial"):
        for delta in ("0.2", "1", "10"):
            most(f"delta {delta} ms, {reading}, % of the round", f"{reading} {delta} ms", None)
    for flows, one in ((1, 1.4), (4, 1.15), (16, None)):
        least(f"C(ECMP) / C(OXC), {flows} flows an edge, R=2", f"ecmp {flows}", one)
        least(f"the same, polarized, {flows} flows", f"ecmp {flows} polarized", None)
    for ports in (4, 3, 2):
        most(f"OXC / ideal EPS, round, R={ports}", f"ideal R={ports}", 1.05)
    most("OXC / ideal EPS, communication, R=2", "over ideal", 1.05)
    for name, mean, worst in (("sigma 0.4", 0.88, None), ("models", 0.76, 0.48)):
        for policy in ("groups", "free"):
            least(f"throughput relative to alone, {name}, {policy}", f"{policy} {name}", None)
        least(f"throughput relative to alone, {name}, pairs", f"pairs {name}", mean)
        if values := found.get(f"pairs {name} worst"):
            holds = None if worst is None else min(values) >= worst
            demanded = "report" if worst is None else f">= {worst:g}"
            made.append(Bar(f"worst job, {name}, pairs", demanded, f"{min(values):.3g}", holds))
    for offered, wanted_ratio in (("0.8", 1.6), ("1", 2.3), ("1.2", 2.6)):
        least(f"mean JCT exclusive / pairs, load {offered}", f"pairs {offered}", wanted_ratio)
        for policy in ("gated", "free"):
            least(f"mean JCT exclusive / {policy}, load {offered}", f"{policy} {offered}", None)
    for text, name, seconds in (
        ("seconds to plan 16 pods, 32 jobs", "plan 16", 1.0),
        ("seconds to plan 128 pods, 100 jobs", "plan 128", 30.0),
        ("seconds for one arrival, 16 pods", "join 16", 0.1),
        ("seconds for one arrival, 128 pods", "join 128", 0.1),
    ):
        most(text, name, seconds, seconds)
    return made
