"""One worker's share of the training: its images, its model, its gradient."""

import numpy as np

from p4reduce.workers.training import digits
from p4reduce.workers.training.digits import Dataset, Split
from p4reduce.workers.training.model import FloatArray, Mlp
from p4reduce.workers.training.options import TrainingOptions


class TrainingTask:
    """The data and the steps of worker ``rank`` out of ``size``: the digits, or another split and a model for it."""

    def __init__(
        self, options: TrainingOptions, rank: int, size: int, split: Split | None = None, model: Mlp | None = None
    ) -> None:
        split = digits.load(options.seed) if split is None else split
        self.options = options
        self.model = Mlp() if model is None else model
        self.test = split.test
        self.shard = split.train.shard(rank, size)
        self.batch = max(1, options.global_batch // size)
        """Images of one iteration on this worker."""
        smallest = len(split.train) // size
        if smallest < self.batch:
            raise ValueError(
                f"a shard has {smallest} of {len(split.train)} training images, too few for a batch of {self.batch}: "
                f"choose a global batch of at most {smallest * size}, or fewer than {size} workers"
            )
        self.iterations_per_epoch = smallest // self.batch
        self._rank = rank

    @property
    def iterations(self) -> int:
        """Of the whole training; the same on every worker."""
        return self.options.epochs * self.iterations_per_epoch

    @property
    def compute_seconds(self) -> float:
        """Declared time of one forward and backward pass."""
        return self.model.flops(self.batch) / self.options.flops_per_second

    def images_of(self, iteration: int) -> Dataset:
        """The batch of an iteration on this worker: shuffled anew each epoch, by seed, epoch and rank."""
        epoch, step = divmod(iteration, self.iterations_per_epoch)
        order = np.random.default_rng((self.options.seed, epoch, self._rank)).permutation(len(self.shard))
        return self.shard.take(order[step * self.batch : (step + 1) * self.batch])

    def gradient(self, parameters: FloatArray, iteration: int, gradient: FloatArray) -> float:
        """Write the gradient of an iteration's batch to ``gradient``; the batch's mean loss."""
        batch = self.images_of(iteration)
        return self.model.loss_and_gradient(parameters, batch.images, batch.labels, gradient)

    def accuracy(self, parameters: FloatArray) -> float:
        """Share of the test images that are recognized."""
        return self.model.accuracy(parameters, self.test.images, self.test.labels)

    def evaluates(self, iteration: int) -> bool:
        """Whether the test accuracy is recorded after this iteration: every few, and after the last."""
        done = iteration + 1
        return done % self.options.evaluate_every == 0 or done == self.iterations
