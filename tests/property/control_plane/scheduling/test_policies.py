"""Policies on random networks under random, asymmetric load: their trees can be forwarded and fit."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from p4reduce.control_plane.plans import PLANS, TreeLayout, make_plan
from p4reduce.control_plane.resources import Resources
from p4reduce.control_plane.scheduling import (
    LinkWeights,
    NetworkState,
    Rejection,
    Task,
    copies,
    plan_requests,
    policy_named,
)
from p4reduce.control_plane.scheduling.view import loads
from tests.support.effort import examples
from tests.support.networks import GIGA, loaded_networks

SEVERAL = ("striped", "packing", "rina", "hierarchical", "halving-doubling", "double-binary-tree")
NAMES = ("exact", "overlay-mst", "spff", "spff-ecmp", "spff-ina", "spt", "steiner")


@st.composite
def situations(draw):
    """Draw a network, its state, and a task."""
    topology, used = draw(loaded_networks(switches=9, load=10))
    names = draw(st.permutations([host.name for host in topology.hosts]))
    workers = tuple(names[1 : 1 + draw(st.integers(1, len(names) - 1))])
    task = Task("t", names[0], workers, 1000, demand_bps=draw(st.integers(0, 4)) * GIGA)
    return NetworkState(topology, background_bps=used), task


def check_forwarding(plan):
    """Check forwarding by destination, equal links between child and parent, and senders known by port and address."""
    onward = {}
    for (source, destination), path in plan.paths.items():
        assert (path[0], path[-1]) == (source, destination)
        for at, following in pairwise(path[1:]):
            assert onward.setdefault((at, destination), following) == following
    for aggregator in plan.aggregators:
        assert plan.topology.node(aggregator.name).capable
        ends = [(child.address.port, child.address.ip) for child in aggregator.children]
        ends.append((aggregator.parent.port, aggregator.parent.ip))
        assert len(set(ends)) == len(ends)
    if plan.in_network:
        assert plan.workers_below(plan.root) == plan.workers
        assert plan.aggregators[0].parent.name == plan.server
        assert all(plan.paths[pair] == plan.paths[pair[::-1]][::-1] for pair in plan.paths)


@settings(max_examples=examples(60, 150), deadline=None)
@given(situations(), st.sampled_from(NAMES))
def test_decisions_can_be_forwarded_and_fit(situation, name):
    state, task = situation
    try:
        decision = policy_named(name)(task, state)
    except Rejection:
        return
    resources = Resources()
    plans = [make_plan(state.topology, request, resources) for request in plan_requests(decision, job=1)]
    assert len(plans) == 1 + (not decision.together)
    for plan in plans:
        check_forwarding(plan)
    total = {}
    for layout, direction in ((decision.upload, "upload"), (decision.broadcast, "broadcast")):
        crossed = copies(task, state.topology, layout, direction)
        for hop, times in crossed.items():
            assert state.residual_bps(hop) >= max(1, times * task.demand_bps)
            total[hop] = total.get(hop, 0) + times * task.demand_bps
        # Frames of every worker reach the server, and the server's reach every worker, over links of that direction.
        assert crossed[(task.server, 1) if direction == "broadcast" else _down(state, task)] >= 1
        if isinstance(layout, TreeLayout):
            assert crossed[(task.server, 1) if direction == "broadcast" else _down(state, task)] == 1
    assert decision.demand_bps == {hop: bps for hop, bps in total.items() if bps}


@settings(max_examples=examples(20, 150), deadline=None)
@given(situations(), st.sampled_from(SEVERAL), st.integers(1, 3000))
def test_several_trees_can_be_forwarded_fit_and_carry_the_model_once(situation, name, elements):
    state, task = situation
    task = replace(task, elements=elements)
    try:
        decision = policy_named(name)(task, state)
    except Rejection:
        return
    resources = Resources()
    plans = [make_plan(state.topology, request, resources) for request in plan_requests(decision, job=1)]
    ends = 0
    for plan in plans:
        assert (plan.server, plan.workers) == (None, (*task.workers, task.server))
        assert all(plan.paths[pair] == plan.paths[pair[::-1]][::-1] for pair in plan.paths)
        part = plan.part_of(elements)
        assert part.start in (ends, part.stop)
        ends = max(ends, part.stop)
    assert ends == elements
    for hop, bps in decision.demand_bps.items():
        assert 0 < bps <= state.residual_bps(hop)
        times = sum(loads(decision, state.topology, way).get(hop, 0) for way in ("upload", "broadcast"))
        assert 0 <= bps - times * task.demand_bps < 2


def _down(state, task):
    switch = state.topology.neighbours(task.server)[0]
    return (switch, state.topology.port(switch, task.server))


@settings(max_examples=examples(25, 60), deadline=None)
@given(situations())
def test_where_shortest_paths_with_aggregation_fit_so_does_the_search(situation):
    state, task = situation
    try:
        policy_named("spt")(task, state)
    except Rejection:
        return
    assert policy_named("steiner")(task, state)


@settings(max_examples=examples(25, 60), deadline=None)
@given(situations())
def test_an_unloaded_network_gets_the_tree_of_the_plan(situation):
    """With bandwidth alone and no load, weights are hops: the policy's tree costs as much as the planner's."""
    state, task = situation
    idle = NetworkState(state.topology)
    task = Task(task.name, task.server, task.workers, task.elements, aggregation="switches")
    try:
        decision = policy_named("steiner")(task, idle, weights=LinkWeights(bandwidth=1.0))
    except Rejection:
        assert not any(switch.capable for switch in state.topology.switches)
        return
    assert decision.together
    request = plan_requests(decision, job=1)[0]
    ours = make_plan(state.topology, request, Resources())
    server, workers = task.server, task.workers
    theirs = make_plan(state.topology, type(request)("exact", workers=workers, server=server), Resources())
    assert "exact" in PLANS
    links = [sum(len(plan.paths[edge]) - 1 for edge in plan.edges) for plan in (ours, theirs)]
    assert links[1] <= links[0] <= 1.25 * links[1]
