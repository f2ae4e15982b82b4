"""Worker processes and embedded switches joined by UDP sockets, without root: equal bytes as in virtual time."""

import os
import signal
import subprocess
import sys

import pytest

from p4reduce.group.errors import ClusterError
from p4reduce.network.real.net.state import all_runs, remove_stale
from p4reduce.runs.experiment import Experiment, ExperimentError
from p4reduce.runs.real.carry import RealCluster, result
from p4reduce.runs.real.session import carry_out
from p4reduce.runs.runner import run_experiment
from tests.support.effort import first_of
from tests.support.real import leftovers, same

TOPOLOGY = "star:hosts=2"
SERVED = "star:hosts=2,servers=1"
SMALL = {"topology": TOPOLOGY, "lanes": 64, "elements": 3000, "repeat": 2, "seed": 5, "time": "real", "links": "udp"}
FAULTS = {"loss": 0.02, "duplicate": 0.02, "reorder": 0.02}


def quiet(label: str, done: int, total: int) -> None:
    """Progress callback that does nothing."""


def carried_out(experiment, folder, progress=quiet):
    """Return the result of a run whose switches are threads of this process."""
    with RealCluster(experiment, folder, "test", progress, None) as cluster:
        carry_out(cluster)
        return result(cluster, {})


@pytest.mark.parametrize(
    ("plan", "faults", "width"),
    [
        ("steiner", FAULTS, {}),
        ("ring", {}, {}),
        ("steiner", FAULTS, {"lane_bits": 8, "coarse": True}),
        ("halving-doubling", FAULTS, {}),
    ],
)
def test_sums_over_datagrams_equal_those_of_virtual_time(plan, faults, width, tmp_path):
    real = carried_out(Experiment(**SMALL, **width, plan=plan, faults=faults), tmp_path)
    virtual = run_experiment(Experiment(**{**SMALL, **width, "time": "virtual", "links": "veth"}, plan=plan))
    assert real.network.result_sha256 == virtual.network.result_sha256
    assert real.network.prediction_differences == []
    assert real.real is not None
    if faults:
        assert real.real.lost > 0
        assert sum(record.resends for record in real.network.collectives) > 0
    else:
        assert same.first_sent(real.network) == same.first_sent(virtual.network)


@pytest.mark.parametrize(
    ("collective", "plan", "faults"),
    [
        ("push", "steiner", FAULTS),
        ("pull", "ps", {}),
        ("push_pull", "spt", FAULTS),
        ("broadcast", "ring", {}),
    ],
)
def test_other_collectives_over_datagrams(collective, plan, faults, tmp_path):
    given = {**SMALL, "topology": SERVED, "plan": plan, "collective": collective}
    real = carried_out(Experiment(**given, faults=faults), tmp_path).network
    virtual = run_experiment(Experiment(**{**given, "time": "virtual"})).network
    assert (real.plan, real.result_sha256) == (virtual.plan, virtual.result_sha256)
    assert real.prediction_differences == []
    if not faults:
        assert same.first_sent(real) == same.first_sent(virtual)


@pytest.mark.parametrize(
    ("plan", "collective", "faults"),
    first_of([("spt", "push_pull", {}), ("steiner", "all_reduce", {"loss": 0.01}), ("ps", "all_reduce", {})]),
)
def test_training_over_datagrams_ends_with_the_weights_of_virtual_time(plan, collective, faults, tmp_path):
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn (pip install 'p4reduce[demo]')")
    given = {
        "topology": SERVED,
        "plan": plan,
        "collective": collective,
        "model": "digits",
        "epochs": 1,
        "seed": 5,
        "target_accuracy": 0.5,
    }
    told = []

    def note(*progress):
        told.append(progress)

    real = carried_out(Experiment(**given, time="real", links="udp", faults=faults), tmp_path, note)
    virtual = run_experiment(Experiment(**given))
    same.training(real.training, virtual.training)
    assert real.training.time_to_target_s > 0
    assert real.network.prediction_differences == []
    # As in virtual time: the training's result has the digests.
    assert (real.network.result_sha256, virtual.network.result_sha256) == ("", "")
    assert [record.elements for record in real.network.collectives] == [
        record.elements for record in virtual.network.collectives
    ]
    assert (real.real.lost > 0) == bool(faults)
    total = len(real.network.collectives)
    assert told[-total - 1 :] == [(f"{plan}: training", done, total) for done in range(total + 1)]


def test_a_worker_that_dies_ends_the_run_with_its_name(tmp_path):
    with RealCluster(Experiment(**SMALL), tmp_path, "test", quiet, None) as cluster:
        pids = cluster.group.pids()
        os.kill(pids["h2"], signal.SIGKILL)
        with pytest.raises(ClusterError, match=r"worker h2 \(process \d+\) ended with signal 9"):
            carry_out(cluster)
    for pid in pids.values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"collective": "push"}, "push needs a topology with a server"),
        ({"model": "digits", "collective": "push", "topology": SERVED}, "collective: push cannot train"),
        ({"model": "digits", "collective": "push_pull"}, "push_pull needs a topology with a server"),
        ({"lane_bits": 8}, "lane_bits: 8 leaves 5 bits for the number of each of 2 workers"),
    ],
)
def test_what_real_time_cannot_do_is_said_before_anything_starts(given, message, tmp_path):
    with pytest.raises(ExperimentError, match=message):
        RealCluster(Experiment(**{**SMALL, **given}), tmp_path, "test", quiet, None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("phase", "given"),
    first_of([("all_reduce", {}), ("switches", {}), ("training", {"model": "digits", "epochs": 1})]),
)
def test_a_killed_run_leaves_nothing_behind(phase, given, tmp_path, monkeypatch):
    if given:
        pytest.importorskip("sklearn", reason="the digits come with scikit-learn (pip install 'p4reduce[demo]')")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    experiment = Experiment(**SMALL, **given).model_dump_json()
    command = [sys.executable, "-m", "tests.support.real.killed", experiment, phase, str(int(signal.SIGKILL))]
    done = subprocess.run(command, capture_output=True, timeout=300, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert leftovers.wait_until_gone(str(tmp_path)) == set()
    assert len(remove_stale().removed) == 1
    assert all_runs() == []
    assert [path.name for path in tmp_path.iterdir()] == ["p4reduce"]
