"""What every topology must hold, whoever built it."""

from collections import Counter

from p4reduce.topologies.model import MAX_NODES, MAX_PORT, Link, Topology, TopologyError


def check(topology: Topology) -> None:
    """Raise :class:`TopologyError` at the first thing that is wrong, naming it and the fix."""
    _check_nodes(topology)
    _check_links(topology)
    _check_ports(topology)
    _check_hosts(topology)
    if not topology.partial:
        _check_connected(topology)


def _check_nodes(topology: Topology) -> None:
    for name, times in Counter(node.name for node in topology.nodes).items():
        if times > 1:
            raise TopologyError(f"nodes: the name {name!r} is given {times} times; node names must be unique")
        if not name or any(character.isspace() or character in ",=+" for character in name):
            raise TopologyError(f"nodes: {name!r} is no name; use no spaces, commas, '+' or '='")
    for kind in ("host", "switch", "crossconnect"):
        nodes = [node for node in topology.nodes if node.kind == kind]
        if not nodes and kind != "crossconnect":
            raise TopologyError(f"nodes: there is no {kind}; at least one is needed")
        if len(nodes) > MAX_NODES:
            raise TopologyError(f"nodes: {len(nodes)} nodes of kind {kind}; addresses allow {MAX_NODES}")
        if [node.index for node in nodes] != list(range(len(nodes))):
            raise TopologyError(f"nodes: indices of kind {kind} must count 0, 1, 2, ... in the order of the nodes")
    for node in topology.nodes:
        if node.capable and not node.is_switch:
            raise TopologyError(f"nodes: {node.kind} {node.name!r} cannot aggregate; set capable only at switches")
        if node.role not in (("worker", "server") if node.is_host else (node.kind,)):
            raise TopologyError(f"nodes: {node.kind} {node.name!r} cannot have the role {node.role!r}")


def _check_links(topology: Topology) -> None:
    names = {node.name for node in topology.nodes}
    passive = {node.name for node in topology.crossconnects}
    seen: dict[frozenset[str], int] = {}
    for number, link in enumerate(topology.links):
        field = f"links[{number}] ({link.a} - {link.b})"
        for end in (link.a, link.b):
            if end not in names:
                raise TopologyError(f"{field}: there is no node {end!r}; add it to nodes or correct the name")
        if link.a == link.b:
            raise TopologyError(f"{field}: a node cannot be linked to itself; remove the link")
        pair = frozenset((link.a, link.b))
        if pair <= passive:
            raise TopologyError(f"{field}: joins two cross-connects; link each of them to switches")
        if pair in seen and not pair & passive:
            raise TopologyError(f"{field}: repeats links[{seen[pair]}]; give one link the sum of the rates instead")
        seen[pair] = number
        if link.rate_bps <= 0:
            raise TopologyError(f"{field}: rate {link.rate_bps} bit/s must be positive")
        if link.delay_ps < 0:
            raise TopologyError(f"{field}: delay {link.delay_ps} ps must not be negative")


def _check_ports(topology: Topology) -> None:
    used: Counter[str] = Counter()
    taken: set[tuple[str, int]] = set()
    for number, link in enumerate(topology.links):
        for end in (link.a, link.b):
            used[end] += 1
            port = link.port_of(end)
            if topology.partial:
                if not 1 <= port <= MAX_PORT or ((end, port) in taken and not topology.shared_ports):
                    raise TopologyError(f"links[{number}]: port {port} of {end!r} is taken, or not in 1..{MAX_PORT}")
                taken.add((end, port))
            elif port != used[end]:
                raise TopologyError(
                    f"links[{number}]: port {link.port_of(end)} of {end!r} must be {used[end]}; "
                    "ports count from 1 in the order of the links"
                )
    for name, ports in used.items():
        if ports > MAX_PORT:
            raise TopologyError(f"nodes: {name!r} has {ports} links; a switch has at most {MAX_PORT} ports")


def _check_hosts(topology: Topology) -> None:
    links: dict[str, list[Link]] = {host.name: [] for host in topology.nodes if host.is_host}
    for link in topology.links:
        for end in (link.a, link.b):
            if end in links:
                links[end].append(link)
    for name, own in links.items():
        if len(own) != 1:
            raise TopologyError(f"nodes: host {name!r} has {len(own)} links; a host has exactly one, to a switch")
        other = topology.node(own[0].other(name))
        if not other.is_switch:
            raise TopologyError(f"nodes: host {name!r} is linked to {other.kind} {other.name!r}; link it to a switch")


def _check_connected(topology: Topology) -> None:
    reached = {topology.nodes[0].name}
    edge = list(reached)
    while edge:
        edge = [name for name in {name for at in edge for name in topology.neighbours(at)} if name not in reached]
        reached.update(edge)
    cut_off = [node.name for node in topology.nodes if node.name not in reached]
    if cut_off:
        shown = ", ".join(cut_off[:5]) + (", ..." if len(cut_off) > 5 else "")
        raise TopologyError(
            f"links: {shown} cannot be reached from {topology.nodes[0].name!r}; the network must be connected"
        )
