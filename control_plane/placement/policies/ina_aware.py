"""`ina-aware`: the hosts under which all tasks together are predicted to lose least time."""

from collections.abc import Mapping, Sequence
from typing import Any

from p4reduce.base.units import PS_PER_S
from p4reduce.control_plane.placement.candidates import Share, hosts_of, shares
from p4reduce.control_plane.placement.cluster import Cluster, asked, server_for
from p4reduce.control_plane.placement.policy import register_placement
from p4reduce.control_plane.scheduling.policy import Rejection
from p4reduce.control_plane.scheduling.task import Task

LOOKED_AHEAD = 4
"""ends of other tasks that are waited for, at most"""
WORTH_WAITING = 0.7
"""of the time now: others may take what becomes free"""
EQUAL = 0.005
"""predicted costs that differ by less are the same: the prediction is no better"""


@register_placement("ina-aware")
def ina_aware(task: Task, cluster: Cluster) -> tuple[Sequence[str], Mapping[str, Any]]:
    """Compare candidates by time: its own, until it ends, and what it costs all tasks that it touches until they end.

    Predicted are iteration times under the slots that switches have left, what background traffic leaves of links, the
    tasks that run, slow hosts, and the reading of shards that lie elsewhere. Among equal ones that which leaves others
    the better racks, then that which breaks up the fewest, then packed's.
    """
    room = cluster.check(task)
    options = shares(cluster, task, room)
    found = [cost_of(task, cluster, hosts_of(cluster, task, room, share)) for share in options]
    _wait(task, cluster, min(total for total, _ in found))
    least = min(total for total, _ in found)
    best = min(
        (place for place, (total, _) in enumerate(found) if total <= least * (1 + EQUAL)),
        key=lambda place: (worth(cluster, options[place]), broken(room, options[place]), len(options[place]), place),
    )
    why = {"candidates": len(options), "cost_s": found[best][0], "packed_cost_s": found[0][0], **found[best][1]}
    return hosts_of(cluster, task, room, options[best]), why


def _wait(task: Task, cluster: Cluster, now_s: float) -> None:
    """Raise `Rejection` where the task is predicted to end much sooner if it waits for one of the next ends."""
    if now_s * WORTH_WAITING <= _least_s(task, cluster):
        return
    gone: list[str] = []
    for end_s, name in cluster.ends()[:LOOKED_AHEAD]:
        gone.append(name)
        if end_s >= now_s * WORTH_WAITING:
            return
        later = cluster.without(gone)
        room = later.room(task.slots)
        costs = (cost_of(task, later, hosts_of(later, task, room, share))[0] for share in shares(later, task, room))
        cost_s = min(costs)
        if end_s + cost_s < now_s * WORTH_WAITING:
            raise Rejection(
                f"task {task.name}: it waits for {name}: on its hosts it is predicted to end in "
                f"{end_s + cost_s:.3g} s, now in {now_s:.3g} s"
            )


def _least_s(task: Task, cluster: Cluster) -> float:
    """Seconds that it takes wherever it goes: computing at a usual host, and a model on the fastest link."""
    sending = 32.0 * task.elements / float(cluster.racks.rate_bps.max())
    return task.rounds * (task.training_ps / PS_PER_S * min(1.0, *cluster.slowdown.values(), 1.0) + sending)


def cost_of(task: Task, cluster: Cluster, hosts: Sequence[str]) -> tuple[float, dict[str, Any]]:
    """Predicted seconds until the task ends there, with what others lose, and what they consist of."""
    server = "" if cluster.rings else server_for(cluster, task, hosts)
    iteration, others = cluster.seconds(cluster.load(task, hosts, server))
    reading = cluster.read_seconds(asked(task), hosts)
    total = task.rounds * iteration + reading + max(others, 0.0)
    return max(total, 1 / PS_PER_S), {"iteration_s": iteration, "others_s": others, "reading_s": reading}


def worth(cluster: Cluster, share: Share) -> float:
    """What the hosts are worth to others: those of racks that aggregate, and whose uplinks are free, to the most."""
    return round(sum(own * rack_worth(cluster, switch) for switch, own in share.items()) / sum(share.values()), 2)


def rack_worth(cluster: Cluster, switch: str) -> float:
    """0 to 2: whether the switch of a rack aggregates, and the share of its uplinks that background leaves."""
    links = cluster.racks.uplinks[switch]
    left = (
        sum(cluster.capacity_bps[link] for link in links) / sum(cluster.racks.rate_bps[link] for link in links)
        if links
        else 1.0
    )
    return float(left) + (switch in cluster.racks.capable)


def broken(room: Mapping[str, Sequence[str]], share: Share) -> int:
    """Hosts that are left in racks that the task takes a part of: large tasks will miss them."""
    return sum(len(room[switch]) - own for switch, own in share.items())
