"""Every plan on networks whose links and switches are down: it uses only nodes that the workers still reach."""

import random

import networkx
import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans.best import FORESTS, trees_named
from p4reduce.control_plane.plans.make import PlanRequest, make_plan
from p4reduce.control_plane.plans.problem import Problem
from p4reduce.control_plane.resources import Resources
from p4reduce.topologies import load
from p4reduce.topologies.optical import without
from tests.support.effort import examples

NETWORKS = (
    "star:hosts=4",
    "leaf-spine:leaves=2,spines=2,hosts=3,servers=1",
    "leaf-spine:leaves=3,spines=2,hosts=2,servers=1",
    "fat-tree:k=4",
    "wan:graph=nobel-us,servers=1",
)
ONE_TREE = ("steiner", "spt", "mst", "best", "exact")


def draw(seed):
    """Return a topology without what is down, the workers of its largest part, and that part's nodes."""
    chance = random.Random(seed)
    topology = load(chance.choice(NETWORKS))
    switches = [node.name for node in topology.switches]
    down = set(chance.sample(switches, chance.randrange(min(4, len(switches)))))
    between = [link for link in topology.links if link.a in switches and link.b in switches]
    cut = [frozenset((link.a, link.b)) for link in chance.sample(between, min(len(between), chance.randrange(6)))]
    graph = networkx.Graph()
    graph.add_nodes_from(node.name for node in topology.nodes)
    graph.add_edges_from((link.a, link.b) for link in topology.links)
    graph.remove_edges_from(tuple(ends) for ends in cut)
    graph.remove_nodes_from(down)
    workers = {host.name for host in topology.workers}
    part = max(networkx.connected_components(graph), key=lambda nodes: len(nodes & workers))
    chosen = [name for name in sorted(workers & part) if chance.random() < 0.7]
    return without(topology, cut, down), tuple(chosen), part


@pytest.mark.parametrize("seed", range(examples(25, 600)))
def test_trees_lie_within_what_the_workers_reach(seed):
    topology, workers, part = draw(seed)
    if len(workers) < 2:
        return
    for name in ONE_TREE:
        plan = make_plan(topology, PlanRequest(name, workers=workers), Resources())
        used = {node for path in plan.paths.values() for node in path} | {one.name for one in plan.aggregators}
        assert used <= part, name
    for name in FORESTS:
        try:
            _, trees = trees_named(name, Problem(topology, workers, None, 64))
        except PlanError as error:
            assert "has no" in str(error) or "choose" in str(error) or "needs" in str(error), (name, error)  # noqa: PT017
            continue
        for tree in trees:
            plan = make_plan(topology, PlanRequest(name, workers=workers, layout=tree.layout, part=None), Resources())
            assert {node for path in plan.paths.values() for node in path} <= part, name


def test_the_reason_of_best_is_that_its_switches_are_not_reached():
    capable = "leaf-spine:leaves=3,spines=2,hosts=3,servers=1,capable=spine1"
    request = PlanRequest("best", workers=("h1", "h4"), deadline_ps=10**9)
    with pytest.raises(PlanError, match="the workers have no common way to a switch"):
        make_plan(without(load(capable), (), {"spine1"}), request, Resources())


@pytest.mark.parametrize("name", ONE_TREE)
def test_workers_in_two_parts_have_no_tree(name):
    topology = without(load("leaf-spine:leaves=2,spines=1,hosts=2,servers=1"), (), {"spine1"})
    with pytest.raises(PlanError, match=r"have no common way|no path"):
        make_plan(topology, PlanRequest(name, workers=("h1", "h3")), Resources())
