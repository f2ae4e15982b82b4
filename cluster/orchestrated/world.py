"""Where orchestrated tasks run: a virtual network, its switches behind P4Runtime, and the tasks' hosts."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from p4reduce.cluster.errors import ClusterError
from p4reduce.cluster.jobs import Job, add_endpoints, host_address, pace_of
from p4reduce.cluster.orchestrated.task_run import TaskRun
from p4reduce.cluster.programs import P4Files
from p4reduce.cluster.switches import ServedSwitches
from p4reduce.control_plane.orchestrator.executor import (
    Interruption,
    Order,
    Report,
    ReportKind,
    Role,
    Running,
)
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.scheduling.state import Hop
from p4reduce.fabric import Endpoints as FabricEndpoints
from p4reduce.fabric import Faults, VirtualNetwork
from p4reduce.fabric.endpoint_calls import worker_endpoints
from p4reduce.topologies import Topology
from p4reduce.workers.endpoints import Endpoints
from p4reduce.workers.numbers import BlockFloat
from p4reduce.workers.records import State
from p4reduce.workers.settings import HostAddress

_CUT: Final = Faults(loss=1.0)
_WHOLE: Final = Faults()


@dataclass
class _Open:
    """A swap whose job has not caught up: the report it will make, and what was counted when it began."""

    run: TaskRun
    role: Role
    at_ps: int
    in_flight: int
    frontier: int
    resent: tuple[int, int]
    late: int


class World:
    """An :class:`~p4reduce.control_plane.orchestrator.executor.Executor`.

    Not thread-safe, but P4Runtime calls may come at any time.
    The same requests at the same virtual times give the same packets, reports and bytes.

    Parameters
    ----------
    topology : Topology
        The network.
    program : P4Files
        What the switches run from the start.
    queue_frames : int
        Frames of a port's queue, for each priority.
    faults, seed
        Of all links.
    """

    def __init__(
        self,
        topology: Topology,
        program: P4Files,
        *,
        queue_frames: int = 1024,
        faults: Faults = _WHOLE,
        seed: int = 0,
    ) -> None:
        self.topology = topology
        self.program = program
        self.instance: str = secrets.token_hex(8)
        self._faults = faults
        self._queue_frames = queue_frames
        self._endpoints = Endpoints()
        self._hosts: list[str] = []
        self._runs: dict[str, TaskRun] = {}
        self._open: list[_Open] = []
        self._reports: list[Report] = []
        self._down: set[Hop] = set()
        self._changes: list[tuple[int, str, int, bool]] = []  # of links: when, node, port, up
        self.switches = ServedSwitches(topology)
        try:
            self.switches.load(program)
            self.network = VirtualNetwork(
                topology,
                self.switches.devices(),
                endpoints=self._fabric_endpoints(),
                queue_frames=queue_frames,
                faults=faults,
                seed=seed,
            )
        except BaseException:
            self.switches.close()
            raise
        self.switches.network = self.network

    def close(self) -> None:
        """Stop the switches."""
        self.network.close()
        self.switches.close()

    def __enter__(self) -> "World":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- the executor

    def now(self) -> int:
        """Virtual time, picoseconds."""
        return self.network.now

    def start(self, order: Order) -> None:
        """Run a task; nothing when it was started before."""
        if order.task.name in self._runs:
            return
        jobs: dict[Role, Job] = {}
        for role, plan in order.plans.items():
            jobs[role] = Job(plan, BlockFloat() if plan.in_network else None)
            add_endpoints(
                jobs[role],
                self.topology,
                self._endpoints,
                lambda host, _index: self._hosts.append(host),
                queue_frames=self._queue_frames,
            )
        with self.switches.server.lock:
            self.network.replace_endpoints(self._fabric_endpoints())
        run = self._runs[order.task.name] = TaskRun(order, jobs, self._endpoints)
        run.begin_round(self.now())
        self._step(run)

    def swap(self, task: str, plans: Mapping[Role, Plan]) -> None:
        """Change jobs of a running task to other epochs; nothing for those that have."""
        run = self._run(task)
        for role, plan in plans.items():
            if not run.ended and run.jobs[role].plan.epoch != plan.epoch:
                self._change_over(run, role, plan)

    def stop(self, task: str) -> None:
        """Give a task up: its endpoints are never asked again. Nothing when it is not known or has ended."""
        run = self._runs.get(task)
        if run is not None and not run.ended:
            self._end(run)

    def advance(self, until_ps: int, *, after: int | None = None) -> int:
        """Let time pass; see the protocol."""
        while True:
            self._follow()
            news = after is not None and any(report.kind != "round" for report in self._reports[after:])
            if news or self.now() >= until_ps:
                return self.now()
            watched = [index for run in self._running() for index in run.active()]
            with self.switches.server.lock:
                self.network.run(min(until_ps, self._next_ps(until_ps)), watched, first=True)
            self.switches.report(self.network)

    def reports(self, after: int) -> list[Report]:
        """Reports from ``after`` + 1 on."""
        return self._reports[after:]

    def running(self) -> dict[str, Running]:
        """Every task that was started, by name."""
        return {
            name: Running(
                {role: (job.plan.job, job.plan.epoch) for role, job in run.jobs.items()}, run.round, run.ended
            )
            for name, run in self._runs.items()
        }

    def interface_bytes(self) -> dict[Hop, int]:
        """Bytes that every interface has sent."""
        return {port: self.network.links[port].bytes for port in self._ports()}

    def links_down(self) -> set[Hop]:
        """Links that were cut, both directions."""
        return set(self._down)

    # --- what tests and trials do to it

    def change_link(self, a: str, b: str, *, up: bool, at_ps: int | None = None) -> None:
        """Cut the link of two neighbours, or mend it, now or at a time; frames that are on it arrive."""
        at_ps = self.now() if at_ps is None else at_ps
        if at_ps < self.now():
            raise ClusterError(f"link {a} - {b}: {at_ps} ps is past: it is {self.now()} ps")
        self._changes.append((at_ps, a, self.topology.port(a, b), up))
        self._changes.sort()

    # --- inside

    def _fabric_endpoints(self) -> FabricEndpoints:
        return FabricEndpoints(self._endpoints.records, tuple(self._hosts), worker_endpoints())

    def _ports(self) -> list[Hop]:
        return [end for link in self.topology.links for end in ((link.a, link.port_a), (link.b, link.port_b))]

    def _run(self, task: str) -> TaskRun:
        try:
            return self._runs[task]
        except KeyError:
            raise ClusterError(f"no task {task!r} was started here") from None

    def _running(self) -> list[TaskRun]:
        return [run for run in self._runs.values() if not run.ended]

    def _next_ps(self, until_ps: int) -> int:
        """When Python is needed at the latest."""
        times = [until_ps, *(change[0] for change in self._changes[:1])]
        times += [at_ps for run in self._running() if (at_ps := run.next_ps()) is not None]
        # While a job catches up after a swap, look as often as its busiest link carries a chunk.
        times += [self.now() + max(1, one.run.jobs[one.role].plan.chunk_ps) for one in self._open]
        return min(times)

    def _follow(self) -> None:
        """Do what is due now."""
        while self._changes and self._changes[0][0] <= self.now():
            self._apply(*self._changes.pop(0)[1:])
        for run in self._running():
            self._step(run)
        for one in list(self._open):
            if one.run.ended or self._caught_up(one):
                self._open.remove(one)
                self._report("resumed", one.run, self._interruption(one).as_data())

    def _apply(self, node: str, port: int, up: bool) -> None:
        other = self.topology.neighbour(node, port)
        for end in ((node, port), (other, self.topology.port(other, node))):
            self.network.set_faults(end, self._faults if up else _CUT)
            (self._down.discard if up else self._down.add)(end)
        self._report("link", None, {"node": node, "port": port, "up": up})

    def _step(self, run: TaskRun) -> None:
        while True:
            for index in run.step(self.now()):
                self.network.start(index)
            if run.error is not None:
                self._report("failed", run, {"reason": run.error})
                self._end(run)
                return
            if not run.round_is_done:
                return
            number, times = run.round, dict(run.times)
            run.end_round(self.now())
            if run.error is None:
                self._report("round", run, {"round": number, **times})
                if run.ended:
                    self._report("finished", run, {"digest": run.digest.hexdigest()})
                    return

    def _end(self, run: TaskRun) -> None:
        """Nothing of a run is done any more."""
        run.ended = True
        for job in run.jobs.values():
            self._endpoints.records["status"][job.endpoints] = State.IDLE
            self._endpoints.records["lingering"][job.endpoints] = 0

    def _change_over(self, run: TaskRun, role: Role, plan: Plan) -> None:
        """All endpoints of a job go on in the next epoch, on another tree, now."""
        job = run.jobs[role]
        if plan.in_network != job.plan.in_network or plan.slots != job.plan.slots or plan.job != job.plan.job:
            raise ClusterError(
                f"task {run.order.task.name}: job {job.plan.job} cannot change to another kind of plan, job or window"
            )
        records = self._endpoints.records
        workers = list(job.members.values())
        restart = min(self._endpoints.oldest_missing(index) for index in workers)
        one = _Open(
            run,
            role,
            at_ps=self.now(),
            in_flight=sum(int(records[index]["next"]) - restart for index in workers),
            frontier=max(int(records[index]["next"]) for index in workers),
            resent=self._resent(job),
            late=self._late(job),
        )
        pace = pace_of(plan)
        for worker, index in job.members.items():
            self._endpoints.change_peers(index, self._link(worker), [host_address(plan.up(worker))])
            self._endpoints.change_epoch(index, plan.epoch, restart)
            records["pace"][index] = pace
        if job.server is not None and plan.server is not None:
            below = [plan.root] if plan.in_network else list(plan.workers)
            peers = [host_address(plan.address(plan.server, name)) for name in below]
            self._endpoints.change_peers(job.server, self._link(plan.server), peers)
            self._endpoints.change_epoch(job.server, plan.epoch)
        job.plan = plan
        self._open.append(one)
        for index in job.endpoints:
            self.network.start(index)

    def _link(self, host: str) -> HostAddress:
        node = self.topology.node(host)
        return HostAddress(node.mac, node.ip)

    def _caught_up(self, one: _Open) -> bool:
        job = one.run.jobs[one.role]
        return all(self._endpoints.oldest_missing(index) >= one.frontier for index in job.members.values())

    def _interruption(self, one: _Open) -> Interruption:
        job = one.run.jobs[one.role]
        frames, octets = self._resent(job)
        return Interruption(
            role=one.role,
            job=job.plan.job,
            epoch=job.plan.epoch,
            in_flight=one.in_flight,
            resent_frames=frames - one.resent[0],
            resent_bytes=octets - one.resent[1],
            late_frames=self._late(job) - one.late,
            duration_ps=self.now() - one.at_ps,
        )

    def _resent(self, job: Job) -> tuple[int, int]:
        statuses = [self._endpoints.status(index) for index in job.members.values()]
        return sum(status.resends for status in statuses), sum(status.resend_bytes for status in statuses)

    def _late(self, job: Job) -> int:
        return sum(self._endpoints.status(index).refused["epoch"] for index in job.endpoints)

    def _report(self, kind: ReportKind, run: TaskRun | None, data: Mapping[str, Any]) -> None:
        name = None if run is None else run.order.task.name
        self._reports.append(Report(len(self._reports) + 1, self.now(), kind, name, dict(data)))
