"""The jobs of a run: which plan carries which collective; and their carrier in the flow model (``time: flow``)."""

import hashlib
import threading
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Final

import numpy as np

from p4reduce.base.errors import ControllerError, PlanError
from p4reduce.control_plane.counters import Operation, parts_bound
from p4reduce.control_plane.plans import Plan, PlanRequest
from p4reduce.control_plane.plans.best import BEST, FORESTS, trees_named
from p4reduce.control_plane.plans.forest import TreeShare as TreePart
from p4reduce.control_plane.plans.forest import slots_of_each
from p4reduce.control_plane.plans.make import make_plan
from p4reduce.control_plane.plans.problem import Problem
from p4reduce.control_plane.resources import SLOTS, Resources
from p4reduce.group.backend import (
    COLLECTIVES,
    PLAIN,
    SERVED,
    CollectiveCall,
    FloatArray,
    Options,
    as_carried,
    refuse_narrow,
)
from p4reduce.group.errors import ClusterError, RefusedError, SaturatedError
from p4reduce.group.membership import MembershipDecision
from p4reduce.network.flow import FlowNetwork, load_of, paces, wires_of
from p4reduce.network.flow_jobs import deliver
from p4reduce.network.jobs.network import Job, parts_of
from p4reduce.network.sharing import Bools
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.result import CollectiveRecord
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4reduce.workers.numbers import BlockFloat, FixedScale, check_bits
from p4reduce.workers.records import Collective
from p4reduce.workers.wire import WORD_BITS

CONTROL_LATENCY_PS = 1_000_000_000
"""Virtual time from a controller's decision to its effect on the switches: 1 ms."""
MAIN_JOB = 1
SERVED_JOB = 2
ALL_TO_ALL_JOB = 3
FIRST_TREE_JOB = 16_384
"""First job of the further trees of a plan with several trees; the first tree is the main job."""
ALL_TO_ALL = -1
"""in place of a root: a group's job for its all-to-alls"""
OWNED = -2
"""in place of a root: blocks of rank 0; one less for each later rank"""
MESSAGES = -(1 << 30)
"""in place of a root: messages from the first worker to the second"""
FIRST_BROADCAST_JOB = 16
"""First job whose server is a worker: one for each root of a broadcast that was called."""
FIRST_OWNER_JOB = 8192
"""First job of blocks: one for each block of a reduce-scatter or all-gather, with a worker as its server."""
FIRST_GROUP_JOB = 32768
"""First job of groups of some workers."""


Part = tuple[Job, slice]
"""A job, and the elements of each array that it carries."""


@dataclass(frozen=True)
class TransferTime:
    """One call of another library: bytes, start (when all ranks were there), end, and time of its busiest link; ps."""

    name: str
    octets: int
    start_ps: int
    done_ps: int
    bound_ps: int


@dataclass
class _Line:
    """The intervals during which a directed link is taken, in order; ps."""

    begins: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def free(self, at_ps: int, length_ps: int) -> int:
        """Return the first time from ``at_ps`` on at which the link is free for ``length_ps``."""
        place = bisect_right(self.begins, at_ps)
        if place and self.ends[place - 1] > at_ps:
            at_ps = self.ends[place - 1]
        while place < len(self.begins) and self.begins[place] < at_ps + length_ps:
            at_ps, place = self.ends[place], place + 1
        return at_ps

    def take(self, at_ps: int, length_ps: int) -> None:
        """Take the link for an interval that is free."""
        place = bisect_right(self.begins, at_ps)
        self.begins.insert(place, at_ps)
        self.ends.insert(place, at_ps + length_ps)


class HostFlows:
    """Times of other libraries' transfers between hosts, such as gloo's: flows on links, one for each pair of hosts.

    A flow takes as long as a PULL of plan ``ps`` in the flow model, once it has its links. Flows that meet on a link
    follow one another, in the order of the requests. Frames of jobs are ignored. Answers take time on links that flows
    of the same call need; they take none beside flows of other calls, which come in any order.
    """

    def __init__(self, topology: Topology, lanes: int, queue_frames: int) -> None:
        self._topology, self._lanes, self._queue_frames = topology, lanes, queue_frames
        self._plans: dict[tuple[str, str], Plan] = {}
        self._times: dict[tuple[object, ...], tuple[int, list[int], list[int]]] = {}
        self._lines: dict[Hop, _Line] = defaultdict(_Line)

    def move(self, source: str, target: str, octets: int, start_ps: int) -> tuple[int, dict[Hop, int]]:
        """Return when a flow that may begin at ``start_ps`` is done, and how long it takes each of its links, ps."""
        ((done_ps, taken),) = self.move_together([(source, target, octets, start_ps)])
        return done_ps, taken

    def move_together(self, flows: Sequence[tuple[str, str, int, int]]) -> list[tuple[int, dict[Hop, int]]]:
        """Return the same as ``move`` for all flows of a call: (source, target, bytes, start)."""
        alone = [self._alone(source, target, max(1, -(-octets // 4))) for source, target, octets, _ in flows]
        data, answers = Counter[Hop](), Counter[Hop]()
        for _, taken, back in alone:
            data.update(taken)
            answers.update(back)
        moved = []
        for (_, _, _, start_ps), (total_ps, taken, _) in zip(flows, alone, strict=True):
            lengths = {hop: length_ps + length_ps * answers[hop] // data[hop] for hop, length_ps in taken.items()}
            begin_ps = self._take(lengths, start_ps)
            moved.append((begin_ps + total_ps + max(lengths.values()) - max(taken.values()), taken))
        return moved

    def _take(self, lengths: Mapping[Hop, int], start_ps: int) -> int:
        """Take links for these times once all of them are free; return that time."""
        begin, before = start_ps, -1
        while begin != before:
            before = begin
            for hop, length_ps in lengths.items():
                begin = self._lines[hop].free(begin, length_ps)
        for hop, length_ps in lengths.items():
            self._lines[hop].take(begin, length_ps)
        return begin

    def _alone(self, source: str, target: str, words: int) -> tuple[int, dict[Hop, int], dict[Hop, int]]:
        plan = self._plans.get((source, target))
        if plan is None:
            request = PlanRequest(plan="ps", job=MAIN_JOB, workers=(target,), server=source, lanes=self._lanes)
            plan = self._plans[source, target] = make_plan(self._topology, request, Resources())
        wires = wires_of(plan)
        way, back = plan.path_hops(source, target), plan.path_hops(target, source)
        alike = (words, *((wires.full[hop], wires.delay[hop]) for hop in (*way, *back)))
        if alike not in self._times:
            load = load_of(plan, Operation.PULL, words, wires, lead=0, queue_frames=self._queue_frames)
            there, again = ([round(load.units * load.busy[hop]) for hop in hops] for hops in (way, back))
            self._times[alike] = paces([load], wires)[0].total_ps, there, again
        total_ps, there, again = self._times[alike]
        return total_ps, dict(zip(way, there, strict=True)), dict(zip(back, again, strict=True))


class RunJobs(ABC):
    """The jobs of a group's collectives, made when they are first needed.

    Parameters
    ----------
    experiment : Experiment
        Description of the run.
    topology : Topology
        Its network.
    workers : tuple of str
        Hosts of the group, by rank.
    server : str or None
        Host of the parameter server, if there is one.
    """

    may_stripe = True
    """Whether sums of the whole group may be carried in several trees at once."""

    def __init__(
        self, experiment: Experiment, topology: Topology, *, workers: tuple[str, ...], server: str | None
    ) -> None:
        self.experiment = experiment
        self.topology = topology
        self.workers = workers
        self.server = server
        block = experiment.numbers == "block"
        self.numbers = BlockFloat(speculates=experiment.speculate) if block else FixedScale(experiment.scale or 1.0)
        self.records: list[CollectiveRecord] = []
        self.moved: list[TransferTime] = []
        """transfers of other libraries, in the order in which their participants had met"""
        self._flows = HostFlows(topology, experiment.lanes, experiment.queue_frames)
        self._moving = threading.Lock()
        self.on_collective: Callable[[int], None] | None = None
        """Called after each collective with the number of collectives done."""
        self.digest = hashlib.sha256()
        """SHA-256 over the results of all collectives"""
        self._one = threading.Lock()
        self._jobs: dict[int, Job] = {}
        self._group_jobs: dict[tuple[tuple[str, ...], int | None], int] = {}
        self._trees: list[Job] = []
        self._owners: dict[tuple[str, ...], list[Job]] = {}

    @property
    def jobs(self) -> list[Job]:
        """Return all jobs so far."""
        return list(self._jobs.values())

    @property
    def main(self) -> Job:
        """Return the job of the whole group's sums; of several trees the first."""
        return self._trees[0]

    @main.setter
    def main(self, job: Job) -> None:
        self._trees[0] = job

    @property
    def result_sha256(self) -> str:
        """Return the digest as text."""
        return self.digest.hexdigest()

    @property
    @abstractmethod
    def slots(self) -> int:
        """Return the slots of a switch, for all jobs together."""

    @property
    @abstractmethod
    def now(self) -> int:
        """Return the time, picoseconds."""

    @abstractmethod
    def carry(
        self,
        calls: list[CollectiveCall],
        check: Callable[[], None] = lambda: None,
        workers: tuple[str, ...] | None = None,
    ) -> Sequence[MembershipDecision]:
        """Carry one collective; results are written to the callers' arrays. See ``group.backend.Carry``.

        workers: hosts of a group of some workers, in the order of its ranks. One collective is carried at a time, and
        time does not go back: if two groups have collectives at once, one starts after the other.
        """

    @abstractmethod
    def carry_stale(
        self, calls: list[CollectiveCall], check: Callable[[], None] = lambda: None
    ) -> list[CollectiveCall]:
        """Carry calls of workers that do not wait for each other until one is done. See ``backend.CarryStale``."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources."""

    @abstractmethod
    def _wait(self) -> None:
        """Let one control latency pass, after which new jobs take effect."""

    @abstractmethod
    def _lay_out(self, request: PlanRequest, *, of_block: bool) -> Job:
        """Lay out a job; ``of_block``: its server gives and takes a block. Raises as planners and switches do."""

    @abstractmethod
    def _take_away(self, job: Job) -> None:
        """Undo the layout of a job."""

    def _start_job(self, request: PlanRequest) -> Job:
        """Lay a job out; it takes effect one control latency from now."""
        self._wait()
        job = self._jobs[request.job] = self._lay_out(request, of_block=False)
        return job

    def _start_owners(self, requests: Sequence[PlanRequest]) -> list[Job]:
        """Lay out the jobs of a group's blocks; return none if switches have too few slots or entries.

        They take effect together, one control latency from now.
        """
        self._wait()
        made: list[Job] = []
        try:
            for request in requests:
                made += [self._lay_out(request, of_block=True)]
        except (PlanError, ControllerError):
            for job in made:
                self._take_away(job)
            return []
        return made

    def parts_of(
        self, operation: str, root: int, elements: int, hosts: tuple[str, ...], number: int, chosen: Options
    ) -> tuple[list[Part], str]:
        """Return the jobs that carry a collective, and the operation that they carry; no jobs for a single worker.

        Starts missing jobs. Raises ``RefusedError`` if no plan carries the collective.
        """
        if len(hosts) == 1 and (operation == "broadcast" or hosts != self.workers):
            return [], operation
        parts = self._owner_parts(chosen, elements, hosts)
        if parts:
            for job, _ in parts:
                job.pace_ps = pace_of_blocks(parts, block_operation(chosen))
            return parts, str(block_operation(chosen))
        try:
            return self._parts(self._job_for(operation, root, hosts), operation, elements), operation
        except PlanError as error:
            raise RefusedError(f"{operation} #{number}: {error}") from error

    def message_parts(self, source: str, target: str, elements: int) -> list[Part]:
        """Return the job that brings a message from one host to another, which pulls it."""
        number = self._group_job((source, target), MESSAGES)
        return [(self._job(number, "ps", (target,), source), slice(0, elements))]

    def carry_flows(
        self, name: str, starts: Mapping[int, int], sent: Sequence[tuple[int, int, int]], hosts: tuple[str, ...]
    ) -> dict[int, int]:
        """Return when each rank has its part of another library's transfer, ps.

        ``sent``: (from, to, bytes) of ranks at ``hosts``. ``starts``: when each rank begins, ps. A flow begins when
        both of its ranks have begun. Calls are timed one by one.
        """
        done, taken, octets = dict(starts), Counter[Hop](), 0
        with self._moving:
            # In rounds: in each, every rank sends to another one.
            rounds = sorted(sent, key=lambda flow: ((flow[1] - flow[0]) % len(hosts), flow[0]))
            flows = [(hosts[a], hosts[b], size, max(starts[a], starts[b])) for a, b, size in rounds]
            try:
                moved = self._flows.move_together(flows)
            except PlanError as error:
                raise RefusedError(f"{name}: {error}") from error
            for (a, b, size), (over, links) in zip(rounds, moved, strict=True):
                done[a], done[b] = max(done[a], over), max(done[b], over)
                taken.update(links)
                octets += size
            bound_ps = max(taken.values(), default=0)
            self.moved.append(TransferTime(name, octets, max(starts.values()), max(done.values()), bound_ps))
        return done

    @property
    def plan_of_one(self) -> str:
        """Return the plan of jobs with one tree: only sums of the whole group have several."""
        if self.experiment.plan in FORESTS or len(self._trees) > 1:
            return "steiner" if any(switch.capable for switch in self.topology.switches) else "ring"
        return self.experiment.plan

    def _job_for(self, operation: str, root: int, workers: tuple[str, ...]) -> Job:
        if operation in SERVED and self.main.server is not None:
            return self.main
        workers = self.workers if operation in SERVED else workers
        number, plan, members, server = self._place(operation, root, workers, workers)
        if workers == self.workers and number == MAIN_JOB:
            return self.main
        if workers != self.workers:
            other = root if operation == "broadcast" else ALL_TO_ALL
            number = self._group_job(workers, None if number == MAIN_JOB else other)
        return self._job(number, plan, members, server)

    def _place(
        self, operation: str, root: int, workers: tuple[str, ...], hosts: tuple[str, ...]
    ) -> tuple[int, str, tuple[str, ...], str | None]:
        """Return number, plan, workers and server of the job that carries an operation of the whole group.

        ``hosts``: of all ranks, also of ``root``. Raises ``RefusedError`` if the plan does not do the operation.
        """
        plan = self.plan_of_one
        if operation == "all_to_all":
            return MAIN_JOB if plan == "all-to-all" else ALL_TO_ALL_JOB, "all-to-all", workers, None
        if plan == "all-to-all":
            raise RefusedError(f"{operation}: plan all-to-all only does all_to_all; choose another plan")
        star = "ps" if plan == "ring" else plan  # a ring only reduces: other collectives go host to host
        if operation == "broadcast":
            members = tuple(worker for worker in workers if worker != hosts[root])
            return FIRST_BROADCAST_JOB + root, star, members, hosts[root]
        if operation in SERVED:
            return SERVED_JOB, star, workers, self.server
        return MAIN_JOB, plan, workers, None

    def _job(self, number: int, plan: str, workers: tuple[str, ...], server: str | None) -> Job:
        """Return the job of a number, which is started at the first request."""
        return self._jobs.get(number) or self._start_job(self._request(number, plan, workers, server))

    def _group_job(self, workers: tuple[str, ...], root: int | None) -> int:
        """Return the number of a group's job: one for its sums, one for each root of its broadcasts."""
        return self._group_jobs.setdefault((workers, root), FIRST_GROUP_JOB + len(self._group_jobs))

    def _blocks(self, chosen: Options, elements: int, workers: tuple[str, ...]) -> list[slice]:
        """Return the slices of an array that separate jobs carry to or from the owner of each block.

        Empty if one job carries all: if that takes no more frames, or if all need the whole result. A block of a sum
        includes all chunks that it shares with others, so that each chunk is added up as in an all-reduce.
        """
        size = len(workers)
        if not chosen.blocks or size == 1 or not self.may_stripe or self.experiment.deadline_ps is not None:
            return []
        if not self.main.plan.in_network or not any(switch.capable for switch in self.topology.switches):
            return []
        if chosen.blocks == "own" and (chosen.words or self.experiment.lane_bits != WORD_BITS):
            return []
        lanes, block = self.experiment.lanes, elements // size
        ends = [(rank * block, (rank + 1) * block) for rank in range(size)]
        if chosen.blocks == "own":
            ends = [(a // lanes * lanes, min(elements, -(-b // lanes) * lanes)) for a, b in ends]
        frames = [-(-(b - a) // lanes) for a, b in ends]
        return [slice(a, b) for a, b in ends] if sum(frames) - min(frames) < -(-elements // lanes) else []

    def _owner_parts(self, chosen: Options, elements: int, workers: tuple[str, ...]) -> list[Part]:
        """Return the jobs that carry a collective block by block, with their slices; none if one job is quicker."""
        blocks = self._blocks(chosen, elements, workers)
        if not blocks:
            return []
        if workers not in self._owners:
            self._owners[workers] = made = self._start_owners(self._owner_requests(workers))
            self._jobs.update({job.plan.job: job for job in made})
        parts = list(zip(self._owners[workers], blocks, strict=False))
        whole = self._parts(self.main, "all_reduce", elements)
        operation = block_operation(chosen)
        quicker = bool(parts) and _takes_ps(parts, operation) < _takes_ps(whole, Operation.ALL_REDUCE)
        return parts if quicker else []

    def _owner_requests(self, workers: tuple[str, ...]) -> list[PlanRequest]:
        """Return a request for each worker of a group, with the worker as server and the others as workers."""
        plan = "steiner" if self.experiment.plan in {*FORESTS, BEST} else self.experiment.plan
        most = slots_of_each(len(workers), self.slots)
        requests = []
        for rank, owner in enumerate(workers):
            others = tuple(worker for worker in workers if worker != owner)
            whole = workers == self.workers
            number = FIRST_OWNER_JOB + rank if whole else self._group_job(workers, OWNED - rank)
            requests.append(replace(self._request(number, plan, others, owner), max_slots=most))
        return requests

    def _start_trees(self) -> list[Job]:
        """Start the jobs of the whole group's sums: one for each tree of the plan."""
        return [self._start_job(request) for request in self._tree_requests(self.topology, self.workers)]

    def _tree_requests(self, topology: Topology, workers: tuple[str, ...]) -> list[PlanRequest]:
        """Return requests for the trees of these workers' sums. Raises `PlanError` if there are none."""
        name, parts = trees_of(self.experiment, topology, workers, several=self.may_stripe)
        return tree_requests(self._request(MAIN_JOB, name, workers, None), parts, self.slots)

    def _request(self, number: int, plan: str, workers: tuple[str, ...], server: str | None) -> PlanRequest:
        """Return the plan request of a job of this run."""
        return PlanRequest(
            plan=plan,
            job=number,
            workers=workers,
            server=server,
            window=self.experiment.window,
            elements=self.experiment.typical_elements,
            deadline_ps=self.experiment.deadline_ps if server is None and plan != "all-to-all" else None,
        )

    def _lane_bits(self, job: Job, calls: list[CollectiveCall], size: int) -> int:
        """Return the bits of the lanes of a collective. Raises `RefusedError` if that width is not available.

        size: workers in the sum.
        """
        options = calls[0].options
        if calls[0].operation != "all_reduce" or options.words:
            return WORD_BITS
        bits = options.lane_bits or self.experiment.lane_bits
        if bits == WORD_BITS:
            return bits
        if not job.plan.in_network:
            raise RefusedError(
                f"lane_bits: {bits}, but with plan {job.plan.name} hosts add float32; choose a plan that adds up in "
                "switches, or 32"
            )
        if any(tree.plan.relays for tree in (self._trees if job is self.main else [job])):
            raise RefusedError(
                f"lane_bits: {bits}, but with plan {job.plan.name} hosts add int32 inside of trees; choose a plan "
                "in which switches alone add up, or 32"
            )
        try:
            if isinstance(self.numbers, BlockFloat):
                check_bits(bits, size, coarse=self.experiment.coarse)
        except ValueError as error:
            raise RefusedError(str(error)) from None
        return bits

    def _parts(self, job: Job, operation: str, elements: int, bits: int = WORD_BITS) -> list[Part]:
        """Return the jobs that carry a collective of ``elements``, with their slices. bits: of its lanes."""
        trees = self._trees if job is self.main and operation == "all_reduce" else []
        return parts_of(trees, elements, bits) or [(job, slice(0, elements))]


def trees_of(
    given: Experiment, topology: Topology, workers: tuple[str, ...], *, several: bool
) -> tuple[str, list[TreePart]]:
    """Return the name of a run's plan and its trees, or one tree without a layout if the plan lays itself out.

    several: whether the run can have several trees at once. Raises `PlanError` if the plan needs them and it cannot.
    """
    several = several and given.deadline_ps is None
    best = given.plan == BEST and several and given.time != "real"  # the prediction knows no processors
    if given.plan not in FORESTS and not best:
        return given.plan, [TreePart(None)]
    if not several:
        raise PlanError(f"plan {given.plan}: several trees have no deadline; choose steiner")
    narrow = given.lane_bits != WORD_BITS  # hosts add float32, and relays int32
    problem = Problem(topology, workers, lanes=given.lanes, elements=given.typical_elements, in_network=narrow)
    lossy = any(probability > 0 for _, probability in given.faults)  # relays repair losses slowly
    return trees_named(given.plan, problem, relays=not (narrow or lossy))


def tree_requests(request: PlanRequest, parts: Sequence[TreePart], slots: int) -> list[PlanRequest]:
    """Return a plan request for each tree; the first is ``request``, that of the main job. slots: of a switch."""
    most = request.max_slots
    if len(parts) > 1:
        share = slots_of_each(len(parts), slots)
        most = min(share, most or share)
    ends = [0, *accumulate(part.weight for part in parts)]
    return [
        replace(
            request,
            job=request.job if number == 0 else FIRST_TREE_JOB + number - 1,
            part=(ends[number], part.weight, ends[-1]),
            layout=part.layout,
            max_slots=most,
            pace_ps=part.pace_ps,
        )
        for number, part in enumerate(parts)
    ]


SPARE_LEAD: Final = 6
"""spare chunks of a block's lead, for repairs, beside twice its share of a round trip"""


def lead_of_block(plan: Plan) -> int:
    """Return by how many chunks a block, which has a share of its links, agrees on exponents ahead."""
    return min(plan.lead, SPARE_LEAD + 2 * -(-plan.window_needed // len(plan.workers)))


def pace_of_blocks(parts: Sequence[Part], operation: Operation) -> int:
    """Return the time between the chunks of each block, ps: that of one chunk of every block on the busiest link."""
    return parts_bound([(job.plan, job.plan.lanes) for job, _ in parts], operation).time_ps


def block_operation(chosen: Options) -> Operation:
    """Return the operation that carries a block to its owner, or from there."""
    return Operation.PUSH if chosen.blocks == "own" else Operation.PULL


def _takes_ps(parts: Sequence[Part], operation: Operation) -> int:
    """Return the least time of a collective, ps: that of its busiest link, and round trips for lead and rest."""
    trips = 2 if parts[0][0].lead(operation) else 1
    bound = parts_bound([(job.plan, where.stop - where.start) for job, where in parts], operation)
    return bound.time_ps + trips * max(job.plan.rtt_ps for job, _ in parts)


def beyond_int32(call: CollectiveCall) -> SaturatedError:
    """Return the error for every participant of a sum that exceeded int32."""
    name = call.options.name or call.operation
    return SaturatedError(f"{name} #{call.iteration}: a sum of int32 lies beyond int32")


_COMPARED: Final = 1 << 18
"""elements that are compared at a time, so that there is no second array of full size"""


def agreed_result(calls: list[CollectiveCall]) -> FloatArray:
    """Return the result, on which all ranks must agree; raise ``ClusterError`` if two ranks' results differ."""
    if calls[0].operation == "push":
        return calls[-1].array
    if calls[0].operation == "all_to_all":
        return np.concatenate([call.array for call in calls])
    if calls[0].options.blocks == "own":
        return np.concatenate([call.array.reshape(len(calls), -1)[rank] for rank, call in enumerate(calls)])
    reference = calls[0].array
    words = reference.view(np.uint32)
    for call in calls[1:]:
        others = call.array.view(np.uint32)
        for begin in range(0, words.size, _COMPARED):
            differing = words[begin : begin + _COMPARED] != others[begin : begin + _COMPARED]
            if differing.any():
                at = begin + int(differing.argmax())
                raise ClusterError(
                    f"{call.operation} #{call.iteration}: ranks {calls[0].rank} and {call.rank} differ at element "
                    f"{at}: {reference[at]!r} and {call.array[at]!r}"
                )
    return reference


def check_blocks(calls: Sequence[CollectiveCall], blocks: Sequence[FloatArray]) -> None:
    """Raise `ClusterError` if a rank has a wrong block after an all-to-all."""
    for call, wanted in zip(calls, blocks, strict=True):
        if not np.array_equal(call.array.view(np.uint32), wanted.view(np.uint32)):
            raise ClusterError(f"all_to_all #{call.iteration}: rank {call.rank} has another block than was sent")


@dataclass(frozen=True)
class Timed:
    """The times of a collective in the flow model."""

    start_ps: int
    done_ps: int


class FlowCarrier(RunJobs):
    """Computes how long collectives take in the flow model. There are plans, but no switches; nothing is installed.

    ``carry`` may be called from several threads. One collective is carried at a time, as in virtual time.
    """

    def __init__(
        self, experiment: Experiment, topology: Topology, *, workers: tuple[str, ...], server: str | None
    ) -> None:
        super().__init__(experiment, topology, workers=workers, server=server)
        self.network = FlowNetwork(topology, experiment.queue_frames)
        self._added = False
        self._resources = Resources()
        self._announced: dict[int, int] = {}
        """by job: number of chunks of its next sum whose exponents are known"""
        self._trees = self._start_trees()

    @property
    def now(self) -> int:
        """Return the model's time, picoseconds."""
        return self.network.now

    @property
    def result_sha256(self) -> str:
        """Return the digest of results; empty if collectives had no arrays."""
        return super().result_sha256 if self._added else ""

    @property
    def slots(self) -> int:
        """Return the slots of a switch in the bundled programs."""
        return SLOTS

    def _wait(self) -> None:
        self.network.advance(self.network.now + CONTROL_LATENCY_PS)

    def _lay_out(self, request: PlanRequest, *, of_block: bool) -> Job:
        job = self.network.add(make_plan(self.topology, request, self._resources), self.numbers)
        if of_block:
            job.most_lead = lead_of_block(job.plan)
        return job

    def _take_away(self, job: Job) -> None:
        self._resources.release(job.plan.grant)

    def _request(self, number: int, plan: str, workers: tuple[str, ...], server: str | None) -> PlanRequest:
        return replace(super()._request(number, plan, workers, server), lanes=self.experiment.lanes)

    # --- collectives

    def move(self, operation: str, elements: int, chosen: Options = PLAIN) -> None:
        """Time one collective of ``elements`` numbers of each worker, without arrays and without sums."""
        with self._one:
            number = len(self.records)
            parts, carried = self.parts_of(operation, 0, elements, self.workers, number, chosen)
            if parts:
                timed = self._time(parts, carried, self.now, words=chosen.words)
                self._record(parts, carried, operation, number, elements, timed)

    def carry(
        self,
        calls: list[CollectiveCall],
        check: Callable[[], None] = lambda: None,
        workers: tuple[str, ...] | None = None,
    ) -> Sequence[MembershipDecision]:
        """Add up the callers' arrays, and compute when all have the result. See ``RunJobs.carry``."""
        with self._one:
            check()
            hosts = self.workers if workers is None else workers
            first = calls[0]
            refuse_narrow(calls, "the flow model (time: flow)")
            elements = 1 if first.operation == "barrier" else first.array.size
            for call in calls:
                call.start_ps = max(call.start_ps, self.now)
            parts, carried = self.parts_of(first.operation, first.root, elements, hosts, first.iteration, first.options)
            if not parts:
                first.done_ps = first.start_ps
                return ()
            last_ps = max(call.start_ps for call in calls)
            zeros = _zeros(parts, calls) if carried == "all_reduce" else []
            timed = self._time(parts, carried, last_ps, words=first.options.words, zeros=zeros)
            beyond = _add_up(calls, len(hosts))
            for call in calls:
                call.done_ps = timed.done_ps
                call.error = beyond_int32(call) if beyond else None
            self._added = True
            self.digest.update(hashlib.sha256(agreed_result(calls).data).digest())
            if carried == first.operation:
                self._announce(parts, calls, timed)
            began = Timed(min(call.start_ps for call in calls), timed.done_ps)
            name = first.options.name or first.operation
            failed = str(beyond_int32(first)) if beyond else None
            self._record(parts, carried, name, first.iteration, elements, began, failed=failed)
            return ()

    def carry_stale(
        self, calls: list[CollectiveCall], check: Callable[[], None] = lambda: None
    ) -> list[CollectiveCall]:
        """Raise ``RefusedError``: the flow model has no staleness."""
        raise RefusedError("push_pull: the flow model (time: flow) knows no staleness; choose time: virtual")

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _time(
        self, parts: list[Part], operation: str, start_ps: int, *, words: bool, zeros: Sequence[Bools] = ()
    ) -> Timed:
        """Let time pass until a collective that begins now or later is done. ``zeros``: as of ``begin``."""
        carried = as_carried(operation, ring=bool(parts[0][0].plan.ring))
        shares = [(job, where.stop - where.start) for job, where in parts]
        known = self._announced.pop(parts[0][0].plan.job, 0)
        try:
            start_ps = max(start_ps, self.now)
            self.network.advance(start_ps)
            transfer = self.network.begin(shares, Operation(carried), words=words, known=known, zeros=zeros)
            self.network.advance(watch=[transfer])
        except PlanError as error:
            raise RefusedError(f"{operation}: {error}") from error
        for job, elements in shares:
            job.note(carried, elements, words=words)
            job.spared += min(known, job.lead(carried, words=words), -(-elements // job.plan.lanes))
        for (job, _), chunks in zip(shares, zeros, strict=False):
            job.bare += int(chunks.sum())
        return Timed(start_ps, self.now)

    def _announce(self, parts: list[Part], calls: list[CollectiveCall], timed: Timed) -> None:
        """Agree on the exponents of the next sum, if all workers start it on the same jobs meanwhile."""
        if calls[0].operation not in {"all_reduce", "barrier"}:
            return
        ahead = [call.options.ahead for call in calls]
        if all(call is not None and call.start_ps + parts[0][0].plan.rtt_ps < timed.done_ps for call in ahead):
            chunks = min(-(-(where.stop - where.start) // job.plan.lanes) for job, where in parts)
            self._announced[parts[0][0].plan.job] = min(parts[0][0].plan.lead, chunks)

    def _record(
        self,
        parts: list[Part],
        operation: str,
        name: str,
        iteration: int,
        elements: int,
        timed: Timed,
        *,
        failed: str | None = None,
    ) -> None:
        carried = Operation(as_carried(operation, ring=bool(parts[0][0].plan.ring)))
        plans = [(job.plan, where.stop - where.start) for job, where in parts]
        self.records.append(
            CollectiveRecord(
                operation=name,
                iteration=iteration,
                elements=elements,
                start_ps=timed.start_ps,
                done_ps=timed.done_ps,
                communication_ps=timed.done_ps - timed.start_ps,
                bound_ps=parts_bound(plans, carried).time_ps,
                failed=failed,
            )
        )
        if self.on_collective is not None:
            self.on_collective(len(self.records))


def _zeros(parts: Sequence[Part], calls: Sequence[CollectiveCall]) -> list[Bools]:
    """Return, for each part of an all-reduce, the chunks that travel without lanes as they are zero at all workers.

    There are none if no exponents are agreed on. With ``poison``, a chunk that is not finite counts as zero.
    """
    options = calls[0].options
    all_zeros = []
    for job, where in parts:
        starts = np.arange(0, where.stop - where.start, job.plan.lanes)
        zeros = np.full(len(starts), bool(len(starts)) and job.lead("all_reduce", words=options.words) > 0)
        for call in calls if zeros.any() else ():
            values = call.array[where]
            full = np.logical_or.reduceat(values != 0, starts)
            if options.poison:
                full &= np.logical_and.reduceat(np.isfinite(values), starts)
            zeros &= ~full
        all_zeros.append(zeros)
    return all_zeros


def _add_up(calls: list[CollectiveCall], size: int) -> bool:
    """Compute a collective's results in the callers' arrays; return whether a sum exceeded int32."""
    first = calls[0]
    collective = Collective.PULL if first.operation == "broadcast" else COLLECTIVES[first.operation]
    kept = calls[first.root] if first.operation == "broadcast" else calls[-1]
    targets = calls[-1:] if first.operation == "push" else calls
    return deliver(
        collective,
        [call.array for call in calls[:size]],
        [call.array for call in targets],
        kept.array,
        first.learning_rate / size,
        words=first.options.words,
    )
