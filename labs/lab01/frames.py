"""INC frames of a lab's job, made and read by the wire format."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p4reduce.labs.lab01.tree import EPOCH, JOB, LANES
from p4reduce.workers import wire
from p4reduce.workers.wire import PacketType

Lanes = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class End:
    """One end of a hop."""

    ip: int
    mac: int


@dataclass(frozen=True)
class Message:
    """What a frame says.

    Attributes:
        lanes: int32, shape (64,), or None.
    """

    type: int
    seq: int
    count: int
    resend: bool
    source: End
    destination: End
    udp: int
    lanes: Lanes | None


def frame(
    kind: PacketType,
    source: End,
    destination: End,
    seq: int,
    lanes: Lanes | None = None,
    *,
    count: int = 1,
    resend: bool = False,
    job: int = JOB,
    epoch: int = EPOCH,
) -> bytes:
    """A frame from one end of a hop to the other."""
    headers = wire.headers(
        1,
        ethernet_src=source.mac,
        ethernet_dst=destination.mac,
        ipv4_src=source.ip,
        ipv4_dst=destination.ip,
        type=int(kind),
        job=job,
        epoch=epoch,
        seq=seq,
        count=count,
        resend=int(resend),
    )
    packed = wire.pack(headers, None if lanes is None else lanes.reshape(1, LANES))
    return bytes(packed[0])


def read(data: bytes) -> Message | None:
    """What a frame says; None where it is no INC frame of the lab's lengths."""
    if len(data) not in (wire.frame_bytes(0), wire.frame_bytes(LANES)):
        return None
    headers, lanes = wire.unpack(np.frombuffer(data, np.uint8).reshape(1, -1))
    h = headers[0]
    return Message(
        type=int(h["type"]),
        seq=int(h["seq"]),
        count=int(h["count"]),
        resend=bool(h["resend"]),
        source=End(int(h["ipv4_src"]), int(h["ethernet_src"])),
        destination=End(int(h["ipv4_dst"]), int(h["ethernet_dst"])),
        udp=int(h["udp_dst_port"]),
        lanes=lanes[0] if lanes.shape[1] else None,
    )


def contribution(worker: int, seq: int) -> Lanes:
    """The lanes that a worker pushes, int32, shape (64,): any numbers will do, but everybody must know them."""
    return np.random.default_rng((worker, seq)).integers(-(1 << 24), 1 << 24, LANES, dtype=np.int32)
