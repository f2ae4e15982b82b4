"""Hosts for tasks that name none: the cluster as a placement policy sees it, from what the orchestrator knows."""

from collections.abc import Iterable
from dataclasses import replace

from p4reduce.control_plane.orchestrator.computing import ComputingManager
from p4reduce.control_plane.placement import Cluster, Load, Placement, Racks, place, placement_named
from p4reduce.control_plane.scheduling.policy import Rejection
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.topologies import Topology


class Placer:
    """Chooses hosts; the same task in the same cluster gets the same ones.

    It keeps what running tasks are predicted to put on links, so what a choice costs depends on the cluster and not on
    how many tasks there ever were.
    """

    def __init__(self, topology: Topology, computing: ComputingManager, policy: str) -> None:
        """`PlanError` for a policy that is not known."""
        placement_named(policy)
        self._racks = Racks(topology)
        self._computing = computing
        self._policy = policy
        self._loads: dict[str, Load] = {}
        self._hosts: dict[str, dict[str, int]] = {}

    def fault(self, task: Task) -> str:
        """Why no choice will ever be possible; empty where one may be."""
        return "" if task.wanted is None else self._cluster(NetworkState(self._racks.topology)).fault(task)

    def choose(self, task: Task, state: NetworkState) -> Placement:
        """Hosts for a task now; `PlanError` when there are none."""
        found = place(task, self._cluster(state), self._policy)
        return Placement(found.workers, found.server, {"placement": self._policy, **found.why})

    def begin(self, task: Task, state: NetworkState) -> None:
        """A task runs at its hosts, however these were chosen."""
        self._hosts[task.name] = dict.fromkeys(task.workers, task.slots)
        try:
            self._loads[task.name] = self._cluster(state).load(task, task.workers, task.server)
        except Rejection:  # links are down: it has no way now, so nothing is known
            self._loads.pop(task.name, None)

    def round_done(self, task: Task, number: int) -> None:
        """A round of a task has ended, from 0: it has so many left."""
        load = self._loads.get(task.name)
        if load is not None:
            self._loads[task.name] = replace(load, rounds=float(max(0, task.rounds - number - 1)))

    def adopt(self, tasks: Iterable[Task], state: NetworkState) -> None:
        """Tasks that run already."""
        for task in tasks:
            self.begin(task, state)

    def end(self, name: str) -> None:
        """A task has ended; nothing where it is not known."""
        self._loads.pop(name, None)
        self._hosts.pop(name, None)

    def _cluster(self, state: NetworkState) -> Cluster:
        computing = self._computing
        return Cluster(
            self._racks,
            state,
            slots=computing.slots(),
            free=computing.free_slots(),
            slowdown=computing.slowdowns(),
            running=self._loads,
            hosts=self._hosts,
            serving=computing.serving,
        )
