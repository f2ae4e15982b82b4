"""Ranks of a training: a process of the student's code for each, joined by P4 switches in virtual time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from p4reduce.group.communicator import Communicator, Handle
from p4reduce.group.errors import ClusterError
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.virtual.cluster import Cluster
from p4reduce.workers.training.digits import Dataset, Mlp
from p4reduce_course.frame.lab import Draws
from p4reduce_course.frame.report import Wrong
from p4reduce_course.sandbox.limits import Limits
from p4reduce_course.sandbox.messages import Remote
from p4reduce_course.sandbox.process import StudentCode, Untold

Floats = NDArray[np.float32]
LANES: Final = 256
HEADERS: Final = 62
GAP: Final = 24
_CALLS: Final = 8
"""times as many calls as tensors are more than anybody needs"""
_ELEMENTS: Final = 4
"""times as many numbers as there are, too"""
_LIMITS: Final = Limits(cpu_s=6, wall_s=60.0)


@dataclass(frozen=True)
class Net:
    """A star of workers around one switch.

    Attributes:
        rate_gbps, delay_us: of every link.
    """

    workers: int
    rate_gbps: int
    delay_us: int

    def experiment(self) -> Experiment:
        """The same as a run."""
        return Experiment(
            topology=f"star:hosts={self.workers}",
            plan="steiner",
            lanes=LANES,
            rate=f"{self.rate_gbps}G",
            delay=f"{self.delay_us}us",
        )

    def wire_seconds(self, elements: float) -> float:
        """The least time of so many numbers on one direction of a link."""
        return elements / LANES * (GAP + HEADERS + 4 * LANES) * 8 / (self.rate_gbps * 1e9)

    @property
    def trip_seconds(self) -> float:
        """From the first bit of a full frame to the last of its sum, with an empty network."""
        return 2 * (self.wire_seconds(LANES) + self.delay_us * 1e-6)


def least_bytes(elements: int) -> int:
    """Of full frames that hold so many numbers."""
    return -(-elements // LANES) * (HEADERS + 4 * LANES)


@dataclass(frozen=True)
class Started:
    """A call of a rank's: how many elements of which type, when, and the largest field of packed integers."""

    elements: int
    integers: bool
    at_s: float
    largest: int = 0

    @property
    def kind(self) -> str:
        """As it is told."""
        return f"{self.elements} {'int32' if self.integers else 'float32'}"


@dataclass
class Rank:
    """One rank while a job runs.

    Attributes:
        most_calls, most_elements: that it may start.
        calls: what it has started, in order.
        began_s: when its backward pass began.
        failed: what the network said to it.
    """

    number: int
    net: Net
    comm: Communicator
    code: StudentCode
    most_calls: int
    most_elements: int
    calls: list[Started] = field(default_factory=list)
    began_s: float = 0.0
    failed: str = ""
    _handles: dict[int, Handle[Any]] = field(default_factory=dict)

    def create(self, kind: str, sizes: Sequence[int]) -> None:
        """A hook of the student's for tensors of these sizes."""
        network = Remote("network", rank=self.number, workers=self.net.workers)
        self._call("create", kind, network, list(sizes))

    def backward(
        self, gradients: Sequence[Floats], order: Sequence[int], seconds: Sequence[float] = ()
    ) -> list[Floats]:
        """Hands gradients over in the order in which they become ready; what the hook gives for each of them."""
        for index in order:
            if seconds:
                self.comm.compute(seconds[index])
            self._call("ready", index, gradients[index])
        found = self._call("finish")
        path = str(self.code.file)
        if not isinstance(found, list) or len(found) != len(gradients):
            shown = f"{len(found)} items" if isinstance(found, list) else f"{found!r}"[:40]
            raise Wrong(f"finish returned {shown}; return a list of {len(gradients)} arrays, by index", path)
        for index, (mean, gradient) in enumerate(zip(found, gradients, strict=True)):
            if not isinstance(mean, np.ndarray) or mean.dtype.kind != "f" or mean.shape != gradient.shape:
                shape = f"{mean.dtype}{list(mean.shape)}" if isinstance(mean, np.ndarray) else type(mean).__name__
                said = f"finish returned {shape} for tensor {index}; return floats of shape {list(gradient.shape)}"
                raise Wrong(f"{said}, as it came", path)
        return [np.asarray(mean, np.float32) for mean in found]

    def _call(self, name: str, *arguments: Any) -> Any:
        try:
            return self.code.call(name, *arguments, services={"network": self._network})
        except Wrong as wrong:
            if self.failed:  # the network's answer, which the student's code passed on as an exception
                raise ClusterError(self.failed) from wrong
            raise

    # --- what the student's code asks of the network

    def _network(self, method: str, *arguments: Any, **named: Any) -> Any:
        if method == "start":
            return self._start(*arguments, **named)
        if method == "wait":
            return self._wait(*arguments, **named)
        raise Untold(f"network.{method}: a network has start(array) and wait(number)")

    def _start(self, array: Any) -> int:
        if not isinstance(array, np.ndarray) or array.dtype not in (np.float32, np.int32) or array.ndim != 1:
            shown = f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__
            raise Untold(f"network.start: float32 or int32 in one dimension, not {shown}; use .astype and .reshape(-1)")
        if not array.size or not np.isfinite(array).all():
            raise Untold("network.start: " + ("NaN or infinity cannot be added" if array.size else "an empty array"))
        if len(self.calls) >= self.most_calls:
            raise Untold(f"network.start: {self.most_calls} calls were made already; is there a loop?")
        if sum(call.elements for call in self.calls) + array.size > self.most_elements:
            raise Untold(f"network.start: {self.most_elements} numbers are more than anybody needs; is there a loop?")
        integers = array.dtype == np.int32
        largest = int(np.abs(fields(array)).max()) if integers else 0
        self.calls.append(Started(array.size, integers, self.comm.now, largest))
        self._handles[len(self.calls)] = self.comm.all_reduce(array, start=self.comm.now)
        return len(self.calls)

    def _wait(self, number: Any) -> Any:
        handle = self._handles.pop(number, None) if isinstance(number, int) else None
        if handle is None:
            raise Untold(f"network.wait({str(number)[:20]}): that is no number of a start, or was waited for already")
        try:
            return handle.wait()
        except ClusterError as error:
            self.failed = str(error)
            raise Untold(self.failed) from None


@dataclass(frozen=True)
class Ran:
    """What came of a job.

    Attributes:
        calls: of each rank.
        began_s: when rank 0's backward pass began.
        busiest_bytes: on the direction of a link that carried most.
    """

    calls: Sequence[Sequence[Started]]
    began_s: float
    busiest_bytes: int


class Ranks:
    """The student's file in a process for each rank. Use it as a context manager."""

    def __init__(self, file: Path, seen: dict[str, None]) -> None:
        self._file = file
        self._seen = seen
        self._codes: list[StudentCode] = []
        self._held = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._held.close()

    def run(self, net: Net, kind: str, sizes: Sequence[int], steps: int, body: Callable[[Rank], None]) -> Ran:
        """``body`` for each rank, beside each other. Raises Wrong."""
        while len(self._codes) < net.workers:
            self._codes.append(self._held.enter_context(StudentCode(self._file, _LIMITS, self._seen)))
            self._codes[-1].start()  # here, since a process ends with the thread that started it
        ranks: dict[int, Rank] = {}
        elements = _ELEMENTS * (sum(sizes) + LANES) * steps
        guard = threading.Lock()
        with Cluster(net.experiment()) as cluster:

            def rank_of(comm: Communicator) -> None:
                code = self._codes[comm.rank]
                rank = Rank(comm.rank, net, comm, code, _CALLS * (len(sizes) + 1) * steps, elements)
                with guard:
                    ranks[comm.rank] = rank
                rank.create(kind, sizes)
                body(rank)

            try:
                cluster.run_threads(rank_of)
            except ClusterError as error:
                raise Wrong(_disagreement(ranks, str(error)), str(self._file)) from None
            cluster.carrier.drain()
            links = cluster.carrier.network.fabric.links
            busiest = max(links[hop].bytes for hop in links)
        return Ran([ranks[number].calls for number in sorted(ranks)], ranks[0].began_s, busiest)


def fields(words: NDArray[np.int32]) -> NDArray[np.int64]:
    """Four integers of 8 bits with a sign in each word, as the skeleton's ``pack`` puts them there."""
    octets = (words.astype(np.int64) + 0x80808080).astype(np.uint32).view(np.uint8)
    return octets.astype(np.int64) - 128


def _disagreement(ranks: Mapping[int, Rank], error: str) -> str:
    """The first call in which the ranks differ; the calls before it were the same at all of them."""
    logs = {number: rank.calls for number, rank in sorted(ranks.items())}
    advice = (
        "Gradients become ready in another order on each rank, calls must not: "
        "start bucket k only when it is full and bucket k - 1 has been started"
    )
    shortest = min(len(log) for log in logs.values())
    for place in range(shortest):
        kinds = {number: log[place].kind for number, log in logs.items()}
        other = next((number for number, kind in kinds.items() if kind != kinds[0]), None)
        if other is not None:
            said = f"call {place} of rank 0 has {kinds[0]}, that of rank {other} has {kinds[other]}"
            return f"{said}: the ranks call in different orders. {advice}"
    if "left the group" in error:
        short = next(number for number, log in logs.items() if len(log) == shortest)
        said = f"rank {short} made {shortest} calls, and others wait for it to make one more"
        return f"{said}. Every rank makes the same calls in the same order. {advice}"
    largest = max((call.largest for log in logs.values() for call in log), default=0)
    if "beyond int32" in error:
        return (
            f"the last field of a word holds up to {largest} at each of {len(logs)} ranks, and their sum runs over the "
            "end of the word: leave headroom"
        )
    return f"the network could not carry a call out: {error}"


# What is trained: tensors of a large model for times and bytes, and a small one with data of its own for accuracy.


BLOCKS: Final = 16
SMALL: Final = 6
"""small tensors of a block, beside one large one"""
STEPS: Final = 80
"""of the small training"""
_WORDS, _CLASSES, _HEAD, _LENGTH = 80, 6, 64, 3
_TEXTS, _TESTS, _BATCH = 2000, 500, 64
_RATE: Final = 3.0


@dataclass(frozen=True)
class Backward:
    """One backward pass of a model of many tensors, at all ranks.

    Attributes:
        sizes: of the tensors, by index.
        orders: of each rank, the indices in the order in which gradients become ready.
        seconds: that each takes to compute.
    """

    sizes: Sequence[int]
    orders: Sequence[Sequence[int]]
    seconds: Sequence[float]

    @property
    def elements(self) -> int:
        """Of all tensors."""
        return sum(self.sizes)

    def bound_seconds(self, net: Net) -> float:
        """No hook is faster: what is ready at t or later takes its time on the wire after t, for every t."""
        ready = [0.0] * len(self.sizes)
        for order in self.orders:
            now = 0.0
            for index in order:
                now += self.seconds[index]
                ready[index] = max(ready[index], now)
        least, behind = 0.0, 0
        for index in sorted(range(len(ready)), key=lambda one: -ready[one]):
            behind += self.sizes[index]
            least = max(least, ready[index] + net.wire_seconds(behind))
        return least


def backward_of(net: Net, draws: Draws) -> Backward:
    """Blocks alike, as in a transformer: a large tensor and small ones; neighbours become ready in any order."""
    random = draws.generator("tensors")
    block = [int(random.integers(10, 14)) * 1000] + [int(size) for size in random.integers(16, 200, SMALL)]
    sizes = block * BLOCKS
    whole = net.wire_seconds(sum(sizes)) * 1.1
    seconds = [whole * size / sum(sizes) for size in sizes]
    orders = []
    for _ in range(net.workers):
        order: list[int] = []
        for first in reversed(range(0, len(sizes), 2 * len(block))):
            order += [first + int(place) for place in random.permutation(2 * len(block))]
        orders.append(order)
    return Backward(sizes, orders, seconds)


class Task:
    """Short texts of a few words each, to be sorted into classes, beside a second head that guesses a loud figure.

    A word stands in few texts of a batch, so its gradient is small beside that of the second head: whoever rounds all
    of them with one scale and forgets what rounding took away learns no word.
    """

    def __init__(self, workers: int, draws: Draws) -> None:
        self.workers = workers
        random = draws.generator("texts")
        meaning = random.normal(0, 1, (_WORDS, _CLASSES))
        words = random.integers(0, _WORDS, (_TEXTS + _TESTS, _LENGTH))
        texts = np.zeros((len(words), _WORDS), np.float32)
        np.add.at(texts, (np.arange(len(words))[:, None], words), 1)
        everything = Dataset(texts, (texts @ meaning).argmax(axis=1))
        self.model = Mlp((_WORDS, _CLASSES))
        self.sizes = [_WORDS * _CLASSES, _CLASSES, _HEAD]
        self._train = everything.take(np.arange(_TEXTS))
        self._test = everything.take(np.arange(_TEXTS, len(words)))
        self._seed = int(random.integers(1 << 31))

    def initial(self) -> list[Floats]:
        """Weights at the start, by tensor."""
        return [np.zeros(size, np.float32) for size in self.sizes]

    def gradients(self, weights: Sequence[Floats], rank: int, step: int) -> list[Floats]:
        """Of a rank's batch, by tensor."""
        random = np.random.default_rng((self._seed, step, rank))
        shard = self._train.shard(rank, self.workers)
        batch = shard.take(random.integers(0, len(shard), _BATCH))
        flat = np.empty(self.model.size, np.float32)
        self.model.loss_and_gradient(np.concatenate(weights[:2]), batch.images, batch.labels, flat)
        loud = random.normal(0, 1, _HEAD).astype(np.float32)
        return [flat[: self.sizes[0]], flat[self.sizes[0] :], loud]

    def moved(self, weights: Sequence[Floats], means: Sequence[Floats]) -> list[Floats]:
        """Weights after a step of SGD."""
        return [old - np.float32(_RATE) * mean for old, mean in zip(weights, means, strict=True)]

    def accuracy(self, weights: Sequence[Floats]) -> float:
        """Share of the test data that is recognized."""
        return self.model.accuracy(np.concatenate(weights[:2]), self._test.images, self._test.labels)

    def alone(self, steps: int) -> list[Floats]:
        """The same training in one process."""
        weights = self.initial()
        for step in range(steps):
            every = [self.gradients(weights, rank, step) for rank in range(self.workers)]
            weights = self.moved(weights, [np.mean(parts, axis=0) for parts in zip(*every, strict=True)])
        return weights
