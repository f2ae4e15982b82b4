"""Network-aware placement: completion times under placement policies, in a flow model calibrated on packets."""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from matplotlib.figure import Figure

from studies.frame import (
    Bar,
    Column,
    Measure,
    Part,
    Rows,
    Study,
    StudyResult,
    at_least,
    at_most,
    by_seed,
    column,
    percent,
    record,
)
from studies.pages import Chart, StudyDrawing
from studies.placement.calibration import POINTS, CalibrationRow, draw_jobs, run_calibration
from studies.placement.flow_model import ClusterRun
from studies.placement.forecasts import (
    LOADS,
    ForecastCell,
    ForecastRow,
    ForecastTrace,
    InferenceCell,
    InferenceRow,
    run_forecasts,
    run_inference,
)
from studies.placement.foresight import MEASURED, ForesightRow, foresight_cells, run_foresight
from studies.placement.knobs import FLOAT, KnobCell, KnobRow, run_knob
from studies.placement.learned import LearnCell, LearningStep, LearnRow, run_learning
from studies.placement.services import ServiceRow, run_service, service_cells
from studies.placement.settings import (
    BACKGROUND_60,
    BACKGROUND_90,
    BOTH,
    CAPABLE,
    DEVELOPED,
    HELD_OUT,
    QUICK,
    UNEVEN_OTHERS,
    UNIFORM,
    ClusterScenario,
    PlacementSettings,
    bursts_of,
    named_scenarios,
    scenario_names,
)
from studies.placement.shards import ShardRow, run_shards, shard_cells
from studies.placement.telemetry import Bursting, TelemetryRow, run_telemetry, telemetry_cells

SLOTS = 128
"""number of hosts in each cluster, with one slot each"""


@dataclass(frozen=True)
class ClusterCell:
    """A run of a cluster."""

    scenario: ClusterScenario
    load: float
    seed: int
    jobs: int
    policy: str
    order: str = "fifo"
    backfill: bool = True


@record
class ClusterRow:
    """Means over the jobs of a run."""

    scenario: str = column("cluster")
    load: float = column("load", "{:g}")
    policy: str = column("policy")
    order: str = column("order")
    backfill: bool = column("back-filling")
    seed: int
    jct_s: float = column("mean JCT, s", "{:.0f}")
    wait_s: float = column("wait, s", "{:.0f}")
    makespan_s: float = column("makespan, s", "{:.0f}")
    slowdown: float = column("slowdown", "{:.2f}")
    """JCT over the time alone, through a tree without other jobs"""
    in_time: float = column("in time", percent())
    """share of jobs that met their deadlines"""
    racks: float = column("racks", "{:.2f}")


def cluster_cells(settings: PlacementSettings) -> list[ClusterCell]:
    """Return all scenarios with all policies at the first load, the uniform one at all loads, orders for 'packed'."""
    first = settings.loads[0]
    wanted = [
        (scenario, load, policy, "fifo", True)
        for scenario in settings.scenarios
        for load in (settings.loads if scenario == UNIFORM else (first,))
        for policy in settings.policies
    ]
    wanted += [
        (UNIFORM, load, "packed", order, backfill)
        for load in sorted({first, max(settings.loads)})
        for order in settings.orders
        for backfill in (True, False)
        if (order, backfill) != ("fifo", True)
    ]
    return [
        ClusterCell(scenario, load, seed, settings.cluster_jobs, policy, order, backfill)
        for scenario, load, policy, order, backfill in wanted
        for seed in settings.seeds
    ]


def run_cluster(cell: ClusterCell) -> Iterator[ClusterRow]:
    """Run a cell in the flow model."""
    jobs = draw_jobs(cell.seed, cell.jobs, cell.load, SLOTS, 1e9 * cell.scenario.rate_gbps)
    ended = ClusterRun(cell.scenario, jobs, cell.policy, cell.order, cell.backfill).run()
    begins = min(job.arrival_s for job in jobs)
    arrivals = {job.name: job.arrival_s for job in jobs}
    yield ClusterRow(
        scenario=cell.scenario.name,
        load=cell.load,
        policy=cell.policy,
        order=cell.order,
        backfill=cell.backfill,
        seed=cell.seed,
        jct_s=statistics.fmean(job.jct_s for job in ended),
        wait_s=statistics.fmean(job.wait_s for job in ended),
        makespan_s=max(arrivals[job.name] + job.jct_s for job in ended) - begins,
        slowdown=statistics.fmean(job.slowdown for job in ended),
        in_time=statistics.fmean(job.in_time for job in ended),
        racks=statistics.fmean(job.racks for job in ended),
    )


def _over(field: str, name: str, heading: str, *, show: str = "{:.3f}", worst: bool = False) -> Measure:
    """Return the ratio of a field to that of the base in the same seed."""

    def of(rows: Rows, base: Rows) -> float | None:
        return statistics.fmean(getattr(row, field) for row in rows) / getattr(base[0], field) if base else None

    return Measure(name, Column(heading, show), of, *([max] if worst else []))


def _extreme(name: str, heading: str, field: str, over: Any, show: str = "{:.2f}") -> Measure:
    return Measure(name, Column(heading, show), lambda rows, _: over(getattr(row, field) for row in rows), over)


def _knob_cells(settings: PlacementSettings) -> list[KnobCell]:
    seeds = settings.seeds[: settings.knob_seeds]
    return [
        KnobCell(data, knob, seed, settings.knob_epochs)
        for data in settings.knob_data
        for knob in settings.knobs
        for seed in seeds
    ]


def _forecast_cells(settings: PlacementSettings) -> list[ForecastCell]:
    seeds = settings.seeds[: settings.forecast_seeds]
    return [ForecastCell(load, seed, settings.readings) for load in LOADS[: settings.forecast_loads] for seed in seeds]


def _inference_cells(settings: PlacementSettings) -> list[InferenceCell]:
    return [
        InferenceCell(place, rate, classes, seed, settings.requests)
        for place in settings.places
        for rate in settings.request_rates
        for classes in (False, True)
        for seed in settings.seeds[: settings.request_seeds]
    ]


def _learn_cells(settings: PlacementSettings) -> list[LearnCell]:
    how = settings.learn_updates, settings.learn_scenarios, settings.learn_tests, settings.cluster_jobs
    return [LearnCell(seed, *how) for seed in settings.learn_seeds]


def _telemetry_cells(settings: PlacementSettings) -> list[Any]:
    swept = settings.bursts, settings.intervals_s, settings.thresholds, settings.windows_s
    return [*telemetry_cells(*swept, settings.seeds[: settings.telemetry_seeds])]


PARTS: Final = (
    Part("clusters", "Clusters under every policy, in the flow model", cluster_cells, run_cluster, ClusterRow,
         by=("scenario", "load", "policy", "order", "backfill"), base={"policy": "packed"},
         mean=("jct_s", _over("jct_s", "over_packed", "over packed"), "wait_s", "makespan_s", "slowdown", "in_time",
               "racks"),
         brief=("scenario", "load", "policy", "order", "backfill", "jct_s", "over_packed", "in_time")),
    Part("calibration", "The flow model against packets", lambda settings: POINTS[: settings.points], run_calibration,
         CalibrationRow, by=("point", "job"), mean=("packets_s", "model_s", "error"), cost=lambda _cell: 9.0),
    Part("knobs", "Sending fewer bytes: accuracy, and bytes relative to float32", _knob_cells, run_knob, KnobRow,
         by=("data", "knob"), base={"knob": FLOAT},
         mean=("accuracy", _over("bytes", "bytes", "bytes"), _over("busiest", "busiest", "busiest link"),
               _over("time_s", "time", "time"), "gradients"), cost=lambda _cell: 8.0),
    Part("forecasts", "Forecasts of links' loads: errors on readings that were not learned from", _forecast_cells,
         run_forecasts, ForecastRow, by=("load", "method"),
         mean=("nrmse", _extreme("least", "least", "nrmse", min), _extreme("most", "most", "nrmse", max)),
         also={"traces": ForecastTrace}, cost=lambda _cell: 7.0),
    Part("inference", "Inference beside training", _inference_cells, run_inference, InferenceRow,
         by=("place", "rate_hz", "classes"),
         mean=("p50_us", "p99_us", "unloaded_p99_us",
               Measure("ratio", Column("ratio", "{:.3f}"), lambda rows, _: rows[0].ratio),
               _extreme("worst", "worst seed", "ratio", max, "{:.3f}"), "training"), cost=lambda _cell: 6.0),
    Part("learned", "A learned policy on seeds and clusters not trained on", _learn_cells, run_learning, LearnRow,
         by=("scenario", "policy", "training"), mean=("jct_s",), also={"learning": LearningStep},
         cost=lambda _cell: 10.0),
    Part("telemetry", "Cost of reading counters and of digests, and gain of tasks", _telemetry_cells, run_telemetry,
         TelemetryRow, by=("burst_s", "knows", "interval_s", "threshold"),
         base={"knows": "oracle", "interval_s": 0.0, "threshold": 0.0},
         mean=("jct_s", _over("jct_s", "ratio", "over oracle", show="{:.4f}"),
               _over("jct_s", "worst", "worst seed", show="{:.4f}", worst=True), "bytes_per_s", "core", "told_per_s",
               "age_s"), cost=lambda _cell: 5.0),
    Part("foresight", "Gain of tasks from forecasts of background bursts",
         lambda settings: foresight_cells(settings.foresight_bursts, settings.foresight_ways,
                                          settings.foresight_seeds), run_foresight, ForesightRow,
         by=("burst_s", "way"), base={"way": MEASURED},
         mean=("jct_s", _over("jct_s", "over", "over measured", show="{:.4f}")), cost=lambda _cell: 5.0),
    Part("services", "Inference beside training in the orchestrator",
         lambda settings: service_cells(settings.service_networks, settings.service_seeds, settings.service_rates,
                                        settings.service_requests), run_service, ServiceRow,
         by=("network", "way", "rate_hz"),
         mean=("p50_us", "p99_us", "alone_us", "ratio", _extreme("worst", "worst seed", "ratio", max), "loss"),
         cost=lambda _cell: 15.0),
    Part("shards", "Policies with and without knowledge of where data lie",
         lambda settings: shard_cells(settings.policies, settings.shard_seeds), run_shards, ShardRow,
         by=("lying", "policy", "told"), base={"told": False},
         mean=("read_s", "read_bytes", "racks", "iteration_s", "jct_s", _over("jct_s", "over", "over not told"))),
)  # fmt: skip


# The bars. A bar whose part was not run is left out.


AWARE: Final = "ina-aware"
BASELINE: Final = "packed"
LOWER: Final = {
    BACKGROUND_60.name: 0.05,
    BACKGROUND_90.name: 0.15,
    CAPABLE.name: 0.08,
    BOTH.name: 0.20,
    **{scenario.name: 0.20 for scenario in UNEVEN_OTHERS},
}
"""by scenario: least reduction of the mean JCT of 'ina-aware' relative to 'packed'"""
ORACLE: Final = 1.01
"""highest ratio to the completion times with an oracle, for counters read at some interval"""
WINDOW_S: Final = 0.005
"""window of digests, chosen before the held-out seeds were run"""
CORE: Final = 0.05
"""highest share of a core that these readings may take"""
FORESIGHT: Final = 0.05
"""least reduction of tasks' completion times that makes a forecast worthwhile"""
SHARDS: Final = 0.95
"""highest ratio to the completion time of a policy without knowledge of shards"""
_SWEEP: Final = 3
"""least number of intervals for a statement about all of them"""


def bars(result: StudyResult) -> Iterator[Bar]:
    """Yield each bar with its values by seed."""
    errors = [row.error for row in result.rows("calibration")]
    if errors:
        worst = max(result.rows("calibration"), key=lambda row: abs(row.error))
        yield Bar("flow model off packets at every job of every point", at_most(0.10), {None: abs(worst.error)},
                  percent(), note=worst.point)  # fmt: skip
        yield Bar("flow model off packets on average", at_most(0.03), {None: statistics.fmean(map(abs, errors))},
                  percent(2))  # fmt: skip
    usual = partial(result.values, "clusters", order="fifo", backfill=True)
    first = result.settings.loads[0]
    for load in sorted(result.settings.loads):
        yield Bar(f"uniform network, load {load:g}: {AWARE} over {BASELINE}", at_most(1.01),
                  usual("over_packed", scenario=UNIFORM.name, load=load, policy=AWARE), "{:.4f}")  # fmt: skip
    for scenario, least in LOWER.items():
        ratios = usual("over_packed", scenario=scenario, load=first, policy=AWARE)
        yield Bar(f"{scenario}: mean JCT of {AWARE} below that of {BASELINE}", at_least(least),
                  by_seed(lambda ratio: 1 - ratio, ratios), percent())  # fmt: skip
    for policy in (BASELINE, AWARE):
        jct = partial(usual, "jct_s", load=first, policy=policy)
        plenty, part = jct(scenario=UNIFORM.name), jct(scenario="slots for 2, partial")
        yield Bar(
            f"slots for two jobs a switch, by value, {policy}: JCT over that of plenty",
            at_most(1.05),
            by_seed(_ratio, jct(scenario="slots for 2, value"), plenty),
            note=f"trees in part: {statistics.fmean(by_seed(_ratio, part, plenty).values()):.2f}" if part else "",
        )
    for point in result.of("inference", classes=True):
        place, rate = point["place"], point["rate_hz"]
        others = result.of("inference", place=place, rate_hz=rate, classes=False)
        yield Bar(
            f"inference {place}, {rate:g} requests/s a client, a class by DSCP: p99 over that without training",
            at_most(1.2),
            point.values["ratio"],
            every=True,
            note="".join(f"one queue for all: {other['ratio']:.2f}" for other in others),
        )
    yield from _telemetry(result)
    for point in result.of("services", way="chosen"):
        name = f"a service, {point['network']}, {point['rate_hz']:g} requests/s a client"
        yield Bar(f"{name}: p99 over that without training", at_most(1.2), point.values["ratio"])
        yield Bar(f"{name}: what training loses", at_most(0.03), point.values["loss"], percent(2))
    for bursts in result.settings.foresight_bursts:
        for way in (way for way in result.settings.foresight_ways if way != MEASURED):
            gained = by_seed(
                lambda ratio: 1 - ratio, result.values("foresight", "over", burst_s=bursts.mean_s, way=way)
            )
            yield Bar(f"placed by {way}, bursts of {bursts.mean_s:g} s: JCT below that by the last reading",
                      at_least(FORESIGHT), gained, percent(2))  # fmt: skip
    for policy in result.settings.policies:
        yield Bar(f"shards, {policy}: JCT where it is told of them over that where it is not", at_most(SHARDS),
                  result.values("shards", "over", policy=policy, told=True))  # fmt: skip


def _ratio(ours: float, theirs: float) -> float:
    return ours / theirs


def _telemetry(result: StudyResult) -> Iterator[Bar]:
    """Yield bars for each kind of bursts: the best cheap interval or window against an oracle, and its core share."""
    for point in result.of("telemetry", knows="digests", interval_s=WINDOW_S):
        name = f"telemetry, bursts of {point['burst_s']:g} s, digests of {WINDOW_S:g} s"
        yield Bar(f"{name}: JCT over that with an oracle", at_most(ORACLE), point.values["ratio"], "{:.4f}")
        yield Bar(f"{name}: share of a core", at_most(CORE), point.values["core"], percent(), seeds="any")
    for bursts in result.settings.bursts:
        own = [
            point
            for point in result.of("telemetry", burst_s=bursts.mean_s)
            if point["ratio"] is not None
            and (point["knows"] == "digests" or (point["knows"] == "counters" and point["threshold"] == 0))
        ]
        if sum(point["knows"] == "counters" for point in own) < _SWEEP:
            continue
        cheap = [point for point in own if point["core"] <= CORE]
        best = (
            min(cheap, key=lambda candidate: candidate["ratio"])
            if cheap
            else min(own, key=lambda candidate: candidate["core"])
        )
        name = f"telemetry, bursts of {bursts.mean_s:g} s, at some interval"
        which = f"{best['knows']} of {best['interval_s']:g} s, the best of {len(cheap) or len(own)}"
        yield Bar(f"{name}: JCT over that with an oracle", at_most(ORACLE), best.values["ratio"], "{:.4f}", note=which)
        yield Bar(f"{name}: share of a core", at_most(CORE), best.values["core"], percent(), seeds="any")


def _traces(result: StudyResult) -> Figure | None:
    """Draw readings and forecasts of the first seed of each load."""
    shown = list({trace.load: trace for trace in reversed(result.rows("traces"))}.values())[::-1]
    if not shown:
        return None
    figure = Figure(figsize=(8, 1.5 * len(shown) + 0.6), layout="constrained")
    for axes, trace in zip(figure.subplots(len(shown), 1, squeeze=False)[:, 0], shown, strict=True):
        axes.plot(trace.readings, color="black", linewidth=1.2, label="measured")
        for name, forecast in trace.said:
            if name != "mean":
                axes.plot(forecast, linewidth=0.8, label=name)
        axes.set_title(trace.load, fontsize=8)
    axes.set_xlabel("reading")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=7)
    return figure


CHARTS: Final = (
    Chart("policies", "Mean JCT of every policy over that of packed, by load", "clusters", "scenario", "over_packed",
          ("policy",), panel="load", kind="dots", where={"order": "fifo", "backfill": True}, yscale="log", line=1),
    Chart("knobs", "Accuracy by bytes", "knobs", "bytes", "accuracy", ("knob",), panel="data", kind="dots",
          xscale="log"),
    Chart("forecasts", "Errors of forecasts, 10 readings ahead", "forecasts", "load", "nrmse", ("method",), kind="dots",
          line=1),
    StudyDrawing("traces", "Readings and forecasts", _traces),
    Chart("inference", "99th percentile of latency over that without training", "inference", "place", "ratio",
          ("classes",), panel="rate_hz", kind="bars", line=1.2,
          label=lambda classes: "a class by DSCP" if classes else "one queue for all"),
    Chart("telemetry", "Completion times over those with an oracle, by what telemetry takes of a core", "telemetry",
          "core", "ratio", ("burst_s", "knows"), where={"knows": ("counters", "digests")}, xscale="log", line=ORACLE,
          label=lambda burst_s, knows: f"{knows}, bursts of {burst_s:g} s"),
    Chart("learning", "A policy that learns: its rollouts, update by update", "learning", "update", "over_packed",
          ("training",), rows=True, yscale="log", line=1, label=lambda seed: f"seed {seed}"),
)  # fmt: skip
STUDY: Final = Study(
    "placement",
    "Network-aware placement: completion times in a flow model held to packets",
    "Network-aware placement: completion times of a cluster's jobs under placement policies, in a flow model checked "
    "against packets; fewer bytes, forecasts, inference, a learned policy and telemetry, on packets.",
    PlacementSettings,
    QUICK,
    PARTS,
    DEVELOPED,
    HELD_OUT,
    bars,
    CHARTS,
    lambda result: (
        f"{result.settings.cluster_jobs} jobs in each of {len(result.settings.seeds)} seeds on clusters of {SLOTS} "
        "hosts, in a flow model; calibration, knobs, forecasts, inference and telemetry are on packets."
    ),
    readers={
        tuple[ClusterScenario, ...]: (named_scenarios, "NAME,..", f"Known: {'; '.join(scenario_names())}."),
        tuple[Bursting, ...]: (bursts_of, "S:TASKS,..", "S: mean length of a burst, seconds; TASKS: number of tasks."),
    },
)
