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
        self.writes = 0

    def change(self, job: Job, pushes: int, pulls: int) -> None:
        """A job's gradients and parameters get other classes, unless they have them already."""
        if (pushes, pulls) == (job.priority, job.result_priority):
            return
        self._clockwork.network.set_class(job, pushes, pulls)
        self._clockwork.at(self._clockwork.network.now + self._latency_ps, lambda: self._write(job, pushes, pulls))

    def _write(self, job: Job, pushes: int, pulls: int) -> None:
        self.writes += self._controller.change_priority(job.plan, pushes, pulls)
