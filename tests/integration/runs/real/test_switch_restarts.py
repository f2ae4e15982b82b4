"""Switches that restart under a group in real time, on datagrams over loopback."""

import sys
import threading

import pytest

from p4reduce.group.errors import CollectiveError
from p4reduce.network.real.net.state import RunFolder
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.real.session import ScriptCluster
from tests.support.kills.invariants import check
from tests.support.kills.played import read, results

OPERATIONS, ELEMENTS, SEED = 30, 700, 5


def play(folder, restart, *, topology="star:hosts=3", ranks=3, on_failure="shrink", plan="steiner"):
    """Run ranks in processes, switches and coordinator here; ``restart(cluster)`` is called between two results."""
    given = {"topology": topology, "time": "real", "links": "udp", "lanes": 64, "plan": plan, "workers": ranks}
    command = [sys.executable, "-m", "tests.support.kills.played", str(folder), str(SEED), str(OPERATIONS)]
    lines, began = [], threading.Event()
    with RunFolder() as run:
        script = {"command": [*command, str(ELEMENTS)], "timeout_s": 100, "aside": str(run.aside())}
        script["environment"] = {**run.environment, "PAUSE_S": "0.02"}
        experiment = Experiment(**given, on_failure=on_failure)
        with ScriptCluster(experiment, run.logs, run.name, lines.append, script) as cluster:

            def strike():
                while results(folder, 0) < OPERATIONS // 3 and not began.wait(0.01):
                    pass
                restart(cluster)

            thread = threading.Thread(target=strike)
            thread.start()
            try:
                assert cluster.wait() is None, lines
            finally:
                began.set()
                thread.join()
            return cluster, read(folder, ranks), lines


def begins_anew(*switches):
    def restart(cluster):
        for switch in switches:
            node = cluster.topology.node(switch)
            cluster.target.host.server.restart(node.index + 1)

    return restart


@pytest.mark.parametrize(
    ("topology", "plan", "switches"),
    [
        pytest.param("star:hosts=3", "steiner", ["s1"], marks=pytest.mark.soak),
        ("leaf-spine:leaves=2,spines=2,hosts=2", "steiner", ["leaf1", "spine1", "spine2"]),
        pytest.param("star:hosts=3", "ring", ["s1"], marks=pytest.mark.soak),
    ],
)
def test_all_go_on_in_a_new_epoch_with_exact_sums(tmp_path, topology, plan, switches):
    cluster, got, lines = play(tmp_path, begins_anew(*switches), topology=topology, plan=plan)
    check(got, {0, 1, 2}, SEED, OPERATIONS, ELEMENTS)
    assert not any(own.changes for own in got.values())  # no member is told
    assert not any("Traceback" in str(line) for line in lines)
    assert cluster.decisions
    epochs = [one.epoch for one in cluster.decisions]
    assert epochs == sorted({*epochs})
    assert cluster.job.plan.epoch == epochs[-1] > 0
    assert all("began anew" in one.cause and one.after == (0, 1, 2) for one in cluster.decisions)


@pytest.mark.soak
def test_with_abort_all_end_with_an_error_that_names_it(tmp_path):
    with pytest.raises(CollectiveError, match="its tree is lost: switch s1 began anew"):
        play(tmp_path, begins_anew("s1"), on_failure="abort")
