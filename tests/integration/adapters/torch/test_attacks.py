"""Ranks that die, stop or disagree, and forbidden calls: no hang, no crash, and an error that names the rank."""

import json
import re
import subprocess
import sys

import pytest

from tests.support.torch_scripts.starting import LONG, WHY_LONG, WHY_NOT, environment

pytest.importorskip("torch", reason=WHY_NOT)
pytestmark = [pytest.mark.torch, pytest.mark.skipif(not LONG, reason=WHY_LONG)]
FINE, KILLED, STOPPED = 0, -9, "stopped"
GONE, AGREE = "rank 1 ended without leaving the group", "participants disagree: rank 0 called .*, rank 1 "
WAITED = r"rank [02] reached its timeout of 4 s waiting for rank 1\b"
EXPECTED = {
    "dies_before_init": ([1, KILLED, 1], "waited 4 s for rank 1 to make the process group"),
    "dies_before_a_sum": ([1, KILLED, 1], GONE),
    "dies_inside_a_sum": ([1, KILLED, 1], GONE),
    "dies_after_a_sum": ([1, KILLED, 1], GONE),
    "dies_in_a_backward_pass": ([1, KILLED, 1], GONE),
    "dies_and_leaves_a_child": ([1, KILLED, 1], GONE),
    "who_has_the_network_dies": ([KILLED, 1, 1], "rank 0 ended without leaving the group"),
    "the_network_dies": ([1, 1, 1], "rank [012] lost the coordinator in all_reduce"),
    "is_stopped": ([1, STOPPED, 1], WAITED),
    "is_stopped_in_a_group": ([FINE, STOPPED, 1], "^None$|rank 2 reached its timeout of 4 s waiting for rank 1"),
    "sizes_differ": ([1, 1, 1], AGREE),
    "types_differ": ([1, 1, 1], AGREE),
    "one_type_is_by_gloo": ([1, 1, 1], f"{WAITED}|Timed out waiting 4000ms"),
    "order_differs": ([1, 1, 1], AGREE),
    "roots_differ": ([1, 1, 1], AGREE),
    "odd_tensors": ([FINE, FINE, FINE], "^right$"),
    "many_groups": ([FINE, FINE, FINE], "^right$"),
    "destroyed_twice": ([1, 1, 1], "^AssertionError: Process group cannot be None"),  # torch's own error
    "made_twice": ([1, 1, 1], "^ValueError: trying to initialize the default process group twice"),
    "made_again": ([FINE, FINE, FINE], r"^\[3\.0, 3\.0, 3\.0, 3\.0, 3\.0\]$"),
    "used_after_its_end": ([1, 1, 1], "left the group"),
    "forks_after_init": ([FINE, FINE, FINE], r"^0 0 \[3\.0, 3\.0, 3\.0\]$"),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Outcomes of all attacks; they run in one process, which imports torch once."""
    command = [sys.executable, "-m", "tests.support.torch_scripts.attacks"]
    folder = tmp_path_factory.mktemp("attacks")
    done = subprocess.run(
        command,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    reports = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {report["attack"]: report for report in reports}


def test_every_attack_is_looked_at(found):
    assert list(found) == list(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_ranks_end_as_they_should_and_say_why(found, name):
    ends, said = EXPECTED[name]
    report = found[name]
    assert report["ends"] == ends, report
    for how, text in zip(report["ends"], report["said"], strict=True):
        if how not in (KILLED, STOPPED):
            assert re.search(said, text), report
