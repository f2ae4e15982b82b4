"""Minimum spanning trees over a complete graph of overlay nodes, and the savings of an additional node."""

import numpy as np

from p4reduce.control_plane.plans.kernels import FAR, NEVER, ONCE, Array, kernel

# Cheapest directed trees over a complete graph of overlay nodes, and lower bounds on the cost of larger ones.


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

    On every level each node picks its cheapest parent; cycles become the nodes of the next level. The additional
    cost of these picks is the dual: the least cost of leaving a node, or a set of merged nodes. For every arc, the
    duals of the sets that it leaves sum up to at most its cost; all duals sum up to the cost of the cheapest tree.

    Parameters
    ----------
    matrix, root
        As in `arborescence`.

    Returns
    -------
    int, int32 (k,), int32 (l, k), int64 (l, k)
        Cost; parents; the set of every node on every level; the dual of every set on every level (the root's: 0).
    """
    k = len(matrix)
    costs = np.empty((2, k, k), np.int64)
    arcs = np.empty((2, k, k), np.int32)  # for each arc of a level the arc of the matrix, tail * k + head
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
    """The cost of `arborescence` if it is below ``limit``; else a lower bound on it that is at least ``limit``; O(k^2).

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
    path = np.full(k, -1, np.int32)  # the path on which a node was first met
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
    """Merge a cycle of picks into its node ``node``; afterwards no arcs lead to the cycle's other nodes."""
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
    """Parents from the arcs of all levels: an arc of a merged set replaces the arcs of the smaller sets it leaves."""
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
    """Merge the nodes of each cycle; an arc that leaves it costs what it adds to the pick that it replaces."""
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
    """Number the cycles of a functional graph, and every node outside them, in ``owner``; returns the cycles' count."""
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


@kernel
def overlay(to: Array, rows: Array, nodes: Array) -> Array:
    """Distances between overlay nodes, int64 (k, k), from row to column; ``to[rows[j], i]``: from i to node j."""
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
    """Cost of minimum spanning trees with one additional node, attachments included; O(k + hosts) for each node.

    The tree with a new node consists of the old tree's edges and the new node's edges, without the dearest edge of
    every cycle that they close (Chin and Houck, Algorithms for updating minimal spanning trees, 1978).

    Parameters
    ----------
    matrix, parent : int64 (k, k), int32 (k,)
        Symmetric distances, and the tree.
    to, rows : int64 (r, n), int32 (k,)
        Distances of all n nodes to the node of each row; the rows of the overlay nodes.
    extra : int
        Added to the distances to the root.
    reach, attached, times : int64 (h, n), (h,), (h,)
        Distance of every attached switch to all nodes, to its nearest overlay node, and its number of hosts.

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
    """The cost of all attachments with one additional node each, int64 (n,); parameters as in `with_one_more`."""
    total = np.zeros(reach.shape[1], np.int64)
    for h in range(len(attached)):
        count, most, row = times[h], attached[h], reach[h]
        for v in range(len(total)):
            total[v] += count * min(most, row[v])
    return total


@kernel
def attachment(reach: Array, nodes: Array) -> Array:
    """Distance of every attached switch to the nearest of some nodes: int64 (h,) from (h, n)."""
    distances = np.full(len(reach), FAR, np.int64)
    for h in range(len(reach)):
        for node in nodes:
            distances[h] = min(distances[h], reach[h, node])
    return distances


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
    """A minimum spanning tree of a symmetric matrix that is shallow and, with ``spread``, avoids busy links.

    Among equal edges, Prim's algorithm takes next, with ``spread``, the edge whose path has the least busy busiest
    link; then the edge whose new node is nearest to the root in time; then the first by names.

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
        First arcs of the paths to the overlay nodes.
    nodes, heads : int32 (k,), (m,)
        Graph nodes of the overlay nodes; ends of arcs.
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


# Moves of the local search if links weigh differently in the two directions.
#
# Each set with one node more, less or exchanged needs an arborescence for its cost. Bounds exclude most of these sets
# beforehand; the result is the same as without bounds.


_TRIED = 12
"""number of nodes that are priced exactly when one is added"""
_EXCHANGED = 3
"""number of nodes that are priced exactly as a replacement of each removed node"""


@kernel
def better_directed(
    order: Array, rows: Array, first: int, leaf: bool, hosts: Array, store: Array, price: int
) -> tuple[int, Array]:
    """Price and set with one node more, less or exchanged, if cheaper; else the given price and set.

    Parameters
    ----------
    order, first, leaf, hosts, store
        As in `improve`.
    rows : int32 (k,)
        Rows of the set's nodes in the store.
    price : int
        Price of the set.
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
        # If the root is removed, the dual gives no bound.
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
    """For every attached switch: distances to the nearest and the next node, and the position of the nearest."""
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
    """The best set with one node more, as in `better_directed`.

    Parameters
    ----------
    order, rows, leaf, store, price
        As in `better_directed`.
    matrix, parent : int64 (k, k), int32 (k,)
        The set's distances and its tree.
    held, least : int64 (n,), int64 (n,)
        For the set with each additional node: cost of the hosts' paths, and a lower bound on its price (overwritten).
    tried : int
        Number of the most promising sets, which are priced exactly.
    """
    to, away, _ = store
    k, root, extra = len(order), len(order) - 1 if leaf else 0, ONCE if leaf else 0
    least[order] = NEVER
    best = order
    if least.min() >= price:
        return price, best
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
            price, best = cost, with_node(order, node, leaf)
    return price, best


@kernel
def at_most(matrix: Array, parent: Array, root: int, to: Array, away: Array, rows: Array, extra: int) -> Array:
    """Upper bounds on the cost of directed trees with one more node each, int64 (n,), without attachments.

    The new node becomes a child of the nearest overlay node. Nodes that gain by it become its children, except that
    overlay node and the nodes above.

    Parameters
    ----------
    matrix, parent, root : int64 (k, k), int32 (k,), int
        Distances from row to column, and the tree.
    to, away, rows : int64 (r, n), int64 (r, n), int32 (k,)
        Distances of all n nodes to and from the node of each row; the rows of the overlay nodes.
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
            # Nodes above the new node keep their parents.
            prices[v] += max(0, matrix[at, parent[at]] - away[rows[at], v])
            at = parent[at]
    return prices


@kernel
def at_least(
    owners: Array, leaving: Array, root: int, to: Array, away: Array, rows: Array, extra: int
) -> tuple[Array, Array, Array]:
    """Lower bounds on what one more node adds to the cost of the cheapest directed tree.

    A dual of the tree (`branching`) becomes a dual of the larger tree, whose cost it bounds from below: the new node
    joins all sets of its nearest overlay node; duals of other sets are reduced where arcs to the new node require it.

    Parameters
    ----------
    owners, leaving : int32 (l, k), int64 (l, k)
        The dual.
    root, to, away, rows, extra
        As in `at_most`.

    Returns
    -------
    int64 (n,), int64 (n,), int64 (n,)
        Bounds; the overlay node nearest to each new node; bounds if that overlay node is removed.
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
    """Distance to the nearest overlay node, int64 (n,), and its number, int64 (n,)."""
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
    """Sum of the duals of the sets that contain row but not column, int64 (k, k)."""
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
    """Total reduction by which the duals of sets with node i, but without ``star``, lose ``asked[i]``, large first."""
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
    """The matrix without one row and its column."""
    k = len(matrix) - 1
    smaller = np.empty((k, k), np.int64)
    for i in range(k):
        for j in range(k):
            smaller[i, j] = matrix[i + (i >= position), j + (j >= position)]
    return smaller


@kernel
def with_node(order: Array, node: int, leaf: bool) -> Array:
    """The set with an additional node; a leaf stays last."""
    k = len(order)
    larger = np.empty(k + 1, np.int32)
    larger[:k] = order
    larger[k] = node
    if leaf:
        larger[k - 1], larger[k] = node, order[k - 1]
    return larger


@kernel
def without(order: Array, position: int) -> Array:
    """The set without the node at a position."""
    smaller = np.empty(len(order) - 1, np.int32)
    smaller[:position] = order[:position]
    smaller[position:] = order[position + 1 :]
    return smaller


# Cheap trees over a complete graph of nodes, some of which may be left out.


@kernel
def cheap_tree(matrix: Array, must: int) -> tuple[int, Array]:
    """An approximate Steiner tree: cost, and parents, int32 (n,); -1 at the root (node 0), -2 for nodes left out.

    A minimum spanning tree over a set of nodes; each step adds or removes the node that saves most.

    Parameters
    ----------
    matrix : int64 (n, n)
        Symmetric, with the costs of edges.
    must : int
        Number of first nodes that are in every tree.
    """
    inside = np.zeros(len(matrix), np.bool_)
    inside[:must] = True
    cost, parent = spanning(matrix, inside)
    while True:
        change = -1
        least = cost
        for node in range(must, len(matrix)):
            inside[node] = not inside[node]
            changed_cost, _ = spanning(matrix, inside)
            inside[node] = not inside[node]
            if changed_cost < least:
                least, change = changed_cost, node
        if change < 0:
            return cost, parent
        inside[change] = not inside[change]
        cost, parent = spanning(matrix, inside)


@kernel
def spanning(matrix: Array, inside: Array) -> tuple[int, Array]:
    """Minimum spanning tree over the nodes that are ``inside``, node 0 among them (Prim, O(n^2))."""
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
