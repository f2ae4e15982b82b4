"""Unauthenticated connections to a live page do not affect the run, and are closed soon."""

import re
import signal

import pytest

from p4reduce.views.live.application import IDLE_S, MOST_CONNECTIONS
from tests.support.effort import examples
from tests.support.idle_connections import Strangers
from tests.support.live import ask, ended, started, stayed

SCRIPT = """
import hashlib
import numpy as np
from p4reduce import connect
comm = connect()
found = [comm.all_reduce(np.arange(5_000, dtype=np.float32) * (comm.rank + k)) for k in range(20)]
print(hashlib.sha256(b"".join(one.tobytes() for one in found)).hexdigest(), flush=True)
"""
LAUNCH = ("launch", "-n", "2", "--topology", "star:hosts=2,servers=0", "--live")
FAST = ("--full-speed",)
REAL = ("--time", "real", "--links", "udp")

STRANGERS = examples(150, 1500)


def launched(folder, extra, strangers):
    """Return exit code, stdout, stderr without random parts, and the names of the files."""
    folder.mkdir()
    script, out = folder / "script.py", folder / "out"
    script.write_text(SCRIPT)
    process, port, token = started(*LAUNCH, *extra, "--out", str(out), str(script))
    with Strangers(port, strangers) as theirs:
        stayed(process)
        assert ask(port, token, "/api/scene")["nodes"], "whoever has the token is let in"
        assert sorted(one.name for one in out.iterdir()), "results are there while the page stays"
        theirs.join(60)
    code, printed, error = ended(process, signal.SIGINT)
    error = re.sub(r"\d+(\.\d+)?", "0", error.replace(str(folder), ""))
    return theirs, (code, sorted(printed.splitlines()), error, sorted(one.name for one in out.iterdir()))


# Both kinds of time use the same server; in virtual time every byte is compared.
@pytest.mark.parametrize("extra", [FAST, pytest.param(REAL, marks=pytest.mark.soak)], ids=["virtual", "real"])
def test_a_run_is_the_same_beside_strangers(tmp_path, extra, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    alone, quiet = launched(tmp_path / "quiet", extra, 0)
    strangers, loud = launched(tmp_path / "loud", extra, STRANGERS)
    if extra == REAL:  # times, and messages about them, differ between real-time runs
        assert "Traceback" not in loud[2]
        quiet, loud = (
            (code, re.findall("[0-9a-f]{64}", "".join(printed)), files) for code, printed, _, files in (quiet, loud)
        )
        assert len(quiet[1]) == 2
    assert loud == quiet
    assert quiet[0] == 0
    assert (alone.made, strangers.made) == (0, STRANGERS)
    assert max(strangers.lives_s) < IDLE_S + 2
    assert len(strangers.lives_s) > MOST_CONNECTIONS
