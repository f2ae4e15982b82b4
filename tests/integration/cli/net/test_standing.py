"""``p4reduce net``: a network persists between commands; nothing is left after 'down', or after a kill and 'clean'."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from p4reduce.base.errors import Failed
from p4reduce.cli.commands import net as standing
from p4reduce.cli.main import app
from p4reduce.network.real.bmv2 import find_bmv2
from p4reduce.network.real.net import state, why_not
from p4reduce.network.real.net.state import NetRun, carrying
from p4reduce.views.live.look import Look
from p4reduce.views.live.session import NotOffered

REASON = why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"no network namespaces: {REASON}")

DEADLINE_S = 240
PYTHON = (sys.executable, "-I", "-c")
RECEIVE = (
    "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 9500)); s.settimeout(200); "
    "print('ready', flush=True); print(*s.recvfrom(100))"
)
SEND = (
    "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 9500)); "
    "s.sendto(b'hello', ('10.0.0.2', 9500))"
)
FOR_EVER = "import signal; print('up', flush=True); signal.pause()"


def call(*arguments: str, code: int = 0) -> Result:
    """Run a command in this process, since starting a process costs more than the command."""
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code, result.stderr
    return result


def begin(*arguments: str) -> subprocess.Popen[str]:
    """Start a command in a new process: for commands that replace themselves by another program."""
    command = [sys.executable, "-m", "p4reduce.cli.entry", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def first_line(process: subprocess.Popen[str], stream: str = "stdout") -> str:
    pipe = getattr(process, stream)
    assert select.select([pipe], [], [], DEADLINE_S)[0], "it says nothing"
    line: str = pipe.readline()
    return line


def has_ended(pid: int) -> bool:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], DEADLINE_S)[0])
    finally:
        os.close(handle)


def run_of(name: str) -> NetRun:
    run = state.read(name)
    assert run is not None
    return run


def nothing_is_left(run: NetRun) -> None:
    assert has_ended(run.owner.pid)
    assert carrying(state.VARIABLE, run.word) == []
    assert not run.folder.exists()
    assert state.all_runs() == []


@pytest.fixture(scope="module", autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.setenv("P4REDUCE_CLIENTS", str(tmp_path_factory.mktemp("clients")))
        yield
        state.remove_stale(also_alive=True)


def is_seen(name: str) -> None:
    """Check that an observer finds the frame on its four possible directions, and slots without an owner."""
    view = state.view_of(lambda run: run.name == name)
    assert view is not None
    with Look(view) as look:
        moment = look.moment()
        carried = dict(zip(look.hops, moment.links.tolist(), strict=True))
        assert carried["h1", 1][0] >= 47
        assert carried["s1", 2][0] >= 47
        assert carried["s1", 2][4] == 0, "its relay lost nothing"
        assert moment.jobs == ()
        with pytest.raises(NotOffered, match="host"):
            look.ask("frames", node="s1", port=1)
        traced = look.ask("trace", node="h1", port=1, frame=bytes(60).hex())
        assert (traced["node"], traced["port"]) == ("s1", 1)
        with pytest.raises(NotOffered, match="no link"):
            look.ask("trace", node="h9", port=1, frame="00")
        assert look.ask("moment")["at_ns"] > 0, "who asks for nonsense may go on"
    for nonsense in (b"\0\0\0\4[1]]", b"\xff" * 64, b""):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as strange:
            strange.connect(str(view))
            strange.sendall(nonsense)
    Look(view).close()


def test_a_network_stands_until_it_is_taken_down(tmp_path: Path) -> None:
    shown = json.loads(call("net", "up", "star:hosts=2,rate=1G,delay=1ms", "--name", "lab", "--json").stdout)
    assert shown["hosts"]["h2"]["ip"] == "10.0.0.2"
    assert shown["switches"]["s1"]["interfaces"] == {"1": "s1-1", "2": "s1-2"}
    assert shown["relayed"]  # the delay is long enough to be simulated
    run = run_of("lab")
    assert [network["alive"] for network in json.loads(call("net", "list", "--json").stdout)] == [True]

    # Frames cross the network, and are captured at the switch's port.
    file = tmp_path / "out.pcap"
    tap = begin("net", "pcap", "s1", "2", "--count", "1", "--out", str(file))
    assert first_line(tap, "stderr").startswith("capturing at s1-2")
    receiver = begin("net", "exec", "h2", "--", *PYTHON, RECEIVE)
    assert first_line(receiver) == "ready\n"
    assert begin("net", "exec", "h1", *PYTHON, SEND).wait(DEADLINE_S) == 0
    assert receiver.communicate(timeout=DEADLINE_S)[0] == "b'hello' ('10.0.0.1', 9500)\n"
    assert tap.wait(DEADLINE_S) == 0
    is_seen("lab")
    from scapy.layers.inet import UDP
    from scapy.utils import rdpcap

    (frame,) = rdpcap(str(file))
    assert (frame.src, frame.dst) == ("02:00:0a:80:00:01", "02:00:0a:00:00:02")
    assert bytes(frame[UDP].payload)[:5] == b"hello"

    # Programs run beside the switches get the P4Runtime addresses; the exit code is the program's.
    ask = (
        "import os, socket; a = os.environ['P4RUNTIME_ADDRESS'].split(':'); "
        "socket.create_connection((a[0], int(a[1]))); raise SystemExit(7)"
    )
    assert begin("net", "exec", "s1", "--", *PYTHON, ask).wait(DEADLINE_S) == 7
    assert "no node 'h9': there are h1, h2, s1" in call("net", "exec", "h9", "true", code=2).stderr
    assert "no port 3: its ports are 1, 2" in call("net", "pcap", "s1", "3", code=2).stderr
    assert "'h1' is not a switch" in call("net", "shell", "h1", code=2).stderr
    assert "make clients" in call("net", "shell", "s1", code=1).stderr
    assert "a run named 'lab' is there already" in call("net", "up", "star:hosts=1", "--name", "lab", code=1).stderr

    # A program in a host ends with the network.
    program = begin("net", "exec", "h1", "--", *PYTHON, FOR_EVER)
    assert first_line(program) == "up\n"
    call("net", "down")
    assert program.wait(DEADLINE_S) == -signal.SIGKILL
    nothing_is_left(run)
    assert "no network is up" in call("net", "exec", "h1", "true", code=2).stderr


def test_no_file_has_a_name_that_a_kill_would_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    holder = [sys.executable, "-I", "-c", f"import os, sys; sys.exit(str(os.listdir({str(tmp_path)!r})))"]
    monkeypatch.setattr(standing, "enter_command", lambda argv, outlive: holder)
    with pytest.raises(Failed, match=r"the network did not come up:\n\[\]"):
        standing.bring_up("{}\n")


def test_after_a_kill_nothing_is_left_but_a_folder() -> None:
    call("net", "up", "star:hosts=1", "--name", "killed", "--empty")
    run = run_of("killed")
    program = begin("net", "exec", "h1", "--", *PYTHON, FOR_EVER)
    assert first_line(program) == "up\n"
    os.kill(run.owner.pid, signal.SIGKILL)
    assert has_ended(run.owner.pid)
    assert "killed: was killed" in call("net", "list").stdout
    assert json.loads(call("clean", "--json").stdout) == {"removed": ["killed"], "killed": 1, "alive": []}
    assert program.wait(DEADLINE_S) == -signal.SIGKILL
    nothing_is_left(run)


@pytest.mark.bmv2
@pytest.mark.skipif(find_bmv2() is None, reason="needs simple_switch_grpc")
def test_bmv2_switches_end_with_the_network() -> None:
    shown = json.loads(call("net", "up", "leaf-spine:leaves=2,spines=1,hosts=1", "--target", "bmv2", "--json").stdout)
    assert shown["name"] == "net-1"
    run = run_of("net-1")
    children = Path(f"/proc/{run.owner.pid}/task/{run.owner.pid}/children").read_text().split()
    assert len(children) == 3
    os.kill(run.owner.pid, signal.SIGKILL)
    assert all(has_ended(int(child)) for child in children)
    call("clean")
    nothing_is_left(run)
