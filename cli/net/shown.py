"""A standing network as those see it who look on (``p4reduce watch``, ``net up --live``)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from p4reduce.control_plane.plans import Plan
from p4reduce.fabric.counters import LinkCounters
from p4reduce.fabric.real.host import SwitchHost
from p4reduce.fabric.real.net import RealNetwork
from p4reduce.fabric.real.relay import Relays
from p4reduce.runs.real.link_sights import InterfaceLinks, LinkSights, with_relays
from p4reduce.runs.real.showing import Showing
from p4reduce.runs.real.sights import Sights
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop

NOTES: Final = (
    "Links by the kernel's counters of the switches' interfaces; queues are those that shape links to their rates. "
    "Queues of hosts, and what switches' queues dropped, are counted by nobody.",
    "Trees, slots and windows belong to controllers and programs of yours, which tell nobody of them here: "
    "'p4reduce launch --time real --live' shows those of a run.",
)


@contextmanager
def shown(
    path: Path, topology: Topology, network: RealNetwork, relays: Relays | None, host: SwitchHost | None
) -> Iterator[None]:
    """While this is entered, the network answers those who look, at a socket. ``host``: of embedded switches."""
    kernel = InterfaceLinks(topology, network.switch_interfaces)

    def links() -> LinkSights:
        return kernel() if relays is None else with_relays(kernel(), _relayed(network, relays))

    def plans() -> Sequence[Plan]:
        return ()

    sights = Sights(
        topology=topology,
        target="bmv2" if host is None else "embedded",
        links=links,
        plans=plans,
        host=host,
        interfaces=network.switch_interfaces,
        notes=NOTES,
    )
    try:
        with Showing(path, sights):
            yield
    finally:
        kernel.close()


def _relayed(network: RealNetwork, relays: Relays) -> Mapping[Hop, LinkCounters]:
    """What happened on each direction of the links that relays carry."""
    found = {}
    for number, one in enumerate(network.relays):
        there, back = relays.directions(number)
        found[one.link.a, one.link.port_a] = there.out.sent
        found[one.link.b, one.link.port_b] = back.out.sent
    return found
