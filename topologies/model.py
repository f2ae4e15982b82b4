"""The network as a graph: nodes with addresses, links with ports, rates and delays. Immutable."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, Literal

if TYPE_CHECKING:
    import networkx as nx

    Graph = nx.Graph[str]

Kind = Literal["host", "switch", "crossconnect"]
Role = Literal["worker", "server", "switch", "crossconnect"]

HOST_BASE: Final = 0x0A000000
"""10.0.0.0: host number i (from 0) has this address plus 1 + i."""
SWITCH_BASE: Final = 0x0A800000
"""10.128.0.0: switch number i (from 0) has this address plus 1 + i."""
MAX_NODES: Final = 131_072
"""of each kind: twice a fat-tree of k = 64; the addresses would allow 2**23 - 2"""
MAX_PORT: Final = 509
"""510 is the controller's port, 511 is BMv2's drop port"""


Hop = tuple[str, int]
"""A directed link: the (node, port) that it leaves."""


class TopologyError(ValueError):
    """A topology that cannot be built; the text names the file or the field, and the fix."""


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
        """Whether this is a host (worker or server)."""
        return self.kind == "host"

    @property
    def is_switch(self) -> bool:
        """Whether this is a switch."""
        return self.kind == "switch"

    @property
    def is_crossconnect(self) -> bool:
        """Whether this is an optical cross-connect."""
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
        """The node at the other end."""
        return self.b if node == self.a else self.a

    def port_of(self, node: str) -> int:
        """The port that this link has at one of its two ends."""
        return self.port_a if node == self.a else self.port_b


@dataclass(frozen=True)
class Topology:
    """Nodes and links, checked when made.

    Ports of a node count from 1 in the order in which ``links`` lists its links, so they follow from the order
    alone; :class:`~p4reduce.topologies.builder.TopologyBuilder` gives them out.

    Raises
    ------
    TopologyError
        When names repeat, a link is impossible, a host has not exactly one link, or the graph is not connected.
    """

    name: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]

    partial: ClassVar[bool] = False
    """whether ports may be left out, and parts cut off (:class:`~p4reduce.topologies.optical.View`)"""
    shared_ports: ClassVar[bool] = False
    """whether links may share a port of a switch (:class:`~p4reduce.topologies.optical.Overlay`)"""

    def __post_init__(self) -> None:
        from p4reduce.topologies.validate import check  # noqa: PLC0415  (check needs the classes above)

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
        """Hosts that may work in a job, by index."""
        return tuple(node for node in self.hosts if node.role == "worker")

    @cached_property
    def servers(self) -> tuple[Node, ...]:
        """Hosts kept for parameter servers, by index."""
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
        found: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for link in self.links:
            found[link.a].append(link.b)
            found[link.b].append(link.a)
        return {name: tuple(names) for name, names in found.items()}

    def node(self, name: str) -> Node:
        """The node of that name; `TopologyError` when there is none."""
        try:
            return self.by_name[name]
        except KeyError:
            raise TopologyError(f"topology {self.name!r} has no node {name!r}") from None

    def neighbours(self, name: str) -> tuple[str, ...]:
        """Names of the nodes at ports 1, 2, ... of a node, in a partial topology at those that are in use."""
        self.node(name)
        return self._neighbours[name]

    def port(self, node: str, neighbour: str) -> int:
        """The port of ``node`` that leads to its direct ``neighbour``."""
        return self.link_between(node, neighbour).port_of(node)

    def neighbour(self, node: str, port: int) -> str:
        """The node behind a port."""
        return self.link_at(node, port).other(node)

    def link_at(self, node: str, port: int) -> Link:
        """The link at a port; `TopologyError` when the port has none."""
        try:
            return self._port_table[(node, port)]
        except KeyError:
            count = len(self.neighbours(node))
            known = "not all are in use" if self.partial else f"its ports are 1..{count}"
            raise TopologyError(f"node {node!r} has no port {port}: {known}") from None

    def link_between(self, a: str, b: str) -> Link:
        """The link between two direct neighbours, in either order; `TopologyError` when there is none."""
        try:
            return self._link_table[(a, b)]
        except KeyError:
            self.node(a), self.node(b)
            raise TopologyError(f"topology {self.name!r} has no link {a} - {b}") from None

    def graph(self) -> "Graph":
        """The same as a networkx graph, frozen (``.copy()`` it to change it).

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
