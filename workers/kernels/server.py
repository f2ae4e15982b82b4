"""The parameter server, compiled: parent of the root switch or, with several members, the baseline.

A slot holds one chunk; slot = seq & (ring - 1). A chunk is complete when every member's contribution is in: one,
merged by the network, or one for each worker, which are then summed in the order of ranks. What a chunk's RESULT
carries is kept with the slot, so a repeated request, in whatever epoch, gets the same bytes, and nothing is applied
twice.
"""

from typing import Any, Final

import numpy as np

from p4reduce.native.memory import carray, copy_bytes, load_u8, pointer, store_u8
from p4reduce.workers import wire
from p4reduce.workers.kernels.chunks import add_raw, add_words, clear_tail, dequantize, descend, send_raw, take_raw
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
    sender_of,
    seq_of,
    type_of,
    write_frame,
)
from p4reduce.workers.kernels.jit import kernel
from p4reduce.workers.kernels.worker import carries_lanes, scale_down
from p4reduce.workers.numbers import NumberMode
from p4reduce.workers.records import SLOT_DTYPE, Answer, Collective, Refusal, State

_RAW: Final = int(NumberMode.RAW)
_ACTIVE: Final = int(State.ACTIVE)
_DONE: Final = int(State.DONE)
_ALL_REDUCE: Final = int(Collective.ALL_REDUCE)
_PUSH: Final = int(Collective.PUSH)
_PULL: Final = int(Collective.PULL)
_PUSH_PULL: Final = int(Collective.PUSH_PULL)
_BARRIER: Final = int(Collective.BARRIER)
_NOTHING: Final = int(Answer.NOTHING)
_RAW_ANSWER: Final = int(Answer.RAW)
_TYPE_PUSH: Final = int(wire.PacketType.PUSH)
_TYPE_PULL: Final = int(wire.PacketType.PULL)
_TYPE_RESULT: Final = int(wire.PacketType.RESULT)
_WRONG_PEER: Final = int(Refusal.PEER)
_WRONG_SEQ: Final = int(Refusal.SEQ)
_WRONG_KIND: Final = int(Refusal.KIND)
_DUPLICATE: Final = int(Refusal.DUPLICATE)
_NOT_POSTED: Final = int(Refusal.NOT_POSTED)

# Marks of (slot, member).
_ARRIVED: Final = 1
_QUEUED: Final = 2
_REPLIED: Final = 4


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
    """Which member sent it, or -1: binary search in the sorted senders."""
    senders = carray(pointer(e.senders), (e.peers,), np.int64)
    at = np.searchsorted(senders, key)
    if at == e.peers or senders[at] != key:
        return -1
    return carray(pointer(e.ranks), (e.peers,), np.int64)[at]


@kernel
def _reply_capacity(e: Any) -> Any:
    """One reply for each (slot, member), and as many that a reopened slot has made stale."""
    return 2 * e.ring * e.peers


@kernel
def _queue_reply(e: Any, seq: int, rank: int) -> None:
    cell = _mark_cell(e, seq, rank)
    mark = load_u8(e.marks, cell)
    if mark & _QUEUED:
        return
    store_u8(e.marks, cell, mark | _QUEUED)
    capacity = _reply_capacity(e)
    carray(pointer(e.replies), (capacity,), np.int64)[e.reply_tail % capacity] = (seq << 16) | rank
    e.reply_tail += 1
    e.lingering = 1


@kernel
def _open(e: Any, slot: Any, seq: int) -> None:
    chunk = seq - e.start - e.lead
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
    for rank in range(e.peers):
        # A reply that is still queued is of the slot's old chunk: it will be skipped.
        store_u8(e.marks, _mark_cell(e, seq, rank), 0)
    if e.collective == _PULL:
        begin = chunk * e.lanes
        count = min(e.lanes, e.length - begin)
        copy_bytes(_result_at(e, seq), e.source + 4 * begin, 4 * count)
        clear_tail(_result_at(e, seq), count, e.lanes)


@kernel
def _sum(e: Any, slot: Any, seq: int) -> None:
    """The slot's result := the sum of the contributions, in the order of ranks."""
    result = _result_at(e, seq)
    if e.mode != _RAW:
        scale = scale_down(e, _slot_at(e, seq - e.lead).exponent)
        dequantize(_contribution_at(e, seq, 0), e.lanes, scale, result)
        return
    take_raw(_contribution_at(e, seq, 0), e.lanes, result)
    for rank in range(1, e.peers):
        if e.words:
            slot.saturated |= add_words(_contribution_at(e, seq, rank), e.lanes, result, result) > 0
        else:
            add_raw(_contribution_at(e, seq, rank), e.lanes, result, result)


@kernel
def _apply(e: Any, slot: Any, seq: int) -> None:
    """What the operation does with a complete chunk that came with lanes."""
    _sum(e, slot, seq)
    begin = (seq - e.start - e.lead) * e.lanes
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
    if slot.saturated:
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
def server_receive(e: Any, frame: Any, now: int) -> Any:
    """A sound PUSH or PULL of this job and epoch. Returns 0, or why it changed nothing (``Refusal``)."""
    rank = _rank_of(e, sender_of(frame))
    if rank < 0:
        return _WRONG_PEER
    seq = seq_of(frame, e.low)
    flags = flags_of(frame)
    with_lanes = flags & HAS_LANES != 0
    slot = _slot_at(e, seq)
    if slot.seq != seq:
        if seq >= e.end:
            return _NOT_POSTED
        # Half a ring ahead of the oldest incomplete chunk: whoever asked for that one has every result of the chunk
        # whose slot is taken here. (A PULL is answered at once, so one worker could run away from the others.)
        if seq < e.low or seq >= e.low + e.ring // 2:
            return _WRONG_SEQ
        if with_lanes and not _exponent_known(e, seq):
            return _WRONG_SEQ
        _open(e, slot, seq)
    if type_of(frame) != slot.type or with_lanes != (slot.has_lanes != 0):
        return _WRONG_KIND
    cell = _mark_cell(e, seq, rank)
    mark = load_u8(e.marks, cell)
    if mark & _ARRIVED:
        if slot.done == 0 and slot.type == _TYPE_PUSH:
            return _DUPLICATE
        _queue_reply(e, seq, rank)
        return 0
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
    """The next RESULT; 0 when nobody waits for one."""
    capacity = _reply_capacity(e)
    while e.reply_head < e.reply_tail:
        code = carray(pointer(e.replies), (capacity,), np.int64)[e.reply_head % capacity]
        e.reply_head += 1
        e.lingering = e.reply_head < e.reply_tail
        seq = code >> 16
        rank = code & 0xFFFF
        slot = _slot_at(e, seq)
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
