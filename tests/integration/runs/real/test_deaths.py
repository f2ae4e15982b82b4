"""Members that die in real time, on datagrams over loopback; ``make soak-kills-real`` draws a hundred."""

import json
import sys

import pytest

from p4reduce.runs.experiment import Experiment
from p4reduce.runs.real.run import run_script
from tests.support.effort import first_of
from tests.support.kills.invariants import check
from tests.support.kills.played import read

OPERATIONS, ELEMENTS, SEED = 24, 700, 5


def run(folder, faults, *, ranks=4, on_failure="shrink", plan="steiner", operations=OPERATIONS):
    given = {"topology": f"star:hosts={ranks}", "time": "real", "links": "udp", "lanes": 64, "plan": plan}
    command = [sys.executable, "-m", "tests.support.kills.played", str(folder), str(SEED), str(operations)]
    lines = []
    done = run_script(
        Experiment(**given, on_failure=on_failure),
        [*command, str(ELEMENTS)],
        emit=lambda *line: lines.append(line),
        timeout_s=100,
        FAULTS=json.dumps(faults),
    )
    return done, read(folder, ranks), lines


@pytest.mark.parametrize("plan", first_of(["steiner", "halving-doubling"]))
def test_the_others_go_on_without_one_that_is_killed_and_one_that_is_stopped(tmp_path, plan):
    """With halving and doubling each member aggregates for others, in four trees, then in two."""
    done, got, lines = run(tmp_path, {"1": {"3": "pause"}, "2": {"8": "kill"}, "3": {"15": "stop"}}, plan=plan)
    assert done.result is not None, lines
    check(got, {0, 1}, SEED, OPERATIONS, ELEMENTS)
    assert got[0].changes == [(9, 1, (0, 1, 3)), (16, 2, (0, 1))]
    killed, stopped = done.result.network.membership
    assert killed.lost == {2: "ended with signal SIGKILL"}
    assert stopped.lost == {3: "said nothing for its lease, and others waited for it"}
    assert [one.outcome for one in (killed, stopped)] == ["redone", "redone"]
