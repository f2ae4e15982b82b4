"""Ports of real-time switches: what a user says of them, and the sockets that they become."""

import errno
import fcntl
import ipaddress
import mmap
import socket
import struct
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from p4reduce.fabric.errors import FabricError

RING_FRAMES: Final = 1024
"""frames that wait in the kernel for each port"""
SOCKET_BYTES: Final = 4 << 20
"""of a datagram socket's buffers, each way; the system may allow less"""

# linux/if_packet.h; Python's socket module lacks most of these.
_ETH_P_ALL: Final = 0x0003
_SOL_PACKET: Final = 263
_PACKET_ADD_MEMBERSHIP: Final = 1
_PACKET_RX_RING: Final = 5
_PACKET_STATISTICS: Final = 6
_PACKET_VERSION: Final = 10
_PACKET_QDISC_BYPASS: Final = 20
_PACKET_IGNORE_OUTGOING: Final = 23
_PACKET_MR_PROMISC: Final = 1
_TPACKET_V2: Final = 1
_RING_HEADER: Final = 128
"""more than the kernel puts before a frame in its slot"""
_BLOCK_BYTES: Final = 1 << 16
_SIOCGIFMTU: Final = 0x8921
_BEYOND_MTU: Final = 18
"""of a frame's bytes: Ethernet header and VLAN tag"""
_SO_RCVBUFFORCE: Final = 33
_SO_SNDBUFFORCE: Final = 32
_SO_MEMINFO: Final = 55
_MEMINFO_WORDS: Final = 9
_MEMINFO_DROPS: Final = 8


@dataclass(frozen=True, slots=True)
class Veth:
    """A network interface, most often one end of a veth pair, in the network namespace of this process.

    ``shaped``: what leaves goes through the interface's queueing discipline, which is bypassed otherwise.
    """

    interface: str
    shaped: bool = False

    def __str__(self) -> str:
        return self.interface


@dataclass(frozen=True, slots=True)
class Udp:
    """A UDP socket, one Ethernet frame in each datagram: without root, or between two machines.

    ``local``, ``remote``: (IP address, UDP port); local port 0 takes a free one.
    """

    local: tuple[str, int]
    remote: tuple[str, int]

    def __str__(self) -> str:
        return f"udp:{self.local[0]}:{self.local[1]}:{self.remote[0]}:{self.remote[1]}"


PortSpec: TypeAlias = Veth | Udp


class OpenPort:
    """A port's socket, and its ring where it has one."""

    def __init__(self, name: str, spec: PortSpec, max_frame: int) -> None:
        """Open a port; ``name`` is for messages. Raises `FabricError` where the system refuses."""
        self.spec = spec
        self.ring: NDArray[np.uint8] | None = None
        self.ring_bytes = 0
        self.ring_frames = 0
        self._mapped: mmap.mmap | None = None
        self._dropped = 0
        try:
            if isinstance(spec, Veth):
                self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            else:
                version = ipaddress.ip_address(spec.local[0]).version
                self.socket = socket.socket(socket.AF_INET if version == 4 else socket.AF_INET6, socket.SOCK_DGRAM)
        except (OSError, ValueError) as error:
            raise FabricError(_why(name, spec, error)) from None
        try:
            self.socket.setblocking(False)
            if isinstance(spec, Veth):
                self._open_interface(spec, max_frame)
            else:
                self._open_datagrams(spec)
        except (OSError, ValueError) as error:
            self.close()
            raise FabricError(_why(name, spec, error)) from None

    def _open_interface(self, spec: Veth, max_frame: int) -> None:
        one = self.socket
        one.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V2)
        one.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        if not spec.shaped:
            one.setsockopt(_SOL_PACKET, _PACKET_QDISC_BYPASS, 1)
        # A slot holds what the interface may bring, not what a switch may take: that would be 16 MB for every port.
        longest = min(max_frame, _mtu(one, spec.interface) + _BEYOND_MTU)
        self.ring_bytes = 1 << (longest + _RING_HEADER - 1).bit_length()
        blocks = RING_FRAMES * self.ring_bytes // _BLOCK_BYTES
        self.ring_frames = RING_FRAMES
        request = struct.pack("IIII", _BLOCK_BYTES, blocks, self.ring_bytes, self.ring_frames)
        one.setsockopt(_SOL_PACKET, _PACKET_RX_RING, request)
        self._mapped = mmap.mmap(one.fileno(), blocks * _BLOCK_BYTES)
        self.ring = np.frombuffer(self._mapped, dtype=np.uint8)
        one.bind((spec.interface, _ETH_P_ALL))
        index = socket.if_nametoindex(spec.interface)
        membership = struct.pack("iHH8s", index, _PACKET_MR_PROMISC, 0, b"")
        one.setsockopt(_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, membership)

    def _open_datagrams(self, spec: Udp) -> None:
        for forced, plain in ((_SO_RCVBUFFORCE, socket.SO_RCVBUF), (_SO_SNDBUFFORCE, socket.SO_SNDBUF)):
            try:
                self.socket.setsockopt(socket.SOL_SOCKET, forced, SOCKET_BYTES)
            except PermissionError:
                self.socket.setsockopt(socket.SOL_SOCKET, plain, SOCKET_BYTES)
        self.socket.bind(spec.local)
        self.socket.connect(spec.remote)

    def dropped(self) -> int:
        """Frames so far that found the ring or the socket's buffer full."""
        if self.ring is not None:
            # Reading it sets the kernel's own count to 0.
            self._dropped += struct.unpack("II", self.socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))[1]
        elif self.socket.fileno() >= 0:
            info = self.socket.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 4 * _MEMINFO_WORDS)
            self._dropped = struct.unpack(f"{_MEMINFO_WORDS}I", info)[_MEMINFO_DROPS]
        return self._dropped

    def close(self) -> None:
        """Close the socket and unmap the ring. Compiled code must not use them any more."""
        if self.socket.fileno() >= 0:
            self.dropped()
        self.ring = None
        if self._mapped is not None:
            self._mapped.close()
            self._mapped = None
        self.socket.close()


def _mtu(one: socket.socket, interface: str) -> int:
    answer = fcntl.ioctl(one, _SIOCGIFMTU, struct.pack("16si20x", interface.encode(), 0))
    return int(struct.unpack_from("i", answer, 16)[0])


def _why(name: str, spec: PortSpec, error: OSError | ValueError) -> str:
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(spec, Veth) and number in {errno.EPERM, errno.EACCES}:
        return (
            f"port {name}: interface {spec}: packet sockets need root or CAP_NET_RAW: "
            "run as root, in a user namespace of your own, or use udp ports"
        )
    if isinstance(spec, Veth) and number in {errno.ENODEV, errno.ENXIO}:
        return f"port {name}: there is no interface {spec} in this network namespace; see: ip link"
    if number == errno.EADDRINUSE:
        return f"port {name}: {spec}: the local address is in use; choose another UDP port"
    return f"port {name}: {spec}: {error}"
