"""Endpoints on a socket, compiled: take in what came, let timers go off, send what there is, wait.

No Python runs for a packet. Frames are whole in memory, as the cores take and make them. In a tunnel they travel
so, one in a datagram; on a plain UDP socket only what follows the UDP header does, and the headers before it are
made of what the kernel says of a datagram (source, length, type of service).
"""

from errno import EAGAIN, ECONNREFUSED, EINTR, ENOBUFS
from typing import Any, Final

import numpy as np

from p4reduce.base.units import PS_PER_NS, PS_PER_S
from p4reduce.native.libc import (
    IOVEC,
    MESSAGE,
    MSG_DONTWAIT,
    NAME,
    POLLFD,
    POLLIN,
    POLLOUT,
    clock_ns,
    errno,
    poll,
    recvmmsg,
    sendmmsg,
)
from p4reduce.native.memory import carray, copy_bytes, load_be32, pointer
from p4reduce.workers import wire
from p4reduce.workers.kernels.endpoint import deadline, expire, receive, transmit
from p4reduce.workers.kernels.frames import RESEND
from p4reduce.workers.kernels.jit import entry, kernel
from p4reduce.workers.records import CLASSES, ENDPOINT_DTYPE, State
from p4reduce.workers.udp.records import BATCH, CONTROL_BYTES, PORT, Reason

PAYLOAD_OFFSET: Final = wire.INC_OFFSET
_IP: Final = wire.IPV4_OFFSET
_TOS: Final = wire.offset(wire.IPV4, "dscp")
_TOTAL_LENGTH: Final = wire.offset(wire.IPV4, "total_length")
_CHECKSUM: Final = wire.offset(wire.IPV4, "checksum")
_IP_SRC: Final = wire.offset(wire.IPV4, "src")
_IP_DST: Final = wire.offset(wire.IPV4, "dst")
_UDP_SRC: Final = wire.offset(wire.UDP, "src_port")
_UDP_DST: Final = wire.offset(wire.UDP, "dst_port")
_UDP_LENGTH: Final = wire.offset(wire.UDP, "length")
_FLAGS: Final = wire.offset(wire.INC, "has_lanes")
_CONTROL_HEADER_BYTES: Final = 16
_NAME_BYTES: Final = NAME.itemsize
_MESSAGE_BYTES: Final = MESSAGE.itemsize
_POLLFD_BYTES: Final = POLLFD.itemsize
_ACTIVE: Final = int(State.ACTIVE)
_DONE: Final = int(Reason.DONE)
_TIME: Final = int(Reason.TIME)
_WAKE: Final = int(Reason.WAKE)
_SIGNAL: Final = int(Reason.SIGNAL)
_WHEN_FULL_NS: Final = 1_000_000
"""How long to wait where the kernel has no space for a frame and cannot say when it will (ENOBUFS)."""
_OVERHEAD_BYTES: Final = 24
_LEAST_BYTES: Final = 60
_BUCKET_PS: Final = 5_000_000_000
"""What a link that was idle may be behind and catch up with, as where the kernel shapes: a late timer costs no rate."""


@kernel
def _store_be16(address: int, value: int) -> None:
    at = carray(pointer(address), (2,), np.uint8)
    at[0] = value >> 8
    at[1] = value & 0xFF


@kernel
def _wrap(port: Any, k: int, payload: int) -> Any:
    """The headers before the k-th datagram's payload; returns the frame's length."""
    cell = port.rx_cells + k * port.cell
    name = port.rx_names + k * _NAME_BYTES
    message = carray(pointer(port.rx_messages), (BATCH,), MESSAGE)[k]
    tos: Any = 0
    if message.control_length > 0:
        # The one kind of control message that was asked for: IP_TOS, one byte.
        tos = carray(pointer(port.rx_controls + k * CONTROL_BYTES), (CONTROL_BYTES,), np.uint8)[_CONTROL_HEADER_BYTES]
    carray(pointer(cell + _TOS), (1,), np.uint8)[0] = tos
    length = PAYLOAD_OFFSET + payload
    _store_be16(cell + _TOTAL_LENGTH, length - _IP)
    _store_be16(cell + _UDP_LENGTH, length - _UDP_SRC)
    copy_bytes(cell + _UDP_SRC, name + 2, 2)
    copy_bytes(cell + _IP_SRC, name + 4, 4)
    _store_be16(cell + _CHECKSUM, 0)
    total: Any = 0
    for word in range(5):
        both = np.int64(load_be32(cell + _IP, word)) & 0xFFFFFFFF
        total += (both >> 16) + (both & 0xFFFF)
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    _store_be16(cell + _CHECKSUM, ~total & 0xFFFF)
    return length


@kernel
def _offer(eps: Any, port: Any, address: int, length: int, now: int) -> None:
    """A frame that came in, to the endpoints in turn until one takes it."""
    frame = carray(pointer(address), (port.cell,), np.uint8)
    if length > _FLAGS and frame[_FLAGS] & RESEND:
        port.resend_frames += 1
        port.resend_bytes += length
    else:
        port.first_frames += 1
        port.first_bytes += length
    for i in range(port.endpoints):
        if receive(eps, i, frame, length, now):
            return
    port.unclaimed += 1


@kernel
def _receive_batch(eps: Any, port: Any, now: int) -> Any:
    """Up to a batch of datagrams; how many there were, or minus an ``errno``."""
    messages = carray(pointer(port.rx_messages), (BATCH,), MESSAGE)
    count = np.int64(recvmmsg(port.socket, port.rx_messages, BATCH, MSG_DONTWAIT, 0))
    port.calls += 1
    if count < 0:
        reason = errno()
        if reason in (EAGAIN, EINTR):
            return 0
        if reason == ECONNREFUSED:  # the other end of a tunnel is not there (yet, any more)
            port.refused += 1
            return 0
        return -reason
    for k in range(count):
        length = np.int64(messages[k].length)
        if port.tunnel == 0:
            length = _wrap(port, k, length)
            messages[k].name_length = _NAME_BYTES
            messages[k].control_length = CONTROL_BYTES
        _offer(eps, port, port.rx_cells + k * port.cell, length, now)
    return count


@kernel
def _make_frame(eps: Any, port: Any, priority: int, now: int) -> Any:
    """A frame of the next endpoint of a class that has one into the next free cell; False when none has."""
    k = port.tx_tail
    cell = port.tx_cells + k * port.cell
    for _ in range(port.endpoints):
        index = port.turns[priority]
        port.turns[priority] = index + 1 if index + 1 < port.endpoints else 0
        if eps[index].priority != priority:
            continue
        length = np.int64(transmit(eps, index, now, carray(pointer(cell), (port.cell,), np.uint8)))
        if length > 0:
            port.tx_tail += 1
            carray(pointer(port.tx_iovecs), (BATCH,), IOVEC)[k].length = length - port.skipped
            if port.tunnel == 0:
                name = port.tx_names + k * _NAME_BYTES
                copy_bytes(name + 2, cell + _UDP_DST, 2)
                copy_bytes(name + 4, cell + _IP_DST, 4)
            return True
    return False


@kernel
def _make_batch(eps: Any, port: Any, now: int) -> None:
    """Frames of the endpoints into the free cells: those of the highest class first, within a class taken in turn."""
    if port.tx_head < port.tx_tail:
        return
    port.tx_head = 0
    port.tx_tail = 0
    for lower in range(CLASSES):
        while port.tx_tail < BATCH and _make_frame(eps, port, CLASSES - 1 - lower, now):
            pass


@kernel
def _link_ps(port: Any, k: int) -> Any:
    """How long the k-th frame that was made occupies the link, as in virtual time (docs/architecture.md)."""
    length = carray(pointer(port.tx_iovecs), (BATCH,), IOVEC)[k].length + port.skipped
    bits = (max(length, _LEAST_BYTES) + _OVERHEAD_BYTES) * 8
    return (bits * PS_PER_S + port.rate_bps - 1) // port.rate_bps


@kernel
def _allowed(port: Any, now: int) -> Any:
    """How many of the frames that are made the link's rate lets go now."""
    waiting = port.tx_tail - port.tx_head
    if port.rate_bps == 0:
        return waiting
    port.free_ps = max(port.free_ps, now - _BUCKET_PS)
    free = port.free_ps
    count: Any = 0
    while count < waiting and free <= now:
        free += _link_ps(port, port.tx_head + count)
        count += 1
    return count


@kernel
def _send_batch(port: Any, now: int) -> Any:
    """Frames to the kernel. How many it took; minus an ``errno``, -EAGAIN when it has no space now."""
    waiting = _allowed(port, now)
    if waiting == 0:
        return 0
    first = port.tx_messages + port.tx_head * _MESSAGE_BYTES
    count = np.int64(sendmmsg(port.socket, first, waiting, MSG_DONTWAIT))
    port.calls += 1
    if count < 0:
        reason = errno()
        if reason == ECONNREFUSED:  # of an earlier datagram: this one was not sent, and is sent with the next call
            port.refused += 1
            return 0
        return 0 if reason == EINTR else -reason
    if port.rate_bps > 0:
        for k in range(count):
            port.free_ps += _link_ps(port, port.tx_head + k)
    port.tx_head += count
    return count


@kernel
def _next_deadline(eps: Any, port: Any, until_ps: int) -> Any:
    at: Any = until_ps
    for i in range(port.endpoints):
        at = min(at, np.int64(deadline(eps, i)))
    return at


@kernel
def _expire_all(eps: Any, port: Any, now: int) -> None:
    for i in range(port.endpoints):
        if deadline(eps, i) <= now:
            expire(eps, i, now)


@kernel
def _wait(port: Any, wait_ns: int, blocked: int) -> Any:
    """Until a datagram, space for one (``blocked``), a wake-up or the time comes; True when somebody wants the port."""
    fds = carray(pointer(port.polls), (2,), POLLFD)
    fds[0].fd = port.socket
    fds[0].events = POLLIN | POLLOUT if blocked else POLLIN
    fds[0].revents = 0
    fds[1].fd = port.wake
    fds[1].events = POLLIN
    fds[1].revents = 0
    port.waits += 1
    return poll(port.polls, 2, max(wait_ns, 0), port.timespec)


@kernel
def _rest(port: Any) -> None:
    """Let datagrams gather for a while: moving many at once costs a fraction of moving each as it comes."""
    fds = carray(pointer(port.polls), (2,), POLLFD)
    fds[1].fd = port.wake
    fds[1].events = POLLIN
    fds[1].revents = 0
    poll(port.polls + _POLLFD_BYTES, 1, port.rest_ns, port.timespec)


@kernel
def now_ps(port: Any) -> Any:
    """Picoseconds since the port was made (since the machine was started would not fit below ``NEVER``)."""
    return (clock_ns(port.timespec) - port.base_ns) * PS_PER_NS


@entry(ENDPOINT_DTYPE, PORT, int, int)
def run(eps: Any, ports: Any, watched: int, wait_ns: int) -> Any:
    """Drives the endpoints for at most ``wait_ns``; why it came back: a ``Reason``, or minus an ``errno``.

    eps: the endpoints' records. ports: an array with the one PORT. watched: index of the endpoint whose end is waited
    for, or -1: serve all until woken up.
    """
    port = ports[0]
    now = now_ps(port)
    until = now + wait_ns * PS_PER_NS
    while True:
        got = _receive_batch(eps, port, now)
        if got < 0:
            return got
        _expire_all(eps, port, now)
        _make_batch(eps, port, now)
        sent = _send_batch(port, now)
        full = sent in (-EAGAIN, -ENOBUFS)
        if sent < 0 and not full:
            return sent
        if watched >= 0 and eps[watched].status != _ACTIVE and port.tx_head == port.tx_tail:
            return _DONE
        now = now_ps(port)
        if now >= until:
            return _TIME
        if max(got, sent) == BATCH:
            continue
        if got > 0 and port.rest_ns > 0:
            _rest(port)
            now = now_ps(port)
            continue
        pause = (_next_deadline(eps, port, until) - now) // PS_PER_NS
        if full:
            port.blocked += 1
            pause = min(pause, _WHEN_FULL_NS)
        waiting = port.tx_head < port.tx_tail
        if waiting and port.free_ps > now:
            pause = min(pause, max((port.free_ps - now) // PS_PER_NS, port.rest_ns))
            waiting = False  # for the link, not for the kernel
        ready = _wait(port, pause, sent == -EAGAIN or waiting)
        now = now_ps(port)
        if ready < 0:
            return _SIGNAL if errno() == EINTR else -errno()
        if carray(pointer(port.polls), (2,), POLLFD)[1].revents != 0:
            return _WAKE
