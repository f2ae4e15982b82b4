"""Shortest paths from or to one node under weights of three words, compared word by word; local search of node sets."""

import numpy as np

from p4reduce.control_plane.plans.kernels import FAR, NEVER, ONCE, Array, kernel
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

# Local search over sets of overlay nodes: the nodes that should merge, so that a tree over them costs least.


@kernel
def rows_of(graph: Array, symmetric: bool, order: Array, store: Array) -> Array:
    """Rows of the store with the distances of some nodes, int32 (k,); missing ones are computed.

    Parameters
    ----------
    graph : tuple
        ``starts``, ``heads`` and ``cost`` as in `settled` for paths from a node, the costs for paths to a node, and
        ``names``, int32 (n,): the graph's numbers of the n candidate nodes.
    symmetric : bool
        Whether the two directions of every link weigh the same.
    order : int32 (k,)
        Some of the candidate nodes, numbered 0 to n - 1.
    store : tuple
        ``to`` and ``away``, int64 (r, n): distances to and from a node, one row each (one array if symmetric);
        ``place``, int32 (n + 1,): a node's row or -1, and last the number of rows in use.
    """
    starts, heads, cost, back, names = graph
    to, away, place = store
    rows = np.empty(len(order), np.int32)
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
        rows[i] = place[node]
    return rows


@kernel
def priced(
    graph: Array, symmetric: bool, order: Array, leaf: bool, hosts: Array, store: Array
) -> tuple[int, Array, Array, Array, Array]:
    """The cheapest tree of a set.

    Parameters
    ----------
    graph, symmetric, store
        As in `rows_of`.
    order : int32 (k,)
        The set, its root first.
    leaf : bool
        Whether the root is last instead: a leaf at which nothing merges, and without hosts.
    hosts : tuple
        ``reach``, int64 (h, n): distances from switches with hosts; ``times``, int64 (h,): number of hosts at each.

    Returns
    -------
    int, int32 (k,), int64 (k, k), int64 (h,), int32 (k,)
        Cost with every host's path to the nearest node, parents, distances, the hosts' paths, and rows of the nodes.
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
    """Add, drop or exchange one node while that makes a set cheaper.

    Parameters
    ----------
    graph, symmetric, leaf, hosts, store
        As in `priced`. The search ends when the store is full. Every candidate may be in the set; a leaf is the last.
    order : int32 (k,)
        The set to start from.
    first : int
        1 if the first node must stay, else 0.
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
    """Price and set with one node more, less or exchanged, if cheaper; else the given price and set (symmetric)."""
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
    """The best set with one more node, as in `_better`."""
    prices = _prices(graph, order, leaf, hosts, store)
    prices[order] = NEVER
    best = prices.argmin()
    if prices[best] < price:
        return prices[best], with_node(order, best, leaf)
    return price, order


@kernel
def _free(graph: Array, order: Array, leaf: bool, hosts: Array, store: Array, price: int) -> Array:
    """Nodes that add nothing to the cost of a set (symmetric)."""
    prices = _prices(graph, order, leaf, hosts, store)
    prices[order] = NEVER
    return np.flatnonzero(prices <= price)


@kernel
def _prices(graph: Array, order: Array, leaf: bool, hosts: Array, store: Array) -> Array:
    """Prices of a set with one more node, for each node (symmetric)."""
    _, parent, matrix, attached, rows = priced(graph, True, order, leaf, hosts, store)
    return with_one_more(matrix, parent, store[0], rows, ONCE if leaf else 0, hosts[0], attached, hosts[1])


@kernel
def _alone(order: Array, leaf: bool, hosts: Array, store: Array, price: int) -> tuple[int, Array]:
    """The best set of a single node, as in `_better`."""
    best = order
    reach, times = hosts
    for node in range(reach.shape[1] - leaf):
        total = 0
        if leaf:
            total += ONCE + store[0][store[2][order[-1]], node]
        for h in range(len(times)):
            total += reach[h, node] * times[h]
        if total < price:
            price, best = total, order.copy()
            best[0] = node
    return price, best


# Shortest-path trees with aggregation: the properties of a root's tree, computed without building it.


@kernel
def merged_tree(
    arcs: Array, heads: Array, depth: Array, capable: Array, root: int, hosts: Array, cost: Array, busy: Array
) -> tuple[int, int, int, int]:
    """The tree of all workers' shortest paths to a root, merged at every capable switch where they meet.

    If nothing merges at the root, the first switch below it at which paths merge is the root instead.

    Parameters
    ----------
    arcs, heads : int32 (n,), (m,)
        First arcs of the paths to the root; ends of arcs.
    depth : int64 (n,)
        Number of arcs to the root.
    capable : bool (n,)
        Switches that can merge.
    root : int
        A capable switch.
    hosts : int32 (n,)
        Number of workers at every switch.
    cost, busy : int64 (m,)
        Cost of a copy on every arc, and the time that it takes there.

    Returns
    -------
    int, int, int, int
        Cost of all copies, time of a chunk on the busiest arc, the most children of a switch, and the root.
    """
    n = len(arcs)
    copies = hosts.astype(np.int32)
    used = np.zeros(n, np.int32)  # number of uses of the first arc of every node
    children = np.zeros(n, np.int32)
    order = np.argsort(depth)
    for position in range(n - 1, -1, -1):
        at = order[position]
        if not copies[at]:
            continue
        if capable[at] or at == root:
            children[at] = copies[at]
            copies[at] = 1
        if at != root:
            used[at] = copies[at]
            copies[heads[arcs[at]]] += copies[at]
    top = root
    while children[top] == 1 and hosts.sum() > 1:
        # Follow the only path down to where paths merge.
        at = top
        while at == top or not capable[at]:
            for below in range(n):
                if used[below] and heads[arcs[below]] == at:
                    used[below] = 0
                    at = below
                    break
        top = at
    total, chunk, most = 0, 0, 0
    for at in range(n):
        if used[at]:
            total += used[at] * cost[arcs[at]]
            chunk = max(chunk, used[at] * busy[arcs[at]])
        most = max(most, children[at])
    return total, chunk, most, top


# Overlay neighbours: nodes on paths that pass no other node that could merge.


@kernel
def direct(starts: Array, heads: Array, cost: Array, capable: Array, source: int) -> tuple[Array, Array]:
    """Shortest paths from a node over nodes that cannot merge (Dijkstra without a heap, O(n^2)).

    Parameters
    ----------
    starts, heads : int32 (n + 1,), (m,)
        The graph.
    cost : int64 (m,)
        Cost of arcs; negative: closed.
    capable : bool (n,)
        Nodes at which paths end.
    source : int
        The node at which they begin.

    Returns
    -------
    int64 (n,), int32 (n,)
        Distances, :data:`FAR` where there is no such path; last arcs.
    """
    n = len(starts) - 1
    distance = np.full(n, FAR, np.int64)
    arc = np.full(n, -1, np.int32)
    done = np.zeros(n, np.bool_)
    distance[source] = 0
    while True:
        node = -1
        for i in range(n):
            if not done[i] and distance[i] < FAR and (node < 0 or distance[i] < distance[node]):
                node = i
        if node < 0:
            return distance, arc
        done[node] = True
        if capable[node] and node != source:
            continue
        for out in range(starts[node], starts[node + 1]):
            if cost[out] >= 0 and distance[node] + cost[out] < distance[heads[out]]:
                distance[heads[out]] = distance[node] + cost[out]
                arc[heads[out]] = out


@kernel
def settled(
    starts: Array, heads: Array, cost: Array, source: int, distance: Array, arc: Array, tied: Array
) -> tuple[Array, bool]:
    """Dijkstra's algorithm with an indexed heap whose nodes have four children: O((n + m) log n).

    Parameters
    ----------
    starts, heads : int32 (n + 1,), (m,)
        Arcs of node i are ``starts[i] .. starts[i + 1] - 1``; ends of arcs.
    cost : int64 (m,)
        Cost of arcs, 0 or more; :data:`FAR` closes an arc.
    source : int
        Node at which paths begin.
    distance : int64 (n,)
        Filled with distances; :data:`FAR` where there is no path.
    arc : int32 (n,)
        Filled with last arcs of paths; -1 at the source and where there is no path.
    tied : bool (n,)
        Filled with whether other paths are as short.

    Returns
    -------
    int32 (r,), bool
        Nodes with a path, nearest first; whether some arc on the paths costs nothing.
    """
    n = len(starts) - 1
    distance[:], arc[:], tied[:] = FAR, -1, False
    keys, nodes = np.empty(n, np.int64), np.empty(n, np.int32)  # the heap
    place = np.full(n, -1, np.int32)  # positions of nodes in the heap
    order, done = np.empty(n, np.int32), 0
    free = False
    distance[source], keys[0], nodes[0], size = 0, 0, source, 1
    while size:
        near, node = keys[0], nodes[0]
        order[done] = node
        done += 1
        size -= 1
        if size:
            _sink(keys, nodes, place, size)
        for out in range(starts[node], starts[node + 1]):
            other, far = heads[out], near + cost[out]
            if far > distance[other] or cost[out] >= FAR:
                continue
            free |= cost[out] == 0
            if far == distance[other]:
                tied[other] = True
                continue
            distance[other], arc[other], tied[other] = far, out, False
            at = place[other]
            if at < 0:
                at = size
                size += 1
            while at and keys[(at - 1) >> 2] > far:
                above = (at - 1) >> 2
                keys[at], nodes[at] = keys[above], nodes[above]
                place[nodes[at]] = at
                at = above
            keys[at], nodes[at], place[other] = far, other, at
    return order[:done], free


@kernel
def _sink(keys: Array, nodes: Array, place: Array, size: int) -> None:
    """Replace the top of the heap by its last node, and restore the heap."""
    key, node, at = keys[size], nodes[size], 0
    while True:
        first = 4 * at + 1
        if first >= size:
            break
        best, least = first, keys[first]
        for below in range(first + 1, min(first + 4, size)):
            if keys[below] < least:
                best, least = below, keys[below]
        if key <= least:
            break
        keys[at], nodes[at] = least, nodes[best]
        place[nodes[at]] = at
        at = best
    keys[at], nodes[at], place[node] = key, node, at


@kernel
def shortest(
    starts: Array, heads: Array, reverse: Array, cost: Array, words: Array, source: int, inward: bool
) -> tuple[Array, Array]:
    """Shortest paths under all three words: among paths equally short by the first word, the other words decide.

    Parameters
    ----------
    starts, heads, cost, source
        As in `settled`.
    reverse : int32 (m,)
        The arc of the same link in the other direction.
    words : int64 (m, 3)
        Weights, most significant word first: of the arc itself, or with ``inward`` of its reverse; ``cost`` has the
        first words.
    inward : bool
        False: paths from the source. True: paths to the source.

    Returns
    -------
    int64 (3, n), int32 (n,)
        Distances (:data:`FAR` where there is no path), the last arc of a path from the source, or the first arc
        of a path to it; -1 at the source and where there is no path.
    """
    n = len(starts) - 1
    distance = np.full((3, n), FAR, np.int64)
    arc = np.empty(n, np.int32)
    tied = np.empty(n, np.bool_)
    order, free = settled(starts, heads, cost, source, distance[0], arc, tied)
    first, second, third = distance[0], distance[1], distance[2]
    second[source], third[source] = 0, 0
    again = True
    while again:
        again = False
        for position in range(1, len(order)):
            node = order[position]
            if not tied[node]:
                above = heads[reverse[arc[node]]]
                second[node] = second[above] + words[arc[node], 1]
                third[node] = third[above] + words[arc[node], 2]
                continue
            for back in range(starts[node], starts[node + 1]):
                above, out = heads[back], reverse[back]
                if first[above] + cost[out] != first[node] or cost[out] >= FAR:
                    continue
                a, b = second[above] + words[out, 1], third[above] + words[out, 2]
                if a < second[node] or (a == second[node] and b < third[node]):
                    second[node], third[node], arc[node] = a, b, out
                    # Among nodes at the same distance, a later one may have given a better path.
                    again = free
    if inward:
        for node in order[1:]:
            arc[node] = reverse[arc[node]]
    return distance, arc


@kernel
def along(arcs: Array, ends: Array, times: Array) -> Array:
    """Sums over the paths of `shortest`.

    Parameters
    ----------
    arcs : int32 (n,)
        First (or last) arcs.
    ends : int32 (m,)
        The node after a path's first arc (or before its last).
    times : int64 (m,)
        Values of arcs to add up.

    Returns
    -------
    int64 (n,)
        Sums; 0 where there is no arc.
    """
    n = len(arcs)
    total = np.full(n, -1, np.int64)
    stack = np.empty(n, np.int32)
    for start in range(n):
        at, count = start, 0
        while total[at] < 0 and arcs[at] >= 0:
            stack[count] = at
            count += 1
            at = ends[arcs[at]]
        total[at] = max(total[at], 0)
        while count:
            count -= 1
            at = stack[count]
            total[at] = total[ends[arcs[at]]] + times[arcs[at]]
    return total


@kernel
def walk(arcs: Array, heads: Array, node: int, used: Array) -> None:
    """Count the arcs of the path from a node along first arcs in ``used``, int32 (m,)."""
    while arcs[node] >= 0:
        used[arcs[node]] += 1
        node = heads[arcs[node]]
