"""The worker of an in-network job (and, with raw numbers, of the parameter-server baseline), compiled.

A collective of C chunks takes seqs start .. start + D - K + C - 1, where D is the lead: min(lead, C) with block
floating point, else 0, and K <= D says for how many chunks the operation before has agreed on exponents. Seq start + j
announces the exponent of data chunk K + j; the first D - K of them carry nothing else. Seq start + D - K + i carries
the lanes of data chunk i, scaled by the exponent that the RESULT of the seq D before it agreed on: for i < K that is
one of the last K seqs of the operation before. They announce what their worker posts next, or ``UNANNOUNCED``.

A chunk may leave when the RESULT a window before it is in, which shows that its slot has no readers left in any
switch, and when it lies less than ``reach`` beyond the oldest missing one. Where that RESULT is late, the chunks behind
go first.
Its input is copied when it leaves for the first time: what is sent again, in this epoch or the next, comes from the
copy, so a result may overwrite its own input. What is asked for and sent again is in `recovery.py`.
With lanes narrower than 32 bits a chunk has two or four times as many elements (narrow.py), and is still one frame.
A chunk whose agreed exponent says that it is zero at all workers travels without lanes, and so does its RESULT: every
worker knows it before it sends, and fills in zeros.
After an epoch change the seqs keep their meaning. Chunks from ``epoch_base`` on are sent anew, and an exponent that
such a chunk announced counts only as the new epoch agrees on it; exponents agreed on below ``epoch_base`` are known
to every worker, because every RESULT below it is.
"""

from typing import Any, Final

import numpy as np

from p4reduce.workers import wire
from p4reduce.workers.kernels import kernel
from p4reduce.workers.kernels.chunks import (
    GUESSED,
    clear_lanes,
    clear_tail,
    dequantize,
    exponent_of_entry,
    fill_nan,
    is_guessed,
    is_to_be_taken,
    note_announced,
    quantize,
    repeated_chunk,
    scale_down,
    scale_up,
    send_raw,
    take_raw,
)
from p4reduce.workers.kernels.frames import (
    HAS_LANES,
    LATE,
    RESEND,
    SATURATED,
    WIDTH,
    congestion_of,
    count_of,
    exponent_of,
    flags_of,
    identification_of,
    lanes_of,
    mask_of,
    seq_of,
    set_identification,
    type_of,
    unknown,
    write_frame,
)
from p4reduce.workers.kernels.narrow import chance_key, dequantize_narrow, keep_rounding, send_narrow, width_flag
from p4reduce.workers.kernels.recovery import (
    answered_twice,
    asked_for,
    evidence,
    find_missing,
    mark_asked,
    mark_blocked,
    mark_sent,
    mark_sent_again,
    miss_behind_gap,
    result_was_sent,
    settle,
    told_to_wait,
)
from p4reduce.workers.kernels.sender import (
    NOTHING,
    cut,
    entry_at,
    forget,
    is_in,
    is_overdue,
    is_skipped,
    left,
    may_fly,
    next_again,
    next_late,
    next_question,
    payload_at,
    said_ahead,
    skip,
    take_late,
    too_early,
    wake,
)
from p4reduce.workers.numbers import NumberMode
from p4reduce.workers.records import NEVER, ChunkAnswer, Collective, EndpointKind, EndpointState, EntryState, Refusal
from p4reduce.workers.wire import WORD_BITS
from p4switch.native.memory import carray, copy_bytes, load_u8, pointer, store_u8

_WORKER: Final = int(EndpointKind.WORKER)
_RAW: Final = int(NumberMode.RAW)
_BLOCK: Final = int(NumberMode.BLOCK)
_ACTIVE: Final = int(EndpointState.ACTIVE)
_DONE: Final = int(EndpointState.DONE)
_WAITING: Final = int(EntryState.WAITING)
_OUTSTANDING: Final = int(EntryState.OUTSTANDING)
_ANSWERED: Final = int(EntryState.ANSWERED)
_ALL_REDUCE: Final = int(Collective.ALL_REDUCE)
_PUSH: Final = int(Collective.PUSH)
_PULL: Final = int(Collective.PULL)
_BARRIER: Final = int(Collective.BARRIER)
_NOTHING: Final = int(ChunkAnswer.NOTHING)
_SUM: Final = int(ChunkAnswer.SUM)
_RAW_ANSWER: Final = int(ChunkAnswer.RAW)
_TYPE_PUSH: Final = int(wire.PacketType.PUSH)
_TYPE_PULL: Final = int(wire.PacketType.PULL)
_TYPE_ASK: Final = int(wire.PacketType.ASK)
_WRONG_SEQ: Final = int(Refusal.SEQ)
_WRONG_KIND: Final = int(Refusal.KIND)
_DUPLICATE: Final = int(Refusal.DUPLICATE)


# Losses on the worker's own link. ``ipv4.identification`` of a contribution, and of a switch's RESULT, is its seq minus
# that of the previous frame on the same link, modulo 2**16. It is 0 in the first frame of an epoch or an iteration and
# in frames of hosts that add. Links keep the order of frames, so a previous frame that has not arrived is lost. A
# worker then asks its switch for that RESULT, and a switch asks its child for the contribution. The repair takes one
# round trip of the link, not of the tree. Jobs whose chunks may overtake each other do not use this.


@kernel
def _number(e: Any, out: Any, seq: int, iteration: int) -> None:
    """Write the distance to the previous contribution into a contribution that leaves next."""
    if e.kind != _WORKER or e.reorder == NEVER:
        return
    if e.sent_seq != NOTHING and e.sent_iteration == iteration:
        set_identification(out, (seq - e.sent_seq) & 0xFFFF)
    e.sent_seq = seq
    e.sent_iteration = iteration


@kernel
def _find_gap(e: Any, frame: Any, seq: int, now: int) -> None:
    """Ask for the RESULT that the switch sent before this one if it has not arrived."""
    behind = identification_of(frame)
    if behind == 0 or e.kind != _WORKER or e.reorder == NEVER:
        return
    e.numbered = 1
    before = seq - ((behind ^ 0x8000) - 0x8000)
    if e.low <= before < e.next and entry_at(e, before).seq == before:
        miss_behind_gap(e, entry_at(e, before), before, now)


@kernel
def answer_of(collective: int, mode: int) -> Any:
    """The content (``ChunkAnswer``) of a data chunk's RESULT."""
    if collective in (_PUSH, _BARRIER):
        return _NOTHING
    return _SUM if collective == _ALL_REDUCE and mode != _RAW else _RAW_ANSWER


@kernel
def carries_lanes(collective: int) -> Any:
    """Whether a data chunk is sent with lanes."""
    return collective not in (_PULL, _BARRIER)


@kernel
def _open(e: Any, seq: int) -> None:
    """Fill the entry of a seq that has never been sent: what it announces, carries and expects, and its input."""
    entry = entry_at(e, seq)
    position = seq - e.start
    chunk = position - e.lead + e.known
    entry.seq = seq
    entry.operation = e.operation
    entry.iteration = e.iteration
    entry.lead = e.lead
    entry.attempts = 0
    entry.state = _WAITING
    entry.lost = 0
    entry.carried = 0
    entry.agreed = 0
    announces = position + e.known
    entry.announced = load_u8(e.exponents, announces) if e.lead > 0 and announces < e.chunks else said_ahead(e, seq)
    entry.type = _TYPE_PULL if e.collective == _PULL else _TYPE_PUSH
    entry.has_lanes = 0
    entry.answer = _NOTHING
    entry.count = 0
    entry.words = e.mode == _RAW or e.words
    entry.bits = e.bits
    entry.poisoned = 0
    entry.bare = 0
    entry.withheld = 0
    entry.closes = e.counts != 0
    entry.guessed = 0
    if chunk < 0:
        return
    again = chunk >= e.chunks
    if again:
        chunk = repeated_chunk(e, chunk - e.chunks)
    if e.guesses != 0:
        exponent_of_entry(e, entry, chunk, again)
    begin = chunk * e.elements
    entry.answer = answer_of(e.collective, e.mode)
    entry.count = min(e.elements, e.length - begin)
    entry.target = e.target + 4 * begin
    if carries_lanes(e.collective):
        entry.has_lanes = 1
        entry.exponent = load_u8(e.exponents, chunk) if e.lead > 0 else 0
        entry.poisoned = load_u8(e.poison, chunk) if e.poison != 0 else 0
        entry.chance = chance_key(e, chunk) if e.bits != WORD_BITS else 0
        copy_bytes(payload_at(e, seq), (e.inputs if again else e.source) + 4 * begin, 4 * entry.count)
        clear_tail(payload_at(e, seq), entry.count, e.elements)


@kernel
def _waits_for_exponent(e: Any, seq: int) -> Any:
    """Whether a chunk's lanes need the exponent that an earlier chunk announces; also for chunks that never left."""
    entry = entry_at(e, seq)
    if entry.seq == seq:
        return entry.has_lanes != 0 and entry.lead > 0 and entry.guessed == 0
    chunk = seq - e.start - e.lead + e.known
    if e.lead == 0 or chunk < 0 or not carries_lanes(e.collective):
        return False
    return chunk < e.chunks and not is_guessed(e, chunk)


@kernel
def _lead_of(e: Any, seq: int) -> Any:
    entry = entry_at(e, seq)
    return entry.lead if entry.seq == seq else e.lead


@kernel
def _is_free(e: Any, seq: int) -> Any:
    """Whether a chunk may leave: its slot has no readers left, and its exponent is agreed on."""
    return is_in(e, seq - e.window) and (not _waits_for_exponent(e, seq) or is_in(e, seq - _lead_of(e, seq)))


@kernel
def _is_held_up(e: Any, seq: int) -> Any:
    """Whether the RESULT that a chunk waits for is late, so that chunks behind it may leave before it."""
    before = seq - e.window
    if not is_in(e, before):
        return is_overdue(e, before)
    return is_overdue(e, seq - _lead_of(e, seq))


@kernel
def _wake(e: Any, seq: int) -> None:
    """Let a skipped chunk leave, if this was all that it waited for."""
    if e.low <= seq < e.next and is_skipped(e, seq) and _is_free(e, seq):
        wake(e, seq)


@kernel
def _agree(e: Any, entry: Any, seq: int) -> None:
    """Write the agreed exponent of a chunk's lanes into its entry."""
    if entry.has_lanes and entry.lead > 0 and entry.guessed == 0:
        # The last epoch that answered counts. Where the ring has reused the entry it was not asked again since these
        # lanes were last sent, and the exponent of then stands.
        announcer = entry_at(e, seq - entry.lead)
        if announcer.seq == seq - entry.lead:
            entry.agreed = announcer.carried
        entry.bare = entry.answer == _SUM and entry.agreed == 0


@kernel
def _keep_rounding(e: Any, entry: Any, seq: int, lanes: int) -> None:
    """Keep what narrow lanes lost of a chunk's numbers, for the caller's next operation."""
    if e.kept != 0 and entry.operation == e.operation and e.status == _ACTIVE:
        target = e.kept + 4 * e.elements * (seq - e.start - e.lead + e.known)
        keep_rounding(e, payload_at(e, seq), entry.count, entry.agreed, entry.bits, lanes, target)


@kernel
def _push(e: Any, entry: Any, seq: int, out: Any) -> Any:
    flags = RESEND if entry.attempts > 0 else 0
    if entry.closes and entry.attempts > 0:
        flags |= LATE
    count = 1
    if entry.bare:
        if entry.closes and entry.exponent > 0:  # agreed on without this worker: its numbers are not in the sum
            entry.withheld = 1
            count = 0
        elif entry.poisoned:
            flags |= SATURATED
    elif entry.has_lanes:
        flags |= HAS_LANES | width_flag(entry.bits)
        lanes = lanes_of(out)
        if entry.closes and entry.lead > 0 and entry.exponent > entry.agreed:
            # The exponent was agreed on without this worker: its numbers do not fit.
            entry.withheld = 1
            count = 0
            clear_lanes(lanes, e.lanes)
        elif entry.poisoned:
            clear_lanes(lanes, e.lanes)
            flags |= SATURATED
        elif entry.words:
            send_raw(payload_at(e, seq), e.lanes, lanes)
        elif entry.bits != WORD_BITS:
            if send_narrow(e, entry, payload_at(e, seq), lanes) > 0:
                flags |= SATURATED
                e.saturated += 1
            _keep_rounding(e, entry, seq, lanes)
        elif quantize(payload_at(e, seq), e.lanes, scale_up(e, entry.agreed, WORD_BITS), e.limit, lanes) > 0:
            flags |= SATURATED
            e.saturated += entry.guessed == 0  # what is held since a guess is too small comes again
    length = write_frame(e, out, 0, entry.type, flags, count, seq, entry.iteration, entry.announced)
    _number(e, out, seq, entry.iteration)
    return length


@kernel
def _first(e: Any, seq: int, in_order: int, now: int, out: Any) -> Any:
    """Write the frame of a chunk that leaves for the first time in this epoch."""
    entry = entry_at(e, seq)
    new = entry.seq != seq
    if new:
        _open(e, seq)
        e.fresh = max(e.fresh, seq + 1)
    _agree(e, entry, seq)
    e.bare += new and entry.bare
    left(e, entry, now)
    length = _push(e, entry, seq, out)
    mark_sent(e, entry, now, in_order)
    return length


@kernel
def worker_transmit(e: Any, now: int, out: Any) -> Any:
    """Write the next frame (questions, repeats, chunks whose slot was taken, new ones); its length, 0: none."""
    forget(e)
    if e.status != _ACTIVE and not e.lingering:
        return 0
    seq = next_question(e)
    if seq != NOTHING:
        entry = entry_at(e, seq)
        count = evidence(e, entry, seq)
        mark_asked(e, entry, now)
        if e.repeats and entry.has_lanes:
            mark_sent_again(e, entry)
            return _push(e, entry, seq, out)
        flags = RESEND | LATE if entry.closes else RESEND
        return write_frame(e, out, 0, _TYPE_ASK, flags, count, seq, entry.iteration, 0)
    seq = next_again(e)
    if seq != NOTHING:
        entry = entry_at(e, seq)
        length = _push(e, entry, seq, out)
        mark_sent_again(e, entry)
        return length
    seq = next_late(e)
    if seq != NOTHING:
        if too_early(e, now):
            return 0
        take_late(e, seq)
        return _first(e, seq, 0, now, out)
    while e.next < e.end and e.next < e.low + e.reach and (e.next == e.low or may_fly(e)):
        seq = e.next
        if too_early(e, now):
            return 0
        if _is_free(e, seq):
            if e.low == seq:
                e.answered_at = now
                e.settled_at = now
            e.next = seq + 1
            return _first(e, seq, 1, now, out)
        if not _is_held_up(e, seq):
            break
        skip(e, seq)
        e.next = seq + 1
    mark_blocked(e, now)
    return 0


@kernel
def _asked(e: Any, frame: Any, seq: int, now: int) -> Any:
    """Take in an ASK or WAIT of the switch, or of the baseline's server."""
    entry = entry_at(e, seq)
    if seq < e.low or entry.seq != seq or entry.state != _OUTSTANDING:
        return _DUPLICATE
    level = count_of(frame)
    if level == wire.RESULT_SENT:
        return 0 if result_was_sent(e, entry, seq, now) else _DUPLICATE
    if level > 0:
        told_to_wait(e, entry, seq, level, mask_of(frame), now)
        return 0
    return 0 if asked_for(e, entry, seq, now) else _DUPLICATE


@kernel
def _note_partial(e: Any, entry: Any, frame: Any, seq: int, flags: int) -> None:
    """Note the number of contributions in a chunk's sum, and keep this worker's own if the sum lacks it."""
    chunk = seq - e.start - e.lead + e.known
    carray(pointer(e.counts), (e.chunks,), np.uint16)[chunk] = count_of(frame)
    if flags & LATE or entry.withheld:
        store_u8(e.lates, chunk, 1)
        copy_bytes(e.kept + 4 * chunk * e.elements, payload_at(e, seq), 4 * entry.count)


@kernel
def worker_receive(e: Any, frame: Any, now: int) -> Any:
    """Take in a sound RESULT or ASK of this job and epoch. Returns 0, or why it changed nothing (``Refusal``)."""
    stranger = unknown(e, frame, 0)
    if stranger:
        return stranger
    seq = seq_of(frame, e.low)
    if seq >= e.next or seq < e.low - e.ring:
        return _WRONG_SEQ
    if type_of(frame) == _TYPE_ASK:
        return _asked(e, frame, seq, now) if flags_of(frame) & HAS_LANES == 0 else _WRONG_KIND
    return worker_take(e, frame, seq, now)


@kernel
def worker_take(e: Any, frame: Any, seq: int, now: int) -> Any:
    """Take in the RESULT of a chunk before ``next``. Returns 0, or why it changed nothing (``Refusal``)."""
    flags = flags_of(frame)
    entry = entry_at(e, seq)
    _find_gap(e, frame, seq, now)
    if seq < e.low or entry.state == _ANSWERED:
        if entry.seq == seq:
            answered_twice(e, entry, now, flags & RESEND)
        return _DUPLICATE
    if entry.seq != seq or entry.state != _OUTSTANDING:
        return _WRONG_SEQ
    if (flags & HAS_LANES != 0) != (entry.answer != _NOTHING and not entry.bare):
        return _WRONG_KIND
    if flags & HAS_LANES and flags & WIDTH != (width_flag(entry.bits) if entry.answer == _SUM else 0):
        return _WRONG_KIND
    # Block floating point never saturates: a worker's chunk is not finite, or a guess is too small.
    flagged = flags & SATURATED != 0
    poisoned = flagged and e.mode == _BLOCK and not entry.words
    taken = e.status == _ACTIVE and entry.operation == e.operation
    entry.carried = exponent_of(frame)
    if entry.guessed == GUESSED:
        taken = taken and is_to_be_taken(e, seq - e.start - e.lead + e.known, flagged)
    elif poisoned:
        e.poisoned += 1
    elif flagged:
        e.saturated += 1
    # A chunk of an earlier operation, repeated in a new epoch: its result is the caller's by now.
    if entry.answer != _NOTHING and taken:
        if entry.closes:
            _note_partial(e, entry, frame, seq, flags)
        if poisoned and entry.answer == _SUM:
            fill_nan(entry.target, entry.count)
        elif entry.bare:
            clear_tail(entry.target, 0, entry.count)
        elif entry.answer == _SUM and entry.bits != WORD_BITS:
            down = scale_down(e, entry.agreed, entry.bits)
            dequantize_narrow(lanes_of(frame), entry.count, down, entry.bits, entry.target)
        elif entry.answer == _SUM and not entry.words:
            dequantize(lanes_of(frame), entry.count, scale_down(e, entry.agreed, WORD_BITS), entry.target)
        else:
            take_raw(lanes_of(frame), entry.count, entry.target)
    if e.truths != 0 and entry.operation == e.operation:
        note_announced(e, seq - e.start + e.known, entry.carried)
    e.results_received += 1
    if flags & RESEND == 0:
        e.latest = seq
    if congestion_of(frame):
        cut(e, entry.order)
    settle(e, entry, now, 1 if flags & RESEND else 0)
    find_missing(e, now)
    _wake(e, seq + e.window)
    if e.lead > 0 and e.lead != e.window:
        _wake(e, seq + e.lead)  # what waits is of the operation that is under way, or never left in one before
    if entry.lead > 0 and entry.lead not in (e.window, e.lead):
        _wake(e, seq + entry.lead)
    if e.low == e.end:
        e.lingering = 0
        if e.status == _ACTIVE:
            e.status = _DONE
            e.done_at = now
    return 0
