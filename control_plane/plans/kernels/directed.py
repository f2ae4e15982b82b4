"""Moves of the local search where links weigh differently in the two directions.

What a set costs with one node more, less or another takes an arborescence each. Bounds say beforehand which of them
cannot be cheaper, so that few are computed; what is found is the same as without them.
"""

import numpy as np

from p4reduce.control_plane.plans.kernels.arborescence import branching, cheapest
from p4reduce.control_plane.plans.kernels.jit import FAR, NEVER, ONCE, Array, kernel
from p4reduce.control_plane.plans.kernels.spanning import attached_with, overlay

_TRIED = 12
"""nodes that are priced exactly when one is added"""
_EXCHANGED = 3
"""the same for each node that is given up"""


@kernel
def better_directed(
    order: Array, rows: Array, first: int, leaf: bool, hosts: Array, store: Array, price: int
) -> tuple[int, Array]:
    """A cheaper set with one node more, less or another, and its price; else the set and the price given.

    Parameters
    ----------
    order, first, leaf, hosts, store
        As `improve` takes them.
    rows : int32 (k,)
        Rows of the set's nodes in the store.
    price : int
        What the set costs.
    """
    reach, times = hosts
    to, away, _ = store
    root = len(order) - 1 if leaf else 0
    matrix = overlay(to, rows, order)
    if leaf:
        matrix[:, root] += ONCE
        matrix[root] += ONCE
    total, parent, owners, leaving = branching(matrix, root)
    change, nearest, instead = at_least(owners, leaving, root, to, away, rows, ONCE if leaf else 0)
    attached, otherwise, nodes = _attachments(reach, order[: len(order) - leaf])
    held = attached_with(reach, attached, times)
    after, option = _added(order, rows, leaf, store, matrix, parent, held, total + change + held, price, _TRIED)
    if after < price or len(order) - leaf <= 1:
        return after, option
    top = len(order) - 2 if leaf else 0  # the root of smaller sets
    for position in range(first, len(order) - leaf):
        rest = (np.where(nodes == position, otherwise, attached) * times).sum()
        # Where the root goes, too, the dual proves nothing.
        if position == root or total - leaving[0, position] + rest < after:
            cost = cheapest(_submatrix(matrix, position), top, after - rest) + rest
            if cost < after:
                after, option = cost, without(order, position)
    if after < price:
        return after, option
    for position in range(first, len(order) - leaf):
        moved = held.copy()
        for h in range(len(nodes)):
            if nodes[h] == position:
                for v in range(len(moved)):
                    moved[v] += times[h] * (min(otherwise[h], reach[h, v]) - min(attached[h], reach[h, v]))
        kept = total - leaving[0, position]
        least = moved + np.where(nearest == position, total + instead, kept + change)
        if position == root:
            least[:] = 0
        least[order] = NEVER
        if least.min() < price:
            smaller, inner = without(order, position), _submatrix(matrix, position)
            after, option = _added(
                smaller,
                without(rows, position),
                leaf,
                store,
                inner,
                branching(inner, top)[1],
                moved,
                least,
                price,
                _EXCHANGED,
            )
            if after < price:
                return after, option
    return price, order


@kernel
def _attachments(reach: Array, nodes: Array) -> tuple[Array, Array, Array]:
    """Of every attached switch: distances to the nearest and the next node, and the position of the nearest."""
    first, second = np.full(len(reach), FAR, np.int64), np.full(len(reach), FAR, np.int64)
    position = np.zeros(len(reach), np.int64)
    for h in range(len(reach)):
        for i in range(len(nodes)):
            far = reach[h, nodes[i]]
            if far < first[h]:
                first[h], second[h], position[h] = far, first[h], i
            else:
                second[h] = min(second[h], far)
    return first, second, position


@kernel
def _added(
    order: Array,
    rows: Array,
    leaf: bool,
    store: Array,
    matrix: Array,
    parent: Array,
    held: Array,
    least: Array,
    price: int,
    tried: int,
) -> tuple[int, Array]:
    """The best set with one node more, as `better_directed`.

    Parameters
    ----------
    order, rows, leaf, store, price
        As there.
    matrix, parent : int64 (k, k), int32 (k,)
        The set's distances and its tree.
    held, least : int64 (n,), int64 (n,)
        Of the set with each node: the hosts' ways, and what it costs at least (changed).
    tried : int
        Sets that are priced exactly: those that promise most.
    """
    to, away, _ = store
    k, root, extra = len(order), len(order) - 1 if leaf else 0, ONCE if leaf else 0
    least[order] = NEVER
    found = order
    if least.min() >= price:
        return price, found
    prices = at_most(matrix, parent, root, to, away, rows, extra) + held
    prices[order] = NEVER
    larger = np.zeros((k + 1, k + 1), np.int64)
    larger[:k, :k] = matrix
    for _ in range(min(tried, len(prices) - k)):
        node = prices.argmin()
        prices[node] = NEVER
        if least[node] >= price:
            continue
        for i in range(k):
            larger[i, k] = away[rows[i], node]
            larger[k, i] = to[rows[i], node] + (extra if i == root else 0)
        cost = cheapest(larger, root, price - held[node]) + held[node]
        if cost < price:
            price, found = cost, with_node(order, node, leaf)
    return price, found


@kernel
def at_most(matrix: Array, parent: Array, root: int, to: Array, away: Array, rows: Array, extra: int) -> Array:
    """Upper bounds of what directed trees with one node more each cost, int64 (n,), attachments left out.

    The new node hangs on the nearest overlay node; those take it as their parent that gain by it and are not above
    that one.

    Parameters
    ----------
    matrix, parent, root : int64 (k, k), int32 (k,), int
        Distances from row to column, and the tree.
    to, away, rows : int64 (r, n), int64 (r, n), int32 (k,)
        Distances of all n nodes to some, and from these; the rows of the overlay nodes.
    extra : int
        Added to the distances to the root.
    """
    k, n = len(parent), to.shape[1]
    prices, nearest = _nearest(root, to, rows, extra)
    for i in range(k):
        if i != root:
            edge, row = matrix[i, parent[i]], away[rows[i]]
            for v in range(n):
                prices[v] += min(edge, row[v])
    for v in range(n):
        at = nearest[v]
        while at != root:
            # Those above the new node keep their parents.
            prices[v] += max(0, matrix[at, parent[at]] - away[rows[at], v])
            at = parent[at]
    return prices


@kernel
def at_least(
    owners: Array, leaving: Array, root: int, to: Array, away: Array, rows: Array, extra: int
) -> tuple[Array, Array, Array]:
    """What one node more adds to the cost of the cheapest directed tree at least.

    A dual of the tree (`branching`) becomes one of the larger tree, whose cost it bounds from below: the new node joins
    all sets that its nearest overlay node is in; other sets get cheaper where arcs to the new node ask for it.

    Parameters
    ----------
    owners, leaving : int32 (l, k), int64 (l, k)
        The dual.
    root, to, away, rows, extra
        As in `at_most`.

    Returns
    -------
    int64 (n,), int64 (n,), int64 (n,)
        Bounds; the overlay nodes that the new ones are nearest to; bounds if that very node goes, too.
    """
    k, n = len(rows), to.shape[1]
    crossed = _crossed(owners, leaving)
    _, nearest = _nearest(root, to, rows, extra)
    change, instead = np.empty(n, np.int64), np.empty(n, np.int64)
    asked, less = np.empty(k, np.int64), np.empty(k, np.int64)
    for v in range(n):
        star = nearest[v]
        own, other = to[rows[star], v] + (extra if star == root else 0), NEVER
        some = False
        asked[star] = 0
        for i in range(k):
            if i != star:
                other = min(other, to[rows[i], v] + (extra if i == root else 0) - crossed[star, i])
                asked[i] = max(0, crossed[i, star] - away[rows[i], v])
                some |= asked[i] > 0
        relief = _relief(owners, leaving, star, asked, less) if some else 0
        change[v], instead[v] = min(own, other) - relief, other - relief
    return change, nearest, instead


@kernel
def _nearest(root: int, to: Array, rows: Array, extra: int) -> tuple[Array, Array]:
    """Distance to the nearest overlay node, int64 (n,), and which that is, int64 (n,)."""
    n = to.shape[1]
    near, nearest = np.full(n, NEVER, np.int64), np.zeros(n, np.int64)
    for i in range(len(rows)):
        row, more = to[rows[i]], extra if i == root else 0
        for v in range(n):
            closer = row[v] + more < near[v]
            near[v] = row[v] + more if closer else near[v]
            nearest[v] = i if closer else nearest[v]
    return near, nearest


@kernel
def _crossed(owners: Array, leaving: Array) -> Array:
    """What the sets that contain row but not column sum up to, int64 (k, k)."""
    k = owners.shape[1]
    total = np.zeros((k, k), np.int64)
    for level in range(len(owners)):
        for i in range(k):
            for j in range(k):
                if owners[level, i] != owners[level, j]:
                    total[i, j] += leaving[level, owners[level, i]]
    return total


@kernel
def _relief(owners: Array, leaving: Array, star: int, asked: Array, less: Array) -> int:
    """What it takes to make the sets with node i, but without ``star``, cheaper by ``asked[i]``: large ones first."""
    k, total = len(asked), 0
    for level in range(len(owners) - 1, -1, -1):
        less[:] = 0
        for i in range(k):
            owner = owners[level, i]
            if owner != owners[level, star]:
                less[owner] = max(less[owner], min(asked[i], leaving[level, owner]))
        for i in range(k):
            asked[i] -= min(asked[i], less[owners[level, i]])
        total += less.sum()
    return total


@kernel
def _submatrix(matrix: Array, position: int) -> Array:
    """The matrix without a row and its column."""
    k = len(matrix) - 1
    found = np.empty((k, k), np.int64)
    for i in range(k):
        for j in range(k):
            found[i, j] = matrix[i + (i >= position), j + (j >= position)]
    return found


@kernel
def with_node(order: Array, node: int, leaf: bool) -> Array:
    """The set with a node, a leaf still last."""
    k = len(order)
    found = np.empty(k + 1, np.int32)
    found[:k] = order
    found[k] = node
    if leaf:
        found[k - 1], found[k] = node, order[k - 1]
    return found


@kernel
def without(order: Array, position: int) -> Array:
    """The set without the node at a position."""
    found = np.empty(len(order) - 1, np.int32)
    found[:position] = order[:position]
    found[position:] = order[position + 1 :]
    return found
