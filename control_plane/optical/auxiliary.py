"""The auxiliary graph of lit and free resources, and the cheapest paths over both to join routers.

States are (node, router) and (node, wavelength); edges are a sending transponder, a free wavelength on a fibre, a
receiving transponder, and a lightpath with free slots (Zhu, Zang, Zhu, Mukherjee, "A novel generic graph model for
traffic grooming in heterogeneous WDM mesh networks", IEEE/ACM ToN 11(2), 2003). A path from router to router that
sends, crosses fibres on one wavelength and receives is one new lightpath, and costs are sums over its edges; the
wavelength layers are therefore folded into one edge for each pair of routers, that of its cheapest new lightpath.

A lightpath of h fibres is worth A = 2 c_t + h c_w. For d of T slots an existing one costs A d / T, a new one A max(phi,
d / T): phi = 1 lights as few as possible, phi = d / T keeps paths short. ``lam`` for each kilometre and ``mu`` for each
fibre are added.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, pairwise
from typing import Any, Final, Literal

import networkx as nx
import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from p4reduce.control_plane.optical.plan import Lightpath
from p4reduce.topologies.datacenter import PS_PER_KM
from p4reduce.topologies.wdm import Wdm

Assign = Literal["first-fit", "most-used"]
Grid = Literal["fixed", "flex"]
Floats = npt.NDArray[np.float64]
Pair = tuple[int, int]

TRANSPONDER: Final = 10.0
WAVELENGTH: Final = 1.0
"""costs c_t of a transponder and c_w of a wavelength on a fibre"""
PATHS: Final = 3
"""number of alternative paths of a pair, by fibres and by length each, if its cheapest has no free spectrum"""
SLICE_BPS: Final = 12_500_000_000
"""bit/s of a slice of 12.5 GHz at one bit a symbol"""
SLICES: Final = 320
"""number of slices of 12.5 GHz in the C band, 4 THz"""
REACH_KM: Final = ((4, 500.0), (3, 1000.0), (2, 2000.0), (1, 4000.0))
"""bits a symbol (16QAM, 8QAM, QPSK, BPSK) and their reach, rounded after Christodoulopoulos, Tomkos, Varvarigos,
"Elastic bandwidth allocation in flexible OFDM-based optical networks", JLT 29(9), 2011; to be adapted to the equipment
"""
_TIE: Final = 1e-7
"""cost of a kilometre that decides between paths of equal cost"""


@dataclass(frozen=True)
class PathWeights:
    """Weights of a path's cost: phi, lambda and mu of the module."""

    phi: float = 1.0
    lam: float = 0.0
    mu: float = 0.0


@dataclass(frozen=True)
class Lit:
    """A lightpath, with nodes and fibres as numbers."""

    ends: Pair
    path: tuple[int, ...]
    fibres: tuple[int, ...]
    hops: int
    first: int
    count: int
    km: float

    @property
    def worth(self) -> float:
        """A, the worth of the lightpath."""
        return 2 * TRANSPONDER + self.hops * WAVELENGTH


@dataclass
class Lights:
    """The state of all resources and lightpaths, by number; copied and restored as a whole."""

    free: npt.NDArray[np.bool_]
    """free spectrum, (fibres, wavelengths or slices)"""
    left: npt.NDArray[np.int64]
    """free transponders of each node"""
    lit: dict[int, Lit] = field(default_factory=dict)
    taken: dict[int, int] = field(default_factory=dict)
    """used slots of each lightpath, as bits"""
    between: dict[Pair, tuple[int, ...]] = field(default_factory=dict)

    def copy(self) -> "Lights":
        """Return a copy that can be changed independently."""
        return Lights(self.free.copy(), self.left.copy(), dict(self.lit), dict(self.taken), dict(self.between))


Taken = tuple[int, int]
"""a lightpath's number, and slots as bits"""


class Fibres:
    """A network as arrays, with cached cheapest paths of new lightpaths; shared by all states."""

    def __init__(self, network: Wdm, grid: Grid = "fixed", assign: Assign = "first-fit") -> None:
        self.network, self.grid, self.assign = network, grid, assign
        self.size = len(network.nodes)
        ends = [(network.place[fibre.a], network.place[fibre.b]) for fibre in network.fibres]
        self.number: dict[Pair, int] = {}
        for number, (a, b) in enumerate(ends):
            self.number[a, b] = self.number[b, a] = number
        self.km: Final = np.array([fibre.delay_ps / PS_PER_KM for fibre in network.fibres])
        self._ends: Final = np.array(ends, np.int64).reshape(-1, 2)
        self.between: Final = np.full((self.size, self.size), np.inf)
        """length in km of the fibre between two nodes, inf if there is none"""
        self.between[tuple(self._ends.T)] = self.between[tuple(self._ends.T[::-1])] = self.km
        self.spectrum: Final = network.wavelengths if grid == "fixed" else SLICES
        self._cheapest: dict[tuple[float, float, float], tuple[Floats, npt.NDArray[np.int32]]] = {}
        self._others: dict[Pair, tuple[tuple[int, ...], ...]] = {}

    def dark(self) -> Lights:
        """Return the state in which nothing is lit."""
        left = np.array([self.network.at_most(name) for name in self.network.nodes], np.int64)
        return Lights(np.ones((len(self.km), self.spectrum), np.bool_), left)

    def weigh(self, new: float, way: PathWeights, hops: float, km: Any) -> Any:
        """Return the cost of a path's fibres; ``new``: max(phi, d / T); kilometres may be an array."""
        return hops * (new * WAVELENGTH + way.mu) + km * (way.lam + _TIE)

    def cheapest(self, new: float, way: PathWeights) -> tuple[Floats, npt.NDArray[np.int32]]:
        """Return the costs of the fibres of every pair's cheapest path, and predecessors, (nodes, nodes) each."""
        key = (new, way.lam, way.mu)
        if key not in self._cheapest:
            weights = [self.weigh(new, way, 1, km) for km in self.km.tolist()]
            a, b = self._ends.T
            graph = csr_matrix(
                (np.tile(weights, 2), (np.r_[a, b], np.r_[b, a])), shape=(self.size, self.size), dtype=np.float64
            )
            shortest = dijkstra(graph, directed=False, return_predecessors=True)
            self._cheapest[key] = (shortest[0], shortest[1])
        return self._cheapest[key]

    def path(self, a: int, b: int, before: npt.NDArray[np.int32]) -> tuple[int, ...]:
        """Return the path from a to b, from predecessors."""
        path = [b]
        while path[-1] != a:
            path.append(int(before[a, path[-1]]))
        return tuple(path[::-1])

    @cached_property
    def _graph(self) -> "nx.Graph[int]":
        graph: nx.Graph[int] = nx.Graph()
        for (a, b), km in zip(self._ends.tolist(), self.km.tolist(), strict=True):
            graph.add_edge(a, b, hops=1 + _TIE * km, km=km)
        return graph

    def others(self, a: int, b: int) -> tuple[tuple[int, ...], ...]:
        """Return paths of a pair: the shortest by fibres and by kilometres, at most `PATHS` of each."""
        if (a, b) not in self._others:
            paths: dict[tuple[int, ...], None] = {}
            for weight in ("hops", "km"):
                for path in islice(nx.shortest_simple_paths(self._graph, a, b, weight=weight), PATHS):
                    paths[tuple(path)] = None
            self._others[a, b] = tuple(paths)
        return self._others[a, b]

    def lightpath(self, lit: Lit) -> Lightpath:
        """Convert a lightpath to names."""
        return Lightpath(tuple(self.network.nodes[node] for node in lit.path), lit.first, lit.count)

    def lit(self, lightpath: Lightpath) -> Lit:
        """Convert a lightpath to numbers."""
        path = tuple(self.network.place[name] for name in lightpath.path)
        over = tuple(self.number[pair] for pair in pairwise(path))
        km = float(self.km[list(over)].sum())
        return Lit((path[0], path[-1]), path, over, len(over), lightpath.first, lightpath.count, km)

    def slices(self, km: float) -> int:
        """Return the number of slices for a new lightpath of this length; 0: out of reach."""
        if self.grid == "fixed":
            return 1
        bits = next((bits for bits, reach in REACH_KM if km <= reach), 0)
        return -(-self.network.rate_bps // (SLICE_BPS * bits)) + 1 if bits else 0

    def fit(self, lights: Lights, fibres: tuple[int, ...], count: int) -> int:
        """Return the first of ``count`` slices free on all fibres, chosen as ``assign`` says; -1: none."""
        free: npt.NDArray[np.bool_] = np.logical_and.reduce(lights.free[list(fibres)])
        run = np.convolve(free, np.ones(count, np.int64), "valid") == count if count > 1 else free
        if not run.any():
            return -1
        if self.assign == "most-used":
            used = np.where(run, (~lights.free).sum(axis=0)[: len(run)], -1)
            return int(used.argmax())
        return int(run.argmax())


class Groomer:
    """Joins routers over lit lightpaths and free resources, and lights missing lightpaths."""

    def __init__(self, fibres: Fibres, lights: Lights | None = None) -> None:
        self.fibres = fibres
        self.lights = fibres.dark() if lights is None else lights
        self._next = max(self.lights.lit, default=-1) + 1

    # --- lightpaths

    def plan(self, path: tuple[int, ...]) -> Lit | None:
        """Return a new lightpath along a path; None: a transponder, spectrum or reach is missing."""
        fibres = tuple(self.fibres.number[pair] for pair in pairwise(path))
        km = float(self.fibres.km[list(fibres)].sum())
        count = self.fibres.slices(km)
        if not count or self.lights.left[path[0]] < 1 or self.lights.left[path[-1]] < 1:
            return None
        first = self.fibres.fit(self.lights, fibres, count)
        return None if first < 0 else Lit((path[0], path[-1]), path, fibres, len(fibres), first, count, km)

    def light(self, lit: Lit) -> int:
        """Light a lightpath; return its number."""
        lights, number = self.lights, self._next
        self._next += 1
        lights.lit[number], lights.taken[number] = lit, 0
        for end, other in (lit.ends, lit.ends[::-1]):
            lights.left[end] -= 1
            lights.between[end, other] = (*lights.between.get((end, other), ()), number)
        lights.free[list(lit.fibres), lit.first : lit.first + lit.count] = False
        return number

    def take(self, number: int, slots: int) -> Taken:
        """Take the first free slots of a lightpath, which must have enough."""
        taken, mask, bit = self.lights.taken[number], 0, 1
        while slots:
            if not taken & bit:
                mask, slots = mask | bit, slots - 1
            bit <<= 1
        self.lights.taken[number] = taken | mask
        return number, mask

    def release(self, uses: Iterable[Taken]) -> None:
        """Release slots; a lightpath without used slots goes dark."""
        lights = self.lights
        for number, mask in uses:
            lights.taken[number] &= ~mask
            if not lights.taken[number]:
                lit = lights.lit.pop(number)
                del lights.taken[number]
                for end, other in (lit.ends, lit.ends[::-1]):
                    lights.left[end] += 1
                    lights.between[end, other] = tuple(n for n in lights.between[end, other] if n != number)
                lights.free[list(lit.fibres), lit.first : lit.first + lit.count] = True

    def room(self, a: int, b: int, slots: int) -> list[int]:
        """Return the lightpaths between two nodes with at least ``slots`` free slots."""
        most = self.fibres.network.slots - slots
        return [n for n in self.lights.between.get((a, b), ()) if self.lights.taken[n].bit_count() <= most]

    # --- paths

    def join(
        self,
        root: int,
        terminals: Iterable[int],
        slots: int,
        way: PathWeights,
        *,
        opaque: bool = False,
        no_new: Iterable[Pair] = (),
    ) -> dict[Pair, Taken] | None:
        """Join a router to others by a tree: each step joins the nearest terminal to it (Takahashi, Matsuyama).

        Return the uses by edge; with one terminal they are a cheapest path. None: a terminal cannot be reached, and
        nothing is changed.

        Parameters
        ----------
        root, terminals, slots
            Numbers of nodes, and d.
        way : PathWeights
            Weights of costs.
        opaque : bool
            Whether each lightpath has one fibre, so that no router is bypassed.
        no_new : iterable of (int, int)
            Pairs that no new lightpath may join.
        """
        costs = _Costs(self, slots, way, no_new, opaque=opaque)
        wanted = set(terminals) - {root}
        inside, uses = {root}, dict[Pair, Taken]()
        while wanted:
            path = costs.nearest(inside, wanted)
            if path is None:
                self.release(uses.values())
                return None
            for a, b in pairwise(path):
                number = costs.realise(a, b)
                if number is None:
                    break
                uses[a, b] = self.take(number, slots)
                inside.add(b)
            wanted -= inside
        return self._pruned(uses, {root, *terminals})

    def _pruned(self, uses: dict[Pair, Taken], needed: set[int]) -> dict[Pair, Taken]:
        """Remove branches that serve no terminal, which remain when a path could not be lit to its end."""
        while dead := [pair for pair in uses if pair[1] not in needed and all(pair[1] != a for a, _ in uses)]:
            self.release(uses.pop(pair) for pair in dead)
        return uses


class _Costs:
    """Costs of joining every pair of routers for one task; they are lower bounds until spectrum has been checked."""

    def __init__(
        self,
        groomer: Groomer,
        slots: int,
        way: PathWeights,
        no_new: Iterable[Pair],
        *,
        opaque: bool,
    ) -> None:
        fibres, lights = groomer.fibres, groomer.lights
        self._groomer, self._way, self._opaque = groomer, way, opaque
        share = slots / fibres.network.slots
        self._new = max(way.phi, share)
        base, self._before = fibres.cheapest(self._new, way)
        if opaque:
            base = fibres.weigh(self._new, way, 1.0, fibres.between)
        self.cost: Floats = base + self._new * 2 * TRANSPONDER
        full = lights.left < 1
        self.cost[full] = self.cost[:, full] = np.inf
        for a, b in no_new:
            self.cost[a, b] = self.cost[b, a] = np.inf
        self._lit: dict[Pair, int] = {}
        most, cost, by_hop, by_km = fibres.network.slots - slots, self.cost, share * WAVELENGTH + way.mu, way.lam + _TIE
        for number, lit in lights.lit.items():
            if lights.taken[number].bit_count() <= most:
                (a, b), value = lit.ends, share * 2 * TRANSPONDER + lit.hops * by_hop + lit.km * by_km
                if value <= cost[a, b] + (-_TIE if (a, b) in self._lit else _TIE):
                    cost[a, b] = cost[b, a] = value
                    self._lit[a, b] = self._lit[b, a] = number
        np.fill_diagonal(self.cost, np.inf)
        self._planned: dict[Pair, Lit] = {}
        self._dist = self._open = np.empty(0)
        self._back = np.empty(0, np.int64)
        self._stale = True

    def nearest(self, inside: set[int], wanted: set[int]) -> list[int] | None:
        """Return the cheapest path from the tree to a terminal, once its edges' costs are exact; None: unreachable."""
        while True:
            path = self._dijkstra(inside, wanted)
            if path is None or all(self._certain(a, b) for a, b in pairwise(path)):
                return path

    def _dijkstra(self, inside: set[int], wanted: set[int]) -> list[int] | None:
        """Continue from the last state, since the tree only grows; restart after an edge's cost has increased."""
        if self._stale:
            self._dist, self._back = np.full(len(self.cost), np.inf), np.full(len(self.cost), -1, np.int64)
            self._open, self._stale = self._dist.copy(), False
        cost, dist, open_, before = self.cost, self._dist, self._open, self._back
        joined = [node for node in inside if dist[node] > 0]
        dist[joined] = open_[joined] = 0.0
        before[joined] = -1
        while True:
            node = int(open_.argmin())
            if open_[node] == np.inf:
                return None
            if node in wanted:
                path = [node]
                while before[path[-1]] >= 0:
                    path.append(int(before[path[-1]]))
                return path[::-1]
            reach = dist[node] + cost[node]
            better = reach < dist
            open_[node] = np.inf
            dist[better] = open_[better] = reach[better]
            before[better] = node

    def _certain(self, a: int, b: int) -> bool:
        """Return whether an edge's cost is exact; otherwise correct it."""
        if (a, b) in self._lit or (a, b) in self._planned:
            return True
        groomer, fibres = self._groomer, self._groomer.fibres
        planned = groomer.plan((a, b) if self._opaque else fibres.path(a, b, self._before))
        if planned is None:
            options = [] if self._opaque else [groomer.plan(path) for path in fibres.others(a, b)]
            known = [lit for lit in options if lit is not None]
            planned = min(known, key=self._of, default=None)
        value = np.inf if planned is None else self._of(planned)
        exact = planned is not None and value <= self.cost[a, b] * (1 + 1e-9)
        self.cost[a, b] = self.cost[b, a] = value
        self._stale |= not exact
        if planned is not None:
            self._planned[a, b] = planned
        return exact

    def _of(self, lit: Lit) -> float:
        return float(self._new * 2 * TRANSPONDER + self._groomer.fibres.weigh(self._new, self._way, lit.hops, lit.km))

    def realise(self, a: int, b: int) -> int | None:
        """Return the lightpath of an edge; None: its resources are used up by now, and the edge is gone."""
        if (a, b) in self._lit:
            return self._lit[a, b]
        if not self._certain(a, b):
            return None
        number = self._groomer.light(self._planned[a, b])
        self._planned.clear()  # spectrum and transponders may be used up
        for end in (a, b):
            if self._groomer.lights.left[end] < 1:
                self._spent(end)
        return number

    def _spent(self, node: int) -> None:
        """Remove all new lightpaths that end at a node."""
        self._stale = True
        for other in range(len(self.cost)):
            for pair in ((node, other), (other, node)):
                if pair not in self._lit:
                    self.cost[pair] = np.inf
