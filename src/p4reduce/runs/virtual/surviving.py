"""A carrier whose group outlives members, links and switches (``on_failure``), or ends soon after they do."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from p4reduce.base.errors import ControllerError, PlanError
from p4reduce.control_plane.entries import P4Program, switches_on_paths
from p4reduce.control_plane.plans import Plan
from p4reduce.group.agreement import Agreement
from p4reduce.group.backend import CollectiveCall, refuse_narrow
from p4reduce.group.errors import ClusterError, RefusedError
from p4reduce.group.membership import VIRTUAL_LEASE, Journal, Leases, MembershipDecision, Reach
from p4reduce.network.jobs.network import Job
from p4reduce.network.virtual import Faults
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.inputs import link_faults
from p4reduce.runs.jobs import MAIN_JOB
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
        for incident in incidents:
            incident.check(topology, self.everybody)
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
        self.journal = Journal()
        self.reach = Reach(topology, self.everybody)
        leases = Leases(VIRTUAL_LEASE, range(len(workers)), 0)
        self.agreement = Agreement(range(len(workers)), leases, self, experiment.on_failure)
        self.health = Health(self, incidents, link_faults(experiment.faults) if faults is None else faults)
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
            place = self._place(operation, root, workers, self.everybody)
            view = self.reach.view
            requests = self._tree_requests(view, workers) if place is None else [self._request(*place)]
            first = requests[0]
            epoch = self._epochs[first.job] = self._epochs.get(first.job, -1) + 1
            server = first.server or (self.server if first.plan == "ps" else None)
            if server is not None and server in self.reach.apart([*workers, server]):
                raise PlanError(f"{server} cannot be reached any more")
            for request in requests:
                plans += [self.switches.controller.start_job(replace(request, epoch=epoch), view)]
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

    def number_of(self, operation: str, root: int) -> int:
        """Return the number of the job that carries an operation."""
        place = self._place(operation, root, self.workers, self.everybody)
        return MAIN_JOB if place is None else place[0]
