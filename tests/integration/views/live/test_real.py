"""Real-time networks on a live page: a run over UDP sockets, a standing network, and features unavailable there."""

import json
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from p4reduce.cli.main import app
from p4reduce.network.real.net import state, why_not
from p4reduce.views.live import recording
from p4reduce.views.live.session import WantedView
from tests.support.live import LONG_S, ask, ended, started, stayed, ticks

SCRIPT = """
import sys
from pathlib import Path
import numpy as np
from p4reduce import connect
comm = connect()
while True:
    comm.all_reduce(np.ones(20_000, np.float32))
    stop = np.array([float(Path(sys.argv[1]).exists())], np.float32)
    comm.all_reduce(stop)
    if stop[0]:
        break
"""
LAUNCH = ("launch", "--time", "real", "--links", "udp", "-n", "2", "--topology", "star:hosts=2,servers=0")
FRAME = bytes.fromhex("02000a80000102000a0000010800") + b"\x45" + bytes(80)
in_namespaces = pytest.mark.skipif(bool(why_not()), reason=str(why_not()))


@pytest.fixture
def script(tmp_path, monkeypatch):
    """A script that runs until a file exists; only this test's runs are visible."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def until(port, token, condition):
    """Return the first view that satisfies a condition; the stream reports new moments."""
    for tick in ticks(port, token):
        assert tick["state"] in {"waiting", "running"}, tick
        if tick["count"] and condition(found := ask(port, token, "/api/view?time=now&switch=s1")):
            return found
    raise AssertionError("the page has ended")


def in_full_run(view):
    """Whether both workers are inside a collective, and the switch's slots and the links show it.

    The workers are separate processes: between two collectives, or before a worker's first, parts of this are false.
    """
    return (
        len(view["workers"]) == 2
        and all(worker["chunks"] > 0 for worker in view["workers"])
        and all(row[0] > 0 for row in view["links"])
        and sum(row[1] for row in view["links"]) > 0
        and any(row[2] != "free" for row in view["slots"]["rows"])
    )


def test_a_launch_in_real_time_is_seen_while_it_goes_on_and_afterwards(script, tmp_path):
    stop, out = tmp_path / "stop", tmp_path / "out"
    process, port, token = started(*LAUNCH, "--live", "--out", str(out), str(script), str(stop))
    moving = until(port, token, in_full_run)
    scene = ask(port, token, "/api/scene")
    assert [(job["plan"], job["switches"]) for job in scene["jobs"]] == [("best (steiner)", ["s1"])]
    by_link = {(one["from"], one["to"]): row for one, row in zip(scene["links"], moving["links"], strict=True)}
    assert set(by_link) == {("h1", "s1"), ("s1", "h1"), ("h2", "s1"), ("s1", "h2")}
    assert by_link["h1", "s1"][2] is None, "nobody counts a host's queue"
    assert by_link["s1", "h1"][2] is not None
    assert moving["slots"]["want"] == 2
    assert {worker["host"] for worker in moving["workers"]} == {"h1", "h2"}
    assert all(worker["window"] > 0 for worker in moving["workers"])
    later = until(port, token, lambda view: view["time_ps"] > moving["time_ps"])
    assert sum(row[0] for row in later["links"]) > sum(row[0] for row in moving["links"])
    # real time cannot be paused, and the page says so
    tick = next(ticks(port, token))
    assert (tick["clock"], tick["controls"]) == ("real", False)
    refused = ask(port, token, "/api/run", {"action": "pause"})["refused"]
    assert tick["why_no_controls"] == refused
    # datagrams between processes are not captured, but the switch's processing can be shown
    assert "veth" in ask(port, token, "/api/frames?node=h1&port=1")["refused"]
    traced = ask(port, token, "/api/trace", {"node": "h1", "port": 1, "frame": FRAME.hex()})
    assert (traced["node"], traced["port"]) == ("s1", 1)
    assert traced["steps"]
    # another client attaches, sees the same network, and does not change it
    watcher, other_port, other_token = started("watch")
    assert until(other_port, other_token, lambda view: len(view["workers"]) == 2)["slots"]
    stop.touch()
    stayed(process)
    assert "has ended" in next(ticks(port, token))["says"]
    assert ask(port, token, "/api/view?time=now")["time_ps"] >= later["time_ps"]
    assert any(tick["state"] == "ended" for tick in ticks(other_port, other_token))
    assert ended(watcher, signal.SIGINT)[0] == 0
    code, _, error = ended(process, signal.SIGINT)
    assert (code, "Traceback" in error) == (0, False)
    assert recording.read(out / recording.FILE).view(WantedView())["workers"]
    assert state.all_runs() == []


def test_what_is_not_there_is_not_watched(script):
    for arguments in (["watch"], ["watch", "run-1"]):
        done = CliRunner().invoke(app, arguments)
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.stderr
    done = CliRunner().invoke(app, [*LAUNCH, "--live", "--hold", str(script)])
    assert (done.exit_code, "--hold" in done.stderr) == (2, True)


SENDER = """
import socket, time
sender = socket.socket(type=socket.SOCK_DGRAM)
while True:
    sender.sendto(bytes(900), ("10.0.0.2", 9))
    time.sleep(0.002)
"""


@in_namespaces
@pytest.mark.soak
def test_a_standing_network_is_watched_and_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    command = [sys.executable, "-m", "p4reduce.cli.entry", "net"]
    process, port, token = started("net", "up", "star:hosts=2,servers=0,rate=1G", "--name", "seen", "--live")
    try:
        with subprocess.Popen([*command, "exec", "h1", "--", sys.executable, "-c", SENDER]) as sender:
            view = until(port, token, lambda view: min(view["links"][0][0], view["links"][3][0]) > 10_000)
            frame, *_ = ask(port, token, "/api/frames?node=h1&port=1")
            assert "→ 9, 10.0.0.1 → 10.0.0.2" in frame["says"]
            traced = ask(port, token, "/api/trace", {"node": "h1", "port": 1, "frame": frame["frame"]})
            assert "2" in traced["outcome"], "it leaves by port 2"
            sender.kill()
        assert (view["workers"], view["slots"]) == ([], None)
        assert "host" in ask(port, token, "/api/frames?node=s1&port=1")["refused"]
        assert ask(port, token, "/api/scene")["notes"]
        assert ended(process, signal.SIGINT)[0] == 0
        (run,) = state.all_runs()
        assert run.alive, "whoever looks away leaves the network alone"
        watcher, port, token = started("watch", "seen")
        until(port, token, lambda view: view["links"][0][0] > 10_000)
    finally:
        down = subprocess.run([*command, "down", "--all", "--json"], capture_output=True, check=True, timeout=LONG_S)
    assert json.loads(down.stdout) == {"down": ["seen"]}
    assert any(tick["state"] == "ended" for tick in ticks(port, token))
    assert ended(watcher, signal.SIGINT)[0] == 0
