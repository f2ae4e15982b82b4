"""Frames, compiled: checks that one is sound and for this endpoint, and makes one from a template.

All offsets and flags come from ``wire.py``.
"""

from typing import Any, Final

import numpy as np

from p4reduce.workers import wire
from p4reduce.workers.kernels import kernel
from p4reduce.workers.records import EndpointKind, Refusal
from p4reduce.workers.wire import (
    CHECKSUM,
    COUNT,
    EPOCH,
    ETHER_TYPE,
    EXPONENT,
    FLAGS,
    FRAGMENT,
    IDENTIFICATION,
    IP,
    IP_DST,
    IP_PROTOCOL,
    IP_SRC,
    ITERATION,
    JOB,
    SEQ,
    TOS,
    TOTAL_LENGTH,
    UDP_DST,
    UDP_LENGTH,
    UDP_SRC,
    VERSION,
)
from p4switch.native.memory import carray, copy_bytes, load_be32, load_be64, pointer, store_be32

TEMPLATE_BYTES: Final = 64
NOT_MINE: Final = -1
SEQ_MASK: Final = 0xFFFFFFFF
TOKEN_MASK: Final = (1 << wire.INC["token"].bits) - 1

_HEADER_BYTES: Final = wire.HEADER_BYTES
_IPV4_NO_OPTIONS: Final = 0x45
_MORE_FRAGMENTS_OR_OFFSET: Final = 0x3FFF
_PUSH: Final = int(wire.PacketType.PUSH)
_PULL: Final = int(wire.PacketType.PULL)
_RESULT: Final = int(wire.PacketType.RESULT)
_ASK: Final = int(wire.PacketType.ASK)
_WORKER: Final = int(EndpointKind.WORKER)
_SERVER: Final = int(EndpointKind.SERVER)
_RELAY: Final = int(EndpointKind.RELAY)
_CHECKSUM: Final = int(Refusal.CHECKSUM)
_MALFORMED: Final = int(Refusal.MALFORMED)
_WRONG_JOB: Final = int(Refusal.JOB)
_WRONG_PEER: Final = int(Refusal.PEER)
_WRONG_TYPE: Final = int(Refusal.TYPE)
_WRONG_KIND: Final = int(Refusal.KIND)
_WRONG_TOKEN: Final = int(Refusal.TOKEN)
_WRONG_EPOCH: Final = int(Refusal.EPOCH)

LATE: Final = 1 << wire.bit_shift(wire.INC, "late")
RESEND: Final = 1 << wire.bit_shift(wire.INC, "resend")
SATURATED: Final = 1 << wire.bit_shift(wire.INC, "saturated")
ECN_ECHO: Final = 1 << wire.bit_shift(wire.INC, "ecn_echo")
WIDTH_SHIFT: Final = wire.bit_shift(wire.INC, "width")
WIDTH: Final = 3 << WIDTH_SHIFT
"""the bits of ``width``; not 0: lanes narrower than 32 bits"""
HAS_LANES: Final = 1 << wire.bit_shift(wire.INC, "has_lanes")
LANES_OFFSET: Final = wire.HEADER_BYTES


@kernel
def _be16(frame: Any, at: int) -> Any:
    return (np.int64(frame[at]) << 8) | np.int64(frame[at + 1])


@kernel
def _be32(address: int) -> Any:
    return np.int64(load_be32(address, 0)) & SEQ_MASK


@kernel
def _ip_checksum_wrong(address: int) -> Any:
    total: Any = 0
    for k in range(5):
        word = np.int64(load_be32(address + IP, k)) & SEQ_MASK
        total += (word >> 16) + (word & 0xFFFF)
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return total != 0xFFFF


@kernel
def inspect(e: Any, frame: Any, length: int) -> Any:
    """0: a sound frame of this endpoint's job. NOT_MINE: a frame for another endpoint. Else the ``Refusal``.

    Where several endpoints share an address, a frame of another job, or of a type that the other kind of endpoint
    takes, is left to them.
    """
    if length < UDP_LENGTH + 4 or _be16(frame, ETHER_TYPE) != wire.ETHERTYPE_IPV4:
        return NOT_MINE
    address = frame.ctypes.data
    if frame[IP_PROTOCOL] != wire.IP_PROTOCOL_UDP or _be32(address + IP_DST) != e.ip:
        return NOT_MINE
    if _be16(frame, UDP_DST) != e.udp or (np.int64(load_be64(address)) >> 16) & 0xFFFFFFFFFFFF != e.mac:
        return NOT_MINE
    if _ip_checksum_wrong(address):
        return _CHECKSUM
    expected = _HEADER_BYTES
    if length >= _HEADER_BYTES and frame[FLAGS] & HAS_LANES:
        expected += 4 * e.lanes
    if (
        length != expected
        or frame[IP] != _IPV4_NO_OPTIONS
        or _be16(frame, FRAGMENT) & _MORE_FRAGMENTS_OR_OFFSET
        or _be16(frame, TOTAL_LENGTH) != expected - IP
        or _be16(frame, UDP_LENGTH) != expected - UDP_SRC
        or frame[VERSION] >> 4 != (wire.INC_VERSION_NARROW if frame[FLAGS] & WIDTH else wire.INC_VERSION)
        or (frame[FLAGS] & WIDTH and (frame[FLAGS] & HAS_LANES == 0 or frame[FLAGS] & WIDTH == WIDTH))
    ):
        return _MALFORMED
    if _be16(frame, JOB) != e.job:
        return NOT_MINE if e.shared else _WRONG_JOB
    kind = frame[VERSION] & 15
    to_server = kind in (_PUSH, _PULL)
    if (
        (kind not in (_RESULT, _ASK) and not to_server)
        or (e.kind == _WORKER and to_server)
        or (e.kind == _SERVER and kind == _RESULT)
        or (e.kind not in (_WORKER, _SERVER, _RELAY) and kind == _ASK)
    ):
        return NOT_MINE if e.shared else _WRONG_TYPE
    if _be16(frame, EPOCH) != e.epoch:
        return _WRONG_EPOCH
    return _WRONG_KIND if frame[FLAGS] & WIDTH and e.kind != _WORKER else 0


@kernel
def type_of(frame: Any) -> Any:
    """The packet type."""
    return np.int64(frame[VERSION] & 15)


@kernel
def flags_of(frame: Any) -> Any:
    """WIDTH, LATE, RESEND, SATURATED, ECN_ECHO, HAS_LANES."""
    return np.int64(frame[FLAGS])


@kernel
def congestion_of(frame: Any) -> Any:
    """Whether this frame, or one that went into it, crossed a congested queue."""
    return frame[TOS] & 3 == wire.ECN_CONGESTED or frame[FLAGS] & ECN_ECHO != 0


@kernel
def count_of(frame: Any) -> Any:
    """The count field."""
    return _be16(frame, COUNT)


@kernel
def exponent_of(frame: Any) -> Any:
    """The biased exponent."""
    return np.int64(frame[EXPONENT])


@kernel
def mask_of(frame: Any) -> Any:
    """Exponent and token, one word: whom an ASK downwards is waiting for."""
    return _be32(frame.ctypes.data + EXPONENT)


@kernel
def set_mask(out: Any, mask: int) -> None:
    """Writes what ``mask_of`` reads into a frame that was just made."""
    store_be32(out.ctypes.data + EXPONENT, 0, mask)


@kernel
def identification_of(frame: Any) -> Any:
    """Return this frame's seq minus that of the previous frame on its link, modulo 2**16; 0: not stated."""
    return _be16(frame, IDENTIFICATION)


@kernel
def set_identification(out: Any, behind: int) -> None:
    """Set ``identification_of`` of a new frame, whose field is 0, and update the IP checksum (RFC 1624)."""
    total = (_be16(out, CHECKSUM) ^ 0xFFFF) + behind
    checksum = ((total & 0xFFFF) + (total >> 16)) ^ 0xFFFF
    out[IDENTIFICATION] = behind >> 8
    out[IDENTIFICATION + 1] = behind & 0xFF
    out[CHECKSUM] = checksum >> 8
    out[CHECKSUM + 1] = checksum & 0xFF


@kernel
def iteration_of(frame: Any) -> Any:
    """The iteration field; in it a selective acknowledgement has its 32 bits."""
    return _be32(frame.ctypes.data + ITERATION)


@kernel
def is_forged(e: Any, frame: Any, peer: int) -> Any:
    """Whether a frame does not show what the peer-th peer and this endpoint show each other: the template has it."""
    ours = _be32(e.templates + 2 * peer * TEMPLATE_BYTES + EXPONENT)
    return (mask_of(frame) ^ ours) & TOKEN_MASK != 0


@kernel
def sender_of(frame: Any) -> Any:
    """The sender of a frame: IPv4 source << 16 | UDP source port."""
    return (_be32(frame.ctypes.data + IP_SRC) << 16) | _be16(frame, UDP_SRC)


@kernel
def seq_of(frame: Any, near: int) -> Any:
    """The sequence number, unwrapped to the 64-bit number within 2**31 of ``near``."""
    ahead = (_be32(frame.ctypes.data + SEQ) - near + 0x80000000) & SEQ_MASK
    return near + ahead - 0x80000000


@kernel
def lanes_of(frame: Any) -> Any:
    """Address of the lanes."""
    return frame.ctypes.data + LANES_OFFSET


@kernel
def unknown(e: Any, frame: Any, peer: int) -> Any:
    """Why a frame is not the peer-th peer's, or 0 (endpoints whose peers are not sorted: workers and ring).

    An ASK has a mask in the place of the token: it makes a worker send once more what it has sent, or ask less often.
    """
    if sender_of(frame) != carray(pointer(e.senders), (e.peers,), np.int64)[peer]:
        return _WRONG_PEER
    if type_of(frame) != _ASK and is_forged(e, frame, peer):
        return _WRONG_TOKEN
    return 0


@kernel
def write_frame(
    e: Any, out: Any, peer: int, kind: int, flags: int, count: int, seq: int, iteration: int, exponent: int
) -> Any:
    """A frame to the peer-th peer into ``out``, all but its lanes; returns its length and counts it."""
    with_lanes = 1 if flags & HAS_LANES else 0
    address = out.ctypes.data
    copy_bytes(address, e.templates + (2 * peer + with_lanes) * TEMPLATE_BYTES, _HEADER_BYTES)
    out[VERSION] = ((wire.INC_VERSION_NARROW if flags & WIDTH else wire.INC_VERSION) << 4) | kind
    out[FLAGS] = flags
    store_be32(address + JOB, 0, (e.job << 16) | e.epoch)
    out[COUNT] = count >> 8
    out[COUNT + 1] = count & 0xFF
    store_be32(address + SEQ, 0, seq & SEQ_MASK)
    store_be32(address + ITERATION, 0, iteration)
    out[EXPONENT] = exponent
    length = _HEADER_BYTES + 4 * e.lanes * with_lanes
    e.frames_sent += 1
    e.bytes_sent += length
    if flags & RESEND:
        e.resends += 1
        e.resend_bytes += length
    return length
