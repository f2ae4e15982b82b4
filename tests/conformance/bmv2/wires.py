"""Links of the BMv2 lab: a packet socket at each end, and faults drawn from a seed in between."""

import heapq
import random
import select
import socket
import time
from dataclasses import dataclass, field

ETH_P_ALL = 3
PACKET_OUTGOING = 4
BURST = 64


@dataclass
class Faults:
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0


@dataclass
class Wire:
    """One direction of a link: what comes out of ``source`` goes to ``target`` (a socket, or a host's endpoint)."""

    name: str
    frames: int = 0
    first_frames: int = 0
    lost: int = 0


def open_socket(interface: str) -> socket.socket:
    """A raw socket on an interface, with room for bursts."""
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 25)
    opened.bind((interface, 0))
    opened.setblocking(False)
    return opened


def received(source: socket.socket) -> list[bytes]:
    """Frames that came in, not those that we sent ourselves."""
    frames = []
    for _ in range(BURST):
        try:
            frame, address = source.recvfrom(2048)
        except BlockingIOError:
            break
        if address[2] != PACKET_OUTGOING:
            frames.append(frame)
    return frames


@dataclass
class Pump:
    """Decides what a link does to a frame, and keeps late frames until their time."""

    faults: Faults
    random: random.Random
    late: list[tuple[float, int, object, bytes]] = field(default_factory=list)
    counter: int = 0

    def fate(self, wire: Wire, frame: bytes) -> list[float]:
        """Delays in seconds of the copies that arrive; empty if the frame is lost."""
        wire.frames += 1
        wire.first_frames += is_first(frame)
        if self.random.random() < self.faults.loss:
            wire.lost += 1
            return []
        copies = 2 if self.random.random() < self.faults.duplicate else 1
        return [
            0.002 * self.random.random() if self.random.random() < self.faults.reorder else 0.0 for _ in range(copies)
        ]

    def delay(self, seconds: float, target: object, frame: bytes) -> None:
        self.counter += 1
        heapq.heappush(self.late, (time.monotonic() + seconds, self.counter, target, frame))

    def due(self) -> list[tuple[object, bytes]]:
        now = time.monotonic()
        found = []
        while self.late and self.late[0][0] <= now:
            _, _, target, frame = heapq.heappop(self.late)
            found.append((target, frame))
        return found


def is_first(frame: bytes) -> bool:
    """Whether a frame is an INC packet without the resend flag."""
    return len(frame) >= 62 and frame[12:14] == b"\x08\x00" and frame[23] == 17 and not frame[43] & 0x08


def wait(sockets: list[socket.socket], seconds: float) -> list[socket.socket]:
    """Sockets with something to read, after at most ``seconds``."""
    return select.select(sockets, [], [], max(0.0, seconds))[0]
