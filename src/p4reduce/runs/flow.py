"""A run whose collectives are flows (``time: flow``): times from the model, sums from NumPy where there are arrays."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.counters import Operation, parts_bound
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.control_plane.plans.make import make_plan
from p4reduce.control_plane.resources import SLOTS, Resources
from p4reduce.group.backend import Call, FloatArray, as_carried
from p4reduce.group.errors import RefusedError
from p4reduce.group.membership import Decision
from p4reduce.network.flow.frames import Bools
from p4reduce.network.flow.network import FlowNetwork
from p4reduce.network.jobs.network import Job
from p4reduce.network.jobs.specs import exchanged
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.jobs import CONTROL_LATENCY_PS, Part, RunJobs, agreed_result, beyond_int32
from p4reduce.runs.result import CollectiveRecord
from p4reduce.topologies import Topology

INT32: Final = np.iinfo(np.int32)


@dataclass(frozen=True)
class Timed:
    """When a collective is done."""

    start_ps: int
    done_ps: int


class FlowCarrier(RunJobs):
    """Says how long collectives take. There are plans, but no switches, and nothing is installed.

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
        """by job: chunks of its next sum whose exponents are known"""
        self._trees = self._start_trees()

    @property
    def now(self) -> int:
        """The model's time, picoseconds."""
        return self.network.now

    @property
    def result_sha256(self) -> str:
        """Empty where collectives had no arrays."""
        return super().result_sha256 if self._added else ""

    @property
    def slots(self) -> int:
        """Of a switch in the bundled programs."""
        return SLOTS

    def _start_job(self, request: PlanRequest) -> Job:
        self.network.advance(self.network.now + CONTROL_LATENCY_PS)
        plan = make_plan(self.topology, request, self._resources)
        job = self._jobs[request.job] = self.network.add(plan, self.numbers)
        return job

    def _request(self, number: int, plan: str, workers: tuple[str, ...], server: str | None) -> PlanRequest:
        return replace(super()._request(number, plan, workers, server), lanes=self.experiment.lanes)

    # --- collectives

    def move(self, operation: str, elements: int, *, words: bool = False) -> None:
        """One collective of ``elements`` numbers of each worker that nobody holds, and whose sums nobody sees."""
        with self._one:
            number = len(self.records)
            parts = self._parts_of(operation, 0, elements, self.workers, number)
            if parts:
                timed = self._time(parts, operation, self.now, words=words)
                self._record(parts, operation, operation, number, elements, timed)

    def carry(
        self, calls: list[Call], check: Callable[[], None] = lambda: None, workers: tuple[str, ...] | None = None
    ) -> Sequence[Decision]:
        """Add the callers' arrays up, and say when everybody has the result. As of ``RunJobs.carry``."""
        with self._one:
            check()
            hosts = self.workers if workers is None else workers
            first = calls[0]
            elements = 1 if first.operation == "barrier" else first.array.size
            for call in calls:
                call.start_ps = max(call.start_ps, self.now)
            parts = self._parts_of(first.operation, first.root, elements, hosts, first.iteration)
            if not parts:
                first.done_ps = first.start_ps
                return ()
            last_ps = max(call.start_ps for call in calls)
            zeros = _zeros(parts, calls) if first.operation == "all_reduce" else []
            timed = self._time(parts, first.operation, last_ps, words=first.options.words, zeros=zeros)
            beyond = _add_up(calls, len(hosts))
            for call in calls:
                call.done_ps = timed.done_ps
                call.error = beyond_int32(call) if beyond else None
            self._added = True
            self.digest.update(hashlib.sha256(agreed_result(calls).data).digest())
            self._announce(parts, calls, timed)
            began = Timed(min(call.start_ps for call in calls), timed.done_ps)
            name = first.options.name or first.operation
            failed = str(beyond_int32(first)) if beyond else None
            self._record(parts, first.operation, name, first.iteration, elements, began, failed=failed)
            return ()

    def carry_stale(self, calls: list[Call], check: Callable[[], None] = lambda: None) -> list[Call]:
        """Not in the model."""
        raise RefusedError("push_pull: the flow model (time: flow) knows no staleness; choose time: virtual")

    def close(self) -> None:
        """There is nothing to give back."""

    def _parts_of(self, operation: str, root: int, elements: int, hosts: tuple[str, ...], number: int) -> list[Part]:
        """Which jobs carry a collective; none where one worker is alone with it."""
        if len(hosts) == 1 and (operation == "broadcast" or hosts != self.workers):
            return []
        try:
            return self._parts(self._job_for(operation, root, hosts), operation, elements)
        except PlanError as error:
            raise RefusedError(f"{operation} #{number}: {error}") from error

    def _time(
        self, parts: list[Part], operation: str, start_ps: int, *, words: bool, zeros: Sequence[Bools] = ()
    ) -> Timed:
        """Let time pass until a collective is done that begins no earlier than now. ``zeros``: of ``begin``."""
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

    def _announce(self, parts: list[Part], calls: list[Call], timed: Timed) -> None:
        """Where all workers start a sum on the same jobs while this one is under way, its exponents are agreed on."""
        if calls[0].operation not in {"all_reduce", "barrier"}:
            return
        ahead = [call.options.ahead for call in calls]
        if all(one is not None and one.start_ps + parts[0][0].plan.rtt_ps < timed.done_ps for one in ahead):
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
                resends=0,
                saturated=0,
                max_error=None,
                error_bound=None,
                failed=failed,
            )
        )
        if self.on_collective is not None:
            self.on_collective(len(self.records))


def _zeros(parts: Sequence[Part], calls: Sequence[Call]) -> list[Bools]:
    """Of each part of an all-reduce: which of its chunks travel without lanes, since they are zero at all workers.

    Where no exponents are agreed on, none does. With ``poison``, a chunk that is not finite counts as zero.
    """
    options = calls[0].options
    found = []
    for job, where in parts:
        starts = np.arange(0, where.stop - where.start, job.plan.lanes)
        zeros = np.full(len(starts), bool(len(starts)) and job.lead("all_reduce", words=options.words) > 0)
        for call in calls if zeros.any() else ():
            values = call.array[where]
            full = np.logical_or.reduceat(values != 0, starts)
            if options.poison:
                full &= np.logical_and.reduceat(np.isfinite(values), starts)
            zeros &= ~full
        found.append(zeros)
    return found


def _add_up(calls: list[Call], size: int) -> bool:
    """What a collective does to its callers' arrays, by NumPy; whether a sum of int32 was held at an end of int32.

    Sums are the nearest float32 to those of float64.
    """
    first = calls[0]
    if first.operation == "all_to_all":
        for call, wanted in zip(calls, exchanged([call.array for call in calls]), strict=True):
            call.array[:] = wanted
        return False
    workers, server = calls[:size], calls[-1]
    if first.operation in {"broadcast", "pull"}:
        source = calls[first.root] if first.operation == "broadcast" else server
        for call in calls:
            call.array[:] = source.array
        return False
    if first.operation == "barrier":
        return False
    if first.options.words:
        exact = np.sum([call.array.view(np.int32) for call in workers], axis=0, dtype=np.int64)
        total = np.clip(exact, INT32.min, INT32.max).astype(np.int32).view(np.float32)
        beyond = bool((exact != total.view(np.int32)).any())
    else:
        total, beyond = _sum(workers), False
    if first.operation == "push_pull":
        step = np.float32(first.learning_rate / size)
        total = server.array - step * total
    for call in [server] if first.operation == "push" else calls:
        call.array[:] = total
    return beyond


def _sum(workers: Sequence[Call]) -> FloatArray:
    total = np.zeros(workers[0].array.size, np.float64)
    for call in workers:
        total += call.array
    with np.errstate(over="ignore"):
        return total.astype(np.float32)
