"""Worker processes in network namespaces, with embedded switches between veth pairs."""

import json
import subprocess
import sys

import pytest

from p4reduce.network.real.net import why_not
from p4reduce.network.real.net.state import all_runs
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.real.run import run_real
from p4reduce.runs.runner import run_experiment
from tests.support.real import rootless, same

pytestmark = pytest.mark.skipif(why_not() is not None, reason=f"no network namespaces here: {why_not()}")
TWO_LEVELS = {"topology": "leaf-spine:leaves=2,spines=1,hosts=1", "lanes": 64, "elements": 3000, "repeat": 2, "seed": 5}


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_sums_between_namespaces_equal_those_of_virtual_time():
    told = []
    real = run_real(Experiment(**TWO_LEVELS, time="real"), progress=lambda *progress: told.append(progress))
    virtual = run_experiment(Experiment(**TWO_LEVELS))
    assert real.network.result_sha256 == virtual.network.result_sha256
    assert real.network.prediction_differences == []
    assert told[-1] == ("best: all_reduce", 2, 2)
    assert real.network.plan == virtual.network.plan == "best (ring)"
    assert all_runs() == []


def test_training_between_namespaces_ends_with_the_weights_of_virtual_time():
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn (pip install 'p4reduce[demo]')")
    given = {"topology": "leaf-spine:leaves=2,spines=1,hosts=1", "plan": "mst", "model": "digits", "epochs": 1}
    real = run_real(Experiment(**given, time="real", faults={"loss": 0.01}))
    virtual = run_experiment(Experiment(**given))
    same.training(real.training, virtual.training)
    assert real.training.baseline_accuracy == virtual.training.baseline_accuracy
    assert real.network.prediction_differences == []


def test_a_run_without_root_gives_the_bytes_of_virtual_time(tmp_path):
    """The command in a user namespace, with a host-side server and relays: the most demanding kind of run."""
    if (reason := rootless.why_not()) is not None:
        pytest.skip(reason)
    given = {"topology": "star:hosts=2,servers=1,rate=200M", "plan": "ps", "lanes": 64, "elements": 3000, "seed": 5}
    flags = [part for name, value in given.items() for part in (f"--{name}", str(value))]
    argv = [sys.executable, "-m", "p4reduce.cli.entry", "run", *flags, "--time", "real", "--loss", "0.01", "--json"]
    done = subprocess.run([*rootless.prefix(), *argv], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    real = json.loads(done.stdout)
    assert real["network"]["prediction_differences"] == []
    assert real["real"]["shaping"].startswith("kernel (tbf)")
    assert real["network"]["result_sha256"] == run_experiment(Experiment(**given)).network.result_sha256
    assert all_runs() == []
