"""Orchestrated tasks on a live page, served by the process of their network, which has its virtual time."""

import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from p4reduce.control_plane.orchestrator import Store, StoreError, TaskError, TaskRow
from p4reduce.control_plane.orchestrator.options import AT_WORK, ENDED, PlanPhase, TaskState
from p4reduce.group.errors import ClusterError
from p4reduce.network.flow_jobs import FlowJobs
from p4reduce.play.tasks.world import World
from p4reduce.views.live.player import LivePlayer
from p4reduce.views.live.session import LiveServer, VirtualSource, WantedView

MOST_TASKS: Final = 60
"""Most tasks that are shown: active ones, then waiting ones, then those that ended last."""


class TaskSource(VirtualSource):
    """The network of an orchestrator, and the tasks of its database. See ``session.Source``."""

    def __init__(self, title: str, player: LivePlayer, database: Path | None) -> None:
        """Set up the source; ``database``: the orchestrator's, read only; None: unknown, no tasks are shown."""
        super().__init__(title, player)
        self._database = database
        self._lock = threading.Lock()
        self._stamp = -1  # last change of the database when it was read
        self._rows: list[dict[str, Any]] = []
        self._ends: dict[str, list[int]] = {}  # ends of rounds, picoseconds
        self._jobs: dict[str, list[str]] = {}
        self._final: set[str] = set()  # tasks whose records are final and complete
        self.fault = ""

    def tick(self) -> dict[str, Any]:
        """Return the tick; as `Source`, with ``also``, which changes with the database."""
        return {**super().tick(), "also": self._changed()}

    def _changed(self) -> int:
        """Return when the database was last written, nanoseconds; 0: it does not exist."""
        newest_ns = 0
        for suffix in ("", "-wal") if self._database is not None else ():
            with suppress(OSError):
                newest_ns = max(newest_ns, Path(f"{self._database}{suffix}").stat().st_mtime_ns)
        return newest_ns

    def view(self, wanted: WantedView) -> dict[str, Any] | None:
        """Return a view; as `Source`, with ``tasks`` as they were at that time."""
        network_view = super().view(wanted)
        if network_view is None:
            return None
        return {**network_view, "tasks": self._tasks(int(network_view["time_ps"])), "no_tasks": self.fault}

    def _tasks(self, at_ps: int) -> list[dict[str, Any]]:
        with self._lock:
            if (stamp := self._changed()) != self._stamp:
                self._stamp = stamp
                self._read()
            return [{**row, **_state(row, at_ps), "rounds_done": self._done(row, at_ps)} for row in self._rows]

    def _done(self, row: Mapping[str, Any], at_ps: int) -> int:
        return sum(end <= at_ps for end in self._ends.get(str(row["name"]), []))

    def _read(self) -> None:
        """Read the tasks' present state; keep the previous one if the database cannot be read."""
        if self._database is None or not self._database.is_file():
            self.fault = "The database of these tasks is not known here."
            return
        try:
            with Store(self._database) as store:
                rows = _first(store.tasks())
                for row in rows:
                    if row.finished_ps is None or row.name not in self._final:
                        self._look_up(store, row)
            self._rows = [self._plain(row) for row in rows]
            self.fault = ""
        except (StoreError, TaskError) as error:
            self.fault = str(error)

    def _look_up(self, store: Store, row: TaskRow) -> None:
        """Read a task's trees, past ones included, and the ends of its rounds."""
        if row.started_ps is None and row.state is TaskState.QUEUED:
            return
        plans = store.plans(tuple(PlanPhase), row.name)
        self._jobs[row.name] = [f"{plan.job}.{plan.epoch}" for plan in plans]
        self._ends[row.name] = [round_["done_ps"] for round_ in store.history.rounds(row.name)]
        if row.finished_ps is not None:
            self._final.add(row.name)

    def _plain(self, row: TaskRow) -> dict[str, Any]:
        return {
            "name": row.name,
            "state": str(row.state),
            "says": row.reason or row.waits or row.fault,
            "rounds": row.task.rounds,
            "workers": len(row.task.workers),
            "server": row.task.server,
            "arrival_ps": row.arrival_ps,
            "started_ps": row.started_ps,
            "finished_ps": row.finished_ps,
            "jobs": self._jobs.get(row.name, []),
        }


def _first(rows: list[TaskRow]) -> list[TaskRow]:
    """Return the tasks to show, in the order of their arrival."""
    rank = dict.fromkeys(AT_WORK, 0) | {TaskState.SCHEDULED: 0, TaskState.QUEUED: 1}
    chosen = sorted(rows, key=lambda row: (rank.get(row.state, 2), -(row.finished_ps or 0), row.number))[:MOST_TASKS]
    return sorted(chosen, key=lambda row: row.number)


def _state(row: Mapping[str, Any], at_ps: int) -> dict[str, Any]:
    """Return the state of a task at a moment, from the times at which it started and ended."""
    if row["finished_ps"] is not None and row["finished_ps"] <= at_ps:
        return {}
    if row["state"] in {str(state) for state in ENDED} or (row["started_ps"] or 0) > at_ps:
        begun = row["started_ps"] is not None and row["started_ps"] <= at_ps
        waits = "queued" if row["arrival_ps"] <= at_ps else "not there yet"
        return {"state": "running" if begun else waits, "says": ""}
    return {}


class TaskPages:
    """The page of a network's process, from the first request for it on. Use as a context manager."""

    def __init__(self) -> None:
        self._source: TaskSource | None = None
        self._server: LiveServer | None = None

    def __call__(self, world: World, request: Mapping[str, Any]) -> dict[str, str]:
        """Open the page if there is none yet; return its address, ``url``.

        ``title`` and ``database`` (a path) count in the first request. ``hold`` comes from an orchestrator that begins:
        true pauses the network, false lets it go on. ``ended`` is the text on the page until the next one begins.
        """
        if isinstance(world.network, FlowJobs):
            raise ClusterError("the flow model has no packets to look at; choose time: virtual")
        if self._source is None or self._server is None:
            player = LivePlayer(paused=bool(request.get("hold")))
            database = request.get("database")
            self._source = TaskSource(
                str(request.get("title") or f"tasks on {world.topology.name}"),
                player,
                None if database is None else Path(str(database)),
            )
            player.attach(world.network)
            player.note()
            self._server = LiveServer(self._source)
            self._server.start()
        elif "hold" in request:
            self._source.begin(hold=bool(request["hold"]))
        if request.get("ended"):
            self._source.finish(str(request["ended"]))
        return {"url": self._server.url}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
