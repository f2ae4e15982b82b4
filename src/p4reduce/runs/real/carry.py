"""The network, switches and worker processes of a run in real time, and the collectives that they carry."""

import hashlib
import statistics
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from p4reduce.base.output import Progress
from p4reduce.base.records import from_plain, to_json, to_plain
from p4reduce.control_plane.counters import Operation, SwitchCounters, parts_bound, plan_bound
from p4reduce.control_plane.entries import explain_waits
from p4reduce.control_plane.plans import Plan, PlanRequest
from p4reduce.control_plane.plans.best import BEST, FORESTS
from p4reduce.control_plane.resources import SLOTS
from p4reduce.group.backend import SERVED, FloatArray, as_carried
from p4reduce.group.errors import ClusterError
from p4reduce.group.membership import MembershipDecision
from p4reduce.network.jobs.network import Job, parts_of
from p4reduce.network.jobs.specs import endpoint_specs, exchanged, expect_sum
from p4reduce.network.real.bmv2 import GROWTH_BYTES, QUEUE_FRAMES
from p4reduce.network.virtual import Incidents, LinkCounters, Where
from p4reduce.runs.experiment import Experiment, ExperimentError
from p4reduce.runs.jobs import FIRST_BROADCAST_JOB, MAIN_JOB, SERVED_JOB, tree_requests, trees_of
from p4reduce.runs.launch import Emit
from p4reduce.runs.machines import Agent, Agents, Machine, MachineClock
from p4reduce.runs.participant import check_memory
from p4reduce.runs.real.backend import CarriedCollective, Counts, ProcessSpec, RealClosing, for_bmv2, real_timing
from p4reduce.runs.real.coordinator import Resumed
from p4reduce.runs.real.part import merged, needs_of
from p4reduce.runs.real.presence import Message, WorkerError, WorkerGroup, is_stopped
from p4reduce.runs.real.targets import NO_TRAFFIC, Bmv2Target, EmbeddedTarget, MachineTarget, RealTarget, check_growth
from p4reduce.runs.real.wires import (
    LinkRelays,
    Machines,
    MachineWires,
    RelaySights,
    VethWires,
    Wires,
    machine_wires,
    open_wires,
    relay_faults,
)
from p4reduce.runs.result import (
    ClosedRecord,
    CollectiveRecord,
    LeftOut,
    MachineRun,
    RealRun,
    RunResult,
    Steps,
    TrainingPoint,
)
from p4reduce.runs.runner import training_iterations, training_result, without_values
from p4reduce.runs.summary import CarriedCounts, describe_topology, provenance, result_of
from p4reduce.runs.virtual.cluster import build_topology, program_of, worker_hosts
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4reduce.workers.numbers import BlockFloat, FixedScale, check_bits, with_bits
from p4reduce.workers.specs import Congestion, EndpointSpec
from p4reduce.workers.status import EndpointStatus
from p4reduce.workers.wire import WORD_BITS, words_of
from p4switch.base.closing import Closable
from p4switch.base.values import NS_PER_S, PS_PER_MS, PS_PER_NS

# The participants of a run in real time, and the jobs that carry its collective.


WINDOW: Final = 256
"""Chunks in flight if no window is given.

Processes add more delay than links, so the plan's rate * round trip would be too few; loss and round-trip times adapt
the number. On BMv2 it is at most the length of an output queue, so that results find room unless some are sent again.
(With a deadline, the limit is on the chunks on their way: a chunk that waits for a straggler is in no queue, and should
be open at once.)
"""
LEAST_WINDOW: Final = 8
"""chunks for each of several trees, which share the window"""


@dataclass(frozen=True)
class Assignment:
    """The hosts that take part in a run's collective, and its jobs."""

    workers: tuple[str, ...]
    server: str | None
    """Host of the parameter server; None if the topology has no server."""
    requests: tuple[PlanRequest, ...]
    """One request for each tree of the plan."""
    weights: tuple[int, ...]
    """Weight of each tree."""
    whole: PlanRequest
    """The request before it was divided among trees."""

    def trees(
        self, experiment: Experiment, topology: Topology, workers: tuple[str, ...]
    ) -> tuple[tuple[PlanRequest, ...], tuple[int, ...]]:
        """Return plan requests and weights like these for other workers, in the remaining network."""
        return _divided(replace(self.whole, workers=workers), experiment, topology, several=True)

    @property
    def request(self) -> PlanRequest:
        """Return the request of the first tree."""
        return self.requests[0]

    @staticmethod
    def of(experiment: Experiment, topology: Topology, *, several: bool) -> "Assignment":
        """Return the assignment for one collective of ``experiment``; job numbers are those of virtual time.

        several: whether several trees at once are allowed. Raises ``ExperimentError``, and ``PlanError`` if a plan has
        no trees here.
        """
        workers = worker_hosts(topology, experiment.workers)
        servers = [host.name for host in topology.servers]
        operation = experiment.collective
        plan, members, job, server = experiment.plan, workers, MAIN_JOB, None
        check_memory(experiment.elements, len(workers))
        if experiment.numbers == "block" and experiment.lane_bits != WORD_BITS:
            try:
                check_bits(experiment.lane_bits, len(workers), coarse=experiment.coarse)
            except ValueError as error:
                raise ExperimentError(str(error)) from None
        if operation == "all_to_all" and experiment.elements % len(workers):
            raise ExperimentError(f"elements: {experiment.elements} are no equal blocks for {len(workers)} workers")
        if operation != "all_reduce" and plan == "ring":
            plan = "ps"  # a ring only reduces: other collectives go host to host
        if operation in SERVED:
            if not servers:
                raise ExperimentError(f"collective: {operation} needs a topology with a server, e.g. leaf-spine-8")
            job, server = SERVED_JOB, servers[0]
        elif operation == "broadcast":
            if len(workers) == 1:
                raise ExperimentError("workers: 1, but a broadcast in real time needs 2 or more")
            job, server, members = FIRST_BROADCAST_JOB, workers[0], workers[1:]
        narrow = experiment.target == "bmv2" and experiment.deadline_ps is None
        window = experiment.window or (min(WINDOW, QUEUE_FRAMES) if narrow else WINDOW)
        if operation != "all_reduce" and plan in FORESTS:  # only sums use several trees
            plan = "steiner" if any(switch.capable for switch in topology.switches) else "ps"
        whole = PlanRequest(
            plan=plan,
            job=job,
            workers=members,
            server=server,
            lanes=experiment.lanes,
            window=window,
            elements=experiment.typical_elements,
            deadline_ps=experiment.deadline_ps,
        )
        divided: tuple[tuple[PlanRequest, ...], tuple[int, ...]] = (whole,), (1,)
        if operation == "all_reduce":
            divided = _divided(whole, experiment, topology, several=several)
        return Assignment(workers, servers[0] if servers else None, *divided, whole)

    def participants(self, job: Job) -> list[str]:
        """Return the hosts with an endpoint in ``job``: workers in rank order, then the server."""
        hosts = [worker for worker in self.workers if worker in (*job.plan.workers, job.plan.server)]
        if job.plan.server is not None and job.plan.server not in hosts:
            hosts.append(job.plan.server)
        return hosts

    def rank(self, host: str) -> int:
        """Return the rank of a worker's host; the number of workers for a server's host."""
        return self.workers.index(host) if host in self.workers else len(self.workers)


def _divided(
    whole: PlanRequest, experiment: Experiment, topology: Topology, *, several: bool
) -> tuple[tuple[PlanRequest, ...], tuple[int, ...]]:
    """Return a request for each tree of an all-reduce, and its weight."""
    assert whole.workers is not None  # noqa: S101
    plan, parts = trees_of(experiment, topology, tuple(whole.workers), several=several)
    window = whole.window
    if window is not None and len(parts) > 1:
        window = max(LEAST_WINDOW, window // len(parts))
    requests = tree_requests(replace(whole, plan=plan, window=window), parts, SLOTS)
    return tuple(requests), tuple(part.weight for part in parts)


WORKER: Final = (sys.executable, "-m", "p4reduce.runs.real.worker")
ADAPTIVE: Final = Congestion(adaptive=True, initial=8, brake_ps=10 * PS_PER_MS)
START_S: Final = 300.0
"""seconds for workers to start, and to compile missing native code"""
SETTLE_S: Final = 10.0
"""seconds for frames that are still on their way after the last result"""


@dataclass
class RunResults:
    """Results of the run so far. Times are nanoseconds of the machine's monotonic clock."""

    records: list[CollectiveRecord] = field(default_factory=list)
    digest: Any = field(default_factory=hashlib.sha256)
    busy_ns: int = 0
    """Total time of all collectives."""
    zeros_ns: list[int] = field(default_factory=list)
    """Time 0 of the run at each collective: the run's clock stands still while sums are checked."""
    points: list[TrainingPoint] = field(default_factory=list)
    steps: Steps | None = None
    """Steps of a script; None for other runs."""
    weights_sha256: str | None = None
    """SHA-256 of the parameters that every worker had at the end of a training, or None."""
    done_ns: int = 0
    """Time at which the last participant had its result."""
    closed: list[ClosedRecord] = field(default_factory=list)
    """As ``NetworkResult.closed``."""
    left_out: LeftOut = field(default_factory=LeftOut)

    def note_closing(self, turn: int, every: Sequence[RealClosing | None]) -> int:
        """Record the workers' reports, by rank, of an all-reduce with a deadline; return the number of attempts."""
        known = [report for report in every if report is not None]
        if not known:
            return 1
        first = known[0]
        for rank, report in enumerate(known):
            self.left_out.note(rank, report.tensor, report.elements, report.left)
        if any(report.late for report in known) or first.attempts > 1:
            late = {rank: report.late for rank, report in enumerate(known) if report.late}
            self.closed.append(ClosedRecord(turn, first.attempts, first.chunks, first.least, late))
        return first.attempts

    def go_on(self) -> None:
        """Resume or start the run's clock, just before the participants are told to go on."""
        now = time.monotonic_ns()
        self.zeros_ns.append(self.zeros_ns[-1] + now - self.done_ns if self.zeros_ns else now)


class RealCluster(Closable):
    """The network, switches and workers of one run. Use as a context manager, from the main thread."""

    may_stripe = True
    """Whether sums may use several trees at once."""

    def __init__(
        self,
        experiment: Experiment,
        folder: Path,
        name: str,
        progress: Progress,
        capture: Path | None,
        aside: Path | None = None,
        *,
        machines: Machines | None = None,
        emit: Emit | None = None,
    ) -> None:
        """Build and start everything; logs go to ``folder``, files that change often to ``aside`` (None: ``folder``).

        machines: the machines of nodes; None: all are here. emit: takes the output of programs there; None: they are
        workers.

        Raises ``ExperimentError``, ``TopologyError`` or ``PlanError`` for an invalid experiment, ``RealError`` for what
        this machine cannot do, ``ClusterError`` if a worker does not start.
        """
        if capture is not None and experiment.target == "bmv2":
            raise ExperimentError(
                "pcap: BMv2's ports are not captured; see 'p4reduce net pcap', or the embedded target"
            )
        self.experiment = experiment
        self.topology = build_topology(experiment)
        self.program = program_of(experiment)
        self.assignment = Assignment.of(experiment, self.topology, several=self.may_stripe)
        self.turns = experiment.repeat
        """Number of collectives of the whole run."""
        if experiment.model == "digits":
            self.turns = training_iterations(experiment, len(self.assignment.workers))
        self.numbers = BlockFloat() if experiment.numbers == "block" else FixedScale(experiment.scale or 1.0)
        self.moved = RunResults()
        self.decisions: Sequence[MembershipDecision] = ()
        """Decisions on the group's members, in order."""
        self.resumed: Sequence[Resumed] = ()
        """Times at which the decisions took effect."""
        self.lost_switches: Collection[str] = ()
        """Switches that ended during the run."""
        self._deadline = 0.0
        self.folder = folder
        self._aside = aside or folder
        self.progress = progress
        self._parts = ExitStack()
        self.machines = machines
        self.agents = Agents([])
        """Agents of other machines."""
        self.clocks: dict[str, MachineClock] = {}
        """Clocks of other machines, measured at the start."""
        try:
            if machines is not None:
                self._reach(machines, emit or self._take)
            progress(f"{experiment.plan}: links", 0, 1)
            self.wires = self._parts.enter_context(self._open_wires(name))
            self.relays: RelaySights = self._parts.enter_context(
                LinkRelays(self.topology, self.wires.relayed(), relay_faults(experiment), experiment.seed)
            )
            progress(f"{experiment.plan}: switches", 0, 1)
            self.target: RealTarget = self._parts.enter_context(self._start_target(capture, name))
            self.target.controller.check_lane_bits(self.experiment.lane_bits)
            self.trees: list[Job] = []
            """Jobs of the run's collective, one for each tree of the plan."""
            for request in self.assignment.requests:
                plan = self.target.controller.start_job(request)
                if experiment.target == "bmv2":
                    check_growth(plan, experiment.collective)
                self.trees.append(Job(plan, self.numbers if plan.in_network else None))
            self.plans_in_use: Callable[[], Sequence[Plan]] = lambda: [tree.plan for tree in self.trees]
            """Function that returns the installed plans; callable at any time, also by viewers in other threads."""
            progress(f"{experiment.plan}: workers", 0, 1)
            self.group = self._parts.enter_context(self._start_workers())
            self.group.answers(self.hosts, "starting", time.monotonic() + START_S, idle_s=experiment.budget_s)
            self._deadline = time.monotonic() + experiment.budget_s
        except BaseException:
            self._parts.close()
            raise

    @property
    def job(self) -> Job:
        """Return the job of the first tree."""
        return self.trees[0]

    @property
    def weighted(self) -> list[tuple[int, int]]:
        """Return job and weight of each tree; empty for a single tree."""
        jobs = [tree.plan.job for tree in self.trees]
        return list(zip(jobs, self.assignment.weights, strict=True)) if len(jobs) > 1 else []

    def parts(self, elements: int, bits: int) -> list[tuple[Job, int]]:
        """Return the trees that carry an all-reduce, with the elements of each. bits: width of the lanes."""
        parts = [(tree, part.stop - part.start) for tree, part in parts_of(self.trees, elements, bits)]
        return parts or [(self.job, elements)]

    @property
    def hosts(self) -> list[str]:
        """Return the hosts that take part, in rank order."""
        return self.assignment.participants(self.job)

    @property
    def got(self) -> Path:
        """Return the path of the file with the last collective's result, if it was kept."""
        return self.folder / "got.npy"

    def records_of(self, host: str) -> Path:
        """Return the path of the file with the records of a host's endpoints, for viewers."""
        return self._aside / f"{host}.records"

    def answers(self, what: str) -> dict[str, Message]:
        """Wait for one message of every host, within the run's wall-clock time."""
        try:
            return self.group.answers(self.hosts, what, self._deadline)
        except WorkerError:
            raise
        except ClusterError as error:
            switches = [node.name for node in self.topology.switches]
            pids = {name: pid for name in switches if (pid := self.target.process_of(name)) is not None}
            stopped = "".join(f"; switch {name} is stopped (process {p})" for name, p in pids.items() if is_stopped(p))
            raise ClusterError(f"{error}{stopped}") from None

    def collective(self, turn: int, command: Message, keeper: str, given: Callable[[int], FloatArray]) -> None:
        """Have the workers go on by ``command`` to the end of their next collective; check and record it.

        keeper: host whose result is the run's; for a sum, it writes the result to the file ``got``. given: returns the
        input of a rank's worker. Raises ``ClusterError``.
        """
        operation, hosts = self.experiment.collective, self.hosts
        before = self._resends()
        self.moved.go_on()
        try:
            answers = self.ask(command, operation)
        except WorkerError as error:
            raise ClusterError(f"{error}{self._diagnose(error.host)}") from None
        carried = {
            host: self.by_our_clock(host, from_plain(CarriedCollective, answer.get("carried"), host))
            for host, answer in answers.items()
        }
        hashes = {host: seen.sha256 for host, seen in carried.items()}
        if operation == "all_to_all":
            self._right_blocks(hashes, turn, given)
        else:
            self._same_bytes(hashes, turn)
        resends = self._resends() - before
        members = [carried[host] for host in hosts if host in self.job.plan.workers]
        done_as = as_carried(operation, ring=bool(self.job.plan.ring))
        record = self.note(turn, carried[keeper], members, Operation(done_as))
        saturated = max(seen.saturated for seen in carried.values())
        largest, bound = None, None
        # Later sums may lack contributions, or include what was left out or lost by rounding before.
        feeds = carried[keeper].bits != WORD_BITS and turn > 0 and self.experiment.model == "tensor"
        if not self.moved.closed and not feeds and self.machines is None:  # on several machines, the sum is elsewhere
            largest, bound = self._deviation(turn, given, saturated=saturated > 0)
        self.moved.records.append(
            replace(record, resends=resends, saturated=saturated, max_error=largest, error_bound=bound)
        )

    def note(
        self, turn: int, kept: CarriedCollective, members: Sequence[CarriedCollective], done_as: Operation
    ) -> CollectiveRecord:
        """Count a collective and its traffic; return its record.

        kept: the report whose result is the run's. members: reports of the workers, by rank. done_as: the operation
        that carried it.
        """
        moved = self.moved
        moved.digest.update(bytes.fromhex(kept.sha256))
        parts = [(self.job, kept.elements)]
        if done_as is not Operation.BARRIER:
            parts = self.parts(kept.elements, kept.bits)
        for _ in range(moved.note_closing(turn, [member.closing for member in members])):
            for tree, elements in parts:
                tree.note(done_as.value, elements, words=kept.words, bits=kept.bits)
        for (tree, _), bare in zip(parts, members[0].bare, strict=False):
            tree.bare += bare
        start = min(member.start_ns for member in members)
        done = moved.done_ns = max(member.end_ns for member in members)
        moved.busy_ns += done - start
        return CollectiveRecord(
            operation=kept.operation,
            iteration=turn,
            elements=kept.elements,
            start_ps=(start - moved.zeros_ns[-1]) * PS_PER_NS,
            done_ps=(done - moved.zeros_ns[-1]) * PS_PER_NS,
            communication_ps=max(member.end_ns - member.start_ns for member in members) * PS_PER_NS,
            bound_ps=self._bound_ps(parts, done_as, kept.bits),
            saturated=max(member.saturated for member in members),
            failed=kept.failed,
        )

    @staticmethod
    def _bound_ps(parts: Sequence[tuple[Job, int]], operation: Operation, bits: int) -> int:
        """Return the lower bound of the time for these trees and their elements, picoseconds."""
        [(job, elements), *others] = parts
        if others:
            return parts_bound([(tree.plan, words_of(count, bits)) for tree, count in parts]).time_ps
        return plan_bound(job.plan, words_of(elements, bits), operation).time_ps

    def settle(self) -> dict[str, Counts]:
        """Wait until no more frames move; return the workers' counts."""
        deadline = time.monotonic() + SETTLE_S
        before: dict[str, Counts] = {}
        while True:
            now = self.counts()
            if _traffic(now) == _traffic(before) or time.monotonic() > deadline:
                return now
            before = now
            time.sleep(0.05)

    def counts(self) -> dict[str, Counts]:
        """Return the counts of all hosts."""
        answers = self.ask({"do": "status"}, "status")
        return {host: from_plain(Counts, answer, f"{host}: status") for host, answer in answers.items()}

    def ask(self, message: Message, what: str) -> dict[str, Message]:
        """Send one command to all hosts, and return their answers."""
        self.group.tell(dict.fromkeys(self.hosts, message))
        return self.answers(what)

    def incidents(self) -> dict[Where, Incidents]:
        """Return losses and duplicates of first transmissions, as far as switches and relays know them."""
        return merged(self.target.incidents(), self.relays.incidents())

    def close(self) -> None:
        """End workers and switches, and remove links."""
        self._parts.close()

    # --- starting

    def _reach(self, machines: Machines, emit: Emit) -> None:
        """Start an agent on each machine, and measure its clock."""
        agents = Agents([Machine(name) for name in machines.names], ssh=machines.ssh, emit=emit)
        self.agents = self._parts.enter_context(agents)
        self.agents.begin(machines.script, needs_of(self.experiment.target, self.experiment.links))
        self.agents.check_addresses()
        for agent in self.agents.every:
            agent.look_at_clock()
            self.clocks[agent.machine.name] = agent.clock()

    def _take(self, number: int, stream: str, line: str) -> None:
        assert isinstance(self.wires, MachineWires)  # noqa: S101
        self.wires.take(number, stream, line)

    def agent_of(self, node: str) -> Agent:
        """Return the agent of the machine that hosts a node."""
        assert self.machines is not None  # noqa: S101
        return self.agents.every[self.machines.names.index(self.machines.place[node])]

    def by_our_clock(self, host: str, seen: CarriedCollective) -> CarriedCollective:
        """Return a host's record of a collective with times of this machine's clock."""
        ahead = self.ahead_ns(host)
        return replace(seen, start_ns=seen.start_ns - ahead, end_ns=seen.end_ns - ahead)

    def ahead_ns(self, host: str) -> int:
        """Return how far the clock of a host's machine is ahead of this machine's, nanoseconds."""
        return 0 if self.machines is None else self.clocks[self.machines.place[host]].offset_ns

    def look_at_clocks(self) -> None:
        """Measure the clocks of other machines again, and merge the new measurements."""
        for agent in self.agents.every:
            name = agent.machine.name
            self.clocks[name] = self.clocks[name].and_then(agent.clock())

    def _open_wires(self, name: str) -> Wires:
        if self.machines is None:
            return open_wires(self.experiment, self.topology, name)
        return machine_wires(
            self.experiment, self.topology, {name: self.agent_of(name) for name in self.topology.by_name}
        )

    def _start_target(self, capture: Path | None, name: str) -> RealTarget:
        if isinstance(self.wires, MachineWires):
            growth = GROWTH_BYTES if self.experiment.target == "bmv2" else None
            target = MachineTarget(self.topology, self.program, self.wires, self.agents, name, growth)
            self.relays = target.relays
            return target
        if self.experiment.target == "embedded":
            return EmbeddedTarget(self.experiment, self.topology, self.program, self.wires, capture)
        assert isinstance(self.wires, VethWires)  # noqa: S101  (an experiment with BMv2 has no other)
        return Bmv2Target(self.topology, self.program, self.wires, self.folder)

    def endpoints(self, plan: Plan) -> dict[str, EndpointSpec]:
        """Return the endpoints of a plan's hosts, adapted to this run's target."""
        on_bmv2 = self.experiment.target == "bmv2"
        queue_frames = min(self.experiment.queue_frames, QUEUE_FRAMES) if on_bmv2 else self.experiment.queue_frames
        made = endpoint_specs(
            plan, self.job.numbers, queue_frames=queue_frames, timing=real_timing(plan), congestion=ADAPTIVE
        )
        if on_bmv2 and plan.relays and 4 * plan.lanes > GROWTH_BYTES:
            raise ExperimentError(
                f"lanes: {plan.lanes}; with plan {plan.name} workers add inside of trees, and on BMv2 frames have at "
                f"most {GROWTH_BYTES // 4} lanes then: choose --lanes 64"
            )
        if not on_bmv2:
            return dict(made)
        most = QUEUE_FRAMES if self.experiment.window is None else None
        return {host: for_bmv2(spec, growth=GROWTH_BYTES, most=most) for host, spec in made}

    def process_spec(
        self, host: str, rank: int, size: int, endpoints: list[EndpointSpec], operations: Iterable[str]
    ) -> ProcessSpec:
        """Return the description of a participant's process; without ``endpoints``, it joins a running group.

        operations: those that the run's job carries.
        """
        return ProcessSpec(
            host=host,
            rank=rank,
            size=size,
            seed=self.experiment.seed,
            socket=self.wires.socket(host),
            endpoints=endpoints,
            trees=self.weighted if endpoints else [],
            jobs=dict.fromkeys(operations, self.job.plan.job),
            quorum=self.experiment.quorum or 1,
            lane_bits=self.experiment.lane_bits,
            records=str(self.records_of(host)) if endpoints and self.machines is None else None,
        )

    def _start_workers(self) -> WorkerGroup:
        endpoints = [self.endpoints(tree.plan) for tree in self.trees]
        operation = self.experiment.collective
        name = "broadcast/0" if operation == "broadcast" else operation
        commands, specs, size = {}, {}, len(self.assignment.workers)
        for host in self.hosts:
            own = [of_tree[host] for of_tree in endpoints]
            spec = self.process_spec(host, self.assignment.rank(host), size, own, [name])
            if self.machines is not None:
                specs[host] = to_plain(spec)
                commands[host] = [*WORKER]
                continue
            path = self.folder / f"{host}.json"
            path.write_text(to_json(spec))
            commands[host] = [*WORKER, str(path)]
        group = WorkerGroup(self.wires.start, commands, self.folder, self._watch)
        group.tell(specs)
        return group

    def _watch(self) -> None:
        self.target.check()
        self.relays.check()

    # --- one collective

    def _resends(self) -> int:
        """Return the frames that endpoints have sent again so far."""
        return sum(endpoint.resends for counts in self.counts().values() for endpoint in counts.endpoints.values())

    def _same_bytes(self, hashes: dict[str, str], turn: int) -> None:
        if self.experiment.collective == "push":
            return  # only the server has a result
        first, *others = hashes
        for host in others:
            if hashes[host] != hashes[first]:
                raise ClusterError(
                    f"{self.experiment.collective} #{turn}: {first} and {host} ended with different bytes "
                    f"(SHA-256 {hashes[first][:12]}… and {hashes[host][:12]}…)"
                )

    def _right_blocks(self, hashes: dict[str, str], turn: int, given: Callable[[int], FloatArray]) -> None:
        """Check that every worker has the block that each other worker sent; raise ``ClusterError`` if not."""
        wanted = exchanged([given(rank) for rank in range(len(self.assignment.workers))])
        for host, array in zip(self.assignment.workers, wanted, strict=True):
            if hashes[host] != hashlib.sha256(array.data).hexdigest():
                raise ClusterError(f"all_to_all #{turn}: {host} has another block than was sent")

    def _deviation(
        self, turn: int, given: Callable[[int], FloatArray], *, saturated: bool
    ) -> tuple[float | None, float | None]:
        """Return the largest error of the sum and its bound; raise if an element's error is above its bound."""
        operation = self.experiment.collective
        if operation not in {"all_reduce", "push"}:
            return None, None
        inputs = [given(rank) for rank in range(len(self.assignment.workers))]
        bits = self.experiment.lane_bits
        lanes, numbers = self.experiment.lanes * (WORD_BITS // bits), with_bits(self.job.numbers, bits)
        deviation = expect_sum(inputs, numbers, lanes).deviation(np.load(self.got))
        if not saturated:
            deviation.check(f"{operation} #{turn}")
        return deviation.max_error, deviation.error_bound

    def _diagnose(self, host: str) -> str:
        """Explain which workers the slots wait for, after the worker at ``host`` gave up."""
        if not self.job.plan.in_network:
            return ""
        try:
            self.group.tell({host: {"do": "status"}})
            answer = self.group.answers([host], "status", time.monotonic() + SETTLE_S)[host]
        except ClusterError:
            return ""  # the reason why the worker gave up is reported already
        endpoints = from_plain(Counts, answer, f"{host}: status").endpoints
        lines = []
        for tree in self.trees:
            endpoint = endpoints.get(str(tree.plan.job))
            if endpoint is not None and endpoint.failed_seq is not None:
                waits = {} if endpoint.waiting is None else {host: endpoint.waiting}
                lines.append(self.target.controller.who_is_missing(tree.plan, endpoint.failed_seq))
                lines += [f"switches told: {line}" for line in explain_waits(tree.plan, waits)]
        return "\n" + "\n".join(lines) if lines else ""


def _traffic(answers: dict[str, Counts]) -> list[tuple[dict[str, EndpointStatus], int]]:
    """Return counts that change as long as frames move."""
    return [(counts.endpoints, counts.port.first_frames) for counts in answers.values()]


# From the counts of switches, relays and workers to the result of a run in real time.


BITS_PER_FLOAT = 32


def result(cluster: RealCluster, cpu_s: dict[str, float]) -> RunResult:
    """Return the result of all collectives of ``cluster``, checked against the predictions.

    The caller in the process that started the session adds a training's accuracy of a single process.
    """
    answers = cluster.settle()
    switches = [node.name for node in cluster.topology.switches if node.name not in cluster.lost_switches]
    counters = cluster.target.controller.read_counters(switches)
    links = _links(cluster, answers, counters)
    observed = CarriedCounts(
        topology=cluster.topology,
        jobs=cluster.trees,
        links=links,
        incidents=cluster.incidents(),
        counters=counters,
        unseen_losses=_unseen_losses(cluster, answers, counters, links),
        uncounted_queues=cluster.experiment.target == "bmv2",
        interrupted=bool(cluster.decisions or cluster.lost_switches or cluster.moved.closed),
    )
    moved, given = cluster.moved, cluster.experiment
    digest = moved.digest.hexdigest()
    # A plan that only reduces carries other collectives host to host; the result still names the requested plan.
    measured = result_of(observed, moved.records, digest, moved.steps, given.faults)
    network = replace(
        measured,
        plan=measured.plan if given.plan == BEST else given.plan,
        membership=list(cluster.decisions),
        closed=moved.closed,
        left_out=moved.left_out.records(),
    )
    training = None
    if given.model == "digits" or moved.points:
        training = training_result(
            given, moved.points, moved.records, digest, baseline=None, weights=moved.weights_sha256
        )
        network = without_values(network)
    return RunResult(
        experiment=given.model_dump(mode="json"),
        provenance=provenance(cluster.program, given.seed),
        network=network,
        training=training,
        topology=describe_topology(cluster.topology),
        real=_real_run(cluster, answers, links, cpu_s),
    )


def _links(
    cluster: RealCluster, answers: Mapping[str, Counts], counters: Mapping[str, SwitchCounters]
) -> dict[Hop, LinkCounters]:
    """Return the counts of each directed link: hosts' endpoints and switches count frames, relays count faults."""
    links: dict[Hop, LinkCounters] = {}
    sent = cluster.target.links(counters)
    for link in cluster.topology.links:
        for end in ((link.a, link.port_a), (link.b, link.port_b)):
            links[end] = sent.get(end, NO_TRAFFIC)
    for host, answer in answers.items():
        links[(host, 1)] = _sent_by(answer)
    for end, seen in cluster.relays.links().items():
        links[end] = replace(
            links[end],
            lost=seen.lost,
            duplicated=seen.duplicated,
            reordered=seen.reordered,
            corrupted=seen.corrupted,
            queue_drops=links[end].queue_drops + seen.queue_drops,
        )
    return links


def _sent_by(answer: Counts) -> LinkCounters:
    """Return counts of the frames that a worker's endpoints sent."""
    endpoints = answer.endpoints.values()
    frames, octets = sum(sender.frames_sent for sender in endpoints), sum(sender.bytes_sent for sender in endpoints)
    again, again_octets = sum(sender.resends for sender in endpoints), sum(sender.resend_bytes for sender in endpoints)
    return replace(
        NO_TRAFFIC,
        frames=frames,
        bytes=octets,
        inc_first_frames=frames - again,
        inc_first_bytes=octets - again_octets,
        inc_resend_frames=again,
        inc_resend_bytes=again_octets,
    )


def _unseen_losses(
    cluster: RealCluster,
    answers: Mapping[str, Counts],
    counters: Mapping[str, SwitchCounters],
    links: Mapping[Hop, LinkCounters],
) -> bool:
    """Return whether frames may be lost uncounted: a node's count is not what was sent to it, and some were resent."""
    received = cluster.target.received(counters)
    for (node, port), seen in links.items():
        peer = cluster.topology.neighbour(node, port)
        arrived = seen.frames + seen.duplicated - seen.lost - seen.corrupted
        if peer in answers:
            counted = answers[peer].port
            came = counted.first_frames + counted.resend_frames
        elif arrived == 0:
            continue
        else:
            came = received.get((peer, cluster.topology.port(peer, node)), -1)
        if came != arrived:
            return any(endpoint.resends for own in answers.values() for endpoint in own.endpoints.values())
    return False


def _real_run(
    cluster: RealCluster, answers: Mapping[str, Counts], links: Mapping[Hop, LinkCounters], cpu_s: dict[str, float]
) -> RealRun:
    moved, given = cluster.moved, cluster.experiment
    median_s = statistics.median(record.communication_ps for record in moved.records) / 1e12
    elements = moved.records[0].elements
    into_switches = sum(
        seen.frames
        for (node, port), seen in links.items()
        if not cluster.topology.node(cluster.topology.neighbour(node, port)).is_host
    )
    return RealRun(
        target=given.target,
        links=given.links,
        shaping=cluster.wires.shaping,
        goodput_bps=elements * BITS_PER_FLOAT / median_s,
        packets_per_s=into_switches / (moved.busy_ns / NS_PER_S),
        cpu_s=cpu_s,
        lost=sum(seen.lost for seen in links.values()),
        kernel_drops=cluster.target.kernel_drops() + sum(answer.port.dropped for answer in answers.values()),
        workers={host: answer.shown() for host, answer in answers.items()},
        changes=[to_plain(change) for change in cluster.resumed],
        lost_switches=sorted(cluster.lost_switches),
        machines=_machines(cluster),
    )


def _machines(cluster: RealCluster) -> dict[str, MachineRun]:
    if cluster.machines is None:
        return {}
    nodes: dict[str, list[str]] = {name: [] for name in cluster.machines.names}
    for node, name in cluster.machines.place.items():
        nodes[name].append(node)
    return {
        name: MachineRun(sorted(nodes[name]), clock.offset_ns, clock.error_ns) for name, clock in cluster.clocks.items()
    }
