"""Tasks that change while they run: other epochs of their jobs, other plans and hosts, and processes that die."""

from collections.abc import Callable, Mapping
from typing import Any

from p4reduce.base.safe_yaml import one_line
from p4reduce.control_plane.orchestrator.errors import RefusedError
from p4reduce.control_plane.orchestrator.executor import Order, ReportKind, Role
from p4reduce.control_plane.orchestrator.members import named
from p4reduce.control_plane.plans import Plan
from p4reduce.jobs.job import Job
from p4reduce.jobs.network import JobNetwork
from p4reduce.orchestrated.open_swap import OpenSwap
from p4reduce.orchestrated.task_run import TaskRun

Report = Callable[[TaskRun, ReportKind, Mapping[str, Any]], None]
"""Tell of a task."""


class Changes:
    """Gives runs their endpoints, and takes them away.

    Parameters
    ----------
    network : JobNetwork
        Where.
    report : callable
        Tells of a task.
    fail : callable
        Ends a run, with a reason.
    """

    def __init__(self, network: JobNetwork, report: Report, fail: Callable[[TaskRun, str], None]) -> None:
        self._network, self._report, self._fail = network, report, fail
        self.open: list[OpenSwap] = []
        """swaps whose workers have not caught up"""

    def add(self, order: Order) -> dict[Role, Job]:
        """The endpoints of an order's plans; after an error there are none."""
        jobs: dict[Role, Job] = {}
        try:
            for role, plan in order.plans.items():
                jobs[role] = self._network.add(plan)
        except BaseException:
            for job in jobs.values():
                self._network.retire(job)
            raise
        return jobs

    def check(self, run: TaskRun, order: Order) -> None:
        """`RefusedError` for an order that a run cannot go on with."""
        name = order.task.name
        if order.task.elements != run.order.task.elements:
            raise RefusedError(f"task {name}: a running task keeps its model")
        if len(order.all_ranks) != len(order.task.workers) or len({*order.all_ranks}) != len(order.all_ranks):
            raise RefusedError(f"task {name}: every worker has a rank of its own")
        if not {*order.all_ranks} <= {*run.order.all_ranks} or (
            not order.ranks and len(order.task.workers) != len(run.order.task.workers)
        ):
            raise RefusedError(
                f"task {name}: a running task keeps its model and the number of its workers, "
                "or says whose ranks are left"
            )
        hosts = {order.task.server, *order.task.workers}
        if died := [host for host in run.died if host in hosts and host not in order.anew]:
            raise RefusedError(f"task {name}: its process of {died[0]} has died")

    def turn(self, run: TaskRun) -> bool:
        """A run goes on with the order that waits: endpoints of its own, the old ones leave; whether it did."""
        order, run.coming = run.coming, None
        if order is None:
            return False
        try:
            jobs = self.add(order)
        except Exception as error:  # it stays as it is
            self._report(run, "replanned", {"error": f"{type(error).__name__}: {one_line(error)}"})
            return False
        old = list(run.jobs.values())
        run.close()
        for job in old:
            self._network.give_up(job)
            self._network.retire(job)
        self.open = [one for one in self.open if one.run is not run]
        keys = {role: [*key] for role, key in order.keys.items()}
        self._report(run, "replanned", {"keys": keys, "round": run.round, "again": run.begun})
        run.turn(order, jobs, self._network.now)
        return True

    def change_over(self, run: TaskRun, role: Role, plan: Plan) -> None:
        """All endpoints of a job go on in the next epoch, on another tree, now."""
        job = run.jobs[role]
        if run.died:
            raise RefusedError(f"task {run.order.task.name}: its process of {run.died[0]} has died")
        if plan.in_network != job.plan.in_network or plan.slots != job.plan.slots or plan.job != job.plan.job:
            raise RefusedError(
                f"task {run.order.task.name}: job {job.plan.job} cannot change to another kind of plan, job or window"
            )
        try:
            one = OpenSwap(self._network, run, role)
            self._network.change_over(job, plan)
            self.open.append(one)
        except Exception as error:  # half of its hosts may have changed: it cannot go on
            self._fail(run, f"could not change to epoch {plan.epoch}: {type(error).__name__}: {one_line(error)}")

    def follow(self) -> None:
        """Tell of swaps whose workers have caught up by now."""
        for one in list(self.open):
            if one.run.ended or one.caught_up():
                self.open.remove(one)
                self._report(one.run, "resumed", one.interruption(self._network.now).as_data())

    def next_ps(self) -> list[int]:
        """When to look again: while a job catches up, as often as its busiest link carries a chunk."""
        return [self._network.now + max(1, one.run.jobs[one.role].plan.chunk_ps) for one in self.open]

    def die(self, run: TaskRun, host: str, *, whole: bool) -> None:
        """The process of a run at a host has ended: whoever is left stops, until somebody says how to go on.

        ``whole``: the host itself has; then nobody reads data there any more, and a task of which somebody would fails.
        Where tasks take turns nobody could, before the end of the round, for which the others would wait: it fails.
        """
        if run.ended or host in run.died:
            return
        if host not in (run.order.task.server, *run.order.task.workers):
            if whole and (reader := run.reader_at(host)) is not None:
                self._fail(run, f"{reader} cannot read its data at {host}: that host has ended")
            return
        run.died.append(host)
        run.close()
        for job in run.jobs.values():
            self._network.give_up(job)
        self.open = [one for one in self.open if one.run is not run]
        self._report(run, "died", {"host": host, "round": run.round})
        if run.turns:
            task = run.order.task
            where = f"in round {run.round} of {task.rounds} (on_failure: {task.on_failure})"
            who = named(task, run.order.all_ranks, [host])
            self._fail(run, f"{who} {where}: the process of {host} has died, and others wait for its turn to end")
