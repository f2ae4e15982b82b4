"""What the loop writes down for Python: captured frames, packets for the controller, incidents."""

from typing import Any

from p4reduce.fabric.access import byte_at, cell_at, incident_at, tap_header_at
from p4reduce.fabric.kernels.jit import kernel
from p4reduce.native.memory import copy_bytes
from p4reduce.workers.kernels.frames import RESEND
from p4reduce.workers.offsets import ETHER_TYPE, FLAGS, IP, IP_DST, IP_PROTOCOL, JOB, UDP_DST, UDP_SRC
from p4reduce.workers.wire import HEADER_BYTES, INC_UDP_PORT, IP_PROTOCOL_UDP

OTHER = 0
INC_FIRST = 1
INC_RESEND = 2

_TAP_HEADER_BYTES = 24


@kernel
def record(w: Any, tap: int, time: int, address: int, length: int) -> None:
    """Write a frame down."""
    place = w.taps + w.tap_used
    header = tap_header_at(place, 0)
    header.tap = tap
    header.time = time
    header.length = length
    copy_bytes(place + _TAP_HEADER_BYTES, address, length)
    w.tap_used += _TAP_HEADER_BYTES + ((length + 7) & -8)


@kernel
def classify(address: int, length: int) -> int:
    """OTHER, INC_FIRST or INC_RESEND: INC is UDP over IPv4 without options, from or to its own port."""
    if length < HEADER_BYTES or byte_at(address, ETHER_TYPE) != 0x08 or byte_at(address, ETHER_TYPE + 1) != 0x00:
        return OTHER
    if byte_at(address, IP) != 0x45 or byte_at(address, IP_PROTOCOL) != IP_PROTOCOL_UDP:
        return OTHER
    source = byte_at(address, UDP_SRC) << 8 | byte_at(address, UDP_SRC + 1)
    target = byte_at(address, UDP_DST) << 8 | byte_at(address, UDP_DST + 1)
    if source != INC_UDP_PORT != target:
        return OTHER
    return INC_RESEND if byte_at(address, FLAGS) & RESEND else INC_FIRST


@kernel
def ip_at(address: int, place: int) -> int:
    """An IPv4 address in a frame, as a number."""
    high = byte_at(address, place) << 24 | byte_at(address, place + 1) << 16
    return high | byte_at(address, place + 2) << 8 | byte_at(address, place + 3)  # type: ignore[no-any-return]


@kernel
def next_node(w: Any, address: int) -> int:
    """The node that a frame's destination MAC address names, the next one on its way, or -1."""
    if byte_at(address, 0) != 0x02 or byte_at(address, 1) != 0x00:
        return -1
    return node_of(w, ip_at(address, 2))  # type: ignore[no-any-return]


@kernel
def destination(w: Any, address: int) -> int:
    """The node that an IPv4 frame is addressed to, or -1."""
    return node_of(w, ip_at(address, IP_DST))  # type: ignore[no-any-return]


@kernel
def node_of(w: Any, ip: int) -> int:
    """The node of an address, or -1 (docs/architecture.md, "Addresses")."""
    host = ip - 0x0A000001
    switch = ip - 0x0A800001
    if 0 <= host < w.host_count:
        return cell_at(w.hosts, host).value  # type: ignore[no-any-return]
    if 0 <= switch < w.switch_count:
        return cell_at(w.switches, switch).value  # type: ignore[no-any-return]
    return -1


@kernel
def note(w: Any, link_index: int, address: int, length: int, kind: int) -> None:
    """Note what happened to a frame at a link, if it is a first transmission of INC."""
    if classify(address, length) == INC_FIRST:
        incident = incident_at(w.incidents, w.incident_count)
        incident.link = link_index
        incident.node = destination(w, address)
        incident.job = byte_at(address, JOB) << 8 | byte_at(address, JOB + 1)
        incident.kind = kind
        incident.length = length
        w.incident_count += 1
