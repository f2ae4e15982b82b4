"""The real-time loop: frames from sockets through switches into sockets, without Python and without the GIL.

Events of the virtual fabric (a link is free, a frame is at its end) happen when the clock of this machine has passed
their time, with their own time as "now": a loop that was late catches up, and a rate is held exactly.
"""

from typing import Any, Final

import numpy as np

from p4reduce.fabric.access import event_at, frame_at, link_at
from p4reduce.fabric.kernels.cells import drop_frame, frame_address
from p4reduce.fabric.kernels.detours import come_again, process_any
from p4reduce.fabric.kernels.events import remove_first
from p4reduce.fabric.kernels.jit import entry, kernel
from p4reduce.fabric.kernels.loop import first_on_wire, has_space
from p4reduce.fabric.kernels.queues import depart
from p4reduce.fabric.kernels.taps import note
from p4reduce.fabric.kernels.wires import wake_when_free
from p4reduce.fabric.real.io.clock import asked, clock_ps, hold, poll_ports, rest, signal
from p4reduce.fabric.real.io.receive import receive_datagrams, receive_ring, take_pending
from p4reduce.fabric.real.io.records import FULL, MACHINE, MOVE, MOVED, RING, STOP, STOPPED, WRITABLE, port_at
from p4reduce.fabric.real.io.send import emit, flush_all, unblock
from p4reduce.fabric.records import (
    ARRIVAL,
    CORRUPTED,
    ENTRY,
    EVENT_BITS,
    EVENT_KINDS,
    LATE_ARRIVAL,
    LINK_FREE,
    NEVER,
    RETURN,
    WORLD,
)

_NOW: Final = np.int64(0)
_NEVER: Final = np.int64(NEVER)


@kernel
def _leave(w: Any, m: Any, frame_index: int) -> None:
    """A frame is at the end of its link: that is where its port's socket takes it, unless it was damaged."""
    frame = frame_at(w.frames, frame_index)
    link = link_at(w.links, frame.link)
    if frame.damaged != 0:
        link.corrupted += 1
        note(w, frame.link, frame_address(w, frame_index), frame.length, CORRUPTED)
        drop_frame(w, frame_index)
    else:
        emit(w, m, link.target_port, frame_index)


@kernel
def _link_free(w: Any, m: Any, link_index: int) -> None:
    link = link_at(w.links, link_index)
    port = port_at(m.ports, link.target_port)
    if port.blocked:
        port.wake_due = 0
        return
    link.waking = 0
    if w.now >= link.free_at:
        depart(w, link_index)
    elif link.backlog != 0:
        wake_when_free(w, link_index)


@kernel
def run_due(w: Any, m: Any) -> bool:
    """Let everything happen whose time has come; False: there is no space for it."""
    wall = w.now
    while w.heap_size > 0:
        event = event_at(w.heap, 0)
        if event.time > wall:
            break
        if not has_space(w):
            return False
        w.now = event.time
        kind = event.what & (EVENT_KINDS - 1)
        index = event.what >> EVENT_BITS
        if kind == ARRIVAL:
            _leave(w, m, first_on_wire(w, index))
            continue
        remove_first(w)
        if kind == LATE_ARRIVAL:
            _leave(w, m, index)
        elif kind == LINK_FREE:
            _link_free(w, m, index)
        elif kind == ENTRY:
            frame = frame_at(w.frames, index)
            process_any(w, frame.node, frame.port, index, w.now)
        elif kind == RETURN:
            come_again(w, index)
    w.now = wall
    return True


@kernel
def _receive(w: Any, m: Any) -> int:
    """Give every port its turn: how many frames came in, or -1: there is no space."""
    total = 0
    for index in range(m.port_count):
        port = port_at(m.ports, index)
        if port.blocked == WRITABLE:
            unblock(w, m, index)
        count = 0
        if port.kind == RING:
            count = receive_ring(w, m, index)
        elif port.readable:
            count = receive_datagrams(w, m, index)
        if count < 0:
            return -1
        if count > 0:
            total += count
            if not run_due(w, m):
                return -1
    return total


@entry(WORLD, MACHINE)
def drive(worlds: Any, machines: Any) -> int:
    """Carry frames until there is a reason to go back to Python; one of those in `records.py`."""
    w = worlds[0]
    m = machines[0]
    busy = False
    while True:
        hold(m)
        if asked(m, STOP):
            return STOPPED
        if asked(m, MOVE):
            return MOVED
        w.now = max(w.now, clock_ps(m))
        if not take_pending(w, m) or not run_due(w, m):
            return FULL
        count = _receive(w, m)
        if count < 0:
            return FULL
        flush_all(w, m)
        if w.tap_used > m.noticed:
            m.noticed = w.tap_used
            signal(m.notice_fd, m.time)
        if count > 0:
            busy = True
            if m.polled > 0:
                poll_ports(w, m, _NOW)
        elif busy and m.rest_ns > 0:
            busy = False
            rest(m)
            if m.polled > 0:
                poll_ports(w, m, _NOW)
        else:
            m.sleeps += 1
            poll_ports(w, m, event_at(w.heap, 0).time if w.heap_size > 0 else _NEVER)
