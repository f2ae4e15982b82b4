"""Local models with data that are not alike, and what each has learnt."""

from dataclasses import dataclass, field

import numpy as np

from p4reduce.comm.backend import FloatArray
from p4reduce.workers.training.digits import Dataset
from p4reduce.workers.training.model import Mlp

LAYERS = (64, 64, 10)
"""4,810 parameters"""


@dataclass(frozen=True)
class LocalTraining:
    """How a local model trains between two rounds: plain SGD from the global weights on its own images."""

    steps: int = 8
    batch: int = 16
    learning_rate: float = 0.2


def skewed_shards(data: Dataset, count: int, alpha: float, seed: int) -> list[Dataset]:
    """Shards whose labels are not alike: each digit is dealt out by shares drawn from a Dirichlet distribution.

    T.-M. H. Hsu, H. Qi, M. Brown, "Measuring the effects of non-identical data distribution for federated visual
    classification", 2019. Small ``alpha``: each local model has few digits, and some have little data at all. Every
    shard has at least one image.
    """
    random = np.random.Generator(np.random.Philox(key=[seed, 0xD1]))
    owners: list[list[int]] = [[] for _ in range(count)]
    for digit in range(10):
        images = random.permutation(np.flatnonzero(data.labels == digit))
        cuts = np.round(np.cumsum(random.dirichlet([alpha] * count))[:-1] * len(images)).astype(np.int64)
        for owner, part in zip(owners, np.split(images, cuts), strict=True):
            owner.extend(int(image) for image in part)
    for owner in owners:
        if not owner:
            owner.append(max(owners, key=len).pop())
    return [data.take(np.array(sorted(owner), dtype=np.int64)) for owner in owners]


@dataclass
class LocalModel:
    """One local model: its images, and how useful it was when it last took part.

    ``usefulness`` is Oort's statistical utility |B| * sqrt(mean of squared losses over B) of all its images (F. Lai et
    al., "Oort: efficient federated learning via guided participant selection", OSDI 2021, section 4.1), as of its last
    round; before the first |B| with a loss of ln 10, that of guessing.
    """

    host: str
    data: Dataset
    model: Mlp
    usefulness: float = field(init=False)

    def __post_init__(self) -> None:
        self.usefulness = len(self.data) * float(np.log(10.0))

    def train(self, weights: FloatArray, how: LocalTraining, random: np.random.Generator) -> FloatArray:
        """Train from ``weights`` (not changed); the change of the weights, float32 of shape (size,)."""
        own, gradient = weights.copy(), np.empty_like(weights)
        for _ in range(how.steps):
            batch = random.integers(0, len(self.data), min(how.batch, len(self.data)))
            self.model.loss_and_gradient(own, self.data.images[batch], self.data.labels[batch], gradient)
            own -= np.float32(how.learning_rate) * gradient
        self.usefulness = len(self.data) * self._root_mean_square_loss(weights)
        return own - weights

    def _root_mean_square_loss(self, weights: FloatArray) -> float:
        logits = self.model.logits(weights, self.data.images).astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        losses = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(self.data)), self.data.labels]
        return float(np.sqrt((losses**2).mean()))
