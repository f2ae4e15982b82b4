"""A swap of trees that is under way: from the change of epoch until every worker has again all that was in flight."""

from p4reduce.control_plane.orchestrator.executor import Interruption, Role
from p4reduce.jobs.network import JobNetwork
from p4reduce.orchestrated.task_run import TaskRun


class OpenSwap:
    """What was counted when the swap began; made before any endpoint changes."""

    def __init__(self, network: JobNetwork, run: TaskRun, role: Role) -> None:
        self._endpoints = network.endpoints
        self._job = run.jobs[role]
        self._workers = list(self._job.members.values())
        self.run = run
        self.role = role
        self._at_ps = network.now
        restart = network.restart_seq(self._job)
        sent = [int(self._endpoints.records[index]["next"]) for index in self._workers]
        self._in_flight = sum(number - restart for number in sent)
        self._frontier = max(sent)
        self._resent = self._count_resent()
        self._late = self._count_late()

    def caught_up(self) -> bool:
        """Whether every worker has what any of them had sent."""
        return all(self._endpoints.oldest_missing(index) >= self._frontier for index in self._workers)

    def interruption(self, now_ps: int) -> Interruption:
        """What the swap has cost until now."""
        frames, octets = self._count_resent()
        return Interruption(
            role=self.role,
            job=self._job.plan.job,
            epoch=self._job.plan.epoch,
            in_flight=self._in_flight,
            resent_frames=frames - self._resent[0],
            resent_bytes=octets - self._resent[1],
            late_frames=self._count_late() - self._late,
            duration_ps=now_ps - self._at_ps,
        )

    def _count_resent(self) -> tuple[int, int]:
        statuses = [self._endpoints.status(index) for index in self._workers]
        return sum(status.resends for status in statuses), sum(status.resend_bytes for status in statuses)

    def _count_late(self) -> int:
        return sum(self._endpoints.status(index).refused["epoch"] for index in self._job.endpoints)
