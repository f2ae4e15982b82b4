"""The placement experiment: runs of the flow model over seeds, its calibration on packets, and what must hold."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from p4reduce.base.output import Progress
from studies.before import Claim, in_parallel
from studies.placement.calibration import POINTS, Calibrated, CalibrationPoint, calibrate, draw_jobs
from studies.placement.flow_model import ClusterRun
from studies.placement.forecasts import (
    LOADS,
    ForecastRow,
    ForecastUnit,
    InferencePoint,
    InferenceRow,
    InferenceUnit,
    Trace,
    forecast_points,
    inference_points,
    run_forecasts,
    run_inference,
)
from studies.placement.knobs import KnobRow, KnobUnit, knob_points, run_knob
from studies.placement.learned import Learning, LearnUnit, learn_points, run_learning
from studies.placement.settings import (
    BACKGROUND_60,
    BACKGROUND_90,
    BOTH,
    CAPABLE,
    UNEVEN_OTHERS,
    UNIFORM,
    PlacementSettings,
    Scenario,
)
from studies.placement.telemetry import (
    TelemetryPoint,
    TelemetryRow,
    TelemetryUnit,
    is_swept,
    run_telemetry,
    telemetry_points,
    telemetry_units,
)

SLOTS = 128
"""hosts of each cluster, with one slot each"""


@dataclass(frozen=True)
class ClusterUnit:
    """A run of a cluster."""

    scenario: Scenario
    load: float
    seed: int
    jobs: int
    policy: str
    order: str = "fifo"
    backfill: bool = True


Unit = ClusterUnit | CalibrationPoint | KnobUnit | ForecastUnit | InferenceUnit | LearnUnit | TelemetryUnit
"""what one process does at a time"""
Forecast = tuple[list[ForecastRow], Trace]


@dataclass(frozen=True)
class Row:
    """Means over the jobs of a run: a line of runs.csv."""

    scenario: str
    load: float
    policy: str
    order: str
    backfill: bool
    seed: int
    jct_s: float
    wait_s: float
    makespan_s: float
    slowdown: float
    """JCT over that alone, through a tree of its own"""
    in_time: float
    """share of jobs that met their deadlines"""
    racks: float


@dataclass(frozen=True)
class Point:
    """Means of the seeds."""

    scenario: str
    load: float
    policy: str
    order: str
    backfill: bool
    seeds: int
    jct_s: float
    deviation_s: float
    """standard deviation between seeds"""
    wait_s: float
    makespan_s: float
    slowdown: float
    in_time: float
    racks: float


@dataclass(frozen=True)
class PlacementResult:
    """What was found."""

    settings: PlacementSettings
    rows: tuple[Row, ...]
    points: tuple[Point, ...]
    calibrated: tuple[Calibrated, ...]
    knobs: tuple[KnobRow, ...] = ()
    forecasts: tuple[ForecastRow, ...] = ()
    traces: tuple[Trace, ...] = ()
    inference: tuple[InferenceRow, ...] = ()
    learned: tuple[Learning, ...] = ()
    telemetry: tuple[TelemetryRow, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "settings": asdict(self.settings),
            "points": [asdict(point) for point in self.points],
            "calibration": [{**asdict(one), "errors": one.errors} for one in self.calibrated],
            "knobs": [asdict(point) for point in knob_points(self.knobs)],
            "forecasts": [asdict(point) for point in forecast_points(self.forecasts)],
            "inference": [asdict(point) for point in inference_points(self.inference)],
            "learned": [asdict(point) for point in learn_points(self.learned)],
            "telemetry": [asdict(point) for point in telemetry_points(self.telemetry)],
        }


def units(settings: PlacementSettings) -> list[Unit]:
    """Every scenario with every policy under the first load; the uniform one under all; orders under 'packed'."""
    first = settings.loads[0]
    wanted = [
        (scenario, load, policy, "fifo", True)
        for scenario in settings.scenarios
        for load in (settings.loads if scenario == UNIFORM else (first,))
        for policy in settings.policies
    ]
    wanted += [
        (UNIFORM, load, "packed", order, backfill)
        for load in {first, max(settings.loads)}
        for order in settings.orders
        for backfill in (True, False)
        if (order, backfill) != ("fifo", True)
    ]
    runs = [
        ClusterUnit(scenario, load, seed, settings.jobs, policy, order, backfill)
        for scenario, load, policy, order, backfill in wanted
        for seed in settings.seeds
    ]
    trainings = [
        KnobUnit(data, knob, seed, settings.knob_epochs)
        for data in settings.knob_data
        for knob in settings.knobs
        for seed in settings.knob_seeds
    ]
    measured = [
        ForecastUnit(load, seed, settings.readings)
        for load in LOADS[: settings.forecast_loads]
        for seed in settings.forecast_seeds
    ]
    asked = [
        InferenceUnit(place, rate, classes, seed, settings.requests)
        for place in settings.places
        for rate in settings.request_rates
        for classes in (False, True)
        for seed in settings.request_seeds
    ]
    learned = [
        LearnUnit(seed, settings.learn_updates, settings.learn_scenarios, settings.learn_tests, settings.jobs)
        for seed in settings.learn_seeds
    ]
    read = telemetry_units(
        settings.bursts, settings.intervals_s, settings.thresholds, settings.windows_s, settings.telemetry_seeds
    )
    return [*learned, *POINTS[: settings.points], *trainings, *measured, *asked, *read, *runs]


def run_unit(unit: Unit) -> Row | Calibrated | KnobRow | Forecast | InferenceRow | Learning | TelemetryRow:
    """One piece of the experiment."""
    match unit:
        case CalibrationPoint():
            return calibrate(unit)
        case KnobUnit():
            return run_knob(unit)
        case ForecastUnit():
            return run_forecasts(unit)
        case InferenceUnit():
            return run_inference(unit)
        case LearnUnit():
            return run_learning(unit)
        case TelemetryUnit():
            return run_telemetry(unit)
    return _run_cluster(unit)


def _run_cluster(unit: ClusterUnit) -> Row:
    jobs = draw_jobs(unit.seed, unit.jobs, unit.load, SLOTS, 1e9 * unit.scenario.rate_gbps)
    ended = ClusterRun(unit.scenario, jobs, unit.policy, unit.order, unit.backfill).run()
    begins = min(job.arrival_s for job in jobs)
    arrivals = {job.name: job.arrival_s for job in jobs}
    return Row(
        scenario=unit.scenario.name,
        load=unit.load,
        policy=unit.policy,
        order=unit.order,
        backfill=unit.backfill,
        seed=unit.seed,
        jct_s=statistics.fmean(one.jct_s for one in ended),
        wait_s=statistics.fmean(one.wait_s for one in ended),
        makespan_s=max(arrivals[one.name] + one.jct_s for one in ended) - begins,
        slowdown=statistics.fmean(one.slowdown for one in ended),
        in_time=statistics.fmean(one.in_time for one in ended),
        racks=statistics.fmean(one.racks for one in ended),
    )


def run_placement(
    settings: PlacementSettings, *, jobs: int = 1, dask: str | None = None, progress: Progress | None = None
) -> PlacementResult:
    """All of it; the same settings give the same result, however it is spread, but for process times of telemetry."""
    found = in_parallel(run_unit, units(settings), jobs=jobs, dask=dask, progress=progress, label="runs")
    rows = [one for one in found if isinstance(one, Row)]
    forecasts = [one for one in found if isinstance(one, tuple)]
    return PlacementResult(
        settings,
        tuple(rows),
        tuple(points_of(rows)),
        tuple(one for one in found if isinstance(one, Calibrated)),
        tuple(one for one in found if isinstance(one, KnobRow)),
        tuple(row for own, _ in forecasts for row in own),
        tuple(trace for _, trace in forecasts),
        tuple(one for one in found if isinstance(one, InferenceRow)),
        tuple(one for one in found if isinstance(one, Learning)),
        tuple(one for one in found if isinstance(one, TelemetryRow)),
    )


def points_of(rows: Iterable[Row]) -> list[Point]:
    """Means over seeds, in the order of the rows."""
    groups: dict[tuple[str, float, str, str, bool], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.scenario, row.load, row.policy, row.order, row.backfill), []).append(row)
    return [_point(key, own) for key, own in groups.items()]


def _point(key: tuple[str, float, str, str, bool], rows: Sequence[Row]) -> Point:
    scenario, load, policy, order, backfill = key
    times = [row.jct_s for row in rows]
    return Point(
        scenario,
        load,
        policy,
        order,
        backfill,
        seeds=len(rows),
        jct_s=statistics.fmean(times),
        deviation_s=statistics.stdev(times) if len(times) > 1 else 0.0,
        wait_s=statistics.fmean(row.wait_s for row in rows),
        makespan_s=statistics.fmean(row.makespan_s for row in rows),
        slowdown=statistics.fmean(row.slowdown for row in rows),
        in_time=statistics.fmean(row.in_time for row in rows),
        racks=statistics.fmean(row.racks for row in rows),
    )


# What the experiment must show, checked against its own figures: yes or no for each bar.


AWARE: Final = "ina-aware"
BASELINE: Final = "packed"
WORST_ERROR: Final = 0.10
MEAN_ERROR: Final = 0.03
SAME: Final = 0.01
LOWER: Final = {
    BACKGROUND_60.name: 0.05,
    BACKGROUND_90.name: 0.15,
    CAPABLE.name: 0.08,
    BOTH.name: 0.20,
    **{scenario.name: 0.20 for scenario in UNEVEN_OTHERS},
}
"""by scenario, how far the mean JCT of 'ina-aware' must be below that of 'packed'"""
SCARCE_SLOTS: Final = 1.05
"""of the mean JCT with plenty of slots, with slots for two jobs a switch"""
SLOWER: Final = 1.2
"""of the 99th percentile of latencies without training, beside it, with a class of their own"""

ORACLE: Final = 1.01
"""of the completion times with an oracle, with counters that are read at some interval"""
CORE: Final = 0.05
"""of a core, that these readings take at most"""
_SWEEP: Final = 3
"""intervals at least, for something to be said of all"""


def claims(result: PlacementResult) -> list[Claim]:
    """Everything that can be said of what was run; what was not run is left out."""
    load = result.settings.loads[0]
    jct = {
        (point.scenario, point.policy): point.jct_s
        for point in result.points
        if (point.load, point.order, point.backfill) == (load, "fifo", True)
    }
    return [
        *_calibration(result.calibrated),
        *_uniform(result.points),
        *_uneven(jct),
        *_slots(jct),
        *_inference(inference_points(result.inference)),
        *_telemetry(telemetry_points(result.telemetry)),
    ]


def _calibration(calibrated: Sequence[Calibrated]) -> list[Claim]:
    if not calibrated:
        return []
    errors = [abs(error) for one in calibrated for error in one.errors]
    worst = max(calibrated, key=lambda one: one.error)
    return [
        Claim(
            f"flow model within {100 * WORST_ERROR:.0f} % of packets at every point",
            f"worst {100 * worst.error:.1f} % ({worst.name}), of {len(calibrated)} points",
            worst.error <= WORST_ERROR,
        ),
        Claim(
            f"flow model within {100 * MEAN_ERROR:.0f} % of packets on average",
            f"{100 * statistics.fmean(errors):.2f} %",
            statistics.fmean(errors) <= MEAN_ERROR,
        ),
    ]


def _uniform(points: Sequence[Point]) -> list[Claim]:
    made = []
    own = [point for point in points if (point.scenario, point.order, point.backfill) == (UNIFORM.name, "fifo", True)]
    for load in sorted({point.load for point in own}):
        jct = {point.policy: point.jct_s for point in own if point.load == load}
        if {AWARE, BASELINE} <= jct.keys():
            ratio = jct[AWARE] / jct[BASELINE]
            made.append(
                Claim(
                    f"uniform network, load {load:g}: {AWARE} no more than {100 * SAME:.0f} % above {BASELINE}",
                    f"{ratio:.4f} x",
                    ratio <= 1 + SAME,
                )
            )
    return made


def _uneven(jct: dict[tuple[str, str], float]) -> list[Claim]:
    made = []
    for scenario, least in LOWER.items():
        if (scenario, AWARE) in jct and (scenario, BASELINE) in jct:
            lower = 1 - jct[(scenario, AWARE)] / jct[(scenario, BASELINE)]
            made.append(
                Claim(
                    f"{scenario}: mean JCT of {AWARE} at least {100 * least:.0f} % below that of {BASELINE}",
                    f"{100 * lower:.1f} % below",
                    lower >= least,
                )
            )
    return made


def _slots(jct: dict[tuple[str, str], float]) -> list[Claim]:
    made = []
    for policy in (BASELINE, AWARE):
        plenty, scarce = jct.get((UNIFORM.name, policy)), jct.get(("slots for 2, value", policy))
        part = jct.get(("slots for 2, partial", policy))
        if plenty and scarce and part:
            made.append(
                Claim(
                    f"slots for two jobs a switch, by value, {policy}: at most {SCARCE_SLOTS} x the JCT of plenty",
                    f"{scarce / plenty:.3f} x (trees in part: {part / plenty:.2f} x)",
                    scarce <= SCARCE_SLOTS * plenty,
                )
            )
    return made


def _inference(points: Sequence[InferencePoint]) -> list[Claim]:
    """Requests with a class of their own; those in the queue of all stand beside them."""
    made = []
    for point in points:
        if point.classes:
            others = [one for one in points if (one.place, one.rate_hz) == (point.place, point.rate_hz)]
            fifo = "".join(f" (one queue for all: {one.ratio:.2f} x)" for one in others if not one.classes)
            made.append(
                Claim(
                    f"inference {point.place}, {point.rate_hz:g} requests/s a client, a class by DSCP: p99 at most "
                    f"{SLOWER} x that without training, in every seed",
                    f"{point.ratio:.3f} x, worst seed {point.worst:.3f} x{fifo}",
                    point.worst <= SLOWER,
                )
            )
    return made


def _telemetry(points: Sequence[TelemetryPoint]) -> list[Claim]:
    """For each kind of bursts: is there an interval or a window that is close enough and cheap enough?"""
    made = []
    for burst_s in dict.fromkeys(point.burst_s for point in points):
        own = [point for point in points if point.burst_s == burst_s and is_swept(point)]
        if sum(point.knows == "counters" for point in own) < _SWEEP:
            continue
        cheap = [point for point in own if point.core <= CORE]
        best = min(cheap, key=lambda point: point.ratio) if cheap else min(own, key=lambda point: point.core)
        made.append(
            Claim(
                f"telemetry, bursts of {burst_s:g} s: at some interval JCT at most {ORACLE} x that with an oracle, at "
                f"{100 * CORE:.0f} % of a core or less",
                f"{best.knows} of {best.interval_s:g} s: {best.ratio:.4f} x, {100 * best.core:.1f} % of a core",
                best.ratio <= ORACLE and best.core <= CORE,
            )
        )
    return made
