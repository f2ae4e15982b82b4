"""Shortest-path trees with aggregation: what a root's tree would be like, without building it."""

import numpy as np

from p4reduce.control_plane.plans.kernels.jit import Array, kernel


@kernel
def merged_tree(
    arcs: Array, heads: Array, depth: Array, capable: Array, root: int, hosts: Array, cost: Array, busy: Array
) -> tuple[int, int, int, int]:
    """The tree of all workers' shortest paths to a root, merged at every capable switch that they meet at.

    If nothing merges at the root, the first switch below it at which something does is the root instead.

    Parameters
    ----------
    arcs, heads : int32 (n,), (m,)
        First arcs of the ways to the root; where arcs lead.
    depth : int64 (n,)
        Arcs to the root.
    capable : bool (n,)
        Switches that can merge.
    root : int
        A capable switch.
    hosts : int32 (n,)
        Workers at every switch.
    cost, busy : int64 (m,)
        Cost of a copy on every arc, and the time that it takes there.

    Returns
    -------
    int, int, int, int
        Cost of all copies, time of a chunk on the busiest arc, the most children of a switch, and the root.
    """
    n = len(arcs)
    copies = hosts.astype(np.int32)
    used = np.zeros(n, np.int32)  # of the first arc of every node
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
        # Down the only path, to where something merges.
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
