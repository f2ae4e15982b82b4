"""``p4reduce optical`` as a command."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from p4reduce.cli.main import app
from studies.optical.reader import faults

SMALL = ("--tasks", 3, "--models", 4, "--elements", 1000)


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["optical", *(str(argument) for argument in arguments)])


def test_a_plan_is_complete_and_without_faults() -> None:
    done = call("plan", "--policy", "groom-agg", *SMALL, "--json")
    assert done.exit_code == 0, done.output
    plan = json.loads(done.stdout)
    assert not faults(plan)
    assert "transponders" in call("plan", "--policy", "spff", *SMALL).output


def test_tasks_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tasks.yaml"
    path.write_text(
        "tasks:\n- {name: a, server: Seattle-h1, workers: [Houston-h1, Princeton-h2], elements: 500, demand: 20G}\n"
    )
    done = call("plan", "-f", path, "--policy", "groom-agg", "--json")
    assert done.exit_code == 0, done.output
    [task] = json.loads(done.stdout)["tasks"]
    assert {len(use["slots"]) for use in task["uses"]} == {2}


def test_a_run_on_packets() -> None:
    done = call("run", "--policy", "groom-agg", *SMALL, "--lanes", 64, "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["exact"]
    assert found["lightpath_bytes"] == found["predicted_bytes"]


def test_policies_beside_each_other_and_arrivals() -> None:
    done = call("compare", *SMALL, "--policies", "spff,best", "--seeds", "0..2", "--moves", 5, "--json")
    assert [(row["policy"], row["seed"]) for row in json.loads(done.stdout)] == [
        (policy, seed) for policy in ("spff", "best") for seed in range(3)
    ]
    assert "±" in call("compare", *SMALL, "--policies", "spff", "--seeds", "0,1").output
    done = call("arrivals", "--loads", "5", "--arrivals", 20, "--moved", "0,1", "--policies", "groom-agg", "--json")
    assert [row["moved"] for row in json.loads(done.stdout)] == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("plan", "-t", "star:hosts=3"), "has no fibres"),
        (("plan", "--policy", "luck"), "--policy: there is no grooming policy 'luck'"),
        (("plan", "--phi", "2"), "--phi: 2 is not in the range"),
        (("plan", "--demand", "fast"), "--demand"),
        (("run", "--policy", "spff"), "forward by destination"),
        (("plan", "--policy", "exact"), "at most 8 nodes"),
        (("plan", "--models", "28"), "need 29 hosts"),
        (("arrivals", "--policies", "best"), "looks at all tasks at once"),
    ],
)
def test_what_cannot_be_is_one_line(arguments: tuple[str, ...], said: str) -> None:
    done = call(*arguments)
    assert done.exit_code == 2, done.output
    assert said in " ".join(done.output.split())
    assert "Traceback" not in done.output


def test_a_spine_of_circuits_and_slots_on_packets() -> None:
    small = ("-t", "oxc:pods=3,hosts=1,ports=2,rate=20G,port_rate=10G,delta=10us", "--slot", "20us", "--load", "100us")
    done = call("spine", *small, "--pairs", 2, "--packets", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [one["sharing"] for one in found] == ["hybrid", "slots", "circuits"]
    assert all(one["packets"]["wrong"] == 0 < one["packets"]["sums"] for one in found)
    assert "over the bound" in call("spine", *small, "--pairs", 2).output
    refused = call("spine", *small, "--fast", 3)
    assert refused.exit_code == 2
    assert "fast" in refused.output
