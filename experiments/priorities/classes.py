"""Classes that change while jobs run: at hosts at once, in switches by P4Runtime writes that take effect later."""

from p4reduce.control_plane.controller import Controller
from p4reduce.jobs.clockwork import Clockwork
from p4reduce.jobs.job import Job


class ClassWriter:
    """Changes the classes of jobs, and counts what that costs.

    Attributes
    ----------
    writes : int
        Entries of switches that were written.
    """

    def __init__(self, clockwork: Clockwork, controller: Controller, latency_ps: int) -> None:
        self._clockwork, self._controller, self._latency_ps = clockwork, controller, latency_ps
        self._wanted: dict[int, int] = {}
        self.writes = 0

    def change(self, job: Job, priority: int) -> None:
        """A job gets another class, unless it has it already, or is about to."""
        if self._wanted.get(job.plan.job, job.priority) == priority:
            return
        self._wanted[job.plan.job] = priority
        self._clockwork.network.set_class(job, priority)
        self._clockwork.at(self._clockwork.network.now + self._latency_ps, lambda: self._write(job, priority))

    def _write(self, job: Job, priority: int) -> None:
        self.writes += self._controller.change_priority(job.plan, priority)
