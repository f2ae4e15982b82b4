"""Shortest ways from or to one node under weights of three words, compared word by word."""

import numpy as np

from p4reduce.control_plane.plans.kernels.jit import FAR, Array, kernel

# Shortest-path trees with aggregation: what a root's tree would be like, without building it.


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


# Overlay neighbours: nodes that a way reaches without passing another one that could merge.


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


@kernel
def settled(
    starts: Array, heads: Array, cost: Array, source: int, distance: Array, arc: Array, tied: Array
) -> tuple[Array, bool]:
    """Dijkstra's algorithm with an indexed heap of four children a node: O((n + m) log n).

    Parameters
    ----------
    starts, heads : int32 (n + 1,), (m,)
        Arcs of node i are ``starts[i] .. starts[i + 1] - 1``; where each leads.
    cost : int64 (m,)
        Of arcs, 0 or more; :data:`FAR` closes one.
    source : int
        Where ways begin.
    distance : int64 (n,)
        Filled with distances; :data:`FAR` where there is no way.
    arc : int32 (n,)
        Filled with last arcs of ways; -1 at the source and where there is no way.
    tied : bool (n,)
        Filled: whether other ways are as short.

    Returns
    -------
    int32 (r,), bool
        Nodes that ways reach, nearest first; whether an arc on the way costs nothing.
    """
    n = len(starts) - 1
    distance[:], arc[:], tied[:] = FAR, -1, False
    keys, nodes = np.empty(n, np.int64), np.empty(n, np.int32)  # the heap
    place = np.full(n, -1, np.int32)  # of nodes in it
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
    """Fill the top of the heap with what stands behind its last node."""
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
    """Shortest ways under all three words: where several are short by the first, the others decide.

    Parameters
    ----------
    starts, heads, cost, source
        As in `settled`.
    reverse : int32 (m,)
        The arc of the same link the other way.
    words : int64 (m, 3)
        Weights, most significant word first: of the arc itself, or with ``inward`` of its reverse; the first ones are
        in ``cost``.
    inward : bool
        False: ways from the source. True: ways to the source.

    Returns
    -------
    int64 (3, n), int32 (n,)
        Distances (:data:`FAR` where there is no way), and the last arc of a way from the source, or the first arc
        of a way to it; -1 at the source and where there is no way.
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
                    # Of nodes that are equally far, one that came later may have shown a better way.
                    again = free
    if inward:
        for node in order[1:]:
            arc[node] = reverse[arc[node]]
    return distance, arc


@kernel
def along(arcs: Array, ends: Array, times: Array) -> Array:
    """Sums over the ways of `shortest`.

    Parameters
    ----------
    arcs : int32 (n,)
        First (or last) arcs.
    ends : int32 (m,)
        The node at which a way goes on behind its first arc (or before its last).
    times : int64 (m,)
        What to add up.

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
    """Count the arcs of the way from a node along first arcs in ``used``, int32 (m,)."""
    while arcs[node] >= 0:
        used[arcs[node]] += 1
        node = heads[arcs[node]]
