"""Same seed, same result file, byte for byte: in this process and in another one."""

import os
import subprocess
import sys

import pytest

from p4reduce.base.records import to_file
from p4reduce.runs.experiment import Experiment, FaultOptions
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


def test_another_seed_gives_other_faults():
    one, two = (run_experiment(Experiment(elements=5000, seed=seed, faults=FAULTS)).network for seed in (1, 2))
    assert [load.lost for load in one.links] != [load.lost for load in two.links]


def test_training_repeats_to_the_byte():
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn (pip install 'p4reduce[demo]')")
    experiment = Experiment(model="digits", epochs=1, workers=4)
    assert to_file(run_experiment(experiment)) == to_file(run_experiment(experiment))
