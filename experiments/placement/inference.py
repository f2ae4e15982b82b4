"""Inference beside training, on packets: requests with answers of 16 frames, and jobs that train on the same links."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from p4reduce.base.units import PS_PER_S
from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.entries import SwitchSettings
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.experiments.placement.calibration import NUMBERS, QUEUE_FRAMES, SKIPPED, Trainer, TrainerRun
from p4reduce.experiments.placement.points import A, trainer
from p4reduce.experiments.placement.workload import LANES
from p4reduce.fabric.background import RequestEndpoints, Requests
from p4reduce.jobs.clockwork import Clockwork
from p4reduce.jobs.network import JobNetwork
from p4reduce.jobs.programs import bundled
from p4reduce.jobs.switches import EmbeddedSwitches
from p4reduce.topologies import load

TOPOLOGY: Final = "leaf-spine:leaves=4,spines=1,hosts=8,rate=25G"
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
"""where servers are: the clients are in the second rack, with half of the first job's workers"""
_LATEST_PS: Final = 10 * PS_PER_S
_ENDLESS: Final = 1 << 60


@dataclass(frozen=True)
class InferenceUnit:
    """Requests from one place, at a rate of each client, in a class of their own or in that of all."""

    place: str
    rate_hz: float
    classes: bool
    seed: int
    count: int


@dataclass(frozen=True)
class InferenceRow:
    """Latencies from asking to the last frame of the answer: a line of inference.csv."""

    place: str
    rate_hz: float
    classes: bool
    seed: int
    p50_us: float
    p99_us: float
    unloaded_p50_us: float
    unloaded_p99_us: float
    """of the same requests where nobody trains"""
    training: float
    """iteration of the slower of two jobs over that without requests"""

    @property
    def ratio(self) -> float:
        """Of the 99th percentile to that without training."""
        return self.p99_us / self.unloaded_p99_us


@dataclass(frozen=True)
class InferencePoint:
    """Means of the seeds; ``worst``: the largest ratio of a seed."""

    place: str
    rate_hz: float
    classes: bool
    seeds: int
    p50_us: float
    p99_us: float
    unloaded_p99_us: float
    ratio: float
    worst: float
    training: float


def run_inference(unit: InferenceUnit) -> InferenceRow:
    """The same requests alone and beside training. ``ClusterError`` where one has no answer, or a sum is wrong."""
    requests = Requests(
        CLIENTS,
        PLACES[unit.place],
        unit.rate_hz,
        unit.count,
        dscp=CODE_POINT if unit.classes else 0,
        priority=CLASS if unit.classes else 0,
        seed=unit.seed,
    )
    alone, _ = _run(requests, ())
    beside, iterations = _run(requests, TRAINING)
    slower = [here / without for here, without in zip(iterations, _without(), strict=True)]
    return InferenceRow(
        unit.place,
        unit.rate_hz,
        unit.classes,
        unit.seed,
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
    """Latencies of all requests, us, and mean seconds of an iteration of every job."""
    settings = SwitchSettings(dscp_classes={CODE_POINT: CLASS})
    with (
        EmbeddedSwitches(load(TOPOLOGY), bundled(LANES), settings=settings) as switches,
        JobNetwork(switches, queue_frames=QUEUE_FRAMES, background=requests) as network,
    ):
        clockwork = Clockwork(network)
        rounds = 12 if requests is None else _ENDLESS
        runs = []
        for number, one in enumerate(jobs):
            request = PlanRequest(one.plan, job=number + 1, workers=one.hosts, server=None, lanes=LANES)
            plan = switches.controller.start_job(request)
            runs.append(TrainerRun(clockwork, network.add(plan, NUMBERS), one, rounds))
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


def inference_points(rows: Sequence[InferenceRow]) -> list[InferencePoint]:
    """Means over seeds, in the order of the rows."""
    groups: dict[tuple[str, float, bool], list[InferenceRow]] = {}
    for row in rows:
        groups.setdefault((row.place, row.rate_hz, row.classes), []).append(row)
    return [
        InferencePoint(
            *key,
            len(own),
            statistics.fmean(row.p50_us for row in own),
            statistics.fmean(row.p99_us for row in own),
            statistics.fmean(row.unloaded_p99_us for row in own),
            statistics.fmean(row.ratio for row in own),
            max(row.ratio for row in own),
            statistics.fmean(row.training for row in own),
        )
        for key, own in groups.items()
    ]
