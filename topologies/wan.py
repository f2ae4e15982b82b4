"""Wide-area graphs from topohub: SNDlib and the Internet Topology Zoo, offline."""

from collections import Counter
from typing import Any, Final

from p4reduce.topologies.builder import Capable, CapableSwitches, TopologyBuilder
from p4reduce.topologies.model import Topology, TopologyError

PS_PER_KM: Final = 4_900_000
"""Light in fibre of group index 1.468: 4.9 us a kilometre."""
GROUPS: Final = ("sndlib", "topozoo")
"""The groups of topohub that are searched for a bare name, in this order."""


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
    """A wide-area network: a switch for each city, each with ``hosts`` workers '<city>-h1'...

    topohub knows nodes and distances but no capacities: those here are ours.

    Parameters
    ----------
    graph : str
        'germany50', 'nobel-us', 'sndlib/geant', 'topozoo/Abilene'.
    hosts : int
        Workers in each city.
    rate, access_rate : int or str
        Capacity of every link between cities, and of the links to hosts (``rate`` when not given).
    delay, access_delay : int or str
        Delay of every link between cities (when not given: from its length at 4.9 us/km), and of links to hosts.
    servers : int
        Server hosts '<city>-server', at the first cities.
    capable : bool, str or strings
        Which switches aggregate: all or none, or shell patterns of names.
    name : str
        Name of the topology.

    Raises
    ------
    TopologyError
        When topohub has no such graph, or the graph is not one connected simple network.
    """
    key, found = _find(graph)
    cities = _city_names(found["nodes"])
    if hosts < 1 or not 0 <= servers <= len(cities):
        raise TopologyError(f"hosts, servers: need hosts >= 1 and 0 <= servers <= {len(cities)} for {key}")
    chosen = CapableSwitches(capable)
    builder = TopologyBuilder(name or key.rsplit("/", 1)[1])
    for node in found["nodes"]:
        city = cities[node["id"]]
        builder.switch(city, capable=city in chosen, position=_position(node))
    access = rate if access_rate is None else access_rate
    for city in cities.values():
        for number in range(1, hosts + 1):
            builder.host(f"{city}-h{number}")
            builder.link(f"{city}-h{number}", city, access, access_delay)
    for edge in found["edges"]:
        a, b = cities[edge["source"]], cities[edge["target"]]
        builder.link(a, b, rate, _delay(edge, key, a, b) if delay is None else delay)
    for city in list(cities.values())[:servers]:
        builder.host(f"{city}-server", server=True)
        builder.link(f"{city}-server", city, access, access_delay)
    chosen.check_used()
    return builder.build()


def _find(graph: str) -> tuple[str, dict[str, Any]]:
    import topohub  # noqa: PLC0415  (slow: it imports networkx)

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
    """A unique name without blanks for each node id, in the order of the file."""
    plain = {node["id"]: _plain(str(node.get("name") or f"n{node['id']}")) for node in nodes}
    times = Counter(plain.values())
    return {key: text if times[text] == 1 else f"{text}-{key}" for key, text in plain.items()}


def _plain(text: str) -> str:
    return "".join("-" if character.isspace() or character in ",=+" else character for character in text.strip())


def _position(node: dict[str, Any]) -> tuple[float, float] | None:
    position = node.get("pos")
    return (float(position[0]), float(position[1])) if position else None


def _delay(edge: dict[str, Any], key: str, a: str, b: str) -> str:
    distance = edge.get("dist")
    if distance is None:
        raise TopologyError(f"graph: {key} does not say how long {a} - {b} is; give a delay for all links")
    return f"{round(float(distance) * PS_PER_KM)}ps"
