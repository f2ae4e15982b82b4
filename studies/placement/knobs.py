"""Every knob on every data set: accuracy, bytes on links, virtual time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from p4reduce.group.communicator import Communicator
from p4reduce.group.errors import ClusterError
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.virtual.cluster import Cluster
from p4reduce.workers.training import digits
from p4reduce.workers.training.digits import DIGITS_LAYERS, FloatArray, Mlp, Split
from p4reduce.workers.training.loops import TrainingOptions, TrainingTask, single_threaded_blas
from p4switch.base.values import PS_PER_S
from studies.frame import column, percent, record

# Several small whole numbers in one 32-bit lane; sums of lanes contain the sums of the numbers.


Ints = NDArray[np.int32]
_WORD: int = 31
"""bits of a lane that a sum may use, so that it stays positive"""


@dataclass(frozen=True)
class NumberPacking:
    """Packing of numbers in ``-level..level`` (or ``0..level``) of several workers side by side in int32.

    Each number is sent as its distance from the smallest one, so a field never borrows from the next. A sum over n
    workers has n times the range, which determines the bits of a field.

    Attributes
    ----------
    workers : int
        Number of workers that are summed.
    level : int
        Largest number of a worker, at least 1.
    signed : bool
        Whether the smallest number is -level; otherwise it is 0.
    """

    workers: int
    level: int
    signed: bool = True

    def __post_init__(self) -> None:
        if self.workers < 1 or self.level < 1 or self.bits > _WORD:
            raise ValueError(f"{self.level} of {self.workers} workers: their sum has no room in a lane of 32 bits")

    @property
    def bits(self) -> int:
        """Bits of a number's field."""
        return (self.workers * self.level * (2 if self.signed else 1)).bit_length()

    @property
    def in_word(self) -> int:
        """Count of numbers in a lane."""
        return _WORD // self.bits

    def pack(self, numbers: Ints) -> Ints:
        """Return lanes, int32 (ceil(count / in_word),). ``ValueError`` for a number that is out of range."""
        least = -self.level if self.signed else 0
        if numbers.size and not (least <= int(numbers.min()) and int(numbers.max()) <= self.level):
            raise ValueError(f"numbers: must be {least}..{self.level}")
        fields = np.zeros((-(-numbers.size // self.in_word), self.in_word), np.int32)
        fields.reshape(-1)[: numbers.size] = numbers - least
        shifts = self.bits * np.arange(self.in_word, dtype=np.int32)
        return np.asarray((fields << shifts).sum(axis=1, dtype=np.int32), np.int32)

    def unpack(self, sums: Ints, count: int) -> Ints:
        """Return the sums of ``count`` numbers, int32, from sums of the lanes of all workers."""
        shifts = self.bits * np.arange(self.in_word, dtype=np.int32)
        fields = (sums[:, None] >> shifts & (1 << self.bits) - 1).reshape(-1)[:count]
        return np.asarray(fields - (self.workers * self.level if self.signed else 0), np.int32)


# Methods to sum gradients over workers: as float32, in a few bits, or only a part of the numbers. The switches compute
# all sums.
#
# Each worker has a separate exchange object, which keeps what the worker did not send (error feedback: Karimireddy et
# al., "Error feedback fixes SignSGD", ICML 2019).


BLOCK: Final = 1024
"""count of numbers with a common scale"""
FRAME: Final = 256
"""lanes of a frame"""


class GradientExchange(Protocol):
    """Replaces a worker's gradient by (about) the sum over all workers, with the same bits at each of them."""

    def __call__(self, comm: Communicator, gradient: FloatArray) -> None:
        """Reduce a gradient in place; all workers call this."""


class Float32Exchange:
    """Exchange of gradients as float32."""

    def __call__(self, comm: Communicator, gradient: FloatArray) -> None:
        """Sum the gradient with an all-reduce."""
        comm.all_reduce(gradient)


class Quantized:
    """A few bits for each number, packed into lanes; a block's scale is its largest number over all workers.

    Each worker's scales are gathered first. Without feedback, rounding is random and therefore unbiased; with feedback,
    rounding is to the nearest, and the error is added to the next gradient.
    """

    def __init__(self, size: int, workers: int, level: int, *, feedback: bool, seed: int) -> None:
        self._packing = NumberPacking(workers, level)
        self._left = np.zeros(size, np.float32) if feedback else None
        self._random = np.random.Generator(np.random.Philox(seed))
        self._largest = np.zeros((workers, -(-size // BLOCK)), np.float32)

    def __call__(self, comm: Communicator, gradient: FloatArray) -> None:
        """Sum the gradient with an all-gather of scales and an all-reduce of lanes."""
        if self._left is not None:
            gradient += self._left
        blocks = np.zeros(self._largest.shape[1] * BLOCK, np.float32)
        blocks[: gradient.size] = np.abs(gradient)
        comm.all_gather(blocks.reshape(-1, BLOCK).max(axis=1), self._largest)
        unit = np.repeat(self._largest.max(axis=0) / self._packing.level, BLOCK)[: gradient.size]
        exact = np.divide(gradient, unit, out=np.zeros_like(gradient), where=unit > 0)
        if self._left is None:
            rounded = np.floor(exact + self._random.random(exact.size, np.float32))
        else:
            rounded = np.rint(exact)
        sent = rounded.clip(-self._packing.level, self._packing.level).astype(np.int32)
        if self._left is not None:
            self._left[:] = gradient - sent * unit
        lanes = self._packing.pack(sent)
        comm.all_reduce(lanes)
        gradient[:] = self._packing.unpack(lanes, gradient.size) * unit


class TopElements:
    """Each worker contributes its largest numbers; the rest waits for its next gradient.

    A switch adds lanes by position, so all workers must send the same positions: a first all-reduce counts which
    positions workers choose; a second one sums the numbers at all positions that at least one worker chose.
    """

    def __init__(self, size: int, workers: int, share: float) -> None:
        self._count = max(1, round(share * size))
        self._packing = NumberPacking(workers, 1, signed=False)
        self._left = np.zeros(size, np.float32)

    def __call__(self, comm: Communicator, gradient: FloatArray) -> None:
        """Sum the gradient with an all-reduce of marks and one of numbers."""
        self._left += gradient
        own = np.argpartition(np.abs(self._left), self._left.size - self._count)[-self._count :]
        marks = np.zeros(self._left.size, np.int32)
        marks[own] = 1
        lanes = self._packing.pack(marks)
        comm.all_reduce(lanes)
        places = np.flatnonzero(self._packing.unpack(lanes, marks.size))
        numbers = self._left[places]  # numbers at positions that others chose are free
        self._left[places] = 0.0
        comm.all_reduce(numbers)
        gradient[:] = 0.0
        gradient[places] = numbers


class TopFrames:
    """Sums the frames with the largest sums of norms over all workers; the rest waits.

    All workers know the sums of the norms, so all choose the same frames.
    """

    def __init__(self, size: int, share: float) -> None:
        self._frames = -(-size // FRAME)
        self._count = max(1, round(share * self._frames))
        self._left = np.zeros(self._frames * FRAME, np.float32)

    def __call__(self, comm: Communicator, gradient: FloatArray) -> None:
        """Sum the gradient with an all-reduce of norms and one of frames."""
        self._left[: gradient.size] += gradient
        frames = self._left.reshape(self._frames, FRAME)
        norms = np.sqrt(np.square(frames).sum(axis=1))
        comm.all_reduce(norms)
        chosen = np.sort(np.argsort(-norms, kind="stable")[: self._count])
        numbers = frames[chosen]
        frames[chosen] = 0.0
        comm.all_reduce(numbers)
        total = np.zeros_like(frames)
        total[chosen] = numbers
        gradient[:] = total.reshape(-1)[: gradient.size]


# Training loops, one for each method that avoids waiting for the network or for other workers.
#
# All of them use plain SGD with a learning rate that falls linearly to 0. Workers' computing times vary by round in the
# same way in all loops: one in four takes twice as long.


SLOW: Final = 2.0
SLOW_SHARE: Final = 0.25
PATIENCE: Final = 1.25
"""multiple of the usual computing time after which a round continues without late workers"""


def rate_at(task: TrainingTask, iteration: int) -> float:
    """Return the learning rate of an iteration."""
    return task.options.learning_rate * (1.0 - iteration / task.iterations)


def compute_seconds(task: TrainingTask, rank: int, gradients: int) -> list[float]:
    """Return the seconds that a worker computes each of its gradients."""
    random = np.random.Generator(np.random.Philox(key=[task.options.seed, rank]))
    return [task.compute_seconds * (SLOW if drawn < SLOW_SHARE else 1.0) for drawn in random.random(gradients)]


def synchronous(comm: Communicator, task: TrainingTask, exchange: GradientExchange, every: int = 1) -> FloatArray:
    """All-reduce each gradient, or the change of the weights after every ``every`` local steps; return the weights."""
    parameters = task.model.initial(task.options.seed)
    gradient, agreed = np.empty_like(parameters), parameters.copy()
    seconds = compute_seconds(task, comm.rank, task.iterations)
    for iteration in range(task.iterations):
        task.gradient(parameters, iteration, gradient)
        comm.compute(seconds[iteration])
        rate = np.float32(rate_at(task, iteration))
        if every == 1:
            exchange(comm, gradient)
            parameters -= rate / np.float32(comm.size) * gradient
            continue
        parameters -= rate * gradient
        if (iteration + 1) % every == 0 or iteration + 1 == task.iterations:
            moved = parameters - agreed
            exchange(comm, moved)
            agreed += moved / np.float32(comm.size)
            parameters[:] = agreed
    return parameters


def partial(comm: Communicator, task: TrainingTask, exchange: GradientExchange) -> tuple[FloatArray, float]:
    """Train in rounds that wait for `PATIENCE`; late workers contribute zeros, and their gradient in a later round.

    Returns the weights, and the mean number of gradients per round. One more number in each all-reduce counts the
    contributing workers.
    """
    parameters = task.model.initial(task.options.seed)
    vector = np.empty(parameters.size + 1, np.float32)
    gradient = np.empty_like(parameters)
    seconds = compute_seconds(task, comm.rank, task.iterations)
    given, came, ready = 0, 0.0, -1.0
    for iteration in range(task.iterations):
        if ready < 0:
            task.gradient(parameters, given, gradient)
            ready = comm.now + seconds[given]
        waits = min(max(ready - comm.now, 0.0), PATIENCE * task.compute_seconds)
        in_time = ready <= comm.now + waits
        comm.compute(waits)
        vector[:-1], vector[-1] = (gradient, 1.0) if in_time else (0.0, 0.0)
        if in_time:
            given, ready = given + 1, -1.0
        exchange(comm, vector)
        came += float(vector[-1])
        if vector[-1] > 0:
            rate = np.float32(rate_at(task, iteration))
            parameters -= rate / np.rint(vector[-1]) * vector[:-1]
    return parameters, came / task.iterations


def asynchronous(comm: Communicator, task: TrainingTask, staleness: int | None) -> FloatArray:
    """Train with a parameter server that applies each gradient at once and returns its current weights."""
    weights = task.model.initial(task.options.seed)
    rate = task.options.learning_rate
    if comm.is_server:
        for _ in range(task.iterations):
            comm.push_pull(weights, rate, staleness=staleness)
        return weights
    travelling = np.empty_like(weights)
    seconds = compute_seconds(task, comm.rank, task.iterations)
    for iteration in range(task.iterations):
        task.gradient(weights, iteration, travelling)
        travelling *= np.float32(rate_at(task, iteration) / rate)  # the server has the same rate for all rounds
        comm.compute(seconds[iteration])
        comm.push_pull(travelling, rate, staleness=staleness)
        weights, travelling = travelling, weights
    return weights


WORKERS: Final = 8
TOPOLOGY: Final = "leaf-spine-8"
FLOAT: Final = "float32"
MakeExchange = Callable[[int, int, int], GradientExchange]
"""function of a gradient's size, the number of workers, and a seed"""


@dataclass(frozen=True)
class Knob:
    """A training method: the exchange, the number of local steps, and which workers a round waits for."""

    make: MakeExchange = field(default=lambda size, workers, seed: Float32Exchange())
    every: int = 1
    late: bool = False
    served: bool = False
    staleness: int | None = 0


def _bits(level: int, feedback: bool) -> Knob:
    return Knob(lambda size, workers, seed: Quantized(size, workers, level, feedback=feedback, seed=seed))


KNOBS: Final[Mapping[str, Knob]] = {
    FLOAT: Knob(),
    "int8": _bits(127, feedback=False),
    "int4": _bits(7, feedback=False),
    "int4, error feedback": _bits(7, feedback=True),
    "-1, 0, 1, error feedback": _bits(1, feedback=True),
    "top 10 % of numbers": Knob(lambda size, workers, seed: TopElements(size, workers, 0.1)),
    "top 10 % of frames": Knob(lambda size, workers, seed: TopFrames(size, 0.1)),
    "local SGD, every 4": Knob(every=4),
    "local SGD, every 8": Knob(every=8),
    "late ones carried over": Knob(late=True),
    "server, all wait": Knob(served=True),
    "server, staleness 2": Knob(served=True, staleness=2),
    "server, asynchronous": Knob(served=True, staleness=None),
}


@dataclass(frozen=True)
class DataSet:
    """A data set, its model, and the length of its training."""

    load: Callable[[int], Split]
    layers: tuple[int, ...]
    epochs: int
    batch: int
    learning_rate: float


DATA: Final[Mapping[str, DataSet]] = {
    "digits": DataSet(digits.load_digits, DIGITS_LAYERS, 6, 128, 0.5),
    "diamonds": DataSet(digits.load_diamonds, digits.DIAMONDS_LAYERS, 4, 256, 0.6),
}


@dataclass(frozen=True)
class KnobCell:
    """A training."""

    data: str
    knob: str
    seed: int
    epochs: int = 0
    """number of epochs; 0: the data set's"""


@record
class KnobRow:
    """The outcome of a training."""

    data: str = column("data")
    knob: str = column("knob")
    seed: int
    accuracy: float = column("accuracy", percent(2))
    """share of the test set that the final weights recognize"""
    bytes: int
    """bytes of INC frames on all links, including resends"""
    busiest: int
    """bytes on the busiest directed link"""
    time_s: float
    """virtual time, including computing"""
    gradients: float = column("gradients a round", "{:.2f}")
    """mean number of gradients in a round"""


def run_knob(cell: KnobCell) -> list[KnobRow]:
    """Run one training on packets. ``ClusterError`` if a sum is wrong, or workers end with different weights."""
    knob, data = KNOBS[cell.knob], DATA[cell.data]
    options = TrainingOptions(
        epochs=cell.epochs or data.epochs,
        global_batch=data.batch,
        learning_rate=data.learning_rate,
        momentum=0.0,
        seed=cell.seed,
    )
    split, model = data.load(cell.seed), Mlp(data.layers)

    def train(comm: Communicator) -> tuple[FloatArray, float]:
        task = TrainingTask(options, 0 if comm.is_server else comm.rank, comm.size, split, model)
        if knob.served:
            return asynchronous(comm, task, knob.staleness), float(comm.size)
        exchange = knob.make(model.size, comm.size, WORKERS * cell.seed + comm.rank)
        if knob.late:
            return partial(comm, task, exchange)
        return synchronous(comm, task, exchange, knob.every), float(comm.size)

    with single_threaded_blas(), Cluster(Experiment(topology=TOPOLOGY, workers=WORKERS)) as cluster:
        began = cluster.carrier.network.now
        trained = cluster.run_threads(train, server=knob.served)
        ended = max(status.done_at_ps for status in cluster.carrier.statuses())
        cluster.carrier.drain()
        links = cluster.carrier.network.fabric.links.values()
        counted = [link.inc_first_bytes + link.inc_resend_bytes for link in links]
    weights, gradients = trained[-1]
    if not knob.served and any(not np.array_equal(weights, other) for other, _ in trained):
        raise ClusterError(f"{cell.data}, {cell.knob}, seed {cell.seed}: workers ended with different weights")
    accuracy = model.accuracy(weights, split.test.images, split.test.labels)
    row = KnobRow(
        cell.data,
        cell.knob,
        cell.seed,
        accuracy,
        sum(counted),
        max(counted),
        (ended - began) / PS_PER_S,
        gradients,
    )
    return [row]
