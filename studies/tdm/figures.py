"""Figures of the study: sweeps at flow level, models against packets, gains and baselines on packets."""

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from matplotlib.figure import Figure

from p4reduce.base.output import Progress
from p4reduce.control_plane.tdm.circuits import Reading
from p4reduce.control_plane.tdm.jobs import OpticalNetwork, TdmError, TdmJob
from p4reduce.control_plane.tdm.registry import Options, make_schedule
from p4reduce.play.turns.acts import Played
from p4reduce.play.turns.arrivals import draw_trace, run_trace
from p4reduce.play.turns.flow_model import FactorsOf, play_flows
from p4reduce.topologies.model import MAX_PORT, TopologyError
from p4reduce.topologies.optical import lay_circuits, oxc
from p4switch.base.files import write_text
from studies.before import Claim, in_parallel, plain, save_all, write_table
from studies.tdm.planning import (
    KINDS,
    SIGMA,
    X1,
    X2,
    X3,
    X4,
    X5,
    Bar,
    Row,
    Values,
    at_least,
    at_most,
    bars,
    gangs,
    of_models,
)
from studies.tdm.study import EcmpRow, Kept, Study

# Sweeps at flow level, up to 16,384 GPUs: where taking turns helps, and where it does not.
#
# Each unit is one point of one sweep with one seed; what a scheduler decides is played in the flow model, with the
# factors that packets gave.


GBPS: Final = 10**9
TRACE_JOBS: Final = 6_000


@dataclass(frozen=True)
class SweepRow:
    """One figure of one seed."""

    sweep: str
    series: str
    x: float
    seed: int
    value: float


@dataclass(frozen=True)
class SweepUnit:
    """What one process does."""

    sweep: str
    x: float
    seed: int
    factors: FactorsOf


Points = dict[str, float]
"""value by series"""


def played(
    policy: str, jobs: Sequence[TdmJob], network: OpticalNetwork, factors: FactorsOf, **chosen: object
) -> Played:
    """A policy's schedule in the flow model."""
    options = Options(best=True, **chosen)  # type: ignore[arg-type]  # it checks them
    schedule = make_schedule(policy, jobs, network, options)
    return play_flows(schedule, {job.name: job for job in jobs}, rounds=2, factors=factors)


def _over_tdm(policies: Sequence[str], jobs: Sequence[TdmJob], network: OpticalNetwork, factors: FactorsOf) -> Points:
    """Rounds of policies over that of `tdm`; what a policy refuses is left out."""
    found: Points = {}
    try:
        ours = played("tdm", jobs, network, factors).round_s
    except TdmError:  # one port: gangs over three pods have no tree
        return found
    for policy in policies:
        try:
            found[policy] = played(policy, jobs, network, factors).round_s / ours
        except TdmError:
            continue
    return found


def _ratio(unit: SweepUnit) -> Points:
    """c/w from 0.1 to 10: the gain over no TDM is at most 1 + min/max."""
    jobs = gangs(X2, unit.seed, sigma=SIGMA, load=unit.x)
    bound = 1.0 + min(unit.x, 1.0 / unit.x)
    return {**_over_tdm(("no-tdm",), jobs, X2, unit.factors), "bound: 1 + min(c, w) / max(c, w)": bound}


def _ports(unit: SweepUnit) -> Points:
    """R from 1 to 8."""
    network = replace(X1, ports=int(unit.x))
    jobs = gangs(network, unit.seed, sigma=SIGMA)
    mixed = _over_tdm(("no-tdm",), gangs(network, unit.seed, sigma=SIGMA, kinds=KINDS["mixed"]), network, unit.factors)
    return {
        **_over_tdm(("no-tdm", "seed", "static"), jobs, network, unit.factors),
        **{f"{name}, a third all-to-all": value for name, value in mixed.items()},
    }


def _rate(unit: SweepUnit) -> Points:
    """Known models at 10 to 400 Gb/s: bytes stay, so communication gets shorter."""
    rate = round(unit.x * GBPS)
    network = replace(X1, rate_bps=rate, port_rate_bps=rate)
    jobs = of_models(network, unit.seed, jobs=8, units=8)
    found = _over_tdm(("no-tdm",), jobs, network, unit.factors)
    for policy in ("tdm", "pairs", "free"):
        found[f"relative throughput, {policy}"] = _relative(played(policy, jobs, network, unit.factors), jobs, network)
    return found


def _sigma(unit: SweepUnit) -> Points:
    """Unequal periods: throughput of jobs relative to alone."""
    jobs = gangs(X1, unit.seed, sigma=unit.x, least=8, most=8)
    return {
        policy: _relative(played(policy, jobs, X1, unit.factors), jobs, X1)
        for policy in ("tdm", "pairs", "free", "exclusive")
    }


def _relative(result: Played, jobs: Sequence[TdmJob], network: OpticalNetwork) -> float:
    """Mean throughput of jobs over alone: training, and bytes over their NICs."""
    found = []
    for job in jobs:
        sent = job.bytes * (2 * (job.units - 1) if job.kind == "a2a" else 1)
        found.append((job.compute_s + sent / network.nic) / result.iteration_s(job.name))
    return sum(found) / len(found)


def _delta(unit: SweepUnit) -> Points:
    """Darkness in ms: % of the round, hidden behind training and not; and jobs over eight pods, hops or not."""
    found: Points = {}
    jobs = gangs(X2, unit.seed, sigma=SIGMA)
    readings: tuple[Reading, ...] = ("overlap", "serial")
    for reading in readings:
        least = make_schedule("tdm", jobs, X2.with_delta(0.0), Options(reading=reading)).round_s
        own = make_schedule("tdm", jobs, X2.with_delta(unit.x / 1e3), Options(reading=reading)).round_s
        found[f"sums, {'hidden' if reading == 'overlap' else 'serial'}"] = 100 * (own / least - 1)
    wide = gangs(X2, unit.seed, sigma=SIGMA, least=32, most=32, kinds=KINDS["all-to-all"])
    least = played("tdm", wide, X2.with_delta(0.0), unit.factors).round_s
    found["all-to-all over 8 pods, the quicker way"] = 100 * (
        played("tdm", wide, X2.with_delta(unit.x / 1e3), unit.factors).round_s / least - 1
    )
    return found


def _flows(unit: SweepUnit) -> Points:
    """Flows an edge of ECMP in the electrical twin: its loss vanishes."""
    jobs = gangs(X2, unit.seed, sigma=SIGMA)
    ours = make_schedule("tdm", jobs, X2).round_s
    found = {"OXC / ideal spraying": ours / make_schedule("eps-ideal", jobs, X2).round_s}
    for polarized in (False, True):
        options = Options(flows=int(unit.x), polarized=polarized, seed=unit.seed)
        name = "ECMP / OXC" + (", polarized" if polarized else "")
        found[name] = make_schedule("eps-ecmp", jobs, X2, options).round_s / ours
    return found


def _scale(unit: SweepUnit) -> Points:
    """GPUs: X1 (32) to X5 (16,384), jobs of about an eighth of it; can circuits be laid on two planes?"""
    network = {one.all_gpus: one for one in (X1, X3, X4, X5)}[int(unit.x)]
    share = network.all_gpus // 8
    jobs = gangs(network, unit.seed, sigma=SIGMA, least=share // 2, most=3 * share // 2)
    found = _over_tdm(("no-tdm",), jobs, network, unit.factors)
    schedule = make_schedule("tdm", jobs, network)
    if network.pods * network.ports // 2 <= MAX_PORT:
        topology = oxc(network.pods, network.servers, network.ports, rate=network.rate_bps, planes=2)
        matrices = [one.circuits for process in schedule.processes for one in process.configurations]
        try:
            lay_circuits(topology, matrices)
            found["laid on two planes"] = 1.0
        except TopologyError:  # all ports in use, circuits odd in number
            found["laid on two planes"] = 0.0
    return found


def _trace(unit: SweepUnit) -> Points:
    """Mean JCT of exclusive over that of policies, at 4,096 GPUs, by load."""
    arrivals = draw_trace("philly", unit.seed, jobs=TRACE_JOBS, gpus=X4.all_gpus, load=unit.x)
    alone = run_trace(arrivals, X4.all_gpus, "exclusive").mean_jct_s
    return {name: alone / run_trace(arrivals, X4.all_gpus, name).mean_jct_s for name in ("pairs", "free")}


SWEEPS: Final[dict[str, tuple[Callable[[SweepUnit], Points], tuple[float, ...], int]]] = {
    "ratio": (_ratio, (0.1, 0.25, 0.5, 1, 2, 4, 10), 3),
    "ports": (_ports, (1, 2, 3, 4, 6, 8), 3),
    "rate": (_rate, (10, 25, 100, 400), 3),
    "sigma": (_sigma, (0, 0.1, 0.2, 0.4, 0.6, 0.8), 3),
    "delta": (_delta, (0, 0.02, 0.2, 1.2, 10, 30, 100), 2),
    "flows": (_flows, (1, 2, 4, 8, 16, 64), 4),
    "gpus": (_scale, tuple(float(one.all_gpus) for one in (X1, X3, X4, X5)), 2),
    "trace": (_trace, (0.8, 1, 1.2), 1),
}
"""how, at which points, with how many seeds"""


def run_unit(unit: SweepUnit) -> list[SweepRow]:
    """One point."""
    found = SWEEPS[unit.sweep][0](unit)
    return [SweepRow(unit.sweep, series, unit.x, unit.seed, value) for series, value in found.items()]


def run_sweeps(
    *,
    quick: bool,
    seeds: Sequence[int],
    factors: FactorsOf,
    jobs: int = 1,
    dask: str | None = None,
    progress: Progress | None = None,
) -> list[SweepRow]:
    """All of them; quick: two points of two sweeps."""
    units = [
        SweepUnit(name, x, seed, factors)
        for name, (_, points, most) in SWEEPS.items()
        for x in (points[2:4] if quick else points)
        for seed in seeds[: 1 if quick else most]
        if not quick or name in ("ratio", "flows")
    ]
    found = in_parallel(run_unit, units, jobs=jobs, dask=dask, progress=progress, label="swept")
    return [row for rows in found for row in rows]


# What packets must show: claims that must hold, and the bars that were demanded, met or not.


GOAL_RATIO, GOAL_WORST = 1.015, 1.03
"""packets over model: mean and worst"""
LOW_MEAN, LOW_WORST = 0.02, 0.05
"""of the error of the formulas, and of the flow model, either way"""
UNCOORDINATED = "uncoordinated"
"""all-to-alls whose hosts know nothing of each other: they fill queues until frames are lost"""


def claims(study: Study) -> list[Claim]:
    """What must hold."""
    played = [row for row in study.rows if not row.refused]
    coordinated = [row for row in played if row.study != UNCOORDINATED]
    ratios = [row.packets_over_model for row in coordinated if row.model_s]
    errors = [abs(ratio - 1) for ratio in ratios]
    mean, worst = statistics.mean(ratios), max(ratios)
    flows = [abs(row.flow_error) for row in coordinated]
    wrong = [row for row in played if not row.exact]
    differing = [row for row in coordinated if not row.as_predicted]  # what is lost does not cross the links behind
    lost = sum(row.dark_lost + row.misrouted + row.lost for row in coordinated)
    found = [
        Claim("every sum and block is exact", f"{len(wrong)} of {len(played)} schedules wrong", not wrong),
        Claim("first transmissions as predicted, process by process", f"{len(differing)} differ", not differing),
        Claim("nothing lost in darkness, misrouted or dropped", f"{lost} frames", lost == 0),
        Claim(
            f"packets over formulas: mean <= {GOAL_RATIO}, worst <= {GOAL_WORST}",
            f"{mean:.4f}, {worst:.4f} of {len(ratios)}",
            mean <= GOAL_RATIO and worst <= GOAL_WORST,
        ),
        _close("formulas are off", errors),
        _close("the flow model is off", flows),
    ]
    wrong_twins = [row for row in study.ecmp if not row.exact]
    found.append(Claim("every sum on electrical twins is exact", f"{len(wrong_twins)} wrong", not wrong_twins))
    by_keep = {one.keep: one for one in study.kept}
    for keep in ("pause", "gates"):
        one = by_keep[keep]
        found.append(
            Claim(f"slots too short, {keep}: nothing lost or misrouted", f"{one.dark_lost}, {one.misrouted} frames",
                  one.dark_lost == one.misrouted == 0)
        )  # fmt: skip
    return found


def _close(what: str, errors: list[float]) -> Claim:
    mean, worst = statistics.mean(errors), max(errors)
    return Claim(
        f"{what} by at most {LOW_MEAN:.0%} in the mean, {LOW_WORST:.0%} at worst",
        f"{mean:.2%}, {worst:.2%} of {len(errors)}",
        mean <= LOW_MEAN and worst <= LOW_WORST,
    )


def packet_bars(study: Study) -> list[Bar]:
    """Bars, measured on packets."""
    found: list[Bar] = []
    coordinated = [row for row in study.rows if row.study != UNCOORDINATED and not row.refused]
    errors = [100 * abs(row.flow_error) for row in coordinated]
    found += at_most("flow model against packets, %", errors, 100 * LOW_MEAN, 100 * LOW_WORST)
    errors = [100 * abs(row.flow_error) for row in study.of(UNCOORDINATED)]
    found += at_most("the same, all-to-alls that nobody coordinates, %", errors, None)
    found += at_most(
        "flow model, the worst job of each point, %", [100 * row.flow_job_error for row in coordinated], None
    )
    for ports, goal in ((4, 1.6), (2, 2.1)):
        found += at_least(f"packets: seed / tdm, R={ports}", _over(study, "seed", ports, 1.0), goal)
        refused = [row for row in study.rows if row.policy == "seed" and row.ports == ports and row.refused]
        if refused:
            found.append(
                Bar(f"seed, R={ports}: ports are too few for its circuits", "report", f"{len(refused)} schedules", None)
            )
    for ratio, goals in ((1.0, {4: 1.7, 2: 1.8}), (0.5, {4: 1.5, 2: 1.65})):
        for ports, goal in goals.items():
            text = f"packets: no TDM / TDM, gangs, c/w={ratio:g}, R={ports}"
            found += at_least(text, _over(study, "no-tdm", ports, ratio), goal)
    for ports, one in ((2, 1.8), (4, None)):
        found += at_least(f"packets: one topology / switching, R={ports}", _over(study, "static", ports, 1.0), one)
    for ports in (4, 2):
        own = study.of("sharing", policy="pairs", ports=ports, mix="sums")
        means = [row.relative_mean for row in own]
        found += at_least(f"packets: throughput relative to alone, sigma 0.4, pairs, R={ports}", means, 0.88)
        if own:
            worst = min(row.relative_worst for row in own)
            found.append(Bar(f"the same, worst job, R={ports}", "report", f"{worst:.3g}", None))
    for flows, demanded in ((1, 1.4), (4, 1.15), (16, None)):
        hashed = [row.ratio for row in study.ecmp if row.twin == "leaf-spine" and row.flows == flows]
        found += at_least(f"packets: C(ECMP) / C(OXC), {flows} flows an edge, R=2", hashed, demanded)
    return found


def _over(study: Study, policy: str, ports: int, ratio: float) -> list[float]:
    """Rounds of a policy over those of `tdm`, instance by instance."""
    found = []
    for row in study.of("gain", policy="tdm", ports=ports, ratio=ratio):
        others: Iterable[Row] = study.of(
            "gain", policy=policy, ports=ports, ratio=ratio, seed=row.seed, sigma=row.sigma
        )
        found += [one.round_s / row.round_s for one in others]
    return found


AXES: Final[dict[str, tuple[str, str, str]]] = {
    "ratio": ("communication over training, c/w", "round of no TDM over that of TDM", "log"),
    "ports": ("R, ports of a ToR", "round over that of TDM", "linear"),
    "rate": ("Gb/s", "round over that of TDM; throughput over alone", "log"),
    "sigma": ("sigma of log training time", "throughput of a job over that alone", "linear"),
    "delta": ("darkness, ms", "% of the round without darkness", "symlog"),
    "flows": ("flows on each edge", "ratio of rounds", "log"),
    "gpus": ("GPUs", "round over that of TDM; 1: laid on two planes", "log"),
    "trace": ("load", "mean JCT of exclusive over that of the policy", "linear"),
}
"""x, y, and how x is drawn"""
SAYS: Final = {
    "ratio": "Gain over no TDM by c/w, R = 2: nothing is gained where one of both is nothing.",
    "ports": "By ports of a ToR: sums need two; one topology and the source's system beside it.",
    "rate": "Known models by rate: at 400 Gb/s there is little to hide; unequal models are what pairs are for.",
    "sigma": "Unequal periods: two groups lose to free sharing, pairs do not.",
    "delta": "Darkness, hidden behind training or not; all-to-alls over eight pods take hops where that is quicker.",
    "flows": "OXC against ECMP: with many flows an edge the loss of hashing vanishes.",
    "gpus": "From 32 to 16,384 GPUs.",
    "trace": "Arrivals at 4,096 GPUs (Philly's durations): free sharing and pairs.",
    "model": "Formulas and the flow model against packets, schedule by schedule.",
    "packets": "On packets: rounds over that of TDM, and the electrical twin.",
}


def draw_all(study: Study, sweeps: Sequence[SweepRow], folder: Path) -> dict[str, Path]:
    """PNG files by name, with SVG beside them."""
    drawn: list[tuple[str, Figure | None]] = [("model", _model(study)), ("packets", _packets(study))]
    drawn += [(name, _sweep(name, [row for row in sweeps if row.sweep == name])) for name in AXES]
    return save_all(drawn, folder)


def _sweep(name: str, rows: Sequence[SweepRow]) -> Figure | None:
    """The mean of seeds, and their range."""
    if not rows:
        return None
    along, up, how = AXES[name]
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    for number, series in enumerate(dict.fromkeys(row.series for row in rows)):
        own = [row for row in rows if row.series == series]
        places = sorted({row.x for row in own})
        values = [[row.value for row in own if row.x == x] for x in places]
        axes.plot(places, [statistics.fmean(one) for one in values], marker="osv^DPX*"[number % 8], label=series)
        axes.fill_between(places, [min(one) for one in values], [max(one) for one in values], alpha=0.15)
    axes.set_xscale(how, **({"linthresh": 0.02} if how == "symlog" else {}))
    axes.set_xlabel(along)
    axes.set_ylabel(up)
    axes.legend(fontsize=7)
    return figure


def _model(study: Study) -> Figure:
    """How far both models are off."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    axes = figure.subplots()
    rows = [row for row in study.rows if not row.refused]
    axes.plot([100 * row.flow_error for row in rows], "o", markersize=3, label="flow model")
    places = [place for place, row in enumerate(rows) if row.model_s]
    errors = [100 * (rows[place].model_s / rows[place].round_s - 1) for place in places]
    axes.plot(places, errors, "x", markersize=4, label="formulas (1) to (3)")
    axes.axhline(0, color="grey", linewidth=0.8)
    axes.set_xlabel("schedules, in the order of rounds.csv")
    axes.set_ylabel("model over packets, % off")
    axes.legend(fontsize=7)
    return figure


def _packets(study: Study) -> Figure:
    """Rounds of every policy over those of TDM; ECMP over circuits by flows."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    axes: Any = figure.subplots(1, 2)
    labels, values = [], []
    for policy in ("no-tdm", "seed", "static"):
        for ports in (4, 2):
            ours = {row.seed: row.round_s for row in study.of("gain", policy="tdm", ports=ports, ratio=1.0)}
            own = [row for row in study.of("gain", policy=policy, ports=ports, ratio=1.0) if row.seed in ours]
            if own:
                labels.append(f"{policy}, R={ports}")
                values.append([row.round_s / ours[row.seed] for row in own])
    for place, one in enumerate(values):
        axes[0].plot(one, [place] * len(one), "o", markersize=4)
    axes[0].set_yticks(range(len(labels)), labels)
    axes[0].set_xlabel("round over that of TDM, c/w = 1")
    _twins(axes[1], study.ecmp)
    return figure


def _twins(axes: Any, rows: Sequence[EcmpRow]) -> None:
    for twin, polarized in dict.fromkeys((row.twin, row.polarized) for row in rows):
        own = [row for row in rows if (row.twin, row.polarized) == (twin, polarized)]
        flows = sorted({row.flows for row in own})
        means = [statistics.fmean(row.ratio for row in own if row.flows == count) for count in flows]
        axes.plot(flows, means, marker="o", label=f"{twin}{', polarized' if polarized else ''}")
    axes.set_xscale("log")
    axes.set_xlabel("flows an edge")
    axes.set_ylabel("ECMP over circuits, or alone")
    axes.legend(fontsize=7)


# What the study leaves behind: rows as CSV, the result, figures, the chart of circuits and jobs.


@dataclass
class TdmResult:
    """All that was measured."""

    study: Study
    figures: Values
    """of planning, seed by seed"""
    sweeps: Sequence[SweepRow]

    def claims(self) -> list[Claim]:
        """What must hold on packets."""
        return claims(self.study)

    def bars(self) -> list[Bar]:
        """What was demanded, met or not."""
        return [*packet_bars(self.study), *bars(self.figures)]

    def as_data(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "claims": plain(self.claims()),
            "factors": plain(self.study.factors),
            "rows": plain(self.study.rows),
            "ecmp": plain(self.study.ecmp),
            "kept": plain(self.study.kept),
            "bars": plain(self.bars()),
            "figures": self.figures,
            "sweeps": plain(list(self.sweeps)),
        }


def write_files(result: TdmResult, folder: Path) -> tuple[list[Path], dict[str, Path]]:
    """Write tables, result.json, gantt.svg and figures/; the files, and figures (PNG) by name."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [
        write_table(folder / "rounds.csv", Row, result.study.rows),
        write_table(folder / "ecmp.csv", EcmpRow, result.study.ecmp),
        write_table(folder / "windows.csv", Kept, result.study.kept),
        write_table(folder / "bars.csv", Bar, result.bars()),
        write_table(folder / "sweeps.csv", SweepRow, result.sweeps),
        write_text(folder / "gantt.svg", result.study.chart),
        write_text(folder / "result.json", json.dumps(result.as_data(), indent=1, sort_keys=True) + "\n"),
    ]
    return written, draw_all(result.study, result.sweeps, folder / "figures")
