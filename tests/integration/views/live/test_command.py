"""The ``--live`` option as seen by a user: output, side effects, and how it ends."""

import http.client
import json
import random
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from p4reduce.cli.main import app
from p4reduce.network.real.net import state
from tests.support.live import LONG_S, ask, ended, stands, started, stayed
from tests.unit.p4switch.trace.test_steps import PROGRAM

SMALL = ("--topology", "star:hosts=3,servers=1", "--elements", "20000", "--lanes", "64")


def test_the_run_is_the_same_and_its_page_stays_until_ctrl_c(tmp_path):
    process, port, token = started("run", *SMALL, "--live", "--json", "--out", str(tmp_path / "live"))
    stayed(process)
    assert ask(port, token, "/api/view?time=now")["time_ps"] > 0
    assert ask(port, token, "/api/scene")["jobs"]
    code, out, error = ended(process, signal.SIGINT)
    assert (code, error.strip()) == (0, "the page is closed")
    plain = subprocess.run(
        [sys.executable, "-m", "p4reduce.cli.entry", "run", *SMALL, "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert out == plain.stdout == (tmp_path / "live" / "result.json").read_text()
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection("127.0.0.1", port, timeout=LONG_S).connect()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.soak)]
)
def test_a_held_run_ends_at_once(number, code):
    process, port, token = started("run", *SMALL, "--live", "--hold")
    stands(port, token)
    found, out, error = ended(process, number)
    assert found == code, error
    assert "Traceback" not in error
    assert out == ""


@pytest.mark.soak
@pytest.mark.parametrize("command", [("run", *SMALL, "--live", "--hold"), ("run", *SMALL, "--time", "real", "--live")])
def test_ctrl_c_at_any_moment_of_the_start_leaves_nothing(command, tmp_path, monkeypatch):
    """Interrupt when the command opens its n-th file, at the latest when it binds its page."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    chance = random.Random(3)
    for opened in (chance.randint(1, 1500) for _ in range(10)):
        striking = STRIKING.format(opened=opened)
        done = subprocess.run(
            [sys.executable, "-c", striking, *command], capture_output=True, text=True, check=False, timeout=LONG_S
        )
        assert done.returncode == 130, (opened, done.stderr)
        assert "Traceback" not in done.stderr, (opened, done.stderr)
        assert state.all_runs() == []


STRIKING = """
import os, signal, sys
left = [{opened}]
def strike(event, arguments):
    if left and event in ("open", "socket.bind"):
        left[0] -= 1
        if left[0] <= 0 or event == "socket.bind":
            left.clear()
            os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(strike)
from p4reduce.cli import entry
entry.main()
"""


def test_what_belongs_together():
    for arguments in (("--hold",), ("--open",), ("--full-speed",), ("--live", "--time", "real", "--hold")):
        done = CliRunner().invoke(app, ["run", *SMALL, *arguments])
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.stderr
        assert "--hold" in done.stderr or "--live" in done.stderr, arguments


def test_a_playground_and_traces_are_served_until_ctrl_c(tmp_path):
    (tmp_path / "my.p4").write_text(PROGRAM)
    process, port, token = started("p4", "play", str(tmp_path / "my.p4"), "--json")
    texts = {one["which"]: one["text"] for one in ask(port, token, "/api/files")["files"]}
    assert texts["program"] == PROGRAM
    found = ask(port, token, "/api/try", {**texts, "packets": "4 000000000001 000000000009 1234 0103"})
    assert found["traces"][0]["steps"]
    code, out, error = ended(process, signal.SIGINT)
    assert (code, json.loads(out)["url"][:17]) == (0, "http://127.0.0.1:"), error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my.p4"]
    (tmp_path / "packets.txt").write_text("4 000000000001 000000000009 1234 0103\n1 00\n")
    process, port, token = started("trace", str(tmp_path / "my.p4"), "-p", str(tmp_path / "packets.txt"), "--page")
    assert len(ask(port, token, "/api/files")["result"]["traces"]) == 2
    assert ended(process, signal.SIGTERM)[0] == 143


@pytest.mark.soak
def test_a_script_is_shown_and_its_page_recorded(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np\nfrom p4reduce import connect\n"
        "comm = connect()\nfor _ in range(3): comm.all_reduce(np.ones(5000, np.float32))\n"
    )
    out = tmp_path / "out"
    process, port, token = started("launch", "-n", "4", "--live", "--out", str(out), str(script))
    stayed(process)
    shown = ask(port, token, "/api/view?time=now")
    assert ended(process, signal.SIGINT)[0] == 0
    process, port, token = started("watch", str(out))
    assert ask(port, token, "/api/view?time=now")["links"] == shown["links"]
    assert ended(process, signal.SIGINT)[0] == 0


@pytest.mark.soak
def test_a_script_that_fails_is_shown_too(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nimport numpy as np\nfrom p4reduce import connect\n"
        "comm = connect()\ncomm.all_reduce(np.ones(5000, np.float32))\nsys.exit(7 * (comm.rank == 1))\n"
    )
    process, port, token = started("launch", "-n", "2", "--live", str(script))
    stayed(process)
    assert ask(port, token, "/api/view?time=now")["events"] > 0
    assert ended(process, signal.SIGINT)[0] == 7


@pytest.mark.soak
def test_turns_over_a_cross_connect_are_shown(tmp_path):
    jobs = tmp_path / "jobs.yaml"
    jobs.write_text(CliRunner().invoke(app, ["example", "jobs"]).stdout)
    process, port, token = started("tdm", "run", str(jobs), "--live", "--scale", "2048", "--rounds", "1")
    stayed(process)
    scene, view = ask(port, token, "/api/scene"), ask(port, token, "/api/view?time=now")
    assert len(scene["links"]) == len(view["links"])
    assert len(scene["jobs"]) == 4
    assert ended(process, signal.SIGINT)[0] == 0
