"""Tasks that take turns over an optical cross-connect: admission to the schedule, and the change to the next one."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.orchestrator.executor import (
    ComputingManager,
    Read,
    Role,
    Timetable,
    TurnWindow,
    circuits_of,
    is_read,
)
from p4reduce.control_plane.orchestrator.history import PlanRow, SchedulePhase, TaskRow
from p4reduce.control_plane.orchestrator.installer import (
    Admitted,
    InstalledEntries,
    Installer,
    Proposal,
    Refused,
    round_bytes,
)
from p4reduce.control_plane.orchestrator.options import (
    AT_WORK,
    ENDED,
    PlanPhase,
    StoreError,
    TaskRefusedError,
    TaskState,
)
from p4reduce.control_plane.orchestrator.replanning import order_of
from p4reduce.control_plane.orchestrator.standing import Standing
from p4reduce.control_plane.placement import Placement, reads
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.view import NetworkState, Policy
from p4reduce.control_plane.tdm.jobs import OpticalNetwork, TdmError, TdmJob
from p4reduce.control_plane.tdm.registry import check_jobs, check_turns, least_guard_ps, make_schedule
from p4reduce.control_plane.tdm.schedule import JobPlan, Matrix, Schedule, turns_of
from p4reduce.control_plane.tdm.switched import join
from p4reduce.topologies import Link, Topology
from p4reduce.topologies.model import Hop, TopologyError
from p4reduce.topologies.optical import Joined, joined, lay_circuits, uplinks, view
from p4switch.base.values import PS_PER_S, one_line

# Tasks and the network of an orchestrator in the terms of the TDM schedulers.


_WORD = 4
"""bytes of an element"""


def network_of(topology: Topology, delta_ps: int) -> OpticalNetwork:
    """The optical network of a topology of the builder `oxc`; `TdmError` for any other topology.

    delta_ps: time during which ports carry nothing after a change of their circuits.
    """
    known = [switch.name for switch in topology.switches]
    fibres = uplinks(topology)
    own = {name: [host.name for host in topology.hosts if topology.neighbours(host.name)[0] == name] for name in known}
    counts = {(len(own[name]), len(fibres[name])) for name in known}
    rates = {link.rate_bps for host in topology.hosts for link in (topology.link_at(host.name, 1),)}
    port_rates = {link.rate_bps for links in fibres.values() for link in links}
    if len(counts) > 1 or len(rates) > 1 or len(port_rates) > 1:
        raise TdmError(f"topology {topology.name!r}: pods differ; schedules need those of the builder 'oxc'")
    ((servers, ports),) = counts
    network = OpticalNetwork(
        pods=len(known),
        servers=servers,
        ports=ports,
        rate_bps=rates.pop(),
        port_rate_bps=port_rates.pop(),
        delta_s=delta_ps / PS_PER_S,
    )
    for pod, name in enumerate(known):
        if own[name] != [network.host(pod, server) for server in range(servers)]:
            raise TdmError(
                f"topology {topology.name!r}: {name}: its hosts must be {network.host(pod, 0)} and following"
            )
    return network


def job_of(task: Task) -> TdmJob:
    """A task in the schedulers' terms: each of its workers and its server is a unit; the first host is the server.

    Raises `TdmError` for a task that cannot take turns.
    """
    where = f"task {task.name[:40]}"
    if task.select is not None:
        raise TdmError(f"{where}: select: local models of tasks that take turns are not selected; leave it out")
    hosts: tuple[str, ...] = ()
    if task.wanted is None:
        hosts = (task.server, *task.workers)
    elif task.server:
        raise TdmError(f"{where}: server: name all hosts, or none: the scheduler places the server, too")
    return TdmJob(
        task.name,
        task.exchange or "ps",
        _WORD * task.elements,
        task.training_ps / PS_PER_S,
        task.size + 1,
        hosts,
        iterations=task.rounds,
    )


def hosts_of(plan: JobPlan, network: OpticalNetwork) -> tuple[str, tuple[str, ...]]:
    """The server and the workers of a task that a scheduler placed: the server is the first host in the root's pod."""
    hosts = [host for host, _ in plan.placement]
    root = plan.trees[0].root if plan.trees else network.pod_of(hosts[0])
    server = next((host for host in hosts if network.pod_of(host) == root), hosts[0])
    return server, tuple(host for host in hosts if host != server)


# Schedules of tasks that begin and end: the first tasks are scheduled together, later tasks join their turns.


JOINED = frozenset({"tdm", "random", "exact-one-tree"})
"""policies whose schedules consist of two groups with separate circuits; `switched.join` adds arriving tasks to them"""
Laid = dict[Matrix, tuple[Link, ...]]
"""the circuits of configurations, as links at ports"""


def first_schedule(policy: str, jobs: Sequence[TdmJob], network: OpticalNetwork) -> Schedule:
    """The schedule of tasks that begin together; `TdmError` when there is none."""
    return checked(make_schedule(policy, jobs, network), jobs)


def with_one_more(schedule: Schedule, jobs: Sequence[TdmJob], arrived: TdmJob) -> Schedule:
    """Add an arriving task to a schedule without moving the others; `TdmError` when it does not fit.

    jobs: the jobs of the schedule, in its order.
    """
    if schedule.policy in JOINED:
        extended = join(schedule, jobs, arrived)
    else:
        pinned = [_pinned(job, plan) for job, plan in zip(jobs, schedule.jobs, strict=True)]
        extended = make_schedule(schedule.policy, [*pinned, arrived], schedule.network)
    for plan in schedule.jobs:
        if sorted(extended.plan(plan.job).placement) != sorted(plan.placement):
            raise TdmError(f"policy {schedule.policy}: would move {plan.job[:40]} to other hosts; it waits for its end")
    return checked(extended, [*jobs, arrived])


def without(schedule: Schedule, jobs: Sequence[TdmJob], ended: frozenset[str]) -> tuple[Schedule, list[TdmJob]]:
    """Remove ended jobs from a schedule; returns it with its jobs. Windows stay; processes without jobs are removed."""
    plans = [plan for plan in schedule.jobs if plan.job not in ended]
    used = sorted({plan.process for plan in plans})
    left = replace(
        schedule,
        jobs=tuple(replace(plan, process=used.index(plan.process)) for plan in plans),
        processes=tuple(schedule.processes[number] for number in used),
        cycles=tuple(
            replace(cycle, jobs=tuple(name for name in cycle.jobs if name not in ended)) for cycle in schedule.cycles
        ),
    )
    return left, [job for job in jobs if job.name not in ended]


def checked(schedule: Schedule, jobs: Sequence[TdmJob]) -> Schedule:
    """Return the schedule if tasks can take turns by it; `TdmError` if, e.g., a task is missing or two share a host."""
    if len(schedule.cycles) != 1 or schedule.cycles[0].mode != "gated" or schedule.clock != "completion":
        raise TdmError(
            f"policy {schedule.policy}: its jobs are not all in turns of one round; the orchestrator runs policies "
            "like tdm, seed, static, random, exact (free and paired ones: 'p4reduce tdm run')"
        )
    if sorted(plan.job for plan in schedule.jobs) != sorted(job.name for job in jobs):
        raise TdmError(f"policy {schedule.policy}: leaves a task out, or has one twice")
    wanted = {job.name: job for job in jobs}
    for names in turns_of(schedule, schedule.cycles[0]).values():
        taken: dict[str, str] = {}
        for name in names:
            plan, job = schedule.plan(name), wanted[name]
            if sum(units for _, units in plan.placement) != job.units or (
                job.hosts and {host for host, _ in plan.placement} != set(job.hosts)
            ):
                raise TdmError(f"policy {schedule.policy}: gives {name[:40]} other hosts, or another number of them")
            if len({route.configuration for route in plan.routes}) > 1:
                raise TdmError(
                    f"policy {schedule.policy}: {name[:40]} would need several configurations of circuits in a round; "
                    "give it fewer hosts, or the network more ports"
                )
            for host, units in plan.placement:
                if units > schedule.network.gpus or host in taken:
                    other = taken.get(host, name)
                    raise TdmError(
                        f"policy {schedule.policy}: {name[:40]} and {other[:40]} would train on {host} at one time; "
                        "let tasks wait for each other, or take policy tdm"
                    )
                taken[host] = name
    _check_delta(schedule)
    return schedule


def _check_delta(schedule: Schedule) -> None:
    """Raise `TdmError` if a change of circuits takes longer than the windows of a round."""
    if not schedule.switches:
        return
    groups = turns_of(schedule, schedule.cycles[0]).values()
    communicates = [max(schedule.plan(name).duration_s for name in names) for names in groups]
    trains = [max(schedule.plan(name).train_s for name in names) for names in groups]
    lit_s = sum(
        max(communicate_s, train_s) for communicate_s, train_s in zip(communicates, reversed(trains), strict=True)
    )
    if schedule.network.delta_s >= lit_s:
        raise TdmError(
            f"delta: {schedule.network.delta_s:g} s of darkness, longer than the round of {lit_s:g} s; take larger "
            "jobs, a faster cross-connect, or a policy that does not switch (static)"
        )


def _pinned(job: TdmJob, plan: JobPlan) -> TdmJob:
    return replace(job, hosts=tuple(host for host, units in plan.placement for _ in range(units)))


def windows_of(schedule: Schedule, topology: Topology, known: Laid) -> tuple[tuple[TurnWindow, ...], Laid]:
    """The windows of a round, and the circuits of their configurations.

    known: circuits that exist already; they keep their ports if no new configuration is needed.

    Raises
    ------
    TdmError
        The ports cannot make the circuits: two planes cannot carry an odd number of circuits that uses all ports.
    """
    wanted = list(
        dict.fromkeys(
            configuration.circuits for process in schedule.processes for configuration in process.configurations
        )
    )
    if all(matrix in known for matrix in wanted):
        laid = {matrix: known[matrix] for matrix in wanted}
    else:
        try:
            laid = dict(zip(wanted, lay_circuits(topology, wanted, schedule.network.parallel), strict=True))
        except TopologyError as error:
            raise TdmError(f"circuits: {error}") from None
    windows = []
    first_s = max(0.0, min(plan.start_s for plan in schedule.jobs) - schedule.network.delta_s)
    for key, names in turns_of(schedule, schedule.cycles[0]).items():
        process = schedule.processes[key if len(schedule.processes) > 1 else 0]
        for place, configuration in enumerate(process.configurations):
            plans = [schedule.plan(name) for name in names if configuration_of(schedule.plan(name)) == place]
            if not plans:
                continue
            start_s = min(plan.start_s for plan in plans)
            last_s = max(plan.start_s + plan.duration_s for plan in plans)
            windows.append(
                TurnWindow(
                    key,
                    laid[configuration.circuits],
                    tuple(plan.job for plan in plans),
                    round((start_s - first_s) * PS_PER_S),
                    round((last_s - start_s) * PS_PER_S),
                )
            )
    return tuple(windows), laid


def configuration_of(plan: JobPlan) -> int:
    """Index of the configuration, within its process, that a job needs; 0 if the job crosses no circuit."""
    if plan.ring is not None:
        return plan.ring.configuration
    if plan.routes:
        return plan.routes[0].configuration
    return max((tree.configuration for tree in plan.trees if tree.edges), default=0)


# The schedule in force: its tasks, its circuits, and the network in the windows of tasks.


Demands = Iterable[Mapping[Hop, int]]
See = Callable[[Demands], NetworkState]
"""Function from the tasks' reservations to the state of the network that policies may use."""


class Holding:
    """Reads the schedule in force, its circuits and its windows from the database."""

    def __init__(self, installer: Installer, see: See) -> None:
        self._store, self._see = installer.store, see
        self._topology = installer.controller.topology

    @property
    def changing(self) -> bool:
        """Whether a new schedule has been recorded and is not in force yet."""
        return self._store.schedules.open() is not None

    def number(self) -> int:
        """Number of the newest schedule, to which a task that begins belongs; 0: there is none."""
        row = self._store.schedules.open() or self._store.schedules.active()
        return 0 if row is None else row.number

    def present(self) -> tuple[Schedule | None, list[TdmJob], Laid]:
        """The schedule in force reduced to running tasks, the jobs of these tasks, and the circuits.

        `TdmError` when tasks run and the database has no readable schedule of them.
        """
        running = {row.name: row.task for row in self._store.tasks(AT_WORK) if row.task.serving is None}
        if not running:
            return None, [], {}
        row = self._store.schedules.active()
        if row is None or row.schedule is None:
            why = "there is none" if row is None else row.fault
            raise TdmError(f"the schedule of the running tasks cannot be read ({why}); no task joins before their end")
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
        """The network in the configuration of a task, without the task's own reservations.

        Tasks of other windows communicate at other times, so their reservations do not count. ``planned`` are trees
        that tasks are about to get. With ``name`` None: the whole topology, without any reservations.
        """
        if name is None:
            return self._see(())
        if windows is None:
            windows = self.windows(self.number())
        window = next((candidate for candidate in windows if name in candidate.tasks), None)
        beside = set() if window is None else set(window.tasks) - {name}
        live = (PlanPhase.INSTALLING, PlanPhase.INSTALLED, PlanPhase.ACTIVE)
        demands = [row.demand_bps for row in self._store.plans(live) if row.task in beside - planned.keys()]
        demands += [proposal.demand_bps for task, own in planned.items() if task in beside for proposal in own]
        return self._within(() if window is None else window.circuits, self._see(demands))

    def windows(self, number: int) -> tuple[TurnWindow, ...]:
        """The windows of a schedule; empty when they are missing in the database, or damaged."""
        try:
            return self._store.schedules.windows(number)
        except (ValueError, TypeError, KeyError, RecursionError):
            return ()

    def _within(self, circuits: Sequence[Link], state: NetworkState) -> NetworkState:
        """The state with only these circuits; if one direction of a circuit is down, so is the other."""
        down = set(state.down)
        for link in circuits:
            ends = {(link.a, link.port_a), (link.b, link.port_b)}
            if ends & down:
                down |= ends
        return replace(state, topology=view(self._topology, circuits), down=down)


_OPENING: Final = (PlanPhase.INSTALLING, PlanPhase.INSTALLED)


class Turns:
    """Gives tasks their turns. At most one new schedule is pending at a time; it takes effect at the end of a round.

    Every step is recorded before it is taken: trees of new tasks, and of running tasks whose circuits move, are
    installed beside the old ones; then the executor gets the timetable, and changes to it between two rounds.

    Parameters
    ----------
    installer : Installer
        Writes to switches.
    policy, name
        The policy for trees, which is called with the view of a configuration, and its name.
    scheduler : str
        One of `p4reduce.schedulers`.
    computing : ComputingManager
        Records the load of hosts.
    see : callable
        Function from the tasks' reservations to the network that policies may use.
    fail : callable
        Marks a task as failed.
    started : callable
        Called with every task that begins.
    """

    def __init__(
        self,
        installer: Installer,
        policy: Policy,
        name: str,
        scheduler: str,
        computing: ComputingManager,
        see: See,
        fail: Callable[[str, str], None],
        started: Callable[[Task], None],
    ) -> None:
        check_turns(scheduler)
        self._installer, self._policy, self._name, self._scheduler = installer, policy, name, scheduler
        self._computing, self._fail, self._started = computing, fail, started
        self.holding = Holding(installer, see)
        self._store, self._executor = installer.store, installer.executor
        self._network = network_of(installer.controller.topology, installer.options.delta_ps)
        self.standing = Standing(installer, self._network.ports)
        self._lanes = installer.controller.program.lanes
        self._topology = self.standing.for_turns
        self._network = replace(self._network, ports=self._network.ports - installer.options.service_ports)
        computing.in_turns = True

    @property
    def changing(self) -> bool:
        """Whether a new schedule has been recorded and is not in force yet."""
        return self.holding.changing

    def state(self, name: str | None) -> NetworkState:
        """The network in the configuration of a task (:meth:`Holding.state`)."""
        return self.holding.state(name)

    # --- admission

    def fault(self, task: Task) -> str:
        """Reason why a task can never take turns here, or a service never run beside them; '' if it may."""
        if task.serving is not None:
            return self.standing.fault(task)
        if task.on_failure == "shrink":
            return "on_failure: where tasks take turns none goes on with fewer workers; take 'abort' or 'raise'"
        if task.max_restarts:
            return "max_restarts: where tasks take turns none begins anew; leave it out"
        homes = () if task.wanted is None else task.wanted.shards
        if unknown := sorted({*homes} - {host.name for host in self._topology.hosts}):
            return f"shards: {unknown[0]!r} is no host of the topology"
        known = self._computing.slots()
        few = [host for host in task.workers or known if known.get(host, task.slots) < task.slots]
        if few:  # in its turn a task has all slots of its hosts, and the number of its hosts is fixed
            return (
                f"slots: {task.slots}, but {few[0]} has {known[few[0]]}, and any host may be given to a task that "
                "takes turns; ask for fewer, or say what hosts have (--hosts)"
            )
        try:
            check_jobs([job_of(task)], self._network)
        except TdmError as error:
            return str(error)
        return ""

    def admit(self, rows: Sequence[TaskRow]) -> list[Refused]:
        """Start as many of these tasks as fit, in their order; returns the tasks that were tried and did not fit."""
        refused: list[Refused] = []
        try:
            schedule, jobs, laid = self.holding.present()
        except (TdmError, KeyError, ValueError, TypeError, IndexError) as error:
            return [Refused(row, one_line(error)) for row in rows[:1]]
        accepted: list[TaskRow] = []
        waiting = list(rows)
        try:
            if schedule is None:
                schedule, jobs, accepted, waiting = self._first(waiting, refused)
            for row in waiting:
                if schedule is None or len(refused) >= max(1, self._installer.options.retries):
                    break
                try:
                    job = job_of(row.task)
                    schedule, jobs = with_one_more(schedule, jobs, job), [*jobs, job]
                    accepted.append(row)
                except TdmError as error:
                    refused.append(Refused(row, str(error)))
                    if not self._installer.options.backfill:
                        break
        except (StoreError, sqlite3.Error):
            raise
        except Exception as error:  # a scheduler with a bug
            refused += [Refused(row, _bug("scheduled", error), fault=True) for row in rows[:1]]
            return refused
        while schedule is not None and accepted:
            unfit = self._begin(schedule, accepted, laid)
            if unfit is None:
                break
            refused.append(replace(unfit, alone=len(schedule.jobs) == 1))
            accepted = [row for row in accepted if row is not unfit.row]
            schedule, jobs = without(schedule, jobs, frozenset({unfit.row.name}))
        return refused

    def _first(
        self, rows: list[TaskRow], refused: list[Refused]
    ) -> tuple[Schedule | None, list[TdmJob], list[TaskRow], list[TaskRow]]:
        """Schedule as many waiting tasks as possible while none runs, by halving their number until it works."""
        count = len(rows)
        while count:
            jobs = [job_of(row.task) for row in rows[:count]]
            try:
                return first_schedule(self._scheduler, jobs, self._network), jobs, rows[:count], rows[count:]
            except TdmError as error:
                reason = str(error)
            count //= 2
        refused += [Refused(row, reason, alone=True) for row in rows[:1]]
        return None, [], [], rows[1:]

    # --- the next schedule

    def _begin(self, schedule: Schedule, accepted: Sequence[TaskRow], laid: Laid) -> Refused | None:
        """Plan, install, set and begin a schedule; or change nothing and return the task that prevents it."""
        try:
            windows, _ = windows_of(schedule, self._topology, laid)
        except TdmError as error:
            return Refused(accepted[-1], str(error))
        planned: dict[str, Sequence[Proposal]] = {}
        moved: dict[str, Sequence[Proposal]] = {}
        new: list[Admitted] = []
        row = accepted[-1]
        try:
            circuits = self._circuits_to_read([(row, self._placed(row, schedule)) for row in accepted])
            for name in [plan.job for plan in schedule.jobs]:
                if proposals := self._moved(name, windows, planned):
                    moved[name] = planned[name] = proposals
            for row in accepted:
                admitted = self._admitted(row, schedule, windows, planned, circuits)
                new.append(admitted)
                planned[row.name] = admitted.proposals
        except (StoreError, sqlite3.Error):
            raise
        except Exception as error:  # any error of a policy, a planner or a task
            self._installer.withdraw([proposal for own in planned.values() for proposal in own])
            for other in accepted:
                self._computing.release(other.name)
            known = isinstance(error, PlanError)
            return Refused(row, one_line(error) if known else _bug("planned", error), fault=not known)
        self._carry_out(schedule, windows, new, moved)
        return None

    @staticmethod
    def _placed(row: TaskRow, schedule: Schedule) -> Task:
        """The task with the hosts that the schedule gives it."""
        if row.task.wanted is None:
            return row.task
        server, workers = hosts_of(schedule.plan(row.name), schedule.network)
        return replace(row.task, server=server, workers=workers, wanted=None)

    def _admitted(
        self,
        row: TaskRow,
        schedule: Schedule,
        windows: Sequence[TurnWindow],
        planned: Mapping[str, Sequence[Proposal]],
        circuits: Joined,
    ) -> Admitted:
        task = self._placed(row, schedule)
        placement = None
        if row.task.wanted is not None:
            placement = Placement(task.workers, task.server, {"schedule": schedule.policy})
        state = self.holding.state(row.name, windows, planned)
        decision = self._policy(task, state, lanes=self._lanes)
        self._computing.place(task)
        beside = [proposal for own in planned.values() for proposal in own]
        proposals = self._installer.propose(decision, state.topology, beside)
        try:
            plans = {proposal.role: proposal.plan for proposal in proposals}
            order = order_of(task, plans, self._computing, row.task.wanted)  # raises if it cannot run
            proposals += self._propose_reads(task, order.reads, circuits, [*beside, *proposals])
        except BaseException:
            self._installer.withdraw(proposals)
            raise
        return Admitted(row, task, placement, proposals)

    def _circuits_to_read(self, placed: Sequence[tuple[TaskRow, Task]]) -> Joined:
        """The circuits for the reads of starting tasks; see :func:`~p4reduce.topologies.optical.joined`."""
        switch_of = {host.name: self._topology.neighbours(host.name)[0] for host in self._topology.hosts}
        wanted: Counter[frozenset[str]] = Counter()
        for row, task in placed:
            if row.task.wanted is not None:
                for pair in reads(row.task.wanted, task.workers):
                    wanted[frozenset(map(switch_of.__getitem__, pair))] += row.task.wanted.shard_bytes
        return joined(self._topology, {pair: size for pair, size in wanted.items() if len(pair) > 1})

    def _propose_reads(
        self, task: Task, ways: Sequence[Read], circuits: Joined, beside: Sequence[Proposal]
    ) -> list[Proposal]:
        """Plans over which a task's hosts read their data; `PlanError` if a link of them is down."""
        switch_of = {host.name: self._topology.neighbours(host.name)[0] for host in self._topology.hosts}
        views = [
            view(self._topology, circuits.get(frozenset((switch_of[home], switch_of[reader])), ()))
            for home, reader, _ in ways
        ]
        proposals = self._installer.propose_reads(ways, views, beside)
        down = self._executor.links_down()
        for proposal in proposals if down else ():
            for hop in (hop for pair in proposal.plan.paths for hop in proposal.plan.path_hops(*pair)):
                if hop in down:
                    self._installer.withdraw(proposals)
                    neighbour = self._topology.neighbour(*hop)
                    raise PlanError(f"task {task.name}: shards: link {hop[0]} - {neighbour} is down")
        return proposals

    def _moved(
        self, name: str, windows: Sequence[TurnWindow], planned: Mapping[str, Sequence[Proposal]]
    ) -> list[Proposal]:
        """Plans for a running task whose circuits would move; empty if its circuits stay."""
        rows = [row for row in self._store.plans((PlanPhase.ACTIVE,), name) if not is_read(row.role)]
        lit = {link for window in windows if name in window.tasks for link in window.circuits}
        if not rows or all(set(circuits_of(self._installer.plan_of(row))) <= lit for row in rows):
            return []
        state = self.holding.state(name, windows, planned)
        switches = any(self._installer.plan_of(row).in_network for row in rows)
        task = replace(self._store.task(name).task, aggregation="switches" if switches else "hosts")
        decision = self._policy(task, state, lanes=self._lanes)
        proposals = self._installer.propose_next(decision, rows, state, must=True)
        for proposal, row in zip(proposals, rows, strict=True):
            old = self._installer.plan_of(row)
            if (old.slots, old.in_network) != (proposal.plan.slots, proposal.plan.in_network):
                self._installer.withdraw(proposals)
                raise PlanError(f"task {name}: its hosts cannot change to a {proposal.plan.name} plan on the way")
        return proposals

    def _carry_out(
        self,
        schedule: Schedule,
        windows: Sequence[TurnWindow],
        new: Sequence[Admitted],
        moved: Mapping[str, Sequence[Proposal]],
    ) -> None:
        """Take all steps of the change to a schedule, each recorded before the next."""
        now = self._executor.now()
        with self._store.transaction():
            number = self._store.schedules.next_number()
            self._store.schedules.add(number, schedule, windows, now)
            for admitted in new:
                self._store.change(admitted.row.name, TaskState.SCHEDULED, now)
                self._installer.intend(admitted.row.name, admitted.proposals, now)
                if admitted.placement is not None:
                    self._store.place(admitted.row.name, admitted.placement.workers, admitted.placement.server)
                self._store.history.add_decision(
                    now, admitted.row.name, "schedule", self._name, self._why(number, schedule, admitted)
                )
            for name, proposals in moved.items():
                self._installer.intend(name, proposals, now)
                for proposal in proposals:
                    self._store.history.add_swap(
                        name,
                        proposal.role,
                        proposal.plan.job,
                        proposal.plan.epoch,
                        at_ps=now,
                        cause=f"circuits of schedule {number}",
                        saving_bytes=0,
                        cost_bytes=0,
                    )
        self._installer.checkpoint("intended schedule")
        everybody = {**moved, **{admitted.row.name: admitted.proposals for admitted in new}}
        for name, reason in self._installer.install_all(everybody).items():
            if name in moved:  # a running task cannot change to its new trees
                self.drop(f"trees of {name} could not be installed: {reason}")
                return
            self._fail(name, f"its trees could not be installed: {reason}")
        self._set(number, schedule, windows)
        if not self.changing and self.holding.number() != number:
            return  # refused
        for admitted in new:
            if self._store.task(admitted.row.name).state is TaskState.SCHEDULED:
                plans = {each.role: each.plan for each in admitted.proposals}
                order = order_of(admitted.task, plans, self._computing, admitted.row.task.wanted)
                try:
                    self._installer.begin(replace(order, schedule=number))
                except TaskRefusedError as error:
                    self._fail(admitted.row.name, f"its hosts cannot run it: {one_line(error)}")
                    continue
                self._started(admitted.task)

    def _why(self, number: int, schedule: Schedule, admitted: Admitted) -> dict[str, object]:
        plan = schedule.plan(admitted.row.name)
        return {
            "round_bytes": sum(
                round_bytes(admitted.task, each.role, each.plan)
                for each in admitted.proposals
                if not is_read(each.role)
            ),
            "schedule": number,
            "scheduler": schedule.policy,
            "group": plan.process + 1,
            "planned_round_ps": round(schedule.round_s * PS_PER_S),
        }

    def _set(self, number: int, schedule: Schedule, windows: Sequence[TurnWindow]) -> None:
        """Send the timetable to the executor; if it refuses, drop the schedule."""
        moved: dict[str, dict[Role, Plan]] = {}
        for row in self._store.plans((PlanPhase.INSTALLED,)):
            if self._store.task(row.task).state in AT_WORK:
                moved.setdefault(row.task, {})[row.role] = self._installer.plan_of(row)
        live = (*_OPENING, PlanPhase.ACTIVE)
        guard_ps = least_guard_ps(self._installer.plan_of(row) for row in self._store.plans(live))
        delta_ps = round(schedule.network.delta_s * PS_PER_S)
        try:
            self._executor.set_schedule(Timetable(number, tuple(windows), delta_ps, guard_ps, moved))
        except TaskRefusedError as error:
            self.drop(f"the executor refuses its schedule: {one_line(error)}", fails=True)
            return
        self._installer.checkpoint("set schedule")
        with self._store.transaction():
            self._store.schedules.set_phase(number, SchedulePhase.SET)
        self._installer.checkpoint("recorded schedule")

    def began(self, number: int, at_ps: int) -> None:
        """Record that a schedule is in force and running tasks use its trees, in the transaction of its report."""
        self._store.schedules.begin(number, at_ps)
        for task in self._store.tasks(AT_WORK):
            rows = self._store.plans((PlanPhase.INSTALLED,), task.name)
            for old in self._store.plans((PlanPhase.ACTIVE,), task.name):
                if old.role in {row.role for row in rows}:
                    self._store.set_phase(old.generation, PlanPhase.REMOVING)
            for row in rows:
                self._store.set_phase(row.generation, PlanPhase.ACTIVE)
            if rows:
                self._store.change(task.name, TaskState.RESCHEDULED, at_ps, f"circuits of schedule {number}")

    def _opening(self) -> list[PlanRow]:
        """Plans of the pending schedule, which are being installed or wait for it; without plans of services."""
        return [plan for plan in self._store.plans(_OPENING) if self._store.task(plan.task).task.serving is None]

    # --- dropping a schedule

    def drop(self, reason: str, *, fails: bool = False) -> None:
        """Drop the pending schedule; its new tasks wait again, or fail."""
        row = self._store.schedules.open()
        scheduled = [task for task in self._store.tasks([TaskState.SCHEDULED]) if task.task.serving is None]
        now = self._executor.now()
        with self._store.transaction():
            if row is not None:
                self._store.schedules.set_phase(row.number, SchedulePhase.DROPPED)
            for plan in self._opening():
                if self._store.task(plan.task).state not in ENDED:
                    self._store.set_phase(plan.generation, PlanPhase.REMOVING)
                    self._store.history.drop_swap(plan.job, plan.epoch)
            for task in scheduled:
                self._store.change(task.name, TaskState.FAILED if fails else TaskState.QUEUED, now, reason)
        for task in scheduled:
            self._computing.release(task.name)
        self._installer.checkpoint("took back")

    def recover(self, inventory: InstalledEntries) -> None:
        """After a restart, set the schedule that was pending when the orchestrator ended, or drop it."""
        row = self._store.schedules.open()
        if row is None:
            return
        turn = self._executor.turn()
        if row.number in (turn.schedule, turn.waiting):
            if row.phase is SchedulePhase.INSTALLING:
                with self._store.transaction():
                    self._store.schedules.set_phase(row.number, SchedulePhase.SET)
                self._installer.checkpoint("recorded schedule")
            return
        plans = [plan for plan in self._opening() if self._store.task(plan.task).state not in ENDED]
        windows = self.holding.windows(row.number)
        if row.schedule is None or not self._everybody(row.schedule, windows, plans):
            self.drop("its schedule in the database is damaged")
            return
        if not all(inventory.complete(self._installer.plan_of(plan)) for plan in plans):
            self.drop("the orchestrator ended before all trees of its schedule were installed")
            return
        with self._store.transaction():
            for plan in plans:
                self._store.set_phase(plan.generation, PlanPhase.INSTALLED)
        self._set(row.number, row.schedule, windows)

    def _everybody(self, schedule: Schedule, windows: Sequence[TurnWindow], plans: Sequence[PlanRow]) -> bool:
        """Whether each task of a schedule has exactly one turn, with all circuits of its trees to be installed."""
        lit = {name: set(window.circuits) for window in windows for name in window.tasks}
        plans = [plan for plan in plans if not is_read(plan.role)]
        if sorted(name for window in windows for name in window.tasks) != sorted(plan.job for plan in schedule.jobs):
            return False
        return all(set(circuits_of(self._installer.plan_of(plan))) <= lit.get(plan.task, set()) for plan in plans)


def _bug(what: str, error: Exception) -> str:
    return f"it could not be {what}: {type(error).__name__}: {one_line(error)}"
