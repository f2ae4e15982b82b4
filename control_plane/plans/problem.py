"""The problem that a planner gets, and the layouts that it may return."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Final, TypeVar

import numpy as np

from p4reduce.base.errors import PlanError
from p4reduce.base.registry import Registry
from p4reduce.control_plane.plans.kernels import FAR
from p4reduce.control_plane.plans.routes import (
    DEFAULT_LANES,
    Cost,
    Ints,
    Paths,
    Routes,
    Short,
    chunks,
    frame_bytes,
    frame_time_ps,
    hops,
    switch_graph,
)
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop

MAX_CHILDREN = 32
"""children of an aggregator: bits of a slot's bitmap (p4src/headers.p4)"""


LARGE: Final = 1 << 20
"""assumed number of elements of a collective whose size is not known"""


@dataclass(frozen=True)
class Problem:
    """Workers (and perhaps a parameter server) in a network.

    ``workers`` are host names in rank order. ``load`` is the load of directed links, bit/s by (node, port). ``cost`` is
    what a tree minimizes: copies of a frame on links, or delay. ``spread`` says how equal paths are chosen: so that
    they merge, or so that pairs spread (:class:`~p4reduce.control_plane.plans.routes.Paths`). ``elements`` is the size
    of a collective, by which ``best`` chooses (None: large); with ``in_network`` only switches may aggregate.

    Raises
    ------
    PlanError
        When a host is unknown, named twice, or both worker and server.
    """

    topology: Topology
    workers: tuple[str, ...]
    server: str | None = None
    lanes: int = DEFAULT_LANES
    cost: Cost = "hops"
    load: Mapping[tuple[str, int], int] = field(default_factory=dict)
    spread: bool = False
    elements: int | None = None
    in_network: bool = False

    def __post_init__(self) -> None:
        if not self.workers:
            raise PlanError("workers: a job needs at least one")
        if len(set(self.workers)) != len(self.workers):
            twice = next(name for name in self.workers if self.workers.count(name) > 1)
            raise PlanError(f"workers: {twice} is named twice; a host works once in a job")
        for name in (*self.workers, *((self.server,) if self.server else ())):
            node = self.topology.by_name.get(name)
            if node is None or not node.is_host:
                known = ", ".join(host.name for host in self.topology.hosts[:6])
                raise PlanError(f"{name!r} is no host of topology {self.topology.name!r}; hosts are {known}, ...")
        if self.server in self.workers:
            raise PlanError(f"server: {self.server} is also a worker; give the server a host of its own")
        if self.lanes < 1:
            raise PlanError(f"lanes: {self.lanes} is too few")

    @cached_property
    def paths(self) -> Routes:
        """Unique shortest paths under ``cost``."""
        return Paths(self.topology, self.cost, self.load, spread=self.spread)

    @cached_property
    def spreading(self) -> "Problem":
        """The same problem with pairs spread over equal paths."""
        return self if self.spread else replace(self, spread=True)

    def of(self, layout: "Layout") -> "Problem":
        """The problem whose paths a layout takes."""
        return self.spreading if isinstance(layout, TreeLayout) and layout.spread else self

    @property
    def frame_bytes(self) -> int:
        """Bytes of a full frame."""
        return frame_bytes(self.lanes)

    @property
    def chunks(self) -> int:
        """Chunks of a typical collective; of :data:`LARGE` elements if its size is not known."""
        return chunks(self.elements or LARGE, self.lanes)

    @cached_property
    def capable(self) -> tuple[str, ...]:
        """The switches of trees: those of :attr:`able`; a derived class may exclude some."""
        return self.able

    @cached_property
    def able(self) -> tuple[str, ...]:
        """Switches that can aggregate and that the workers reach; `PlanError` when there is none."""
        if not switch_graph(self.topology).capable:
            raise PlanError(
                f"no switch of topology {self.topology.name!r} can aggregate; mark some with 'capable: true', "
                "or use the plans 'ring' or 'ps', which need none"
            )
        if not self.reached:
            raise PlanError(
                f"the workers have no common way to a switch of topology {self.topology.name!r} that can aggregate"
            )
        return self.reached

    @cached_property
    def reached(self) -> tuple[str, ...]:
        """Switches that can aggregate and that the workers reach; there may be none.

        If all links are open both ways or closed both ways, all workers must reach the switch. Otherwise one worker
        must reach it, and it must reach the server.
        """
        names, routes = switch_graph(self.topology).capable, self.paths
        if not self.topology.partial and routes.symmetric and not (routes.costs >= FAR).any():
            return names  # the network is connected, and no link is closed
        index = routes.graph.index
        if routes.symmetric:
            there = self._costs_from_workers(np.max) < FAR
        else:
            there = self._costs_from_workers(np.min) < FAR
            if self.server is not None:
                there &= routes.towards(index[routes.access(self.server)]).costs < FAR
        return tuple(name for name in names if there[index[name]])

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """Capable switches that all workers reach; all capable ones if there is none."""
        if self.paths.symmetric:
            return self.capable
        farthest, index = self._costs_from_workers(np.max), self.paths.graph.index
        return tuple(name for name in self.capable if farthest[index[name]] < FAR) or self.capable

    def _costs_from_workers(self, over: Callable[..., Ints]) -> Ints:
        """The largest or the smallest (``over``) cost of a path from a worker to every switch: int64 (switches,)."""
        routes = self.paths
        access = {routes.graph.index[routes.access(worker)] for worker in self.workers}
        return over([routes.away(switch).costs for switch in access], axis=0)

    @cached_property
    def host_arrays(self) -> "tuple[Short, Ints, np.ndarray[tuple[int], np.dtype[np.bool_]]]":
        """By switch: number of workers, time of a full frame from the slowest worker, whether it is capable."""
        graph = self.paths.graph
        count, lead = np.zeros(len(graph.names), np.int32), np.zeros(len(graph.names), np.int64)
        able = np.zeros(len(graph.names), np.bool_)
        for worker in self.workers:
            switch, link = graph.index[self.paths.access(worker)], self.topology.link_at(worker, 1)
            count[switch] += 1
            lead[switch] = max(lead[switch], frame_time_ps(self.frame_bytes, link.rate_bps) + link.delay_ps)
        able[graph.places(self.capable)] = True
        return count, lead, able

    @cached_property
    def chunk_times(self) -> Ints:
        """:meth:`chunk_ps` of every link between switches, int64 (m,) over arcs."""
        graph = self.paths.graph
        rate = np.maximum(np.maximum(graph.rate_bps - graph.by_arc(self.load), graph.rate_bps // 100), 1)
        if not self.load:
            return self.paths.frame_times(self.frame_bytes)
        return np.array([frame_time_ps(self.frame_bytes, left) for left in rate.tolist()], np.int64)

    def chunk_ps(self, hop: tuple[str, int]) -> int:
        """Time in ps that a full frame occupies a directed link at its free rate, but at least 1 % of its rate."""
        rate = self.topology.link_at(*hop).rate_bps
        return frame_time_ps(self.frame_bytes, max(rate - self.load.get(hop, 0), rate // 100, 1))


@dataclass(frozen=True)
class TreeLayout:
    """An aggregation tree: the parent of every worker and of every aggregator but the root.

    A parent is a switch that can aggregate, or a worker of the job (a relay), which adds its children's contributions
    to its own. Edges take the unique shortest path of their ends, chosen by ``spread``, unless ``paths`` gives the
    nodes from child to parent, both included, for every edge. Both directions use the same links. With a server, its
    host is the root's parent.
    """

    root: str
    parent: Mapping[str, str]
    spread: bool = False
    paths: Mapping[tuple[str, str], tuple[str, ...]] | None = None

    @cached_property
    def children(self) -> dict[str, list[str]]:
        """Children of every aggregator."""
        children: dict[str, list[str]] = {self.root: []}
        for child, parent in self.parent.items():
            children.setdefault(parent, []).append(child)
        return children

    @property
    def aggregators(self) -> tuple[str, ...]:
        """The switches, and relays, that aggregate."""
        return tuple(self.children)

    @cached_property
    def _crossed(self) -> list[dict[Hop, int]]:
        return []

    def crossed(self, topology: Topology) -> tuple[Mapping[Hop, int], Mapping[Hop, int]]:
        """The number of edges with explicit paths on each directed link: towards the root, and away from it."""
        if not self._crossed:
            self._crossed[:] = {}, {}
            for path in (self.paths or {}).values():
                for crossings, way in zip(self._crossed, (path, path[::-1]), strict=True):
                    for hop in hops(topology, way):
                        crossings[hop] = crossings.get(hop, 0) + 1
        return self._crossed[0], self._crossed[1]


@dataclass(frozen=True)
class RingLayout:
    """Hosts in ring order, and the path of every ordered pair of neighbours, in both directions."""

    order: tuple[str, ...]
    paths: Mapping[tuple[str, str], tuple[str, ...]]


@dataclass(frozen=True)
class StarLayout:
    """A path from every worker to the server and one back; the two may use different links."""

    paths: Mapping[tuple[str, str], tuple[str, ...]]


@dataclass(frozen=True)
class MeshLayout:
    """The path from every worker to every other worker."""

    paths: Mapping[tuple[str, str], tuple[str, ...]]


Layout = TreeLayout | RingLayout | StarLayout | MeshLayout


# Plans by name. A plan is a function from a problem to a layout.


Planner = Callable[[Problem], Layout]

PLANS: Registry[Planner] = Registry("plan", PlanError)
"""Every known planner by name; :func:`register` and entry points of ``p4reduce.plans`` add to it."""


_P = TypeVar("_P", bound=Planner)


def register(name: str) -> Callable[[_P], _P]:
    """Decorator that registers a planner under ``name``.

    >>> @register("mine")  # doctest: +SKIP
    ... def mine(problem: Problem) -> Layout: ...
    """

    def add(planner: _P) -> _P:
        PLANS.add(name, planner)
        return planner

    return add


def planner(name: str) -> Planner:
    """The planner with this name; `PlanError` lists the known names."""
    return PLANS.named(name)


# Round trip of a chunk, and the number of chunks that must be in flight.


Pair = tuple[str, str]
Path = tuple[str, ...]

ACK_EVERY: Final = 16
"""number of full frames that a ring's receiver acknowledges with one empty frame"""


@dataclass(frozen=True, slots=True)
class PlanTimes:
    """Round trip of a full frame and the time between chunks on the busiest link, both in ps."""

    rtt_ps: int
    chunk_ps: int

    @property
    def window(self) -> int:
        """Chunks in flight that keep the busiest link busy: ceil(rate * RTT / frame)."""
        return max(1, -(-self.rtt_ps // self.chunk_ps))


def all_paths(problem: Problem, layout: Layout) -> dict[Pair, Path]:
    """The path of every overlay hop, in both directions."""
    if not isinstance(layout, TreeLayout):
        return dict(layout.paths)
    edges = list(layout.parent.items())
    if problem.server is not None:
        edges.append((layout.root, problem.server))
    paths: dict[Pair, Path] = {}
    for edge in edges:
        path = problem.paths.path(*edge) if layout.paths is None else layout.paths[edge]
        paths[edge], paths[edge[::-1]] = path, path[::-1]
    return paths


def check_forwarding(paths: Mapping[Pair, Path]) -> None:
    """Raise `PlanError` when a switch would have to forward one destination in two ways.

    Such a planner breaks the rule of :mod:`~p4reduce.control_plane.plans.routes`.
    """
    onward: dict[tuple[str, str], str] = {}
    for (_, destination), path in paths.items():
        for name, following in pairwise(path[1:]):
            known = onward.setdefault((name, destination), following)
            if known != following:
                raise PlanError(
                    f"paths to {destination} part at {name} (to {known} and to {following}), "
                    "but switches forward by destination: the planner must let paths that meet go on together"
                )


def timing(problem: Problem, layout: Layout, paths: Mapping[Pair, Path], *, length: int | None = None) -> PlanTimes:
    """Round trip and chunk time of a layout whose frames have ``length`` bytes; None: full frames.

    A link that a chunk crosses k times (children behind one port, workers of one server) takes k frame times, and the
    last of these frames counts. Links are otherwise idle.
    """
    if isinstance(layout, RingLayout):
        return _ring_timing(problem, layout, paths)
    if isinstance(layout, MeshLayout):
        return _mesh_timing(problem, layout)
    up = upward(problem, layout, paths)
    down = [(b, a) for a, b in up]
    above = dict(up)
    total = 0
    chunk = 1
    for pairs, towards_top in ((up, True), (down, False)):
        times = _link_times(problem, paths, pairs, length)
        chunk = max(chunk, *times.values())
        total += max(_climb(problem, worker, above, paths, times=times, up=towards_top) for worker in problem.workers)
    return PlanTimes(total, chunk)


def upward(problem: Problem, layout: TreeLayout | StarLayout, paths: Mapping[Pair, Path]) -> list[Pair]:
    """Pairs of child and parent in a tree or star, including the edge to the server."""
    if isinstance(layout, StarLayout):
        return [pair for pair in paths if pair[1] == problem.server]
    return list(layout.parent.items()) + ([(layout.root, problem.server)] if problem.server else [])


def link_frames(problem: Problem, paths: Mapping[Pair, Path], pairs: Iterable[Pair]) -> Counter[Hop]:
    """Frames of a chunk on each directed link, one for every pair."""
    return Counter(hop for pair in pairs for hop in hops(problem.topology, paths[pair]))


def choose_window(needed: int) -> int:
    """The needed window plus a margin of a quarter and four chunks, rounded up to a power of two.

    The margin covers frames that wait behind others at merging ports; slots = 2 * window must be a power of two.
    """
    return power_of_two(with_margin(needed))


def late_slots(needed: int, levels: int) -> int:
    """Slots with which a chunk may be some round trips late before it delays the next chunk in its slot.

    A worker sends a chunk when it has the result of the chunk half the slots earlier. A lost chunk takes one round trip
    to be noticed, and one or two more to be repaired; the slots allow for four in a tree of up to two ``levels`` of
    switches. Each further level may lose the chunk again, which adds two round trips.
    """
    return power_of_two(4 * max(2, levels) * needed)


def with_margin(needed: int) -> int:
    """The needed window plus a margin for frames that wait behind others."""
    return needed + needed // 4 + 4


def ring_window(needed: int) -> int:
    """The window of a ring: two runs of :data:`ACK_EVERY` frames larger, as each run is acknowledged at once."""
    return power_of_two(needed + needed // 4 + 2 * ACK_EVERY)


def power_of_two(least: int) -> int:
    """The smallest power of two that is at least ``least``."""
    return 1 << max(0, least - 1).bit_length()


def _ring_timing(problem: Problem, layout: RingLayout, paths: Mapping[Pair, Path]) -> PlanTimes:
    order = layout.order
    data = [(a, b) for a, b in zip(order, (*order[1:], order[0]), strict=True) if a != b]
    if not data:
        return PlanTimes(1, 1)
    times = _link_times(problem, paths, data)
    there = {pair: _walk(problem, paths[pair], times) for pair in data}
    back = {pair: problem.paths.latency_ps(pair[1], pair[0], problem.frame_bytes) for pair in data}
    return PlanTimes(max(there[pair] + back[pair] for pair in data), max(times.values()))


def _mesh_timing(problem: Problem, layout: MeshLayout) -> PlanTimes:
    """Times for a chunk of every pair: the busiest link carries all of them, and their acknowledgements."""
    if not layout.paths:
        return PlanTimes(1, 1)
    topology, length = problem.topology, problem.frame_bytes
    streams = Counter(hop for path in layout.paths.values() for hop in hops(topology, path))
    answers = Counter(hop for a, b in layout.paths for hop in hops(topology, layout.paths[b, a]))
    chunk = max(
        count * frame_time_ps(length, rate) + -(-answers[hop] * frame_time_ps(frame_bytes(0), rate) // ACK_EVERY)
        for hop, count in streams.items()
        for rate in (topology.link_at(*hop).rate_bps,)
    )
    there = max(problem.paths.latency_ps(*pair, length) for pair in layout.paths)
    return PlanTimes(2 * there, chunk)


def _link_times(
    problem: Problem, paths: Mapping[Pair, Path], pairs: Iterable[Pair], length: int | None = None
) -> dict[Hop, int]:
    """Time in ps that a chunk keeps every directed link busy."""
    length = problem.frame_bytes if length is None else length
    return {
        hop: count * frame_time_ps(length, problem.topology.link_at(*hop).rate_bps)
        for hop, count in link_frames(problem, paths, pairs).items()
    }


def _climb(
    problem: Problem,
    worker: str,
    above: Mapping[str, str],
    paths: Mapping[Pair, Path],
    *,
    times: Mapping[tuple[str, int], int],
    up: bool,
) -> int:
    total, name = 0, worker
    while name in above:
        pair = (name, above[name]) if up else (above[name], name)
        total += _walk(problem, paths[pair], times)
        name = above[name]
    return total


def _walk(problem: Problem, path: Path, times: Mapping[tuple[str, int], int]) -> int:
    return sum(times[hop] + problem.topology.link_at(*hop).delay_ps for hop in hops(problem.topology, path))
