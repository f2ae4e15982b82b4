"""The ring all-reduce between hosts, compiled: reduce-scatter, then all-gather, in float32, pipelined frame by frame.

Of n workers each sends M = 2(n-1)m frames to the next, m = ceil(C / n) chunks a segment. Frame f belongs to step k
= f div m and carries chunk f mod m of segment (rank - k) mod n; it may leave when frame f - m from the previous
worker is in (steps after the first). Incoming frames of steps 0 .. n-2 are added to this worker's own input, later
ones are the sum. The order of additions is that of the ring, so all workers end with the same bytes.

Frames are PUSHes with lanes; they are reliable by themselves. The receiver sends, all as RESULTs without lanes:

- *acknowledgements*, ``count`` 0: every frame before ``seq`` is in. One for every ``ack_every`` frames of an
  operation and one for its last, so that without RESEND there are exactly ceil(M / ack_every) of them, whatever was
  lost. An adaptive receiver echoes there that a frame met a congested queue.
- *gap reports*, ``count`` > 0, RESEND: ``count`` frames from ``seq`` on are missing, and later ones have come. A
  gap is reported once.
- *selective acknowledgements* (`selective.py`), while frames are missing.
- When a frame with exponent 1 comes (the sender's timer ran out) it is answered at once by an acknowledgement, all
  gaps, and ``count`` 65535 for what lies behind the last frame seen; all with RESEND.

A frame of an operation that is not posted here yet is held and taken in when it is.

A stream of an all-to-all (`all_to_all.py`) is the same without sums: its frames are those of one block.
"""

from typing import Any, Final

from p4reduce.native.memory import copy_bytes, load_u8, store_u8
from p4reduce.workers import wire
from p4reduce.workers.kernels.chunks import add_raw, add_words, clear_tail, send_raw, take_raw
from p4reduce.workers.kernels.congestion import cut, has_room
from p4reduce.workers.kernels.frames import (
    ECN_ECHO,
    HAS_LANES,
    RESEND,
    SATURATED,
    congestion_of,
    count_of,
    exponent_of,
    flags_of,
    lanes_of,
    seq_of,
    type_of,
    unknown,
    write_frame,
)
from p4reduce.workers.kernels.jit import kernel
from p4reduce.workers.kernels.selective import (
    BITS,
    SELECTIVE,
    TO_THE_END,
    answered,
    next_selection,
    note_arrival,
    receive_selection,
    settle_once,
    write_selection,
)
from p4reduce.workers.kernels.sender import (
    entry_at,
    lose_by_order,
    lose_by_time,
    mark_sent,
    may_resend,
    next_lost,
    payload_at,
)
from p4reduce.workers.records import EntryState, Kind, Refusal, State

_ALL_TO_ALL: Final = int(Kind.ALL_TO_ALL)
_ACTIVE: Final = int(State.ACTIVE)
_DONE: Final = int(State.DONE)
_WAITING: Final = int(EntryState.WAITING)
_OUTSTANDING: Final = int(EntryState.OUTSTANDING)
_TYPE_PUSH: Final = int(wire.PacketType.PUSH)
_TYPE_RESULT: Final = int(wire.PacketType.RESULT)
_WRONG_TYPE: Final = int(Refusal.TYPE)
_WRONG_SEQ: Final = int(Refusal.SEQ)
_WRONG_KIND: Final = int(Refusal.KIND)
_DUPLICATE: Final = int(Refusal.DUPLICATE)

NEXT: Final = 0
PREVIOUS: Final = 1

# Cells of what came in.
_ABSENT: Final = 0
_TAKEN: Final = 1
_HELD: Final = 2
_HELD_SATURATED: Final = 3

# What a poll still has to be told.
_POLL_ACKNOWLEDGE: Final = 1
_POLL_REPORT: Final = 2


@kernel
def _cell(e: Any, seq: int) -> Any:
    return load_u8(e.cells, seq & (e.ring - 1))


@kernel
def _set_cell(e: Any, seq: int, value: int) -> None:
    store_u8(e.cells, seq & (e.ring - 1), value)


@kernel
def _is_in(e: Any, seq: int) -> Any:
    return seq < e.rx_low or _cell(e, seq) == _TAKEN


@kernel
def _begin_of(e: Any, segment: int, frame: int) -> Any:
    """First element of the chunk that a frame of a segment carries."""
    return (segment % e.size * e.segment + frame % e.segment) * e.lanes


@kernel
def _take(e: Any, seq: int, lanes: int, saturated: int) -> None:
    """An incoming frame's lanes go into the caller's array; saturated: some sum in this operation was held at its end.

    Who holds one says so in all frames that leave after it. A chunk passes every rank after its last addition, so each
    of them is told.
    """
    if e.kind == _ALL_TO_ALL:
        first = (seq - e.start) * e.lanes
        take_raw(lanes, min(e.lanes, e.length - first), e.target + 4 * first)
        _set_cell(e, seq, _TAKEN)
        return
    frame = seq - e.start
    step = frame // e.segment
    begin = _begin_of(e, e.rank - 1 - step, frame)
    count = min(e.lanes, e.length - begin)
    if count > 0 and step < e.size - 1 and e.words:
        saturated |= add_words(lanes, count, e.source + 4 * begin, e.target + 4 * begin) > 0
    elif count > 0 and step < e.size - 1:
        add_raw(lanes, count, e.source + 4 * begin, e.target + 4 * begin)
    elif count > 0:
        take_raw(lanes, count, e.target + 4 * begin)
    if saturated:
        e.saturated += 1
        e.tainted = 1
    _set_cell(e, seq, _TAKEN)


@kernel
def _advance_received(e: Any) -> None:
    while e.rx_low < e.end and _cell(e, e.rx_low) == _TAKEN:
        _set_cell(e, e.rx_low, _ABSENT)
        e.rx_low += 1
        if (e.rx_low - e.start) % e.ack_every == 0 or e.rx_low == e.end:
            e.acks_due += 1


@kernel
def _settle_status(e: Any, now: int) -> None:
    if e.status == _ACTIVE and e.rx_low == e.end and e.next == e.end:
        e.status = _DONE
        e.done_at = now
    e.lingering = e.failed_seq < 0 and (e.low < e.next or e.acks_sent < e.acks_due)


@kernel
def ring_posted(e: Any) -> None:
    """Takes in what came before the operation was posted."""
    for seq in range(e.rx_low, min(e.rx_low + e.ring, e.end)):
        if _cell(e, seq) >= _HELD:
            _take(e, seq, e.held + (seq & (e.ring - 1)) * 4 * e.lanes, _cell(e, seq) == _HELD_SATURATED)
    _advance_received(e)


@kernel
def _receive_data(e: Any, frame: Any) -> Any:
    stranger = unknown(e, frame, PREVIOUS)
    if stranger:
        return stranger
    if flags_of(frame) & HAS_LANES == 0:
        return _WRONG_KIND
    seq = seq_of(frame, e.rx_low)
    if exponent_of(frame) != 0:
        e.poll = _POLL_ACKNOWLEDGE
    if e.adaptive and congestion_of(frame):
        e.echo = 1
    if seq >= e.rx_low + e.ring or seq < e.rx_low - e.ring:
        return _WRONG_SEQ
    again = flags_of(frame) & RESEND != 0 and exponent_of(frame) == 0
    if seq < e.rx_low or _cell(e, seq) != _ABSENT:
        note_arrival(e, seq, again, False)
        return _DUPLICATE
    saturated = flags_of(frame) & SATURATED != 0
    if seq < e.end:
        _take(e, seq, lanes_of(frame), saturated)
    else:
        copy_bytes(e.held + (seq & (e.ring - 1)) * 4 * e.lanes, lanes_of(frame), 4 * e.lanes)
        _set_cell(e, seq, _HELD_SATURATED if saturated else _HELD)
    e.rx_high = max(e.rx_high, seq + 1)
    e.reportable = max(e.reportable, e.rx_high - e.reorder)
    _advance_received(e)
    note_arrival(e, seq, again, True)
    e.results_received += 1
    return 0


@kernel
def _receive_gap(e: Any, first: int, count: int) -> None:
    """Marks what is missing; a frame that was sent again already, only if that was before the timer ran out."""
    e.lossy = e.order
    last = e.next if count == TO_THE_END else min(first + count, e.next)
    for seq in range(max(first, e.low), last):
        entry = entry_at(e, seq)
        if entry.order < e.swept:
            lose_by_time(e, entry)
        elif entry.attempts == 1 and count != TO_THE_END:
            lose_by_order(e, entry)
    if count == TO_THE_END:
        e.polled = 0


@kernel
def _receive_answer(e: Any, frame: Any, now: int) -> Any:
    stranger = unknown(e, frame, NEXT)
    if stranger:
        return stranger
    flags = flags_of(frame)
    if flags & HAS_LANES:
        return _WRONG_KIND
    seq = seq_of(frame, e.low)
    count = count_of(frame)
    if SELECTIVE <= count < TO_THE_END:
        return receive_selection(e, frame, now)
    if seq > e.next or seq < e.low - e.ring:
        return _WRONG_SEQ
    if count > 0:
        _receive_gap(e, seq, count)
        return 0
    if seq <= e.low:
        # Old news, but the peer lives: what it was polled for is on the way.
        return _DUPLICATE
    # An acknowledgement that had to wait for a frame that was lost says nothing of the round trip.
    timed = flags & RESEND == 0
    if congestion_of(frame):
        cut(e, entry_at(e, seq - 1).order)
    for settled in range(e.low, seq):
        entry = entry_at(e, settled)
        timed = timed and entry.attempts == 1
        settle_once(e, settled, now, timed and settled == seq - 1)
    answered(e, now)
    return 0


@kernel
def ring_receive(e: Any, frame: Any, now: int) -> Any:
    """A sound frame of this job and epoch. Returns 0, or why it changed nothing (``Refusal``)."""
    kind = type_of(frame)
    if kind == _TYPE_PUSH:
        reason = _receive_data(e, frame)
    elif kind == _TYPE_RESULT:
        reason = _receive_answer(e, frame, now)
    else:
        return _WRONG_TYPE
    _settle_status(e, now)
    return reason


@kernel
def _copy_input(e: Any, seq: int) -> Any:
    """Keeps what a frame carries; how many workers' numbers that is the sum of."""
    frame = seq - e.start
    step: Any = 0
    begin: Any = frame * e.lanes
    if e.kind != _ALL_TO_ALL:
        step = frame // e.segment
        begin = _begin_of(e, e.rank - step, frame)
    count = max(0, min(e.lanes, e.length - begin))
    origin = e.source if step == 0 else e.target
    payload = payload_at(e, seq)
    copy_bytes(payload, origin + 4 * begin, 4 * count)
    clear_tail(payload, count, e.lanes)
    return min(step + 1, e.size)


@kernel
def _open(e: Any, seq: int) -> None:
    entry = entry_at(e, seq)
    entry.contributions = _copy_input(e, seq)
    entry.seq = seq
    entry.iteration = e.iteration
    entry.attempts = 0
    entry.saturated = e.tainted
    entry.state = _WAITING
    entry.lost = 0


@kernel
def _send(e: Any, seq: int, now: int, out: Any) -> Any:
    entry = entry_at(e, seq)
    flags = HAS_LANES
    poll = 0
    if entry.attempts > 0:
        flags |= RESEND
        poll = 1 if e.timeouts > 0 else 0
    if entry.saturated:
        flags |= SATURATED
    send_raw(payload_at(e, seq), e.lanes, lanes_of(out))
    length = write_frame(e, out, NEXT, _TYPE_PUSH, flags, entry.contributions, seq, entry.iteration, poll)
    mark_sent(e, entry, now)
    return length


@kernel
def _answer(e: Any, out: Any, flags: int, seq: int, count: int) -> Any:
    return write_frame(e, out, PREVIOUS, _TYPE_RESULT, flags, count, seq, e.iteration, 0)


@kernel
def _next_report(e: Any, out: Any) -> Any:
    """The next answer to the previous worker, or 0."""
    if e.acks_sent < e.acks_due:
        e.acks_sent += 1
        echo = e.echo
        e.echo = 0
        return _answer(e, out, ECN_ECHO if echo else 0, e.rx_low, 0)
    if e.poll == _POLL_ACKNOWLEDGE:
        e.poll = _POLL_REPORT
        e.reported = e.rx_low
        e.reportable = e.rx_high
        return _answer(e, out, RESEND, e.rx_low, 0)
    seq = max(e.reported, e.rx_low)
    while seq < e.reportable and _cell(e, seq) != _ABSENT:
        seq += 1
    first = seq
    while seq < min(e.reportable, first + SELECTIVE - 1) and _cell(e, seq) == _ABSENT:
        seq += 1
    e.reported = seq
    if seq > first:
        return _answer(e, out, RESEND, first, seq - first)
    if e.poll == _POLL_REPORT:
        e.poll = 0
        return _answer(e, out, RESEND, max(e.rx_high, e.rx_low), TO_THE_END)
    missing = e.rx_low
    while missing < e.rx_high and _cell(e, missing) != _ABSENT:
        missing += 1  # what is held for the next operation is in
    first = next_selection(e, missing)
    if first < 0:
        return 0
    bits: Any = 0
    for place in range(min(BITS, e.rx_high - first)):
        if _cell(e, first + place) != _ABSENT:
            bits |= 1 << place
    return write_selection(e, out, PREVIOUS, missing, first, bits)


@kernel
def may_send(e: Any, seq: int) -> Any:
    """Whether the next new frame is inside the window, and what it passes on has come in."""
    if e.status != _ACTIVE or seq >= e.end or e.flight >= e.window or seq - e.low >= e.reach:
        return False
    return e.kind == _ALL_TO_ALL or seq - e.start < e.segment or _is_in(e, seq - e.segment)


@kernel
def send_new(e: Any, now: int, out: Any) -> Any:
    """The next frame that was never sent."""
    seq = e.next
    _open(e, seq)
    e.next = seq + 1
    length = _send(e, seq, now, out)
    _settle_status(e, now)
    return length


@kernel
def send_old(e: Any, now: int, out: Any) -> Any:
    """An answer, or else a frame that was lost; 0 when there is none to send."""
    length = _next_report(e, out)
    if length == 0:
        lost = next_lost(e)
        if lost >= 0 and may_resend(e, lost):
            length = _send(e, lost, now, out)
    _settle_status(e, now)
    return length


@kernel
def ring_transmit(e: Any, now: int, out: Any) -> Any:
    """The next frame: answers first, then what was lost, then what is new; 0 when there is nothing to send."""
    length = send_old(e, now, out)
    if length == 0 and e.lost == 0 and may_send(e, e.next) and has_room(e):
        length = send_new(e, now, out)
    return length
