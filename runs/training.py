"""The digits model on a cluster, what came of it, and the same training in one process to hold it against."""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import replace

from p4reduce.base.progress import Progress
from p4reduce.comm.communicator import Communicator
from p4reduce.comm.errors import ClusterError
from p4reduce.runs.experiment import Experiment, ExperimentError
from p4reduce.runs.result import CollectiveRecord, NetworkResult, TrainingPoint, TrainingResult
from p4reduce.runs.virtual.cluster import Cluster
from p4reduce.workers.training.loops import ACCURACY, Trained, train_all_reduce, train_alone, train_parameter_server
from p4reduce.workers.training.options import TrainingOptions
from p4reduce.workers.training.task import TrainingTask


def training_options(experiment: Experiment) -> TrainingOptions:
    """How ``experiment`` trains: gradients are all-reduced, or ``push_pull``ed to a server that holds the weights.

    Raises ``ExperimentError`` for any other collective.
    """
    if experiment.collective not in {"all_reduce", "push_pull"}:
        raise ExperimentError(f"collective: {experiment.collective} cannot train; choose all_reduce or push_pull")
    served = experiment.collective == "push_pull"
    make_options = TrainingOptions.for_parameter_server if served else TrainingOptions
    return make_options(seed=experiment.seed, epochs=experiment.epochs)


def training_iterations(experiment: Experiment, workers: int) -> int:
    """How many collectives a training takes. Raises ``ExperimentError`` where it cannot be done, ``DataError``."""
    options = training_options(experiment)
    try:
        return TrainingTask(options, 0, workers).iterations
    except ValueError as error:
        raise ExperimentError(f"workers: {error}") from None


def train_digits(cluster: Cluster, progress: Progress | None) -> str:
    """Train on every worker of ``cluster``; returns the SHA-256 of the weights with which all of them ended.

    Raises ``ExperimentError`` for a collective that cannot train, and where there is no host for the server.
    """
    experiment = cluster.experiment
    options = training_options(experiment)
    served = experiment.collective == "push_pull"
    if served and cluster.server is None:
        raise ExperimentError("collective: push_pull needs a topology with a server, e.g. leaf-spine-8")
    total = training_iterations(experiment, cluster.size)
    if progress is not None:
        cluster.carrier.on_collective = lambda done: progress(f"{experiment.plan}: training", done, total)

    def train(communicator: Communicator) -> Trained:
        return train_parameter_server(communicator, options) if served else train_all_reduce(communicator, options)

    return one_model(trained.sha256 for trained in cluster.run_threads(train, server=served)[: cluster.size])


def one_model(hashes: Iterable[str]) -> str:
    """The hash that is every worker's; ``ClusterError`` when two of them ended with different weights."""
    first, *others = hashes
    for rank, other in enumerate(others, 1):
        if other != first:
            raise ClusterError(
                f"training: ranks 0 and {rank} ended with different weights (SHA-256 {first[:12]}… and {other[:12]}…)"
            )
    return first


@functools.cache
def accuracy_alone(shards: int, options: TrainingOptions) -> float | None:
    """Test accuracy of the same training in one process; computed once for all plans that are compared."""
    return train_alone(shards, options).test_accuracy


def training_result(
    experiment: Experiment,
    points: Sequence[TrainingPoint],
    records: Sequence[CollectiveRecord],
    digest: str,
    *,
    baseline: float | None,
    weights: str | None,
) -> TrainingResult:
    """What the figures of rank 0 and the collectives of a training say."""
    accuracy = [point for point in points if point.name == ACCURACY]
    reached = [point.time_s for point in accuracy if point.value >= experiment.target_accuracy]
    summed = [record for record in records if record.max_error is not None]
    return TrainingResult(
        points=list(points),
        test_accuracy=accuracy[-1].value if accuracy else None,
        baseline_accuracy=baseline,
        target_accuracy=experiment.target_accuracy,
        time_to_target_s=reached[0] if reached else None,
        max_error=max((record.max_error or 0.0 for record in summed), default=None),
        error_bound=max((record.error_bound or 0.0 for record in summed), default=None),
        result_sha256=digest,
        weights_sha256=weights,
    )


def without_values(network: NetworkResult) -> NetworkResult:
    """Without what depends on the values that training computed: it depends on BLAS, and so stands apart."""
    records = [replace(record, max_error=None, error_bound=None) for record in network.collectives]
    return replace(network, collectives=records, result_sha256="")
