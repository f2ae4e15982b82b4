"""What was measured and decided, and why: written as it happens, read for figures."""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from p4reduce.control_plane.orchestrator.executor import Report
from p4reduce.control_plane.scheduling.state import Hop

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

    def add_decision(self, at_ps: int, task: str | None, what: str, policy: str, why: Mapping[str, Any]) -> None:
        """What was decided and why."""
        self._connection.execute(
            "INSERT INTO decisions (at_ps, task, what, policy, why) VALUES (?, ?, ?, ?, ?)",
            (at_ps, task, what, policy, json.dumps(why, sort_keys=True)),
        )

    def decisions(self, task: str | None = None) -> list[dict[str, Any]]:
        """Decisions, oldest first; 'why' is plain data."""
        query = "SELECT * FROM decisions WHERE coalesce(?, task) IS task ORDER BY number"
        return [{**dict(row), "why": json.loads(row["why"])} for row in self._connection.execute(query, (task,))]

    def changes(self, task: str) -> list[dict[str, Any]]:
        """The states that a task went through."""
        query = "SELECT at_ps, before, after, reason FROM changes WHERE task = ? ORDER BY number"
        return [dict(row) for row in self._connection.execute(query, (task,))]

    def add_round(self, report: Report) -> None:
        """A round of a task, from the executor's report."""
        times = [int(report.data[name]) for name in ROUND_TIMES]
        self._connection.execute(
            "INSERT INTO rounds VALUES (?, ?, ?, ?, ?, ?, ?)", (report.task, int(report.data["round"]), *times)
        )

    def rounds(self, task: str) -> list[dict[str, Any]]:
        """A task's rounds with training, upload, aggregation and broadcast as components of each, picoseconds.

        A round whose job does both directions at once has all of its communication as upload.
        """
        rows = self._connection.execute("SELECT * FROM rounds WHERE task = ? ORDER BY round", (task,))
        return [
            {
                **dict(row),
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

    def add_links(self, at_ps: int, samples: Iterable[LinkSample]) -> None:
        """Measurements of links."""
        self._connection.executemany(
            "INSERT OR REPLACE INTO link_measurements VALUES (?, ?, ?, ?, ?, ?)",
            [(at_ps, *sample.hop, sample.bytes, sample.inc_bytes, sample.utilisation) for sample in samples],
        )

    def add_switches(self, at_ps: int, samples: Iterable[SwitchSample]) -> None:
        """Measurements of switches."""
        self._connection.executemany(
            "INSERT OR REPLACE INTO switch_measurements VALUES (?, ?, ?, ?, ?, ?)",
            [(at_ps, s.switch, s.sent, s.resent, s.refused, s.largest_slots) for s in samples],
        )

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
