"""Schedules in the database: who takes turns over which circuits, what was planned, and what came of it."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from p4reduce.base.safe_yaml import one_line
from p4reduce.control_plane.orchestrator.executor import Report
from p4reduce.control_plane.orchestrator.timetable import TurnWindow, circuits_from_data, circuits_to_data
from p4reduce.control_plane.tdm.schedule import Schedule, schedule_from_json, schedule_to_json
from p4reduce.topologies import Link


class SchedulePhase(StrEnum):
    """Where a schedule stands. Each step is written down before it is taken."""

    INSTALLING = "installing"
    """trees of its tasks are about to be installed; the executor may have it"""
    SET = "set"
    """the executor has it"""
    ACTIVE = "active"
    """holds, or held until all of its tasks had ended"""
    PAST = "past"
    DROPPED = "dropped"
    """never held, or its network has ended"""


OPEN: Final = (SchedulePhase.INSTALLING, SchedulePhase.SET)
"""of one that does not hold yet"""


@dataclass(frozen=True)
class ScheduleRow:
    """A schedule. ``schedule`` is None where the database has another text than JSON of one; ``fault`` says why."""

    number: int
    phase: SchedulePhase
    at_ps: int
    began_ps: int | None
    schedule: Schedule | None
    fault: str = ""


class Schedules:
    """The tables of schedules. Part of a :class:`~p4reduce.control_plane.orchestrator.store.Store`.

    Methods that write are called inside one of its transactions.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def next_number(self) -> int:
        """Above every number that was ever given out."""
        return int(self._connection.execute("SELECT coalesce(max(number), 0) + 1 FROM schedules").fetchone()[0])

    def add(self, number: int, schedule: Schedule, windows: Sequence[TurnWindow], at_ps: int) -> None:
        """A schedule that is to hold."""
        self._connection.execute(
            "INSERT INTO schedules (number, phase, policy, at_ps, schedule) VALUES (?, ?, ?, ?, ?)",
            (number, SchedulePhase.INSTALLING, schedule.policy, at_ps, schedule_to_json(schedule)),
        )
        for place, window in enumerate(windows):
            text = json.dumps(circuits_to_data(window.circuits), separators=(",", ":"))
            self._connection.execute("INSERT OR IGNORE INTO configurations (circuits) VALUES (?)", (text,))
            self._connection.execute(
                "INSERT INTO windows SELECT ?, ?, ?, number, ?, ?, ? FROM configurations WHERE circuits = ?",
                (
                    number,
                    place,
                    window.process,
                    json.dumps(window.tasks),
                    window.planned_start_ps,
                    window.planned_ps,
                    text,
                ),
            )

    def set_phase(self, number: int, phase: SchedulePhase) -> None:
        """A schedule's next phase."""
        self._connection.execute("UPDATE schedules SET phase = ? WHERE number = ?", (phase, number))

    def begin(self, number: int, at_ps: int) -> None:
        """A schedule holds from now on, no other one does."""
        self._connection.execute(
            "UPDATE schedules SET phase = ? WHERE phase = ? AND number < ?",
            (SchedulePhase.PAST, SchedulePhase.ACTIVE, number),
        )
        self._connection.execute(
            "UPDATE schedules SET phase = ?, began_ps = ? WHERE number = ?", (SchedulePhase.ACTIVE, at_ps, number)
        )

    def drop_all(self) -> None:
        """The network has ended, and every schedule with it."""
        self._connection.execute(
            "UPDATE schedules SET phase = ? WHERE phase IN (?, ?, ?)",
            (SchedulePhase.DROPPED, *OPEN, SchedulePhase.ACTIVE),
        )

    def open(self) -> ScheduleRow | None:
        """The one that does not hold yet; there is one at most."""
        return self._last("phase IN (?, ?)", OPEN)

    def active(self) -> ScheduleRow | None:
        """The one that holds."""
        return self._last("phase = ?", (SchedulePhase.ACTIVE,))

    def _last(self, where: str, values: Sequence[str]) -> ScheduleRow | None:
        query = f"SELECT * FROM schedules WHERE {where} ORDER BY number DESC LIMIT 1"  # noqa: S608  (texts of ours)
        row = self._connection.execute(query, values).fetchone()
        return None if row is None else _row(row)

    def rows(self) -> list[ScheduleRow]:
        """All of them, oldest first."""
        return [_row(row) for row in self._connection.execute("SELECT * FROM schedules ORDER BY number")]

    def windows(self, number: int) -> tuple[TurnWindow, ...]:
        """The windows of a schedule, in order; any kind of error where they are damaged."""
        rows = self._connection.execute(
            "SELECT windows.*, circuits FROM windows JOIN configurations ON number = configuration "
            "WHERE schedule = ? ORDER BY place",
            (number,),
        )
        return tuple(
            TurnWindow(
                row["process"],
                circuits_from_data(json.loads(row["circuits"])),
                tuple(json.loads(row["tasks"])),
                row["planned_start_ps"],
                row["planned_ps"],
            )
            for row in rows
        )

    def configurations(self) -> dict[int, tuple[Link, ...]]:
        """Circuits by the number of their configuration."""
        rows = self._connection.execute("SELECT * FROM configurations ORDER BY number")
        return {row["number"]: circuits_from_data(json.loads(row["circuits"])) for row in rows}

    def add_window(self, report: Report) -> None:
        """A window that has ended, from the executor's report."""
        names = ("schedule", "round", "window", "started_ps", "lit_ps", "ended_ps", "dark_lost", "misrouted")
        self._connection.execute(
            "INSERT OR IGNORE INTO window_rounds VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [int(report.data[name]) for name in names],
        )

    def turns(self, task: str) -> list[dict[str, Any]]:
        """The windows of a task, planned and real, oldest first.

        'started_ps': when mirrors began to turn, 'lit_ps': when they had, 'ended_ps': when all tasks of the window had
        communicated; frames that were 'dark_lost' and 'misrouted' in it. 'planned_start_ps' is from the beginning of
        the round, whose first window began at 'round_ps'.
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
        schedule = schedule_from_json(row["schedule"])
    except Exception as error:  # whatever somebody wrote there
        fault = one_line(error)
    return ScheduleRow(row["number"], SchedulePhase(row["phase"]), row["at_ps"], row["began_ps"], schedule, fault)
