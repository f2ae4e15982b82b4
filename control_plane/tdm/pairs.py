"""Two jobs on the same GPUs and links: the throughput of each, gated, by priority, free, or one at a time (ours).

Two global groups share a barrier, so every job has the pace of the slowest. A pair has its own barrier, and its
circuits never change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import exp, inf, lcm
from random import Random
from typing import Final

import numpy as np

from p4reduce.control_plane.tdm.schedule import Mode

LEAST: Final = 0.48
"""least throughput of a job in a pair, relative to running alone"""
_ITERATIONS: Final = 40
"""number of simulated iterations of the longer job"""
_SAME: Final = 1e-12
_MANY: Final = 32.0
"""ratio of periods above which the limit of an infinite ratio is used"""
_PRICES: Final = (0.0, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


@dataclass(frozen=True)
class TimesAlone:
    """Training and communication time of a job alone."""

    train_s: float
    communicate_s: float

    @property
    def period_s(self) -> float:
        """Duration of an iteration in seconds."""
        return self.train_s + self.communicate_s


@dataclass(frozen=True)
class Sharing:
    """A mode of sharing for two jobs, and the throughput of each relative to running alone."""

    mode: Mode
    relative: tuple[float, float]
    first: int = 0
    """index of the job that goes first, in mode 'priority'"""

    @property
    def gain(self) -> float:
        """Sum of both relative throughputs."""
        return sum(self.relative)


def gated_period_s(a: TimesAlone, b: TimesAlone) -> float:
    """Return the period in seconds of one iteration of each: max of trainings, communications, and each job alone."""
    return max(a.train_s + b.train_s, a.communicate_s + b.communicate_s, a.period_s, b.period_s)


def sharings(
    a: TimesAlone, b: TimesAlone, modes: Sequence[Mode] = ("gated", "priority", "free", "exclusive")
) -> list[Sharing]:
    """Return the throughput of two jobs in each mode.

    exclusive gives each half of the time. With priority, the job with the shorter period goes first on GPUs and in
    queues, and is not affected by the other. free lets them share rates.
    """
    ways = []
    if "gated" in modes:
        period = gated_period_s(a, b)
        ways.append(Sharing("gated", (_part(a.period_s, period), _part(b.period_s, period))))
    if "priority" in modes:
        first = 0 if a.period_s <= b.period_s else 1
        ways.append(Sharing("priority", play(a, b, first), first))
    if "free" in modes:
        ways.append(Sharing("free", play(a, b, None)))
    if "exclusive" in modes:
        ways.append(Sharing("exclusive", (0.5, 0.5)))
    return ways


def best_sharing(
    a: TimesAlone,
    b: TimesAlone,
    modes: Sequence[Mode] = ("gated", "priority", "free", "exclusive"),
    least: float = LEAST,
) -> Sharing:
    """Return the mode of greatest total throughput that leaves each job at least ``least`` of alone; else exclusive."""
    exclusive = Sharing("exclusive", (0.5, 0.5))
    if "gated" in modes:  # no mode beats two undisturbed jobs
        gated = sharings(a, b, ("gated",))[0]
        if gated.gain >= 2.0 - 1e-9:
            return gated
    return max(
        (sharing for sharing in sharings(a, b, modes) if min(sharing.relative) >= least),
        key=lambda sharing: sharing.gain,
        default=exclusive,
    )


def play(
    a: TimesAlone, b: TimesAlone, first: int | None, iterations: int = _ITERATIONS, *, shift_s: float = 0.0
) -> tuple[float, float]:
    """Return the throughput, relative to running alone, of two jobs that share GPUs and links without gates.

    The second begins ``shift_s`` later. Each trains and communicates in turn. If both want the same resource, job
    ``first`` has it, or (None) each has half. Simulates events until the longer job has done ``iterations``; whole
    iterations after the first quarter count.
    """
    if a.period_s <= 0 or b.period_s <= 0:
        return 1.0, 1.0
    if max(a.period_s, b.period_s) > _MANY * min(a.period_s, b.period_s):
        long, short = (a, b) if a.period_s >= b.period_s else (b, a)
        slow, quick = _long_and_short(long, short, first=first is not None)
        return (slow, quick) if long is a else (quick, slow)
    lengths = ((a.train_s, a.communicate_s), (b.train_s, b.communicate_s))
    phase, left, done = [0, 2 if shift_s > 0 else 0], [a.train_s, shift_s if shift_s > 0 else b.train_s], [0, 0]
    began: list[float | None] = [None, None]
    ended, counted = [0.0, 0.0], [0, 0]
    warm = 0.25 * iterations * max(a.period_s, b.period_s)
    now, longer = 0.0, 0 if a.period_s >= b.period_s else 1
    while done[longer] < iterations and done[1 - longer] < 4 * _MANY * iterations:  # one job may starve
        same = phase[0] == phase[1]
        if not same:
            speeds = (1.0, 1.0)
        elif first is None:
            speeds = (0.5, 0.5)
        else:
            speeds = (1.0, 0.0) if first == 0 else (0.0, 1.0)
        step = min(left[x] / speeds[x] for x in (0, 1) if speeds[x] > 0)
        now += step
        for x in (0, 1):
            left[x] -= step * speeds[x]
        for x in (0, 1):
            if speeds[x] > 0 and left[x] <= _SAME * max(lengths[x]):
                if phase[x] == 2:
                    phase[x] = 1  # it has waited: training follows
                elif phase[x] == 1:
                    done[x] += 1
                    if now >= warm:
                        if began[x] is None:
                            began[x] = now
                        else:
                            counted[x] += 1
                            ended[x] = now
                phase[x] = 1 - phase[x]
                left[x] = lengths[x][phase[x]]
    whole = (a.period_s, b.period_s)
    rates = []
    for x in (0, 1):
        start = began[x]
        rates.append(0.0 if start is None or not counted[x] else whole[x] * counted[x] / (ended[x] - start))
    return min(1.0, rates[0]), min(1.0, rates[1])


def _long_and_short(long: TimesAlone, short: TimesAlone, *, first: bool) -> tuple[float, float]:
    """Return relative throughputs (long, short) in the limit of many short iterations in a phase of the long job.

    ``first``: the short job has priority. While the long job trains, an iteration of the short one takes 2 w + c with
    sharing, in which the long one gets w + c; with priority it takes w + c and leaves c. While the long one
    communicates, w and c are exchanged.
    """
    w, c = short.train_s, short.communicate_s
    took = (short.period_s, short.period_s) if first else (2 * w + c, w + 2 * c)
    given = (c, w) if first else (short.period_s, short.period_s)
    if (long.train_s > 0 and given[0] <= 0) or (long.communicate_s > 0 and given[1] <= 0):
        return 0.0, 1.0
    parts = [
        length * spent / left if length > 0 else 0.0
        for length, spent, left in zip((long.train_s, long.communicate_s), took, given, strict=True)
    ]
    iterations = sum(part / spent for part, spent in zip(parts, took, strict=True))
    whole = sum(parts)
    return min(1.0, long.period_s / whole), min(1.0, iterations * short.period_s / whole)


def match(
    jobs: Sequence[TimesAlone],
    sizes: Sequence[int],
    gpus: int,
    modes: Sequence[Mode] = ("gated", "priority", "free", "exclusive"),
) -> tuple[list[tuple[int, int, Sharing]], list[int]]:
    """Match jobs that share: a matching of greatest weight (Blossom), weight = gain, with as many pairs as needed.

    A pair takes the GPUs of its larger job. If all jobs fit alone, there are no pairs; else jobs are matched, and pairs
    with the least gain are split again while GPUs last.

    Parameters
    ----------
    jobs : sequence of TimesAlone
        Times of the jobs alone.
    sizes : sequence of int
        Units of each job.
    gpus : int
        Number of GPUs.
    modes : sequence
        Allowed modes of sharing.

    Returns
    -------
    list of (int, int, Sharing), list of int
        Pairs; jobs that stay alone. They may not fit: the caller must check.
    """
    if sum(sizes) <= gpus:
        return [], list(range(len(jobs)))
    import networkx as nx  # noqa: PLC0415  (slow to import)

    ways: dict[tuple[int, int], Sharing] = {}
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(len(jobs)))
    for a in range(len(jobs)):
        for b in range(a + 1, len(jobs)):
            way = best_sharing(jobs[a], jobs[b], modes)
            ways[a, b] = way
    for price in _PRICES:  # price of a GPU that a pair leaves to one job, raised until all fit
        for (a, b), way in ways.items():
            graph.add_edge(a, b, weight=way.gain - price * abs(sizes[a] - sizes[b]))
        chosen = nx.max_weight_matching(graph, maxcardinality=True)
        pairs = sorted((min(edge), max(edge)) for edge in chosen)
        alone = sorted(set(range(len(jobs))) - {x for pair in pairs for x in pair})
        used = sum(max(sizes[a], sizes[b]) for a, b in pairs) + sum(sizes[x] for x in alone)
        if used <= gpus:
            break
    for a, b in sorted(pairs, key=lambda pair: ways[pair].gain):
        more = min(sizes[a], sizes[b])
        if used + more <= gpus:
            used += more
            pairs.remove((a, b))
            alone += [a, b]
    return [(a, b, ways[a, b]) for a, b in pairs], sorted(alone)


def relative(pairs: Sequence[tuple[int, int, Sharing]], alone: Sequence[int]) -> Mapping[int, float]:
    """Return the throughput of each job relative to running alone."""
    rates = dict.fromkeys(alone, 1.0)
    for a, b, way in pairs:
        rates[a], rates[b] = way.relative
    return rates


def _part(own: float, period: float) -> float:
    return min(1.0, own / period) if period > 0 else 1.0


# Jobs in two layers over the line of GPUs: jobs that overlap form a component with its own barrier.
#
# A component has jobs of both layers, which take turns like two groups: its period is max(max c_A, max w_B) + max(max
# c_B, max w_A). A pair is a component of two jobs (which may share in any other mode, too), two groups are one
# component of all jobs; so jobs that fit two layers are never refused. The search is for components whose widths, the
# GPUs of the larger layer each, add up to at most the GPUs, with the greatest throughput relative to running alone.


MOST_EXACT: Final = 8
"""largest number of jobs for which all components are examined"""
_STEPS: Final = 12_000
"""number of steps of local search for more jobs"""
_POOR: Final = 100.0
"""cost in the search, in jobs' worth of work, of a component with a job below `LEAST` of alone: more than any gain"""


@dataclass(frozen=True)
class Component:
    """Jobs that share GPUs, in two layers."""

    layers: tuple[tuple[int, ...], tuple[int, ...]]
    sharing: Sharing | None = None
    """sharing of two jobs; None: the layers take turns"""

    @property
    def jobs(self) -> tuple[int, ...]:
        """The jobs of both layers."""
        return self.layers[0] + self.layers[1]


def turns_period_s(first: Sequence[TimesAlone], second: Sequence[TimesAlone]) -> float:
    """Return the period in seconds of a component: one layer communicates while the other trains, then vice versa."""
    (c_1, w_1), (c_2, w_2) = (
        (max((job.communicate_s for job in own), default=0.0), max((job.train_s for job in own), default=0.0))
        for own in (first, second)
    )
    return max(c_1, w_2) + max(c_2, w_1)


class _Layers:
    """Computes and caches the throughput of components."""

    def __init__(self, jobs: Sequence[TimesAlone], sizes: Sequence[int], *, least: float) -> None:
        self.jobs, self.sizes, self.least = jobs, sizes, least
        self._known: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[float, float, Sharing | None]] = {}

    def worth(self, first: tuple[int, ...], second: tuple[int, ...]) -> tuple[float, float, Sharing | None]:
        """Return the throughput relative to alone of all jobs together and of the slowest, and two jobs' sharing."""
        key = (first, second)
        if key not in self._known:
            own = [[self.jobs[j] for j in layer] for layer in key]
            if len(first) == len(second) == 1:
                way = best_sharing(own[0][0], own[1][0])
                self._known[key] = way.gain, min(way.relative), way
            else:
                period = turns_period_s(own[0], own[1])
                rates = [_part(job.period_s, period) for layer in own for job in layer]
                self._known[key] = sum(rates), min(rates), None
        return self._known[key]

    def width(self, first: Sequence[int], second: Sequence[int]) -> int:
        """Return the number of GPUs of a component."""
        return max(sum(self.sizes[j] for j in first), sum(self.sizes[j] for j in second))

    def value(self, first: tuple[int, ...], second: tuple[int, ...]) -> float:
        """Return the value in the search: throughput, with a penalty for a starving job."""
        gain, worst, _ = self.worth(first, second)
        return gain - (_POOR if worst < self.least else 0.0)


def in_layers(jobs: Sequence[TimesAlone], sizes: Sequence[int], gpus: int, *, seed: int = 1) -> list[Component] | None:
    """Return the components with the greatest throughput; None: the jobs do not fit two layers.

    The number of components with a job below 0.48 of alone is minimized first, then the throughput is maximized. Exact
    up to 8 jobs (dynamic programming over sets of jobs and GPUs); beyond, simulated annealing from one component of all
    jobs: jobs move between components and layers or are exchanged, and components are split.

    Parameters
    ----------
    jobs : sequence of TimesAlone
        Times of the jobs alone.
    sizes : sequence of int
        Units of each job.
    gpus : int
        Number of GPUs.
    seed : int
        Seed of random numbers.
    """
    layers = _Layers(jobs, sizes, least=LEAST)
    sets = _all_sets(layers, gpus) if len(jobs) <= MOST_EXACT else _annealed(layers, gpus, seed)
    if sets is None:
        return None
    return [Component(sides, layers.worth(*sides)[2]) for sides in sets]


Sides = tuple[tuple[int, ...], tuple[int, ...]]


def _all_sets(layers: _Layers, gpus: int) -> list[Sides] | None:
    count = len(layers.jobs)
    ways: dict[int, list[tuple[int, float, Sides]]] = {}
    for mask in range(1, 1 << count):
        own = [j for j in range(count) if mask >> j & 1]
        best: dict[int, tuple[float, Sides]] = {}
        for half in range(1 << (len(own) - 1)):  # the last job is in the first layer
            second = tuple(j for place, j in enumerate(own) if half >> place & 1)
            first = tuple(j for j in own if j not in second)
            width = layers.width(first, second)
            value = layers.value(first, second)
            if width <= gpus and value > best.get(width, (-inf, ((), ())))[0]:
                best[width] = value, (first, second)
        ways[mask] = [(width, value, sides) for width, (value, sides) in sorted(best.items())]
    table: list[dict[int, tuple[float, list[Sides]]]] = [{0: (0.0, [])}]
    for mask in range(1, 1 << count):
        low = mask & -mask
        here: dict[int, tuple[float, list[Sides]]] = {}
        sub = mask
        while sub:
            if sub & low:
                for used, (value, sets) in table[mask ^ sub].items():
                    for width, more, sides in ways[sub]:
                        if used + width <= gpus and value + more > here.get(used + width, (-inf, []))[0]:
                            here[used + width] = value + more, [*sets, sides]
            sub = (sub - 1) & mask
        table.append(here)
    return max(table[-1].values(), key=lambda item: item[0])[1] if table[-1] else None


def _annealed(layers: _Layers, gpus: int, seed: int) -> list[Sides] | None:
    start = halves(layers.sizes, gpus)
    if start is None:
        return None
    random = Random(seed)  # noqa: S311
    state: list[Sides] = [start]
    best, most = list(state), sum(layers.value(*sides) for sides in state)
    now = most
    for step in range(_STEPS):
        heat = 0.15 * (1 - step / _STEPS)
        changed = _changed(state, random)
        if changed is None:
            continue
        gone, come = changed
        other = [sides for x, sides in enumerate(state) if x not in gone] + come
        if sum(layers.width(*sides) for sides in other) > gpus:
            continue
        value = now - sum(layers.value(*state[x]) for x in gone) + sum(layers.value(*sides) for sides in come)
        if value >= now or random.random() < exp((value - now) / max(heat, 1e-9)):
            state, now = other, value
            if now > most + 1e-12:
                best, most = list(state), now
    return best


def halves(sizes: Sequence[int], gpus: int) -> Sides | None:
    """Return two layers that both fit, as equal as possible; None: there are none."""
    reached: dict[int, tuple[int, ...]] = {0: ()}
    for j, size in enumerate(sizes):
        for units, own in list(reached.items()):
            if units + size <= gpus:
                reached.setdefault(units + size, (*own, j))
    total = sum(sizes)
    fitting = [units for units in reached if total - units <= gpus]
    if not fitting:
        return None
    first = reached[min(fitting, key=lambda units: abs(2 * units - total))]
    return first, tuple(j for j in range(len(sizes)) if j not in first)


def _changed(state: Sequence[Sides], random: Random) -> tuple[set[int], list[Sides]] | None:
    """Return the indices of components to remove, and their replacements; None: no change."""
    x = random.randrange(len(state))
    kind = random.random()
    if kind < 0.25:  # split a component
        sides = [[[], []], [[], []]]  # type: list[list[list[int]]]
        for layer in (0, 1):
            for j in state[x][layer]:
                sides[random.randrange(2)][layer].append(j)
        return {x}, _sound(sides)
    y = random.randrange(len(state))
    if x == y:
        if not state[x][0] or not state[x][1]:
            return None
        first, other = list(state[x][0]), list(state[x][1])  # exchange across its layers
        a, b = random.randrange(len(first)), random.randrange(len(other))
        first[a], other[b] = other[b], first[a]
        return {x}, _sound([[first, other]])
    if kind < 0.4:  # merge two components
        turned = random.randrange(2)
        return {x, y}, _sound([[[*state[x][0], *state[y][turned]], [*state[x][1], *state[y][1 - turned]]]])
    mine, theirs = [list(layer) for layer in state[x]], [list(layer) for layer in state[y]]
    from_, to = random.randrange(2), random.randrange(2)
    if not mine[from_]:
        return None
    j = mine[from_].pop(random.randrange(len(mine[from_])))
    if kind < 0.7 and theirs[to]:  # an exchange
        mine[from_].append(theirs[to].pop(random.randrange(len(theirs[to]))))
    theirs[to].append(j)
    return {x, y}, _sound([mine, theirs])


def _sound(components: Sequence[Sequence[Sequence[int]]]) -> list[Sides]:
    """Return the components that have jobs, with sorted jobs."""
    return [(tuple(sorted(sides[0])), tuple(sorted(sides[1]))) for sides in components if sides[0] or sides[1]]


# Time shifts on the unified circle (CASSINI, NSDI 2024), for two jobs that share links and GPUs.


ANGLES: Final = 360
"""number of shifts that are tried"""
_MOST_TURNS: Final = 64
"""largest number of periods on the circle: longer common multiples are cut"""
_DENOMINATOR: Final = 16


def time_shift(a: TimesAlone, b: TimesAlone) -> float:
    """Return the seconds by which b should begin after a, so that their communication and their training overlap least.

    The circle is as long as the least common multiple of both periods, with their ratio rounded to sixteenths.
    """
    if a.period_s <= 0 or b.period_s <= 0:
        return 0.0
    ratio = Fraction(b.period_s / a.period_s).limit_denominator(_DENOMINATOR)
    if ratio == 0 or ratio > _MOST_TURNS:
        return 0.0
    turns = min(_MOST_TURNS, lcm(ratio.numerator, ratio.denominator))
    circle = a.period_s * max(turns, 1)
    at = (np.arange(16 * ANGLES) + 0.5) / (16 * ANGLES) * circle
    first = _communicates(a, at)
    shifts = np.arange(ANGLES) / ANGLES * min(b.period_s, circle)
    overlaps = [float((first == _communicates(b, at - shift)).mean()) for shift in shifts]
    return float(shifts[int(np.argmin(overlaps))])


def _communicates(job: TimesAlone, at: "np.typing.NDArray[np.float64]") -> "np.typing.NDArray[np.bool_]":
    return np.mod(at, job.period_s) >= job.train_s
