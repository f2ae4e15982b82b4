"""Local search over sets of overlay nodes: who should merge, so that a tree over them costs least."""

import numpy as np

from p4reduce.control_plane.plans.kernels.jit import FAR, ONCE, Array, kernel
from p4reduce.control_plane.plans.kernels.shortest import shortest
from p4reduce.control_plane.plans.kernels.spanning import (
    arborescence,
    attachment,
    minimum_tree,
    overlay,
    with_one_more,
    with_one_more_directed,
)

_TRIED = 12
"""nodes that are priced exactly in a round of a directed search: those that promise most"""
_EXCHANGED = 3
"""the same for each node that is given up"""


@kernel
def rows_of(graph: Array, symmetric: bool, nodes: Array, store: Array) -> Array:
    """Where the distances of some nodes stand, int32 (k,); those that are not there yet are computed.

    Parameters
    ----------
    graph : tuple
        ``starts, heads, reverse`` as `shortest` takes them, and ``words`` for ways from and to a node.
    symmetric : bool
        Whether the two directions of every link weigh the same.
    nodes : int32 (k,)
        Graph nodes.
    store : tuple
        ``inward`` and ``outward``, int64 (r, n): distances to and from a node, one row each (one array if symmetric);
        ``place``, int32 (n + 1,): a node's row or -1, and last the number of rows in use.
    """
    inward, outward, place = store
    found = np.empty(len(nodes), np.int32)
    for i in range(len(nodes)):
        node = nodes[i]
        if place[node] < 0:
            row = place[-1]
            inward[row] = shortest(graph[0], graph[1], graph[2], graph[4], node, True)[0][0]
            if not symmetric:
                outward[row] = shortest(graph[0], graph[1], graph[2], graph[3], node, False)[0][0]
            place[node] = row
            place[-1] += 1
        found[i] = place[node]
    return found


@kernel
def priced(graph: Array, symmetric: bool, order: Array, leaf: bool, hosts: Array, store: Array) -> Array:
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
    total, parent = minimum_tree(matrix, root) if symmetric else arborescence(matrix, root)
    attached = attachment(hosts[0], order[: k - 1] if leaf else order)
    for h in range(len(attached)):
        total += attached[h] * hosts[1][h]
    return total, parent, matrix, attached, rows


@kernel
def improve(
    graph: Array,
    symmetric: bool,
    capable: Array,
    order: Array,
    first: int,
    leaf: bool,
    hosts: Array,
    store: Array,
    pairs: bool,
) -> tuple[int, Array]:
    """Add, drop or exchange one node as long as that makes a set cheaper.

    Parameters
    ----------
    graph, symmetric, leaf, hosts, store
        As in `priced`. The search ends when the store is full.
    capable : int32 (c,)
        Nodes that may be in the set.
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
        after, option = _added(graph, symmetric, capable, order, leaf, hosts, store, price, _TRIED)
        if after >= price:
            after, option = _dropped(graph, symmetric, order, first, leaf, hosts, store, price)
        if after >= price:
            last = len(order) - leaf
            for position in range(first, last if last > 1 else first):
                if store[2][-1] + 1 < len(store[0]):
                    smaller = _without(order, position)
                    after, option = _added(graph, symmetric, capable, smaller, leaf, hosts, store, price, _EXCHANGED)
                    if after < price:
                        break
        if after >= price and len(order) - leaf == 1 and not first:
            after, option = _alone(capable, order, leaf, hosts, store, price)
        if after >= price and pairs and symmetric:
            for node in _free(graph, capable, order, leaf, hosts, store, price):
                if store[2][-1] + 1 < len(store[0]):
                    larger = _with(order, node, leaf)
                    after, option = _added(graph, symmetric, capable, larger, leaf, hosts, store, price, _TRIED)
                    if after < price:
                        break
        if after >= price:
            break
        price, order = after, option
    return price, order


@kernel
def _added(
    graph: Array,
    symmetric: bool,
    capable: Array,
    order: Array,
    leaf: bool,
    hosts: Array,
    store: Array,
    price: int,
    tried: int,
) -> tuple[int, Array]:
    """The best set with one node more, and its price, if it costs less; else the set and the price given."""
    candidates = _others(capable, order)
    if not len(candidates):
        return price, order
    _, parent, matrix, attached, rows = priced(graph, symmetric, order, leaf, hosts, store)
    inward = store[0][rows]
    if leaf:
        inward[-1] += ONCE
    if symmetric:
        prices = with_one_more(matrix, parent, inward, candidates, hosts[0], attached, hosts[1])
        best = prices.argmin()
        if prices[best] < price:
            return prices[best], _with(order, candidates[best], leaf)
        return price, order
    outward = store[1][rows]
    prices = with_one_more_directed(matrix, parent, inward, outward, candidates, hosts[0], attached, hosts[1])
    # The exact price needs the distances between the new node and those of the set, which are there already.
    k = len(order)
    larger = np.full((k + 1, k + 1), np.int64(0))
    larger[:k, :k] = matrix
    found = order
    for _ in range(min(tried, len(candidates))):
        best = prices.argmin()
        prices[best] = FAR * 2
        node = candidates[best]
        larger[:k, k], larger[k, :k] = outward[:, node], inward[:, node]
        total = arborescence(larger, k - 1 if leaf else 0)[0]
        for h in range(len(attached)):
            total += min(attached[h], hosts[0][h, node]) * hosts[1][h]
        if total < price:
            price, found = total, _with(order, node, leaf)
    return price, found


@kernel
def _dropped(
    graph: Array, symmetric: bool, order: Array, first: int, leaf: bool, hosts: Array, store: Array, price: int
) -> tuple[int, Array]:
    """The best set with one node less, as `_added`."""
    found = order
    last = len(order) - leaf
    for position in range(first, last if last > 1 else first):
        option = _without(order, position)
        total = priced(graph, symmetric, option, leaf, hosts, store)[0]
        if total < price:
            price, found = total, option
    return price, found


@kernel
def _alone(capable: Array, order: Array, leaf: bool, hosts: Array, store: Array, price: int) -> tuple[int, Array]:
    """The best set of a single node, as `_added`."""
    found = order
    for node in capable:
        total = 0
        if leaf:
            total += ONCE + store[0][store[2][order[-1]], node]
        for h in range(len(hosts[1])):
            total += hosts[0][h, node] * hosts[1][h]
        if total < price:
            price, found = total, order.copy()
            found[0] = node
    return price, found


@kernel
def _free(graph: Array, capable: Array, order: Array, leaf: bool, hosts: Array, store: Array, price: int) -> Array:
    """Nodes that cost nothing in addition to a set (symmetric)."""
    candidates = _others(capable, order)
    _, parent, matrix, attached, rows = priced(graph, True, order, leaf, hosts, store)
    inward = store[0][rows]
    if leaf:
        inward[-1] += ONCE
    prices = with_one_more(matrix, parent, inward, candidates, hosts[0], attached, hosts[1])
    return candidates[prices <= price]


@kernel
def _others(capable: Array, order: Array) -> Array:
    keep = np.ones(len(capable), np.bool_)
    for i in range(len(capable)):
        for node in order:
            if capable[i] == node:
                keep[i] = False
    return capable[keep]


@kernel
def _with(order: Array, node: int, leaf: bool) -> Array:
    """The set with a node, a leaf still last."""
    k = len(order)
    found = np.empty(k + 1, np.int32)
    found[:k] = order
    found[k] = node
    if leaf:
        found[k - 1], found[k] = node, order[k - 1]
    return found


@kernel
def _without(order: Array, position: int) -> Array:
    found = np.empty(len(order) - 1, np.int32)
    found[:position] = order[:position]
    found[position:] = order[position + 1 :]
    return found
