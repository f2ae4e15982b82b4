"""Placement of tasks that infer: the server and the paths whose traffic delays training tasks least."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import numpy as np

from p4reduce.control_plane.placement.cluster import FULL, ClusterView, RackTree, iteration_times
from p4reduce.control_plane.plans.problem import StarLayout
from p4reduce.control_plane.plans.routes import chunks, frame_bytes, frame_time_ps
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.view import (
    NetworkState,
    Rejection,
    TreeDecision,
    View,
    decision_of,
    policy_named,
)

FIRST: Final = 7
"""class of requests and answers: above all training traffic"""
ALIKE: Final = 1e-3
"""difference of predicted training losses that counts as equal"""


def server_of(task: Task, cluster: ClusterView, lanes: int) -> tuple[str, Mapping[str, Any]]:
    """Choose the host for the server of a task that infers, and give reasons.

    Takes the host, with free slots and without a client of the task, for which the largest predicted loss of a training
    job is least; :func:`iteration_times` predicts it with the links' rates reduced by the answers. Among equals, the
    host with the lowest latency is taken, then the first in the topology.

    Parameters
    ----------
    task : Task
        A task that infers; if it names its server, the answer is that host.
    cluster : ClusterView
        The present state of the cluster.
    lanes : int
        Numbers in a frame.

    Raises
    ------
    Rejection
        No host is free, or none reaches its clients.
    """
    if task.server:
        impact = _weigh(task, cluster, task.server, lanes)
        return task.server, {} if impact is None else {"training_loss": impact[0], "alone_ps": impact[1]}
    down = {node for node, _ in cluster.network.down}
    free = [
        host.name
        for host in cluster.racks.topology.hosts
        if host.name not in task.workers
        and host.name not in down
        and cluster.free.get(host.name, task.slots) >= task.slots
    ]
    weighed = {host: impact for host in free if (impact := _weigh(task, cluster, host, lanes)) is not None}
    if not weighed:
        raise Rejection(f"task {task.name}: server: no host with {task.slots} free slots reaches its clients")
    least = min(loss for loss, _ in weighed.values())
    best = min(
        (host for host, (loss, _) in weighed.items() if loss <= least + ALIKE),
        key=lambda host: (weighed[host][1], cluster.racks.topology.node(host).index),
    )
    loss, alone_ps = weighed[best]
    return best, {"server": best, "candidates": len(weighed), "training_loss": loss, "alone_ps": alone_ps}


def paths_of(task: Task, cluster: ClusterView, lanes: int) -> list[TreeDecision]:
    """A path for each client of a task that infers: the shortest path with the least traffic (:func:`_quiet`).

    If every shortest path has a link that is down, the shortest remaining path is taken. Frames are in class `FIRST` if
    the task has no class. `PlanError` names a link that has too little rate left.
    """
    task = replace(task, priority=FIRST if task.priority is None else task.priority)
    state = replace(cluster.network, reserved_bps=dict(cluster.network.reserved_bps))
    taken: Counter[int] = Counter()
    decisions = []
    for client in task.workers:
        own, path = replace(task, workers=(client,)), _quiet(cluster, client, task.server, taken)
        if path is None:
            decision = policy_named("spff")(own, state, lanes=lanes)
        else:
            view = View(own, state, lanes)
            layout = StarLayout({(client, task.server): path, (task.server, client): path[::-1]})
            decision = decision_of("spff", view, layout, layout)
            for (node, port), bps in decision.demand_bps.items():
                view.check_link(node, state.topology.neighbour(node, port), bps)
            taken.update(dict.fromkeys(_links(cluster, path), task.reserved_bps))
        state.reserve(decision.demand_bps)
        decisions.append(decision)
    return decisions


def paths_within(task: Task, state: NetworkState, lanes: int) -> list[TreeDecision]:
    """The shortest path for each client in a part of a network; class and errors as in `paths_of`.

    state: the part of the network; the demands of the paths are reserved in it.
    """
    task, decisions = replace(task, priority=FIRST if task.priority is None else task.priority), []
    for client in task.workers:
        decisions.append(policy_named("spff")(replace(task, workers=(client,)), state, lanes=lanes))
        state.reserve(decisions[-1].demand_bps)
    return decisions


def _quiet(cluster: ClusterView, client: str, server: str, taken: Mapping[int, int]) -> tuple[str, ...] | None:
    """The shortest path whose fullest link is least loaded; None if each shortest path has a link that is down.

    The load of a link is the number of training jobs on it, each weighted by its share of time in communication, plus
    the share of the rate that other clients take (``taken``).
    """
    racks, topology, best = cluster.racks, cluster.racks.topology, None
    for way in racks.ways({racks.of[client], racks.of[server]}):
        path = (client, *_between(way, racks.of[client], racks.of[server]), server)
        if any((node, topology.port(node, after)) in cluster.network.down for node, after in pairwise(path)):
            continue
        full = max(
            cluster.crowd(link) + taken.get(link, 0) / cluster.capacity_bps[link] for link in _links(cluster, path)
        )
        if best is None or full < best[0]:
            best = full, path
    return None if best is None else best[1]


def _between(way: RackTree, a: str, b: str) -> tuple[str, ...]:
    """Switches on a way from switch ``a`` of a rack to switch ``b`` of another, both included."""
    ups = []
    for at in (a, b):
        up = [at]
        while up[-1] != way.root:
            up.append(way.parent[up[-1]])
        ups.append(up)
    up_a, up_b = ups
    meets = next(switch for switch in up_a if switch in up_b)
    return (*up_a[: up_a.index(meets) + 1], *up_b[: up_b.index(meets)][::-1])


def _links(cluster: ClusterView, path: Sequence[str]) -> list[int]:
    return [cluster.racks.link(*pair) for pair in pairwise(path)]


def least_latency_ps(task: Task, cluster: ClusterView, host: str, lanes: int) -> int | None:
    """Latency in ps of the farthest client of a server at ``host``, without other tasks; None if one is unreachable."""
    impact = _weigh(task, replace(cluster, running={}), host, lanes)
    return None if impact is None else impact[1]


def _weigh(task: Task, cluster: ClusterView, host: str, lanes: int) -> tuple[float, int] | None:
    """(Largest share of its iteration that a job loses, latency of the farthest client in ps); None without a path."""
    racks, topology = cluster.racks, cluster.racks.topology
    taken: Counter[int] = Counter()
    latency_ps = 0
    for client in task.workers:
        path = _quiet(cluster, client, host, taken)
        if path is None:
            return None
        links = _links(cluster, path)
        taken.update(dict.fromkeys(links, task.reserved_bps))
        length, count = frame_bytes(lanes), chunks(task.elements, lanes)
        times = [frame_time_ps(length, round(racks.rate_bps[link])) for link in links]
        delays = sum(topology.links[link].delay_ps for link in links)
        latency_ps = max(latency_ps, 2 * delays + sum(times) + (count - 1) * max(times))
    before = cluster.capacity_bps
    after = before.copy()
    for link, bps in taken.items():
        after[link] = max(after[link] - bps, FULL * racks.rate_bps[link])
    loads = list(cluster.running.values())
    lost = iteration_times(loads, after) / iteration_times(loads, before) - 1.0 if loads else np.zeros(1)
    return float(max(0.0, lost.max())), latency_ps + task.training_ps


def check_objective(task: Task, cluster: ClusterView, lanes: int) -> str:
    """Reason why a task's objective can never be met; '' if it may be."""
    if task.serving is None or task.serving.objective_ps is None:
        return ""
    hosts = [task.server] if task.server else [host.name for host in cluster.racks.topology.hosts]
    hosts = [host for host in hosts if host not in task.workers]
    known = [latency_ps for host in hosts if (latency_ps := least_latency_ps(task, cluster, host, lanes)) is not None]
    if known and min(known) > task.serving.objective_ps:
        return (
            f"objective: {task.serving.objective_ps} ps is less than the {min(known)} ps that an answer takes where "
            "nothing else is sent: allow more, or ask for fewer elements"
        )
    return ""
