"""Endpoints in real time: a compiled loop between their cores and a UDP socket of this machine (Linux, 64 bit)."""

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from errno import EAGAIN, ECONNREFUSED, EINTR, EINVAL, EIO, EMSGSIZE, ENOBUFS
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.workers import wire
from p4reduce.workers.endpoints import Endpoints
from p4reduce.workers.kernels import endpoint, entry, kernel
from p4reduce.workers.kernels.endpoint import deadline, expire, receive, transmit
from p4reduce.workers.kernels.frames import RESEND
from p4reduce.workers.operation import Post, exponents_of
from p4reduce.workers.records import CLASSES, ENDPOINT_DTYPE, EndpointState
from p4reduce.workers.specs import EndpointSpec, HostAddress
from p4switch.base.closing import Closable
from p4switch.base.values import PS_PER_NS, PS_PER_S
from p4switch.native.memory import (
    CONTROL,
    GATHERED_BYTES,
    IOVEC,
    MESSAGE,
    MSG_DONTWAIT,
    NAME,
    POLLFD,
    POLLIN,
    POLLOUT,
    SEGMENTS,
    SOL_UDP,
    SUPPORTED,
    TIMESPEC,
    UDP_GRO,
    address_of,
    carray,
    clock_ns,
    copy_bytes,
    errno,
    gather,
    gathered,
    load_be32,
    pointer,
    poll,
    recvmmsg,
    segment_bytes,
    sendmmsg,
)

# The state of a port, which the compiled loop reads and writes besides the endpoints.


BATCH: Final = 64
"""datagrams that one call gives to, or takes from, the kernel"""
MESSAGES: Final = 16
"""messages of a tunnel that one call takes; each may consist of many datagrams"""
CONTROL_BYTES: Final = CONTROL.itemsize
"""bytes of the one control message of a datagram: its type of service, or the length of a tunnel's datagrams"""


class Reason(IntEnum):
    """The reason why the loop came back. Negative: minus the ``errno`` of a call that failed."""

    DONE = 0
    """The watched endpoint is no longer active, and all its frames are sent."""
    TIME = 1
    WAKE = 2
    """Another thread wants the port (``wake`` is readable)."""
    SIGNAL = 3


def _integers(*names: str) -> list[tuple[str, str]]:
    return [(name, "i8") for name in names]


PORT: Final[np.dtype[Any]] = np.dtype(
    [
        # Descriptors: the socket, and an eventfd that wakes the loop up. tunnel: whether whole Ethernet frames travel.
        *_integers("socket", "wake", "tunnel", "base_ns", "endpoints"),
        # The endpoint whose turn to send it is, in each class.
        ("turns", "i8", (CLASSES,)),
        # Cells of frames, and the structures of recvmmsg and sendmmsg, BATCH of each; addresses.
        *_integers("cell", "skipped", "rx_cells", "rx_messages", "rx_names", "rx_iovecs", "rx_controls"),
        *_integers("tx_cells", "tx_messages", "tx_names", "tx_iovecs", "tx_controls"),
        # Bytes and number of the cells for incoming messages; datagrams that a tunnel sends as one message.
        *_integers("rx_cell", "rx_count", "segments"),
        # Frames that are made but not taken by the kernel yet: from tx_head up to tx_tail.
        *_integers("tx_head", "tx_tail", "polls", "timespec", "rest_ns"),
        # The link's rate (0: no limit), and when it will have carried all sent frames, picoseconds as of ``now_ps``.
        *_integers("rate_bps", "free_ps"),
        # Counts. Bytes are those of Ethernet frames without FCS. unclaimed: frames that no endpoint took.
        *_integers("first_frames", "first_bytes", "resend_frames", "resend_bytes", "unclaimed"),
        *_integers("calls", "waits", "blocked", "refused"),
    ],
    align=True,
)
"""One port; ``first_…`` and ``resend_…`` count incoming frames (endpoints count outgoing frames)."""


# The loop of endpoints on a socket, compiled: receive frames, handle time-outs, send frames, wait.
#
# No Python runs for a packet. The cores take and make whole frames. A tunnel carries whole frames, one in a datagram. A
# plain UDP socket carries only what follows the UDP header; the headers of incoming frames are rebuilt from what the
# kernel reports of a datagram (source, length, type of service).


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
_VECTOR_BYTES: Final = IOVEC.itemsize
_POLLFD_BYTES: Final = POLLFD.itemsize
_ACTIVE: Final = int(EndpointState.ACTIVE)
_DONE: Final = int(Reason.DONE)
_TIME: Final = int(Reason.TIME)
_WAKE: Final = int(Reason.WAKE)
_SIGNAL: Final = int(Reason.SIGNAL)
_WHEN_FULL_NS: Final = 1_000_000
"""time to wait if the kernel has no space for a frame and cannot say when it will (ENOBUFS)"""
_OVERHEAD_BYTES: Final = 24
_LEAST_BYTES: Final = 60
_BUCKET_PS: Final = 5_000_000_000
"""time that an idle link may catch up, as in the kernel's traffic shaping, so that a late timer costs no rate"""


@kernel
def _store_be16(address: int, value: int) -> None:
    at = carray(pointer(address), (2,), np.uint8)
    at[0] = value >> 8
    at[1] = value & 0xFF


@kernel
def _wrap(port: Any, k: int, payload: int) -> Any:
    """Write the headers before the k-th datagram's payload; returns the frame's length."""
    cell = port.rx_cells + k * port.rx_cell
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
    """Offer a frame that came in to the endpoints in turn until one takes it."""
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
    """Take in a batch of messages; return its datagrams (BATCH or more if it was full), or minus an ``errno``."""
    messages = carray(pointer(port.rx_messages), (port.rx_count,), MESSAGE)
    count = np.int64(recvmmsg(port.socket, port.rx_messages, port.rx_count, MSG_DONTWAIT, 0))
    port.calls += 1
    if count < 0:
        reason = errno()
        if reason in (EAGAIN, EINTR):
            return 0
        if reason == ECONNREFUSED:  # the other end of a tunnel does not exist yet, or any more
            port.refused += 1
            return 0
        return -reason
    datagrams: Any = 0
    for k in range(count):
        address = port.rx_cells + k * port.rx_cell
        length = np.int64(messages[k].length)
        if port.tunnel == 0:
            _offer(eps, port, address, _wrap(port, k, length), now)
            messages[k].name_length = _NAME_BYTES
            datagrams += 1
        else:
            each = segment_bytes(messages[k])
            at: Any = 0
            while at < length or at == 0:
                _offer(eps, port, address + at, min(each, length - at), now)
                datagrams += 1
                at += max(each, 1)
        messages[k].control_length = CONTROL_BYTES
    return max(datagrams, BATCH) if count == port.rx_count else datagrams


@kernel
def _make_frame(eps: Any, port: Any, priority: int, now: int) -> Any:
    """Make a frame in the next free cell, of the class's next endpoint that has one; False if none has."""
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
    """Fill the free cells with frames of the endpoints: highest class first, within a class in turn."""
    if port.tx_head < port.tx_tail:
        return
    port.tx_head = 0
    port.tx_tail = 0
    for lower in range(CLASSES):
        while port.tx_tail < BATCH and _make_frame(eps, port, CLASSES - 1 - lower, now):
            pass


@kernel
def _link_ps(port: Any, k: int) -> Any:
    """Picoseconds for which the k-th frame occupies the link, as in virtual time (docs/architecture.md)."""
    length = carray(pointer(port.tx_iovecs), (BATCH,), IOVEC)[k].length + port.skipped
    bits = (max(length, _LEAST_BYTES) + _OVERHEAD_BYTES) * 8
    return (bits * PS_PER_S + port.rate_bps - 1) // port.rate_bps


@kernel
def _allowed(port: Any, now: int) -> Any:
    """Number of the made frames that the link's rate allows to leave now."""
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
    """Give frames to the kernel; return how many it took, or minus an ``errno`` (-EAGAIN: it has no space now)."""
    waiting = _allowed(port, now)
    if waiting == 0:
        return 0
    first = port.tx_messages + port.tx_head * _MESSAGE_BYTES
    if port.tunnel != 0:
        first = port.tx_messages
        vectors = port.tx_iovecs + port.tx_head * _VECTOR_BYTES
        waiting = gather(first, vectors, port.tx_controls, waiting, port.segments)
    count = np.int64(sendmmsg(port.socket, first, waiting, MSG_DONTWAIT))
    port.calls += 1
    if count > 0:
        count = gathered(first, count)
    elif count < 0:
        reason = errno()
        if port.segments > 1 and reason in (EINVAL, EIO, EMSGSIZE):
            port.segments = 1  # the path takes only single datagrams
            return 0
        if reason == ECONNREFUSED:  # caused by an earlier datagram: this one is sent with the next call
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
    """Wait for a datagram, space for one (``blocked``), or a wake-up; return 0 after ``wait_ns``, < 0 for an error."""
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
    """Picoseconds since the port was made (picoseconds since boot would not fit below ``NEVER``)."""
    return (clock_ns(port.timespec) - port.base_ns) * PS_PER_NS


@entry(ENDPOINT_DTYPE, PORT, int, int)
def run(eps: Any, ports: Any, watched: int, wait_ns: int) -> Any:
    """Drive the endpoints for at most ``wait_ns``; return a ``Reason``, or minus an ``errno``.

    eps: the endpoints' records. ports: an array with the one PORT. watched: index of the endpoint to wait for, or
    -1: serve all until woken up.
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
        if max(got, sent) >= BATCH:
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
            waiting = False  # the frames wait for the link, not for the kernel
        ready = _wait(port, pause, sent == -EAGAIN or waiting)
        now = now_ps(port)
        if ready < 0:
            return _SIGNAL if errno() == EINTR else -errno()
        if carray(pointer(port.polls), (2,), POLLFD)[1].revents != 0:
            return _WAKE


# A UDP socket with the memory that the compiled loop works in.


BUFFER_BYTES: Final = 8 << 20
"""buffer size requested for each direction; ``net.core.rmem_max`` and ``wmem_max`` limit it"""
_ALIGNMENT: Final = 64
# Linux's <asm/socket.h> and <linux/in.h>; Python's socket module does not name them all.
_SO_NO_CHECK: Final = 11
_SO_SNDBUFFORCE: Final = 32
_SO_RCVBUFFORCE: Final = 33
_SO_MEMINFO: Final = 55
_IP_RECVTOS: Final = 13
_IP_TOS: Final = 1
_IP_MTU_DISCOVER: Final = 10
_IP_PMTUDISC_DO: Final = 2
_MEMINFO_WORDS: Final = 9
_MEMINFO_DROPS: Final = 8


@dataclass(frozen=True)
class PortCounts:
    """Counts of a port. Bytes are those of Ethernet frames without FCS; endpoints count frames that went out.

    first_… and resend_…: frames that came in, without and with the flag ``resend``. unclaimed: those of them that
    no endpoint took. dropped: datagrams that came faster than the process took them. blocked: how often the
    kernel had no space for a frame. calls, waits: calls of the kernel that move datagrams, and that wait.
    """

    first_frames: int
    first_bytes: int
    resend_frames: int
    resend_bytes: int
    unclaimed: int
    dropped: int
    blocked: int
    calls: int
    waits: int
    receive_buffer: int


class Port(Closable):
    """The network of one process: frames of its endpoints travel through one UDP socket.

    On a *plain* socket (``remote`` None) the kernel's IP stack carries them: the socket is bound to the host's own
    address, which all endpoints have. In a *tunnel* each datagram is a whole Ethernet frame for the switch port at
    ``remote``. With ``rate_bps`` it sends no faster than such a link (0: no limit). Use it as a context manager.
    """

    def __init__(
        self,
        host: HostAddress,
        lanes: int,
        *,
        local: tuple[str, int],
        remote: tuple[str, int] | None = None,
        rest_us: int = 0,
        rate_bps: int = 0,
    ) -> None:
        """Bind to ``local`` (IPv4 address and UDP port; port 0: any free one). Raises ``OSError`` if that fails.

        host: the address of all endpoints. lanes: number of lanes of the longest frame. rest_us: microseconds for which
        datagrams gather before the next are taken; moving many at once costs a fraction of moving each as it comes.
        """
        if not SUPPORTED:
            raise OSError("real time needs Linux on a 64-bit machine")
        self._memory: list[NDArray[Any]] = []
        self.record: NDArray[Any] = np.zeros(1, PORT)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            self._prepare_socket(local, remote)
        except OSError as error:
            self.close()
            where = f"{local[0]}:{local[1]}" + ("" if remote is None else f" to {remote[0]}:{remote[1]}")
            raise OSError(error.errno, f"UDP socket {where}: {error.strerror}") from error
        record = self.record[0]
        record["socket"], record["wake"], record["base_ns"] = self.socket.fileno(), self._wake, time.monotonic_ns()
        record["tunnel"], record["rest_ns"] = remote is not None, rest_us * 1000
        record["rate_bps"] = rate_bps
        record["skipped"] = 0 if remote is not None else PAYLOAD_OFFSET
        # One byte more than the longest frame, so that a longer datagram is recognized.
        record["cell"] = -(-(wire.frame_bytes(lanes) + 1) // _ALIGNMENT) * _ALIGNMENT
        record["timespec"] = self._keep(np.zeros(1, TIMESPEC))
        record["polls"] = self._keep(np.zeros(2, POLLFD))
        self._prepare_memory(host)

    @property
    def local(self) -> tuple[str, int]:
        """The address and port that the socket is bound to."""
        address: tuple[str, int] = self.socket.getsockname()
        return address

    def connect(self, remote: tuple[str, int]) -> None:
        """Set, or change, the address of a tunnel's other end."""
        self.socket.connect(remote)

    def wake(self) -> None:
        """Make the loop return, now or when it is next called."""
        os.eventfd_write(self._wake, 1)

    def settle(self) -> None:
        """Discard pending wake-ups."""
        try:
            os.eventfd_read(self._wake)
        except BlockingIOError:
            return

    def counts(self) -> PortCounts:
        """The counts so far."""
        record = self.record[0]
        taken = ("first_frames", "first_bytes", "resend_frames", "resend_bytes", "unclaimed")
        memory = self.socket.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 4 * _MEMINFO_WORDS)
        words = struct.unpack(f"{len(memory) // 4}I", memory)
        return PortCounts(
            **{name: int(record[name]) for name in (*taken, "blocked", "calls", "waits")},
            dropped=words[_MEMINFO_DROPS] if len(words) > _MEMINFO_DROPS else 0,
            receive_buffer=self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF),
        )

    def close(self) -> None:
        """Close the socket. No thread may be in the loop."""
        self.socket.close()
        if self._wake >= 0:
            os.close(self._wake)
            self._wake = -1

    def _prepare_socket(self, local: tuple[str, int], remote: tuple[str, int] | None) -> None:
        made = self.socket
        for forced, plain in ((_SO_RCVBUFFORCE, socket.SO_RCVBUF), (_SO_SNDBUFFORCE, socket.SO_SNDBUF)):
            try:
                made.setsockopt(socket.SOL_SOCKET, forced, BUFFER_BYTES)
            except PermissionError:
                made.setsockopt(socket.SOL_SOCKET, plain, BUFFER_BYTES)
        if remote is None:
            made.setsockopt(socket.SOL_SOCKET, _SO_NO_CHECK, 1)
            made.setsockopt(socket.IPPROTO_IP, _IP_TOS, wire.ECN_CAPABLE)
            made.setsockopt(socket.IPPROTO_IP, _IP_RECVTOS, 1)
            made.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_DO)
        else:
            with contextlib.suppress(OSError):  # an older kernel brings datagrams one by one
                made.setsockopt(SOL_UDP, UDP_GRO, 1)
        made.bind(local)
        if remote is not None:
            made.connect(remote)

    def _prepare_memory(self, host: HostAddress) -> None:
        record = self.record[0]
        cell, skipped = int(record["cell"]), int(record["skipped"])
        # Headers of incoming frames on a plain socket; source, lengths and checksum are filled in for each datagram.
        header = wire.pack(
            wire.headers(1, ethernet_dst=host.mac, ipv4_dst=host.ip, udp_dst_port=host.udp, udp_src_port=0), None
        )[0]
        plain = skipped > 0
        record["rx_cell"], record["rx_count"] = (cell, BATCH) if plain else (GATHERED_BYTES, MESSAGES)
        record["segments"] = 1 if plain else SEGMENTS
        for way in ("rx", "tx"):
            count, each = (int(record["rx_count"]), int(record["rx_cell"])) if way == "rx" else (BATCH, cell)
            cells, names, iovecs = np.zeros((count, each), np.uint8), np.zeros(count, NAME), np.zeros(count, IOVEC)
            messages, controls = np.zeros(count, MESSAGE), np.zeros((count, CONTROL_BYTES), np.uint8)
            names["family"] = socket.AF_INET
            numbers = np.arange(count)
            iovecs["base"], iovecs["length"] = address_of(cells) + numbers * each + skipped, each - skipped
            messages["iov"], messages["iov_count"] = address_of(iovecs) + numbers * IOVEC.itemsize, 1
            if plain:
                messages["name"], messages["name_length"] = address_of(names) + numbers * NAME.itemsize, NAME.itemsize
            record[f"{way}_controls"] = self._keep(controls)
            if way == "rx":
                cells[:, :skipped] = header[:skipped]
                messages["control"] = address_of(controls) + numbers * CONTROL_BYTES
                messages["control_length"] = CONTROL_BYTES
            for name, array in (("cells", cells), ("messages", messages), ("names", names), ("iovecs", iovecs)):
                record[f"{way}_{name}"] = self._keep(array)

    def _keep(self, array: NDArray[Any]) -> int:
        self._memory.append(array)
        return address_of(array)


# A caller that waits for a collective runs the loop; at other times a thread runs it to serve the peers.


_SLICE_NS: Final = 100_000_000
"""time after which the loop returns, so that Python handles signals and other threads"""
_NOBODY: Final = -1


class SilenceError(TimeoutError):
    """Nothing has come in for as long as the caller was willing to wait."""


class StoppedError(RuntimeError):
    """An operation was stopped at a caller's request; its endpoint is gone."""


class EndpointDriver:
    """Drives the endpoints of one process over its port. Not thread-safe: one caller at a time.

    Between two operations a thread keeps serving, since a peer may still miss an answer of the last one. All endpoints
    must exist when the driver is made, and have the host address that the port was made for. ``close`` it at the end.
    """

    def __init__(self, endpoints: Endpoints, port: Port) -> None:
        self._endpoints = endpoints
        self._port = port
        port.record["endpoints"] = len(endpoints)
        self._in_loop = threading.Lock()
        self._serve = threading.Event()
        self._stop = threading.Event()
        self._closed = False
        self._error: OSError | None = None
        # Compile or load the machine code now, and not while peers wait.
        exponents_of(np.zeros(1, np.float32), 1)
        endpoint.posted(endpoints.records, np.zeros(1, np.int64), 1)
        run(endpoints.records, port.record, _NOBODY, 0)
        self._serve.set()
        self._thread = threading.Thread(target=self._serve_peers, name="serve", daemon=True)
        self._thread.start()

    def carry_out(self, operations: Mapping[int, Post], *, patience_s: float) -> None:
        """Post an operation to each of these endpoints and drive all until they are done or one has failed.

        Raises what ``Endpoints.post_all`` raises, ``SilenceError`` when nothing comes in for ``patience_s`` seconds,
        ``StoppedError`` after :meth:`stop` (then nothing writes to the operations' arrays any more), and ``OSError``
        when the socket fails.
        """
        with self._alone():
            self._endpoints.post_all(list(operations), list(operations.values()))
            heard = time.monotonic()
            seen = self._frames()
            for index in operations:
                while self._turn(index, _SLICE_NS) is not Reason.DONE:
                    if self._stop.is_set():
                        for other in operations:
                            self._retire(other)
                        raise StoppedError(f"endpoint {index}: the operation was stopped")
                    now = self._frames()
                    if now != seen:
                        seen, heard = now, time.monotonic()
                    elif time.monotonic() - heard > patience_s:
                        missing = self._endpoints.oldest_missing(index) & 0xFFFFFFFF
                        raise SilenceError(
                            f"nothing came in for {patience_s:g} s; the oldest seq that is missing: {missing}"
                        )
                if self._endpoints.status(index).state is EndpointState.FAILED:
                    return

    def stop(self) -> None:
        """Make the current operation, and each later one, end with ``StoppedError``. Any thread may call it."""
        self._stop.set()
        self._port.wake()

    def go_on(self) -> None:
        """Undo :meth:`stop`."""
        self._stop.clear()

    def replace(self, indices: Iterable[int], specs: Sequence[EndpointSpec]) -> list[int]:
        """Replace these endpoints by others, as many as there are ``specs``; return their indices."""
        with self._alone():
            for index in indices:
                self._retire(index)
            made = [self._endpoints.add(spec) for spec in specs]
            self._port.record["endpoints"] = len(self._endpoints)
            return made

    def _retire(self, index: int) -> None:
        record = self._endpoints.records[index]
        if record["mac"]:  # the endpoint exists
            self._endpoints.give_up(index)
            link = HostAddress(int(record["mac"]), int(record["ip"]), int(record["udp"]))
            self._endpoints.retire(index, link)

    @property
    def lingering(self) -> bool:
        """Whether an endpoint still has to serve its peers."""
        records = self._endpoints.records
        return bool(((records["lingering"] != 0) | (records["status"] == EndpointState.ACTIVE)).any())

    def close(self) -> None:
        """End the thread; the port stays open."""
        self._closed = True
        self._serve.set()
        self._port.wake()
        self._thread.join()

    def _frames(self) -> int:
        record = self._port.record[0]
        return int(record["first_frames"] + record["resend_frames"])

    def _turn(self, index: int, wait_ns: int) -> Reason:
        result = int(run(self._endpoints.records, self._port.record, index, wait_ns))
        if result < 0:
            raise OSError(-result, f"UDP socket {self._port.local}: {os.strerror(-result)}")
        return Reason(result)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Give the loop to the caller while the thread pauses."""
        self._serve.clear()
        self._port.wake()
        try:
            with self._in_loop:
                self._port.settle()
                if self._error is not None:
                    raise self._error
                yield
        finally:
            self._serve.set()

    def _serve_peers(self) -> None:
        while True:
            self._serve.wait()
            with self._in_loop:
                if self._closed:
                    return
                if not self._serve.is_set():
                    continue
                try:
                    self._turn(_NOBODY, _SLICE_NS)
                except OSError as error:
                    self._error = error
                    return
