"""The frames of labs 03 and 05, packed by hand: Ethernet, kind, number, four lanes."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

PUSH: Final = 1
RESULT: Final = 2
LANES: Final = 4
GROUP: Final = 1
_ETHERNET: Final = bytes.fromhex("020000000002020000000001")
_HEADER: Final = struct.Struct(">BI4I")
_START: Final = len(_ETHERNET) + 2
WRAP: Final = 1 << 32

Lanes = tuple[int, ...]


@dataclass(frozen=True)
class Sum:
    """A frame's header."""

    kind: int
    seq: int
    lanes: Lanes

    def frame(self, ether_type: int) -> bytes:
        """The frame."""
        return _ETHERNET + ether_type.to_bytes(2, "big") + _HEADER.pack(self.kind, self.seq, *self.lanes)


def read(data: bytes) -> Sum | None:
    """What a frame says; None where it is too short."""
    if len(data) < _START + _HEADER.size:
        return None
    kind, seq, *lanes = _HEADER.unpack_from(data, _START)
    return Sum(kind, seq, tuple(lanes))


def added(one: Lanes, other: Lanes) -> Lanes:
    """Lane by lane, modulo 2^32."""
    return tuple((a + b) % WRAP for a, b in zip(one, other, strict=True))


def full(workers: int) -> int:
    """The bits of all workers."""
    return (1 << workers) - 1
