"""One run from its description to its result."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from p4reduce.cluster.cluster import Cluster, Progress
from p4reduce.cluster.communicator import Communicator
from p4reduce.cluster.experiment import Experiment, ExperimentError
from p4reduce.cluster.provenance import provenance
from p4reduce.cluster.rendezvous import PS_PER_SECOND, Figure
from p4reduce.cluster.result import NetworkResult, RunResult, TrainingPoint, TrainingResult
from p4reduce.cluster.summary import describe_topology, network_result
from p4reduce.cluster.tensors import tensor
from p4reduce.cluster.training import train_digits
from p4reduce.workers.training.loops import ACCURACY

Script = Callable[[Communicator], object]


def run_experiment(
    experiment: Experiment,
    *,
    progress: Progress | None = None,
    capture: Path | None = None,
    script: Script | None = None,
) -> RunResult:
    """Run ``experiment`` to its end.

    ``script`` replaces the model or tensor by the caller's own function, run once for each worker with its
    ``Communicator``. ``capture`` is a pcap file for the first worker's link. ``progress`` is told (label, done, total).
    """
    with Cluster(experiment, capture=capture) as cluster:
        baseline: float | None = None
        if script is not None:
            cluster.run_threads(script)
        elif experiment.model == "digits":
            baseline = train_digits(cluster, progress)
        else:
            move_tensors(cluster, progress)
        return result_of(cluster, baseline)


def result_of(cluster: Cluster, baseline_accuracy: float | None = None) -> RunResult:
    """The result of everything that a cluster has done."""
    experiment = cluster.experiment
    network = network_result(cluster.carrier)
    figures = [figure for figure in cluster.figures() if figure.rank == 0]
    training = None
    if figures or experiment.model == "digits":
        training = _training_result(experiment, figures, baseline_accuracy, cluster)
        # What training computed depends on BLAS, so it stands apart from what the network did.
        network = _without_values(network)
    return RunResult(
        experiment=experiment.model_dump(mode="json"),
        provenance=provenance(cluster.program, experiment.seed),
        network=network,
        training=training,
        topology=describe_topology(cluster.topology),
    )


def move_tensors(cluster: Cluster, progress: Progress | None) -> None:
    """The plain tensor: ``repeat`` collectives on arrays drawn from the seed."""
    experiment = cluster.experiment
    operation = experiment.collective
    served = operation in {"push", "pull", "push_pull"}
    if served and cluster.server is None:
        raise ExperimentError(f"collective: {operation} needs a topology with a server, e.g. leaf-spine-8")

    def participate(communicator: Communicator) -> None:
        for turn in range(experiment.repeat):
            array = tensor(experiment.seed, communicator.rank, turn, experiment.elements)
            if operation == "push_pull":
                communicator.push_pull(array, 0.1)
            elif operation == "broadcast":
                communicator.broadcast(array)
            else:
                getattr(communicator, operation)(array)
            if communicator.rank == 0 and progress is not None:
                progress(f"{experiment.plan}: {operation}", turn + 1, experiment.repeat)

    cluster.run_threads(participate, server=served)


def _without_values(network: NetworkResult) -> NetworkResult:
    """Without what depends on the values that training computed."""
    records = [replace(record, max_error=None, error_bound=None) for record in network.collectives]
    return replace(network, collectives=records, result_sha256="")


def _training_result(
    experiment: Experiment, figures: list[Figure], baseline: float | None, cluster: Cluster
) -> TrainingResult:
    points = [
        TrainingPoint(figure.name, figure.iteration, figure.time_ps / PS_PER_SECOND, figure.value) for figure in figures
    ]
    accuracy = [point for point in points if point.name == ACCURACY]
    reached = [point.time_s for point in accuracy if point.value >= experiment.target_accuracy]
    summed = [record for record in cluster.carrier.records if record.max_error is not None]
    return TrainingResult(
        points=points,
        test_accuracy=accuracy[-1].value if accuracy else None,
        baseline_accuracy=baseline,
        target_accuracy=experiment.target_accuracy,
        time_to_target_s=reached[0] if reached else None,
        max_error=max((record.max_error or 0.0 for record in summed), default=None),
        error_bound=max((record.error_bound or 0.0 for record in summed), default=None),
        result_sha256=cluster.carrier.digest.hexdigest(),
    )
