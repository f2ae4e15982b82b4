"""The network as an immutable graph: nodes with addresses; links with ports, rates and delays."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from p4reduce.base.errors import BadInput

if TYPE_CHECKING:
    import networkx as nx

    Graph = nx.Graph[str]


Kind = Literal["host", "switch", "crossconnect"]
Role = Literal["worker", "server", "switch", "crossconnect"]

HOST_BASE: Final = 0x0A000000
"""10.0.0.0: the host with index i (from 0) has the address 10.0.0.0 + 1 + i"""
SWITCH_BASE: Final = 0x0A800000
"""10.128.0.0: the switch with index i (from 0) has the address 10.128.0.0 + 1 + i"""
MAX_NODES: Final = 131_072
"""largest number of nodes of one kind: twice a fat-tree of k = 64; the addresses would allow 2**23 - 2"""
MAX_PORT: Final = 509
"""largest port number: 510 is the controller's port, 511 is BMv2's drop port"""


Hop = tuple[str, int]
"""a directed link: the (node, port) that it leaves"""


class TopologyError(BadInput, ValueError):
    """A topology that cannot be built; the message names the file or the field, and the fix."""


@dataclass(frozen=True, slots=True)
class Node:
    """A host, a switch, or an optical cross-connect.

    ``index`` counts from 0 within its kind. ``capable`` switches can aggregate; hosts never can. ``role`` is
    'worker' or 'server' (a parameter server's host) for hosts, else the kind. ``position`` is a hint for drawings: any
    unit, y upwards. A cross-connect is passive: it joins pairs of its ports, and has no address, queue or program.
    """

    name: str
    kind: Kind
    index: int
    capable: bool = False
    role: Role = "worker"
    position: tuple[float, float] | None = None

    @property
    def ip(self) -> int:
        """IPv4 address as a number; `TopologyError` for a cross-connect."""
        if self.kind == "crossconnect":
            raise TopologyError(f"{self.name!r} is a cross-connect: it has no address")
        return (HOST_BASE if self.kind == "host" else SWITCH_BASE) + 1 + self.index

    @property
    def ip_text(self) -> str:
        """IPv4 address in dotted form."""
        return ".".join(str(byte) for byte in self.ip.to_bytes(4, "big"))

    @property
    def mac(self) -> int:
        """MAC address as a number: 02:00 and the four bytes of the IPv4 address."""
        return 0x0200_0000_0000 | self.ip

    @property
    def mac_text(self) -> str:
        """MAC address with colons."""
        return self.mac.to_bytes(6, "big").hex(":")

    @property
    def is_host(self) -> bool:
        """Whether the node is a host (worker or server)."""
        return self.kind == "host"

    @property
    def is_switch(self) -> bool:
        """Whether the node is a switch."""
        return self.kind == "switch"

    @property
    def is_crossconnect(self) -> bool:
        """Whether the node is an optical cross-connect."""
        return self.kind == "crossconnect"


@dataclass(frozen=True, slots=True)
class Link:
    """A full-duplex link: the same rate (bit/s) and propagation delay (ps) in both directions."""

    a: str
    port_a: int
    b: str
    port_b: int
    rate_bps: int
    delay_ps: int

    def other(self, node: str) -> str:
        """Return the node at the other end."""
        return self.b if node == self.a else self.a

    def port_of(self, node: str) -> int:
        """Return the port of this link at one of its two ends."""
        return self.port_a if node == self.a else self.port_b


@dataclass(frozen=True)
class Topology:
    """Nodes and links, checked on construction.

    Ports of a node count from 1 in the order in which ``links`` lists its links;
    :class:`~p4reduce.topologies.datacenter.TopologyBuilder` assigns them in this way.

    Raises
    ------
    TopologyError
        Names repeat, a link is impossible, a host does not have exactly one link, or the graph is not connected.
    """

    name: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]

    partial: ClassVar[bool] = False
    """whether ports may stay unused and parts may be disconnected (:class:`~p4reduce.topologies.optical.View`)"""
    shared_ports: ClassVar[bool] = False
    """whether links may share a port of a switch (:class:`~p4reduce.topologies.optical.Overlay`)"""

    def __post_init__(self) -> None:

        check(self)

    @cached_property
    def by_name(self) -> Mapping[str, Node]:
        """Nodes by name."""
        return MappingProxyType({node.name: node for node in self.nodes})

    @cached_property
    def by_ip(self) -> Mapping[int, Node]:
        """Nodes by IPv4 address."""
        return MappingProxyType({node.ip: node for node in self.nodes if not node.is_crossconnect})

    @cached_property
    def hosts(self) -> tuple[Node, ...]:
        """All hosts, workers and servers, by index."""
        return tuple(node for node in self.nodes if node.is_host)

    @cached_property
    def workers(self) -> tuple[Node, ...]:
        """Hosts that can be workers of a job, by index."""
        return tuple(node for node in self.hosts if node.role == "worker")

    @cached_property
    def servers(self) -> tuple[Node, ...]:
        """Hosts reserved for parameter servers, by index."""
        return tuple(node for node in self.hosts if node.role == "server")

    @cached_property
    def switches(self) -> tuple[Node, ...]:
        """All switches, by index."""
        return tuple(node for node in self.nodes if node.is_switch)

    @cached_property
    def crossconnects(self) -> tuple[Node, ...]:
        """All optical cross-connects, by index."""
        return tuple(node for node in self.nodes if node.is_crossconnect)

    @cached_property
    def _port_table(self) -> dict[tuple[str, int], Link]:
        return {end: link for link in self.links for end in ((link.a, link.port_a), (link.b, link.port_b))}

    @cached_property
    def _link_table(self) -> dict[tuple[str, str], Link]:
        return {pair: link for link in self.links for pair in ((link.a, link.b), (link.b, link.a))}

    @cached_property
    def _neighbours(self) -> dict[str, tuple[str, ...]]:
        neighbours: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for link in self.links:
            neighbours[link.a].append(link.b)
            neighbours[link.b].append(link.a)
        return {name: tuple(names) for name, names in neighbours.items()}

    def node(self, name: str) -> Node:
        """Return the node with this name; `TopologyError` if there is none."""
        try:
            return self.by_name[name]
        except KeyError:
            raise TopologyError(f"topology {self.name!r} has no node {name!r}") from None

    def neighbours(self, name: str) -> tuple[str, ...]:
        """Return the names of the nodes at ports 1, 2, ... of a node; in a partial topology only at ports in use."""
        self.node(name)
        return self._neighbours[name]

    def port(self, node: str, neighbour: str) -> int:
        """Return the port of ``node`` that leads to its direct ``neighbour``."""
        return self.link_between(node, neighbour).port_of(node)

    def neighbour(self, node: str, port: int) -> str:
        """Return the node behind a port."""
        return self.link_at(node, port).other(node)

    def link_at(self, node: str, port: int) -> Link:
        """Return the link at a port; `TopologyError` if the port has none."""
        try:
            return self._port_table[(node, port)]
        except KeyError:
            count = len(self.neighbours(node))
            known = "not all are in use" if self.partial else f"its ports are 1..{count}"
            raise TopologyError(f"node {node!r} has no port {port}: {known}") from None

    def link_between(self, a: str, b: str) -> Link:
        """Return the link between two direct neighbours, in either order; `TopologyError` if there is none."""
        try:
            return self._link_table[(a, b)]
        except KeyError:
            self.node(a), self.node(b)
            raise TopologyError(f"topology {self.name!r} has no link {a} - {b}") from None

    def graph(self) -> "Graph":
        """Return the topology as a frozen networkx graph (``.copy()`` gives one that can be changed).

        Nodes carry ``kind``, ``index``, ``capable``, ``role``, ``position``; edges ``rate_bps`` and ``delay_ps``.
        """
        return self._graph

    @cached_property
    def _graph(self) -> "Graph":
        import networkx as nx  # noqa: PLC0415  (slow, and most runs need none)

        graph: Graph = nx.Graph(name=self.name)
        for node in self.nodes:
            graph.add_node(
                node.name,
                kind=node.kind,
                index=node.index,
                capable=node.capable,
                role=node.role,
                position=node.position,
            )
        for link in self.links:
            graph.add_edge(link.a, link.b, rate_bps=link.rate_bps, delay_ps=link.delay_ps)
        frozen: Graph = nx.freeze(graph)
        return frozen


# Checks of every topology.


def check(topology: Topology) -> None:
    """Raise :class:`TopologyError` at the first fault; the message names the fault and the fix."""
    _check_nodes(topology)
    _check_links(topology)
    _check_ports(topology)
    _check_hosts(topology)
    if not topology.partial:
        _check_connected(topology)


def _check_nodes(topology: Topology) -> None:
    for name, times in Counter(node.name for node in topology.nodes).items():
        if times > 1:
            raise TopologyError(f"nodes: the name {name!r} is given {times} times; node names must be unique")
        if not name or any(character.isspace() or character in ",=+" for character in name):
            raise TopologyError(f"nodes: {name!r} is no name; use no spaces, commas, '+' or '='")
    for kind in ("host", "switch", "crossconnect"):
        nodes = [node for node in topology.nodes if node.kind == kind]
        if not nodes and kind != "crossconnect":
            raise TopologyError(f"nodes: there is no {kind}; at least one is needed")
        if len(nodes) > MAX_NODES:
            raise TopologyError(f"nodes: {len(nodes)} nodes of kind {kind}; addresses allow {MAX_NODES}")
        if [node.index for node in nodes] != list(range(len(nodes))):
            raise TopologyError(f"nodes: indices of kind {kind} must count 0, 1, 2, ... in the order of the nodes")
    for node in topology.nodes:
        if node.capable and not node.is_switch:
            raise TopologyError(f"nodes: {node.kind} {node.name!r} cannot aggregate; set capable only at switches")
        if node.role not in (("worker", "server") if node.is_host else (node.kind,)):
            raise TopologyError(f"nodes: {node.kind} {node.name!r} cannot have the role {node.role!r}")


def _check_links(topology: Topology) -> None:
    names = {node.name for node in topology.nodes}
    passive = {node.name for node in topology.crossconnects}
    seen: dict[frozenset[str], int] = {}
    for number, link in enumerate(topology.links):
        field = f"links[{number}] ({link.a} - {link.b})"
        for end in (link.a, link.b):
            if end not in names:
                raise TopologyError(f"{field}: there is no node {end!r}; add it to nodes or correct the name")
        if link.a == link.b:
            raise TopologyError(f"{field}: a node cannot be linked to itself; remove the link")
        pair = frozenset((link.a, link.b))
        if pair <= passive:
            raise TopologyError(f"{field}: joins two cross-connects; link each of them to switches")
        if pair in seen and not pair & passive:
            raise TopologyError(f"{field}: repeats links[{seen[pair]}]; give one link the sum of the rates instead")
        seen[pair] = number
        if link.rate_bps <= 0:
            raise TopologyError(f"{field}: rate {link.rate_bps} bit/s must be positive")
        if link.delay_ps < 0:
            raise TopologyError(f"{field}: delay {link.delay_ps} ps must not be negative")


def _check_ports(topology: Topology) -> None:
    used: Counter[str] = Counter()
    taken: set[tuple[str, int]] = set()
    for number, link in enumerate(topology.links):
        for end in (link.a, link.b):
            used[end] += 1
            port = link.port_of(end)
            if topology.partial:
                if not 1 <= port <= MAX_PORT or ((end, port) in taken and not topology.shared_ports):
                    raise TopologyError(f"links[{number}]: port {port} of {end!r} is taken, or not in 1..{MAX_PORT}")
                taken.add((end, port))
            elif port != used[end]:
                raise TopologyError(
                    f"links[{number}]: port {link.port_of(end)} of {end!r} must be {used[end]}; "
                    "ports count from 1 in the order of the links"
                )
    passive = {node.name for node in topology.crossconnects}
    for name, ports in used.items():
        if ports > MAX_PORT and name not in passive:
            raise TopologyError(f"nodes: {name!r} has {ports} links; a switch has at most {MAX_PORT} ports")


def _check_hosts(topology: Topology) -> None:
    links: dict[str, list[Link]] = {host.name: [] for host in topology.nodes if host.is_host}
    for link in topology.links:
        for end in (link.a, link.b):
            if end in links:
                links[end].append(link)
    for name, own in links.items():
        if len(own) != 1:
            raise TopologyError(f"nodes: host {name!r} has {len(own)} links; a host has exactly one, to a switch")
        other = topology.node(own[0].other(name))
        if not other.is_switch:
            raise TopologyError(f"nodes: host {name!r} is linked to {other.kind} {other.name!r}; link it to a switch")


def _check_connected(topology: Topology) -> None:
    reached = {topology.nodes[0].name}
    edge = list(reached)
    while edge:
        edge = [name for name in {name for at in edge for name in topology.neighbours(at)} if name not in reached]
        reached.update(edge)
    cut_off = [node.name for node in topology.nodes if node.name not in reached]
    if cut_off:
        shown = ", ".join(cut_off[:5]) + (", ..." if len(cut_off) > 5 else "")
        raise TopologyError(
            f"links: {shown} cannot be reached from {topology.nodes[0].name!r}; the network must be connected"
        )
