"""Models of workers: small whole numbers whose sums are known to the last bit, or gradients of the digits.

The final weights are the initial ones less all gradients times the rate, in whatever order contributions arrive:
exactly for whole numbers, up to rounding for others.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from p4reduce.control_plane.counters import Traffic, add
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.control_plane.priorities import JOB_CLASSES
from p4reduce.group.errors import ClusterError
from p4reduce.network.jobs.asynchronous import Clockwork, TaskChannels, channels_of
from p4reduce.network.jobs.network import EmbeddedSwitches, JobNetwork, bundled
from p4reduce.topologies import load
from p4reduce.workers.numbers import BlockFloat, FixedScale
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from p4reduce.workers.training.loops import TrainingOptions, TrainingTask, single_threaded_blas

# Layers of known models: parameters, and multiplications of a forward pass for one image or sequence.
#
# VGG-16 (arXiv 1409.1556, configuration D), ResNet-50 (arXiv 1512.03385, table 1; convolutions and the last layer,
# batch normalization counted with its convolution), and a transformer as GPT-2 small (12 blocks of width 768, 1,024
# tokens).


@dataclass(frozen=True)
class Layer:
    """One layer whose gradient is sent as one tensor."""

    name: str
    parameters: int
    multiplications: int


def _convolution(name: str, side: int, kernel: int, inputs: int, outputs: int) -> Layer:
    """Return a convolutional layer; ``side`` is that of the output."""
    weights = kernel * kernel * inputs * outputs
    return Layer(name, weights + 2 * outputs, weights * side * side)


def _dense(name: str, inputs: int, outputs: int, times: int = 1) -> Layer:
    return Layer(name, inputs * outputs + outputs, inputs * outputs * times)


def vgg16() -> tuple[Layer, ...]:
    """Return the layers: 138 M parameters, most of them in the first dense layer."""
    layers, inputs = [], 3
    for stage, (side, outputs, count) in enumerate(
        ((224, 64, 2), (112, 128, 2), (56, 256, 3), (28, 512, 3), (14, 512, 3)), start=1
    ):
        for number in range(1, count + 1):
            weights = 9 * inputs * outputs
            layers.append(Layer(f"conv{stage}_{number}", weights + outputs, weights * side * side))
            inputs = outputs
    return (*layers, _dense("fc6", 25_088, 4096), _dense("fc7", 4096, 4096), _dense("fc8", 4096, 1000))


def resnet50() -> tuple[Layer, ...]:
    """Return the layers: 25.6 M parameters, growing towards the end."""
    layers = [_convolution("conv1", 112, 7, 3, 64)]
    inputs = 64
    for stage, (side, width, blocks) in enumerate(((56, 64, 3), (28, 128, 4), (14, 256, 6), (7, 512, 3)), start=2):
        for block in range(1, blocks + 1):
            name = f"conv{stage}_{block}"
            layers.append(_convolution(f"{name}a", side, 1, inputs, width))
            layers.append(_convolution(f"{name}b", side, 3, width, width))
            layers.append(_convolution(f"{name}c", side, 1, width, 4 * width))
            if block == 1:
                layers.append(_convolution(f"{name}d", side, 1, inputs, 4 * width))
            inputs = 4 * width
    return (*layers, _dense("fc", 2048, 1000))


def transformer() -> tuple[Layer, ...]:
    """Return the layers: 124 M parameters, a third of them in the embedding, which the forward pass needs first."""
    width, tokens, blocks = 768, 1024, 12
    layers = [Layer("embedding", 50_257 * width + tokens * width, tokens * width)]
    for block in range(1, blocks + 1):
        layers.append(_dense(f"attention{block}", width, 4 * width, tokens))
        layers.append(Layer(f"mlp{block}", 8 * width * width + 5 * width, 8 * width * width * tokens))
    return tuple(layers)


SHAPES: Final = {"vgg16": vgg16, "resnet50": resnet50, "transformer": transformer}


FloatArray = NDArray[np.float32]
_LARGEST: Final = 8
TOLERANCE: Final = 2e-6
"""Tolerance of a weight, relative to the largest: rounding of float32 in some hundreds of steps."""


@dataclass(frozen=True)
class Score:
    """Quality of the weights at a time."""

    at_ps: int
    rounds: float
    """Gradients applied by then, divided by the number of workers."""
    accuracy: float
    """Share of test images that are recognized."""


class GradientModel(Protocol):
    """Gradients of one job, and the check of its weights."""

    elements: int
    learning_rate: float
    """Learning rate of a round of all workers."""
    scores: list[Score]

    @property
    def numbers(self) -> BlockFloat | FixedScale:
        """Number format of its lanes if switches add them up."""

    def initial(self) -> FloatArray:
        """Return a copy of the initial weights."""

    def gradient(self, rank: int, iteration: int, weights: FloatArray) -> FloatArray:
        """Return the gradient of a worker's round; it is valid until the worker's next one."""

    def applied(self, done_ps: int, weights: FloatArray) -> None:
        """Note that a worker has the answer to its gradient; ``weights`` are the server's."""

    def check(self, name: str, weights: FloatArray) -> None:
        """Check the final weights. Raises ``ClusterError`` if they are wrong."""


class WholeNumbers:
    """A model with the same gradient in every round of a worker: whole numbers of -8..8."""

    def __init__(self, elements: int, workers: int, rounds: int) -> None:
        self.elements, self.learning_rate = elements, float(workers)
        self.scores: list[Score] = []
        self._workers, self._rounds = workers, rounds

    @property
    def numbers(self) -> FixedScale:
        """A fixed scale of 1, as gradients are whole numbers."""
        return FixedScale(1.0)

    def initial(self) -> FloatArray:
        """Return zeros."""
        return np.zeros(self.elements, np.float32)

    def gradient(self, rank: int, iteration: int, weights: FloatArray) -> FloatArray:
        """Return the worker's gradient, the same in every round."""
        del iteration, weights
        return whole_numbers(rank, self.elements)

    def applied(self, done_ps: int, weights: FloatArray) -> None:
        """Do nothing."""

    def check(self, name: str, weights: FloatArray) -> None:
        """Check to the last bit. Raises ``ClusterError``, which names the first wrong element."""
        total = np.stack([whole_numbers(rank, self.elements) for rank in range(self._workers)])
        expected = (-self._rounds * total.astype(np.float64).sum(axis=0)).astype(np.float32)
        if not np.array_equal(weights, expected):
            wrong = int(np.flatnonzero(weights != expected)[0])
            raise ClusterError(f"{name}: element {wrong} is {weights[wrong]}, must be {expected[wrong]}")


class Digits:
    """The digits model of `workers/training`: the workers' shards, plain SGD at the server."""

    def __init__(self, workers: int, seed: int) -> None:
        self._options = TrainingOptions.for_parameter_server(epochs=1000, seed=seed)
        self._tasks = [TrainingTask(self._options, rank, workers) for rank in range(workers)]
        self.elements, self.learning_rate = self._tasks[0].model.size, self._options.learning_rate
        self.scores: list[Score] = []
        self._buffers = [np.zeros(self.elements, np.float32) for _ in range(workers)]
        self._total = np.zeros(self.elements, np.float64)
        self._applied = 0

    @property
    def numbers(self) -> BlockFloat:
        """Block floating point."""
        return BlockFloat()

    def initial(self) -> FloatArray:
        """Return a He initialization by the seed."""
        weights: FloatArray = self._tasks[0].model.initial(self._options.seed)
        return weights

    def gradient(self, rank: int, iteration: int, weights: FloatArray) -> FloatArray:
        """Return the gradient of the worker's batch at its weights."""
        with single_threaded_blas():
            self._tasks[rank].gradient(weights, iteration, self._buffers[rank])
        self._total += self._buffers[rank]
        return self._buffers[rank]

    def applied(self, done_ps: int, weights: FloatArray) -> None:
        """Score the weights once for each round of all workers."""
        self._applied += 1
        workers = len(self._tasks)
        if self._applied % workers == 0:
            with single_threaded_blas():
                accuracy = self._tasks[0].accuracy(weights)
            self.scores.append(Score(done_ps, self._applied / workers, accuracy))

    def check(self, name: str, weights: FloatArray) -> None:
        """Check up to rounding. Raises ``ClusterError``."""
        expected = self.initial() - self.learning_rate / len(self._tasks) * self._total
        wrong = float(np.abs(weights - expected).max() / np.abs(expected).max())
        if not wrong <= TOLERANCE:
            raise ClusterError(f"{name}: weights are {wrong:.3g} of the largest off, more than {TOLERANCE:g}")


@lru_cache(maxsize=128)
def whole_numbers(rank: int, elements: int) -> FloatArray:
    """Return whole numbers of -8..8, float32 of shape (elements,); read only."""
    drawn = np.random.Generator(np.random.Philox(key=[rank, elements])).integers(-_LARGEST, _LARGEST + 1, elements)
    return drawn.astype(np.float32)


# Gradients layer by layer, overlapped with computing: one channel, first come, first served, or several by urgency.
#
# Each worker computes forward through the layers, and waits at each for its sum of the last iteration, then backward; a
# gradient is sent as soon as it is computed (wait-free back-propagation).


FORWARD = 1 / 3
"""Share of an iteration's computation in the forward pass; backward takes twice as long."""


@dataclass(frozen=True)
class LayerDescription:
    """One job that trains a model of known shape.

    Attributes
    ----------
    topology : str
        As `p4reduce run --topology` takes it; all its workers take part.
    model : str
        Key of `SHAPES`.
    scale : int
        Divisor of the layers' parameters; computing and communication shrink alike.
    compute_ps : int
        Computation of an iteration.
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
        """The layers of the model."""
        return SHAPES[self.model]()

    @cached_property
    def elements(self) -> list[int]:
        """Elements of each layer's tensor, at least one."""
        return [max(1, round(layer.parameters / self.scale)) for layer in self.layers]

    def compute_of(self, layer: int) -> tuple[int, int]:
        """Return the times forward and backward through one layer, picoseconds."""
        share = self.layers[layer].multiplications / sum(each.multiplications for each in self.layers)
        return round(self.compute_ps * FORWARD * share), round(self.compute_ps * (1 - FORWARD) * share)


@dataclass(frozen=True)
class LayerResult:
    """Result of a run; times in virtual picoseconds."""

    iteration_ps: float
    """Mean time from one forward pass of the slowest worker to its next."""
    resend_share: float


def run_layers(description: LayerDescription) -> LayerResult:
    """Train; raise ``ClusterError`` if a sum or a count of bytes is wrong."""
    topology = load(description.topology)
    with (
        EmbeddedSwitches(topology, bundled(description.lanes)) as switches,
        JobNetwork(switches, queue_frames=description.queue_frames) as network,
    ):
        clockwork = Clockwork(network)
        classes = [JOB_CLASSES[-1] - channel for channel in range(description.channels)]
        request = PlanRequest(description.plan, job=1)
        channels = TaskChannels.install(clockwork, switches.controller, request, classes, FixedScale(1.0))
        return _Layers(description, channels).result()


class _Layers:
    def __init__(self, description: LayerDescription, channels: TaskChannels) -> None:
        self._about, self._channels, self._clockwork = description, channels, channels.clockwork
        self._workers = channels.jobs[0].plan.workers
        self._of = channels_of(description.elements, description.channels)
        count = len(description.layers)
        ranks = range(len(self._workers))
        self._gradients = [[whole_numbers(rank, size) for size in description.elements] for rank in ranks]
        self._sums = [[np.zeros(size, np.float32) for size in description.elements] for _ in ranks]
        self._done = [[0] * count for _ in ranks]  # by worker and layer: number of iterations whose sum has arrived
        self._waits: dict[int, tuple[int, int]] = {}  # by waiting worker: iteration and layer that it waits for
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
        """Compute forward through a layer as soon as its sum of the last iteration is there."""
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
        """Send a gradient that is ready."""
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
