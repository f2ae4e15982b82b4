"""Overlay neighbours: nodes that a way reaches without passing another one that could merge."""

import numpy as np

from p4reduce.control_plane.plans.kernels.jit import FAR, Array, kernel


@kernel
def direct(starts: Array, heads: Array, cost: Array, capable: Array, source: int) -> tuple[Array, Array]:
    """Shortest ways from a node over nodes that cannot merge (Dijkstra without a heap, O(n^2)).

    Parameters
    ----------
    starts, heads : int32 (n + 1,), (m,)
        The graph.
    cost : int64 (m,)
        Of arcs; negative: closed.
    capable : bool (n,)
        Nodes at which ways end.
    source : int
        Where they begin.

    Returns
    -------
    int64 (n,), int32 (n,)
        Distances, :data:`FAR` where there is no such way; last arcs.
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
