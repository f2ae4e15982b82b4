"""What an iteration of a job puts on links: through a tree of switches that aggregate, or around a ring of hosts."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from p4reduce.control_plane.placement.racks import Racks, Way


@dataclass(frozen=True)
class Load:
    """An iteration of a job.

    Attributes
    ----------
    compute_s : float
        Seconds that it computes; then it communicates.
    bits : mapping
        What every link carries then, in each direction, by the number of the link.
    slots : tuple of str
        Switches that keep slots for it.
    rounds : float
        Iterations that are left.
    """

    compute_s: float
    bits: Mapping[int, float]
    slots: tuple[str, ...] = ()
    rounds: float = 1.0


@dataclass(frozen=True)
class Copies:
    """How many times a model crosses every link in each direction, and who aggregates."""

    way: Way | None
    copies: Mapping[int, float]
    slots: tuple[str, ...] = field(default=())

    def load(self, bits: float, compute_s: float, rounds: float = 1.0) -> Load:
        """Of a model of so many bits."""
        return Load(compute_s, {link: bits * times for link, times in self.copies.items()}, self.slots, rounds)


def tree_copies(racks: Racks, hosts: Sequence[str], way: Way, able: Collection[str], server: str = "") -> Copies:
    """Copies of a model on the links of a tree; the same up and down.

    A switch that cannot, or may not, aggregate (not in ``able``) sends on each copy that it gets. One with a single
    child has nothing to add up, and needs no slots.

    Parameters
    ----------
    racks : Racks
        The network.
    hosts : sequence of str
        Of the workers.
    way : Way
        Joins the switches of hosts and server.
    able : collection of str
        Switches that aggregate if they are asked.
    server : str
        Host of the global model, which the root's sum goes to; '': there is none.
    """
    copies: dict[int, float] = {racks.uplink(host): 1.0 for host in hosts}
    arriving = Counter(racks.of[host] for host in hosts)
    slots = []
    for switch in _deepest_first(way, arriving):
        if arriving[switch] > 1 and switch in able:
            slots.append(switch)
            arriving[switch] = 1
        if switch != way.root:
            up = way.parent[switch]
            copies[racks.link(switch, up)] = float(arriving[switch])
            arriving[up] += arriving[switch]
    if server:
        at, times = racks.of[server], float(arriving[way.root])
        copies[racks.uplink(server)] = copies.get(racks.uplink(server), 0.0) + times
        while at != way.root:  # from the root down to the server, beside what goes up there
            link = racks.link(at, way.parent[at])
            copies[link] = max(copies.get(link, 0.0), times)
            at = way.parent[at]
    return Copies(way, copies, tuple(slots))


def _deepest_first(way: Way, switches: Mapping[str, int]) -> list[str]:
    """All switches of a way, children before their parents."""
    depth = {way.root: 0}

    def of(switch: str) -> int:
        if switch not in depth:
            depth[switch] = of(way.parent[switch]) + 1
        return depth[switch]

    return sorted({*switches, *way.parent, way.root}, key=lambda switch: (-of(switch), switch))


def ring_copies(racks: Racks, hosts: Sequence[str], way: Way) -> Copies:
    """Copies around a ring that goes from rack to rack along a way, each once: 2 (n - 1) / n of a model on each link.

    Patarasuk and Yuan, 'Bandwidth optimal all-reduce algorithms for clusters of workstations', 2009.
    """
    n = len(hosts)
    if n < 2:
        return Copies(way, {})
    share = 2.0 * (n - 1) / n
    copies = {racks.uplink(host): share for host in hosts}
    copies |= {racks.link(switch, up): share for switch, up in way.parent.items()}
    return Copies(way, copies)
