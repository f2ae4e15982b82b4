"""A carrier whose group outlives members, links and switches (``on_failure``), or ends soon after they do."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from p4reduce.base.errors import ControllerError, PlanError
from p4reduce.control_plane.entries import P4Program
from p4reduce.control_plane.plans import Plan
from p4reduce.group.agreement import Agreement
from p4reduce.group.backend import CollectiveCall, refuse_narrow
from p4reduce.group.errors import ClusterError, RefusedError
from p4reduce.group.membership import VIRTUAL_LEASE, Journal, Leases, MembershipDecision, Reach
from p4reduce.network.jobs.network import Job
from p4reduce.network.virtual import Faults
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.jobs import MAIN_JOB
from p4reduce.runs.virtual.carrier import Carrier
from p4reduce.runs.virtual.incidents import Health, Incident, joining
from p4reduce.runs.virtual.survival import Restored, Survival
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4reduce.workers.specs import Congestion
from p4reduce.workers.status import EndpointStatus


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
        self.health = Health(self, incidents, Faults(**experiment.faults.model_dump()) if faults is None else faults)
        self.coming: list[Plan] = []
        """Trees that are being installed beside the present ones."""
        self.changing = False
        """Whether members were asked to stop: then the present jobs are removed anyway."""
        self.restored: list[Restored] = []
        """Times of each decision that took effect."""
        self._epochs = {MAIN_JOB: 0}
        self.lapsed: set[tuple[int, int]] = set()
        """Job and epoch of plans that a switch lost as it restarted."""
        self._paused: set[int] = set()
        self.stopped: list[Plan] = []
        """Plans of jobs whose endpoints are gone, and that are still in the switches."""
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

    @property
    def damaged(self) -> bool:
        """Return whether a job cannot go on: a link or a switch of its plan is down, or has restarted."""
        plans = [*self.coming, *(job.plan for job in self.jobs if not self.changing)]
        return any((plan.job, plan.epoch) in self.lapsed or self.reach.damaged(plan) for plan in plans)

    def no_room(self, members: Sequence[int]) -> None:
        """Return None: there is room unless planning fails later."""

    def stop_jobs(self) -> None:
        """Stop all jobs at hosts; their state in switches stays, as it shows who is missing."""
        for job in self._jobs.values():
            self._left += self.network.statuses(job)
            self.network.give_up(job)
            self.network.retire(job)
            self.stopped.append(job.plan)
        self._jobs = {}
        for index in self._paused:  # a rank that returns to the host gets another job's endpoint in its place
            self.network.fabric.resume(index)
        self._paused.clear()

    def pause(self, host: str) -> None:
        """Stop a host from sending."""
        for job in self._jobs.values():
            for index in job.endpoints:
                if self.network.hosts[index] == host:
                    self.network.fabric.pause(index)
                    self._paused.add(index)

    def uninstall(self, plans: list[Plan]) -> None:
        """Remove plans from the switches that are up, and from the list."""
        while plans:
            self.switches.controller.uninstall(plans.pop(0), self.reach.switches)

    def plan_for(self, operation: str, root: int, members: Sequence[int]) -> list[Plan]:
        """Plan and install the trees that carry an operation among ``members``, in its next epoch.

        Takes effect one control latency from now. Raises ``ClusterError`` if there are none; then nothing is installed.
        """
        workers = tuple(self.everybody[member] for member in members)
        plans: list[Plan] = []
        try:
            place = self._place(operation, root, workers, self.everybody)
            view = self.reach.view
            requests = self._tree_requests(view, workers) if place[0] == MAIN_JOB else [self._request(*place)]
            first = requests[0]
            epoch = self._epochs[first.job] = self._epochs.get(first.job, -1) + 1
            server = first.server or (self.server if first.plan == "ps" else None)
            if server is not None and server in self.reach.apart([*workers, server]):
                raise PlanError(f"{server} cannot be reached any more")
            for request in requests:
                plans += [self.switches.controller.start_job(replace(request, epoch=epoch), view)]
        except (PlanError, ControllerError) as error:
            self.uninstall(plans)
            raise ClusterError(f"{len(members)} ranks cannot go on: {error}") from error
        return plans

    def attach(self, plans: Sequence[Plan]) -> Job:
        """Give the hosts of installed plans their endpoints; return the first tree's job."""
        jobs = [self.network.add(plan, self.numbers) for plan in plans]
        self._jobs |= {job.plan.job: job for job in jobs}
        if plans[0].job == MAIN_JOB:
            self._trees = jobs
        return jobs[0]
