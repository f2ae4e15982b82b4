"""The flow model against packets: the same jobs through the P4 program, and as a fluid."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.control_plane.counters import Operation, predict
from p4reduce.control_plane.plans import Plan, PlanRequest
from p4reduce.control_plane.plans.routes import frame_bytes
from p4reduce.group.errors import ClusterError
from p4reduce.network.background import Background, Demands, SourceOptions
from p4reduce.network.jobs.asynchronous import Clockwork
from p4reduce.network.jobs.network import EmbeddedSwitches, Job, JobNetwork, bundled
from p4reduce.topologies import Topology, load
from p4reduce.topologies.model import Hop
from p4reduce.workers.numbers import FixedScale
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from p4switch.base.values import PS_PER_S
from studies.frame import column, percent, record, scaled
from studies.placement.fluid import iteration_ends

# Iteration times of jobs that share links, from the fluid model in :mod:`~studies.placement.fluid`.


Floats = NDArray[np.float64]
Link = int
_LEAST: Final = 1e-9


@dataclass(frozen=True)
class FluidJob:
    """A job as a fluid: seconds of computing, bits per iteration by link, and bits of one of its flows.

    ``latency_s`` is the time from its last bit to the end of its iteration, ``begin_s`` the time before its first
    iteration. Flows share a link in proportion to their weights: ``stream`` is divided by the flow's weight.
    """

    compute_s: float
    bits: Mapping[Link, float]
    stream: float
    latency_s: float = 0.0
    begin_s: float = 0.0

    def alone_s(self, capacity_bps: Floats) -> float:
        """Return the seconds of an iteration without other jobs."""
        longest = max((bits / capacity_bps[link] for link, bits in self.bits.items()), default=0.0)
        return float(self.compute_s + longest + self.latency_s)


def ends_of(flows: Sequence[FluidJob], capacity_bps: Floats, rounds: int) -> Floats:
    """Return the end times of the jobs' iterations in s, float64 (jobs, rounds). ``ValueError`` for rounds below 1."""
    if rounds < 1:
        raise ValueError(f"rounds: {rounds}, must be at least 1")
    used = sorted({link for flow in flows for link in flow.bits})
    place = {link: number for number, link in enumerate(used)}
    starts = np.cumsum([0, *(len(flow.bits) for flow in flows)]).astype(np.int64)
    links = np.array([place[link] for flow in flows for link in flow.bits], np.int64)
    bits = np.array([share for flow in flows for share in flow.bits.values()], np.float64)

    def column(values: list[float]) -> Floats:
        return np.array(values, np.float64)

    ends_s: Floats = iteration_ends(
        column([max(flow.compute_s, _LEAST) for flow in flows]),
        column([flow.latency_s for flow in flows]),
        column([flow.stream for flow in flows]),
        starts,
        links,
        bits,
        column([capacity_bps[link] for link in used]),
        column([flow.begin_s for flow in flows]),
        rounds,
    )
    return ends_s


def steady_times(flows: Sequence[FluidJob], capacity_bps: Floats, *, rounds: int = 24, skipped: int = 6) -> list[float]:
    """Return the mean seconds of an iteration of every job, without the first ``skipped`` iterations."""
    ends = ends_of(flows, capacity_bps, rounds)
    return [float((own[-1] - own[skipped - 1]) / (rounds - skipped)) for own in ends]


# Jobs that arrive at a cluster: sizes, models and lengths, drawn from a seed.


@dataclass(frozen=True)
class TrainedModel:
    """A model to train: number of float32 parameters, and seconds of computing of a worker per iteration."""

    name: str
    elements: int
    compute_s: float

    @property
    def bits(self) -> float:
        """Bits of the model on the wire, in frames of 256 lanes."""
        return 8.0 * self.elements / LANES * (frame_bytes(LANES) + AROUND)


LANES: Final = 256
AROUND: Final = 24
"""bytes on the wire around a frame: preamble, check sum, gap"""
MODELS: Final = (
    TrainedModel("ResNet-50", 25_557_032, 0.060),
    TrainedModel("VGG-16", 138_357_544, 0.120),
    TrainedModel("BERT-large", 336_226_108, 0.300),
    TrainedModel("GPT-2", 124_439_808, 0.150),
)
"""Numbers of parameters are those of torchvision and of the models' papers; seconds are our assumptions for a batch
that fills a GPU. What matters is the share of communication, 0.25 to 0.6 of an iteration through a tree at 25 Gb/s."""
SMALLEST: Final = 2
LARGEST: Final = 32
MEDIAN_S: Final = 120.0
SIGMA: Final = 1.0
"""standard deviation of the logarithm of a job's length"""


@dataclass(frozen=True)
class ClusterJob:
    """A job: its arrival time, its number of workers, its model and its number of iterations."""

    name: str
    arrival_s: float
    workers: int
    model: TrainedModel
    rounds: float
    alone_s: float
    """length at the links' rate, through a tree without other jobs"""


def draw_jobs(seed: int, count: int, load: float, slots: int, rate_bps: float) -> list[ClusterJob]:
    """Draw Poisson arrivals of jobs with 2 to 32 workers (log-uniform) and log-normal lengths.

    ``load`` is the share of all ``slots`` that the jobs would keep busy if each ran alone through its own tree; their
    mutual slowdown comes on top. ``ValueError`` if it is not above 0.
    """
    if not load > 0:
        raise ValueError(f"load: {load}, must be above 0")
    random = np.random.Generator(np.random.Philox(key=[seed, count]))
    sizes = np.exp(random.uniform(np.log(SMALLEST), np.log(LARGEST + 1), count)).astype(int)
    models = random.integers(len(MODELS), size=count)
    lengths = MEDIAN_S * np.exp(SIGMA * random.standard_normal(count))
    busy = float(np.mean(sizes * lengths))  # mean slot-seconds of a job
    arrivals = np.cumsum(random.exponential(busy / (load * slots), count))
    drawn_jobs = []
    for number in range(count):
        model = MODELS[models[number]]
        iteration = model.compute_s + model.bits / rate_bps
        rounds = max(1.0, round(lengths[number] / iteration))
        drawn_jobs.append(
            ClusterJob(
                f"job{number}", float(arrivals[number]), int(sizes[number]), model, rounds, float(rounds * iteration)
            )
        )
    return drawn_jobs


NUMBERS: Final = FixedScale(1.0)
"""numbers of gradients, which are small whole numbers"""
QUEUE_FRAMES: Final = 4096
ROUNDS: Final = 8
SKIPPED: Final = 2
"""number of first iterations without a steady state"""
RING_SHARE: Final = 0.44
"""Share of its window that a ring's flow has in a queue: while both sent, a ring took 1.77 times as much of a link as a
tree, over the ratio of their windows, 4. Acknowledgements come for 16 frames at a time, and a frame leaves when the
frame of the previous host has arrived."""
BACKGROUND_SEED: Final = 3
LOADED: Final = ("leaf1", "leaf2")
"""leaves whose uplinks carry background traffic"""


@dataclass(frozen=True)
class Trainer:
    """A job of a point: its hosts, its plan ('steiner' or 'ring'), float32 numbers, seconds of computing."""

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
        Name in tables; topology as for ``topologies.load``.
    jobs : tuple of Trainer
        Jobs, which begin with the network.
    rounds : int
        Number of iterations; higher if phases shift slowly, or bursts of background traffic must average out.
    background : float
        Share of the uplinks of leaves 1 and 2 that on/off flows between hosts of these leaves take, in both directions.
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
        """Signed errors of the model, as shares of the time on packets."""
        return tuple(model / packets - 1 for model, packets in zip(self.model_s, self.packets_s, strict=True))

    @property
    def error(self) -> float:
        """Largest absolute error."""
        return max(map(abs, self.errors))


@dataclass(frozen=True)
class Across(Background):
    """Background traffic that takes a share of the uplinks of the first two leaves, in both directions."""

    def demands(self, topology: Topology) -> Demands:
        """Return demands between the last four hosts of the two leaves."""
        hosts = tuple(host.name for host in topology.hosts)
        ends = [[hosts.index(name) for name in topology.neighbours(leaf) if name in hosts][-4:] for leaf in LOADED]
        matrix = np.zeros((len(hosts), len(hosts)))
        rate = min(topology.link_at(*hop).rate_bps for hop in _uplinks(topology, LOADED[0]))
        length = SourceOptions().frame_bytes
        for a, b in zip(*ends, strict=True):
            matrix[a, b] = matrix[b, a] = self.load * rate / len(ends[0]) * length / (length + AROUND)
        return Demands(hosts, matrix)


@record
class CalibrationRow:
    """A job of a point."""

    point: str = column("point")
    job: int = column("job")
    packets_s: float = column("packets, us", scaled(1e6, "{:.1f}"))
    model_s: float = column("model, us", scaled(1e6, "{:.1f}"))
    error: float = column("error", percent(1, sign=True))


def run_calibration(point: CalibrationPoint) -> Iterator[CalibrationRow]:
    """Run a point on packets and in the model; yield a row per job."""
    calibrated = calibrate(point)
    for job, (packets, model, error) in enumerate(
        zip(calibrated.packets_s, calibrated.model_s, calibrated.errors, strict=True)
    ):
        yield CalibrationRow(calibrated.name, job, packets, model, error)


def calibrate(point: CalibrationPoint) -> Calibrated:
    """Run a point on packets and in the model. ``ClusterError``: a sum is wrong, or bytes deviate from the plan's."""
    topology = load(point.topology)
    with EmbeddedSwitches(topology, bundled(LANES)) as switches:
        plans = [
            switches.controller.start_job(
                PlanRequest(job.plan, job=number + 1, workers=job.hosts, server=None, lanes=LANES)
            )
            for number, job in enumerate(point.jobs)
        ]
        packets = _on_packets(switches, point, plans)
    flows = [flow_of(plan, job) for plan, job in zip(plans, point.jobs, strict=True)]
    model = ends_of(flows, left_of(topology, point.background), point.rounds)
    return Calibrated(point.name, tuple(_means(packets)), tuple(_means(model)))


def _means(ends: Floats) -> list[float]:
    return [float((own[-1] - own[SKIPPED - 1]) / (len(own) - SKIPPED)) for own in ends]


def left_of(topology: Topology, background: float) -> Floats:
    """Return the rates of directed links that the background leaves free, bit/s, in the order of :func:`hops_of`."""
    taken = {hop for leaf in LOADED for hop in _uplinks(topology, leaf)} if background else set()
    return np.array(
        [topology.link_at(*hop).rate_bps * (1 - background * (hop in taken)) for hop in hops_of(topology)], np.float64
    )


def _uplinks(topology: Topology, leaf: str) -> list[Hop]:
    """Return the uplinks of a leaf in both directions."""
    spines = [other for other in topology.neighbours(leaf) if topology.node(other).is_switch]
    return [
        hop for spine in spines for hop in ((leaf, topology.port(leaf, spine)), (spine, topology.port(spine, leaf)))
    ]


def hops_of(topology: Topology) -> list[Hop]:
    """Return the directed links in a fixed order."""
    return [end for link in topology.links for end in ((link.a, link.port_a), (link.b, link.port_b))]


def flow_of(plan: Plan, job: Trainer) -> FluidJob:
    """Return a job as a fluid: its plan's bits on directed links, and a round trip as the latency of the last frame.

    Flows share a link in proportion to their windows, because these are in its queue.
    """
    places = {hop: number for number, hop in enumerate(hops_of(plan.topology))}
    bits = {
        places[hop]: 8.0 * (hop_load.bytes + AROUND * hop_load.frames)
        for hop, hop_load in predict(plan, Operation.ALL_REDUCE, job.elements, lead=0).items()
        if hop_load.frames
    }
    stream = bits[places[(job.hosts[0], 1)]] / (plan.window * (RING_SHARE if plan.ring else 1.0))
    return FluidJob(job.compute_s, bits, stream, plan.rtt_ps / PS_PER_S, job.begin_s)


def _on_packets(switches: EmbeddedSwitches, point: CalibrationPoint, plans: Sequence[Plan]) -> Floats:
    """Return the end times of all jobs' iterations, seconds, float64 (jobs, rounds)."""
    background = Across("gravity", point.background, BACKGROUND_SEED) if point.background else None
    with JobNetwork(switches, queue_frames=QUEUE_FRAMES, background=background) as network:
        clockwork = Clockwork(network)
        runs = [
            TrainerRun(clockwork, network.add(plan, NUMBERS), job, point.rounds)
            for plan, job in zip(plans, point.jobs, strict=True)
        ]
        for run in runs:
            run.begin(runs)
        clockwork.run(until=lambda: all(len(run.ends_ps) >= point.rounds for run in runs))  # background never ends
        return np.array([[end / PS_PER_S for end in run.ends_ps[: point.rounds]] for run in runs])


class TrainerRun:
    """A job on packets: all hosts compute, all-reduce, and start again when the last one has the sum."""

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
        """Begin the first iteration. All runs continue until each has its iterations, so that none is left alone."""
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


# The points of the calibration: small networks on which packets and the flow model carry the same jobs.


def _rack(number: int, first: int = 1, count: int = 4) -> tuple[str, ...]:
    """Return some hosts of a rack of eight."""
    return tuple(f"h{8 * (number - 1) + at}" for at in range(first, first + count))


_ONE: Final = "leaf-spine:leaves=4,spines=1,hosts=8,rate=25G"
_TWO: Final = "leaf-spine:leaves=4,spines=2,hosts=8,rate=25G"
_HALF: Final = "leaf-spine:leaves=4,spines=1,hosts=8,rate=25G,capable=spine*"
_SLOW: Final = "leaf-spine:leaves=4,spines=1,hosts=8,rate=25G,uplink=10G"
_FAST: Final = "leaf-spine:leaves=4,spines=1,hosts=8,rate=100G"
_SIZE: Final = 61_706
_ALONE_S: Final = 8 * -(-_SIZE // LANES) * (frame_bytes(LANES) + AROUND) / 25e9
"""seconds that a model of that size takes on a link"""
A: Final = (*_rack(1), *_rack(2))
A1: Final = (*_rack(1, 1, 2), *_rack(2, 1, 2))
A2: Final = (*_rack(1, 3, 2), *_rack(2, 3, 2))
B: Final = (*_rack(1, 5), *_rack(2, 5))
C: Final = (*_rack(1, 5, 2), *_rack(3, 1, 2))
D: Final = (*_rack(1, 7, 2), *_rack(4, 1, 2))


def _phi(phi: float, times: float = 1.0) -> float:
    """Return the seconds of computing for a share ``phi`` of communication of ``times`` models."""
    return _ALONE_S * times * (1 - phi) / phi


def trainer(
    hosts: tuple[str, ...], plan: str = "steiner", phi: float = 0.4, size: int = 1, begin: float = 0.0
) -> Trainer:
    """Return a job of `size` models that alone at 25 Gb/s communicates for a share phi of its iterations."""
    return Trainer(hosts, plan, _SIZE * size, _phi(phi, size), begin * _ALONE_S)


POINTS: Final = (
    CalibrationPoint("tree, a rack", _TWO, (trainer(_rack(1, 1, 8)),)),
    CalibrationPoint("ring, a rack", _TWO, (trainer(_rack(1, 1, 8), "ring"),)),
    CalibrationPoint("two trees that share, in step", _ONE, (trainer(A), trainer(B))),
    CalibrationPoint("a tree and a ring that share", _ONE, (trainer(A), trainer(B, "ring")), rounds=24),
    CalibrationPoint("tree, two racks", _TWO, (trainer(A),)),
    CalibrationPoint("ring, two racks", _ONE, (trainer(A, "ring"),)),
    CalibrationPoint("tree, 32 hosts", _TWO, (trainer(sum((_rack(n, 1, 8) for n in (1, 2, 3, 4)), ())),)),
    CalibrationPoint("two trees that share, out of step", _ONE, (trainer(A), trainer(B, phi=0.25, begin=0.7))),
    CalibrationPoint("two trees, 1 : 3", _ONE, (trainer(A), trainer(B, phi=0.5, size=3))),
    CalibrationPoint(
        "three trees on an uplink", _ONE, (trainer(A), trainer(C, phi=0.5, begin=0.3), trainer(D, phi=0.3))
    ),
    CalibrationPoint("two rings that share", _ONE, (trainer(A, "ring"), trainer(B, "ring", begin=0.5))),
    CalibrationPoint("tree in part: leaves do not add up", _HALF, (trainer(A, phi=0.6),)),
    CalibrationPoint("trees in part that share", _HALF, (trainer(A, phi=0.6), trainer(C, phi=0.5))),
    CalibrationPoint("slow uplinks, tree", _SLOW, (trainer(A),)),
    CalibrationPoint("slow uplinks, two trees", _SLOW, (trainer(A), trainer(B, phi=0.3))),
    CalibrationPoint("a tree and a ring that share, 100G", _FAST, (trainer(A), trainer(B, "ring")), rounds=24),
    CalibrationPoint(
        "a tree and a ring, out of step", _ONE, (trainer(A, phi=0.3), trainer(B, "ring", begin=0.7)), rounds=24
    ),
    CalibrationPoint("two trees and a ring", _ONE, (trainer(A1), trainer(A2, phi=0.3), trainer(B, "ring")), rounds=24),
    CalibrationPoint(
        "a tree and two rings", _ONE, (trainer(A1), trainer(A2, "ring", phi=0.3), trainer(B, "ring")), rounds=24
    ),
    *(
        CalibrationPoint(f"background {100 * load:.0f} %, {name}", _ONE, jobs, rounds=16, background=load)
        for load in (0.3, 0.6, 0.9)
        for name, jobs in (
            ("tree", (trainer(A, size=4),)),
            ("ring", (trainer(A, "ring", size=4),)),
            ("two trees", (trainer(A1), trainer(A2, phi=0.25, size=2, begin=0.5))),
        )
    ),
)
"""the first four are the points of the sample"""
