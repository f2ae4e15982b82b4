"""The digits model over the network: as accurate as in one process, with all-reduce and with a parameter server."""

import pytest

from p4reduce.runs.experiment import Experiment, ExperimentError, FaultOptions
from p4reduce.runs.runner import run_experiment
from tests.support.effort import first_of

pytest.importorskip("sklearn", reason="the digits come with scikit-learn (pip install 'p4reduce[demo]')")
FAULTY = FaultOptions(loss=0.01, duplicate=0.01, reorder=0.01)


@pytest.mark.parametrize(
    ("plan", "collective", "faults"),
    first_of(
        [
            ("steiner", "all_reduce", FAULTY),
            ("ps", "push_pull", FaultOptions()),
            ("ring", "all_reduce", FaultOptions()),
            ("ps", "all_reduce", FaultOptions()),
            ("spt", "push_pull", FAULTY),
        ],
        2,
    ),
)
def test_accuracy_is_within_half_a_point_of_one_process(plan, collective, faults):
    experiment = Experiment(model="digits", plan=plan, collective=collective, epochs=4, faults=faults)
    result = run_experiment(experiment)
    training = result.training
    assert training.baseline_accuracy > 0.85
    assert abs(training.test_accuracy - training.baseline_accuracy) <= 0.005
    assert result.network.prediction_differences == []
    assert {record.operation for record in result.network.collectives} == {collective}
    if collective == "all_reduce":
        assert 0 < training.max_error <= training.error_bound


@pytest.mark.parametrize("collective", ["broadcast", "push", "pull"])
def test_no_training_by_other_collectives(collective):
    with pytest.raises(ExperimentError, match=f"collective: {collective} cannot train"):
        run_experiment(Experiment(model="digits", collective=collective, topology="star:hosts=2,servers=1"))


def test_a_parameter_server_needs_a_host():
    with pytest.raises(ExperimentError, match="needs a topology with a server"):
        run_experiment(Experiment(model="digits", collective="push_pull", topology="star:hosts=2"))
