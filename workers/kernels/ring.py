"""The ring all-reduce between hosts, compiled: reduce-scatter, then all-gather, in float32, pipelined frame by frame.

Each of n workers sends M = 2(n-1)m frames to the next, m = ceil(C / n) chunks a segment. Frame f belongs to step k
= f div m and carries chunk f mod m of segment (rank - k) mod n; it may leave when frame f - m from the previous
worker is in (steps after the first). Incoming frames of steps 0 .. n-2 are added to this worker's own input, later
ones are the sum. The order of additions is that of the ring, so all workers end with the same bytes.

Frames are PUSHes with lanes, sent reliably. The receiver answers with RESULTs without lanes:

- *acknowledgements*, ``count`` 0: every frame before ``seq`` is in. There is one for every ``ack_every`` frames
  of an operation and one for its last, so that without RESEND there are exactly ceil(M / ack_every) of them, whatever
  was lost. An adaptive receiver echoes there that a frame met a congested queue.
- *gap reports*, ``count`` > 0, RESEND: ``count`` frames from ``seq`` on are missing, and later ones have come. A
  gap is reported once.
- *selective acknowledgements* (below), while frames are missing.
- *answers to a poll*, a frame with exponent 1 that the sender sends after a time-out: at once an acknowledgement, all
  gaps, and a report with ``count`` 65535 for everything after the last frame seen; all with RESEND.

A frame of an operation that is not posted here yet is held until the operation is posted.

A stream of an all-to-all is the same without sums: its frames are those of one block.
"""

from typing import Any, Final

import numpy as np

from p4reduce.workers import wire
from p4reduce.workers.kernels import kernel
from p4reduce.workers.kernels.chunks import add_raw, add_words, clear_tail, send_raw, take_raw
from p4reduce.workers.kernels.frames import (
    ECN_ECHO,
    HAS_LANES,
    RESEND,
    SATURATED,
    congestion_of,
    count_of,
    exponent_of,
    flags_of,
    iteration_of,
    lanes_of,
    sender_of,
    seq_of,
    type_of,
    unknown,
    write_frame,
)
from p4reduce.workers.kernels.sender import (
    advance,
    cut,
    entry_at,
    forget,
    give_up,
    has_room,
    lose_by_order,
    lose_by_time,
    mark_lost,
    mark_sent,
    may_resend,
    next_lost,
    payload_at,
    settle,
    stand_still,
    too_early,
)
from p4reduce.workers.records import ENDPOINT_DTYPE, NEVER, EndpointKind, EndpointState, EntryState, Refusal
from p4switch.native.memory import carray, copy_bytes, load_u8, pointer, store_u8

# Selective acknowledgements of a stream, compiled: which frames beyond the first gap are in, and which are lost.
#
# While frames are missing, the receiver sends a selective acknowledgement for every resent frame, and for every
# ``_EVERY``-th new frame (as RFC 2018 does for TCP). It tells which of the 32 frames up to that frame are in. It is a
# RESULT with RESEND whose ``count`` is ``SELECTIVE`` plus the distance of its ``seq`` from the first missing frame;
# bit i of ``iteration`` is set if frame ``seq`` + i is in. SATURATED: a frame was resent needlessly. All frames before
# the first missing frame are in, so it is a cumulative acknowledgement, too.
#
# The sender numbers transmissions. A frame that is named as missing is lost when ``reorder`` later transmissions are
# in (RFC 9002, section 6.1.1), so that the loss of a second copy is found within a round trip, without the timer.
# Frames that are in do not count as in flight, so that a gap does not stall the window.


_ANSWERED: Final = int(EntryState.ANSWERED)
_OUTSTANDING: Final = int(EntryState.OUTSTANDING)
_RESULT: Final = int(wire.PacketType.RESULT)
_WRONG_SEQ: Final = int(Refusal.SEQ)

TO_THE_END: Final = 65535
"""``count`` of the last answer to a poll"""
SELECTIVE: Final = 32768
"""least ``count`` of a selective acknowledgement; gaps are reported in smaller pieces"""
BITS: Final = 32
_FARTHEST: Final = TO_THE_END - 1 - SELECTIVE
"""largest distance from the first missing frame that a selective acknowledgement can express"""
_EVERY: Final = 8
REMEMBERED: Final = 4096
"""number of transmissions after a loss during which a sender expects more losses"""


@kernel
def _be_patient(e: Any) -> None:
    """Tolerate more reordering, because a frame taken for lost was only late."""
    if e.reorder != NEVER:
        e.reorder = max(e.reorder, min(2 * e.reorder, e.window // 2))


@kernel
def settle_once(e: Any, seq: int, now: int, timed: int) -> Any:
    """Note that a frame is in; return whether that is new."""
    entry = entry_at(e, seq)
    if entry.state == _ANSWERED:
        return False
    top = e.top
    reorder = e.reorder
    late = entry.lost
    settle(e, entry, now, timed)
    e.reorder = reorder
    # If another copy was about to leave, or was a poll, the answer does not show which copy came.
    e.top = top if entry.probe or late else max(top, entry.order)
    if late and not entry.probe:
        _be_patient(e)
    return True


@kernel
def answered(e: Any, now: int) -> None:
    """As ``advance``; but the timer is shorter after recent losses, as silence then rarely means a computing peer."""
    advance(e, now)
    if e.timer != NEVER and e.rtt_samples > 0 and e.order - e.lossy < REMEMBERED:
        e.rto = min(e.rto, max(e.srtt + 4 * e.rttvar, e.rto_lossy))
        e.timer = now + e.rto


@kernel
def poll_after(e: Any, now: int) -> None:
    """Handle a time-out: resend the oldest frame as a poll. The answer tells which frames are in."""
    e.timeouts += 1
    if e.timeouts > e.retries:
        give_up(e)
        return
    entry = entry_at(e, e.low)
    entry.probe = 1
    mark_lost(e, entry)
    if not e.polled:
        e.polled = 1
        e.swept = e.order
    e.rto = min(2 * e.rto, e.rto_max)
    e.timer = now + e.rto


@kernel
def receive_selection(e: Any, frame: Any, now: int) -> Any:
    """Take in a selective acknowledgement: settle frames that are in, and find those that are lost."""
    first = seq_of(frame, e.low)
    bits = iteration_of(frame)
    missing = first - (count_of(frame) - SELECTIVE)
    if missing > e.next or first < e.low - e.ring:
        return _WRONG_SEQ
    e.lossy = e.order
    if flags_of(frame) & SATURATED:
        _be_patient(e)
    new = False
    for seq in range(e.low, missing):
        new |= settle_once(e, seq, now, False)
    for back in range(BITS):
        seq = first + BITS - 1 - back
        if bits >> (BITS - 1 - back) & 1 and e.low <= seq < e.next:
            # If the newest frame was sent once, it has only just arrived.
            new |= settle_once(e, seq, now, not new and entry_at(e, seq).attempts == 1)
    if e.low <= missing < e.next:
        _lose_if_overtaken(e, missing)
    for place in range(BITS):
        seq = first + place
        if not bits >> place & 1 and e.low <= seq < e.next:
            _lose_if_overtaken(e, seq)
    if new:
        answered(e, now)
    return 0


@kernel
def _lose_if_overtaken(e: Any, seq: int) -> None:
    entry = entry_at(e, seq)
    if entry.state == _OUTSTANDING and entry.order + e.reorder <= e.top:
        lose_by_order(e, entry)


@kernel
def note_arrival(e: Any, seq: int, again: int, new: int) -> None:
    """Note that a frame of the previous worker arrived; ``again``: it is a resend."""
    if again:
        if not new and seq != e.repeated:  # a link that duplicates a frame sends the copy right behind it
            e.early = 1
            _be_patient(e)
        e.repeated = seq
        if e.confirming < len(e.confirm):
            e.confirm[e.confirming] = seq
            e.confirming += 1
    elif new and e.rx_low < e.rx_high:
        e.unreported += 1


@kernel
def next_selection(e: Any, missing: int) -> Any:
    """The first of the 32 frames that the receiver should report now, or -1; ``missing``: the first missing frame."""
    while e.confirming > 0:
        seq = e.confirm[0]
        for place in range(1, e.confirming):
            e.confirm[place - 1] = e.confirm[place]
        e.confirming -= 1
        first = min(max(seq - BITS + 1, missing), missing + _FARTHEST)
        while e.confirming > 0 and first <= e.confirm[0] < first + BITS:
            for place in range(1, e.confirming):
                e.confirm[place - 1] = e.confirm[place]
            e.confirming -= 1
        return first
    if e.unreported >= _EVERY and missing < e.rx_high:
        e.unreported = 0
        return min(max(missing, e.rx_high - BITS), missing + _FARTHEST)
    return -1


@kernel
def write_selection(e: Any, out: Any, peer: int, missing: int, first: int, bits: int) -> Any:
    """Write a selective acknowledgement for ``peer``: frames before ``missing``, and which of 32 from ``first`` on."""
    flags = RESEND | SATURATED if e.early else RESEND
    e.early = 0
    return write_frame(e, out, peer, _RESULT, flags, SELECTIVE + first - missing, first, bits, 0)


_ALL_TO_ALL: Final = int(EndpointKind.ALL_TO_ALL)
_ACTIVE: Final = int(EndpointState.ACTIVE)
_DONE: Final = int(EndpointState.DONE)
_WAITING: Final = int(EntryState.WAITING)
_TYPE_PUSH: Final = int(wire.PacketType.PUSH)
_TYPE_RESULT: Final = int(wire.PacketType.RESULT)
_WRONG_TYPE: Final = int(Refusal.TYPE)
_WRONG_KIND: Final = int(Refusal.KIND)
_DUPLICATE: Final = int(Refusal.DUPLICATE)

NEXT: Final = 0
PREVIOUS: Final = 1

# States of an incoming frame.
_ABSENT: Final = 0
_TAKEN: Final = 1
_HELD: Final = 2
_HELD_SATURATED: Final = 3

# Answers that a poll still awaits.
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
    """Put an incoming frame's lanes into the caller's array; saturated: some sum in this operation saturated.

    A rank at which a sum saturates marks all its later frames. A chunk passes every rank after its last addition, so
    all ranks learn of it.
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
    """Take in frames that came before the operation was posted."""
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
    """Mark missing frames as lost; a frame that was resent already, only if that was before the time-out."""
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
        # An old acknowledgement, but the peer is alive: the answer to the poll is on the way.
        return _DUPLICATE
    # An acknowledgement that a lost frame has delayed is no sample of the round trip.
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
    """Take in a sound frame of this job and epoch. Returns 0, or why it changed nothing (``Refusal``)."""
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
    """Copy a frame's payload into the window; return how many workers' numbers it sums."""
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
    """Write the next answer to the previous worker; return its length, 0 if none."""
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
        missing += 1  # frames held for the next operation are in
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
    """Whether the next new frame is inside the window, and the sum that it passes on has come in."""
    if e.status != _ACTIVE or seq >= e.end or e.flight >= e.window or seq - e.low >= e.reach:
        return False
    return e.kind == _ALL_TO_ALL or seq - e.start < e.segment or _is_in(e, seq - e.segment)


@kernel
def send_new(e: Any, now: int, out: Any) -> Any:
    """Write the next new frame; return its length."""
    seq = e.next
    _open(e, seq)
    e.next = seq + 1
    length = _send(e, seq, now, out)
    _settle_status(e, now)
    return length


@kernel
def send_old(e: Any, now: int, out: Any) -> Any:
    """Write an answer, or else a lost frame; return its length, 0 if there is neither."""
    length = _next_report(e, out)
    if length == 0:
        lost = next_lost(e)
        if lost >= 0 and may_resend(e, lost):
            length = _send(e, lost, now, out)
    _settle_status(e, now)
    return length


@kernel
def ring_transmit(e: Any, now: int, out: Any) -> Any:
    """Write the next frame: answers first, then lost frames, then new ones. Return its length, 0 if none."""
    length = send_old(e, now, out)
    if length == 0 and e.lost == 0 and may_send(e, e.next) and has_room(e):
        length = send_new(e, now, out)
    return length


# All-to-all between hosts, compiled: each of n workers sends a block to each other worker; switches only forward.
#
# An endpoint has n - 1 streams, records like its own: stream k (from 1) goes to rank r + k and comes from r - k,
# each with the ring's acknowledgements, gap reports and polls (`ring.py`), but without its sums: a frame depends on
# no incoming frame. New chunks leave in turns, one for each stream, and all ranks begin with the next rank, so that
# each host receives from one other host at a time while all are in step. A pace keeps them in step (`sender.py`), as
# incast, the n - 1 streams of one receiver at once, would fill queues.


_FAILED: Final = int(EndpointState.FAILED)
_WRONG_PEER: Final = int(Refusal.PEER)
_NOBODY: Final = -1


@kernel
def stream_at(e: Any, index: int) -> Any:
    """The stream with an index from 0: to the rank ``index`` + 1 after this one."""
    return carray(pointer(e.streams), (e.size - 1,), ENDPOINT_DTYPE)[index]


@kernel
def _place_of(e: Any, sender: int) -> Any:
    """The number of ranks by which a sender comes after this one, minus 1; _NOBODY if it is unknown."""
    keys = carray(pointer(e.senders), (e.peers,), np.int64)
    low = 0
    high = e.peers
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < sender:
            low = middle + 1
        else:
            high = middle
    if low == e.peers or keys[low] != sender:
        return _NOBODY
    return carray(pointer(e.ranks), (e.peers,), np.int64)[low]


@kernel
def _gather(e: Any, now: int) -> None:
    """Set the endpoint's state from the states of its streams."""
    active = 0
    lingering = 0
    for index in range(e.size - 1):
        stream = stream_at(e, index)
        if stream.status == _FAILED or stream.failed_seq >= 0:
            e.failed_seq = stream.failed_seq
        active += stream.status == _ACTIVE
        lingering += stream.lingering
        if stream.status == _FAILED:
            e.status = _FAILED
    e.lingering = lingering > 0 and e.status != _FAILED
    if e.status == _ACTIVE and active == 0:
        e.status = _DONE
        e.done_at = now


@kernel
def all_to_all_posted(e: Any) -> None:
    """Take in frames that came before the operation was posted."""
    e.turn = 0
    for index in range(e.size - 1):
        ring_posted(stream_at(e, index))


@kernel
def _touched(e: Any, stream: Any, status: int, lingering: int, now: int) -> None:
    e.timer = min(e.timer, stream.timer)
    if stream.status != status or stream.lingering != lingering:
        _gather(e, now)


@kernel
def all_to_all_receive(e: Any, frame: Any, now: int) -> Any:
    """Take in a sound frame of this job and epoch. Returns 0, or why it changed nothing (``Refusal``)."""
    place = _place_of(e, sender_of(frame))
    if place == _NOBODY or e.size == 1:
        return _WRONG_PEER
    # Data come from rank r - k, which is n - k ranks after this one; answers come from r + k.
    stream = stream_at(e, e.size - 2 - place if type_of(frame) == _TYPE_PUSH else place)
    status = stream.status
    lingering = stream.lingering
    reason = ring_receive(stream, frame, now)
    _touched(e, stream, status, lingering, now)
    return reason


@kernel
def _owes(stream: Any) -> Any:
    """Whether a stream may have answers to send, or chunks to resend."""
    waits = stream.poll != 0 or stream.lost > 0 or stream.reportable > max(stream.reported, stream.rx_low)
    return waits or stream.acks_sent < stream.acks_due


@kernel
def all_to_all_transmit(e: Any, now: int, out: Any) -> Any:
    """Write the next frame: answers and lost frames first, then new chunks in turns. Return its length, 0 if none."""
    forget(e)
    if e.size == 1:
        if e.status == _ACTIVE:
            _gather(e, now)
        return 0
    for index in range(e.size - 1):
        stream = stream_at(e, index)
        if _owes(stream):
            status = stream.status
            lingering = stream.lingering
            length = send_old(stream, now, out)
            _touched(e, stream, status, lingering, now)
            if length > 0:
                return length
    for step in range(e.size - 1):
        index = (e.turn + step) % (e.size - 1)
        stream = stream_at(e, index)
        if stream.blocked == 0 and stream.lost == 0 and may_send(stream, stream.next) and has_room(stream):
            if too_early(e, now):
                return 0
            e.turn = (index + 1) % (e.size - 1)
            if e.pace > 0:
                e.pace_at = max(e.pace_at, now - e.pace) + e.pace
            status = stream.status
            lingering = stream.lingering
            length = send_new(stream, now, out)
            _touched(e, stream, status, lingering, now)
            return length
    return 0


@kernel
def all_to_all_time_out(e: Any, now: int) -> None:
    """Handle the timers of streams that have run out."""
    e.timer = NEVER
    for index in range(e.size - 1):
        stream = stream_at(e, index)
        if stream.timer <= now:
            poll_after(stream, now)
        e.timer = min(e.timer, stream.timer)
    _gather(e, now)


@kernel
def all_to_all_stand_still(e: Any, paused: int) -> None:
    """As ``stand_still``, for all streams."""
    e.timer = NEVER
    for index in range(e.size - 1):
        stream = stream_at(e, index)
        stand_still(stream, paused)
        e.timer = min(e.timer, stream.timer)
