"""The worker of an in-network job (and, with raw numbers, of the parameter-server baseline), compiled.

A collective of C chunks takes seqs start .. start + D + C - 1, where D is the lead: min(lead, C) with block
floating point, else 0. Seq start + j announces the exponent of data chunk j (0 beyond the last); the first D of
them carry nothing else. Seq start + D + i carries the lanes of data chunk i, scaled by the exponent that the RESULT
of start + i agreed on.

A chunk may leave when every RESULT up to a window before it is in. Its input is copied when it leaves for the first
time: what is sent again, in this epoch or the next, comes from the copy, so a result may overwrite its own input.
After an epoch change the seqs keep their meaning. Chunks from ``epoch_base`` on are sent anew, and an exponent that
such a chunk announced counts only as the new epoch agrees on it; exponents agreed on below ``epoch_base`` are known
to every worker, because every RESULT below it is.
"""

from typing import Any, Final

from p4reduce.native.memory import as_double, copy_bytes, load_u8
from p4reduce.workers import wire
from p4reduce.workers.kernels.chunks import clear_lanes, clear_tail, dequantize, fill_nan, quantize, send_raw, take_raw
from p4reduce.workers.kernels.congestion import cut, has_room
from p4reduce.workers.kernels.frames import (
    HAS_LANES,
    RESEND,
    SATURATED,
    congestion_of,
    exponent_of,
    flags_of,
    lanes_of,
    peer_key,
    sender_of,
    seq_of,
    write_frame,
)
from p4reduce.workers.kernels.jit import kernel
from p4reduce.workers.kernels.pacing import forget, left, too_early
from p4reduce.workers.kernels.sender import (
    advance,
    detect_losses,
    entry_at,
    mark_sent,
    may_resend,
    next_lost,
    payload_at,
    settle,
)
from p4reduce.workers.numbers import EXPONENT_BIAS, NumberMode
from p4reduce.workers.records import Answer, Collective, EntryState, Refusal, State

_RAW: Final = int(NumberMode.RAW)
_BLOCK: Final = int(NumberMode.BLOCK)
_ACTIVE: Final = int(State.ACTIVE)
_DONE: Final = int(State.DONE)
_WAITING: Final = int(EntryState.WAITING)
_ANSWERED: Final = int(EntryState.ANSWERED)
_ALL_REDUCE: Final = int(Collective.ALL_REDUCE)
_PUSH: Final = int(Collective.PUSH)
_PULL: Final = int(Collective.PULL)
_BARRIER: Final = int(Collective.BARRIER)
_NOTHING: Final = int(Answer.NOTHING)
_SUM: Final = int(Answer.SUM)
_RAW_ANSWER: Final = int(Answer.RAW)
_TYPE_PUSH: Final = int(wire.PacketType.PUSH)
_TYPE_PULL: Final = int(wire.PacketType.PULL)
_WRONG_PEER: Final = int(Refusal.PEER)
_WRONG_SEQ: Final = int(Refusal.SEQ)
_WRONG_KIND: Final = int(Refusal.KIND)
_DUPLICATE: Final = int(Refusal.DUPLICATE)


@kernel
def power_of_two(exponent: int) -> Any:
    """2**exponent as float64, for -1022..1023, from its bits: no call of ldexp."""
    return as_double((exponent + 1023) << 52)


@kernel
def scale_up(e: Any, exponent: int) -> Any:
    """Lanes per unit: 2**(30 - h - e) with block floating point (numbers.BlockFloat.scale)."""
    if e.mode != _BLOCK:
        return e.scale
    if exponent == 0:
        return 1.0
    return power_of_two(30 - e.headroom - (exponent - EXPONENT_BIAS))


@kernel
def scale_down(e: Any, exponent: int) -> Any:
    """The inverse of ``scale_up``: exact for powers of two."""
    return 1.0 / scale_up(e, exponent)


@kernel
def answer_of(collective: int, mode: int) -> Any:
    """What the RESULT of a data chunk carries."""
    if collective in (_PUSH, _BARRIER):
        return _NOTHING
    return _SUM if collective == _ALL_REDUCE and mode != _RAW else _RAW_ANSWER


@kernel
def carries_lanes(collective: int) -> Any:
    """Whether a data chunk goes up with lanes."""
    return collective not in (_PULL, _BARRIER)


@kernel
def _open(e: Any, seq: int) -> None:
    """The entry of a seq that has never been sent: what it announces, carries and expects, and a copy of its input."""
    entry = entry_at(e, seq)
    position = seq - e.start
    chunk = position - e.lead
    entry.seq = seq
    entry.operation = e.operation
    entry.iteration = e.iteration
    entry.lead = e.lead
    entry.attempts = 0
    entry.state = _WAITING
    entry.lost = 0
    entry.carried = 0
    entry.agreed = 0
    entry.announced = load_u8(e.exponents, position) if e.lead > 0 and position < e.chunks else 0
    entry.type = _TYPE_PULL if e.collective == _PULL else _TYPE_PUSH
    entry.has_lanes = 0
    entry.answer = _NOTHING
    entry.count = 0
    entry.words = e.mode == _RAW or e.words
    entry.poisoned = 0
    if chunk < 0:
        return
    begin = chunk * e.lanes
    entry.answer = answer_of(e.collective, e.mode)
    entry.count = min(e.lanes, e.length - begin)
    entry.target = e.target + 4 * begin
    if carries_lanes(e.collective):
        entry.has_lanes = 1
        entry.poisoned = load_u8(e.poison, chunk) if e.poison != 0 else 0
        copy_bytes(payload_at(e, seq), e.source + 4 * begin, 4 * entry.count)
        clear_tail(payload_at(e, seq), entry.count, e.lanes)


@kernel
def _agree(e: Any, entry: Any, seq: int) -> Any:
    """Whether the exponent of a chunk's lanes is agreed on; if so it is in the entry."""
    if not entry.has_lanes or entry.lead == 0:
        return True
    announced_in = seq - entry.lead
    announcer = entry_at(e, announced_in)
    if announced_in >= e.epoch_base and announcer.state != _ANSWERED:
        return False
    # The last epoch that answered counts. Where the ring has reused the entry it was not asked again since these
    # lanes were last sent, and the exponent of then stands.
    if announcer.seq == announced_in:
        entry.agreed = announcer.carried
    return True


@kernel
def _send(e: Any, entry: Any, seq: int, now: int, out: Any) -> Any:
    flags = RESEND if entry.attempts > 0 else 0
    if entry.has_lanes:
        flags |= HAS_LANES
        lanes = lanes_of(out)
        if entry.poisoned:
            clear_lanes(lanes, e.lanes)
            flags |= SATURATED
        elif entry.words:
            send_raw(payload_at(e, seq), e.lanes, lanes)
        elif quantize(payload_at(e, seq), e.lanes, scale_up(e, entry.agreed), e.limit, lanes) > 0:
            flags |= SATURATED
            e.saturated += 1
    length = write_frame(e, out, 0, entry.type, flags, 1, seq, entry.iteration, entry.announced)
    mark_sent(e, entry, now)
    return length


@kernel
def worker_transmit(e: Any, now: int, out: Any) -> Any:
    """The next frame, what was lost first; 0 when the window is full or there is nothing to send."""
    forget(e)
    if e.status != _ACTIVE and not e.lingering:
        return 0
    lost = next_lost(e)
    if lost >= 0:
        return _send(e, entry_at(e, lost), lost, now, out) if may_resend(e, lost) else 0
    seq = e.next
    if seq >= e.end or seq - e.low >= e.window or not has_room(e) or too_early(e, now):
        return 0
    if seq == e.fresh:
        _open(e, seq)
        e.fresh = seq + 1
    entry = entry_at(e, seq)
    if not _agree(e, entry, seq):
        return 0
    e.next = seq + 1
    left(e, entry, now)
    return _send(e, entry, seq, now, out)


@kernel
def worker_receive(e: Any, frame: Any, now: int) -> Any:
    """A sound RESULT of this job and epoch. Returns 0, or why it changed nothing (``Refusal``)."""
    if sender_of(frame) != peer_key(e, 0):
        return _WRONG_PEER
    seq = seq_of(frame, e.low)
    if seq >= e.next or seq < e.low - e.ring:
        return _WRONG_SEQ
    entry = entry_at(e, seq)
    if seq < e.low or entry.state == _ANSWERED:
        return _DUPLICATE
    flags = flags_of(frame)
    if (flags & HAS_LANES != 0) != (entry.answer != _NOTHING):
        return _WRONG_KIND
    # Block floating point never saturates: there the flag says that somebody's chunk is not finite.
    poisoned = flags & SATURATED != 0 and e.mode == _BLOCK and not entry.words
    if poisoned:
        e.poisoned += 1
    elif flags & SATURATED:
        e.saturated += 1
    entry.carried = exponent_of(frame)
    # A chunk of an earlier operation, repeated in a new epoch: its result is the caller's by now.
    if entry.answer != _NOTHING and e.status == _ACTIVE and entry.operation == e.operation:
        if poisoned and entry.answer == _SUM:
            fill_nan(entry.target, entry.count)
        elif entry.answer == _SUM and not entry.words:
            dequantize(lanes_of(frame), entry.count, scale_down(e, entry.agreed), entry.target)
        else:
            take_raw(lanes_of(frame), entry.count, entry.target)
    e.results_received += 1
    if congestion_of(frame):
        cut(e, entry.order)
    settle(e, entry, now, 1)
    advance(e, now)
    if e.low < e.next:
        detect_losses(e)
    if e.low == e.end:
        e.lingering = 0
        if e.status == _ACTIVE:
            e.status = _DONE
            e.done_at = now
    return 0
