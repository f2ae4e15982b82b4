"""Builders of networks: star, leaf-spine, fat-tree and wide-area graphs, and the builder that they use."""

from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatchcase
from fractions import Fraction
from typing import Any, Final

from p4reduce.base import errors
from p4reduce.topologies.model import MAX_NODES, MAX_PORT, Link, Node, Role, Topology, TopologyError
from p4switch.base.values import parse_delay, parse_rate

# Building a topology node by node; the builder assigns indices and ports.


Capable = bool | str | Iterable[str]
"""switches that aggregate: True or 'all', False or 'none', or shell patterns of their names ('leaf*')"""


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
        self._passive: set[str] = set()

    def host(self, name: str, *, server: bool = False, position: tuple[float, float] | None = None) -> None:
        """Add a host; ``server`` reserves it for a parameter server."""
        self._room_for("host", name)
        role: Role = "server" if server else "worker"
        self._nodes.append(Node(name, "host", self._count["host"], False, role, position))
        self._count["host"] += 1

    def switch(self, name: str, *, capable: bool = True, position: tuple[float, float] | None = None) -> None:
        """Add a switch; without ``capable`` it routes but does not aggregate."""
        self._room_for("switch", name)
        self._nodes.append(Node(name, "switch", self._count["switch"], capable, "switch", position))
        self._count["switch"] += 1

    def crossconnect(self, name: str, *, position: tuple[float, float] | None = None) -> None:
        """Add an optical cross-connect."""
        self._room_for("crossconnect", name)
        self._nodes.append(Node(name, "crossconnect", self._count["crossconnect"], False, "crossconnect", position))
        self._count["crossconnect"] += 1
        self._passive.add(name)

    def link(self, a: str, b: str, rate: int | str, delay: int | str) -> None:
        """Add a link, at the next free port of each end (rate: bit/s or '10G'; delay: '1us')."""
        self._ports[a] += 1
        self._ports[b] += 1
        for end in (a, b):
            if self._ports[end] > MAX_PORT and end not in self._passive:
                raise TopologyError(f"nodes: {end!r} has over {MAX_PORT} links; a switch has at most {MAX_PORT} ports")
        self._links.append(Link(a, self._ports[a], b, self._ports[b], parse_rate(rate), parse_delay(delay)))

    def build(self) -> Topology:
        """Return the topology; raises :class:`TopologyError` when the network is not valid."""
        return Topology(self._name, tuple(self._nodes), tuple(self._links))

    def _room_for(self, kind: str, name: str) -> None:
        """Refuse a node beyond the limit at once, since building 10^9 nodes would take long."""
        if self._count[kind] >= MAX_NODES:
            raise TopologyError(f"{name!r} is one {kind} too many: addresses allow {MAX_NODES}")


class CapableSwitches:
    """Decides by name which switches aggregate, and records which patterns matched a switch."""

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
        """Raise :class:`TopologyError` when a pattern matched no switch."""
        if self._unused:
            shown = ", ".join(self._seen[:6]) + (", ..." if len(self._seen) > 6 else "")
            raise TopologyError(
                f"capable: {sorted(self._unused)} match no switch; the switches are {shown} "
                "(patterns such as 'leaf*', or 'all', 'none')"
            )


def star(
    hosts: int,
    *,
    rate: int | str = "10G",
    delay: int | str = "1us",
    servers: int = 0,
    capable: Capable = True,
    name: str | None = None,
) -> Topology:
    """Return one switch 's1' with ``hosts`` workers 'h1'... and ``servers`` server hosts 'server1'..."""
    _at_least("hosts", hosts, 1)
    chosen = CapableSwitches(capable)
    builder = TopologyBuilder(name or f"star-{hosts}")
    builder.switch("s1", capable="s1" in chosen, position=(_middle(hosts + servers), 1.0))
    for number in range(1, hosts + 1):
        builder.host(f"h{number}", position=(float(number - 1), 0.0))
        builder.link(f"h{number}", "s1", rate, delay)
    _add_servers(builder, servers, ["s1"], rate=rate, delay=delay, x=hosts)
    chosen.check_used()
    return builder.build()


def leaf_spine(
    leaves: int,
    spines: int,
    hosts: int,
    *,
    rate: int | str = "10G",
    delay: int | str = "1us",
    uplink: int | str | None = None,
    oversubscription: float | str | None = None,
    servers: int = 0,
    capable: Capable = True,
    name: str | None = None,
) -> Topology:
    """Leaves 'leaf1'..., each with ``hosts`` workers ('h1'..., leaf by leaf) and a link to every spine 'spine1'...

    Parameters
    ----------
    leaves, spines, hosts : int
        Numbers of leaves, of spines, and of workers under each leaf.
    rate, delay : int or str
        Rate of the links to hosts; delay of every link.
    uplink : int or str
        Rate of a link between leaf and spine; by default ``rate``.
    oversubscription : float or str
        Instead of ``uplink``: hosts * rate / (spines * uplink), such as 2 or '3/2'.
    servers : int
        Number of server hosts 'server1'..., spread over the leaves in turn.
    capable : bool, str or strings
        Which switches aggregate: all or none, or shell patterns of names.
    name : str
        Name of the topology.
    """
    for field, value in (("leaves", leaves), ("spines", spines), ("hosts", hosts)):
        _at_least(field, value, 1)
    rate_bps = parse_rate(rate)
    uplink_bps = _uplink_rate(rate_bps, spines, hosts, uplink, oversubscription)
    chosen = CapableSwitches(capable)
    builder = TopologyBuilder(name or f"leaf-spine-{leaves * hosts}")
    middle = _middle(leaves * hosts)
    for spine in range(1, spines + 1):
        x = middle + (spine - 1 - _middle(spines)) * hosts
        builder.switch(f"spine{spine}", capable=f"spine{spine}" in chosen, position=(x, 2.0))
    for leaf in range(1, leaves + 1):
        x = (leaf - 1) * hosts + _middle(hosts)
        builder.switch(f"leaf{leaf}", capable=f"leaf{leaf}" in chosen, position=(x, 1.0))
    for leaf in range(1, leaves + 1):
        for number in range((leaf - 1) * hosts + 1, leaf * hosts + 1):
            builder.host(f"h{number}", position=(float(number - 1), 0.0))
            builder.link(f"h{number}", f"leaf{leaf}", rate_bps, delay)
        for spine in range(1, spines + 1):
            builder.link(f"leaf{leaf}", f"spine{spine}", uplink_bps, delay)
    names = [f"leaf{leaf}" for leaf in range(1, leaves + 1)]
    _add_servers(builder, servers, names, rate=rate_bps, delay=delay, x=leaves * hosts)
    chosen.check_used()
    return builder.build()


def fat_tree(
    k: int,
    *,
    rate: int | str = "10G",
    delay: int | str = "1us",
    servers: int = 0,
    capable: Capable = True,
    name: str | None = None,
) -> Topology:
    """Return a k-ary fat-tree: k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores, k^3/4 hosts.

    All links have the same rate. Names: 'core1'..., 'agg<pod>-<i>', 'edge<pod>-<i>', 'h1'... edge by edge, and
    'server1'..., spread over the edge switches in turn (each uses a port beyond the k ports of the paper).

    References
    ----------
    M. Al-Fares, A. Loukissas, A. Vahdat: A scalable, commodity data center network architecture, SIGCOMM 2008.
    """
    _at_least("k", k, 2)
    if k % 2:
        raise TopologyError(f"k: a fat-tree needs an even k, not {k}; use {k + 1}")
    half = k // 2
    hosts = k * half * half
    chosen = CapableSwitches(capable)
    builder = TopologyBuilder(name or f"fat-tree-{k}")
    for core in range(half * half):
        x = (core + 0.5) * hosts / (half * half) - 0.5
        builder.switch(f"core{core + 1}", capable=f"core{core + 1}" in chosen, position=(x, 3.0))
    for pod in range(1, k + 1):
        for height, layer in ((2.0, "agg"), (1.0, "edge")):
            for i in range(1, half + 1):
                x = ((pod - 1) * half + i - 1) * half + _middle(half)
                switch = f"{layer}{pod}-{i}"
                builder.switch(switch, capable=switch in chosen, position=(x, height))
    host = 0
    for pod in range(1, k + 1):
        for edge in range(1, half + 1):
            for _ in range(half):
                host += 1
                builder.host(f"h{host}", position=(float(host - 1), 0.0))
                builder.link(f"h{host}", f"edge{pod}-{edge}", rate, delay)
            for agg in range(1, half + 1):
                builder.link(f"edge{pod}-{edge}", f"agg{pod}-{agg}", rate, delay)
        for agg in range(1, half + 1):
            for core in range((agg - 1) * half + 1, agg * half + 1):
                builder.link(f"agg{pod}-{agg}", f"core{core}", rate, delay)
    edges = [f"edge{pod}-{edge}" for edge in range(1, half + 1) for pod in range(1, k + 1)]
    _add_servers(builder, servers, edges, rate=rate, delay=delay, x=hosts)
    chosen.check_used()
    return builder.build()


def _uplink_rate(
    rate_bps: int, spines: int, hosts: int, uplink: int | str | None, oversubscription: float | str | None
) -> int:
    if uplink is not None and oversubscription is not None:
        raise TopologyError("uplink, oversubscription: give one of the two; each follows from the other")
    if uplink is not None:
        return parse_rate(uplink)
    if oversubscription is None:
        return rate_bps
    try:
        ratio = Fraction(str(oversubscription).replace(":", "/"))
    except (ValueError, ZeroDivisionError):
        ratio = Fraction(0)
    if ratio <= 0:
        raise TopologyError(f"oversubscription: {oversubscription!r} is no ratio; write for example 2, 1.5 or '3/2'")
    return max(1, int(rate_bps * hosts / (spines * ratio)))


def _add_servers(
    builder: TopologyBuilder, servers: int, switches: list[str], *, rate: int | str, delay: int | str, x: int
) -> None:
    _at_least("servers", servers, 0)
    for number in range(servers):
        builder.host(f"server{number + 1}", server=True, position=(float(x + number), 0.0))
        builder.link(f"server{number + 1}", switches[number % len(switches)], rate, delay)


def _at_least(field: str, value: int, least: int) -> None:
    if value < least:
        raise TopologyError(f"{field}: {value} is too few; give at least {least}")


def _middle(count: int) -> float:
    return (count - 1) / 2


# Wide-area graphs from topohub: SNDlib and the Internet Topology Zoo, offline.


PS_PER_KM: Final = 4_900_000
"""propagation delay of light in fibre with group index 1.468, in ps: 4.9 us per kilometre"""
GROUPS: Final = ("sndlib", "topozoo")
"""groups of topohub in which a bare name is looked up, in this order"""


def wan(
    graph: str,
    *,
    hosts: int = 1,
    rate: int | str = "10G",
    access_rate: int | str | None = None,
    delay: int | str | None = None,
    access_delay: int | str = "1us",
    servers: int = 0,
    capable: Capable = True,
    name: str | None = None,
) -> Topology:
    """Return a wide-area network: a switch for each city, each with ``hosts`` workers '<city>-h1'...

    topohub has nodes and distances but no capacities; the defaults of ``rate`` and ``access_rate`` are p4reduce's.

    Parameters
    ----------
    graph : str
        'germany50', 'nobel-us', 'sndlib/geant', 'topozoo/Abilene'.
    hosts : int
        Workers in each city.
    rate, access_rate : int or str
        Capacity of every link between cities, and of the links to hosts (by default ``rate``).
    delay, access_delay : int or str
        Delay of every link between cities (by default 4.9 us for each km of its length), and of the links to hosts.
    servers : int
        Number of server hosts '<city>-server', one in each of the first cities.
    capable : bool, str or strings
        Which switches aggregate: all or none, or shell patterns of names.
    name : str
        Name of the topology.

    Raises
    ------
    TopologyError
        topohub has no such graph, or the graph is not one connected simple network.
    """
    key, network = _find(graph)
    cities = _city_names(network["nodes"])
    if hosts < 1 or not 0 <= servers <= len(cities):
        raise TopologyError(f"hosts, servers: need hosts >= 1 and 0 <= servers <= {len(cities)} for {key}")
    chosen = CapableSwitches(capable)
    builder = TopologyBuilder(name or key.rsplit("/", 1)[1])
    for node in network["nodes"]:
        city = cities[node["id"]]
        builder.switch(city, capable=city in chosen, position=_position(node))
    access = rate if access_rate is None else access_rate
    for city in cities.values():
        for number in range(1, hosts + 1):
            builder.host(f"{city}-h{number}")
            builder.link(f"{city}-h{number}", city, access, access_delay)
    for edge in network["edges"]:
        a, b = cities[edge["source"]], cities[edge["target"]]
        builder.link(a, b, rate, _delay(edge, key, a, b) if delay is None else delay)
    for city in list(cities.values())[:servers]:
        builder.host(f"{city}-server", server=True)
        builder.link(f"{city}-server", city, access, access_delay)
    chosen.check_used()
    return builder.build()


def _find(graph: str) -> tuple[str, dict[str, Any]]:
    topohub = errors.load("topohub", "wan")

    keys = [graph] if "/" in graph else [f"{group}/{graph}" for group in GROUPS]
    for key in keys:
        try:
            return key, topohub.get(key)
        except (KeyError, ValueError):
            continue
    raise TopologyError(
        f"graph: topohub {topohub.__version__} has no {' or '.join(keys)}; "
        "write for example 'nobel-us', 'germany50', 'sndlib/geant' or 'topozoo/Abilene'"
    )


def _city_names(nodes: list[dict[str, Any]]) -> dict[Any, str]:
    """Return a unique name without blanks for each node id, in the order of the file."""
    plain = {node["id"]: plain_name(str(node.get("name") or f"n{node['id']}")) for node in nodes}
    times = Counter(plain.values())
    return {key: text if times[text] == 1 else f"{text}-{key}" for key, text in plain.items()}


def plain_name(text: str) -> str:
    """Replace the characters that node names must not contain by hyphens."""
    return "".join("-" if character.isspace() or character in ",=+" else character for character in text.strip())


def _position(node: dict[str, Any]) -> tuple[float, float] | None:
    position = node.get("pos")
    return (float(position[0]), float(position[1])) if position else None


def _delay(edge: dict[str, Any], key: str, a: str, b: str) -> str:
    distance = edge.get("dist")
    if distance is None:
        raise TopologyError(f"graph: {key} does not say how long {a} - {b} is; give a delay for all links")
    return f"{round(float(distance) * PS_PER_KM)}ps"
