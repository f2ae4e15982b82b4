"""The result of a run.

In virtual time ``network`` is the same on every machine; ``training`` may differ if BLAS does. A run in real time has
``real``: its times are of this machine's clock, while its counts and bytes are exact.
"""

import json
import statistics
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from p4reduce.group.backend import COMPUTE, Figure, TimeSpan
from p4reduce.group.communicator import STEP
from p4reduce.group.membership import MembershipDecision
from p4switch.base.values import PS_PER_US, table

_UNLESS_EMPTY: Final = Field(exclude_if=lambda items: not items)


@dataclass(frozen=True)
class LinkLoad:
    """One directed link: from ``node``'s ``port`` to ``peer``. Bytes as a pcap shows them, without FCS."""

    node: str
    port: int
    peer: str
    frames: int
    bytes: int
    first_frames: int
    """INC frames that their sender sent for the first time …"""
    first_bytes: int
    resend_frames: int
    """… and again."""
    resend_bytes: int
    predicted_frames: int
    predicted_bytes: int
    lost: int
    duplicated: int
    reordered: int
    corrupted: int
    queue_drops: int
    max_queue: int
    """Most frames that waited in the queue at once."""
    busy_ps: int


@dataclass(frozen=True)
class CollectiveRecord:
    """One collective: from the first participant's call to the last participant's result."""

    operation: str
    iteration: int
    elements: int
    start_ps: int
    done_ps: int
    communication_ps: int
    """Longest time from a participant's call to its result. Early participants may send before the others call."""
    bound_ps: int
    """The least time on the plan's busiest link, headers included (control_plane/counters.py)."""
    resends: int = 0
    saturated: int = 0
    """Chunks in which a lane saturated (their sum is not exact)."""
    max_error: float | None = None
    """Largest distance of an element from the float64 sum of the inputs; None if nothing is summed."""
    error_bound: float | None = None
    """The documented bound for the element that came nearest to its bound."""
    failed: Annotated[str | None, Field(exclude_if=lambda error: error is None)] = None
    """The error that every rank got instead of a result, or None; the group went on."""


@dataclass(frozen=True)
class TreeEdge:
    """A hop of a job's overlay: from ``child`` to ``parent`` over the nodes of ``path``."""

    job: int
    child: str
    parent: str
    path: tuple[str, ...]


@dataclass(frozen=True)
class ClosedRecord:
    """An all-reduce that a deadline closed without some contributions, or that was repeated until it had enough."""

    iteration: int
    attempts: int
    chunks: int
    least: int
    """Fewest contributions of a chunk."""
    late: Mapping[int, int]
    """Number of late chunks by rank, for ranks that were late."""


@dataclass(frozen=True)
class LeftOutRecord:
    """Chunks of a rank's arrays that came too late and are in no sum."""

    rank: int
    tensor: str
    """Name of the tensor, or its place in a step; empty if neither is known."""
    elements: int
    chunks: int


@dataclass(frozen=True)
class NetworkResult:
    """Figures of the network: exact and equal on every machine in virtual time; in real time, times are wall-clock."""

    plan: str
    topology: str
    workers: int
    lanes: int
    elements: int
    window: int
    slots: int
    slots_limited: bool
    """True if the slot pool, not the link, limits the rate."""
    rtt_ps: int
    communication_ps: int
    """Median over the collectives that move the most; for a script, over its steps (``steps``)."""
    bound_ps: int
    ratio_to_bound: float
    total_bytes: int
    busiest_bytes: int
    busiest_link: str
    bytes_per_iteration: int
    """Total bytes divided by the number of collectives; for a script, by that of its steps."""
    prediction_differences: list[str]
    """Empty if the counted first transmissions equal the prediction on every link."""
    result_sha256: str
    """SHA-256 of the results that every worker ended with (for given tensors, not for training)."""
    refused: dict[str, dict[str, int]]
    """Packets refused by the P4 program: switch -> reason -> count."""
    collectives: list[CollectiveRecord] = field(default_factory=list)
    links: list[LinkLoad] = field(default_factory=list)
    bound_link: str = ""
    """The link that sets the lower bound of an all-reduce with this plan, as ``leaf0 -> spine1``."""
    loss_bound_ps: Annotated[int | None, Field(exclude_if=lambda bound: bound is None)] = None
    """Bound for a run whose links lose frames, or None (``control_plane.counters.lossy_bound_ps``).

    It is the least average time, with repeated frames on the busiest link and the tail of repairs after the last chunk.
    """
    ratio_to_loss_bound: Annotated[float | None, Field(exclude_if=lambda ratio: ratio is None)] = None
    steps: int | None = None
    """Number of steps of a script …"""
    steps_by: str | None = None
    """… found by ``marks`` (comm.step()), by ``repetition`` of its collectives, or the whole ``run`` taken as one."""
    tree: list[TreeEdge] = field(default_factory=list)
    """Edges of all jobs; for ring and ps the hops of the streams."""
    membership: Annotated[list[MembershipDecision], _UNLESS_EMPTY] = field(default_factory=list)
    """Decisions on members that died or joined, in order.

    Frames are then not compared with a prediction, as what was under way is unpredictable.
    """
    closed: Annotated[list[ClosedRecord], _UNLESS_EMPTY] = field(default_factory=list)
    """All-reduces that a deadline closed.

    Then frames are compared with no prediction: late workers are unpredictable.
    """
    left_out: Annotated[list[LeftOutRecord], _UNLESS_EMPTY] = field(default_factory=list)
    """Contributions that came too late and are in no sum, by rank."""


def _over_losses(network: NetworkResult) -> list[tuple[str, str]]:
    ratio = network.ratio_to_loss_bound
    return [] if ratio is None else [("over the bound with losses", f"{ratio:.3f}")]


class LeftOut:
    """Tracks contributions that came too late, by rank and tensor, until they are in a later sum."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, str, int], int] = {}
        self._lost: Counter[tuple[int, str, int]] = Counter()

    def note(self, rank: int, tensor: str, elements: int, chunks: int) -> None:
        """Note the end of an all-reduce: it includes what was kept of its tensor, but not ``chunks`` of this rank."""
        if not tensor:
            self._lost[rank, tensor, elements] += chunks
            return
        self._kept.pop((rank, tensor, elements), None)
        if chunks:
            self._kept[rank, tensor, elements] = chunks

    def records(self) -> list[LeftOutRecord]:
        """Return the contributions that are in no sum, by rank."""
        every = sorted((self._lost + Counter(self._kept)).items())
        return [LeftOutRecord(*key, chunks) for key, chunks in every]


@dataclass(frozen=True)
class TrainingPoint:
    """A figure that rank 0 recorded."""

    name: str
    iteration: int
    time_s: float
    """Virtual time; in real time seconds of training, without the time of checking sums."""
    value: float


@dataclass(frozen=True)
class TrainingResult:
    """Results of a training: floating point, which may differ between CPUs if BLAS does."""

    points: list[TrainingPoint]
    test_accuracy: float | None
    baseline_accuracy: float | None
    """Test accuracy of the same training in one process in float32."""
    target_accuracy: float | None
    time_to_target_s: float | None
    """Time (as of ``points``) at which the target accuracy was first reached; None if never."""
    max_error: float | None
    error_bound: float | None
    result_sha256: str | None
    """SHA-256 of the results of all collectives."""
    weights_sha256: str | None = None
    """SHA-256 of the parameters with which every worker ended; None for a script's own training."""


@dataclass(frozen=True)
class MachineRun:
    """One of several machines of a run in real time."""

    nodes: list[str]
    """Nodes of the topology on this machine."""
    offset_ns: int
    """Time by which its monotonic clock is ahead of the controller's machine's; ranks' times are corrected by it."""
    error_ns: int
    """Uncertainty of the offset: half of the shortest round trip, plus half of the drift until the end."""


@dataclass(frozen=True)
class RealRun:
    """Figures of a run in real time, which hold for its machines at that time; good for ratios within one run."""

    target: str
    links: str
    shaping: str
    """What limits links to their rates."""
    goodput_bps: float
    """Payload of one worker over the median time of a collective."""
    packets_per_s: float
    """Frames that entered switches over the time of all collectives."""
    cpu_s: dict[str, float]
    """CPU seconds during the collectives: ``workers``, ``switches``, and ``session`` with all its threads."""
    lost: int
    """Frames that links lost on purpose."""
    kernel_drops: int
    """Frames lost by accident: no room in the kernel at a worker or an embedded switch."""
    workers: dict[str, dict[str, int]]
    """By host: ``resends``, ``congested`` (frames with an ECN mark), ``window_ps`` … at the end of its endpoint."""
    changes: list[dict[str, int]] = field(default_factory=list)
    """Times of each decision of ``network.membership``, of the machine's monotonic clock.

    ``noticed_ns``: when the coordinator knew of the change; ``resumed_ns``: when it told the survivors to go on.
    """
    lost_switches: Annotated[list[str], _UNLESS_EMPTY] = field(default_factory=list)
    """Switches that had ended or did not answer at the end of the run: their counts are missing."""
    machines: Annotated[dict[str, MachineRun], _UNLESS_EMPTY] = field(default_factory=dict)
    """The machines of a run on several machines."""


@dataclass(frozen=True)
class ModelError:
    """Errors of the flow model against runs on packets, as shares of the time on packets."""

    mean: float
    worst: float
    settings: int
    """number of settings in the check"""
    command: str
    """command that measures the error"""

    def __str__(self) -> str:
        return self.text("one collective at a time")

    def text(self, what: str) -> str:
        """Return a line of text. what: describes the settings."""
        return (
            f"flow model, no packets: off by {100 * self.mean:.2f} % on average and {100 * self.worst:.1f} % at most "
            f"in {self.settings} random settings of {what} ({self.command})"
        )


MODEL_ERROR: Final = ModelError(0.0002, 0.0504, 297, "make soak-flow COUNT=400 SEED=20117")
"""for one collective at a time, as in most commands"""
TASKS_ERROR: Final = ModelError(0.0029, 0.1022, 110, "make soak-flow TASKS=--tasks COUNT=110 SEED=90233")
"""for several tasks, as ``p4reduce orchestrate`` runs them"""


@dataclass(frozen=True)
class ScriptReplay:
    """Replay of a script whose ranks sent messages: messages and sums are packets on the same links.

    The result does not depend on the threads, processes and machines of the ranks, or on the order of their calls.
    """

    total_ps: int
    """time from the first call to the end of the last one"""
    bound_ps: int
    """lower bound: the time of the busiest link, or the longest computation of a rank"""
    bound_by: str
    """that link, as ``leaf0 -> spine1``, or that rank"""
    exposed_ps: int
    """communication that no computation overlaps, of the rank with most of it"""
    messages: int

    def __str__(self) -> str:
        ratio = self.total_ps / self.bound_ps if self.bound_ps else 0.0
        return (
            f"played once more, with its {self.messages} messages as packets beside the sums: "
            f"{self.total_ps / PS_PER_US:,.1f} µs, {ratio:.3f} times the least ({self.bound_by})"
        )


@dataclass(frozen=True)
class RunResult:
    """The result of one run, and the contents of its file (``base/records.py``).

    ``real`` is present only in real time, ``flow`` only in the flow model; ``membership``, ``closed``, ``left_out`` and
    a collective's ``failed`` only if not empty.
    """

    experiment: dict[str, Any]
    provenance: dict[str, str]
    """Commit, SHA-256 of the P4 JSON, versions, seed. No wall-clock time: the same run gives the same bytes."""
    network: NetworkResult
    training: TrainingResult | None
    topology: dict[str, Any]
    """``nodes`` (name, kind, capable) and ``links`` (a, b, rate_bps, delay_ps), for drawing."""
    real: Annotated[RealRun | None, Field(exclude_if=lambda real: real is None)] = None
    """Figures of a run in real time, else None."""
    flow: Annotated[ModelError | None, Field(exclude_if=lambda error: error is None)] = None
    """Error of the flow model for a run in it, whose bytes are predicted, not counted; else None."""
    replay: Annotated[ScriptReplay | None, Field(exclude_if=lambda replay: replay is None)] = None
    """Replay of a script whose ranks sent messages in virtual time, else None. All other times of such a script are
    estimates if messages and sums, or several groups, used the network at once."""

    def _repr_html_(self) -> str:
        """Return an HTML table for notebooks."""
        network = self.network
        differing = len(network.prediction_differences)
        rows = [
            ("workers", network.workers),
            ("elements of an iteration", f"{network.elements:,}"),
            ("network time of an iteration", f"{network.communication_ps / 1e6:,.4g} µs"),
            ("over the lower bound", f"{network.ratio_to_bound:.3f}"),
            *_over_losses(network),
            ("bytes on all links", f"{network.total_bytes:,}"),
            ("bytes on the busiest link", f"{network.busiest_bytes:,} ({network.busiest_link})"),
            (
                "counted as predicted",
                "not counted: " + str(self.flow)
                if self.flow is not None
                else "on every link"
                if not differing
                else f"no: {differing} differences",
            ),
        ]
        return table(f"{network.plan} on {network.topology}", (), rows)


# The network time of a script's steps: between its own marks, or for collectives that repeat.


MOST_APART: Final = 4
"""most collectives before the first step, or after the last, that belong to no step: broadcast weights, a check"""
How = Literal["marks", "repetition", "run"]


@dataclass(frozen=True)
class StepResult:
    """One step: its time without declared computation, the sum of its lower bounds, and a rank's elements."""

    communication_ps: int
    bound_ps: int
    elements: int


@dataclass(frozen=True)
class Steps:
    """The steps of a run, and how they were found."""

    every: tuple[StepResult, ...]
    how: How
    """``marks``: by ``comm.step()``; ``repetition``: of a sequence of collectives; ``run``: nothing repeats."""
    collectives: int
    """number of collectives in a step; for marked steps, the median"""

    @property
    def median(self) -> StepResult | None:
        """Return the step with the median communication time; None without steps."""
        if not self.every:
            return None
        middle = statistics.median_low(step.communication_ps for step in self.every)
        return next(step for step in self.every if step.communication_ps == middle)


def steps_of(records: Sequence[CollectiveRecord], figures: Sequence[Figure], spans: Sequence[TimeSpan]) -> Steps:
    """Return the steps of a script whose ranks recorded ``figures`` and ``spans``."""
    marks: dict[int, list[int]] = {}
    for figure in figures:
        if figure.name == STEP:
            marks.setdefault(figure.rank, []).append(figure.time_ps)
    if marks:
        return _between(marks, records, spans)
    sequence = [(record.operation, record.elements) for record in records]
    first, period, count = _repeated(sequence)
    repeats = [records[first + period * number : first + period * (number + 1)] for number in range(count)]
    return Steps(tuple(_sum(own) for own in repeats), "repetition" if count > 1 else "run", period)


def _between(marks: dict[int, list[int]], records: Sequence[CollectiveRecord], spans: Sequence[TimeSpan]) -> Steps:
    """Return the steps between each rank's marks; a step is as long as that of the slowest rank."""
    count = min(map(len, marks.values()))
    longest = [0] * count
    for rank, times in marks.items():
        own = [span for span in spans if span.rank == rank]
        begin = min((span.start_ps for span in own), default=times[0])
        computed = [(span.start_ps, span.end_ps) for span in own if span.name == COMPUTE]
        for number, end in enumerate(times[:count]):
            longest[number] = max(longest[number], end - begin - _inside(computed, begin, end))
            begin = end
    ends = [max(times[number] for times in marks.values()) for number in range(count)]
    within: list[list[CollectiveRecord]] = [[] for _ in ends]
    for record in records:
        number = bisect_left(ends, record.done_ps)
        if number < count:
            within[number].append(record)
    steps = tuple(
        StepResult(time, sum(record.bound_ps for record in own), sum(record.elements for record in own))
        for time, own in zip(longest, within, strict=True)
    )
    return Steps(steps, "marks", statistics.median_low(map(len, within)) if within else 0)


def _inside(spans: Sequence[tuple[int, int]], begin: int, end: int) -> int:
    return sum(max(0, min(stop, end) - max(start, begin)) for start, stop in spans)


def _sum(records: Sequence[CollectiveRecord]) -> StepResult:
    """Return a step of consecutive collectives; the overlap of one with the one before is not counted twice."""
    time, done = 0, 0
    for record in records:
        time += max(0, min(record.communication_ps, record.done_ps - done))
        done = max(done, record.done_ps)
    return StepResult(time, sum(record.bound_ps for record in records), sum(record.elements for record in records))


def _repeated(sequence: Sequence[tuple[str, int]]) -> tuple[int, int, int]:
    """Return (first, period, count) of the shortest sequence that repeats; (0, length, 1) if none does.

    A few collectives at the beginning and at the end may be left over; the fewest are preferred.
    """
    most = min(MOST_APART, len(sequence) // 4)
    for apart in range(2 * most + 1):
        for first in range(max(0, apart - most), min(apart, most) + 1):
            part = sequence[first : len(sequence) - (apart - first)]
            period = _period(part)
            if period <= len(part) // 2:
                return first, period, len(part) // period
    return 0, len(sequence), int(len(sequence) > 0)


def _period(sequence: Sequence[tuple[str, int]]) -> int:
    """Return the least p > 0 with ``sequence[i] == sequence[i + p]`` for all valid i (Knuth, Morris, Pratt 1977)."""
    longest = [0] * len(sequence)
    matched = 0
    for place in range(1, len(sequence)):
        while matched and sequence[place] != sequence[matched]:
            matched = longest[matched - 1]
        matched += sequence[place] == sequence[matched]
        longest[place] = matched
    return max(1, len(sequence) - longest[-1]) if longest else 1


# The activities of each rank, as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing show.
#
# The format is the Trace Event Format's JSON object: one complete event ("X") for each span, times in microseconds. A
# rank is a process, with a thread for its computation and one for each group's collectives, so that overlapping spans
# are shown one above the other.


def timeline(spans: Iterable[TimeSpan]) -> dict[str, Any]:
    """Return the trace of some spans."""
    events: list[dict[str, Any]] = []
    rows: dict[int, dict[str, int]] = {}
    for span in sorted(spans, key=lambda span: (span.rank, span.start_ps, span.end_ps, span.name)):
        what, *where = span.name.partition(" [")
        kind = (COMPUTE if what == COMPUTE else "collectives") + "".join(where)
        if span.rank not in rows:
            rows[span.rank] = {}
            events.append(_name("process_name", span.rank, 0, f"rank {span.rank}"))
        mine = rows[span.rank]
        if kind not in mine:
            mine[kind] = len(mine)
            events.append(_name("thread_name", span.rank, mine[kind], kind))
        event = {
            "name": span.label or span.name,
            "cat": COMPUTE if what == COMPUTE else "collective",
            "ph": "X",
            "pid": span.rank,
            "tid": mine[kind],
            "ts": span.start_ps / PS_PER_US,
            "dur": (span.end_ps - span.start_ps) / PS_PER_US,
        }
        if span.elements:
            event["args"] = {"elements": span.elements, "bytes": 4 * span.elements}
        events.append(event)
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def write_timeline(path: Path, spans: Iterable[TimeSpan]) -> Path:
    """Write the trace of spans as JSON; the same spans give the same bytes. Return the path."""
    path.write_text(json.dumps(timeline(spans), indent=0) + "\n", "utf-8")
    return path


def _name(what: str, rank: int, row: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": rank, "tid": row, "args": {"name": name}}
