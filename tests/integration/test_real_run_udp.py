"""Worker processes and embedded switches joined by UDP sockets, without root: the same bytes as in virtual time."""

import os
import signal
import subprocess
import sys

import pytest
from tests.real import leftovers

from p4reduce.cluster.errors import ClusterError
from p4reduce.cluster.experiment import Experiment, ExperimentError
from p4reduce.cluster.real.carry import RealCluster
from p4reduce.cluster.real.collect import result
from p4reduce.cluster.runner import run_experiment
from p4reduce.fabric.real.net.state import all_runs, remove_stale

TOPOLOGY = "star:hosts=2"
SMALL = {"topology": TOPOLOGY, "lanes": 64, "elements": 3000, "repeat": 2, "seed": 5, "time": "real", "links": "udp"}
FAULTS = {"loss": 0.02, "duplicate": 0.02, "reorder": 0.02}


def quiet(label: str, done: int, total: int) -> None:
    """Progress that nobody looks at."""


def carried_out(experiment, folder):
    """The result of a run whose switches are threads of this process."""
    with RealCluster(experiment, folder, "test", quiet, None) as cluster:
        cluster.move()
        return result(cluster, {})


@pytest.mark.parametrize(("plan", "faults"), [("steiner", FAULTS), ("ring", {})])
def test_sums_over_datagrams_equal_those_of_virtual_time(plan, faults, tmp_path):
    real = carried_out(Experiment(**SMALL, plan=plan, faults=faults), tmp_path)
    virtual = run_experiment(Experiment(**{**SMALL, "time": "virtual", "links": "veth"}, plan=plan))
    assert real.network.result_sha256 == virtual.network.result_sha256
    assert real.network.prediction_differences == []
    assert real.real is not None
    if faults:
        assert real.real.lost > 0
        assert sum(record.resends for record in real.network.collectives) > 0
    else:
        sent = {(load.node, load.port): load.first_frames for load in real.network.links}
        assert sent == {(load.node, load.port): load.first_frames for load in virtual.network.links}


def test_a_worker_that_dies_ends_the_run_with_its_name(tmp_path):
    with RealCluster(Experiment(**SMALL), tmp_path, "test", quiet, None) as cluster:
        pids = cluster.group.pids()
        os.kill(pids["h2"], signal.SIGKILL)
        with pytest.raises(ClusterError, match=r"worker h2 \(process \d+\) ended with signal 9"):
            cluster.move()
    for pid in pids.values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_what_real_time_cannot_do_is_said_before_anything_starts(tmp_path):
    with pytest.raises(ExperimentError, match="push needs a topology with a server"):
        RealCluster(Experiment(**SMALL, collective="push"), tmp_path, "test", quiet, None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("phase", ["switches", "all_reduce"])
def test_a_killed_run_leaves_nothing_behind(phase, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    experiment = Experiment(**SMALL).model_dump_json()
    command = [sys.executable, "-m", "tests.real.killed", experiment, phase, str(int(signal.SIGKILL))]
    done = subprocess.run(command, capture_output=True, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert leftovers.wait_until_gone(str(tmp_path)) == set()
    assert len(remove_stale().removed) == 1
    assert all_runs() == []
    assert [path.name for path in tmp_path.iterdir()] == ["p4reduce"]
