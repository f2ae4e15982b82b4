"""Wavelength-division multiplexing: cities with a switch, transponders and a ROADM, joined by fibres.

A node is a P4 switch with X transponders and a colourless, directionless ROADM (reconfigurable optical add/drop
multiplexer). A lightpath joins transponders of two nodes: it uses the same wavelength on every fibre of its path, in
both directions, and is one link to the switches. The packet network has one cross-connect that stands for all ROADMs,
with a port for each transponder. A lightpath's planner chooses its fibres and its wavelength.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from p4reduce.topologies.datacenter import PS_PER_KM, Capable, TopologyBuilder, wan
from p4reduce.topologies.model import Link, Topology, TopologyError
from p4reduce.topologies.optical import LitTopology, view
from p4switch.base.values import format_delay, parse_rate

ROADMS: Final = "roadms"
"""name of the cross-connect that stands for all ROADMs"""
SURFACING_PS: Final = 2_000_000
"""delay of both transponders of a lightpath: 2 us"""
MOST_WAVELENGTHS: Final = 320
MOST_TRANSPONDERS: Final = 400


@dataclass(frozen=True)
class Wdm:
    """A network of fibres with the equipment of its nodes and fibres.

    Attributes
    ----------
    base : Topology
        Hosts, switches, and a link for each fibre pair, with its delay.
    wavelengths : int
        W: wavelengths of each fibre pair, in both directions.
    rate_bps : int
        C: bit/s of a lightpath in each direction.
    slots : int
        T: electrical slots of a lightpath.
    transponders : int
        X: transponders of each node; 0: as many as the node's fibres can use.
    """

    base: Topology
    wavelengths: int = 16
    rate_bps: int = 100_000_000_000
    slots: int = 10
    transponders: int = 16

    def __post_init__(self) -> None:
        if self.base.crossconnects:
            raise TopologyError(f"graph: {self.base.name} has a cross-connect; give a network of switches")
        for field, value, least, most in (
            ("wavelengths", self.wavelengths, 1, MOST_WAVELENGTHS),
            ("slots", self.slots, 1, 64),
            ("transponders", self.transponders, 0, MOST_TRANSPONDERS),
        ):
            if not least <= value <= most:
                raise TopologyError(f"{field}: {value} is not within {least}..{most}")

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes, which are the switches of the base."""
        return tuple(switch.name for switch in self.base.switches)

    @cached_property
    def place(self) -> dict[str, int]:
        """Index of each node in :attr:`nodes`, by name."""
        return {name: number for number, name in enumerate(self.nodes)}

    @cached_property
    def fibres(self) -> tuple[Link, ...]:
        """Fibre pairs: the links of the base between switches."""
        hosts = {host.name for host in self.base.hosts}
        return tuple(link for link in self.base.links if not hosts & {link.a, link.b})

    @cached_property
    def home(self) -> dict[str, str]:
        """The node (switch) of every host, by name."""
        return {host.name: self.base.neighbour(host.name, 1) for host in self.base.hosts}

    def km(self, path: Sequence[str]) -> float:
        """Return the length of a path of nodes, in km."""
        return self.delay_ps(path) / PS_PER_KM

    def delay_ps(self, path: Sequence[str]) -> int:
        """Return the propagation delay of a path of nodes in ps, without the transponders."""
        return sum(self.base.link_between(a, b).delay_ps for a, b in pairwise(path))

    def at_most(self, node: str) -> int:
        """Return the number of transponders of a node; automatic values are at most :data:`MOST_TRANSPONDERS`."""
        degree = sum(node in (fibre.a, fibre.b) for fibre in self.fibres)
        return self.transponders or min(self.wavelengths * degree, MOST_TRANSPONDERS)

    def physical(self) -> Topology:
        """Return hosts, switches, and the cross-connect for the ROADMs, with a port for each transponder."""
        builder = TopologyBuilder(self.base.name)
        builder.crossconnect(ROADMS)
        for node in self.base.nodes:
            if node.is_host:
                builder.host(node.name, server=node.role == "server", position=node.position)
            else:
                builder.switch(node.name, capable=node.capable, position=node.position)
        for link in self.base.links:
            if link not in self.fibres:
                builder.link(link.a, link.b, link.rate_bps, format_delay(link.delay_ps))
        for name in self.nodes:
            for _ in range(self.at_most(name)):
                builder.link(name, ROADMS, self.rate_bps, format_delay(SURFACING_PS // 2))
        return builder.build()

    def circuits(
        self, physical: Topology, paths: Iterable[Sequence[str]], kept: Mapping[int, Link] = MappingProxyType({})
    ) -> tuple[Link, ...]:
        """Return a link at ports of ``physical`` per lightpath, with the delay of its path and its transponders.

        ``kept``: the links of lightpaths that do not change, by their number in ``paths``.

        Raises
        ------
        TopologyError
            A node has too few transponders.
        """
        free = {name: [link.port_of(name) for link in physical.links if {name, ROADMS} == {link.a, link.b}][::-1]
                for name in self.nodes}  # fmt: skip
        for link in kept.values():
            free[link.a].remove(link.port_a)
            free[link.b].remove(link.port_b)
        paths = tuple(paths)
        need = Counter(end for number, path in enumerate(paths) if number not in kept for end in (path[0], path[-1]))
        for name, count in need.items():
            if count > len(free[name]):
                raise TopologyError(f"{name}: {count} new lightpaths, but {len(free[name])} free transponders")
        links = []
        for number, path in enumerate(paths):
            if number in kept:
                links.append(kept[number])
                continue
            a, b = path[0], path[-1]
            delay_ps = self.delay_ps(path) + SURFACING_PS
            links.append(Link(a, free[a].pop(), b, free[b].pop(), self.rate_bps, delay_ps))
        return tuple(links)

    def lit(self, physical: Topology, circuits: Iterable[Link]) -> LitTopology:
        """Return the network of hosts and switches with these lightpaths, at most one between any two switches."""
        return view(physical, circuits)


def wdm(
    graph: str,
    *,
    wavelengths: int = 16,
    rate: int | str = "100G",
    slots: int = 10,
    transponders: int = 16,
    hosts: int = 1,
    access_rate: int | str = "40G",
    access_delay: int | str = "1us",
    servers: int = 0,
    capable: Capable = True,
    name: str | None = None,
) -> Wdm:
    """Return the fibres of a wide-area graph; the first parameters are those of :class:`Wdm`, the others of ``wan``.

    The length of a fibre comes from the graph; light takes 4.9 us per kilometre.
    """
    base = wan(graph, hosts=hosts, rate=rate, access_rate=access_rate, access_delay=access_delay, servers=servers,
               capable=capable, name=name)  # fmt: skip
    return Wdm(base, wavelengths, parse_rate(rate), slots, transponders)
