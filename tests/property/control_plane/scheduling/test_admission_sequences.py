"""Any sequence of tasks: no direction of a link and no switch is promised more than it has."""

from collections import Counter
from fractions import Fraction
from itertools import pairwise
from math import ceil

from hypothesis import given, settings
from hypothesis import strategies as st

from p4reduce.control_plane.plans import RingLayout, StarLayout, make_plan, release_plan
from p4reduce.control_plane.resources import Resources
from p4reduce.control_plane.scheduling import NetworkState, Rejection, Task, plan_requests, policy_named
from tests.support.effort import examples
from tests.support.networks import GIGA, loaded_networks

NAMES = ("exact", "overlay-mst", "spff", "spff-ecmp", "spff-ina", "spt", "steiner")
ALL = (*NAMES, "overlay-mst-mean", "ring", "spff-mean", "steiner-mean")


@st.composite
def networks(draw):
    """Draw switches, some aggregating, with few slots, hosts, and load that differs by direction."""
    topology, used = draw(loaded_networks(switches=7, load=8))
    poor = topology.switches[: draw(st.integers(0, len(topology.switches)))]
    return topology, used, {switch.name: draw(st.sampled_from([0, 1, 2, 4, 16, 64])) for switch in poor}


@st.composite
def tasks(draw, topology):
    """Draw a task without a name."""
    names = draw(st.permutations([host.name for host in topology.hosts]))
    workers = tuple(names[1 : 1 + draw(st.integers(1, len(names) - 1))])
    demand, training = draw(st.integers(0, 40)) * GIGA // 10, draw(st.sampled_from([0, 10**6, 10**8]))
    return Task("t", names[0], workers, 1000, demand_bps=demand, training_ps=training)


def kept(decision):
    """Return the bandwidth reserved for a copy: the demand, or its mean over training and sending 32,000 bits."""
    demand = decision.task.demand_bps
    if not demand or not decision.policy.endswith("-mean"):
        return demand
    sending = Fraction(32_000 * 10**12, demand)
    return ceil(demand * sending / (decision.task.training_ps + sending))


def carried(task, layout, direction, topology):
    """Return the copies of one direction's frame on every directed link, along the layout's paths."""
    found = Counter()
    if isinstance(layout, RingLayout):  # every stream carries the reduction, then the gathering
        for pair in zip(layout.order, (*layout.order[1:], layout.order[0]), strict=True):
            found.update((a, topology.port(a, b)) for a, b in pairwise(layout.paths[pair]))
        return found
    for (source, destination), path in layout.paths.items():
        if isinstance(layout, StarLayout):
            if (destination == task.server) != (direction == "up"):
                continue
            way = path
        else:
            assert (source, destination) in {*layout.parent.items(), (layout.root, task.server)}
            way = path if direction == "up" else path[::-1]
        found.update((a, topology.port(a, b)) for a, b in pairwise(way))
    return found


@settings(max_examples=examples(30, 80), deadline=None)
@given(st.data(), networks())
def test_no_residual_is_ever_negative(data, network):
    topology, used, slots = network
    state = NetworkState(topology, background_bps=used, slots=slots)
    running = []
    for _ in range(data.draw(st.integers(1, 8))):
        if running and data.draw(st.integers(0, 3)) == 0:
            decision = running.pop(data.draw(st.integers(0, len(running) - 1)))
            state.release(decision.demand_bps, decision.slots)
        task, name = data.draw(tasks(topology)), data.draw(st.sampled_from(ALL))
        try:
            decision = policy_named(name)(task, state)
        except Rejection:
            continue
        state.reserve(decision.demand_bps, decision.slots)
        running.append(decision)
        # Counted again from the paths of all running tasks.
        load, taken = Counter(used), Counter()
        for one in running:
            for layout, direction in ((one.upload, "up"), (one.broadcast, "down")):
                for at, times in carried(one.task, layout, direction, topology).items():
                    load[at] += times * kept(one)
            taken.update(one.slots)
        for at, bps in load.items():
            assert bps <= topology.link_at(*at).rate_bps
        for switch, many in taken.items():
            assert many <= slots[switch]
    for decision in running:
        state.release(decision.demand_bps, decision.slots)
    assert state.reserved_bps == {}
    assert state.reserved_slots == {}


@settings(max_examples=examples(30, 80), deadline=None)
@given(st.data(), networks(), st.sampled_from([4, 8, 32]))
def test_plans_of_what_was_admitted_have_slots_for_its_demand(data, network, size):
    """Plans use the ranges of slots that switches really have left."""
    topology, used, _ = network
    resources = Resources(size)
    running = []
    for _ in range(data.draw(st.integers(1, 6))):
        if running and data.draw(st.integers(0, 3)) == 0:
            for plan in running.pop(data.draw(st.integers(0, len(running) - 1))):
                release_plan(plan, resources)
        free = {switch.name: resources.largest(switch.name) for switch in topology.switches if switch.capable}
        state = NetworkState(topology, background_bps=used, slots=free)
        task, name = data.draw(tasks(topology)), data.draw(st.sampled_from(ALL))
        try:
            decision = policy_named(name)(task, state)
        except Rejection:
            continue
        plans = [make_plan(topology, request, resources) for request in plan_requests(decision, job=1)]
        running.append(plans)
        for plan in plans:
            assert not plan.in_network or plan.slots_rate_bps >= task.demand_bps


@settings(max_examples=examples(30, 80), deadline=None)
@given(st.data(), networks(), st.sampled_from([name for name in NAMES if not name.startswith("spff")]))
def test_what_the_fixed_scheduler_admits_a_tree_policy_admits(data, network, name):
    topology, used, slots = network
    state = NetworkState(topology, background_bps=used, slots=slots)
    task = data.draw(tasks(topology))
    try:
        fixed = policy_named("spff")(task, state)
    except Rejection:
        return
    ours = policy_named(name)(task, state)
    copies = [
        sum((carried(task, one.upload, "up", topology) + carried(task, one.broadcast, "down", topology)).values())
        for one in (ours, fixed)
    ]
    assert copies[0] <= copies[1]
