"""A relay, compiled: a worker that is an inner node of a tree, and acts as a switch to its children and its parent.

It is a worker (`worker.py`) with the slots of a switch. A slot holds one chunk; slot = seq mod P, P = 2 windows, as in
the switches of the job, so the same rule frees a slot. The worker's own frames do not leave: its PUSH is the first
child's contribution to the slot, its ASK is answered here. When all contributions are in, the sum goes up as one PUSH,
or at the root becomes the RESULT. A RESULT is kept in the slot, goes to each child by unicast, and to the worker.

Questions of children and of the parent are answered as in p4src/slot.p4; the worker is the lowest child, which asks the
parent for all. Sums are int32 and saturate as in switches.
"""

from typing import Any, Final

import numpy as np

from p4reduce.workers import wire
from p4reduce.workers.kernels import kernel
from p4reduce.workers.kernels.chunks import add_words, send_raw, take_raw
from p4reduce.workers.kernels.frames import (
    ECN_ECHO,
    HAS_LANES,
    LANES_OFFSET,
    RESEND,
    SATURATED,
    congestion_of,
    count_of,
    exponent_of,
    flags_of,
    is_forged,
    iteration_of,
    lanes_of,
    mask_of,
    sender_of,
    seq_of,
    set_mask,
    type_of,
    write_frame,
)
from p4reduce.workers.kernels.recovery import (
    asked_for,
    lost_above,
    result_was_sent,
    sum_leaves,
    told_to_wait,
)
from p4reduce.workers.kernels.sender import entry_at
from p4reduce.workers.kernels.worker import worker_take, worker_transmit
from p4reduce.workers.records import RELAY_SLOT_DTYPE, EndpointState, EntryState, Refusal
from p4switch.native.memory import carray, load_u8, pointer, store_u8

_TYPE_PUSH: Final = int(wire.PacketType.PUSH)
_TYPE_RESULT: Final = int(wire.PacketType.RESULT)
_TYPE_ASK: Final = int(wire.PacketType.ASK)
_OUTSTANDING: Final = int(EntryState.OUTSTANDING)
_DONE: Final = int(EndpointState.DONE)
_WRONG_PEER: Final = int(Refusal.PEER)
_WRONG_TYPE: Final = int(Refusal.TYPE)
_WRONG_TOKEN: Final = int(Refusal.TOKEN)
_WRONG_SEQ: Final = int(Refusal.SEQ)
_WRONG_KIND: Final = int(Refusal.KIND)
_DUPLICATE: Final = int(Refusal.DUPLICATE)

RELAY_REPLIES: Final = 4
"""places in the send queue for each (slot, peer); half of them are for questions"""
_COUNT_LIMIT: Final = 65535
_RESULT_SENT: Final = wire.RESULT_SENT

# Marks of (slot, peer). Cell 0 is that of the parent, and of the worker itself as a contributor.
_ARRIVED: Final = 1
_QUEUED: Final = 2
_SENT: Final = 4

# Kinds of frames in the send queue, whose codes are seq << 20 | kind << 16 | peer.
_ANSWER: Final = 0
"""to a child: the RESULT; to the parent: the sum"""
_QUESTION: Final = 1
_WAIT: Final = 2
_WAIT_ABOVE: Final = 3
"""to a child: a WAIT that came from the parent"""
_SENT_BEFORE: Final = 4
"""to a child: its RESULT has been sent"""


@kernel
def _places(e: Any) -> Any:
    """P: number of the job's slots in each node of its tree."""
    return 2 * e.window


@kernel
def _slot_at(e: Any, seq: int) -> Any:
    return carray(pointer(e.slots), (_places(e),), RELAY_SLOT_DTYPE)[seq & (_places(e) - 1)]


@kernel
def _lanes_at(e: Any, seq: int) -> Any:
    """Address of a slot's sum, later its result: int32 as the bits of float32, in this machine's order."""
    return e.results + (seq & (_places(e) - 1)) * 4 * e.lanes


@kernel
def _cell(e: Any, seq: int, peer: int) -> Any:
    return (seq & (_places(e) - 1)) * e.peers + peer


@kernel
def _is_marked(e: Any, seq: int, peer: int, mark: int) -> Any:
    return load_u8(e.marks, _cell(e, seq, peer)) & mark != 0


@kernel
def _mark(e: Any, seq: int, peer: int, mark: int) -> None:
    store_u8(e.marks, _cell(e, seq, peer), load_u8(e.marks, _cell(e, seq, peer)) | mark)


@kernel
def _peer_of(e: Any, key: int) -> Any:
    """The peer with this key, or -1; there are few, so each is compared."""
    senders = carray(pointer(e.senders), (e.peers,), np.int64)
    for peer in range(e.root, e.peers):
        if senders[peer] == key:
            return peer
    return -1


@kernel
def _missing_mask(e: Any, seq: int) -> Any:
    """Mask of the children whose contribution is awaited; bit 0 is the worker itself."""
    mask = 0
    for peer in range(e.peers):
        if not _is_marked(e, seq, peer, _ARRIVED):
            mask |= 1 << peer
    return mask


# The send queue.


@kernel
def _capacity(e: Any) -> Any:
    return RELAY_REPLIES * _places(e) * e.peers


@kernel
def _queue(e: Any, seq: int, kind: int, peer: int) -> None:
    capacity = _capacity(e)
    carray(pointer(e.replies), (capacity,), np.int64)[e.reply_tail % capacity] = (seq << 20) | (kind << 16) | peer
    e.reply_tail += 1


@kernel
def _queue_question(e: Any, seq: int, kind: int, peer: int) -> Any:
    """Queue a question or WAIT, unless the rest of the queue is reserved for sums and RESULTs: the peer asks again."""
    if e.reply_tail - e.reply_head >= _capacity(e) // 2:
        return _DUPLICATE
    _queue(e, seq, kind, peer)
    return 0


@kernel
def _queue_answer(e: Any, seq: int, peer: int) -> None:
    if not _is_marked(e, seq, peer, _QUEUED):
        _mark(e, seq, peer, _QUEUED)
        _queue(e, seq, _ANSWER, peer)


@kernel
def _linger(e: Any) -> None:
    """Set ``lingering``: whether frames are queued, or the worker repeats contributions in a new epoch."""
    e.lingering = e.reply_head < e.reply_tail or (e.status == _DONE and e.low < e.end)


@kernel
def _answer(e: Any, slot: Any, seq: int, peer: int, again: int, out: Any) -> Any:
    """Write the sum to the parent, or the RESULT to a child or to the worker itself."""
    up = peer == 0 and slot.done == 0
    flags = RESEND if again else 0
    if slot.saturated:
        flags |= SATURATED
    if slot.congested:
        flags |= ECN_ECHO
    if slot.has_lanes:
        flags |= HAS_LANES
        send_raw(_lanes_at(e, seq), e.lanes, lanes_of(out))
    kind = _TYPE_PUSH if up else _TYPE_RESULT
    return write_frame(e, out, peer, kind, flags, slot.count, seq, slot.iteration, slot.exponent)


@kernel
def _question(e: Any, slot: Any, seq: int, kind: int, peer: int, out: Any) -> Any:
    """Write an ASK to the parent, or an ASK or WAIT to a child; a WAIT says which children are awaited."""
    known = slot.seq == seq
    level = 0
    mask = (1 << e.peers) - 1
    if known:
        mask = _missing_mask(e, seq)
    if peer == 0:
        level = slot.evidence if known else 0
    elif kind == _SENT_BEFORE:
        level, mask = _RESULT_SENT, 0
    elif kind == _WAIT:
        level = 1
    elif kind == _WAIT_ABOVE:
        level = slot.wait_level + 1
        mask = slot.wait_mask
    iteration = slot.iteration if known else e.iteration
    length = write_frame(e, out, peer, _TYPE_ASK, RESEND, level, seq, iteration, 0)
    if peer > 0:
        set_mask(out, mask)
    return length


@kernel
def relay_transmit(e: Any, now: int, out: Any) -> Any:
    """Write the next frame for a neighbour; return its length, 0 if none. The worker's frames go into slots first."""
    _work(e, now)
    capacity = _capacity(e)
    while e.reply_head < e.reply_tail:
        code = carray(pointer(e.replies), (capacity,), np.int64)[e.reply_head % capacity]
        e.reply_head += 1
        seq = code >> 20
        kind = code >> 16 & 15
        peer = code & 0xFFFF
        slot = _slot_at(e, seq)
        if kind != _ANSWER:
            _linger(e)
            return _question(e, slot, seq, kind, peer, out)
        if slot.seq != seq:
            continue  # the answer was queued for this slot's previous chunk
        mark = load_u8(e.marks, _cell(e, seq, peer))
        store_u8(e.marks, _cell(e, seq, peer), (mark | _SENT) & ~_QUEUED)
        if peer == 0 and slot.done:
            continue
        _linger(e)
        return _answer(e, slot, seq, peer, mark & _SENT, out)
    _linger(e)
    return 0


# The worker itself: its frames stay here.


@kernel
def _inside(e: Any) -> Any:
    """The buffer for frames between the worker and its slots."""
    return carray(pointer(e.scratch), (LANES_OFFSET + 4 * e.lanes,), np.uint8)


@kernel
def _work(e: Any, now: int) -> None:
    """Move all frames that the worker may send into slots."""
    frame = _inside(e)
    sent, size, again, again_size = e.frames_sent, e.bytes_sent, e.resends, e.resend_bytes
    while True:
        length = worker_transmit(e, now, frame)
        e.frames_sent, e.bytes_sent, e.resends, e.resend_bytes = sent, size, again, again_size
        if length == 0:
            return
        seq = seq_of(frame, e.low)
        if type_of(frame) == _TYPE_ASK:
            e.asks -= 1  # answered here; an ASK that goes on to the parent is counted when it leaves
            _ask_here(e, seq, count_of(frame), now)
        else:
            _contribute(e, frame, seq, 0, now)


@kernel
def _ask_here(e: Any, seq: int, latest: int, now: int) -> None:
    """Answer the worker, which lacks a RESULT. latest: the field ``count`` of its ASK, which names its last RESULT."""
    slot = _slot_at(e, seq)
    entry = entry_at(e, seq)
    if slot.seq != seq or not _is_marked(e, seq, 0, _ARRIVED):
        asked_for(e, entry, seq, now)
    elif slot.done:
        _give_here(e, slot, seq, now)
    elif slot.arrived == e.peers:
        e.asks += 1
        slot.evidence = latest
        _queue_question(e, seq, _QUESTION, 0)
    else:
        told_to_wait(e, entry, seq, 0, _missing_mask(e, seq), now)


@kernel
def _give_here(e: Any, slot: Any, seq: int, now: int) -> None:
    """Give the worker a RESULT."""
    frame = _inside(e)
    sent, size = e.frames_sent, e.bytes_sent
    _answer(e, slot, seq, 0, 0, frame)
    e.frames_sent, e.bytes_sent = sent, size
    worker_take(e, frame, seq, now)


# Incoming frames.


@kernel
def _may_open(e: Any, slot: Any, seq: int) -> Any:
    """Whether a chunk may take its slot: the slot's old chunk is done, and a peer may send the new one now."""
    return e.low <= seq < e.low + e.ring and (slot.seq < 0 or (slot.done != 0 and slot.seq < seq))


@kernel
def _open(e: Any, slot: Any, frame: Any, seq: int) -> None:
    slot.seq = seq
    slot.arrived = 0
    slot.count = 0
    slot.iteration = iteration_of(frame)
    slot.done = 0
    slot.has_lanes = flags_of(frame) & HAS_LANES != 0
    slot.exponent = 0
    slot.saturated = 0
    slot.congested = 0
    slot.wait_level = 0
    slot.wait_mask = 0
    slot.evidence = 0
    for peer in range(e.peers):
        store_u8(e.marks, _cell(e, seq, peer), 0)


@kernel
def _contribute(e: Any, frame: Any, seq: int, peer: int, now: int) -> Any:
    """Take in a PUSH of a child, or of the worker itself (peer 0)."""
    slot = _slot_at(e, seq)
    with_lanes = flags_of(frame) & HAS_LANES != 0
    opens = slot.seq != seq
    if opens:
        if not _may_open(e, slot, seq):
            return _WRONG_SEQ
        _open(e, slot, frame, seq)
    elif with_lanes != (slot.has_lanes != 0):
        return _WRONG_KIND
    elif _is_marked(e, seq, peer, _ARRIVED):
        return _DUPLICATE
    _mark(e, seq, peer, _ARRIVED)
    slot.arrived += 1
    slot.count = min(slot.count + count_of(frame), _COUNT_LIMIT)
    slot.exponent = max(slot.exponent, exponent_of(frame))
    slot.saturated |= flags_of(frame) & SATURATED != 0
    slot.congested |= congestion_of(frame)
    if with_lanes:
        total = _lanes_at(e, seq)
        if opens:
            take_raw(lanes_of(frame), e.lanes, total)
        else:
            slot.saturated |= add_words(lanes_of(frame), e.lanes, total, total) > 0
    if slot.arrived == e.peers:
        if e.root:
            _finish(e, slot, seq)
            _give_here(e, slot, seq, now)
        else:
            _queue_answer(e, seq, 0)
            sum_leaves(e, entry_at(e, seq), seq, now)
    return 0


@kernel
def _finish(e: Any, slot: Any, seq: int) -> None:
    """Queue a slot's result for every child."""
    slot.done = 1
    e.completed += 1
    slot.number = e.completed
    for peer in range(1, e.peers):
        _queue_answer(e, seq, peer)


@kernel
def _is_lost(e: Any, slot: Any, seq: int, latest: int) -> Any:
    """Whether a RESULT that was sent to a child is lost: a later RESULT has arrived, or the child insists.

    latest: the field ``count`` of the child's question.
    """
    if latest == 0:
        return True
    other_seq = seq + ((latest ^ 0x8000) - 0x8000)
    other = _slot_at(e, other_seq)
    return other.seq == other_seq and other.done != 0 and other.number > slot.number


@kernel
def _asked(e: Any, seq: int, peer: int, latest: int) -> Any:
    """Answer a child that lacks a RESULT. If the RESULT was sent and may still be in flight, tell the child so."""
    slot = _slot_at(e, seq)
    if slot.seq != seq:
        return _queue_question(e, seq, _QUESTION, peer) if _may_open(e, slot, seq) else _WRONG_SEQ
    if not _is_marked(e, seq, peer, _ARRIVED):
        return _queue_question(e, seq, _QUESTION, peer)
    if not slot.done:
        return _queue_question(e, seq, _WAIT, peer)
    if _is_marked(e, seq, peer, _QUEUED):
        return 0
    if not _is_lost(e, slot, seq, latest):
        return _queue_question(e, seq, _SENT_BEFORE, peer)
    _queue_answer(e, seq, peer)
    return 0


@kernel
def _from_above(e: Any, frame: Any, seq: int, now: int) -> Any:
    """Take in a RESULT, ASK or WAIT of the parent."""
    slot = _slot_at(e, seq)
    ours = slot.seq == seq and slot.arrived == e.peers
    flags = flags_of(frame)
    if type_of(frame) == _TYPE_ASK:
        if flags & HAS_LANES:
            return _WRONG_KIND
        entry = entry_at(e, seq)
        if not ours or slot.done or entry.seq != seq or entry.state != _OUTSTANDING:
            return _DUPLICATE
        level = count_of(frame)
        if level == 0:
            lost_above(e, entry, now)
            _queue_answer(e, seq, 0)
            return 0
        if level == _RESULT_SENT:
            return 0 if result_was_sent(e, entry, seq, now) else _DUPLICATE
        slot.wait_level = level
        slot.wait_mask = mask_of(frame)
        told_to_wait(e, entry, seq, level, mask_of(frame), now)
        for peer in range(1, e.peers):
            _queue_question(e, seq, _WAIT_ABOVE, peer)
        return 0
    if seq >= e.next or (slot.seq == seq and not ours):
        return _WRONG_SEQ
    reason = worker_take(e, frame, seq, now)
    if reason != 0 or not ours or slot.done:
        return reason
    slot.count = count_of(frame)
    slot.exponent = exponent_of(frame)
    slot.has_lanes = flags & HAS_LANES != 0
    slot.saturated |= flags & SATURATED != 0
    slot.congested |= congestion_of(frame)
    if slot.has_lanes:
        take_raw(lanes_of(frame), e.lanes, _lanes_at(e, seq))
    _finish(e, slot, seq)
    return 0


@kernel
def relay_receive(e: Any, frame: Any, now: int) -> Any:
    """Take in a sound frame of this job and epoch. Returns 0, or why it changed nothing (``Refusal``)."""
    peer = _peer_of(e, sender_of(frame))
    if peer < 0:
        return _WRONG_PEER
    kind = type_of(frame)
    # An ASK downwards has a mask in the place of the token (docs/protocol.md, Tokens).
    if not (peer == 0 and kind == _TYPE_ASK) and is_forged(e, frame, peer):
        return _WRONG_TOKEN
    seq = seq_of(frame, e.low)
    if peer == 0:
        reason = _from_above(e, frame, seq, now) if kind in (_TYPE_RESULT, _TYPE_ASK) else _WRONG_TYPE
    elif kind == _TYPE_PUSH:
        reason = _contribute(e, frame, seq, peer, now)
    elif kind == _TYPE_ASK:
        reason = _WRONG_KIND if flags_of(frame) & HAS_LANES else _asked(e, seq, peer, count_of(frame))
    else:
        reason = _WRONG_TYPE
    _linger(e)
    return reason


@kernel
def relay_rewound(e: Any) -> None:
    """Empty slots and queues for a new epoch."""
    for place in range(_places(e)):
        carray(pointer(e.slots), (_places(e),), RELAY_SLOT_DTYPE)[place].seq = -1
    e.reply_head = e.reply_tail
