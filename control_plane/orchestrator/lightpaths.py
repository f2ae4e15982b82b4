"""Tasks over lightpaths: their slots, and their recovery after a restart of the orchestrator.

The slots and lightpaths of a task are stored with the decision to schedule it. The executor lights the circuits in the
plans of running tasks, and no others; lightpaths that stay keep their ports, and never go dark.
"""

from collections.abc import Callable, Iterable
from dataclasses import astuple, replace
from typing import Any, Final

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.optical.plan import Lightpath, OpticalError, check_tasks, slots_of
from p4reduce.control_plane.optical.policies import FLOWS, SEARCHES, Granted, Grooming
from p4reduce.control_plane.orchestrator.executor import ComputingManager
from p4reduce.control_plane.orchestrator.installer import Installer, Proposal
from p4reduce.control_plane.orchestrator.options import StoreError
from p4reduce.control_plane.placement import ClusterView, Placement, Racks
from p4reduce.control_plane.placement.services import check_objective, paths_within, server_of
from p4reduce.control_plane.plans.problem import power_of_two
from p4reduce.control_plane.plans.routes import HEADER_BYTES, chunks, frame_time_ps
from p4reduce.control_plane.scheduling.task import MAX_BPS, Task
from p4reduce.control_plane.scheduling.view import NetworkState, TreeDecision
from p4reduce.topologies import Link
from p4reduce.topologies.wdm import Wdm
from p4switch.base.values import one_line

_WORD: Final = 4
"""bytes of a number"""


class Lightpaths:
    """Grooms tasks one by one, as they begin and end.

    Parameters
    ----------
    installer : Installer
        Writes to switches.
    network : Wdm
        The network; the controller's topology is its physical topology.
    policy : str
        A policy that aggregates on the way, and handles one task at a time.

    Raises
    ------
    OpticalError
        The policy is of another kind, or the switches belong to another network.
    StoreError
        The database belongs to another network.
    """

    def __init__(self, installer: Installer, network: Wdm, policy: str) -> None:
        base = network.base
        if policy in (*FLOWS, *SEARCHES, "exact"):
            raise OpticalError(
                f"grooming: {policy}: tasks come one by one and are summed; take groom-agg or opaque-agg"
            )
        self._installer, self._store, self._network, self._policy = installer, installer.store, network, policy
        self._physical = installer.controller.topology
        if {switch.name for switch in self._physical.switches} != set(network.nodes):
            raise OpticalError(
                f"topology {self._physical.name!r} is not that of the wavelengths; give its own -t wdm:…"
            )
        here = f"{network.wavelengths} of {network.rate_bps} bit/s in {network.slots} slots"
        if (known := self._store.fact("wavelengths") or here) != here:
            raise StoreError(f"{self._store.path}: its tasks have wavelengths, {known}; give its own -t wdm:…")
        self._store.set_fact("wavelengths", here)
        self._grooming = Grooming(network)
        rates = tuple(
            replace(link, rate_bps=network.rate_bps) if link in network.fibres else link for link in base.links
        )
        self._cluster = ClusterView(Racks(replace(base, links=rates)), NetworkState(base), slots={}, free={})
        self._granted: dict[str, Granted] = {}
        self._links: dict[int, Link] = {}
        """circuits of lightpaths, by number"""

    def fault(self, task: Task) -> str:
        """Reason why a task can never run here; '' if it may."""
        if task.exchange is not None:
            return f"kind: {task.exchange}: over lightpaths models are summed in trees; leave it out"
        if task.on_failure == "shrink":
            return "on_failure: over lightpaths no task goes on with fewer workers; take 'abort' or 'raise'"
        free = [host.name for host in self._network.base.hosts if host.name not in task.workers]
        if task.serving is not None and not free:
            return "server: all hosts are clients; leave one out"
        try:
            check_tasks([replace(_carried(task), server=task.server or free[0])], self._network)
        except OpticalError as error:
            return str(error)
        return check_objective(task, self._cluster, self._installer.controller.program.lanes)

    def serve(self, task: Task, computing: ComputingManager) -> Placement:
        """Choose the server's host of a service, as near to its clients as possible; `PlanError` when there is none.

        A service has reserved slots of lightpaths, so it takes no bandwidth from training at any host.
        """
        cluster = replace(self._cluster, slots=computing.slots(), free=computing.free_slots())
        server, why = server_of(task, cluster, self._installer.controller.program.lanes)
        return Placement(task.workers, server, why)

    def propose(self, task: Task) -> list[Proposal]:
        """Plan a tree over lightpaths and take its slots; `PlanError`: too few are free now, and nothing is taken.

        The clients of a service share slots whose rate is enough for the answers to all of them.
        """
        infers, task = task, _carried(task)
        granted = self._grooming.admit(self._policy, task)
        if granted is None:
            raise PlanError(
                f"task {task.name}: no tree of lightpaths: {slots_of(task, self._network)} slots of lightpaths, "
                "wavelengths or transponders are not free"
            )
        self._granted[task.name] = granted
        try:
            lights = self._grooming.groomer.lights
            made = self._grooming.finished(self._policy, [task], [granted], lights)
            kept = {place: self._links[number] for place, number in enumerate(lights.lit) if number in self._links}
            circuits = self._network.circuits(self._physical, [lightpath.path for lightpath in made.lightpaths], kept)
            self._links = dict(zip(lights.lit, circuits, strict=True))
            own = [circuits[use.lightpath] for use in made.uses[0]]
            rate = slots_of(task, self._network) * self._network.rate_bps // self._network.slots
            lanes = self._installer.controller.program.lanes
            view, pace_ps = self._network.lit(self._physical, own), frame_time_ps(HEADER_BYTES + _WORD * lanes, rate)
            if task.serving is not None:
                paths = paths_within(infers, NetworkState(view), lanes)
                return self._installer.propose_for(paths, view=view, pace_ps=pace_ps)
            layout, most = made.layout(0), power_of_two(2 * chunks(task.elements, lanes))
            decision = TreeDecision(self._policy, task, layout, layout, max_slots=most)
            return self._installer.propose(decision, view, pace_ps=pace_ps)
        except BaseException:
            self.end(task.name)
            raise

    def of(self, name: str) -> list[dict[str, Any]]:
        """The lightpaths of a task as plain data: path, spectrum, slots as bits, and the circuit at ports."""
        lit = self._grooming.groomer.lights.lit
        lightpaths = []
        for number, mask in (self._granted.get(name) or {}).get("", ()):
            lightpath = self._grooming.fibres.lightpath(lit[number])
            circuit = list(astuple(self._links[number]))
            lightpaths.append(
                {"path": list(lightpath.path), "first": lightpath.first, "slots": mask, "circuit": circuit}
            )
        return lightpaths

    def end(self, name: str) -> None:
        """Free the slots of an ended task, and lightpaths that no other task uses."""
        self._grooming.release(self._granted.pop(name, None))
        lit = self._grooming.groomer.lights.lit
        self._links = {number: link for number, link in self._links.items() if number in lit}

    def recover(self, names: Iterable[str], fail: Callable[[str, str], None]) -> None:
        """Restore the lightpaths of these tasks from the database; fail those whose lightpaths cannot be read."""
        for name in names:
            try:
                reasons = [
                    decision["why"]
                    for decision in self._store.history.decisions(name)
                    if decision["what"] == "schedule"
                ]
                self._granted[name] = {"": tuple(self._again(lightpath) for lightpath in reasons[-1]["lightpaths"])}
            except (LookupError, TypeError, ValueError) as error:
                fail(name, f"its lightpaths in the database cannot be used: {type(error).__name__}: {one_line(error)}")

    def _again(self, told: dict[str, Any]) -> tuple[int, int]:
        groomer, link = self._grooming.groomer, Link(*told["circuit"])
        known = [number for number, other in self._links.items() if other == link]
        if not known:
            known = [groomer.light(self._grooming.fibres.lit(Lightpath(tuple(told["path"]), int(told["first"]))))]
            self._links[known[0]] = link
        groomer.lights.taken[known[0]] |= int(told["slots"])
        return known[0], int(told["slots"])


def _carried(task: Task) -> Task:
    """The task with the demand that its slots must carry: for a service, the answers to all of its clients."""
    if task.serving is None:
        return task
    return replace(task, demand_bps=min(MAX_BPS, task.reserved_bps * len(task.workers)))
