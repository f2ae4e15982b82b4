"""Star, leaf-spine and fat-tree."""

from fractions import Fraction

from p4reduce.topologies.builder import Capable, CapableSwitches, TopologyBuilder
from p4reduce.topologies.model import Topology, TopologyError
from p4reduce.topologies.units import parse_rate


def star(
    hosts: int,
    *,
    rate: int | str = "10G",
    delay: int | str = "1us",
    servers: int = 0,
    capable: Capable = True,
    name: str | None = None,
) -> Topology:
    """One switch 's1' with ``hosts`` workers 'h1'... and ``servers`` server hosts 'server1'..."""
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
    """Leaves 'leaf1'... each with ``hosts`` workers ('h1'..., leaf by leaf) and a link to every spine 'spine1'...

    Parameters
    ----------
    leaves, spines, hosts : int
        Numbers of leaves, of spines, and of workers under each leaf.
    rate, delay : int or str
        Rate of the links to hosts; delay of every link.
    uplink : int or str
        Rate of a link between leaf and spine; the same as ``rate`` when neither this nor the next is given.
    oversubscription : float or str
        Instead of ``uplink``: hosts * rate / (spines * uplink), such as 2 or '3/2'.
    servers : int
        Server hosts 'server1'..., one leaf after the other.
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
    """A k-ary fat-tree: k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores, k^3/4 hosts.

    All links have one rate. Names: 'core1'..., 'agg<pod>-<i>', 'edge<pod>-<i>', 'h1'... edge by edge, and
    'server1'... one edge switch after the other (a port beyond the k of the textbook).

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
