"""Measurements and decisions with their reasons: written as they happen, read for figures."""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Any, Final

from p4reduce.base.errors import PlanError
from p4reduce.base.records import ITEMS, RecordError, from_json, to_json
from p4reduce.control_plane.orchestrator.executor import ExecutorReport, Role, TurnWindow
from p4reduce.control_plane.orchestrator.options import AT_WORK, ENDED, PlanPhase, TaskState
from p4reduce.control_plane.scheduling.task import Task, WantedHosts
from p4reduce.control_plane.tdm.schedule import Schedule
from p4reduce.topologies import Link
from p4reduce.topologies.model import Hop
from p4switch.base.values import one_line

# Rows of the database as objects. An unreadable row becomes an object with the reason and a substitute for its task.


UNREADABLE: Final = Task("unreadable", "?", ("-",), 1)
"""replaces a task whose specification cannot be read"""
Demand = Annotated[Mapping[Hop, int], ITEMS]
"""bit/s by directed link"""
Names = tuple[str, ...]
Circuits = tuple[Link, ...]


@dataclass(frozen=True)
class TaskRow:
    """A task and its state. Times are virtual picoseconds.

    ``task`` has the workers that take part: with a selection, all candidates until it is made, and then the chosen
    workers without a selection; with chosen hosts, these hosts as soon as the task is scheduled. ``ranks`` has the rank
    of each of these workers, which stays the same when other workers die. ``candidates`` are the workers of the
    submitted task, ``wanted`` its request for hosts instead of names. ``attempt`` is the number of its restarts; after
    a restart ``arrival_ps`` is its earliest time. ``fault`` is the reason why the row cannot be used, or empty; with a
    fault ``task`` is `UNREADABLE`. ``waits`` is the reason why a queued task did not fit when it was last tried; None
    before that.
    """

    number: int
    name: str
    task: Task
    arrival_ps: int
    state: TaskState
    reason: str
    cancel: bool
    started_ps: int | None
    finished_ps: int | None
    digest: str | None
    waits: str | None = None
    fault: str = ""
    candidates: tuple[str, ...] = ()
    wanted: WantedHosts | None = None
    ranks: tuple[int, ...] = ()
    attempt: int = 0

    @property
    def may_restart(self) -> bool:
        """Whether a failure now would lead to a restart: the task has run, and restarts are left."""
        ran = self.state in AT_WORK or (self.attempt > 0 and self.state not in ENDED)
        return ran and not self.fault and not self.cancel and self.attempt < self.task.max_restarts


@dataclass(frozen=True)
class PlacedTask:
    """The hosts that were chosen for a task, or that remain after losses. ``ranks`` of the workers; None: 0, 1, ..."""

    workers: tuple[str, ...]
    server: str
    ranks: tuple[int, ...] | None = None


@dataclass(frozen=True)
class PlanRow:
    """A plan of a task. ``plan`` is the JSON of a :class:`~p4reduce.control_plane.plans.Plan`."""

    generation: int
    task: str
    role: Role
    job: int
    epoch: int
    phase: PlanPhase
    demand_bps: Demand
    plan: str


def task_row(row: sqlite3.Row) -> TaskRow:
    """Convert a row of the table `tasks`."""
    task, fault = _task(row["spec"])
    if not fault and task.name != row["name"]:
        task, fault = UNREADABLE, f"its specification is that of {one_line(task.name, 60)!r}"
    candidates, wanted = task.workers, task.wanted
    if not fault and row["chosen"] is not None:
        task, fault = _chosen(task, row["chosen"])
    ranks = tuple(range(len(task.workers)))
    if not fault and row["placed"] is not None:
        task, ranks, fault = _placed(task, row["placed"])
    return TaskRow(
        number=row["number"],
        name=row["name"],
        task=task,
        arrival_ps=row["arrival_ps"],
        state=TaskState(row["state"]),
        reason=row["reason"],
        cancel=bool(row["cancel"]),
        started_ps=row["started_ps"],
        finished_ps=row["finished_ps"],
        digest=row["digest"],
        waits=row["waits"],
        fault=fault,
        candidates=candidates,
        wanted=wanted,
        ranks=ranks,
        attempt=row["attempt"],
    )


@lru_cache(maxsize=2048)
def _task(spec: str) -> tuple[Task, str]:
    """The task of a specification and its fault, if any; cached, since a specification never changes."""
    try:
        return from_json(Task, spec, "its specification in the database cannot be used"), ""
    except ValueError as error:
        return UNREADABLE, one_line(error)


def _chosen(task: Task, text: str) -> tuple[Task, str]:
    """The task with the workers that were chosen for it, and the fault of that choice, if any."""
    fault = "its choice of workers in the database cannot be used"
    try:
        chosen = from_json(Names, text, fault)
        if not set(chosen) <= set(task.workers):
            return UNREADABLE, f"{fault}: it is no list of its workers"
        return replace(task, workers=chosen, select=None), ""
    except RecordError as error:
        return UNREADABLE, one_line(error)
    except PlanError as error:
        return UNREADABLE, f"{fault}: {one_line(error)}"


def _placed(task: Task, text: str) -> tuple[Task, tuple[int, ...], str]:
    """The task with its present hosts, their ranks, and the fault of the hosts, if any."""
    fault = "its hosts in the database cannot be used"
    try:
        hosts = from_json(PlacedTask, text, fault)
        ranks = tuple(range(len(hosts.workers))) if hosts.ranks is None else hosts.ranks
        if len({*ranks}) != len(hosts.workers) or min(ranks, default=0) < 0:
            return UNREADABLE, (0,), f"{fault}: they have other ranks than one each"
        return replace(task, workers=hosts.workers, server=hosts.server, wanted=None), ranks, ""
    except RecordError as error:
        return UNREADABLE, (0,), one_line(error)
    except PlanError as error:
        return UNREADABLE, (0,), f"{fault}: {one_line(error)}"


def plan_row(row: sqlite3.Row) -> PlanRow:
    """Convert a row of the table `plans`; an unreadable demand reserves nothing."""
    return PlanRow(
        generation=row["generation"],
        task=row["task"],
        role=row["role"],
        job=row["job"],
        epoch=row["epoch"],
        phase=PlanPhase(row["phase"]),
        demand_bps=_demand(row["demand"]),
        plan=row["plan"],
    )


@lru_cache(maxsize=2048)
def _demand(text: str) -> Mapping[Hop, int]:
    try:
        demand: Mapping[Hop, int] = from_json(Demand, text, "demand")
    except ValueError:
        return {}
    return demand


# Schedules in the database: the tasks' turns over circuits, as planned and as they happened.


class SchedulePhase(StrEnum):
    """Phase of a schedule. Each step is recorded before it is taken."""

    INSTALLING = "installing"
    """trees of its tasks are about to be installed; the executor may have it"""
    SET = "set"
    """the executor has it"""
    ACTIVE = "active"
    """in force, or was in force until all of its tasks had ended"""
    PAST = "past"
    DROPPED = "dropped"
    """was never in force, or was in force when its network ended"""


OPEN: Final = (SchedulePhase.INSTALLING, SchedulePhase.SET)
"""phases of a schedule that is pending"""


@dataclass(frozen=True)
class ScheduleRow:
    """A schedule. ``schedule`` is None when its text in the database is not valid; ``fault`` gives the reason."""

    number: int
    phase: SchedulePhase
    at_ps: int
    began_ps: int | None
    schedule: Schedule | None
    fault: str = ""


class Schedules:
    """The tables of schedules. Part of a :class:`~p4reduce.control_plane.orchestrator.store.Store`.

    Methods that write must be called inside one of the store's transactions.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def next_number(self) -> int:
        """The lowest number above all schedule numbers so far."""
        return int(self._connection.execute("SELECT coalesce(max(number), 0) + 1 FROM schedules").fetchone()[0])

    def add(self, number: int, schedule: Schedule, windows: Sequence[TurnWindow], at_ps: int) -> None:
        """Add a schedule in the phase 'installing'."""
        self._connection.execute(
            "INSERT INTO schedules (number, phase, policy, at_ps, schedule) VALUES (?, ?, ?, ?, ?)",
            (number, SchedulePhase.INSTALLING, schedule.policy, at_ps, to_json(schedule)),
        )
        for place, window in enumerate(windows):
            text = to_json(window.circuits, Circuits)
            self._connection.execute("INSERT OR IGNORE INTO configurations (circuits) VALUES (?)", (text,))
            self._connection.execute(
                "INSERT INTO windows SELECT ?, ?, ?, number, ?, ?, ? FROM configurations WHERE circuits = ?",
                (
                    number,
                    place,
                    window.process,
                    to_json(window.tasks, Names),
                    window.planned_start_ps,
                    window.planned_ps,
                    text,
                ),
            )

    def set_phase(self, number: int, phase: SchedulePhase) -> None:
        """Set a schedule's next phase."""
        self._connection.execute("UPDATE schedules SET phase = ? WHERE number = ?", (phase, number))

    def begin(self, number: int, at_ps: int) -> None:
        """Put a schedule in force; the schedule before it becomes past."""
        self._connection.execute(
            "UPDATE schedules SET phase = ? WHERE phase = ? AND number < ?",
            (SchedulePhase.PAST, SchedulePhase.ACTIVE, number),
        )
        self._connection.execute(
            "UPDATE schedules SET phase = ?, began_ps = ? WHERE number = ?", (SchedulePhase.ACTIVE, at_ps, number)
        )

    def drop_all(self) -> None:
        """Drop every schedule, because the network has ended."""
        self._connection.execute(
            "UPDATE schedules SET phase = ? WHERE phase IN (?, ?, ?)",
            (SchedulePhase.DROPPED, *OPEN, SchedulePhase.ACTIVE),
        )

    def open(self) -> ScheduleRow | None:
        """The pending schedule; None if there is none, and never more than one."""
        return self._last("phase IN (?, ?)", OPEN)

    def active(self) -> ScheduleRow | None:
        """The schedule in force; None if there is none."""
        return self._last("phase = ?", (SchedulePhase.ACTIVE,))

    def _last(self, where: str, values: Sequence[str]) -> ScheduleRow | None:
        query = f"SELECT * FROM schedules WHERE {where} ORDER BY number DESC LIMIT 1"  # noqa: S608  (texts of ours)
        row = self._connection.execute(query, values).fetchone()
        return None if row is None else _row(row)

    def rows(self) -> list[ScheduleRow]:
        """All schedules, oldest first."""
        return [_row(row) for row in self._connection.execute("SELECT * FROM schedules ORDER BY number")]

    def windows(self, number: int) -> tuple[TurnWindow, ...]:
        """The windows of a schedule, in order; damaged rows may raise any exception."""
        rows = self._connection.execute(
            "SELECT windows.*, circuits FROM windows JOIN configurations ON number = configuration "
            "WHERE schedule = ? ORDER BY place",
            (number,),
        )
        return tuple(
            TurnWindow(
                row["process"],
                from_json(Circuits, row["circuits"], f"schedule {number}: circuits"),
                from_json(Names, row["tasks"], f"schedule {number}: tasks"),
                row["planned_start_ps"],
                row["planned_ps"],
            )
            for row in rows
        )

    def configurations(self) -> dict[int, tuple[Link, ...]]:
        """Circuits of all configurations, by number."""
        rows = self._connection.execute("SELECT * FROM configurations ORDER BY number")
        return {row["number"]: from_json(Circuits, row["circuits"], f"configuration {row['number']}") for row in rows}

    def add_window(self, report: ExecutorReport) -> None:
        """Add a window that has ended, from the executor's report."""
        names = ("schedule", "round", "window", "started_ps", "lit_ps", "ended_ps", "dark_lost", "misrouted")
        self._connection.execute(
            "INSERT OR IGNORE INTO window_rounds VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [int(report.data[name]) for name in names],
        )

    def turns(self, task: str) -> list[dict[str, Any]]:
        """The windows of a task, planned and real, oldest first.

        'started_ps': when mirrors began to turn, 'lit_ps': when they had turned, 'ended_ps': when all tasks of the
        window had communicated; 'dark_lost' and 'misrouted' count frames. 'planned_start_ps' is relative to the
        beginning of the round, whose first window began at 'round_ps'.
        """
        rows = self._connection.execute(
            'SELECT real.schedule, real.round, real.place AS window, process + 1 AS "group", configuration, '
            "planned_start_ps, planned_ps, (SELECT min(started_ps) FROM window_rounds AS first "
            "WHERE first.schedule = real.schedule AND first.round = real.round) AS round_ps, "
            "started_ps, lit_ps, ended_ps, dark_lost, misrouted FROM window_rounds AS real "
            "JOIN windows ON windows.schedule = real.schedule AND windows.place = real.place "
            "WHERE EXISTS (SELECT 1 FROM json_each(windows.tasks) WHERE value = ?) AND "
            "ended_ps > coalesce((SELECT started_ps FROM tasks WHERE name = ?), 0) AND "
            "started_ps < coalesce((SELECT finished_ps FROM tasks WHERE name = ?), 1 << 62) "
            "ORDER BY real.schedule, real.round, real.place",
            (task, task, task),
        )
        return [dict(row) for row in rows]


def _row(row: sqlite3.Row) -> ScheduleRow:
    schedule, fault = None, ""
    try:
        schedule = from_json(Schedule, row["schedule"], f"schedule {row['number']}")
    except ValueError as error:
        fault = one_line(error)
    return ScheduleRow(row["number"], SchedulePhase(row["phase"]), row["at_ps"], row["began_ps"], schedule, fault)


KEPT_ROWS: Final = 100_000
"""approximate number of link measurements to keep"""
LEAST_TIMES: Final = 64
"""least number of measurement times to keep, however many links there are"""
ROUND_TIMES = ("started_ps", "trained_ps", "uploaded_ps", "aggregated_ps", "done_ps")


@dataclass(frozen=True)
class LinkSample:
    """Counters of a directed link at one time.

    ``bytes`` sent since the link was made, ``inc_bytes`` of them for INC; ``utilisation`` (0..1) since the last sample.
    """

    hop: Hop
    bytes: int
    inc_bytes: int
    utilisation: float


@dataclass(frozen=True)
class SwitchSample:
    """A switch at one time: INC packets sent, resent and refused since its start; its largest range of free slots."""

    switch: str
    sent: int
    resent: int
    refused: int
    largest_slots: int


class TaskHistory:
    """Measurements, decisions and changes; part of a :class:`~p4reduce.control_plane.orchestrator.store.Store`.

    Methods that write must be called inside one of the store's transactions.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._measurements = -1  # minus the number of measurements that may be added before times are counted

    def add_decision(self, at_ps: int, task: str | None, what: str, policy: str, why: Mapping[str, Any]) -> None:
        """Add a decision and its reasons."""
        self._connection.execute(
            "INSERT INTO decisions (at_ps, task, what, policy, why) VALUES (?, ?, ?, ?, ?)",
            (at_ps, task, what, policy, json.dumps(why, sort_keys=True)),
        )

    def decisions(self, task: str | None = None) -> list[dict[str, Any]]:
        """Decisions, oldest first; 'why' is plain data."""
        query, values = "SELECT * FROM decisions", tuple[str, ...]()
        if task is not None:
            query, values = f"{query} WHERE task = ?", (task,)
        rows = self._connection.execute(f"{query} ORDER BY number", values)
        return [{**dict(row), "why": json.loads(row["why"])} for row in rows]

    def changes(self, task: str) -> list[dict[str, Any]]:
        """The state changes of a task, oldest first."""
        query = "SELECT at_ps, before, after, reason FROM changes WHERE task = ? ORDER BY number"
        return [dict(row) for row in self._connection.execute(query, (task,))]

    def add_round(self, report: ExecutorReport) -> None:
        """Add a round of a task, from the executor's report."""
        times = [int(report.data[name]) for name in ROUND_TIMES]
        self._connection.execute(
            "INSERT OR IGNORE INTO rounds VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (report.task, int(report.data["round"]), *times, json.dumps(list(report.data["ranks"]))),
        )

    def drop_rounds(self, task: str, first: int) -> None:
        """Remove the rounds from ``first`` on, which will be repeated."""
        self._connection.execute("DELETE FROM rounds WHERE task = ? AND round >= ?", (task, first))

    def note_slowdowns(self, slowdowns: Mapping[str, float], at_ps: int) -> None:
        """Record the newest slowdowns of hosts, and count one more measured round for each host."""
        self._connection.executemany(
            "INSERT INTO host_measurements VALUES (?, ?, 1, ?) ON CONFLICT (host) DO UPDATE SET "
            "slowdown = excluded.slowdown, rounds = rounds + 1, at_ps = excluded.at_ps",
            [(host, slowdown, at_ps) for host, slowdown in slowdowns.items()],
        )

    def slowdowns(self) -> dict[str, float]:
        """The measured slowdown of each host."""
        return {row["host"]: row["slowdown"] for row in self._connection.execute("SELECT * FROM host_measurements")}

    def rounds_done(self, task: str) -> int:
        """The number of rounds of a task that are done."""
        query = "SELECT coalesce(max(round) + 1, 0) FROM rounds WHERE task = ?"
        return int(self._connection.execute(query, (task,)).fetchone()[0])

    def rounds(self, task: str) -> list[dict[str, Any]]:
        """The rounds of a task, each divided into training, upload, aggregation and broadcast, in ps.

        The communication of a job that does both directions at once counts as upload.
        """
        rows = self._connection.execute("SELECT * FROM rounds WHERE task = ? ORDER BY round", (task,))
        return [
            {
                **dict(row),
                "ranks": json.loads(row["ranks"]),
                "training_ps": row["trained_ps"] - row["started_ps"],
                "upload_ps": row["uploaded_ps"] - row["trained_ps"],
                "aggregation_ps": row["aggregated_ps"] - row["uploaded_ps"],
                "broadcast_ps": row["done_ps"] - row["aggregated_ps"],
                "total_ps": row["done_ps"] - row["started_ps"],
            }
            for row in rows
        ]

    def add_swap(
        self, task: str, role: str, job: int, epoch: int, *, at_ps: int, cause: str, saving_bytes: int, cost_bytes: int
    ) -> None:
        """Add the swap of a tree, with its expected saving and cost in bytes."""
        self._connection.execute(
            "INSERT INTO swaps (task, role, job, epoch, at_ps, cause, saving_bytes, cost_bytes) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (task, role, job, epoch, at_ps, cause, saving_bytes, cost_bytes),
        )

    def drop_swap(self, job: int, epoch: int) -> None:
        """Remove a swap that did not happen."""
        self._connection.execute("DELETE FROM swaps WHERE job = ? AND epoch = ?", (job, epoch))

    def measure_swap(self, report: ExecutorReport) -> None:
        """Record the measured cost of a swap, from the executor's report."""
        names = ("in_flight", "resent_frames", "resent_bytes", "late_frames", "duration_ps", "job", "epoch")
        self._connection.execute(
            "UPDATE swaps SET in_flight = ?, resent_frames = ?, resent_bytes = ?, late_frames = ?, duration_ps = ? "
            "WHERE job = ? AND epoch = ?",
            [int(report.data[name]) for name in names],
        )

    def swaps(self) -> list[dict[str, Any]]:
        """Saving and interruption of swaps, one row for each swap of a job: the data of a figure.

        'saving_bytes' is the reduction on links in the remaining rounds, 'cost_bytes' the bytes expected to be sent
        twice, both stored with the first job of a task; the other values were measured
        (:class:`~p4reduce.control_plane.orchestrator.executor.Interruption`), None until the job has caught up.
        """
        return [dict(row) for row in self._connection.execute("SELECT * FROM swaps ORDER BY at_ps, job, epoch")]

    def add_replan(
        self,
        task: str,
        generation: int,
        *,
        at_ps: int,
        what: str,
        cause: str,
        at_once: bool,
        saving_s: float | None,
        cost_s: float | None,
    ) -> None:
        """Add a change of a running task's plans; ``generation`` is the first of the new plans."""
        self._connection.execute(
            "INSERT INTO replans (generation, task, at_ps, what, cause, at_once, saving_s, cost_s) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (generation, task, at_ps, what, cause, int(at_once), saving_s, cost_s),
        )

    def drop_replan(self, generation: int) -> None:
        """Remove a change that did not happen."""
        self._connection.execute("DELETE FROM replans WHERE generation = ?", (generation,))

    def note_replanned(self, generation: int, at_ps: int, number: int) -> None:
        """Record that a change happened before round ``number``."""
        query = "UPDATE replans SET done_ps = ?, round = ? WHERE generation = ?"
        self._connection.execute(query, (at_ps, number, generation))

    def note_restored(self, report: ExecutorReport) -> None:
        """Record the time and bytes until a task's hosts had their data after its last change, if there was one."""
        names = ("read_bytes", "model_bytes", "duration_ps")
        self._connection.execute(
            "UPDATE replans SET read_bytes = ?, model_bytes = ?, duration_ps = ? WHERE generation = "
            "(SELECT max(generation) FROM replans WHERE task = ? AND done_ps IS NOT NULL)",
            [*(int(report.data[name]) for name in names), report.task],
        )

    def replans(self, task: str | None = None) -> list[dict[str, Any]]:
        """Changes of running tasks to other kinds of plans, or other hosts, oldest first.

        'what' is 'tree', 'hosts add' (a ring, or paths to the server), 'move', 'rescue' (its plans or hosts failed) or
        'shrink'; 'saving_s' and 'cost_s' were predicted, in worker-seconds; 'done_ps' is None until the round has
        ended; the last three columns were measured, if hosts needed data or a model.
        """
        where, values = ("", ()) if task is None else (" WHERE task = ?", (task,))
        rows = self._connection.execute(f"SELECT * FROM replans{where} ORDER BY generation", values)  # noqa: S608
        return [{**dict(row), "at_once": bool(row["at_once"])} for row in rows]

    def add_measurement(self, at_ps: int, links: Iterable[LinkSample], switches: Iterable[SwitchSample]) -> None:
        """Add the samples of one time. When there are too many samples, older ones are thinned out."""
        links = list(links)
        self._connection.executemany(
            "INSERT OR REPLACE INTO link_measurements VALUES (?, ?, ?, ?, ?, ?)",
            [(at_ps, *sample.hop, sample.bytes, sample.inc_bytes, sample.utilisation) for sample in links],
        )
        self._connection.executemany(
            "INSERT OR REPLACE INTO switch_measurements VALUES (?, ?, ?, ?, ?, ?)",
            [(at_ps, s.switch, s.sent, s.resent, s.refused, s.largest_slots) for s in switches],
        )
        self._measurements += 1
        if self._measurements < 0 or not links:
            return
        times = self._measured_at()
        most = max(LEAST_TIMES, KEPT_ROWS // len(links))
        if len(times) > most:
            self._thin_out(times)
        self._measurements = len(times) - most - 1

    def _measured_at(self) -> list[int]:
        """All measurement times, with one index lookup for each instead of reading all rows."""
        return [
            int(row[0])
            for row in self._connection.execute(
                "WITH RECURSIVE times (at_ps) AS (SELECT min(at_ps) FROM link_measurements UNION ALL "
                "SELECT (SELECT min(at_ps) FROM link_measurements WHERE at_ps > times.at_ps) FROM times "
                "WHERE times.at_ps IS NOT NULL) SELECT at_ps FROM times WHERE at_ps IS NOT NULL"
            )
        ]

    def _thin_out(self, times: Sequence[int]) -> None:
        """Drop every second time of the older three quarters; utilisation then covers the time since the sample before.

        Counters are cumulative and need no change. Old samples are thinned repeatedly.
        """
        old = times[: len(times) * 3 // 4]
        for place in range(1, len(old) - 1, 2):
            before, dropped, kept = old[place - 1 : place + 2]
            shares = ((dropped - before) / (kept - before), (kept - dropped) / (kept - before))
            self._connection.execute(
                "UPDATE link_measurements AS later SET utilisation = ? * coalesce((SELECT utilisation FROM "
                "link_measurements AS sooner WHERE (sooner.at_ps, sooner.node, sooner.port) = (?, later.node, "
                "later.port)), later.utilisation) + ? * later.utilisation WHERE at_ps = ?",
                (shares[0], dropped, shares[1], kept),
            )
            for table in ("link_measurements", "switch_measurements"):
                self._connection.execute(f"DELETE FROM {table} WHERE at_ps = ?", (dropped,))  # noqa: S608

    def last_links(self) -> tuple[int, dict[Hop, LinkSample]]:
        """The time in ps of the last measurement (-1: there is none), and its samples."""
        at_ps = self._connection.execute("SELECT coalesce(max(at_ps), -1) FROM link_measurements").fetchone()[0]
        rows = self._connection.execute("SELECT * FROM link_measurements WHERE at_ps = ?", (at_ps,))
        return int(at_ps), {
            (row["node"], row["port"]): LinkSample(
                (row["node"], row["port"]), row["bytes"], row["inc_bytes"], row["utilisation"]
            )
            for row in rows
        }

    def last_ps(self) -> int:
        """The latest time in ps in the database; 0 for a new database."""
        query = "SELECT max(coalesce((SELECT max(at_ps) FROM {}), 0), coalesce((SELECT max(at_ps) FROM {}), 0))"
        return int(self._connection.execute(query.format("changes", "link_measurements")).fetchone()[0])

    def links(self, node: str, port: int) -> list[dict[str, Any]]:
        """The measurements of a directed link over time."""
        query = "SELECT * FROM link_measurements WHERE node = ? AND port = ? ORDER BY at_ps"
        return [dict(row) for row in self._connection.execute(query, (node, port))]

    def switches(self, switch: str) -> list[dict[str, Any]]:
        """The measurements of a switch over time."""
        query = "SELECT * FROM switch_measurements WHERE switch = ? ORDER BY at_ps"
        return [dict(row) for row in self._connection.execute(query, (switch,))]
