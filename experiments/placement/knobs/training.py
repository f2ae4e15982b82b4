"""Training loops, one for each way not to wait for the network or for each other.

Plain SGD in all of them, whose rate falls to 0 by equal steps. Workers' computing times differ from round to round,
the same in all loops: one in four takes twice as long.
"""

from typing import Final

import numpy as np

from p4reduce.comm.communicator import Communicator
from p4reduce.experiments.placement.knobs.exchanges import Exchange
from p4reduce.workers.training.model import FloatArray
from p4reduce.workers.training.task import TrainingTask

SLOW: Final = 2.0
SLOW_SHARE: Final = 0.25
PATIENCE: Final = 1.25
"""of a usual computing time, after which a round goes on without those that are late"""


def rate_at(task: TrainingTask, iteration: int) -> float:
    """The learning rate of an iteration."""
    return task.options.learning_rate * (1.0 - iteration / task.iterations)


def compute_seconds(task: TrainingTask, rank: int, gradients: int) -> list[float]:
    """How long a worker computes each of its gradients."""
    random = np.random.Generator(np.random.Philox(key=[task.options.seed, rank]))
    return [task.compute_seconds * (SLOW if drawn < SLOW_SHARE else 1.0) for drawn in random.random(gradients)]


def synchronous(comm: Communicator, task: TrainingTask, exchange: Exchange, every: int = 1) -> FloatArray:
    """All-reduces of gradients after each of them, or of what weights have moved after ``every`` local steps."""
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


def partial(comm: Communicator, task: TrainingTask, exchange: Exchange) -> tuple[FloatArray, float]:
    """Rounds that wait for `PATIENCE`: whose gradient is not ready gives zeros, and the gradient when it is.

    Returns the weights, and how many gradients came in a round on average. One more number in each all-reduce counts
    those who gave something.
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
    """A parameter server: each gradient moves the weights when it comes; what workers get back is what is there."""
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
        travelling *= np.float32(rate_at(task, iteration) / rate)  # the server has one rate for all rounds
        comm.compute(seconds[iteration])
        comm.push_pull(travelling, rate, staleness=staleness)
        weights, travelling = travelling, weights
    return weights
