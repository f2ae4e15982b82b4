"""A sender's window, and the streams of an all-to-all, in endpoints' records."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.native.memory import address_of
from p4reduce.workers.kernels.congestion import set_up
from p4reduce.workers.numbers import NumberMode
from p4reduce.workers.operation import Post
from p4reduce.workers.records import ENDPOINT_DTYPE, ENTRY_DTYPE, NEVER, State
from p4reduce.workers.settings import Congestion, Timing
from p4reduce.workers.specs import MAX_RING_WINDOW, AllToAllSpec, RingSpec
from p4reduce.workers.templates import templates_to

Keep = Callable[[NDArray[Any]], int]
"""keeps an array alive, and gives its address"""
_REACH: Final = 4
"""windows, that frames of a ring may be ahead of a gap"""
_IN_ORDER: Final = 3
"""later frames after which one counts as missing, between hosts"""
_SOONER: Final = 10
"""how much shorter the least time-out of a stream is where frames are known to be lost"""
SUMMED: Final = (
    "frames_sent",
    "bytes_sent",
    "resends",
    "resend_bytes",
    "results_received",
    "rtt_samples",
    "spurious",
    "cuts",
    "braked",
    "lost_by_order",
    "lost_by_time",
    "answers",
    "cwnd_sum",
)
"""counts of streams that make those of their endpoint"""


def power_of_two(at_least: int) -> int:
    """The smallest power of two that is not less."""
    return 1 << max(0, at_least - 1).bit_length()


def set_worker(
    record: Any, keep: Keep, window: int, reach: int, room: int, timing: Timing, congestion: Congestion
) -> None:
    """The window of a worker, slot by slot. ``ValueError`` for one of none, or that cannot be filled.

    window: a chunk waits for the RESULT so many before it. reach: chunks from the oldest missing one on. room: chunks
    on their way at once.
    """
    if not 1 <= room <= window <= reach:
        raise ValueError(f"window: {room} chunks on their way, must be 1..{window} (half the slots)")
    ring = power_of_two(window + reach)
    set_window(record, keep, ring, window, timing, congestion, room=room)
    record["reach"] = reach
    for name in ("ask_queue", "again_queue", "late"):
        record[name] = keep(np.zeros(2 * ring, np.int64))
    record["skipped"] = keep(np.zeros(ring, np.uint8))
    record["wait_seq"] = -1
    if timing.reorder is not None:
        record["reorder"] = max(1, timing.reorder)
    record["least_reorder"] = record["reorder"]


def set_window(
    record: Any,
    keep: Keep,
    ring: int,
    window: int,
    timing: Timing,
    congestion: Congestion,
    least: int = 1,
    room: int | None = None,
) -> None:
    """What a sender keeps of its chunks, and its timer. ``ValueError`` for a window of none."""
    if window < 1:
        raise ValueError(f"window: {window}, must be at least 1")
    lanes = int(record["lanes"])
    record["ring"], record["window"], record["room"] = ring, window, window if room is None else room
    entries = np.zeros(ring, ENTRY_DTYPE)
    entries["seq"] = -1
    record["entries"] = keep(entries)
    record["payloads"] = keep(np.zeros((ring, lanes), np.float32))
    change_timing(record, timing)
    record["reorder"] = NEVER if timing.reorder is None else max(1, min(timing.reorder, window // 2))
    record["top"] = -(1 << 40)
    record["round_rtt"] = NEVER
    set_up(record, congestion, least)


def change_timing(record: Any, timing: Timing) -> None:
    """A sender's time-outs from now on; a timer that runs goes off when it would have."""
    record["rto_initial"], record["rto_min"], record["rto_max"] = timing.initial_ps, timing.min_ps, timing.max_ps
    record["rto_lossy"] = timing.min_ps // _SOONER
    record["retries"] = timing.retries
    base = timing.initial_ps if record["rtt_samples"] == 0 else timing.min_ps
    record["rto"] = max(int(record["rto"]), base)


def set_ring(record: Any, keep: Keep, spec: RingSpec | AllToAllSpec) -> None:
    """Both ends of a stream: what it sends, and what it has received."""
    # Streams of an all-to-all are many: while a gap holds one, others go on.
    reach = spec.window if isinstance(spec, AllToAllSpec) else min(_REACH * spec.window, MAX_RING_WINDOW)
    ring = power_of_two(reach)
    record["reach"], record["lossy"], record["repeated"] = reach, -NEVER, -1
    set_window(record, keep, ring, spec.window, spec.timing, spec.congestion, least=spec.ack_every + 1)
    record["ack_every"] = spec.ack_every
    record["reorder"] = min(int(record["reorder"]), _IN_ORDER) if spec.timing.reorder is not None else NEVER
    for name in ("rx_low", "rx_high", "reported", "reportable"):
        record[name] = spec.first_seq
    record["cells"] = keep(np.zeros(ring, np.uint8))
    record["held"] = keep(np.zeros((ring, spec.lanes), np.int32))


def set_streams(record: Any, keep: Keep, spec: AllToAllSpec) -> NDArray[Any]:
    """The streams of an endpoint whose own fields are set: shape (others,), to the next rank first."""
    size = len(spec.others) + 1
    record["rank"], record["size"], record["members"], record["mode"] = spec.rank, size, size, NumberMode.RAW
    record["window"], record["pace"] = spec.window, spec.congestion.pace_ps
    streams = np.zeros(size - 1, ENDPOINT_DTYPE)
    for place, stream in enumerate(streams):
        for name in ("kind", "lanes", "job", "epoch", "mac", "ip", "udp", "rank", "size", "members", "mode"):
            stream[name] = record[name]
        peers = (spec.others[place], spec.others[size - 2 - place])
        stream["peers"] = 2
        stream["templates"] = keep(templates_to(spec.link, peers, spec.lanes))
        stream["senders"] = keep(np.array([peer.key for peer in peers], np.int64))
        for name in ("first", "start", "end", "low", "next", "fresh", "epoch_base"):
            stream[name] = spec.first_seq
        stream["failed_seq"], stream["done_at"], stream["timer"], stream["wake"] = -1, -1, NEVER, NEVER
        set_ring(stream, keep, spec)
    record["streams"] = keep(streams)
    record["timer"] = NEVER
    return streams


def post_streams(record: Any, streams: NDArray[Any], operation: Post) -> None:
    """Give every stream its block. ``ValueError`` when an array is no equal blocks for all ranks."""
    size, rank = int(record["size"]), int(record["rank"])
    if operation.length % size:
        raise ValueError(f"source has {operation.length} elements, no equal blocks for {size} ranks")
    assert operation.source is not None  # noqa: S101
    assert operation.target is not None  # noqa: S101
    block = operation.length // size
    source, target = address_of(operation.source), address_of(operation.target)
    own = slice(rank * block, (rank + 1) * block)
    np.copyto(operation.target[own], operation.source[own])
    for place, stream in enumerate(streams, start=1):
        stream["source"] = source + 4 * block * ((rank + place) % size)
        stream["target"] = target + 4 * block * ((rank - place) % size)
        stream["length"], stream["iteration"] = block, operation.iteration
        stream["collective"], stream["failed_seq"] = operation.collective, -1
        stream["start"] = stream["end"]
        stream["end"] += -(-block // int(record["lanes"]))
        stream["operation"] += 1
        stream["status"] = State.ACTIVE


def summed(record: Any, streams: NDArray[Any]) -> Any:
    """An endpoint's record with what its streams have counted."""
    found = record.copy()
    for name in SUMMED:
        found[name] += streams[name].sum()
    if len(streams):
        found["srtt"], found["rto"] = streams["srtt"].max(), streams["rto"].max()
        found["rtt_min"] = streams["rtt_min"].min()
        found["start"], found["end"] = streams["start"].sum(), streams["end"].sum()
        found["low"] = streams["low"].sum()
    return found
