"""Building a topology node by node: gives out indices and ports."""

from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatchcase

from p4reduce.topologies.model import MAX_NODES, MAX_PORT, Link, Node, Role, Topology, TopologyError
from p4reduce.topologies.units import parse_delay, parse_rate

Capable = bool | str | Iterable[str]
"""Which switches aggregate: True or 'all', False or 'none', or shell patterns of names ('leaf*')."""


class TopologyBuilder:
    """Collects nodes and links; indices and ports follow from the order in which they are added.

    >>> builder = TopologyBuilder("pair")
    >>> builder.switch("s1")
    >>> builder.host("h1")
    >>> builder.link("h1", "s1", "10G", "1us")
    >>> builder.build().port("s1", "h1")
    1
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: list[Node] = []
        self._links: list[Link] = []
        self._count: Counter[str] = Counter()
        self._ports: Counter[str] = Counter()

    def host(self, name: str, *, server: bool = False, position: tuple[float, float] | None = None) -> None:
        """Add a host; ``server`` keeps it for a parameter server."""
        self._room_for("host", name)
        role: Role = "server" if server else "worker"
        self._nodes.append(Node(name, "host", self._count["host"], False, role, position))
        self._count["host"] += 1

    def switch(self, name: str, *, capable: bool = True, position: tuple[float, float] | None = None) -> None:
        """Add a switch; one that is not ``capable`` only routes."""
        self._room_for("switch", name)
        self._nodes.append(Node(name, "switch", self._count["switch"], capable, "switch", position))
        self._count["switch"] += 1

    def crossconnect(self, name: str, *, position: tuple[float, float] | None = None) -> None:
        """Add an optical cross-connect."""
        self._room_for("crossconnect", name)
        self._nodes.append(Node(name, "crossconnect", self._count["crossconnect"], False, "crossconnect", position))
        self._count["crossconnect"] += 1

    def link(self, a: str, b: str, rate: int | str, delay: int | str) -> None:
        """Add a link, at the next free port of each end (rate: bit/s or '10G'; delay: '1us')."""
        self._ports[a] += 1
        self._ports[b] += 1
        for end in (a, b):
            if self._ports[end] > MAX_PORT:
                raise TopologyError(f"nodes: {end!r} has over {MAX_PORT} links; a switch has at most {MAX_PORT} ports")
        self._links.append(Link(a, self._ports[a], b, self._ports[b], parse_rate(rate), parse_delay(delay)))

    def build(self) -> Topology:
        """The finished topology; raises :class:`TopologyError` when it is not a sound network."""
        return Topology(self._name, tuple(self._nodes), tuple(self._links))

    def _room_for(self, kind: str, name: str) -> None:
        """Refuses what no topology may have as soon as it is reached: building 10^9 nodes takes long."""
        if self._count[kind] >= MAX_NODES:
            raise TopologyError(f"{name!r} is one {kind} too many: addresses allow {MAX_NODES}")


class CapableSwitches:
    """Decides by name which switches aggregate, and remembers whether every pattern was of use."""

    def __init__(self, capable: Capable) -> None:
        if isinstance(capable, bool):
            capable = "all" if capable else "none"
        patterns = [capable] if isinstance(capable, str) else list(capable)
        self._none = patterns in (["none"], [])
        self._patterns = ["*" if pattern == "all" else pattern for pattern in patterns]
        self._unused = set() if self._none else set(self._patterns)
        self._seen: list[str] = []

    def __contains__(self, switch: str) -> bool:
        self._seen.append(switch)
        hits = [] if self._none else [pattern for pattern in self._patterns if fnmatchcase(switch, pattern)]
        self._unused.difference_update(hits)
        return bool(hits)

    def check_used(self) -> None:
        """Raise :class:`TopologyError` when a pattern matched no switch: it is a slip of the pen."""
        if self._unused:
            shown = ", ".join(self._seen[:6]) + (", ..." if len(self._seen) > 6 else "")
            raise TopologyError(
                f"capable: {sorted(self._unused)} match no switch; the switches are {shown} "
                "(patterns such as 'leaf*', or 'all', 'none')"
            )
