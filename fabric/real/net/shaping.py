"""Links shaped to their rate by the kernel's token bucket (tbf, tc-tbf(8)) at the sending interface.

A frame is charged as in virtual time: 24 bytes of preamble, frame check sequence and gap on top, and at least 84. The
bucket holds 5 ms, so that a late timer of a busy machine costs no rate (with 1 ms, a tenth of it was lost). Delays are
not the kernel's: netem is not part of every kernel, so our own ports and relays delay frames, in the same way on all
of them.
"""

import errno
from dataclasses import dataclass
from typing import Any, Final

from pyroute2.netlink import NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl import RTM_NEWQDISC, TC_H_ROOT
from pyroute2.netlink.rtnl.tcmsg import tcmsg

from p4reduce.fabric.real.errors import RealError
from p4reduce.fabric.real.net.interfaces import MTU

KIND: Final = "tbf"
OVERHEAD_BYTES: Final = 24
LEAST_BYTES: Final = 84
MAX_RATE_BPS: Final = 8 * (2**32 - 1)
"""A faster link needs no bucket: software does not reach 34 Gb/s on a veth pair."""
_FRAME_BYTES: Final = MTU + 14
_BUCKET_NS: Final = 5_000_000
_LINKLAYER_ETHERNET: Final = 1
_TICK_SHIFT: Final = 6
"""The kernel counts a bucket in units of 64 ns."""


@dataclass(frozen=True)
class Shaping:
    """What the kernel does to the frames on the links of a network."""

    shaped: int
    """directions of links that are held to their rate"""
    unshaped: int
    """directions that are not: not asked for, or faster than :data:`MAX_RATE_BPS`"""
    delays: bool = False
    """Whether the kernel delays frames; never, see above."""


def shape(route: Any, index: int, rate_bps: int, queue_frames: int) -> bool:
    """Hold what an interface sends to ``rate_bps``, with a queue for ``queue_frames`` full frames.

    Returns whether a bucket was needed. Raises :class:`RealError` when the kernel has none.
    """
    if rate_bps > MAX_RATE_BPS:
        return False
    bucket_ns = max(_BUCKET_NS, 2 * (_FRAME_BYTES + OVERHEAD_BYTES) * 8 * 10**9 // rate_bps)
    parameters = {
        "rate_cell_log": 0,
        "rate___reserved": _LINKLAYER_ETHERNET,  # tells the kernel to reckon itself, without a table
        "rate_overhead": OVERHEAD_BYTES,
        "rate_mpu": LEAST_BYTES,
        "rate": max(1, rate_bps // 8),
        "limit": min(queue_frames * _FRAME_BYTES, 2**32 - 1),
        "buffer": bucket_ns >> _TICK_SHIFT,
    }
    message = tcmsg()
    message["index"] = index
    message["parent"] = TC_H_ROOT
    message["handle"] = 0x10000
    message["attrs"] = [
        ("TCA_KIND", KIND),
        ("TCA_OPTIONS", {"attrs": [("TCA_TBF_PARMS", parameters)]}),
    ]
    try:
        # route.tc() leaves out overhead and mpu, so the message is built here.
        route.status["nlm_generator"] = False  # which pyroute2 0.9 looks for and does not set
        route.nlm_request(message, RTM_NEWQDISC, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL)
    except NetlinkError as error:
        if error.code == errno.ENOENT:
            raise RealError("the kernel cannot shape links: 'modprobe sch_tbf' (as root), or run unshaped") from error
        raise
    return True
