"""Frames: the fields of an INC packet, any other frame, and the bytes of both.

A codec of its own, written from the wire format's table and on purpose not shared with ``p4reduce.workers``: an
error in one of the two shows as a difference.
"""

import struct
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from tests.support.golden.reasons import Reason

INC_PORT: Final = 9400
VERSION: Final = 1
NARROW_VERSION = 2
"""of a packet with lanes of 16 or 8 bits"""
_LANES = "ihb"

HEADER_BYTES: Final = 62
"""Ethernet 14, IPv4 20, UDP 8, INC 20."""
ECN_CAPABLE: Final = 2
ECN_CONGESTED: Final = 3
SEQ_MODULUS: Final = 1 << 32

_ETHERTYPE_IPV4 = 0x0800
_PROTOCOL_UDP = 17
_IPV4 = struct.Struct(">BBHHHBBHII")
_UDP = struct.Struct(">HHHH")
_INC = struct.Struct(">BBHHHIII")


class Kind(IntEnum):
    """The packet types of the protocol."""

    PUSH = 1
    PULL = 2
    RESULT = 3
    ASK = 4


Peek = tuple[int, int, bool]
"""Job, epoch and resend flag: what a switch sees of an INC header that passes it. Only the INC port shows one."""


@dataclass(frozen=True, slots=True)
class Packet:
    """A well-formed INC packet. ``lanes`` holds signed integers, or is None where the packet carries no lanes.

    width: of the lanes, 0: 32 bits, 1: 16, 2: 8.
    """

    eth_dst: int
    eth_src: int
    ip_src: int
    ip_dst: int
    udp_src: int
    udp_dst: int
    kind: int
    job: int
    epoch: int
    seq: int
    lanes: tuple[int, ...] | None
    count: int = 1
    exponent: int = 0
    iteration: int = 0
    resend: bool = False
    saturated: bool = False
    ecn_echo: bool = False
    ecn: int = ECN_CAPABLE
    ttl: int = 64
    dscp: int = 0
    identification: int = 0
    ip_flags: int = 0
    udp_checksum: int = 0
    gap: int = 0
    token: int = 0
    late: bool = False
    width: int = 0

    @property
    def awaited(self) -> int:
        """Of an ASK from a switch: the children it waits for, in the bits of ``exponent`` and ``token``."""
        return self.exponent << 24 | self.token

    @property
    def inc(self) -> "Peek | None":
        """See `Peek`."""
        return (self.job, self.epoch, self.resend) if self.udp_dst == INC_PORT else None


@dataclass(frozen=True, slots=True)
class Opaque:
    """Any other frame: routed as it is, or refused for ``fault``, or, when sent to a switch, as malformed."""

    raw: bytes
    fault: Reason | None
    ip_src: int = 0
    ip_dst: int = 0
    ttl: int = 0
    inc: Peek | None = None


Frame = Packet | Opaque


def encode(frame: Frame) -> bytes:
    """The bytes of ``frame`` from the Ethernet header to the end, without FCS."""
    if isinstance(frame, Opaque):
        return frame.raw
    lanes = b"" if frame.lanes is None else struct.pack(f">{len(frame.lanes)}{_LANES[frame.width]}", *frame.lanes)
    udp_length = _UDP.size + _INC.size + len(lanes)
    flags = (
        frame.gap << 7
        | frame.width << 5
        | frame.late << 4
        | frame.resend << 3
        | frame.saturated << 2
        | frame.ecn_echo << 1
        | (frame.lanes is not None)
    )
    version = NARROW_VERSION if frame.width else VERSION
    return b"".join((
        frame.eth_dst.to_bytes(6, "big"), frame.eth_src.to_bytes(6, "big"), _ETHERTYPE_IPV4.to_bytes(2, "big"),
        _ipv4(frame, udp_length),
        _UDP.pack(frame.udp_src, frame.udp_dst, udp_length, frame.udp_checksum),
        _INC.pack(version << 4 | frame.kind, flags, frame.job, frame.epoch, frame.count,
                  frame.seq, frame.iteration, frame.exponent << 24 | frame.token),
        lanes,
    ))  # fmt: skip


def decode(raw: bytes, lanes: int) -> Frame:
    """What a switch built for ``lanes`` lanes takes ``raw`` for.

    A `Packet` only if it is an INC packet of one of this build's two lengths, to the INC port, to the last byte.
    """
    if len(raw) < 34 or int.from_bytes(raw[12:14], "big") != _ETHERTYPE_IPV4:
        return Opaque(raw, Reason.NOT_IPV4)
    first, tos, total, identification, fragment, ttl, protocol, _, ip_src, ip_dst = _IPV4.unpack_from(raw, 14)
    if first != 0x45:
        return Opaque(raw, Reason.OPTIONS)
    if checksum(raw[14:34]) != 0:
        return Opaque(raw, Reason.CHECKSUM)
    opaque = Opaque(raw, None, ip_src, ip_dst, ttl)
    if fragment & 0x1FFF or protocol != _PROTOCOL_UDP or len(raw) < HEADER_BYTES:
        return opaque
    udp_src, udp_dst, udp_length, udp_checksum = _UDP.unpack_from(raw, 34)
    if udp_dst != INC_PORT:
        return opaque
    version_kind, flags, job, epoch, count, seq, iteration, last = _INC.unpack_from(raw, 42)
    resend = bool(flags & 8)
    body = 4 * lanes if flags & 1 else 0
    width = flags >> 5 & 3
    known = (
        version_kind >> 4 == VERSION if width == 0 else version_kind >> 4 == NARROW_VERSION and width < 3 and flags & 1
    )
    if not known or not udp_length == total - 20 == len(raw) - 34 == 28 + body:
        return replace(opaque, inc=(job, epoch, resend))
    layout = f">{lanes << width}{_LANES[width]}"
    return Packet(
        int.from_bytes(raw[0:6], "big"), int.from_bytes(raw[6:12], "big"), ip_src, ip_dst, udp_src, udp_dst,
        version_kind & 15, job, epoch, seq, struct.unpack_from(layout, raw, 62) if flags & 1 else None,
        count, last >> 24, iteration, resend, bool(flags & 4), bool(flags & 2), tos & 3, ttl, tos >> 2,
        identification, fragment >> 13, udp_checksum, flags >> 7, last & 0xFFFFFF, bool(flags & 16), width,
    )  # fmt: skip


def routed(frame: Frame, next_mac: int) -> Frame:
    """``frame`` as a router sends it on to ``next_mac``: its own address as source, one hop less to live."""
    if isinstance(frame, Packet):
        return replace(frame, eth_src=frame.eth_dst, eth_dst=next_mac, ttl=frame.ttl - 1)
    raw = bytearray(next_mac.to_bytes(6, "big") + frame.raw[0:6] + frame.raw[12:])
    raw[22] -= 1
    return replace(frame, raw=with_checksum(bytes(raw)), ttl=frame.ttl - 1)


def packet_in(port: int, reason: Reason, frame: Frame) -> bytes:
    """What the controller gets of a refused frame: 9 bits of port, 7 of padding, 8 of reason, and the frame."""
    raw = encode(frame)
    if len(raw) >= 34 and raw[12:14] == b"\x08\x00" and raw[14] & 0xF == 5:
        raw = with_checksum(raw)  # every frame without options leaves a switch with a right checksum
    return (port << 7).to_bytes(2, "big") + bytes([reason]) + raw


def with_checksum(raw: bytes) -> bytes:
    """``raw``, an IPv4 frame without options, with its header checksum put right."""
    blank = raw[14:24] + b"\0\0" + raw[26:34]
    return raw[:24] + checksum(blank).to_bytes(2, "big") + raw[26:]


def checksum(header: bytes) -> int:
    """The Internet checksum (RFC 1071) of an even number of bytes; 0 over a header that holds its own."""
    words: tuple[int, ...] = struct.unpack(f">{len(header) // 2}H", header)
    total = sum(words)
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


def _ipv4(packet: Packet, udp_length: int) -> bytes:
    fields = (packet.dscp << 2 | packet.ecn, 20 + udp_length, packet.identification, packet.ip_flags << 13, packet.ttl)
    ends = (packet.ip_src, packet.ip_dst)
    blank = _IPV4.pack(0x45, *fields, _PROTOCOL_UDP, 0, *ends)
    return _IPV4.pack(0x45, *fields, _PROTOCOL_UDP, checksum(blank), *ends)
