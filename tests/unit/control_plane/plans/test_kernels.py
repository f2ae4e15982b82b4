"""The compiled graph algorithms, compared with networkx."""

import random

import networkx as nx
import numpy as np
import pytest

from p4reduce.control_plane.plans.kernels import FAR, NEVER
from p4reduce.control_plane.plans.kernels.shortest import along, shortest
from p4reduce.control_plane.plans.kernels.spanning import (
    arborescence,
    at_least,
    at_most,
    branching,
    cheapest,
    minimum_tree,
    with_one_more,
)
from p4reduce.control_plane.plans.routes import Routes, same_both_ways, switch_graph, unique_words
from p4reduce.topologies import fat_tree, load, star


def weighted(topology, seed, closed=0.0):
    """Return routes with random weights per direction and some closed arcs, and the same for networkx."""
    graph, rng = switch_graph(topology), np.random.default_rng(seed)
    main = rng.integers(1, 50, len(graph.heads))
    main[rng.random(len(main)) < closed] = -1
    words = unique_words(graph, main, np.zeros(len(main), np.int64))
    theirs = nx.DiGraph()
    theirs.add_nodes_from(range(len(graph.names)))
    for arc, cost in enumerate(main):
        if cost >= 0:
            theirs.add_edge(int(graph.tails[arc]), int(graph.heads[arc]), weight=int(cost))
    return Routes(topology, graph, words), theirs


@pytest.mark.parametrize("closed", [0.0, 0.3])
@pytest.mark.parametrize("network", ["germany50", "fat-tree:k=4"])
def test_shortest_ways_from_and_to_a_switch(network, closed):
    routes, theirs = weighted(load(network), 1, closed)
    assert not routes.symmetric
    for switch in range(0, len(routes.graph.names), 7):
        for row, way in ((routes.away(switch), theirs), (routes.towards(switch), theirs.reverse())):
            expected = nx.single_source_dijkstra_path_length(way, switch)
            assert {node: int(cost) for node, cost in enumerate(row.costs) if cost < FAR} == expected
            assert ((row.arcs >= 0) == [node in expected and node != switch for node in range(len(row.arcs))]).all()


@pytest.mark.parametrize("inward", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_equal_ways_are_told_apart_by_the_other_words(seed, inward):
    """Reference: Bellman-Ford on whole weights, with many ties, zero-cost arcs and closed ones."""
    graph, rng = switch_graph(load("germany50")), np.random.default_rng(seed)
    count = len(graph.heads)
    low = int(rng.integers(2))
    words = np.stack([rng.integers(low, 3, count), rng.integers(0, 2, count), rng.integers(1, 2**40, count)], axis=1)
    words[rng.random(count) < 0.1, 0] = -1
    source = int(rng.integers(len(graph.names)))
    cost = np.where(words[:, 0] < 0, FAR, words[:, 0])
    distance, arcs = shortest(graph.starts, graph.heads, graph.reverse, cost, words, source, inward)
    best = {source: (0, 0, 0)}
    last: dict[int, int] = {}
    changed = True
    while changed:
        changed = False
        for arc in np.flatnonzero(words[:, 0] >= 0).tolist():
            tail, head = int(graph.tails[arc]), int(graph.heads[arc])
            if tail in best:
                sums = tuple(int(a) + int(b) for a, b in zip(best[tail], words[arc], strict=True))
                if head not in best or sums < best[head]:
                    best[head], last[head], changed = sums, arc, True
    for node in range(len(graph.names)):
        assert tuple(distance[:, node].tolist()) == best.get(node, (FAR, FAR, FAR))
        expected = last.get(node, -1)
        assert arcs[node] == (graph.reverse[expected] if inward and expected >= 0 else expected)


def test_paths_follow_their_distances():
    routes, theirs = weighted(load("germany50"), 2)
    names = routes.graph.names
    for a, b in ((3, 40), (40, 3), (11, 12)):
        path = [routes.graph.index[name] for name in routes.path(names[a], names[b])]
        assert nx.path_weight(theirs, path, "weight") == routes.distance(names[a], names[b])


def test_a_twin_knows_the_same_the_other_way():
    topology = load("nobel-us")
    routes, _ = weighted(topology, 3)
    graph = routes.graph
    turned_words = np.ascontiguousarray(routes.words[graph.reverse])
    alone, twin = Routes(topology, graph, turned_words), Routes(topology, graph, turned_words, routes)
    for switch in range(len(graph.names)):
        routes.away(switch)
        assert (twin.towards(switch).costs == alone.towards(switch).costs).all()
        assert (twin.towards(switch).arcs == alone.towards(switch).arcs).all()
        assert (twin.away(switch).arcs == alone.away(switch).arcs).all()


def test_sums_along_the_ways():
    routes, _ = weighted(load("germany50"), 4)
    row = routes.towards(5)
    assert (along(row.arcs, routes.graph.heads, np.ascontiguousarray(routes.words[:, 0])) == row.costs).all()


@pytest.mark.parametrize("seed", range(30))
def test_arborescences_are_the_cheapest(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 10))
    matrix, root = rng.integers(1, 9, (size, size)), int(rng.integers(size))
    total, parent = arborescence(matrix, root)
    graph = nx.DiGraph()
    edges = ((j, i, int(matrix[i, j])) for i in range(size) for j in range(size) if i not in (j, root))
    graph.add_weighted_edges_from(edges)
    assert total == nx.minimum_spanning_arborescence(graph).size(weight="weight")
    for node in range(size):
        steps = 0
        while node != root:
            node, steps = parent[node], steps + 1  # noqa: PLW2901
            assert steps < size
    assert parent[root] == -1


def metric(rng, size):
    """Return random asymmetric distances that satisfy the triangle inequality."""
    matrix = rng.integers(1, int(rng.choice([4, 30, 1000])), (size, size))
    np.fill_diagonal(matrix, 0)
    for middle in range(size):
        matrix = np.minimum(matrix, matrix[:, middle, None] + matrix[middle])
    return np.ascontiguousarray(matrix)


@pytest.mark.parametrize("seed", range(30))
def test_the_dual_proves_what_the_cheapest_tree_costs(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 12))
    matrix, root = rng.integers(1, 9, (size, size)), int(rng.integers(size))
    total, _, owners, leaving = branching(matrix, root)
    assert total == leaving.sum() == cheapest(matrix, root, NEVER)
    assert (leaving >= 0).all()
    for i in range(size):
        for j in range(size):
            left = owners[:, i] != owners[:, j]
            assert i in (j, root) or leaving[left, owners[left, i]].sum() <= matrix[i, j]
    for limit in (1, total // 2, total, total + 1):
        found = cheapest(matrix, root, limit)
        assert found == total or limit <= found <= total


@pytest.mark.parametrize("seed", range(60))
def test_bounds_of_one_node_more_and_of_one_in_place_of_another(seed):
    rng = np.random.default_rng(seed)
    size, more = int(rng.integers(2, 9)), 6
    far = metric(rng, size + more)
    to, away = np.ascontiguousarray(far.T), far  # to[r, v]: from v to r
    rows, root = np.arange(size, dtype=np.int32), int(rng.integers(size))
    extra = int(rng.choice([0, 5]))

    def tree(keep, top):
        matrix = np.ascontiguousarray(far[np.ix_(keep, keep)])
        matrix[:, keep.index(top)] += extra
        return branching(matrix, keep.index(top))

    total, parent, owners, leaving = tree(list(range(size)), root)
    matrix = np.ascontiguousarray(far[:size, :size])
    matrix[:, root] += extra
    high = at_most(matrix, parent, root, to, away, rows, extra)
    change, nearest, instead = at_least(owners, leaving, root, to, away, rows, extra)
    for node in range(size, size + more):
        exact = tree([*range(size), node], root)[0]
        assert total + change[node] <= exact <= high[node]
        for gone in set(range(size)) - {root}:
            kept = [i for i in range(size) if i != gone]
            assert total - leaving[0, gone] <= tree(kept, root)[0]
            least = total + instead[node] if nearest[node] == gone else total - leaving[0, gone] + change[node]
            assert least <= tree([*kept, node], root)[0]


@pytest.mark.parametrize("seed", range(30))
def test_one_node_more_costs_what_a_new_tree_does(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 9))
    points = rng.integers(0, 20, (size + 2, 2))
    matrix = np.abs(points[:, None] - points[None]).sum(-1)
    inner = np.ascontiguousarray(matrix[:size, :size])
    before, parent = minimum_tree(inner, 0)
    # Three hosts are attached to the second new node.
    reach = np.ascontiguousarray(matrix[size + 1 :])
    attached = np.array([matrix[size + 1, :size].min()])
    rows = np.arange(size, dtype=np.int32)
    prices = with_one_more(inner, parent, matrix, rows, 0, reach, attached, np.array([3]))
    for node in (size, size + 1):
        keep = [*range(size), node]
        after, _ = minimum_tree(np.ascontiguousarray(matrix[np.ix_(keep, keep)]), 0)
        assert prices[node] == after + 3 * min(attached[0], matrix[size + 1, node])
    assert before == nx.minimum_spanning_tree(nx.from_numpy_array(inner + 1)).size(weight="weight") - (size - 1)


def test_arrays_of_a_topology_are_made_once_and_forgotten_with_it():
    topology = fat_tree(4)
    graph = switch_graph(topology)
    assert switch_graph(topology) is graph
    assert switch_graph(fat_tree(4)) is not graph
    for arc in range(0, len(graph.heads), 5):
        name, port = graph.hop(arc)
        assert topology.neighbour(name, port) == graph.names[graph.heads[arc]]
        back = graph.hop(int(graph.reverse[arc]))
        assert topology.link_at(*back) is topology.link_at(name, port)
        assert graph.arcs[(name, port)] == arc
        assert graph.rate_bps[arc] == topology.link_at(name, port).rate_bps
    assert same_both_ways(graph, graph.delay_ps)


def test_a_single_switch_has_no_arcs():
    topology = star(3)
    routes, _ = weighted(topology, 1)
    assert routes.path("h1", "h3") == ("h1", "s1", "h3")
    assert routes.graph.by_arc({("h1", 1): 7}).shape == (0,)


def test_values_of_links_find_their_arcs():
    topology = load("nobel-us")
    graph, rng = switch_graph(topology), random.Random(1)
    values = {graph.hop(arc): rng.randrange(100) for arc in range(0, len(graph.heads), 3)}
    hosts = {(host.name, 1): 55 for host in topology.hosts}
    found = graph.by_arc(values | hosts)
    assert found.sum() == sum(values.values())
    assert all(found[graph.arcs[hop]] == value for hop, value in values.items())
