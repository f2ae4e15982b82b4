"""Shortest ways from or to one node under weights of three words, compared word by word."""

import numpy as np

from p4reduce.control_plane.plans.kernels.jit import FAR, Array, kernel


@kernel
def shortest(
    starts: Array, heads: Array, reverse: Array, words: Array, source: int, inward: bool
) -> tuple[Array, Array]:
    """Dijkstra's algorithm with an indexed binary heap: O((n + m) log n), independent of the order of equal keys.

    Parameters
    ----------
    starts, heads : int32 (n + 1,), (m,)
        Arcs of node i are ``starts[i] .. starts[i + 1] - 1``; where each leads.
    reverse : int32 (m,)
        The arc of the same link the other way.
    words : int64 (m, 3)
        Weights, most significant word first: of the arc itself, or with ``inward`` of its reverse. A negative first
        word closes the arc.
    source : int
        The node.
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
    arc = np.full(n, -1, np.int32)
    heap = np.empty(n, np.int32)
    place = np.full(n, -1, np.int32)  # in the heap; -2: done
    distance[:, source] = 0
    heap[0], place[source], size = source, 0, 1
    while size:
        node = heap[0]
        place[node] = -2
        size -= 1
        if size:
            _sink(heap, place, distance, heap[size], size)
        d0, d1, d2 = distance[0, node], distance[1, node], distance[2, node]
        for out in range(starts[node], starts[node + 1]):
            other = heads[out]
            weight = words[out, 0]
            a = d0 + weight
            if a > distance[0, other] or weight < 0 or place[other] == -2:
                continue
            b, c = d1 + words[out, 1], d2 + words[out, 2]
            if _less(a, b, c, distance, other):
                distance[0, other], distance[1, other], distance[2, other] = a, b, c
                arc[other] = reverse[out] if inward else out
                if place[other] < 0:
                    place[other] = size
                    size += 1
                _rise(heap, place, distance, other)
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


@kernel
def _less(a: int, b: int, c: int, distance: Array, other: int) -> bool:
    if a != distance[0, other]:
        return bool(a < distance[0, other])
    if b != distance[1, other]:
        return bool(b < distance[1, other])
    return bool(c < distance[2, other])


@kernel
def _rise(heap: Array, place: Array, distance: Array, node: int) -> None:
    """Move a node towards the top, from its place."""
    at = place[node]
    a, b, c = distance[0, node], distance[1, node], distance[2, node]
    while at:
        above = (at - 1) // 2
        if not _less(a, b, c, distance, heap[above]):
            break
        heap[at] = heap[above]
        place[heap[at]] = at
        at = above
    heap[at] = node
    place[node] = at


@kernel
def _sink(heap: Array, place: Array, distance: Array, node: int, size: int) -> None:
    """Put a node where it belongs, from the top."""
    a, b, c = distance[0, node], distance[1, node], distance[2, node]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        best = heap[below]
        if below + 1 < size:
            right = heap[below + 1]
            if _less(distance[0, right], distance[1, right], distance[2, right], distance, best):
                below, best = below + 1, right
        if _less(a, b, c, distance, best):
            break
        heap[at] = best
        place[best] = at
        at = below
    heap[at] = node
    place[node] = at
