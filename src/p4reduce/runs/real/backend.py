"""One participant in real time: its endpoints on a socket, and the collectives that they carry."""

import dataclasses
import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Protocol

import numpy as np
from pydantic import BaseModel, ConfigDict, Discriminator, Field

from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.plans.forest import shares
from p4reduce.group.backend import (
    COLLECTIVES,
    Asked,
    FloatArray,
    Options,
    Tallied,
    Wait,
    as_carried,
    part,
)
from p4reduce.group.backend import Move as LibraryMove
from p4reduce.group.errors import ClusterError, CollectiveError, RefusedError, SaturatedError
from p4reduce.group.membership import OnFailure
from p4reduce.network.jobs.specs import timing_of
from p4reduce.network.real.io.path import drop_waiting
from p4reduce.workers.endpoints import Endpoints
from p4reduce.workers.numbers import Partial, Residuals
from p4reduce.workers.operation import Post
from p4reduce.workers.records import EndpointState
from p4reduce.workers.specs import EndpointSpec, HostAddress, PsServerSpec, RingSpec, ServerSpec, Timing, WorkerSpec
from p4reduce.workers.status import EndpointStatus
from p4reduce.workers.udp import EndpointDriver, Port, PortCounts, SilenceError
from p4reduce.workers.wire import WORD_BITS
from p4switch.base.values import NS_PER_S, PS_PER_MS, PS_PER_NS

# A worker process's description as JSON: its endpoints, the binding of its socket, and its commands.


SocketAddress = tuple[str, int]
"""IPv4 address and UDP port."""
PATIENCE_S: Final = 60.0
"""Seconds without any answer after which a worker gives up."""


class SocketSpec(BaseModel):
    """The address of the process's socket: plain UDP, or with ``remote`` a tunnel to a switch port."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    local: SocketAddress
    remote: SocketAddress | None = None
    rate_bps: int = Field(0, ge=0)
    """Limit of the process's sending rate, bit/s; 0: none."""


class ProcessSpec(BaseModel):
    """The description of a worker process."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    host: str
    rank: int = Field(ge=0)
    """0 .. size-1; ``size`` for the host of a parameter server."""
    size: int = Field(ge=1)
    """Number of workers, including those that may join."""
    seed: int = Field(0, ge=0)
    socket: SocketSpec
    endpoints: list[Annotated[EndpointSpec, Discriminator("kind")]]
    jobs: dict[str, int]
    """Job of each operation: ``all_reduce``, ``push`` …, and ``broadcast/0`` from rank 0."""
    trees: list[tuple[int, int]] = []
    """Job and weight of each tree, if several trees carry an all-reduce."""
    patience_s: float = Field(PATIENCE_S, gt=0)
    quorum: int = Field(1, ge=1)
    """Contributions that suffice, if the endpoints' job has a deadline."""
    lane_bits: Literal[32, 16, 8] = 32
    """Bits of a lane in all-reduces of floats."""
    records: str | None = None
    """File with the records of its endpoints, for viewers, or None."""

    @property
    def lanes(self) -> int:
        """Return the lanes of the longest frame."""
        return max(endpoint.lanes for endpoint in self.endpoints)

    @property
    def address(self) -> HostAddress:
        """Return the host's address, which all its endpoints share."""
        return self.endpoints[0].link


class ScriptSpec(BaseModel):
    """The specification of a user's script, which adds to that of a worker."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    worker: ProcessSpec
    folder: str
    """Folder for the script's report."""
    coordinator: str
    """Path of the coordinator's socket (runs/real/coordinator.py)."""
    on_failure: OnFailure = "abort"
    members: tuple[int, ...] = ()
    """Ranks of the start; empty if this rank joins, which gets its endpoint from the group."""
    grows: bool = False
    """Whether other ranks may join."""

    @staticmethod
    def report(rank: int) -> str:
        """Return the name of a rank's report file."""
        return f"rank-{rank}.report"


def for_bmv2(spec: EndpointSpec, *, growth: int, most: int | None) -> EndpointSpec:
    """Return an endpoint adapted to BMv2, which lengthens a packet by at most ``growth`` bytes.

    most: limit of chunks on their way if a deadline keeps more chunks open; None: no limit.
    """
    if isinstance(spec, WorkerSpec | ServerSpec) and 4 * spec.lanes > growth:
        spec = dataclasses.replace(spec, repeats=True)
    if isinstance(spec, WorkerSpec) and spec.closes and most is not None:
        spec = dataclasses.replace(spec, window=min(most, spec.most))
    return spec


def real_timing(plan: Plan) -> Timing:
    """Return time-outs for real time, where round trips include the time that processes wait for shared processors."""
    ideal = timing_of(plan)
    longest = max(ideal.max_ps, 500 * PS_PER_MS)
    # Queries are cheap, so workers of trees and stars may ask early; in a ring or mesh whole frames are sent again.
    asks = not plan.ring and not plan.mesh
    return dataclasses.replace(
        ideal,
        initial_ps=max(ideal.initial_ps, (20 if asks else 100) * PS_PER_MS),
        min_ps=max(ideal.min_ps, (2 if asks else 20) * PS_PER_MS),
        max_ps=longest,
        retries=max(16, round(PATIENCE_S * 1000) * PS_PER_MS // longest),
    )


SHOWN: Final = ("resends", "spurious", "congested", "rtt_ps", "rtt_min_ps", "frames_sent")
"""shown fields of an endpoint's status"""
REST_US: Final = 100
"""Microseconds for which frames gather, at workers and embedded switches.

Several processes share few processors here, and a slightly longer round trip costs nothing while the window covers it.
"""


@dataclass(frozen=True)
class RealClosing:
    """One participant's record of an all-reduce of a job with a deadline.

    ``attempts``; ``chunks``; ``least``: the fewest contributions of a chunk; ``late``: chunks without this
    participant's contribution; ``left``: chunks of its arrays kept for the next all-reduce of the ``tensor``
    (``Options.identity``), which has ``elements``.
    """

    attempts: int
    chunks: int
    least: int
    late: int
    left: int
    elements: int
    tensor: str


@dataclass(frozen=True)
class CarriedCollective:
    """One participant's record of a collective. Times: nanoseconds of the machine's monotonic clock."""

    operation: str
    iteration: int
    elements: int
    start_ns: int
    end_ns: int
    sha256: str
    """SHA-256 of this participant's array at the end."""
    words: bool = False
    """Whether lanes were added as 32-bit words."""
    closing: RealClosing | None = None
    """Its contributions, if a deadline could close it without some; otherwise None."""
    failed: str | None = None
    """The error that every participant got instead of a result, or None."""
    saturated: int = 0
    """Chunks that saturated."""
    bare: tuple[int, ...] = ()
    """Chunks that travelled without lanes in each tree, since they are zero at all workers."""
    bits: int = WORD_BITS
    """Bits of the lanes."""


@dataclass(frozen=True)
class RealFigure:
    """A figure that a training script recorded."""

    name: str
    iteration: int
    time_ns: int
    value: float


@dataclass(frozen=True)
class Counts:
    """Counts of a participant's process: its endpoints by job (of a script by job and epoch), its port, CPU seconds."""

    endpoints: dict[str, EndpointStatus]
    port: PortCounts
    cpu_s: float

    def shown(self) -> dict[str, int]:
        """Return figures that show how a window settled."""
        *_, endpoint = self.endpoints.values()  # a script has one for each epoch
        known: dict[str, int] = {name: getattr(endpoint, name) for name in SHOWN}
        window = endpoint.window
        settled = {f"window_{name}": round(getattr(window, name)) for name in ("lowest", "highest", "mean")}
        causes = {name: getattr(window, name) for name in ("cuts", "braked", "lost_by_order", "lost_by_time")}
        ports = {"kernel_drops": self.port.dropped, "blocked": self.port.blocked}
        return {**known, "congestion_window": round(window.now), **settled, **causes, **ports}


@dataclass(frozen=True)
class WorkReport:
    """The end of a participant's work: figures that it recorded, and the digest of its weights after a training."""

    figures: tuple[RealFigure, ...]
    sha256: str | None


@dataclass(frozen=True)
class ScriptReport:
    """A script participant's report: when it began, the collectives since it joined, and its counts."""

    began_ns: int
    first: int
    carried: tuple[CarriedCollective, ...]
    figures: tuple[RealFigure, ...]
    counts: Counts


@dataclass(frozen=True)
class WorkCommand:
    """Command to do the work of an experiment (runs/participant.py). ``sizes``: elements of each plain tensor.

    ``given``, ``got``: files for this participant's arrays before and after each collective, or None.
    """

    experiment: dict[str, Any]
    sizes: tuple[int, ...]
    given: str | None = None
    got: str | None = None


class Observer(Protocol):
    """Observes the arrays of every collective; may block."""

    def given(self, array: FloatArray) -> None:
        """Take this participant's input, before the collective."""

    def got(self, array: FloatArray) -> None:
        """Take this participant's result, after the collective."""


class RealBackend:
    """A participant's end of the network in real time (``group.backend.Backend``). For one thread; must be closed."""

    looks_ahead = False  # sending frames at once is worth more than a saved round trip

    def __init__(self, spec: ProcessSpec) -> None:
        self.rank = spec.rank
        self.size = spec.size
        self.is_server = spec.rank == spec.size
        self.members = self.contributors = tuple(range(spec.size))
        """Ranks that take part now, and ranks whose arrays are in the last result."""
        self.carried: list[CarriedCollective] = []
        self.figures: list[RealFigure] = []
        self.summed: tuple[tuple[int, int], ...] = ()
        self.first = 0
        """Collectives of the group before this participant joined."""
        self._residuals = Residuals()
        self.observer: Observer | None = None
        self._spec = spec
        self._endpoints = Endpoints(None if spec.records is None else Path(spec.records))
        self._places = {endpoint.job: (self._endpoints.add(endpoint), endpoint) for endpoint in spec.endpoints}
        self._trees = spec.trees
        self._began_ns = time.monotonic_ns()
        where = spec.socket
        self.port = Port(
            spec.address, spec.lanes, local=where.local, remote=where.remote, rest_us=REST_US, rate_bps=where.rate_bps
        )
        try:
            if where.remote is not None:
                drop_waiting(self.port.socket)
            self._driver = EndpointDriver(self._endpoints, self.port)
        except BaseException:
            self.port.close()
            raise

    def collective(self, asked: Asked) -> int:
        """Take part in one collective, and block until it ends. It starts now, whatever ``start_ps`` says.

        Raises ``ValueError`` for NaN or infinity, ``SaturatedError`` for a sum beyond int32, ``CollectiveError`` if the
        network fails.
        """
        self.check(asked.operation, asked.root, asked.options)
        self.attempt(asked)
        return self.now_ps()

    def check(self, operation: str, root: int, options: Options) -> None:
        """Raise `RefusedError`, the same at all ranks, if the run has no job for the operation; nothing is sent."""
        if options.stale:
            raise RefusedError(f"{operation}: staleness is for virtual time only")
        if options.lane_bits not in (0, WORD_BITS, self._spec.lane_bits):
            raise RefusedError(
                f"{operation}: lane_bits: {options.lane_bits}, but in real time a run has one width beside "
                f"{WORD_BITS}: start it with --lane-bits {options.lane_bits}"
            )
        jobs = self._spec.jobs
        summed = operation in {"broadcast", "all_to_all"} and "all_reduce" in jobs
        if operation not in jobs and f"{operation}/{root}" not in jobs and not summed and self.size > 1:
            known = ", ".join(sorted(jobs)) or "none"
            raise RefusedError(f"{operation}: {self._spec.host} has no job for it; the jobs are for {known}")

    def attempt(self, called: Asked) -> FloatArray:
        """Carry one collective among ``members`` to its end; return the array that every member then has."""
        operation, array, root, options = called.operation, called.array, called.root, called.options
        if operation == "broadcast" and self.size == 1:
            return array
        asked = options.name or operation
        if operation == "broadcast" and f"broadcast/{root}" not in self._spec.jobs:
            # Sum words, with zeros from all ranks but the root.
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
        bits = self._bits(operation, options)
        options = replace(options, lane_bits=bits)
        lost = None if bits == WORD_BITS else np.zeros_like(array)
        given = {
            place: part(
                COLLECTIVES[carried],
                array[where],
                iteration,
                called.learning_rate,
                options,
                serves=serves,
                lost=None if lost is None else lost[where],
            )
            for place, where in self._parts(operation, index, array.size, bits)
        }
        closes = isinstance(endpoint, WorkerSpec) and endpoint.closes and operation == "all_reduce"
        closes = closes and not (options.words or options.poison)
        if closes or lost is not None:
            self._residuals.add_to(array, options.identity)
        if self.observer is not None:
            self.observer.given(array)
        before = [self._endpoints.status(place) for place in given]
        start = time.monotonic_ns()
        closing = None
        if closes:
            closing = self._close(given[index], index, array, options)
        else:
            self._carry_out(given, options)
            if lost is not None:
                self._residuals.keep_rounding(lost, options.identity)
        self.summed = self.summed if closes else ()
        after = [self._endpoints.status(place) for place in given]
        held = sum(now.saturated - then.saturated for now, then in zip(after, before, strict=True))
        failed = f"{asked} #{iteration}: a sum of int32 lies beyond int32" if options.words and held else None
        self._note(
            asked,
            array,
            start,
            words=options.words,
            closing=closing,
            failed=failed,
            saturated=held,
            bare=tuple(now.bare - then.bare for now, then in zip(after, before, strict=True)),
            bits=bits,
        )
        if failed is not None:  # all other ranks get the same error
            raise SaturatedError(failed)
        if self.observer is not None:
            self.observer.got(array)
        return array

    def compute(self, seconds: float) -> None:
        """Do nothing: in real time a computation takes its own time."""

    def now(self) -> float:
        """Return the seconds since this participant was made."""
        return (time.monotonic_ns() - self._began_ns) / NS_PER_S

    def now_ps(self) -> int:
        """Return the picoseconds since this participant was made."""
        return (time.monotonic_ns() - self._began_ns) * PS_PER_NS

    def reach(self, time_ps: int, move: int = -1) -> None:
        """Do nothing: time passes by itself."""

    def group(self, ranks: tuple[int, ...], serial: int) -> "RealBackend":
        """Raise: in real time jobs are made before the workers, so there are no subgroups."""
        raise ClusterError(f"group {list(ranks)}: in real time there is one group, of all workers")

    def waited(self, wait: Wait) -> None:
        """Do nothing: real time has no traces."""

    def messenger(self) -> None:
        """Return None: in real time other libraries take their own time."""

    def move(self, move: LibraryMove) -> int:
        """Raise: there is no virtual time."""
        raise ClusterError(f"{move.name}: in real time other libraries take the time that they take")

    def moved_ps(self, number: int) -> int:
        """Raise as `move` does."""
        raise ClusterError(f"move {number}: in real time other libraries take the time that they take")

    def tallied(self, rows: Sequence[Tallied]) -> None:
        """Do nothing: real time keeps no tally."""

    def record(self, name: str, value: float) -> None:
        """Record a figure of the training."""
        self.figures.append(RealFigure(name, self.first + len(self.carried), time.monotonic_ns(), value))

    def close(self) -> None:
        """Leave the group."""
        self._driver.close()
        self.port.close()

    @property
    def alone(self) -> bool:
        """Return whether it is the last member of several."""
        return len(self.members) == 1 < self.size

    @property
    def began_ns(self) -> int:
        """Return when this participant was made, nanoseconds of the monotonic clock."""
        return self._began_ns

    def statuses(self) -> dict[int, EndpointStatus]:
        """Return the status of each endpoint, by job."""
        return {job: self._endpoints.status(index) for job, (index, _) in self._places.items()}

    def counts(self) -> PortCounts:
        """Return the counts of the port."""
        return self.port.counts()

    def _carry_out(self, given: Mapping[int, Post], options: Options) -> None:
        """Carry these posts; raise ``CollectiveError`` if the network fails."""
        first = next(iter(given.values()))
        name = f"{first.collective.name.lower()} #{first.iteration}: {self._spec.host}"
        try:
            self._driver.carry_out(given, patience_s=options.patience_s or self._spec.patience_s)
        except SilenceError as error:
            raise CollectiveError(f"{name}: {error}") from error
        for index in given:
            status = self._endpoints.status(index)
            if status.state is EndpointState.FAILED or status.error is not None:
                raise CollectiveError(f"{name}: {status.error}")

    def _close(self, given: Post, index: int, array: FloatArray, options: Options) -> RealClosing:
        """Repeat an all-reduce until each chunk has enough contributions; all ranks know these, and decide alike."""
        inputs = array.copy()
        attempts = 0
        while True:
            attempts += 1
            partial = Partial.of(array.size, given.chunk_elements(self._spec.lanes))
            self._carry_out({index: replace(given, partial=partial)}, options)
            if partial.counts.min() >= min(self._spec.quorum, self.size):
                break
            array[:] = inputs
        left = self._residuals.keep(partial, options.identity)
        self.summed = partial.runs(given.chunk_elements(self._spec.lanes))
        late = int(partial.late.sum())
        least = int(partial.counts.min())
        return RealClosing(attempts, len(partial.counts), least, late, left, array.size, options.identity)

    def _bits(self, operation: str, options: Options) -> int:
        """Return the bits of the lanes that an operation uses."""
        if operation != "all_reduce" or options.words:
            return WORD_BITS
        return options.lane_bits or self._spec.lane_bits

    def _exchange(self, array: FloatArray, options: Options) -> FloatArray:
        """Do an all-to-all without a job for it: a sum of words, in which each rank gives zeros for the others."""
        every = np.zeros((len(self.members), array.size), np.float32)
        every[self.members.index(self.rank)] = array
        self.attempt(Asked("all_reduce", every.reshape(-1), options=options))
        self._take_blocks(array, every, self.members)
        return every.reshape(-1)

    def _take_blocks(self, array: FloatArray, every: FloatArray, members: tuple[int, ...]) -> None:
        """Copy this rank's block of each member's row to ``array``."""
        count = len(members)
        array[:] = every.reshape(count, count, -1)[:, members.index(self.rank)].reshape(-1)

    def _note(
        self,
        operation: str,
        array: FloatArray,
        start_ns: int,
        *,
        words: bool,
        closing: RealClosing | None = None,
        failed: str | None = None,
        saturated: int = 0,
        bare: tuple[int, ...] = (),
        bits: int = WORD_BITS,
    ) -> FloatArray:
        """Record a finished collective; return its array."""
        end, digest = time.monotonic_ns(), hashlib.sha256(array.data).hexdigest()
        turn = self.first + len(self.carried)
        self.carried.append(
            CarriedCollective(
                operation, turn, array.size, start_ns, end, digest, words, closing, failed, saturated, bare, bits
            )
        )
        return array

    def _parts(self, operation: str, index: int, elements: int, bits: int) -> list[tuple[int, slice]]:
        """Return the endpoints that carry an operation, with the part of the array of each."""
        trees = self._trees if operation == "all_reduce" else []
        if not trees:
            return [(index, slice(0, elements))]
        bounds = shares(elements, [weight for _, weight in trees], self._spec.lanes * (WORD_BITS // bits))
        parts = [(self._places[job][0], slice(a, b)) for (job, _), (a, b) in zip(trees, bounds, strict=True) if b > a]
        return parts or [(index, slice(0, elements))]

    def _place(self, operation: str, root: int) -> tuple[int, EndpointSpec]:
        name = f"broadcast/{root}" if operation == "broadcast" else operation
        return self._places[self._spec.jobs[name]]
