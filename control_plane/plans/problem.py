"""What a planner is asked, and what it may answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.frames import DEFAULT_LANES, frame_bytes, frame_time_ps
from p4reduce.control_plane.plans.graph import Ints, Short, switch_graph
from p4reduce.control_plane.plans.paths import Cost, Paths
from p4reduce.control_plane.plans.routes import Routes, hops
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop

MAX_CHILDREN = 32
"""bits of a slot's bitmap (p4src/headers.p4)"""


@dataclass(frozen=True)
class Problem:
    """Workers (and perhaps a parameter server) in a network.

    ``workers`` are host names in rank order. ``load`` is what is already used of directed links, bit/s by (node, port).
    ``cost`` is what a tree should save: copies of a frame on links, or delay. ``spread`` says how equal paths are
    chosen: so that they merge, or so that pairs spread (:class:`~p4reduce.control_plane.plans.paths.Paths`).

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

    @cached_property
    def capable(self) -> tuple[str, ...]:
        """Switches that can aggregate; `PlanError` when there is none."""
        names = switch_graph(self.topology).capable
        if not names:
            raise PlanError(
                f"no switch of topology {self.topology.name!r} can aggregate; mark some with 'capable: true', "
                "or use the plans 'ring' or 'ps', which need none"
            )
        return names

    @cached_property
    def host_arrays(self) -> "tuple[Short, Ints, np.ndarray[tuple[int], np.dtype[np.bool_]]]":
        """For every switch: its workers, the time of a full frame from the slowest of them, whether it is capable."""
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
        """How long a full frame occupies a directed link at the rate that ``load`` leaves, at least a hundredth."""
        rate = self.topology.link_at(*hop).rate_bps
        return frame_time_ps(self.frame_bytes, max(rate - self.load.get(hop, 0), rate // 100, 1))


@dataclass(frozen=True)
class TreeLayout:
    """An aggregation tree: the parent switch of every worker and of every aggregator but the root.

    Edges take the unique shortest path of their ends, chosen as ``spread`` says, unless ``paths`` names the nodes from
    child to parent, both included, for every edge. Both directions use the same links. With a server, its host is the
    root's parent.
    """

    root: str
    parent: Mapping[str, str]
    spread: bool = False
    paths: Mapping[tuple[str, str], tuple[str, ...]] | None = None

    @cached_property
    def children(self) -> dict[str, list[str]]:
        """Children of every aggregator."""
        found: dict[str, list[str]] = {self.root: []}
        for child, parent in self.parent.items():
            found.setdefault(parent, []).append(child)
        return found

    @property
    def aggregators(self) -> tuple[str, ...]:
        """The switches that aggregate."""
        return tuple(self.children)

    @cached_property
    def _crossed(self) -> list[dict[Hop, int]]:
        return []

    def crossed(self, topology: Topology) -> tuple[Mapping[Hop, int], Mapping[Hop, int]]:
        """How many edges with explicit paths cross each directed link: towards the root, and away from it."""
        if not self._crossed:
            self._crossed[:] = {}, {}
            for path in (self.paths or {}).values():
                for found, way in zip(self._crossed, (path, path[::-1]), strict=True):
                    for hop in hops(topology, way):
                        found[hop] = found.get(hop, 0) + 1
        return self._crossed[0], self._crossed[1]


@dataclass(frozen=True)
class RingLayout:
    """Hosts in ring order, and the path of every ordered pair of neighbours, both ways."""

    order: tuple[str, ...]
    paths: Mapping[tuple[str, str], tuple[str, ...]]


@dataclass(frozen=True)
class StarLayout:
    """Every worker and the server: a path each way, which may use different links."""

    paths: Mapping[tuple[str, str], tuple[str, ...]]


@dataclass(frozen=True)
class MeshLayout:
    """Every ordered pair of workers, and the path of what the first sends to the second."""

    paths: Mapping[tuple[str, str], tuple[str, ...]]


Layout = TreeLayout | RingLayout | StarLayout | MeshLayout
