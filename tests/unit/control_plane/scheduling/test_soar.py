"""SOAR's dynamic program, compared with all placements."""

from itertools import combinations
from random import Random

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans import PLANS, Problem
from p4reduce.control_plane.plans.trees import cost
from p4reduce.control_plane.scheduling import NetworkState, Task, choose_capable_for, consumed, policy_named
from p4reduce.control_plane.scheduling.policies import choose_capable, place
from p4reduce.topologies import leaf_spine, load, with_capable


def crossing(parent, costs, hosts, chosen):
    """Return the cost of all frames, counted from the leaves up."""

    def frames(node):
        below = [frames(child) for child, above in enumerate(parent) if above == node]
        count = hosts[node] + sum(sent for sent, _ in below)
        if node in chosen:
            count = min(count, 1)
        return count, count * costs[node] + sum(spent for _, spent in below)

    return frames(parent.index(-1))[1]


@pytest.mark.parametrize("seed", range(60))
def test_no_placement_is_cheaper(seed):
    rng = Random(seed)
    size = rng.randint(1, 12)
    order = rng.sample(range(size), size)
    parent = [-1] * size
    for position in range(1, size):
        parent[order[position]] = order[rng.randrange(position)]
    costs = [rng.randint(0, 5) for _ in range(size)]
    hosts = [rng.randint(0, 3) for _ in range(size)]
    available = [node for node in range(size) if rng.random() < 0.8]
    count = rng.randint(0, size)
    least = min(
        crossing(parent, costs, hosts, set(chosen))
        for many in range(count + 1)
        for chosen in combinations(available, many)
    )
    found = place(parent, costs, hosts, count, available)
    assert found.cost == least == crossing(parent, costs, hosts, set(found.chosen))
    assert len(found.chosen) <= count
    assert set(found.chosen) <= set(available)


def test_trees_only():
    with pytest.raises(PlanError, match="one root, not 2"):
        place([-1, -1], [1, 1], [1, 1], 1)
    with pytest.raises(PlanError, match="cycle"):
        place([-1, 2, 1], [1, 1, 1], [1, 1, 1], 1)
    with pytest.raises(PlanError, match="one value for each node"):
        place([-1, 0], [1], [1, 1], 1)


def test_the_first_switch_goes_where_most_frames_merge():
    topology = leaf_spine(2, 1, 6)
    workers = ("h2", "h7", "h8", "h9", "h10", "h11", "h12")
    assert choose_capable(topology, workers, "h1", 1) == ("leaf2",)
    assert set(choose_capable(topology, workers, "h1", 2)) == {"leaf1", "leaf2"}
    assert len(choose_capable(topology, workers, "h1", 9)) <= 3


def test_more_switches_never_cost_more():
    topology = load("germany50")
    hosts = [host.name for host in topology.workers]
    server, *workers = Random(3).sample(hosts, 13)
    costs = []
    for count in (1, 2, 4, 8):
        chosen = choose_capable(topology, workers, server, count)
        assert len(chosen) <= count
        problem = Problem(with_capable(topology, chosen), tuple(workers), server)
        costs.append(cost(problem, PLANS["steiner"](problem)))
    assert costs == sorted(costs, reverse=True)


def test_switches_for_several_tasks_save_more_than_random_ones():
    topology, rng = load("germany50"), Random(3)
    hosts = [host.name for host in topology.workers]
    drawn = [rng.sample(hosts, 13) for _ in range(6)]
    tasks = [Task(f"t{number}", own[0], tuple(own[1:]), 1000) for number, own in enumerate(drawn)]
    order = rng.sample([switch.name for switch in topology.switches], len(topology.switches))

    def copies(chosen):
        state = NetworkState(with_capable(topology, chosen))
        return sum(consumed(policy_named("steiner")(task, state), state.topology) for task in tasks)

    chosen = choose_capable_for(topology, tasks, 10)
    assert choose_capable_for(topology, tasks, 4) == chosen[:4]
    assert choose_capable_for(topology, tasks, 0) == ()
    assert choose_capable_for(topology, tasks[:1], 3) == choose_capable(topology, tasks[0].workers, tasks[0].server, 3)
    for count in (2, 5, 10):
        assert copies(chosen[:count]) < copies(order[:count])
