"""How many chunks may be on their way, compiled: additive increase, multiplicative decrease (AIMD).

The congestion window ``cwnd`` bounds the chunks in flight, the plan's window bounds how far they reach beyond the
oldest missing one. Where it was what held the sender back (RFC 7661), it grows by one chunk for each answer up to
``threshold`` (slow start), then by one chunk a round trip (Jacobson, "Congestion avoidance and control", SIGCOMM 1988).
A loss or a congestion mark cuts it, once for all that was on its way when it was cut (as in RFC 9002, section
7.3.2). While the shortest round trip of the latest round is far above the shortest ever, it does not grow: a queue
stands somewhere (slow start ends so in RFC 9406). Some switches drop frames before any queue that they could mark.

In-network workers are coupled: a chunk is answered when the slowest worker's contribution is in. So a lost chunk is
missing at all of them, all cut, and their windows stay alike; who has a wider one sees longer round trips and
stops growing.

``cwnd`` counts in units of 2**-16 chunks. Nothing here does anything for an endpoint that is not adaptive.
"""

from typing import Any, Final

from p4reduce.workers.kernels.jit import kernel
from p4reduce.workers.records import NEVER
from p4reduce.workers.settings import MAX_BRAKE, Congestion

CHUNK: Final = 1 << 16
"""One chunk of the congestion window."""
_FINE: Final = 1 << 10


def set_up(record: Any, congestion: Congestion, least: int) -> None:
    """Writes the settings into an endpoint's record, whose ``room`` is set: the most chunks on their way.

    least: chunks below which nothing flows.
    """
    window = int(record["room"])
    record["pace"] = congestion.pace_ps
    record["adaptive"] = congestion.adaptive
    record["initial"] = max(min(congestion.initial, window), min(least, window)) * CHUNK
    record["floor"] = max(min(congestion.minimum, window), min(least, window)) * CHUNK
    record["keep"] = round(congestion.decrease * CHUNK)
    record["brake"], record["brake_ps"] = round(congestion.brake * CHUNK), congestion.brake_ps
    record["cwnd"] = record["initial"] if congestion.adaptive else window * CHUNK
    record["cwnd_low"] = record["cwnd_high"] = record["cwnd"]
    record["threshold"], record["base_rtt"] = window * CHUNK, NEVER


@kernel
def has_room(e: Any) -> Any:
    """Whether one more chunk may be on its way; that it may not is remembered."""
    if e.adaptive == 0 or (e.flight + 1) * CHUNK <= e.cwnd:
        return True
    e.held_back = e.order
    return False


@kernel
def note_round_trip(e: Any, rtt: int) -> None:
    """The shortest round trip of a round."""
    e.last_rtt = rtt
    e.base_rtt = min(e.base_rtt, rtt)


@kernel
def _is_calm(e: Any) -> Any:
    """Whether the latest round trips show no queue that stands."""
    return e.base_rtt == NEVER or e.last_rtt <= e.base_rtt // _FINE * e.brake // (CHUNK // _FINE) + e.brake_ps


@kernel
def grow(e: Any, order: int) -> None:
    """An answer to transmission ``order``."""
    e.answers += 1
    e.cwnd_sum += e.cwnd // CHUNK
    if e.adaptive == 0 or order >= e.held_back or order < e.cut_order:
        return
    if not _is_calm(e):
        e.braked += 1
        e.threshold = min(e.threshold, e.cwnd)
        return
    step = CHUNK if e.cwnd < e.threshold else max(1, CHUNK * CHUNK // e.cwnd)
    e.cwnd = min(e.cwnd + step, e.room * CHUNK)
    e.cwnd_high = max(e.cwnd_high, e.cwnd)


@kernel
def cut(e: Any, order: int) -> None:
    """Transmission ``order`` was lost, or met a congested queue."""
    if e.adaptive == 0 or order < e.cut_order:
        return
    e.cut_order = e.order
    e.cuts += 1
    e.cwnd = max(e.floor, e.cwnd * e.keep // CHUNK)
    e.threshold = e.cwnd
    e.cwnd_low = min(e.cwnd_low, e.cwnd)


@kernel
def cut_for_loss(e: Any, order: int) -> None:
    """As ``cut``, but where round trips show no queue it may be chance: most of the window comes back at once.

    Where nothing but losses holds it back (the brake is off), they are taken for congestion.
    """
    before = e.cwnd
    cuts = e.cuts
    cut(e, order)
    if e.cuts > cuts and e.brake < MAX_BRAKE * CHUNK and _is_calm(e):
        e.threshold = max(e.cwnd, before - before // 8)


@kernel
def start_over(e: Any) -> None:
    """Another epoch, perhaps another path: nothing is on its way, and nothing is known of its round trip."""
    e.flight = 0
    e.base_rtt = NEVER
    if e.adaptive:
        e.cwnd = min(e.cwnd, e.initial)
        e.threshold = e.room * CHUNK
        e.cut_order = e.order
        e.cwnd_low = min(e.cwnd_low, e.cwnd)
