"""Networks of pods around an optical cross-connect (OXC), with or without the circuits of a configuration."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import ClassVar, Final, Literal

from p4reduce.topologies.datacenter import Capable, CapableSwitches, TopologyBuilder
from p4reduce.topologies.model import Link, Topology, TopologyError
from p4switch.base.values import parse_rate

Matrix = Sequence[Sequence[int]]
"""L, shape (pods, pods): number of circuits between two pods; symmetric, with zero diagonal"""
Parallel = Literal["bonded", "striped"]
MOST_PLANES: Final = 2


@dataclass(frozen=True)
class LitTopology(Topology):
    """The lit part of an optical network: hosts, switches, and a link for each circuit, at the ports of its fibres.

    Unlike in other topologies, ports of a switch may be unused (their fibres are dark), and pods may be cut off.
    """

    partial: ClassVar[bool] = True


@dataclass(frozen=True)
class Overlay(LitTopology):
    """Circuits of several configurations in one topology: they may share a port, each in its own configuration."""

    shared_ports: ClassVar[bool] = True


def oxc(
    pods: int,
    hosts: int,
    ports: int,
    *,
    rate: int | str = "10G",
    port_rate: int | str | None = None,
    delay: int | str = "1us",
    planes: int = 1,
    capable: Capable = True,
    name: str | None = None,
) -> Topology:
    """Return pods with a ToR 'tor1'..., ``hosts`` workers ('h1'..., pod by pod), and ``ports`` fibres to the OXC each.

    The topology holds no circuits: :func:`lay_circuits` and :func:`view` add those of a configuration.

    Parameters
    ----------
    pods, hosts, ports : int
        P pods of s hosts, R ports of each ToR to the cross-connect.
    rate, port_rate : int or str
        Rate in each direction of a host's link, and of a port to the cross-connect (by default ``rate``).
    delay : int or str
        Delay of every fibre; a circuit consists of two fibres.
    planes : int
        1: one cross-connect 'oxc1'. 2: the ports of a ToR alternate between 'oxc1' and 'oxc2'.
    capable : bool, str or strings
        Which ToRs aggregate: all or none, or shell patterns of names.
    name : str
        Name of the topology.
    """
    for field, value in (("pods", pods), ("hosts", hosts), ("ports", ports)):
        if value < 1:
            raise TopologyError(f"{field}: {value} is too few; at least 1 is needed")
    if planes not in (1, MOST_PLANES) or ports % planes:
        raise TopologyError(f"planes: {planes}; ports={ports} go to 1 cross-connect, or evenly to {MOST_PLANES}")
    chosen = CapableSwitches(capable)
    builder = TopologyBuilder(name or f"oxc-{pods * hosts}")
    middle = (pods * hosts - 1) / 2
    for plane in range(1, planes + 1):
        builder.crossconnect(f"oxc{plane}", position=(middle + (plane - 1 - (planes - 1) / 2) * hosts, 2.0))
    for pod in range(1, pods + 1):
        builder.switch(f"tor{pod}", capable=f"tor{pod}" in chosen, position=((pod - 1) * hosts + (hosts - 1) / 2, 1.0))
    for pod in range(1, pods + 1):
        for number in range((pod - 1) * hosts + 1, pod * hosts + 1):
            builder.host(f"h{number}", position=(float(number - 1), 0.0))
            builder.link(f"h{number}", f"tor{pod}", rate, delay)
    for pod in range(1, pods + 1):
        for port in range(ports):
            builder.link(f"tor{pod}", f"oxc{port % planes + 1}", port_rate or parse_rate(rate), delay)
    chosen.check_used()
    return builder.build()


def uplinks(topology: Topology) -> dict[str, list[Link]]:
    """Return each switch's fibres (``a``) to cross-connects (``b``), by port; `TopologyError` if there are none."""
    crossconnects = {node.name for node in topology.crossconnects}
    if not crossconnects:
        raise TopologyError(
            f"topology {topology.name!r} has no cross-connect: build it with 'oxc:pods=8,hosts=4,ports=4'"
        )
    fibres: dict[str, list[Link]] = {switch.name: [] for switch in topology.switches}
    for link in topology.links:
        if link.a in crossconnects:
            fibres[link.b].append(Link(link.b, link.port_b, link.a, link.port_a, link.rate_bps, link.delay_ps))
        elif link.b in crossconnects:
            fibres[link.a].append(link)
    return fibres


def lay_circuits(
    topology: Topology, configurations: Sequence[Matrix], parallel: Parallel = "bonded"
) -> tuple[tuple[Link, ...], ...]:
    """Choose the ports of each configuration's circuits; return each configuration's links between switches.

    Circuits in all configurations are placed first; every other circuit keeps its ports from the previous configuration
    if possible. A circuit that stays thus keeps its ports and never goes dark.

    Parameters
    ----------
    topology : Topology
        Network with cross-connects; row i of a matrix is its i-th switch.
    configurations : sequence of matrices
        L of each configuration, int, shape (pods, pods).
    parallel : str
        'bonded': circuits between the same pods are one link with the sum of their rates, at the first of their ports.
        'striped': each circuit is a link.

    Raises
    ------
    TopologyError
        A matrix has the wrong shape, is not symmetric, or wants more ports than a switch has; or its circuits cannot be
        divided among the planes (all ports are in use, and the number of circuits is odd).
    """
    fibres = uplinks(topology)
    names = [switch.name for switch in topology.switches]
    wanted = [
        _demand(names, matrix, {name: len(own) for name, own in fibres.items()}, f"configuration {number}")
        for number, matrix in enumerate(configurations)
    ]
    laid: list[dict[tuple[str, str], list[tuple[Link, Link]]]] = []
    always = _always(wanted, parallel)
    for number, demand in enumerate(wanted):
        before = laid[-1] if laid else {}
        kept = {}
        for pair, count in demand.items():
            have = before.get(pair, [])
            same = parallel == "striped" or len(have) == count
            kept[pair] = have[:count] if same else []
        try:
            placed = _place(fibres, demand, kept, always)
        except TopologyError as error:
            if number == 0 or not any(kept.values()):
                raise TopologyError(f"configuration {number}: {error}") from None
            placed = _replace(fibres, demand, always, number)
        laid.append(placed)
    return tuple(_as_links(placed, parallel) for placed in laid)


Joined = Mapping[frozenset[str], tuple[Link, ...]]
"""by pair of switches: all circuits of the configuration that joins them"""


def joined(topology: Topology, size: Mapping[frozenset[str], int]) -> Joined:
    """Return configurations that together join all of these pairs of switches, each pair in one of them.

    Pairs with more bytes come first; a port that no other pair needs goes to the pair with the most bytes per circuit.

    Parameters
    ----------
    topology : Topology
        Network with cross-connects.
    size : mapping of int
        Bytes between two switches.
    """
    fibres = {name: len(own) for name, own in uplinks(topology).items()}
    place = {switch.name: number for number, switch in enumerate(topology.switches)}
    left = sorted(size, key=lambda pair: (-size[pair], sorted(pair)))
    by_pair: dict[frozenset[str], tuple[Link, ...]] = {}
    while left:
        free, chosen = dict(fibres), Counter[frozenset[str]]()

        def give(pair: frozenset[str], free: dict[str, int] = free, chosen: Counter[frozenset[str]] = chosen) -> bool:
            if not all(free[name] for name in pair):
                return False
            chosen[pair] += 1
            free.update({name: free[name] - 1 for name in pair})
            return True

        for pair in left:
            give(pair)
        while any(give(pair) for pair in sorted(chosen, key=lambda pair: (-size[pair] / chosen[pair], sorted(pair)))):
            pass
        try:
            circuits = _laid(topology, chosen, place)
        except TopologyError:  # two planes: circuits that cannot be halved
            chosen = Counter(left[:1])
            circuits = _laid(topology, chosen, place)
        by_pair |= dict.fromkeys(chosen, circuits)
        left = [pair for pair in left if pair not in chosen]
    return by_pair


def _laid(topology: Topology, counts: Mapping[frozenset[str], int], place: Mapping[str, int]) -> tuple[Link, ...]:
    matrix = [[0] * len(place) for _ in place]
    for pair, count in counts.items():
        a, b = (place[name] for name in pair)
        matrix[a][b] = matrix[b][a] = count
    return lay_circuits(topology, [matrix])[0]


def view(topology: Topology, circuits: Iterable[Link]) -> LitTopology:
    """Return the network of hosts and switches with these circuits, which come from :func:`lay_circuits`.

    Raises ``TopologyError`` if two circuits join the same switches.
    """
    known = {node.name for node in topology.crossconnects}
    nodes = tuple(node for node in topology.nodes if node.name not in known)
    own = tuple(link for link in topology.links if not {link.a, link.b} & known)
    return LitTopology(topology.name, nodes, (*own, *circuits))


def overlay(topology: Topology, circuits: Iterable[Link]) -> Overlay:
    """Return the network with circuits of several configurations, for a job whose pairs take turns."""
    lit = view(topology, ())
    return Overlay(lit.name, lit.nodes, (*lit.links, *circuits))


def lit(topology: Topology) -> list[list[str | int]] | None:
    """Return the circuits of a view as plain data; None for a network that is not partial."""
    if not topology.partial:
        return None
    hosts = {host.name for host in topology.hosts}
    return [list(astuple(link)) for link in topology.links if not hosts & {link.a, link.b}]


def with_lit(topology: Topology, circuits: Iterable[Iterable[str | int]] | None) -> Topology:
    """Return the network with circuits from :func:`lit`; None: the topology itself."""
    if circuits is None:
        return topology
    links = [Link(*row) for row in circuits]  # type: ignore[arg-type]
    ports = Counter(end for link in links for end in ((link.a, link.port_a), (link.b, link.port_b)))
    return (overlay if max(ports.values(), default=0) > 1 else view)(topology, links)


Demand = dict[tuple[str, str], int]
Placed = dict[tuple[str, str], list[tuple[Link, Link]]]


def _demand(names: Sequence[str], matrix: Matrix, ports: dict[str, int], where: str) -> Demand:
    """Return the number of circuits between each pair of switches."""
    if len(matrix) != len(names) or any(len(row) != len(names) for row in matrix):
        raise TopologyError(f"{where}: must have {len(names)} rows of {len(names)} numbers, one for each pod")
    demand: Demand = {}
    for i, row in enumerate(matrix):
        for j, count in enumerate(row):
            if int(count) != count or count < 0 or count != matrix[j][i]:
                raise TopologyError(f"{where}: row {i}, column {j}: {count}; needed: whole, not negative, symmetric")
            if i == j and count:
                raise TopologyError(f"{where}: row {i}: a pod has no circuit to itself")
            if i < j and count:
                demand[names[i], names[j]] = int(count)
        if sum(row) > ports[names[i]]:
            raise TopologyError(f"{where}: {names[i]} has {ports[names[i]]} ports, but {sum(row)} circuits")
    return demand


def _always(wanted: Sequence[Demand], parallel: Parallel) -> Demand:
    """Return the circuits that are in every configuration."""
    common: Demand = {}
    for pair, count in (wanted[0] if wanted else {}).items():
        counts = [demand.get(pair, 0) for demand in wanted]
        least = min(counts)
        if least and (parallel == "striped" or least == max(counts)):
            common[pair] = min(least, count)
    return common


def _replace(fibres: dict[str, list[Link]], demand: Demand, always: Demand, number: int) -> Placed:
    try:
        return _place(fibres, demand, {}, always)
    except TopologyError as error:
        raise TopologyError(f"configuration {number}: {error}") from None


def _place(fibres: dict[str, list[Link]], demand: Demand, kept: Placed, always: Demand) -> Placed:
    """Choose for each circuit a fibre at both ends, in the same plane."""
    free = {name: list(own) for name, own in fibres.items()}
    placed: Placed = {pair: [] for pair in demand}
    for pair, have in kept.items():
        for a, b in have:
            placed[pair].append((a, b))
            free[pair[0]].remove(a)
            free[pair[1]].remove(b)
    left = [pair for pair in demand for _ in range(demand[pair] - len(placed[pair]))]
    first = Counter(always)
    left.sort(key=lambda pair: first[pair] == 0)
    planes = sorted({link.b for own in free.values() for link in own})
    share = [left] if len(planes) < MOST_PLANES else _split(left, free, planes)
    for plane, pairs in zip(planes, share, strict=False):
        for pair in pairs:
            ends = [next((link for link in free[name] if link.b == plane), None) for name in pair]
            if ends[0] is None or ends[1] is None:
                raise TopologyError(f"no port of {pair[0]} and {pair[1]} is left at {plane}")
            placed[pair].append((ends[0], ends[1]))
            for name, link in zip(pair, ends, strict=True):
                assert link is not None  # noqa: S101
                free[name].remove(link)
    return placed


def _split(
    left: list[tuple[str, str]], free: dict[str, list[Link]], planes: Sequence[str]
) -> list[list[tuple[str, str]]]:
    """Divide circuits between two planes so that no switch needs more ports of a plane than it has there.

    The edges of an Euler tour alternate between the planes, so each switch gets equally many edges of both, up to one.
    Only the first switch of a tour with an odd number of edges gets two more of one plane: it must have spare ports
    (Petersen's 2-factors; if all ports are in use, an odd number of circuits cannot be halved at all).
    """
    spare = {
        name: min(sum(link.b == plane for link in own) for plane in planes) * 2
        - Counter(end for pair in left for end in pair)[name]
        for name, own in free.items()
    }
    edges: dict[int, tuple[str, str]] = dict(enumerate(left))
    at: dict[str, list[int]] = defaultdict(list)
    for number, pair in edges.items():
        for end in pair:
            at[end].append(number)
    odd = [name for name, own in at.items() if len(own) % 2]
    for name in odd:  # an extra switch without ports is joined to each of them, which makes every degree even
        edges[len(edges)] = (name, "")
        at[name].append(len(edges) - 1)
        at[""].append(len(edges) - 1)
    shares: list[list[tuple[str, str]]] = [[], []]
    used: set[int] = set()
    for start in sorted(at, key=lambda name: (name != "", -spare.get(name, 0), name)):
        tour = _tour(start, edges, at, used)
        for place, number in enumerate(tour):
            if "" not in edges[number]:
                shares[place % 2].append(edges[number])
    for plane, pairs in zip(planes, shares, strict=True):
        for name, count in Counter(end for pair in pairs for end in pair).items():
            have = sum(link.b == plane for link in free[name])
            if count > have:
                raise TopologyError(
                    f"{len(left)} circuits cannot be halved among two planes: {name} would need {count} ports of its "
                    f"{have} at {plane}; take one circuit away, or use one plane"
                )
    return shares


def _tour(start: str, edges: dict[int, tuple[str, str]], at: dict[str, list[int]], used: set[int]) -> list[int]:
    """Return the edges of a closed walk that takes every reachable edge once (Hierholzer)."""
    stack: list[tuple[str, int]] = [(start, -1)]
    walk: list[int] = []
    while stack:
        name, came = stack[-1]
        while at[name] and at[name][-1] in used:
            at[name].pop()
        if at[name]:
            number = at[name].pop()
            used.add(number)
            a, b = edges[number]
            stack.append((b if name == a else a, number))
        else:
            stack.pop()
            if came >= 0:
                walk.append(came)
    return walk


def _as_links(placed: Placed, parallel: Parallel) -> tuple[Link, ...]:
    links = []
    for (a, b), ends in placed.items():
        bonds = [ends] if parallel == "bonded" else [[fibre] for fibre in ends]
        for bond in bonds:
            (first, second), fibres = bond[0], len(bond)
            rate = min(first.rate_bps, second.rate_bps) * fibres
            links.append(Link(a, first.port_of(a), b, second.port_of(b), rate, first.delay_ps + second.delay_ps))
    return tuple(links)


# The part of a network that remains if links and switches are down.


Ends = frozenset[str]
"""the two nodes of a link"""


def is_down(links: Collection[Ends], switches: Collection[str]) -> Callable[[Link], bool]:
    """Return a test of whether a link is down: it is in ``links``, or one of its ends is in ``switches``."""
    gone = {*switches}
    return lambda link: frozenset((link.a, link.b)) in links or not gone.isdisjoint((link.a, link.b))


def without(topology: Topology, links: Collection[Ends] = (), switches: Collection[str] = ()) -> Topology:
    """Return the network without the links between switches that are down; nodes, ports and links to hosts stay.

    A host keeps its link even if the link is down: :func:`unreachable` names the hosts that are cut off.
    """
    if not links and not switches:
        return topology
    down = is_down(links, switches)
    hosts = {host.name for host in topology.hosts}
    left = tuple(link for link in topology.links if not down(link) or not hosts.isdisjoint((link.a, link.b)))
    return LitTopology(topology.name, topology.nodes, left)


def unreachable(
    topology: Topology, members: Iterable[str], links: Collection[Ends] = (), switches: Collection[str] = ()
) -> frozenset[str]:
    """Return the members that are cut off from the others if links and switches are down.

    The part with the most members counts as connected; of equal parts, the one whose member is listed first.
    """
    names = list(members)
    if not names or (not links and not switches):
        return frozenset()
    part = _parts(topology, is_down(links, switches))
    sizes: dict[str, int] = {}
    for name in names:
        sizes[part[name]] = sizes.get(part[name], 0) + 1
    best = max(sizes, key=lambda first: sizes[first])  # the first of equal ones
    return frozenset(name for name in names if part[name] != best)


def _parts(topology: Topology, down: Callable[[Link], bool]) -> Mapping[str, str]:
    """Return for each node the first node of its connected part of the network."""
    beside: dict[str, list[str]] = {node.name: [] for node in topology.nodes}
    for link in topology.links:
        if not down(link):
            beside[link.a].append(link.b)
            beside[link.b].append(link.a)
    parts: dict[str, str] = {}
    for first in beside:
        if first in parts:
            continue
        parts[first], open_ = first, [first]
        while open_:
            for other in beside[open_.pop()]:
                if other not in parts:
                    parts[other] = first
                    open_.append(other)
    return parts
