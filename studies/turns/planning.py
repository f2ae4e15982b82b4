"""Results of planning, without packets: random jobs, and values by name and seed."""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from p4reduce.control_plane.tdm.circuits import Reading
from p4reduce.control_plane.tdm.columns import Commodity, free_bytes
from p4reduce.control_plane.tdm.grouping import RoundTimes, all_partitions, hill_climbing, search_partition
from p4reduce.control_plane.tdm.groups import SeedGroups, TreeGroups
from p4reduce.control_plane.tdm.jobs import MODELS, Kind, OpticalNetwork, TdmError, TdmJob, model_job, parse_network
from p4reduce.control_plane.tdm.optimum import JOBS, longest_iteration_s, relative_to_alone, solve, wide_optimum
from p4reduce.control_plane.tdm.packing import demand, ecmp_s, ideal_s, parts_of, search
from p4reduce.control_plane.tdm.pairs import TimesAlone, match, play, relative
from p4reduce.control_plane.tdm.registry import TurnOptions, make_schedule
from p4reduce.control_plane.tdm.stripes import whole_circuits
from p4reduce.control_plane.tdm.switched import join
from p4reduce.play.turns.arrivals import draw_trace, run_trace
from studies.frame import column, record

# The settings of the study.


DEVELOPED: Final = range(1, 11)
HELD_OUT: Final = range(101, 111)
"""seeds that were not used to choose planners, bars and instances"""


@dataclass(frozen=True)
class TurnsSettings:
    """Every parameter of the study.

    Attributes
    ----------
    seeds : tuple of int
        Seeds of the instances; parts that take long use the first few seeds only.
    """

    seeds: tuple[int, ...] = tuple(HELD_OUT)
    small: bool = False
    """a small network, fewer instances, two points of two sweeps"""


QUICK: Final = TurnsSettings(seeds=(1, 2), small=True)


# Random jobs for the experiments: gangs that fill the GPUs twice, elastic jobs, jobs of known models.


X1: Final = parse_network("oxc:pods=8,hosts=4,ports=4,rate=25G")
X2: Final = parse_network("oxc:pods=8,hosts=4,ports=2,rate=25G")
X3: Final = parse_network("oxc:pods=16,hosts=8,ports=8,rate=25G")
X4: Final = parse_network("oxc:pods=32,hosts=16,ports=8,rate=100G,gpus=8")
X5: Final = parse_network("oxc:pods=128,hosts=16,ports=8,rate=100G,gpus=8")
TRAIN_S: Final = 0.1
"""median of log-normal training times, s"""
SIGMA: Final = 0.2
"""sigma of training times for the gains of two groups; beyond it, unequal periods consume them (separate part)"""
Mix = Literal["sums", "mixed", "all-to-all"]
KINDS: Final[dict[Mix, tuple[Kind, ...]]] = {
    "sums": ("ps", "rar"),
    "mixed": ("ps", "rar", "a2a"),
    "all-to-all": ("a2a",),
}
"""kinds of jobs, which alternate"""


def sizes(network: OpticalNetwork, random: np.random.Generator, least: int, most: int) -> list[int]:
    """Return gang sizes from ``least`` to ``most`` units that fill all GPUs; the last ones are adjusted to fit."""
    drawn: list[int] = []
    left = network.all_gpus
    while left:
        units = min(left, int(random.integers(least, most + 1)))
        if 0 < left - units < least:
            units = left if left <= most else left - least
        drawn.append(units)
        left -= units
    return drawn


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
    """Return jobs that fill the GPUs ``layers`` times, with alternating ``kinds``.

    Training times are log-normal around `TRAIN_S`; ``load`` is c/w, where c is the communication time of the job alone.
    """
    random = np.random.default_rng(seed)
    units = [size for _ in range(layers) for size in sizes(network, random, least, most)]
    return [_job(network, random, place, size, sigma, load, kinds) for place, size in enumerate(units)]


def elastic(
    network: OpticalNetwork, seed: int, *, jobs: int = 8, sigma: float = 0.4, load: float = 1.0
) -> list[TdmJob]:
    """Return jobs whose units the scheduler chooses; c/w is ``load`` on an equal share of the GPUs of a group."""
    random = np.random.default_rng(seed)
    share = max(2, 2 * network.all_gpus // jobs)
    return [_job(network, random, place, share, sigma, load, KINDS["sums"], elastic=True) for place in range(jobs)]


def of_models(network: OpticalNetwork, seed: int, *, jobs: int, units: int) -> list[TdmJob]:
    """Return jobs of equal size, each with a random model."""
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


def scaled_job(job: TdmJob, scale: float) -> TdmJob:
    """Return a job with bytes and times divided by ``scale``; results for a 64th agree with those for the whole."""
    return replace(job, bytes=max(4, round(job.bytes / scale / 4) * 4), compute_s=job.compute_s / scale)


# The values of a part.


Values = dict[str, list[float]]
"""values by name, for one seed"""


# Taking turns compared with no TDM, the source's system, one topology, darkness, and electrical networks.


def gains(seed: int, quick: bool) -> Values:
    """Return rounds of no TDM, seed, one topology and ideal EPS over `tdm`, for R = 4, 3, 2 and both loads."""
    values: Values = {}
    for load in (1.0, 0.5):
        for ports in (4, 3, 2):
            network = replace(X1, ports=ports)
            jobs = gangs(network, seed, sigma=SIGMA, load=load)
            ours = make_schedule("tdm", jobs, network).round_s
            values[f"no-tdm R={ports} c/w={load:g}"] = [make_schedule("no-tdm", jobs, network).round_s / ours]
            if load == 1.0:
                rounds = RoundTimes(jobs, SeedGroups(jobs, network), network.delta_s)
                values[f"seed R={ports}"] = [search_partition(rounds, evaluations=50 if quick else 200).round_s / ours]
                values[f"static R={ports}"] = [make_schedule("static", jobs, network).round_s / ours]
                values[f"frozen R={ports}"] = _frozen(jobs, network)
                values[f"ideal R={ports}"] = [ours / make_schedule("eps-ideal", jobs, network).round_s]
    for ports in (4, 2):
        network = replace(X1, ports=ports)
        jobs = elastic(network, seed, jobs=12, sigma=SIGMA)
        ratio = make_schedule("no-tdm", jobs, network).round_s / make_schedule("tdm", jobs, network).round_s
        values[f"elastic R={ports}"] = [ratio]
    return values


def mixed(seed: int, quick: bool) -> Values:
    """Return values with all-to-all jobs, which need a circuit to each of their pods; 0 if no topology has them."""
    del quick
    values: Values = {}
    for ports in (4, 3, 2):
        network = replace(X1, ports=ports)
        jobs = gangs(network, seed, sigma=SIGMA, kinds=KINDS["mixed"])
        ours = make_schedule("tdm", jobs, network).round_s
        for policy in ("no-tdm", "static"):
            try:
                value = make_schedule(policy, jobs, network).round_s / ours
            except TdmError:
                value = 0.0
            values[f"mixed {policy} R={ports}"] = [value]
    return values


def _frozen(jobs: Sequence[TdmJob], network: OpticalNetwork) -> list[float]:
    """Return one topology's round for the placements of `tdm`, with new trees only; 0 if there are too few ports."""
    rounds = RoundTimes(jobs, TreeGroups(jobs, network), network.delta_s)
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
    group, other = best.groups
    return [(max(times[0], other.training_s) + max(times[1], group.training_s)) / best.round_s]


def delta(seed: int, quick: bool) -> Values:
    """Return the cost of darkness in % of the round, hidden behind training and not."""
    del quick
    values: Values = {}
    jobs = gangs(X1, seed, sigma=SIGMA)
    readings: tuple[Reading, ...] = ("overlap", "serial")
    for reading in readings:
        options = TurnOptions(reading=reading)
        least = make_schedule("tdm", jobs, X1.with_delta(0.0), options).round_s
        for delta_s in (0.2e-3, 1e-3, 10e-3):
            round_s = make_schedule("tdm", jobs, X1.with_delta(delta_s), options).round_s
            values[f"{reading} {delta_s * 1e3:g} ms"] = [100 * (round_s / least - 1)]
    return values


def electrical(seed: int, quick: bool) -> Values:
    """Return communication with ECMP over that with circuits, and over ideal EPS, for groups of `tdm` at R = 2."""
    network = replace(X1, ports=2)
    jobs = gangs(network, seed, sigma=SIGMA)
    planner = TreeGroups(jobs, network)
    best = search_partition(RoundTimes(jobs, planner, network.delta_s))
    values: Values = {}
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
                values.setdefault(name, []).append(statistics.fmean(times) / group.communication_s)
        ideal = max(nic_s, ideal_s(demand(group.packed, parts, network.pods).astype(float), network))
        values.setdefault("over ideal", []).append(group.communication_s / ideal)
    return values


# Planning compared with optima, and its time.


def optima(seed: int, quick: bool) -> Values:
    """Return rounds over those of the best partition, and of the joint optimum."""
    values: Values = {"flips": [], "ours": [], "elastic flips": [], "exact": [], "seed placement": []}
    for ports in (4, 2):
        network = replace(X1, ports=ports)
        jobs = gangs(network, seed, sigma=0.4)
        if len(jobs) <= 10:
            rounds = RoundTimes(jobs, TreeGroups(jobs, network), network.delta_s)
            best = all_partitions(rounds).round_s
            values["flips"].append(hill_climbing(rounds).round_s / best)
            values["ours"].append(search_partition(rounds).round_s / best)
        few = elastic(network, seed, jobs=6)
        rounds = RoundTimes(few, TreeGroups(few, network), network.delta_s)
        values["elastic flips"].append(hill_climbing(rounds).round_s / all_partitions(rounds).round_s)
    for pods, ports, hosts in ((4, 2, 3),) if quick else ((4, 2, 3), (5, 3, 2), (5, 2, 2)):
        network = parse_network(f"oxc:pods={pods},hosts={hosts},ports={ports},rate=25G")
        for load in (1.0, 2.0):
            jobs = gangs(network, seed, sigma=SIGMA, load=load, least=3, most=6)
            if len(jobs) > (6 if pods == 4 else 7):
                continue
            best = solve(jobs, network).round_s
            values["exact"].append(make_schedule("tdm", jobs, network).round_s / best)
            placed = RoundTimes(jobs, SeedGroups(jobs, network), network.delta_s)
            values["seed placement"].append(all_partitions(placed).round_s / best)
    return values


def times(seed: int, quick: bool) -> Values:
    """Return seconds of planning on this machine."""
    values: Values = {}
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
        values[f"plan {pods}"] = [time.perf_counter() - began]
        began = time.perf_counter()
        join(schedule, jobs[:-1], jobs[-1])
        values[f"join {pods}"] = [time.perf_counter() - began]
    return values


# Jobs of unequal periods on the same GPUs: two groups, free, pairs; and with arrivals from traces.


TRACE_GPUS: Final = 32
TRACE_JOBS: Final = 3000


def pairs(seed: int, quick: bool) -> Values:
    """Return throughput relative to alone: two groups, free, pairs; for synthetic jobs, and for models at 100 Gb/s."""
    del quick
    random = np.random.default_rng(seed)
    train = 0.1 * np.exp(random.normal(0.0, 0.4, 8))
    synthetic = [TimesAlone(float(w), float(w)) for w in train]
    nic = 100e9 / 8
    models = [
        TimesAlone(model.compute_s, (2 if model.kind == "a2a" else 1) * model.unit_bytes / nic)
        for model in MODELS.values()
    ]
    drawn = [models[int(x)] for x in random.integers(0, len(models), 12)]
    values: Values = {}
    for name, jobs in (("sigma 0.4", synthetic), ("models", drawn)):
        pairs, alone = match(jobs, [4] * len(jobs), 2 * len(jobs))
        rates = list(relative(pairs, alone).values())
        values[f"pairs {name}"] = [statistics.fmean(rates)]
        values[f"pairs {name} worst"] = [min(rates)]
        order = random.permutation(len(jobs))
        free = [play(jobs[a], jobs[b], None) for a, b in zip(order[::2], order[1::2], strict=True)]
        values[f"free {name}"] = [float(np.mean(free))]
        half = len(jobs) // 2
        first, second = [jobs[x] for x in order[:half]], [jobs[x] for x in order[half:]]
        round_s = _barrier(first, second)
        values[f"groups {name}"] = [statistics.fmean(job.period_s / round_s for job in jobs)]
    return values


def _barrier(first: Sequence[TimesAlone], second: Sequence[TimesAlone]) -> float:
    """Return t_round of two global groups."""
    (c1, w1), (c2, w2) = (
        (max(job.communicate_s for job in group), max(job.train_s for job in group)) for group in (first, second)
    )
    return max(c1, w2) + max(c2, w1)


def traces(seed: int, quick: bool) -> Values:
    """Return the mean JCT of exclusive over that of each policy."""
    values: Values = {}
    for load in (0.8, 1.0, 1.2):
        arrivals = draw_trace("philly", seed, jobs=150 if quick else TRACE_JOBS, gpus=TRACE_GPUS, load=load)
        alone = run_trace(arrivals, TRACE_GPUS, "exclusive").mean_jct_s
        for policy in ("pairs", "gated", "free"):
            values[f"{policy} {load:g}"] = [alone / run_trace(arrivals, TRACE_GPUS, policy).mean_jct_s]
    return values


# Stripes compared with optima, and the best of all policies with each; circuits as fast as NICs, and slower.


SLOW: Final = (0.25, 0.4, 1.0)
"""ratios B/b of circuits to NICs"""
ONE_TREE_JOBS: Final = 5
"""highest number of jobs for exact-one-tree, which takes a minute beyond it"""
WIDE_SEEDS: Final = range(100, 104)
"""seeds for which the programs of exact are also solved for 5 pods, some seconds each"""
RIVALS: Final = ("seed", "random", "free", "cassini", "exclusive")
"""policies that `best` does not try"""


def narrow(seed: int, pods: int, slow: float) -> tuple[OpticalNetwork, list[TdmJob]]:
    """Return gangs of 2 to 7 that fill pods of 3 GPUs and 2 ports twice; c/w 0.5, 1 or 2, every third seed with a2a."""
    network = OpticalNetwork(pods, 3, 25 * 10**9, 2, round(25e9 * slow))
    kinds = KINDS["mixed" if seed % 3 == 0 else "sums"]
    load = (0.5, 1.0, 2.0)[seed // 3 % 3]
    return network, gangs(network, seed, sigma=0.3, load=load, least=2, most=7, kinds=kinds)


def stripes(seed: int, quick: bool) -> Values:
    """Return rounds of policies over `exact` (4 pods), over the bound of their placement, and over `best`."""
    values: Values = {}
    for pods in (4,) if quick else (4, 5):
        for slow in (0.4,) if quick else SLOW:
            network, jobs = narrow(seed, pods, slow)
            chosen = make_schedule("best", jobs, network)
            longest = {attempt.policy: attempt.longest_s for attempt in chosen.tried if not attempt.refused}
            best = min(longest.values())
            rounds = dict(longest)
            for policy in (*RIVALS, *(("exact-one-tree",) if pods == 4 and len(jobs) <= ONE_TREE_JOBS else ())):
                try:
                    schedule = make_schedule(policy, jobs, network)
                except TdmError:
                    continue
                rounds[policy] = longest_iteration_s(schedule, relative_to_alone(schedule, jobs), jobs)
            where = f"{pods} pods, B/b={slow:g}"
            taken = longest[chosen.policy]
            values.setdefault("policies below best", []).append(sum(x < taken * (1 - 1e-6) for x in rounds.values()))
            for policy in ("striped", "tdm", "no-tdm", "static", "exact-one-tree"):
                if policy in rounds and "exact" in rounds:
                    values[f"{policy} / exact, {where}"] = [rounds[policy] / rounds["exact"]]
                elif policy in rounds and pods == 5:
                    values[f"{policy} / best, {where}"] = [rounds[policy] / best]
            if "exact-one-tree" in rounds:
                below = rounds["striped"] > rounds["exact-one-tree"] * (1 + 1e-6)
                values.setdefault("striped above exact-one-tree", []).append(float(below))
            ours = make_schedule("striped", jobs, network)
            if pods == 5 and slow < 1 and seed in WIDE_SEEDS and len(jobs) <= JOBS:
                least = wide_optimum(jobs, network, TurnOptions(), pods).round_s
                values[f"striped / exact, {where}"] = [ours.round_s / least]
            values[f"striped / its bound, {where}"] = [ours.round_s / ours.bound_s]
    return values


def layers(seed: int, quick: bool) -> Values:
    """Return throughput over alone in two layers, two groups and pairs; and counts of refused instances."""
    del quick
    values: Values = {"layers refused": [], "pairs refused": [], "layers below two groups": []}
    for network, least, most in ((X1, 4, 12), (OpticalNetwork(4, 3, 25 * 10**9, 2, 25 * 10**9), 2, 7)):
        for sigma in (0.2, 0.4):
            jobs = gangs(network, seed, sigma=sigma, least=least, most=most)
            rates = {}
            for policy in ("layers", "pairs", "tdm"):
                try:
                    rates[policy] = relative_to_alone(make_schedule(policy, jobs, network), jobs)
                except TdmError:
                    rates[policy] = {}
            for policy in ("layers", "pairs"):
                values[f"{policy} refused"].append(float(not rates[policy]))
            mean = {policy: statistics.fmean(own.values()) for policy, own in rates.items() if own}
            for policy, value in mean.items():
                values.setdefault(f"{policy} sigma {sigma:g}", []).append(value)
            if "layers" in mean:
                values["layers below two groups"].append(float(mean["layers"] < mean["tdm"] * (1 - 1e-9)))
                values.setdefault(f"layers sigma {sigma:g} worst", []).append(min(rates["layers"].values()))
    return values


def large(seed: int, quick: bool) -> Values:
    """Return circuits over the bound of any circuits, for as many jobs as pods, 2 to 5 pods each, and seconds."""
    values: Values = {}
    for pods in (16,) if quick else (16, 32):
        random = np.random.default_rng(seed)
        sent: dict[tuple[int, ...], float] = {}
        for _ in range(pods):
            own = tuple(sorted(random.choice(pods, int(random.integers(2, 6)), replace=False).tolist()))
            sent[own] = sent.get(own, 0.0) + float(np.exp(random.normal(0.0, 0.3)))
        commodities = [Commodity(own, size) for own, size in sorted(sent.items())]
        began = time.process_time()
        whole = whole_circuits(commodities, pods, 4)
        values[f"seconds for circuits, {pods} pods"] = [time.process_time() - began]
        if whole is not None:
            values[f"circuits over the bound, {pods} pods"] = [whole.packing.bytes / free_bytes(commodities, pods, 4)]
        network = parse_network(f"oxc:pods={pods},hosts=8,ports=8,rate=25G,port_rate=10G")
        jobs = gangs(network, seed, sigma=0.4, least=4, most=24)[:32]
        began = time.process_time()
        make_schedule("striped", jobs, network)
        values[f"seconds for striped, {pods} pods, {len(jobs)} jobs"] = [time.process_time() - began]
    return values


FRESH: Final = range(100, 130)
"""seeds of stripes, layers and large, on which stripes and layers were not developed"""
UNSEEN: Final = range(130, 160)
"""seeds for stripes and configurations on packets, on which the flow model was not developed"""
OF_FRESH: Final = {"stripes": 30, "layers": 30, "large": 5}
FEW: Final = {"times": 3, "optima": 6, "traces": 4}
"""number of seeds of parts that take long"""
FIGURES: Final[dict[str, Callable[[int, bool], Values]]] = {
    "gains": gains,
    "mixed": mixed,
    "optima": optima,
    "delta": delta,
    "electrical": electrical,
    "pairs": pairs,
    "traces": traces,
    "times": times,
    "stripes": stripes,
    "layers": layers,
    "large": large,
}


@dataclass(frozen=True)
class PlanningCell:
    """One part with one seed."""

    part: str
    seed: int
    small: bool


@record
class PlanningRow:
    """A value of one instance of a seed."""

    figure: str = column("figure")
    seed: int
    value: float = column("value", "{:.4g}")


def planning_cells(part: str, settings: TurnsSettings) -> list[PlanningCell]:
    """Return a cell for each seed."""
    seeds = settings.seeds[:2] if settings.small else settings.seeds[: FEW.get(part)]
    if part in OF_FRESH:
        held_out = settings.seeds == tuple(HELD_OUT)
        seeds = tuple(FRESH)[: OF_FRESH[part]] if held_out else settings.seeds[: 1 if settings.small else 3]
    return [PlanningCell(part, seed, settings.small) for seed in seeds]


def run_planning(cell: PlanningCell) -> Iterator[PlanningRow]:
    """Yield the values of a part, by name."""
    for name, values in FIGURES[cell.part](cell.seed, cell.small).items():
        for value in values:
            yield PlanningRow(name, cell.seed, float(value))
