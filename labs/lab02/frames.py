"""The frames of lab 02, by a reference of their own that knows nothing of P4: numbers packed into bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from p4reduce.labs.frame.draws import Draws

WIDTHS: Final = {"kind": 4, "flags": 4, "hops": 8, "worker": 16, "seq": 32}
ETHERNET: Final = bytes.fromhex("020000000002020000000001")
HOP_BYTES: Final = 8
VALUE_BYTES: Final = 4


@dataclass(frozen=True)
class Layout:
    """A student's header.

    Attributes:
        fields: (name, bits) in their order.
        other_port, hop_port: by which frames without and with a hop leave.
    """

    ether_type: int
    fields: tuple[tuple[str, int], ...]
    other_port: int
    hop_port: int

    @classmethod
    def of(cls, draws: Draws) -> Layout:
        """The layout that follows from a student's name."""
        pairs = draws.shuffled("pairs", [["kind", "flags"], ["hops"], ["worker"], ["seq"]])
        names = [name for pair in pairs for name in draws.shuffled(f"order {pair[0]}", pair)]
        ports = draws.shuffled("ports", range(2, 9))
        fields = tuple((name, WIDTHS[name]) for name in names)
        return cls(0x8900 + draws.integer("ether_type", 1, 0xF0), fields, ports[0], ports[1])

    def frame(self, hop: Mapping[str, int] | None, total: int | None, payload: bytes, ether_type: int = 0) -> bytes:
        """A frame; ``hop`` None: of another EtherType."""
        data = ETHERNET + (self.ether_type if hop is not None else ether_type).to_bytes(2, "big")
        if hop is not None:
            data += self.packed(hop)
        if total is not None:
            data += total.to_bytes(VALUE_BYTES, "big")
        return data + payload

    def packed(self, hop: Mapping[str, int]) -> bytes:
        """The header's bytes."""
        number = 0
        for name, width in self.fields:
            number = number << width | hop[name]
        return number.to_bytes(HOP_BYTES, "big")

    def unpacked(self, data: bytes) -> dict[str, int]:
        """Its fields."""
        number, found = int.from_bytes(data[:HOP_BYTES], "big"), {}
        for name, width in reversed(self.fields):
            found[name] = number & (1 << width) - 1
            number >>= width
        return found


@dataclass(frozen=True)
class Case:
    """One frame and what must become of it.

    Attributes:
        kind: ``other``, ``value``, ``bare`` or ``cut``.
        expected: (port, frame); None: dropped.
    """

    kind: str
    frame: bytes
    expected: tuple[int, bytes] | None
    hop: Mapping[str, int]
    total: int | None


def cases(layout: Layout, draws: Draws) -> list[Case]:
    """Twenty frames: seven with a value, six without, four of other types, three cut short."""
    random = draws.generator("frames")

    def number(bits: int) -> int:
        return int(random.integers(0, 1 << bits))

    found: list[Case] = []
    for place in range(20):
        payload = random.bytes(number(5))
        hop = {name: number(width) for name, width in layout.fields}
        kind = ("value", "bare", "other", "value", "bare", "cut", "value")[place % 7] if place else "value"
        total = number(32)
        if place < 2:  # both ends of a field
            hop |= {"hops": 255}
            total = 0xFFFFFFFF
        if kind == "other":
            other = layout.ether_type ^ (1 << number(3))
            data = layout.frame(None, None, random.bytes(20), other)
            found.append(Case(kind, data, (layout.other_port, data), {}, None))
            continue
        hop["flags"] = hop["flags"] & 0b1110 | (kind != "bare")
        grown = {**hop, "hops": hop["hops"] + 1 & 0xFF, "flags": hop["flags"] | 1}
        if kind == "cut":
            whole = layout.frame(hop, total, b"")
            data = whole[: len(whole) - 1 - number(3)]
            found.append(Case(kind, data, None, hop, total))
        elif kind == "value":
            data = layout.frame(hop, total, payload)
            out = layout.frame(grown, total + hop["worker"] & 0xFFFFFFFF, payload)
            found.append(Case(kind, data, (layout.hop_port, out), hop, total))
        else:
            data = layout.frame(hop, None, payload)
            found.append(Case(kind, data, (layout.hop_port, layout.frame(grown, hop["seq"], payload)), hop, None))
    return found
