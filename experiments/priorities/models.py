"""What workers compute: small whole numbers whose sums are known to the last bit, or gradients of the digits.

Whatever order contributions come in, the weights at the end are those at the beginning less all gradients, each times
the rate: exactly for whole numbers, to rounding for others.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from p4reduce.comm.errors import ClusterError
from p4reduce.workers.numbers import BlockFloat, FixedScale
from p4reduce.workers.training.blas import single_threaded_blas
from p4reduce.workers.training.options import TrainingOptions
from p4reduce.workers.training.task import TrainingTask

FloatArray = NDArray[np.float32]
_LARGEST: Final = 8
TOLERANCE: Final = 2e-6
"""of a weight, relative to the largest: rounding of float32 in some hundreds of steps"""


@dataclass(frozen=True)
class Score:
    """How good the weights were at a time."""

    at_ps: int
    rounds: float
    """gradients that were applied by then, over the workers"""
    accuracy: float
    """share of test images that are recognized"""


class Model(Protocol):
    """The gradients of one job, and what is right about its weights."""

    elements: int
    learning_rate: float
    """of a round of all workers"""
    scores: list[Score]

    @property
    def numbers(self) -> BlockFloat | FixedScale:
        """How its lanes add up where switches do that."""

    def initial(self) -> FloatArray:
        """Weights to begin with, a copy."""

    def gradient(self, rank: int, iteration: int, weights: FloatArray) -> FloatArray:
        """Of a worker's round; kept until the worker's next one."""

    def applied(self, done_ps: int, weights: FloatArray) -> None:
        """A worker has the answer to its gradient; ``weights`` are the server's."""

    def check(self, name: str, weights: FloatArray) -> None:
        """They are what they must be at the end. Raises ``ClusterError``."""


class WholeNumbers:
    """The same gradient in every round of a worker: numbers of -8..8."""

    def __init__(self, elements: int, workers: int, rounds: int) -> None:
        self.elements, self.learning_rate = elements, float(workers)
        self.scores: list[Score] = []
        self._workers, self._rounds = workers, rounds

    @property
    def numbers(self) -> FixedScale:
        """They are whole numbers already."""
        return FixedScale(1.0)

    def initial(self) -> FloatArray:
        """Zeros."""
        return np.zeros(self.elements, np.float32)

    def gradient(self, rank: int, iteration: int, weights: FloatArray) -> FloatArray:
        """That of the worker."""
        del iteration, weights
        return whole_numbers(rank, self.elements)

    def applied(self, done_ps: int, weights: FloatArray) -> None:
        """Nothing to note."""

    def check(self, name: str, weights: FloatArray) -> None:
        """To the last bit. Raises ``ClusterError``, which names the first element that is wrong."""
        total = np.stack([whole_numbers(rank, self.elements) for rank in range(self._workers)])
        expected = (-self._rounds * total.astype(np.float64).sum(axis=0)).astype(np.float32)
        if not np.array_equal(weights, expected):
            wrong = int(np.flatnonzero(weights != expected)[0])
            raise ClusterError(f"{name}: element {wrong} is {weights[wrong]}, must be {expected[wrong]}")


class Digits:
    """The digits of `workers/training`: the workers' shards, plain SGD at the server."""

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
        """He initialization by the seed."""
        weights: FloatArray = self._tasks[0].model.initial(self._options.seed)
        return weights

    def gradient(self, rank: int, iteration: int, weights: FloatArray) -> FloatArray:
        """Of the worker's batch at the weights that it has."""
        with single_threaded_blas():
            self._tasks[rank].gradient(weights, iteration, self._buffers[rank])
        self._total += self._buffers[rank]
        return self._buffers[rank]

    def applied(self, done_ps: int, weights: FloatArray) -> None:
        """Once for each round of all workers: how good they are."""
        self._applied += 1
        workers = len(self._tasks)
        if self._applied % workers == 0:
            with single_threaded_blas():
                accuracy = self._tasks[0].accuracy(weights)
            self.scores.append(Score(done_ps, self._applied / workers, accuracy))

    def check(self, name: str, weights: FloatArray) -> None:
        """To rounding. Raises ``ClusterError``."""
        expected = self.initial() - self.learning_rate / len(self._tasks) * self._total
        wrong = float(np.abs(weights - expected).max() / np.abs(expected).max())
        if not wrong <= TOLERANCE:
            raise ClusterError(f"{name}: weights are {wrong:.3g} of the largest off, more than {TOLERANCE:g}")


@lru_cache(maxsize=128)
def whole_numbers(rank: int, elements: int) -> FloatArray:
    """Whole numbers of -8..8, float32 of shape (elements,); read only."""
    drawn = np.random.Generator(np.random.Philox(key=[rank, elements])).integers(-_LARGEST, _LARGEST + 1, elements)
    return drawn.astype(np.float32)
