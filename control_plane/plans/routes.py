"""Unique shortest paths between the nodes of a topology under any weights of its directed links."""

import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, Literal
from zlib import crc32

import numpy as np
import numpy.typing as npt

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans.kernels import FAR, sized
from p4reduce.control_plane.plans.kernels.shortest import along, shortest
from p4reduce.topologies import Link, Topology
from p4reduce.topologies.model import HOST_BASE, SWITCH_BASE, Hop
from p4switch.base.values import PS_PER_S

# Sizes of INC frames and the time they take on a link (docs/architecture.md, "Time and bytes").


HEADER_BYTES: Final = 62
"""bytes of a frame without lanes: Ethernet 14, IPv4 20, UDP 8, INC 20"""
LANE_BYTES: Final = 4
_MIN_FRAME: Final = 60
"""bytes of the shortest Ethernet frame without FCS"""
_OVERHEAD: Final = 24
"""bytes on the wire around a frame: preamble 8, FCS 4, inter-frame gap 12"""


DEFAULT_LANES: Final = 256
"""number of lanes without a switch program"""


def frame_bytes(lanes: int) -> int:
    """Bytes of an INC frame with this many lanes (0: the empty frame), without FCS."""
    return HEADER_BYTES + LANE_BYTES * lanes


def frame_time_ps(length: int, rate_bps: int) -> int:
    """Picoseconds that a frame of ``length`` bytes occupies a link."""
    bits = (max(length, _MIN_FRAME) + _OVERHEAD) * 8
    return -(-bits * PS_PER_S // rate_bps)


def on_wire_ps(frames: int, octets: int, rate_bps: int) -> int:
    """Picoseconds that ``frames`` INC frames with ``octets`` bytes in total occupy a link."""
    return -(-(octets + _OVERHEAD * frames) * 8 * PS_PER_S // rate_bps)


def chunks(elements: int, lanes: int) -> int:
    """Number of full frames that carry ``elements`` numbers, the last one padded."""
    return -(-elements // lanes)


# A topology's switches and the links between them as arrays, computed once for each topology.


Ints = npt.NDArray[np.int64]
Short = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
_PLACE_SHIFT: Final = 20


class _Arcs(dict[Hop, int]):
    def __missing__(self, hop: Hop) -> int:
        return -1


@dataclass(frozen=True, eq=False)
class SwitchGraph:
    """Switches and directed links (arcs) in compressed rows: the arcs of switch i are ``starts[i] .. starts[i+1] - 1``.

    Arcs of a switch are in the order of its ports. n switches, m arcs.

    Attributes
    ----------
    names : tuple of str
        Switches by index.
    starts, heads, tails, reverse : int32
        (n + 1,) and (m,): the rows; end and beginning of an arc; the arc of the same link in the other direction.
    ports : int32 (m,)
        Port of the switch at which an arc begins.
    place, label : int64 (m,)
        The link's index in the topology, and a hash of its name, which decide between equal paths.
    rate_bps, delay_ps : int64 (m,)
        Rate in bit/s and delay in ps of the link.
    capable : tuple of str
        Switches that can aggregate.
    access : mapping
        The switch of every host; a switch is mapped to itself.
    """

    names: tuple[str, ...]
    starts: Short
    heads: Short
    tails: Short
    reverse: Short
    ports: Short
    place: Ints
    label: Ints
    rate_bps: Ints
    delay_ps: Ints
    capable: tuple[str, ...] = field(repr=False)
    index: Mapping[str, int] = field(repr=False)
    access: Mapping[str, str] = field(repr=False)

    @cached_property
    def arcs(self) -> "dict[Hop, int]":
        """Arc by (switch, port); -1 for links of hosts."""
        tails, ports = self.tails.tolist(), self.ports.tolist()
        return _Arcs(((self.names[tail], port), arc) for arc, (tail, port) in enumerate(zip(tails, ports, strict=True)))

    @cached_property
    def _capable_places(self) -> Short:
        return np.array([self.index[name] for name in self.capable], np.int32)

    def places(self, names: tuple[str, ...]) -> Short:
        """Indices of switches, int32."""
        if names is self.capable:
            return self._capable_places
        return np.array([self.index[name] for name in names], np.int32)

    @cached_property
    def _frame_times(self) -> dict[int, Ints]:
        return {}

    def frame_times(self, length: int) -> Ints:
        """Picoseconds that a frame of ``length`` bytes occupies every arc, int64 (m,)."""
        if length not in self._frame_times:
            rates, place = np.unique(self.rate_bps, return_inverse=True)
            times = np.array([frame_time_ps(length, int(rate)) for rate in rates], np.int64)
            self._frame_times[length] = times[place] if len(times) else np.zeros(0, np.int64)
        return self._frame_times[length]

    def tie_breaks(self, *, spread: bool) -> Ints:
        """Tie-breaking weights below 2**37, int64 (m,): the link's index (or a hash), then its name."""
        return self._tie_breaks[spread]

    @cached_property
    def _tie_breaks(self) -> tuple[Ints, Ints]:
        first = np.minimum(self.place, 2**16 - 1), self.label >> 16
        low = self.label & ((1 << _PLACE_SHIFT) - 1)
        return (first[0] << _PLACE_SHIFT) + low, (first[1] << _PLACE_SHIFT) + low

    @cached_property
    def _looked_up(self) -> "list[tuple[list[Hop], Ints]]":
        """the last link lists that were looked up, with their arcs"""
        return []

    def by_arc(self, values: Mapping[Hop, int]) -> Ints:
        """Values of directed links between switches as int64 (m,) over arcs; 0 for links without a value."""
        of_arcs = np.zeros(len(self.heads) + 1, np.int64)
        if values:
            of_arcs[self._arcs_of(list(values))] = np.fromiter(values.values(), np.int64, len(values))
        return of_arcs[:-1]

    def _arcs_of(self, hops: list[Hop]) -> Ints:
        # Most calls repeat an earlier list, and comparing lists is faster than looking up their links.
        for known, arcs in self._looked_up:
            if known == hops:
                return arcs
        arcs = np.fromiter(map(self.arcs.__getitem__, hops), np.int64, len(hops))
        self._looked_up[:] = [(hops, arcs), *self._looked_up[:1]]
        return arcs

    def hop(self, arc: int) -> Hop:
        """The directed link of an arc."""
        return self.names[self.tails[arc]], int(self.ports[arc])


_GRAPHS: dict[int, tuple[Callable[[], Topology | None], SwitchGraph]] = {}


def switch_graph(topology: Topology) -> SwitchGraph:
    """The arrays of a topology; the same object as long as the topology lives."""
    known = _GRAPHS.get(id(topology))
    if known is not None and known[0]() is topology:
        return known[1]
    graph = _compile(topology)
    key = id(topology)

    def forget(reference: Any) -> None:
        if key in _GRAPHS and _GRAPHS[key][0] is reference:
            del _GRAPHS[key]

    _GRAPHS[key] = (weakref.ref(topology, forget), graph)
    return graph


def _compile(topology: Topology) -> SwitchGraph:
    names = tuple(switch.name for switch in topology.switches)
    index = {name: number for number, name in enumerate(names)}
    rows: list[tuple[int, int, int, int, int, int, int]] = []
    for place, link in enumerate(topology.links):
        a, b = index.get(link.a), index.get(link.b)
        if a is not None and b is not None:
            label = crc32(f"{link.a}-{link.b}".encode())
            rows.append((a, link.port_a, b, place, label, link.rate_bps, link.delay_ps))
            rows.append((b, link.port_b, a, place, label, link.rate_bps, link.delay_ps))
    table = np.array(rows, np.int64).reshape(-1, 7)
    order = np.lexsort((table[:, 1], table[:, 0]))
    moved = np.empty(len(order), np.int32)
    moved[order] = np.arange(len(order), dtype=np.int32)
    twin = np.arange(len(order)) ^ 1  # the two directions of a link are adjacent
    table = table[order]
    starts = np.searchsorted(table[:, 0], np.arange(len(names) + 1))
    return SwitchGraph(
        names=names,
        starts=starts.astype(np.int32),
        heads=table[:, 2].astype(np.int32),
        tails=table[:, 0].astype(np.int32),
        reverse=moved[twin[order]],
        ports=table[:, 1].astype(np.int32),
        place=np.ascontiguousarray(table[:, 3]),
        label=np.ascontiguousarray(table[:, 4]),
        rate_bps=np.ascontiguousarray(table[:, 5]),
        delay_ps=np.ascontiguousarray(table[:, 6]),
        capable=tuple(switch.name for switch in topology.switches if switch.capable),
        index=index,
        access={
            node.name: node.name if node.is_switch else topology.neighbours(node.name)[0]
            for node in topology.nodes
            if not node.is_crossconnect
        },
    )


def same_both_ways(graph: SwitchGraph, words: Ints) -> bool:
    """Whether every link weighs the same in both directions."""
    return bool(np.array_equal(words, words[graph.reverse]))


@dataclass(frozen=True, slots=True, eq=False)
class DistanceRow:
    """Paths between one switch and all others: int64 (3, n) distances, and int32 (n,) arcs from `shortest`.

    ``costs`` is the first word of the distances, int64 (n,).
    """

    words: Ints
    arcs: Short
    costs: Ints


class NoPathError(PlanError):
    """No path leads from one switch to another."""


class Routes:
    """Shortest paths between switches, computed on demand; a host's paths run through its access switch.

    Parameters
    ----------
    topology : Topology
        The network.
    graph : SwitchGraph
        Its switches.
    words : int64 (m, 3)
        Weight of every arc: cost, then tie-breakers. A negative cost closes the arc. Sums must be unique
        (``words[:, 2]`` ensures it); otherwise equal paths may meet and part again.
    twin : Routes or None
        Routes with all links reversed, whose results are reused; None: there are none.
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
        self._towards: dict[int, DistanceRow] = {}
        self._away: dict[int, DistanceRow] = {}
        self._latencies: dict[tuple[int, int], Ints] = {}
        self._places: tuple[Sequence[str], frozenset[str], Short] = ((), frozenset(), np.zeros(0, np.int32))

    def access(self, node: str) -> str:
        """The access switch of a host; for a switch, the switch itself."""
        try:
            return self.graph.access[node]
        except KeyError:
            return self.topology.node(node).name  # raises for an unknown node

    def host_cost(self, host: str, *, leaving: bool) -> int:
        """Cost of the link between a host and its switch, in the direction of a path."""
        return 0

    def distance(self, a: str, b: str) -> int:
        """Cost from a to b, including the hosts' links; `FAR` or more when there is no path."""
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
        """Names of the switches from a to b, both included; `NoPathError` when there is no path."""
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
        """Time in ps of a frame of ``length`` bytes from a to b through store-and-forward switches with idle queues."""
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
        """Times in ps of a frame from all switches to one, int64 (n,)."""
        key = (switch, length)
        if key not in self._latencies:
            times = self.frame_times(length) + self.graph.delay_ps
            self._latencies[key] = sized(along, len(self.graph.names))(
                self.towards(switch).arcs, self.graph.heads, times
            )
        return self._latencies[key]

    def frame_times(self, length: int) -> Ints:
        """Time in ps that a frame occupies every arc, int64 (m,)."""
        return self.graph.frame_times(length)

    def nearest(self, node: str, candidates: Sequence[str]) -> str:
        """The candidate switch with the shortest path from a node; ties as among paths, then by name."""
        return self._nearest(self.away, node, candidates)

    def nearest_to(self, node: str, candidates: Sequence[str]) -> str:
        """The candidate switch with the shortest path to a node; ties as among paths, then by name."""
        return self._nearest(self.towards, node, candidates)

    def _nearest(self, rows: Callable[[int], DistanceRow], node: str, candidates: Sequence[str]) -> str:
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

    def towards(self, switch: int) -> DistanceRow:
        """Paths to a switch; ``arcs`` are first arcs."""
        return self._towards.get(switch) or self._found(switch, inward=True)

    def away(self, switch: int) -> DistanceRow:
        """Paths from a switch; ``arcs`` are last arcs."""
        return self._away.get(switch) or self._found(switch, inward=False)

    def _found(self, switch: int, *, inward: bool) -> DistanceRow:
        graph = self.graph
        other = self._others(switch, inward=inward)
        if other is not None:
            # A single switch has no arcs to choose from.
            arcs = np.where(other.arcs >= 0, graph.reverse[other.arcs], other.arcs) if len(graph.heads) else other.arcs
            row = DistanceRow(other.words, arcs, other.costs)
        else:
            cost, words = (self.inward_costs, self.inward_words) if inward else (self.costs, self.words)
            find = sized(shortest, len(graph.names))
            words, arcs = find(graph.starts, graph.heads, graph.reverse, cost, words, switch, inward)
            row = DistanceRow(words, arcs, words[0])
            self._check(switch, row)
        (self._towards if inward else self._away)[switch] = row
        return row

    def _others(self, switch: int, *, inward: bool) -> DistanceRow | None:
        """The row of a switch that the twin has computed."""
        if self._twin is None:
            return None
        return (self._twin._away if inward else self._twin._towards).get(switch)

    def known(self, switch: int, *, inward: bool) -> Ints | None:
        """The costs of the paths to or from a switch, int64 (n,), if they have been computed."""
        row = (self._towards if inward else self._away).get(switch) or self._others(switch, inward=inward)
        return None if row is None else row.costs

    def _check(self, switch: int, row: DistanceRow) -> None:
        """A hook for subclasses, which may require that every switch is reached."""


def no_way(distance: int) -> bool:
    """Whether a distance means that there is no path."""
    return distance >= FAR


def path_latency_ps(topology: Topology, path: tuple[str, ...], length: int) -> int:
    """Serialization and propagation delay along a path of nodes, in ps."""
    links = [topology.link_between(a, b) for a, b in pairwise(path)]
    return sum(frame_time_ps(length, link.rate_bps) + link.delay_ps for link in links)


def hops(topology: Topology, path: tuple[str, ...]) -> list[tuple[str, int]]:
    """The directed links of a path, each as (node, port)."""
    return [(a, topology.port(a, b)) for a, b in pairwise(path)]


# Unique shortest paths, the same for all callers.
#
# Switches forward by destination alone. If every overlay edge of a plan takes *the* shortest path of its two ends, then
# both directions use the same links, every part of a path is the path of its own ends, and no switch ever has to
# forward one destination in two ways. To make shortest paths unique, each link gets a tiny extra weight: from its
# present load, then from its index in the topology, so that equal paths of one tree merge, then from its name.


Cost = Literal["hops", "delay"]
"""The cost of a path: the number of links (copies of a frame on links), or the propagation delay in ps."""

_LOAD_SHIFT: Final = 37
_LOAD_STEPS: Final = 512
"""number of load levels; an extra weight stays below 2**46, so sums over 65,536 links fit a word of 63 bits"""


class Paths(Routes):
    """Shortest paths that are the same in both directions.

    Among paths of equal ``cost`` the path with the smaller delay is taken, then with the smaller load, then with links
    that come first in the topology: equal paths merge. With ``spread`` a hash replaces the order of links, so pairs
    spread over equal paths.

    Parameters
    ----------
    topology : Topology
        The network.
    cost : 'hops' or 'delay'
        The cost of a path.
    load : mapping
        Load of directed links, bit/s by (node, port); the busier direction of a link counts.
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
        self.cost: Cost = cost
        graph = switch_graph(topology)
        main = np.ones(len(graph.heads), np.int64) if cost == "hops" else graph.delay_ps
        used = graph.by_arc(load or {})
        used = np.maximum(used, used[graph.reverse])
        super().__init__(topology, graph, unique_words(graph, main, used, spread=spread))

    def host_cost(self, host: str, *, leaving: bool) -> int:
        """Cost of a host's link."""
        return _weight(self.topology.link_at(host, 1), self.cost)

    def _check(self, switch: int, row: DistanceRow) -> None:
        if self.topology.partial:
            return  # a path to a part that is cut off raises when it is requested
        far = int(row.costs.argmax())
        if no_way(int(row.costs[far])):
            # Hosts have a single link and cannot join parts of a network.
            missing = next(name for name, cost in zip(self.graph.names, row.costs, strict=True) if no_way(cost))
            raise PlanError(f"no path from {self.graph.names[switch]} to {missing}")


def unique_words(graph: SwitchGraph, main: Ints, used_bps: Ints, *, spread: bool = False) -> Ints:
    """Weights with which shortest paths are unique: int64 (m, 3) of cost, delay, and load, place (or a hash), name.

    Parameters
    ----------
    graph : SwitchGraph
        The switches; m arcs.
    main : int64 (m,)
        Cost of every arc.
    used_bps : int64 (m,)
        Load of every arc in bit/s.
    spread : bool
        Whether to use a hash instead of the link's index.
    """
    words = np.empty((len(main), 3), np.int64)
    words[:, 0], words[:, 1], words[:, 2] = main, graph.delay_ps, graph.tie_breaks(spread=spread)
    if used_bps.any():
        words[:, 2] += np.minimum(_LOAD_STEPS - 1, used_bps * _LOAD_STEPS // graph.rate_bps) << _LOAD_SHIFT
    return words


def _weight(link: Link, cost: Cost) -> int:
    return 1 if cost == "hops" else link.delay_ps


# Base routing for frames that belong to no plan: shortest paths with fixed tie-breaking.


ONE_BY_ONE: Final = 512
"""number of nodes up to which switches have a route to each; in larger networks neighbouring addresses share routes"""
_BLOCKS: Final = 128
"""largest number of address blocks of a larger network; a block takes one path if possible"""


@dataclass(frozen=True, slots=True)
class Route:
    """The next hop of a switch for addresses that begin with the first ``length`` bits of ``value``; longest match.

    ``neighbour`` is None for unreachable addresses.
    """

    value: int
    length: int
    neighbour: str | None


class BaseRoutes:
    """The routes of every switch to all nodes, computed on demand.

    They follow shortest paths by number of links, then by delay. Among equal neighbours a hash of switch and
    destination chooses, so that destinations spread over parallel paths, in the same way on every machine. Nodes that
    are reached only over circuits of a cross-connect have no route.

    Up to `ONE_BY_ONE` nodes the destinations are single addresses. In larger networks they are blocks of addresses, and
    the routes of a switch are the fewest equivalent prefixes (Draves, King, Venkatachary and Zill, INFOCOM 1999):
    addresses without a node stay unreachable.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._graph = graph = switch_graph(topology)
        words = np.zeros((len(graph.heads), 3), np.int64)
        words[:, 0], words[:, 1] = 1, graph.delay_ps
        self._routes = Routes(topology, graph, words)
        self._access = np.array([graph.index[graph.access[host.name]] for host in topology.hosts], np.int64)
        nodes = len(topology.hosts) + len(topology.switches)
        self._shared = nodes > ONE_BY_ONE
        self._block = max(0, (nodes - 1) // _BLOCKS).bit_length()

    def of(self, switch: str) -> tuple[Route, ...]:
        """The routes of a switch."""
        towards = self._towards(switch)
        if not self._shared:
            return tuple(self._single(switch, *towards))
        neighbours, equal, reached = towards
        labels = np.vstack([equal, ~reached])  # the last row: unreachable
        names = (*neighbours, None)
        routes: list[Route] = []
        for base, table in ((HOST_BASE, labels[:, self._access]), (SWITCH_BASE, labels)):
            own = np.zeros((len(names), 1 << (table.shape[1]).bit_length()), np.bool_)
            own[-1] = True
            own[:, 1 : 1 + table.shape[1]] = table
            if base == HOST_BASE:
                for host in self._topology.neighbours(switch):
                    if self._topology.node(host).is_host:
                        own[:, 1 + self._topology.node(host).index] = [name == host for name in names]
            else:
                own[:, 1 + self._graph.index[switch]] = own[:, 0]
            routes += self._prefixes(switch, names, own, base)
        return tuple(routes)

    def _towards(self, switch: str) -> tuple[tuple[str, ...], Flags, Flags]:
        """Neighbours at ports 1, 2, ...; flags of switches to which each is a next hop; flags of reachable switches."""
        graph, at = self._graph, self._graph.index[switch]
        here = self._routes.towards(at).words
        neighbours = self._topology.neighbours(switch)
        equal = np.zeros((len(neighbours), len(graph.names)), np.bool_)
        reached = here[0] < FAR
        for arc in range(graph.starts[at], graph.starts[at + 1]):
            there = self._routes.towards(int(graph.heads[arc])).words
            place = neighbours.index(graph.names[graph.heads[arc]])
            equal[place] = (there[0] + 1 == here[0]) & (there[1] + graph.delay_ps[arc] == here[1]) & reached
        return neighbours, equal, reached

    def _single(self, switch: str, neighbours: tuple[str, ...], equal: Flags, reached: Flags) -> Iterator[Route]:
        """One route for each address."""
        for place, target in enumerate(self._topology.switches):
            hosts = [
                node for name in self._topology.neighbours(target.name) if (node := self._topology.node(name)).is_host
            ]
            if target.name == switch:
                yield from (Route(host.ip, 32, host.name) for host in hosts)
            elif reached[place]:
                ways = [neighbours[way] for way in np.flatnonzero(equal[:, place])]
                for node in (target, *hosts):
                    yield Route(node.ip, 32, _chosen(switch, ways, node.name))

    def _prefixes(self, switch: str, names: tuple[str | None, ...], own: Flags, base: int) -> Iterator[Route]:
        """The fewest routes for ``own``, bool (names, 2^k): the ``names`` allowed for each address from ``base`` on."""
        bits = own.shape[1].bit_length() - 1

        def choose(level: int, place: int, ways: Flags) -> int:
            prefix = f"{base + (place << level):#x}/{32 - level}"
            named = {names[way]: int(way) for way in np.flatnonzero(ways)}
            return named[_chosen(switch, [name for name in named if name is not None], prefix)]

        levels, together = [own], np.ones(own.shape[1], np.bool_)
        for level in range(bits + 1):
            if level:
                left, right = levels[-1][:, ::2], levels[-1][:, 1::2]
                both = left & right
                common = both.any(axis=0)
                together = together[::2] & together[1::2] & common
                levels.append(np.where(common, both, left | right))
            if level == self._block:  # a block takes one path if possible
                for place in np.flatnonzero(together & (levels[-1].sum(axis=0) > 1)).tolist():
                    way = choose(level, place, levels[-1][:, place])
                    levels[-1][:, place] = False
                    levels[-1][way, place] = True
        taken = np.array([len(names) - 1])
        for level in range(bits, -1, -1):
            right = levels[level]
            places = np.arange(right.shape[1])
            for place in places[~right[taken, places]].tolist():
                ways = right[:, place]
                taken[place] = int(ways.argmax()) if ways.sum() == 1 else choose(level, place, ways)
                yield Route(base + (place << level), 32 - level, names[taken[place]])
            taken = np.repeat(taken, 2)


def _chosen(switch: str, ways: Iterable[str], destination: str) -> str:
    """One of several equally near neighbours, chosen by a hash."""
    return min(ways, key=lambda other: (crc32(f"{switch}>{other}>{destination}".encode()), other))
