"""The training loops: all-reduced gradients, a parameter server, and a single process.

All three compute the same steps of SGD: each of n workers takes its batch, and a step uses the mean of the n gradients.
They differ in where the sum is formed: in the network, at the server, or in the process.
"""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

import numpy as np

from p4reduce.workers.training import digits
from p4reduce.workers.training.digits import Dataset, FloatArray, Mlp, Split

# One BLAS thread for each worker: sums then do not depend on how many cores a machine has.


class _Keeper:
    """Holds the limit on BLAS threads while there are users.

    The limit is that of the whole process, and threadpoolctl lets only the thread that set it restore it.
    Workers come and go in separate threads, so a dedicated thread sets and restores the limit.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._release = threading.Event()
        self._thread: threading.Thread | None = None

    def enter(self) -> None:
        """Add a user; return when the limit is in force."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                limited = threading.Event()
                self._release.clear()
                self._thread = threading.Thread(target=self._hold, args=(limited,), name="blas-limit", daemon=True)
                self._thread.start()
                limited.wait()

    def leave(self) -> None:
        """Remove a user; the last one lifts the limit."""
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._thread is not None:
                self._release.set()
                self._thread.join()
                self._thread = None

    def _hold(self, limited: threading.Event) -> None:
        try:
            from threadpoolctl import threadpool_limits  # type: ignore[import-untyped] # noqa: PLC0415 (an extra)

            with threadpool_limits(limits=1, user_api="blas"):
                limited.set()
                self._release.wait()
        except ImportError:
            return
        finally:
            limited.set()


_keeper = _Keeper()


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Limit BLAS to one thread while any thread is inside.

    Without threadpoolctl (it comes with scikit-learn, as the digits do) BLAS is left as it is.
    """
    _keeper.enter()
    try:
        yield
    finally:
        _keeper.leave()


# Options of a training.


@dataclass(frozen=True)
class TrainingOptions:
    """Stochastic gradient descent on the digits; the same for any number of workers with the same global batch."""

    epochs: int = 10
    global_batch: int = 256
    """Images of one iteration, all workers together."""
    learning_rate: float = 0.1
    momentum: float = 0.9
    """Momentum of the workers' SGD; a parameter server has none, see ``for_parameter_server``."""
    seed: int = 0
    """Seed of the split of the data, the initial weights and the order of the images."""
    evaluate_every: int = 2
    """Iterations between two records of the test accuracy."""
    staleness: int | None = 0
    """Rounds by which a parameter server lets a worker be ahead of the slowest (0: all wait, `dist_sync`; None: no
    bound, `dist_async`)."""
    flops_per_second: float = 1e12
    """Declared speed of a worker's processor: it turns operations into virtual time."""

    @classmethod
    def for_parameter_server(cls, *, epochs: int = 10, seed: int = 0, staleness: int | None = 0) -> "TrainingOptions":
        """Plain SGD, which is what ``push_pull`` computes: smaller batches and larger steps make up for momentum."""
        return cls(epochs=epochs, seed=seed, global_batch=128, learning_rate=0.5, momentum=0.0, staleness=staleness)

    def __post_init__(self) -> None:
        for name in ("epochs", "global_batch", "evaluate_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, got {getattr(self, name)}")
        for name in ("learning_rate", "flops_per_second"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: must be positive, got {getattr(self, name)}")
        if not 0 <= self.momentum < 1:
            raise ValueError(f"momentum: must be at least 0 and below 1, got {self.momentum}")


# One worker's share of the training: its images, its model, its gradient.


class TrainingTask:
    """The data and the steps of worker ``rank`` out of ``size``: the digits, or another split and a model for it."""

    def __init__(
        self, options: TrainingOptions, rank: int, size: int, split: Split | None = None, model: Mlp | None = None
    ) -> None:
        split = digits.load_digits(options.seed) if split is None else split
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
        """Number of iterations of the whole training; the same on every worker."""
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
        """Write the gradient of an iteration's batch to ``gradient``; return the batch's mean loss."""
        batch = self.images_of(iteration)
        return self.model.loss_and_gradient(parameters, batch.images, batch.labels, gradient)

    def accuracy(self, parameters: FloatArray) -> float:
        """Share of the test images that are classified correctly."""
        return self.model.accuracy(parameters, self.test.images, self.test.labels)

    def evaluates(self, iteration: int) -> bool:
        """Whether the test accuracy is recorded after this iteration: every few, and after the last."""
        done = iteration + 1
        return done % self.options.evaluate_every == 0 or done == self.iterations


LOSS: Final = "loss"
"""Mean cross entropy of a worker's own batch, before the step."""
ACCURACY: Final = "test_accuracy"
"""Share of the test images that are classified correctly, after the step."""


class TrainingGroup(Protocol):
    """The part of ``p4reduce.group.communicator.Communicator`` that training needs."""

    @property
    def rank(self) -> int:
        """0 .. size-1 for workers, size for the server."""

    @property
    def size(self) -> int:
        """Number of workers."""

    @property
    def is_server(self) -> bool:
        """Whether this is the parameter server."""

    def all_reduce(self, array: FloatArray, *, name: str = ...) -> FloatArray:
        """Replace ``array``, which is called ``name``, by the sum over all workers."""

    def push_pull(self, array: FloatArray, learning_rate: float, *, staleness: int | None = 0) -> FloatArray:
        """Push the gradient in ``array`` to the server, and replace it by the new weights."""

    def compute(self, seconds: float) -> None:
        """Declare a computation that takes ``seconds``."""

    def record(self, name: str, value: float) -> None:
        """Record a named value."""


@dataclass(frozen=True)
class Trained:
    """A participant's result of a training."""

    parameters: FloatArray
    test_accuracy: float | None
    """Test accuracy of worker 0, of training alone, or of a server with staleness; else None."""

    @property
    def sha256(self) -> str:
        """SHA-256 of the parameters' bytes; equal on every worker that waits for the others."""
        return hashlib.sha256(self.parameters.tobytes()).hexdigest()


def train_all_reduce(comm: TrainingGroup, options: TrainingOptions) -> Trained:
    """Data-parallel SGD: every worker holds the weights, gradients are summed over all workers.

    Every worker records its loss, worker 0 the test accuracy; evaluation is free of virtual time.
    """
    with single_threaded_blas():
        task = TrainingTask(options, comm.rank, comm.size)
        parameters = task.model.initial(options.seed)
        gradient = np.empty_like(parameters)
        step = _Sgd(options, comm.size, parameters)
        accuracy = None
        for iteration in range(task.iterations):
            loss = task.gradient(parameters, iteration, gradient)
            comm.compute(task.compute_seconds)
            comm.all_reduce(gradient, name="gradient")
            step(gradient)
            comm.record(LOSS, loss)
            if comm.rank == 0 and task.evaluates(iteration):
                accuracy = task.accuracy(parameters)
                comm.record(ACCURACY, accuracy)
        return Trained(parameters, accuracy)


def train_parameter_server(comm: TrainingGroup, options: TrainingOptions, *, slowdown: float = 1.0) -> Trained:
    """SGD with the weights at a parameter server: workers push gradients and pull weights, chunk by chunk.

    Plain SGD: the server keeps no momentum. Raises ``ValueError`` if the options ask for it. With
    ``options.staleness`` workers do not wait for each other, or only if some rounds ahead, and end with different
    weights; the server's weights count. ``slowdown``: factor by which this worker computes longer.
    """
    if options.momentum:
        raise ValueError("momentum: the parameter server steps without; use TrainingOptions.for_parameter_server()")
    with single_threaded_blas():
        task = TrainingTask(options, 0 if comm.is_server else comm.rank, comm.size)
        push_pull = comm.push_pull if options.staleness == 0 else partial(comm.push_pull, staleness=options.staleness)
        parameters = task.model.initial(options.seed)
        if comm.is_server:
            for _ in range(task.iterations):
                push_pull(parameters, options.learning_rate)
            return Trained(parameters, None if options.staleness == 0 else task.accuracy(parameters))
        travelling = np.empty_like(parameters)
        accuracy = None
        for iteration in range(task.iterations):
            loss = task.gradient(parameters, iteration, travelling)
            comm.compute(task.compute_seconds * slowdown)
            push_pull(travelling, options.learning_rate)
            parameters, travelling = travelling, parameters
            comm.record(LOSS, loss)
            if comm.rank == 0 and task.evaluates(iteration):
                accuracy = task.accuracy(parameters)
                comm.record(ACCURACY, accuracy)
        return Trained(parameters, accuracy)


def train_alone(n_shards: int, options: TrainingOptions) -> Trained:
    """Train in one process, in float32: the baseline for comparing accuracy."""
    with single_threaded_blas():
        tasks = [TrainingTask(options, rank, n_shards) for rank in range(n_shards)]
        parameters = tasks[0].model.initial(options.seed)
        gradient = np.empty_like(parameters)
        total = np.empty_like(parameters)
        step = _Sgd(options, n_shards, parameters)
        for iteration in range(tasks[0].iterations):
            total[:] = 0
            for task in tasks:
                task.gradient(parameters, iteration, gradient)
                total += gradient
            step(total)
        return Trained(parameters, tasks[0].accuracy(parameters))


class _Sgd:
    """One step of SGD with (Polyak's) momentum on ``parameters``, in place."""

    def __init__(self, options: TrainingOptions, size: int, parameters: FloatArray) -> None:
        self._rate = np.float32(options.learning_rate / size)
        self._momentum = np.float32(options.momentum)
        self._parameters = parameters
        self._velocity = np.zeros_like(parameters)

    def __call__(self, summed: FloatArray) -> None:
        if self._momentum:
            self._velocity *= self._momentum
            self._velocity += summed
            self._parameters -= self._rate * self._velocity
        else:
            self._parameters -= self._rate * summed
