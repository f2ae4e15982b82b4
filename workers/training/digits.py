"""The digits that scikit-learn ships: 1,797 real images of 8 x 8 pixels, read from its package, no download."""

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np

from p4reduce.workers.training.model import FloatArray, LabelArray

TEST_SHARE: Final = 0.2
IMAGES: Final = 1797


class DataError(RuntimeError):
    """The data set is not there; the message says what to install."""


@dataclass(frozen=True)
class Dataset:
    """Images (count, inputs) of float32 and their labels (count,) from 0 on; the digits: 64 in 0 .. 1, and 0 .. 9."""

    images: FloatArray
    labels: LabelArray

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: LabelArray) -> "Dataset":
        """Those of the given indices, in that order."""
        return Dataset(self.images[indices], self.labels[indices])

    def shard(self, rank: int, size: int) -> "Dataset":
        """Part ``rank`` of ``size``: every ``size``-th image, so parts differ by at most one in length."""
        if not 0 <= rank < size:
            raise ValueError(f"shard {rank} of {size}: ranks are 0 to {size - 1}")
        return Dataset(self.images[rank::size], self.labels[rank::size])


@dataclass(frozen=True)
class Split:
    """Images to learn from, and images to be tested with."""

    train: Dataset
    test: Dataset


def load(seed: int) -> Split:
    """The digits, shuffled by ``seed`` and split 80 : 20. Raises ``DataError`` without scikit-learn."""
    everything = _digits()
    order = np.random.default_rng(seed).permutation(len(everything))
    tests = round(len(everything) * TEST_SHARE)
    return Split(train=everything.take(order[tests:]), test=everything.take(order[:tests]))


@cache
def _digits() -> Dataset:
    """As ``sklearn.datasets.load_digits``, of scikit-learn's file alone: the library takes seconds to import."""
    found = find_spec("sklearn")
    if found is None or found.origin is None:
        raise DataError("the digits come with scikit-learn, which is missing: pip install 'p4reduce[demo]'")
    path = Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz"
    try:
        rows = np.loadtxt(path, delimiter=",")
    except OSError:
        raise DataError(f"{path}: cannot be read; install another release of scikit-learn") from None
    return Dataset((rows[:, :-1] / 16.0).astype(np.float32), rows[:, -1].astype(np.int64))
