"""Cheap trees over a complete graph of nodes, some of which may be left out."""

import numpy as np

from p4reduce.control_plane.plans.kernels import NEVER, Array, kernel


@kernel
def cheap_tree(matrix: Array, must: int) -> tuple[int, Array]:
    """An approximate Steiner tree: cost, and parents, int32 (n,); -1 at the root (node 0), -2 of what is left out.

    A minimum spanning tree over a set of nodes; single ones are added to the set or taken out while that saves most.

    Parameters
    ----------
    matrix : int64 (n, n)
        Symmetric, with the costs of edges.
    must : int
        The first so many nodes are in every tree.
    """
    inside = np.zeros(len(matrix), np.bool_)
    inside[:must] = True
    cost, parent = spanning(matrix, inside)
    while True:
        change = -1
        least = cost
        for node in range(must, len(matrix)):
            inside[node] = not inside[node]
            found, _ = spanning(matrix, inside)
            inside[node] = not inside[node]
            if found < least:
                least, change = found, node
        if change < 0:
            return cost, parent
        inside[change] = not inside[change]
        cost, parent = spanning(matrix, inside)


@kernel
def spanning(matrix: Array, inside: Array) -> tuple[int, Array]:
    """Minimum spanning tree over the nodes that are ``inside``, node 0 one of them (Prim, O(n^2))."""
    n = len(matrix)
    parent = np.full(n, -2, np.int32)
    near = np.full(n, NEVER, np.int64)
    open_ = inside.copy()
    at = 0
    parent[0] = -1
    total = 0
    while True:
        open_[at] = False
        best = -1
        for i in range(n):
            if open_[i]:
                if matrix[at, i] < near[i]:
                    near[i], parent[i] = matrix[at, i], at
                if best < 0 or near[i] < near[best]:
                    best = i
        if best < 0:
            return total, parent
        total += near[best]
        at = best
