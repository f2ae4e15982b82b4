"""All-to-all between hosts, compiled: each of n workers sends a block to each other one; switches only forward.

An endpoint has n - 1 streams, records like its own: stream k (from 1) goes to rank r + k and comes from r - k, each
with the ring's acknowledgements, gap reports and polls (`ring.py`), but without its sums: a frame depends on none that
came in. New chunks leave in turns, one for each stream, and all ranks begin with the next one: so at any time a host
hears from one other host, as long as they are in step. A pace keeps them so (`pacing.py`): incast, the n - 1 streams of
one receiver at once, is what fills queues here.
"""

from typing import Any, Final

import numpy as np

from p4reduce.native.memory import carray, pointer
from p4reduce.workers import wire
from p4reduce.workers.kernels.congestion import has_room
from p4reduce.workers.kernels.frames import sender_of, type_of
from p4reduce.workers.kernels.jit import kernel
from p4reduce.workers.kernels.pacing import forget, too_early
from p4reduce.workers.kernels.ring import may_send, ring_posted, ring_receive, send_new, send_old
from p4reduce.workers.kernels.selective import poll_after
from p4reduce.workers.kernels.sender import stand_still
from p4reduce.workers.records import ENDPOINT_DTYPE, NEVER, Refusal, State

_ACTIVE: Final = int(State.ACTIVE)
_FAILED: Final = int(State.FAILED)
_DONE: Final = int(State.DONE)
_TYPE_PUSH: Final = int(wire.PacketType.PUSH)
_WRONG_PEER: Final = int(Refusal.PEER)
_NOBODY: Final = -1


@kernel
def stream_at(e: Any, index: int) -> Any:
    """A stream, from 0: to the rank ``index`` + 1 further on."""
    return carray(pointer(e.streams), (e.size - 1,), ENDPOINT_DTYPE)[index]


@kernel
def _place_of(e: Any, sender: int) -> Any:
    """How many ranks further on a sender is, less one; or _NOBODY."""
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
    """What the endpoint is follows from what its streams are."""
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
    """Takes in what came before the operation was posted."""
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
    """A sound frame of this job and epoch. Returns 0, or why it changed nothing (``Refusal``)."""
    place = _place_of(e, sender_of(frame))
    if place == _NOBODY or e.size == 1:
        return _WRONG_PEER
    # Data come from r - k, which is n - k further on; answers from r + k.
    stream = stream_at(e, e.size - 2 - place if type_of(frame) == _TYPE_PUSH else place)
    status = stream.status
    lingering = stream.lingering
    reason = ring_receive(stream, frame, now)
    _touched(e, stream, status, lingering, now)
    return reason


@kernel
def _owes(stream: Any) -> Any:
    """Whether a stream may have answers to give, or chunks to send again."""
    waits = stream.poll != 0 or stream.lost > 0 or stream.reportable > max(stream.reported, stream.rx_low)
    return waits or stream.acks_sent < stream.acks_due


@kernel
def all_to_all_transmit(e: Any, now: int, out: Any) -> Any:
    """The next frame: answers and what was lost first, then new chunks in turns; 0 when there is nothing to send."""
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
    """A timer of a stream ran out, or did before it was set anew."""
    e.timer = NEVER
    for index in range(e.size - 1):
        stream = stream_at(e, index)
        if stream.timer <= now:
            poll_after(stream, now)
        e.timer = min(e.timer, stream.timer)
    _gather(e, now)


@kernel
def all_to_all_stand_still(e: Any, paused: int) -> None:
    """As ``stand_still``, of all streams."""
    e.timer = NEVER
    for index in range(e.size - 1):
        stream = stream_at(e, index)
        stand_still(stream, paused)
        e.timer = min(e.timer, stream.timer)
