"""Plans with a tree for each block: known properties, computed from their steps instead of their trees."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans.best import FORESTS
from p4reduce.control_plane.plans.forest import MOST_BLOCKS, TreeShare, frames_of
from p4reduce.control_plane.plans.make import check_layout
from p4reduce.control_plane.plans.problem import Problem, TreeLayout
from p4reduce.topologies import load

BY_BLOCKS = ("rina", "hierarchical", "halving-doubling", "double-binary-tree")


def parts(plan: str, spec: str, workers: int | None = None) -> list[TreeLayout]:
    """Return the trees, checked; all have the same share."""
    topology = load(spec)
    names = tuple(host.name for host in topology.workers)[:workers]
    problem = Problem(topology, names)
    found: list[TreeShare] = FORESTS[plan](problem)
    layouts = []
    for part in found:
        assert isinstance(part.layout, TreeLayout)
        assert part.weight == 1
        check_layout(problem, part.layout)
        layouts.append(part.layout)
    return layouts


@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_halving_moves_each_block_as_the_exchange_does(size: int) -> None:
    """In the exchange, rank r sends in step s the blocks whose owners first differ from it in bit s."""
    trees = parts("halving-doubling", f"star:hosts={size},servers=0")
    hosts = sorted((tree.root for tree in trees), key=lambda name: int(name[1:]))
    assert len(hosts) == size
    sent = Counter((child, parent) for tree in trees for child, parent in tree.parent.items())
    number = {tree.root: rank for rank, tree in enumerate(trees)}
    steps = size.bit_length() - 1
    assert len(sent) == size * steps
    for (child, parent), blocks in sent.items():
        step = abs(number[child] - number[parent]).bit_length() - 1
        assert number[child] ^ number[parent] == 1 << step
        assert blocks == size >> (step + 1)


def test_beyond_a_power_of_two_workers_hand_over_all_they_have() -> None:
    trees = parts("halving-doubling", "star:hosts=6,servers=0")
    assert len(trees) == 4
    assert all(tree.parent["h5"] == "h1" and tree.parent["h6"] == "h2" for tree in trees)


@settings(deadline=None, max_examples=20)
@given(size=st.integers(2, 40))
def test_of_two_binary_trees_a_worker_is_an_inner_node_of_one(size: int) -> None:
    first, second = parts("double-binary-tree", f"star:hosts={size},servers=0")
    assert not set(first.parent.values()) & set(second.parent.values())
    for tree in (first, second):
        assert max(Counter(tree.parent.values()).values()) <= 2
        depth = max(sum(1 for _ in ways_up(tree, name)) for name in tree.parent)
        assert depth <= size.bit_length()


def ways_up(tree: TreeLayout, name: str):
    """Return the ancestors of a node."""
    while name in tree.parent:
        name = tree.parent[name]
        yield name


def test_in_a_hierarchy_a_block_crosses_racks_over_one_host_of_each() -> None:
    trees = parts("hierarchical", "leaf-spine:leaves=4,spines=2,hosts=4,servers=0")
    rack = {f"h{n + 1}": n // 4 for n in range(16)}
    assert len(trees) == 16
    across = Counter()
    for tree in trees:
        crossing = [edge for edge in tree.parent.items() if rack[edge[0]] != rack[edge[1]]]
        assert len(crossing) == 3
        assert len({name for edge in crossing for name in edge}) == 4
        across.update(name for edge in crossing for name in edge)
    assert len(set(across.values())) == 1


def test_racks_of_unequal_size_have_a_place_in_each_ring() -> None:
    trees = parts("hierarchical", "leaf-spine:leaves=3,spines=1,hosts=3,servers=0", workers=7)
    assert len(trees) == 9
    assert all(set(tree.parent) | {tree.root} == {f"h{n + 1}" for n in range(7)} for tree in trees)


def test_rina_s_ring_has_racks_that_aggregate_and_other_hosts() -> None:
    trees = parts("rina", "leaf-spine:leaves=3,spines=1,hosts=3,servers=0,capable=leaf2")
    members = {"h1", "h2", "h3", "leaf2", "h7", "h8", "h9"}
    assert len(trees) == 7
    for tree in trees:
        assert {tree.parent[name] for name in ("h4", "h5", "h6")} == {"leaf2"}
        ends = Counter(name for edge in tree.parent.items() if set(edge) <= members for name in edge)
        assert set(ends) == members
        assert sorted(ends.values()) == [1, 1, 2, 2, 2, 2, 2]  # a path
    open_at = {frozenset(pair for pair in tree.parent.items() if set(pair) <= members) for tree in trees}
    assert len(open_at) == 7


@pytest.mark.parametrize("plan", BY_BLOCKS)
def test_one_worker_a_server_and_a_crowd_are_refused(plan: str) -> None:
    with pytest.raises(PlanError, match=f"plan {plan}: a job of one worker exchanges no blocks"):
        parts(plan, "star:hosts=3", workers=1)
    with pytest.raises(PlanError, match=f"{MOST_BLOCKS + 1} workers, and each of up to {MOST_BLOCKS} has a tree"):
        parts(plan, f"star:hosts={MOST_BLOCKS + 1}")
    topology = load("star:hosts=3,servers=1")
    with pytest.raises(PlanError, match=f"plan {plan}: a job with a server has one tree"):
        FORESTS[plan](Problem(topology, ("h1", "h2"), server=topology.servers[0].name))


def test_a_tensor_of_few_chunks_has_few_trees() -> None:
    topology = load("star:hosts=8,servers=0")
    names = tuple(host.name for host in topology.workers)
    assert [len(FORESTS["halving-doubling"](Problem(topology, names, elements=n))) for n in (1, 257, 10**7)] == [
        1,
        2,
        8,
    ]


def test_paths_are_spread_where_shortest_ones_would_meet() -> None:
    """Both edges of a rack would use one spine, six frames a turn; a host's link carries four."""
    topology = load("leaf-spine:leaves=4,spines=2,hosts=2,servers=0,rate=10G,capable=leaf*")
    problem = Problem(topology, tuple(host.name for host in topology.workers))
    found = FORESTS["rina"](problem)
    layouts = [part.layout for part in found if isinstance(part.layout, TreeLayout)]
    assert all(layout.paths is not None for layout in layouts)
    assert max(frames_of(problem, layouts).values()) == 4
