"""Replay of trainings from their traces: computation takes its recorded time, communication its time on packets.

Each rank has a CPU and an accelerator, which compute one node at a time, in the order of the trace (as ASTRA-sim's
system layer does); sends and receives run beside that. Groups communicate at the same time; a group's collectives
follow each other. In virtual time each rank posts its part when it comes to the node, so early ranks already send; in
the flow model a collective begins when its last rank has come.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Any, Final, Protocol

import numpy as np

from p4reduce.base.errors import PlanError
from p4reduce.base.output import Progress
from p4reduce.control_plane.counters import Operation, parts_bound
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.control_plane.plans.forest import slots_of_each
from p4reduce.control_plane.plans.routes import on_wire_ps
from p4reduce.group.backend import COLLECTIVES, COMPUTE, PLAIN, FloatArray, Options, TimeSpan, as_carried
from p4reduce.group.errors import ClusterError, RefusedError
from p4reduce.network.flow import Transfer
from p4reduce.network.jobs.asynchronous import CallClock, Clockwork
from p4reduce.network.jobs.network import Job
from p4reduce.play.priorities.models import resnet50
from p4reduce.runs.experiment import Experiment, ExperimentError
from p4reduce.runs.jobs import FlowCarrier, Part, RunJobs, block_operation, pace_of_blocks
from p4reduce.runs.participant import check_memory
from p4reduce.runs.result import CollectiveRecord, NetworkResult, ScriptReplay
from p4reduce.runs.summary import network_result
from p4reduce.runs.traces import recorded
from p4reduce.runs.virtual.carrier import Carrier
from p4reduce.runs.virtual.cluster import RunCluster, build_topology, program_of, server_host, worker_hosts
from p4reduce.runs.workload import Communication, Meeting, RankTrace, TraceError, TraceNode, Workload, check
from p4reduce.topologies import Topology
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from p4switch.base.values import PS_PER_S, PS_PER_US

GATHER: Final = Options(words=True, blocks="all")
SCATTER: Final = Options(blocks="own")
WORDS: Final = Options(words=True)
PERIOD: Final = 8191
"""period of the ranks' input values: a prime, so that no two chunks hold the same values"""
SEEN_EVERY: Final = 64
"""number of nodes between updates of the progress bar"""


@dataclass(frozen=True)
class MeetingWay:
    """The way in which a meeting (a collective or message) is carried; the same for one kind, size and group."""

    parts: Sequence[Part]
    carried: str
    options: Options
    elements: int
    """elements of the array that the parts share"""

    @property
    def by_blocks(self) -> bool:
        """Return whether each part is a rank's block."""
        return bool(self.options.blocks) and self.carried in {"push", "pull"}

    @property
    def shares(self) -> list[tuple[Job, int]]:
        """Return the jobs, with the number of elements that each carries."""
        return [(job, where.stop - where.start) for job, where in self.parts]

    @property
    def adds_words(self) -> bool:
        """Return whether lanes are added as 32-bit words."""
        return self.options.words and self.carried == "all_reduce"


Done = Callable[[int], None]
"""Function that is called when a rank's part is done, with the time in picoseconds."""


class MeetingCarrier(Protocol):
    """The carrier of meetings: packets, or the flow model."""

    @property
    def now(self) -> int:
        """Return the time, picoseconds."""

    def at(self, time_ps: int, call: Callable[[], None]) -> None:
        """Schedule ``call`` at ``time_ps``."""

    def arrive(self, number: int, rank: int, done: Done) -> None:
        """Note that a rank has come to its node of a meeting."""

    def play(self, check: Callable[[], None]) -> None:
        """Play until nothing is left to do; ``check`` is called regularly."""


class _Ways:
    """The jobs that carry the meetings of a workload; all are installed before anything is played."""

    def __init__(self, jobs: RunJobs, workload: Workload) -> None:
        self._jobs, self.workload = jobs, workload
        self._found: dict[tuple[str, int, int, tuple[int, ...]], MeetingWay] = {}
        self._bounds: dict[int, int] = {}
        self.of: list[MeetingWay] = []
        for number, meeting in enumerate(workload.meetings):
            wanted = meeting.communication
            key = (wanted.operation, wanted.elements, wanted.peer, meeting.members)
            if key not in self._found:
                try:
                    self._found[key] = self._way(number, meeting)
                except (PlanError, RefusedError) as error:
                    raise PlanError(f"{workload.where(number)}: {error}") from None
            self.of.append(self._found[key])

    def _way(self, number: int, meeting: Meeting) -> MeetingWay:
        wanted, size = meeting.communication, len(meeting.members)
        workers = tuple(self._jobs.workers[rank] for rank in meeting.members)
        operation, elements, options, root = wanted.operation, wanted.elements, PLAIN, 0
        if meeting.is_message:
            return MeetingWay(self._jobs.message_parts(workers[0], workers[1], elements), "pull", WORDS, elements)
        if operation == "reduce":
            operation = "all_reduce"  # no plan sums at one rank only
        elif operation == "all_gather":
            operation, elements, options = "all_reduce", elements * size, GATHER
        elif operation == "reduce_scatter":
            operation, elements, options = "all_reduce", -(-elements // size) * size, SCATTER
        elif operation == "all_to_all":
            elements = -(-elements // size) * size
        elif operation == "broadcast":
            options, root = WORDS, meeting.members.index(wanted.peer)
        parts, carried = self._jobs.parts_of(operation, root, elements, workers, number, options)
        ring = bool(parts) and bool(parts[0][0].plan.ring)
        return MeetingWay(parts, as_carried(carried, ring=ring), options, elements)

    def record(self, number: int, start_ps: int, done_ps: int, own_ps: int) -> CollectiveRecord:
        """Record a meeting that is done, and note it at its jobs for the prediction."""
        way, wanted = self.of[number], self.workload.meetings[number].communication
        for job, elements in way.shares:
            job.note(way.carried, elements, words=way.adds_words)
        if id(way) not in self._bounds:
            self._bounds[id(way)] = parts_bound(
                [(job.plan, elements) for job, elements in way.shares], Operation(way.carried)
            ).time_ps
        bound = self._bounds[id(way)]
        return CollectiveRecord(wanted.operation, number, wanted.elements, start_ps, done_ps, own_ps, bound)


def _fewer_slots(request: PlanRequest, jobs: int, slots: int) -> PlanRequest:
    """Limit a request to its share of the switches' slots, if several groups have trees."""
    return request if jobs < 2 else replace(request, max_slots=slots_of_each(jobs, slots))


# The input values of ranks, and the check that results are correct to the last bit.


@dataclass
class _Arrays:
    """The arrays of one rank in one meeting."""

    source: FloatArray
    target: FloatArray
    owned: FloatArray | None = None
    """its own block of a reduce-scatter's sum"""


class _Numbers:
    """Inputs of whole numbers from -15 to 15, whose sums are exact in every plan, and the check of results."""

    def __init__(self, ways: _Ways) -> None:
        self._ways = ways
        ranks = len(ways.workload.ranks)
        most, number = max(((way.elements, number) for number, way in enumerate(ways.of) if way.parts), default=(1, 0))
        try:
            check_memory(most, ranks)
        except ExperimentError:
            where = ways.workload.where(number)
            raise TraceError(
                f"{where}: comm_size: {ranks} tensors of {4 * most / 1e9:,.0f} GB do not fit this machine's memory; "
                "choose --time flow"
            ) from None
        steps = np.arange(PERIOD, dtype=np.int64)
        self._period = [((steps * (2 * rank + 3) + rank) % 31 - 15).astype(np.float32) for rank in range(ranks)]
        self._given: dict[int, FloatArray] = {}
        self._most = most
        self._sums: dict[tuple[int, ...], FloatArray] = {}

    def arrays(self, number: int, rank: int) -> _Arrays:
        """Return arrays with a rank's input for a meeting, and for its result."""
        way, meeting = self._ways.of[number], self._ways.workload.meetings[number]
        if rank not in self._given:
            self._given[rank] = np.resize(self._period[rank], self._most)
        given = self._given[rank][: way.elements]
        if way.options is GATHER and not way.by_blocks:
            array, own = np.zeros(way.elements, np.float32), self._block(way, meeting, rank)
            array[own] = given[: own.stop - own.start]
            return _Arrays(array, array)
        return _Arrays(given, np.empty(way.elements, np.float32))

    def post(self, arrays: _Arrays, number: int, rank: int, place: int) -> Post:
        """Return the rank's operation on one part of a meeting."""
        way, meeting = self._ways.of[number], self._ways.workload.meetings[number]
        where, collective = way.parts[place][1], COLLECTIVES[way.carried]
        source, target = arrays.source[where], arrays.target[where]
        owner = way.by_blocks and meeting.members[place] == rank
        if collective is Collective.BARRIER:
            return Post(collective)
        if collective is Collective.PUSH:
            if owner:
                arrays.owned = source.copy()
                return Post(collective, arrays.owned, arrays.owned)
            return Post(collective, source)
        if collective is Collective.PULL:
            root = owner if way.by_blocks else rank == self._root(meeting)
            given = arrays.source[: where.stop - where.start]
            return Post(collective, given if root else None, None if root else target, words=True)
        return Post(collective, source, target, words=way.adds_words)

    def check(self, arrays: _Arrays, number: int, rank: int) -> None:
        """Raise ``ClusterError`` if a rank's result is wrong."""
        way, meeting = self._ways.of[number], self._ways.workload.meetings[number]
        if way.carried == "barrier":
            return
        right = True
        if way.options is GATHER:
            size = way.elements // len(meeting.members)
            for turn, other in enumerate(meeting.members):
                if not (way.by_blocks and other == rank):
                    right &= _holds(arrays.target[turn * size : (turn + 1) * size], self._period[other])
        elif way.carried == "push":
            place = meeting.members.index(rank)
            assert arrays.owned is not None  # noqa: S101
            right = _holds(arrays.owned, self._sum(meeting.members), way.parts[place][1].start)
        elif way.carried == "pull":
            root = self._root(meeting)
            right = rank == root or _holds(arrays.target, self._period[root])
        elif way.carried == "all_to_all":
            own = self._block(way, meeting, rank)
            size = own.stop - own.start
            for turn, other in enumerate(meeting.members):
                right &= _holds(arrays.target[turn * size : (turn + 1) * size], self._period[other], own.start)
        else:
            right = _holds(arrays.target, self._sum(meeting.members))
        if not right:
            raise ClusterError(f"{self._ways.workload.where(number, rank)}: rank {rank} got wrong numbers")

    @staticmethod
    def _root(meeting: Meeting) -> int:
        wanted = meeting.communication
        return meeting.members[0] if meeting.is_message else wanted.peer

    @staticmethod
    def _block(way: MeetingWay, meeting: Meeting, rank: int) -> slice:
        size, place = way.elements // len(meeting.members), meeting.members.index(rank)
        return slice(place * size, (place + 1) * size)

    def _sum(self, members: tuple[int, ...]) -> FloatArray:
        if members not in self._sums:
            self._sums[members] = np.sum([self._period[rank] for rank in members], axis=0, dtype=np.float32)
        return self._sums[members]


def _holds(array: FloatArray, period: FloatArray, begin: int = 0) -> bool:
    """Return whether an array holds these numbers periodically, from place ``begin`` of the period on."""
    period = np.roll(period, -(begin % PERIOD))
    whole = len(array) // PERIOD * PERIOD
    return bool(
        (array[:whole].reshape(-1, PERIOD) == period).all() and (array[whole:] == period[: len(array) - whole]).all()
    )


class _Messages:
    """Messages of each pair of ranks that wait for the previous one: a pair's job carries one at a time."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[int]] = {}

    def may_begin(self, way: MeetingWay, number: int) -> bool:
        """Return whether a message whose ends are there begins now; otherwise `ended` returns it later."""
        job = way.parts[0][0].plan.job
        if job in self._waiting:
            self._waiting[job].append(number)
            return False
        self._waiting[job] = deque()
        return True

    def ended(self, way: MeetingWay) -> int | None:
        """Note that a message is over; return the next one that begins, or None."""
        job = way.parts[0][0].plan.job
        if self._waiting[job]:
            return self._waiting[job].popleft()
        del self._waiting[job]
        return None


class SharingStage(RunJobs):
    """Jobs of a workload's groups, whose trees share the slots of switches."""

    _groups: int

    def _request(self, number: int, plan: str, workers: tuple[str, ...], server: str | None) -> PlanRequest:
        return _fewer_slots(super()._request(number, plan, workers, server), self._groups, self.slots)

    def _owner_requests(self, workers: tuple[str, ...]) -> list[PlanRequest]:
        requests = super()._owner_requests(workers)
        return [_fewer_slots(request, self._groups * len(workers), self.slots) for request in requests]


class PacketStage(SharingStage, Carrier):
    """Packets that cross the P4 program; every sum and copy is checked to the last bit."""

    def __init__(self, experiment: Experiment, topology: Topology, workload: Workload) -> None:
        self._groups = workload.groups
        super().__init__(
            experiment,
            topology,
            program_of(experiment),
            workers=worker_hosts(topology, experiment.workers),
            server=server_host(topology),
            capture=None,
        )
        try:
            self._clockwork = Clockwork(self.network)
            self._ways = _Ways(self, workload)
            self._numbers = _Numbers(self._ways)
        except BaseException:
            self.close()
            raise
        self._arrived: dict[int, dict[int, int]] = defaultdict(dict)
        self._left: dict[int, int] = {}
        self._own_ps: dict[int, int] = defaultdict(int)
        self._serving: dict[int, deque[Post]] = {}
        self._messages = _Messages()
        self._held: dict[int, list[tuple[int, Done]]] = defaultdict(list)

    def at(self, time_ps: int, call: Callable[[], None]) -> None:
        """Schedule ``call`` at ``time_ps``."""
        self._clockwork.at(time_ps, call)

    def play(self, check: Callable[[], None]) -> None:
        """Play until nothing is left to do. Raises ``ClusterError`` if an endpoint gives up, or a result is wrong."""
        self._clockwork.run(check=check)

    def arrive(self, number: int, rank: int, done: Done) -> None:
        """Post the rank's parts of a meeting; ``done`` is called when all are done."""
        way, now = self._ways.of[number], self.now
        if not way.parts:
            self.at(now, lambda: done(now))
            return
        arrived = self._arrived[number]
        if way.by_blocks and not arrived:
            pace = pace_of_blocks(way.parts, block_operation(way.options))
            for member in (index for job, _ in way.parts for index in job.members.values()):
                self.network.endpoints.change_pace(member, pace)
        if not arrived:
            self._serve(number)
        arrived[rank] = now
        if not self._ways.workload.meetings[number].is_message:
            self._give(number, rank, done)
            return
        self._held[number].append((rank, done))
        if len(arrived) > 1 and self._messages.may_begin(way, number):
            self._post_message(number)

    def _post_message(self, number: int) -> None:
        """Post both ends of a message, which are there now, as the pair's previous message is over."""
        for rank, done in self._held.pop(number):
            self._give(number, rank, done)

    def _give(self, number: int, rank: int, done: Done) -> None:
        way, host, arrays = self._ways.of[number], self.workers[rank], self._numbers.arrays(number, rank)
        left, last = [len(way.parts)], [self.now]

        def one_done(done_ps: int) -> None:
            left[0] -= 1
            last[0] = max(last[0], done_ps)
            if not left[0]:
                self._numbers.check(arrays, number, rank)
                self._end(number, rank, last[0])
                done(last[0])

        for place, (job, _) in enumerate(way.parts):
            index = job.members.get(host, job.server)
            assert index is not None  # noqa: S101
            self._clockwork.post(index, self._numbers.post(arrays, number, rank, place), one_done)

    def _serve(self, number: int) -> None:
        """Have a server that is not a member take part in every collective of its job, one after the other."""
        way, meeting = self._ways.of[number], self._ways.workload.meetings[number]
        for job, where in way.parts:
            if job.server is None or any(self.workers[rank] not in job.members for rank in meeting.members):
                continue
            collective = COLLECTIVES[way.carried]
            target = np.empty(where.stop - where.start, np.float32) if collective is Collective.ALL_REDUCE else None
            post = Post(collective, None, target, words=way.adds_words)
            if job.server in self._serving:
                self._serving[job.server].append(post)
            else:
                self._serving[job.server] = deque()
                self._post_server(job.server, post)

    def _post_server(self, index: int, post: Post) -> None:
        def then(_done_ps: int) -> None:
            if self._serving[index]:
                self._post_server(index, self._serving[index].popleft())
            else:
                del self._serving[index]

        self._clockwork.post(index, post, then)

    def _end(self, number: int, rank: int, done_ps: int) -> None:
        meeting, arrived = self._ways.workload.meetings[number], self._arrived[number]
        self._own_ps[number] = max(self._own_ps[number], done_ps - arrived[rank])
        self._left[number] = self._left.get(number, len(meeting.nodes)) - 1
        if not self._left[number]:
            start_ps = min(arrived.values())
            self.records.append(self._ways.record(number, start_ps, done_ps, self._own_ps.pop(number)))
            del self._arrived[number], self._left[number]
            if meeting.is_message and (following := self._messages.ended(self._ways.of[number])) is not None:
                self._post_message(following)


class FlowStage(SharingStage, FlowCarrier, CallClock):
    """The flow model: collectives have a duration and share links; nothing is added up."""

    def __init__(self, experiment: Experiment, topology: Topology, workload: Workload) -> None:
        self._groups = workload.groups
        super().__init__(
            experiment,
            topology,
            workers=worker_hosts(topology, experiment.workers),
            server=server_host(topology),
        )
        CallClock.__init__(self, self.network)
        self._ways = _Ways(self, workload)
        self._arrived: dict[int, dict[int, tuple[int, Done]]] = defaultdict(dict)
        self._under_way: dict[int, Transfer] = {}
        self._messages = _Messages()

    def arrive(self, number: int, rank: int, done: Done) -> None:
        """Note that a rank has come; when all have, begin the meeting. ``PlanError`` if the model cannot carry it."""
        way, now = self._ways.of[number], self.now
        arrived = self._arrived[number]
        arrived[rank] = now, done
        if len(arrived) < len(self._ways.workload.meetings[number].nodes):
            return
        if not way.parts:
            self.at(now, lambda: self._end(number))
        elif not self._ways.workload.meetings[number].is_message or self._messages.may_begin(way, number):
            self._begin(number)

    def _begin(self, number: int) -> None:
        way = self._ways.of[number]
        try:
            self._under_way[number] = self.network.begin(way.shares, Operation(way.carried), words=way.adds_words)
        except PlanError as error:
            raise PlanError(f"{self._ways.workload.where(number)}: {error}; choose --time virtual") from None

    def play(self, check: Callable[[], None]) -> None:
        """Play until nothing is left to do. Raises ``ClusterError`` if nothing moves any more."""
        self.run(check=check)

    def _busy(self) -> bool:
        return bool(self._under_way)

    def _let_pass(self, until_ps: int | None, check: Callable[[], None] | None) -> None:
        if check is not None:
            check()
        if not self.network.advance(until_ps, list(self._under_way.values())) and until_ps is None:
            raise ClusterError("nothing moves any more in the flow model, but collectives are under way")
        for number in [number for number, transfer in self._under_way.items() if transfer.done_ps is not None]:
            del self._under_way[number]
            self._end(number)

    def _end(self, number: int) -> None:
        arrived, now = self._arrived.pop(number), self.now
        start_ps = min(came for came, _ in arrived.values())
        if self._ways.of[number].parts:
            self.records.append(self._ways.record(number, start_ps, now, now - start_ps))
        if self._ways.workload.meetings[number].is_message:
            following = self._messages.ended(self._ways.of[number])
            if following is not None:
                self._begin(following)
        for _, done in arrived.values():
            done(now)


# Ranks: which nodes are ready, and what each processor does.


@dataclass
class _Processor:
    """A rank's CPU or accelerator."""

    ready: list[int] = field(default_factory=list)
    busy: bool = False


class _Player:
    """Plays a workload on a stage; ``spans``: the intervals of each rank's activities."""

    def __init__(self, workload: Workload, stage: MeetingCarrier, progress: Progress | None, title: str) -> None:
        self._workload, self._stage, self._progress, self._title = workload, stage, progress, title
        self.spans: list[TimeSpan] = []
        self.begun_ps = stage.now
        self._left = [list(own) for own in workload.before]
        self._processors = [(_Processor(), _Processor()) for _ in workload.ranks]
        self._work: deque[tuple[int, int]] = deque()
        self._done = 0

    def play(self) -> None:
        """Play until all nodes are done."""
        self._work += [(rank, at) for rank, own in enumerate(self._left) for at, left in enumerate(own) if not left]
        self._drain()
        self._stage.play(self._tell)
        self._tell()
        if self._done < self._workload.nodes:
            raise ClusterError(f"{self._workload.nodes - self._done} nodes of the trace were never reached")

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(self._title, self._done, self._workload.nodes)

    def _drain(self) -> None:
        while self._work:
            rank, at = self._work.popleft()
            node = self._workload.ranks[rank].nodes[at]
            if node.communication is not None:
                self._communicate(rank, at, node)
            elif node.duration_ps:
                processor = self._processors[rank][node.on_host]
                heappush(processor.ready, at)
                self._compute(rank, processor)
            else:
                self._finish(rank, at)

    def _communicate(self, rank: int, at: int, node: TraceNode) -> None:
        wanted, begun_ps = node.communication, self._stage.now
        assert wanted is not None  # noqa: S101
        number = self._workload.of_node[rank][at]
        members = self._workload.meetings[number].members
        if self._workload.meetings[number].is_message:
            row = f" [with rank {wanted.peer}]"
        else:
            row = "" if len(members) == len(self._workload.ranks) else f" [{','.join(map(str, members))}]"
        name = f"{wanted.operation}{row}"

        def done(done_ps: int) -> None:
            self.spans.append(
                TimeSpan(rank, name, begun_ps, done_ps, wanted.elements, f"{wanted.operation} {node.name}")
            )
            self._finish(rank, at)
            self._drain()

        self._stage.arrive(number, rank, done)

    def _compute(self, rank: int, processor: _Processor) -> None:
        if processor.busy or not processor.ready:
            return
        at, begun_ps = heappop(processor.ready), self._stage.now
        node = self._workload.ranks[rank].nodes[at]
        processor.busy = True

        def done() -> None:
            row = " [host]" if node.on_host else ""
            self.spans.append(TimeSpan(rank, COMPUTE + row, begun_ps, begun_ps + node.duration_ps, label=node.name))
            processor.busy = False
            self._finish(rank, at)
            self._compute(rank, processor)
            self._drain()

        self._stage.at(begun_ps + node.duration_ps, done)

    def _finish(self, rank: int, at: int) -> None:
        self._done += 1
        if self._done % SEEN_EVERY == 0:
            self._tell()
        for later in self._workload.then[rank][at]:
            self._left[rank][later] -= 1
            if not self._left[rank][later]:
                self._work.append((rank, later))


# The results of a replay.


@dataclass(frozen=True)
class RankTimes:
    """Times of one rank, picoseconds from the beginning."""

    rank: int
    end_ps: int
    compute_ps: int
    """time in which its accelerator computed; in a trace without accelerators, its CPU"""
    communication_ps: int
    """time in a collective or message, including waits for others"""
    exposed_ps: int
    """Part of communication without computation beside it …"""
    overlapped_ps: int
    """… and part beside computation."""


@dataclass(frozen=True)
class PlanReplay:
    """A training that was replayed with one plan."""

    plan: str
    topology: str
    time: str
    total_ps: int
    exposed_ps: int
    """The largest exposed time of a rank."""
    ranks: list[RankTimes]
    nodes: int
    meetings: int
    """Number of collectives and messages."""
    octets: int
    """Bytes of collectives and messages, without headers, at the rank with the most."""
    network: NetworkResult | None
    """None if nothing was communicated."""
    spans: list[TimeSpan] = field(repr=False, compare=False)


def play(workload: Workload, experiment: Experiment, progress: Progress | None = None) -> PlanReplay:
    """Play a workload; ``experiment.workers`` is the number of its ranks.

    Raises ``PlanError`` for what the plan, or the flow model, cannot carry, ``ExperimentError``, ``ClusterError``.
    """
    topology = build_topology(experiment)
    stage: PacketStage | FlowStage
    if experiment.time == "flow":
        stage = FlowStage(experiment, topology, workload)
    else:
        stage = PacketStage(experiment, topology, workload)
    try:
        player = _Player(workload, stage, progress, f"{experiment.plan}: nodes")
        player.play()
        network = network_result(stage) if stage.records else None
        begun = player.begun_ps
    finally:
        stage.close()
    spans = [replace(span, start_ps=span.start_ps - begun, end_ps=span.end_ps - begun) for span in player.spans]
    ranks = rank_times(spans, len(workload.ranks))
    return PlanReplay(
        plan=experiment.plan,
        topology=topology.name,
        time=experiment.time,
        total_ps=max(rank.end_ps for rank in ranks),
        exposed_ps=max(rank.exposed_ps for rank in ranks),
        ranks=ranks,
        nodes=workload.nodes,
        meetings=len(workload.meetings),
        octets=workload.octets,
        network=network,
        spans=spans,
    )


MESSAGES: Final = frozenset({"send", "all_to_all"})
"""what another library moves from rank to rank beside sums, in pipelines and layers of experts"""


def replay_of(cluster: RunCluster[Any]) -> ScriptReplay | None:
    """Play what a script did once more, if its ranks sent messages in virtual time; else None.

    None, too, if its group may change or leave stragglers out. ``TraceError`` if a trace has no node for what it did;
    and as ``play`` raises.
    """
    carrier, given = cluster.carrier, cluster.experiment
    if (
        type(carrier) is not Carrier
        or given.deadline is not None
        or all(moved.name not in MESSAGES for moved in carrier.moved)
    ):
        return None
    workload = check(recorded(cluster.told(), cluster.spans(), cluster.size), {})
    played = play(workload, given)
    bounds = [(rank.compute_ps, f"the computation of rank {rank.rank}") for rank in played.ranks]
    for load in [] if played.network is None else played.network.links:
        rate = cluster.topology.link_at(load.node, load.port).rate_bps
        bounds.append((on_wire_ps(load.predicted_frames, load.predicted_bytes, rate), f"{load.node} -> {load.peer}"))
    messages = sum(meeting.is_message for meeting in workload.meetings)
    bound_ps, by = max(bounds, key=lambda bound: bound[0])
    return ScriptReplay(played.total_ps, bound_ps, by, played.exposed_ps, messages)


Interval = tuple[int, int]


def rank_times(spans: Iterable[TimeSpan], ranks: int) -> list[RankTimes]:
    """Return each rank's times of computation, of communication, and of exposed and overlapped communication."""
    computed: list[dict[bool, list[Interval]]] = [{False: [], True: []} for _ in range(ranks)]
    communicated: list[list[Interval]] = [[] for _ in range(ranks)]
    for span in spans:
        own = (span.start_ps, span.end_ps)
        if span.name.startswith(COMPUTE):
            computed[span.rank][span.name != COMPUTE].append(own)
        else:
            communicated[span.rank].append(own)
    times = []
    for rank in range(ranks):
        busy = _merged(computed[rank][False] or computed[rank][True])
        sent = _merged(communicated[rank])
        both = _length(busy) + _length(sent) - _length(_merged([*busy, *sent]))
        every = [*computed[rank][False], *computed[rank][True], *sent]
        end = max((end for _, end in every), default=0)
        times.append(RankTimes(rank, end, _length(busy), _length(sent), _length(sent) - both, both))
    return times


def _merged(intervals: Iterable[Interval]) -> list[Interval]:
    merged: list[Interval] = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((begin, end))
    return merged


def _length(merged: Iterable[Interval]) -> int:
    return sum(end - begin for begin, end in merged)


# An example: data-parallel ResNet-50, whose layers and sizes are public (play/priorities/models.py).


IMAGES: Final = 16
"""images of a rank in an iteration"""
FLOPS: Final = 70e12
"""assumed operations of an accelerator in a second"""


def example(ranks: int = 8) -> list[RankTrace]:
    """Return one iteration of data-parallel ResNet-50: forward, backward, an all-reduce of each layer's gradient.

    It has 54 layers, 102 MB of float32. A multiplication counts as two operations; backward takes twice as long as
    forward.
    """
    layers = resnet50()
    times = [round(2 * layer.multiplications * IMAGES / FLOPS * PS_PER_S / PS_PER_US) * PS_PER_US for layer in layers]
    nodes: list[TraceNode] = []

    def add(name: str, after: Sequence[int], duration_ps: int = 0, wanted: Communication | None = None) -> int:
        nodes.append(TraceNode(len(nodes), name, tuple(after), duration_ps, communication=wanted))
        return len(nodes) - 1

    last: list[int] = []
    for layer, duration in zip(layers, times, strict=True):
        last = [add(f"forward {layer.name}", last, duration)]
    sums = []
    for layer, duration in zip(reversed(layers), reversed(times), strict=True):
        last = [add(f"backward {layer.name}", last, 2 * duration)]
        sums.append(add(f"gradient {layer.name}", last, wanted=Communication("all_reduce", 4 * layer.parameters)))
    add("optimizer", [*last, *sums])
    return [RankTrace("the example", nodes) for _ in range(ranks)]
