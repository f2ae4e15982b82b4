"""Forecasts of links' loads that were measured on packets: on/off traffic of others, and jobs that train.

A reading is what the port's counter says that an uplink was busy since the last one.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from p4reduce.control_plane.placement.forecast import LAGS, Floats, learn, nrmse
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.experiments.placement.calibration import LOADED, NUMBERS, QUEUE_FRAMES, Across, Trainer, TrainerRun
from p4reduce.experiments.placement.points import A1, A2, A, trainer
from p4reduce.experiments.placement.workload import LANES
from p4reduce.fabric.background import BackgroundEndpoints, SourceOptions
from p4reduce.jobs.clockwork import Clockwork
from p4reduce.jobs.network import JobNetwork
from p4reduce.jobs.programs import bundled
from p4reduce.jobs.switches import EmbeddedSwitches
from p4reduce.topologies import Topology, load

TOPOLOGY: Final = "leaf-spine:leaves=2,spines=1,hosts=8,rate=25G"
EVERY_PS: Final = 20_000_000
"""between two readings"""
AHEAD: Final = 10
METHODS: Final = ("mean", "ewma", "ar", "boosted-trees")
_FRAME_S: Final = 8 * 1110 / 25e9
_ENDLESS: Final = 1 << 60


@dataclass(frozen=True)
class Load:
    """What is on the uplink: on/off flows whose bursts last so many readings on average, and jobs."""

    name: str
    share: float = 0.0
    burst: float = 0.0
    jobs: tuple[Trainer, ...] = ()


LOADS: Final = (
    Load("on/off, bursts of 5 readings", 0.4, 5),
    Load("on/off, bursts of 20 readings", 0.4, 20),
    Load("on/off, bursts of 80 readings", 0.4, 80),
    Load("a job", jobs=(trainer(A),)),
    Load("two jobs", jobs=(trainer(A1), trainer(A2, phi=0.25, begin=0.5))),
    Load("two jobs and on/off, bursts of 20", 0.3, 20, (trainer(A1), trainer(A2, phi=0.25, begin=0.5))),
)


@dataclass(frozen=True)
class ForecastUnit:
    """A load, measured once for all methods."""

    load: Load
    seed: int
    readings: int


@dataclass(frozen=True)
class ForecastRow:
    """Error of a method on readings that it did not learn from: a line of forecasts.csv."""

    load: str
    method: str
    seed: int
    nrmse: float


@dataclass(frozen=True)
class ForecastPoint:
    """Of all seeds."""

    load: str
    method: str
    seeds: int
    nrmse: float
    least: float
    most: float


@dataclass(frozen=True)
class Trace:
    """Some of the held-out readings and what was said of them: for the figure."""

    load: str
    readings: tuple[float, ...]
    said: tuple[tuple[str, tuple[float, ...]], ...]


@dataclass(frozen=True)
class Bursts(Across):
    """The same between two leaves, in bursts of so many frames."""

    burst_frames: int = 16

    def endpoints(self, topology: Topology) -> BackgroundEndpoints:
        """Its sources."""
        options = SourceOptions(burst_frames=self.burst_frames)
        return BackgroundEndpoints(topology, self.demands(topology), options, self.seed)


def measure(unit: ForecastUnit) -> Floats:
    """Share of the time that the first leaf's uplink was busy, reading by reading, float64 (readings,)."""
    about = unit.load
    frames = max(1, round(about.burst * EVERY_PS / 1e12 / _FRAME_S))
    others = Bursts("gravity", about.share, unit.seed, burst_frames=frames) if about.share else None
    topology = load(TOPOLOGY)
    hop = (LOADED[0], topology.port(LOADED[0], "spine1"))
    with (
        EmbeddedSwitches(topology, bundled(LANES)) as switches,
        JobNetwork(switches, queue_frames=QUEUE_FRAMES, background=others) as network,
    ):
        clockwork, busy = Clockwork(network), [0]

        def read() -> None:
            busy.append(network.fabric.links[hop].busy_ps)

        runs = []
        for number, one in enumerate(about.jobs):
            plan = switches.controller.start_job(
                PlanRequest(one.plan, job=number + 1, workers=one.hosts, server=None, lanes=LANES)
            )
            runs.append(TrainerRun(clockwork, network.add(plan, NUMBERS), _shifted(one, unit.seed), _ENDLESS))
        for run in runs:
            run.begin(runs)
        for number in range(unit.readings):
            clockwork.at((number + 1) * EVERY_PS, read)
        clockwork.run(until=lambda: len(busy) > unit.readings)
        return np.asarray(np.diff(np.array(busy, np.float64)) / EVERY_PS, np.float64)


def _shifted(job: Trainer, seed: int) -> Trainer:
    """Seeds of jobs differ by when they begin and how long they compute."""
    random = np.random.Generator(np.random.Philox(key=[seed, len(job.hosts) * job.elements]))
    compute = job.compute_s * (1 + 0.2 * float(random.random()))
    return Trainer(job.hosts, job.plan, job.elements, compute, job.begin_s + float(random.random()) * compute)


def run_forecasts(unit: ForecastUnit) -> tuple[list[ForecastRow], Trace]:
    """All methods on one measured load; they learn from its first half."""
    series = measure(unit)
    rows = [ForecastRow(unit.load.name, name, unit.seed, nrmse(name, series, AHEAD)) for name in METHODS]
    cut = len(series) // 2
    ends = range(max(cut, LAGS), min(len(series) - AHEAD + 1, cut + 150))
    said = []
    for name in METHODS:
        predict = learn(name, series[:cut], AHEAD)
        said.append((name, tuple(predict(series[:end]) for end in ends)))
    return rows, Trace(unit.load.name, tuple(float(series[end + AHEAD - 1]) for end in ends), tuple(said))


def forecast_points(rows: Sequence[ForecastRow]) -> list[ForecastPoint]:
    """Over seeds, in the order of the rows."""
    groups: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        groups.setdefault((row.load, row.method), []).append(row.nrmse)
    return [
        ForecastPoint(load, method, len(errors), statistics.fmean(errors), min(errors), max(errors))
        for (load, method), errors in groups.items()
    ]
