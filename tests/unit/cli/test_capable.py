"""``p4reduce topo capable``: the switches that should aggregate for a file of tasks."""

import json
from itertools import combinations

import pytest
from typer.testing import CliRunner

from p4reduce.cli.main import app
from p4reduce.control_plane.scheduling import NetworkState, consumed, policy_named
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.topologies import load, with_capable

NETWORK = "leaf-spine:leaves=4,spines=1,hosts=3"
TASKS = """tasks:
  - {name: a, server: h1, workers: [h4, h5, h6], elements: 6000}
  - {name: b, server: h2, workers: [h4, h5, h7], elements: 6000}
"""


def call(*arguments):
    return CliRunner().invoke(app, ["topo", "capable", *map(str, arguments)])


@pytest.fixture
def tasks(tmp_path):
    path = tmp_path / "tasks.yaml"
    path.write_text(TASKS)
    return path


def test_the_switches_come_in_order_and_as_json(tasks):
    data = json.loads(call(NETWORK, "--count", 2, "--tasks", tasks, "--json").stdout)
    assert (data["tasks"], data["capable"]) == (2, ["leaf2", "spine1"])
    text = call(NETWORK, "--count", 2, "--tasks", tasks).stdout
    assert text.index("leaf2") < text.index("spine1")


def test_one_switch_is_the_one_with_which_least_crosses_links(tasks):
    """Reference: every single switch, with the trees that a policy then chooses."""
    topology = load(NETWORK)
    (chosen,) = json.loads(call(NETWORK, "--count", 1, "--tasks", tasks, "--json").stdout)["capable"]
    jobs = [Task("a", "h1", ("h4", "h5", "h6"), 6000), Task("b", "h2", ("h4", "h5", "h7"), 6000)]
    takes = {}
    for (name,) in combinations([switch.name for switch in topology.switches], 1):
        some = with_capable(topology, [name])
        takes[name] = sum(consumed(policy_named("spff-ina")(job, NetworkState(some)), some) for job in jobs)
    assert takes[chosen] == min(takes.values())


def test_more_than_save_something_are_not_named(tasks):
    done = call(NETWORK, "--count", 5, "--tasks", tasks)
    assert done.exit_code == 0
    assert "of 5: more would save nothing" in done.output


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tasks: []", "lists no task"),
        ("tasks: [{name: a, server: h1, workers: [nobody], elements: 5}]", "nobody"),
        ("nothing", "expected one key 'tasks'"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(tmp_path, text, why):
    path = tmp_path / "tasks.yaml"
    path.write_text(text)
    done = call(NETWORK, "--count", 1, "--tasks", path)
    assert done.exit_code not in (0, 1)
    assert why in done.output
    assert "Traceback" not in done.output
