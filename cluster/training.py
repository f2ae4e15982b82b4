"""The digits model on a cluster, and the same training in one process to hold it against."""

import functools

from p4reduce.cluster.cluster import Cluster, Progress
from p4reduce.cluster.communicator import Communicator
from p4reduce.cluster.experiment import ExperimentError
from p4reduce.workers.training.loops import Trained, train_all_reduce, train_alone, train_parameter_server
from p4reduce.workers.training.options import TrainingOptions
from p4reduce.workers.training.task import Task


def train_digits(cluster: Cluster, progress: Progress | None) -> float | None:
    """Train on every worker of ``cluster``; returns the test accuracy of the same training in one process.

    Gradients are all-reduced, or with the collective ``push_pull`` a parameter server holds the weights. Raises
    ``ExperimentError`` for any other collective, and where there is no host for the server.
    """
    experiment = cluster.experiment
    served = experiment.collective == "push_pull"
    if experiment.collective not in {"all_reduce", "push_pull"}:
        raise ExperimentError(f"collective: {experiment.collective} cannot train; choose all_reduce or push_pull")
    if served and cluster.server is None:
        raise ExperimentError("collective: push_pull needs a topology with a server, e.g. leaf-spine-8")
    make_options = TrainingOptions.for_parameter_server if served else TrainingOptions
    options = make_options(seed=experiment.seed, epochs=experiment.epochs)
    if progress is not None:
        total = Task(options, 0, cluster.size).iterations
        cluster.carrier.on_collective = lambda done: progress(f"{experiment.plan}: training", done, total)

    def train(communicator: Communicator) -> Trained:
        return train_parameter_server(communicator, options) if served else train_all_reduce(communicator, options)

    cluster.run_threads(train, server=served)
    return _alone(cluster.size, options)


@functools.cache
def _alone(shards: int, options: TrainingOptions) -> float | None:
    """Once for all plans that are compared."""
    return train_alone(shards, options).test_accuracy
