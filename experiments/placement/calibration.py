"""The flow model against packets: the same jobs through the P4 program, and as a fluid."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from p4reduce.base.units import PS_PER_S
from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.frames import frame_bytes
from p4reduce.control_plane.plans import Plan, PlanRequest
from p4reduce.control_plane.predict import Operation, predict
from p4reduce.experiments.placement.fluid import Floats, Flow, ends_of
from p4reduce.experiments.placement.workload import AROUND, LANES
from p4reduce.jobs.clockwork import Clockwork
from p4reduce.jobs.job import Job
from p4reduce.jobs.network import JobNetwork
from p4reduce.jobs.programs import bundled
from p4reduce.jobs.switches import EmbeddedSwitches
from p4reduce.topologies import Topology, load
from p4reduce.workers.numbers import FixedScale
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective

NUMBERS: Final = FixedScale(1.0)
"""gradients are small whole numbers"""
ROUNDS: Final = 8
SKIPPED: Final = 2
"""first iterations, in which jobs fall into step"""


@dataclass(frozen=True)
class Trainer:
    """A job of a point: its hosts, its plan ('steiner' or 'ring'), float32 numbers, seconds that it computes."""

    hosts: tuple[str, ...]
    plan: str
    elements: int
    compute_s: float
    begin_s: float = 0.0


@dataclass(frozen=True)
class CalibrationPoint:
    """Jobs on a small network."""

    name: str
    topology: str
    jobs: tuple[Trainer, ...]


@dataclass(frozen=True)
class Calibrated:
    """Mean seconds of an iteration of every job, on packets and in the model."""

    name: str
    packets_s: tuple[float, ...]
    model_s: tuple[float, ...]

    @property
    def errors(self) -> tuple[float, ...]:
        """Of the model, signed, as shares of packets."""
        return tuple(model / packets - 1 for model, packets in zip(self.model_s, self.packets_s, strict=True))

    @property
    def error(self) -> float:
        """The largest, without its sign."""
        return max(map(abs, self.errors))


def calibrate(point: CalibrationPoint) -> Calibrated:
    """Run a point both ways. ``ClusterError`` when a sum is wrong, or a byte more or less than predicted was sent."""
    topology = load(point.topology)
    with EmbeddedSwitches(topology, bundled(LANES)) as switches:
        plans = [
            switches.controller.start_job(
                PlanRequest(one.plan, job=number + 1, workers=one.hosts, server=None, lanes=LANES)
            )
            for number, one in enumerate(point.jobs)
        ]
        packets = _on_packets(switches, point.jobs, plans)
    flows = [flow_of(plan, one) for plan, one in zip(plans, point.jobs, strict=True)]
    return Calibrated(point.name, tuple(_means(packets)), tuple(_means(ends_of(flows, rates_of(topology), ROUNDS))))


def _means(ends: Floats) -> list[float]:
    return [float((own[-1] - own[SKIPPED - 1]) / (len(own) - SKIPPED)) for own in ends]


def rates_of(topology: Topology) -> Floats:
    """Rates of directed links, bit/s, in the order of :func:`hops_of`."""
    return np.array([topology.link_at(*hop).rate_bps for hop in hops_of(topology)], np.float64)


def hops_of(topology: Topology) -> list[tuple[str, int]]:
    """Directed links in a fixed order."""
    return [end for link in topology.links for end in ((link.a, link.port_a), (link.b, link.port_b))]


def flow_of(plan: Plan, job: Trainer) -> Flow:
    """A job as a fluid: what its plan puts on directed links, and a round trip before its last frame is back."""
    places = {hop: number for number, hop in enumerate(hops_of(plan.topology))}
    bits = {
        places[hop]: 8.0 * (one.bytes + AROUND * one.frames)
        for hop, one in predict(plan, Operation.ALL_REDUCE, job.elements, lead=0).items()
        if one.frames
    }
    stream = bits[places[(job.hosts[0], 1)]]
    return Flow(job.compute_s, bits, stream, plan.rtt_ps / PS_PER_S, job.begin_s)


def _on_packets(switches: EmbeddedSwitches, jobs: Sequence[Trainer], plans: Sequence[Plan]) -> Floats:
    """Ends of the iterations of all jobs, seconds, float64 (jobs, rounds)."""
    with JobNetwork(switches, queue_frames=4096) as network:
        clockwork = Clockwork(network)
        runs = [_Run(clockwork, network.add(plan, NUMBERS), one) for plan, one in zip(plans, jobs, strict=True)]
        for run in runs:
            run.begin(runs)
        clockwork.run()
        return np.array([[end / PS_PER_S for end in run.ends_ps[:ROUNDS]] for run in runs])


class _Run:
    """All hosts compute, all-reduce, and begin anew when the last of them has the sum."""

    def __init__(self, clockwork: Clockwork, job: Job, about: Trainer) -> None:
        self._clockwork, self._job, self._about = clockwork, job, about
        self._given = [
            np.random.Generator(np.random.Philox(rank)).integers(-8, 9, about.elements).astype(np.float32)
            for rank in range(len(about.hosts))
        ]
        self._sums = [np.zeros(about.elements, np.float32) for _ in about.hosts]
        self._expected = np.sum(self._given, axis=0, dtype=np.float32)
        self._open = 0
        self.ends_ps: list[int] = []
        self._all: Sequence[_Run] = ()

    def begin(self, runs: "Sequence[_Run]") -> None:
        """All go on until each of them has its iterations: those that are left would be alone else."""
        self._all = runs
        self._compute(round(self._about.begin_s * PS_PER_S))

    def _compute(self, now_ps: int) -> None:
        if any(len(run.ends_ps) < ROUNDS for run in self._all):
            self._clockwork.at(now_ps + round(self._about.compute_s * PS_PER_S), self._communicate)

    def _communicate(self) -> None:
        self._open = len(self._about.hosts)
        for host, given, total in zip(self._about.hosts, self._given, self._sums, strict=True):
            self._clockwork.post(self._job.members[host], Post(Collective.ALL_REDUCE, given, total), self._done)

    def _done(self, done_ps: int) -> None:
        self._open -= 1
        if self._open:
            return
        for host, total in zip(self._about.hosts, self._sums, strict=True):
            if not np.array_equal(total, self._expected):
                raise ClusterError(f"calibration: {host} has a wrong sum in iteration {len(self.ends_ps)}")
        self.ends_ps.append(done_ps)
        self._compute(done_ps)


def _rack(number: int, first: int = 1, count: int = 4) -> tuple[str, ...]:
    """Some hosts of a rack of eight."""
    return tuple(f"h{8 * (number - 1) + at}" for at in range(first, first + count))


_ONE: Final = "leaf-spine:leaves=4,spines=1,hosts=8,rate=25G"
_TWO: Final = "leaf-spine:leaves=4,spines=2,hosts=8,rate=25G"
_HALF: Final = "leaf-spine:leaves=4,spines=1,hosts=8,rate=25G,capable=spine*"
_SLOW: Final = "leaf-spine:leaves=4,spines=1,hosts=8,rate=25G,uplink=10G"
_SIZE: Final = 61_706
_ALONE_S: Final = 8 * -(-_SIZE // LANES) * (frame_bytes(LANES) + AROUND) / 25e9
"""of a model of that size on a link"""
A: Final = (*_rack(1), *_rack(2))
B: Final = (*_rack(1, 5), *_rack(2, 5))
C: Final = (*_rack(1, 5, 2), *_rack(3, 1, 2))
D: Final = (*_rack(1, 7, 2), *_rack(4, 1, 2))


def _phi(phi: float, times: float = 1.0) -> float:
    """Seconds of computing beside a communication of ``times`` a model."""
    return _ALONE_S * times * (1 - phi) / phi


def _job(hosts: tuple[str, ...], plan: str = "steiner", phi: float = 0.4, size: int = 1, begin: float = 0.0) -> Trainer:
    return Trainer(hosts, plan, _SIZE * size, _phi(phi, size), begin * _ALONE_S)


POINTS: Final = (
    CalibrationPoint("tree, a rack", _TWO, (_job(_rack(1, 1, 8)),)),
    CalibrationPoint("ring, a rack", _TWO, (_job(_rack(1, 1, 8), "ring"),)),
    CalibrationPoint("two trees that share, in step", _ONE, (_job(A), _job(B))),
    CalibrationPoint("a tree and a ring that share", _ONE, (_job(A), _job(B, "ring"))),
    CalibrationPoint("tree, two racks", _TWO, (_job(A),)),
    CalibrationPoint("ring, two racks", _ONE, (_job(A, "ring"),)),
    CalibrationPoint("tree, 32 hosts", _TWO, (_job(sum((_rack(n, 1, 8) for n in (1, 2, 3, 4)), ())),)),
    CalibrationPoint("two trees that share, out of step", _ONE, (_job(A), _job(B, phi=0.25, begin=0.7))),
    CalibrationPoint("two trees, 1 : 3", _ONE, (_job(A), _job(B, phi=0.5, size=3))),
    CalibrationPoint("three trees on an uplink", _ONE, (_job(A), _job(C, phi=0.5, begin=0.3), _job(D, phi=0.3))),
    CalibrationPoint("two rings that share", _ONE, (_job(A, "ring"), _job(B, "ring", begin=0.5))),
    CalibrationPoint("tree in part: leaves do not add up", _HALF, (_job(A, phi=0.6),)),
    CalibrationPoint("trees in part that share", _HALF, (_job(A, phi=0.6), _job(C, phi=0.5))),
    CalibrationPoint("slow uplinks, tree", _SLOW, (_job(A),)),
    CalibrationPoint("slow uplinks, two trees", _SLOW, (_job(A), _job(B, phi=0.3))),
)
"""the first four are those of the sample"""
