"""Groups whose jobs are divided into stripes, a tree each, with relays and whole circuits (ours): `striped`.

The time of a placement is that of a fractional packing of Steiner trees (`columns`); the search varies the placement of
units and the whole circuits that are lit. Three bounds make it cheap: the bound for any circuits (`free_bytes`) rejects
a placement, the bound from known prices a configuration, and Lasdon's bound stops a packing that is no better.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from random import Random
from typing import Any, Final

import numpy as np

from p4reduce.control_plane.tdm.columns import Commodity, Stripe, StripePacking, free_bytes, pack_trees
from p4reduce.control_plane.tdm.groups import NEVER, Group, GroupPlan, KnownGroups, Striped, TreeGroups
from p4reduce.control_plane.tdm.jobs import OpticalNetwork, TdmError, TdmJob, busiest_nic_s, on_hosts
from p4reduce.control_plane.tdm.packing import MOVES, Edge, Packed, pack, parts_of
from p4reduce.control_plane.tdm.schedule import Matrix, PodRoute

# The demand of a placement, and the circuits that carry it best.


Units = tuple[tuple[int, ...], ...]
"""units of each job, in each pod"""
MOST_NAMED: Final = 5
"""largest number of pods for which all renamings are tried"""
MOST_LISTED: Final = 64
"""largest number of configurations that are all examined; above it, circuits are exchanged one by one"""
_TRIED: Final = 48
"""number of most promising exchanges of circuits for which a packing is made before the search ends"""
_LEAST_SHARE: Final = 0.02
_MOST_PLACED: Final = 1_500
"""largest number of placements that are all examined"""
_DRAWN: Final = 150
"""number of random neighbours of a placement that are drawn in networks of more than 6 pods"""
LARGE: Final = 40
"""number of pods above which the first placement is kept, and few exchanges of circuits are tried"""
_STEPS: Final = 40
_KICKS: Final = 4
_LOOKS: Final = 6
"""number of placements examined in a step in networks of more than 6 pods"""
BETTER: Final = 1.0 - 1e-9
Key = tuple[tuple[int, ...], tuple[int, ...]]
"""pods, and for an all-to-all the units in them"""


def key_of(job: TdmJob, row: Sequence[int]) -> Key | None:
    """Return the commodity of a job; None: the job is in one pod."""
    used = tuple(pod for pod, count in enumerate(row) if count)
    if len(used) < 2:
        return None
    return used, tuple(row[pod] for pod in used) if job.kind == "a2a" else ()


def commodities_of(jobs: Sequence[TdmJob], units: Units) -> list[Commodity]:
    """Return the demand between pods, in a fixed order: a sum once in each direction; an all-to-all in both phases."""
    sizes: dict[Key, float] = {}
    for job, row in zip(jobs, units, strict=True):
        key = key_of(job, row)
        if key is not None:
            sizes[key] = sizes.get(key, 0.0) + float(job.bytes) * (2 if job.kind == "a2a" else 1)
    return [Commodity(pods, size, own) for (pods, own), size in sorted(sizes.items())]


@lru_cache(maxsize=64)
def all_circuits(pods: int, ports: int, most: int = MOST_LISTED) -> Any:
    """Return configurations to which no circuit can be added, int64 (configurations, pods, pods); None: too many."""
    pairs = list(combinations(range(pods), 2))
    listed: list[Any] = []
    lit, left = np.zeros((pods, pods), np.int64), [ports] * pods

    def add(place: int) -> bool:
        if place == len(pairs):
            if all(left[a] == 0 or left[b] == 0 for a, b in pairs):
                listed.append(lit + lit.T)
            return len(listed) <= most
        a, b = pairs[place]
        most_here = min(left[a], left[b])
        for count in range(most_here, -1, -1):
            lit[a, b] = count
            left[a] -= count
            left[b] -= count
            going = add(place + 1)
            left[a] += count
            left[b] += count
            if not going:
                return False
        lit[a, b] = 0
        return True

    if ports**pods > 10**6 or pods > 6 or not add(0):
        return None
    return np.array(listed)


def far_prices(packing: StripePacking, pods: int) -> Any:
    """Return a price for every pair of pods, that of the least path over known circuits: no least tree gets cheaper."""
    price = np.full((pods, pods), 1.0)  # all circuits together cost 1, so no path costs more
    np.fill_diagonal(price, 0.0)
    for (a, b), value in packing.prices.items():
        price[a, b] = price[b, a] = min(1.0, value)
    for c in range(pods):
        price = np.minimum(price, price[:, c, None] + price[None, c, :])
    return price


@dataclass(frozen=True)
class WholeCircuits:
    """Whole circuits with the packing that they carry."""

    matrix: Any
    """int64 (pods, pods)"""
    packing: StripePacking


def whole_circuits(
    commodities: Sequence[Commodity], pods: int, ports: int, *, cutoff: float = NEVER, first: Any = None
) -> WholeCircuits | None:
    """Return the configuration with the least time: of all if they are few, else by exchanges of circuits.

    Prices pi of a solved configuration bound every other one, T(L') >= T(L) / sum L' pi, where pairs that are not
    joined have the price of the least path between them: a configuration, or an exchange (a, b), (c, d) -> (a, c), (b,
    d), that cannot be better is not solved.

    Parameters
    ----------
    commodities : sequence of Commodity
        At least one.
    pods, ports : int
        P and R.
    cutoff : float
        Bytes over a circuit that must be undercut.
    first : int (pods, pods)
        The first configuration.

    Returns
    -------
    WholeCircuits or None
        None: no configuration below ``cutoff`` was found.
    """
    if ports < 1:
        return None
    listed = all_circuits(pods, ports)
    if listed is not None:
        return _of_all(commodities, pods, listed, cutoff)
    best: WholeCircuits | None = None
    for start in ([] if first is None else [first]) + [_rounded(commodities, pods, ports)]:
        whole = _exchanged(commodities, pods, ports, start, cutoff if best is None else best.packing.bytes)
        best = whole or best
    return best


def _of_all(commodities: Sequence[Commodity], pods: int, listed: Any, cutoff: float) -> WholeCircuits | None:
    bounds = np.zeros(len(listed))
    wanted = _wanted(commodities, pods)
    order = np.argsort(-(np.minimum(listed, wanted)).sum(axis=(1, 2)), kind="stable")
    best: WholeCircuits | None = None
    left = set(range(len(listed)))
    while left:
        place = min(left, key=lambda x: (bounds[x], order[x]))
        left.remove(place)
        if bounds[place] >= cutoff * BETTER:
            break
        packing = pack_trees(commodities, listed[place], cutoff=cutoff)
        if packing is None:
            continue
        if packing.bytes < cutoff * BETTER:
            best, cutoff = WholeCircuits(listed[place], packing), packing.bytes
        if packing.prices and packing.bound > 0:
            worth = (listed * far_prices(packing, pods)).sum(axis=(1, 2)) / 2
            bounds = np.maximum(bounds, packing.bound / np.maximum(worth, 1e-12))
    return best


def _wanted(commodities: Sequence[Commodity], pods: int) -> Any:
    """Return the bytes between pods if every tree were spread over all pairs of its pods."""
    wanted = np.zeros((pods, pods))
    for commodity in commodities:
        for (x, a), (y, b) in combinations(enumerate(commodity.pods), 2):
            wanted[a, b] += commodity.bytes * (
                commodity.units[x] * commodity.units[y] if commodity.units else 2 / len(commodity.pods)
            )
            wanted[b, a] = wanted[a, b]
    return wanted


def _rounded(commodities: Sequence[Commodity], pods: int, ports: int) -> Any:
    """Lay circuits in proportion to the demand of pairs, after a tree of the largest demands that joins all pods."""
    wanted = _wanted(commodities, pods)
    lit = np.zeros((pods, pods), np.int64)
    left = np.full(pods, ports)
    pairs = sorted(combinations(range(pods), 2), key=lambda pair: -wanted[pair])
    part = list(range(pods))
    for a, b in pairs:  # Kruskal, within the ports
        if part[a] != part[b] and left[a] and left[b] and wanted[a, b] > 0:
            lit[a, b] = lit[b, a] = 1
            left[[a, b]] -= 1
            part = [part[a] if x == part[b] else x for x in part]
    apart = ~np.eye(pods, dtype=np.bool_)
    while True:
        able = apart & (left > 0)[:, None] & (left > 0)[None, :]
        if not able.any():
            return lit
        a, b = divmod(int(np.argmax(np.where(able, wanted / (lit + 1.0), -1.0))), pods)
        lit[a, b] = lit[b, a] = lit[a, b] + 1
        left[[a, b]] -= 1


def _exchanged(
    commodities: Sequence[Commodity], pods: int, ports: int, start: Any, cutoff: float
) -> WholeCircuits | None:
    """Improve a configuration by exchanges of circuits, by their prices, while the time falls."""
    lit = np.array(start, np.int64)
    packing = pack_trees(commodities, lit)
    if packing is None:
        lit = _joined(pods, ports)
        packing = None if lit is None else pack_trees(commodities, lit)
        if packing is None:
            return None
    seen = {lit.tobytes()}
    improved = True
    while improved:
        improved = False
        for change in _exchanges(lit, packing, pods, ports)[: _TRIED if pods <= LARGE else _TRIED // 12]:
            other = lit.copy()
            for (a, b), count in change:
                other[a, b] += count
                other[b, a] += count
            if other.tobytes() in seen:
                continue
            seen.add(other.tobytes())
            repacked = pack_trees(commodities, other, cutoff=packing.bytes * (1 - 1e-4))
            if repacked is not None and repacked.bytes < packing.bytes * (1 - 1e-4):
                lit, packing, improved = other, repacked, True
                break
    return WholeCircuits(lit, packing) if packing.bytes < cutoff * BETTER else None


Change = tuple[tuple[Edge, int], ...]


def _exchanges(lit: Any, packing: StripePacking, pods: int, ports: int) -> list[Change]:
    """Return the exchanges that prices do not exclude, the most promising first."""
    price = far_prices(packing, pods)
    left = ports - lit.sum(axis=1)
    exchanges: list[tuple[float, Change]] = []
    joined = [(int(a), int(b)) for a, b in np.argwhere(np.triu(lit, 1) > 0)]
    spare = [int(pod) for pod in np.flatnonzero(left > 0)]
    exchanges += [(float(price[a, b]), (((a, b), 1),)) for a, b in combinations(spare, 2)]
    for a, b in joined:
        for x, y in ((a, b), (b, a)):
            exchanges += [
                (float(price[x, c] - price[a, b]), (((a, b), -1), ((x, c), 1))) for c in spare if c not in (x, y)
            ]
    ends = np.array(joined)
    if len(ends) > 1:
        from_, to = ends[:, 0], ends[:, 1]
        own = price[from_, to]
        for first, second in ((from_, to), (to, from_)):
            gain = price[np.ix_(from_, first)] + price[np.ix_(to, second)] - own[:, None] - own[None, :]
            apart = (from_[:, None] != first[None, :]) & (to[:, None] != second[None, :])
            gain = np.where(np.triu(apart, 1), gain, -1.0)
            top = np.argsort(-gain, axis=None, kind="stable")[: 4 * _TRIED]
            for place in top.tolist():
                x, y = divmod(place, len(ends))
                value = float(gain[x, y])
                if value > 1e-12:
                    edge, other = joined[x], joined[y]
                    change = (
                        (edge, -1),
                        (other, -1),
                        ((int(from_[x]), int(first[y])), 1),
                        ((int(to[x]), int(second[y])), 1),
                    )
                    exchanges.append((value, change))
    return [change for value, change in sorted(exchanges, key=lambda item: -item[0]) if value > 1e-12]


def _joined(pods: int, ports: int) -> Any:
    """Return a ring over all pods, with R // 2 circuits for each edge, for relays; None: too few ports or pods."""
    if ports < 2 or pods < 3:
        return None
    lit = np.zeros((pods, pods), np.int64)
    for pod in range(pods):
        other = (pod + 1) % pods
        lit[pod, other] = lit[other, pod] = ports // 2
    return lit


# Groups: the placement of units.


@dataclass(frozen=True)
class _Found:
    seconds: float
    units: Units
    whole: WholeCircuits | None


def all_placements(given: Sequence[int], network: OpticalNetwork) -> list[Units] | None:
    """Return every placement of units in pods, up to renaming of pods; None: more than are examined."""
    pods, room = network.pods, network.pod_gpus
    states: set[tuple[tuple[int, ...], ...]] = {((),) * pods}
    for units in given:
        grown: set[tuple[tuple[int, ...], ...]] = set()
        for columns in states:
            free = [room - sum(column) for column in columns]
            for row in _spread(units, free):
                grown.add(tuple(sorted((*column, count) for column, count in zip(columns, row, strict=True))))
            if len(grown) > _MOST_PLACED:
                return None
        states = grown
    return [tuple(zip(*columns, strict=True)) for columns in states]


def _spread(units: int, free: Sequence[int]) -> Iterator[tuple[int, ...]]:
    if len(free) == 1:
        if units <= free[0]:
            yield (units,)
        return
    for count in range(min(units, free[0]) + 1):
        if units - count <= sum(free[1:]):
            for rest in _spread(units - count, free[1:]):
                yield (count, *rest)


class StripedGroups(KnownGroups):
    """A planner of stripes with relays over whole circuits; local search places units."""

    def __init__(self, jobs: Sequence[TdmJob], network: OpticalNetwork, *, moves: int = MOVES, seed: int = 1) -> None:
        super().__init__(jobs, network)
        self.seed = seed
        self.trees = TreeGroups(jobs, network, moves=moves, seed=seed)
        self._small = network.pods <= 6

    def bound(self, group: Group) -> tuple[float, float]:
        """Return lower bounds: of NICs, and of circuits with the least number of pods for each job; of training."""
        nic_s, training_s = self.trees.bound(group)
        if nic_s == NEVER or not group:
            return nic_s, training_s
        least, room = 0.0, self.network.pod_gpus
        for j in group:
            job = self.jobs[j]
            if not (job.elastic or job.hosts or job.kind == "a2a"):
                least += (-(-job.units // room) - 1) * job.bytes
        circuits = self.network.pods * self.network.ports // 2
        if not least:
            return nic_s, training_s
        return (max(nic_s, least / circuits / self.network.circuit) if circuits else NEVER), training_s

    def _options(self, group: Group) -> list[GroupPlan]:
        """Return one plan for gangs; for elastic jobs one for each number of GPUs that is tried."""
        plans = []
        for given in self.trees.givens(group):
            plan = self.plan(group, given)
            if plan is not None:
                plans.append(plan)
        return plans

    def plan(self, group: Group, given: Sequence[int]) -> GroupPlan | None:
        """Plan a group with ``given`` units for each job; None: impossible."""
        jobs = [self.jobs[j] for j in group]
        packed: Packed | None = None
        try:
            packed = self.trees.plan(group, given).packed
        except TdmError:  # two jobs want the same host at once
            if len(jobs) == 1 or not any(job.hosts for job in jobs):
                raise
            return None
        search = _Placing(jobs, given, self.network, self.seed, small=self._small)
        best = search.run(None if packed is None else packed.units)
        return None if best is None else finished(group, jobs, given, best.units, best.whole, self.network)


class _Placing:
    """Search for the placement of the units of one group."""

    def __init__(
        self, jobs: Sequence[TdmJob], given: Sequence[int], network: OpticalNetwork, seed: int, *, small: bool
    ) -> None:
        self.jobs, self.given, self.network, self.small = jobs, given, network, small
        self.random = Random(seed)  # noqa: S311
        self.best: _Found | None = None
        self._bounds: dict[Any, float] = {}
        self._seen: set[Any] = set()

    def run(self, first: Units | None) -> _Found | None:
        """Return the best placement that is found."""
        nic = self.network.nic
        enough = max((job.bytes if job.kind != "a2a" else 0) / nic for job in self.jobs)
        large = self.network.pods > LARGE
        for units in self._starts(first):
            self._look(units)
            if large and self.best is not None:
                return self.best
            if self.best is not None and self.best.seconds <= enough * (1 + 1e-9):
                return self.best
        every = all_placements(self.given, self.network) if self.small and not self._fixed else None
        if every is not None:
            ranked = sorted((self._bound(units), units) for units in every)
            for bound, units in ranked:
                if self.best is not None and bound / self.network.circuit >= self.best.seconds * BETTER:
                    break
                self._look(units)
            return self.best
        steps = _STEPS if self.small else _STEPS // 4
        kicks = _KICKS if self.small else 0
        while steps and self.best is not None and self.best.whole is not None:
            steps -= 1
            if self.best.seconds <= enough * (1 + 1e-9):
                break
            if not self._climb(self.best.units):
                if not kicks:
                    break
                kicks -= 1
                self._climb(self._kicked())
        return self.best

    @property
    def _fixed(self) -> bool:
        return any(job.hosts for job in self.jobs)

    def _kicked(self) -> Units:
        """Return a placement some exchanges away from the best one, at a local minimum of the bound."""
        assert self.best is not None  # noqa: S101
        units = self.best.units
        for _ in range(3):
            units = self.random.choice(list(self._near(units)) or [units])
        while True:
            near = min(self._near(units), key=self._bound, default=units)
            if self._bound(near) >= self._bound(units) * BETTER:
                self._look(units)
                return units
            units = near

    def _starts(self, first: Units | None) -> Iterator[Units]:
        if first is not None:
            yield first
        pods, room = self.network.pods, self.network.pod_gpus
        parts = parts_of(self.jobs, self.given, self.network)
        packed = pack(parts, pods, room)
        yield tuple(map(tuple, packed))
        movable = [j for j, job in enumerate(self.jobs) if not job.hosts]
        fixed = [tuple(row) if self.jobs[j].hosts else (0,) * pods for j, row in enumerate(packed)]
        for number in range(5 if self.small else 2):
            order = sorted(movable, key=lambda j: -self.given[j])
            if number:
                self.random.shuffle(order)
            free = [room - sum(row[pod] for row in fixed) for pod in range(pods)]
            rows = [list(row) for row in fixed]
            for j in order:
                left = self.given[j]
                if number % 2:  # as in packing, in another order
                    while left:
                        whole = [pod for pod in range(pods) if free[pod] >= left]
                        pod = min(whole, key=lambda p: free[p]) if whole else max(range(pods), key=lambda p: free[p])
                        took = min(left, free[pod])
                        rows[j][pod] += took
                        free[pod] -= took
                        left -= took
                else:  # distributed evenly
                    for _ in range(left):
                        pod = max(range(pods), key=lambda p: free[p])
                        rows[j][pod] += 1
                        free[pod] -= 1
            yield tuple(map(tuple, rows))

    def _bound(self, units: Units) -> float:
        """Return a lower bound on the bytes over circuits, for any circuits."""
        key = tuple(commodities_of(self.jobs, units))
        if key not in self._bounds:
            self._bounds[key] = free_bytes(key, self.network.pods, self.network.ports)
        return self._bounds[key]

    def _nic_s(self, units: Units) -> float:
        if self.network.gpus == 1 and not any(job.hosts for job in self.jobs):
            return max(
                (2 * (count - 1) if job.kind == "a2a" else 1) * job.bytes / self.network.nic
                for job, count in zip(self.jobs, self.given, strict=True)
            )
        return busiest_nic_s(self.jobs, on_hosts(self.jobs, units, self.network), self.network)

    def _look(self, units: Units) -> bool:
        """Keep a placement if it is better than the best so far; return whether it is."""
        if units in self._seen:
            return False
        self._seen.add(units)
        least = NEVER if self.best is None else self.best.seconds
        nic_s = self._nic_s(units)
        if nic_s >= least * BETTER:
            return False
        sent = commodities_of(self.jobs, units)
        if not sent:
            self.best = _Found(nic_s, units, None)
            return True
        if max(nic_s, self._bound(units) / self.network.circuit) >= least * BETTER:
            return False
        whole = whole_circuits(
            sent,
            self.network.pods,
            self.network.ports,
            cutoff=least * self.network.circuit,
            first=None if self.best is None or self.best.whole is None else self.best.whole.matrix,
        )
        if whole is None:
            return False
        seconds = max(nic_s, whole.packing.bytes / self.network.circuit)
        if seconds >= least * BETTER:
            return False
        self.best = _Found(seconds, units, whole)
        return True

    def _climb(self, start: Units) -> bool:
        """Look at neighbours in the order of their bounds until one is the best so far; return whether there is one."""
        assert self.best is not None  # noqa: S101
        near = [units for units in self._near(start) if units not in self._seen] if self.small else self._drawn(start)
        least = self.best.seconds * self.network.circuit * BETTER
        ranked = sorted(((self._bound(units), units) for units in near), key=lambda item: item[0])
        possible = [units for bound, units in ranked if bound < least]
        return any(self._look(units) for units in (possible if self.small else possible[:_LOOKS]))

    def _drawn(self, units: Units) -> list[Units]:
        """Draw some of the placements of :meth:`_near` at random."""
        pods, room = self.network.pods, self.network.pod_gpus
        free = [room - sum(row[pod] for row in units) for pod in range(pods)]
        movable = [j for j, job in enumerate(self.jobs) if not job.hosts]
        drawn: set[Units] = set()
        for _ in range(_DRAWN if movable and pods > 1 else 0):
            j = self.random.choice(movable)
            p = self.random.choice([pod for pod in range(pods) if units[j][pod]])
            q = self.random.choice([pod for pod in range(pods) if pod != p])
            count = self.random.choice((1, units[j][p]))
            need = count - free[q]
            if need <= 0:
                drawn.add(_moved(units, ((j, p, q, count),)))
                continue
            others = [other for other in movable if other != j and units[other][q] >= need]
            if others:
                drawn.add(_moved(units, ((j, p, q, count), (self.random.choice(others), q, p, need))))
        return sorted(drawn - self._seen)

    def _near(self, units: Units) -> Iterator[Units]:
        """Yield placements with moved or exchanged units."""
        pods, room = self.network.pods, self.network.pod_gpus
        free = [room - sum(row[pod] for row in units) for pod in range(pods)]
        movable = [j for j, job in enumerate(self.jobs) if not job.hosts]
        for j in movable:
            for p in (pod for pod in range(pods) if units[j][pod]):
                for q in (pod for pod in range(pods) if pod != p):
                    for count in sorted({1, units[j][p]}):
                        if count <= free[q]:
                            yield _moved(units, ((j, p, q, count),))
                        need = count - free[q]
                        for other in movable:
                            if other != j and 0 < need <= units[other][q]:
                                yield _moved(units, ((j, p, q, count), (other, q, p, need)))
                            if other != j and free[q] and units[other][q] >= count and need <= 0:
                                yield _moved(units, ((j, p, q, count), (other, q, p, count)))


def _moved(units: Units, moves: Sequence[tuple[int, int, int, int]]) -> Units:
    rows = [list(row) for row in units]
    for j, p, q, count in moves:
        rows[j][p] -= count
        rows[j][q] += count
    return tuple(map(tuple, rows))


# Conversion of a packing to stripes of jobs and routes of blocks.


def finished(
    group: Group,
    jobs: Sequence[TdmJob],
    given: Sequence[int],
    units: Units,
    whole: WholeCircuits | None,
    network: OpticalNetwork,
) -> GroupPlan:
    """Return a plan with stripes for packets: few, and none tiny; ``whole`` None: no circuits."""
    training = max(job.compute_on(count) for job, count in zip(jobs, given, strict=True))
    nic_s = busiest_nic_s(jobs, on_hosts(jobs, units, network), network)
    matrix: Any = np.zeros((network.pods, network.pods), np.int64) if whole is None else whole.matrix
    carried = lay_stripes(jobs, units, matrix, network.ports)
    seconds = NEVER if carried is None else max(nic_s, carried.bytes / network.circuit)
    return GroupPlan(group, tuple(given), (seconds,), training, units, striped=carried)


def lay_stripes(jobs: Sequence[TdmJob], units: Units, matrix: Any, ports: int) -> Striped | None:
    """Return stripes and routes of a placement over given circuits; None: these do not join all pods of a job."""
    commodities = commodities_of(jobs, units)
    lit: Matrix = tuple(tuple(int(value) for value in row) for row in matrix)
    if not commodities:
        return Striped(lit, tuple((((), 1.0),) if job.kind != "a2a" else () for job in jobs), ((),) * len(jobs), 0.0)
    packing = pack_trees(commodities, matrix)
    if packing is None:
        return None
    chosen = _few(commodities, packing, matrix, ports)
    at = {(commodity.pods, commodity.units): own for commodity, own in zip(commodities, chosen, strict=True)}
    load = np.zeros(np.shape(matrix))
    for own in chosen:
        for stripe in own:
            for pair, size in stripe.loads:
                load[pair] += stripe.share * size
    used = load > 0
    most = float((load[used] / np.asarray(matrix)[used]).max(initial=0.0))
    stripes: list[tuple[tuple[tuple[Edge, ...], float], ...]] = []
    routes: list[tuple[PodRoute, ...]] = []
    for job, row in zip(jobs, units, strict=True):
        key = key_of(job, row)
        if job.kind == "a2a":
            stripes.append(())
            routes.append(() if key is None else _routes_of(key[0], at[key]))
        else:
            stripes.append(
                (((), 1.0),) if key is None else tuple((own_stripe.edges, own_stripe.share) for own_stripe in at[key])
            )
            routes.append(())
    return Striped(lit, tuple(stripes), tuple(routes), most)


def _routes_of(pods: Sequence[int], stripes: Sequence[Stripe]) -> tuple[PodRoute, ...]:
    """Return the routes between all pods, stripe by stripe."""
    routes = []
    for number, stripe in enumerate(stripes):
        for source, target in ((a, b) for a in pods for b in pods if a != b):
            path = [source]
            while path[-1] != target:
                path.append(stripe.onward[path[-1]][target])
            routes.append(PodRoute(tuple(path), stripe.share, stripe=number))
    return tuple(routes)


def _few(commodities: Sequence[Commodity], packing: StripePacking, matrix: Any, ports: int) -> list[tuple[Stripe, ...]]:
    """Keep at most ``ports`` + 2 stripes of each commodity, none below 2 %; after a removal, compute shares again."""
    kept = []
    for own in packing.stripes:
        large = sorted(own, key=lambda stripe: -stripe.share)[: ports + 2]
        kept.append(_large(large))
    if sum(map(len, kept)) == sum(map(len, packing.stripes)):
        return kept
    return [_large(own) for own in _shared(commodities, kept, matrix)]


def _large(stripes: Sequence[Stripe]) -> tuple[Stripe, ...]:
    own = [stripe for stripe in stripes if stripe.share >= _LEAST_SHARE] or list(stripes[:1])
    total = sum(stripe.share for stripe in own)
    return tuple(replace(stripe, share=stripe.share / total) for stripe in own)


def _shared(
    commodities: Sequence[Commodity], stripes: Sequence[tuple[Stripe, ...]], matrix: Any
) -> list[tuple[Stripe, ...]]:
    """Return the best shares of given stripes, by a linear program (HiGHS)."""
    from scipy.optimize import linprog  # noqa: PLC0415  (slow to import)

    columns = [(k, stripe) for k, own in enumerate(stripes) for stripe in own]
    pairs = sorted({pair for _, stripe in columns for pair, _ in stripe.loads})
    at = {pair: e for e, pair in enumerate(pairs)}
    scale = max(commodity.scale for commodity in commodities)
    upper, equal = np.zeros((len(pairs), len(columns) + 1)), np.zeros((len(commodities), len(columns) + 1))
    for x, (k, stripe) in enumerate(columns):
        equal[k, x] = 1.0
        for pair, size in stripe.loads:
            upper[at[pair], x] = size / scale
    for pair, e in at.items():
        upper[e, -1] = -float(matrix[pair[0]][pair[1]])
    cost = np.zeros(len(columns) + 1)
    cost[-1] = 1.0
    solver: Any = linprog
    right = np.zeros(len(pairs))
    solved = solver(cost, A_ub=upper, b_ub=right, A_eq=equal, b_eq=np.ones(len(commodities)), method="highs")
    if solved.x is None:
        return list(stripes)
    shared: list[list[Stripe]] = [[] for _ in stripes]
    for x, (k, stripe) in enumerate(columns):
        shared[k].append(replace(stripe, share=float(solved.x[x])))
    return [tuple(sorted(own, key=lambda stripe: -stripe.share)) for own in shared]
