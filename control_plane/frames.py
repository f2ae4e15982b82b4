"""Sizes of INC frames and the time they take on a link (docs/architecture.md, "Time and bytes")."""

from typing import Final

from p4switch.base.units import PS_PER_S

HEADER_BYTES: Final = 62
"""Ethernet 14, IPv4 20, UDP 8, INC 20: a frame without lanes"""
LANE_BYTES: Final = 4
_MIN_FRAME: Final = 60
"""bytes of the shortest Ethernet frame without FCS"""
_OVERHEAD: Final = 24
"""bytes on the wire around a frame: preamble 8, FCS 4, inter-frame gap 12"""


DEFAULT_LANES: Final = 256
"""where nothing says what the switches' program adds up"""


def frame_bytes(lanes: int) -> int:
    """Bytes of an INC frame with that many lanes (0: the empty one), without FCS."""
    return HEADER_BYTES + LANE_BYTES * lanes


def frame_time_ps(length: int, rate_bps: int) -> int:
    """Picoseconds that a frame of ``length`` bytes occupies a link."""
    bits = (max(length, _MIN_FRAME) + _OVERHEAD) * 8
    return -(-bits * PS_PER_S // rate_bps)


def chunks(elements: int, lanes: int) -> int:
    """Full frames that carry ``elements`` numbers, the last one padded."""
    return -(-elements // lanes)
