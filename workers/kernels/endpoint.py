"""Functions with which a host drives its endpoints (receive, transmit, expire, deadline), compiled and sans-IO.

``eps`` is the record array ``Endpoints.records``, ``i`` an index into it, times are picoseconds. After ``receive``,
after ``expire`` and after an operation is posted, ``transmit`` may have frames to send: call it whenever the host's
link is idle, until it returns 0.
"""

from typing import Any, Final

import numpy as np

from p4reduce.workers.kernels import entry
from p4reduce.workers.kernels.frames import NOT_MINE, congestion_of, inspect
from p4reduce.workers.kernels.recovery import rewind, time_out
from p4reduce.workers.kernels.recovery import stand_still as worker_stand_still
from p4reduce.workers.kernels.relay import relay_receive, relay_rewound, relay_transmit
from p4reduce.workers.kernels.ring import (
    all_to_all_posted,
    all_to_all_receive,
    all_to_all_stand_still,
    all_to_all_time_out,
    all_to_all_transmit,
    poll_after,
    ring_posted,
    ring_receive,
    ring_transmit,
)
from p4reduce.workers.kernels.sender import stand_still, worker_agreed_ahead, worker_posted
from p4reduce.workers.kernels.server import server_agreed_ahead, server_posted, server_receive, server_transmit
from p4reduce.workers.kernels.worker import worker_receive, worker_transmit
from p4reduce.workers.records import ENDPOINT_DTYPE, NEVER, EndpointKind, EndpointState, Refusal

_WORKER: Final = int(EndpointKind.WORKER)
_SERVER: Final = int(EndpointKind.SERVER)
_RING: Final = int(EndpointKind.RING)
_ALL_TO_ALL: Final = int(EndpointKind.ALL_TO_ALL)
_RELAY: Final = int(EndpointKind.RELAY)
_ACTIVE: Final = int(EndpointState.ACTIVE)
_FAILED: Final = int(EndpointState.FAILED)
_DONE: Final = int(EndpointState.DONE)
_NOT_POSTED: Final = int(Refusal.NOT_POSTED)
_EPS: Final = ENDPOINT_DTYPE
_BYTES: Final = np.dtype(np.uint8)
_NUMBERS: Final = np.dtype(np.int64)


@entry(_EPS, int, _BYTES, int, int)
def receive(eps: Any, i: int, frame: Any, length: int, now_ps: int) -> Any:
    """Take in a frame at the host of endpoint i: 1 if it was for this endpoint (taken in or refused), else 0.

    frame: uint8 array, C-contiguous, of at least ``length`` bytes.
    """
    e = eps[i]
    reason = inspect(e, frame, length)
    if reason == NOT_MINE:
        return 0
    e.frames_received += 1
    if reason == 0:
        e.congested += congestion_of(frame)
        if e.status == _FAILED:
            reason = _NOT_POSTED
        elif e.kind == _WORKER:
            reason = worker_receive(e, frame, now_ps)
        elif e.kind == _SERVER:
            reason = server_receive(e, frame, now_ps)
        elif e.kind == _RELAY:
            reason = relay_receive(e, frame, now_ps)
        elif e.kind == _ALL_TO_ALL:
            reason = all_to_all_receive(e, frame, now_ps)
        else:
            reason = ring_receive(e, frame, now_ps)
    if reason != 0:
        e.refused[reason] += 1
    return 1


@entry(_EPS, int, int, _BYTES)
def transmit(eps: Any, i: int, now_ps: int, out: Any) -> Any:
    """Write endpoint i's next frame into ``out`` (uint8, at least 62 + 4 * lanes); return its length, 0 if none."""
    e = eps[i]
    if e.status == _FAILED:
        return 0
    if e.kind == _WORKER:
        return worker_transmit(e, now_ps, out)
    if e.kind == _SERVER:
        return server_transmit(e, out)
    if e.kind == _RELAY:
        return relay_transmit(e, now_ps, out)
    if e.kind == _ALL_TO_ALL:
        return all_to_all_transmit(e, now_ps, out)
    return ring_transmit(e, now_ps, out)


@entry(_EPS, int)
def deadline(eps: Any, i: int) -> Any:
    """The time, picoseconds, at which to call ``expire``; ``NEVER`` (2**62) if endpoint i waits for nothing."""
    e = eps[i]
    if e.kind == _SERVER or (e.status != _ACTIVE and not e.lingering):
        return NEVER
    return min(e.timer, e.wake)


@entry(_EPS, int, int)
def expire(eps: Any, i: int, now_ps: int) -> None:
    """Handle a deadline that has passed: mark chunks for resending, or give up. Nothing happens before the deadline.

    If the deadline was the time at which the pace allows the next new chunk, ``transmit`` now writes that chunk.
    """
    if deadline(eps, i) <= now_ps:
        eps[i].wake = NEVER
        if eps[i].timer > now_ps:
            return
        if eps[i].kind == _ALL_TO_ALL:
            all_to_all_time_out(eps[i], now_ps)
        elif eps[i].kind == _RING:
            poll_after(eps[i], now_ps)
        else:
            time_out(eps[i], now_ps)


@entry(_EPS, int, int)
def resume(eps: Any, i: int, paused_ps: int) -> None:
    """Shift timer and clocks of endpoint i by ``paused_ps``, during which it was not asked for frames."""
    if eps[i].kind == _ALL_TO_ALL:
        all_to_all_stand_still(eps[i], paused_ps)
    elif eps[i].kind in (_WORKER, _RELAY):
        worker_stand_still(eps[i], paused_ps)
    elif eps[i].kind != _SERVER:
        stand_still(eps[i], paused_ps)


@entry(_EPS, _NUMBERS, int)
def posted(eps: Any, rows: Any, count: int) -> None:
    """Process what came early for the operations that were just written into the records of ``count`` rows."""
    for place in range(count):
        i = rows[place]
        if eps[i].kind in (_WORKER, _RELAY):
            worker_posted(eps[i])
        elif eps[i].kind == _RING:
            ring_posted(eps[i])
        elif eps[i].kind == _ALL_TO_ALL:
            all_to_all_posted(eps[i])
        elif eps[i].kind == _SERVER:
            server_posted(eps[i])


@entry(_EPS, _NUMBERS, _NUMBERS, int)
def agree_ahead(eps: Any, rows: Any, known: Any, count: int) -> None:
    """Set ``known`` to 0 where the last ``known`` chunks of the finished operation did not all agree on exponents.

    These are exponents of the next operation.
    """
    for place in range(count):
        i = rows[place]
        if known[place] == 0:
            continue
        if eps[i].kind == _SERVER:
            agreed = server_agreed_ahead(eps[i], known[place])
        else:
            agreed = worker_agreed_ahead(eps[i], known[place])
        if not agreed:
            known[place] = 0


@entry(_EPS, int)
def oldest_missing(eps: Any, i: int) -> Any:
    """The oldest seq without a RESULT, unwrapped: it grows beyond 2**32 without wrapping around."""
    return eps[i].low


@entry(_EPS, int, int, int)
def change_epoch(eps: Any, i: int, epoch: int, restart_seq: int) -> Any:
    """Move endpoint i to another epoch; a worker restarts at ``restart_seq`` (unwrapped), the oldest any worker lacks.

    Returns False, and changes nothing, if the worker no longer has the input of ``restart_seq``, or has not reached
    it; else True. A worker that has all its results sends its contributions again (``lingering``) and keeps the
    results; a worker that had failed becomes active.
    """
    e = eps[i]
    if e.kind in (_WORKER, _RELAY):
        if restart_seq > e.low or restart_seq < max(e.first, e.fresh - e.ring):
            return False
        rewind(e, restart_seq)
        e.failed_seq = -1
        if e.status == _FAILED:
            e.status = _ACTIVE
        e.lingering = e.status == _DONE and restart_seq < e.end
        if e.kind == _RELAY:
            relay_rewound(e)
    e.epoch = epoch
    return True


@entry(_EPS, int)
def status(eps: Any, i: int) -> Any:
    """The ``EndpointState`` of endpoint i."""
    return eps[i].status
