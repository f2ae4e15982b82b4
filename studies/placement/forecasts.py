"""Forecasts of link loads measured on packets: on/off background traffic, and training jobs.

A reading is the time for which an uplink was busy since the last reading, by the port's counter.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from p4reduce.control_plane.entries import SwitchSettings
from p4reduce.control_plane.placement.cluster import LAGS, Floats, learn, nrmse
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.group.errors import ClusterError
from p4reduce.network.background import BackgroundEndpoints, RequestEndpoints, Requests, SourceOptions
from p4reduce.network.jobs.asynchronous import Clockwork
from p4reduce.network.jobs.network import EmbeddedSwitches, JobNetwork, bundled
from p4reduce.topologies import Topology, load
from p4switch.base.values import PS_PER_S
from studies.frame import column, record
from studies.placement.calibration import (
    A1,
    A2,
    LANES,
    LOADED,
    NUMBERS,
    QUEUE_FRAMES,
    SKIPPED,
    A,
    Across,
    Trainer,
    TrainerRun,
    trainer,
)

TOPOLOGY: Final = "leaf-spine:leaves=2,spines=1,hosts=8,rate=25G"
EVERY_PS: Final = 20_000_000
"""time between two readings"""
AHEAD: Final = 10
METHODS: Final = ("mean", "ewma", "ar", "boosted-trees")
_FRAME_S: Final = 8 * 1110 / 25e9
_ENDLESS: Final = 1 << 60


@dataclass(frozen=True)
class UplinkLoad:
    """The load of the uplink: on/off flows whose bursts last ``burst`` readings on average, and jobs."""

    name: str
    share: float = 0.0
    burst: float = 0.0
    jobs: tuple[Trainer, ...] = ()


LOADS: Final = (
    UplinkLoad("on/off, bursts of 5 readings", 0.4, 5),
    UplinkLoad("on/off, bursts of 20 readings", 0.4, 20),
    UplinkLoad("on/off, bursts of 80 readings", 0.4, 80),
    UplinkLoad("a job", jobs=(trainer(A),)),
    UplinkLoad("two jobs", jobs=(trainer(A1), trainer(A2, phi=0.25, begin=0.5))),
    UplinkLoad("two jobs and on/off, bursts of 20", 0.3, 20, (trainer(A1), trainer(A2, phi=0.25, begin=0.5))),
)


@dataclass(frozen=True)
class ForecastCell:
    """A load that is measured once for all methods."""

    load: UplinkLoad
    seed: int
    readings: int


@record
class ForecastRow:
    """Error of a method on readings from which it did not learn."""

    load: str = column("load")
    method: str = column("method")
    seed: int
    nrmse: float = column("NRMSE", "{:.2f}")


@dataclass(frozen=True)
class ForecastTrace:
    """Some of the held-out readings with their forecasts, for the figure."""

    load: str
    readings: tuple[float, ...]
    said: tuple[tuple[str, tuple[float, ...]], ...]


@dataclass(frozen=True)
class Bursts(Across):
    """Background traffic between two leaves in bursts of ``burst_frames`` frames."""

    burst_frames: int = 16

    def endpoints(self, topology: Topology) -> BackgroundEndpoints:
        """Return the sources."""
        options = SourceOptions(burst_frames=self.burst_frames)
        return BackgroundEndpoints(topology, self.demands(topology), options, self.seed)


def measure(cell: ForecastCell) -> Floats:
    """Return the share of time for which the first leaf's uplink was busy, per reading, float64 (readings,)."""
    about = cell.load
    frames = max(1, round(about.burst * EVERY_PS / 1e12 / _FRAME_S))
    others = Bursts("gravity", about.share, cell.seed, burst_frames=frames) if about.share else None
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
        for number, job in enumerate(about.jobs):
            plan = switches.controller.start_job(
                PlanRequest(job.plan, job=number + 1, workers=job.hosts, server=None, lanes=LANES)
            )
            runs.append(TrainerRun(clockwork, network.add(plan, NUMBERS), _shifted(job, cell.seed), _ENDLESS))
        for run in runs:
            run.begin(runs)
        for number in range(cell.readings):
            clockwork.at((number + 1) * EVERY_PS, read)
        clockwork.run(until=lambda: len(busy) > cell.readings)
        return np.asarray(np.diff(np.array(busy, np.float64)) / EVERY_PS, np.float64)


def _shifted(job: Trainer, seed: int) -> Trainer:
    """Return a job with a start time and a time of computing that depend on the seed."""
    random = np.random.Generator(np.random.Philox(key=[seed, len(job.hosts) * job.elements]))
    compute = job.compute_s * (1 + 0.2 * float(random.random()))
    return Trainer(job.hosts, job.plan, job.elements, compute, job.begin_s + float(random.random()) * compute)


def run_forecasts(cell: ForecastCell) -> Iterator[ForecastRow | ForecastTrace]:
    """Run all methods on one measured load; they learn from its first half."""
    series = measure(cell)
    for name in METHODS:
        yield ForecastRow(cell.load.name, name, cell.seed, nrmse(name, series, AHEAD))
    cut = len(series) // 2
    ends = range(max(cut, LAGS), min(len(series) - AHEAD + 1, cut + 150))
    forecasts = []
    for name in METHODS:
        predict = learn(name, series[:cut], AHEAD)
        forecasts.append((name, tuple(predict(series[:end]) for end in ends)))
    yield ForecastTrace(cell.load.name, tuple(float(series[end + AHEAD - 1]) for end in ends), tuple(forecasts))


# Inference beside training, on packets: requests with answers of 16 frames, and training jobs on the same links.


INFERENCE_TOPOLOGY: Final = "leaf-spine:leaves=4,spines=1,hosts=8,rate=25G"
CODE_POINT: Final = 46
"""expedited forwarding (RFC 3246)"""
CLASS: Final = 7
TRAINING: Final = (trainer(A, size=4), trainer(("h1", "h2", "h17", "h18"), phi=0.25, size=4))
"""two jobs that share leaf 1 and its uplink"""
CLIENTS: Final = ("h13", "h14", "h15", "h16")
PLACES: Final = {
    "behind the jobs' uplink": ("h5", "h6", "h7", "h8"),
    "on the workers' hosts": ("h1", "h2", "h3", "h4"),
    "in the clients' rack": ("h9", "h10", "h11", "h12"),
}
"""hosts of the servers; the clients are in the second rack, with half of the first job's workers"""
_LATEST_PS: Final = 10 * PS_PER_S


@dataclass(frozen=True)
class InferenceCell:
    """Requests to servers in one place, at a rate per client, in a separate traffic class or the default one."""

    place: str
    rate_hz: float
    classes: bool
    seed: int
    count: int


@record
class InferenceRow:
    """Latencies from a request to the last frame of its answer."""

    place: str = column("servers")
    rate_hz: float = column("requests/s a client", "{:g}")
    classes: bool = column("a class by DSCP")
    seed: int
    p50_us: float = column("p50, us", "{:.1f}")
    p99_us: float = column("p99, us", "{:.1f}")
    unloaded_p50_us: float
    unloaded_p99_us: float = column("p99 without training, us", "{:.1f}")
    """99th percentile of the same requests without training"""
    training: float = column("training", "{:.3f}")
    """iteration time over that without requests, of the job that is slowed down more"""

    @property
    def ratio(self) -> float:
        """Ratio of the 99th percentile to that without training."""
        return self.p99_us / self.unloaded_p99_us


def run_inference(cell: InferenceCell) -> Iterator[InferenceRow]:
    """Run the same requests alone and beside training. ``ClusterError`` if an answer is missing, or a sum is wrong."""
    requests = Requests(
        CLIENTS,
        PLACES[cell.place],
        cell.rate_hz,
        cell.count,
        dscp=CODE_POINT if cell.classes else 0,
        priority=CLASS if cell.classes else 0,
        seed=cell.seed,
    )
    alone, _ = _run(requests, ())
    beside, iterations = _run(requests, TRAINING)
    slower = [here / without for here, without in zip(iterations, _without(), strict=True)]
    yield InferenceRow(
        cell.place,
        cell.rate_hz,
        cell.classes,
        cell.seed,
        float(np.percentile(beside, 50)),
        float(np.percentile(beside, 99)),
        float(np.percentile(alone, 50)),
        float(np.percentile(alone, 99)),
        max(slower),
    )


@lru_cache(maxsize=1)
def _without() -> list[float]:
    return _run(None, TRAINING)[1]


def _run(requests: Requests | None, jobs: Sequence[Trainer]) -> tuple[list[float], list[float]]:
    """Return latencies of all requests, us, and mean seconds of an iteration of every job."""
    settings = SwitchSettings(dscp_classes={CODE_POINT: CLASS})
    with (
        EmbeddedSwitches(load(INFERENCE_TOPOLOGY), bundled(LANES), settings=settings) as switches,
        JobNetwork(switches, queue_frames=QUEUE_FRAMES, background=requests) as network,
    ):
        clockwork = Clockwork(network)
        rounds = 12 if requests is None else _ENDLESS
        runs = []
        for number, job in enumerate(jobs):
            request = PlanRequest(job.plan, job=number + 1, workers=job.hosts, server=None, lanes=LANES)
            plan = switches.controller.start_job(request)
            runs.append(TrainerRun(clockwork, network.add(plan, NUMBERS), job, rounds))
        for run in runs:
            run.begin(runs)
        parties = network.endpoints
        if not isinstance(parties, RequestEndpoints):
            clockwork.run()
            return [], [_iteration(run) for run in runs]
        if runs:
            clockwork.run(until=lambda: parties.finished or network.now > _LATEST_PS)
        else:
            network.advance()
        if not parties.finished:
            raise ClusterError(f"inference: {int((parties.ended_ps == 0).sum())} requests have no answer")
        latencies = (parties.ended_ps - parties.asked_ps).reshape(-1) / 1e6
        return latencies.tolist(), [_iteration(run) for run in runs]


def _iteration(run: TrainerRun) -> float:
    ends = run.ends_ps
    if len(ends) <= SKIPPED:
        raise ClusterError("inference: requests ended before jobs had a few iterations: ask for more requests")
    return (ends[-1] - ends[SKIPPED - 1]) / (len(ends) - SKIPPED) / PS_PER_S
