"""Frames that leave: from the end of their link into the port's socket, in batches."""

from errno import EAGAIN, ECONNREFUSED, EINTR
from typing import Any, Final

import numpy as np

from p4reduce.fabric.access import cell_at, frame_at, link_at
from p4reduce.fabric.kernels.cells import drop_frame, frame_address
from p4reduce.fabric.kernels.jit import kernel
from p4reduce.fabric.kernels.queues import depart
from p4reduce.fabric.real.io.records import BATCH, BLOCKED, DATAGRAMS, poll_at, port_at, vector_at
from p4reduce.fabric.records import NEVER
from p4reduce.native.libc import MSG_DONTWAIT, POLLIN, POLLOUT, errno, sendmmsg

_NEVER: Final = np.int64(NEVER)


@kernel
def _take_sent(w: Any, port: Any) -> None:
    """The first frame of the chain is the kernel's, or lost."""
    frame_index = port.send_head
    port.send_head = frame_at(w.frames, frame_index).next
    port.send_count -= 1
    drop_frame(w, frame_index)


@kernel
def _block(w: Any, m: Any, port_index: int) -> None:
    """The socket is full: until it is not, nothing leaves the port's queues."""
    port = port_at(m.ports, port_index)
    link = link_at(w.links, port.link)
    port.blocked = BLOCKED
    port.wake_due = link.waking
    port.waits += 1
    m.polled += 1
    poll_at(m.polls, port_index).events = POLLIN | POLLOUT
    link.free_at = _NEVER
    link.waking = 1  # nobody plans to wake it: unblock does


@kernel
def unblock(w: Any, m: Any, port_index: int) -> None:
    """The socket takes frames again."""
    port = port_at(m.ports, port_index)
    link = link_at(w.links, port.link)
    port.blocked = 0
    m.polled -= 1
    poll_at(m.polls, port_index).events = POLLIN
    link.free_at = w.now
    link.waking = port.wake_due
    flush(w, m, port_index)
    if port.blocked == 0 and link.backlog != 0:
        depart(w, port.link)


@kernel
def flush(w: Any, m: Any, port_index: int) -> None:
    """Give the port's frames to its socket, as far as it takes them."""
    port = port_at(m.ports, port_index)
    link = link_at(w.links, port.link)
    while port.send_count > 0 and port.blocked == 0:
        count = min(port.send_count, BATCH)
        frame_index = port.send_head
        for place in range(count):
            frame = frame_at(w.frames, frame_index)
            vector = vector_at(m.sending_vectors, place)
            vector.base = frame_address(w, frame_index)
            vector.length = frame.length
            frame_index = frame.next
        sent = sendmmsg(port.fd, m.sending, count, MSG_DONTWAIT)
        if sent > 0:
            port.refused = 0
            link.delivered += sent
            for _ in range(sent):
                _take_sent(w, port)
            continue
        reason = errno()
        if reason == EAGAIN:
            _block(w, m, port_index)
        elif reason == ECONNREFUSED and port.kind == DATAGRAMS and port.refused == 0:
            port.refused = 1  # that was about an earlier frame
        elif reason != EINTR:
            port.refused = 0
            port.send_failures += 1
            _take_sent(w, port)


@kernel
def emit(w: Any, m: Any, port_index: int, frame_index: int) -> None:
    """A frame is at the end of its port's link: chain it for the socket."""
    port = port_at(m.ports, port_index)
    frame_at(w.frames, frame_index).next = -1
    if port.send_count == 0:
        port.send_head = frame_index
    else:
        frame_at(w.frames, port.send_tail).next = frame_index
    port.send_tail = frame_index
    port.send_count += 1
    if port.dirty == 0:
        port.dirty = 1
        cell_at(m.dirty, m.dirty_count).value = port_index
        m.dirty_count += 1
    if port.send_count >= BATCH:
        flush(w, m, port_index)  # what the socket does not take shall wait in the queues


@kernel
def flush_all(w: Any, m: Any) -> None:
    """Give every port's frames to its socket."""
    for place in range(m.dirty_count):
        port_index = cell_at(m.dirty, place).value
        port_at(m.ports, port_index).dirty = 0
        flush(w, m, port_index)
    m.dirty_count = 0
