"""What becomes of a running task that has lost a worker, or all of its trees: `on_failure` (docs/faults.md).

Whoever the orchestrator is, it comes to the same: who is lost is asked of the executor (links without a carrier,
processes that have ended), and what is to be done about it is in the database before hosts are told.
"""

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from p4reduce.base.safe_yaml import one_line
from p4reduce.control_plane.orchestrator.errors import StoreError
from p4reduce.control_plane.orchestrator.executor import Report, Running
from p4reduce.control_plane.orchestrator.installer import Installer
from p4reduce.control_plane.orchestrator.members import lost_hosts, named
from p4reduce.control_plane.orchestrator.moving import Mover
from p4reduce.control_plane.orchestrator.replanning import Replanner
from p4reduce.control_plane.orchestrator.rows import TaskRow
from p4reduce.control_plane.orchestrator.states import AT_WORK
from p4reduce.control_plane.scheduling.state import NetworkState

MOST_ANEW: Final = 8
"""times that another one may be lost while survivors are given their trees, until the task fails"""


class Losses:
    """Knows where processes of tasks have died, and has tasks go on without them, or end.

    Parameters
    ----------
    installer : Installer
        Writes to switches.
    mover : Mover
        Gives tasks other plans, and other hosts.
    replanner : Replanner
        Has the changes that wait.
    state : callable
        The network without what a task reserves.
    fail : callable
        Gives a task up, with a reason.
    """

    def __init__(
        self,
        installer: Installer,
        mover: Mover,
        replanner: Replanner,
        state: Callable[[str | None], NetworkState],
        fail: Callable[[str, str], None],
    ) -> None:
        self._installer = installer
        self._store = installer.store
        self._mover = mover
        self._replanner = replanner
        self._state = state
        self._fail = fail
        self._died: dict[str, dict[str, None]] = {}

    # --- who has died

    def take(self, report: Report) -> None:
        """A process of a task has died. Within a transaction, which writes it down."""
        name, host = str(report.task), str(report.data["host"])
        self._died.setdefault(name, {})[host] = None
        why = {"host": host, "round": int(report.data["round"])}
        self._store.history.add_decision(report.at_ps, name, "died", "", why)

    def found(self, running: Mapping[str, Running]) -> None:
        """What the executor says that these tasks have lost."""
        self._died = {name: dict.fromkeys(run.died) for name, run in running.items() if run.died and not run.ended}

    def forget(self, name: str) -> None:
        """A task has ended, or goes on without those that had died until then."""
        self._died.pop(name, None)

    def died(self, name: str) -> tuple[str, ...]:
        """Hosts where a process of a task has died, in that order."""
        return tuple(self._died.get(name, ()))

    def _lost(self, row: TaskRow) -> tuple[str, ...]:
        topology, down = self._installer.controller.topology, self._installer.executor.links_down()
        return lost_hosts(row.task, topology, down, self.died(row.name))

    # --- what comes of it

    def settle(self, row: TaskRow, cause: str, otherwise: str) -> None:
        """A running task cannot stay as it is, and no other trees for the same hosts will do.

        It goes on with other plans, at other hosts or without those that are lost, as it wants; else it fails with
        ``cause``, what stands against anything else (``otherwise``), and who is lost.
        """
        before: tuple[str, ...] | None = None
        lost: tuple[str, ...] = ()
        for _ in range(MOST_ANEW):
            self._replanner.take_reports()
            self._replanner.cancel(row.name)
            row = self._store.task(row.name)
            if row.state not in AT_WORK:
                return
            lost = self._lost(row)
            if lost == before:
                break
            before = lost
            try:
                if self._goes_on(row, cause, lost):
                    return
            except (StoreError, sqlite3.Error):
                raise
            except Exception as error:  # a policy's fault
                otherwise += f"; and no other plans: {type(error).__name__}: {one_line(error)}"
                break
        who = named(row.task, row.ranks, lost)
        told = f"{cause}, and {otherwise}" if row.task.on_failure != "raise" or not lost else cause
        number = self._store.history.rounds_done(row.name)
        where = f" in round {number} of {row.task.rounds} (on_failure: {row.task.on_failure})"
        self._fail(row.name, f"{who}{where}: {told}" if who else told)

    def _goes_on(self, row: TaskRow, cause: str, lost: tuple[str, ...]) -> bool:
        """Whether there is a way to go on, which it takes then."""
        if self._installer.options.schedule:
            return False  # plans come with turns
        if lost and row.task.on_failure == "raise":
            return False
        if self._mover.rescue(row, cause, lost):
            return True
        return bool(lost) and row.task.on_failure == "shrink" and self._shrink(row, cause, lost)

    def _shrink(self, row: TaskRow, cause: str, lost: tuple[str, ...]) -> bool:
        left = tuple(host for host in row.task.workers if host not in lost)
        if not left or row.task.server in lost or self._store.task(row.name).state not in AT_WORK:
            return False
        task = replace(row.task, workers=left)
        why = {
            "lost": list(lost),
            "ranks": [rank for host, rank in zip(row.task.workers, row.ranks, strict=True) if host in left],
        }
        return self._mover.change(row, task, self._state(row.name), "shrink", cause, at_once=True, more=why)
