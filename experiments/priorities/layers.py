"""Gradients layer by layer, overlapped with computing: one channel, first come, first served, or several by urgency.

Each worker computes forward through the layers, waiting for each until its sum of the last iteration is there, then
backward; a gradient is sent as soon as it is there (wait-free back-propagation).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.control_plane.predict import Traffic, add
from p4reduce.control_plane.priorities import JOB_CLASSES
from p4reduce.experiments.priorities.models import whole_numbers
from p4reduce.experiments.priorities.shapes import SHAPES, Layer
from p4reduce.jobs.channels import Channels, channels_of
from p4reduce.jobs.clockwork import Clockwork
from p4reduce.jobs.network import JobNetwork
from p4reduce.jobs.programs import bundled
from p4reduce.jobs.switches import EmbeddedSwitches
from p4reduce.topologies import load
from p4reduce.workers.numbers import FixedScale
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective

FORWARD = 1 / 3
"""of the computation of an iteration; backward takes twice as long"""


@dataclass(frozen=True)
class LayerDescription:
    """One job that trains a model of known shape.

    Attributes
    ----------
    topology : str
        As `p4reduce run --topology` takes it; all its workers take part.
    model : str
        Of `shapes.SHAPES`.
    scale : int
        Layers have so many times fewer parameters, and computing and communication take less time alike.
    compute_ps : int
        Of an iteration.
    channels : int
        1..6; 1 is first come, first served.
    iterations : int
        The first two are not counted: the first forward pass waits for nothing.
    """

    topology: str
    model: str
    compute_ps: int
    channels: int = 1
    scale: int = 64
    iterations: int = 6
    plan: str = "steiner"
    lanes: int = 256
    queue_frames: int = 4096

    def __post_init__(self) -> None:
        if self.model not in SHAPES:
            raise ValueError(f"model: {self.model!r}, must be one of {', '.join(SHAPES)}")
        if not 1 <= self.channels <= len(JOB_CLASSES):
            raise ValueError(f"channels: {self.channels}, must be 1..{len(JOB_CLASSES)}")
        if self.scale < 1 or self.iterations < 4 or self.compute_ps < 0:
            raise ValueError("scale and compute_ps must be positive, iterations at least 4")

    @cached_property
    def layers(self) -> tuple[Layer, ...]:
        """Of the model."""
        return SHAPES[self.model]()

    @cached_property
    def elements(self) -> list[int]:
        """Of each layer's tensor, at least one."""
        return [max(1, round(layer.parameters / self.scale)) for layer in self.layers]

    def compute_of(self, layer: int) -> tuple[int, int]:
        """Forward and backward through one layer, picoseconds."""
        share = self.layers[layer].multiplications / sum(one.multiplications for one in self.layers)
        return round(self.compute_ps * FORWARD * share), round(self.compute_ps * (1 - FORWARD) * share)


@dataclass(frozen=True)
class LayerResult:
    """What came of it; virtual picoseconds."""

    iteration_ps: float
    """from one forward pass of the slowest worker to its next"""
    resend_share: float


def run_layers(description: LayerDescription) -> LayerResult:
    """Train; ``ClusterError`` where a sum or a count of bytes is wrong."""
    topology = load(description.topology)
    with (
        EmbeddedSwitches(topology, bundled(description.lanes)) as switches,
        JobNetwork(switches, queue_frames=description.queue_frames) as network,
    ):
        clockwork = Clockwork(network)
        classes = [JOB_CLASSES[-1] - channel for channel in range(description.channels)]
        request = PlanRequest(description.plan, job=1)
        channels = Channels.install(clockwork, switches.controller, request, classes, FixedScale(1.0))
        return _Layers(description, channels).result()


class _Layers:
    def __init__(self, description: LayerDescription, channels: Channels) -> None:
        self._about, self._channels, self._clockwork = description, channels, channels.clockwork
        self._workers = channels.jobs[0].plan.workers
        self._of = channels_of(description.elements, description.channels)
        count = len(description.layers)
        ranks = range(len(self._workers))
        self._gradients = [[whole_numbers(rank, size) for size in description.elements] for rank in ranks]
        self._sums = [[np.zeros(size, np.float32) for size in description.elements] for _ in ranks]
        self._done = [[0] * count for _ in ranks]  # iterations of each layer that each worker has the sum of
        self._waits: dict[int, tuple[int, int]] = {}  # a worker that waits for a layer: iteration and layer
        self._began: list[list[int]] = [[] for _ in ranks]

    def result(self) -> LayerResult:
        for rank in range(len(self._workers)):
            self._forward(rank, 0, 0)
        self._clockwork.run()
        self._channels.network.advance()
        self._check()
        begins = [max(own[k] for own in self._began) for k in range(self._about.iterations)]
        records = self._channels.network.endpoints.records
        indices = [index for job in self._channels.jobs for index in job.endpoints]
        frames, resends = (int(records[name][indices].sum()) for name in ("frames_sent", "resends"))
        return LayerResult((begins[-1] - begins[2]) / (self._about.iterations - 3), resends / max(1, frames))

    def _forward(self, rank: int, iteration: int, layer: int) -> None:
        """Through a layer, when its sum of the last iteration is there."""
        if layer == 0 and len(self._began[rank]) == iteration:
            self._began[rank].append(-1)
        if self._done[rank][layer] < iteration:
            self._waits[rank] = iteration, layer
            return
        now = self._channels.network.now
        if layer == 0:
            self._began[rank][iteration] = now
        forward, _ = self._about.compute_of(layer)
        last = layer + 1 == len(self._about.layers)
        self._clockwork.at(
            now + forward,
            (lambda: self._backward(rank, iteration, layer))
            if last
            else (lambda: self._forward(rank, iteration, layer + 1)),
        )

    def _backward(self, rank: int, iteration: int, layer: int) -> None:
        _, backward = self._about.compute_of(layer)
        self._clockwork.at(self._channels.network.now + backward, lambda: self._push(rank, iteration, layer))

    def _push(self, rank: int, iteration: int, layer: int) -> None:
        """A gradient is there."""
        channel = self._of[layer]
        if rank == 0:
            self._channels.jobs[channel].note("all_reduce", self._about.elements[layer])
        post = Post(Collective.ALL_REDUCE, self._gradients[rank][layer], self._sums[rank][layer], iteration)
        self._channels.post(self._workers[rank], channel, post, lambda _done: self._summed(rank, layer))
        if layer > 0:
            self._backward(rank, iteration, layer - 1)
        elif iteration + 1 < self._about.iterations:
            self._forward(rank, iteration + 1, 0)

    def _summed(self, rank: int, layer: int) -> None:
        self._done[rank][layer] += 1
        waits = self._waits.get(rank)
        if waits is not None and waits[1] == layer and self._done[rank][layer] >= waits[0]:
            del self._waits[rank]
            self._forward(rank, *waits)

    def _check(self) -> None:
        for layer, size in enumerate(self._about.elements):
            expected: NDArray[np.float32] = np.zeros(size, np.float32)
            for rank in range(len(self._workers)):
                expected += whole_numbers(rank, size)
            for rank, worker in enumerate(self._workers):
                if self._done[rank][layer] != self._about.iterations:
                    raise ClusterError(f"{worker}: layer {layer} has {self._done[rank][layer]} sums")
                if not np.array_equal(self._sums[rank][layer], expected):
                    raise ClusterError(f"{worker}: the sum of layer {self._about.layers[layer].name} is wrong")
        predicted = add(*(job.predicted() for job in self._channels.jobs))
        for hop, link in self._channels.network.fabric.links.items():
            if link.inc_first_bytes != predicted.get(hop, Traffic(0, 0)).bytes:
                raise ClusterError(f"link {hop[0]}:{hop[1]}: other bytes than predicted")
