"""The physical network of a scenario: switches, hosts, links, addresses and next hops."""

from dataclasses import dataclass
from heapq import heappop, heappush

from tests.support.golden.choices import Choices
from tests.support.golden.tables import EdgeEntry, RouteEntry
from tests.support.golden.work import noise

HOST_NET = 0x0A000000
SWITCH_NET = 0x0A800000
MAC_PREFIX = 0x0200 << 32


@dataclass(frozen=True, slots=True, order=True)
class Node:
    """A host or a switch. Hosts and switches are numbered separately, from 0."""

    is_switch: bool
    index: int

    @property
    def ip(self) -> int:
        """IPv4 address, for hosts from 10.0.0.1 on, for switches from 10.128.0.1 on."""
        return (SWITCH_NET if self.is_switch else HOST_NET) + 1 + self.index

    @property
    def mac(self) -> int:
        """MAC address: 02:00 and the four bytes of the IPv4 address."""
        return MAC_PREFIX | self.ip

    def __str__(self) -> str:
        return f"{'sw' if self.is_switch else 'h'}{self.index}"


def switch(index: int) -> Node:
    """Return switch ``index``."""
    return Node(True, index)


def host(index: int) -> Node:
    """Return host ``index``."""
    return Node(False, index)


class Graph:
    """A connected graph. Ports of a node count from 1 in the order of its links.

    There are two paths between two nodes. The *usual* one has the fewest links, and may differ in the two directions.
    The *pinned* one minimizes the sum of random costs of links, so it is unique, and the same in both directions.
    """

    def __init__(self, links: list[tuple[Node, Node]]) -> None:
        self.ports: dict[Node, dict[Node, int]] = {}
        self.neighbours: dict[tuple[Node, int], Node] = {}
        for a, b in links:
            for here, there in ((a, b), (b, a)):
                mine = self.ports.setdefault(here, {})
                mine[there] = len(mine) + 1
                self.neighbours[here, mine[there]] = there
        self.switches = sorted(n for n in self.ports if n.is_switch)
        self.hosts = sorted(n for n in self.ports if not n.is_switch)
        self._costs = {frozenset(link): 2**30 + abs(cost) for link, cost in zip(links, _costs(links), strict=True)}
        self._next: dict[tuple[Node, bool], dict[Node, Node]] = {}

    def next_hop(self, at: Node, to: Node, *, pinned: bool = False) -> Node:
        """Return the neighbour of ``at`` on the path to ``to``."""
        if (to, pinned) not in self._next:
            self._next[to, pinned] = self._towards(to, pinned)
        return self._next[to, pinned][at]

    def path(self, source: Node, to: Node, *, pinned: bool = False) -> list[Node]:
        """Return the nodes on the path, both ends included."""
        nodes = [source]
        while nodes[-1] != to:
            nodes.append(self.next_hop(nodes[-1], to, pinned=pinned))
        return nodes

    def routes(self, at: Node) -> list[RouteEntry]:
        """Return the entries with which switch ``at`` reaches every other node by the usual path."""
        entries = []
        for to in self.switches + self.hosts:
            if to != at:
                via = self.next_hop(at, to)
                entries.append(RouteEntry(to.ip, self.ports[at][via], via.mac))
        return entries

    def edges(self, at: Node) -> list[EdgeEntry]:
        """Return an entry for each port of switch ``at`` that leads to a host."""
        return [EdgeEntry(port, there.ip) for there, port in self.ports[at].items() if not there.is_switch]

    def _towards(self, to: Node, pinned: bool) -> dict[Node, Node]:
        """Return the next hop of every node (Dijkstra's algorithm). No path leads through hosts: they have one link."""
        toward: dict[Node, Node] = {}
        queue = [(0, 0, to, to)]
        while queue:
            cost, _, at, then = heappop(queue)
            if at not in toward:
                toward[at] = then
                for there in self.ports[at]:
                    more = self._costs[frozenset((at, there))] if pinned else 1
                    heappush(queue, (cost + more, len(toward), there, at))
        return toward


def _costs(links: list[tuple[Node, Node]]) -> tuple[int, ...]:
    return noise(len(links), "cost of links", 0, 0, 0)


def graph_of_tree(choices: Choices, edges: list[tuple[Node, Node]], switches: int, hosts: int) -> Graph:
    """Return a graph with a link for each edge of a tree. Other nodes are linked to random switches."""
    return _with_rest(choices, list(edges), switches, hosts)


def any_graph(choices: Choices, switches: int, hosts: int) -> Graph:
    """Return a random connected graph of switches, often with cycles, and hosts at random switches."""
    links = [(switch(i), switch(choices.integer(0, i - 1))) for i in range(1, switches)]
    for _ in range(choices.integer(0, switches // 2)):
        a, b = choices.integer(0, switches - 1), choices.integer(0, switches - 1)
        if a != b and not {(switch(a), switch(b)), (switch(b), switch(a))} & set(links):
            links.append((switch(a), switch(b)))
    return _with_rest(choices, links, switches, hosts)


def _with_rest(choices: Choices, links: list[tuple[Node, Node]], switches: int, hosts: int) -> Graph:
    linked = {node for link in links for node in link} or {switch(0)}
    placed = sorted(node for node in linked if node.is_switch)
    for node in [switch(i) for i in range(switches)] + [host(i) for i in range(hosts)]:
        if node not in linked:
            links.append((node, choices.pick(placed)))
            if node.is_switch:
                placed.append(node)
    return Graph(links)
