"""Worker processes in network namespaces of their own, embedded switches between veth pairs."""

import pytest

from p4reduce.cluster.experiment import Experiment
from p4reduce.cluster.real.run import run_real
from p4reduce.cluster.runner import run_experiment
from p4reduce.fabric.real.net import why_not
from p4reduce.fabric.real.net.state import all_runs

pytestmark = pytest.mark.skipif(why_not() is not None, reason=f"no network namespaces here: {why_not()}")
TWO_LEVELS = {"topology": "leaf-spine:leaves=2,spines=1,hosts=1", "lanes": 64, "elements": 3000, "repeat": 2, "seed": 5}


def test_sums_between_namespaces_equal_those_of_virtual_time(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    told = []
    real = run_real(Experiment(**TWO_LEVELS, time="real"), progress=lambda *progress: told.append(progress))
    virtual = run_experiment(Experiment(**TWO_LEVELS))
    assert real.network.result_sha256 == virtual.network.result_sha256
    assert real.network.prediction_differences == []
    assert told[-1] == ("steiner: all_reduce", 2, 2)
    assert all_runs() == []
