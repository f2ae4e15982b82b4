"""Fractional packing of Steiner trees by column generation: the stripes in which circuits carry sums fastest.

A *commodity* is a set of pods and the bytes that a tree over them carries in each direction. Sums in the same pods are
one commodity; for an all-to-all the columns are paths between all of its pods. With circuits L, columns t (trees that
span the pods S_k of a commodity k; other pods relay) and shares y the least time T solves

 min T   s.t.   sum_t y_kt = 1 (k),   sum_k F_k sum_t c_te y_kt <= B L_e T (circuits e),   y >= 0

where c_te is 1 for a circuit e of a tree, and for an all-to-all the units that communicate across it (both directions
of a pair send as much, on the same path) (Steiner tree packing; over all pods it is the theorem of Tutte and
Nash-Williams, 1961). There are as many columns as trees, so they are generated one by one: the duals pi_e of the
circuits price the least Steiner tree (Dreyfus and Wagner, Networks 1, 1971), or the least paths, which lead to each pod
along a tree as forwarding by destination requires; a column enters if F_k pi(t) is below the dual of its commodity.
With sum_e B L_e pi_e = 1 every such pi gives Lasdon's bound: T >= sum_k F_k min_t pi(t).

If circuits may be shared freely in time (l_e >= 0, sum over a pod's circuits <= R T) the circuits drop out, since l_e =
load_e / B is best: a row for each pod remains, sum over trees of (degree of the pod) F_k y_kt <= B R T. The least tree
under prices u of pods is a star: of a terminal (sum_S u + (|S| - 2) u_i), or of a relay (sum_S u + |S| u_i). This is
the least time of *any* circuits, of one configuration or of several, without dark time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from p4reduce.control_plane.tdm.packing import Edge
from p4switch.native.compiler import Compiler

_compiler = Compiler(Path(__file__).parent)
kernel = _compiler.kernel
entry = _compiler.entry

I64 = np.dtype(np.int64)
F64 = np.dtype(np.float64)

MOST_WAYS: Final = 8_000_000
"""largest number of next pods that are stored, for all columns of all-to-alls together"""
SHORT: Final = 1e-9


@kernel
def least_star(k: int, pods: int, first: Any, terms: Any, units: Any, price: Any, coefs: Any) -> float:
    """Find a commodity's least tree or paths with free circuits; fill ``coefs`` and return the price.

    ``coefs``: the degree of each pod in the tree; for an all-to-all, the pairs of units of which one is in the pod.
    """
    count = first[k + 1] - first[k]
    total = 0.0
    for p in range(pods):
        coefs[p] = 0.0
    if units[first[k]] > 0.0:
        whole = 0.0
        for place in range(first[k], first[k + 1]):
            whole += units[place]
        for place in range(first[k], first[k + 1]):
            t = terms[place]
            coefs[t] = units[place] * (whole - units[place])
            total += coefs[t] * price[t]
        return total
    inside = terms[first[k]]
    for place in range(first[k], first[k + 1]):
        t = terms[place]
        coefs[t] = 1.0
        total += price[t]
        if price[t] < price[inside]:
            inside = t
    outside = -1
    for p in range(pods):
        if coefs[p] == 0.0 and (outside < 0 or price[p] < price[outside]):
            outside = p
    within = (count - 2) * price[inside]
    if outside >= 0 and count * price[outside] < within - 1e-15:
        coefs[outside] = np.float64(count)
        return total + count * price[outside]  # type: ignore[no-any-return]
    coefs[inside] += count - 2
    return total + within  # type: ignore[no-any-return]


@kernel
def all_ways(pods: int, eid: Any, price: Any, dist: Any, onward: Any) -> None:
    """Fill the least prices between all pods and the next pods on these paths (Floyd and Warshall)."""
    for a in range(pods):
        for b in range(pods):
            e = eid[a * pods + b]
            # No two paths cost the same: a path back is the path there, and all paths to a pod are a tree.
            dist[a * pods + b] = price[e] + 1e-10 * (1.0 + (e * 0.6180339887498949) % 1.0) if e >= 0 else 1e30
            onward[a * pods + b] = b
        dist[a * pods + a] = 0.0
    for c in range(pods):
        for a in range(pods):
            along = dist[a * pods + c]
            if along < 1e29:
                for b in range(pods):
                    value = along + dist[c * pods + b]
                    if value < dist[a * pods + b]:
                        dist[a * pods + b] = value
                        onward[a * pods + b] = onward[a * pods + c]


@kernel
def mark_way(a: int, b: int, pods: int, eid: Any, onward: Any, coefs: Any) -> None:
    """Mark the circuits of the path from pod a to b."""
    while a != b:
        c = onward[a * pods + b]
        coefs[eid[a * pods + c]] = 1.0
        a = c


@kernel
def least_ways(k: int, pods: int, rows: int, first: Any, terms: Any, units: Any, eid: Any, dist: Any, onward: Any,
               coefs: Any) -> float:  # fmt: skip
    """Fill the units across each circuit for the least paths of an all-to-all; return the price (1e30: no paths)."""
    for e in range(rows):
        coefs[e] = 0.0
    total = 0.0
    for term in range(first[k], first[k + 1]):
        for other in range(term + 1, first[k + 1]):
            a = terms[term]
            b = terms[other]
            if dist[a * pods + b] > 1e29:
                return 1e30
            weight = units[term] * units[other]
            total += weight * dist[a * pods + b]
            while a != b:
                c = onward[a * pods + b]
                coefs[eid[a * pods + c]] += weight
                a = c
    return total


@kernel
def clean(k: int, pods: int, rows: int, first: Any, terms: Any, ends: Any, coefs: Any, work: Any) -> None:
    """Reduce marked circuits to a tree without unneeded pods; ``work``: 3 * pods + rows."""
    seen = work[0:pods]
    degree = work[pods : 2 * pods]
    needed = work[2 * pods : 3 * pods]
    kept = work[3 * pods : 3 * pods + rows]
    for p in range(pods):
        seen[p] = 0
        degree[p] = 0
        needed[p] = 0
    for e in range(rows):
        kept[e] = 0
    for place in range(first[k], first[k + 1]):
        needed[terms[place]] = 1
    seen[terms[first[k]]] = 1
    grown = True
    while grown:
        grown = False
        for e in range(rows):
            if coefs[e] > 0.0 and kept[e] == 0:
                a = ends[2 * e]
                b = ends[2 * e + 1]
                if seen[a] != seen[b]:
                    seen[a] = 1
                    seen[b] = 1
                    kept[e] = 1
                    degree[a] += 1
                    degree[b] += 1
                    grown = True
    cut = True
    while cut:
        cut = False
        for e in range(rows):
            if kept[e] == 1:
                a = ends[2 * e]
                b = ends[2 * e + 1]
                if (degree[a] == 1 and needed[a] == 0) or (degree[b] == 1 and needed[b] == 0):
                    kept[e] = 0
                    degree[a] -= 1
                    degree[b] -= 1
                    cut = True
    for e in range(rows):
        coefs[e] = 1.0 if kept[e] == 1 else 0.0


@kernel
def least_tree(
    k: int,
    pods: int,
    rows: int,
    first: Any,
    terms: Any,
    ends: Any,
    eid: Any,
    dist: Any,
    onward: Any,
    coefs: Any,
    cost: Any,
    via: Any,
    parts: Any,
    work: Any,
) -> float:
    """Mark the circuits of a commodity's least Steiner tree; return at most its price (1e30: there is none).

    Dreyfus and Wagner up to 8 terminals; above, a tree of paths between terminals (Takahashi and Matsuyama), whose
    price is at most twice the least, so half of it is returned.
    """
    for e in range(rows):
        coefs[e] = 0.0
    base = first[k]
    count = first[k + 1] - base
    if count < 2:
        return 0.0
    root = terms[base + count - 1]
    for place in range(base, first[k + 1]):
        if dist[terms[place] * pods + root] > 1e29:
            return 1e30
    if count == 2:
        mark_way(terms[base], root, pods, eid, onward, coefs)
        return dist[terms[base] * pods + root]  # type: ignore[no-any-return]
    if count > 8:
        inside = work[0:pods]
        for p in range(pods):
            inside[p] = 0
        inside[root] = 1
        total = 0.0
        for _ in range(count - 1):
            best = 1e30
            target = -1
            near = -1
            for place in range(base, first[k + 1]):
                t = terms[place]
                if inside[t] == 0:
                    for p in range(pods):
                        if inside[p] == 1 and dist[t * pods + p] < best:
                            best = dist[t * pods + p]
                            target = t
                            near = p
            if target < 0:
                break
            total += best
            a = target
            while a != near:
                c = onward[a * pods + near]
                coefs[eid[a * pods + c]] = 1.0
                inside[a] = 1
                a = c
        clean(k, pods, rows, first, terms, ends, coefs, work)
        return total / 2.0
    last = (1 << (count - 1)) - 1
    for i in range(count - 1):
        t = terms[base + i]
        for v in range(pods):
            cost[(1 << i) * pods + v] = dist[t * pods + v]
            via[(1 << i) * pods + v] = t
    for mask in range(1, last + 1):
        if mask & (mask - 1) == 0:
            continue
        for v in range(pods):
            least = 1e30
            chosen = 0
            sub = (mask - 1) & mask
            while sub > 0:
                if sub > (mask ^ sub):
                    value = cost[sub * pods + v] + cost[(mask ^ sub) * pods + v]
                    if value < least:
                        least = value
                        chosen = sub
                sub = (sub - 1) & mask
            cost[(last + 1) * pods + v] = least
            parts[mask * pods + v] = chosen
        for v in range(pods):
            least = 1e30
            chosen = 0
            for u in range(pods):
                value = cost[(last + 1) * pods + u] + dist[u * pods + v]
                if value < least:
                    least = value
                    chosen = u
            cost[mask * pods + v] = least
            via[mask * pods + v] = chosen
    stack = work
    stack[0] = last
    stack[1] = root
    depth = 1
    while depth > 0:
        depth -= 1
        mask = stack[2 * depth]
        v = stack[2 * depth + 1]
        u = via[mask * pods + v]
        mark_way(u, v, pods, eid, onward, coefs)
        if mask & (mask - 1) != 0:
            sub = parts[mask * pods + u]
            stack[2 * depth] = sub
            stack[2 * depth + 1] = u
            stack[2 * depth + 2] = mask ^ sub
            stack[2 * depth + 3] = u
            depth += 2
    total = cost[last * pods + root]
    clean(k, pods, rows, first, terms, ends, coefs, work)
    return total  # type: ignore[no-any-return]


@kernel
def column_of(code: int, rows: int, count: int, size: Any, capacity: Any, coefs: Any, owner: Any, column: Any) -> None:
    """Fill a column (commodities, then rows); ``code``: >= 0 a tree, -1 the time, -2 - e the slack of row e."""
    for x in range(count + rows):
        column[x] = 0.0
    if code >= 0:
        k = owner[code]
        column[k] = 1.0
        for e in range(rows):
            column[count + e] = size[k] * coefs[code * rows + e]
    elif code == -1:
        for e in range(rows):
            column[count + e] = -capacity[e]
    else:
        column[count - code - 2] = 1.0


@kernel
def renew(m: int, basis: Any, inverse: Any, rows: int, count: int, size: Any, capacity: Any, coefs: Any, owner: Any,
          column: Any, other: Any) -> bool:  # fmt: skip
    """Compute the inverse of the basis anew (Gauss and Jordan); return False if it is singular. ``other``: m * m."""
    for x in range(m):
        column_of(basis[x], rows, count, size, capacity, coefs, owner, column)
        for y in range(m):
            other[y * m + x] = column[y]
            inverse[y * m + x] = 1.0 if x == y else 0.0
    for x in range(m):
        pivot = x
        for y in range(x + 1, m):
            if abs(other[y * m + x]) > abs(other[pivot * m + x]):
                pivot = y
        if abs(other[pivot * m + x]) < 1e-11:
            return False
        if pivot != x:
            for z in range(m):
                held = other[x * m + z]
                other[x * m + z] = other[pivot * m + z]
                other[pivot * m + z] = held
                held = inverse[x * m + z]
                inverse[x * m + z] = inverse[pivot * m + z]
                inverse[pivot * m + z] = held
        scale = 1.0 / other[x * m + x]
        for z in range(m):
            other[x * m + z] *= scale
            inverse[x * m + z] *= scale
        for y in range(m):
            if y != x:
                factor = other[y * m + x]
                if factor != 0.0:
                    for z in range(m):
                        other[y * m + z] -= factor * other[x * m + z]
                        inverse[y * m + z] -= factor * inverse[x * m + z]
    return True


@entry(I64, F64, I64, I64, F64, I64, I64, F64, F64, F64, I64, F64, F64, I64, F64, I64)
def pack_columns(
    setting: Any,
    limits: Any,
    first: Any,
    terms: Any,
    units: Any,
    ends: Any,
    eid: Any,
    size: Any,
    capacity: Any,
    coefs: Any,
    owner: Any,
    shares: Any,
    duals: Any,
    ways: Any,
    floats: Any,
    ints: Any,
) -> int:
    """Solve the program by the revised simplex method with generated columns; 1: solved, 0: stopped, -1: infeasible.

    Parameters
    ----------
    setting : int64 (8,)
        pods, rows, commodities, whether circuits are free (1: rows are pods), most columns, most pivots.
        Out: [6] columns, [7] pivots.
    limits : float64 (4,)
        In: a time at which to stop, because it is no better; relative gap. Out: [2] T, [3] a lower bound of it.
    first, terms : int64 (commodities + 1,), int64 (first[-1],)
        Pods of each commodity, concatenated.
    units : float64 (first[-1],)
        Units of an all-to-all in each of its pods; 0 for trees.
    ends, eid : int64 (2 * rows,), int64 (pods * pods,)
        Ends of each circuit; row of the circuit between each two pods, -1: none.
    size, capacity : float64 (commodities,), (rows,)
        F_k (of an all-to-all: between two units, both phases); B L_e, in any unit.
    coefs, owner, shares : float64 (columns * rows,), int64 (columns,), float64 (columns,)
        Out: the use of each row by each column; the column's commodity and share.
    duals : float64 (rows,)
        Out: pi.
    ways : int64 (columns * pods * pods,)
        Out: the next pods between all pods, for columns of all-to-alls; one number if there are none.
    floats, ints : float64, int64
        Work arrays, divided by the slices below.
    """
    pods = setting[0]
    rows = setting[1]
    count = setting[2]
    free = setting[3]
    most = setting[4]
    m = count + rows
    inverse = floats[0 : m * m]
    other = floats[m * m : 2 * m * m]
    at = 2 * m * m
    value = floats[at : at + m]
    column = floats[at + m : at + 2 * m]
    direction = floats[at + 2 * m : at + 3 * m]
    price = floats[at + 3 * m : at + 3 * m + rows]
    dist = floats[at + 4 * m : at + 4 * m + pods * pods]
    cost = floats[at + 4 * m + pods * pods : at + 4 * m + pods * pods + 257 * pods]
    basis = ints[0:m]
    onward = ints[m : m + pods * pods]
    via = ints[m + pods * pods : m + pods * pods + 256 * pods]
    parts = ints[m + pods * pods + 256 * pods : m + pods * pods + 512 * pods]
    work = ints[m + pods * pods + 512 * pods : m + pods * pods + 516 * pods + rows + 64]
    columns = 0
    # First trees: one commodity after the other along the least loaded circuits so far.
    for e in range(rows):
        value[count + e] = 0.0
    for k in range(count):
        for e in range(rows):
            load = value[count + e] / capacity[e]
            price[e] = 1.0 / capacity[e] + load
        row = coefs[columns * rows : (columns + 1) * rows]
        if free == 1:
            least_star(k, pods, first, terms, units, price, row)
        else:
            all_ways(pods, eid, price, dist, onward)
            if units[first[k]] > 0.0:
                path_cost = least_ways(k, pods, rows, first, terms, units, eid, dist, onward, row)
                for x in range(pods * pods):
                    ways[columns * pods * pods + x] = onward[x]
            else:
                path_cost = least_tree(
                    k, pods, rows, first, terms, ends, eid, dist, onward, row, cost, via, parts, work
                )
            if path_cost > 1e29:
                return -1
        owner[columns] = k
        for e in range(rows):
            value[count + e] += size[k] * row[e]
        columns += 1
    busiest = 0
    for e in range(rows):
        if value[count + e] / capacity[e] > value[count + busiest] / capacity[busiest]:
            busiest = e
    now = value[count + busiest] / capacity[busiest]
    for k in range(count):
        basis[k] = k
    for e in range(rows):
        basis[count + e] = -2 - e
    basis[count + busiest] = -1
    limits[2] = now
    limits[3] = 0.0
    setting[6] = columns
    setting[7] = 0
    for x in range(columns):
        shares[x] = 1.0
    if now <= 0.0:
        return 1
    if not renew(m, basis, inverse, rows, count, size, capacity, coefs, owner, column, other):
        return 0
    status = 0
    still = 0
    bound = 0.0
    for pivots in range(setting[5]):
        setting[7] = pivots
        if pivots % 128 == 127 and not renew(
            m, basis, inverse, rows, count, size, capacity, coefs, owner, column, other
        ):
            break
        place = count + busiest
        for x in range(m):
            if basis[x] == -1:
                place = x
        for x in range(m):
            total = 0.0
            for k in range(count):
                total += inverse[x * m + k]
            value[x] = total
        now = value[place]
        # Reduced costs of known columns: slacks, then trees.
        entering = -3 - rows
        worst = -1e-10 * max(1.0, now)
        for e in range(rows):
            reduced = -inverse[place * m + count + e]
            if reduced < worst:
                worst = reduced
                entering = -2 - e
                if still > 200:
                    break
        if entering == -3 - rows or still <= 200:
            for c in range(columns):
                k = owner[c]
                total = -inverse[place * m + k]
                for e in range(rows):
                    if coefs[c * rows + e] != 0.0:
                        total -= inverse[place * m + count + e] * size[k] * coefs[c * rows + e]
                if total < worst:
                    worst = total
                    entering = c
                    if still > 200:
                        break
        if entering == -3 - rows:
            # No known column improves the time: price new ones.
            norm = 0.0
            for e in range(rows):
                price[e] = max(0.0, -inverse[place * m + count + e])
                norm += price[e] * capacity[e]
            if free == 0:
                all_ways(pods, eid, price, dist, onward)
            lower = 0.0
            added = 0
            for k in range(count):
                if columns >= most:
                    break
                row = coefs[columns * rows : (columns + 1) * rows]
                if free == 1:
                    least = least_star(k, pods, first, terms, units, price, row)
                elif units[first[k]] > 0.0:
                    least = least_ways(k, pods, rows, first, terms, units, eid, dist, onward, row)
                    for e in range(rows):
                        least -= 2e-10 * row[e]
                    for x in range(pods * pods):
                        ways[columns * pods * pods + x] = onward[x]
                else:
                    least = least_tree(
                        k, pods, rows, first, terms, ends, eid, dist, onward, row, cost, via, parts, work
                    )
                    least -= 2e-10 * rows
                lower += size[k] * max(0.0, least)
                exact = 0.0
                for e in range(rows):
                    exact += price[e] * row[e]
                if size[k] * exact < inverse[place * m + k] - 1e-9 * max(1.0, now):
                    owner[columns] = k
                    columns += 1
                    added += 1
            if columns < most and norm > 0.0 and lower / norm > bound:
                bound = lower / norm
                for e in range(rows):
                    duals[e] = price[e] / norm
            if added == 0:
                status = 1
                break
            if bound >= limits[0] or bound >= now * (1.0 - limits[1]):
                status = 1 if bound >= now * (1.0 - limits[1]) else 0
                break
            continue
        column_of(entering, rows, count, size, capacity, coefs, owner, column)
        for x in range(m):
            total = 0.0
            for y in range(m):
                if column[y] != 0.0:
                    total += inverse[x * m + y] * column[y]
            direction[x] = total
        leaving = -1
        step = 1e30
        for x in range(m):
            if direction[x] > 1e-11:
                ratio = max(0.0, value[x]) / direction[x]
                if leaving < 0 or ratio < step - 1e-13 or (ratio <= step + 1e-13 and direction[x] > direction[leaving]):
                    step = min(step, ratio)
                    leaving = x
        if leaving < 0:
            break
        still = still + 1 if step * -worst <= 1e-13 * max(1.0, now) else 0
        if still > 2000:
            break
        basis[leaving] = entering
        scale = 1.0 / direction[leaving]
        for y in range(m):
            inverse[leaving * m + y] *= scale
        for x in range(m):
            factor = direction[x]
            if x != leaving and factor != 0.0:
                for y in range(m):
                    inverse[x * m + y] -= factor * inverse[leaving * m + y]
    for c in range(columns):
        shares[c] = 0.0
    for x in range(m):
        if basis[x] >= 0:
            shares[basis[x]] = max(0.0, value[x])
    limits[2] = now
    limits[3] = bound
    setting[6] = columns
    return status


@dataclass(frozen=True)
class Commodity:
    """Pods that a tree joins, or (with units) that all send to each other."""

    pods: tuple[int, ...]
    """at least two, ascending"""
    bytes: float
    """bytes in each direction on every circuit of a tree; for an all-to-all between two units"""
    units: tuple[int, ...] = ()
    """units of an all-to-all in each of its pods"""

    @property
    def scale(self) -> float:
        """Approximate bytes of the commodity on a circuit."""
        return self.bytes * (max(self.units) ** 2 if self.units else 1)


Onward = tuple[tuple[int, ...], ...]
"""(pods, pods): the next pod on the path from one to another"""


@dataclass(frozen=True)
class Stripe:
    """A share of a commodity along a tree, or along paths."""

    share: float
    loads: tuple[tuple[Edge, float], ...]
    """pairs of pods (smaller first) with the bytes in each direction if all of the commodity used this stripe"""
    onward: Onward = ()
    """next pods of an all-to-all"""

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The edges of a tree."""
        return tuple(pair for pair, _ in self.loads)


@dataclass(frozen=True)
class StripePacking:
    """Stripes of every commodity."""

    bytes: float
    """bytes over one circuit of the busiest pair of pods: T B"""
    bound: float
    """lower bound on the bytes of every packing"""
    stripes: tuple[tuple[Stripe, ...], ...]
    """stripes of each commodity; shares add up to 1"""
    prices: Mapping[Edge, float]
    """pi for each joined pair, of one circuit: sum of L pi is 1"""


@dataclass(frozen=True)
class _Solved:
    status: int
    bytes: float
    bound: float
    coefs: Any
    owner: Any
    shares: Any
    duals: Any
    ways: Any


def _solve(
    commodities: Sequence[Commodity], pods: int, pairs: Sequence[Edge], capacity: Any, cutoff: float, gap: float
) -> _Solved:
    """Solve the program over circuits; with empty ``pairs`` over the ports of pods."""
    rows, count = len(capacity), len(commodities)
    m = count + rows
    scale = max(commodity.scale for commodity in commodities)
    first = np.cumsum([0, *(len(commodity.pods) for commodity in commodities)]).astype(np.int64)
    terms = np.array([pod for commodity in commodities for pod in commodity.pods], np.int64)
    # Units of an all-to-all relative to the most in a pod, for coefficients of about 1.
    units = np.array(
        [
            x / max(commodity.units) if commodity.units else 0.0
            for commodity in commodities
            for x in (commodity.units or (0,) * len(commodity.pods))
        ]
    )
    ends = np.array([end for pair in pairs for end in pair] or [0], np.int64)
    eid = np.full(pods * pods, -1, np.int64)
    for e, (a, b) in enumerate(pairs):
        eid[a * pods + b] = eid[b * pods + a] = e
    most = min(4000, 60 * count + 20 * rows + 200)
    if pairs and units.any():  # paths are stored for each column
        most = min(most, max(count + 64, MOST_WAYS // pods**2))
    setting = np.array([pods, rows, count, int(not pairs), most, 60 * m + 2000, 0, 0], np.int64)
    limits = np.array([cutoff / scale, gap, 0.0, 0.0])
    coefs, owner = np.zeros((most + 1) * rows), np.zeros(most + 1, np.int64)
    shares, duals = np.zeros(most + 1), np.zeros(rows)
    ways = np.zeros((most + 1) * pods * pods if pairs and units.any() else 1, np.int64)
    floats = np.zeros(2 * m * m + 4 * m + rows + pods * pods + 258 * pods)
    ints = np.zeros(m + pods * pods + 516 * pods + rows + 64, np.int64)
    size = np.array([commodity.scale / scale for commodity in commodities])
    held = np.asarray(capacity, np.float64)
    status = pack_columns(
        setting, limits, first, terms, units, ends, eid, size, held, coefs, owner, shares, duals, ways, floats, ints
    )
    used = int(setting[6])
    return _Solved(
        status,
        float(limits[2]) * scale,
        float(limits[3]) * scale,
        coefs.reshape(-1, rows)[:used],
        owner[:used],
        shares[:used],
        duals,
        ways.reshape(-1, pods, pods)[:used] if len(ways) > 1 else None,
    )


def pack_trees(
    commodities: Sequence[Commodity], circuits: Any, *, cutoff: float = float("inf"), gap: float = 1e-7
) -> StripePacking | None:
    """Return the stripes with the least bytes on the busiest circuit.

    Parameters
    ----------
    commodities : sequence of Commodity
        At least one.
    circuits : int (pods, pods)
        L.
    cutoff : float
        Bytes over a circuit at which the caller gives up: a packing that cannot be better is not solved to the end.
    gap : float
        Relative gap between packing and bound.

    Returns
    -------
    StripePacking or None
        None: circuits do not join the pods of a commodity.
    """
    lit = np.asarray(circuits, np.int64)
    pods = len(lit)
    pairs = [(int(a), int(b)) for a, b in np.argwhere(np.triu(lit, 1) > 0)]
    counts = np.array([int(lit[pair]) for pair in pairs], np.float64)
    if not pairs:
        return None
    solved = _solve(commodities, pods, pairs, counts, cutoff, gap)
    if solved.status < 0:
        return None
    stripes: list[tuple[Stripe, ...]] = []
    load = np.zeros(len(pairs))
    for k, commodity in enumerate(commodities):
        own = [c for c in np.flatnonzero(solved.owner == k).tolist() if solved.shares[c] > SHORT]
        total = float(solved.shares[own].sum())
        own_stripes = []
        for c in own:
            share = float(solved.shares[c]) / total
            loads = commodity.scale * solved.coefs[c]
            load += share * loads
            onward = tuple(map(tuple, solved.ways[c].tolist())) if commodity.units else ()
            crossed = tuple((pairs[e], float(loads[e])) for e in np.flatnonzero(loads > 0))
            own_stripes.append(Stripe(share, crossed, onward))
        stripes.append(tuple(own_stripes))
    most = float((load / counts).max())
    prices = {pair: float(price) for pair, price in zip(pairs, solved.duals, strict=True)}
    return StripePacking(most, min(most, solved.bound), tuple(stripes), prices)


def free_bytes(commodities: Sequence[Commodity], pods: int, ports: int, *, cutoff: float = float("inf")) -> float:
    """Return the least bytes over a circuit if any circuits may be lit at any time.

    The value is Lasdon's bound, and so a lower bound even if the program is not solved to its end.
    """
    if not commodities:
        return 0.0
    if ports < 1:
        return float("inf")
    return _solve(commodities, pods, (), np.full(pods, float(ports)), cutoff, 1e-9).bound
