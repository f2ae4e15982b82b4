"""Minimum spanning trees over a complete graph of overlay nodes, and what one node more would save."""

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
    matrix: Array, parent: Array, to: Array, rows: Array, extra: int, reach: Array, attached: Array, times: Array
) -> Array:
    """Cost of minimum spanning trees with one node more each, attachments included; O(k + hosts) a node.

    A new node's tree is made of the old tree's edges and its own: of every cycle that they close the dearest edge
    goes (Chin and Houck, Algorithms for updating minimal spanning trees, 1978).

    Parameters
    ----------
    matrix, parent : int64 (k, k), int32 (k,)
        Symmetric distances, and the tree.
    to, rows : int64 (r, n), int32 (k,)
        Distances of all n nodes to some; the rows of the overlay nodes.
    extra : int
        Added to the distances to the root.
    reach, attached, times : int64 (h, n), (h,), (h,)
        Distance of every attached switch to all nodes, to its nearest overlay node, and how many hang on it.

    Returns
    -------
    int64 (n,)
        Costs.
    """
    k, n = len(parent), to.shape[1]
    order = bottom_up(parent)
    prices = attached_with(reach, attached, times)
    link = np.empty((k, n), np.int64)
    for i in range(k):
        link[i] = to[rows[i]]
    top = link[order[k - 1]]
    top += extra
    for i in order[: k - 1]:
        above, own, edge = link[parent[i]], link[i], matrix[i, parent[i]]
        for v in range(n):
            prices[v] += min(edge, own[v])
            above[v] = min(above[v], max(edge, own[v]))
    return prices + top


@kernel
def attached_with(reach: Array, attached: Array, times: Array) -> Array:
    """What all attachments cost with one node more each, int64 (n,); the rest as in `with_one_more`."""
    total = np.zeros(reach.shape[1], np.int64)
    for h in range(len(attached)):
        count, most, row = times[h], attached[h], reach[h]
        for v in range(len(total)):
            total[v] += count * min(most, row[v])
    return total


@kernel
def attachment(reach: Array, nodes: Array) -> Array:
    """Distance of every attached switch to the nearest of some nodes: int64 (h,) from (h, n)."""
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
