"""The orchestrator in a separate process: killed with SIGKILL, refused, driven by the command line."""

import json
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from p4reduce.cli.main import app
from p4reduce.control_plane.orchestrator import PlanPhase, TaskState, write_trace
from p4reduce.group.errors import ClusterError
from p4reduce.play.tasks.service import OccupiedError, RemoteExecutor, join_network, log_of, start_network
from p4reduce.topologies import save
from tests.support.orchestrated.bench import (
    PS_PER_US,
    digests,
    open_store,
    rounds_of,
    some_tasks,
    two_spines,
    undisturbed,
)
from tests.support.orchestrated.starts import killed_once, serving
from tests.support.paths import ROOT

PATIENCE_S = 300


@pytest.fixture
def folder():
    """A short path, as a Unix socket's path has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="p4r-") as name:
        save(two_spines(), Path(name) / "network.yaml")
        yield Path(name)


@pytest.fixture
def network(folder):
    process = start_network(folder / "socket", str(folder / "network.yaml"), lanes=64)
    yield folder / "socket"
    if process.poll() is None:
        process.kill()
    process.wait(PATIENCE_S)


def victim(database, socket, steps):
    """Run an orchestrator; kill it after ``steps`` steps (None: let it end). Return its exit code."""
    command = [sys.executable, "-m", "tests.support.orchestrated.victim", str(database), str(socket)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for number, _ in enumerate(process.stdout, 1):
            if number == steps:
                process.kill()
                break
        process.stdout.read()
        return process.wait(PATIENCE_S)


@pytest.mark.soak  # test_kills.py has each step
def test_killed_for_good_at_random_moments(folder, network):
    expected = undisturbed(folder, some_tasks(), two_spines())
    database = folder / "tasks.sqlite"
    with open_store(database) as store:
        store.submit(some_tasks())
    with RemoteExecutor(network) as executor:
        executor.change_link("leaf1", "spine1", up=False, at_ps=48 * PS_PER_US)
    chance = random.Random(5)
    codes = [victim(database, network, steps) for steps in (1, chance.randint(2, 9), None)]
    assert codes[-1] == 0
    assert codes[0] == -9
    with open_store(database) as store:
        assert {row.state for row in store.tasks()} == {TaskState.FINISHED}
        assert digests(store) == expected
        rounds_of(store, {"first": 3, "second": 3})
        assert {plan.phase for plan in store.plans(tuple(PlanPhase))} == {PlanPhase.REMOVED}
        assert int(store.fact("term") or 0) == 3
    with RemoteExecutor(network) as executor:
        assert set(executor.running()) == {"first", "second"}, "a task was started under another name, or not at all"
        executor.end()
    deadline = time.monotonic() + PATIENCE_S
    while log_of(network).exists():  # ending is asynchronous
        assert time.monotonic() < deadline, log_of(network).read_text()
        time.sleep(0.01)


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_commands_submit_run_and_show(folder):
    write_trace(folder / "tasks.yaml", [replace(one, on_failure="shrink") for one in some_tasks()])
    database = folder / "tasks.sqlite"
    assert invoke("tasks", "submit", folder / "tasks.yaml", "-d", database).exit_code == 0
    flags = ("-d", database, "-t", folder / "network.yaml", "-l", "64", "--control-latency", "10us", "--json")
    ran = invoke("orchestrate", *flags, "--cut", "leaf1,spine1@48us", "--kill", "second/h4@80us", "--kill", "h6@1s")
    assert ran.exit_code == 0, ran.output
    listed = json.loads(invoke("tasks", "list", "-d", database, "--json").stdout)
    assert [(row["name"], row["state"]) for row in listed] == [("first", "finished"), ("second", "finished")]
    shown = json.loads(invoke("tasks", "show", "first", "-d", database, "--json").stdout)
    assert len(shown["rounds"]) == 3
    assert [change["after"] for change in shown["changes"]][:3] == ["queued", "scheduled", "running"]
    second = json.loads(invoke("tasks", "show", "second", "-d", database, "--json").stdout)
    assert (second["on_failure"], second["workers"], second["ranks"]) == ("shrink", ["h2", "h5"], [0, 2])
    assert second["rounds"][-1]["ranks"] == [0, 2]
    (swap,) = json.loads(invoke("tasks", "swaps", "-d", database, "--json").stdout)
    assert swap["cause"].startswith("link ")
    assert swap["resent_bytes"] > 0
    assert {path.name for path in folder.iterdir()} == {"network.yaml", "tasks.yaml", "tasks.sqlite"}
    again = invoke("tasks", "submit", folder / "tasks.yaml", "-d", database)
    assert again.exit_code == 2
    assert "there is such a task already" in again.output
    ended = invoke("tasks", "cancel", "first", "-d", database)
    assert (ended.exit_code, "is finished already" in ended.output) == (2, True)


def test_hosts_that_take_time_to_add_up_and_traffic_of_others_are_given_by_flags(folder):
    """Aggregation time is reported separately: one model from a tree, every model if the host aggregates."""
    (folder / "hosts.yaml").write_text("default: {add: 3ps}\nhosts: {server1: {add: 1ns}, h5: {slowdown: 4}}")
    database = folder / "tasks.sqlite"
    flags = ("-d", database, "-l", "64", "--control-latency", "10us", "--hosts", folder / "hosts.yaml", "--json")
    network = ("-t", folder / "network.yaml", "--background", "gravity:load=0.1,seed=1", "--keep")
    for policy, more in (("steiner", network), ("spff", ())):
        write_trace(folder / "tasks.yaml", [replace(one, name=f"{policy} {one.name}") for one in some_tasks(rounds=2)])
        assert invoke("tasks", "submit", folder / "tasks.yaml", "-d", database).exit_code == 0
        if policy == "spff":
            other = invoke("orchestrate", *flags, "--background", "gravity:load=0.2,seed=1")
            assert (other.exit_code, "runs with gravity:load=0.1,seed=1" in other.output) == (2, True)
        ran = invoke("orchestrate", *flags, *more, "-p", policy)
        assert ran.exit_code == 0, ran.output
    for name, training_ps, add_ps in (("first", 20 * PS_PER_US, 1000), ("second", 10 * PS_PER_US, 3)):
        for policy, arriving in (("steiner", 1), ("spff", 3)):
            shown = json.loads(invoke("tasks", "show", f"{policy} {name}", "-d", database, "--json").stdout)
            assert {one["aggregation_ps"] for one in shown["rounds"]} == {arriving * 4000 * add_ps}
            (decision,) = [one["why"] for one in shown["decisions"] if one["what"] == "schedule"]
            assert decision["aggregation_ps"] == arriving * 4000 * add_ps
            # h5 trains for both tasks if they run at the same time.
            assert shown["rounds"][0]["training_ps"] in (4 * training_ps, 8 * training_ps)
    told = invoke("tasks", "show", "spff first", "-d", database).output
    assert "aggregation" in told
    assert "12 us" in told


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("tasks", "list", "-d", "none.sqlite"), "--database: none.sqlite: there is no such file"),
        (("orchestrate", "-p", "best"), "there is no policy 'best'"),
        (("orchestrate", "-l", "65"), "--lanes: '65' is none of 64, 256"),
        (("orchestrate", "--cut", "leaf1@5ms"), "--cut: 'leaf1@5ms': expected two nodes and a time"),
        (("orchestrate", "--cut", "a,b@5"), "--cut: "),
        (("orchestrate", "--kill", "h1"), "--kill: 'h1': expected a host and a time"),
        (("orchestrate", "--kill", "task1/@5ms"), "--kill: 'task1/@5ms': expected a host and a time"),
        (("orchestrate", "-t", "leaf-spine-8", "--kill", "leaf1@5ms"), "--kill: 'leaf1' is not a host"),
        (("orchestrate", "--measure", "0ps"), "--measure: 0ps is too short"),
        (("orchestrate", "--hosts", "none.yaml"), "--hosts: none.yaml: No such file or directory; give a YAML file"),
        (("orchestrate", "--hosts", "h9.yaml", "-t", "network.yaml"), "--hosts: h9.yaml: hosts.h9: topology "),
        (("orchestrate", "--background", "gravity:load=2"), "--background: load: 2 is not between 0 and 1"),
        (("orchestrate", "--background", "gravity:load=0.95", "-t", "network.yaml"), "more than its bursts"),
        (("orchestrate", "--background", "sndlib:load=0.1,graph=x", "-t", "network.yaml"), "topohub has no 'x'"),
        (("orchestrate",), "--topology: no network runs at"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(folder, monkeypatch, arguments, complaint):
    monkeypatch.chdir(folder)
    open_store(folder / "tasks.sqlite").close()
    (folder / "h9.yaml").write_text("hosts: {h9: {}}")
    refused = invoke(*arguments)
    assert refused.exit_code == 2, refused.output
    assert complaint in refused.output


def test_a_network_that_cannot_be_started_says_why(folder):
    with pytest.raises(ClusterError, match=r"the network could not be started: .*none\.yaml: there is no such file"):
        start_network(folder / "socket", str(folder / "none.yaml"), lanes=64)
    with pytest.raises(ClusterError, match="no network answers there"):
        RemoteExecutor(folder / "socket")


def test_who_starts_a_network_may_be_killed_meanwhile(folder):
    """The process that it started holds the socket's lock until it notices that its starter is gone."""

    def until_locked(process, socket):
        deadline = time.monotonic() + PATIENCE_S
        while not serving(socket):
            assert process.poll() is None, "it has ended"
            assert time.monotonic() < deadline
            time.sleep(0.01)

    fault, orphaned = killed_once(folder, until_locked)
    assert not fault
    assert orphaned, "the kill came too late"


def test_one_socket_has_one_network(folder, network):
    with pytest.raises(OccupiedError, match="another network is there"):
        start_network(network, str(folder / "network.yaml"), lanes=64)
    with join_network(network, "none", lanes=64) as executor:  # one is running already, so none is started
        executor.end()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("tasks: [", "tasks.yaml"),
        ("tasks: [{name: a, server: server1, workers: [h1], elements: 0}]", "elements"),
        ("tasks: [{name: a, server: h2, workers: [h1], elements: 9}]", "there is such a task already"),
    ],
)
def test_a_refused_command_leaves_no_database(folder, text, complaint):
    (folder / "tasks.yaml").write_text(text)
    before = set(folder.iterdir())
    twice = [folder / "tasks.yaml"] * 2
    refused = invoke("tasks", "submit", *twice, "-d", folder / "new.sqlite")
    assert (refused.exit_code, complaint in refused.output) == (2, True), refused.output
    assert invoke("orchestrate", "-d", folder / "new.sqlite", "-t", folder / "network.yaml").exit_code == 2
    assert set(folder.iterdir()) == before
