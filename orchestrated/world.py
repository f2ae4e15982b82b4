"""Where orchestrated tasks run: a virtual network, its switches behind P4Runtime, and the tasks' hosts."""

import secrets
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from p4reduce.base.safe_yaml import one_line
from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.orchestrator.errors import RefusedError
from p4reduce.control_plane.orchestrator.executor import Order, Report, ReportKind, Role, Running
from p4reduce.control_plane.orchestrator.timetable import Timetable, Turn
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.program import P4Program
from p4reduce.fabric import Faults
from p4reduce.fabric.background import Background
from p4reduce.jobs.job import Job
from p4reduce.jobs.network import JobNetwork
from p4reduce.jobs.switches import ServedSwitches
from p4reduce.orchestrated.attempts import Attempts
from p4reduce.orchestrated.changes import Changes
from p4reduce.orchestrated.damage import Damage
from p4reduce.orchestrated.memory import check_memory, half_of_memory
from p4reduce.orchestrated.reading import check_reads, read_keys
from p4reduce.orchestrated.report_log import ReportLog
from p4reduce.orchestrated.rounds import Rounds
from p4reduce.orchestrated.task_run import TaskRun
from p4reduce.orchestrated.wanted import wanted
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop

_WHOLE: Final = Faults()
_EVENTS: Final = 1_000_000
"""of the network, after which it is asked whether somebody waits: about a second"""


class World(AbstractContextManager["World"]):
    """An :class:`~p4reduce.control_plane.orchestrator.executor.Executor`.

    Not thread-safe, but P4Runtime calls may come at any time.
    The same requests at the same virtual times give the same packets, reports and bytes.

    Parameters
    ----------
    topology : Topology
        The network.
    program : P4Program
        What the switches run from the start.
    queue_frames : int
        Frames of a port's queue, for each priority.
    faults, seed
        Of all links.
    background : Background or None
        Traffic of others between all hosts, from the first moment on; None: nobody else is there.
    most_bytes : int or None
        Of memory for the models of all tasks together; None: half of the machine's.
    slowdowns : mapping or None
        Hosts that train so many times longer than they are told to: what only rounds show.
    checkpoints : Path or None
        A folder for those of tasks that may begin anew; None: they begin with their first round.
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
    ) -> None:
        self._slowdowns = dict(slowdowns or {})
        self._attempts = Attempts(checkpoints)
        self.topology = topology
        self.program = program
        self.instance: str = secrets.token_hex(8)
        self.background = background
        self._most_bytes = half_of_memory() if most_bytes is None else most_bytes
        self.term = 0
        """of the orchestrator in charge"""
        self._database: str | None = None
        self._runs: dict[str, TaskRun] = {}
        self._ended: dict[str, Running] = {}
        self._leaving: list[list[Job]] = []  # of tasks that have ended or changed; their endpoints are still there
        self._read_keys = read_keys()
        self._log = ReportLog()
        self.switches = ServedSwitches(topology)
        try:
            self.switches.load(program)
            self.network = JobNetwork(
                self.switches, faults=faults, queue_frames=queue_frames, seed=seed, background=background
            )
            tell = partial(self._report, None)
            self._changes = Changes(self.network, self._report, self._fail)
            self.damage = Damage(topology, self.network.fabric, self.switches, faults, tell, self._die)
            self._rounds = Rounds(self.network, self._change_turn, tell)
        except BaseException:
            self.switches.close()
            raise

    def close(self) -> None:
        """Stop the switches."""
        self.network.close()
        self.switches.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the executor

    def now(self) -> int:
        """Virtual time, picoseconds."""
        return self.network.now

    def take_charge(self, term: int, database: str) -> None:
        """One orchestrator after the other, all of one database."""
        if self._database not in (None, database):
            raise ClusterError(
                "the network belongs to another database; end it, or give the database that it began with"
            )
        if term < self.term:
            raise ClusterError(f"an orchestrator of term {self.term} has taken over from that of term {term}")
        self.term, self._database, self._attempts.database = term, database, database

    def start(self, order: Order) -> None:
        """Run a task; nothing when it was started before."""
        name = order.task.name
        known = self.running([name]).get(name)
        if known is not None and order.attempt <= known.attempt:
            if known.keys != order.keys:
                raise RefusedError(f"task {name}: another task of that name ran here")
            return
        self.stop(name)
        order = self._as_it_is(order)
        jobs: dict[Role, Job] = {}
        try:
            check_reads(order.reads)
            check_memory(order, (run.order for run in self._runs.values()), self._most_bytes)
            jobs = self._changes.add(order)
            run = TaskRun(order, jobs, self.network, self._read_keys)
            self._attempts.begin(run)
            run.turns = order.schedule is not None
            if run.turns:
                run.rest()
            else:
                run.begin(self.now())
        except Exception as error:  # whatever is wrong with one task, the others go on
            for job in jobs.values():
                self.network.retire(job)
            raise RefusedError(f"task {name}: {type(error).__name__}: {one_line(error)}") from None
        self._ended.pop(name, None)
        self._runs[name] = run
        self._step(run)

    def swap(self, task: str, plans: Mapping[Role, Plan]) -> None:
        """Change jobs of a running task to other epochs; nothing for those that have, or when it has ended."""
        if task in self._ended:
            return
        run = self._run(task)
        for role, plan in plans.items():
            if not run.ended and run.jobs[role].plan.epoch != plan.epoch:
                self._changes.change_over(run, role, plan)

    def replan(self, order: Order, *, at_once: bool = False) -> None:
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
        """Forget an order to replan that waits."""
        if task in self._runs:
            self._runs[task].coming = None

    def set_schedule(self, timetable: Timetable) -> None:
        """Tasks take turns from the end of this round on."""
        self._rounds.set(timetable)

    def turn(self) -> Turn:
        """Which schedule holds, and the present configuration."""
        return self._rounds.turn()

    def stop(self, task: str) -> None:
        """Give a task up: its endpoints are never asked again. Nothing when it is not known or has ended."""
        run = self._runs.get(task)
        if run is not None:
            self._end(run)

    def advance(self, until_ps: int, *, after: int | None = None, unless: Callable[[], bool] | None = None) -> int:
        """Let time pass; see the protocol. Earlier than that when ``unless``, which is asked now and then, says so."""
        while True:
            self._follow()
            if self.now() >= until_ps or (after is not None and self.news > after) or (unless and unless()):
                return self.now()
            watched = [index for run in self._runs.values() for index in run.active()]
            with wanted(unless if self.network.fabric.pacer else None) as check:
                self.network.advance(
                    min(until_ps, self._next_ps(until_ps)), watched, first=True, max_events=_EVENTS, check=check
                )

    def reports(self, after: int) -> list[Report]:
        """Reports from ``after`` + 1 on."""
        return self._log.after(after)

    @property
    def news(self) -> int:
        """Number of the last report that is not of a round or window."""
        return self._log.news

    def running(self, names: Collection[str] | None = None) -> dict[str, Running]:
        """Tasks that were started, by name."""
        found = {
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
        return {**ended, **found}

    def interface_bytes(self) -> dict[Hop, int]:
        """Bytes that every interface has sent."""
        return {port: self.network.fabric.links[port].bytes for port in self._ports()}

    def host_bytes(self) -> dict[Hop, int]:
        """Of these, what hosts sent for tasks."""
        links = {port: self.network.fabric.links[port] for port in self._ports() if self.topology.node(port[0]).is_host}
        return {port: counted.inc_first_bytes + counted.inc_resend_bytes for port, counted in links.items()}

    def links_down(self) -> set[Hop]:
        """Links that were cut, both directions."""
        return self.damage.down()

    # --- what tests and trials do to it

    def change_link(self, a: str, b: str, *, up: bool, at_ps: int | None = None) -> None:
        """As of :meth:`Damage.change_link`."""
        self.damage.change_link(a, b, up=up, at_ps=at_ps)

    # --- inside

    def _ports(self) -> list[Hop]:
        passive = {node.name for node in self.topology.crossconnects}
        ends = (end for link in self.topology.links for end in ((link.a, link.port_a), (link.b, link.port_b)))
        return [end for end in ends if end[0] not in passive]

    def _run(self, task: str) -> TaskRun:
        if task not in self._runs:
            raise ClusterError(f"no task {task!r} was started here")
        return self._runs[task]

    def _as_it_is(self, order: Order) -> Order:
        """An order with the times that hosts really take."""
        times = {host: round(told * self._slowdowns.get(host, 1.0)) for host, told in order.training_ps.items()}
        return replace(order, training_ps=times)

    def _next_ps(self, until_ps: int) -> int:
        """When Python is needed at the latest."""
        times = [until_ps if (at_ps := self.damage.next_ps()) is None else min(at_ps, until_ps)]
        times += [at_ps for run in self._runs.values() if (at_ps := run.next_ps()) is not None]
        if (at_ps := self._rounds.next_ps(self._runs, self.now())) is not None:
            times.append(at_ps)
        return min(times + self._changes.next_ps())

    def _follow(self) -> None:
        """Do what is due now."""
        self.damage.happen()
        while True:
            for run in list(self._runs.values()):
                self._step(run)
            if not self._rounds.step(self._runs, self.now()):
                break
        self._changes.follow()
        for jobs in list(self._leaving):
            if not any(map(self.network.lingers, jobs)):
                self._leaving.remove(jobs)
                for job in jobs:
                    self.network.retire(job)

    def _die(self, host: str, task: str | None) -> None:
        """Processes of a task, or of all, at a host end."""
        for run in [run for name, run in self._runs.items() if task in (None, name)]:
            self._changes.die(run, host, whole=task is None)

    def _step(self, run: TaskRun) -> None:
        try:
            self._go_on(run)
        except Exception as error:  # a task's own fault, whatever it is
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
        """Nothing of a run is done any more."""
        run.ended = True
        self._attempts.end(run, finished=False)
        run.close()
        for job in run.jobs.values():
            self.network.give_up(job)
        self._leave(run)

    def _leave(self, run: TaskRun) -> None:
        """A run has ended: what is known of it stays, its memory goes as soon as none of its frames is awaited."""
        name = run.order.task.name
        if name in self._runs:
            self._ended[name] = self.running([name])[name]
            del self._runs[name]
            self._leaving.append(list(run.jobs.values()))

    def _change_turn(self, run: TaskRun, role: Role, plan: Plan) -> None:
        """As :meth:`Changes.change_over` where nobody can be told: the task fails."""
        try:
            self._changes.change_over(run, role, plan)
        except RefusedError as error:
            self._fail(run, str(error))

    def _report(self, run: TaskRun | None, kind: ReportKind, data: Mapping[str, Any]) -> None:
        self._log.add(self.now(), kind, None if run is None else run.order.task.name, data)
