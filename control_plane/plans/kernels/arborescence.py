"""Cheapest directed trees over a complete graph of overlay nodes, and proofs of how cheap larger ones could be."""

import numpy as np

from p4reduce.control_plane.plans.kernels.jit import FAR, NEVER, Array, kernel


@kernel
def arborescence(matrix: Array, root: int) -> tuple[int, Array]:
    """Cheapest tree directed to a root: cost, and every node's parent, int32 (k,); -1 at the root.

    Parameters
    ----------
    matrix : int64 (k, k)
        Cost of row's parent being column; need not be symmetric.
    root : int
        The node without a parent.
    """
    total, parent, _, _ = branching(matrix, root)
    return total, parent


@kernel
def branching(matrix: Array, root: int) -> tuple[int, Array, Array, Array]:
    """Cheapest tree directed to a root (Chu and Liu 1965, Edmonds 1967), O(k^2) for each level, and its dual.

    On every level each node picks its cheapest parent; cycles become the nodes of the next level. What these picks
    cost in addition is the dual: the least that leaving a node, or a set of nodes that became one, must cost. On no
    arc do the sets that it leaves sum up to more than it costs; all of them together sum up to the cheapest tree.

    Parameters
    ----------
    matrix, root
        As in `arborescence`.

    Returns
    -------
    int, int32 (k,), int32 (l, k), int64 (l, k)
        Cost; parents; the set that every node belongs to on every level; what leaving a set costs (the root's: 0).
    """
    k = len(matrix)
    costs = np.empty((2, k, k), np.int64)
    arcs = np.empty((2, k, k), np.int32)  # of the matrix, for which those of a level stand: tail * k + head
    arcs[0] = np.arange(k * k).reshape(k, k)
    chosen, owners, leaving = np.empty((k, k), np.int32), np.empty((k, k), np.int32), np.zeros((k, k), np.int64)
    owners[0] = np.arange(k)
    pick, number = np.empty(k, np.int32), np.empty(k, np.int32)
    cost, top, size, level, total = matrix, root, k, 0, 0
    while True:
        for i in range(size):
            pick[i] = -1
            if i != top:
                least = NEVER
                for j in range(size):
                    if j != i and cost[i, j] < least:
                        least, pick[i] = cost[i, j], j
                        if least == 0:
                            break
                leaving[level, i], chosen[level, i] = least, arcs[level & 1, i, pick[i]]
                total += least
        chosen[level, top] = -1
        count = _cycles(pick[:size], number)
        if count == size:
            break
        _contract(cost, arcs[level & 1], pick, number, top, size, count, costs[~level & 1], arcs[~level & 1])
        cost, top, size, level = costs[~level & 1], number[top], count, level + 1
        for i in range(k):
            owners[level, i] = number[owners[level - 1, i]]
    return total, _parents(chosen, owners[: level + 1]), owners[: level + 1], leaving[: level + 1]


@kernel
def cheapest(matrix: Array, root: int, limit: int) -> int:
    """What `arborescence` costs, in O(k^2); if that is not below the limit, a lower bound that is not below it either.

    Cycles are merged as soon as a path of picks closes one (Gabow, Galil, Spencer and Tarjan 1986), row by row.
    """
    k = len(matrix)
    cost = matrix.copy()
    least, pick = np.zeros(k, np.int64), np.full(k, -1, np.int32)
    total = 0
    for i in range(k):
        cost[i, i] = NEVER
        if i != root:
            pick[i] = cost[i].argmin()
            least[i] = cost[i, pick[i]]
            total += least[i]
    path = np.full(k, -1, np.int32)  # on which a node was met first
    path[root] = k
    for start in range(k):
        at = start
        while path[at] < 0 and total < limit:
            path[at] = start
            at = pick[at]
            if path[at] == start:
                _merge(cost, least, pick, path, at)
                pick[at] = cost[at].argmin()
                least[at] = cost[at, pick[at]]
                total += least[at]
                path[at] = -1
    return total


@kernel
def _merge(cost: Array, least: Array, pick: Array, path: Array, node: int) -> None:
    """A cycle of picks becomes the node of it that is given; nothing leads to the others any more."""
    k = len(cost)
    row = cost[node]
    row -= least[node]
    other = pick[node]
    while other != node:
        following = pick[other]
        for j in range(k):
            row[j] = min(row[j], cost[other, j] - least[other])
            cost[j, node] = min(cost[j, node], cost[j, other])
            cost[j, other] = NEVER
            if pick[j] == other:
                pick[j] = node
        path[other] = k
        other = following
    row[node] = NEVER


@kernel
def _parents(chosen: Array, owners: Array) -> Array:
    """What the arcs of all levels come to: one of a large set replaces those of the sets in it that it leaves, too."""
    k = len(chosen)
    parent = np.full(k, -1, np.int32)
    taken = np.empty(k, np.bool_)
    for level in range(len(owners) - 1, -1, -1):
        taken[:] = False
        for i in range(k):
            if parent[i] >= 0:
                taken[owners[level, i]] = True
        for i in range(k):
            arc = chosen[level, owners[level, i]]
            if arc // k == i and not taken[owners[level, i]]:
                parent[i] = arc % k
    return parent


@kernel
def _contract(
    cost: Array, arcs: Array, pick: Array, number: Array, top: int, size: int, count: int, smaller: Array, shrunk: Array
) -> None:
    """Nodes of a cycle become one; leaving it costs what an arc adds to the pick that it replaces."""
    smaller[:count, :count] = FAR * 4
    for i in range(size):
        if i == top:
            continue
        a, picked = number[i], cost[i, pick[i]]
        for j in range(size):
            b = number[j]
            if a != b and cost[i, j] - picked < smaller[a, b]:
                smaller[a, b], shrunk[a, b] = cost[i, j] - picked, arcs[i, j]


@kernel
def _cycles(pick: Array, owner: Array) -> int:
    """Number the cycles of a functional graph, and every node outside one, in ``owner``; their count."""
    k = len(pick)
    mark = np.full(k, -1, np.int32)
    owner[:k] = -1
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
    return count
