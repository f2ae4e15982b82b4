"""Carries collectives: posts them to endpoints, lets virtual time pass, and checks the results."""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from p4reduce.base.errors import ControllerError, PlanError
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.counters import Operation, parts_bound, plan_bound
from p4reduce.control_plane.entries import P4Program, explain_waits, node_name
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.group.backend import COLLECTIVES, CollectiveCall, FloatArray, Options, as_carried, part
from p4reduce.group.errors import ClusterError, CollectiveError, RefusedError
from p4reduce.group.membership import MembershipDecision
from p4reduce.network.jobs.asynchronous import Clockwork, StaleRounds, install
from p4reduce.network.jobs.network import EmbeddedSwitches, Job, JobNetwork
from p4reduce.network.jobs.specs import (
    ExpectedParts,
    ExpectedSum,
    ExpectedWords,
    exchanged,
    expect_sum,
    expect_words,
)
from p4reduce.network.virtual import Faults, StopReason
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.jobs import (
    CONTROL_LATENCY_PS,
    Part,
    RunJobs,
    agreed_result,
    beyond_int32,
    check_blocks,
    lead_of_block,
    pace_of_blocks,
)
from p4reduce.runs.result import ClosedRecord, CollectiveRecord, LeftOut
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4reduce.workers.numbers import NonFiniteError, Partial, Residuals, with_bits
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, EndpointState
from p4reduce.workers.specs import Congestion
from p4reduce.workers.status import EndpointStatus
from p4reduce.workers.wire import WORD_BITS, words_of

# All-reduces that close without stragglers: the contributions of each chunk, whether they suffice, and the rest.


class Closings:
    """Contributions that the collectives of one network left out. ``quorum``: number of contributions that suffice."""

    def __init__(self, quorum: int | None) -> None:
        self.quorum = 1 if quorum is None else quorum
        self.happened: list[ClosedRecord] = []
        """A record of each collective that was closed without some contributions, or repeated."""
        self.left_out: dict[int, LeftOut] = defaultdict(LeftOut)
        """Contributions that were left out, by job."""
        self._residuals: dict[tuple[int, int], Residuals] = defaultdict(Residuals)

    def begin(self, job: Job, calls: list[CollectiveCall], bits: int) -> "ClosableCollective | None":
        """Begin a collective that may be closed early; return None if it waits for all contributions.

        bits: of its lanes.

        Adds to the callers' arrays what earlier collectives left out of the tensor, or lost by the rounding of narrow
        lanes.
        """
        chosen = calls[0].options
        closes = job.plan.deadline_ps is not None and not chosen.poison
        if calls[0].operation != "all_reduce" or chosen.words or not (closes or bits != WORD_BITS):
            return None
        residuals = [self._residuals[job.plan.job, call.rank] for call in calls]
        for call, residual in zip(calls, residuals, strict=True):
            residual.add_to(call.array, call.options.identity)
        return ClosableCollective(self, job, calls, residuals, bits) if closes else None

    def keep_rounding(self, job: Job, call: CollectiveCall, lost: FloatArray) -> None:
        """Keep the rounding error of narrow lanes in a call's array, for the next collective on that tensor."""
        self._residuals[job.plan.job, call.rank].keep_rounding(lost, call.options.identity)


class ClosableCollective:
    """A collective that may be closed early."""

    def __init__(
        self, closings: Closings, job: Job, calls: list[CollectiveCall], residuals: list[Residuals], bits: int
    ) -> None:
        self._closings, self._job, self._calls, self._residuals = closings, job, calls, residuals
        self._bits, self._lanes = bits, job.plan.lanes * (WORD_BITS // bits)
        self._given = [call.array.copy() for call in calls]
        self._tries = 0
        self.partials: dict[int, Partial] = {}

    def attempt(self) -> None:
        """Prepare an attempt: restore the inputs, and make records of the contributions."""
        self._tries += 1
        for call, given in zip(self._calls, self._given, strict=True):
            call.array[:] = given
            self.partials[call.rank] = Partial.of(given.size, self._lanes)

    def is_enough(self) -> bool:
        """Return whether each chunk has enough contributions. Raises ``ClusterError`` if workers' counts disagree.

        If some chunk has too few, all workers repeat the collective: all know the same counts, and stragglers have
        arrived.
        """
        every = [self.partials[call.rank] for call in self._calls]
        counts = every[0].counts
        present = np.sum([partial.late == 0 for partial in every], axis=0)
        if any(not np.array_equal(partial.counts, counts) for partial in every) or not np.array_equal(present, counts):
            raise ClusterError(
                f"all_reduce #{self._calls[0].iteration}: workers disagree on whose contributions are in"
            )
        return int(counts.min()) >= min(self._closings.quorum, len(every))

    def finish(self) -> None:
        """Keep the late contributions, and record them."""
        left_out = self._closings.left_out[self._job.plan.job]
        for call, residual in zip(self._calls, self._residuals, strict=True):
            partial, tensor = self.partials[call.rank], call.options.identity
            left_out.note(call.rank, tensor, call.array.size, residual.keep(partial, tensor))
            call.summed = self.partials[call.rank].runs(self._lanes)
        late = {call.rank: int(self.partials[call.rank].late.sum()) for call in self._calls}
        if any(late.values()) or self._tries > 1:
            counts = self.partials[self._calls[0].rank].counts
            missing = {rank: chunks for rank, chunks in late.items() if chunks}
            iteration, least = self._calls[0].iteration, int(counts.min())
            self._closings.happened.append(ClosedRecord(iteration, self._tries, len(counts), least, missing))

    def expected(self) -> ExpectedSum:
        """Return the sum of the contributions in time, with the bound of all inputs, as these may set the exponents."""
        lanes = self._lanes
        whole = expect_sum(self._given, with_bits(self._job.numbers, self._bits), lanes)
        return replace(whole, exact=expect_sum(list(map(self._in_time, self._calls, self._given)), None, lanes).exact)

    def _in_time(self, call: CollectiveCall, given: FloatArray) -> FloatArray:
        late = np.repeat(self.partials[call.rank].late, self._lanes)[: given.size]
        return np.where(late, np.float32(0), given)


# Workers that do not wait for each other: their calls are carried until one of them is done.
#
# Virtual time stands still unless every participant that has not left has a call, so that none can still post a call
# that begins earlier. So the outcome does not depend on how threads or processes are scheduled.


FIRST_JOB = 16384
"""First job of workers that do not wait for each other; a multiple of any power of two of workers."""


class StaleCalls:
    """The asynchronous job of a run, and the calls on it. It is installed at the run's ``first`` call."""

    def __init__(
        self,
        network: JobNetwork,
        controller: Controller,
        workers: tuple[str, ...],
        server: str,
        first: CollectiveCall,
        *,
        window: int | None,
    ) -> None:
        weights = np.zeros(first.array.size, np.float32)
        self.job = install(network, controller, workers, server, weights, first_job=FIRST_JOB, window=window)
        rate = first.learning_rate / len(workers)
        self._rounds = StaleRounds(Clockwork(network), self.job, first.options.staleness, rate)
        self._posted: dict[int, CollectiveCall] = {}  # by rank: under way, or waiting for its time or for others
        self._taken = 0  # calls of the server that have ended
        self._finished: list[CollectiveCall] = []
        self._server: CollectiveCall | None = None
        for rank in range(len(workers)):
            self._rounds.serve(rank)

    def carry(self, calls: list[CollectiveCall], check: Callable[[], None]) -> list[CollectiveCall]:
        """Carry the calls until at least one is done; return those. ``CollectiveError`` if the network gets idle."""
        size, staleness = len(self.job.jobs), self._rounds.staleness
        if calls[0].array.size != self.job.weights.size or calls[0].options.staleness != staleness.bound:
            raise CollectiveError("push_pull: a run has one size of model and one staleness")
        self._rounds.rate = calls[0].learning_rate / size
        there = {call.rank for call in calls}
        staleness.watch([rank for rank in range(size) if rank in there])
        for call in calls:
            if call.rank == size:
                self._take_server(call)
            elif self._posted.get(call.rank) is not call:
                self._take(call)
        self._rounds.release()
        self._finished = []
        self._rounds.clockwork.run(check=check, until=lambda: bool(self._finished))
        if not self._finished:
            raise CollectiveError("push_pull: nothing moves any more, but calls are left")
        return self._finished

    def _take_server(self, call: CollectiveCall) -> None:
        """Take the server's call: the weights are those of its array until the call returns them."""
        if self._server is not call:
            self._server = call
            self.job.weights[:] = call.array

    def _take(self, call: CollectiveCall) -> None:
        clockwork, array = self._rounds.clockwork, call.array
        call.start_ps = max(call.start_ps, clockwork.network.now)
        self._posted[call.rank] = call
        clockwork.at(
            call.start_ps,
            lambda: self._rounds.ready(call.rank, array, array, lambda done_ps: self._done(call, done_ps)),
        )

    def _done(self, call: CollectiveCall, done_ps: int) -> None:
        call.done_ps = done_ps
        self._posted.pop(call.rank)
        self._finished.append(call)
        server, size = self._server, len(self.job.jobs)
        if server is not None and sum(self._rounds.staleness.done) >= (self._taken + 1) * size:
            self._taken += 1
            server.done_ps, self._server = done_ps, None
            server.array[:] = self.job.weights
            self._finished.append(server)


def _post_of_block(call: CollectiveCall, array: FloatArray, *, owner: bool) -> Post:
    """Return the operation of one participant on a block of a reduce-scatter or all-gather."""
    if call.options.blocks == "own":
        target = array if owner else None
        return Post(Collective.PUSH, array, target, call.iteration, poison=call.options.poison)
    source, target = (array, None) if owner else (None, array)
    return Post(Collective.PULL, source, target, call.iteration, words=True)


class Carrier(RunJobs):
    """The network of a cluster. ``carry`` may be called from several threads."""

    def __init__(
        self,
        experiment: Experiment,
        topology: Topology,
        program: P4Program,
        *,
        workers: tuple[str, ...],
        server: str | None,
        capture: Path | None,
        faults: Mapping[Hop, Faults] | None = None,
        congestion: Congestion | None = None,
    ) -> None:
        super().__init__(experiment, topology, workers=workers, server=server)
        self.worst_ratio = 0.0
        self._host_of = workers
        self._stale: StaleCalls | None = None
        self.closings = Closings(experiment.quorum)
        self.switches = EmbeddedSwitches(topology, program, seed=experiment.seed)
        try:
            self.network = JobNetwork(
                self.switches,
                faults=Faults(**experiment.faults.model_dump()) if faults is None else faults,
                queue_frames=experiment.queue_frames,
                seed=experiment.seed,
                congestion=congestion,
                threads=experiment.threads,
            )
            if capture is not None:
                self.network.fabric.capture(workers[0], 1, capture)
            self._trees = self._start_trees()
        except BaseException:
            self.switches.close()
            raise

    @property
    def now(self) -> int:
        """Return the virtual time, picoseconds."""
        return self.network.now

    @property
    def slots(self) -> int:
        """Return the slots of a switch, according to its program."""
        return self.switches.controller.resources.slots

    def carry(
        self,
        calls: list[CollectiveCall],
        check: Callable[[], None] = lambda: None,
        workers: tuple[str, ...] | None = None,
    ) -> Sequence[MembershipDecision]:
        """Carry one collective; results are written to the callers' arrays. See ``group.backend.Carry``.

        workers: hosts of a group of some workers, in the order of its ranks. One collective is carried at a time, and
        virtual time does not go back: if two groups have collectives at once, one starts after the other.
        """
        with self._one:
            check()
            self._carry(calls, self.workers if workers is None else workers, check)
        return ()

    def _carry(self, calls: list[CollectiveCall], workers: tuple[str, ...], check: Callable[[], None]) -> None:
        first = calls[0]
        elements = 1 if first.operation == "barrier" else first.array.size
        alone = len(workers) == 1 and (first.operation == "broadcast" or workers != self.workers)
        if alone:
            first.done_ps = max(first.start_ps, self.network.now)
            return
        owned = self._owner_parts(first.options, first.array.size, workers)
        if owned:
            self._carry_blocks(owned, calls, workers, check)
            return
        try:
            job = self._job_for(first.operation, first.root, workers)
            bits = self._lane_bits(job, calls, len(workers))
            self.switches.controller.check_lane_bits(bits)
        except (PlanError, ControllerError) as error:
            raise RefusedError(f"{first.operation} #{first.iteration}: {error}") from error
        for call in calls:
            call.options = replace(call.options, lane_bits=bits)
        operation = as_carried(first.operation, ring=bool(job.plan.ring))
        parts = self._parts(job, first.operation, elements, bits)
        closing = self.closings.begin(job, calls, bits)
        expected: ExpectedSum | ExpectedWords | ExpectedParts | None = None
        if closing is None:
            expected = self._expect(parts, first, [call.array for call in calls if call.rank < len(workers)])
        blocks = exchanged([call.array for call in calls]) if operation == "all_to_all" else []
        self._host_of = (*workers, *([] if self.server is None else [self.server]))
        for call in calls:
            call.start_ps = max(call.start_ps, self.network.now)
        before = self._totals(*(tree for tree, _ in parts))
        keeps = bits != WORD_BITS and closing is None
        lost = {call.rank: np.zeros_like(call.array) for call in calls} if keeps else {}
        while True:
            self._post(parts, operation, calls, check, closing, lost)
            if job.plan.deadline_ps is None:  # a chunk that may be closed early is not announced
                self._announce(parts, calls, check)
            for tree, where in parts:
                self._run(tree, first.operation, check)
                tree.note(operation, where.stop - where.start, words=first.options.words, bits=bits)
            if closing is None or closing.is_enough():
                break
        for call in calls if keeps else ():
            self.closings.keep_rounding(job, call, lost[call.rank])
        if closing is not None:
            closing.finish()
            expected = closing.expected()
        for call in calls:
            call.done_ps = max(self.network.status(self._endpoint(tree, call)).done_at_ps for tree, _ in parts)
        check_blocks(calls if blocks else [], blocks)
        self._add_record(parts, calls, expected, before)
        if self.on_collective is not None:
            self.on_collective(len(self.records))

    def carry_stale(
        self, calls: list[CollectiveCall], check: Callable[[], None] = lambda: None
    ) -> list[CollectiveCall]:
        """Carry calls of workers that do not wait for each other until one is done. See ``backend.CarryStale``."""
        with self._one:
            check()
            if self._stale is None:
                self._stale = self._begin_stale(calls[0])
            finished = self._stale.carry(calls, check)
            for call in finished:
                if call.rank < len(self.workers):
                    self._note_stale(self._stale, call)
            return finished

    def _begin_stale(self, first: CollectiveCall) -> StaleCalls:
        if self.server is None:
            raise CollectiveError("push_pull needs a parameter server: choose a topology with a server host")
        self._wait()
        made = StaleCalls(
            self.network,
            self.switches.controller,
            self.workers,
            self.server,
            first,
            window=self.experiment.window,
        )
        self._jobs.update({job.plan.job: job for job in made.job.jobs})
        return made

    def _note_stale(self, stale: StaleCalls, call: CollectiveCall) -> None:
        """Record a worker's push_pull as a collective, without an error: its result depends on earlier gradients."""
        plan = stale.job.jobs[call.rank].plan
        self.digest.update(hashlib.sha256(call.array.data).digest())
        self.records.append(
            CollectiveRecord(
                operation=call.operation,
                iteration=call.iteration,
                elements=call.array.size,
                start_ps=call.start_ps,
                done_ps=call.done_ps,
                communication_ps=call.done_ps - call.start_ps,
                bound_ps=plan_bound(plan, call.array.size, Operation.PUSH_PULL).time_ps,
            )
        )

    def drain(self) -> None:
        """Let everything that is still on its way arrive."""
        self.network.advance()

    def close(self) -> None:
        """Stop the switches and finish capture files."""
        self.network.close()
        self.switches.close()

    def statuses(self) -> list[EndpointStatus]:
        """Return the status of all endpoints."""
        return [status for job in self.jobs for status in self.network.statuses(job)]

    def _wait(self) -> None:
        self.network.advance(self.network.now + CONTROL_LATENCY_PS)

    def _lay_out(self, request: PlanRequest, *, of_block: bool) -> Job:
        plan = self.switches.controller.start_job(request)
        lead = lead_of_block(plan) if of_block else None
        return self.network.add(plan, self.numbers, lead=lead, server_gives=of_block)

    def _take_away(self, job: Job) -> None:
        self.network.retire(job)
        self.switches.controller.uninstall(job.plan)

    # --- reduce-scatter and all-gather in blocks: a job for each block and its owner

    def _carry_blocks(
        self, parts: list[Part], calls: list[CollectiveCall], workers: tuple[str, ...], check: Callable[[], None]
    ) -> None:
        """Carry a reduce-scatter as a PUSH of each block to its owner, or an all-gather as a PULL from there.

        All blocks are carried at once: each worker sends (or asks for) one chunk of every block in the time that the
        busiest link takes to carry them.
        """
        first = calls[0]
        pushes = first.options.blocks == "own"
        operation = Operation.PUSH if pushes else Operation.PULL
        expected = self._expect(parts, first, [call.array for call in calls]) if pushes else None
        self._host_of = workers
        for call in calls:
            call.start_ps = max(call.start_ps, self.network.now)
        before = self._totals(*(job for job, _ in parts))
        pace = pace_of_blocks(parts, operation)
        for job, _ in parts:
            for index in job.members.values():
                self.network.endpoints.change_pace(index, pace)
        sums: dict[int, FloatArray] = {}
        for call in sorted(calls, key=lambda call: call.start_ps):
            if call.start_ps > self.network.now:
                self.network.advance(call.start_ps, check=check)
            for rank, (job, where) in enumerate(parts):
                array = call.array[where]
                if pushes and rank == call.rank:  # its other jobs still send chunks that two blocks share, unchanged
                    array = sums[rank] = array.copy()
                post = _post_of_block(call, array, owner=rank == call.rank)
                self.network.post(self._endpoint(job, call), post)
        for job, where in parts:
            self._run(job, first.options.name or first.operation, check)
            job.note(operation, where.stop - where.start)
        block = first.array.size // len(workers)
        for call in calls:
            call.done_ps = max(self.network.status(self._endpoint(job, call)).done_at_ps for job, _ in parts)
            if pushes:
                begin = call.rank * block
                offset = begin - parts[call.rank][1].start
                call.array[begin : begin + block] = sums[call.rank][offset : offset + block]
        self._add_record(parts, calls, expected, before, operation)
        if self.on_collective is not None:
            self.on_collective(len(self.records))

    # --- one collective

    def _endpoint(self, job: Job, call: CollectiveCall) -> int:
        host = self._host_of[call.rank]
        if host in job.members:
            return job.members[host]
        assert job.server is not None  # noqa: S101
        return job.server

    def _post(
        self,
        parts: list[Part],
        operation: str,
        calls: list[CollectiveCall],
        check: Callable[[], None],
        closing: ClosableCollective | None = None,
        lost: Mapping[int, FloatArray] | None = None,
    ) -> None:
        """Post every call at its own time: early participants may already send, late ones cannot yet."""
        if closing is not None:
            closing.attempt()
        collective = COLLECTIVES[operation]
        for call in sorted(calls, key=lambda call: call.start_ps):
            if call.start_ps > self.network.now:
                self.network.advance(call.start_ps, check=check)
            for job, where in parts:
                index = self._endpoint(job, call)
                if job.server is not None and all(self._endpoint(job, other) != job.server for other in calls):
                    self._post_host_server(job, collective, call)
                array, serves = call.array[where], index == job.server
                kept = None if lost is None or call.rank not in lost else lost[call.rank][where]
                given = part(
                    collective, array, call.iteration, call.learning_rate, call.options, serves=serves, lost=kept
                )
                if closing is not None:
                    given = replace(given, partial=closing.partials[call.rank])
                self.network.post(index, given)

    def _announce(self, parts: list[Part], calls: list[CollectiveCall], check: Callable[[], None]) -> None:
        """Announce the next sums of participants that start them on the same jobs, now or when their time comes."""
        if calls[0].operation not in {"all_reduce", "barrier"}:
            return
        watch = [index for job, _ in parts for index in job.endpoints]
        later = [(call.options.ahead, call) for call in calls if call.options.ahead is not None]
        for ahead, call in sorted(later, key=lambda pair: pair[0].start_ps):
            waits = ahead.start_ps > self.network.now
            if waits and self.network.advance(ahead.start_ps, watch, check=check) is StopReason.DONE:
                return
            options = Options(poison=ahead.poison, lane_bits=calls[0].options.lane_bits)
            for job, where in self._parts(parts[0][0], "all_reduce", ahead.array.size, options.lane_bits or WORD_BITS):
                given = part(Collective.ALL_REDUCE, ahead.array[where], 0, 0.0, options, serves=False)
                with suppress(NonFiniteError):  # the error is raised at the call
                    self.network.announce(self._endpoint(job, call), given)

    def _post_host_server(self, job: Job, collective: Collective, call: CollectiveCall) -> None:
        """Post for the server of a host-side all-reduce or barrier, which no participant calls, at the first call."""
        assert job.server is not None  # noqa: S101
        if self.network.status(job.server).state is not EndpointState.ACTIVE:
            target = np.zeros(call.array.size, np.float32) if collective is Collective.ALL_REDUCE else None
            words = collective is Collective.ALL_REDUCE and call.options.words
            self.network.post(job.server, Post(collective, None, target, call.iteration, words=words))

    def _run(self, job: Job, operation: str, check: Callable[[], None]) -> None:
        reason = self.network.advance(watch=job.endpoints, check=check)
        statuses = {self.network.hosts[index]: self.network.status(index) for index in job.endpoints}
        for host, status in statuses.items():
            if status.state is EndpointState.FAILED or status.error is not None:
                raise CollectiveError(f"{operation}: {host}: {status.error}\n{self._diagnose(job, status)}".rstrip())
        if reason is not StopReason.DONE:
            hosts = ", ".join(host for host, status in statuses.items() if status.state is EndpointState.ACTIVE)
            raise CollectiveError(f"{operation}: nothing moves any more, but these have no result: {hosts}")

    def _diagnose(self, job: Job, status: EndpointStatus) -> str:
        if status.failed_seq is None or not job.plan.in_network:
            return ""
        waits = {self.network.hosts[index]: self.network.status(index).waiting for index in job.members.values()}
        told = [f"switches told: {line}" for line in explain_waits(job.plan, waits)]
        names = self.switches.controller.out_of_turn(job.plan, {status.failed_seq}, pulls=False)
        told += [
            f"{node_name(job.plan, name)} spoke out of turn: others are kept out of slots" for name in sorted(names)
        ]
        return "\n".join([self.switches.controller.who_is_missing(job.plan, status.failed_seq), *told])

    # --- results

    def _expect(
        self, parts: Sequence[Part], first: CollectiveCall, given: Sequence[FloatArray]
    ) -> ExpectedParts | None:
        """Return the expected sum of the workers' arrays; None if the operation is not a sum."""
        if first.operation not in {"all_reduce", "push"}:
            return None
        expected: list[tuple[slice, ExpectedSum | ExpectedWords]] = []
        for job, where in parts:
            inputs = [array[where] for array in given]
            guessed = job.guessed if first.operation == "all_reduce" else 0
            words, bits = first.options.words, first.options.lane_bits or WORD_BITS
            lanes, numbers = self.experiment.lanes * (WORD_BITS // bits), with_bits(job.numbers, bits)
            sums = expect_words(inputs) if words else expect_sum(inputs, numbers, lanes, guessed=guessed)
            expected.append((where, sums))
        return ExpectedParts(expected)

    def _totals(self, *jobs: Job) -> tuple[int, int]:
        """Return the frames sent again, and the chunks that saturated, which each endpoint of a job counts."""
        statuses = [self.network.statuses(job) for job in jobs]
        return (
            sum(status.resends for job in statuses for status in job),
            sum(max(status.saturated for status in job) for job in statuses),
        )

    def _add_record(
        self,
        parts: Sequence[Part],
        calls: list[CollectiveCall],
        expected: ExpectedSum | ExpectedWords | ExpectedParts | None,
        before: tuple[int, int],
        carried: Operation | None = None,
        *,
        beyond: bool = False,
    ) -> None:
        """Check the result and add its record. ``before``: resends and saturated chunks before the collective.

        ``carried``: the operation that carried it, if not the one called. ``beyond``: whether a sum of words saturated
        in an earlier attempt.
        """
        first = calls[0]
        resends, saturated = self._totals(*(job for job, _ in parts))
        failed = None
        if first.options.words and (beyond or saturated > before[1]):
            failed = str(beyond_int32(first))
            for call in calls:
                call.error = beyond_int32(call)
        result = agreed_result(calls)
        self.digest.update(hashlib.sha256(result.data).digest())
        error = bound = None
        if expected is not None and failed is None:
            deviation = expected.deviation(result)
            error, bound = deviation.max_error, deviation.error_bound
            if saturated == before[1]:
                self.worst_ratio = max(self.worst_ratio, deviation.worst_ratio)
                deviation.check(f"{first.operation} #{first.iteration}")
        elements = 1 if first.operation == "barrier" else first.array.size
        carried = carried or Operation(as_carried(first.operation, ring=bool(parts[0][0].plan.ring)))
        bits = first.options.lane_bits or WORD_BITS
        plans = [(job.plan, words_of(where.stop - where.start, bits)) for job, where in parts]
        self.records.append(
            CollectiveRecord(
                operation=first.options.name or first.operation,
                iteration=first.iteration,
                elements=elements,
                start_ps=min(call.start_ps for call in calls),
                done_ps=max(call.done_ps for call in calls),
                communication_ps=max(call.done_ps - call.start_ps for call in calls),
                bound_ps=parts_bound(plans, carried).time_ps,
                resends=resends - before[0],
                saturated=saturated - before[1],
                max_error=error,
                error_bound=bound,
                failed=failed,
            )
        )
