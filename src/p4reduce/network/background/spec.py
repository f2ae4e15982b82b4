"""Background traffic as one line of text, such as 'gravity:load=0.3,seed=1'."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

from p4reduce.network.background.source import BackgroundEndpoints, Demands, SourceOptions, gravity, sndlib
from p4reduce.network.virtual.counters import LinkCounters
from p4reduce.network.virtual.network import VirtualNetwork
from p4reduce.network.virtual.records import FabricError
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop

# Traffic of links, as the network counts it.


Loads = dict[Hop, int]
"""bit/s by (node, port) of the sender, preambles and gaps included."""


def link_loads(network: VirtualNetwork, before: Mapping[Hop, LinkCounters], since_ps: int) -> Loads:
    """Return the average load of every link since a moment, from the time that it was busy.

    Parameters
    ----------
    network : VirtualNetwork
        Its clock is after ``since_ps``.
    before : mapping
        ``dict(network.links)`` of that moment.
    since_ps : int
        The moment, picoseconds of virtual time.

    Returns
    -------
    dict
        (node, port) -> bit/s: share of busy time * the link's rate.
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


_KINDS: Final[dict[str, tuple[str, ...]]] = {
    "gravity": ("load", "seed", "sigma", "dscp"),
    "sndlib": ("load", "seed", "graph", "dscp"),
}
"""Demand matrices, each with its fields."""
_MAX_SEED: Final = (1 << 63) - 1
_MAX_SIGMA: Final = 10.0


@dataclass(frozen=True)
class Background:
    """Background traffic between all hosts of a network, from time 0 on.

    Attributes
    ----------
    kind : str
        'gravity' (:func:`~p4reduce.network.background.source.gravity`), or 'sndlib': SNDlib's matrix for the topology's
        graph (:func:`~p4reduce.network.background.source.sndlib`).
    load : float
        Average use of the busiest host link, as a share (0..1).
    seed : int
        Seed of the matrix (gravity), and of bursts and silences.
    sigma : float
        Inequality of hosts (gravity).
    graph : str
        The graph's name at topohub (sndlib).
    dscp : int
        Code point of its packets (0..63): switches may have a queue for it (`SwitchSettings.dscp_classes`).
    """

    kind: str
    load: float
    seed: int = 0
    sigma: float = 1.0
    graph: str = ""
    dscp: int = 0

    def __str__(self) -> str:
        """Return a text that :func:`parse_background` reads; the same traffic gives the same text."""
        own = {"gravity": f"sigma={self.sigma:g}", "sndlib": f"graph={self.graph}"}[self.kind]
        return f"{self.kind}:load={self.load:g},seed={self.seed},{own}" + (f",dscp={self.dscp}" if self.dscp else "")

    def demands(self, topology: Topology) -> Demands:
        """Return the demand matrix for a topology; raise `FabricError` if the description does not fit it."""
        if self.kind == "sndlib":
            matrix = sndlib(topology, self.graph)
        else:
            matrix = gravity(tuple(host.name for host in topology.hosts), self.seed, sigma=self.sigma)
        return matrix.at_load(topology, self.load)

    def endpoints(self, topology: Topology) -> BackgroundEndpoints:
        """Make the sources; raise `FabricError` if a host would have to send more than its bursts can carry."""
        return BackgroundEndpoints(topology, self.demands(topology), SourceOptions(dscp=self.dscp), self.seed)


def parse_background(text: str) -> Background:
    """Parse background traffic from its text: 'gravity:load=0.3,seed=1', 'sndlib:graph=nobel-us,load=0.2'.

    Raises
    ------
    FabricError
        Names the field and the fix.
    """
    kind, _, rest = text.partition(":")
    kind = kind.strip()
    if kind not in _KINDS:
        raise FabricError(
            f"{kind[:60]!r} is none of {', '.join(_KINDS)}; write for example 'gravity:load=0.3,seed=1' "
            "or 'sndlib:graph=nobel-us,load=0.2'"
        )
    given: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in rest.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if name not in _KINDS[kind] or not equals:
            raise FabricError(f"{part[:60]!r}: {kind} takes {', '.join(f'{known}=…' for known in _KINDS[kind])}")
        if name in given:
            raise FabricError(f"{name}: is given twice; keep one")
        given[name] = value if name == "graph" else _number(name, value)
    for needed in ("load", *(["graph"] if kind == "sndlib" else [])):
        if not given.get(needed) and given.get(needed) != 0:
            raise FabricError(
                f"{needed}: is missing, as in '{kind}:{needed}={'nobel-us' if needed == 'graph' else 0.3}'"
            )
    return Background(kind, **given)


def _number(name: str, text: str) -> float | int:
    """Return a field's value; raise `FabricError` if it is outside its bounds."""
    try:
        whole = name in {"seed", "dscp"}
        value = int(text) if whole and len(text) < 30 else float(text)
    except ValueError:
        raise FabricError(f"{name}: {text[:60]!r} is no {'whole ' if whole else ''}number") from None
    least, most = {"seed": (0, _MAX_SEED), "dscp": (0, 63), "sigma": (0, _MAX_SIGMA), "load": (0, 1)}[name]
    inside = isfinite(value) and least <= value <= most
    if not inside or (name == "load" and not 0 < value < 1):
        bounds = "is not between 0 and 1" if name == "load" else f"is not in {least}..{most:g}"
        raise FabricError(f"{name}: {text[:60]} {bounds}")
    return value
