"""Asynchronous parameter server: workers do not wait for each other, or for a bounded number of rounds only.

No new protocol: each worker has its own job with the server, and the server's endpoints of all these jobs update one
array of weights, chunk by chunk, as contributions arrive. A worker gets back the weights as they are at that moment.
"""

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count
from typing import Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from p4reduce.base.errors import ControllerError, PlanError
from p4reduce.control_plane.connection import BATCHES, JobGroup, batch_entries, group_size, lag_entry
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.entries import Entity, fingerprint, switches_on_paths
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.control_plane.plans.plan import Plan
from p4reduce.group.errors import ClusterError
from p4reduce.network.flow import FlowNetwork
from p4reduce.network.jobs.network import BLOCK, Job, JobNetwork
from p4reduce.network.jobs.specs import JobNumbers, chunk_times
from p4reduce.network.virtual import StopReason
from p4reduce.topologies.model import Hop
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, EndpointState

# Host activity in virtual time: calls at given times, and calls when an endpoint has done its operation.


Call = Callable[[], None]
Done = Callable[[int], None]
"""Called with the time at which the endpoint was done, virtual picoseconds."""


class CallClock(ABC):
    """Schedule of calls at given times; calls of the same time run in the order in which they were requested."""

    def __init__(self, network: JobNetwork | FlowNetwork) -> None:
        self._timed, self._order = network, count()
        self._calls: list[tuple[int, int, Call]] = []

    @abstractmethod
    def _busy(self) -> bool: ...

    @abstractmethod
    def _let_pass(self, until_ps: int | None, check: Call | None) -> None: ...

    def at(self, time_ps: int, call: Call) -> None:
        """Call at this time, or now if it is past."""
        heappush(self._calls, (max(time_ps, self._timed.now), next(self._order), call))

    def run(self, *, check: Call | None = None, until: Callable[[], bool] | None = None) -> None:
        """Run until no endpoint has anything to do, or until ``until()``, checked after every step, returns True.

        Raises ``ClusterError`` when an endpoint gives up or waits for ever.
        """
        while (self._calls or self._busy()) and not (until is not None and until()):
            self._let_pass(self._calls[0][0] if self._calls else None, check)
            while self._calls and self._calls[0][0] <= self._timed.now and not (until is not None and until()):
                heappop(self._calls)[2]()


class Clockwork(CallClock):
    """Driver of a `JobNetwork`: the hosts' side of several jobs that compute and communicate at the same time.

    The callbacks of endpoints that are done at one time run in the order of their indices.
    """

    def __init__(self, network: JobNetwork) -> None:
        super().__init__(network)
        self.network = network
        self._waiting: dict[int, Done] = {}
        self._serving: set[int] = set()

    def _busy(self) -> bool:
        return bool(self._waiting.keys() - self._serving)

    def post(self, index: int, operation: Post, then: Done) -> None:
        """Give an endpoint an operation that begins now; ``then`` is called when it is done."""
        self.network.post(index, operation)
        self._waiting[index] = then

    def announce(self, index: int, operation: Post) -> None:
        """Announce an endpoint's next operation: its exponents may travel with the present one."""
        self.network.announce(index, operation)

    def serve(self, index: int, operation: Post, then: Done) -> None:
        """Post an operation of a server; unlike after ``post``, a run may end while the server waits for others."""
        self.post(index, operation, then)
        self._serving.add(index)

    def _let_pass(self, until_ps: int | None, check: Call | None) -> None:
        reason = self.network.advance(until_ps, sorted(self._waiting), first=True, check=check)
        if reason is StopReason.QUIET and until_ps is None:
            waiting = ", ".join(self.network.hosts[index] for index in sorted(self._waiting))
            raise ClusterError(f"nothing moves any more, but these still wait: {waiting}")
        records = self.network.endpoints.records
        for index in sorted(self._waiting):
            state = EndpointState(int(records[index]["status"]))
            if state is EndpointState.FAILED:
                error = self.network.status(index).error
                raise ClusterError(f"{self.network.hosts[index]}: {error}")
            if state is not EndpointState.ACTIVE:
                self._serving.discard(index)
                self._waiting.pop(index)(int(records[index]["done_at"]))
                records = self.network.endpoints.records


PLAN: Final = "ps"
FloatArray = NDArray[np.float32]


class Staleness:
    """Rule by which workers may communicate: each is at most ``bound`` rounds ahead of the slowest; None: no bound.

    0 keeps workers in step, but the weights that a worker gets back need not hold the others' gradients of its round.
    """

    def __init__(self, workers: int, bound: int | None) -> None:
        if bound is not None and bound < 0:
            raise ValueError(f"staleness: {bound}, must be at least 0, or None for no bound")
        self.done = [0] * workers
        self.bound = bound
        self._watched = list(range(workers))

    def watch(self, ranks: Sequence[int]) -> None:
        """Count only these workers from now on, because the others have left."""
        self._watched = list(ranks)

    def may(self, rank: int) -> bool:
        """Return whether a worker may begin to communicate in its next round."""
        return self.bound is None or self.done[rank] - self.oldest <= self.bound

    @property
    def oldest(self) -> int:
        """The round of the slowest watched worker."""
        return min((self.done[rank] for rank in self._watched), default=0)

    @property
    def newest(self) -> int:
        """The round of the fastest worker."""
        return max(self.done)


@dataclass
class AsynchronousJob:
    """One job for each worker, all with one server, whose weights they share."""

    jobs: list[Job]
    weights: FloatArray

    @property
    def plans(self) -> list[Plan]:
        """The plans of the workers' jobs, in rank order."""
        return [job.plan for job in self.jobs]

    def worker(self, rank: int) -> int:
        """Return the endpoint of a worker."""
        (index,) = self.jobs[rank].members.values()
        return index

    def server(self, rank: int) -> int:
        """Return the endpoint of the server that answers a worker."""
        index = self.jobs[rank].server
        assert index is not None  # noqa: S101
        return index

    def uninstall(self, network: JobNetwork, controller: Controller) -> None:
        """Remove all jobs from the network and their plans from the controller."""
        for job in self.jobs:
            network.retire(job)
            controller.uninstall(job.plan)


def install(
    network: JobNetwork,
    controller: Controller,
    workers: Sequence[str],
    server: str,
    weights: FloatArray,
    *,
    first_job: int,
    priority: int | None = None,
    window: int | None = None,
    by_batch: bool = True,
) -> AsynchronousJob:
    """Install the jobs ``first_job``, ``first_job + 1``, ... of these workers, in rank order.

    by_batch: the jobs' senders know of each other (``JobNetwork.add``). Without it, they mistake the wait in a queue
    that they fill together for loss, as unrelated jobs do.

    Raises
    ------
    PlanError
        When ``first_job`` is no multiple of the group's size (a power of two): one match has to cover the group.
    ControllerError
        As ``Controller.install``; nothing stays installed then.
    """
    size = group_size(len(workers))
    if first_job % size:
        raise PlanError(f"first_job: {first_job}, must be a multiple of {size} for {len(workers)} workers")
    made = AsynchronousJob([], weights)
    try:
        for rank, worker in enumerate(workers):
            request = PlanRequest(
                PLAN, first_job + rank, workers=(worker,), server=server, priority=priority, window=window
            )
            made.jobs.append(network.add(controller.start_job(request), by_batch=by_batch, stranger=not by_batch))
    except (ControllerError, PlanError):
        made.uninstall(network, controller)
        raise
    return made


class StaleRounds:
    """Rounds of the workers of an `AsynchronousJob`; each begins as soon as the bound allows it (:class:`Staleness`).

    Parameters
    ----------
    clockwork : Clockwork
        Driver of the network that holds the job.
    job : AsynchronousJob
        Installed; its weights are where the rounds begin.
    bound : int or None
        Bound of the staleness.
    rate : float
        Factor by which a worker's gradient moves the weights; may change between rounds.
    rounds : int or None
        Rounds of each worker; None: the server takes part in as many rounds as there are.
    """

    def __init__(
        self, clockwork: Clockwork, job: AsynchronousJob, bound: int | None, rate: float, rounds: int | None = None
    ) -> None:
        self.clockwork, self.job, self.rate = clockwork, job, rate
        self.staleness = Staleness(len(job.jobs), bound)
        self.most_ahead = 0
        """Most rounds by which a worker was ahead of the slowest when it began to communicate."""
        self._rounds = rounds
        self._held: dict[int, tuple[FloatArray, FloatArray, Done]] = {}

    def serve(self, rank: int, number: int = 0) -> None:
        """Have the server take part in the rounds of a worker, from round ``number`` on."""
        if number != self._rounds:
            post = Post(Collective.PUSH_PULL, None, self.job.weights, number, learning_rate=self.rate)
            give = self.clockwork.serve if self._rounds is None else self.clockwork.post
            give(self.job.server(rank), post, lambda _done: self.serve(rank, number + 1))

    def ready(self, rank: int, source: FloatArray, target: FloatArray, then: Done) -> None:
        """Send a worker's gradient, or have it wait while the slowest worker is too far behind."""
        self._held[rank] = source, target, then
        self.release()

    def release(self) -> None:
        """Start the workers that the bound no longer holds back."""
        for rank in sorted(self._held):
            if self.staleness.may(rank):
                self._begin(rank, *self._held.pop(rank))

    def _begin(self, rank: int, source: FloatArray, target: FloatArray, then: Done) -> None:
        number = self.staleness.done[rank]
        self.most_ahead = max(self.most_ahead, number - self.staleness.oldest)
        self.job.jobs[rank].note("push_pull", source.size)

        def ended(done_ps: int) -> None:
            self.staleness.done[rank] += 1
            then(done_ps)
            self.release()

        self.clockwork.post(self.job.worker(rank), Post(Collective.PUSH_PULL, source, target, number), ended)


class TrainingWorker(Protocol):
    """Computation of a training's workers."""

    def compute_ps(self, rank: int, iteration: int) -> int:
        """Return the picoseconds that a worker computes in a round."""

    def gradient(self, rank: int, iteration: int, weights: FloatArray) -> FloatArray:
        """Return a round's gradient at the worker's weights; float32 of their shape, kept until it is sent."""

    def pulled(self, rank: int, iteration: int, done_ps: int, weights: FloatArray) -> None:
        """Take in the weights with which a worker continues after a round."""


Moved = Callable[[Sequence[int], int, int], None]
"""Called with the rounds done by each worker, the oldest and the newest of these rounds."""


class AsynchronousTraining:
    """Training of all workers of an `AsynchronousJob`, each at its own pace within the bound.

    Parameters
    ----------
    clockwork : Clockwork
        Driver of the network that holds the job.
    job : AsynchronousJob
        Installed; its weights are where training begins.
    worker : Worker
        Computation, and how long it takes.
    iterations : int
        Iterations of each worker.
    staleness : int or None
        The bound (:class:`Staleness`).
    learning_rate : float
        A worker's gradient moves the weights by ``learning_rate / workers`` times itself: a round of all workers is as
        large a step as a synchronous one.
    moved : callable
        Called whenever a round has ended.
    """

    def __init__(
        self,
        clockwork: Clockwork,
        job: AsynchronousJob,
        worker: TrainingWorker,
        *,
        iterations: int,
        staleness: int | None,
        learning_rate: float,
        moved: Moved | None = None,
    ) -> None:
        self._worker, self._iterations, self._moved = worker, iterations, moved
        self._rounds = StaleRounds(clockwork, job, staleness, learning_rate / len(job.jobs), iterations)
        self._own = [job.weights.copy() for _ in job.jobs]

    @property
    def staleness(self) -> Staleness:
        """Staleness rule, with the rounds of all workers."""
        return self._rounds.staleness

    @property
    def most_ahead(self) -> int:
        """Most rounds by which a worker was ahead (`StaleRounds`)."""
        return self._rounds.most_ahead

    def begin(self, at_ps: int = 0) -> None:
        """Have all workers begin to compute at ``at_ps``."""
        for rank in range(len(self._own)):
            self._rounds.serve(rank)
            self._compute(rank, at_ps)

    @property
    def finished(self) -> bool:
        """Whether all rounds of all workers are over."""
        return self.staleness.oldest == self._iterations

    def _compute(self, rank: int, now_ps: int) -> None:
        iteration, own = self.staleness.done[rank], self._own[rank]
        if iteration < self._iterations:
            gradient = self._worker.gradient(rank, iteration, own)

            def pulled(done_ps: int) -> None:
                self._worker.pulled(rank, iteration, done_ps, own)
                if self._moved is not None:
                    self._moved(self.staleness.done, self.staleness.oldest, self.staleness.newest)
                self._compute(rank, done_ps)

            ready_ps = now_ps + self._worker.compute_ps(rank, iteration)
            self._rounds.clockwork.at(ready_ps, lambda: self._rounds.ready(rank, gradient, own, pulled))


# The slowest worker goes first: classes by batch at hosts and in switches, during asynchronous training.


REBASE: Final = 4
"""Batches by which the oldest one advances before the controller rewrites the entries."""


class BatchOrder(Protocol):
    """Order that derives classes from the batches of one asynchronous job.

    Attributes
    ----------
    writes : int
        Entries written while the job ran, without the initial ones.
    """

    writes: int

    def moved(self, done: Sequence[int], oldest: int, newest: int) -> None:
        """Update classes after a round; ``done``: rounds of each worker."""

    def close(self) -> None:
        """Remove the entries."""


def group_of(job: AsynchronousJob, cell: int, base: int, most: int) -> JobGroup:
    """Return the group of a job's workers; their classes are base .. base + most."""
    plans = job.plans
    return JobGroup(plans[0].job, group_size(len(plans)), cell, plans[0].generation, base, most)


class _Hosts:
    """Classes at hosts: base + min(lag, most), set at once, because hosts know their rounds."""

    def __init__(self, clockwork: Clockwork, job: AsynchronousJob, group: JobGroup) -> None:
        self._network, self._job, self._group = clockwork.network, job, group

    def moved(self, done: Sequence[int], newest: int) -> None:
        for job, rounds in zip(self._job.jobs, done, strict=True):
            self._network.set_class(job, self._group.base + min(newest - rounds, self._group.most))


class SwitchOrder:
    """Order that switches compute themselves: one entry in each switch, and nothing to write while the job runs."""

    def __init__(self, clockwork: Clockwork, controller: Controller, job: AsynchronousJob, group: JobGroup) -> None:
        self.writes = 0
        self._hosts, self._controller = _Hosts(clockwork, job, group), controller
        self._entries: dict[str, Sequence[Entity]] = dict.fromkeys(_switches(job), (lag_entry(group),))
        _insert(controller, self._entries)

    def moved(self, done: Sequence[int], oldest: int, newest: int) -> None:
        """Update the classes at hosts; switches need no update."""
        del oldest
        self._hosts.moved(done, newest)

    def close(self) -> None:
        """Remove the entries."""
        for switch, entries in self._entries.items():
            self._controller.delete(switch, entries)


class ControllerOrder:
    """Order of a controller that writes a class for each of eight iterations, again when the oldest moves by
    ``rebase``.

    A write takes effect ``latency_ps`` later. ``staleness`` is the job's bound. Raises ControllerError if it is None or
    more than 8 - rebase: then batches that no entry tells apart may be in progress together.
    """

    def __init__(
        self,
        clockwork: Clockwork,
        controller: Controller,
        job: AsynchronousJob,
        group: JobGroup,
        *,
        staleness: int | None,
        latency_ps: int,
        rebase: int = REBASE,
    ) -> None:
        if staleness is None or rebase < 1 or staleness + rebase > BATCHES:
            raise ControllerError(
                f"staleness: {staleness}, rebase: {rebase}: entries tell {BATCHES} batches apart; "
                f"needed: staleness + rebase <= {BATCHES}, or order batches in the switches"
            )
        self.writes = 0
        self._clockwork, self._controller, self._group = clockwork, controller, group
        self._hosts = _Hosts(clockwork, job, group)
        self._latency_ps, self._rebase, self._span = latency_ps, rebase, staleness + rebase
        self._written = 0
        self._switches = _switches(job)
        entries = batch_entries(group, 0, self._span)
        self._there = {fingerprint(entry) for entry in entries}
        _insert(controller, dict.fromkeys(self._switches, entries))

    def moved(self, done: Sequence[int], oldest: int, newest: int) -> None:
        """Update hosts, and switches if the oldest batch has advanced far enough."""
        self._hosts.moved(done, newest)
        base = oldest - oldest % self._rebase
        if base > self._written:
            self._written = base
            self._clockwork.at(self._clockwork.network.now + self._latency_ps, lambda: self._write(base))

    def _write(self, oldest: int) -> None:
        """Write the entries whose class has changed."""
        entries = batch_entries(self._group, oldest, self._span)
        changed = [entry for entry in entries if fingerprint(entry) not in self._there]
        self._there = {fingerprint(entry) for entry in entries}
        for switch in self._switches:
            self._controller.modify(switch, changed)
        self.writes += len(changed) * len(self._switches)

    def close(self) -> None:
        """Remove the entries."""
        for switch in self._switches:
            self._controller.delete(switch, batch_entries(self._group, 0, self._span))


def _switches(job: AsynchronousJob) -> list[str]:
    """Return all switches that the job's frames pass, sorted."""
    return sorted({switch for plan in job.plans for switch in switches_on_paths(plan)})


def _insert(controller: Controller, entries: dict[str, Sequence[Entity]]) -> None:
    for switch, own in entries.items():
        controller.insert(switch, own)


# Channels: a task with several (job, epoch) pairs, each with its class, its slots and, on request, its tree.
#
# The layers of a model are mapped to channels. The first layers, which the next forward pass needs first, go to the
# channel of the highest class, so that an urgent gradient does not wait behind a large one. (P3, arXiv 1905.03960, and
# ByteScheduler, SOSP'19, slice tensors for this; here switches and hosts choose frame by frame.) Alternatively one
# large tensor is shared among channels whose trees use different spines.


@dataclass
class TaskChannels:
    """Jobs of one task, the most urgent first, with the queue of operations of each worker in each job."""

    clockwork: Clockwork
    jobs: list[Job]
    _waiting: dict[int, deque[tuple[Post, Done]]] = field(default_factory=dict)

    @classmethod
    def install(
        cls,
        clockwork: Clockwork,
        controller: Controller,
        request: PlanRequest,
        classes: Sequence[int | None],
        numbers: JobNumbers = BLOCK,
        *,
        apart: bool = False,
    ) -> Self:
        """Install a job for each class: ``request.job``, ``request.job + 1``, ... After an error none is left.

        apart: each tree avoids the links of the trees before it where it can (``PlanRequest.load``), so that together
        they have the rate of several spines.
        """
        made = cls(clockwork, [])
        load: Counter[Hop] = Counter(request.load)
        try:
            for place, priority in enumerate(classes):
                wanted = replace(request, job=request.job + place, priority=priority, load=dict(load))
                plan = controller.start_job(wanted)
                try:
                    made.jobs.append(clockwork.network.add(plan, numbers))
                except BaseException:
                    controller.uninstall(plan)
                    raise
                if apart:
                    load.update({hop: plan.topology.link_at(*hop).rate_bps for hop in chunk_times(plan)})
        except (ControllerError, PlanError, ValueError):
            made.uninstall(controller)
            raise
        return made

    @property
    def network(self) -> JobNetwork:
        """The network of the jobs."""
        return self.clockwork.network

    def post(self, worker: str, channel: int, operation: Post, then: Done) -> None:
        """Give a worker its next operation in a channel; it begins when the channel's earlier operations are done.

        All workers give a channel the same operations in the same order.
        """
        index = self.jobs[channel].members[worker]
        queue = self._waiting.setdefault(index, deque())
        queue.append((operation, then))
        if len(queue) == 1:
            self._begin(index)
        elif len(queue) == 2:
            self.clockwork.announce(index, operation)

    def _begin(self, index: int) -> None:
        operation, _ = self._waiting[index][0]
        self.clockwork.post(index, operation, lambda done_ps: self._ended(index, done_ps))

    def _ended(self, index: int, done_ps: int) -> None:
        queue = self._waiting[index]
        _, then = queue.popleft()
        if queue:
            self._begin(index)
        if len(queue) > 1:
            self.clockwork.announce(index, queue[1][0])
        then(done_ps)

    @property
    def idle(self) -> bool:
        """Whether no operation is in progress or queued in any channel."""
        records = self.network.endpoints.records
        working = any(int(records[i]["status"]) == EndpointState.ACTIVE for job in self.jobs for i in job.endpoints)
        return not working and not any(self._waiting.values())

    def uninstall(self, controller: Controller) -> None:
        """Remove all jobs from the network and their plans from the controller."""
        for job in self.jobs:
            self.network.retire(job)
            controller.uninstall(job.plan)


def channels_of(layers: Sequence[int], channels: int) -> list[int]:
    """Return the channel of each layer, 0 the most urgent; ``layers``: elements, in the order of the forward pass.

    Each channel gets a run of neighbouring layers. Frames of a channel wait for each other, so few elements should
    stand behind the first, most urgent layer of a run. Minimized is the largest such sum over the runs, then the sum of
    squares. O(channels * layers**2).

    Raises
    ------
    ValueError
        For no layers, or no channels.
    """
    count = len(layers)
    if count == 0 or channels < 1:
        raise ValueError(f"layers: {count}, channels: {channels}; needed: at least one of each")
    used = min(channels, count)
    total = np.concatenate([[0], np.cumsum(layers)])

    def behind(begin: int, end: int) -> int:
        return int(total[end] - total[begin + 1])

    # First find the largest run by itself: a prefix with a smaller largest run may have larger squares, and yet belong
    # to no optimum.
    least = [{0: 0}]
    for _ in range(used):
        candidates = {end: [max(worst, behind(begin, end)) for begin, worst in least[-1].items() if begin < end]
                      for end in range(1, count + 1)}  # fmt: skip
        least.append({end: min(options) for end, options in candidates.items() if options})
    largest = least[used][count]
    best: list[dict[int, tuple[int, int]]] = [{0: (0, 0)}]
    for _ in range(used):
        reached: dict[int, tuple[int, int]] = {}
        for end in range(1, count + 1):
            options = [
                (squares + behind(begin, end) ** 2, begin)
                for begin, (squares, _) in best[-1].items()
                if begin < end and behind(begin, end) <= largest
            ]
            if options:
                reached[end] = min(options)
        best.append(reached)
    ends, end = [], count
    for number in range(used, 0, -1):
        ends.append(end)
        end = best[number][end][1]
    starts = [0, *reversed(ends)]
    return [channel for channel in range(used) for _ in range(starts[channel], starts[channel + 1])]
