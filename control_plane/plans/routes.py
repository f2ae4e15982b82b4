"""Unique shortest paths between the nodes of a topology under any weights of its directed links."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.frames import frame_time_ps
from p4reduce.control_plane.plans.graph import Ints, Short, SwitchGraph, same_both_ways
from p4reduce.control_plane.plans.kernels.jit import FAR, sized
from p4reduce.control_plane.plans.kernels.shortest import along, shortest
from p4reduce.topologies import Topology


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """Ways between one switch and all others: int64 (3, n) distances, and int32 (n,) arcs as `shortest` gives them.

    ``costs`` is the first word of the distances, int64 (n,).
    """

    words: Ints
    arcs: Short
    costs: Ints


class NoPathError(PlanError):
    """There is no way between two switches."""


class Routes:
    """Shortest paths between switches, computed when asked for; hosts hang on their access switch.

    Parameters
    ----------
    topology : Topology
        The network.
    graph : SwitchGraph
        Its switches.
    words : int64 (m, 3)
        Weight of every arc: cost, then what decides between equal ones. A negative cost closes the arc. Sums must be
        unique (``words[:, 2]`` is for that), or equal paths may part after they met.
    twin : Routes or None
        The same with all links turned round, if there is one: what it knows need not be computed again.
    """

    def __init__(self, topology: Topology, graph: SwitchGraph, words: Ints, twin: "Routes | None" = None) -> None:
        self.topology = topology
        self.graph = graph
        self.words = words
        self.symmetric: bool
        self.inward_words: Ints
        self.costs: Ints
        self.inward_costs: Ints
        if twin is not None and words is twin.inward_words:
            self.symmetric, self.inward_words = twin.symmetric, twin.words
            self.costs, self.inward_costs = twin.inward_costs, twin.costs
        else:
            self.costs = np.where(words[:, 0] < 0, FAR, words[:, 0])
            self.symmetric = same_both_ways(graph, self.costs) and same_both_ways(graph, words)
            self.inward_words = words if self.symmetric else words[graph.reverse]
            self.inward_costs = self.costs if self.symmetric else self.costs[graph.reverse]
        self._twin = self if self.symmetric else twin
        self._towards: dict[int, Row] = {}
        self._away: dict[int, Row] = {}
        self._latencies: dict[tuple[int, int], Ints] = {}
        self._places: tuple[Sequence[str], frozenset[str], Short] = ((), frozenset(), np.zeros(0, np.int32))

    def access(self, node: str) -> str:
        """The switch of a host; a switch itself."""
        try:
            return self.graph.access[node]
        except KeyError:
            return self.topology.node(node).name  # says that it is unknown

    def host_cost(self, host: str, *, leaving: bool) -> int:
        """Cost of the link between a host and its switch, in the direction of a path."""
        return 0

    def distance(self, a: str, b: str) -> int:
        """Cost from a to b, hosts' links included; `FAR` or more when there is no way."""
        if a == b:
            return 0
        access, index = self.graph.access, self.graph.index
        switch_a, switch_b = access[a], access[b]
        row = self._towards.get(index[switch_b]) or self.towards(index[switch_b])
        total: int = row.costs.item(index[switch_a])
        if a != switch_a:
            total += self.host_cost(a, leaving=True)
        if b != switch_b:
            total += self.host_cost(b, leaving=False)
        return total

    def path(self, a: str, b: str) -> tuple[str, ...]:
        """Nodes from a to b, both included."""
        if a == b:
            return (a,)
        switch_a, switch_b = self.access(a), self.access(b)
        nodes = [] if a == switch_a else [a]
        nodes += self.switches(self.graph.index[switch_a], self.graph.index[switch_b])
        return tuple(nodes if b == switch_b else [*nodes, b])

    def switches(self, a: int, b: int) -> list[str]:
        """Names of the switches from a to b, both included; `NoPathError` when there is no way."""
        graph, arcs = self.graph, self.towards(b).arcs
        nodes = [graph.names[a]]
        at = a
        while at != b:
            arc = arcs[at]
            if arc < 0:
                raise NoPathError(f"no path from {graph.names[a]} to {graph.names[b]}")
            at = int(graph.heads[arc])
            nodes.append(graph.names[at])
        return nodes

    def latency_ps(self, a: str, b: str, length: int) -> int:
        """Time of one frame of ``length`` bytes from a to b through store-and-forward switches, idle queues."""
        if a == b:
            return 0
        switch_a, switch_b = self.access(a), self.access(b)
        total = int(self.latencies(self.graph.index[switch_b], length)[self.graph.index[switch_a]])
        for host, switch in ((a, switch_a), (b, switch_b)):
            if host != switch:
                link = self.topology.link_at(host, 1)
                total += frame_time_ps(length, link.rate_bps) + link.delay_ps
        return total

    def latencies(self, switch: int, length: int) -> Ints:
        """Times of one frame from all switches to one, int64 (n,)."""
        key = (switch, length)
        if key not in self._latencies:
            times = self.frame_times(length) + self.graph.delay_ps
            self._latencies[key] = sized(along, len(self.graph.names))(
                self.towards(switch).arcs, self.graph.heads, times
            )
        return self._latencies[key]

    def frame_times(self, length: int) -> Ints:
        """How long a frame occupies every arc, int64 (m,)."""
        return self.graph.frame_times(length)

    def nearest(self, node: str, candidates: Sequence[str]) -> str:
        """The candidate switch to which the way from a node is shortest; ties as among paths, then by name."""
        return self._nearest(self.away, node, candidates)

    def nearest_to(self, node: str, candidates: Sequence[str]) -> str:
        """The candidate switch from which the way to a node is shortest; ties as among paths, then by name."""
        return self._nearest(self.towards, node, candidates)

    def _nearest(self, rows: Callable[[int], Row], node: str, candidates: Sequence[str]) -> str:
        access, index = self.access(node), self.graph.index
        if self._places[0] is not candidates:
            places = np.array([index[name] for name in candidates], np.int32)
            self._places = (candidates, frozenset(candidates), places)
        _, known, places = self._places
        if access in known:
            return access
        row = rows(index[access])
        costs = row.costs[places]
        equal = np.flatnonzero(costs == costs.min()).tolist()
        if len(equal) == 1:
            return candidates[equal[0]]

        def order(name: str) -> tuple[int, int, str]:
            return int(row.words[1, index[name]]), int(row.words[2, index[name]]), name

        return min((candidates[place] for place in equal), key=order)

    def towards(self, switch: int) -> Row:
        """Ways to a switch; ``arcs`` are first arcs."""
        return self._towards.get(switch) or self._found(switch, inward=True)

    def away(self, switch: int) -> Row:
        """Ways from a switch; ``arcs`` are last arcs."""
        return self._away.get(switch) or self._found(switch, inward=False)

    def _found(self, switch: int, *, inward: bool) -> Row:
        graph = self.graph
        other = self._others(switch, inward=inward)
        if other is not None:
            # Of a single switch there are no arcs to choose from.
            arcs = np.where(other.arcs >= 0, graph.reverse[other.arcs], other.arcs) if len(graph.heads) else other.arcs
            row = Row(other.words, arcs, other.costs)
        else:
            cost, words = (self.inward_costs, self.inward_words) if inward else (self.costs, self.words)
            find = sized(shortest, len(graph.names))
            words, arcs = find(graph.starts, graph.heads, graph.reverse, cost, words, switch, inward)
            row = Row(words, arcs, words[0])
            self._check(switch, row)
        (self._towards if inward else self._away)[switch] = row
        return row

    def _others(self, switch: int, *, inward: bool) -> Row | None:
        """The row that a twin has for it."""
        if self._twin is None:
            return None
        return (self._twin._away if inward else self._twin._towards).get(switch)

    def known(self, switch: int, *, inward: bool) -> Ints | None:
        """The costs of the ways to or from a switch, int64 (n,), if they have been computed."""
        row = (self._towards if inward else self._away).get(switch) or self._others(switch, inward=inward)
        return None if row is None else row.costs

    def _check(self, switch: int, row: Row) -> None:
        """For subclasses that want every switch to be reached."""


def no_way(distance: int) -> bool:
    """Whether a distance says that there is no path."""
    return distance >= FAR


def path_latency_ps(topology: Topology, path: tuple[str, ...], length: int) -> int:
    """Serialization and propagation along a path of nodes, picoseconds."""
    links = [topology.link_between(a, b) for a, b in pairwise(path)]
    return sum(frame_time_ps(length, link.rate_bps) + link.delay_ps for link in links)


def hops(topology: Topology, path: tuple[str, ...]) -> list[tuple[str, int]]:
    """The directed links of a path, each as (node, port)."""
    return [(a, topology.port(a, b)) for a, b in pairwise(path)]
