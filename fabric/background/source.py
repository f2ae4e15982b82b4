"""A source of background traffic at a host, compiled: bursts of UDP frames to one destination after the other.

On/off: a burst of a random number of frames at a peak rate, then a random silence. Burst lengths and silences are
uniform between (about) nothing and twice their mean, in integers, so that every machine draws the same. The destination
of a burst is drawn from the host's row of the demand matrix.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from p4reduce.fabric.errors import FabricError
from p4reduce.fabric.kernels.draws import draw
from p4reduce.fabric.kernels.jit import kernel
from p4reduce.native.memory import carray, copy_bytes, pointer

TEMPLATE_BYTES: Final = 64
"""a destination's headers, padded"""
HEADERS: Final = 42
"""Ethernet, IPv4, UDP"""
UDP_PORT: Final = 9
"""discard (RFC 863): nobody answers"""

SOURCE: Final = np.dtype(
    [
        *(
            (name, np.int64)
            for name in (
                "length",  # of a frame, bytes
                "gap_ps",  # from the begin of a frame to the next, inside a burst
                "mean_frames",  # of a burst
                "mean_silence_ps",
                "targets",
                "thresholds",  # address: uint32 each, ascending; a draw below the k-th goes to the k-th target
                "templates",  # address: TEMPLATE_BYTES for each target
                "target",  # of the present burst
                "left",  # frames of the present burst
                "next_ps",
                "sent",
                "received",
                # How the endpoints beside it are driven (EndpointCalls); the same in every source.
                "receive",
                "transmit",
                "deadline",
                "expire",
                "resume",
                "status",
            )
        ),
        ("key", np.uint64),
        ("draws", np.uint64),
    ],
    align=True,
)


@dataclass(frozen=True)
class SourceOptions:
    """How background traffic looks.

    Attributes
    ----------
    frame_bytes : int
        Length of a frame without FCS.
    burst_frames : int
        Mean length of a burst.
    peak : float
        Rate inside a burst, as a share of the host's link.
    dscp : int
        Differentiated services code point of the packets.
    """

    frame_bytes: int = 1086
    burst_frames: int = 16
    peak: float = 0.9
    dscp: int = 0

    def __post_init__(self) -> None:
        if not 60 <= self.frame_bytes <= 1514:
            raise FabricError(f"frame_bytes: {self.frame_bytes} is not in 60..1514")
        if not 0 <= self.dscp < 64:
            raise FabricError(f"dscp: {self.dscp} is not in 0..63")
        if self.burst_frames < 1 or not 0 < self.peak <= 1:
            raise FabricError(f"burst_frames: {self.burst_frames}, peak: {self.peak}: need >= 1 and 0 < peak <= 1")


@kernel
def _random(source: Any) -> Any:
    """32 random bits, as int64."""
    bits = draw(source, source.draws, 0)
    source.draws += np.uint64(1)
    return np.int64(bits >> np.uint64(32))


@kernel
def _begin_burst(source: Any) -> None:
    which = _random(source)
    thresholds = carray(pointer(source.thresholds), (source.targets,), np.uint32)
    target: Any = 0
    while target < source.targets - 1 and which >= thresholds[target]:
        target += 1
    source.target = target
    source.left = 1 + (_random(source) * (2 * source.mean_frames - 1) >> 32)


@kernel
def source_transmit(source: Any, now_ps: int, out: Any) -> Any:
    """The next frame into memory at ``out``; its length, or 0 while it is silent."""
    if now_ps < source.next_ps:
        return 0
    if source.left == 0:
        _begin_burst(source)
    copy_bytes(out, source.templates + source.target * TEMPLATE_BYTES, HEADERS)
    body = carray(pointer(out + HEADERS), (source.length - HEADERS,), np.uint8)
    body[:] = 0
    source.left -= 1
    source.next_ps = now_ps + source.gap_ps
    if source.left == 0:
        # In units of 2^-16: silences of seconds times 32 random bits would not fit 64.
        source.next_ps += (2 * source.mean_silence_ps >> 16) * (_random(source) >> 16)
    source.sent += 1
    return source.length
