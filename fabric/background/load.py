"""How much traffic links carry, as the network counts it."""

from collections.abc import Mapping

from p4reduce.fabric.counters import LinkCounters
from p4reduce.fabric.network import VirtualNetwork
from p4reduce.topologies.model import Hop

Loads = dict[Hop, int]
"""bit/s by (node, port) of the sender, preambles and gaps included"""


def link_loads(network: VirtualNetwork, before: Mapping[Hop, LinkCounters], since_ps: int) -> Loads:
    """What every link carried on average since a moment, from the time that it was busy.

    Parameters
    ----------
    network : VirtualNetwork
        Its clock stands after ``since_ps``.
    before : mapping
        ``dict(network.links)`` of that moment.
    since_ps : int
        The moment, picoseconds of virtual time.

    Returns
    -------
    dict
        (node, port) -> bit/s of the link's rate: share of busy time * rate.
    """
    passed = network.now - since_ps
    if passed <= 0:
        raise ValueError(f"since_ps: {since_ps} is not before now ({network.now})")
    topology = network.topology
    loads = {}
    for port, counted in network.links.items():
        busy = counted.busy_ps - before[port].busy_ps
        loads[port] = min(topology.link_at(*port).rate_bps, topology.link_at(*port).rate_bps * busy // passed)
    return loads
