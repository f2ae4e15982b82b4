"""Slurm's commands get user text as single arguments; text that cannot be an argument is refused."""

import json
import sys
from pathlib import Path

import pytest

from p4reduce.adapters.slurm.service import SlurmClient, SlurmError, SlurmPrograms

NAMES = ["scontrol", "scancel", "squeue", "sinfo", "sbatch"]
HOSTILE = [
    "a\nb",
    "a'b\"c",
    "$(touch x)",
    "`id`",
    "; rm x",
    "../x",
    "\x1b[2J",
    "é\u2028",
    "",
    "-x",
    "Comment=y",
    "x" * 100_000,
]


@pytest.fixture
def client(tmp_path):
    """A client with programs that log their arguments."""
    paths = {}
    for name in NAMES:
        program = tmp_path / name
        given = str(tmp_path / "given")
        work = f"import json, sys\nopen({given!r}, 'a').write(json.dumps(sys.argv[1:]))"
        program.write_text(f"#!{sys.executable}\n{work}")
        program.chmod(0o700)
        paths[name] = str(program)
    return SlurmClient(_programs(paths), {})


def _programs(paths):
    return SlurmPrograms(paths=paths, environment={}, plugins=Path("/"))


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:12]))
def test_a_text_is_one_argument(client, tmp_path, text):
    client.say(7, text)
    assert json.loads((tmp_path / "given").read_text()) == ["update", "JobId=7", f"AdminComment={text}"]
    assert {path.name for path in tmp_path.iterdir()} == {*NAMES, "given"}


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "x" * (1 << 20)], ids=["null", "surrogate", "too long"])
def test_a_text_that_no_program_takes_is_an_error_of_slurm(client, text):
    with pytest.raises(SlurmError, match=r"^scontrol: "):
        client.say(7, text)
