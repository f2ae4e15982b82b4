"""Monitoring and recovery: measures the load of links, and makes database, switches and hosts agree after a restart."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.counters import SwitchCounters
from p4reduce.control_plane.orchestrator.executor import ComputingManager, Executor, Role, are_all
from p4reduce.control_plane.orchestrator.history import LinkSample, PlanRow, SwitchSample, TaskRow
from p4reduce.control_plane.orchestrator.installer import InstalledEntries, Installer, InstallError
from p4reduce.control_plane.orchestrator.options import (
    AT_WORK,
    ENDED,
    PlanPhase,
    StoreError,
    TaskRefusedError,
    TaskState,
)
from p4reduce.control_plane.orchestrator.replanning import Replanner, order_of
from p4reduce.control_plane.orchestrator.store import Store
from p4reduce.control_plane.orchestrator.turn_taking import Turns
from p4reduce.control_plane.placement.cluster import Floats, forecast_named, learn
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.scheduling.task import MAX_PS
from p4reduce.control_plane.scheduling.view import NetworkState
from p4reduce.topologies import Topology, to_yaml
from p4reduce.topologies.model import Hop
from p4switch.base.values import PS_PER_S, one_line

# Forecasts of load: the other traffic that links will carry when a decision has taken effect.


KEPT: Final = 256
"""number of a link's newest samples from which a forecast learns"""
LEARN_EVERY: Final = 16
"""number of samples after which a link's forecast is learned again"""


class Foresight:
    """Forecasts of background traffic, by directed link, from equally spaced measurements.

    Parameters
    ----------
    name : str
        Name of the forecast; '': the measured load is used.
    ahead : int
        Number of measurements that the forecast looks ahead.
    """

    def __init__(self, name: str, ahead: int) -> None:
        """Raise `PlanError` for an unknown forecast, or ``ahead`` below 1."""
        if name:
            forecast_named(name)
            if ahead < 1:
                raise PlanError(f"forecast {name!r}: {ahead} samples ahead, must be at least 1")
        self._name, self._ahead = name, ahead
        self._samples = 0
        self._history: dict[Hop, deque[float]] = {}
        self._learned: dict[Hop, tuple[int, Callable[[Floats], float]]] = {}
        self.missing = ""
        """reason why the newest result is the measured load; '' if it is a forecast"""

    def predict(self, measured: Mapping[Hop, int]) -> dict[Hop, int]:
        """Add a measurement of links' load in bit/s and predict the load; the measured load if learning fails."""
        if not self._name:
            return dict(measured)
        for hop in measured:
            self._history.setdefault(hop, deque([0.0] * min(self._samples, KEPT), maxlen=KEPT))
        self._samples += 1
        predicted: dict[Hop, int] = {}
        self.missing = ""
        for hop, history in self._history.items():
            history.append(float(measured.get(hop, 0)))
            try:
                predicted[hop] = max(0, round(self._of(hop, np.array(history))))
            except PlanError as error:
                self.missing = one_line(error)
                predicted[hop] = measured.get(hop, 0)
        return {hop: bps for hop, bps in predicted.items() if bps}

    def _of(self, hop: Hop, history: Floats) -> float:
        known = self._learned.get(hop)
        if known is None or self._samples - known[0] >= LEARN_EVERY:
            known = self._learned[hop] = self._samples, learn(self._name, history, self._ahead)
        return known[1](history)


_NOTHING: Final = SwitchCounters({}, {}, {}, {}, {})
"""counters of a switch without packets"""


class Monitor:
    """Measures the load, records it, and gives the state of the network that a policy may use.

    A link's total comes from its interface, the part of INC from the P4 program's counter ``link_sent`` over P4Runtime;
    the difference is background traffic. (``link_sent`` counts a packet with its length on arrival, so an answer to a
    resent PULL counts too little. A host's uplink has no such counter: hosts count the bytes that they send for tasks.)
    """

    def __init__(
        self,
        topology: Topology,
        controller: Controller,
        executor: Executor,
        store: Store,
        foresight: Foresight | None = None,
    ) -> None:
        self._topology = topology
        self._controller = controller
        self._executor = executor
        self._store = store
        self.background_bps: dict[Hop, int] = {}
        """background traffic at the last measurement, or its forecast, in bit/s by directed link"""
        self._foresight = foresight or Foresight("", 1)
        self._missing = ""
        self.measured_ps, self._before = store.history.last_links()
        if store.fact("counters") != executor.instance:  # counters of another network, which began at 0
            self.measured_ps, self._before = -1, {}

    def measure(self) -> None:
        """Read all counters now, and record them."""
        now = self._executor.now()
        if now <= self.measured_ps:
            return
        totals = self._executor.interface_bytes()
        counters = self._controller.read_counters(None if self._executor.switches_count else [])
        inc = {**_inc_bytes(counters), **self._executor.host_bytes()}
        elapsed = now - max(self.measured_ps, 0)
        samples = []
        background: dict[Hop, int] = {}
        for hop, total in totals.items():
            ours = inc.get(hop, 0)
            before = self._before.get(hop, LinkSample(hop, 0, 0, 0.0))
            sent = total - before.bytes
            sent_inc = ours - before.inc_bytes if ours >= before.inc_bytes else ours  # the switch was restarted
            rate = self._topology.link_at(*hop).rate_bps
            samples.append(LinkSample(hop, total, ours, sent * 8 * PS_PER_S / (elapsed * rate)))
            if sent > sent_inc:
                background[hop] = (sent - sent_inc) * 8 * PS_PER_S // elapsed
        with self._store.transaction():
            switches = [self._sample(name, counters.get(name, _NOTHING)) for name in self._controller.targets]
            self._store.history.add_measurement(now, samples, switches)
            if self._store.fact("counters") != self._executor.instance:
                self._store.set_fact("counters", self._executor.instance)
        self.background_bps, self.measured_ps = self._foresight.predict(background), now
        if self._foresight.missing != self._missing:
            self._missing = self._foresight.missing
            with self._store.transaction():
                what = "no forecast" if self._missing else "forecast"
                self._store.history.add_decision(now, None, what, "", {"reason": self._missing})
        self._before = {sample.hop: sample for sample in samples}

    def _sample(self, name: str, read: SwitchCounters) -> SwitchSample:
        sent = sum(traffic.frames for traffic in read.link_sent.values())
        resent = sum(traffic.frames for (_, resend), traffic in read.link_sent.items() if resend)
        refused = sum(traffic.frames for traffic in read.refused.values())
        return SwitchSample(name, sent, resent, refused, self._controller.resources.largest(name))

    def state(self, demands: Iterable[Mapping[Hop, int]]) -> NetworkState:
        """The state of the network for a policy; ``demands`` are the reservations of running tasks."""
        state = NetworkState(
            self._topology,
            background_bps=dict(self.background_bps),
            down=set(self._executor.links_down()),
            slots={
                switch.name: self._controller.resources.largest(switch.name)
                for switch in self._topology.switches
                if switch.capable
            },
        )
        for demand in demands:
            state.reserve(demand)
        return state


def _inc_bytes(counters: Mapping[str, SwitchCounters]) -> dict[Hop, int]:
    """Bytes of INC by directed link, including resends."""
    sent: dict[Hop, int] = {}
    for switch, read in counters.items():
        for (port, _), traffic in read.link_sent.items():
            sent[(switch, port)] = sent.get((switch, port), 0) + traffic.bytes
    return sent


Fail = Callable[[str, str], None]
"""Function that fails a task for a reason, so that its trees are removed."""
LAST_PS: Final = 10 * MAX_PS
"""largest time in ps that a database may hold; tasks arrive within a tenth of it"""
MOST_NETWORKS: Final = 3
"""number of times that the network may end while a task is being started; then the task, a possible cause, fails"""
_NEW_NETWORK: Final = "the network was started anew"
_FIRST: Final = (PlanPhase.ACTIVE, PlanPhase.INSTALLED, PlanPhase.INSTALLING, PlanPhase.REMOVING)


class Recovery:
    """Makes a database, switches and hosts agree after an orchestrator ended at any moment.

    A recorded step is finished if all its entries are in the switches, and undone otherwise. A damaged task or plan
    affects only that task, never the others.
    """

    def __init__(
        self,
        installer: Installer,
        computing: ComputingManager,
        fail: Fail,
        turns: Turns | None,
        replanner: Replanner,
    ) -> None:
        self._installer = installer
        self._store = installer.store
        self._executor = installer.executor
        self._controller = installer.controller
        self._computing = computing
        self._fail = fail
        self._turns = turns
        self._replanner = replanner
        self.lost: set[str] = set()
        """running tasks of which a switch has lost entries"""

    def run(self) -> None:
        """Carry out the recovery; `ControllerError` when a switch does not answer: a later try may succeed."""
        term = self._store.term
        self._executor.take_charge(term, self._store.fact("database") or "")
        self._check_topology()
        self._check_times()
        self._controller.resources.begin_at(self._store.next_generation())
        self._meet_executor()
        self._adopt()
        inventory = InstalledEntries.read(self._controller)
        self._installer.sweep(inventory)
        self._installer.checkpoint("read switches")
        self._stop_what_ended()
        for task in self._usable([TaskState.SCHEDULED, *AT_WORK]):
            self._computing.place(task.task, even_if_full=True)
        if self._turns is not None:
            self._turns.recover(inventory)
        for task in self._store.tasks([TaskState.SCHEDULED]):
            self._finish_first(task, inventory)
        for task in self._store.tasks(AT_WORK):
            self._finish_swap(task, inventory)

    def _adopt(self) -> None:
        """Take over all plans; if two claim the same resource, the plan that hosts use gets it."""
        for row in sorted(self._store.plans(), key=lambda row: (_FIRST.index(row.phase), row.generation)):
            try:
                self._installer.adopt(row)
            except Exception as error:  # damaged, or its resources belong to another plan
                self._drop(row, f"its plan of job {row.job} epoch {row.epoch} cannot be used: {one_line(error)}")

    def _drop(self, row: PlanRow, reason: str) -> None:
        """Forget a plan that cannot be used. Its entries in switches then belong to no plan, and are swept."""
        if row.phase is not PlanPhase.REMOVING and self._store.task(row.task).state not in ENDED:
            self._fail(row.task, reason)
        with self._store.transaction():
            self._store.set_phase(row.generation, PlanPhase.REMOVED)
            at_ps = self._store.history.last_ps()
            self._store.history.add_decision(at_ps, row.task, "forget plan", "", {"reason": reason})

    def _stop_what_ended(self) -> None:
        """Stop tasks that run at their hosts although they have ended, or never began, in the database."""
        at_work = {row.name: row.attempt for row in self._store.tasks([TaskState.SCHEDULED, *AT_WORK])}
        for name, run in self._executor.running().items():
            if not run.ended and at_work.get(name) != run.attempt:
                self._executor.stop(name)
                self._installer.checkpoint("stopped")

    def _usable(self, states: list[TaskState]) -> list[TaskRow]:
        """Tasks in these states; tasks that cannot be read or placed are failed."""
        usable = []
        hosts = {host.name for host in self._controller.topology.hosts}
        for row in self._store.tasks(states):
            unknown = sorted({row.task.server, *row.task.workers} - hosts)
            if row.fault or unknown:
                self._fail(row.name, row.fault or f"{unknown[0]!r} is no host of the topology")
            else:
                usable.append(row)
        return usable

    def _check_topology(self) -> None:
        """Raise `StoreError` if the database, whose tasks name hosts and switches, belongs to another topology."""
        here, known = to_yaml(self._controller.topology), self._store.fact("topology")
        if known is None:
            self._store.set_fact("topology", here)
        elif known != here:
            raise StoreError(
                f"{self._store.path}: belongs to another topology than {self._controller.topology.name!r}; "
                "give its own, or a new database"
            )

    def _meet_executor(self) -> None:
        """Detect that hosts and switches were started again, and record the loss of everything that ran there."""
        instance = self._executor.instance
        before = self._store.fact("instance")
        if before == instance:
            return
        with self._store.transaction():
            self._store.set_fact("instance", instance)
            self._store.set_fact("reports", "0")
            self._store.schedules.drop_all()
            for row in self._store.plans():
                self._store.set_phase(row.generation, PlanPhase.REMOVED)
            at_ps = self._store.history.last_ps()
            for task in self._store.tasks([TaskState.SCHEDULED]):
                ends = [change["reason"] for change in self._store.history.changes(task.name)].count(_NEW_NETWORK) + 1
                if ends < MOST_NETWORKS:
                    self._store.change(task.name, TaskState.QUEUED, at_ps, _NEW_NETWORK)
                else:
                    reason = f"{ends} networks ended while it was being started; mend it, and submit it again"
                    self._store.change(task.name, TaskState.FAILED, at_ps, reason)
            for task in self._store.tasks(AT_WORK):
                if task.may_restart:
                    again_ps = at_ps + self._installer.options.wait_ps(task.attempt)
                    self._store.restart(task.name, at_ps, again_ps, "the network that it ran in has ended")
                    continue
                reason = "the network that it ran in has ended, and the task's state with it; submit it again"
                self._store.change(task.name, TaskState.FAILED, at_ps, reason)
        if before is not None and at_ps > self._executor.now():
            self._executor.advance(at_ps)  # times in the database continue

    def _check_times(self) -> None:
        """Raise `StoreError` for times beyond 64-bit sums, as a new network advances to the database's last time."""
        last_ps = self._store.history.last_ps()
        if last_ps > LAST_PS:
            raise StoreError(
                f"{self._store.path}: has a time of {last_ps} ps, which no run reaches; the database is damaged, "
                "begin a new one"
            )

    def _finish_first(self, task: TaskRow, inventory: InstalledEntries) -> None:
        """Start a scheduled task whose first trees are all installed, or let it wait again."""
        plans = self._plans(self._store.plans((PlanPhase.INSTALLING, PlanPhase.INSTALLED), task.name))
        if are_all(plans) and all(map(inventory.complete, plans.values())):
            try:
                order = order_of(task.task, plans, self._computing, task.wanted, attempt=task.attempt)
                if self._turns is not None and task.task.serving is None:
                    order = replace(order, schedule=self._turns.holding.number())
                self._installer.begin(order)
            except (TaskRefusedError, PlanError) as error:  # PlanError: host profiles have changed
                self._fail(task.name, f"its hosts cannot run it: {one_line(error)}")
        elif self._has_run(task):
            self._fail(task.name, "it ran, and its trees were lost before that was written down")
        else:
            with self._store.transaction():
                self._installer.give_up(plans.values())
                reason = "the orchestrator ended before all of its trees were installed"
                self._store.change(task.name, TaskState.QUEUED, self._executor.now(), reason)
            self._computing.release(task.name)
            self._installer.checkpoint("took back")

    def _has_run(self, task: TaskRow) -> bool:
        """Whether hosts know this attempt of a task."""
        run = self._executor.running([task.name]).get(task.name)
        return run is not None and run.attempt == task.attempt

    def _finish_swap(self, task: TaskRow, inventory: InstalledEntries) -> None:
        """Let a running task change to its next trees if all are installed, or stay on its trees."""
        plans = self._plans(self._store.plans((PlanPhase.INSTALLING, PlanPhase.INSTALLED), task.name))
        if self._turns is not None and self._turns.changing:
            pass  # the trees belong to the pending schedule
        elif plans and self._replanner.is_replan(task.name, plans):
            self._replanner.come_back(task, plans, complete=all(map(inventory.complete, plans.values())))
        elif plans and all(map(inventory.complete, plans.values())):
            with contextlib.suppress(InstallError):
                self._installer.change_over(task.name, plans)
        elif plans:
            self._installer.give_up(plans.values())
            self._installer.checkpoint("took back")
        active = self._plans(self._store.plans((PlanPhase.ACTIVE,), task.name))
        if not are_all(active):
            self._fail(task.name, "the database does not know all of its trees")
        elif not all(map(inventory.complete, active.values())):
            self.lost.add(task.name)

    def _plans(self, rows: list[PlanRow]) -> dict[Role, Plan]:
        return {row.role: self._installer.plan_of(row) for row in rows}
