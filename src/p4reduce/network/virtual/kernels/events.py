"""Event heaps, ordered by (time, time of scheduling, sequence number), with random draws, pools and records."""

from typing import Any, Final

import numpy as np

from p4reduce.network.virtual.kernels import kernel
from p4reduce.network.virtual.records import (
    CACHE_LINE,
    HOME_BIT,
    TAP_HEADER,
    byte_at,
    cell_at,
    copy_at,
    event_at,
    frame_at,
    incident_at,
    part_at,
    phv_at,
    prefetch,
    tap_header_at,
)
from p4reduce.workers.kernels.frames import RESEND
from p4reduce.workers.wire import (
    ETHER_TYPE,
    FLAGS,
    HEADER_BYTES,
    INC_UDP_PORT,
    IP,
    IP_DST,
    IP_PROTOCOL,
    IP_PROTOCOL_UDP,
    JOB,
    UDP_DST,
    UDP_SRC,
)
from p4switch.native.memory import copy_bytes

# Counter-based random numbers: a draw depends only on (seed, link, frame number, purpose).
#
# SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014) addressed by
# counter: the n-th number of the stream with key k is mix(k + n * gamma).


# All operands are uint64: Numba promotes uint64 with int64 to float.
_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_A: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B: Final = np.uint64(0x94D049BB133111EB)
_S30: Final = np.uint64(30)
_S27: Final = np.uint64(27)
_S31: Final = np.uint64(31)
_S11: Final = np.uint64(11)
_PURPOSES: Final = np.uint64(16)
_MASK: Final = (1 << 64) - 1

PROBABILITY_BITS: Final = 53


@kernel
def draw(link: Any, number: Any, purpose: int) -> Any:
    """Return 64 random bits for one purpose of one frame of a link."""
    z = link.key + (number * _PURPOSES + np.uint64(purpose)) * _GAMMA
    z = (z ^ (z >> _S30)) * _MIX_A
    z = (z ^ (z >> _S27)) * _MIX_B
    return z ^ (z >> _S31)


@kernel
def happens(link: Any, number: Any, purpose: int, threshold: Any) -> bool:
    """Return whether an event of probability threshold / 2^53 occurs."""
    return (draw(link, number, purpose) >> _S11) < threshold  # type: ignore[no-any-return]


def threshold(probability: float) -> int:
    """Return a probability as a whole number of 2^-53."""
    return int(probability * (1 << PROBABILITY_BITS))


def link_key(seed: int, link: int) -> int:
    """Return the key of a link's stream: two rounds of SplitMix64's mixer, over the seed and over the link's number."""
    return _mix(_mix(seed + int(_GAMMA)) + (link + 1) * int(_GAMMA))


def _mix(z: int) -> int:
    z &= _MASK
    z = (z ^ (z >> 30)) * int(_MIX_A) & _MASK
    z = (z ^ (z >> 27)) * int(_MIX_B) & _MASK
    return z ^ (z >> 31)


# Allocation of cells from the pools. The loop ensures that there are enough (`loop.py`).


@kernel
def take_frame(w: Any) -> int:
    """Allocate the frame cell that was freed last, because it is still in the processor's cache."""
    index = w.free_frame
    frame = frame_at(w.frames, index)
    w.free_frame = frame.next
    w.free_frames -= 1
    frame.next = -1
    frame.damaged = 0
    return index  # type: ignore[no-any-return]


@kernel
def drop_frame(w: Any, index: int) -> None:
    """Free a frame's cell."""
    frame_at(w.frames, index).next = w.free_frame
    w.free_frame = index
    w.free_frames += 1


@kernel
def frame_address(w: Any, index: int) -> int:
    """Return the address of a frame's bytes."""
    return w.frame_bytes + index * w.frame_cell  # type: ignore[no-any-return]


@kernel
def prefetch_frame(w: Any, index: int) -> None:
    """Prefetch a frame that arrives soon; with many links this halves the cost of an event."""
    address = frame_address(w, index)
    for line in range(0, frame_at(w.frames, index).length, CACHE_LINE):
        prefetch(address + line)


@kernel
def take_phv(w: Any) -> int:
    """Allocate a cell for the data between ingress and egress, with one reference."""
    index = w.free_phv
    phv = phv_at(w.phvs, index)
    w.free_phv = phv.next
    w.free_phvs -= 1
    phv.references = 1
    return index  # type: ignore[no-any-return]


@kernel
def drop_phv(w: Any, index: int) -> None:
    """Drop one reference, and free the cell with the last one."""
    phv = phv_at(w.phvs, index)
    phv.references -= 1
    if phv.references == 0:
        phv.next = w.free_phv
        w.free_phv = index
        w.free_phvs += 1


@kernel
def phv_address(w: Any, index: int) -> int:
    """Return the address of a PHV's bytes."""
    return w.phv_bytes + index * w.phv_cell  # type: ignore[no-any-return]


@kernel
def take_copy(w: Any) -> int:
    """Allocate a place in a queue."""
    index = w.free_copy
    copy = copy_at(w.copies, index)
    w.free_copy = copy.next
    w.free_copies -= 1
    copy.next = -1
    return index  # type: ignore[no-any-return]


@kernel
def drop_copy(w: Any, index: int) -> None:
    """Free a place in a queue."""
    copy_at(w.copies, index).next = w.free_copy
    w.free_copy = index
    w.free_copies += 1


# Each partition of a network counts the events that it schedules. Events of one time are ordered by the time at which
# they were scheduled, then by partition and count. So their order depends neither on the number of heaps nor on the
# order of the partitions' turns (`loop.py`).


@kernel
def next_seq(w: Any) -> int:
    """Return a new sequence number of the partition whose event is being processed."""
    part = part_at(w.parts, w.scope)
    part.seq += 1
    return part.seq  # type: ignore[no-any-return]


@kernel
def _before(event: Any, time: int, since: int, seq: int) -> bool:
    if event.time != time:
        return event.time < time  # type: ignore[no-any-return]
    return event.since < since or (event.since == since and event.seq < seq)  # type: ignore[no-any-return]


@kernel
def _copy(heap: int, hole: int, event: Any) -> None:
    place = event_at(heap, hole)
    place.time = event.time
    place.since = event.since
    place.seq = event.seq
    place.what = event.what


@kernel
def _rise(heap: int, size: int, time: int, since: int, seq: int, what: int) -> None:
    """Add an event to a heap of ``size`` others."""
    hole = size
    while hole > 0:
        above = event_at(heap, (hole - 1) >> 1)
        if _before(above, time, since, seq):
            break
        _copy(heap, hole, above)
        hole = (hole - 1) >> 1
    place = event_at(heap, hole)
    place.time = time
    place.since = since
    place.seq = seq
    place.what = what


@kernel
def push(w: Any, time: int, since: int, seq: int, what: int) -> None:
    """Add an event with a given sequence number and partition to the heap in use."""
    size = w.heap_size
    w.heap_size = size + 1
    _rise(w.heap, size, time, since, seq, what)


@kernel
def push_to(w: Any, home: int, time: int, since: int, seq: int, what: int) -> None:
    """Add an event to the heap of partition ``home``. In a window, an event of another partition lies after its end."""
    if w.heaps == 1 or w.part == home:
        push(w, time, since, seq, what)
    else:
        push_elsewhere(w, home, time, since, seq, what)


@kernel
def push_elsewhere(w: Any, home: int, time: int, since: int, seq: int, what: int) -> None:
    """Add an event to a heap that is not in use, or to the homeless events if the heap is full."""
    part = part_at(w.parts, home)
    size = part.heap_size
    if size == part.heap_capacity:
        _rise(w.homeless, w.homeless_count, time, since, seq, what)
        w.homeless_count += 1
        return
    part.heap_size = size + 1
    _rise(part.heap, size, time, since, seq, what)
    first = cell_at(w.firsts, home)
    first.value = min(first.value, time)


@kernel
def schedule(w: Any, time: int, what: int) -> None:
    """Add an event of the same partition, after all others that it scheduled for that time."""
    push(w, time, w.now, next_seq(w), what + (w.scope << HOME_BIT))


@kernel
def replace_first(w: Any, time: int, since: int, seq: int, what: int) -> None:
    """Replace the first event by another one, with one walk down the heap instead of two."""
    size = w.heap_size
    heap = w.heap
    hole = 0
    child = 1
    while child < size:
        below = event_at(heap, child)
        if child + 1 < size:
            right = event_at(heap, child + 1)
            if _before(right, below.time, below.since, below.seq):
                child += 1
                below = right
        if not _before(below, time, since, seq):
            break
        _copy(heap, hole, below)
        hole = child
        child = 2 * hole + 1
    place = event_at(heap, hole)
    place.time = time
    place.since = since
    place.seq = seq
    place.what = what


@kernel
def remove_first(w: Any) -> None:
    """Remove the first event."""
    w.heap_size -= 1
    last = event_at(w.heap, w.heap_size)
    if w.heap_size > 0:
        replace_first(w, last.time, last.since, last.seq, last.what)


# Records of the loop for Python: captured frames, packets for the controller, incidents.


OTHER = 0
INC_FIRST = 1
INC_RESEND = 2

_TAP_HEADER_BYTES = TAP_HEADER.itemsize


@kernel
def record(w: Any, tap: int, time: int, address: int, length: int) -> None:
    """Record a frame for a tap."""
    place = w.taps + w.tap_used
    header = tap_header_at(place, 0)
    header.tap = tap
    header.time = time
    header.length = length
    header.opened = w.opened
    copy_bytes(place + _TAP_HEADER_BYTES, address, length)
    w.tap_used += _TAP_HEADER_BYTES + ((length + 7) & -8)


@kernel
def classify(address: int, length: int) -> int:
    """Return OTHER, INC_FIRST or INC_RESEND: INC is UDP over IPv4 without options, from or to its own port."""
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
    """Return the IPv4 address at an offset of a frame, as a number."""
    high = byte_at(address, place) << 24 | byte_at(address, place + 1) << 16
    return high | byte_at(address, place + 2) << 8 | byte_at(address, place + 3)  # type: ignore[no-any-return]


@kernel
def next_node(w: Any, address: int) -> int:
    """Return the node that a frame's destination MAC address names, the next one on its path, or -1."""
    if byte_at(address, 0) != 0x02 or byte_at(address, 1) != 0x00:
        return -1
    return node_of(w, ip_at(address, 2))  # type: ignore[no-any-return]


@kernel
def destination(w: Any, address: int) -> int:
    """Return the node that an IPv4 frame is addressed to, or -1."""
    return node_of(w, ip_at(address, IP_DST))  # type: ignore[no-any-return]


@kernel
def node_of(w: Any, ip: int) -> int:
    """Return the node of an IPv4 address, or -1 (docs/architecture.md, "Addresses")."""
    host = ip - 0x0A000001
    switch = ip - 0x0A800001
    if 0 <= host < w.host_count:
        return cell_at(w.hosts, host).value  # type: ignore[no-any-return]
    if 0 <= switch < w.switch_count:
        return cell_at(w.switches, switch).value  # type: ignore[no-any-return]
    return -1


@kernel
def note(w: Any, link_index: int, address: int, length: int, kind: int) -> None:
    """Record an incident of a frame at a link, if the frame is a first transmission of INC."""
    if classify(address, length) == INC_FIRST:
        incident = incident_at(w.incidents, w.incident_count)
        incident.link = link_index
        incident.node = destination(w, address)
        incident.job = byte_at(address, JOB) << 8 | byte_at(address, JOB + 1)
        incident.kind = kind
        incident.length = length
        w.incident_count += 1
