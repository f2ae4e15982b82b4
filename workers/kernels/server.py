"""The parameter server, compiled: parent of the root switch or, with several members, the baseline.

A slot holds one chunk; slot = seq & (ring - 1). A chunk is complete when every member's contribution is in: a
single one, merged by the network, or one for each worker; these are then summed in the order of ranks. The lanes of a
chunk's RESULT are kept with the slot, so a repeated request gets the same bytes in any epoch, and nothing is applied
twice.

An ASK is answered by the RESULT, by an ASK for a missing contribution, or by a WAIT that names the missing members.
Frames that come before an operation is posted are refused; once it is posted, the server asks for them.
"""

from typing import Any, Final

import numpy as np

from p4reduce.workers import wire
from p4reduce.workers.kernels import kernel
from p4reduce.workers.kernels.chunks import (
    add_raw,
    add_words,
    clear_tail,
    dequantize,
    descend,
    fill_nan,
    quantize,
    scale_down,
    scale_up,
    send_raw,
    take_raw,
)
from p4reduce.workers.kernels.frames import (
    ECN_ECHO,
    HAS_LANES,
    RESEND,
    SATURATED,
    congestion_of,
    count_of,
    exponent_of,
    flags_of,
    is_forged,
    lanes_of,
    sender_of,
    seq_of,
    set_mask,
    type_of,
    write_frame,
)
from p4reduce.workers.kernels.worker import carries_lanes
from p4reduce.workers.numbers import UNANNOUNCED, NumberMode
from p4reduce.workers.records import SLOT_DTYPE, ChunkAnswer, Collective, EndpointState, Refusal
from p4reduce.workers.wire import WORD_BITS
from p4switch.native.memory import carray, copy_bytes, load_u8, pointer, store_u8

_RAW: Final = int(NumberMode.RAW)
_BLOCK: Final = int(NumberMode.BLOCK)
_ACTIVE: Final = int(EndpointState.ACTIVE)
_DONE: Final = int(EndpointState.DONE)
_ALL_REDUCE: Final = int(Collective.ALL_REDUCE)
_PUSH: Final = int(Collective.PUSH)
_PULL: Final = int(Collective.PULL)
_PUSH_PULL: Final = int(Collective.PUSH_PULL)
_BARRIER: Final = int(Collective.BARRIER)
_NOTHING: Final = int(ChunkAnswer.NOTHING)
_RAW_ANSWER: Final = int(ChunkAnswer.RAW)
_TYPE_PUSH: Final = int(wire.PacketType.PUSH)
_TYPE_PULL: Final = int(wire.PacketType.PULL)
_TYPE_RESULT: Final = int(wire.PacketType.RESULT)
_TYPE_ASK: Final = int(wire.PacketType.ASK)
_WRONG_PEER: Final = int(Refusal.PEER)
_WRONG_TOKEN: Final = int(Refusal.TOKEN)
_WRONG_SEQ: Final = int(Refusal.SEQ)
_WRONG_KIND: Final = int(Refusal.KIND)
_DUPLICATE: Final = int(Refusal.DUPLICATE)
_NOT_POSTED: Final = int(Refusal.NOT_POSTED)

REPLIES: Final = 4
"""places in the queue of replies for each (slot, member)"""

# Marks of (slot, member).
_ARRIVED: Final = 1
_QUEUED: Final = 2
_REPLIED: Final = 4

# Kinds of replies in the queue, whose codes are seq << 20 | kind << 16 | rank.
_KIND_RESULT: Final = 0
_KIND_ASK: Final = 1
_KIND_WAIT: Final = 2
_MASK_BITS: Final = 32


@kernel
def _slot_at(e: Any, seq: int) -> Any:
    return carray(pointer(e.slots), (e.ring,), SLOT_DTYPE)[seq & (e.ring - 1)]


@kernel
def _result_at(e: Any, seq: int) -> Any:
    """Address of a slot's result: float32 in this machine's order."""
    return e.results + (seq & (e.ring - 1)) * 4 * e.lanes


@kernel
def _contribution_at(e: Any, seq: int, rank: int) -> Any:
    """Address of a member's lanes, as they came."""
    return e.contributions + ((seq & (e.ring - 1)) * e.peers + rank) * 4 * e.lanes


@kernel
def _mark_cell(e: Any, seq: int, rank: int) -> Any:
    return (seq & (e.ring - 1)) * e.peers + rank


@kernel
def _rank_of(e: Any, key: int) -> Any:
    """The rank of the member with this key, or -1; binary search in the sorted senders."""
    senders = carray(pointer(e.senders), (e.peers,), np.int64)
    at = np.searchsorted(senders, key)
    if at == e.peers or senders[at] != key:
        return -1
    return carray(pointer(e.ranks), (e.peers,), np.int64)[at]


@kernel
def _reply_capacity(e: Any) -> Any:
    """Places for a RESULT of each (slot, member), a stale RESULT of its slot's old chunk, and two questions."""
    return REPLIES * e.ring * e.peers


@kernel
def _queue(e: Any, seq: int, kind: int, rank: int) -> None:
    capacity = _reply_capacity(e)
    carray(pointer(e.replies), (capacity,), np.int64)[e.reply_tail % capacity] = (seq << 20) | (kind << 16) | rank
    e.reply_tail += 1
    e.lingering = 1


@kernel
def _queue_question(e: Any, seq: int, kind: int, rank: int) -> Any:
    """Queue an ASK or WAIT, unless the rest of the queue is reserved for RESULTs."""
    if e.reply_tail - e.reply_head >= (REPLIES - 2) * e.ring * e.peers:
        return _DUPLICATE
    _queue(e, seq, kind, rank)
    return 0


@kernel
def _queue_reply(e: Any, seq: int, rank: int) -> None:
    cell = _mark_cell(e, seq, rank)
    mark = load_u8(e.marks, cell)
    if mark & _QUEUED:
        return
    store_u8(e.marks, cell, mark | _QUEUED)
    _queue(e, seq, _KIND_RESULT, rank)


@kernel
def _gives(e: Any) -> Any:
    """Whether the server contributes numbers to the sum."""
    return e.collective == _PUSH and e.source != 0


@kernel
def _take_own(e: Any, slot: Any, seq: int, chunk: int) -> None:
    """Begin a chunk with the server's exponent of a later chunk, and whether its own numbers are not finite."""
    announces = seq - e.start + e.known
    if e.lead > 0 and announces < e.chunks:
        slot.exponent = load_u8(e.exponents, announces)
    if chunk >= 0 and e.poison != 0:
        slot.saturated = load_u8(e.poison, chunk)


@kernel
def _open(e: Any, slot: Any, seq: int) -> None:
    chunk = seq - e.start - e.lead + e.known
    slot.seq = seq
    slot.arrived = 0
    slot.count = 0
    slot.iteration = e.iteration
    slot.done = 0
    slot.exponent = 0
    slot.saturated = 0
    slot.congested = 0
    slot.type = _TYPE_PULL if e.collective == _PULL else _TYPE_PUSH
    slot.has_lanes = chunk >= 0 and carries_lanes(e.collective)
    slot.answer = _NOTHING if chunk < 0 or e.collective in (_PUSH, _BARRIER) else _RAW_ANSWER
    if _gives(e):
        _take_own(e, slot, seq, chunk)
    for rank in range(e.peers):
        # A reply that is still queued is of the slot's old chunk: it will be skipped.
        store_u8(e.marks, _mark_cell(e, seq, rank), 0)
    if e.collective == _PULL:
        begin = chunk * e.lanes
        count = min(e.lanes, e.length - begin)
        copy_bytes(_result_at(e, seq), e.source + 4 * begin, 4 * count)
        clear_tail(_result_at(e, seq), count, e.lanes)


@kernel
def _add_own(e: Any, slot: Any, seq: int, scale: float) -> None:
    """Add the server's own lanes to those that came, as the root switch would have."""
    begin = (seq - e.start - e.lead + e.known) * e.lanes
    count = min(e.lanes, e.length - begin)
    result, lanes = _result_at(e, seq), _contribution_at(e, seq, 0)
    copy_bytes(result, e.source + 4 * begin, 4 * count)
    clear_tail(result, count, e.lanes)
    slot.saturated |= quantize(result, e.lanes, scale, e.limit, result) > 0
    take_raw(result, e.lanes, result)
    slot.saturated |= add_words(lanes, e.lanes, result, result) > 0
    send_raw(result, e.lanes, lanes)


@kernel
def _sum(e: Any, slot: Any, seq: int) -> None:
    """The slot's result := the sum of the contributions, in the order of ranks."""
    result = _result_at(e, seq)
    if e.mode != _RAW:
        agreed = _slot_at(e, seq - e.lead).exponent
        if e.mode == _BLOCK and slot.saturated:  # a worker's chunk is not finite
            fill_nan(result, e.lanes)
            return
        if _gives(e):
            _add_own(e, slot, seq, scale_up(e, agreed, WORD_BITS))
        dequantize(_contribution_at(e, seq, 0), e.lanes, scale_down(e, agreed, WORD_BITS), result)
        return
    take_raw(_contribution_at(e, seq, 0), e.lanes, result)
    for rank in range(1, e.peers):
        if e.words:
            slot.saturated |= add_words(_contribution_at(e, seq, rank), e.lanes, result, result) > 0
        else:
            add_raw(_contribution_at(e, seq, rank), e.lanes, result, result)


@kernel
def _apply(e: Any, slot: Any, seq: int) -> None:
    """Apply the operation to a complete chunk that came with lanes."""
    _sum(e, slot, seq)
    begin = (seq - e.start - e.lead + e.known) * e.lanes
    count = min(e.lanes, e.length - begin)
    result = _result_at(e, seq)
    target = e.target + 4 * begin
    if e.collective == _PUSH_PULL:
        descend(result, count, e.step, target)
        copy_bytes(result, target, 4 * count)
    elif e.target != 0:
        copy_bytes(target, result, 4 * count)


@kernel
def _complete(e: Any, slot: Any, seq: int, now: int) -> None:
    if slot.has_lanes:
        _apply(e, slot, seq)
    if slot.saturated and e.mode == _BLOCK and not e.words:
        e.poisoned += 1
    elif slot.saturated:
        e.saturated += 1
    slot.done = 1
    while e.low < e.end and _slot_at(e, e.low).seq == e.low and _slot_at(e, e.low).done:
        e.low += 1
    if e.low == e.end:
        e.status = _DONE
        e.done_at = now
    if slot.type == _TYPE_PUSH:
        for rank in range(e.peers):
            _queue_reply(e, seq, rank)


@kernel
def _exponent_known(e: Any, seq: int) -> Any:
    if e.lead == 0:
        return True
    announcer = _slot_at(e, seq - e.lead)
    return announcer.seq == seq - e.lead and announcer.done != 0


@kernel
def _may_open(e: Any, seq: int) -> Any:
    """Whether a chunk may take its slot: no worker will ask for the slot's old chunk again.

    If the network adds up (one peer), no chunk is sent too far ahead. Several peers may be answered one by one (PULL),
    so one worker could run ahead of the others; but each worker that has sent the oldest incomplete chunk has all
    results up to half a ring before it.
    """
    ahead = e.ring if e.peers == 1 else e.ring // 2
    slot = _slot_at(e, seq)
    return e.low <= seq < e.low + ahead and (slot.seq < 0 or slot.done != 0)


@kernel
def _missing_mask(e: Any, seq: int) -> Any:
    """The members whose contribution is awaited, one bit for each of the first 32."""
    mask = 0
    for rank in range(min(e.peers, _MASK_BITS)):
        if load_u8(e.marks, _mark_cell(e, seq, rank)) & _ARRIVED == 0:
            mask |= 1 << rank
    return mask


@kernel
def _asked(e: Any, seq: int, rank: int) -> Any:
    """Answer a member that lacks the RESULT of a chunk."""
    slot = _slot_at(e, seq)
    if slot.seq == seq:
        if load_u8(e.marks, _mark_cell(e, seq, rank)) & _ARRIVED == 0:
            return _queue_question(e, seq, _KIND_ASK, rank)
        if slot.done or slot.type == _TYPE_PULL:
            _queue_reply(e, seq, rank)
            return 0
        return _queue_question(e, seq, _KIND_WAIT, rank)
    if seq < e.low or slot.seq > seq:
        return _WRONG_SEQ
    return _queue_question(e, seq, _KIND_ASK if seq < e.end and _may_open(e, seq) else _KIND_WAIT, rank)


@kernel
def server_agreed_ahead(e: Any, count: int) -> Any:
    """As ``worker_agreed_ahead``, from the server's slots."""
    for seq in range(e.end - count, e.end):
        slot = _slot_at(e, seq)
        if slot.seq != seq or slot.exponent == UNANNOUNCED:
            return False
    return True


@kernel
def server_posted(e: Any) -> None:
    """Ask for chunks that came before their operation was posted; with ``repeats``, workers resend lanes unasked."""
    early = carray(pointer(e.unposted), (e.peers,), np.int64)
    end = min(e.end, e.start + e.ring // 2)
    if e.repeats and carries_lanes(e.collective):
        end = min(end, e.start + e.lead - e.known)
    for rank in range(e.peers):
        for seq in range(e.start, min(early[rank], end)):
            _queue_question(e, seq, _KIND_ASK, rank)
        early[rank] = 0


@kernel
def server_receive(e: Any, frame: Any, now: int) -> Any:
    """Take in a sound PUSH, PULL or ASK of this job and epoch. Returns 0, or why it changed nothing (``Refusal``)."""
    rank = _rank_of(e, sender_of(frame))
    if rank < 0:
        return _WRONG_PEER
    if is_forged(e, frame, rank):
        return _WRONG_TOKEN
    seq = seq_of(frame, e.low)
    flags = flags_of(frame)
    with_lanes = flags & HAS_LANES != 0
    if type_of(frame) == _TYPE_ASK:
        return _WRONG_KIND if with_lanes else _asked(e, seq, rank)
    slot = _slot_at(e, seq)
    if slot.seq != seq:
        if seq >= e.end:
            early = carray(pointer(e.unposted), (e.peers,), np.int64)
            early[rank] = max(early[rank], min(seq + 1, e.end + e.ring))
            return _NOT_POSTED
        if not _may_open(e, seq):
            return _WRONG_SEQ
        if with_lanes and not _exponent_known(e, seq):
            return _WRONG_SEQ
        _open(e, slot, seq)
    if type_of(frame) != slot.type or with_lanes != (slot.has_lanes != 0):
        return _WRONG_KIND
    cell = _mark_cell(e, seq, rank)
    mark = load_u8(e.marks, cell)
    if mark & _ARRIVED:
        if e.repeats and slot.done:
            _queue_reply(e, seq, rank)  # workers that repeat ask for the RESULT in this way
        return _DUPLICATE
    store_u8(e.marks, cell, mark | _ARRIVED)
    slot.arrived += 1
    slot.count = min(slot.count + count_of(frame), 65535)
    slot.exponent = max(slot.exponent, exponent_of(frame))
    slot.saturated |= flags & SATURATED != 0
    slot.congested |= congestion_of(frame)
    if with_lanes:
        copy_bytes(_contribution_at(e, seq, rank), lanes_of(frame), 4 * e.lanes)
    e.results_received += 1
    if slot.type == _TYPE_PULL:
        _queue_reply(e, seq, rank)
    if slot.arrived == e.peers:
        _complete(e, slot, seq, now)
    return 0


@kernel
def server_transmit(e: Any, out: Any) -> Any:
    """Write the next RESULT, ASK or WAIT into ``out``; return its length, 0 if none is queued."""
    capacity = _reply_capacity(e)
    while e.reply_head < e.reply_tail:
        code = carray(pointer(e.replies), (capacity,), np.int64)[e.reply_head % capacity]
        e.reply_head += 1
        e.lingering = e.reply_head < e.reply_tail
        seq = code >> 20
        rank = code & 0xFFFF
        kind = code >> 16 & 15
        slot = _slot_at(e, seq)
        if kind != _KIND_RESULT:
            known = slot.seq == seq
            iteration = slot.iteration if known else e.iteration
            length = write_frame(e, out, rank, _TYPE_ASK, RESEND, kind - _KIND_ASK, seq, iteration, 0)
            set_mask(out, _missing_mask(e, seq) if known else 0)
            return length
        if slot.seq != seq:
            continue
        cell = _mark_cell(e, seq, rank)
        mark = load_u8(e.marks, cell)
        store_u8(e.marks, cell, (mark | _REPLIED) & ~_QUEUED)
        flags = RESEND if mark & _REPLIED else 0
        if slot.saturated:
            flags |= SATURATED
        if slot.congested:
            flags |= ECN_ECHO
        if slot.answer != _NOTHING:
            flags |= HAS_LANES
            send_raw(_result_at(e, seq), e.lanes, lanes_of(out))
        return write_frame(e, out, rank, _TYPE_RESULT, flags, slot.count, seq, slot.iteration, slot.exponent)
    return 0
