"""Parts of the orchestrator: hosts, plans as JSON, interruption against saving, messages."""

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.base.records import from_json, to_json
from p4reduce.control_plane.orchestrator import ComputingManager, HostProfile
from p4reduce.control_plane.orchestrator.installer import interruption_bytes, round_bytes, same_tree, weigh
from p4reduce.control_plane.plans import Plan, PlanRequest
from p4reduce.control_plane.plans.make import make_plan
from p4reduce.control_plane.resources import Resources
from p4reduce.control_plane.scheduling import Task
from p4reduce.topologies import leaf_spine

TOPOLOGY = leaf_spine(leaves=3, spines=2, hosts=2, servers=1)
WORKERS = ("h1", "h3", "h5")


def make(plan="steiner", **fields):
    request = PlanRequest(plan, workers=WORKERS, server="server1", priority=3, **fields)
    return make_plan(TOPOLOGY, request, Resources())


def task(**fields):
    return Task("a", "server1", WORKERS, 1000, **fields)


@pytest.mark.parametrize("name", ["steiner", "mst", "ps"])
def test_a_plan_survives_json(name):
    plan = make(name, job=7, epoch=3)
    text = to_json(plan)
    again = from_json(Plan, text, "a plan", topology=TOPOLOGY)
    assert again == plan
    assert to_json(again) == text


def test_models_on_one_host_share_it():
    computing = ComputingManager(TOPOLOGY, {"h1": HostProfile(slowdown=2.0), "h3": HostProfile(models=2)})
    first = task(training_ps=100)
    second = Task("b", "h2", ("h1", "h3"), 1000, training_ps=100)
    computing.place(first)
    assert [computing.training_ps(first, host) for host in WORKERS] == [200, 100, 100]
    computing.place(second)
    computing.place(second)
    assert [computing.training_ps(second, host) for host in ("h1", "h3")] == [400, 100]
    hosts = {row["host"]: row for row in computing.hosts()}
    assert hosts["h1"] == {"host": "h1", "local": ["a", "b"], "global": [], "load": 2.0}
    assert hosts["server1"]["global"] == ["a"]
    computing.release("b")
    assert computing.training_ps(first, "h1") == 200


def test_a_full_host_and_an_unknown_one_are_named():
    computing = ComputingManager(TOPOLOGY, {"h3": HostProfile(most_models=1)})
    computing.place(task())
    with pytest.raises(PlanError, match="host h3 trains 1 models already, its most"):
        computing.place(Task("b", "h2", ("h1", "h3"), 1))
    assert {row["load"] for row in computing.hosts()} == {0.0, 1.0}
    with pytest.raises(PlanError, match="'h99' is no host"):
        computing.place(Task("c", "h2", ("h99",), 1))
    with pytest.raises(PlanError, match="has no host h99"):
        ComputingManager(TOPOLOGY, {"h99": HostProfile()})
    with pytest.raises(PlanError, match="too low"):
        HostProfile(slowdown=0)


def test_adding_up_takes_time_for_each_model_that_arrives():
    computing = ComputingManager(TOPOLOGY, {"server1": HostProfile(add_ps=3)})
    assert computing.aggregation_ps(task(), 1) == 3000
    assert computing.aggregation_ps(task(), 3) == 9000


def test_saving_is_weighed_against_a_window_on_every_hop():
    old, new = make("ps", job=1), make("steiner", job=1, epoch=1, window=4)
    found = weigh(task(rounds=9), [("both", old, new)], 9, 2.0)
    assert found.saving_bytes == 9 * (round_bytes(task(), "both", old) - round_bytes(task(), "both", new)) > 0
    hops = sum(len(path) - 1 for path in new.paths.values())
    assert found.cost_bytes == interruption_bytes(new) == hops * 4 * new.frame_bytes
    assert found.worthwhile == (found.saving_bytes > 2 * found.cost_bytes)
    assert not weigh(task(), [("both", old, new)], 0, 0.0).worthwhile
    assert weigh(task(), [("both", new, make(job=1, epoch=2, window=4))], 9, 0.0).cost_bytes == 0
    assert same_tree(new, make(job=1, epoch=2))
    assert not same_tree(old, new)
