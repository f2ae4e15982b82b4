"""Scripts on BMv2: every collective, deaths of members that aggregate for others, two runs at once.

Run by ``make bmv2-test``.
"""

import json
import os
import subprocess
import sys

import pytest

from p4reduce.network.real.bmv2 import find_bmv2
from p4reduce.network.real.net import why_not
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.jobs import FIRST_OWNER_JOB, FIRST_TREE_JOB
from p4reduce.runs.real.run import run_script
from p4reduce.runs.runner import run_experiment
from p4reduce.runs.virtual.cluster import Cluster
from tests.support.kills.invariants import check
from tests.support.kills.played import read
from tests.support.real.collectives import every

pytestmark = [
    pytest.mark.bmv2,
    pytest.mark.skipif(find_bmv2() is None, reason="needs simple_switch_grpc"),
    pytest.mark.skipif(why_not() is not None, reason="needs network namespaces"),
]
TWO_LEVELS = "leaf-spine:leaves=2,spines=1,hosts=2"
HOSTS = "star:hosts=4,capable=none"
PARTIAL = "leaf-spine:leaves=2,spines=2,hosts=3,capable=leaf1"
"""network in which trees of ``packing`` aggregate at hosts, too"""
ON_BMV2 = {"target": "bmv2", "time": "real", "lanes": 64}
LOSS = {"loss": 0.01}
OPERATIONS, ELEMENTS, SEED = 24, 700, 5


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def scripted(experiment, *command, **environment):
    lines = {}
    done = run_script(
        experiment,
        [sys.executable, "-m", *command],
        emit=lambda rank, stream, line: lines.setdefault(rank, []).append(line),
        timeout_s=500,  # for a busy machine
        **environment,
    )
    assert done.result is not None, lines
    return done.result, lines


@pytest.mark.parametrize("faults", [{}, LOSS], ids=["clean", "loss"])
@pytest.mark.parametrize(("topology", "plan"), [(TWO_LEVELS, "steiner"), (HOSTS, "packing")])
def test_every_collective_of_a_script_gives_the_bytes_of_virtual_time(topology, plan, faults):
    """In virtual time, blocks of reduce-scatters and all-gathers use separate jobs; here one job carries all."""
    with Cluster(Experiment(topology=topology, plan=plan, lanes=64)) as cluster:
        expected = cluster.run_threads(every)
        by_owner = [job for job in cluster.carrier.jobs if FIRST_OWNER_JOB <= job.plan.job < FIRST_TREE_JOB]
        assert any(job.carried for job in by_owner) == (plan == "steiner")
    result, lines = scripted(
        Experiment(topology=topology, plan=plan, faults=faults, **ON_BMV2), "tests.support.real.collectives"
    )
    found = [[tuple(one) for one in json.loads(lines[rank][-1])] for rank in range(len(expected))]
    assert found == expected
    assert result.network.prediction_differences == []
    assert (result.real.lost > 0) == bool(faults)


@pytest.mark.parametrize("faults", [{}, LOSS], ids=["clean", "loss"])
@pytest.mark.parametrize(
    ("topology", "plan"),
    [(HOSTS, "halving-doubling"), (PARTIAL, "packing"), (TWO_LEVELS, "steiner")],
)
def test_the_others_go_on_without_one_that_is_killed(tmp_path, topology, plan, faults):
    """With plans of several trees, the killed member aggregates for others."""
    given = Experiment(topology=topology, plan=plan, on_failure="shrink", faults=faults, **ON_BMV2)
    with Cluster(given.model_copy(update={"target": "embedded", "time": "virtual"})) as cluster:
        size = cluster.size
        relays = {relay.name for tree in cluster.carrier._trees for relay in tree.plan.relays}
    killed = int(min(relays, default="h2")[1:]) - 1
    command = ("tests.support.kills.played", str(tmp_path), str(SEED), str(OPERATIONS), str(ELEMENTS))
    result, _ = scripted(given, *command, FAULTS=json.dumps({str(killed): {"8": "kill"}}))
    (decision,) = result.network.membership
    assert decision.lost == {killed: "ended with signal SIGKILL"}
    assert (relays != set()) == (plan != "steiner")
    check(read(tmp_path, size), set(range(size)) - {killed}, SEED, OPERATIONS, ELEMENTS, relays=plan != "steiner")


def test_two_runs_at_once_know_nothing_of_each_other():
    """Two runs of unequal sizes use ports and interfaces of the same names."""
    runs = []
    for plan, elements in (("packing", 9000), ("steiner", 700)):
        given = {"topology": PARTIAL, "plan": plan, "elements": elements, "lanes": 64, "repeat": 3, "seed": elements}
        flags = [part for name, value in given.items() for part in (f"--{name}", str(value))]
        command = [sys.executable, "-m", "p4reduce.cli.entry", "run", *flags, "--target", "bmv2", "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
        runs.append((Experiment(**given), process))
    ended = [(given, process.communicate(timeout=300), process.returncode) for given, process in runs]
    for given, (out, err), code in ended:
        assert code == 0, err
        network = json.loads(out)["network"]
        assert network["result_sha256"] == run_experiment(given).network.result_sha256
        assert network["prediction_differences"] == []
