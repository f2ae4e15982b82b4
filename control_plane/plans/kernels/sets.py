"""Local search over sets of overlay nodes: who should merge, so that a tree over them costs least."""

import numpy as np

from p4reduce.control_plane.plans.kernels.jit import NEVER, ONCE, Array, kernel
from p4reduce.control_plane.plans.kernels.shortest import settled
from p4reduce.control_plane.plans.kernels.spanning import (
    attachment,
    better_directed,
    branching,
    minimum_tree,
    overlay,
    with_node,
    with_one_more,
    without,
)


@kernel
def rows_of(graph: Array, symmetric: bool, order: Array, store: Array) -> Array:
    """Where the distances of some nodes stand, int32 (k,); those that are not there yet are computed.

    Parameters
    ----------
    graph : tuple
        ``starts``, ``heads`` and ``cost`` as `settled` takes them for ways from a node, the costs for ways to one, and
        ``names``, int32 (n,): the graph's numbers of the n nodes that are looked at.
    symmetric : bool
        Whether the two directions of every link weigh the same.
    order : int32 (k,)
        Some of these nodes, numbered 0 to n - 1.
    store : tuple
        ``to`` and ``away``, int64 (r, n): distances to and from a node, one row each (one array if symmetric);
        ``place``, int32 (n + 1,): a node's row or -1, and last the number of rows in use.
    """
    starts, heads, cost, back, names = graph
    to, away, place = store
    found = np.empty(len(order), np.int32)
    for i in range(len(order)):
        node = order[i]
        if place[node] < 0:
            size, row = len(starts) - 1, place[-1]
            distance, arc, tied = np.empty(size, np.int64), np.empty(size, np.int32), np.empty(size, np.bool_)
            settled(starts, heads, back, names[node], distance, arc, tied)
            to[row] = distance[names]
            if not symmetric:
                settled(starts, heads, cost, names[node], distance, arc, tied)
                away[row] = distance[names]
            place[node] = row
            place[-1] += 1
        found[i] = place[node]
    return found


@kernel
def priced(
    graph: Array, symmetric: bool, order: Array, leaf: bool, hosts: Array, store: Array
) -> tuple[int, Array, Array, Array, Array]:
    """A set's cheapest tree.

    Parameters
    ----------
    graph, symmetric, store
        As in `rows_of`.
    order : int32 (k,)
        The set, its root first.
    leaf : bool
        The root is last instead, a leaf at which nothing merges or hangs.
    hosts : tuple
        ``reach``, int64 (h, n): distances from switches with hosts; ``times``, int64 (h,): how many hang on each.

    Returns
    -------
    int, int32 (k,), int64 (k, k), int64 (h,), int32 (k,)
        Cost with every host's way to the nearest node, parents, distances, the hosts' ways, and rows of the nodes.
    """
    rows = rows_of(graph, symmetric, order, store)
    matrix = overlay(store[0], rows, order)
    k, root = len(order), 0
    if leaf:
        root = k - 1
        for i in range(k):
            matrix[i, root] += ONCE
            matrix[root, i] += ONCE
    if symmetric:
        total, parent = minimum_tree(matrix, root)
    else:
        total, parent, _, _ = branching(matrix, root)
    attached = attachment(hosts[0], order[: k - leaf])
    for h in range(len(attached)):
        total += attached[h] * hosts[1][h]
    return total, parent, matrix, attached, rows


@kernel
def improve(
    graph: Array, symmetric: bool, order: Array, first: int, leaf: bool, hosts: Array, store: Array, pairs: bool
) -> tuple[int, Array]:
    """Add, drop or exchange one node as long as that makes a set cheaper.

    Parameters
    ----------
    graph, symmetric, leaf, hosts, store
        As in `priced`. The search ends when the store is full. All nodes may be in the set; a leaf's is the last one.
    order : int32 (k,)
        The set to start from.
    first : int
        1 when the first node must stay, else 0.
    pairs : bool
        Also add two nodes of which one alone changes nothing (symmetric only).

    Returns
    -------
    int, int32 (k,)
        Price and set.
    """
    price = priced(graph, symmetric, order, leaf, hosts, store)[0]
    while store[2][-1] + 1 < len(store[0]):
        if symmetric:
            after, option = _better(graph, order, first, leaf, hosts, store, price)
        else:
            rows = rows_of(graph, False, order, store)
            after, option = better_directed(order, rows, first, leaf, hosts, store, price)
        if after >= price and len(order) - leaf == 1 and not first:
            after, option = _alone(order, leaf, hosts, store, price)
        if after >= price and pairs and symmetric:
            for node in _free(graph, order, leaf, hosts, store, price):
                if store[2][-1] + 1 < len(store[0]):
                    after, option = _added(graph, with_node(order, node, leaf), leaf, hosts, store, price)
                    if after < price:
                        break
        if after >= price:
            break
        price, order = after, option
    return price, order


@kernel
def _better(
    graph: Array, order: Array, first: int, leaf: bool, hosts: Array, store: Array, price: int
) -> tuple[int, Array]:
    """A cheaper set with one node more, less or another, and its price; else those that are given (symmetric)."""
    after, option = _added(graph, order, leaf, hosts, store, price)
    last = len(order) - leaf
    if after >= price:
        for position in range(first, last if last > 1 else first):
            smaller = without(order, position)
            total = priced(graph, True, smaller, leaf, hosts, store)[0]
            if total < after:
                after, option = total, smaller
    if after >= price:
        for position in range(first, last if last > 1 else first):
            after, option = _added(graph, without(order, position), leaf, hosts, store, price)
            if after < price:
                break
    return after, option


@kernel
def _added(graph: Array, order: Array, leaf: bool, hosts: Array, store: Array, price: int) -> tuple[int, Array]:
    """The best set with one node more, as `_better`."""
    prices = _prices(graph, order, leaf, hosts, store)
    prices[order] = NEVER
    best = prices.argmin()
    if prices[best] < price:
        return prices[best], with_node(order, best, leaf)
    return price, order


@kernel
def _free(graph: Array, order: Array, leaf: bool, hosts: Array, store: Array, price: int) -> Array:
    """Nodes that cost nothing in addition to a set (symmetric)."""
    prices = _prices(graph, order, leaf, hosts, store)
    prices[order] = NEVER
    return np.flatnonzero(prices <= price)


@kernel
def _prices(graph: Array, order: Array, leaf: bool, hosts: Array, store: Array) -> Array:
    """Prices of a set with one node more each (symmetric)."""
    _, parent, matrix, attached, rows = priced(graph, True, order, leaf, hosts, store)
    return with_one_more(matrix, parent, store[0], rows, ONCE if leaf else 0, hosts[0], attached, hosts[1])


@kernel
def _alone(order: Array, leaf: bool, hosts: Array, store: Array, price: int) -> tuple[int, Array]:
    """The best set of a single node, as `_better`."""
    found = order
    reach, times = hosts
    for node in range(reach.shape[1] - leaf):
        total = 0
        if leaf:
            total += ONCE + store[0][store[2][order[-1]], node]
        for h in range(len(times)):
            total += reach[h, node] * times[h]
        if total < price:
            price, found = total, order.copy()
            found[0] = node
    return price, found
