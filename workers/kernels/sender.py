"""The sender's window, compiled: pacing, chunks in flight, the order of sending; a stream's losses and timer.

Workers in the network and of the parameter server find losses, and set their timer, in `recovery.py`. The rest of this
docstring is about the streams of `ring.py` (ring, all-to-all), which find loss in two ways. **By order**: every
transmission has a number; a chunk is lost when ``reorder`` later transmissions have been answered, so a resent chunk
that is lost again is found as well (as RFC 9002, section 6.1.1, does with packet numbers). **By time**: RFC 6298, on
chunks sent once; a new answer restarts the timer and ends the backoff. A sample is the *shortest* round trip seen
during a round trip: an answer may be late because another worker waited for its own timer, and if such waits counted,
the workers would drive each other's timers up. For the same reason a sample below half the estimate replaces it.

When the timer runs out, only the oldest chunk is sent again: silence may mean that a peer is still computing. The
answer tells which chunks are missing; those that left before the timer ran out are sent again.
"""

from typing import Any, Final

import numpy as np

from p4reduce.workers.kernels import kernel
from p4reduce.workers.kernels.chunks import set_truth, told_losses
from p4reduce.workers.kernels.frames import SEQ_MASK
from p4reduce.workers.numbers import UNANNOUNCED
from p4reduce.workers.records import ENTRY_DTYPE, NEVER, ChunkAnswer, EndpointState, EntryState
from p4reduce.workers.specs import MAX_BRAKE, Congestion
from p4switch.native.memory import carray, load_u8, pointer, store_u8

# Pacing, compiled: one new chunk every ``pace`` picoseconds, the rate of the plan's busiest link.
#
# If several edges of a plan share a link, or several workers a server's link, a window sent at the rate of the host's
# own link only queues at the shared link. First come, first served is unfair there: senders near the link get a larger
# share, chunks complete late, and answers wait for each other. Paced at the rate of the shared link, chunks hardly
# queue (as TCP senders are paced: Aggarwal, Savage, Anderson, INFOCOM 2000).
#
# A sender that is less than one pace late keeps its schedule, so that the rate is exact; a later one may catch up by
# at most one chunk. Chunks without lanes in both the frame and its answer are not counted, nor are resends.


_NOTHING = int(ChunkAnswer.NOTHING)


@kernel
def has_weight(entry: Any) -> Any:
    """Whether a chunk or its answer carries lanes; frames without lanes fill no queue."""
    return (entry.has_lanes or entry.answer != _NOTHING) and not entry.bare


@kernel
def too_early(e: Any, now: int) -> Any:
    """Whether the next new chunk must wait for the pace; if so, set ``wake`` to the end of the wait."""
    if now >= e.pace_at:
        return False
    e.wake = e.pace_at
    return True


@kernel
def left(e: Any, entry: Any, now: int) -> None:
    """Advance the pacing schedule for a new chunk that leaves."""
    if e.pace > 0 and has_weight(entry):
        e.pace_at = max(e.pace_at, now - e.pace) + e.pace


@kernel
def forget(e: Any) -> None:
    """Clear ``wake``, the time at which the next chunk may leave."""
    e.wake = NEVER


# The number of chunks in flight, compiled: additive increase, multiplicative decrease (AIMD).
#
# The congestion window ``cwnd`` bounds the chunks in flight, the plan's window bounds how far they reach beyond the
# oldest missing chunk. While ``cwnd`` limits the sender (RFC 7661), it grows by one chunk for each answer up to
# ``threshold`` (slow start), then by one chunk a round trip (Jacobson, "Congestion avoidance and control", SIGCOMM
# 1988). A loss or a congestion mark cuts it, once for all chunks that were in flight when it was cut (as in RFC 9002,
# section 7.3.2). It does not grow while the shortest round trip of the latest round is far above the shortest ever,
# which shows a standing queue (RFC 9406 ends slow start in this way): some switches drop frames before any queue that
# they could mark.
#
# In-network workers are coupled: a chunk is answered when the slowest worker's contribution is in. So a lost chunk
# is missing at all workers, all cut their windows, and these stay alike; a worker with a wider window sees longer
# round trips and stops growing.
#
# ``cwnd`` counts in units of 2**-16 chunks. None of this affects an endpoint that is not adaptive.


CHUNK: Final = 1 << 16
"""One chunk of the congestion window."""
_FINE: Final = 1 << 10


def set_up(record: Any, congestion: Congestion, least: int) -> None:
    """Write the settings into an endpoint's record, in which ``room``, the most chunks in flight, is set already.

    least: the fewest chunks in flight with which data flow at all.
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
    """Whether one more chunk may be in flight; if not, note that the window limited the sender."""
    if e.adaptive == 0 or (e.flight + 1) * CHUNK <= e.cwnd:
        return True
    e.held_back = e.order
    return False


@kernel
def note_round_trip(e: Any, rtt: int) -> None:
    """Take in the shortest round trip of a round, picoseconds."""
    e.last_rtt = rtt
    e.base_rtt = min(e.base_rtt, rtt)


@kernel
def _is_calm(e: Any) -> Any:
    """Whether the latest round trips show no standing queue."""
    return e.base_rtt == NEVER or e.last_rtt <= e.base_rtt // _FINE * e.brake // (CHUNK // _FINE) + e.brake_ps


@kernel
def grow(e: Any, order: int) -> None:
    """Let the congestion window grow for an answer to transmission ``order``."""
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
    """Cut the congestion window: transmission ``order`` was lost, or met a congested queue."""
    if e.adaptive == 0 or order < e.cut_order:
        return
    e.cut_order = e.order
    e.cuts += 1
    e.cwnd = max(e.floor, e.cwnd * e.keep // CHUNK)
    e.threshold = e.cwnd
    e.cwnd_low = min(e.cwnd_low, e.cwnd)


@kernel
def cut_for_loss(e: Any, order: int) -> None:
    """Cut the window for a loss; if round trips show no queue, the loss may be random, and the window regrows fast.

    If the brake is off, so that only losses limit the window, every loss counts as congestion.
    """
    before = e.cwnd
    cuts = e.cuts
    cut(e, order)
    if e.cuts > cuts and e.brake < MAX_BRAKE * CHUNK and _is_calm(e):
        e.threshold = max(e.cwnd, before - before // 8)


@kernel
def start_over(e: Any) -> None:
    """Begin another epoch, perhaps on another path: nothing is in flight, and no round trip is known."""
    e.flight = 0
    e.base_rtt = NEVER
    if e.adaptive:
        e.cwnd = min(e.cwnd, e.initial)
        e.threshold = e.room * CHUNK
        e.cut_order = e.order
        e.cwnd_low = min(e.cwnd_low, e.cwnd)


_WAITING: Final = int(EntryState.WAITING)
_OUTSTANDING: Final = int(EntryState.OUTSTANDING)
_ANSWERED: Final = int(EntryState.ANSWERED)
_ACTIVE: Final = int(EndpointState.ACTIVE)
_FAILED: Final = int(EndpointState.FAILED)
NOTHING_LOST: Final = -1


@kernel
def entry_at(e: Any, seq: int) -> Any:
    """The window's entry for a seq."""
    return carray(pointer(e.entries), (e.ring,), ENTRY_DTYPE)[seq & (e.ring - 1)]


@kernel
def payload_at(e: Any, seq: int) -> Any:
    """Address of the lanes kept for a seq: float32 in this machine's order, zero padded."""
    return e.payloads + (seq & (e.ring - 1)) * 4 * e.room_elements


@kernel
def mark_sent(e: Any, entry: Any, now: int) -> None:
    """Note that a chunk leaves, for the first time or again."""
    if entry.lost:
        entry.lost = 0
        e.lost -= 1
    e.flight += 1
    if entry.attempts == 0:
        entry.probe = 0
    entry.attempts += 1
    entry.state = _OUTSTANDING
    entry.sent_at = now
    entry.order = e.order
    e.order += 1
    if e.timer == NEVER:
        e.timer = now + e.rto


@kernel
def _take_sample(e: Any, rtt: int) -> None:
    """Take a round-trip sample in picoseconds: RFC 6298, section 2, in integers."""
    e.rtt_min = rtt if e.rtt_samples == 0 else min(e.rtt_min, rtt)
    if e.rtt_samples == 0 or 2 * rtt < e.srtt:
        e.srtt = rtt
        e.rttvar = rtt // 2
    else:
        e.rttvar += (abs(e.srtt - rtt) - e.rttvar) // 4
        e.srtt += (rtt - e.srtt) // 8
    e.rtt_samples += 1
    note_round_trip(e, rtt)


@kernel
def _base_rto(e: Any) -> Any:
    if e.rtt_samples == 0:
        return e.rto_initial
    return min(max(e.srtt + 4 * e.rttvar, e.rto_min), e.rto_max)


@kernel
def _tolerate(e: Any) -> None:
    """Tolerate more reordering, because a chunk taken for lost was not lost."""
    e.spurious += 1
    e.reorder = max(e.reorder, min(2 * e.reorder, e.window // 2))


@kernel
def settle(e: Any, entry: Any, now: int, timed: int) -> None:
    """Take in the answer of a chunk. timed: the answer came without delay, so it may be a round-trip sample."""
    elapsed = now - entry.sent_at
    if entry.lost:
        entry.lost = 0
        e.lost -= 1
        _tolerate(e)
    else:
        e.flight -= 1
    if entry.attempts == 1:
        e.top = max(e.top, entry.order)
        if timed:
            e.round_rtt = min(e.round_rtt, elapsed)
            if entry.sent_at >= e.sampled_at:
                _take_sample(e, e.round_rtt)
                e.round_rtt = NEVER
                e.sampled_at = now
    elif elapsed >= e.rtt_min:
        # The answer to a probe may have come because another worker is ready at last. It tells nothing of chunks sent
        # before the probe: a fixed window then resends them needlessly, but an adaptive window would be cut.
        if not (e.adaptive and entry.probe):
            e.top = max(e.top, entry.order)
    else:
        _tolerate(e)
    entry.state = _ANSWERED
    grow(e, entry.order)


@kernel
def advance(e: Any, now: int) -> None:
    """After new answers: move the window's low end, end the backoff, restart the timer."""
    while e.low < e.next and entry_at(e, e.low).state == _ANSWERED:
        e.low += 1
    e.timeouts = 0
    e.progress = 1
    e.rto = _base_rto(e)
    e.timer = now + e.rto if e.low < e.next else NEVER


@kernel
def mark_lost(e: Any, entry: Any) -> Any:
    """Mark a chunk for resending if it is in flight; return whether it was."""
    if entry.state != _OUTSTANDING or entry.lost:
        return False
    entry.lost = 1
    e.lost += 1
    e.flight -= 1
    return True


@kernel
def lose_by_order(e: Any, entry: Any) -> None:
    """Mark a chunk as lost because later transmissions have come through."""
    if mark_lost(e, entry):
        entry.probe = 0
        e.lost_by_order += 1
        cut(e, entry.order)


@kernel
def lose_by_time(e: Any, entry: Any) -> None:
    """Mark a chunk as lost because it left before a poll whose answer lacks it."""
    if mark_lost(e, entry):
        entry.probe = 0
        e.lost_by_time += 1
        cut(e, entry.order)


@kernel
def next_lost(e: Any) -> Any:
    """The oldest chunk to be sent again, or NOTHING_LOST."""
    if e.lost > 0:
        for seq in range(e.low, e.next):
            if entry_at(e, seq).lost:
                return seq
    return NOTHING_LOST


@kernel
def may_resend(e: Any, seq: int) -> Any:
    """Whether a lost chunk may leave now; the oldest always may, so that the window can advance."""
    return seq == e.low or has_room(e)


@kernel
def give_up(e: Any) -> None:
    """Fail, as all retries are used up; ``failed_seq`` names the oldest missing chunk."""
    e.failed_seq = e.low & SEQ_MASK
    e.timer = NEVER
    e.lingering = 0
    if e.status == _ACTIVE:
        e.status = _FAILED


@kernel
def stand_still(e: Any, paused: int) -> None:
    """Shift timer and clocks by ``paused`` picoseconds, during which no answer could be taken in."""
    if e.timer != NEVER:
        e.timer += paused
    for seq in range(e.low, e.next):
        entry_at(e, seq).sent_at += paused


# Exponents that the last chunks of an operation announce for the next one, compiled (docs/protocol.md).


@kernel
def said_ahead(e: Any, seq: int) -> Any:
    """The value that a seq announces if its operation has no exponent left: losses, or the next one's exponent."""
    if e.truths != 0 and seq - e.start + e.known == e.chunks:
        return told_losses(e)
    left = e.end - seq
    if left > e.tail:
        return 0
    if e.ahead == 0:
        return UNANNOUNCED
    return load_u8(e.ahead, e.ahead_count - left) if left <= e.ahead_count else 0


@kernel
def worker_agreed_ahead(e: Any, count: int) -> Any:
    """Whether every worker had announced its next operation in each of the last ``count`` chunks."""
    for seq in range(e.end - count, e.end):
        entry = entry_at(e, seq)
        if entry.seq != seq or entry.carried == UNANNOUNCED:
            return False
    return True


@kernel
def worker_posted(e: Any) -> None:
    """Take over the exponents that the previous operation has agreed on for this one."""
    if e.truths != 0:
        for chunk in range(e.known):
            set_truth(e, chunk, entry_at(e, e.start - e.known + chunk).carried)


# The order in which a worker's frames leave, compiled: questions, requested chunks, late chunks, new chunks.
#
# Chunks take turns in order. If a chunk's slot is still taken by a late chunk, it is *skipped*, and leaves as soon as
# the slot is free. Missing and requested chunks wait in queues until one more may be in flight; the oldest chunk never
# waits.


NOTHING: Final = -1

_LOSSY: Final = 3 * CHUNK // 64
"""``own_rate`` above which a worker's own link is so lossy that the worker asks early, where that costs little"""

# States of a skipped chunk.
_SKIPPED: Final = 1
_LATE: Final = 2


@kernel
def is_in(e: Any, seq: int) -> Any:
    """Whether the RESULT of a chunk before ``low + reach`` is in."""
    if seq < e.low:
        return True
    entry = entry_at(e, seq)
    return entry.seq == seq and entry.state == _ANSWERED


@kernel
def is_overdue(e: Any, seq: int) -> Any:
    """Whether a chunk that is not in is late: overtaken, asked for, sent after its turn, or not even sent."""
    entry = entry_at(e, seq)
    if load_u8(e.skipped, seq & (e.ring - 1)) != 0:
        return True
    if entry.seq != seq:
        return False
    return entry.lost or entry.asks > 0 or entry.in_order == 0 or entry.order + e.least_reorder <= e.top


@kernel
def may_be_prompt(e: Any) -> Any:
    """Whether needless questions bring no RESULTs, and no other job's frames lengthen round trips."""
    return e.prompt and e.adaptive == 0 and e.strangers == 0


@kernel
def is_prompt(e: Any) -> Any:
    """Whether this worker asks early and often: its own link is lossy, and needless questions cost little."""
    return may_be_prompt(e) and e.own_rate > _LOSSY


@kernel
def may_fly(e: Any) -> Any:
    """Whether one more chunk may be in flight: fewer than ``room``, or ``window`` after reordering or much loss."""
    if e.adaptive:
        return has_room(e)
    return e.flight < (e.room if e.late_by == 0 and not is_prompt(e) else e.window)


# Queues of seqs: a head, a tail, and 2 * ring places.


@kernel
def _put(e: Any, queue: int, tail: int, seq: int) -> None:
    carray(pointer(queue), (2 * e.ring,), np.int64)[tail & (2 * e.ring - 1)] = seq


@kernel
def _get(e: Any, queue: int, head: int) -> Any:
    return carray(pointer(queue), (2 * e.ring,), np.int64)[head & (2 * e.ring - 1)]


@kernel
def queue_question(e: Any, seq: int) -> None:
    """Queue a question for a chunk."""
    _put(e, e.ask_queue, e.ask_tail, seq)
    e.ask_tail += 1


@kernel
def queue_again(e: Any, seq: int) -> None:
    """Queue a chunk to be sent again."""
    _put(e, e.again_queue, e.again_tail, seq)
    e.again_tail += 1


@kernel
def empty_queues(e: Any) -> None:
    """Empty the queues, as for a new epoch."""
    for place in range(e.ring):
        store_u8(e.skipped, place, 0)
    e.ask_head = e.ask_tail
    e.again_head = e.again_tail
    e.late_head = e.late_tail


@kernel
def skip(e: Any, seq: int) -> None:
    """Skip a chunk whose turn has come while its slot is taken."""
    store_u8(e.skipped, seq & (e.ring - 1), _SKIPPED)


@kernel
def wake(e: Any, seq: int) -> None:
    """Let a skipped chunk leave: its slot is free."""
    if load_u8(e.skipped, seq & (e.ring - 1)) == _SKIPPED:
        store_u8(e.skipped, seq & (e.ring - 1), _LATE)
        _put(e, e.late, e.late_tail, seq)
        e.late_tail += 1


@kernel
def is_skipped(e: Any, seq: int) -> Any:
    """Whether a chunk before ``next`` was skipped and its slot is not free yet."""
    return load_u8(e.skipped, seq & (e.ring - 1)) == _SKIPPED


@kernel
def next_late(e: Any) -> Any:
    """A skipped chunk whose slot is free and that may leave now, or NOTHING; the oldest missing chunk always may."""
    if load_u8(e.skipped, e.low & (e.ring - 1)) == _LATE:
        return e.low
    while e.late_head < e.late_tail:
        seq = _get(e, e.late, e.late_head)
        if load_u8(e.skipped, seq & (e.ring - 1)) == _LATE and seq > e.low:
            return seq if may_fly(e) else NOTHING
        e.late_head += 1
    return NOTHING


@kernel
def take_late(e: Any, seq: int) -> None:
    """Note that the chunk of ``next_late`` leaves."""
    store_u8(e.skipped, seq & (e.ring - 1), 0)


@kernel
def next_question(e: Any) -> Any:
    """A chunk that may be asked for now, or NOTHING; the oldest missing chunk always may."""
    oldest = entry_at(e, e.low)
    if e.low < e.next and oldest.seq == e.low and oldest.lost:
        return e.low
    while e.ask_head < e.ask_tail:
        seq = _get(e, e.ask_queue, e.ask_head)
        entry = entry_at(e, seq)
        if seq >= e.low and entry.seq == seq and entry.lost:
            return seq if may_fly(e) else NOTHING
        e.ask_head += 1
    return NOTHING


@kernel
def next_again(e: Any) -> Any:
    """A requested chunk that may leave now, or NOTHING; the oldest missing chunk always may."""
    oldest = entry_at(e, e.low)
    if e.low < e.next and oldest.seq == e.low and oldest.again:
        return e.low
    while e.again_head < e.again_tail:
        seq = _get(e, e.again_queue, e.again_head)
        entry = entry_at(e, seq)
        if seq >= e.low and entry.seq == seq and entry.again:
            return seq if may_fly(e) else NOTHING
        e.again_head += 1
    return NOTHING
