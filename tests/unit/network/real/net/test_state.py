"""Folders of runs: claimed, refused, found stale after a kill; only leftovers of a dead run are removed."""

import io
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from p4reduce.base.errors import RealError
from p4reduce.base.records import to_plain
from p4reduce.network.real.net import state
from tests.support.machines import eventually

DEADLINE_S = 120
HOLDER = """
import signal, subprocess, sys
sys.path[:0] = {path!r}
from p4reduce.network.real.net.state import RunFolder
folder = RunFolder({name!r}, kind="net")
child = subprocess.Popen(
    ["sleep", "1000"], env=folder.environment, start_new_session=True, stdout=subprocess.DEVNULL
)
folder.note(child=child.pid)
print(folder.name, child.pid, flush=True)
signal.pause()
"""


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


@pytest.fixture
def killed_run() -> tuple[str, int]:
    """A killed run, and a process that outlived it."""
    code = HOLDER.format(path=sys.path, name="broken")
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    name, child = holder.stdout.readline().split()
    holder.kill()
    holder.wait()
    return name, int(child)


def ended(pid: int) -> bool:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], DEADLINE_S)[0])
    finally:
        os.close(handle)


def test_a_folder_is_there_while_its_run_is() -> None:
    with state.RunFolder("mine") as folder:
        folder.note(switches={"s1": 1})
        run = state.read("mine")
        assert run is not None
        assert run.alive
        assert run.info == {"switches": {"s1": 1}}
        assert run.owner.pid == os.getpid()
        assert folder.logs.is_dir()
        assert [run.name for run in state.all_runs()] == ["mine"]
    assert state.all_runs() == []
    assert sorted(path.name for path in state.runs_folder().iterdir()) == [".lock"]


def test_what_left_its_session_ends_with_its_run() -> None:
    with state.RunFolder() as folder:
        own, other = (
            subprocess.Popen(["sleep", "1000"], env=environment, start_new_session=True)
            for environment in (folder.environment, {})
        )
    try:
        assert own.wait(DEADLINE_S) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        for process in (own, other):
            process.kill()
            process.wait()


def test_a_file_elsewhere_is_removed_only_if_it_is_the_runs_own(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for path, is_own in ((own, True), (other, False), (tmp_path / "none", False)):
        with state.RunFolder() as folder:
            folder.note_secret(path)
            if path.name != "none":
                path.write_text(f'{{"start": "{folder.mark if is_own else "0" * 16}"}}')
            assert path.name == "none" or path.exists()
    assert (own.exists(), other.exists()) == (False, True)


def test_names_are_given_out_one_after_the_other() -> None:
    with state.RunFolder() as one, state.RunFolder(kind="net") as net, state.RunFolder() as two:
        assert (one.name, two.name, net.name) == ("run-1", "run-2", "net-1")


def test_a_name_in_use_is_refused() -> None:
    with state.RunFolder("mine"):
        with pytest.raises(RealError, match="'mine' is there already"):
            state.RunFolder("mine")
        assert state.read("mine") is not None


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a b", "x" * 65, "-x"])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(RealError, match="is no name"):
        state.RunFolder(name)


def test_cleaning_ends_what_a_killed_run_left(killed_run: tuple[str, int]) -> None:
    name, child = killed_run
    run = state.read(name)
    assert run is not None
    assert not run.alive
    with state.RunFolder("other"):
        cleaned = state.remove_stale()
        assert cleaned == state.Cleaned((name,), 1, ("other",))
        assert ended(child)
        assert [run.name for run in state.all_runs()] == ["other"]


def test_a_stale_name_is_taken_over(killed_run: tuple[str, int]) -> None:
    name, child = killed_run
    with state.RunFolder(name):
        assert ended(child)
        run = state.read(name)
        assert run is not None
        assert run.alive


def test_live_runs_are_ended_only_when_asked() -> None:
    code = HOLDER.format(path=sys.path, name="live")
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    child = int(holder.stdout.readline().split()[1])
    assert state.remove_stale().alive == ("live",)
    assert holder.poll() is None
    assert state.remove_stale(also_alive=True) == state.Cleaned(("live",), 2, ())
    assert holder.wait(DEADLINE_S) == -signal.SIGKILL
    assert ended(child)


RECORD = to_plain(state.RunRecord("net", "ab", state.NetProcess(1, 1, "b"), {}))


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        json.dumps({name: value for name, value in RECORD.items() if name != "info"}).encode(),
        json.dumps({**RECORD, "owner": {**RECORD["owner"], "pid": "1"}}).encode(),
        json.dumps({**RECORD, "more": 1}).encode(),
    ],
    ids=["cut", "list", "bytes", "deep", "without-info", "pid-as-text", "unknown-field"],
)
def test_a_broken_record_is_stale(text: bytes) -> None:
    folder = state.runs_folder() / "odd"
    folder.mkdir(parents=True)
    (folder / "run.json").write_bytes(text)
    assert state.read("odd") is None
    (state.runs_folder() / ".new-x").mkdir()
    assert state.remove_stale() == state.Cleaned(("odd",), 0, ())
    assert [path.name for path in state.runs_folder().iterdir()] == [".lock"]


def test_a_number_used_again_is_another_process() -> None:
    me = state.identify(os.getpid())
    assert me is not None
    assert me.alive
    for other in (
        state.NetProcess(me.pid, me.started + 1, me.boot),
        state.NetProcess(me.pid, me.started, "another boot"),
    ):
        assert not other.alive
        assert not state.kill(other)


def test_a_process_that_has_ended_is_gone_before_it_is_waited_for() -> None:
    child = subprocess.Popen(["sleep", "1000"])
    process = state.identify(child.pid)
    assert process is not None
    assert state.kill(process)
    assert not process.alive
    assert state.identify(child.pid) is None
    child.wait()


def test_runs_of_another_machine_with_the_same_home_are_left_alone(monkeypatch):
    with state.RunFolder("here") as here:
        (here.path.parent / f"{state._NEW}999999999-gone").mkdir()
        monkeypatch.setattr(state.socket, "gethostname", lambda: "other")
        (here.path.parent / f"{state._NEW}999999999-@here-gone").mkdir()
        monkeypatch.setattr(state.NetProcess, "alive", property(lambda _: False))  # recorded before a reboot
        assert state.remove_stale(also_alive=True) == state.Cleaned((), 0, ("here",))
        assert here.path.is_dir()
        with pytest.raises(RealError, match="a run named 'here' is there already"):
            state.RunFolder("here")
        assert [path.name for path in here.path.parent.glob(f"{state._NEW}*")] == [f"{state._NEW}999999999-@here-gone"]


def test_a_guardian_waits_until_its_owner_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner's pipe closes before the owner has ended, so it would still count as alive."""
    stays = (
        f"import sys; from {state.__name__} import RunFolder; own = RunFolder(); print(flush=True); sys.stdin.read()"
    )
    wait = select.select
    with subprocess.Popen([sys.executable, "-c", stays], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        owner.stdout.readline()

        def ends(*waits: Any) -> Any:
            owner.kill()
            return wait(*waits)

        with monkeypatch.context() as patch:
            patch.setattr(select, "select", ends)
            patch.setattr(sys, "stdin", io.StringIO())
            state.guard(owner.pid)
    assert [path.name for path in state.runs_folder().iterdir()] == [".lock"]


AGENT = """
import os, sys
sys.path[:0] = {path!r}
from p4reduce.network.real.net import state
from p4reduce.runs import agent
state.RunFolder.remove = lambda self: os.kill(os.getpid(), 9)
agent.main()
"""


def gone() -> bool:
    return eventually(lambda: state.all_runs() == [], DEADLINE_S)


def test_an_agent_that_is_killed_while_it_removes_its_folder_leaves_none() -> None:
    command = [sys.executable, "-c", AGENT.format(path=sys.path)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
    assert done.returncode == -signal.SIGKILL
    assert gone()


def test_a_guardian_is_no_process_of_the_run_in_which_its_owner_was_started() -> None:
    outer = {**os.environ, state.VARIABLE: "0123456789abcdef"}
    command = [sys.executable, "-m", "p4reduce.runs.agent"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=outer, **pipes) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        assert agent.stdout.readline()  # it serves, so its folder and its guardian are there
        assert len(state.all_runs()) == 1
        processes = state.carrying(state.VARIABLE, outer[state.VARIABLE])
        assert [process.pid for process in processes] == [agent.pid]
        assert [state.kill(process) for process in processes] == [True]
    assert gone()
