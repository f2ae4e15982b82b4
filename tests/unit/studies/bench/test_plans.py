"""The planning benchmark runs in a tiny configuration and prints its columns; times are not checked."""

import json

import pytest

from studies.bench.plans import loaded, network, tasks
from studies.bench.study import LIMITS_MS, STUDY
from studies.pages import study_main


@pytest.fixture
def run(capsys, tmp_path):
    def ask(*arguments: str) -> dict:
        study_main(STUDY, ["--json", "--plan-runs", "1", "--tasks", "2", *arguments, "--out", str(tmp_path)])
        return json.loads(capsys.readouterr().out)

    return ask


def test_one_job_beside_networkx(run):
    rows = run("--parts", "plan-job", "--k", "6", "--capable", "0.5,1")["rows"]["plan-job"]
    assert [(row["planner"], row["load"], row.get("share")) for row in rows] == [
        ("steiner", "none", 0.5),
        ("steiner", "asymmetric", 0.5),
        ("steiner", "none", 1.0),
        ("steiner", "asymmetric", 1.0),
        ("networkx mehlhorn", "ignored", None),
        ("networkx kou", "ignored", None),
    ]
    assert all(row["hosts"] == 54 and row["switches"] == 45 and row["ms"] > 0 and row["ratio"] > 0 for row in rows)
    assert rows[0]["capable"] == rows[1]["capable"] < rows[2]["capable"] == rows[3]["capable"] == 45
    # On the same task, at most as many links as the approximations, if all switches aggregate and no link is loaded.
    assert rows[2]["links"] <= min(rows[4]["links"], rows[5]["links"])


def test_tasks_one_after_the_other(run):
    found = run("--parts", "plan-tasks")
    assert [(row["network"], row["load"], row["tasks"]) for row in found["rows"]["plan-tasks"]] == [
        ("germany50", "none", 2),
        ("germany50", "asymmetric", 2),
    ]
    (bar,) = found["bars"]
    slowest = max(row["ms"] for row in found["rows"]["plan-tasks"])
    assert (bar["bar"], bar["limit"]) == ("planning, germany50: ms at most", "<= 300.0")
    assert bar["holds"] is (slowest <= LIMITS_MS["germany50"])


def test_installing_a_plan_in_all_switches_of_a_tree(run):
    (row,) = run("--parts", "plan-install", "--install-switches", "12")["rows"]["plan-install"]
    assert (row["switches"], row["workers"]) == (12, 20)
    assert row["ms"] > 0


def test_networks_and_tasks_repeat_themselves():
    topology = network("4", 0.5, 1)
    assert [switch.capable for switch in topology.switches] == [s.capable for s in network("4", 0.5, 1).switches]
    assert 0 < sum(switch.capable for switch in topology.switches) < 20
    assert tasks(topology, 3, 1, hosts=5) == tasks(topology, 3, 1, hosts=5)
    assert loaded(topology, 1) == loaded(topology, 1)
    assert len(loaded(topology, 1).background_bps) == 64
