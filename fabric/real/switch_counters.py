"""What a port of a real-time switch counted."""

from dataclasses import dataclass, fields
from typing import Any

from p4reduce.fabric.counters import LinkCounters
from p4reduce.fabric.real.io.records import PORT_COUNTERS


@dataclass(frozen=True, slots=True)
class PortCounters:
    """One port. Bytes are those of frames without FCS; first transmissions are INC frames without the resend flag."""

    sent: LinkCounters
    """What left: as of a link in virtual time; ``delivered`` counts what the kernel took."""
    received_frames: int
    received_bytes: int
    received_first_frames: int
    received_first_bytes: int
    received_resend_frames: int
    received_resend_bytes: int
    oversize: int
    """longer than ``max_frame``, or shorter than an Ethernet header; dropped"""
    unprogrammed: int
    """came while the switch had no program; dropped"""
    send_failures: int
    """frames that the kernel refused"""
    waits: int
    """times that the socket was full and frames waited in the queues"""
    overrun: int
    """frames that came faster than they were taken, and were dropped before they were counted"""
    queued: int = 0
    """frames that wait in its queues now"""


def read_port(port: Any, link: Any, overrun: int) -> PortCounters:
    """The counters in a port's records."""
    sent = LinkCounters(**{field.name: int(link[field.name]) for field in fields(LinkCounters)})
    return PortCounters(
        sent=sent, overrun=overrun, queued=int(link["depth"]), **{name: int(port[name]) for name in PORT_COUNTERS}
    )
