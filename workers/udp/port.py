"""A UDP socket with the memory that the compiled loop works in."""

import os
import socket
import struct
import time
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.native.libc import IOVEC, MESSAGE, NAME, POLLFD, SUPPORTED, TIMESPEC
from p4reduce.native.memory import address_of
from p4reduce.workers import wire
from p4reduce.workers.settings import HostAddress
from p4reduce.workers.udp.loop import PAYLOAD_OFFSET
from p4reduce.workers.udp.records import BATCH, CONTROL_BYTES, PORT

BUFFER_BYTES: Final = 8 << 20
"""Asked of the kernel for each direction; it gives what ``net.core.rmem_max`` and ``wmem_max`` allow."""
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
    """What a port has seen. Bytes are those of Ethernet frames without FCS; what went out, endpoints count.

    first_… and resend_…: frames that came in, without and with the flag ``resend``. unclaimed: of them, those that
    none of the endpoints took. dropped: datagrams that the kernel dropped because nobody took them in time. blocked:
    how often the kernel had no space for a frame. calls, waits: of the kernel, to move datagrams and to wait.
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


class Port:
    """The network of one process: frames of its endpoints travel through one UDP socket.

    On a *plain* socket (``remote`` None) the kernel's IP stack carries them: the socket is bound to the host's own
    address, which all endpoints have. In a *tunnel* each datagram is a whole Ethernet frame for the switch port at
    ``remote``. With ``rate_bps`` it sends no faster than such a link does (0: as it can). Use it as a context manager.
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
        """Bind to ``local`` (IPv4 address and UDP port; port 0: any free one). ``OSError`` where that fails.

        host: the address that the endpoints have. lanes: of the longest frame. rest_us: microseconds for which
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
        # One byte more than the longest frame: a datagram that is too long is seen to be so.
        record["cell"] = -(-(wire.frame_bytes(lanes) + 1) // _ALIGNMENT) * _ALIGNMENT
        record["timespec"] = self._keep(np.zeros(1, TIMESPEC))
        record["polls"] = self._keep(np.zeros(2, POLLFD))
        self._prepare_memory(host)

    @property
    def local(self) -> tuple[str, int]:
        """Where it is bound."""
        address: tuple[str, int] = self.socket.getsockname()
        return address

    def connect(self, remote: tuple[str, int]) -> None:
        """Say, or change, where a tunnel's other end is."""
        self.socket.connect(remote)

    def wake(self) -> None:
        """Let the loop come back, now or when it is next called."""
        os.eventfd_write(self._wake, 1)

    def settle(self) -> None:
        """Take back all wake-ups."""
        try:
            os.eventfd_read(self._wake)
        except BlockingIOError:
            return

    def counts(self) -> PortCounts:
        """What it has seen so far."""
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
        """Close the socket. Nobody may be in the loop."""
        self.socket.close()
        if self._wake >= 0:
            os.close(self._wake)
            self._wake = -1

    def __enter__(self) -> "Port":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        made.bind(local)
        if remote is not None:
            made.connect(remote)

    def _prepare_memory(self, host: HostAddress) -> None:
        record = self.record[0]
        cell, skipped = int(record["cell"]), int(record["skipped"])
        # Headers of what comes in on a plain socket; source, lengths and checksum are filled in for each datagram.
        header = wire.pack(
            wire.headers(1, ethernet_dst=host.mac, ipv4_dst=host.ip, udp_dst_port=host.udp, udp_src_port=0), None
        )[0]
        plain = skipped > 0
        for way in ("rx", "tx"):
            cells, names, iovecs = np.zeros((BATCH, cell), np.uint8), np.zeros(BATCH, NAME), np.zeros(BATCH, IOVEC)
            messages, controls = np.zeros(BATCH, MESSAGE), np.zeros((BATCH, CONTROL_BYTES), np.uint8)
            names["family"] = socket.AF_INET
            numbers = np.arange(BATCH)
            iovecs["base"], iovecs["length"] = address_of(cells) + numbers * cell + skipped, cell - skipped
            messages["iov"], messages["iov_count"] = address_of(iovecs) + numbers * IOVEC.itemsize, 1
            if plain:
                messages["name"], messages["name_length"] = address_of(names) + numbers * NAME.itemsize, NAME.itemsize
            if way == "rx":
                cells[:, :skipped] = header[:skipped]
                record["rx_controls"] = self._keep(controls)
                if plain:
                    messages["control"] = address_of(controls) + numbers * CONTROL_BYTES
                    messages["control_length"] = CONTROL_BYTES
            for name, array in (("cells", cells), ("messages", messages), ("names", names), ("iovecs", iovecs)):
                record[f"{way}_{name}"] = self._keep(array)

    def _keep(self, array: NDArray[Any]) -> int:
        self._memory.append(array)
        return address_of(array)
