"""Placement policies: plug-ins that choose the hosts of a task."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from p4reduce.base.registry import Registry
from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.placement.cluster import Cluster, server_for
from p4reduce.control_plane.scheduling.task import Task


@dataclass(frozen=True)
class Placement:
    """Where a task goes: its hosts in rank order, that of its global model, and why."""

    workers: tuple[str, ...]
    server: str
    why: Mapping[str, Any] = field(default_factory=dict)

    def of(self, task: Task) -> Task:
        """The task with these hosts."""
        return replace(task, workers=self.workers, server=self.server, wanted=None)


class PlacementPolicy(Protocol):
    """Chooses hosts for the local models of a task, in rank order, and says why.

    Raises :class:`~p4reduce.control_plane.scheduling.policy.Rejection` when there is no room now. Must not change the
    cluster. The same task in the same cluster gives the same hosts.
    """

    def __call__(self, task: Task, cluster: Cluster) -> tuple[Sequence[str], Mapping[str, Any]]:
        """Choose."""


PLACEMENTS: Registry[PlacementPolicy] = Registry("placement", PlanError)
"""Every known policy by name; :func:`register_placement` and entry points of ``p4reduce.placements`` add to it."""

_P = TypeVar("_P", bound=Callable[..., Any])


def register_placement(name: str) -> Callable[[_P], _P]:
    """Decorator: make a placement policy known under ``name``."""

    def add(policy: _P) -> _P:
        PLACEMENTS.add(name, policy)
        return policy

    return add


def placement_named(name: str) -> PlacementPolicy:
    """The policy of that name; `PlanError` lists the known ones."""
    return PLACEMENTS.named(name)


def place(task: Task, cluster: Cluster, policy: str | PlacementPolicy) -> Placement:
    """Hosts for a task.

    Raises
    ------
    PlanError
        There is no room now, or the policy answered with hosts that the task cannot have.
    """
    room = {host for hosts in cluster.check(task).values() for host in hosts}
    chosen = placement_named(policy) if isinstance(policy, str) else policy
    workers, why = chosen(task, cluster)
    assert task.wanted is not None  # checked by the cluster  # noqa: S101
    if len(workers) != task.wanted.count or len(set(workers)) != len(workers) or not set(workers) <= room:
        raise PlanError(f"task {task.name}: placement {policy!r} answered with hosts that it cannot have")
    server = "" if cluster.rings else server_for(cluster, task, workers)
    racks: dict[str, int] = {}
    for host in workers:
        racks[cluster.racks.of[host]] = racks.get(cluster.racks.of[host], 0) + 1
    return Placement(tuple(workers), server, {"workers": list(workers), "server": server, "racks": racks, **why})
