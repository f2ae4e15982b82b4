"""Cheapest trees over a complete graph of overlay nodes, and what one node more would save."""

import numpy as np

from p4reduce.control_plane.plans.kernels.jit import FAR, Array, kernel


@kernel
def overlay(to: Array, rows: Array, nodes: Array) -> Array:
    """Distances between overlay nodes, int64 (k, k) from row to column; ``to[rows[j], i]`` is that from i to node j."""
    k = len(nodes)
    matrix = np.empty((k, k), np.int64)
    for j in range(k):
        for i in range(k):
            matrix[i, j] = min(FAR, to[rows[j], nodes[i]])
    return matrix


@kernel
def minimum_tree(matrix: Array, root: int) -> tuple[int, Array]:
    """Minimum spanning tree of a symmetric matrix (Prim, O(k^2)): cost, and parents (-1 at the root)."""
    k = len(matrix)
    parent = np.full(k, root, np.int32)
    near = matrix[:, root].copy()
    inside = np.zeros(k, np.bool_)
    inside[root], parent[root] = True, -1
    total = 0
    for _ in range(k - 1):
        best = -1
        for i in range(k):
            if not inside[i] and (best < 0 or near[i] < near[best]):
                best = i
        inside[best] = True
        total += near[best]
        for i in range(k):
            if not inside[i] and matrix[i, best] < near[i]:
                near[i], parent[i] = matrix[i, best], best
    return total, parent


@kernel
def arborescence(matrix: Array, root: int) -> tuple[int, Array]:
    """Cheapest tree directed to a root: every node's parent (Chu and Liu 1965, Edmonds 1967), O(k^2) for each level.

    Parameters
    ----------
    matrix : int64 (k, k)
        Cost of row's parent being column; need not be symmetric.
    root : int
        The node without a parent.

    Returns
    -------
    int, int32 (k,)
        Cost and parents.
    """
    cost, top = matrix.copy(), root
    pick = _cheapest(cost, top)
    owner, count = _cycles(pick)
    # Per level: the cheapest parents, and the arcs of the level below that its arcs stand for.
    picks = [pick]
    tails, heads = [np.zeros((1, 1), np.int32)], [np.zeros((1, 1), np.int32)]
    while count < len(cost):
        # Cycles become nodes; leaving one costs what it adds to the cycle's own arcs.
        smaller = np.full((count, count), FAR * 4, np.int64)
        tail = np.zeros((count, count), np.int32)
        head = np.zeros((count, count), np.int32)
        for i in range(len(cost)):
            if i == top:
                continue
            for j in range(len(cost)):
                a, b = owner[i], owner[j]
                if a != b:
                    extra = cost[i, j] - cost[i, pick[i]]
                    if extra < smaller[a, b]:
                        smaller[a, b], tail[a, b], head[a, b] = extra, i, j
        cost, top = smaller, owner[top]
        pick = _cheapest(cost, top)
        owner, count = _cycles(pick)
        picks.append(pick)
        tails.append(tail)
        heads.append(head)
    # Expand from the smallest level: a chosen arc replaces the pick of the node at which it leaves.
    for level in range(len(picks) - 1, 0, -1):
        below, above = picks[level - 1], picks[level]
        for a in range(len(above)):
            if above[a] >= 0:
                below[tails[level][a, above[a]]] = heads[level][a, above[a]]
    total = 0
    parent = picks[0]
    for i in range(len(matrix)):
        if parent[i] >= 0:
            total += matrix[i, parent[i]]
    return total, parent


@kernel
def _cheapest(cost: Array, top: int) -> Array:
    """Every node's cheapest parent; -1 at the top."""
    k = len(cost)
    pick = np.full(k, -1, np.int32)
    for i in range(k):
        if i != top:
            for j in range(k):
                if j != i and (pick[i] < 0 or cost[i, j] < cost[i, pick[i]]):
                    pick[i] = j
    return pick


@kernel
def _cycles(pick: Array) -> tuple[Array, int]:
    """Number the cycles of a functional graph, and every node outside one: owners (k,), their count."""
    k = len(pick)
    mark = np.full(k, -1, np.int32)
    owner = np.full(k, -1, np.int32)
    count = 0
    for start in range(k):
        at = start
        while at >= 0 and mark[at] < 0:
            mark[at] = start
            at = pick[at]
        if at >= 0 and mark[at] == start and owner[at] < 0:
            while owner[at] < 0:
                owner[at] = count
                at = pick[at]
            count += 1
    for i in range(k):
        if owner[i] < 0:
            owner[i] = count
            count += 1
    return owner, count


@kernel
def bottom_up(parent: Array) -> Array:
    """The nodes of a tree, children before their parents; the root is last."""
    k = len(parent)
    waiting = np.zeros(k, np.int32)
    for i in range(k):
        if parent[i] >= 0:
            waiting[parent[i]] += 1
    order = np.empty(k, np.int32)
    count = 0
    for i in range(k):
        at = i
        while at >= 0 and waiting[at] == 0:
            waiting[at] = -1
            order[count] = at
            count += 1
            at = parent[at]
            if at >= 0:
                waiting[at] -= 1
    return order


@kernel
def with_one_more(
    matrix: Array, parent: Array, star: Array, candidates: Array, reach: Array, attached: Array, times: Array
) -> Array:
    """Cost of minimum spanning trees with one more node each, attachments included; O(k + hosts) a candidate.

    A new node's tree is made of the old tree's edges and its own: of every cycle that they close the dearest edge
    goes (Chin and Houck, Algorithms for updating minimal spanning trees, 1978).

    Parameters
    ----------
    matrix, parent : int64 (k, k), int32 (k,)
        Symmetric distances, and the tree.
    star : int64 (k, n)
        Distance of every graph node to the overlay nodes.
    candidates : int32 (c,)
        Graph nodes to try.
    reach, attached, times : int64 (h, n), (h,), (h,)
        Distance of every attached switch to all graph nodes, to its nearest overlay node, and how many hang on it.
    """
    k = len(parent)
    order = bottom_up(parent)
    prices = np.empty(len(candidates), np.int64)
    link = np.empty(k, np.int64)
    for c in range(len(candidates)):
        node = candidates[c]
        total = 0
        for h in range(len(attached)):
            total += times[h] * min(attached[h], reach[h, node])
        for i in range(k):
            link[i] = star[i, node]
        for position in range(k - 1):
            i = order[position]
            above = parent[i]
            edge = matrix[i, above]
            total += min(edge, link[i])
            link[above] = min(link[above], max(edge, link[i]))
        prices[c] = total + link[order[k - 1]]
    return prices


@kernel
def with_one_more_directed(
    matrix: Array,
    parent: Array,
    inward: Array,
    outward: Array,
    candidates: Array,
    reach: Array,
    attached: Array,
    times: Array,
) -> Array:
    """Upper bounds of what directed trees with one more node each cost, attachments included.

    The new node hangs on the nearest overlay node; those take it as their parent that gain by it and are not above
    that one. ``inward[i, v]`` is the distance from v to overlay node i, ``outward[i, v]`` that from i to v; the rest
    as in `with_one_more`.
    """
    k = len(parent)
    order = bottom_up(parent)
    base = 0
    for i in range(k):
        if parent[i] >= 0:
            base += matrix[i, parent[i]]
    prices = np.empty(len(candidates), np.int64)
    above = np.zeros(k, np.bool_)
    for c in range(len(candidates)):
        node = candidates[c]
        total = base
        for h in range(len(attached)):
            total += times[h] * min(attached[h], reach[h, node])
        best = 0
        for i in range(k):
            if inward[i, node] < inward[best, node]:
                best = i
        total += inward[best, node]
        above[:] = False
        at = best
        while at >= 0:
            above[at] = True
            at = parent[at]
        for position in range(k - 1):
            i = order[position]
            if not above[i]:
                total -= max(0, matrix[i, parent[i]] - outward[i, node])
        prices[c] = total
    return prices


@kernel
def attachment(reach: Array, nodes: Array) -> Array:
    """Distance of every attached switch to the nearest of some graph nodes: int64 (h,) from (h, n)."""
    found = np.full(len(reach), FAR, np.int64)
    for h in range(len(reach)):
        for node in nodes:
            found[h] = min(found[h], reach[h, node])
    return found


@kernel
def shallow_tree(
    matrix: Array,
    latency: Array,
    names: Array,
    root: int,
    spread: bool,
    arcs: Array,
    nodes: Array,
    heads: Array,
    busy: Array,
) -> Array:
    """A minimum spanning tree of a symmetric matrix that is shallow, or spreads over links, among its equals.

    Of the equal edges that Prim's algorithm may take next: first, with ``spread``, the one whose path adds least to
    the busiest link; then the one whose new node is nearest to the root in time; then by names.

    Parameters
    ----------
    matrix, latency : int64 (k, k)
        Costs, and times from row to column.
    names : int64 (k,)
        Ranks of the names.
    root : int
        Overlay node.
    spread : bool
        See above.
    arcs : int32 (k, n)
        First arcs of the ways to the overlay nodes.
    nodes, heads : int32 (k,), (m,)
        Graph nodes of the overlay nodes; where arcs lead.
    busy : int64 (m,)
        Time of a frame on every arc.

    Returns
    -------
    int32 (k,)
        Parents; -1 at the root.
    """
    k = len(matrix)
    parent = np.full(k, -1, np.int32)
    inside = np.zeros(k, np.bool_)
    inside[root] = True
    depth = np.zeros(k, np.int64)
    near = matrix[:, root].copy()
    used = np.zeros(len(heads) if spread else 0, np.int32)
    for _ in range(k - 1):
        least = FAR * 4
        for i in range(k):
            if not inside[i]:
                least = min(least, near[i])
        first, second, node, above = 0, 0, -1, -1
        for i in range(k):
            if inside[i] or near[i] != least:
                continue
            for j in range(k):
                if not inside[j] or matrix[i, j] != least:
                    continue
                a, b = 0, depth[j] + latency[i, j]
                if spread:
                    at = nodes[i]
                    while arcs[j, at] >= 0:
                        arc = arcs[j, at]
                        a = max(a, (used[arc] + 1) * busy[arc])
                        at = heads[arc]
                better = node < 0 or a < first
                if not better and a == first:
                    better = b < second
                    if not better and b == second:
                        better = names[i] < names[node] or (i == node and names[j] < names[above])
                if better:
                    first, second, node, above = a, b, i, j
        inside[node], parent[node], depth[node] = True, above, second
        if spread:
            at = nodes[node]
            while arcs[above, at] >= 0:
                used[arcs[above, at]] += 1
                at = heads[arcs[above, at]]
        for i in range(k):
            if not inside[i]:
                near[i] = min(near[i], matrix[i, node])
    return parent
