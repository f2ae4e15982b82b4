"""What a run leaves behind.

In virtual time ``network`` is the same on every machine; ``training`` may differ where BLAS does. A run in real time
has ``real``: its times are of this machine's clock, its counts and bytes as exact as ever.
"""

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from p4reduce.base.html import table


@dataclass(frozen=True)
class LinkLoad:
    """One directed link: from ``node``'s ``port`` to ``peer``. Bytes as a pcap shows them, without FCS."""

    node: str
    port: int
    peer: str
    frames: int
    bytes: int
    first_frames: int
    """INC frames sent for the first time by their sender …"""
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
    """Longest time from a participant's own call to its own result. Participants need not call at once: where they
    are apart, those who come first can already send."""
    bound_ps: int
    """The least that it takes on the plan's busiest link, headers included (control_plane/bounds.py)."""
    resends: int
    saturated: int
    """Chunks in which a lane saturated (their sum is not exact)."""
    max_error: float | None
    """Largest distance of an element from the float64 sum of the inputs; None where nothing is summed."""
    error_bound: float | None
    """The documented bound for the element that came nearest to its bound."""
    failed: str | None = None
    """The error that every rank got in the place of a result; the group went on."""


@dataclass(frozen=True)
class NetworkResult:
    """What the network did. In virtual time exact, and equal on every machine; else times are of the wall clock."""

    plan: str
    topology: str
    workers: int
    lanes: int
    elements: int
    window: int
    slots: int
    slots_limited: bool
    """True when the slot pool, not the link, limits the rate."""
    rtt_ps: int
    communication_ps: int
    """Median over the collectives that move the most; of a script, over its steps (``steps``)."""
    bound_ps: int
    ratio_to_bound: float
    total_bytes: int
    busiest_bytes: int
    busiest_link: str
    bytes_per_iteration: int
    """Total bytes divided by the number of collectives; of a script, of its steps."""
    prediction_differences: list[str]
    """Empty: first transmissions counted equal the prediction on every link."""
    result_sha256: str
    """Of the bytes that every worker ended with (given tensors only, not training)."""
    refused: dict[str, dict[str, int]]
    """Packets refused by the P4 program: switch -> reason -> count."""
    collectives: list[CollectiveRecord] = field(default_factory=list)
    links: list[LinkLoad] = field(default_factory=list)
    bound_link: str = ""
    """The link that sets the lower bound of an all-reduce with this plan, as ``leaf0 -> spine1``."""
    steps: int | None = None
    """Of a script: how many steps it had …"""
    steps_by: str | None = None
    """… found by ``marks`` (comm.step()), by ``repetition`` of its collectives, or the whole ``run`` taken as one."""
    tree: list[dict[str, Any]] = field(default_factory=list)
    """Overlay edges: ``child``, ``parent``, ``path`` (node names); for ring and ps the hops of the streams."""
    membership: list[dict[str, Any]] = field(default_factory=list)
    """What was decided of the group's members when some died (``Decision``), in order. Then frames are held against no
    prediction: nobody predicts what was under way."""
    closed: list[dict[str, Any]] = field(default_factory=list)
    """All-reduces that a deadline closed without some: ``iteration``, ``attempts``, its ``chunks``, the ``least``
    contributions of one, and how many of each rank's chunks came too ``late``. Then frames are held against no
    prediction, either: nobody predicts who comes too late."""


@dataclass(frozen=True)
class TrainingPoint:
    """A figure that rank 0 recorded."""

    name: str
    iteration: int
    time_s: float
    """Virtual time; in real time seconds of training, without those in which the sums were checked."""
    value: float


@dataclass(frozen=True)
class TrainingResult:
    """What training computed; floating point, so it may differ between CPUs where BLAS does."""

    points: list[TrainingPoint]
    test_accuracy: float | None
    baseline_accuracy: float | None
    """The same training in one process in float32."""
    target_accuracy: float | None
    time_to_target_s: float | None
    """Time (as of ``points``) at which the target accuracy was first reached; None if never."""
    max_error: float | None
    error_bound: float | None
    result_sha256: str | None
    """Of what every collective gave."""
    weights_sha256: str | None = None
    """Of the parameters with which every worker ended; None for a script's own training."""


@dataclass(frozen=True)
class RealRun:
    """What only a run in real time has: figures of one machine at one time, good for ratios within one run."""

    target: str
    links: str
    shaping: str
    """What holds links to their rates."""
    goodput_bps: float
    """Payload of one worker over the median time of a collective."""
    packets_per_s: float
    """Frames that came into switches over the time of all collectives."""
    cpu_s: dict[str, float]
    """CPU seconds during the collectives: ``workers``, ``switches``, and ``session`` with all its threads."""
    lost: int
    """Frames that were lost on links on purpose."""
    kernel_drops: int
    """Frames that were lost by accident: no room in the kernel at a worker or an embedded switch."""
    workers: dict[str, dict[str, int]]
    """For each host: ``resends``, ``congested`` (frames with an ECN mark), ``window_ps`` … as its endpoint ended."""
    changes: list[dict[str, int]] = field(default_factory=list)
    """For each decision of ``network.membership``: ``noticed_ns``, when the coordinator knew of it, and ``resumed_ns``,
    when it told the survivors to go on; of the machine's monotonic clock."""


@dataclass(frozen=True)
class RunResult:
    """The result file of one run."""

    experiment: dict[str, Any]
    provenance: dict[str, str]
    """Commit, SHA-256 of the P4 JSON, versions, seed. No wall-clock time: the same run gives the same bytes."""
    network: NetworkResult
    training: TrainingResult | None
    topology: dict[str, Any]
    """``nodes`` (name, kind, capable) and ``links`` (a, b, rate_bps, delay_ps), for drawing."""
    real: RealRun | None = None
    """Only of a run in real time."""

    def plain(self) -> dict[str, Any]:
        """As plain data. In virtual time there is no key ``real``; ``membership``, ``closed`` and a collective's
        ``failed`` only where they hold something.
        """
        data = dataclasses.asdict(self)
        if self.real is None:
            del data["real"]
        if not self.network.membership:
            del data["network"]["membership"]
        if not self.network.closed:
            del data["network"]["closed"]
        for record in data["network"]["collectives"]:
            if record["failed"] is None:
                del record["failed"]
        return data

    def to_json(self) -> str:
        """Stable JSON: the same run in virtual time gives the same bytes."""
        return json.dumps(self.plain(), indent=1, sort_keys=True) + "\n"

    def _repr_html_(self) -> str:
        """For notebooks."""
        network = self.network
        differing = len(network.prediction_differences)
        rows = [
            ("workers", network.workers),
            ("elements of an iteration", f"{network.elements:,}"),
            ("network time of an iteration", f"{network.communication_ps / 1e6:,.4g} us"),
            ("over the lower bound", f"{network.ratio_to_bound:.3f}"),
            ("bytes on all links", f"{network.total_bytes:,}"),
            ("bytes on the busiest link", f"{network.busiest_bytes:,} ({network.busiest_link})"),
            ("counted as predicted", "on every link" if not differing else f"no: {differing} differences"),
        ]
        return table(f"{network.plan} on {network.topology}", (), rows)

    @staticmethod
    def from_json(text: str) -> "RunResult":
        """Read a result file. Raises ``ValueError`` when it is not one."""
        try:
            data = json.loads(text)
            network = data["network"]
            network["collectives"] = [CollectiveRecord(**record) for record in network["collectives"]]
            network["links"] = [LinkLoad(**load) for load in network["links"]]
            training, real = data["training"], data.get("real")
            if training is not None:
                training["points"] = [TrainingPoint(**point) for point in training["points"]]
            return RunResult(
                experiment=data["experiment"],
                provenance=data["provenance"],
                network=NetworkResult(**network),
                training=None if training is None else TrainingResult(**training),
                topology=data["topology"],
                real=None if real is None else RealRun(**real),
            )
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"not a result file of p4reduce: {error}") from error
