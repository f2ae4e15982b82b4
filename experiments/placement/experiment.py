"""The placement experiment: runs of the flow model over seeds, its calibration on packets, and what must hold."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from p4reduce.base.progress import Progress
from p4reduce.experiments.parallel import in_parallel
from p4reduce.experiments.placement.calibration import Calibrated, CalibrationPoint, calibrate
from p4reduce.experiments.placement.flow_model import ClusterRun
from p4reduce.experiments.placement.forecasts import (
    LOADS,
    ForecastRow,
    ForecastUnit,
    Trace,
    forecast_points,
    run_forecasts,
)
from p4reduce.experiments.placement.inference import InferenceRow, InferenceUnit, inference_points, run_inference
from p4reduce.experiments.placement.knobs.study import KnobRow, KnobUnit, knob_points, run_knob
from p4reduce.experiments.placement.learned.training import Learning, LearnUnit, learn_points, run_learning
from p4reduce.experiments.placement.points import POINTS
from p4reduce.experiments.placement.settings import UNIFORM, PlacementSettings, Scenario
from p4reduce.experiments.placement.telemetry import (
    TelemetryRow,
    TelemetryUnit,
    run_telemetry,
    telemetry_points,
    telemetry_units,
)
from p4reduce.experiments.placement.workload import draw_jobs

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
