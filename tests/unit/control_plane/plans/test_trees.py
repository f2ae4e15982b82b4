import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans import PLANS, PlanRequest, Problem, TreeLayout, make_plan, release_plan
from p4reduce.control_plane.plans.trees import cost, limit_fan_in, prune
from p4reduce.control_plane.resources import Resources
from p4reduce.topologies import TopologyBuilder, fat_tree, leaf_spine, load, star, with_capable

TREES = ("spt", "mst", "steiner")


def plan(topology, name, **request):
    return make_plan(topology, PlanRequest(name, **{"lanes": 64, **request}), Resources())


def shape(plan):
    return {a.name: [child.name for child in a.children] for a in plan.aggregators}


@pytest.mark.parametrize("name", TREES)
def test_a_star_has_one_aggregator(name):
    built = plan(star(4), name)
    assert shape(built) == {"s1": ["h1", "h2", "h3", "h4"]}
    assert built.root == "s1"
    assert built.aggregators[0].parent is None
    assert built.aggregators[0].full == 0b1111
    assert [child.mask for child in built.aggregators[0].children] == [1, 2, 4, 8]


def test_trees_of_a_leaf_spine():
    topology = leaf_spine(2, 2, 2)
    leaves = {"leaf1": ["h1", "h2"], "leaf2": ["h3", "h4"]}
    # Any capable switch: the spine is closer to all than a leaf.
    for name in ("steiner", "spt"):
        assert shape(plan(topology, name)) == {"spine1": ["leaf1", "leaf2"], **leaves}
    # Only terminals: one of the leaves takes the other as a child.
    assert shape(plan(topology, "mst")) == {"leaf1": ["h1", "h2", "leaf2"], "leaf2": ["h3", "h4"]}


def test_hops_go_by_the_next_nodes_mac():
    built = plan(leaf_spine(2, 2, 2), "mst")
    leaf2 = built.by_switch["leaf2"]
    topology = built.topology
    assert leaf2.parent is not None
    assert leaf2.parent.ip == topology.node("leaf1").ip
    assert leaf2.parent.mac == topology.node("spine1").mac
    assert leaf2.parent.port == topology.port("leaf2", "spine1")
    up = built.up("h1")
    assert (up.name, up.mac, up.port, up.udp) == ("leaf1", topology.node("leaf1").mac, 1, 9400)
    with pytest.raises(PlanError, match="no hop h1 -> leaf2"):
        built.address("h1", "leaf2")
    with pytest.raises(PlanError, match="spine1 sends nothing up"):
        built.up("spine1")


@pytest.mark.parametrize("name", TREES)
def test_the_server_is_the_parent_of_the_root(name):
    built = plan(leaf_spine(2, 2, 2, servers=1), name, server="server1")
    assert built.root == "leaf1"
    assert built.aggregators[0].parent.name == "server1"
    assert built.parents["leaf1"] == "server1"
    assert built.workers == ("h1", "h2", "h3", "h4")
    assert built.edges[-1] == ("leaf1", "server1")
    assert built.paths[("leaf1", "server1")] == ("leaf1", "server1")


def test_a_server_may_be_any_host_that_does_not_work():
    built = plan(leaf_spine(2, 2, 2), "steiner", server="h4")
    assert built.workers == ("h1", "h2", "h3")
    # A single worker under a leaf needs no aggregator there.
    assert shape(built)["leaf1"] == ["h1", "h2"]


@pytest.mark.parametrize("name", TREES)
def test_only_spines_can_aggregate(name):
    built = plan(load("leaf-spine-8-partial"), name)
    assert set(shape(built)) <= {"spine1", "spine2"}
    spine = built.aggregators[0]
    # Four children behind each of its ports.
    assert {child.address.port for child in spine.children} == {1, 2}
    assert len({child.rid for child in spine.children}) == len(spine.children)
    # Four full frames of 318 + 24 bytes a chunk on each of its links, at 10 Gb/s.
    assert built.chunk_ps == 4 * 273_600


@pytest.mark.parametrize("name", TREES)
def test_no_switch_can_aggregate(name):
    with pytest.raises(PlanError, match=r"no switch of topology .* can aggregate; mark some .* 'ring' or 'ps'"):
        plan(star(4, capable=False), name)


def test_a_tree_passes_through_another_aggregator():
    """s1 - s2 - s3 in a row: s2 aggregates its own workers, and s3's path to the root s1 passes through it."""
    builder = TopologyBuilder("row")
    for switch in ("s1", "s2", "s3"):
        builder.switch(switch)
    for number in range(1, 7):
        builder.host(f"h{number}")
        builder.link(f"h{number}", f"s{(number + 1) // 2}", "10G", "1us")
    builder.link("s1", "s2", "10G", "1us")
    builder.link("s2", "s3", "10G", "1us")
    topology = builder.build()
    problem = Problem(topology, tuple(host.name for host in topology.hosts))
    layout = TreeLayout(
        "s1", {"h1": "s1", "h2": "s1", "h3": "s2", "h4": "s2", "s2": "s1", "h5": "s3", "h6": "s3", "s3": "s1"}
    )
    assert problem.paths.path("s3", "s1") == ("s3", "s2", "s1")
    assert cost(problem, layout) == 6 + 1 + 2
    # The planners find the cheaper chain.
    assert cost(problem, PLANS["steiner"](problem)) == 6 + 1 + 1


def test_pruning_takes_out_what_merges_nothing():
    topology = fat_tree(4)
    problem = Problem(topology, ("h1", "h2", "h5"))
    layout = TreeLayout(
        "core1",
        {"agg1-1": "core1", "edge1-1": "agg1-1", "h1": "edge1-1", "h2": "edge1-1",
         "agg2-1": "core1", "edge2-1": "agg2-1", "h5": "edge2-1", "agg3-1": "core1"},
    )  # fmt: skip
    pruned = prune(problem, layout)
    assert pruned.root == "core1"
    assert pruned.parent == {"h1": "edge1-1", "h2": "edge1-1", "edge1-1": "core1", "h5": "core1"}
    assert cost(problem, pruned) == cost(problem, layout) - 1  # agg3-1 was a dead end


def test_a_root_with_a_single_child_hands_over():
    topology = leaf_spine(2, 1, 2)
    problem = Problem(topology, ("h1", "h2"))
    pruned = prune(problem, TreeLayout("spine1", {"leaf1": "spine1", "h1": "leaf1", "h2": "leaf1"}))
    assert (pruned.root, pruned.parent) == ("leaf1", {"h1": "leaf1", "h2": "leaf1"})


@pytest.mark.parametrize("name", TREES)
def test_one_worker(name):
    built = plan(leaf_spine(2, 2, 2), name, workers=("h3",))
    assert len(built.aggregators) == 1
    assert built.aggregators[0].full == 1


@pytest.mark.parametrize("name", TREES)
def test_more_than_32_children_go_to_other_switches(name):
    built = plan(leaf_spine(2, 2, 40), name)
    assert all(len(aggregator.children) <= 32 for aggregator in built.aggregators)
    assert sorted(child.name for a in built.aggregators for child in a.children if child.is_worker) == sorted(
        built.workers
    )
    assert {aggregator.name for aggregator in built.aggregators} >= {"leaf1", "leaf2"}


@pytest.mark.parametrize("name", TREES)
def test_more_than_32_children_and_nowhere_to_go(name):
    assert len(plan(star(32), name).aggregators[0].children) == 32
    with pytest.raises(PlanError, match="switch s1 would have 33 children, but its bitmap holds 32 and no other"):
        plan(star(33), name)
    resources = Resources()
    with pytest.raises(PlanError):
        make_plan(star(33), PlanRequest(name, lanes=64), resources)
    assert resources.next_generation == 1


def test_the_limit_moves_as_little_as_it_can():
    topology = leaf_spine(2, 1, 5)
    problem = Problem(topology, tuple(f"h{i}" for i in range(1, 11)))
    layout = PLANS["spt"](problem)
    limited = limit_fan_in(problem, layout, limit=4)
    assert limited.children["spine1"] == ["h1", "leaf1", "h6", "leaf2"]
    assert cost(problem, limited) == cost(problem, layout) + 2
    with pytest.raises(PlanError, match="bitmap holds 2"):
        limit_fan_in(problem, layout, limit=2)


@pytest.mark.parametrize("name", TREES)
def test_plans_repeat_themselves(name):
    topology = load("nobel-us")
    first, second = plan(topology, name), plan(topology, name)
    assert first == second
    assert first.describe() == second.describe()


def test_delay_as_the_cost():
    topology = load("nobel-us")
    workers = tuple(host.name for host in topology.workers[:5])
    hops = plan(topology, "steiner", workers=workers, cost="hops")
    delay = plan(topology, "steiner", workers=workers, cost="delay")

    def total(built, value):
        return sum(value(topology.link_at(*hop)) for edge in built.edges for hop in built.path_hops(*edge))

    assert total(hops, lambda link: 1) < total(delay, lambda link: 1)
    assert total(delay, lambda link: link.delay_ps) < total(hops, lambda link: link.delay_ps)
    with pytest.raises(PlanError, match="cost 'money' is unknown"):
        plan(topology, "steiner", cost="money")


def test_load_moves_a_tree_to_other_links():
    topology = leaf_spine(2, 2, 2)
    used = {(a, topology.port(a, b)): 10**10 for a, b in (("leaf1", "spine1"), ("spine1", "leaf1"))}
    built = plan(topology, "spt", load=used)
    assert built.root == "spine2"


def test_a_second_job_and_a_released_one():
    topology, resources = leaf_spine(2, 2, 2), Resources()
    first = make_plan(topology, PlanRequest("steiner", job=1, lanes=64), resources)
    second = make_plan(topology, PlanRequest("steiner", job=2, lanes=64), resources)
    assert second.generation == first.generation + 1
    assert first.grant.stats != second.grant.stats
    for a, b in zip(first.aggregators, second.aggregators, strict=True):
        assert (a.name, a.slots) == (b.name, b.slots)
        assert a.group != b.group
        assert not {child.rid for child in a.children} & {child.rid for child in b.children}
        assert a.base + a.slots <= b.base or b.base + b.slots <= a.base
    release_plan(first, resources)
    third = make_plan(topology, PlanRequest("steiner", job=1, epoch=1, lanes=64), resources)
    assert third.aggregators == first.aggregators
    assert third.generation == second.generation + 1


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (
            {"plan": "tree"},
            "there is no plan 'tree'; choose one of all-to-all, best, exact, mst, ps, ring, spt, steiner",
        ),
        ({"workers": ("h1", "h1")}, "h1 is named twice"),
        ({"workers": ()}, "at least one"),
        ({"workers": ("leaf1",)}, "'leaf1' is no host"),
        ({"workers": ("h99",)}, "'h99' is no host"),
        ({"workers": ("h1",), "server": "h1"}, "h1 is also a worker"),
        ({"server": "spine1"}, "'spine1' is no host"),
        ({"lanes": 0}, "lanes: 0"),
    ],
)
def test_impossible_requests(request_, message):
    resources = Resources()
    with pytest.raises(PlanError, match=message):
        make_plan(leaf_spine(2, 2, 2), PlanRequest(**request_), resources)
    assert resources.next_generation == 1


@pytest.mark.parametrize(
    "field",
    [
        {"job": -1},
        {"job": 65_536},
        {"epoch": 65_536},
        {"priority": 8},
        {"window": 0},
        {"max_slots": 1},
        {"udp_ports": {"h1": 0}},
    ],
)
def test_fields_out_of_range(field):
    with pytest.raises(PlanError, match="outside"):
        PlanRequest(**field)


def test_udp_ports_of_hosts():
    built = plan(star(2), "spt", udp_ports={"h2": 40_000})
    assert [child.address.udp for child in built.aggregators[0].children] == [9400, 40_000]
    assert built.up("h2").udp == 9400


def test_workers_below():
    built = plan(leaf_spine(2, 2, 2), "spt")
    assert built.workers_below("spine1") == ("h1", "h2", "h3", "h4")
    assert built.workers_below("leaf2") == ("h3", "h4")


def test_capability_decides_where_a_fat_tree_adds_up():
    topology = with_capable(fat_tree(4), ["edge*"])
    built = plan(topology, "steiner")
    assert all(name.startswith("edge") for name in shape(built))
