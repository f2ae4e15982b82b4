"""Plain Python and machine code give the same plans; small networks use the former, long-lived processes the latter."""

import random

import pytest

from p4reduce.control_plane.plans import PlanRequest, kernels, make_plan
from p4reduce.control_plane.plans.kernels.shortest import shortest
from p4reduce.control_plane.resources import Resources
from p4reduce.topologies import load

NETWORKS = ("leaf-spine-8", "fat-tree-4", "wan:graph=nobel-us,servers=1", "leaf-spine:leaves=6,spines=3,hosts=3")


@pytest.fixture
def spent(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(kernels, "_spent_s", clock)
    return clock


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("plan", ["steiner", "mst", "spt"])
def test_the_same_plans(network, plan, spent, monkeypatch):
    topology = load(network)
    hosts = [host.name for host in topology.hosts]
    chosen = random.Random(network + plan).sample(hosts, min(7, len(hosts)))
    found = []
    for enough in (1e9, -1.0):
        monkeypatch.setattr(kernels, "ENOUGH_S", enough)
        spent[0] = 0.0
        found.append(make_plan(topology, PlanRequest(plan, workers=tuple(chosen)), Resources()))
        assert (spent[0] > 0) == (enough > 0)
    assert found[0] == found[1]


def test_who_goes_on_planning_gets_machine_code(spent):
    assert kernels.sized(shortest, kernels.SMALL) is not shortest
    assert kernels.sized(shortest, kernels.SMALL + 1) is shortest
    spent[0] = kernels.ENOUGH_S + 1
    assert kernels.sized(shortest, 1) is shortest


def test_what_plain_python_calls_is_plain_python():
    called = [value for value in kernels.plain(shortest).__globals__.values() if hasattr(value, "py_func")]
    used = set(shortest.py_func.__code__.co_names)
    assert not [value for value in called if value.py_func.__name__ in used]
