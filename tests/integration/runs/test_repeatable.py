"""The same seed gives the same result file, byte for byte, in this process and in another one."""

import os
import subprocess
import sys

import pytest

from p4reduce.base.records import to_file
from p4reduce.runs.experiment import Experiment, FaultOptions
from p4reduce.runs.files import summarize, table_of
from p4reduce.runs.runner import run_experiment

FAULTS = FaultOptions(loss=0.02, duplicate=0.02, reorder=0.05, corrupt=0.01)
SCRIPT = """
from p4reduce.base.records import to_file
from p4reduce.runs.experiment import Experiment, FaultOptions
from p4reduce.runs.runner import run_experiment
import sys
experiment = Experiment.model_validate_json(sys.argv[1])
sys.stdout.write(to_file(run_experiment(experiment)))
"""


@pytest.mark.parametrize("plan", ["steiner", "ring", "ps"])
def test_same_seed_same_bytes_in_another_process(plan):
    experiment = Experiment(plan=plan, elements=5000, seed=11, faults=FAULTS)
    here = to_file(run_experiment(experiment))
    there = subprocess.run(
        [sys.executable, "-c", SCRIPT, experiment.model_dump_json()],
        env={**os.environ, "PYTHONHASHSEED": "12345"},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    ).stdout
    assert here == there


@pytest.mark.parametrize("plan", ["steiner", "ring"])
def test_threads_change_no_byte(plan):
    """Leaves and spines with their hosts are partitions, shared by two or four threads; the file is the same."""
    runs = [
        run_experiment(Experiment(plan=plan, elements=5000, seed=12, faults=FAULTS, repeat=2, threads=threads))
        for threads in (1, 2, 4)
    ]
    assert len({to_file(run) for run in runs}) == 1


def test_a_lossy_run_has_a_bound_with_losses_and_a_clean_one_has_none():
    lossy, clean = (run_experiment(Experiment(elements=5000, faults=faults)) for faults in (FAULTS, FaultOptions()))
    network = lossy.network
    assert network.loss_bound_ps > network.bound_ps / (0.98 * 0.99)
    assert network.ratio_to_loss_bound == network.communication_ps / network.loss_bound_ps
    assert summarize(lossy)["ratio_to_loss_bound"] == network.ratio_to_loss_bound
    assert "time / bound with losses" in table_of([lossy, clean])[0]
    assert "loss_bound" not in to_file(clean)
    assert "ratio_to_loss_bound" not in summarize(clean)
    assert "time / bound with losses" not in table_of([clean])[0]


def test_another_seed_gives_other_faults():
    one, two = (run_experiment(Experiment(elements=5000, seed=seed, faults=FAULTS)).network for seed in (1, 2))
    assert [load.lost for load in one.links] != [load.lost for load in two.links]


def test_training_repeats_to_the_byte():
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn (pip install 'p4reduce[demo]')")
    experiment = Experiment(model="digits", epochs=1, workers=4)
    assert to_file(run_experiment(experiment)) == to_file(run_experiment(experiment))
