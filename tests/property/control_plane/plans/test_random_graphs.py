"""Plans on random networks: trees are trees, paths are paths, predictions equal an independent count."""

from itertools import pairwise, permutations

import networkx as nx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.counters import Operation, Traffic, predict
from p4reduce.control_plane.plans import PLANS, PlanRequest, Problem, make_plan, release_plan
from p4reduce.control_plane.plans.trees import cost, limit_fan_in
from p4reduce.control_plane.resources import Resources, SlotPool
from p4reduce.topologies import TopologyBuilder
from tests.support.effort import examples

TREES = ("spt", "mst", "steiner", "exact")


@st.composite
def networks(draw, *, all_capable=False):
    """Draw a connected network of up to 10 switches with extra links, some capable, and hosts anywhere."""
    builder = TopologyBuilder("random")
    count = draw(st.integers(1, 10))
    capable = [all_capable or draw(st.booleans()) for _ in range(count)]
    for number in range(count):
        builder.switch(f"s{number}", capable=capable[number])
    pairs = {(draw(st.integers(0, number - 1)), number) for number in range(1, count)}
    extra = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).map(sorted).map(tuple)
    pairs |= {pair for pair in draw(st.sets(extra, max_size=count)) if pair[0] != pair[1]}
    for a, b in sorted(pairs):
        builder.link(f"s{a}", f"s{b}", draw(st.sampled_from(["1G", "10G"])), f"{draw(st.integers(0, 5))}us")
    for number in range(draw(st.integers(2, 12))):
        builder.host(f"h{number}")
        builder.link(f"h{number}", f"s{draw(st.integers(0, count - 1))}", draw(st.sampled_from(["1G", "10G"])), "1us")
    return builder.build()


@st.composite
def requests(draw, topology, names=tuple(PLANS)):
    hosts = draw(st.permutations([host.name for host in topology.hosts]))
    name = draw(st.sampled_from(names))
    served = name == "ps" or draw(st.booleans())
    workers = tuple(hosts[1:] if served else hosts)[: draw(st.integers(1, len(hosts)))]
    return PlanRequest(
        name,
        workers=workers,
        server=hosts[0] if served else None,
        cost=draw(st.sampled_from(["hops", "delay"])),
    )


def check_tree(plan):
    children = [child.name for aggregator in plan.aggregators for child in aggregator.children]
    assert sorted(children) == sorted([*plan.workers, *(a.name for a in plan.aggregators[1:])])
    for aggregator in plan.aggregators:
        assert plan.topology.node(aggregator.name).capable
        assert 1 <= len(aggregator.children) <= 32
        assert aggregator.full == sum(child.mask for child in aggregator.children)
        ends = {(child.address.port, child.address.ip) for child in aggregator.children}
        if aggregator.parent is not None:
            ends.add((aggregator.parent.port, aggregator.parent.ip))
        # A switch knows each sender by port and address.
        assert len(ends) == len(aggregator.children) + (aggregator.parent is not None)
    for worker in plan.workers:
        at, steps = worker, 0
        while at != plan.root:
            at = plan.parents[at]
            steps += 1
            assert steps <= len(plan.aggregators) + 1
    assert plan.workers_below(plan.root) == plan.workers
    assert (plan.aggregators[0].parent is None) == (plan.server is None)


def check_paths(plan):
    """Check that every hop has a path of links both ways, and that switches forward by destination alone."""
    topology = plan.topology
    onward = {}
    for child, parent in plan.edges:
        for source, destination in ((child, parent), (parent, child)):
            path = plan.paths[(source, destination)]
            assert (path[0], path[-1]) == (source, destination)
            assert len(set(path)) == len(path)
            assert all(topology.node(name).is_switch for name in path[1:-1])
            for a, b in pairwise(path):
                assert topology.neighbour(a, topology.port(a, b)) == b
            for at, following in pairwise(path[1:]):
                assert onward.setdefault((at, destination), following) == following
        if not plan.ring:
            assert plan.paths[(parent, child)] == plan.paths[(child, parent)][::-1]


@settings(max_examples=examples(25, 150), deadline=None)
@given(st.data())
def test_plans_are_sound(data):
    topology = data.draw(networks())
    request = data.draw(requests(topology))
    resources = Resources()
    if request.plan in TREES and not any(switch.capable for switch in topology.switches):
        with pytest.raises(PlanError, match="can aggregate"):
            make_plan(topology, request, resources)
        return
    plan = make_plan(topology, request, resources)
    check_paths(plan)
    if plan.in_network:
        check_tree(plan)
    elif plan.ring:
        assert sorted(plan.ring) == sorted(plan.workers)
    assert plan == make_plan(topology, request, Resources())
    assert plan.window >= 1
    assert plan.in_network is False or plan.window <= plan.slots // 2
    release_plan(plan, resources)
    assert all(resources.free(switch.name) == 4096 for switch in topology.switches)


@settings(max_examples=examples(15, 100), deadline=None)
@given(st.data(), st.sampled_from(list(Operation)), st.integers(1, 5000), st.integers(0, 40))
def test_predictions_equal_a_walk(data, operation, elements, lead):
    topology = data.draw(networks())
    request = data.draw(requests(topology, ("all-to-all",) if operation == "all_to_all" else tuple(PLANS)))
    assume(request.plan not in TREES or any(switch.capable for switch in topology.switches))
    plan = make_plan(topology, request, Resources())
    if operation == "all_to_all" and data.draw(st.booleans()):
        elements *= len(plan.workers)
    try:
        predicted = predict(plan, operation, elements, lead=lead)
    except PlanError:
        if request.plan == "all-to-all" or operation == "all_to_all":
            assert request.plan != "all-to-all" or operation != "all_to_all" or elements % len(plan.workers)
        else:
            assert operation in ("push", "pull", "push_pull")
            assert plan.server is None or plan.ring
        return
    counted = {
        (node.name, port): [0, 0]
        for node in topology.nodes
        for port in range(1, len(topology.neighbours(node.name)) + 1)
    }
    for source, destination, length in sent(plan, operation, elements, lead):
        path = plan.paths[(source, destination)]
        for a, b in pairwise(path):
            counted[(a, topology.port(a, b))][0] += 1
            counted[(a, topology.port(a, b))][1] += length
    assert predicted == {hop: Traffic(*both) for hop, both in counted.items()}


def sent(plan, operation, elements, lead):
    """Return every first transmission, one by one, as the protocol specifies."""
    full, empty = 62 + 4 * plan.lanes, 62
    chunks = -(-elements // plan.lanes)
    if operation == "all_to_all":
        block = -(-(elements // len(plan.workers)) // plan.lanes)
        for source, destination in permutations(plan.workers, 2):
            for frame in range(1, block + 1):
                yield source, destination, full
                if frame % 16 == 0 or frame == block:
                    yield destination, source, empty
        return
    if plan.ring:
        n = len(plan.ring)
        m = -(-(1 if operation == "barrier" else chunks) // n)
        for position, worker in enumerate(plan.ring):
            for frame in range(1, 2 * (n - 1) * m + 1):
                yield worker, plan.ring[(position + 1) % n], full
                if frame % 16 == 0 or frame == 2 * (n - 1) * m:
                    yield plan.ring[(position + 1) % n], worker, empty
        return
    up = {"all_reduce": full, "push": full, "push_pull": full, "pull": empty, "barrier": empty}[operation]
    down = {"all_reduce": full, "push": empty, "push_pull": full, "pull": full, "barrier": empty}[operation]
    frames = [(up, down)] * (1 if operation == "barrier" else chunks)
    if plan.in_network and up == full:
        frames += [(empty, empty)] * min(lead, chunks)
    pairs = [(worker, plan.server) for worker in plan.workers]
    if plan.in_network:
        pairs = [(child.name, a.name) for a in plan.aggregators for child in a.children]
        pairs += [(plan.root, plan.server)] if plan.server else []
    for child, parent in pairs:
        for there, back in frames:
            yield child, parent, there
            yield parent, child, back


@settings(max_examples=examples(15, 100), deadline=None)
@given(st.data())
def test_trees_cost_no_more_than_shortest_paths(data):
    topology = data.draw(networks(all_capable=True))
    hosts = [host.name for host in topology.hosts]
    problem = Problem(topology, tuple(hosts[1:]), hosts[0])
    separate = sum(problem.paths.distance(worker, problem.server) for worker in problem.workers)
    costs = {name: cost(problem, PLANS[name](problem)) for name in TREES}
    # A server without a common switch with workers still costs its own link once.
    assert costs["mst"] <= separate
    assert costs["spt"] <= separate
    assert costs["steiner"] <= min(costs["mst"], costs["spt"])
    # No tree costs less than the links of any connected subgraph.
    assert costs["steiner"] >= len(hosts) + len({problem.paths.access(host) for host in hosts}) - 1


@settings(max_examples=examples(15, 100), deadline=None)
@given(st.data())
def test_paths_are_shortest_unique_and_symmetric(data):
    topology = data.draw(networks())
    for spread in (False, True):
        paths = Problem(topology, (topology.hosts[0].name,), spread=spread).paths
        names = [node.name for node in topology.nodes]
        a, b = data.draw(st.sampled_from(names)), data.draw(st.sampled_from(names))
        path = paths.path(a, b)
        assert path == paths.path(b, a)[::-1]
        assert len(path) - 1 == paths.distance(a, b) == nx.shortest_path_length(topology.graph(), a, b)
        for i in range(len(path)):
            for j in range(i, len(path)):
                assert paths.path(path[i], path[j]) == path[i : j + 1]


@settings(max_examples=examples(25, 60), deadline=None)
@given(st.data(), st.integers(2, 5))
def test_fan_in_is_limited_or_refused(data, limit):
    topology = data.draw(networks(all_capable=True))
    hosts = tuple(host.name for host in topology.hosts)
    problem = Problem(topology, hosts)
    layout = PLANS["spt"](problem)
    room = limit * len(topology.switches) - (len(topology.switches) - 1)
    if len(hosts) > room:
        with pytest.raises(PlanError, match=f"its bitmap holds {limit}"):
            limit_fan_in(problem, layout, limit)
        return
    try:
        limited = limit_fan_in(problem, layout, limit)
    except PlanError:
        # Moving one switch's surplus at a time may get stuck, but only if hardly any room is left.
        assert len(hosts) > room - limit
        return
    below = limited.children
    assert max(len(children) for children in below.values()) <= limit
    assert sorted(child for children in below.values() for child in children if child in hosts) == sorted(hosts)
    reached, open_ = set(), [limited.root]
    while open_:
        name = open_.pop()
        assert name not in reached
        reached.add(name)
        open_ += below.get(name, [])
    assert reached >= set(hosts)
    assert reached == {limited.root, *limited.parent}


@settings(max_examples=examples(15, 100), deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 7)), max_size=60), st.integers(1, 200))
def test_slot_pools_never_overlap(steps, size):
    pool, held = SlotPool(size), {}
    for take, value in steps:
        if take:
            largest = pool.largest()
            count = 1 << value
            if count <= largest:
                base = pool.allocate(count)
                assert base % count == 0
                assert base + count <= size
                assert all(base + count <= other or other + used <= base for other, used in held.items())
                held[base] = count
            else:
                try:
                    pool.allocate(count)
                except PlanError:
                    continue
                raise AssertionError("a range larger than the largest")
        elif held:
            base = sorted(held)[value % len(held)]
            pool.release(base)
            del held[base]
        assert pool.free == size - sum(held.values())
