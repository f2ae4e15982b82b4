"""The schedule that holds: its tasks, where its circuits are, and the network in the windows of tasks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from p4reduce.control_plane.orchestrator.installer import Installer, Proposal
from p4reduce.control_plane.orchestrator.joining import Laid, configuration_of, without
from p4reduce.control_plane.orchestrator.optical_network import job_of
from p4reduce.control_plane.orchestrator.states import AT_WORK, Phase
from p4reduce.control_plane.orchestrator.timetable import TurnWindow
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.schedule import Schedule
from p4reduce.topologies import Link
from p4reduce.topologies.model import Hop
from p4reduce.topologies.optical import view

Demands = Iterable[Mapping[Hop, int]]
See = Callable[[Demands], NetworkState]
"""What policies may use of the network, given what tasks reserve."""


class Holding:
    """Reads it from the database."""

    def __init__(self, installer: Installer, see: See) -> None:
        self._store, self._see = installer.store, see
        self._topology = installer.controller.topology

    @property
    def changing(self) -> bool:
        """Whether a schedule is on its way."""
        return self._store.schedules.open() is not None

    def number(self) -> int:
        """Of the newest schedule, which a task that begins belongs to."""
        row = self._store.schedules.open() or self._store.schedules.active()
        return 0 if row is None else row.number

    def present(self) -> tuple[Schedule | None, list[TdmJob], Laid]:
        """What the tasks that run have of the schedule that holds, and where its circuits are.

        `TdmError` where tasks run and the database has no schedule of them that can be read.
        """
        running = {row.name: row.task for row in self._store.tasks(AT_WORK)}
        if not running:
            return None, [], {}
        row = self._store.schedules.active()
        if row is None or row.schedule is None:
            why = "there is none" if row is None else row.fault
            raise TdmError(f"the schedule of the running tasks cannot be read ({why}); nobody joins before their end")
        schedule = row.schedule
        ended = frozenset(plan.job for plan in schedule.jobs) - set(running)
        laid: Laid = {}
        for window in self.windows(row.number):
            plan = schedule.plan(window.tasks[0])
            laid[schedule.processes[plan.process].configurations[configuration_of(plan)].circuits] = window.circuits
        left, _ = without(schedule, [], ended)
        return left, [job_of(running[plan.job]) for plan in left.jobs], laid

    def state(
        self,
        name: str | None,
        windows: Sequence[TurnWindow] | None = None,
        planned: Mapping[str, Sequence[Proposal]] = MappingProxyType({}),
    ) -> NetworkState:
        """The network in the configuration of a task, without what it reserves; None: of nobody's, and nobody's.

        Tasks of other windows communicate at other times: what they reserve is not in the way. ``planned`` are trees
        that tasks are about to get.
        """
        if name is None:
            return self._see(())
        if windows is None:
            windows = self.windows(self.number())
        window = next((one for one in windows if name in one.tasks), None)
        beside = set() if window is None else set(window.tasks) - {name}
        live = (Phase.INSTALLING, Phase.INSTALLED, Phase.ACTIVE)
        demands = [row.demand_bps for row in self._store.plans(live) if row.task in beside - planned.keys()]
        demands += [one.demand_bps for task, own in planned.items() if task in beside for one in own]
        return self._within(() if window is None else window.circuits, self._see(demands))

    def windows(self, number: int) -> tuple[TurnWindow, ...]:
        """The windows of a schedule; none where the database cannot be read."""
        try:
            return self._store.schedules.windows(number)
        except (ValueError, TypeError, KeyError, RecursionError):
            return ()

    def _within(self, circuits: Sequence[Link], state: NetworkState) -> NetworkState:
        """A fibre that is cut takes both directions of its circuit."""
        down = set(state.down)
        for link in circuits:
            ends = {(link.a, link.port_a), (link.b, link.port_b)}
            if ends & down:
                down |= ends
        return replace(state, topology=view(self._topology, circuits), down=down)
