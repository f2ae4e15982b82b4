"""What is left of a network where links and switches are down."""

from collections.abc import Callable, Collection, Iterable, Mapping

from p4reduce.topologies.model import Link, Topology
from p4reduce.topologies.optical import View

Ends = frozenset[str]
"""the two nodes of a link"""


def is_down(links: Collection[Ends], switches: Collection[str]) -> Callable[[Link], bool]:
    """Whether a link carries nothing any more: it is one of ``links``, or one of its ends is one of ``switches``."""
    gone = {*switches}
    return lambda link: frozenset((link.a, link.b)) in links or not gone.isdisjoint((link.a, link.b))


def without(topology: Topology, links: Collection[Ends] = (), switches: Collection[str] = ()) -> Topology:
    """The network without links between switches that are down; nodes, ports and hosts' links stay what they are.

    A host has one link, up or down: :func:`unreachable` says which hosts can do nothing.
    """
    if not links and not switches:
        return topology
    down = is_down(links, switches)
    hosts = {host.name for host in topology.hosts}
    left = tuple(link for link in topology.links if not down(link) or not hosts.isdisjoint((link.a, link.b)))
    return View(topology.name, topology.nodes, left)


def unreachable(
    topology: Topology, members: Iterable[str], links: Collection[Ends] = (), switches: Collection[str] = ()
) -> frozenset[str]:
    """Members that cannot go on with the others where the network falls apart.

    The largest part goes on; of equal ones that of the member that is listed first.
    """
    names = list(members)
    if not names or (not links and not switches):
        return frozenset()
    part = _parts(topology, is_down(links, switches))
    sizes: dict[str, int] = {}
    for name in names:
        sizes[part[name]] = sizes.get(part[name], 0) + 1
    best = max(sizes, key=lambda one: sizes[one])  # the first of equal ones
    return frozenset(name for name in names if part[name] != best)


def _parts(topology: Topology, down: Callable[[Link], bool]) -> Mapping[str, str]:
    """Each node with the first node of its part of the network."""
    beside: dict[str, list[str]] = {node.name: [] for node in topology.nodes}
    for link in topology.links:
        if not down(link):
            beside[link.a].append(link.b)
            beside[link.b].append(link.a)
    found: dict[str, str] = {}
    for first in beside:
        if first in found:
            continue
        found[first], open_ = first, [first]
        while open_:
            for other in beside[open_.pop()]:
                if other not in found:
                    found[other] = first
                    open_.append(other)
    return found
