"""The jobs of a run: which plan carries which collective, whoever carries it out."""

import hashlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.control_plane.plans.best import BEST, fastest
from p4reduce.control_plane.plans.problem import Layout, Problem
from p4reduce.control_plane.plans.striped import STRIPED, slots_of_each, stripes
from p4reduce.group.backend import Call, FloatArray
from p4reduce.group.errors import ClusterError, RefusedError, SaturatedError
from p4reduce.group.membership import Decision
from p4reduce.network.jobs.asynchronous import shares
from p4reduce.network.jobs.network import Job
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.result import CollectiveRecord
from p4reduce.topologies import Topology
from p4reduce.workers.numbers import BlockFloat, FixedScale

CONTROL_LATENCY_PS = 1_000_000_000
"""Virtual time from a controller's decision to its effect on the switches: 1 ms."""
MAIN_JOB = 1
SERVED_JOB = 2
ALL_TO_ALL_JOB = 3
FIRST_STRIPE_JOB = 4
"""Jobs of the trees of plan striped, but for the first, which is the main job."""
ALL_TO_ALL = -1
"""in the place of a root: a group's job for its all-to-alls"""
FIRST_BROADCAST_JOB = 16
"""Jobs whose server is a worker, one for each root of a broadcast that was asked for."""
FIRST_GROUP_JOB = 32768
"""Jobs of groups of some workers."""


Part = tuple[Job, slice]
"""A job, and which elements of each array it carries."""


class RunJobs(ABC):
    """The jobs of a group's collectives, made when they are first needed.

    Parameters
    ----------
    experiment : Experiment
        What is run.
    topology : Topology
        Its network.
    workers : tuple of str
        Hosts of the group, by rank.
    server : str or None
        Host of the parameter server.
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
        self.on_collective: Callable[[int], None] | None = None
        """Told how many collectives are done, after each."""
        self.digest = hashlib.sha256()
        """Of what every collective gave."""
        self._one = threading.Lock()
        self._jobs: dict[int, Job] = {}
        self._group_jobs: dict[tuple[tuple[str, ...], int | None], int] = {}
        self._trees: list[Job] = []

    @property
    def jobs(self) -> list[Job]:
        """All jobs so far."""
        return list(self._jobs.values())

    @property
    def main(self) -> Job:
        """The job of the whole group's sums; of several trees the first."""
        return self._trees[0]

    @main.setter
    def main(self, job: Job) -> None:
        self._trees[0] = job

    @property
    def result_sha256(self) -> str:
        """The digest as text."""
        return self.digest.hexdigest()

    @property
    @abstractmethod
    def slots(self) -> int:
        """Of a switch, for all jobs."""

    @property
    @abstractmethod
    def now(self) -> int:
        """Time, picoseconds."""

    @abstractmethod
    def carry(
        self, calls: list[Call], check: Callable[[], None] = lambda: None, workers: tuple[str, ...] | None = None
    ) -> Sequence[Decision]:
        """Carry one collective out; results land in the callers' arrays. See ``group.rendezvous.Carry``.

        workers: the hosts of a group of some workers, in the order of its ranks. One collective is carried at a time,
        and time does not go back: where two groups have collectives at once, one starts after the other.
        """

    @abstractmethod
    def carry_stale(self, calls: list[Call], check: Callable[[], None] = lambda: None) -> list[Call]:
        """Carry calls of workers that do not wait for each other on, until one is done. See ``group.rendezvous``."""

    @abstractmethod
    def close(self) -> None:
        """Give back what it holds."""

    @abstractmethod
    def _start_job(self, request: PlanRequest) -> Job:
        """Lay a job out; it takes effect one control latency from now."""

    def _job_for(self, operation: str, root: int, workers: tuple[str, ...]) -> Job:
        plan = "steiner" if len(self._trees) > 1 else self.experiment.plan  # only sums of the whole group are striped
        star = plan == "ring"  # a ring only reduces: everything else goes host to host
        if operation == "broadcast":
            source = workers[root]
            whole = workers == self.workers
            number = FIRST_BROADCAST_JOB + root if whole else self._group_job(workers, root)
            members = tuple(worker for worker in workers if worker != source)
            return self._job(number, "ps" if star else plan, members, source)
        if operation in {"push", "pull", "push_pull"} and self.main.server is None:
            return self._job(SERVED_JOB, "ps" if star else plan, self.workers, self.server)
        if operation == "all_to_all" and not self.main.plan.mesh:
            number = ALL_TO_ALL_JOB if workers == self.workers else self._group_job(workers, ALL_TO_ALL)
            return self._job(number, "all-to-all", workers, None)
        if operation != "all_to_all" and plan == "all-to-all":
            raise RefusedError(f"{operation}: plan all-to-all only does all_to_all; choose another plan")
        if workers != self.workers:
            return self._job(self._group_job(workers, None), plan, workers, None)
        return self.main

    def _job(self, number: int, plan: str, workers: tuple[str, ...], server: str | None) -> Job:
        """The job of a number, started when it is asked for the first time."""
        return self._jobs.get(number) or self._start_job(self._request(number, plan, workers, server))

    def _group_job(self, workers: tuple[str, ...], root: int | None) -> int:
        """The number of a group's job: one for its sums, one for each root of its broadcasts."""
        return self._group_jobs.setdefault((workers, root), FIRST_GROUP_JOB + len(self._group_jobs))

    def _start_trees(self) -> list[Job]:
        """The jobs of the whole group's sums: one, but where they are striped."""
        name, layouts = self._layouts()
        number = [MAIN_JOB, *range(FIRST_STRIPE_JOB, FIRST_STRIPE_JOB + len(layouts) - 1)]
        most = slots_of_each(len(layouts), self.slots) if len(layouts) > 1 else None
        requests = [
            replace(self._request(job, name, self.workers, None), layout=layout, max_slots=most)
            for job, layout in zip(number, layouts, strict=True)
        ]
        return [self._start_job(request) for request in requests]

    def _layouts(self) -> tuple[str, list[Layout | None]]:
        """The plan's name and the layout of each tree; None: the plan lays its one tree out itself."""
        given = self.experiment
        several = self.may_stripe and given.deadline_ps is None
        if given.plan not in {STRIPED, BEST} or (given.plan == BEST and not several):
            return given.plan, [None]
        if not several:
            raise PlanError(
                f"plan {STRIPED} has no deadline, and its group loses and gains no members; choose steiner for those"
            )
        problem = Problem(self.topology, self.workers, lanes=given.lanes, elements=given.typical_elements)
        if given.plan == STRIPED:
            return STRIPED, [*stripes(problem)]
        chosen, layouts = fastest(problem)
        return f"{BEST} ({chosen})", [*layouts]

    def _request(self, number: int, plan: str, workers: tuple[str, ...], server: str | None) -> PlanRequest:
        """What a job of this run asks for."""
        return PlanRequest(
            plan=plan,
            job=number,
            workers=workers,
            server=server,
            window=self.experiment.window,
            elements=self.experiment.typical_elements,
            deadline_ps=self.experiment.deadline_ps if server is None and plan != "all-to-all" else None,
        )

    def _parts(self, job: Job, operation: str, elements: int) -> list[Part]:
        """Which jobs carry a collective of ``elements``, and what of it each of them does."""
        trees = self._trees if job is self.main and operation == "all_reduce" else [job]
        bounds = shares(elements, len(trees), self.experiment.lanes)
        found = [(tree, slice(a, b)) for tree, (a, b) in zip(trees, bounds, strict=True) if b > a]
        return found or [(job, slice(0, elements))]


def beyond_int32(call: Call) -> SaturatedError:
    """What every participant of a sum of int32 is told that was held at an end of int32."""
    name = call.options.name or call.operation
    return SaturatedError(f"{name} #{call.iteration}: a sum of int32 lies beyond int32")


def agreed_result(calls: list[Call]) -> FloatArray:
    """The array that all who get a result got; raises ``ClusterError`` when two of them differ in a byte."""
    if calls[0].operation == "push":
        return calls[-1].array
    if calls[0].operation == "all_to_all":
        return np.concatenate([call.array for call in calls])
    reference = calls[0].array
    for call in calls[1:]:
        if not np.array_equal(call.array.view(np.uint32), reference.view(np.uint32)):
            at = int(np.flatnonzero(call.array.view(np.uint32) != reference.view(np.uint32))[0])
            raise ClusterError(
                f"{call.operation} #{call.iteration}: ranks {calls[0].rank} and {call.rank} differ at element {at}: "
                f"{reference[at]!r} and {call.array[at]!r}"
            )
    return reference
