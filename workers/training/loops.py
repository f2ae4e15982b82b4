"""The training loops: gradients all-reduced, a parameter server, and all in one process.

The three compute the same steps: worker r of n takes its batch, the mean of the n gradients is one step of SGD.
Only the sum is formed elsewhere: in the network, at the server, or here.
"""

import hashlib
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

import numpy as np

from p4reduce.workers.training.blas import single_threaded_blas
from p4reduce.workers.training.model import FloatArray
from p4reduce.workers.training.options import TrainingOptions
from p4reduce.workers.training.task import TrainingTask

LOSS: Final = "loss"
"""Mean cross entropy of a worker's own batch, before the step."""
ACCURACY: Final = "test_accuracy"
"""Share of the test images recognized, after the step."""


class Group(Protocol):
    """What training needs of ``p4reduce.comm.communicator.Communicator``."""

    @property
    def rank(self) -> int:
        """0 .. size-1 for workers, size for the server."""

    @property
    def size(self) -> int:
        """Number of workers."""

    @property
    def is_server(self) -> bool:
        """True for the parameter server's end."""

    def all_reduce(self, array: FloatArray) -> FloatArray:
        """Replace ``array`` by the sum over all workers."""

    def push_pull(self, array: FloatArray, learning_rate: float, *, staleness: int | None = 0) -> FloatArray:
        """Gradients up, weights down."""

    def compute(self, seconds: float) -> None:
        """Declare computation."""

    def record(self, name: str, value: float) -> None:
        """Keep a figure."""


@dataclass(frozen=True)
class Trained:
    """What a participant ends with."""

    parameters: FloatArray
    test_accuracy: float | None
    """Of worker 0 (and of training alone), which alone evaluates."""

    @property
    def sha256(self) -> str:
        """Of the parameters' bytes: equal on every worker."""
        return hashlib.sha256(self.parameters.tobytes()).hexdigest()


def train_all_reduce(comm: Group, options: TrainingOptions) -> Trained:
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
            comm.all_reduce(gradient)
            step(gradient)
            comm.record(LOSS, loss)
            if comm.rank == 0 and task.evaluates(iteration):
                accuracy = task.accuracy(parameters)
                comm.record(ACCURACY, accuracy)
        return Trained(parameters, accuracy)


def train_parameter_server(comm: Group, options: TrainingOptions, *, slowdown: float = 1.0) -> Trained:
    """SGD with the weights at a parameter server: workers push gradients and pull weights, chunk by chunk.

    Plain SGD: the server keeps no momentum. ``ValueError`` when the options ask for it. With ``options.staleness``
    workers do not wait for each other, or for a bounded number of rounds only, and end with different weights; the
    server's are those that count. ``slowdown``: by how much this worker computes longer.
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
    """The same training in one process, in float32: the baseline that accuracy is compared with."""
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
