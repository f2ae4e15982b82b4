"""Endpoints of a plan's hosts: chunks in flight, send rate and retransmission times."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.plans.make import HOST_WINDOW
from p4reduce.control_plane.plans.problem import ACK_EVERY, with_margin
from p4reduce.control_plane.plans.routes import HEADER_BYTES, frame_time_ps
from p4reduce.group.backend import FloatArray
from p4reduce.group.errors import ClusterError
from p4reduce.topologies.model import Hop
from p4reduce.workers.endpoints import REACH
from p4reduce.workers.numbers import EXCESS, BlockFloat, FixedScale, Numbers, bits_left, float32_rounding
from p4reduce.workers.records import Collective
from p4reduce.workers.specs import (
    MAX_RING_WINDOW,
    AllToAllSpec,
    Congestion,
    EndpointSpec,
    HostAddress,
    PsServerSpec,
    PsWorkerSpec,
    RingSpec,
    ServerSpec,
    Timing,
    WorkerSpec,
)
from p4switch.base.values import PS_PER_MS, PS_PER_S, PS_PER_US

# Check of sums against float64: the exact result of an all-reduce, and the allowed deviation.


Doubles = npt.NDArray[np.float64]
UNIT_ROUNDOFF = 2.0**-24
"""Unit roundoff of float32, round to nearest."""
BLOCK_CHUNKS = 128
"""Chunks processed together, so that temporaries stay in the cache."""


@dataclass(frozen=True)
class Deviation:
    """The distance of a result from the exact sum."""

    max_error: float
    """Largest error of any element."""
    error_bound: float
    """Largest bound of any element."""
    worst_ratio: float
    """Largest error / bound of an element; at most 1 unless something saturated."""

    def check(self, what: str) -> None:
        """Raise `ClusterError` if an element exceeds its error bound; ``what`` names the sum."""
        if self.worst_ratio > 1:
            raise ClusterError(
                f"{what}: an element is {self.worst_ratio:.3g} times its documented error bound away from the exact sum"
            )


@dataclass(frozen=True)
class ExpectedSum:
    """The expected sum, computed before results overwrite the inputs."""

    exact: Doubles
    """Shape (elements,): sum over workers in float64."""
    magnitude: FloatArray
    """Shape (elements,): largest |x| of any worker."""
    numbers: Numbers | None
    lanes: int
    """Elements of a chunk."""
    members: int
    guessed: int = 0
    """First chunks whose exponents may be up to ``EXCESS`` bits larger than needed."""
    poisoned: npt.NDArray[np.bool_] | None = None
    """Shape (elements,): where the sum must not be finite; with `BlockFloat`, the whole chunk of such a number."""

    def deviation(self, result: FloatArray) -> Deviation:
        """Return the distance of ``result`` (float32, shape (elements,)) from the exact sum.

        Poisoned elements that are not finite have no error; if any of them is finite, the error is infinite.
        """
        if self.poisoned is not None:
            if np.isfinite(result[self.poisoned]).any():
                return Deviation(np.inf, 0.0, np.inf)
            result = np.where(self.poisoned, np.float32(0), result)
        step = BLOCK_CHUNKS * self.lanes
        parts = [self._deviation(result, slice(first, first + step)) for first in range(0, result.size, step)]
        return Deviation(
            max(part.max_error for part in parts),
            max(part.error_bound for part in parts),
            max(part.worst_ratio for part in parts),
        )

    def _deviation(self, result: FloatArray, part: slice) -> Deviation:
        error = np.abs(result[part].astype(np.float64) - self.exact[part])
        bound = self._bound(self.magnitude[part])
        bound[: max(0, self.guessed * self.lanes - part.start)] *= 2.0**EXCESS
        bound += float32_rounding(result[part])
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(bound > 0, error / bound, np.where(error > 0, np.inf, 0.0))
        return Deviation(float(error.max()), float(bound.max()), float(ratio.max()))

    def _bound(self, magnitude: FloatArray) -> Doubles:
        """Largest allowed error of each element, the rounding of the result itself not counted.

        Hosts add float32 in a fixed order: (n-1) u / (1 - (n-1) u) * sum |x| (Higham, Accuracy and Stability of
        Numerical Algorithms, 2nd ed., eq. 4.4), with n * max |x| for the sum.
        """
        total = self.members * magnitude.astype(np.float64)
        slack = self.members * 2.0**-53 * total  # rounding of the float64 reference sum
        if isinstance(self.numbers, BlockFloat):
            return _block_bound(magnitude, self.lanes, self.members, self.numbers) + slack
        if isinstance(self.numbers, FixedScale):
            return np.asarray(self.members * self.numbers.most_off / self.numbers.factor + slack)
        steps = (self.members - 1) * UNIT_ROUNDOFF
        return np.asarray(steps / (1 - steps) * total + slack)


def expect_sum(inputs: list[FloatArray], numbers: Numbers | None, lanes: int, *, guessed: int = 0) -> ExpectedSum:
    """Add ``inputs`` (float32, shape (elements,) each); ``numbers``: how the network adds, None for hosts' float32.

    lanes: elements of a chunk. guessed: first chunks whose exponents may differ from those of these inputs.
    """
    exact = np.zeros(inputs[0].size, np.float64)
    magnitude = np.zeros(inputs[0].size, np.float32)
    step = BLOCK_CHUNKS * lanes
    for first in range(0, exact.size, step):
        part = slice(first, first + step)
        for array in inputs:
            if not _all_finite(array[part]):
                return _expect_poisoned(inputs, numbers, lanes, guessed)
            exact[part] += array[part]
            np.maximum(magnitude[part], np.abs(array[part]), out=magnitude[part])
    return ExpectedSum(exact, magnitude, numbers, lanes, len(inputs), guessed)


def _expect_poisoned(inputs: list[FloatArray], numbers: Numbers | None, lanes: int, guessed: int) -> ExpectedSum:
    """Return the expected sum if some numbers are not finite."""
    poisoned = ~np.logical_and.reduce([np.isfinite(array) for array in inputs])
    if isinstance(numbers, BlockFloat):
        chunks = np.add.reduceat(poisoned, np.arange(0, poisoned.size, lanes)) > 0
        poisoned = np.repeat(chunks, lanes)[: poisoned.size]
    clean = [np.where(poisoned, np.float32(0), array) for array in inputs]
    return replace(expect_sum(clean, numbers, lanes, guessed=guessed), poisoned=poisoned)


def _all_finite(array: FloatArray) -> bool:
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(np.dot(array, array))) or bool(np.isfinite(array).all())


@dataclass(frozen=True)
class ExpectedWords:
    """Expected sum of int32."""

    exact: npt.NDArray[np.int64]

    def deviation(self, result: FloatArray) -> Deviation:
        """Zero if the sum is exact, else infinite: integers may have no error."""
        same = bool(np.array_equal(result.view(np.int32), self.exact))
        return Deviation(0.0, 0.0, 0.0) if same else Deviation(np.inf, 0.0, np.inf)


def expect_words(inputs: list[FloatArray]) -> ExpectedWords:
    """Add ``inputs``: int32 bit patterns in float32 arrays, shape (elements,) each."""
    return ExpectedWords(np.sum([array.view(np.int32) for array in inputs], axis=0, dtype=np.int64))


@dataclass(frozen=True)
class ExpectedParts:
    """Expected sums of the parts of an array that are carried separately, in order."""

    parts: Sequence[tuple[slice, ExpectedSum | ExpectedWords]]

    def deviation(self, result: FloatArray) -> Deviation:
        """Return the largest deviation over all parts."""
        deviations = [expected.deviation(result[where]) for where, expected in self.parts]
        return Deviation(
            max(deviation.max_error for deviation in deviations),
            max(deviation.error_bound for deviation in deviations),
            max(deviation.worst_ratio for deviation in deviations),
        )


def exchanged(inputs: Sequence[FloatArray]) -> list[FloatArray]:
    """Return the arrays, by rank, that result from an all-to-all of float32 arrays, shape (elements,) each."""
    size = len(inputs)
    block = inputs[0].size // size
    return [np.concatenate([array.reshape(size, block)[rank] for array in inputs]) for rank in range(size)]


def _block_bound(magnitude: FloatArray, lanes: int, members: int, numbers: BlockFloat) -> Doubles:
    """Return n * 2**(e+h-31) with each chunk's exponent e, or the analogue for narrower lanes (workers/numbers.py)."""
    chunks = -(-magnitude.size // lanes)
    padded = np.zeros(chunks * lanes, np.float32)
    padded[: magnitude.size] = magnitude
    words = padded.view(np.uint32).reshape(chunks, lanes).max(axis=1).astype(np.int64)
    exponents = np.where(words == 0, 0, (words >> 23) + 1) - 127
    free = bits_left(numbers.bits, members)
    bound = np.where(words == 0, 0.0, members * np.exp2((exponents - free).astype(np.float64)) * numbers.most_off)
    return np.asarray(np.repeat(bound, lanes)[: magnitude.size])


PATIENCE_PS: Final = 60 * 1000 * PS_PER_MS
"""Virtual time without any answer after which a worker gives up: others may compute for that long."""
DRIFT: Final = 8
"""Windows by which one worker of the host-side parameter server may be ahead of another."""
REORDER: Final = 3
"""Number of chunks that must overtake a chunk before a worker takes it for missing."""
JobNumbers = BlockFloat | FixedScale
"""Number formats of lanes that the network can add up."""


def endpoint_specs(
    plan: Plan,
    numbers: JobNumbers | None,
    *,
    queue_frames: int,
    first_seq: int = 0,
    timing: Timing | None = None,
    congestion: Congestion | None = None,
    lead: int | None = None,
    terms: int | None = None,
) -> Iterator[tuple[str, EndpointSpec]]:
    """Yield the endpoint of every host of a plan: its workers in rank order, then its server if there is one.

    numbers: required by plans that aggregate in the network. timing: default is that of the plan's links. congestion:
    default is the plan's window, paced for its busiest link. lead, terms: as in ``WorkerSpec``; default is the plan's.
    """
    restrained = congestion is None or congestion.adaptive
    sends = timing or timing_of(plan), congestion or Congestion(pace_ps=pace_of(plan))
    common = _Common(job=plan.job, epoch=plan.epoch, lanes=plan.lanes, first_seq=first_seq, priority=plan.priority or 0)
    if plan.ring:
        yield from _of_ring(plan, common, *sends)
    elif plan.mesh:
        yield from _of_mesh(plan, common, *sends)
    elif plan.in_network:
        assert numbers is not None  # noqa: S101
        for host, spec in _of_tree(plan, numbers, common, *sends):
            yield host, replace(spec, lead=lead or plan.lead, terms=terms)
    else:
        yield from _of_star(plan, ps_window(plan, queue_frames, restrained=restrained), common, *sends)


def guesses_of(plan: Plan, numbers: JobNumbers | None) -> int:
    """Return how many first chunks of an all-reduce may have their exponents guessed by workers; 0: no guesses.

    Each guess costs a frame without lanes, and some are wrong, so there are only as many as a round trip needs.
    """
    if not isinstance(numbers, BlockFloat) or not numbers.speculates or plan.deadline_ps is not None:
        return 0
    return min(plan.lead, with_margin(plan.window_needed))


def peer_address(plan: Plan, host: str, peer: str) -> HostAddress:
    """Return the address, with token, to which a host's endpoint sends its frames for a neighbour of the overlay."""
    address = plan.address(host, peer)
    return HostAddress(address.mac, address.ip, address.udp, plan.token(host, peer))


def parent_address(plan: Plan, worker: str) -> HostAddress:
    """Return the address that a worker contributes to; its own if it is a relay and the root."""
    if plan.relays and worker == plan.root:
        return link_address(plan, worker)
    return peer_address(plan, worker, plan.up(worker).name)


def link_address(plan: Plan, host: str) -> HostAddress:
    """Return a host's own address."""
    node = plan.topology.node(host)
    return HostAddress(node.mac, node.ip)


def server_peers(plan: Plan) -> tuple[HostAddress, ...]:
    """Return the peers of a plan's server: the root switch, or every worker; empty if the plan has no server."""
    if plan.server is None:
        return ()
    below = [plan.root] if plan.in_network else plan.workers
    return tuple(peer_address(plan, plan.server, name) for name in below)


class _Common(TypedDict):
    job: int
    epoch: int
    lanes: int
    first_seq: int
    priority: int


Made = Iterator[tuple[str, EndpointSpec]]


def _of_tree(
    plan: Plan, numbers: JobNumbers, common: _Common, timing: Timing, congestion: Congestion
) -> Iterator[tuple[str, WorkerSpec | ServerSpec]]:
    slots, members = plan.slots, len(plan.workers)
    below = {relay.name: tuple(child.name for child in relay.children) for relay in plan.relays}
    for host in plan.workers:
        yield (
            host,
            WorkerSpec(
                link_address(plan, host),
                parent_address(plan, host),
                slots=slots,
                window=plan.window,
                deadline_ps=plan.deadline_ps,
                levels=plan.aggregators[-1].level + 1 if plan.deadline_ps is not None else 1,
                children=tuple(peer_address(plan, host, child) for child in below.get(host, ())),
                members=members,
                numbers=numbers,
                guesses=guesses_of(plan, numbers),
                timing=timing,
                congestion=congestion,
                **common,
            ),
        )
    if plan.server is not None:
        own, (root,) = link_address(plan, plan.server), server_peers(plan)
        yield plan.server, ServerSpec(own, root, slots=slots, members=members, numbers=numbers, **common)


def _of_ring(plan: Plan, common: _Common, timing: Timing, congestion: Congestion) -> Made:
    size = len(plan.ring)
    for host in plan.workers:
        rank, own = plan.ring.index(host), link_address(plan, host)
        after, before = plan.ring[(rank + 1) % size], plan.ring[rank - 1]
        yield (
            host,
            RingSpec(
                own,
                *(own if size == 1 else peer_address(plan, host, other) for other in (after, before)),
                rank=rank,
                size=size,
                window=min(max(plan.window, ACK_EVERY + 1), MAX_RING_WINDOW),
                ack_every=ACK_EVERY,
                timing=timing,
                congestion=congestion,
                **common,
            ),
        )


def _of_mesh(plan: Plan, common: _Common, timing: Timing, congestion: Congestion) -> Made:
    size = len(plan.workers)
    for rank, host in enumerate(plan.workers):
        others = (plan.workers[(rank + step) % size] for step in range(1, size))
        yield (
            host,
            AllToAllSpec(
                link_address(plan, host),
                tuple(peer_address(plan, host, other) for other in others),
                rank=rank,
                window=min(max(plan.window, ACK_EVERY + 1), MAX_RING_WINDOW),
                ack_every=ACK_EVERY,
                timing=timing,
                congestion=congestion,
                **common,
            ),
        )


def _of_star(plan: Plan, window: int, common: _Common, timing: Timing, congestion: Congestion) -> Made:
    members = len(plan.workers)
    # With loss, workers drift apart; a server that remembers more chunks lets the fast ones continue.
    remembered = max(window, min(DRIFT * window, HOST_WINDOW // members))
    reach = min(REACH * window, remembered)
    for host in plan.workers:
        own, server = link_address(plan, host), parent_address(plan, host)
        yield (
            host,
            PsWorkerSpec(
                own,
                server,
                window=window,
                reach=reach,
                members=members,
                timing=timing,
                congestion=congestion,
                **common,
            ),
        )
    assert plan.server is not None  # noqa: S101
    yield plan.server, PsServerSpec(link_address(plan, plan.server), server_peers(plan), window=remembered, **common)


_QUESTION: Final = 8
"""Least spacing of questions sent by time, in transmission times of a question."""


def timing_of(plan: Plan, ahead_ps: int = 0, *, overtaken: bool = False) -> Timing:
    """Return the time-outs for a plan: a few round trips, and for rings and meshes also the queueing of a window.

    ahead_ps: time that frames of jobs of other classes may add (:func:`~p4reduce.network.jobs.specs.ahead_ps`).
    overtaken: whether its chunks may overtake each other, because their class changes on their way.

    Time-outs grow little: an endpoint that waits for a worker that still computes asks again now and then, and
    continues at once when the contribution comes. A worker gives up after about ``PATIENCE_PS`` without any answer.
    """
    chunk_ps = plan.chunk_ps
    if plan.in_network:  # a tree paced to a share of the links has its chunks wait at their worker, not in a queue
        chunk_ps = min(chunk_ps, max(chunk_times(plan).values(), default=chunk_ps))
    queued = plan.rtt_ps + plan.window * chunk_ps + ahead_ps
    longest = max(10 * PS_PER_MS, 20 * queued)
    if not plan.ring and not plan.mesh:
        return Timing(
            initial_ps=min(4 * queued, longest),
            min_ps=min(4 * plan.rtt_ps + 2 * ahead_ps, longest),
            max_ps=longest,
            retries=max(16, PATIENCE_PS // longest),
            reorder=None if overtaken else REORDER,
            question_ps=question_time_ps(plan),
        )
    return Timing(
        initial_ps=max(PS_PER_MS, 4 * queued),
        min_ps=max(50 * PS_PER_US, 2 * queued),
        max_ps=longest,
        retries=max(16, PATIENCE_PS // longest),
        reorder=None if overtaken else Timing.reorder,
    )


def question_time_ps(plan: Plan) -> int:
    """Return the least time between a worker's timed questions, ps: they take 1 / ``_QUESTION`` of its send rate."""
    bare, full = (frame_time_ps(length, PS_PER_S) for length in (HEADER_BYTES, plan.frame_bytes))
    return _QUESTION * plan.chunk_ps * bare // full


def pace_of(plan: Plan) -> int:
    """Return the time between chunks for workers with links faster than the plan's busiest one, ps; otherwise 0."""
    if plan.ring:
        return 0  # acknowledgements pace a ring
    if plan.mesh:
        return plan.chunk_ps // max(1, len(plan.workers) - 1)
    links = (plan.topology.link_at(worker, 1) for worker in plan.workers)
    quickest = min(frame_time_ps(plan.frame_bytes, link.rate_bps) for link in links)
    return plan.chunk_ps if plan.chunk_ps > quickest else 0


def ps_window(plan: Plan, queue_frames: int, *, restrained: bool) -> int:
    """Return the chunks in flight of each worker of the host-side parameter server.

    The window is what the round trip needs, as in trees, and at least a share of the queue before the server's link.
    Workers that are not ``restrained``, neither paced nor adaptive, would fill that queue with more than their share.
    The window is also limited by the number of chunks that the server keeps for all its workers.
    """
    workers = len(plan.workers)
    share = queue_frames // workers
    enough = max(share, with_margin(plan.window_needed)) if restrained else share
    return max(1, min(plan.window, enough, HOST_WINDOW // workers))


# How long the frames of a job may wait for those of others.
#
# Senders must not take that wait for loss: their retransmissions make the others wait longer, or are useless.
#
# Where classes differ, a lower class waits for as long as there are frames of higher ones. So the least time-out of a
# job covers the frames that may stand before one of its own on every link of its path: the windows of all jobs of its
# class, and everything that jobs of higher classes send in one operation, since their windows move on while it waits.
# (With the windows alone, four channels of a model sent a twentieth of their frames again.)
#
# Where all jobs on its links have one class, queues are first come, first served, and round trips show their length,
# but too late: windows that open at once fill a queue before the first round trips are measured. So the first question
# for a chunk that is missing by time comes later, by the time that the windows of active jobs may add. The detection of
# loss by order and the repetition of questions do not change.


def chunk_times(plan: Plan) -> dict[Hop, int]:
    """Return the time, ps, for which a chunk of a plan, up and down, occupies each directed link."""
    copies: Counter[Hop] = Counter()
    for a, b in plan.edges:
        copies.update(plan.path_hops(a, b))
        if not plan.ring and not plan.mesh:  # frames back to a ring or mesh neighbour have no lanes
            copies.update(plan.path_hops(b, a))
    return {
        hop: count * frame_time_ps(plan.frame_bytes, plan.topology.link_at(*hop).rate_bps)
        for hop, count in copies.items()
    }


_UP: Final = {Collective.ALL_REDUCE, Collective.PUSH, Collective.PUSH_PULL, Collective.ALL_TO_ALL}
"""Collectives whose lanes go up; ``_DOWN``: down."""
_DOWN: Final = {Collective.ALL_REDUCE, Collective.PULL, Collective.PUSH_PULL}


_MEETING: Final = 2
"""Chunks of a tree that may stand before another tree's of the same tensor at a link, although both are paced."""


@dataclass
class Occupant:
    """A job's possible share of its links' queues, and the lowest and highest class that it has had so far."""

    plan: Plan
    window: int
    """Chunks that a sender has in flight (``window`` of its endpoint)."""
    lowest: int
    highest: int
    burst: int = 0
    """Chunks of its largest operation so far."""
    always: bool = False
    """Whether its time-outs cover other jobs even if all have one class."""
    room: int = 0
    """Most chunks with lanes that a sender has in flight (``room`` of its endpoint)."""
    knows: bool = True
    """Whether it waits longer for its chunks while other jobs of its class are active."""
    under_way: Collective | None = None
    """Present collective of its workers; None: none."""

    @cached_property
    def times(self) -> dict[Hop, int]:
        """Time, ps, for which a chunk occupies each of its links."""
        return chunk_times(self.plan)

    @cached_property
    def ways(self) -> list[list[Hop]]:
        """For each worker of a tree, the queues that its chunk and the answer pass (without that at its own link)."""
        if self.plan.ring or self.plan.mesh:
            return []
        return [[hop for hop in _there_and_back(self.plan, own) if hop[0] != own] for own in self.plan.workers]

    @property
    def source(self) -> tuple[int, frozenset[str]]:
        """Key made of its class and the hosts whose links its lanes cross first."""
        return self.highest, frozenset(self.plan.workers)

    def queued(self) -> Mapping[Hop, int]:
        """Return the time, ps, for which the job's window may keep each of its links busy."""
        return {} if self.under_way is None else self._filled[self.under_way in _UP, self.under_way in _DOWN]

    def meeting(self) -> Mapping[Hop, int]:
        """Return how long, ps, its chunks that may meet those of its tensor's other trees keep each link busy."""
        return {hop: min(_MEETING, self.room) * time // self.room for hop, time in self.queued().items() if time}

    def paced(self) -> Mapping[Hop, int]:
        """Return the part of :meth:`queued` on links that drain as fast as the workers' own links deliver."""
        if self.under_way not in _UP or self.plan.ring or self.plan.mesh:
            return {}
        busy_ps = self.queued()
        slowest = max(busy_ps[own, 1] for own in self.plan.workers)
        return {hop: time for hop, time in busy_ps.items() if time <= slowest}

    @cached_property
    def _filled(self) -> dict[tuple[bool, bool], Mapping[Hop, int]]:
        return {(up, down): self._fill(up=up, down=down) for up in (False, True) for down in (False, True)}

    def _fill(self, *, up: bool, down: bool) -> Mapping[Hop, int]:
        plan, busy_ps = self.plan, Counter[Hop]()
        back = down and not (plan.ring or plan.mesh)  # frames back to a ring or mesh neighbour have no lanes
        for a, b in plan.edges:
            for hops, full in ((plan.path_hops(a, b), up), (plan.path_hops(b, a), back)):
                length = plan.frame_bytes if full else HEADER_BYTES
                for hop in hops:
                    busy_ps[hop] += self.room * frame_time_ps(length, plan.topology.link_at(*hop).rate_bps)
        return busy_ps


def ahead_ps(own: Occupant, others: Iterable[Occupant]) -> int:
    """Return how long, ps, a chunk may wait for other jobs, both ways; 0 if all have one class, unless ``always``."""
    sharing = [other for other in others if not own.times.keys().isdisjoint(other.times)]
    same_class = all((other.lowest, other.highest) == (own.lowest, own.lowest) for other in (own, *sharing))
    if same_class and not own.always:
        return 0
    waiting: Counter[Hop] = Counter()
    for other in sharing:
        if other.highest >= own.lowest:
            chunks = max(other.window, other.burst) if other.highest > own.lowest else other.window
            waiting.update({hop: chunks * time for hop, time in other.times.items() if hop in own.times})
    return max((_both_ways(own.plan, worker, waiting) for worker in own.plan.workers), default=0)


class Cover(NamedTuple):
    """Time, ps, for which other active jobs of the same class may keep a chunk of a job waiting."""

    all_ps: int = 0
    """Wait caused by all other jobs."""
    switches_ps: int = 0
    """Wait in queues of switches; a host serves its endpoints in turn, and has no such queue."""
    strangers_ps: int = 0
    """Wait caused by jobs that carry other tensors; the trees of one tensor are paced so that all fit on links."""


def covers(occupants: Sequence[Occupant]) -> list[Cover]:
    """Return the cover of each job, in the order of ``occupants``.

    Jobs of the same workers that contribute lanes arrive no faster than these workers' links allow, and fill no queue
    of a switch. Jobs whose class has changed get 0: their least time-outs cover the wait.
    """
    windows: dict[object, Counter[Hop]] = {}
    for occupant in occupants:
        windows.setdefault(occupant.highest, Counter()).update(occupant.queued())
        windows.setdefault(occupant.source, Counter()).update(occupant.paced())
    by_id: dict[int, Cover] = {}
    for trees in _together(occupants):
        queued, paced, meeting = trees[0].queued(), trees[0].paced(), trees[0].meeting()
        if len(trees) > 1:
            queued, paced, meeting = Counter(queued), Counter(paced), Counter(meeting)
            for tree in trees[1:]:
                queued.update(tree.queued())
                paced.update(tree.paced())
                meeting.update(tree.meeting())
        for occupant in trees:
            by_id[id(occupant)] = _cover_of(
                occupant, windows[occupant.highest], windows[occupant.source], queued, paced, meeting
            )
    return [by_id[id(occupant)] for occupant in occupants]


def _cover_of(
    occupant: Occupant,
    every: Mapping[Hop, int],
    alike: Mapping[Hop, int],
    queued: Mapping[Hop, int],
    paced: Mapping[Hop, int],
    meeting: Mapping[Hop, int],
) -> Cover:
    """Return the cover of one job. The mappings say for how long windows may keep each link busy, ps.

    every: windows of all jobs of its class. alike: the part of ``every`` that its own workers' links let in. queued,
    paced: the shares of the trees of its own tensor in ``every`` and ``alike``. meeting: chunks of these trees that may
    meet.
    """
    if occupant.under_way is None or not occupant.knows or occupant.lowest != occupant.highest:
        return Cover()
    own = occupant.meeting()
    most, most_strangers = (0, 0), 0
    for way in occupant.ways:
        waits = [(hop, every[hop] - queued.get(hop, 0)) for hop in way]
        strangers = sum(wait for _, wait in waits)
        beside = sum(meeting.get(hop, 0) - own.get(hop, 0) for hop in way)
        in_switches = sum(
            wait - alike[hop] + paced.get(hop, 0) for hop, wait in waits if hop[0] != occupant.plan.server
        )
        most = max(most, (strangers + beside, in_switches))
        most_strangers = max(most_strangers, strangers)
    return Cover(*most, most_strangers)


def _together(occupants: Sequence[Occupant]) -> list[list[Occupant]]:
    """Group the jobs: one group for each set of trees that carry a tensor together, one for every other job."""
    groups: dict[object, list[Occupant]] = {}
    for occupant in occupants:
        plan = occupant.plan
        alone = plan.part[1] == plan.part[2]
        groups.setdefault(
            id(occupant) if alone else (plan.name, plan.workers, occupant.highest, plan.part[2]), []
        ).append(occupant)
    together = []
    for group in groups.values():
        # Trees of two tensors in progress together are not paced together.
        several = len({occupant.plan.part for occupant in group}) < len(group)
        together += [[occupant] for occupant in group] if several else [group]
    return together


def _both_ways(plan: Plan, worker: str, waiting: Mapping[Hop, int]) -> int:
    """Sum ``waiting`` over a worker's chunk path, up and back; in a ring to the next rank, in a mesh the worst peer."""
    if plan.mesh:
        return max(_along(plan.path_hops(a, b), waiting) for a, b in plan.edges if a == worker)
    if plan.ring:
        return _along(plan.path_hops(worker, dict(plan.edges)[worker]), waiting) if plan.edges else 0
    return _along(_there_and_back(plan, worker), waiting)


def _there_and_back(plan: Plan, worker: str) -> Iterator[Hop]:
    """Yield the links that a worker's chunk and its answer cross in a tree."""
    above, name = dict(plan.edges), worker
    while name in above:
        yield from plan.path_hops(name, above[name])
        yield from plan.path_hops(above[name], name)
        name = above[name]


def _along(hops: Iterable[Hop], waiting: Mapping[Hop, int]) -> int:
    return sum(waiting.get(hop, 0) for hop in hops)
