"""Rows of the database as objects. A row that cannot be read is one too: it says why, and stands for its task."""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from p4reduce.base.safe_yaml import one_line
from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.orchestrator.executor import Role
from p4reduce.control_plane.orchestrator.states import AT_WORK, ENDED, Phase, TaskState
from p4reduce.control_plane.scheduling.selection import selection_from_data
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.wanted import Wanted, wanted_from_data
from p4reduce.topologies.model import Hop

UNREADABLE: Final = Task("unreadable", "?", ("-",), 1)
"""stands for a task whose specification cannot be read"""


@dataclass(frozen=True)
class TaskRow:
    """A task and where it stands. Times are virtual picoseconds.

    ``task`` has those workers that take part: of one that selects them all candidates as long as nothing is chosen,
    then the chosen ones, and no selection any more; of one whose hosts are chosen these, as soon as it is scheduled.
    ``ranks`` has the rank of each of these workers: that of the start, also when others have died. ``candidates`` are
    the workers that it was submitted with, ``wanted`` what it wanted instead of names. ``attempt`` says how often it
    has begun anew; ``arrival_ps`` is when it may be tried then, at the earliest.
    ``fault`` says why the row cannot be used, and is empty where it can; ``task`` is `UNREADABLE` then. ``waits`` says
    why a queued task did not fit when it was last tried; None before that.
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
    wanted: Wanted | None = None
    ranks: tuple[int, ...] = ()
    attempt: int = 0

    @property
    def may_restart(self) -> bool:
        """Whether it begins anew where it would fail now: once it has run."""
        ran = self.state in AT_WORK or (self.attempt > 0 and self.state not in ENDED)
        return ran and not self.fault and not self.cancel and self.attempt < self.task.max_restarts


@dataclass(frozen=True)
class PlanRow:
    """A plan of a task. ``plan`` is JSON (:mod:`~p4reduce.control_plane.orchestrator.plan_json`)."""

    generation: int
    task: str
    role: Role
    job: int
    epoch: int
    phase: Phase
    demand_bps: Mapping[Hop, int]
    plan: str


def task_row(row: sqlite3.Row) -> TaskRow:
    """From the table `tasks`."""
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
    """The task of a specification, and what is wrong with it; it never changes."""
    try:
        return task_from_data(json.loads(spec)), ""
    except Exception as error:  # whatever somebody wrote there is that task's fault
        return UNREADABLE, f"its specification in the database cannot be used: {one_line(error)}"


def _chosen(task: Task, text: str) -> tuple[Task, str]:
    """The task with the workers that were chosen for it, and what is wrong with them."""
    try:
        return replace(task, workers=_subset(json.loads(text), task.workers), select=None), ""
    except (ValueError, TypeError, RecursionError, PlanError) as error:
        return UNREADABLE, f"its choice of workers in the database cannot be used: {one_line(error)}"


def _placed(task: Task, text: str) -> tuple[Task, tuple[int, ...], str]:
    """The task with the hosts that were chosen for it, or that are left to it, their ranks, and what is wrong."""
    try:
        hosts = json.loads(text)
        placed = replace(task, workers=tuple(hosts["workers"]), server=hosts["server"], wanted=None)
        ranks = tuple(int(rank) for rank in hosts.get("ranks", range(len(placed.workers))))
        if len({*ranks}) != len(placed.workers) or min(ranks) < 0:
            raise ValueError("they have other ranks than one each")
        return placed, ranks, ""
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, PlanError) as error:
        return UNREADABLE, (0,), f"its hosts in the database cannot be used: {one_line(error)}"


def _subset(chosen: Any, workers: tuple[str, ...]) -> tuple[str, ...]:
    if not isinstance(chosen, list) or not set(chosen) <= set(workers):
        raise ValueError("it is no list of its workers")
    return tuple(chosen)


def plan_row(row: sqlite3.Row) -> PlanRow:
    """From the table `plans`; a demand that cannot be read reserves nothing."""
    return PlanRow(
        generation=row["generation"],
        task=row["task"],
        role=row["role"],
        job=row["job"],
        epoch=row["epoch"],
        phase=Phase(row["phase"]),
        demand_bps=_demand(row["demand"]),
        plan=row["plan"],
    )


@lru_cache(maxsize=2048)
def _demand(text: str) -> Mapping[Hop, int]:
    try:
        return {(str(node), int(port)): int(bps) for node, port, bps in json.loads(text)}
    except (ValueError, TypeError, RecursionError):
        return {}


def task_from_data(data: Mapping[str, Any]) -> Task:
    """A task from plain data, as ``dataclasses.asdict`` and JSON make it."""
    select, wanted = data.get("select"), data.get("wanted")
    more: dict[str, Any] = {} if select is None else {"select": selection_from_data(select)}
    more |= {} if wanted is None else {"wanted": wanted_from_data(wanted)}
    return Task(**{**data, "workers": tuple(data["workers"]), **more})
