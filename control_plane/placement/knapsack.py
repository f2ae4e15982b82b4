"""Shares of racks by a dynamic programme over racks and workers, as NetPack places tasks."""

from collections.abc import Mapping, Sequence
from math import inf

from p4reduce.control_plane.placement.cluster import Cluster, asked
from p4reduce.control_plane.scheduling.task import Task

_CROSSING = 1.0
"""cost of a rack more in whole models on an idle uplink"""


def cheapest_shares(cluster: Cluster, task: Task, room: Mapping[str, Sequence[str]]) -> dict[str, int] | None:
    """How many workers of each rack cost least; None when they are too few.

    best[w] is the least cost of w workers in the racks so far, and each rack adds cost(rack, w): what its part sends
    up takes copies / residual of its best uplink, 1 copy where its switch aggregates, else w; a part that is all of
    the task sends nothing up but, without aggregation, its own copies. Time: racks * workers * hosts of a rack.
    After Li et al., 'NetPack', ASPLOS 2024, whose programme also chooses parameter servers.
    """
    count, capacity = asked(task).count, cluster.capacity_bps
    bits = 32.0 * task.elements
    best: list[float] = [0.0] + [inf] * count
    taken: list[list[int]] = []
    for switch, hosts in room.items():
        uplinks = cluster.racks.uplinks[switch]
        seconds = min((bits / capacity[link] * cluster.crowd(link) for link in uplinks), default=inf)
        alone = bits / cluster.racks.rate_bps[cluster.racks.uplink(hosts[0])]
        able = switch in cluster.able
        now, row = list(best), [0] * (count + 1)
        for total in range(1, count + 1):
            for own in range(1, min(total, len(hosts)) + 1):
                copies = 1 if able else own
                inside = own == count and able
                crossing = 0.0 if inside else max(alone * _CROSSING, copies * seconds)
                left_over = (len(hosts) - own) * alone * 1e-3  # best fit among equals
                cost = best[total - own] + crossing + left_over
                if cost < now[total]:
                    now[total], row[total] = cost, own
        best = now
        taken.append(row)
    if best[count] == inf:
        return None
    share: dict[str, int] = {}
    for switch, row in zip(reversed(list(room)), reversed(taken), strict=True):
        if row[count]:
            share[switch] = row[count]
            count -= row[count]
    return share
