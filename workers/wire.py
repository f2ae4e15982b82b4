"""The wire format: one definition, from which the NumPy and the Scapy side are both made.

``HEADERS`` says what stands in ``p4src/headers.p4``, header by header and field by field; the table in
``docs/protocol.md`` is the same. ``tests/unit/workers/test_wire_matches_p4.py`` holds them together.

Two NumPy types are derived from it:

``FRAME_DTYPE``
    The bytes as they travel, big-endian, 62 of them. Fields that do not fill whole bytes share a
    unit whose name joins theirs (``ipv4_version_ihl``); a MAC is six ``u1``.
``HEADER_DTYPE``
    One native integer column for every field, for calculating: ``headers["seq"]``, ``headers["ipv4_src"]``. INC fields
    have plain names, those of the other headers are prefixed by their header.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

ETHERTYPE_IPV4: Final = 0x0800
IP_PROTOCOL_UDP: Final = 17
INC_UDP_PORT: Final = 9400
INC_VERSION: Final = 1
INC_VERSION_NARROW: Final = 2
"""of a frame whose lanes are narrower than 32 bits: a program that adds them as 32 must not take it"""
RESULT_SENT: Final = 0xFFFF
"""``count`` of an ASK to a child: the RESULT has been sent, and is on its way as far as the sender knows"""
IP_TTL: Final = 64
ECN_CAPABLE: Final = 2
"""ECT(0) of RFC 3168: what every frame of ours leaves with"""
ECN_CONGESTED: Final = 3
MAX_LANES: Final = (65535 - 20 - 8 - 20) // 4
"""what an IPv4 datagram can carry; the P4 program is compiled for 64 or 256"""


class PacketType(IntEnum):
    """The packet types of the protocol; a WAIT is an ASK whose ``count`` is not 0."""

    PUSH = 1
    PULL = 2
    RESULT = 3
    ASK = 4


@dataclass(frozen=True)
class WireField:
    """A field of a header: its name, its width in bits, and the value it has unless told otherwise."""

    name: str
    bits: int
    default: int = 0


@dataclass(frozen=True)
class WireHeader:
    """A header: fields in the order in which they travel, most significant bit first."""

    name: str
    fields: tuple[WireField, ...]

    @cached_property
    def bytes(self) -> int:
        """Length in bytes."""
        return sum(field.bits for field in self.fields) // 8

    def __getitem__(self, name: str) -> WireField:
        """The field of that name; KeyError when there is none."""
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(f"header {self.name} has no field {name!r}")


ETHERNET: Final = WireHeader(
    "ethernet", (WireField("dst", 48), WireField("src", 48), WireField("ether_type", 16, ETHERTYPE_IPV4))
)
IPV4: Final = WireHeader(
    "ipv4",
    (
        WireField("version", 4, 4),
        WireField("ihl", 4, 5),
        WireField("dscp", 6),
        WireField("ecn", 2, ECN_CAPABLE),
        WireField("total_length", 16),
        WireField("identification", 16),
        WireField("flags", 3),
        WireField("fragment_offset", 13),
        WireField("ttl", 8, IP_TTL),
        WireField("protocol", 8, IP_PROTOCOL_UDP),
        WireField("checksum", 16),
        WireField("src", 32),
        WireField("dst", 32),
    ),
)
UDP: Final = WireHeader(
    "udp",
    (
        WireField("src_port", 16, INC_UDP_PORT),
        WireField("dst_port", 16, INC_UDP_PORT),
        WireField("length", 16),
        WireField("checksum", 16),
    ),
)
INC: Final = WireHeader(
    "inc",
    (
        WireField("version", 4, INC_VERSION),
        WireField("type", 4, PacketType.PUSH),
        WireField("gap", 1),
        WireField("width", 2),
        WireField("late", 1),
        WireField("resend", 1),
        WireField("saturated", 1),
        WireField("ecn_echo", 1),
        WireField("has_lanes", 1),
        WireField("job", 16),
        WireField("epoch", 16),
        WireField("count", 16),
        WireField("seq", 32),
        WireField("iteration", 32),
        WireField("exponent", 8),
        WireField("token", 24),
    ),
)
HEADERS: Final = (ETHERNET, IPV4, UDP, INC)
HEADER_BYTES: Final = sum(header.bytes for header in HEADERS)
IPV4_OFFSET: Final = ETHERNET.bytes
UDP_OFFSET: Final = IPV4_OFFSET + IPV4.bytes
INC_OFFSET: Final = UDP_OFFSET + UDP.bytes
LANE_DTYPE: Final = np.dtype(">i4")
WORD_BITS: Final = 32
"""what ``lanes`` counts, wherever it stands for a length: words, in each of which one lane fits, or two, or four"""
WIDTHS: Final = {32: 0, 16: 1, 8: 2}
"""field ``width`` by the bits of a lane"""


def words_of(elements: int, bits: int) -> int:
    """Words in which as many lanes of so many bits travel."""
    return -(-elements // (WORD_BITS // bits))


def frame_bytes(lanes: int) -> int:
    """Length in bytes of a frame with ``lanes`` lanes, without FCS."""
    return HEADER_BYTES + 4 * lanes


def offset(header: WireHeader, field: str) -> int:
    """Byte of a frame in which the field begins."""
    bits = 0
    for before in HEADERS[: HEADERS.index(header)]:
        bits += 8 * before.bytes
    for item in header.fields:
        if item.name == field:
            return bits // 8
        bits += item.bits
    raise KeyError(f"header {header.name} has no field {field!r}")


_CHECKSUM: Final = offset(IPV4, "checksum")


def bit_shift(header: WireHeader, field: str) -> int:
    """How far the field stands from the low end of the byte in which it ends."""
    bits = 0
    for item in header.fields:
        bits += item.bits
        if item.name == field:
            return -bits % 8
    raise KeyError(f"header {header.name} has no field {field!r}")


def _column(header: WireHeader, field: WireField) -> str:
    return field.name if header is INC else f"{header.name}_{field.name}"


def _units(header: WireHeader) -> Iterator[tuple[WireField, ...]]:
    """Runs of fields that fill whole bytes together."""
    run: list[WireField] = []
    for field in header.fields:
        run.append(field)
        if sum(item.bits for item in run) % 8 == 0:
            yield tuple(run)
            run = []


def _unit_dtype(size: int) -> Any:
    return {1: ">u1", 2: ">u2", 4: ">u4", 8: ">u8"}.get(size, ("u1", (size,)))


def _frame_dtype() -> np.dtype[np.void]:
    units = []
    for header in HEADERS:
        for run in _units(header):
            name = _column(header, run[0]) + "".join("_" + field.name for field in run[1:])
            units.append((name, _unit_dtype(sum(field.bits for field in run) // 8)))
    return np.dtype(units)


def _native(bits: int) -> str:
    return next(f"u{size}" for size in (1, 2, 4, 8) if bits <= 8 * size)


FRAME_DTYPE: Final = _frame_dtype()
HEADER_DTYPE: Final = np.dtype(
    [(_column(header, field), _native(field.bits)) for header in HEADERS for field in header.fields]
)
_FIELDS: Final = [(header, field) for header in HEADERS for field in header.fields]
_WIDTHS: Final = [field.bits for _, field in _FIELDS]
_BELOW: Final = [(sum(_WIDTHS[number + 1 :]), (1 << bits) - 1) for number, bits in enumerate(_WIDTHS)]
"""for each field, how many bits of the headers follow it, and its largest value"""
_DEFAULTS: Final = np.array([tuple(field.default for _, field in _FIELDS)], HEADER_DTYPE)


def headers(frames: int, /, **columns: Any) -> NDArray[np.void]:
    """``frames`` headers (``HEADER_DTYPE``, shape (frames,)) with every field at its default, then the given columns.

    A column is a scalar or an array of shape (frames,). Lengths and the IPv4 checksum are filled in by ``pack``.
    """
    made = np.repeat(_DEFAULTS, frames)
    for name, values in columns.items():
        if name not in HEADER_DTYPE.fields:  # type: ignore[operator]
            raise KeyError(f"no header field {name!r}; the fields are {', '.join(HEADER_DTYPE.names or ())}")
        made[name] = values
    return made


def ipv4_checksums(frames: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """The IPv4 header checksums (RFC 1071) of ``frames``, uint8 of shape (k, >= 34), whatever they carry now."""
    words = frames[:, IPV4_OFFSET:UDP_OFFSET].copy().view(">u2").astype(np.uint32)
    at = (_CHECKSUM - IPV4_OFFSET) // 2
    total = words.sum(axis=1) - words[:, at]
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    checksums: NDArray[np.uint16] = (~total & 0xFFFF).astype(np.uint16)
    return checksums


def _header_bytes(values: tuple[int, ...]) -> bytes:
    """All headers of a frame: one number, of which each field is a few bits."""
    number = 0
    for column, (value, bits) in enumerate(zip(values, _WIDTHS, strict=True)):
        if value >> bits:
            header, field = _FIELDS[column]
            raise ValueError(f"{header.name}.{field.name}: {value} does not fit {bits} bits")
        number = number << bits | value
    return number.to_bytes(HEADER_BYTES, "big")


def pack(values: NDArray[np.void], lanes: NDArray[np.int32] | None = None) -> NDArray[np.uint8]:
    """A batch of frames of one length, uint8 of shape (k, 62 + 4N).

    values: ``HEADER_DTYPE``, shape (k,). lanes: int32, shape (k, N), or None for frames without lanes.
    ``has_lanes``, the IPv4 and UDP lengths and the IPv4 checksum are computed, whatever ``values`` say; the
    UDP checksum is sent as given (0: none, RFC 768). ValueError when a value does not fit its field.
    """
    count = 0 if lanes is None else lanes.shape[1]
    if lanes is not None and lanes.shape[0] != len(values):
        raise ValueError(f"{len(values)} headers, but lanes for {lanes.shape[0]} frames")
    if count > MAX_LANES:
        raise ValueError(f"{count} lanes do not fit an IPv4 datagram; at most {MAX_LANES}")
    values = values.copy()
    values["has_lanes"] = lanes is not None
    values["udp_length"] = UDP.bytes + INC.bytes + 4 * count
    values["ipv4_total_length"] = IPV4.bytes + UDP.bytes + INC.bytes + 4 * count
    frames = np.zeros((len(values), frame_bytes(count)), np.uint8)
    written = b"".join(map(_header_bytes, values.tolist()))
    frames[:, :HEADER_BYTES] = np.frombuffer(written, np.uint8).reshape(-1, HEADER_BYTES)
    frames[:, _CHECKSUM : _CHECKSUM + 2] = ipv4_checksums(frames).astype(">u2").view(np.uint8).reshape(-1, 2)
    if lanes is not None:
        frames[:, HEADER_BYTES:] = np.ascontiguousarray(lanes, LANE_DTYPE).view(np.uint8)
    return frames


def pack_lanes(values: NDArray[np.int64], bits: int) -> NDArray[np.int32]:
    """Lanes of 32, 16 or 8 bits as the words that travel, the first lane in the highest bits.

    values: whole numbers, shape (k, N); N must fill whole words. Shape (k, N * bits / 32). ``ValueError`` for a number
    that does not fit a lane.
    """
    if (abs(values + 0.5) > 2 ** (bits - 1)).any():
        raise ValueError(f"a lane of {bits} bits holds {-(2 ** (bits - 1))}..{2 ** (bits - 1) - 1}")
    return np.ascontiguousarray(values, f">i{bits // 8}").view(LANE_DTYPE).astype(np.int32)


def unpack_lanes(words: NDArray[np.int32], bits: int) -> NDArray[np.int64]:
    """The inverse of ``pack_lanes``: int64, shape (k, N * 32 / bits)."""
    return np.ascontiguousarray(words, LANE_DTYPE).view(f">i{bits // 8}").astype(np.int64)


def unpack(frames: NDArray[np.uint8]) -> tuple[NDArray[np.void], NDArray[np.int32]]:
    """The headers (``HEADER_DTYPE``, shape (k,)) and lanes (int32, shape (k, N)) of frames of one length.

    frames: uint8, shape (k, 62 + 4N). N is taken from the length; nothing is verified. ValueError when the
    length is not that of an INC frame.
    """
    if frames.ndim != 2 or frames.shape[1] < HEADER_BYTES or (frames.shape[1] - HEADER_BYTES) % 4:
        raise ValueError(f"frames of shape {frames.shape}: expected (k, {HEADER_BYTES} + 4 * lanes)")
    numbers = [int.from_bytes(row.tobytes(), "big") for row in frames[:, :HEADER_BYTES]]
    values = np.array([tuple([number >> below & most for below, most in _BELOW]) for number in numbers], HEADER_DTYPE)
    lanes = np.ascontiguousarray(frames[:, HEADER_BYTES:]).view(LANE_DTYPE).astype(np.int32)
    return values, lanes


# Where the fields of a frame lie, in bytes from its beginning, for compiled code; `wire.py` has the formats.


ETHER_TYPE: Final = offset(ETHERNET, "ether_type")
IP: Final = IPV4_OFFSET
TOTAL_LENGTH: Final = offset(IPV4, "total_length")
IDENTIFICATION: Final = offset(IPV4, "identification")
CHECKSUM: Final = offset(IPV4, "checksum")
FRAGMENT: Final = offset(IPV4, "flags")
TOS: Final = offset(IPV4, "dscp")
IP_PROTOCOL: Final = offset(IPV4, "protocol")
IP_SRC: Final = offset(IPV4, "src")
IP_DST: Final = offset(IPV4, "dst")
UDP_SRC: Final = offset(UDP, "src_port")
UDP_DST: Final = offset(UDP, "dst_port")
UDP_LENGTH: Final = offset(UDP, "length")
VERSION: Final = offset(INC, "version")
FLAGS: Final = offset(INC, "has_lanes")
JOB: Final = offset(INC, "job")
EPOCH: Final = offset(INC, "epoch")
COUNT: Final = offset(INC, "count")
SEQ: Final = offset(INC, "seq")
ITERATION: Final = offset(INC, "iteration")
EXPONENT: Final = offset(INC, "exponent")
