"""Which of a worker's chunks leaves next, compiled: questions, what was asked for, what is late, what is new.

A chunk's turn comes when it is the next in order. Where its slot is taken still, and by one that is late, it is
*skipped*, and leaves as soon as the slot is free. What is missing, and what is asked for, wait in queues until there is
room for them on their way; the oldest chunk never waits for room.
"""

from typing import Any, Final

import numpy as np

from p4reduce.native.memory import carray, load_u8, pointer, store_u8
from p4reduce.workers.kernels.congestion import has_room
from p4reduce.workers.kernels.jit import kernel
from p4reduce.workers.kernels.sender import entry_at
from p4reduce.workers.records import EntryState

_ANSWERED: Final = int(EntryState.ANSWERED)
NOTHING: Final = -1

# Where a skipped chunk stands.
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
def may_fly(e: Any) -> Any:
    """Whether one more chunk may be on its way; where frames are late on their way, as many as have slots."""
    if e.adaptive:
        return has_room(e)
    return e.flight < (e.room if e.late_by == 0 else e.window)


# Queues of seqs: a head, a tail, and 2 * ring places.


@kernel
def _put(e: Any, queue: int, tail: int, seq: int) -> None:
    carray(pointer(queue), (2 * e.ring,), np.int64)[tail & (2 * e.ring - 1)] = seq


@kernel
def _get(e: Any, queue: int, head: int) -> Any:
    return carray(pointer(queue), (2 * e.ring,), np.int64)[head & (2 * e.ring - 1)]


@kernel
def queue_question(e: Any, seq: int) -> None:
    """A chunk is to be asked for."""
    _put(e, e.ask_queue, e.ask_tail, seq)
    e.ask_tail += 1


@kernel
def queue_again(e: Any, seq: int) -> None:
    """A chunk is to be sent again."""
    _put(e, e.again_queue, e.again_tail, seq)
    e.again_tail += 1


@kernel
def empty_queues(e: Any) -> None:
    """Nothing waits any more, as in a new epoch."""
    for place in range(e.ring):
        store_u8(e.skipped, place, 0)
    e.ask_head = e.ask_tail
    e.again_head = e.again_tail
    e.late_head = e.late_tail


@kernel
def skip(e: Any, seq: int) -> None:
    """A chunk's turn has come, but not its slot's."""
    store_u8(e.skipped, seq & (e.ring - 1), _SKIPPED)


@kernel
def wake(e: Any, seq: int) -> None:
    """A skipped chunk may leave."""
    if load_u8(e.skipped, seq & (e.ring - 1)) == _SKIPPED:
        store_u8(e.skipped, seq & (e.ring - 1), _LATE)
        _put(e, e.late, e.late_tail, seq)
        e.late_tail += 1


@kernel
def is_skipped(e: Any, seq: int) -> Any:
    """Whether a chunk before ``next`` has not left, and does not wait to."""
    return load_u8(e.skipped, seq & (e.ring - 1)) == _SKIPPED


@kernel
def next_late(e: Any) -> Any:
    """A chunk whose slot has become free, and that may leave now, or NOTHING: the oldest missing one always may."""
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
    """``next_late`` leaves."""
    store_u8(e.skipped, seq & (e.ring - 1), 0)


@kernel
def next_question(e: Any) -> Any:
    """A chunk to be asked for that may be now, or NOTHING: the oldest missing one always may."""
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
    """A chunk that was asked for and may leave now, or NOTHING: the oldest missing one always may."""
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
