"""Mean reservations: training is predictable, so links need not be reserved all the time."""

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.scheduling import NetworkState, Rejection, Task, copies, plan_requests, policy_named
from p4reduce.control_plane.scheduling.task import MAX_PS
from p4reduce.topologies import leaf_spine, load

GIGA = 10**9
MEAN = ("overlay-mst-mean", "spff-mean", "steiner-mean")
MODEL = Task("t", "h1", ("h2", "h4", "h5"), elements=62_500, demand_bps=GIGA)
"""2 Mbit: 2 ms at its demand"""


def admitted(name, topology, tasks, state):
    found = []
    for task in tasks:
        try:
            decision = policy_named(name)(task, state)
        except Rejection:
            continue
        state.reserve(decision.demand_bps, decision.slots)
        found.append(decision)
    return found


@pytest.mark.parametrize(
    ("training_ps", "share"),
    [(0, 1), (2 * 10**9, Fraction(1, 2)), (6 * 10**9, Fraction(1, 4)), (MAX_PS, Fraction(2, 10**8)), (1, 1)],
)
def test_mean_use_is_the_demand_times_the_share_of_communication(training_ps, share):
    task = replace(MODEL, training_ps=training_ps, reservation="mean")
    assert task.reserved_bps == pytest.approx(GIGA * share, abs=1)
    assert 1 <= task.reserved_bps <= GIGA
    assert replace(task, reservation="peak").reserved_bps == GIGA
    assert replace(task, demand_bps=0).reserved_bps == 0


def test_an_unknown_reservation_is_refused():
    with pytest.raises(PlanError, match="reservation: 'most' is neither 'peak' nor 'mean'"):
        replace(MODEL, reservation="most")


@pytest.mark.parametrize("name", MEAN)
@pytest.mark.parametrize("network", ["leaf-spine-8", "germany50"])
def test_without_training_it_is_the_plain_policy(name, network):
    topology = load(network)
    hosts = [host.name for host in topology.hosts]
    demand = min(link.rate_bps for link in topology.links) * 3 // 10
    drawn = [Random(number).sample(hosts, 3) for number in range(40)]
    tasks = [Task(f"t{n}", one, tuple(others), 61_706, demand_bps=demand) for n, (one, *others) in enumerate(drawn)]
    mean = admitted(name, topology, tasks, NetworkState(topology))
    plain = admitted(name.removesuffix("-mean"), topology, tasks, NetworkState(topology))
    assert 0 < len(plain) < len(tasks)
    assert [(one.task.name, one.upload, one.broadcast, one.demand_bps) for one in mean] == [
        (one.task.name, one.upload, one.broadcast, one.demand_bps) for one in plain
    ]
    assert {one.policy for one in mean} == {name}


@pytest.mark.parametrize("name", MEAN)
def test_long_training_lets_more_tasks_in_and_the_sum_of_mean_uses_fits(name):
    """A quarter of every round is communication, so about four times as many tasks fit."""
    topology = leaf_spine(2, 2, 4)
    tasks = [
        replace(MODEL, name=f"t{number}", workers=("h2", "h5", "h6"), demand_bps=GIGA, training_ps=6 * 10**9)
        for number in range(60)
    ]
    plain = admitted(name.removesuffix("-mean"), topology, tasks, NetworkState(topology))
    mean = admitted(name, topology, tasks, NetworkState(topology))
    assert len(mean) >= 3 * len(plain) > 0
    means, demands = Counter(), Counter()
    for one in mean:
        for layout, direction in ((one.upload, "upload"), (one.broadcast, "broadcast")):
            for hop, times in copies(one.task, topology, layout, direction).items():
                demands[hop] += times * GIGA
                means[hop] += times * Fraction(GIGA, 4)
    assert all(bps <= topology.link_at(*hop).rate_bps for hop, bps in means.items())
    assert any(bps > topology.link_at(*hop).rate_bps for hop, bps in demands.items())  # the price, if all send at once


def test_switches_keep_slots_for_the_whole_demand():
    """A window for the mean would slow a task below its demand."""
    topology = leaf_spine(2, 2, 4)
    state = NetworkState(topology, slots={switch.name: 1024 for switch in topology.switches})
    task = replace(MODEL, training_ps=10**12, demand_bps=8 * GIGA)
    mean, plain = policy_named("steiner-mean")(task, state), policy_named("steiner")(task, state)
    assert mean.slots == plain.slots
    assert max(mean.demand_bps.values()) < max(plain.demand_bps.values())
    assert [request.layout for request in plan_requests(mean, job=1)] == [
        request.layout for request in plan_requests(plain, job=1)
    ]
