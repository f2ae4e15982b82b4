"""The switch that is measured: the root of one job with eight children, and the frames that they send."""

import hashlib
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.bench.switch import EPOCH, JOB, Neighbour, aggregate, program
from p4reduce.dataplane.device import Device
from p4reduce.dataplane.executor import ExecutorName
from p4reduce.workers import wire

CHILDREN: Final = 8
SEQ_OFFSET: Final[int] = wire.FRAME_DTYPE.fields["seq"][1]  # type: ignore[index]
"""Byte of a frame at which the chunk's sequence number starts."""

_SWITCH_IP: Final = 0x0A800001
_TOKEN: Final = 0xABCDEF


def host_ip(child: int) -> int:
    """IPv4 address of a child."""
    return 0x0A000001 + child


def root_switch(lanes: int, slots: int, executor: ExecutorName = "compiled") -> Device:
    """A root switch with one job that has all ``slots``, for children behind ports 1 to CHILDREN."""
    device = Device(program(lanes, slots), name="bench", executor=executor)
    install(device, slots)
    return device


def install(device: Device, slots: int) -> None:
    """Writes the job's entries and multicast group, with tokens where the program knows them."""
    children = [Neighbour(child + 1, 0x020000000000 | host_ip(child), host_ip(child)) for child in range(CHILDREN)]
    known = any(action.name.endswith("_with_token") for action in device.tables["IncIngress.aggregate.peer"].actions)
    aggregate(device, _SWITCH_IP, children, slots, token=_TOKEN if known else 0)


def push_frame(child: int, lanes: int, seq: int = 0) -> bytes:
    """A PUSH of a child with small numbers in its lanes."""
    headers = wire.headers(
        1,
        ipv4_src=host_ip(child),
        ipv4_dst=_SWITCH_IP,
        job=JOB,
        epoch=EPOCH,
        count=1,
        seq=seq,
        exponent=100,
        token=_TOKEN,
    )
    return wire.pack(headers, np.arange(lanes, dtype=np.int32)[np.newaxis]).tobytes()


def push_frames(lanes: int) -> NDArray[np.uint8]:
    """One PUSH of chunk 0 for each child; shape (CHILDREN, bytes)."""
    return np.stack([np.frombuffer(push_frame(child, lanes), dtype=np.uint8) for child in range(CHILDREN)])


def sha256_of_results(lanes: int, slots: int, first: int, chunks: int) -> str:
    """Hash of all RESULT frames, port by port in the order of the chunks, that the embedded switch answers with."""
    device = root_switch(lanes, slots)
    digests = {child + 1: hashlib.sha256() for child in range(CHILDREN)}
    for seq in range(first, first + chunks):
        for child in range(CHILDREN):
            for port, frame in device.inject(child + 1, push_frame(child, lanes, seq)):
                digests[port].update(frame)
    return join_digests(digests)


def join_digests(digests: dict[int, Any]) -> str:
    """One hexadecimal hash of the hashes by port."""
    return hashlib.sha256(b"".join(digests[port].digest() for port in sorted(digests))).hexdigest()
