"""Result files are written completely or not at all, and errors of a full disk name the file."""

import contextlib
import errno
import os
import resource
import subprocess
import sys

import pytest
import typer

from p4reduce.base.errors import BadInput
from p4reduce.base.failures import guarded
from p4reduce.base.output import Output
from p4reduce.cli.commands.run import finish
from p4reduce.network.virtual.counters import PcapWriter
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.files import claim
from p4reduce.runs.runner import run_experiment
from p4switch.base.files import together, whole, write_text


@contextlib.contextmanager
def small_files():
    """Make the kernel refuse files beyond 4 KiB, like a full disk, with an error without a name."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_file_takes_its_place_when_it_is_whole(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("before")
    with whole(path) as aside:
        aside.write_text("after")
        assert path.read_text() == "before"
    assert path.read_text() == "after"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_named_and_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("before")
    with small_files(), pytest.raises(OSError, match=r"a\.txt") as raised:
        write_text(path, "x" * 10_000)
    assert raised.value.errno == errno.EFBIG
    assert raised.value.filename == str(path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_gets_all_files_or_none(tmp_path):
    (tmp_path / "kept").write_text("kept")
    (tmp_path / "a").write_text("old")

    def interrupted():
        with together(tmp_path) as aside:
            (aside / "a").write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"kept": "kept", "a": "old"}
    with together(tmp_path) as aside:
        (aside / "a").write_text("new")
        (aside / "inner").mkdir()
        (aside / "inner" / "b").write_text("b")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "inner", "kept"]
    assert (tmp_path / "a").read_text() == "new"
    assert (tmp_path / "inner" / "b").read_text() == "b"


def test_results_that_do_not_fit_leave_no_half_folder(tmp_path, capsys):
    result = run_experiment(Experiment(topology="star:hosts=2", lanes=64, elements=64))
    with small_files(), pytest.raises(typer.Exit) as raised:
        guarded(finish)(Output(), [result], out=tmp_path / "out", title="t")
    assert raised.value.exit_code == 1
    assert str(tmp_path / "out") in "".join(capsys.readouterr().err.split("\n"))
    assert list((tmp_path / "out").iterdir()) == []


def test_a_capture_names_its_file(tmp_path):
    writer = PcapWriter(tmp_path / "a.pcap")
    for _ in range(5):
        writer.write(0, bytes(1000))
    with small_files(), pytest.raises(OSError, match=r"a\.pcap"):
        writer.close()


INTERRUPTED = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
module = sys.argv[1]
sys.meta_path.insert(0, Interrupting())
from p4reduce.cli.entry import main
sys.argv = ["p4reduce", "doctor"]
main()
"""


@pytest.mark.parametrize("module", ["p4reduce.cli.main", "typer", "p4reduce.cli.commands.doctor"])
def test_ctrl_c_while_the_command_is_still_being_imported(module):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, module], capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    assert (done.returncode, done.stderr, done.stdout) == (130, "interrupted\n", "")


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to a device"])
def test_what_is_no_regular_file_keeps_its_place(tmp_path, kind):
    """As root, a result written to /dev/null would replace the device."""
    path = tmp_path / "target"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case _:
            path.symlink_to("/dev/null")
    before = path.lstat()
    with pytest.raises(OSError, match="give a file") as error:
        write_text(path, "text")
    assert error.value.filename == str(path)
    assert path.lstat() == before
    with pytest.raises(BadInput, match=r"--pcap: .*give a file"):
        claim(pcap=path)
    assert [one.name for one in tmp_path.iterdir()] == ["target"]
