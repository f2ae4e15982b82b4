"""``p4reduce launch`` with a rank that is killed during the run, or with one that joins."""

import re

import pytest

from tests.support.effort import examples
from tests.support.launched import launch
from tests.support.paths import ROOT

SCRIPT = """
import os, signal
import numpy as np
from p4reduce import GroupChanged, connect
comm, done, heard = connect(), [], []
me = comm.rank
while len(done) < 5:
    array = np.full(1000, 2.0**me, np.float32)
    if me == 2 and len(done) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        comm.all_reduce(array)
        done.append(int(array[0]))
    except GroupChanged as change:
        heard.append((len(done), change.members, change.lost))
print("saw", done, heard, comm.rank, comm.size, comm.contributors)
comm.close()
"""


def four(tmp_path, *flags):
    """Launch the script above on four ranks."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    return launch("-n", "4", *flags, script)


@pytest.mark.parametrize(("on_failure", "heard_at"), [("shrink", 3), ("raise", 2)][: examples(1, 2)])
def test_the_others_go_on_without_a_rank_that_was_killed(tmp_path, on_failure, heard_at):
    done = four(tmp_path, "--on-failure", on_failure)
    assert done.returncode == 0, done.stderr
    heard = [(heard_at, (0, 1, 3), {2: "ended with signal SIGKILL"})]
    said = sorted(re.sub(r"^\[\d\] saw ", "", line) for line in done.stdout.splitlines() if "saw" in line)
    assert said == [f"[15, 15, 11, 11, 11] {heard} {place} 3 (0, 1, 3)" for place in range(3)]
    assert "rank 2 ended with signal SIGKILL: 3 of 4 go on" in done.stderr


def test_one_joins_and_one_comes_back_with_the_weights_of_the_others():
    joins = ["--join", "2ms", "--join", "h1@9ms", "--join", "1s"]
    done = launch("-n", "3", "--on-failure", "shrink", *joins, ROOT / "scripts/growing.py", "--elements", "20000")
    assert done.returncode == 0, done.stderr
    ends = re.findall(r"^\[(\d)\] ended with 4 ranks and weights (\w+)$", done.stdout, re.M)
    assert sorted(rank for rank, _ in ends) == ["1", "2", "3", "4"]
    assert len({weights for _, weights in ends}) == 1
    assert "rank 3 joined: 3 of 3 go on, with 1 more" in done.stderr
    assert "rank 0 was started anew: 3 of 4 go on" in done.stderr
    assert "rank 5, at h5, did not join: the others ended before" in done.stderr


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--join", "soon"], "--join soon: expected [HOST@]TIME, as 2ms or h5@2ms"),
        (["--join", "h99@2ms"], "has no host 'h99' for workers"),
        (["-t", "star:hosts=4", "--join", "2ms"], "has no free host"),
        (["--deadline", "5ms", "--join", "2ms"], "--join: a group with a --deadline cannot grow"),
    ],
)
def test_a_join_that_cannot_be_is_named(tmp_path, flags, said):
    done = four(tmp_path, *flags)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())


def test_otherwise_all_end_with_it(tmp_path):
    done = four(tmp_path)
    assert done.returncode == 128 + 9
    assert "rank 2 ended with signal SIGKILL" in done.stderr
