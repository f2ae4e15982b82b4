"""One round of many tasks on packets: their trees installed over P4Runtime, their frames through the P4 program."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.counters import (
    Fate,
    LinkIncident,
    Operation,
    Traffic,
    add,
    compare_counters,
    compare_links,
    expected_on_links,
    predict,
)
from p4reduce.control_plane.entries import P4Program
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.plans.problem import power_of_two
from p4reduce.control_plane.plans.routes import HEADER_BYTES, chunks, frame_time_ps
from p4reduce.control_plane.scheduling.view import TreeDecision, plan_requests
from p4reduce.group.backend import FloatArray
from p4reduce.group.errors import ClusterError
from p4reduce.network.background import Background, Loads, link_loads
from p4reduce.network.jobs.asynchronous import Clockwork
from p4reduce.network.jobs.network import EmbeddedSwitches, Job, JobNetwork, bundled
from p4reduce.network.jobs.specs import ExpectedSum, expect_sum
from p4reduce.network.virtual import VirtualNetwork
from p4reduce.runs.participant import tensor
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4reduce.workers.numbers import FixedScale
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from studies.poster.settings import PosterSettings, TrafficScenario

# The least time of a round on a plan's trees: serialization on the busiest link, and depth.
#
# With S for the time of a model's C full frames on a host's link (S/b), the bound of a round without aggregation is n *
# S at the global model's link plus the way there and back; with aggregation it is S on a worker's link (k * S on a link
# that k edges of the tree cross) plus the way there and back. There are no other assumptions: frames may come in any
# order, hosts and switches take no time, and queues are long enough.


Edge = tuple[str, str]


@dataclass(frozen=True)
class LinkSpan:
    """A link in one direction of a round: the number of tree edges on it, and its distance from both ends."""

    copies: int
    head_ps: int
    """from the phase's start until the first frame has crossed the link"""
    tail_ps: int
    """from the last frame's crossing to the phase's end"""
    time_ps: int
    """time of a frame on the link"""

    def lasts(self, chunks: int) -> int:
        """Return the least time of the phase for this number of chunks, as limited by this link."""
        return self.head_ps + (self.copies * chunks - 1) * self.time_ps + self.tail_ps


@dataclass(frozen=True)
class RoundPhase:
    """One direction of a round."""

    spans: Mapping[Hop, LinkSpan]
    one_ps: int
    """time of a single chunk without others"""
    farthest_ps: int
    """time of a single frame on the longest path"""

    def lasts(self, chunks: int) -> int:
        """Return the least time for this number of chunks."""
        return max(span.lasts(chunks) for span in self.spans.values())


@dataclass(frozen=True)
class TreeLimits:
    """Limits of a plan's trees."""

    bound_ps: int
    """lower bound of a round"""
    ordered_ps: int
    """the same if hosts aggregate and the server answers all workers of a chunk before those of the next one"""
    chunk_ps: int
    """increase of the bound by one more chunk: its time on the busiest link"""


def limits(plan: Plan, operation: Operation, elements: int) -> TreeLimits:
    """Return the least time from the workers' start to the last worker's result, picoseconds.

    U_1 and U_C: one chunk and all chunks from every worker to the server; D_1 and D_C: down to every worker. The last
    chunk goes down after it came up, and nothing goes down before the first chunk came up: T >= max(U_C + D_1, U_1 +
    D_C). A link that carries both ways in one direction (edges of an overlay that double back) carries their sum.
    """
    count = chunks(elements, plan.lanes)
    if plan.ring:
        return _ring(plan, count)
    up = _up(plan, HEADER_BYTES if operation is Operation.PULL else plan.frame_bytes)
    down = _down(plan, HEADER_BYTES if operation is Operation.PUSH else plan.frame_bytes)
    times = [up.lasts(count) + down.one_ps, up.one_ps + down.lasts(count)]
    for hop in up.spans.keys() & down.spans.keys():
        there, back = up.spans[hop], down.spans[hop]
        busy = count * (there.copies * there.time_ps + back.copies * back.time_ps)
        first = min(there.time_ps, back.time_ps)
        tail = min(there.tail_ps + down.one_ps, back.tail_ps)
        times.append(min(there.head_ps, up.one_ps + back.head_ps) - first + busy + tail)
    per_chunk: Counter[Hop] = Counter()
    for phase in (up, down):
        for hop, span in phase.spans.items():
            per_chunk[hop] += span.copies * span.time_ps
    bound = max(times)
    return TreeLimits(bound, max(bound, _ordered(plan, up, down, count)), max(per_chunk.values()))


def _ring(plan: Plan, count: int) -> TreeLimits:
    """Return the limits of a ring of N hosts: 2 (N - 1) ceil(C / N) frames on every stream, and a piece's way round.

    A link that k streams cross is busy for k times that, between a frame's path to it and a frame's path from it to the
    stream's end. The last piece to be summed passes 2 (N - 1) hosts one after the other, wherever it begins.
    """
    n = len(plan.ring)
    if n == 1:
        return TreeLimits(0, 0, 0)
    edges = _Edges(plan, plan.edges, plan.frame_bytes)
    frames = 2 * (n - 1) * -(-count // n)
    times = []
    for hop, crossing in edges.crossing.items():
        head = min(before for _, before, _ in crossing) - edges.time[hop]
        tail = min(after for _, _, after in crossing)
        times.append(head + len(crossing) * frames * edges.time[hop] + tail)
    streams = list(edges.latency.values())
    times.append(2 * sum(streams) - 2 * max(streams))
    busiest = max(len(crossing) * edges.time[hop] for hop, crossing in edges.crossing.items())
    bound = max(times)
    return TreeLimits(bound, bound, -(-2 * (n - 1) * busiest // n))


def _ordered(plan: Plan, up: RoundPhase, down: RoundPhase, count: int) -> int:
    """Return the least time of a host-side server that answers chunk by chunk; 0 for aggregation in the network.

    Nothing goes down before the first chunk has come up from the farthest worker, U_1. The last chunk's first answer
    leaves after n(C - 1) others, and may be the one for the farthest worker: T >= U_1 + n(C - 1) t + D. Without this
    order, all answers for the farthest worker could leave first, which makes ``bound_ps`` smaller if the path is long
    relative to n * S.
    """
    if plan.in_network or plan.server is None:
        return 0
    own = down.spans[(plan.server, 1)]
    return up.one_ps + (count - 1) * own.copies * own.time_ps + down.farthest_ps


class _Edges:
    """Times along the edges of a plan in one direction; all in picoseconds, for frames of one length."""

    def __init__(self, plan: Plan, edges: Iterable[Edge], length: int) -> None:
        self.time: dict[Hop, int] = {}
        self.latency: dict[Edge, int] = {}
        self.crossing: dict[Hop, list[tuple[Edge, int, int]]] = {}
        """by link, the edges that cross it, with the times from the edge's start to the link's end and from there on"""
        for edge in edges:
            hops = plan.path_hops(*edge)
            passed = 0
            reached = []
            for hop in hops:
                link = plan.topology.link_at(*hop)
                if hop not in self.time:
                    self.time[hop] = frame_time_ps(length, link.rate_bps)
                passed += self.time[hop] + link.delay_ps
                reached.append(passed)
            self.latency[edge] = passed
            for hop, before in zip(hops, reached, strict=True):
                self.crossing.setdefault(hop, []).append((edge, before, passed - before))


def _up(plan: Plan, length: int) -> RoundPhase:
    """Return the phase from workers to server. An aggregator sends a chunk when all its children have sent it."""
    edges = _Edges(plan, plan.edges, length)
    above = dict(plan.edges)
    below = _children(plan)
    ready: dict[str, int] = dict.fromkeys(plan.workers, 0)
    onward: dict[str, int] = {}

    def when(node: str) -> int:
        if node not in ready:
            ready[node] = max(when(child) + edges.latency[child, node] for child in below[node])
        return ready[node]

    def to_top(node: str) -> int:
        if node not in onward:
            parent = above.get(node)
            onward[node] = 0 if parent is None else edges.latency[node, parent] + to_top(parent)
        return onward[node]

    spans = {}
    for hop, crossing in edges.crossing.items():
        head = min(when(child) + before for (child, _), before, _ in crossing)
        tail = min(after + to_top(parent) for (_, parent), _, after in crossing)
        spans[hop] = LinkSpan(len(crossing), head, tail, edges.time[hop])
    top = when(plan.server or plan.root)
    return RoundPhase(spans, top, top)


def _down(plan: Plan, length: int) -> RoundPhase:
    """Return the phase from the server to all workers."""
    edges = _Edges(plan, [(parent, child) for child, parent in plan.edges], length)
    above = dict(plan.edges)
    below = _children(plan)
    arrived: dict[str, int] = {}
    farthest: dict[str, int] = {}

    def when(node: str) -> int:
        if node not in arrived:
            parent = above.get(node)
            arrived[node] = 0 if parent is None else when(parent) + edges.latency[parent, node]
        return arrived[node]

    def to_last(node: str) -> int:
        if node not in farthest:
            children = below.get(node, ())
            farthest[node] = max((edges.latency[node, child] + to_last(child) for child in children), default=0)
        return farthest[node]

    spans = {}
    for hop, crossing in edges.crossing.items():
        head = min(when(parent) + before for (parent, _), before, _ in crossing)
        tail = min(after + to_last(child) for (_, child), _, after in crossing)
        spans[hop] = LinkSpan(len(crossing), head, tail, edges.time[hop])
    longest = max(when(worker) for worker in plan.workers)
    return RoundPhase(spans, max(longest, *(span.lasts(1) for span in spans.values())), longest)


def _children(plan: Plan) -> dict[str, list[str]]:
    below: dict[str, list[str]] = {}
    for child, parent in plan.edges:
        below.setdefault(parent, []).append(child)
    return below


# Traffic of a round on links, compared with its plans' prediction.


Carried = Sequence[tuple[Plan, Operation]]
"""the plans of a round and the operation that each carried"""
Seen = tuple[dict[Hop, Traffic], dict[str, NDArray[np.int64]]]
"""first transmissions on every link, and the change of every counter of links"""


@dataclass(frozen=True)
class RoundCounts:
    """The counts of one round of a task."""

    communication_ps: int
    """from the start of the local models until the last of them has its new weights"""
    bound_ps: int
    """least time that these trees allow (:func:`limits`)"""
    ordered_ps: int
    """least time if a host-side server answers chunk by chunk; equal to ``bound_ps`` for trees"""
    bytes: int
    """bytes on all links, including resends"""
    first_bytes: int
    """bytes of first transmissions"""
    predicted_bytes: int
    resend_bytes: int
    dropped: int
    """number of the task's frames that a full queue dropped"""
    aggregators: int
    chunk_ps: int
    """time of one more chunk on the busiest link of these trees"""
    differences: tuple[str, ...]
    """links whose first transmissions differ from the prediction; empty if there are none"""


def predict_round(carried: Carried, elements: int) -> dict[Hop, Traffic]:
    """Predict first transmissions of a round on every link; no frames for exponents, because the scale is fixed."""
    return add(*(predict(plan, operation, elements, lead=0) for plan, operation in carried))


def links_since(network: VirtualNetwork, before: NDArray[Any]) -> Seen:
    """Return first transmissions on every link since ``before``, and the change of every counter."""
    after = network.links.array()
    change = {name: after[name] - before[name] for name in after.dtype.names or ()}
    frames, sizes = change["inc_first_frames"].tolist(), change["inc_first_bytes"].tolist()
    return dict(zip(network.links, map(Traffic, frames, sizes), strict=True)), change


def count_round(
    network: VirtualNetwork,
    carried: Carried,
    elements: int,
    *,
    predicted: dict[Hop, Traffic],
    seen: Seen,
    communication_ps: int,
) -> tuple[RoundCounts, dict[Hop, Traffic]]:
    """Return the measurements of a round, and its expected first transmissions, given the drops of full queues.

    ``seen`` covers the whole time of the round, in which no other task may send.
    """
    counted, change = seen
    expected, dropped = predicted, 0
    if change["queue_drops"].any():
        fates = _dropped(network)
        parts = [
            expected_on_links(plan, predict(plan, operation, elements, lead=0), fates.get(plan.job, ()))
            for plan, operation in carried
        ]
        expected = add(*parts)
        dropped = sum(incident.frames for plan, _ in carried for incident in fates.get(plan.job, ()))
    differences = [] if counted == expected else compare_links(network.topology, expected, counted)
    allowed = [limits(plan, operation, elements) for plan, operation in carried]
    first, resent = int(change["inc_first_bytes"].sum()), int(change["inc_resend_bytes"].sum())
    measured = RoundCounts(
        communication_ps=communication_ps,
        bound_ps=sum(limit.bound_ps for limit in allowed),
        ordered_ps=sum(limit.ordered_ps for limit in allowed),
        bytes=first + resent,
        first_bytes=first,
        predicted_bytes=sum(traffic.bytes for traffic in predicted.values()),
        resend_bytes=resent,
        dropped=dropped,
        aggregators=sum(len(plan.aggregators) for plan, _ in carried),
        chunk_ps=sum(limit.chunk_ps for limit in allowed),
        differences=tuple(differences),
    )
    return measured, expected


def _dropped(network: VirtualNetwork) -> dict[int, list[LinkIncident]]:
    """Return first transmissions dropped by full queues so far, by job; each job of the network runs one round."""
    incidents: dict[int, list[LinkIncident]] = {}
    for ((node, port), destination, job), seen in network.incidents().items():
        if seen.queue_dropped:
            incidents.setdefault(job, []).append(
                LinkIncident(node, port, destination, Fate.QUEUE_DROPPED, seen.queue_dropped, seen.queue_dropped_bytes)
            )
    return incidents


# A round of one task: the data that its local models send, the expected sum, and the arrays for results.


NUMBERS: Final = FixedScale(2.0**20)
"""one fixed scale: no exponents are agreed first, so the time is that of a model up and a model down"""


@dataclass
class Round:
    """An installed task: its jobs, and the arrays that its local models send."""

    jobs: list[Job]
    """one job that pushes and pulls, or a job that pushes and one that pulls; or a ring"""
    inputs: Sequence[FloatArray]
    """arrays of the local models; for a ring, optionally also of its last host"""
    expected: ExpectedSum
    targets: FloatArray
    """float32, a row for each local model, and the last row for the global model"""
    operation: Operation | None = None
    """operation of the only job if it is one phase of several: PUSH, or PULL of the last row of ``targets``"""

    @property
    def weights(self) -> FloatArray:
        """Weights of the global model."""
        weights: FloatArray = self.targets[-1]
        return weights

    @property
    def carried(self) -> list[tuple[Plan, Operation]]:
        """The plans of the round, with the operation that each carries."""
        if self.jobs[0].plan.ring:
            return [(self.jobs[0].plan, Operation.ALL_REDUCE)]
        if self.operation:
            return [(self.jobs[0].plan, self.operation)]
        operations = [Operation.PUSH_PULL] if len(self.jobs) == 1 else [Operation.PUSH, Operation.PULL]
        return [(job.plan, operation) for job, operation in zip(self.jobs, operations, strict=True)]

    def total(self) -> FloatArray:
        """Return the sum that the global model got; PUSH_PULL turned its weights 0 into 0 - n * sum / n."""
        negative = self.carried[0][1] is Operation.PUSH_PULL
        return -self.weights if negative else self.weights.copy()

    def check(self) -> None:
        """Check the sum, and that all local models have the same weights, byte by byte. Raises ``ClusterError``."""
        plan = self.jobs[0].plan
        self.expected.deviation(self.total()).check(plan.name)
        if self.operation is Operation.PUSH:
            return
        for rank, worker in enumerate(plan.workers):
            if not np.array_equal(self.targets[rank].view(np.uint32), self.weights.view(np.uint32)):
                raise ClusterError(f"{plan.name}: {worker} got other weights than the global model has")


def drawn_round(jobs: list[Job], seed: int, elements: int, lanes: int) -> Round:
    """Return a round of random gradients, float32 of shape (elements,), which depend only on the seed."""
    plan = jobs[0].plan
    members = _local_models(plan)
    known = _expected_sum(seed, members, elements, lanes, in_network=plan.in_network)
    return Round(jobs, [_gradient(seed, rank, elements) for rank in range(members)], known, _targets(jobs, elements))


def given_round(jobs: list[Job], inputs: Sequence[FloatArray], lanes: int) -> Round:
    """Return a round with given arrays of the local models, float32 of one shape (elements,), in rank order."""
    expected = expect_sum(list(inputs), NUMBERS if jobs[0].plan.in_network else None, lanes)
    return Round(jobs, inputs, expected, _targets(jobs, inputs[0].size))


def _targets(jobs: Sequence[Job], elements: int) -> FloatArray:
    return np.zeros((_local_models(jobs[0].plan) + 1, elements), np.float32)


def _local_models(plan: Plan) -> int:
    """Return the number of local models: the last worker of a ring is the global model's host."""
    return len(plan.workers) - bool(plan.ring)


@lru_cache(maxsize=64)
def _gradient(seed: int, rank: int, elements: int) -> FloatArray:
    return tensor(seed, rank, 0, elements)


@lru_cache(maxsize=32)
def _expected_sum(seed: int, members: int, elements: int, lanes: int, *, in_network: bool) -> ExpectedSum:
    inputs = [_gradient(seed, rank, elements) for rank in range(members)]
    return expect_sum(inputs, NUMBERS if in_network else None, lanes)


QUEUE_FRAMES: Final = 1024
WARM_UP_PS: Final = 200_000_000
"""time of background traffic before the first task: 0.2 ms"""
MEASURED_PS: Final = 2_000_000_000
"""time for which utilisation is measured for the scheduler: 2 ms"""
MOST_TASKS: Final = 32
"""highest number of tasks in a network at a time, to limit the memory of endpoints"""
TWICE: Final = ("duplicate", "unexpected result")
"""reasons of a switch for refusing contributions and results that it already has"""
FIRST_JOB: Final = 1


class TaskNetwork:
    """The switches of a scenario, and rounds of tasks on them. Use as a context manager.

    With :meth:`run` tasks take turns: each round has the links to itself, except for background traffic, while the
    other tasks' trees are installed as well. Each round is thus compared with its bound, and all policies have the same
    conditions. With :meth:`run_at_once` all tasks begin at one time.

    Parameters
    ----------
    topology : Topology
        The network.
    program : P4Program
        Program of the switches.
    elements : int
        Model size, number of elements.
    load : float
        Load of background traffic (:meth:`~p4reduce.network.background.Demands.at_load`), 0: none.
    seed : int
        Seed of tensors and background traffic.
    """

    def __init__(
        self, topology: Topology, program: P4Program, *, elements: int, load: float = 0.0, seed: int = 0
    ) -> None:
        self.topology = topology
        self.elements, self.lanes, self.seed = elements, program.lanes, seed
        self._slots = program.slots
        self._background = Background("gravity", load, seed) if load else None
        self._expected: list[dict[Hop, Traffic]] = []
        self._switches = EmbeddedSwitches(topology, program)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._switches.close()

    def background(self) -> Loads:
        """Return the background load of every link, bit/s, measured on its packets; empty if there is none."""
        if self._background is None:
            return {}
        with self._network() as network:
            before, since = dict(network.fabric.links), network.now
            network.advance(since + MEASURED_PS)
            return link_loads(network.fabric, before, since)

    def run(self, decisions: Sequence[TreeDecision]) -> Iterator[RoundCounts]:
        """Run one round of every task, in their order.

        Raises
        ------
        ClusterError
            A round does not end, or a sum is wrong.
        """
        waiting = list(decisions)[::-1]
        while waiting:
            plans: list[tuple[TreeDecision, list[Plan]]] = []
            while waiting and len(plans) < MOST_TASKS:
                made = self._plan(waiting[-1], FIRST_JOB + 2 * len(plans), alone=not plans)
                if made is None:
                    break
                plans.append((waiting.pop(), made))
            yield from (measured for _, measured in self._run_installed(plans, None))

    def run_at_once(self, decisions: Sequence[TreeDecision]) -> tuple[list[int], RoundCounts]:
        """Run one round of every task, all beginning at the same time.

        Returns
        -------
        list of int and RoundCounts
            Time of each task, in their order, picoseconds; counts of all of them together.

        Raises
        ------
        PlanError
            There are no decisions, or the switches have too few slots for all of them with whole windows.
        ClusterError
            See :meth:`run`.
        """
        if not decisions:
            raise PlanError("no task to run")
        plans = self._plan_all(decisions)
        if len(plans) < len(decisions):
            self._release(plans)
            raise PlanError(
                f"slots for {len(plans)} of {len(decisions)} tasks; run_at_once() takes what fitting() leaves"
            )
        every = [plan for _, own in plans for plan in own]
        self._switches.controller.install_idle(every)
        with self._network() as network:
            rounds = self._rounds(network, plans)
            before, began = network.fabric.links.array(), network.now
            self._carry(network, rounds)
            for round_ in rounds:
                round_.check()
            done = [network.done_ps(round_.jobs[-1]) - began for round_ in rounds]
            carried = [what for round_ in rounds for what in round_.carried]
            measured = self._count(network, carried, before, max(done))
        self._switches.controller.uninstall_idle(every)
        return done, measured

    def fitting(self, decisions: Sequence[TreeDecision]) -> list[TreeDecision]:
        """Return the decisions that fit into the switches' slots together, with whole windows; earlier ones first."""
        plans = self._plan_all(decisions)
        self._release(plans)
        return [decision for decision, _ in plans]

    def add_up(self, decision: TreeDecision, inputs: Sequence[FloatArray]) -> tuple[FloatArray, RoundCounts]:
        """Run one round with given arrays of the local models.

        Parameters
        ----------
        decision : TreeDecision
            The trees of a task.
        inputs : sequence of float32, each of shape (elements,)
            Array of each local model, in rank order.

        Returns
        -------
        float32 of shape (elements,) and RoundCounts
            The sum that the global model got, and the counts of the round.
        """
        plans = self._plan(decision, FIRST_JOB, alone=True)
        assert plans is not None  # alone: a plan, or an error  # noqa: S101
        ((total, measured),) = self._run_installed([(decision, plans)], inputs)
        return total, measured

    def check_counters(self, *, resends: bool = False) -> list[str]:
        """Return differences between all predictions so far and the counters of the P4 program.

        If rounds take turns, nothing is sent twice, and nothing is refused. With ``resends`` a switch may refuse data
        that it already has, but nothing for another reason.
        """
        counters = self._switches.controller.read_counters()
        differences = compare_counters(self.topology, add({}, *self._expected), counters)
        for name, own in counters.items():
            refused = {reason: seen for reason, seen in own.refused.items() if not (resends and reason in TWICE)}
            if refused:
                differences.append(f"{name} refused {refused}")
        return differences

    # --- installing

    def _plan_all(self, decisions: Sequence[TreeDecision]) -> list[tuple[TreeDecision, list[Plan]]]:
        plans: list[tuple[TreeDecision, list[Plan]]] = []
        for decision in decisions:
            made = self._plan(decision, FIRST_JOB + 2 * len(plans), alone=False)
            if made is not None:
                plans.append((decision, made))
        return plans

    def _release(self, plans: Sequence[tuple[TreeDecision, list[Plan]]]) -> None:
        for _, own in plans:
            for plan in own:
                self._switches.controller.release(plan)

    def _plan(self, decision: TreeDecision, job: int, *, alone: bool) -> list[Plan] | None:
        """Return plans of a task beside the installed ones; None if there are too few free slots."""
        controller = self._switches.controller
        plans: list[Plan] = []
        try:
            requests = plan_requests(decision, job=job)
            # Two trees of a task share a switch's slots; the whole model is the most that can be in flight.
            most = min(power_of_two(2 * chunks(self.elements, self.lanes)), self._slots // power_of_two(len(requests)))
            for request in requests:
                plan = controller.plan(replace(request, max_slots=min(most, request.max_slots or most)))
                # Without aggregation, a larger window would only queue before the global model's link.
                plans.append(plan if plan.in_network or plan.ring else replace(plan, window=plan.window_needed))
        except PlanError:
            for plan in plans:
                controller.release(plan)
            if alone:
                raise
            return None
        if any(plan.slots_limited and plan.slots < most for plan in plans) and not alone:
            for plan in plans:
                controller.release(plan)
            return None
        return plans

    def _run_installed(
        self, plans: Sequence[tuple[TreeDecision, list[Plan]]], inputs: Sequence[FloatArray] | None
    ) -> Iterator[tuple[FloatArray, RoundCounts]]:
        every = [plan for _, own in plans for plan in own]
        self._switches.controller.install_idle(every)
        with self._network() as network:
            for round_ in self._rounds(network, plans, inputs):
                yield self._measure(network, round_)
        self._switches.controller.uninstall_idle(every)

    def _network(self) -> JobNetwork:
        """Return a network that begins at time 0; background traffic, if any, has run for WARM_UP_PS."""
        network = JobNetwork(self._switches, queue_frames=QUEUE_FRAMES, seed=self.seed, background=self._background)
        if self._background is not None:
            network.advance(WARM_UP_PS)
        return network

    def _rounds(
        self,
        network: JobNetwork,
        plans: Sequence[tuple[TreeDecision, list[Plan]]],
        inputs: Sequence[FloatArray] | None = None,
    ) -> list[Round]:
        rounds = []
        for _, own in plans:
            jobs = [network.add(plan, NUMBERS) for plan in own]
            if inputs is None:
                rounds.append(drawn_round(jobs, self.seed, self.elements, self.lanes))
            else:
                rounds.append(given_round(jobs, inputs, self.lanes))
        return rounds

    # --- one round

    def _measure(self, network: JobNetwork, round_: Round) -> tuple[FloatArray, RoundCounts]:
        before, began = network.fabric.links.array(), network.now
        self._carry(network, [round_])
        round_.check()
        return round_.total(), self._count(network, round_.carried, before, network.done_ps(round_.jobs[-1]) - began)

    def _count(self, network: JobNetwork, carried: Carried, before: NDArray[Any], lasted_ps: int) -> RoundCounts:
        predicted = predict_round(carried, self.elements)
        seen = links_since(network.fabric, before)
        if seen[0] != predicted:
            # Frames in flight belong to these rounds.
            network.advance(network.now + 2 * max(plan.rtt_ps for plan, _ in carried))
            seen = links_since(network.fabric, before)
        measured, expected = count_round(
            network.fabric, carried, self.elements, predicted=predicted, seen=seen, communication_ps=lasted_ps
        )
        self._expected.append(expected)
        return measured

    def _carry(self, network: JobNetwork, rounds: Sequence[Round]) -> None:
        """Run all rounds from now: gradients up and new weights down, chunk by chunk if one tree does both.

        With two trees, the broadcast of a task begins when its last upload is acknowledged.
        """
        clockwork = Clockwork(network)
        for round_ in rounds:
            self._begin(clockwork, round_, 0)
        try:
            clockwork.run()
        except ClusterError as error:
            names = ", ".join(round_.jobs[0].plan.name for round_ in rounds)
            raise ClusterError(f"{names} on {self.topology.name}: a round did not end: {error}") from None

    def _begin(self, clockwork: Clockwork, round_: Round, step: int) -> None:
        """Begin the operations of a round's job, and after them those of its next job."""
        left = len(round_.jobs[step].endpoints)

        def ended(_done_ps: int) -> None:
            nonlocal left
            left -= 1
            if not left and step + 1 < len(round_.jobs):
                self._begin(clockwork, round_, step + 1)

        for index, post in _posts(round_, step):
            clockwork.post(index, post, ended)


def _posts(round_: Round, step: int) -> Iterator[tuple[int, Post]]:
    """Yield the operations of the endpoints of a round's job."""
    job, weights = round_.jobs[step], round_.weights
    _, operation = round_.carried[step]
    if operation is Operation.ALL_REDUCE:
        given = list(round_.inputs)
        if len(given) < len(job.members):  # G's host is the last of the ring, and adds zeros
            given.append(np.zeros_like(given[0]))
        for worker, own, result in zip(job.plan.workers, given, round_.targets, strict=True):
            yield job.members[worker], Post(Collective.ALL_REDUCE, own, result)
        return
    assert job.server is not None  # noqa: S101
    for rank, worker in enumerate(job.plan.workers):
        source = None if operation is Operation.PULL else round_.inputs[rank]
        target = None if operation is Operation.PUSH else round_.targets[rank]
        yield job.members[worker], Post(Collective[operation.name], source, target)
    if operation is Operation.PUSH_PULL:
        # Weights 0 and a learning rate of n make the new weights minus the sum, which is known.
        yield job.server, Post(Collective.PUSH_PULL, None, weights, learning_rate=float(len(round_.inputs)))
    elif operation is Operation.PUSH:
        yield job.server, Post(Collective.PUSH, None, weights)
    else:
        yield job.server, Post(Collective.PULL, weights)


def task_network(settings: PosterSettings, scenario: TrafficScenario, topology: Topology, seed: int) -> TaskNetwork:
    """Return the network of a scenario, with a possibly changed topology, for the settings."""
    return TaskNetwork(
        topology,
        bundled(settings.lanes),
        elements=settings.elements,
        load=scenario.load,
        seed=seed,
    )
