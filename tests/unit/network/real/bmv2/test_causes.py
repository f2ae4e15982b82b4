"""Search for BMv2, and explanations why it did not start."""

import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from p4reduce.base.errors import RealError
from p4reduce.network.real import bmv2
from p4reduce.network.real.bmv2 import likely_cause

FAKE_DOCKER = """#!/bin/sh
# The image is this machine, with the folder of this script on its PATH.
case "$1" in
image) echo sha256:0123456789abcdef0123 ;;
run) while [ "$1" != -c ]; do shift; done; PATH="$(dirname "$0")/inside:$PATH" sh -c "$2" ;;
esac
"""


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder as the only one on PATH."""
    monkeypatch.delenv(bmv2.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def test_none_is_found_where_there_is_none(nowhere: Path) -> None:
    assert bmv2.find_bmv2() is None
    with pytest.raises(RealError, match=r"docs/bmv2\.md"):
        bmv2.need_bmv2()


def test_the_variable_comes_before_the_path(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = program(nowhere / bmv2.PROGRAM, "#!/bin/sh\necho 1.15.0-abc\n")
    found = bmv2.find_bmv2()
    assert found == bmv2.Bmv2((str(on_path),), str(on_path))
    assert found.version() == "1.15.0-abc"
    named = program(nowhere / "mine", "#!/bin/sh\nexit 1\n")
    monkeypatch.setenv(bmv2.VARIABLE, str(named))
    found = bmv2.find_bmv2()
    assert found == bmv2.Bmv2((str(named),), "$SIMPLE_SWITCH_GRPC")
    assert found.version() is None


@pytest.mark.parametrize(("options", "there"), [("--device-id --thrift-port", True), ("--device-id", False)])
def test_one_that_was_built_without_thrift_is_told_no_port_of_it(nowhere: Path, options: str, *, there: bool) -> None:
    switch = program(nowhere / bmv2.PROGRAM, f"#!/bin/sh\necho {options}\n")
    assert bmv2.Bmv2((str(switch),), "here").has("--thrift-port") is there


def test_why_there_is_none_for_other_machines_is_said(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "is not here: docs/bmv2.md" in str(bmv2.why_no_bmv2())
    switch = program(nowhere / bmv2.PROGRAM, "#!/bin/sh\necho --thrift-port\n")
    assert "has no --grpc-server-ssl" in str(bmv2.why_no_bmv2())
    switch.write_text("#!/bin/sh\necho --grpc-server-ssl\n")
    assert bmv2.why_no_bmv2() is None
    monkeypatch.setenv(bmv2.VARIABLE, "/no/such/switch")
    assert bmv2.why_no_bmv2() == "$SIMPLE_SWITCH_GRPC=/no/such/switch: there is no such program"


def test_a_variable_that_names_nothing_is_an_error(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(bmv2.VARIABLE, "/no/such/switch")
    with pytest.raises(RealError, match="/no/such/switch: there is no such program"):
        bmv2.find_bmv2()


@pytest.mark.skipif(shutil.which("ldd") is None, reason="needs ldd")
def test_it_is_taken_out_of_the_docker_image_once(
    tmp_path: Path, nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{nowhere}:/usr/bin:/bin")
    docker = program(nowhere / "docker", FAKE_DOCKER)
    inside = nowhere / "inside" / bmv2.PROGRAM
    inside.parent.mkdir()
    shutil.copy("/bin/ls", inside)  # any program with shared libraries
    found = bmv2.find_bmv2()
    assert found is not None
    assert found.origin == "Docker image p4lang/p4c"
    cache = tmp_path / "cache"
    assert [path.name for path in (cache / "p4reduce" / "bmv2").iterdir()] == ["0123456789abcdef"]
    assert all(str(cache) in part for part in found.command if part != "--library-path")
    docker.write_text(FAKE_DOCKER.replace("run)", "run) exit 1;;\nno)"))  # docker is not called again
    shutil.rmtree(inside.parent)
    assert bmv2.find_bmv2() == found
    assert "GNU coreutils" in subprocess.check_output([*found.command, "--version"], text=True)


def test_an_image_without_it_is_an_error(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{nowhere}:/usr/bin:/bin")
    program(nowhere / "docker", FAKE_DOCKER)
    with pytest.raises(RealError, match=r"p4lang/p4c: reading simple_switch_grpc out of it failed"):
        bmv2.find_bmv2()


@pytest.mark.parametrize(
    ("code", "lines", "cause"),
    [
        (127, "simple_switch_grpc: error while loading shared libraries: libpi.so.0: cannot open", "libpi.so.0"),
        (1, "bind: Address already in use", "one of its ports"),
        (
            1,
            "s1-1: You don't have permission to perform this capture (socket: Operation not permitted)",
            "may not open",
        ),
        (1, "unrecognised option '--priority-queues'", "too old"),
        (-signal.SIGKILL, "", "memory"),
        (-signal.SIGILL, "", "processor"),
        (1, "something else", None),
        (None, "", None),
    ],
)
def test_likely_causes(code: int | None, lines: str, cause: str | None) -> None:
    found = likely_cause(code, lines)
    assert found is None if cause is None else found is not None and cause in found
