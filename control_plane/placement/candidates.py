"""Hosts that a task could have: how many of each rack, and which."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from p4reduce.control_plane.placement.cluster import Cluster, asked
from p4reduce.control_plane.placement.knapsack import cheapest_shares
from p4reduce.control_plane.scheduling.task import Task

Room = Mapping[str, Sequence[str]]
Share = dict[str, int]
"""how many hosts of a rack, by switch"""

SAME_SPEED: Final = 0.05
"""hosts whose slowdowns differ by less are alike: rounds differ by as much"""
MOST: Final = 32
"""candidates that are compared"""


def packed_share(cluster: Cluster, room: Room, count: int, allowed: Iterable[str] | None = None) -> Share | None:
    """Fewest racks, best fit: one rack that is just large enough, else the largest and what is near to it.

    ``allowed``: only these racks; None where they have too few hosts.
    """
    left = {switch: len(room[switch]) for switch in (room if allowed is None else allowed) if switch in room}
    if sum(left.values()) < count:
        return None
    share: Share = {}
    while count:
        near = {switch: max((cluster.racks.distance(switch, other) for other in share), default=0) for switch in left}
        fits = [switch for switch, hosts in left.items() if hosts >= count]
        nearest = min(near.values())
        close = [switch for switch in fits if near[switch] == nearest]
        if close:
            chosen = min(close, key=lambda switch: (left[switch], switch))
        else:
            chosen = min(left, key=lambda switch: (near[switch], -left[switch], switch))
        share[chosen] = min(count, left.pop(chosen))
        count -= share[chosen]
    return share


def filled_share(room: Room, count: int, order: Sequence[str]) -> Share:
    """Rack by rack in this order, each as far as it goes."""
    share: Share = {}
    for switch in order:
        taken = min(count, len(room[switch]))
        if taken:
            share[switch] = taken
            count -= taken
    return share


def _quickest(cluster: Cluster, room: Room, count: int) -> dict[str, list[str]] | None:
    """The room without all hosts that are slower than the last of the ``count`` fastest; None where none are."""
    factors = sorted(cluster.slowdown.get(host, 1.0) for hosts in room.values() for host in hosts)
    most = factors[count - 1] * (1 + SAME_SPEED)
    if factors[-1] <= most:
        return None
    left = {
        switch: [host for host in hosts if cluster.slowdown.get(host, 1.0) <= most] for switch, hosts in room.items()
    }
    return {switch: hosts for switch, hosts in left.items() if hosts}


def hosts_of(cluster: Cluster, task: Task, room: Room, share: Share) -> list[str]:
    """Which hosts: those that have shards of its data, then the fastest, in the order of racks."""
    homes = set(asked(task).shards)
    found: list[str] = []
    for switch in sorted(share, key=list(room).index):
        ranked = sorted(
            range(len(room[switch])),
            key=lambda place: (cluster.slowdown.get(room[switch][place], 1.0), room[switch][place] not in homes, place),
        )
        found += [room[switch][place] for place in sorted(ranked[: share[switch]])]
    return found


def shares(cluster: Cluster, task: Task, room: Room) -> list[Share]:
    """Different ways to share a task out over racks, the packed one first."""
    count = asked(task).count
    homes = asked(task).shards
    capacity = cluster.capacity_bps
    up = {switch: sum(capacity[link] for link in cluster.racks.uplinks[switch]) for switch in room}
    at_home = {switch: sum(home in room[switch] for home in homes) for switch in room}
    slow = {
        switch: sorted(cluster.slowdown.get(host, 1.0) for host in room[switch])[min(count, len(room[switch])) - 1]
        for switch in room
    }
    able = cluster.able
    users = {switch: sum(cluster.crowd(link) for link in cluster.racks.uplinks[switch]) for switch in room}
    orders: list[Callable[[str], tuple[object, ...]]] = [
        lambda switch: (-up[switch], -len(room[switch]), switch),
        lambda switch: (switch not in able, -len(room[switch]), switch),
        lambda switch: (switch not in able, -up[switch], -len(room[switch]), switch),
        lambda switch: (users[switch], -len(room[switch]), switch),
        lambda switch: (-at_home[switch], -len(room[switch]), switch),
        lambda switch: (slow[switch], -len(room[switch]), switch),
    ]
    found: list[Share | None] = [packed_share(cluster, room, count)]
    found += [
        {switch: count} for switch in sorted(room, key=lambda name: len(room[name])) if len(room[switch]) >= count
    ]
    for key in orders:
        order = sorted(room, key=key)
        found.append(filled_share(room, count, order))
        for racks in range(1, len(order)):  # the best fit among the first ones that are enough
            if sum(len(room[switch]) for switch in order[:racks]) >= count:
                found += [packed_share(cluster, room, count, order[:more]) for more in (racks, racks + 1)]
                break
    found.append(cheapest_shares(cluster, task, room))
    quick = _quickest(cluster, room, count)
    if quick is not None:
        found.append(packed_share(cluster, quick, count))
    unique: dict[tuple[tuple[str, int], ...], Share] = {}
    for share in found:
        if share is not None:
            unique.setdefault(tuple(sorted(share.items())), share)
    return list(unique.values())[:MOST]
