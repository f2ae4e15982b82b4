"""The planning benchmark runs, in a tiny configuration, and prints what it promises. No time is asserted."""

import json

from p4reduce.control_plane.bench import __main__ as bench
from p4reduce.control_plane.bench.networks import loaded, network, tasks


def run(capsys, *arguments: str) -> dict:
    bench.main(["--json", "--runs", "1", "--tasks", "2", *arguments])
    return json.loads(capsys.readouterr().out)


def test_one_job_beside_networkx(capsys):
    rows = run(capsys, "--only", "job", "--k", "6", "--capable", "1")["job"]
    assert [(row["planner"], row["state"]) for row in rows] == [
        ("steiner", "unloaded"),
        ("steiner", "loaded"),
        ("networkx mehlhorn", "ignored"),
        ("networkx kou", "ignored"),
    ]
    assert all(row["hosts"] == 54 and row["capable"] == row["switches"] == 45 and row["ms"] > 0 for row in rows)
    # On the same task: no more links than the approximations, where all switches can aggregate and nothing is loaded.
    assert rows[0]["links"] <= min(rows[2]["links"], rows[3]["links"])


def test_tasks_one_after_the_other(capsys):
    (row,) = run(capsys, "--only", "tasks")["tasks"]
    assert (row["network"], row["tasks"]) == ("germany50", 2)


def test_networks_and_tasks_repeat_themselves():
    topology = network("4", 0.5, 1)
    assert [switch.capable for switch in topology.switches] == [s.capable for s in network("4", 0.5, 1).switches]
    assert 0 < sum(switch.capable for switch in topology.switches) < 20
    assert tasks(topology, 3, 1, hosts=5) == tasks(topology, 3, 1, hosts=5)
    assert loaded(topology, 1) == loaded(topology, 1)
    assert len(loaded(topology, 1).background_bps) == 64
