"""Tasks that take turns: plays a timetable, window after window, round after round, and asks nobody meanwhile."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from p4reduce.control_plane.orchestrator.executor import ReportKind, Role, Timetable, Turn, TurnWindow, circuits_of
from p4reduce.control_plane.orchestrator.options import RefusedError
from p4reduce.control_plane.plans import Plan
from p4reduce.network.jobs.network import JobNetwork
from p4reduce.network.virtual.faults import FabricError
from p4reduce.play.tasks.task_run import TaskRun
from p4reduce.topologies import Link

_STEP_PS: Final = 200_000
"""in which is looked whether an answer that was owed has left"""

Change = Callable[[TaskRun, Role, Plan], None]
"""A task goes on with another plan of one of its jobs."""
Tell = Callable[[ReportKind, Mapping[str, Any]], None]
"""Report something: its kind and data."""


class Rounds:
    """One schedule at a time.

    A task trains while others communicate: from the opening of another process's window on. It communicates once a
    round, when its window is lit. Circuits turn only when everything of the window before has arrived.
    """

    def __init__(self, network: JobNetwork, change: Change, tell: Tell) -> None:
        self._network, self._change, self._tell = network, change, tell
        self._table: Timetable | None = None
        self._next: Timetable | None = None
        self._lit: tuple[Link, ...] = ()
        self._round, self._place = 0, -1
        self._open = False
        self._own: list[TaskRun] = []  # of the window that is open, as long as something of theirs is under way
        self._started_ps = self._lit_ps = 0
        self._clear_ps = 0  # until then frames of a task that was given up may be under way
        self._lost = (0, 0)

    @property
    def number(self) -> int:
        """Of the schedule that holds; 0: none."""
        return 0 if self._table is None else self._table.number

    def turn(self) -> Turn:
        """Where it is."""
        waiting = 0 if self._next is None else self._next.number
        return Turn(self.number, waiting, self._round, self._place, self._lit)

    def set(self, timetable: Timetable) -> None:
        """Another timetable from the end of this round on; see the protocol."""
        known = [table.number for table in (self._table, self._next) if table is not None]
        if timetable.number in known:
            return
        if timetable.number < max(known, default=1):
            raise RefusedError(f"schedule {timetable.number}: {max(known, default=1)} came after it")
        if self._next is not None:
            raise RefusedError(f"schedule {timetable.number}: {self._next.number} waits for the end of the round")
        for window in timetable.windows:
            try:
                self._network.fabric.check_circuits(window.circuits)
            except FabricError as error:
                raise RefusedError(f"schedule {timetable.number}: {error}") from None
        self._next = timetable

    def step(self, runs: Mapping[str, TaskRun], now_ps: int) -> bool:
        """Go as far as it can now; whether tasks may have something to do."""
        went = False
        while self._once(self._here(runs), now_ps):
            went = True
        return went

    def _here(self, runs: Mapping[str, TaskRun]) -> dict[str, TaskRun]:
        """Tasks of this schedule; others wait for theirs."""
        return {name: run for name, run in runs.items() if run.turns and (run.order.schedule or 0) <= self.number}

    def next_ps(self, runs: Mapping[str, TaskRun], now_ps: int) -> int | None:
        """When it wants to be stepped, if nothing of a task ends before."""
        times = []
        if self._open:
            if self._lit_ps > now_ps:
                times.append(self._lit_ps)
            if self._clear_ps > now_ps:
                times.append(self._clear_ps)
            if self._own and not any(_busy(run) for run in self._own):
                times.append(now_ps + _STEP_PS)
        elif self._table is not None:
            times += [run.times["trained_ps"] for run in self._here(runs).values() if run.phase == "training"]
        return min((at_ps for at_ps in times if at_ps > now_ps), default=None)

    def _once(self, runs: Mapping[str, TaskRun], now_ps: int) -> bool:
        if self._open:
            return self._go_on(now_ps)
        live = [] if self._table is None else self._live(self._table.windows, runs)
        following = [place for place in live if place > self._place]
        if not following and (self._place >= 0 or self._next is not None):  # a round has ended, or nobody is in one
            self._end_round(runs)
            return True
        if not following or self._table is None:
            return False
        window = self._table.windows[following[0]]
        if all(self._table.windows[place].process != window.process for place in live if place < following[0]):
            self._train(runs, now_ps, lambda process: process == window.process)
        return self._begin_window(self._table, following[0], runs, now_ps)

    def _train(self, runs: Mapping[str, TaskRun], now_ps: int, whose: Callable[[int], bool]) -> None:
        """Tasks of processes that have nothing to do."""
        assert self._table is not None  # noqa: S101
        for window in self._table.windows:
            for name in window.tasks:
                if whose(window.process) and name in runs and runs[name].phase == "idle":
                    runs[name].begin_round(now_ps)

    @staticmethod
    def _live(windows: Sequence[TurnWindow], runs: Mapping[str, TaskRun]) -> list[int]:
        return [place for place, window in enumerate(windows) if any(name in runs for name in window.tasks)]

    def _end_round(self, runs: Mapping[str, TaskRun]) -> None:
        self._round, self._place = self._round + (self._place >= 0), -1
        if self._next is None:
            return
        self._table, self._next, self._round = self._next, None, 0
        for name, plans in self._table.plans.items():
            run = runs.get(name)
            for role, plan in plans.items():
                if run is not None and not run.ended and role in run.jobs and run.jobs[role].plan.epoch < plan.epoch:
                    self._change(run, role, plan)
        self._tell("schedule", {"number": self._table.number})

    def _begin_window(self, table: Timetable, place: int, runs: Mapping[str, TaskRun], now_ps: int) -> bool:
        """Have the others train and turn the mirrors; False while somebody of the window trains."""
        window = table.windows[place]
        own = [runs[name] for name in window.tasks if name in runs]
        if not all(run.trained(now_ps) for run in own):
            return False
        self._train(runs, now_ps, lambda process: process != window.process)
        self._open, self._place, self._own = True, place, own
        self._started_ps = self._lit_ps = now_ps
        if window.circuits != self._lit:
            self._network.fabric.reconfigure(None, window.circuits, None, table.delta_ps)
            self._lit, self._lit_ps = window.circuits, now_ps + table.delta_ps
        for run in own:
            run.lit = now_ps >= self._lit_ps or not any(circuits_of(job.plan) for job in run.jobs.values())
        return True

    def _go_on(self, now_ps: int) -> bool:
        """Light, and the end of a window."""
        assert self._table is not None  # noqa: S101
        if now_ps >= self._lit_ps and not all(run.lit or run.phase == "idle" for run in self._own):
            for run in self._own:
                run.lit |= run.phase != "idle"
            return True
        for run in list(self._own):
            if not _busy(run) and not any(self._network.lingers(job) for job in run.jobs.values()):
                self._own.remove(run)
                if run.ended and run.round < run.order.task.rounds:  # it was given up
                    self._clear_ps = now_ps + self._table.guard_ps
        if self._own or now_ps < max(self._lit_ps, self._clear_ps):
            return False
        counted = self._network.fabric.links.array()
        lost = int(counted["dark_lost"].sum()), int(counted["misrouted"].sum())
        self._open = False
        self._tell(
            "window",
            {
                "schedule": self.number,
                "round": self._round,
                "window": self._place,
                "started_ps": self._started_ps,
                "lit_ps": self._lit_ps,
                "ended_ps": now_ps,
                "dark_lost": lost[0] - self._lost[0],
                "misrouted": lost[1] - self._lost[1],
            },
        )
        self._lost = lost
        return True


def _busy(run: TaskRun) -> bool:
    """Whether a task has something to send, or to wait for, in the window that is open."""
    return not run.ended and run.phase != "idle"
