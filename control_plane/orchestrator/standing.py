"""Services beside tasks that take turns: their paths stay within pods, or use circuits that all configurations keep.

The last ``OrchestratorOptions.service_ports`` uplinks of every switch are reserved for these circuits, and no schedule
uses them. The plans of running services tell which of them are in use, so a restarted orchestrator reads it from the
database.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.orchestrator.executor import ComputingManager, circuits_of
from p4reduce.control_plane.orchestrator.installer import Installer, Proposal
from p4reduce.control_plane.orchestrator.options import ENDED, PlanPhase, StoreError
from p4reduce.control_plane.placement import ClusterView, Placement, Racks
from p4reduce.control_plane.placement.services import check_objective, paths_within
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.view import NetworkState
from p4reduce.topologies import Link, Topology
from p4reduce.topologies.model import Hop
from p4reduce.topologies.optical import LitTopology, uplinks, view

_LIVE: Final = (PlanPhase.INSTALLING, PlanPhase.INSTALLED, PlanPhase.ACTIVE)


class Standing:
    """Chooses the hosts and paths of inference tasks that run beside tasks in turns.

    Parameters
    ----------
    installer : Installer
        Plans and installs the paths.
    ports : int
        Number of ports that every switch has to cross-connects.

    Raises
    ------
    PlanError
        ``OrchestratorOptions.service_ports`` is negative, or leaves no port for turns.
    StoreError
        The database was made with another number of ports for services.
    """

    def __init__(self, installer: Installer, ports: int) -> None:
        self._installer, self._store = installer, installer.store
        self._topology = installer.controller.topology
        self._lanes = installer.controller.program.lanes
        count = installer.options.service_ports
        if not 0 <= count < ports:
            raise PlanError(f"service_ports: {count} of {ports}: tasks take turns on the others; keep 0..{ports - 1}")
        if (known := self._store.fact("service ports") or str(count)) != str(count):
            raise StoreError(
                f"{self._store.path}: its schedules leave {known} ports for services; give --service-ports {known}"
            )
        self._store.set_fact("service ports", str(count))
        self._kept = {name: own[len(own) - count :] for name, own in uplinks(self._topology).items()}
        """links to cross-connects that are reserved for services, by switch"""
        self._home = {host.name: self._topology.neighbours(host.name)[0] for host in self._topology.hosts}
        self._racks = Racks(self._topology)

    @property
    def for_turns(self) -> Topology:
        """The topology that schedules may use: without the ports that are reserved for services."""
        kept = {link for own in self._kept.values() for link in own}
        ends = {(link.a, link.port_a) for link in kept}
        links = tuple(
            link
            for link in self._topology.links
            if (link.a, link.port_a) not in ends and (link.b, link.port_b) not in ends
        )
        return LitTopology(self._topology.name, self._topology.nodes, links) if kept else self._topology

    def _rows(self) -> list[Any]:
        """The plans of all running services."""
        tasks = {row.name for row in self._store.tasks() if row.task.serving is not None and row.state not in ENDED}
        return [row for row in self._store.plans(_LIVE) if row.task in tasks]

    def _circuits(self) -> tuple[Link, ...]:
        """The circuits of all running services."""
        return tuple(
            dict.fromkeys(circuit for row in self._rows() for circuit in circuits_of(self._installer.plan_of(row)))
        )

    # --- admission and placement

    def fault(self, task: Task) -> str:
        """Reason why a service can never run here; '' if it may."""
        pods = {self._home[host] for host in (*task.workers, *([task.server] if task.server else []))}
        if len(pods) > 1 and not any(self._kept.values()):
            return (
                f"service_ports: {' and '.join(sorted(pods)[:2])} are joined in turns only; keep ports for services "
                "(--service-ports 1), or name hosts of one pod"
            )
        empty = ClusterView(self._racks, NetworkState(self._topology), slots={}, free={})
        try:
            self._choose(task, (), {}, set())
        except PlanError as error:
            return str(error)
        return check_objective(task, empty, self._lanes)

    def serve(self, task: Task, computing: ComputingManager) -> Placement:
        """Choose the server's host with the fewest new circuits, then the shortest paths; `PlanError`: none fits."""
        down = {node for node, _ in self._installer.executor.links_down()}
        server, why = self._choose(task, self._circuits(), computing.serving, down)
        return Placement(task.workers, server, why)

    def _choose(
        self, task: Task, circuits: Sequence[Link], serving: Mapping[str, int], down: Collection[str]
    ) -> tuple[str, dict[str, Any]]:
        hosts = [task.server] if task.server else [host for host in self._home if host not in {*task.workers, *down}]
        ways: dict[str, tuple[int, int] | None] = {}
        best: tuple[tuple[int, int, int, int], str] | None = None
        for place, host in enumerate(hosts):
            pod = self._home[host]
            if pod not in ways:
                ways[pod] = self._cost(task, pod, circuits)
            if (cost := ways[pod]) is not None:
                option = (*cost, serving.get(host, 0), place), host
                best = option if best is None else min(best, option)
        if best is None:
            raise PlanError(
                f"task {task.name}: service_ports: no ports that are kept for services are left to join its pods"
            )
        return best[1], {"server": best[1], "candidates": len(hosts), "new_circuits": best[0][0]}

    def _cost(self, task: Task, pod: str, circuits: Sequence[Link]) -> tuple[int, int] | None:
        """(New circuits, circuits on all paths to clients) of a server in ``pod``; None if a client is out of reach."""
        new = self._join(pod, [self._home[client] for client in task.workers], circuits)
        if new is None:
            return None
        away = _away(pod, (*circuits, *new))
        return len(new), sum(away[self._home[client]] for client in task.workers)

    def _join(self, pod: str, ends: Iterable[str], circuits: Sequence[Link]) -> list[Link] | None:
        """Circuits to add so that ``pod`` reaches all ``ends`` over as few hops as ports allow; None if impossible."""
        free = {name: list(own) for name, own in self._kept.items()}
        for link in circuits:
            for name, port in ((link.a, link.port_a), (link.b, link.port_b)):
                free[name] = [fibre for fibre in free[name] if fibre.port_a != port]
        new: list[Link] = []
        for end in dict.fromkeys(ends):
            near = _away(pod, (*circuits, *new))
            if end in near:
                continue
            far = _away(end, (*circuits, *new))
            pairs = [
                (near[a] + far[b], a, b, fibre, other)
                for a in near
                for b in far
                for fibre in free[a]
                for other in free[b]
                if fibre.b == other.b
            ]
            if not pairs:
                return None
            _, a, b, fibre, other = min(pairs, key=lambda pair: pair[:3])
            rate, delay_ps = min(fibre.rate_bps, other.rate_bps), fibre.delay_ps + other.delay_ps
            new.append(Link(a, fibre.port_a, b, other.port_a, rate, delay_ps))
            free[a].remove(fibre)
            free[b].remove(other)
        return new

    # --- plans

    def propose(self, task: Task) -> list[Proposal]:
        """Plan the paths from a server to its clients; `PlanError`: there are none now, and nothing is taken."""
        circuits = self._circuits()
        new = self._join(self._home[task.server], [self._home[client] for client in task.workers], circuits)
        if new is None:
            raise PlanError(f"task {task.name}: service_ports: no ports that are kept for services are left")
        lit = view(self._topology, (*circuits, *new))
        state = NetworkState(lit, down=self._down((*circuits, *new)))
        for row in self._rows():
            state.reserve(row.demand_bps)
        return self._installer.propose_for(paths_within(task, state, self._lanes), view=lit)

    def _down(self, circuits: Iterable[Link]) -> set[Hop]:
        """Directed links that are down, and both directions of every circuit with such a link."""
        down = set(self._installer.executor.links_down())
        for link in circuits:
            ends = {(link.a, link.port_a), (link.b, link.port_b)}
            if ends & down:
                down |= ends
        return down


def _away(start: str, circuits: Iterable[Link]) -> dict[str, int]:
    """Distance in circuits from ``start`` to every pod that can be reached."""
    beside: dict[str, list[str]] = {}
    for link in circuits:
        beside.setdefault(link.a, []).append(link.b)
        beside.setdefault(link.b, []).append(link.a)
    away, left = {start: 0}, [start]
    while left:
        at = left.pop(0)
        for other in beside.get(at, ()):
            if other not in away:
                away[other] = away[at] + 1
                left.append(other)
    return away
