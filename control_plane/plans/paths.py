"""Shortest paths that are unique, so that whatever uses them agrees.

Switches forward by destination alone. If every overlay edge of a plan takes *the* shortest path of its two ends, then
both directions use the same links, every part of a path is the path of its own ends, and no switch is ever asked to
forward one destination two ways. To make shortest paths unique each link gets a tiny extra weight: from what it carries
already, then from its place in the topology, so that equal paths of one tree merge, then from its name.
"""

import heapq
from collections.abc import Mapping
from itertools import pairwise
from typing import Final, Literal
from zlib import crc32

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.frames import frame_time_ps
from p4reduce.topologies import Link, Topology

Cost = Literal["hops", "delay"]
"""What a path costs: links crossed (copies of a frame on links), or propagation delay in picoseconds."""

_COST_SHIFT: Final = 128
_DELAY_SHIFT: Final = 64
_LOAD_SHIFT: Final = 37
_LOAD_STEPS: Final = 512
"""Levels of load that count. An extra weight stays below 2**47: 65,536 of them stay below one unit of delay."""
_PLACE_SHIFT: Final = 20


class Paths:
    """Shortest paths between switches, computed when asked for; hosts hang on their access switch.

    Ties of ``cost`` go to the smaller delay, then to the smaller load, then to links that come first in the topology:
    equal paths merge. With ``spread`` a hash decides instead, so that pairs spread over equal paths.

    Parameters
    ----------
    topology : Topology
        The network.
    cost : 'hops' or 'delay'
        What a path costs.
    load : mapping
        What is already used of directed links, bit/s by (node, port); of a link the busier direction counts.
    spread : bool
        Whether pairs spread over equal paths.
    """

    def __init__(
        self,
        topology: Topology,
        cost: Cost = "hops",
        load: Mapping[tuple[str, int], int] | None = None,
        *,
        spread: bool = False,
    ) -> None:
        if cost not in ("hops", "delay"):
            raise PlanError(f"cost {cost!r} is unknown; choose 'hops' or 'delay'")
        self.topology = topology
        self.cost: Cost = cost
        self._edges: dict[str, list[tuple[str, int]]] = {node.name: [] for node in topology.switches}
        for place, link in enumerate(topology.links):
            if link.a in self._edges and link.b in self._edges:
                weight = _weight(link, cost) + _extra(link, None if spread else place, load or {})
                self._edges[link.a].append((link.b, weight))
                self._edges[link.b].append((link.a, weight))
        self._latencies: dict[tuple[str, str, int], int] = {}
        self._trees: dict[str, tuple[Mapping[str, int], Mapping[str, str]]] = {}

    def access(self, node: str) -> str:
        """The switch of a host; a switch itself."""
        found = self.topology.node(node)
        return node if found.is_switch else self.topology.neighbours(node)[0]

    def distance(self, a: str, b: str) -> int:
        """Cost from a to b, hosts' links included."""
        switch_a, switch_b = self.access(a), self.access(b)
        total = self._tree(switch_a)[0][switch_b] >> _COST_SHIFT
        for host, switch in ((a, switch_a), (b, switch_b)):
            if host != switch and a != b:
                total += _weight(self.topology.link_between(host, switch), self.cost) >> _COST_SHIFT
        return total

    def path(self, a: str, b: str) -> tuple[str, ...]:
        """Nodes from a to b, both included; the reverse of the path from b to a."""
        if a == b:
            return (a,)
        switch_a, switch_b = self.access(a), self.access(b)
        before = self._tree(switch_b)[1]
        nodes = [] if a == switch_a else [a]
        at = switch_a
        while at != switch_b:
            nodes.append(at)
            at = before[at]
        nodes.append(switch_b)
        return tuple(nodes if b == switch_b else [*nodes, b])

    def latency_ps(self, a: str, b: str, length: int) -> int:
        """Time of one frame of ``length`` bytes from a to b through store-and-forward switches, idle queues."""
        key = (a, b, length)
        if key not in self._latencies:
            self._latencies[key] = path_latency_ps(self.topology, self.path(a, b), length)
        return self._latencies[key]

    def nearest(self, node: str, candidates: tuple[str, ...]) -> str:
        """The candidate switch at the least distance; ties as among paths."""
        reach = self._tree(self.access(node))[0]
        return min(candidates, key=lambda name: (reach[name], name))

    def _tree(self, source: str) -> tuple[Mapping[str, int], Mapping[str, str]]:
        """Weights from a switch, and for every switch the next one on its way to it (Dijkstra)."""
        if source not in self._trees:
            done: dict[str, int] = {}
            before: dict[str, str] = {}
            best = {source: 0}
            queue = [(0, source)]
            while queue:
                weight, name = heapq.heappop(queue)
                if name in done:
                    continue
                done[name] = weight
                for other, step in self._edges[name]:
                    reached = weight + step
                    if other not in done and reached < best.get(other, reached + 1):
                        best[other] = reached
                        before[other] = name
                        heapq.heappush(queue, (reached, other))
            missing = [node.name for node in self.topology.switches if node.name not in done]
            if missing:
                # A host has one link, so a network that only hosts would connect is not connected.
                raise PlanError(f"no path from {source} to {missing[0]}")
            self._trees[source] = (done, before)
        return self._trees[source]


def path_latency_ps(topology: Topology, path: tuple[str, ...], length: int) -> int:
    """Serialization and propagation along a path of nodes, picoseconds."""
    links = [topology.link_between(a, b) for a, b in pairwise(path)]
    return sum(frame_time_ps(length, link.rate_bps) + link.delay_ps for link in links)


def hops(topology: Topology, path: tuple[str, ...]) -> list[tuple[str, int]]:
    """The directed links of a path, each as (node, port)."""
    return [(a, topology.port(a, b)) for a, b in pairwise(path)]


def _weight(link: Link, cost: Cost) -> int:
    main = 1 if cost == "hops" else link.delay_ps
    return (main << _COST_SHIFT) + (link.delay_ps << _DELAY_SHIFT)


def _extra(link: Link, place: int | None, load: Mapping[tuple[str, int], int]) -> int:
    """What makes shortest paths unique: load, place (None: a hash instead), name."""
    used = max(load.get((link.a, link.port_a), 0), load.get((link.b, link.port_b), 0))
    level = min(_LOAD_STEPS - 1, used * _LOAD_STEPS // link.rate_bps)
    name = crc32(f"{link.a}-{link.b}".encode())
    first = name >> 16 if place is None else min(place, 2**16 - 1)
    return (level << _LOAD_SHIFT) + (first << _PLACE_SHIFT) + (name & ((1 << _PLACE_SHIFT) - 1))
