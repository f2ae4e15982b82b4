"""A run in real time as those see it who look on: what is asked of which part."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from p4reduce.control_plane.plans import Plan
from p4reduce.runs.real.carry import RealCluster
from p4reduce.runs.real.link_sights import InterfaceLinks, LinkSights, of_ports, with_relays
from p4reduce.runs.real.showing import SOCKET, Showing
from p4reduce.runs.real.sights import Sights
from p4reduce.runs.real.targets import EmbeddedTarget
from p4reduce.runs.real.wires import VethWires

BY_PORTS: Final = "Links by the counters of the embedded switches' ports; queues of hosts are not counted."
BY_KERNEL: Final = (
    "Links by the kernel's counters of the switches' interfaces; queues are those that shape links, frames sent again "
    "are counted by workers alone, queues of hosts by nobody."
)


@contextmanager
def shown(cluster: RealCluster, folder: Path) -> Iterator[None]:
    """While this is entered, the run answers those who look, at a socket in ``folder``."""
    interfaces = cluster.wires.network.switch_interfaces if isinstance(cluster.wires, VethWires) else None
    target = cluster.target
    host = target.host if isinstance(target, EmbeddedTarget) else None
    kernel = InterfaceLinks(cluster.topology, interfaces or {})

    def links() -> LinkSights:
        counted = kernel() if host is None else of_ports(host.switches, cluster.topology)
        return with_relays(counted, cluster.relays.links())

    def plans() -> Sequence[Plan]:
        return (cluster.plan_in_use(),)

    sights = Sights(
        topology=cluster.topology,
        target=cluster.experiment.target,
        links=links,
        plans=plans,
        host=host,
        interfaces=interfaces,
        records={name: cluster.records_of(name) for name in cluster.hosts},
        notes=(BY_KERNEL if host is None else BY_PORTS, f"Rates: {cluster.wires.shaping}."),
    )
    try:
        with Showing(folder / SOCKET, sights):
            yield
    finally:
        kernel.close()
