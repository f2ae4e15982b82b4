"""Jobs in the flow model, driven like jobs on packets: endpoints get operations and are done after a while.

:class:`FlowJobs` takes the place of a :class:`~p4reduce.network.jobs.network.JobNetwork`. NumPy computes the sums. The
bytes on links are the plan's prediction, for a collective in progress in proportion to the chunks that have flowed.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from p4reduce.control_plane.counters import Operation, Traffic, predict
from p4reduce.control_plane.plans import Plan
from p4reduce.network.flow import FlowNetwork, Transfer
from p4reduce.network.jobs.network import BLOCK, Job, JobNetwork
from p4reduce.network.jobs.specs import exchanged
from p4reduce.network.virtual import Faults, StopReason
from p4reduce.network.virtual.records import FabricError
from p4reduce.topologies import Link, Topology
from p4reduce.topologies.model import Hop
from p4reduce.workers.operation import Floats, Post
from p4reduce.workers.records import Collective, EndpointState

INT32: Final = np.iinfo(np.int32)
_RECORD: Final = np.dtype([("status", np.int64), ("done_at", np.int64), ("failed_seq", np.int64)])


def nearest_sum(arrays: Sequence[Floats]) -> Floats:
    """Return the sum of the arrays, added in float64 and rounded to float32."""
    total = np.zeros(arrays[0].size, np.float64)
    for array in arrays:
        total += array
    with np.errstate(over="ignore"):
        return total.astype(np.float32)


@dataclass
class FlowEndpoints:
    """Endpoints of the flow model; none of them ever fails.

    ``records``: state of each endpoint, and the time when its last operation was done, ps.
    """

    records: npt.NDArray[np.void] = field(default_factory=lambda: np.zeros(0, _RECORD))


@dataclass(eq=False)
class _Collective:
    """Present collective of a job: the operations of its endpoints and, once all have posted, its transfer."""

    posts: dict[int, Post] = field(default_factory=dict)
    transfer: Transfer | None = None
    elements: int = 0
    """Elements that the job's present plan carries."""
    predicted: Mapping[Hop, Traffic] | None = None
    """Predicted traffic of that plan; None until first used."""

    @property
    def operation(self) -> Operation:
        """The operation that all endpoints carry."""
        return Operation[next(iter(self.posts.values())).collective.name]


class FlowJobs:
    """Jobs of one topology. A collective begins when the last of its endpoints has its operation.

    Parameters
    ----------
    topology : Topology
        Topology of all plans.
    queue_frames : int
        Frames of a port's queue, for each priority.
    """

    holds_arrays: Final = False
    """As in ``JobNetwork``: operations may leave their arrays empty."""
    held: Final = False
    """As in ``JobNetwork``; always False, because no viewer can hold the model's time."""

    def __init__(self, topology: Topology, queue_frames: int = 1024) -> None:
        self.topology = topology
        self.endpoints = FlowEndpoints()
        self._flow = FlowNetwork(topology, queue_frames)
        self._of: dict[int, Job] = {}
        self._free: list[int] = []
        self._now: dict[int, _Collective] = {}
        """Present collective of each job, by the job's ``id``."""
        self._sent: Counter[Hop] = Counter()

    @property
    def now(self) -> int:
        """The model's time, picoseconds."""
        return self._flow.now

    def add(self, plan: Plan) -> Job:
        """Give every host of a plan its endpoint."""
        job = self._flow.add(plan, BLOCK)
        for host in (*plan.workers, *([] if plan.server is None else [plan.server])):
            index = self._free.pop() if self._free else len(self.endpoints.records)
            if index == len(self.endpoints.records):
                self.endpoints.records = np.append(self.endpoints.records, np.zeros(1, _RECORD))
            self.endpoints.records[index] = EndpointState.IDLE, -1, -1
            self._of[index] = job
            job.place(host, index)
        return job

    def post(self, index: int, operation: Post, elements: int = 0) -> None:
        """Give an endpoint its next operation. Raises ``PlanError`` for a collective that the model does not know."""
        job = self._of[index]
        under = self._now.setdefault(id(job), _Collective())
        under.posts[index] = operation
        under.elements, under.predicted = max(under.elements, operation.length, elements, 1), None
        self.endpoints.records["status"][index] = EndpointState.ACTIVE
        if len(under.posts) == len(job.endpoints):
            under.transfer = self._flow.begin([(job, under.elements)], under.operation)

    def advance(
        self,
        until_ps: int | None = None,
        watch: Sequence[int] = (),
        *,
        first: bool = True,
        max_events: int | None = None,
        check: Callable[[], None] | None = None,
    ) -> StopReason:
        """Advance the time at most until the next collective of a job is done; as ``JobNetwork.advance``.

        Raises ``PlanError`` where several jobs together do something that the model does not cover.
        """
        del watch, first, max_events
        if check is not None:
            check()
        going = {key: under.transfer for key, under in self._now.items() if under.transfer is not None}
        if not self._flow.advance(until_ps, list(going.values())):
            return StopReason.QUIET if until_ps is None else StopReason.TIME
        for key in [key for key, transfer in going.items() if transfer.done_ps is not None]:
            under = self._now.pop(key)
            job = self._of[next(iter(under.posts))]
            self._sent.update(self._carried(job, under))
            server = None if job.server is None else under.posts[job.server]
            _deliver([under.posts[index] for index in job.members.values()], server)
            self.endpoints.records["status"][job.endpoints] = EndpointState.DONE
            self.endpoints.records["done_at"][job.endpoints] = self.now
        return StopReason.DONE

    def change_over(self, job: Job, plan: Plan) -> None:
        """Move a job to another tree, with the chunks that have not flowed. Raises ``PlanError`` as :meth:`post`."""
        under = self._now.get(id(job))
        if under is not None and under.transfer is not None:
            share = under.transfer.flowed
            self._sent.update(self._carried(job, under))
            self._flow.drop(under.transfer)
            under.elements = max(1, round(under.elements * (1.0 - share)))
        if under is not None:
            under.predicted = None
        self._flow.forget(job)
        job.plan = plan
        if under is not None and under.transfer is not None:
            under.transfer = self._flow.begin([(job, under.elements)], under.operation)

    def give_up(self, job: Job) -> None:
        """Stop all operations of a job."""
        under = self._now.pop(id(job), None)
        if under is not None and under.transfer is not None:
            self._sent.update(self._carried(job, under))
            self._flow.drop(under.transfer)
        self.endpoints.records["status"][job.endpoints] = EndpointState.IDLE

    def retire(self, job: Job) -> None:
        """Free the endpoints of a job for the next ones."""
        self.give_up(job)
        self._flow.forget(job)
        for index in job.endpoints:
            del self._of[index]
            self._free.append(index)

    def failure(self, indices: Sequence[int]) -> str | None:
        """Return None, because no endpoint ever gives up; as ``JobNetwork.failure``."""
        del indices
        return None

    def set_faults(self, hop: Hop, faults: Faults) -> None:
        """Set a link's faults, as ``VirtualNetwork.set_faults``; a link with any loss counts as down."""
        self._flow.set_link(hop, up=not faults.loss)

    def light(self, circuits: Iterable[Link], dark_ps: int = 0) -> None:
        """Raise `FabricError`, because the model has no circuits."""
        raise FabricError("the flow model has no circuits that change; choose time: virtual")

    check_circuits = light

    def lost_by_circuits(self) -> tuple[int, int]:
        """Return (0, 0); as ``JobNetwork.lost_by_circuits``."""
        return 0, 0

    def close(self) -> None:
        """Do nothing: there are no resources to free."""

    def lingers(self, job: Job) -> bool:
        """Whether a job's collective is in progress; without loss no endpoint owes an answer after it."""
        return id(job) in self._now

    def sent(self) -> dict[Hop, int]:
        """Bytes of all jobs on each directed link, with those of collectives in progress."""
        links = self.topology.links
        sent_bytes = Counter({end: 0 for link in links for end in ((link.a, link.port_a), (link.b, link.port_b))})
        sent_bytes.update(self._sent)
        for under in self._now.values():
            if under.transfer is not None:
                sent_bytes.update(self._carried(self._of[next(iter(under.posts))], under))
        return sent_bytes

    host_sent = sent
    """Bytes sent for jobs; equal to ``sent``, because the model has no switch counters."""

    def _carried(self, job: Job, under: _Collective) -> dict[Hop, int]:
        """Return the bytes of a collective until now, on each directed link."""
        operation = under.operation
        share = 1.0 if under.transfer is None else under.transfer.flowed
        if under.predicted is None:
            under.predicted = predict(job.plan, operation, under.elements, lead=job.lead(operation))
        return {hop: round(share * traffic.bytes) for hop, traffic in under.predicted.items()}


def _deliver(workers: Sequence[Post], server: Post | None) -> None:
    """Write results as hosts and switches do (``workers/operation.py``)."""
    collective = workers[0].collective
    targets = [post.target for post in workers if post.target is not None]
    kept = None if server is None else server.source if collective is Collective.PULL else server.target
    if collective is not Collective.PULL and kept is not None:
        targets.append(kept)
    given = [post.source for post in workers if post.source is not None]
    deliver(collective, given, targets, kept, 0.0 if server is None else server.learning_rate / len(workers))


def deliver(
    collective: Collective,
    given: Sequence[Floats],
    targets: Sequence[Floats],
    kept: Floats | None = None,
    rate: float = 0.0,
    *,
    words: bool = False,
) -> bool:
    """Write a collective's result over the arrays ``given`` to ``targets``; return whether an int32 overflowed.

    kept: the array of the server or root. rate: factor by which the sum moves the weights. words: lanes are added as
    int32.
    """
    result, beyond = kept, False
    if collective is Collective.BARRIER:
        return False
    if collective is Collective.ALL_TO_ALL:
        for target, blocks in zip(targets, exchanged(given), strict=True):
            target[:] = blocks
        return False
    if collective is not Collective.PULL:
        result, beyond = _sum_of_words(given) if words else (nearest_sum(given), False)
        if collective is Collective.PUSH_PULL and kept is not None:
            result = kept - np.float32(rate) * result
    for target in targets:
        target[:] = result
    return beyond


def _sum_of_words(arrays: Sequence[Floats]) -> tuple[Floats, bool]:
    """Return the sum of int32 lanes, clipped to int32, and whether any lane was clipped."""
    exact = np.sum([array.view(np.int32) for array in arrays], axis=0, dtype=np.int64)
    total = np.clip(exact, INT32.min, INT32.max).astype(np.int32)
    return total.view(np.float32), bool((exact != total).any())


Carrier = JobNetwork | FlowJobs
"""Carrier of jobs: packets, or the flow model."""
