"""The table of bars that need no packets."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from p4reduce.base.progress import Progress
from p4reduce.control_plane.tdm.circuits import Reading
from p4reduce.control_plane.tdm.grouping import Rounds, all_partitions, hill_climbing, search_partition
from p4reduce.control_plane.tdm.groups import SeedGroups, TreeGroups
from p4reduce.control_plane.tdm.jobs import MODELS, TdmError, TdmJob
from p4reduce.control_plane.tdm.network import OpticalNetwork, parse_network
from p4reduce.control_plane.tdm.packing import demand, ecmp_s, ideal_s, parts_of, search
from p4reduce.control_plane.tdm.pairs import Alone, match, play, relative
from p4reduce.control_plane.tdm.registry import Options, make_schedule
from p4reduce.control_plane.tdm.schedulers.switched import join, solve
from p4reduce.play.turns.arrivals import draw_trace, run_trace
from studies.frame import in_parallel
from studies.tdm.cases import KINDS, SIGMA, X1, elastic, gangs

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
