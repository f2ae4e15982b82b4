"""The flow model against packets: the same jobs through the P4 program, and as a fluid."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from p4reduce.base.units import PS_PER_S
from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.plans import Plan, PlanRequest
from p4reduce.control_plane.predict import Operation, predict
from p4reduce.experiments.placement.fluid import Floats, Flow, ends_of
from p4reduce.experiments.placement.workload import AROUND, LANES
from p4reduce.fabric.background import Background, Demands, SourceOptions
from p4reduce.jobs.clockwork import Clockwork
from p4reduce.jobs.job import Job
from p4reduce.jobs.network import JobNetwork
from p4reduce.jobs.programs import bundled
from p4reduce.jobs.switches import EmbeddedSwitches
from p4reduce.topologies import Topology, load
from p4reduce.topologies.model import Hop
from p4reduce.workers.numbers import FixedScale
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective

NUMBERS: Final = FixedScale(1.0)
"""gradients are small whole numbers"""
QUEUE_FRAMES: Final = 4096
ROUNDS: Final = 8
SKIPPED: Final = 2
"""first iterations, in which jobs fall into step"""
RING_SHARE: Final = 0.44
"""of its window that a flow of a ring has in a queue: what a ring took of a link beside a tree while both sent, 1.77
times as much, over the ratio of their windows, 4. Acknowledgements come for 16 frames at a time, and a frame leaves
when that of the host before is in"""
BACKGROUND_SEED: Final = 3
LOADED: Final = ("leaf1", "leaf2")
"""whose uplinks others use"""


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
    """Jobs on a small network.

    Attributes
    ----------
    name, topology : str
        In tables; as of ``topologies.load``.
    jobs : tuple of Trainer
        They begin with the network.
    rounds : int
        Iterations; more where phases go round slowly, or others' bursts have to average out.
    background : float
        Share of the uplinks of leaves 1 and 2 that on/off flows between hosts of theirs take, both ways.
    """

    name: str
    topology: str
    jobs: tuple[Trainer, ...]
    rounds: int = ROUNDS
    background: float = 0.0


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


@dataclass(frozen=True)
class Across(Background):
    """Background traffic of which the uplinks of the first two leaves carry a share, both ways."""

    def demands(self, topology: Topology) -> Demands:
        """Between the last four hosts of the one and of the other."""
        hosts = tuple(host.name for host in topology.hosts)
        ends = [[hosts.index(name) for name in topology.neighbours(leaf) if name in hosts][-4:] for leaf in LOADED]
        matrix = np.zeros((len(hosts), len(hosts)))
        rate = min(topology.link_at(*hop).rate_bps for hop in _uplinks(topology, LOADED[0]))
        length = SourceOptions().frame_bytes
        for a, b in zip(*ends, strict=True):
            matrix[a, b] = matrix[b, a] = self.load * rate / len(ends[0]) * length / (length + AROUND)
        return Demands(hosts, matrix)


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
        packets = _on_packets(switches, point, plans)
    flows = [flow_of(plan, one) for plan, one in zip(plans, point.jobs, strict=True)]
    model = ends_of(flows, left_of(topology, point.background), point.rounds)
    return Calibrated(point.name, tuple(_means(packets)), tuple(_means(model)))


def _means(ends: Floats) -> list[float]:
    return [float((own[-1] - own[SKIPPED - 1]) / (len(own) - SKIPPED)) for own in ends]


def left_of(topology: Topology, background: float) -> Floats:
    """What others leave of directed links, bit/s, in the order of :func:`hops_of`."""
    taken = {hop for leaf in LOADED for hop in _uplinks(topology, leaf)} if background else set()
    return np.array(
        [topology.link_at(*hop).rate_bps * (1 - background * (hop in taken)) for hop in hops_of(topology)], np.float64
    )


def _uplinks(topology: Topology, leaf: str) -> list[Hop]:
    """Of a leaf, both directions."""
    spines = [other for other in topology.neighbours(leaf) if topology.node(other).is_switch]
    return [
        hop for spine in spines for hop in ((leaf, topology.port(leaf, spine)), (spine, topology.port(spine, leaf)))
    ]


def hops_of(topology: Topology) -> list[Hop]:
    """Directed links in a fixed order."""
    return [end for link in topology.links for end in ((link.a, link.port_a), (link.b, link.port_b))]


def flow_of(plan: Plan, job: Trainer) -> Flow:
    """A job as a fluid: what its plan puts on directed links, and a round trip before its last frame is back.

    Its flows' shares of a link are as their windows, which is what stands in the queue.
    """
    places = {hop: number for number, hop in enumerate(hops_of(plan.topology))}
    bits = {
        places[hop]: 8.0 * (one.bytes + AROUND * one.frames)
        for hop, one in predict(plan, Operation.ALL_REDUCE, job.elements, lead=0).items()
        if one.frames
    }
    stream = bits[places[(job.hosts[0], 1)]] / (plan.window * (RING_SHARE if plan.ring else 1.0))
    return Flow(job.compute_s, bits, stream, plan.rtt_ps / PS_PER_S, job.begin_s)


def _on_packets(switches: EmbeddedSwitches, point: CalibrationPoint, plans: Sequence[Plan]) -> Floats:
    """Ends of the iterations of all jobs, seconds, float64 (jobs, rounds)."""
    background = Across("gravity", point.background, BACKGROUND_SEED) if point.background else None
    with JobNetwork(switches, queue_frames=QUEUE_FRAMES, background=background) as network:
        clockwork = Clockwork(network)
        runs = [
            TrainerRun(clockwork, network.add(plan, NUMBERS), one, point.rounds)
            for plan, one in zip(plans, point.jobs, strict=True)
        ]
        for run in runs:
            run.begin(runs)
        clockwork.run(until=lambda: all(len(run.ends_ps) >= point.rounds for run in runs))  # others' traffic never ends
        return np.array([[end / PS_PER_S for end in run.ends_ps[: point.rounds]] for run in runs])


class TrainerRun:
    """All hosts compute, all-reduce, and begin anew when the last of them has the sum."""

    def __init__(self, clockwork: Clockwork, job: Job, about: Trainer, rounds: int) -> None:
        self._clockwork, self._job, self._about, self._rounds = clockwork, job, about, rounds
        self._given = [
            np.random.Generator(np.random.Philox(rank)).integers(-8, 9, about.elements).astype(np.float32)
            for rank in range(len(about.hosts))
        ]
        self._sums = [np.zeros(about.elements, np.float32) for _ in about.hosts]
        self._expected = np.sum(self._given, axis=0, dtype=np.float32)
        self._open = 0
        self.ends_ps: list[int] = []
        self._all: Sequence[TrainerRun] = ()

    def begin(self, runs: "Sequence[TrainerRun]") -> None:
        """All go on until each of them has its iterations: those that are left would be alone else."""
        self._all = runs
        self._compute(round(self._about.begin_s * PS_PER_S))

    def _compute(self, now_ps: int) -> None:
        if any(len(run.ends_ps) < self._rounds for run in self._all):
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
