"""The world of orchestrated tasks: a virtual network, its switches behind P4Runtime, and the tasks' hosts."""

import os
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from p4reduce.base.records import to_plain
from p4reduce.control_plane.entries import P4Program
from p4reduce.control_plane.orchestrator.executor import (
    ExecutorReport,
    ReportKind,
    Role,
    Running,
    ScheduleTurn,
    TaskOrder,
    Timetable,
    circuits_of,
    named,
)
from p4reduce.control_plane.orchestrator.options import TaskRefusedError
from p4reduce.control_plane.plans import Plan
from p4reduce.group.errors import ClusterError
from p4reduce.network.background import Background
from p4reduce.network.flow_jobs import Carrier, FlowJobs
from p4reduce.network.jobs.network import Job, JobNetwork, ServedSwitches
from p4reduce.network.virtual import Faults
from p4reduce.play.tasks.blocks import BlocksRun
from p4reduce.play.tasks.reading import check_reads, read_keys
from p4reduce.play.tasks.serving import ServiceRun
from p4reduce.play.tasks.task_run import AttemptFiles, OpenSwap, TaskRounds, TaskRun
from p4reduce.topologies import Link, Topology
from p4reduce.topologies.model import Hop
from p4switch.base.closing import Closable
from p4switch.base.values import one_line

# Reports of an executor, numbered from 1 on, kept until the caller has stored them.


_OFTEN: Final = ("round", "window")
"""Kinds of reports that callers do not wait for."""


class ReportLog:
    """Reports in order."""

    def __init__(self) -> None:
        self._kept: list[ExecutorReport] = []  # from number `_forgotten` + 1 on
        self._forgotten = 0
        self.news = 0
        """Number of the last report that is not of a round or window."""

    def add(self, at_ps: int, kind: ReportKind, task: str | None, data: Mapping[str, Any]) -> None:
        """Add a report."""
        number = self._forgotten + len(self._kept) + 1
        self._kept.append(ExecutorReport(number, at_ps, kind, task, dict(data)))
        if kind not in _OFTEN:
            self.news = number

    def after(self, number: int) -> list[ExecutorReport]:
        """Return reports from ``number`` + 1 on; earlier ones are forgotten."""
        known = max(0, number - self._forgotten)
        del self._kept[:known]
        self._forgotten += known
        return list(self._kept)


# Faults that tests and trials cause in a network: links cut and mended, hosts ended, switches restarted.


_CUT: Final = Faults(loss=1.0)
Die = Callable[[str, str | None], None]
"""Function that ends the processes of a task, or of all tasks, at a host."""
Tell = Callable[[ReportKind, Mapping[str, Any]], None]
"""Function that reports an event: its kind and data."""


class TaskDamage:
    """Agenda of faults, and what is down now. ``faults``: those of intact links; ``die``: ends processes at hosts."""

    def __init__(
        self,
        topology: Topology,
        network: Carrier,
        switches: ServedSwitches,
        faults: Faults,
        tell: Tell,
        die: Die,
    ) -> None:
        self._topology, self._network, self._switches = topology, network, switches
        self._faults, self._tell, self._die = faults, tell, die
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._entered = 0
        self._cut: set[Hop] = set()
        self._away: dict[str, int] = {}  # switches and hosts: number of absences that have not ended
        self._down: set[Hop] = set()

    def down(self) -> set[Hop]:
        """Return the links without a carrier, both directions."""
        return set(self._down)

    def next_ps(self) -> int | None:
        """Return when the next change is due, picoseconds; None: never."""
        return min((due[0] for due in self._agenda), default=None)

    def change_link(self, a: str, b: str, *, up: bool, at_ps: int | None = None) -> None:
        """Cut or mend the link of two neighbours, now or at a time; frames on it still arrive."""
        ends = ((a, self._topology.port(a, b)), (b, self._topology.port(b, a)))

        def change() -> None:
            (self._cut.difference_update if up else self._cut.update)(ends)
            self._settle()

        self._enter(f"link {a} - {b}", at_ps, change)

    def end_process(self, host: str, *, task: str, at_ps: int | None = None) -> None:
        """End a task's process at a host, now or at a time; the host stays."""
        self._check_host(host)
        self._enter(f"task {task} at {host}", at_ps, lambda: self._die(host, task))

    def end_host(self, host: str, *, at_ps: int | None = None, away_ps: int | None = None) -> None:
        """End a host and all its processes, now or at a time; after ``away_ps``, if given, the host alone returns."""
        self._check_host(host)
        if away_ps is not None and away_ps < 0:
            raise ClusterError(f"host {host}: away_ps: {away_ps} is below 0")

        def end() -> None:
            self._away[host] = self._away.get(host, 0) + 1
            self._settle()
            self._die(host, None)

        def begin() -> None:
            self._away[host] -= 1
            self._settle()

        at_ps = self._network.now if at_ps is None else at_ps
        self._enter(f"host {host}", at_ps, end)
        if away_ps is not None:
            self._enter(f"host {host}", at_ps + away_ps, begin)

    def _check_host(self, host: str) -> None:
        if host not in {node.name for node in self._topology.hosts}:
            raise ClusterError(f"{host!r} is no host of topology {self._topology.name!r}")

    def restart_switch(self, switch: str, *, at_ps: int | None = None, away_ps: int = 0) -> None:
        """Restart a switch, now or at a time, without entries and registers; first it is away for ``away_ps``."""
        if switch not in {node.name for node in self._topology.switches}:
            raise ClusterError(f"{switch!r} is no switch of topology {self._topology.name!r}")
        if away_ps < 0:
            raise ClusterError(f"switch {switch}: away_ps: {away_ps} is below 0")

        def leave() -> None:
            self._away[switch] = self._away.get(switch, 0) + 1
            self._settle()

        def begin() -> None:
            self._switches.restart(switch)
            if away_ps:
                self._away[switch] -= 1
                self._settle()

        at_ps = self._network.now if at_ps is None else at_ps
        if away_ps:
            self._enter(f"switch {switch}", at_ps, leave)
        self._enter(f"switch {switch}", at_ps + away_ps, begin)

    def happen(self) -> None:
        """Make the changes that are due now."""
        while self._agenda and self._agenda[0][0] <= self._network.now:
            self._agenda.pop(0)[2]()

    def _enter(self, what: str, at_ps: int | None, change: Callable[[], None]) -> None:
        now = self._network.now
        at_ps = now if at_ps is None else at_ps
        if at_ps < now:
            raise ClusterError(f"{what}: {at_ps} ps is past: it is {now} ps")
        self._entered += 1
        self._agenda.append((at_ps, self._entered, change))
        self._agenda.sort(key=lambda entry: entry[:2])

    def _settle(self) -> None:
        """Update the state of all links, and report those that changed."""
        for link in self._topology.links:
            ends = ((link.a, link.port_a), (link.b, link.port_b))
            up = self._cut.isdisjoint(ends) and not (self._away.get(link.a) or self._away.get(link.b))
            if up != self._down.isdisjoint(ends):
                for end in ends:
                    self._network.set_faults(end, self._faults if up else _CUT)
                (self._down.difference_update if up else self._down.update)(ends)
                self._tell("link", {"node": link.a, "port": link.port_a, "up": up})


# Memory for the models of tasks: a task that does not fit is refused, and the others go on.


def half_of_memory() -> int:
    """Return half of this machine's memory, bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def check_memory(order: TaskOrder, others: Iterable[TaskOrder], most_bytes: int) -> None:
    """Raise `ClusterError` if a task's models and their copies do not fit beside those of the others."""
    needed, used = _model_bytes(order), sum(map(_model_bytes, others))
    if used + needed > most_bytes:
        raise ClusterError(
            f"{needed >> 20} MB for its models are too much: {used >> 20} of {most_bytes >> 20} MB are used"
        )


def _model_bytes(order: TaskOrder) -> int:
    """Return the memory of a task's models: one per worker, the server's three, and that for drawing and checking one.

    For an all-to-all: the arrays that every host sends, receives and gets back.
    """
    hosts = len(order.task.workers) + 1
    if order.task.exchange == "a2a":
        return 4 * order.task.elements * (3 * hosts + 6) * hosts
    return 4 * order.task.elements * (hosts + 6)


# Leaving a network whose time a viewer holds, as soon as a request arrives.


class _WantedError(Exception):
    """Raised when a client waits; never leaves :func:`wanted`."""


@contextmanager
def wanted(unless: Callable[[], bool] | None) -> Iterator[Callable[[], None] | None]:
    """Yield a check that a held network calls regularly: it ends the block between two events if ``unless()``."""

    def check() -> None:
        if unless is not None and unless():
            raise _WantedError

    try:
        yield None if unless is None else check
    except _WantedError:
        return


# Tasks that change while they run: other epochs of their jobs, other plans and hosts, and processes that die.


Reporter = Callable[[TaskRun, ReportKind, Mapping[str, Any]], None]
"""Function that reports an event of a task."""


class Changes:
    """Manager of runs' endpoints: creation, replacement and removal.

    Parameters
    ----------
    network : Carrier
        Network of the endpoints.
    report : callable
        Reports an event of a task.
    fail : callable
        Ends a run, with a reason.
    """

    def __init__(self, network: Carrier, report: Reporter, fail: Callable[[TaskRun, str], None]) -> None:
        self._network, self._report, self._fail = network, report, fail
        self.open: list[OpenSwap] = []
        """Swaps whose workers have not caught up."""

    def add(self, order: TaskOrder) -> dict[Role, Job]:
        """Create the endpoints of an order's plans; after an error there are none."""
        jobs: dict[Role, Job] = {}
        try:
            for role, plan in order.plans.items():
                jobs[role] = self._network.add(plan)
        except BaseException:
            for job in jobs.values():
                self._network.retire(job)
            raise
        return jobs

    def check(self, run: TaskRun, order: TaskOrder) -> None:
        """Raise `TaskRefusedError` for an order with which a run cannot continue."""
        name = order.task.name
        if order.task.elements != run.order.task.elements:
            raise TaskRefusedError(f"task {name}: a running task keeps its model")
        if len(order.all_ranks) != len(order.task.workers) or len({*order.all_ranks}) != len(order.all_ranks):
            raise TaskRefusedError(f"task {name}: every worker has a rank of its own")
        if not {*order.all_ranks} <= {*run.order.all_ranks} or (
            not order.ranks and len(order.task.workers) != len(run.order.task.workers)
        ):
            raise TaskRefusedError(
                f"task {name}: a running task keeps its model and the number of its workers, "
                "or says whose ranks are left"
            )
        hosts = {order.task.server, *order.task.workers}
        if died := [host for host in run.died if host in hosts and host not in order.anew]:
            raise TaskRefusedError(f"task {name}: its process of {died[0]} has died")

    def turn(self, run: TaskRun) -> bool:
        """Move a run to its waiting order, with new endpoints in place of the old ones; return whether it did."""
        order, run.coming = run.coming, None
        if order is None:
            return False
        try:
            jobs = self.add(order)
        except Exception as error:  # the run stays as it is
            self._report(run, "replanned", {"error": f"{type(error).__name__}: {one_line(error)}"})
            return False
        old = list(run.jobs.values())
        run.close()
        for job in old:
            self._network.give_up(job)
            self._network.retire(job)
        self.open = [swap for swap in self.open if swap.run is not run]
        keys = {role: [*key] for role, key in order.keys.items()}
        self._report(run, "replanned", {"keys": keys, "round": run.round, "again": run.begun})
        run.turn(order, jobs, self._network.now)
        return True

    def change_over(self, run: TaskRun, role: Role, plan: Plan) -> None:
        """Move all endpoints of a job to the next epoch, on another tree, now."""
        job = run.jobs[role]
        if run.died:
            raise TaskRefusedError(f"task {run.order.task.name}: its process of {run.died[0]} has died")
        if plan.in_network != job.plan.in_network or plan.slots != job.plan.slots or plan.job != job.plan.job:
            raise TaskRefusedError(
                f"task {run.order.task.name}: job {job.plan.job} cannot change to another kind of plan, job or window"
            )
        if plan.exchanged:
            self._renew(run, role, plan)
            return
        try:
            swap = OpenSwap(self._network, run, role) if isinstance(self._network, JobNetwork) else None
            self._network.change_over(job, plan)
            self.open += [] if swap is None else [swap]
        except Exception as error:  # some of its hosts may have changed: it cannot go on
            self._fail(run, f"could not change to epoch {plan.epoch}: {type(error).__name__}: {one_line(error)}")

    def _renew(self, run: TaskRun, role: Role, plan: Plan) -> None:
        """Replace a job's endpoints between two collectives, because exchanging hosts have no epochs."""
        old = run.jobs[role]
        if any(run.active()):
            raise TaskRefusedError(f"task {run.order.task.name}: job {plan.job} cannot change within a collective")
        try:
            new = self._network.add(plan)
        except Exception as error:
            self._fail(run, f"could not change to epoch {plan.epoch}: {type(error).__name__}: {one_line(error)}")
            return
        self._network.give_up(old)
        self._network.retire(old)
        run.jobs = {**run.jobs, role: new}
        places = dict(zip(old.endpoints, new.endpoints, strict=True))
        run.due = {places.get(index, index): at_ps for index, at_ps in run.due.items()}

    def follow(self) -> None:
        """Report swaps whose workers have caught up by now."""
        for swap in list(self.open):
            if swap.run.ended or swap.caught_up():
                self.open.remove(swap)
                self._report(swap.run, "resumed", to_plain(swap.interruption(self._network.now)))

    def next_ps(self) -> list[int]:
        """Return when to check again while jobs catch up: once per chunk on their busiest links."""
        return [self._network.now + max(1, swap.run.jobs[swap.role].plan.chunk_ps) for swap in self.open]

    def die(self, run: TaskRun, host: str, *, whole: bool) -> None:
        """Handle the end of a run's process at a host: the others stop until the orchestrator decides how to continue.

        ``whole``: the host itself has ended; a task that would read data there fails. If the tasks take turns, the task
        fails, too: it could continue only after the round, for whose end the others would wait.
        """
        if run.ended or host in run.died:
            return
        if host not in (run.order.task.server, *run.order.task.workers):
            if whole and (reader := run.reader_at(host)) is not None:
                self._fail(run, f"{reader} cannot read its data at {host}: that host has ended")
            return
        run.died.append(host)
        run.close()
        for job in run.jobs.values():
            self._network.give_up(job)
        self.open = [swap for swap in self.open if swap.run is not run]
        self._report(run, "died", {"host": host, "round": run.round})
        if run.turns:
            task = run.order.task
            where = f"in round {run.round} of {task.rounds} (on_failure: {task.on_failure})"
            who = named(task, run.order.all_ranks, [host])
            self._fail(run, f"{who} {where}: the process of {host} has died, and others wait for its turn to end")


_WHOLE: Final = Faults()
Time = Literal["virtual", "flow"]
_EVENTS: Final = 1_000_000
"""Events of the network between two checks whether a client waits: about a second."""


class World(Closable):
    """An :class:`~p4reduce.control_plane.orchestrator.executor.Executor` of a simulated network.

    Not thread-safe, but P4Runtime calls may come at any time.
    The same requests at the same virtual times give the same packets, reports and bytes.

    Parameters
    ----------
    topology : Topology
        The network.
    program : P4Program
        Program of the switches from the start.
    queue_frames : int
        Frames of a port's queue, for each priority.
    faults, seed
        Faults of all links, and their seed.
    background : Background or None
        Background traffic between all hosts, from time 0 on; None: no other traffic.
    most_bytes : int or None
        Memory for the models of all tasks together; None: half of the machine's.
    slowdowns : mapping or None
        Factors by which hosts train longer than they are told to; only rounds show it.
    checkpoints : Path or None
        Folder for checkpoints of tasks that may begin again; None: they begin with their first round.
    time : str
        'virtual', or 'flow': switches get entries, but no packets, and collectives take the time of the flow model.
    """

    def __init__(
        self,
        topology: Topology,
        program: P4Program,
        *,
        queue_frames: int = 1024,
        faults: Faults = _WHOLE,
        seed: int = 0,
        background: Background | None = None,
        most_bytes: int | None = None,
        slowdowns: Mapping[str, float] | None = None,
        checkpoints: Path | None = None,
        time: Time = "virtual",
    ) -> None:
        if time == "flow" and (background is not None or faults != _WHOLE or topology.crossconnects):
            raise ClusterError("the flow model knows no faults, background traffic or circuits; choose time: virtual")
        self.time: Final = time
        self._slowdowns = dict(slowdowns or {})
        self._attempts = AttemptFiles(checkpoints)
        self.topology = topology
        self.program = program
        self.instance: str = secrets.token_hex(8)
        self.background = background
        self._most_bytes = half_of_memory() if most_bytes is None else most_bytes
        self.term = 0
        """Term of the orchestrator in charge."""
        self._database: str | None = None
        self._runs: dict[str, TaskRun] = {}
        self._ended: dict[str, Running] = {}
        self._leaving: list[tuple[bool, list[Job]]] = []  # jobs of tasks that have ended, and whether these took turns
        self._read_keys = read_keys()
        self._log = ReportLog()
        self.switches = ServedSwitches(topology)
        try:
            self.switches.load(program)
            self.network: Carrier = (
                FlowJobs(topology, queue_frames)
                if time == "flow"
                else JobNetwork(
                    self.switches, faults=faults, queue_frames=queue_frames, seed=seed, background=background
                )
            )
            tell = partial(self._report, None)
            self._changes = Changes(self.network, self._report, self._fail)
            self.damage = TaskDamage(topology, self.network, self.switches, faults, tell, self._die)
            self._rounds = TaskRounds(self.network, self._change_turn, tell)
        except BaseException:
            self.switches.close()
            raise

    def close(self) -> None:
        """Stop the switches."""
        self.network.close()
        self.switches.close()

    # --- the executor

    def now(self) -> int:
        """Return the virtual time, picoseconds."""
        return self.network.now

    @property
    def switches_count(self) -> bool:
        """Whether frames cross switches."""
        return self.time != "flow"

    def take_charge(self, term: int, database: str) -> None:
        """Put an orchestrator in charge; its term must not be below the last one, and its database the same."""
        if self._database not in (None, database):
            raise ClusterError(
                "the network belongs to another database; end it, or give the database that it began with"
            )
        if term < self.term:
            raise ClusterError(f"an orchestrator of term {self.term} has taken over from that of term {term}")
        self.term, self._database, self._attempts.database = term, database, database

    def start(self, order: TaskOrder) -> None:
        """Run a task; do nothing if it was started before."""
        name = order.task.name
        known = self.running([name]).get(name)
        if known is not None and order.attempt <= known.attempt:
            if known.keys != order.keys:
                raise TaskRefusedError(f"task {name}: another task of that name ran here")
            return
        self.stop(name)
        order = self._as_it_is(order)
        jobs: dict[Role, Job] = {}
        try:
            check_reads(order.reads)
            if self.network.holds_arrays:
                check_memory(order, (run.order for run in self._runs.values()), self._most_bytes)
            jobs = self._changes.add(order)
            kind = BlocksRun if order.task.exchange == "a2a" else TaskRun
            kind = kind if order.task.serving is None else ServiceRun
            run = kind(order, jobs, self.network, self._read_keys)
            self._attempts.begin(run)
            run.turns = order.schedule is not None
            dark_ps = self._light(() if run.turns else jobs.values())
            if run.turns:
                run.await_turn(self.now())
            else:
                run.begin(self.now() + dark_ps)
        except Exception as error:  # whatever is wrong with one task, the others go on
            for job in jobs.values():
                self.network.retire(job)
            raise TaskRefusedError(f"task {name}: {type(error).__name__}: {one_line(error)}") from None
        self._ended.pop(name, None)
        self._runs[name] = run
        self._step(run)

    def swap(self, task: str, plans: Mapping[Role, Plan]) -> None:
        """Change jobs of a running task to other epochs; do nothing for jobs that have them, or if it has ended."""
        if task in self._ended:
            return
        run = self._run(task)
        for role, plan in plans.items():
            if not run.ended and run.jobs[role].plan.epoch != plan.epoch:
                self._changes.change_over(run, role, plan)

    def replan(self, order: TaskOrder, *, at_once: bool = False) -> None:
        """Give a running task other plans between two rounds; see the protocol."""
        name = order.task.name
        if name in self._ended:
            return
        run = self._run(name)
        if self.running([name])[name].keys == order.keys:
            return
        self._changes.check(run, order)
        run.coming = self._as_it_is(order)
        if at_once and not run.ended:
            self._changes.turn(run)
            self._step(run)

    def keep_plans(self, task: str) -> None:
        """Forget a waiting order to replan."""
        if task in self._runs:
            self._runs[task].coming = None

    def set_schedule(self, timetable: Timetable) -> None:
        """Have tasks take turns from the end of this round on."""
        if self.time == "flow":
            raise TaskRefusedError("the flow model has no circuits that change; choose time: virtual")
        self._rounds.set(timetable)

    def turn(self) -> ScheduleTurn:
        """Return the present schedule and configuration."""
        return self._rounds.turn()

    def stop(self, task: str) -> None:
        """Stop a task: its endpoints never send again. Do nothing if it is unknown or has ended."""
        run = self._runs.get(task)
        if run is not None:
            self._end(run)

    def advance(self, until_ps: int, *, after: int | None = None, unless: Callable[[], bool] | None = None) -> int:
        """Let time pass; see the protocol. Return earlier when ``unless``, which is called regularly, returns True."""
        while True:
            self._follow()
            if self.now() >= until_ps or (after is not None and self.news > after) or (unless and unless()):
                return self.now()
            watched = [index for run in self._runs.values() for index in run.active()]
            with wanted(unless if self.network.held else None) as check:
                self.network.advance(
                    min(until_ps, self._next_ps(until_ps)), watched, first=True, max_events=_EVENTS, check=check
                )

    def reports(self, after: int) -> list[ExecutorReport]:
        """Return reports from ``after`` + 1 on."""
        return self._log.after(after)

    @property
    def news(self) -> int:
        """Number of the last report that is not of a round or window."""
        return self._log.news

    def running(self, names: Collection[str] | None = None) -> dict[str, Running]:
        """Return the tasks that were started, by name."""
        started = {
            name: Running(
                {role: (job.plan.job, job.plan.epoch) for role, job in run.jobs.items()},
                run.round,
                run.ended,
                tuple(run.died),
                run.order.attempt,
            )
            for name, run in self._runs.items()
            if names is None or name in names
        }
        ended = self._ended if names is None else {name: self._ended[name] for name in names if name in self._ended}
        return {**ended, **started}

    def interface_bytes(self) -> dict[Hop, int]:
        """Return the bytes that every interface has sent."""
        return self._at_ports(self.network.sent())

    def host_bytes(self) -> dict[Hop, int]:
        """Return the bytes that hosts have sent for tasks; in the flow model the bytes of all ports."""
        return self._at_ports(self.network.host_sent())

    def links_down(self) -> set[Hop]:
        """Return the links that were cut, both directions."""
        return self.damage.down()

    # --- faults caused by tests and trials

    def change_link(self, a: str, b: str, *, up: bool, at_ps: int | None = None) -> None:
        """Cut or mend a link; as :meth:`TaskDamage.change_link`."""
        if self.time == "flow":
            raise ClusterError(f"link {a} - {b}: the flow model knows no links that are cut; choose time: virtual")
        self.damage.change_link(a, b, up=up, at_ps=at_ps)

    # --- inside

    def _at_ports(self, sent: Mapping[Hop, int]) -> dict[Hop, int]:
        """Return the counts at ports of nodes that count, in the order of the topology's links."""
        passive = {node.name for node in self.topology.crossconnects}
        ends = (end for link in self.topology.links for end in ((link.a, link.port_a), (link.b, link.port_b)))
        return {end: sent[end] for end in ends if end[0] not in passive and end in sent}

    def _run(self, task: str) -> TaskRun:
        if task not in self._runs:
            raise ClusterError(f"no task {task!r} was started here")
        return self._runs[task]

    def _as_it_is(self, order: TaskOrder) -> TaskOrder:
        """Return an order with the times that hosts really take."""
        times = {host: round(told * self._slowdowns.get(host, 1.0)) for host, told in order.training_ps.items()}
        return replace(order, training_ps=times)

    def _next_ps(self, until_ps: int) -> int:
        """Return when Python is needed at the latest, picoseconds."""
        times = [until_ps if (at_ps := self.damage.next_ps()) is None else min(at_ps, until_ps)]
        times += [at_ps for run in self._runs.values() if (at_ps := run.next_ps()) is not None]
        if (at_ps := self._rounds.next_ps(self._runs, self.now())) is not None:
            times.append(at_ps)
        return min(times + self._changes.next_ps())

    def _follow(self) -> None:
        """Do all that is due now."""
        self.damage.happen()
        while True:
            for run in list(self._runs.values()):
                self._step(run)
            if not self._rounds.step(self._runs, self.now()):
                break
        self._changes.follow()
        for turns, jobs in list(self._leaving):
            if not any(map(self.network.lingers, jobs)):
                self._leaving.remove((turns, jobs))
                for job in jobs:
                    self.network.retire(job)
                self._light()

    def _light(self, coming: Iterable[Job] = ()) -> int:
        """Light the circuits of plans without turns, of running tasks, then of leaving ones; return the dark time, ps.

        Circuits that are lit already stay in all windows.
        """
        if not self.topology.crossconnects:
            return 0
        lit: list[Link] = []
        ports: set[Hop] = set()
        running = [job for run in self._runs.values() if not run.turns for job in run.jobs.values()]
        leaving = [job for turns, jobs in self._leaving if not turns for job in jobs]
        for job in (*coming, *running, *leaving):
            for link in circuits_of(job.plan):
                ends = {(link.a, link.port_a), (link.b, link.port_b)}
                if link not in lit and not ends & ports:
                    lit.append(link)
                    ports |= ends
        return self._rounds.stand(tuple(lit))

    def _die(self, host: str, task: str | None) -> None:
        """End the processes of a task, or of all tasks, at a host."""
        for run in [run for name, run in self._runs.items() if task in (None, name)]:
            self._changes.die(run, host, whole=task is None)

    def _step(self, run: TaskRun) -> None:
        try:
            self._go_on(run)
        except Exception as error:  # any fault of a task ends only this task
            self._fail(run, f"{type(error).__name__}: {one_line(error)}")

    def _go_on(self, run: TaskRun) -> None:
        while not run.ended:
            run.step(self.now())
            if run.restored is not None:
                self._report(run, "restored", {"round": run.round, **run.restored})
                run.restored = None
            if run.error is None and not run.round_is_done:
                return
            number, times = run.round, dict(run.times)
            reason = run.error or run.end_round()
            if reason:
                self._fail(run, reason)
                return
            if isinstance(run, ServiceRun):
                self._report(run, "served", run.latencies())
            else:
                told = {"ranks": list(run.order.all_ranks), "training_ps": dict(run.order.training_ps)}
                self._report(run, "round", {"round": number, **times, **told})
            if run.round == run.order.task.rounds:
                self._report(run, "finished", {"digest": run.digest.hex()})
                self._attempts.end(run, finished=True)
                self._leave(run)
                return
            self._attempts.keep(run)
            if run.turns:
                run.rest()
            elif run.coming is None or not self._changes.turn(run):
                run.begin_round(self.now())

    def _fail(self, run: TaskRun, reason: str) -> None:
        self._report(run, "failed", {"reason": reason})
        self._end(run)

    def _end(self, run: TaskRun) -> None:
        """Stop all operations of a run."""
        run.ended = True
        self._attempts.end(run, finished=False)
        run.close()
        for job in run.jobs.values():
            self.network.give_up(job)
        self._leave(run)

    def _leave(self, run: TaskRun) -> None:
        """Remove an ended run: its figures stay, its memory is freed as soon as no more frames of it are expected."""
        name = run.order.task.name
        if name in self._runs:
            self._ended[name] = self.running([name])[name]
            del self._runs[name]
            self._leaving.append((run.turns, list(run.jobs.values())))

    def _change_turn(self, run: TaskRun, role: Role, plan: Plan) -> None:
        """Change a job as :meth:`Changes.change_over` does, but let the task fail if that is refused."""
        try:
            self._changes.change_over(run, role, plan)
        except TaskRefusedError as error:
            self._fail(run, str(error))

    def _report(self, run: TaskRun | None, kind: ReportKind, data: Mapping[str, Any]) -> None:
        self._log.add(self.now(), kind, None if run is None else run.order.task.name, data)
