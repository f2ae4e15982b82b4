"""Base routing: a next hop to every node, by shortest paths with fixed ties."""

import heapq
from zlib import crc32

from p4reduce.topologies import Topology


def next_hops(topology: Topology) -> dict[str, dict[str, str]]:
    """For every switch: destination -> neighbour on a shortest path to it.

    Shortest by links crossed, then by delay. Among equal neighbours a hash of switch and destination chooses, so that
    destinations spread over parallel paths, in the same way on every machine. There is none to what only circuits of a
    cross-connect reach.
    """
    links = {
        node.name: [
            (other, (1, topology.link_between(node.name, other).delay_ps))
            for other in topology.neighbours(node.name)
            if topology.node(other).is_switch
        ]
        for node in topology.switches
    }
    table: dict[str, dict[str, str]] = {node.name: {} for node in topology.switches}
    for target in topology.switches:
        distance = _distances(links, target.name)
        hosts = [other for other in topology.neighbours(target.name) if topology.node(other).is_host]
        for switch, steps in links.items():
            if switch == target.name:
                table[switch].update({host: host for host in hosts})
                continue
            if switch not in distance:
                continue  # only circuits of a cross-connect lead there
            equal = [other for other, step in steps if _add(distance[other], step) == distance[switch]]
            for destination in (target.name, *hosts):
                table[switch][destination] = min(equal, key=lambda other: (_mix(switch, other, destination), other))
    return table


def _mix(switch: str, neighbour: str, destination: str) -> int:
    return crc32(f"{switch}>{neighbour}>{destination}".encode())


def _add(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return (a[0] + b[0], a[1] + b[1])


def _distances(links: dict[str, list[tuple[str, tuple[int, int]]]], source: str) -> dict[str, tuple[int, int]]:
    """(links, delay in ps) from every switch to one (Dijkstra)."""
    done: dict[str, tuple[int, int]] = {}
    queue = [((0, 0), source)]
    while queue:
        distance, name = heapq.heappop(queue)
        if name in done:
            continue
        done[name] = distance
        for other, step in links[name]:
            if other not in done:
                heapq.heappush(queue, (_add(distance, step), other))
    return done
