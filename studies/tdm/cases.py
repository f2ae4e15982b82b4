"""Random jobs under a policy, on packets and in the flow model: the pieces of the study."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from p4reduce.control_plane.tdm.jobs import MODELS, Kind, TdmError, TdmJob, model_job
from p4reduce.control_plane.tdm.network import OpticalNetwork, parse_network
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
from p4reduce.play.turns.acts import Played
from p4reduce.play.turns.flow_model import WAYS, Factors, FactorsOf, Way, play_flows, way_of
from p4reduce.play.turns.installing import WORD
from p4reduce.play.turns.player import LANES, play

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


def measure(network: OpticalNetwork) -> dict[Way, Factors]:
    """Factors of each way in a network of at least two pods, from two sizes each."""
    found: dict[Way, Factors] = {}
    for way in WAYS:
        points = []
        for size in SIZES:
            schedule, job = alone(network, way, size)
            points.append((schedule.round_s, play(schedule, {job.name: job}, rounds=1).round_s))
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
        played = play(schedule, by_name, rounds=case.rounds, seed=case.seed)
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
