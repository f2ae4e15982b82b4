"""One participant in real time: its endpoints on a socket, and the collectives that they carry."""

import hashlib
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from p4reduce.group.backend import COLLECTIVES, PLAIN, FloatArray, Options, as_carried, part
from p4reduce.group.errors import ClusterError, CollectiveError, RefusedError, SaturatedError
from p4reduce.runs.real.spec import ProcessSpec
from p4reduce.workers.endpoints import Endpoints
from p4reduce.workers.numbers import Partial, Residuals
from p4reduce.workers.operation import Post
from p4reduce.workers.records import State
from p4reduce.workers.specs import EndpointSpec, PsServerSpec, RingSpec, ServerSpec, WorkerSpec
from p4reduce.workers.status import EndpointStatus
from p4reduce.workers.udp import Driver, Port, PortCounts, SilenceError
from p4switch.base.units import NS_PER_S, PS_PER_NS

REST_US: Final = 100
"""for which frames gather, at workers and embedded switches: several processes share few processors here, and a round
trip a little longer costs nothing as long as the window covers it"""


@dataclass(frozen=True)
class Closing:
    """An all-reduce of a job with a deadline, as one participant knows it.

    Attempts, chunks, the ``least`` contributions of one, and how many chunks are without this participant's; how many
    chunks of its arrays are ``left`` for the next all-reduce of the tensor (``Options.identity``), and its elements.
    """

    attempts: int
    chunks: int
    least: int
    late: int
    left: int
    elements: int
    tensor: str


@dataclass(frozen=True)
class Carried:
    """One collective, as this participant saw it. Times: nanoseconds of the machine's monotonic clock."""

    operation: str
    iteration: int
    elements: int
    start_ns: int
    end_ns: int
    sha256: str
    """Of this participant's array when it was done."""
    words: bool = False
    """Its lanes were added as they are."""
    closing: Closing | None = None
    """What became of it, where it might be closed without some."""
    failed: str | None = None
    """The error that every participant got in the place of a result."""
    saturated: int = 0
    """Chunks of it that saturated."""


@dataclass(frozen=True)
class RealFigure:
    """What a training script recorded."""

    name: str
    iteration: int
    time_ns: int
    value: float


class Observer(Protocol):
    """Sees the arrays of every collective; may take its time."""

    def given(self, array: FloatArray) -> None:
        """Before: what this participant gives."""

    def got(self, array: FloatArray) -> None:
        """After: what it got."""


class RealBackend:
    """The end of a participant in real time (``comm.backend.Backend``); for one thread. ``close`` it."""

    looks_ahead = False  # frames that leave at once are worth more than a round trip

    def __init__(self, spec: ProcessSpec) -> None:
        self.rank = spec.rank
        self.size = spec.size
        self.is_server = spec.rank == spec.size
        self.members = self.contributors = tuple(range(spec.size))
        """Ranks of the start: who takes part now, and whose arrays are in the last result."""
        self.carried: list[Carried] = []
        self.figures: list[RealFigure] = []
        self.summed: tuple[tuple[int, int], ...] = ()
        self.first = 0
        """Collectives that the group had carried before this participant came."""
        self._residuals = Residuals()
        self.observer: Observer | None = None
        self._spec = spec
        self._endpoints = Endpoints(None if spec.records is None else Path(spec.records))
        self._places = {one.job: (self._endpoints.add(one), one) for one in spec.endpoints}
        self._began_ns = time.monotonic_ns()
        where = spec.socket
        self.port = Port(
            spec.address, spec.lanes, local=where.local, remote=where.remote, rest_us=REST_US, rate_bps=where.rate_bps
        )
        try:
            self._driver = Driver(self._endpoints, self.port)
        except BaseException:
            self.port.close()
            raise

    def collective(
        self,
        operation: str,
        array: FloatArray,
        root: int,
        learning_rate: float,
        options: Options = PLAIN,
        start_ps: int | None = None,
    ) -> int:
        """Take part in one collective, in place; blocks. It starts now, whatever ``start_ps`` says.

        Raises ``ValueError`` for NaN or infinity, ``SaturatedError`` for a sum beyond int32, ``CollectiveError`` when
        the network gives up.
        """
        self.check(operation, root, options)
        self.attempt(operation, array, root, learning_rate, options)
        return self.now_ps()

    def check(self, operation: str, root: int, options: Options) -> None:
        """`RefusedError` for what this run has no job for: nothing is sent, and all ranks are told the same."""
        if options.stale:
            raise RefusedError(f"{operation}: staleness is for virtual time only")
        jobs = self._spec.jobs
        summed = operation in {"broadcast", "all_to_all"} and "all_reduce" in jobs
        if operation not in jobs and f"{operation}/{root}" not in jobs and not summed and self.size > 1:
            known = ", ".join(sorted(jobs)) or "none"
            raise RefusedError(f"{operation}: {self._spec.host} has no job for it; the jobs are for {known}")

    def attempt(
        self, operation: str, array: FloatArray, root: int, learning_rate: float, options: Options = PLAIN
    ) -> FloatArray:
        """Carry one collective to its end among ``members``; what it carried, as every member has it then."""
        if operation == "broadcast" and self.size == 1:
            return array
        asked = options.name or operation
        if operation == "broadcast" and f"broadcast/{root}" not in self._spec.jobs:
            # A sum of words, in which all but the root give zeros.
            if self.rank != root:
                array[:] = 0
            operation, options = "all_reduce", replace(options, words=True)
        if operation == "all_to_all" and operation not in self._spec.jobs:
            return self._exchange(array, replace(options, words=True, name=asked))
        if self.alone:
            return self._note(asked, array, time.monotonic_ns(), words=options.words)
        index, endpoint = self._place(operation, root)
        carried = as_carried(operation, ring=isinstance(endpoint, RingSpec))
        iteration = self.first + len(self.carried)
        serves = isinstance(endpoint, ServerSpec | PsServerSpec)
        given = part(COLLECTIVES[carried], array, iteration, learning_rate, options, serves=serves)
        closes = isinstance(endpoint, WorkerSpec) and endpoint.closes and operation == "all_reduce"
        closes = closes and not (options.words or options.poison)
        if closes:
            self._residuals.add_to(array, options.identity)
        if self.observer is not None:
            self.observer.given(array)
        saturated = self._endpoints.status(index).saturated
        start = time.monotonic_ns()
        closing = None
        if closes:
            closing = self._close(given, index, array, options)
        else:
            self._carry_out(given, index, options)
        self.summed = self.summed if closes else ()
        status = self._endpoints.status(index)
        held = status.saturated - saturated
        failed = f"{asked} #{iteration}: a sum of int32 lies beyond int32" if options.words and held else None
        self._note(asked, array, start, words=options.words, closing=closing, failed=failed, saturated=held)
        if failed is not None:  # all others are told the same
            raise SaturatedError(failed)
        if self.observer is not None:
            self.observer.got(array)
        return array

    def compute(self, seconds: float) -> None:
        """Nothing: in real time a computation takes as long as it takes."""

    def now(self) -> float:
        """Seconds since this participant was made."""
        return (time.monotonic_ns() - self._began_ns) / NS_PER_S

    def now_ps(self) -> int:
        """Picoseconds since this participant was made."""
        return (time.monotonic_ns() - self._began_ns) * PS_PER_NS

    def reach(self, time_ps: int) -> None:
        """Nothing: time passes by itself."""

    def group(self, ranks: tuple[int, ...], serial: int) -> "RealBackend":
        """Not in real time, where the jobs are made before the workers."""
        raise ClusterError(f"group {list(ranks)}: in real time there is one group, of all workers")

    def record(self, name: str, value: float) -> None:
        """Keep a figure of the training."""
        self.figures.append(RealFigure(name, self.first + len(self.carried), time.monotonic_ns(), value))

    def close(self) -> None:
        """Leave the group."""
        self._driver.close()
        self.port.close()

    @property
    def alone(self) -> bool:
        """Whether it is the last of several."""
        return len(self.members) == 1 < self.size

    @property
    def began_ns(self) -> int:
        """When it was made."""
        return self._began_ns

    def statuses(self) -> dict[int, EndpointStatus]:
        """Of each endpoint, by job."""
        return {job: self._endpoints.status(index) for job, (index, _) in self._places.items()}

    def counts(self) -> PortCounts:
        """Of the port."""
        return self.port.counts()

    def _carry_out(self, given: Post, index: int, options: Options) -> None:
        """``CollectiveError`` when the network gives up."""
        name = f"{given.collective.name.lower()} #{given.iteration}: {self._spec.host}"
        try:
            self._driver.carry_out(given, index, patience_s=options.patience_s or self._spec.patience_s)
        except SilenceError as error:
            raise CollectiveError(f"{name}: {error}") from error
        status = self._endpoints.status(index)
        if status.state is State.FAILED or status.error is not None:
            raise CollectiveError(f"{name}: {status.error}")

    def _close(self, given: Post, index: int, array: FloatArray, options: Options) -> Closing:
        """An all-reduce until enough are in each chunk: all know the same counts, and decide alike."""
        inputs = array.copy()
        attempts = 0
        while True:
            attempts += 1
            partial = Partial.of(array.size, self._spec.lanes)
            self._carry_out(replace(given, partial=partial), index, options)
            if partial.counts.min() >= min(self._spec.quorum, self.size):
                break
            array[:] = inputs
        left = self._residuals.keep(partial, options.identity)
        self.summed = partial.runs(self._spec.lanes)
        late = int(partial.late.sum())
        least = int(partial.counts.min())
        return Closing(attempts, len(partial.counts), least, late, left, array.size, options.identity)

    def _exchange(self, array: FloatArray, options: Options) -> FloatArray:
        """An all-to-all where the run has no job for it: a sum of words, in which each gives zeros for the others."""
        every = np.zeros((len(self.members), array.size), np.float32)
        every[self.members.index(self.rank)] = array
        self.attempt("all_reduce", every.reshape(-1), 0, 0.0, options)
        self._take_blocks(array, every, self.members)
        return every.reshape(-1)

    def _take_blocks(self, array: FloatArray, every: FloatArray, members: tuple[int, ...]) -> None:
        """The own block of each of these members' rows."""
        count = len(members)
        array[:] = every.reshape(count, count, -1)[:, members.index(self.rank)].reshape(-1)

    def _note(
        self,
        operation: str,
        array: FloatArray,
        start_ns: int,
        *,
        words: bool,
        closing: Closing | None = None,
        failed: str | None = None,
        saturated: int = 0,
    ) -> FloatArray:
        """A collective is over; its array."""
        end, digest = time.monotonic_ns(), hashlib.sha256(array.data).hexdigest()
        turn = self.first + len(self.carried)
        self.carried.append(
            Carried(operation, turn, array.size, start_ns, end, digest, words, closing, failed, saturated)
        )
        return array

    def _place(self, operation: str, root: int) -> tuple[int, EndpointSpec]:
        name = f"broadcast/{root}" if operation == "broadcast" else operation
        return self._places[self._spec.jobs[name]]
