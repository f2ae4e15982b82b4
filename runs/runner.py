"""One run from its description to its result."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from p4reduce.base.progress import Progress
from p4reduce.base.units import PS_PER_S
from p4reduce.comm.communicator import STEP, Communicator
from p4reduce.runs.experiment import Experiment, ExperimentError
from p4reduce.runs.provenance import provenance
from p4reduce.runs.result import RunResult, TrainingPoint
from p4reduce.runs.steps import Steps, steps_of
from p4reduce.runs.summary import describe_topology, network_result
from p4reduce.runs.tensors import tensor
from p4reduce.runs.training import (
    accuracy_alone,
    train_digits,
    training_options,
    training_result,
    without_values,
)
from p4reduce.runs.virtual.cluster import Cluster

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
        baseline = weights = None
        if script is not None:
            cluster.run_threads(script)
            return result_of_script(cluster)
        elif experiment.model == "digits":
            weights = train_digits(cluster, progress)
            baseline = accuracy_alone(cluster.size, training_options(experiment))
        else:
            move_tensors(cluster, progress)
        return result_of(cluster, baseline_accuracy=baseline, weights_sha256=weights)


def result_of_script(cluster: Cluster) -> RunResult:
    """The result of what a script did on a cluster: its times are of steps, its settings say what it sent."""
    steps = steps_of(cluster.carrier.records, cluster.figures(), cluster.spans())
    result = result_of(cluster, steps=steps)
    sent = {record.operation for record in result.network.collectives}
    said: dict[str, Any] = {"elements": result.network.elements, "repeat": len(steps.every)}
    if len(sent) == 1:
        said["collective"] = sent.pop()
    return replace(result, experiment={**result.experiment, **said})


def result_of(
    cluster: Cluster,
    *,
    baseline_accuracy: float | None = None,
    weights_sha256: str | None = None,
    steps: Steps | None = None,
) -> RunResult:
    """The result of everything that a cluster has done."""
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
            carrier.digest.hexdigest(),
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
    )


def move_tensors(cluster: Cluster, progress: Progress | None) -> None:
    """The plain tensor: ``repeat`` collectives on arrays drawn from the seed."""
    experiment = cluster.experiment
    operation = experiment.collective
    served = operation in {"push", "pull", "push_pull"}
    if operation == "all_to_all" and experiment.elements % cluster.size:
        raise ExperimentError(f"elements: {experiment.elements} are no equal blocks for {cluster.size} workers")
    if served and cluster.server is None:
        raise ExperimentError(f"collective: {operation} needs a topology with a server, e.g. leaf-spine-8")

    def participate(communicator: Communicator) -> None:
        for turn in range(experiment.repeat):
            array = tensor(experiment.seed, communicator.rank, turn, experiment.elements)
            if operation == "push_pull":
                communicator.push_pull(array, 0.1)
            elif operation == "broadcast":
                communicator.broadcast(array)
            elif operation == "all_to_all":
                communicator.all_to_all(array, np.empty_like(array))
            else:
                getattr(communicator, operation)(array)
            if communicator.rank == 0 and progress is not None:
                progress(f"{experiment.plan}: {operation}", turn + 1, experiment.repeat)

    cluster.run_threads(participate, server=served)
