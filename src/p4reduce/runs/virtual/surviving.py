"""A carrier whose group outlives members, links and switches (``on_failure``), or ends soon after they do."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from p4reduce.base.errors import ControllerError, PlanError
from p4reduce.control_plane.entries import P4Program, switches_on_paths
from p4reduce.control_plane.plans import Plan, PlanRequest
from p4reduce.group.agreement import Agreement
from p4reduce.group.backend import SERVED, CollectiveCall, refuse_narrow
from p4reduce.group.errors import ClusterError, RefusedError
from p4reduce.group.membership import VIRTUAL_LEASE, Journal, Leases, MembershipDecision, OnFailure, Reach
from p4reduce.network.jobs.network import Job
from p4reduce.network.virtual import Faults
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.inputs import link_faults
from p4reduce.runs.jobs import ALL_TO_ALL_JOB, FIRST_BROADCAST_JOB, MAIN_JOB, SERVED_JOB
from p4reduce.runs.virtual.carrier import Carrier
from p4reduce.runs.virtual.incidents import Health, Incident, joining
from p4reduce.runs.virtual.survival import Restored, Survival
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4reduce.workers.specs import Congestion
from p4reduce.workers.status import EndpointStatus

Coming = list[Plan]
"""trees of a job"""


class SurvivingCarrier(Carrier):
    """The network of a group with incidents, and the ``Ground`` of its agreement. Ranks are those of the start.

    ``journal``: decisions on the members.
    """

    may_return = False
    """A switch that is away counts as lost once its lease has run out; before that, its absence is not known."""

    def __init__(
        self,
        experiment: Experiment,
        topology: Topology,
        program: P4Program,
        *,
        workers: tuple[str, ...],
        server: str | None,
        capture: Path | None,
        incidents: Sequence[Incident] = (),
        faults: Mapping[Hop, Faults] | None = None,
        congestion: Congestion | None = None,
    ) -> None:
        self.everybody = (*workers, *joining(incidents))
        """Hosts of all ranks: those of the start, then those that join."""
        self.on_failure: OnFailure = experiment.on_failure
        self.journal = Journal()
        leases = Leases(VIRTUAL_LEASE, range(len(workers)), 0)
        self.reach = Reach(topology, self.everybody)
        whole = link_faults(experiment.faults) if faults is None else faults
        self.health = Health(topology, self.everybody, incidents, leases, self.reach, len(workers), whole)
        self.agreement = Agreement(range(len(workers)), leases, self, self.on_failure)
        self.coming: Coming | None = None
        """trees that are being installed beside the present ones, or None"""
        self.changing = False
        """Whether members were asked to stop: then the present jobs are removed anyway."""
        self.restored: list[Restored] = []
        """Times of each decision that took effect."""
        self.waiting_since_ps = 0
        """when the last participant called the collective under way, picoseconds"""
        self._epochs = {MAIN_JOB: 0}
        self._lapsed: set[tuple[int, int]] = set()
        self._paused: set[int] = set()
        self._stopped = False
        self._deaths: list[tuple[int, int, str]] = []
        self._left: list[EndpointStatus] = []
        super().__init__(
            experiment,
            topology,
            program,
            workers=workers,
            server=server,
            capture=capture,
            faults=faults,
            congestion=congestion,
        )

    # --- calls of the group

    def note_death(self, rank: int, at_ps: int, reason: str) -> None:
        """Note that a member's process ended at ``at_ps`` of its clock. May be called from any thread."""
        self._deaths.append((rank, at_ps, reason))

    def carry(
        self,
        calls: list[CollectiveCall],
        check: Callable[[], None] = lambda: None,
        workers: tuple[str, ...] | None = None,
    ) -> Sequence[MembershipDecision]:
        """Carry a collective as ``Carrier.carry``; return the decisions on the members made meanwhile."""
        if workers is not None:
            raise RefusedError("groups of some ranks need --on-failure abort: members are watched in the whole group")
        refuse_narrow(calls, "a group that outlives members (--on-failure)")
        with self._one:
            check()
            while self._deaths:
                rank, at_ps, reason = self._deaths.pop(0)
                self.health.die(rank, at_ps, reason)
                self.pause(self.everybody[rank])
            known = len(self.journal.decisions)
            self.waiting_since_ps = max(call.start_ps for call in calls)
            Survival(self, calls, check).carry()
            if self.on_collective is not None:
                self.on_collective(len(self.records))
            return self.journal.decisions[known:]

    def carry_stale(
        self, calls: list[CollectiveCall], check: Callable[[], None] = lambda: None
    ) -> list[CollectiveCall]:
        """Raise ``RefusedError``: there is no staleness if members may die."""
        raise RefusedError("push_pull: staleness needs --on-failure abort: deaths are noticed by waiting only")

    def statuses(self) -> list[EndpointStatus]:
        """Return the status of all endpoints, including those of earlier epochs."""
        return [*self._left, *super().statuses()]

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the hosts of all ranks, then that of the server, whose rank follows the last."""
        return (*self.everybody, *([] if self.server is None else [self.server]))

    # --- members and trees

    def look(self) -> tuple[str, ...]:
        """Restore the switches that have restarted, and return them; their plans are lost."""
        restarted = self.switches.controller.look().restarted
        for switch in restarted:
            self.switches.controller.restore(switch)
        gone = {*restarted}
        for plan in self.switches.controller.installed:
            if gone & {*switches_on_paths(plan)}:
                self._lapsed.add((plan.job, plan.epoch))
        return restarted

    @property
    def damaged(self) -> bool:
        """Return whether a job cannot go on: a link or a switch of its plan is down, or has restarted."""
        plans = [job.plan for job in self.jobs] if not self.changing else []
        plans += [] if self.coming is None else self.coming
        return any((plan.job, plan.epoch) in self._lapsed or self.reach.damaged(plan) for plan in plans)

    def no_room(self, members: Sequence[int]) -> None:
        """Return None: there is room unless planning fails later."""

    def newcomers(self) -> tuple[int, ...]:
        """Return the ranks that could join now: the members know of them and reach them."""
        first = next((self.everybody[member] for member in self.agreement.survivors), None)
        came = self.health.newcomers(self.network.now)
        return tuple(rank for rank in came if first is not None and not self.reach.apart([first, self.everybody[rank]]))

    def change(self, decision: MembershipDecision) -> None:
        """Change the group's members as decided."""
        self.journal.write(decision)
        self.workers = tuple(self.everybody[member] for member in decision.after)

    def stop_jobs(self) -> None:
        """Stop all jobs at hosts; their state in switches stays, as it shows who is missing."""
        for job in self._jobs.values():
            self._left += self.network.statuses(job)
            self.network.give_up(job)
            self.network.retire(job)
        for index in self._paused:  # a rank that returns to the host gets another job's endpoint in its place
            self.network.fabric.resume(index)
        self._paused.clear()
        self._stopped = True

    def forget_jobs(self) -> None:
        """Remove every stopped job from the switches; each is made anew when needed."""
        for job in self._jobs.values():
            self.uninstall(job.plan)
        self._jobs, self._stopped = {}, False

    def pause(self, host: str) -> None:
        """Stop a host from sending."""
        for job in self._jobs.values() if not self._stopped else ():
            for index in job.endpoints:
                if self.network.hosts[index] == host:
                    self.network.fabric.pause(index)
                    self._paused.add(index)

    def uninstall(self, plan: Plan) -> None:
        """Remove a plan from the switches that are up."""
        self.switches.controller.uninstall(plan, self.reach.switches)

    def plan_for(self, operation: str, root: int, members: Sequence[int]) -> Coming:
        """Plan and install the trees that carry an operation among ``members``, in its next epoch.

        Takes effect one control latency from now. Raises ``ClusterError`` if there are none; then nothing is installed.
        """
        workers = tuple(self.everybody[member] for member in members)
        plans: list[Plan] = []
        try:
            requests = self._requests_for(operation, root, workers)
            first = requests[0]
            epoch = self._epochs[first.job] = self._epochs.get(first.job, -1) + 1
            server = first.server or (self.server if first.plan == "ps" else None)
            if server is not None and server in self.reach.apart([*workers, server]):
                raise PlanError(f"{server} cannot be reached any more")
            for request in requests:
                plans += [self.switches.controller.start_job(replace(request, epoch=epoch), self.reach.view)]
        except (PlanError, ControllerError) as error:
            for plan in plans:
                self.uninstall(plan)
            raise ClusterError(f"{len(members)} ranks cannot go on: {error}") from error
        return plans

    def attach(self, plans: Coming) -> Job:
        """Give the hosts of installed plans their endpoints; return the first tree's job."""
        jobs = [self.network.add(plan, self.numbers) for plan in plans]
        self._jobs |= {job.plan.job: job for job in jobs}
        if plans[0].job == MAIN_JOB:
            self._trees = jobs
        return jobs[0]

    def job_of(self, operation: str, root: int) -> Job | None:
        """Return the job that carries an operation now, or None."""
        return self._jobs.get(self._number(operation, root))

    def is_main(self, operation: str) -> bool:
        """Return whether the job of all sums carries an operation."""
        return self._number(operation, 0) == MAIN_JOB

    def _number(self, operation: str, root: int) -> int:
        if operation == "broadcast":
            return FIRST_BROADCAST_JOB + root
        if operation in SERVED:
            return SERVED_JOB
        return ALL_TO_ALL_JOB if operation == "all_to_all" and self.experiment.plan != "all-to-all" else MAIN_JOB

    def _requests_for(self, operation: str, root: int, workers: tuple[str, ...]) -> list[PlanRequest]:
        """Return the plan requests, as ``Carrier`` does: a ring only reduces, other collectives go host to host."""
        plan, server = self.plan_of_one, None
        if operation == "all_to_all":
            plan = "all-to-all"
        elif plan == "all-to-all":
            raise RefusedError(f"{operation}: plan all-to-all only does all_to_all; choose another plan")
        number = self._number(operation, root)
        if number == MAIN_JOB:
            return self._tree_requests(self.reach.view, workers)
        if operation == "broadcast":
            server = self.everybody[root]
            workers = tuple(worker for worker in workers if worker != server)
        elif operation in SERVED:
            server = self.server
        if plan == "ring" and server is not None:
            plan = "ps"
        return [self._request(number, plan, workers, server)]
