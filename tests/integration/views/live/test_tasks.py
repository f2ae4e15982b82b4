"""Orchestrated tasks on a live page: paused, stepped, watched by another client, ended by Ctrl-C."""

import json
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from p4reduce.cli.main import app
from p4reduce.control_plane.orchestrator import Store, TaskState
from p4reduce.topologies import save
from tests.support.live import LONG_S, ask, ended, started, stayed, ticks
from tests.support.orchestrated.bench import some_tasks, two_spines

FAST = ("-l", "64", "--control-latency", "10us")


@pytest.fixture
def folder():
    """A short path, as a Unix socket's path has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="p4r-") as name:
        save(two_spines(), Path(name) / "network.yaml")
        with Store(Path(name) / "tasks.sqlite") as store:
            store.submit(some_tasks())
        yield Path(name)


def flags_of(folder):
    return ("-d", str(folder / "tasks.sqlite"), "-t", str(folder / "network.yaml"), *FAST)


def orchestrated(folder, *arguments):
    return started("orchestrate", *flags_of(folder), "--live", *arguments)


def view(port, token, time="now"):
    return ask(port, token, f"/api/view?time={time}")


def step(port, token, time_ps):
    """Let a time pass; return the view then. The stream's ticks tell when time is paused."""
    wanted = view(port, token)["time_ps"] + time_ps
    ask(port, token, "/api/run", {"action": "step", "value": time_ps})
    while (found := view(port, token))["time_ps"] < wanted:
        pass
    return found


def test_tasks_are_held_stepped_and_shown_to_their_end(folder):
    process, port, token = orchestrated(folder, "--hold", "--json")
    first = view(port, token)
    assert (first["time_ps"], first["events"]) == (0, 0)
    assert {task["rounds_done"] for task in first["tasks"]} == {0}
    # another client gets the same page; the network answers although its time is paused
    watched = CliRunner().invoke(app, ["watch", str(folder / "tasks.sqlite"), "--json"])
    assert json.loads(watched.stdout)["url"] == f"http://127.0.0.1:{port}/?token={token}"
    assert view(port, token)["time_ps"] == 0, "who looks has time pass"
    later = step(port, token, 50_000_000)
    assert later["time_ps"] < 60_000_000
    while not (working := [task for task in later["tasks"] if task["state"] == "running"]):
        later = view(port, token)  # the orchestrator has not written it yet
    assert {job["key"] for job in ask(port, token, "/api/scene")["jobs"]} >= {task["jobs"][0] for task in working}
    ask(port, token, "/api/run", {"action": "go"})
    stayed(process)
    last = view(port, token)
    assert {task["state"] for task in last["tasks"]} == {"finished"}
    assert all(task["rounds_done"] == task["rounds"] for task in last["tasks"])
    before = view(port, token, later["time_ps"])
    assert [task["state"] for task in before["tasks"]] == [task["state"] for task in later["tasks"]]
    assert [task["rounds_done"] for task in before["tasks"]] == [task["rounds_done"] for task in later["tasks"]]
    code, out, _ = ended(process, signal.SIGINT)
    assert code == 0
    assert {task["state"] for task in json.loads(out)} == {"finished"}
    assert {path.name for path in folder.iterdir()} == {"network.yaml", "tasks.sqlite"}


def test_the_page_of_a_kept_network_goes_on_with_the_next_orchestrator(folder):
    process, port, token = orchestrated(folder, "--keep")
    stayed(process)
    assert view(port, token)["time_ps"] > 0
    assert next(ticks(port, token))["says"] == "all tasks have ended"
    assert ended(process, signal.SIGINT)[0] == 0
    with Store(folder / "tasks.sqlite") as store:
        store.submit([replace(one, name=f"{one.name} again") for one in some_tasks()])
    process, *again = orchestrated(folder, "--hold")
    assert again == [port, token]
    tick = next(ticks(port, token))
    assert (tick["state"], tick["says"], tick["controls"]) == ("paused", "", True)
    ask(port, token, "/api/run", {"action": "go"})
    stayed(process)
    assert {task["state"] for task in view(port, token)["tasks"]} == {"finished"}
    assert ended(process, signal.SIGINT)[0] == 0
    assert {path.name for path in folder.iterdir()} == {"network.yaml", "tasks.sqlite"}


@pytest.mark.parametrize("live", [True, False])
def test_a_kept_network_that_was_held_goes_on_with_the_next_orchestrator(folder, live):
    process, port, token = orchestrated(folder, "--keep", "--hold")
    assert ended(process, signal.SIGINT)[0] == 130
    if live:
        process, *again = orchestrated(folder, "--json")
        assert again == [port, token]
        stayed(process)
        code, out, _ = ended(process, signal.SIGINT)
        assert code == 0
    else:
        out = CliRunner().invoke(app, ["orchestrate", *flags_of(folder), "--json"]).stdout
    assert {task["state"] for task in json.loads(out)} == {"finished"}


def test_ctrl_c_ends_a_held_network_too(folder):
    process, port, token = orchestrated(folder, "--hold")
    assert view(port, token)["time_ps"] == 0
    code, out, error = ended(process, signal.SIGINT)
    assert (code, out) == (130, ""), error
    assert "Traceback" not in error
    assert {path.name for path in folder.iterdir()} == {"network.yaml", "tasks.sqlite"}
    with Store(folder / "tasks.sqlite") as store:
        assert not {row.state for row in store.tasks()} & {TaskState.FINISHED, TaskState.FAILED}


def test_what_cannot_be_watched(folder):
    done = CliRunner().invoke(app, ["watch", str(folder / "tasks.sqlite")])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "p4reduce orchestrate" in done.stderr
    done = CliRunner().invoke(app, ["orchestrate", "-d", str(folder / "tasks.sqlite"), "--hold"])
    assert done.exit_code == 2


@pytest.mark.soak
def test_whoever_looks_changes_nothing_of_the_tasks(folder):
    flags = (*flags_of(folder), "--json")
    other = folder / "other.sqlite"
    with Store(other) as store:
        store.submit(some_tasks())
    process, port, token = orchestrated(folder, "--json")
    stayed(process)
    assert view(port, token)["events"] > 0
    _, seen, _ = ended(process, signal.SIGINT)
    alone = subprocess.run(
        [sys.executable, "-m", "p4reduce.cli.entry", "orchestrate", "-d", str(other), *flags[2:]],
        capture_output=True,
        text=True,
        check=True,
        timeout=LONG_S,
    )
    assert json.loads(seen) == json.loads(alone.stdout)
