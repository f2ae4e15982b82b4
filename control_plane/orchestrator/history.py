"""What was measured and decided, and why: written as it happens, read for figures."""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from p4reduce.control_plane.orchestrator.executor import Report
from p4reduce.topologies.model import Hop

KEPT_ROWS: Final = 100_000
"""measurements of links that are kept, about"""
LEAST_TIMES: Final = 64
"""but at so many times at least, however many links there are"""
ROUND_TIMES = ("started_ps", "trained_ps", "uploaded_ps", "aggregated_ps", "done_ps")


@dataclass(frozen=True)
class LinkSample:
    """A directed link at a time.

    Bytes sent since it was made, those of INC among them, and utilisation (0..1) since the sample before.
    """

    hop: Hop
    bytes: int
    inc_bytes: int
    utilisation: float


@dataclass(frozen=True)
class SwitchSample:
    """A switch at a time: INC packets sent, resends among them, and refused, since it was started; free slots."""

    switch: str
    sent: int
    resent: int
    refused: int
    largest_slots: int


class History:
    """The tables that nothing is decided by. Part of a :class:`~p4reduce.control_plane.orchestrator.store.Store`.

    Methods that write are called inside one of its transactions.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._measurements = -1  # below 0: so many may be added before there are too many

    def add_decision(self, at_ps: int, task: str | None, what: str, policy: str, why: Mapping[str, Any]) -> None:
        """What was decided and why."""
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
        """The states that a task went through."""
        query = "SELECT at_ps, before, after, reason FROM changes WHERE task = ? ORDER BY number"
        return [dict(row) for row in self._connection.execute(query, (task,))]

    def add_round(self, report: Report) -> None:
        """A round of a task, from the executor's report."""
        times = [int(report.data[name]) for name in ROUND_TIMES]
        self._connection.execute(
            "INSERT OR IGNORE INTO rounds VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (report.task, int(report.data["round"]), *times, json.dumps(list(report.data["ranks"]))),
        )

    def drop_rounds(self, task: str, first: int) -> None:
        """Rounds from this one on are carried out again."""
        self._connection.execute("DELETE FROM rounds WHERE task = ? AND round >= ?", (task, first))

    def note_slowdowns(self, slowdowns: Mapping[str, float], at_ps: int) -> None:
        """How slow hosts were found to be, after a round more."""
        self._connection.executemany(
            "INSERT INTO host_measurements VALUES (?, ?, 1, ?) ON CONFLICT (host) DO UPDATE SET "
            "slowdown = excluded.slowdown, rounds = rounds + 1, at_ps = excluded.at_ps",
            [(host, slowdown, at_ps) for host, slowdown in slowdowns.items()],
        )

    def slowdowns(self) -> dict[str, float]:
        """How slow hosts were found to be."""
        return {row["host"]: row["slowdown"] for row in self._connection.execute("SELECT * FROM host_measurements")}

    def rounds_done(self, task: str) -> int:
        """How many rounds of a task are done."""
        query = "SELECT coalesce(max(round) + 1, 0) FROM rounds WHERE task = ?"
        return int(self._connection.execute(query, (task,)).fetchone()[0])

    def rounds(self, task: str) -> list[dict[str, Any]]:
        """A task's rounds with training, upload, aggregation and broadcast as components of each, picoseconds.

        A round whose job does both directions at once has all of its communication as upload.
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
        """A tree is swapped: what that is expected to save and to cost."""
        self._connection.execute(
            "INSERT INTO swaps (task, role, job, epoch, at_ps, cause, saving_bytes, cost_bytes) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (task, role, job, epoch, at_ps, cause, saving_bytes, cost_bytes),
        )

    def drop_swap(self, job: int, epoch: int) -> None:
        """The swap did not happen."""
        self._connection.execute("DELETE FROM swaps WHERE job = ? AND epoch = ?", (job, epoch))

    def measure_swap(self, report: Report) -> None:
        """What a swap did cost, from the executor's report."""
        names = ("in_flight", "resent_frames", "resent_bytes", "late_frames", "duration_ps", "job", "epoch")
        self._connection.execute(
            "UPDATE swaps SET in_flight = ?, resent_frames = ?, resent_bytes = ?, late_frames = ?, duration_ps = ? "
            "WHERE job = ? AND epoch = ?",
            [int(report.data[name]) for name in names],
        )

    def swaps(self) -> list[dict[str, Any]]:
        """Interruption against saving, one row for each swap of a job: the data of a figure.

        'saving_bytes' is what the new trees put less on links in the remaining rounds, 'cost_bytes' what was expected
        to be sent twice, both written at the first job of a task; the others were measured
        (:class:`~p4reduce.control_plane.orchestrator.executor.Interruption`), None while the job has not caught up.
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
        """A running task is to have other plans, the first of this generation."""
        self._connection.execute(
            "INSERT INTO replans (generation, task, at_ps, what, cause, at_once, saving_s, cost_s) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (generation, task, at_ps, what, cause, int(at_once), saving_s, cost_s),
        )

    def drop_replan(self, generation: int) -> None:
        """It did not happen."""
        self._connection.execute("DELETE FROM replans WHERE generation = ?", (generation,))

    def note_replanned(self, generation: int, at_ps: int, number: int) -> None:
        """It has happened, before a round."""
        query = "UPDATE replans SET done_ps = ?, round = ? WHERE generation = ?"
        self._connection.execute(query, (at_ps, number, generation))

    def note_restored(self, report: Report) -> None:
        """What it took until the task's hosts had what they need; nothing where it had its first hosts."""
        names = ("read_bytes", "model_bytes", "duration_ps")
        self._connection.execute(
            "UPDATE replans SET read_bytes = ?, model_bytes = ?, duration_ps = ? WHERE generation = "
            "(SELECT max(generation) FROM replans WHERE task = ? AND done_ps IS NOT NULL)",
            [*(int(report.data[name]) for name in names), report.task],
        )

    def replans(self, task: str | None = None) -> list[dict[str, Any]]:
        """Running tasks that got other kinds of plans, or other hosts, oldest first.

        'what' is 'tree', 'hosts add' (a ring, or paths to the server), 'move' or 'rescue' (what it had did not work any
        more); 'saving_s' and 'cost_s' were predicted, in worker-seconds; 'done_ps' is None as long as it waits for the
        end of a round; the last three were measured where hosts needed data or a model.
        """
        where, values = ("", ()) if task is None else (" WHERE task = ?", (task,))
        rows = self._connection.execute(f"SELECT * FROM replans{where} ORDER BY generation", values)  # noqa: S608
        return [{**dict(row), "at_once": bool(row["at_once"])} for row in rows]

    def add_measurement(self, at_ps: int, links: Iterable[LinkSample], switches: Iterable[SwitchSample]) -> None:
        """What was measured at a time. When there are too many of them, older ones are thinned out."""
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
        self._measurements = len(times) - most - 1  # so many may come before it is worth while to count again

    def _measured_at(self) -> list[int]:
        """All times, one index lookup each: rows of other links are not read."""
        return [
            int(row[0])
            for row in self._connection.execute(
                "WITH RECURSIVE times (at_ps) AS (SELECT min(at_ps) FROM link_measurements UNION ALL "
                "SELECT (SELECT min(at_ps) FROM link_measurements WHERE at_ps > times.at_ps) FROM times "
                "WHERE times.at_ps IS NOT NULL) SELECT at_ps FROM times WHERE at_ps IS NOT NULL"
            )
        ]

    def _thin_out(self, times: Sequence[int]) -> None:
        """Drop every second of all but the newest quarter; utilisation becomes that since the time that is kept before.

        Counters count on, so nothing else of what remains changes. The older it is, the more often it was thinned.
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
        """The time of the last measurement (-1: there is none), and what it found."""
        at_ps = self._connection.execute("SELECT coalesce(max(at_ps), -1) FROM link_measurements").fetchone()[0]
        rows = self._connection.execute("SELECT * FROM link_measurements WHERE at_ps = ?", (at_ps,))
        return int(at_ps), {
            (row["node"], row["port"]): LinkSample(
                (row["node"], row["port"]), row["bytes"], row["inc_bytes"], row["utilisation"]
            )
            for row in rows
        }

    def last_ps(self) -> int:
        """The latest time that was written down; 0 for a new database."""
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
