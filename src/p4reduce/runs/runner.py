"""One run from its description to its result."""

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from p4reduce.base.errors import P4ReduceError
from p4reduce.base.output import Progress
from p4reduce.group.communicator import STEP, Communicator
from p4reduce.group.errors import ClusterError
from p4reduce.runs.experiment import Experiment, ExperimentError
from p4reduce.runs.jobs import FlowCarrier
from p4reduce.runs.participant import array_in_file, check_memory, go_through, participation, sizes_of, training_options
from p4reduce.runs.replay import replay_of
from p4reduce.runs.result import (
    MODEL_ERROR,
    CollectiveRecord,
    NetworkResult,
    RunResult,
    Steps,
    TrainingPoint,
    TrainingResult,
    steps_of,
)
from p4reduce.runs.summary import describe_topology, network_result, provenance
from p4reduce.runs.virtual.cluster import RunCluster, cluster_of
from p4reduce.workers.training.loops import (
    ACCURACY,
    TrainingOptions,
    TrainingTask,
    train_alone,
)
from p4switch.base.values import PS_PER_S

# The digits model on a cluster, its results, and the same training in one process for comparison.


def training_iterations(experiment: Experiment, workers: int) -> int:
    """Return the number of collectives of a training. Raises ``ExperimentError`` for an invalid one, ``DataError``."""
    options = training_options(experiment)
    try:
        return TrainingTask(options, 0, workers).iterations
    except ValueError as error:
        raise ExperimentError(f"workers: {error}") from None


def train_digits(cluster: RunCluster[Any], progress: Progress | None) -> str:
    """Train on every worker of ``cluster``; return the SHA-256 of the weights, with which all of them ended.

    Raises ``ExperimentError`` for a collective that cannot train, or if there is no host for the server.
    """
    experiment = cluster.experiment
    served = experiment.collective == "push_pull"
    total = training_iterations(experiment, cluster.size)
    if served and cluster.server is None:
        raise ExperimentError("collective: push_pull needs a topology with a server, e.g. leaf-spine-8")
    if progress is not None:
        cluster.carrier.on_collective = lambda done: progress(f"{experiment.plan}: training", done, total)

    def train(communicator: Communicator) -> str | None:
        return go_through(participation(communicator, experiment, ()), lambda _: None)

    return one_model(map(str, cluster.run_threads(train, server=served)[: cluster.size]))


def one_model(hashes: Iterable[str]) -> str:
    """Return the hash that all workers share; raise ``ClusterError`` if two of them ended with different weights."""
    first, *others = hashes
    for rank, other in enumerate(others, 1):
        if other != first:
            raise ClusterError(
                f"training: ranks 0 and {rank} ended with different weights (SHA-256 {first[:12]}… and {other[:12]}…)"
            )
    return first


@functools.cache
def accuracy_alone(shards: int, options: TrainingOptions) -> float | None:
    """Return the test accuracy of the same training in one process; computed once for all plans that are compared."""
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
    """Return the result of a training from the figures of rank 0 and the collectives."""
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
    """Remove the figures that depend on computed values, and so on BLAS; the training's result has them."""
    records = [replace(record, max_error=None, error_bound=None) for record in network.collectives]
    return replace(network, collectives=records, result_sha256="")


Script = Callable[[Communicator], object]


def run_experiment(
    experiment: Experiment,
    *,
    progress: Progress | None = None,
    capture: Path | None = None,
    script: Script | None = None,
    arrays: Path | None = None,
) -> RunResult:
    """Run ``experiment`` to its end.

    ``script`` replaces the model or tensor by the caller's own function, run once for each worker with its
    ``Communicator``. ``capture``: a pcap file for the first worker's link. ``progress`` is called with (label, done,
    total). ``arrays``: a folder for the plain tensors, which are in files there while the run lasts.
    """
    with cluster_of(experiment, capture=capture) as cluster:
        baseline = weights = None
        if script is not None:
            cluster.run_threads(script)
            return result_of_script(cluster)
        elif experiment.model == "digits":
            weights = train_digits(cluster, progress)
            baseline = accuracy_alone(cluster.size, training_options(experiment))
        else:
            move_tensors(cluster, progress, arrays)
        return result_of(cluster, baseline_accuracy=baseline, weights_sha256=weights)


def _ignore(_: str) -> None:
    return


def result_of_script(cluster: RunCluster[Any], tell: Callable[[str], None] = _ignore) -> RunResult:
    """Return the result of a script on a cluster: times are of steps, settings are derived from what it sent.

    A script that sent messages is replayed; ``tell`` receives a line about the replay.
    """
    steps = steps_of(cluster.carrier.records, cluster.figures(), cluster.spans())
    result = result_of(cluster, steps=steps)
    sent = {record.operation for record in result.network.collectives}
    derived: dict[str, Any] = {"elements": result.network.elements, "repeat": len(steps.every)}
    if len(sent) == 1:
        derived["collective"] = sent.pop()
    result = replace(result, experiment={**result.experiment, **derived})
    try:
        replay = replay_of(cluster)
    except P4ReduceError as error:
        tell(f"the script could not be played once more, with messages and sums together: {error}")
        return result
    if replay is not None:
        tell(str(replay))
    return replace(result, replay=replay)


def result_of(
    cluster: RunCluster[Any],
    *,
    baseline_accuracy: float | None = None,
    weights_sha256: str | None = None,
    steps: Steps | None = None,
) -> RunResult:
    """Return the result of everything that a cluster has done."""
    experiment = cluster.experiment
    network = network_result(cluster.carrier, steps)
    points = [
        TrainingPoint(figure.name, figure.iteration, figure.time_ps / PS_PER_S, figure.value)
        for figure in cluster.figures()
        if figure.rank == 0 and figure.name != STEP
    ]
    training = None
    if points or experiment.model == "digits":
        carrier = cluster.carrier
        training = training_result(
            experiment,
            points,
            carrier.records,
            carrier.result_sha256,
            baseline=baseline_accuracy,
            weights=weights_sha256,
        )
        network = without_values(network)
    return RunResult(
        experiment=experiment.model_dump(mode="json"),
        provenance=provenance(cluster.program, experiment.seed),
        network=network,
        training=training,
        topology=describe_topology(cluster.topology),
        flow=MODEL_ERROR if experiment.time == "flow" else None,
    )


def move_tensors(cluster: RunCluster[Any], progress: Progress | None, arrays: Path | None = None) -> None:
    """Run ``repeat`` collectives on plain tensors drawn from the seed; in the flow model without arrays.

    arrays: a folder for files that hold the tensors; None: memory.
    """
    experiment = cluster.experiment
    operation = experiment.collective
    served = operation in {"push", "pull", "push_pull"}
    if operation == "all_to_all" and experiment.elements % cluster.size:
        raise ExperimentError(f"elements: {experiment.elements} are no equal blocks for {cluster.size} workers")
    if served and cluster.server is None:
        raise ExperimentError(f"collective: {operation} needs a topology with a server, e.g. leaf-spine-8")
    if isinstance(cluster.carrier, FlowCarrier):
        for turn in range(experiment.repeat):
            cluster.carrier.move(operation, experiment.elements)
            if progress is not None:
                progress(f"{experiment.plan}: {operation}", turn + 1, experiment.repeat)
        return
    check_memory(experiment.elements, cluster.size, filed=arrays is not None)

    sizes = sizes_of(experiment)

    def participate(communicator: Communicator) -> None:
        def at(done: int) -> None:
            if communicator.rank == 0 and progress is not None:
                progress(f"{experiment.plan}: {operation}", done, len(sizes))

        room = None if arrays is None else array_in_file(arrays, experiment.elements)
        go_through(participation(communicator, experiment, sizes, room), at)
        at(len(sizes))

    cluster.run_threads(participate, server=served)
