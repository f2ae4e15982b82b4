"""What is trained: tensors of a large model for times and bytes, and a small one with data of its own for accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from p4reduce.labs.frame.draws import Draws
from p4reduce.labs.lab09.ranks import Floats, Net
from p4reduce.workers.training.digits import Dataset
from p4reduce.workers.training.model import Mlp

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
