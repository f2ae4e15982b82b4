"""Channels: a task that holds several (job, epoch) pairs, each with its class, its slots and, if wanted, its own tree.

Layers of a model go to channels, the first layers, which the next forward pass needs first, to that of the highest
class; so a gradient that is needed soon does not wait behind a large one that is not. (P3, arXiv 1905.03960, and
ByteScheduler, SOSP'19, slice tensors for this; here switches and hosts choose frame by frame.) Or one large tensor is
shared among channels whose trees lie over different spines.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.errors import ControllerError, PlanError
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.network.jobs.asynchronous import Clockwork, Done
from p4reduce.network.jobs.network import BLOCK, Job, JobNetwork
from p4reduce.network.jobs.specs import Numbers, chunk_times
from p4reduce.topologies.model import Hop
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, State

FloatArray = NDArray[np.float32]


@dataclass
class Channels:
    """The jobs of one task, the most urgent first, and what waits for its turn in each at each worker."""

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
        numbers: Numbers = BLOCK,
        *,
        apart: bool = False,
    ) -> Self:
        """Install a job for each class: ``request.job``, ``request.job + 1``, ... After an error none of them is left.

        apart: each tree keeps off the links of those before where it can (``PlanRequest.load``), so that together they
        have the rate of several spines.
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
        """Where they are."""
        return self.clockwork.network

    def post(self, worker: str, channel: int, operation: Post, then: Done) -> None:
        """Give a worker its next operation in a channel; it begins when those before it there are done.

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

    def all_reduce_shared(self, arrays: Sequence[FloatArray], then: Callable[[], None], iteration: int = 0) -> None:
        """Sum one array of each worker, in place, a part of it in every channel; ``then`` when all have all of it."""
        left = [0]

        def one_done(_done_ps: int) -> None:
            left[0] -= 1
            if left[0] == 0:
                then()

        plan = self.jobs[0].plan
        bounds = shares(arrays[0].size, len(self.jobs), plan.lanes)
        parts = [(channel, a, b) for channel, (a, b) in enumerate(bounds) if b > a]
        left[0] = len(parts) * len(arrays)
        for channel, a, b in parts:
            self.jobs[channel].note("all_reduce", b - a)
            for worker, array in zip(plan.workers, arrays, strict=True):
                post = Post(Collective.ALL_REDUCE, array[a:b], array[a:b], iteration)
                self.post(worker, channel, post, one_done)

    @property
    def idle(self) -> bool:
        """Whether nothing is under way or waits in any channel."""
        records = self.network.endpoints.records
        working = any(int(records[i]["status"]) == State.ACTIVE for job in self.jobs for i in job.endpoints)
        return not working and not any(self._waiting.values())

    def uninstall(self, controller: Controller) -> None:
        """Take all jobs out again."""
        for job in self.jobs:
            self.network.retire(job)
            controller.uninstall(job.plan)


def shares(elements: int, channels: int, lanes: int) -> list[tuple[int, int]]:
    """Begin and end of each channel's part of an array: whole chunks, as many as the others or one more or less."""
    chunks = -(-elements // lanes)
    ends = [min(elements, chunks * (place + 1) // channels * lanes) for place in range(channels)]
    return list(zip([0, *ends], ends, strict=False))


def channels_of(layers: Sequence[int], channels: int) -> list[int]:
    """Which channel each layer goes to, 0 the most urgent; ``layers``: elements, in the order of the forward pass.

    Runs of neighbours. Frames of a channel wait for each other, so a run is to hold few elements behind its first, most
    urgent layer: the largest sum over runs of what stands behind the first layer is as small as it can be, then the sum
    of squares. O(channels * layers**2).

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

    # The largest run first, on its own: a prefix with a smaller one may have larger squares, and be none of the best.
    least = [{0: 0}]
    for _ in range(used):
        found = {end: [max(worst, behind(begin, end)) for begin, worst in least[-1].items() if begin < end]
                 for end in range(1, count + 1)}  # fmt: skip
        least.append({end: min(options) for end, options in found.items() if options})
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
