"""Hosts for tasks that name none: the cluster as a placement policy sees it, from what the orchestrator knows."""

from collections.abc import Mapping
from dataclasses import replace

from p4reduce.control_plane.orchestrator.computing import ComputingManager
from p4reduce.control_plane.orchestrator.executor import Role
from p4reduce.control_plane.orchestrator.kinds import training_s
from p4reduce.control_plane.orchestrator.tradeoff import round_traffic
from p4reduce.control_plane.placement import Cluster, Load, Placement, Racks, place, placement_named
from p4reduce.control_plane.plans import Plan
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

    def begin(self, task: Task, plans: Mapping[Role, Plan], rounds: int) -> None:
        """A task runs at its hosts, however these were chosen, with these plans; so many rounds are left."""
        self._hosts[task.name] = dict.fromkeys(task.workers, task.slots)
        self._loads[task.name] = self._load(task, plans, rounds)

    def _load(self, task: Task, plans: Mapping[Role, Plan], rounds: int) -> Load:
        """What a round puts on links, by the bytes that its plans are predicted to send."""
        bits: dict[int, float] = {}
        for role, plan in plans.items():
            own: dict[int, float] = {}
            for (node, port), sent in round_traffic(task, role, plan).items():
                link = self._racks.link(node, self._racks.topology.neighbour(node, port))
                own[link] = max(own.get(link, 0.0), 8.0 * sent.bytes)
            for link, much in own.items():
                bits[link] = bits.get(link, 0.0) + much
        slots = tuple(dict.fromkeys(switch for plan in plans.values() for switch in plan.by_switch))
        return Load(training_s(task, self._computing.slowdowns()), bits, slots, float(rounds))

    def round_done(self, task: Task, number: int) -> None:
        """A round of a task has ended, from 0: it has so many left."""
        load = self._loads.get(task.name)
        if load is not None:
            self._loads[task.name] = replace(load, rounds=float(max(0, task.rounds - number - 1)))

    def another(self, task: Task, state: NetworkState) -> tuple[Placement, Cluster]:
        """Hosts for a task that runs, as if it came now, and the cluster without it; `PlanError` when there are none.

        ``task`` wants hosts; ``state`` is the network without what it reserves.
        """
        cluster = self._cluster(state).without([task.name])
        return place(task, cluster, self._policy), cluster

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
