"""Local search for the placement of jobs' units and the trees that join their pods (threshold accepting).

A state has, for every job, units in each pod and a tree over the pods that it uses (kind 0), or only the units (kind 1,
all-to-all). Its cost is the time of the busiest ToR: with D_ij bytes between pods i and j in each direction, and R
ports, row i takes min over whole l_ij >= 1 with sum_j l_ij <= R of max_j D_ij / l_ij; the largest row is the least T of
Algorithm 2 for direct circuits. The largest row alone would not guide the search (most moves leave it unchanged), so
moves are judged by the sum of eighth powers of all rows.

Arrays are flat: ``x[job * pods + pod]``. Nothing is allocated. Loads are integers, so additions can be undone exactly.
"""

from pathlib import Path
from typing import Any

import numpy as np

from p4switch.native.compiler import Compiler

# ``kernel`` and ``entry`` of this folder (see ``p4switch.native``).


_compiler = Compiler(Path(__file__).parent)
kernel = _compiler.kernel
entry = _compiler.entry


I64 = np.dtype(np.int64)
F64 = np.dtype(np.float64)


@kernel
def draw(state: Any, below: int) -> int:
    """Draw a number from 0 to ``below`` - 1 (xorshift64*; the bias of the remainder is below 2^-40)."""
    x = state[0]
    x ^= x << 13
    x ^= (x >> 7) & 0x01FFFFFFFFFFFFFF
    x ^= x << 17
    state[0] = x
    return ((x >> 11) & 0x000FFFFFFFFFFFFF) % below  # type: ignore[no-any-return]


@kernel
def row_time(demand: Any, layers: int, pods: int, ports: int, largest: int, i: int, work: Any) -> float:
    """Return the bytes over one circuit to a pod's busiest neighbour, with the best assignment of ports.

    ``largest``: layers take turns on one set of circuits (the larger of their demands counts); otherwise demands add
    up. More neighbours than ports cost a multiple of all bytes of the row: worse than every possible assignment.
    """
    degree = 0
    total = 0
    for j in range(pods):
        d = demand[i * pods + j]
        if layers == 2:
            other = demand[(pods + i) * pods + j]
            d = max(d, other) if largest != 0 else d + other
        if d > 0:
            work[degree] = d
            work[pods + degree] = 1
            degree += 1
            total += d
    if degree == 0:
        return 0.0
    if degree > ports:
        return np.float64(total) * (2.0 + 2.0 * (degree - ports))
    left = ports - degree
    while True:
        worst = 0
        most = 0.0
        for place in range(degree):
            value = np.float64(work[place]) / np.float64(work[pods + place])
            if value > most:
                most = value
                worst = place
        if left == 0:
            return most
        work[pods + worst] += 1
        left -= 1


@kernel
def add_load(
    demand: Any, pods: int, job: int, layer: int, kind: int, load: int, n: Any, ea: Any, eb: Any, m: Any
) -> None:
    """Add a job's bytes between pods in each direction; a negative ``load`` subtracts them."""
    base = layer * pods
    row = job * pods
    if kind == 0:
        for e in range(m[job]):
            a = ea[row + e]
            b = eb[row + e]
            demand[(base + a) * pods + b] += load
            demand[(base + b) * pods + a] += load
    else:
        for a in range(pods):
            if n[row + a] > 0:
                for b in range(pods):
                    if b != a and n[row + b] > 0:
                        demand[(base + a) * pods + b] += load * n[row + a] * n[row + b]


@kernel
def mark(pods: int, job: int, n: Any, touched: Any) -> None:
    """Mark the pods of a job."""
    for p in range(pods):
        if n[job * pods + p] > 0:
            touched[p] = 1


@kernel
def nth_used(pods: int, job: int, n: Any, place: int) -> int:
    """Return the ``place``-th pod (from 0) that the job uses; -1 if there is none."""
    for p in range(pods):
        if n[job * pods + p] > 0:
            if place == 0:
                return p
            place -= 1
    return -1


@kernel
def count_used(pods: int, job: int, n: Any) -> int:
    """Return the number of pods that a job uses."""
    count = 0
    for p in range(pods):
        if n[job * pods + p] > 0:
            count += 1
    return count


@kernel
def shift(state: Any, pods: int, job: int, p: int, q: int, k: int, kind: int, n: Any, ea: Any, eb: Any, m: Any) -> None:
    """Move ``k`` of a job's units from pod p to q, and repair its tree."""
    row = job * pods
    fresh = n[row + q] == 0
    n[row + p] -= k
    n[row + q] += k
    emptied = n[row + p] == 0
    if kind != 0:
        return
    if emptied and fresh:
        for e in range(m[job]):
            if ea[row + e] == p:
                ea[row + e] = q
            if eb[row + e] == p:
                eb[row + e] = q
    elif emptied:
        heir = -1
        seen = 0
        for e in range(m[job]):
            if ea[row + e] == p or eb[row + e] == p:
                other = eb[row + e] if ea[row + e] == p else ea[row + e]
                seen += 1
                if heir != q and (other == q or draw(state, seen) == 0):
                    heir = other
        kept = 0
        for e in range(m[job]):
            a = ea[row + e]
            b = eb[row + e]
            if (a == p and b == heir) or (a == heir and b == p):
                continue
            ea[row + kept] = heir if a == p else a
            eb[row + kept] = heir if b == p else b
            kept += 1
        m[job] = kept
    elif fresh:
        x = q
        while x == q:
            x = nth_used(pods, job, n, draw(state, count_used(pods, job, n)))
        ea[row + m[job]] = q
        eb[row + m[job]] = x
        m[job] += 1


@kernel
def graft(state: Any, pods: int, job: int, n: Any, ea: Any, eb: Any, m: Any, side: Any) -> None:
    """Remove an edge from a job's tree, and join the two parts elsewhere."""
    row = job * pods
    out = draw(state, m[job])
    for p in range(pods):
        side[p] = 0
    side[ea[row + out]] = 1
    grown = True
    while grown:
        grown = False
        for e in range(m[job]):
            if e != out and side[ea[row + e]] != side[eb[row + e]]:
                side[ea[row + e]] = 1
                side[eb[row + e]] = 1
                grown = True
    here = 0
    there = 0
    x = -1
    y = -1
    for p in range(pods):
        if n[row + p] > 0:
            if side[p] == 1:
                here += 1
                if draw(state, here) == 0:
                    x = p
            else:
                there += 1
                if draw(state, there) == 0:
                    y = p
    ea[row + out] = x
    eb[row + out] = y


@kernel
def keep(pods: int, job: int, n: Any, ea: Any, eb: Any, m: Any, saved: Any, place: int) -> None:
    """Save a job's rows."""
    base = place * (3 * pods + 1)
    for p in range(pods):
        saved[base + p] = n[job * pods + p]
        saved[base + pods + p] = ea[job * pods + p]
        saved[base + 2 * pods + p] = eb[job * pods + p]
    saved[base + 3 * pods] = m[job]


@kernel
def bring_back(pods: int, job: int, n: Any, ea: Any, eb: Any, m: Any, saved: Any, place: int) -> None:
    """Restore the rows that :func:`keep` saved."""
    base = place * (3 * pods + 1)
    for p in range(pods):
        n[job * pods + p] = saved[base + p]
        ea[job * pods + p] = saved[base + pods + p]
        eb[job * pods + p] = saved[base + 2 * pods + p]
    m[job] = saved[base + 3 * pods]


@kernel
def power8(x: float) -> float:
    """Return x^8."""
    x *= x
    x *= x
    return x * x


@entry(I64, F64, I64, I64, I64, I64, I64, I64, I64, I64, I64, I64, I64, F64)
def anneal(
    setting: Any,
    limits: Any,
    loads: Any,
    kinds: Any,
    layer_of: Any,
    movable: Any,
    capacity: Any,
    n: Any,
    ea: Any,
    eb: Any,
    m: Any,
    best: Any,
    scratch: Any,
    rows: Any,
) -> int:
    """Improve a state; return the number of moves tried.

    Parameters
    ----------
    setting : int64 (8,)
        jobs, pods, layers (1 or 2), ports, largest (see `row_time`), moves, state of the random numbers (not 0), -.
    limits : float64 (4,)
        In: scale of a row's bytes; value of the largest row that is good enough; first threshold (relative, for
        the sum of eighth powers). Out, in [3]: the largest row of ``best``, bytes over circuits.
    loads : int64 (jobs,)
        Bytes on each edge of a tree, or between two units, in each direction.
    kinds, layer_of, movable : int64 (jobs,)
        0 tree, 1 all-to-all; layer of GPUs; whether units may move.
    capacity : int64 (layers * pods,)
        GPUs.
    n, ea, eb : int64 (jobs * pods,)
        Units; ends of edges. They are changed; the result is in ``best``.
    m : int64 (jobs,)
        Number of edges of each job.
    best : int64 (3 * jobs * pods + jobs,)
        Out: n, ea, eb, m of the best state.
    scratch, rows : int64 (layers * pods * pods + layers * pods + 11 * pods + 2,), float64 (2 * pods,)
        Work arrays.
    """
    jobs = setting[0]
    pods = setting[1]
    layers = setting[2]
    ports = setting[3]
    largest = setting[4]
    moves = setting[5]
    state = setting[6:7]
    scale = limits[0]
    demand = scratch[0 : layers * pods * pods]
    used = scratch[layers * pods * pods : layers * pods * pods + layers * pods]
    first = layers * pods * pods + layers * pods
    work = scratch[first : first + 2 * pods]
    touched = scratch[first + 2 * pods : first + 3 * pods]
    side = scratch[first + 3 * pods : first + 4 * pods]
    saved = scratch[first + 4 * pods : first + 10 * pods + 2]
    for x in range(first):
        scratch[x] = 0
    for job in range(jobs):
        add_load(demand, pods, job, layer_of[job], kinds[job], loads[job], n, ea, eb, m)
        for p in range(pods):
            used[layer_of[job] * pods + p] += n[job * pods + p]
    energy = 0.0
    lowest = 0.0
    for p in range(pods):
        rows[p] = row_time(demand, layers, pods, ports, largest, p, work)
        energy += power8(rows[p] / scale)
        lowest = max(lowest, rows[p])
    for x in range(jobs * pods):
        best[x] = n[x]
        best[jobs * pods + x] = ea[x]
        best[2 * jobs * pods + x] = eb[x]
    for job in range(jobs):
        best[3 * jobs * pods + job] = m[job]
    step = 0
    while step < moves and lowest > limits[1]:
        step += 1
        threshold = limits[2] * np.float64(moves - step) / np.float64(moves)
        a = draw(state, jobs)
        b = -1
        p = -1
        q = -1
        k = 0
        layer = layer_of[a]
        regraft = kinds[a] == 0 and m[a] >= 2 and (movable[a] == 0 or draw(state, 4) == 0)
        if not regraft:
            if movable[a] == 0 or pods < 2:
                continue
            p = nth_used(pods, a, n, draw(state, count_used(pods, a, n)))
            q = draw(state, pods - 1)
            if draw(state, 2) == 0:
                q = nth_used(pods, a, n, draw(state, count_used(pods, a, n)))
            elif q >= p:
                q += 1
            if q == p:
                continue
            k = n[a * pods + p] if draw(state, 2) == 0 else 1 + draw(state, n[a * pods + p])
            free = capacity[layer * pods + q] - used[layer * pods + q]
            if free < k:
                seen = 0
                for other in range(jobs):
                    if other != a and layer_of[other] == layer and movable[other] != 0 and n[other * pods + q] > 0:
                        seen += 1
                        if draw(state, seen) == 0:
                            b = other
                if b < 0:
                    if free == 0:
                        continue
                    k = free
                else:
                    k = min(k, n[b * pods + q])
        for x in range(pods):
            touched[x] = 0
        mark(pods, a, n, touched)
        keep(pods, a, n, ea, eb, m, saved, 0)
        add_load(demand, pods, a, layer, kinds[a], -loads[a], n, ea, eb, m)
        if regraft:
            graft(state, pods, a, n, ea, eb, m, side)
        else:
            shift(state, pods, a, p, q, k, kinds[a], n, ea, eb, m)
            mark(pods, a, n, touched)
            if b >= 0:
                mark(pods, b, n, touched)
                keep(pods, b, n, ea, eb, m, saved, 1)
                add_load(demand, pods, b, layer, kinds[b], -loads[b], n, ea, eb, m)
                shift(state, pods, b, q, p, k, kinds[b], n, ea, eb, m)
                mark(pods, b, n, touched)
                add_load(demand, pods, b, layer, kinds[b], loads[b], n, ea, eb, m)
        add_load(demand, pods, a, layer, kinds[a], loads[a], n, ea, eb, m)
        changed = energy
        for x in range(pods):
            if touched[x] != 0:
                rows[pods + x] = rows[x]
                rows[x] = row_time(demand, layers, pods, ports, largest, x, work)
                changed += power8(rows[x] / scale) - power8(rows[pods + x] / scale)
        if changed <= energy * (1.0 + threshold):
            energy = changed
            if not regraft and b < 0:
                used[layer * pods + p] -= k
                used[layer * pods + q] += k
            top = 0.0
            for x in range(pods):
                top = max(top, rows[x])
            if step % 256 == 0:
                energy = 0.0
                for x in range(pods):
                    energy += power8(rows[x] / scale)
            if top < lowest:
                lowest = top
                for x in range(jobs * pods):
                    best[x] = n[x]
                    best[jobs * pods + x] = ea[x]
                    best[2 * jobs * pods + x] = eb[x]
                for job in range(jobs):
                    best[3 * jobs * pods + job] = m[job]
            continue
        add_load(demand, pods, a, layer, kinds[a], -loads[a], n, ea, eb, m)
        if b >= 0:
            add_load(demand, pods, b, layer, kinds[b], -loads[b], n, ea, eb, m)
            bring_back(pods, b, n, ea, eb, m, saved, 1)
            add_load(demand, pods, b, layer, kinds[b], loads[b], n, ea, eb, m)
        bring_back(pods, a, n, ea, eb, m, saved, 0)
        add_load(demand, pods, a, layer, kinds[a], loads[a], n, ea, eb, m)
        for x in range(pods):
            if touched[x] != 0:
                rows[x] = rows[pods + x]
    limits[3] = lowest
    return step
