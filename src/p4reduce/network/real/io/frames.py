"""The real-time loop: frames from sockets through switches into sockets, without Python and without the GIL.

Events of the virtual fabric (a link is free, a frame is at its end) are processed when this machine's clock has passed
their time, with their own time as "now": a late loop catches up, and rates are held exactly.
"""

from errno import EAGAIN, ECONNREFUSED, EINTR, EINVAL, EIO, EMSGSIZE
from typing import Any, Final

import numpy as np

from p4reduce.network.virtual.kernels import entry, kernel
from p4reduce.network.virtual.kernels.events import (
    INC_FIRST,
    INC_RESEND,
    classify,
    drop_frame,
    frame_address,
    note,
    record,
    remove_first,
    take_frame,
)
from p4reduce.network.virtual.kernels.loop import first_on_wire, has_space
from p4reduce.network.virtual.kernels.nodes import come_again, process_any, process_bytes
from p4reduce.network.virtual.kernels.wires import depart, send, wake_when_free
from p4reduce.network.virtual.records import (
    ARRIVAL,
    CORRUPTED,
    ENTRY,
    EVENT_BITS,
    EVENT_KINDS,
    LATE_ARRIVAL,
    LINK_FREE,
    NEVER,
    RETURN,
    WORLD,
    byte_at,
    cell_at,
    event_at,
    frame_at,
    link_at,
    node_at,
    record_at,
)
from p4switch.base.values import NS_PER_S, PS_PER_NS
from p4switch.native.memory import (
    CONTROL,
    IOVEC,
    MESSAGE,
    MSG_DONTWAIT,
    POLLFD,
    POLLIN,
    POLLOUT,
    TIMESPEC,
    atomic_load,
    clock_ns,
    copy_bytes,
    errno,
    external,
    gather,
    gathered,
    intrinsic,
    ir,
    poll,
    recvmmsg,
    segment_bytes,
    sendmmsg,
    store_u8,
    types,
)

# Memory of the real-time loop, in addition to that of the virtual one (`network/virtual/records.py`).
#
# A world of the virtual fabric has a link for each direction between two nodes. In real time a link begins at one of
# our ports and ends in the kernel: a frame that has "arrived" at its end is handed to the port's socket. Rates, delays
# and faults of our ports are thus those of the virtual fabric's links, on the clock of this machine.


# More C library functions for compiled code (`p4switch/native/memory.py` has the rest), and memory shared with the
# kernel.
#
# Pointers are passed as int64. Every function returns the value given in its manual page.


getsockopt: Any = external("getsockopt", "int32", "int32", "int32", "int32", "int64", "int64")
"""(socket, level, option, value *, length *)"""
read: Any = external("read", "int64", "int32", "int64", "int64")
"""(file, buffer, bytes)"""
write: Any = external("write", "int64", "int32", "int64", "int64")
"""(file, buffer, bytes)"""
MSG_TRUNC: Final = 0x20
POLLERR: Final = 8
SOL_SOCKET: Final = 1
SO_ERROR: Final = 4


@intrinsic
def load_status(typingctx: Any, address: Any) -> Any:
    """Load the uint32 at an address that the kernel writes, as int64; its earlier writes are visible, too."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.IntType(32).as_pointer())
        return builder.zext(builder.load_atomic(pointer, ordering="acquire", align=4), ir.IntType(64))

    return types.int64(types.int64), generate


@intrinsic
def store_status(typingctx: Any, address: Any, value: Any) -> Any:
    """Store a uint32 that the kernel reads; earlier writes are visible to it."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.IntType(32).as_pointer())
        builder.store_atomic(builder.trunc(args[1], ir.IntType(32)), pointer, ordering="release", align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


BATCH: Final = 64
"""Frames that one system call sends, and that a ring may deliver before the next port's turn."""
MESSAGES: Final = 16
"""Messages that one system call receives, each possibly of many datagrams."""

# Reasons why the loop returned to Python.
STOPPED: Final = 0
FULL: Final = 1
"""A pool, or a buffer of records for Python, is full."""
MOVED: Final = 2
"""The memory of the world was replaced during a pause."""

RING: Final = 0
"""Kind of a packet socket that receives through a memory-mapped ring."""
DATAGRAMS: Final = 1
"""Kind of a socket whose messages are frames."""

BLOCKED: Final = 1
"""State of a port: its socket is full."""
WRITABLE: Final = 2
"""State of a port: its socket was full, and the kernel reports that it takes frames again."""

PORT_COUNTERS: Final = (
    "received_frames",
    "received_bytes",
    "received_first_frames",
    "received_first_bytes",
    "received_resend_frames",
    "received_resend_bytes",
    "oversize",  # longer than max_frame, or shorter than an Ethernet header
    "unprogrammed",  # received while the switch had no program
    "send_failures",
    "waits",  # times that the socket was full
)


def _integers(*names: str) -> "np.dtype[Any]":
    return np.dtype([(name, np.int64) for name in names], align=True)


PORT: Final = _integers(
    "fd",
    "kind",
    "node",
    "number",
    "link",  # link that leaves by it
    "relay",  # for a node that is no switch: the link by which it passes frames on
    "tap",  # capture of received frames, or NONE
    "ring",  # address, frames in it, bytes of each, index of the next one
    "ring_frames",
    "ring_bytes",
    "ring_next",
    "readable",
    "send_head",  # frames on their way into the socket, chained
    "send_tail",
    "send_count",
    "dirty",  # whether it is in the list of ports with such frames
    "blocked",  # whether the socket is full
    "wake_due",  # whether an event to wake its link was pending when it was blocked
    "refused",  # whether the latest attempt to send found no peer
    "segments",  # datagrams that its socket sends as one
    *PORT_COUNTERS,
)

MACHINE: Final = _integers(
    "ports",
    "port_count",
    "polls",  # one for each port, then one for the wake-up
    "polled",  # ports that need a system call to check: datagram sockets and blocked ones
    "dirty",  # indices of ports with frames to send
    "dirty_count",
    "sending",  # BATCH messages, their vectors and control messages
    "sending_vectors",
    "sending_controls",
    "receiving",  # MESSAGES of them and their buffers; below, those received and not yet processed
    "inbox",
    "inbox_cell",
    "pending_port",
    "pending_next",
    "pending_offset",  # processed bytes of the next one
    "pending_end",
    "time",  # address of a timespec
    "epoch_ns",  # CLOCK_MONOTONIC when the clock of the world was 0
    "control",  # address of the CONTROL words
    "rest_ns",  # how long to let frames gather after a busy time
    "wake_fd",
    "parked_fd",
    "resume_fd",
    "notice_fd",  # signalled when there is something new for the controller
    "noticed",
    "sleeps",
)

TPACKET: Final = np.dtype(
    {
        "names": ["length", "captured", "mac", "vlan", "tpid"],
        "formats": [np.uint32, np.uint32, np.uint16, np.uint16, np.uint16],
        "offsets": [4, 8, 12, 24, 26],
        "itemsize": 32,
    },
    align=True,
)
"""struct tpacket2_hdr (linux/if_packet.h) after its status word."""

# CONTROL: words that Python writes while the loop runs.
STOP: Final = 0
PAUSE: Final = 1
MOVE: Final = 2
CONTROL_WORDS: Final = 8

port_at = record_at(PORT)
tpacket_at = record_at(TPACKET)
message_at = record_at(MESSAGE)
vector_at = record_at(IOVEC)
poll_at = record_at(POLLFD)
time_at = record_at(TIMESPEC)


# Time, waiting and pauses of the loop between frames.


_LONGEST_NS: Final = 3600 * NS_PER_S
"""Longest wait without events; a wake-up ends it earlier."""
_WORD: Final = 8
_POLLFD_BYTES: Final = POLLFD.itemsize
_CONTROL_BYTES: Final = CONTROL.itemsize


@kernel
def clock_ps(m: Any) -> int:
    """Return the picoseconds since the loop's epoch."""
    return (clock_ns(m.time) - m.epoch_ns) * PS_PER_NS  # type: ignore[no-any-return]


@kernel
def asked(m: Any, word: int) -> bool:
    """Return whether Python has set a word of CONTROL."""
    return atomic_load(m.control, word) != 0  # type: ignore[no-any-return]


@kernel
def signal(fd: int, word: int) -> None:
    """Add 1 to an eventfd; ``word`` is the address of 8 bytes to use."""
    time_at(word, 0).seconds = 1
    write(fd, word, _WORD)


@kernel
def hold(m: Any) -> None:
    """Pause for as long as Python asks for it, without touching the world."""
    if asked(m, PAUSE):
        signal(m.parked_fd, m.time)
        while read(m.resume_fd, m.time, _WORD) != _WORD:
            pass  # interrupted by a signal


@kernel
def _clear_error(m: Any, fd: int) -> None:
    """Clear a socket's pending error, such as that of an interface that went down, or poll would report it again."""
    time_at(m.time, 0).seconds = 4  # bytes of an int; the value goes to the upper half of the timespec
    getsockopt(fd, SOL_SOCKET, SO_ERROR, m.time + _WORD, m.time)


@kernel
def rest(m: Any) -> None:
    """Let frames gather for a while: moving many at once costs a fraction of moving each as it comes."""
    poll(m.polls + m.port_count * _POLLFD_BYTES, 1, m.rest_ns, m.time)


@kernel
def poll_ports(w: Any, m: Any, until_ps: int) -> None:
    """Poll the ports, and wait for events until ``until_ps`` at most (0: do not wait)."""
    wait_ns = _LONGEST_NS
    if until_ps == 0:
        wait_ns = 0
    elif until_ps < NEVER:
        wait_ns = max((until_ps - w.now) // PS_PER_NS + 1, 1)
    if poll(m.polls, m.port_count + 1, wait_ns, m.time) <= 0:
        return
    for index in range(m.port_count):
        seen = poll_at(m.polls, index)
        port = port_at(m.ports, index)
        if seen.revents & POLLERR:
            _clear_error(m, port.fd)
        port.readable = 1 if seen.revents & ~POLLOUT else 0
        if port.blocked and seen.revents & ~POLLIN:
            port.blocked = WRITABLE
    if poll_at(m.polls, m.port_count).revents:
        read(m.wake_fd, m.time, _WORD)


# Sent frames: from the end of their link into the port's socket, in batches.


_NEVER: Final = np.int64(NEVER)


@kernel
def _take_sent(w: Any, port: Any) -> None:
    """Remove and free the first frame of the chain, which the kernel has taken or which is lost."""
    frame_index = port.send_head
    port.send_head = frame_at(w.frames, frame_index).next
    port.send_count -= 1
    drop_frame(w, frame_index)


@kernel
def _block(w: Any, m: Any, port_index: int) -> None:
    """Block a port whose socket is full: nothing leaves its queues until `unblock`."""
    port = port_at(m.ports, port_index)
    link = link_at(w.links, port.link)
    port.blocked = BLOCKED
    port.wake_due = link.waking
    port.waits += 1
    m.polled += 1
    poll_at(m.polls, port_index).events = POLLIN | POLLOUT
    link.free_at = _NEVER
    link.waking = 1  # wakes only by unblock, not by an event


@kernel
def unblock(w: Any, m: Any, port_index: int) -> None:
    """Unblock a port whose socket takes frames again."""
    port = port_at(m.ports, port_index)
    link = link_at(w.links, port.link)
    port.blocked = 0
    m.polled -= 1
    poll_at(m.polls, port_index).events = POLLIN
    link.free_at = w.now
    link.waking = port.wake_due
    flush(w, m, port_index)
    if port.blocked == 0 and link.backlog != 0:
        depart(w, port.link)


@kernel
def flush(w: Any, m: Any, port_index: int) -> None:
    """Send the port's frames to its socket, as many as it takes."""
    port = port_at(m.ports, port_index)
    link = link_at(w.links, port.link)
    while port.send_count > 0 and port.blocked == 0:
        count = min(port.send_count, BATCH)
        frame_index = port.send_head
        for place in range(count):
            frame = frame_at(w.frames, frame_index)
            vector = vector_at(m.sending_vectors, place)
            vector.base = frame_address(w, frame_index)
            vector.length = frame.length
            frame_index = frame.next
        messages = gather(m.sending, m.sending_vectors, m.sending_controls, count, port.segments)
        sent = sendmmsg(port.fd, m.sending, messages, MSG_DONTWAIT)
        if sent > 0:
            port.refused = 0
            frames = gathered(m.sending, sent)
            link.delivered += frames
            for _ in range(frames):
                _take_sent(w, port)
            continue
        reason = errno()
        if reason == EAGAIN:
            _block(w, m, port_index)
        elif port.segments > 1 and reason in (EINVAL, EIO, EMSGSIZE):
            port.segments = 1  # the path there takes datagrams only one by one
        elif reason == ECONNREFUSED and port.kind == DATAGRAMS and port.refused == 0:
            port.refused = 1  # that error was about an earlier frame
        elif reason != EINTR:
            port.refused = 0
            port.send_failures += 1
            _take_sent(w, port)


@kernel
def emit(w: Any, m: Any, port_index: int, frame_index: int) -> None:
    """Append a frame at the end of its port's link to the chain for the socket."""
    port = port_at(m.ports, port_index)
    frame_at(w.frames, frame_index).next = -1
    if port.send_count == 0:
        port.send_head = frame_index
    else:
        frame_at(w.frames, port.send_tail).next = frame_index
    port.send_tail = frame_index
    port.send_count += 1
    if port.dirty == 0:
        port.dirty = 1
        cell_at(m.dirty, m.dirty_count).value = port_index
        m.dirty_count += 1
    if port.send_count >= BATCH:
        flush(w, m, port_index)  # frames that the socket does not take wait in the queues


@kernel
def flush_all(w: Any, m: Any) -> None:
    """Send every port's frames to its socket."""
    for place in range(m.dirty_count):
        port_index = cell_at(m.dirty, place).value
        port_at(m.ports, port_index).dirty = 0
        flush(w, m, port_index)
    m.dirty_count = 0


# Received frames: from a packet ring or a datagram socket into the switch.


ETHERNET_BYTES: Final = 14
_TICK_PS: Final = 1000
"""Time between frames of one batch, picoseconds."""
_OF_KERNEL: Final = np.int64(0)
_OF_USER: Final = 1
_NO_CHECKSUM: Final = 8
_VLAN: Final = 0x10
_VLAN_TPID: Final = 0x40
_MOST_WAITING: Final = 1024
"""Most frames of a relay that wait for a full socket."""
_DOT1Q: Final = np.int64(0x8100)
_TOO_LONG: Final = np.int64(1 << 16)
"""Length that stands for a frame of which only a part was received."""


@kernel
def enter(w: Any, m: Any, port_index: int, address: int, length: int) -> None:
    """Process a frame received at a port."""
    port = port_at(m.ports, port_index)
    w.now += _TICK_PS
    port.received_frames += 1
    if not ETHERNET_BYTES <= length <= w.max_frame:
        port.oversize += 1
        return
    port.received_bytes += length
    traffic = classify(address, length)
    if traffic == INC_FIRST:
        port.received_first_frames += 1
        port.received_first_bytes += length
    elif traffic == INC_RESEND:
        port.received_resend_frames += 1
        port.received_resend_bytes += length
    if port.tap >= 0:
        record(w, port.tap, w.now, address, length)
    node = node_at(w.nodes, port.node)
    if node.is_switch == 0:
        onward = port_at(m.ports, port.relay)
        if onward.blocked and onward.send_count >= _MOST_WAITING:
            onward.send_failures += 1
            return
        frame_index = take_frame(w)
        copy_bytes(frame_address(w, frame_index), address, length)
        send(w, port.relay, frame_index, length)
    elif node.ingress == 0:
        port.unprogrammed += 1
    elif node.detours != 0:
        frame_index = take_frame(w)
        copy_bytes(frame_address(w, frame_index), address, length)
        frame_at(w.frames, frame_index).length = length
        process_any(w, port.node, port.number, frame_index, w.now)
    else:
        process_bytes(w, port.node, port.number, address, length, w.now)


@kernel
def _restore_tag(address: int, tci: int, tpid: int) -> int:
    """Restore the VLAN tag that the kernel removed; return the frame's new address (the ring has space)."""
    begin = address - 4
    for place in range(12):
        store_u8(begin, place, np.uint8(byte_at(address, place)))
    store_u8(begin, 12, np.uint8(tpid >> 8))
    store_u8(begin, 13, np.uint8(tpid & 255))
    store_u8(begin, 14, np.uint8(tci >> 8))
    store_u8(begin, 15, np.uint8(tci & 255))
    return begin


@kernel
def finish_checksum(address: int, length: int) -> None:
    """Complete the TCP or UDP checksum that a sender on this machine left to its interface.

    The field already holds the sum over the pseudo-header (Linux, Documentation/networking/checksum-offloads).
    """
    if length < 34 or byte_at(address, 12) != 8 or byte_at(address, 13) != 0 or byte_at(address, 14) >> 4 != 4:
        return
    begin = ETHERNET_BYTES + (byte_at(address, 14) & 15) * 4
    end = min(length, ETHERNET_BYTES + (byte_at(address, 16) << 8 | byte_at(address, 17)))
    protocol = byte_at(address, 23)
    if protocol == 6:
        field = begin + 16
    elif protocol == 17:
        field = begin + 6
    else:
        return
    if field + 2 > end:
        return
    total = np.int64(0)
    for place in range(begin, end - 1, 2):
        total += byte_at(address, place) << 8 | byte_at(address, place + 1)
    if (end - begin) & 1:
        total += byte_at(address, end - 1) << 8
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    total = ~total & 0xFFFF
    if total == 0 and protocol == 17:
        total = np.int64(0xFFFF)
    store_u8(address, field, np.uint8(total >> 8))
    store_u8(address, field + 1, np.uint8(total & 255))


@kernel
def _from_ring(w: Any, m: Any, port_index: int, status: int, header: int) -> None:
    """Process one slot of a ring, which the kernel has filled."""
    packet = tpacket_at(header, 0)
    length = np.int64(packet.captured)
    address = header + np.int64(packet.mac)
    if np.int64(packet.length) > length:
        length = _TOO_LONG
    elif status & _VLAN and length >= ETHERNET_BYTES:
        tpid = np.int64(packet.tpid) if status & _VLAN_TPID else _DOT1Q
        address = _restore_tag(address, np.int64(packet.vlan), tpid)
        length += 4
    elif status & _NO_CHECKSUM:
        finish_checksum(address, length)
    enter(w, m, port_index, address, length)


@kernel
def receive_ring(w: Any, m: Any, port_index: int) -> int:
    """Process up to BATCH frames of a packet ring; return how many, or -1 if there is no space for the next one."""
    port = port_at(m.ports, port_index)
    count = 0
    while count < BATCH:
        header = port.ring + port.ring_next * port.ring_bytes
        status = load_status(header)
        if status & _OF_USER == 0:
            break
        if not has_space(w):
            return -1
        _from_ring(w, m, port_index, status, header)
        store_status(header, _OF_KERNEL)
        port.ring_next = port.ring_next + 1 if port.ring_next + 1 < port.ring_frames else 0
        count += 1
    return count


@kernel
def take_pending(w: Any, m: Any) -> bool:
    """Process the received datagrams; return False if there is no space for the next one."""
    while m.pending_next < m.pending_end:
        place = m.pending_next
        message = message_at(m.receiving, place)
        total = np.int64(message.length)
        each = segment_bytes(message)
        while True:
            if not has_space(w):
                return False
            length = min(each, total - m.pending_offset)
            address = m.inbox + place * m.inbox_cell + m.pending_offset
            m.pending_offset += length
            enter(w, m, m.pending_port, address, _TOO_LONG if message.flags & MSG_TRUNC else length)
            if m.pending_offset >= total:
                break
        message.control_length = _CONTROL_BYTES
        m.pending_offset = 0
        m.pending_next = place + 1
        if not run_due(w, m):
            return False
    return True


@kernel
def receive_datagrams(w: Any, m: Any, port_index: int) -> int:
    """Receive and process up to MESSAGES messages; return how many, or -1 if there is no space for a datagram."""
    port = port_at(m.ports, port_index)
    received = recvmmsg(port.fd, m.receiving, MESSAGES, MSG_DONTWAIT, 0)
    if received < MESSAGES:
        port.readable = 0
    if received <= 0:
        return 0
    m.pending_port = port_index
    m.pending_next = 0
    m.pending_end = received
    return received if take_pending(w, m) else -1


_NOW: Final = np.int64(0)


@kernel
def _leave(w: Any, m: Any, frame_index: int) -> None:
    """Pass a frame at the end of its link to its port's socket, unless it was damaged."""
    frame = frame_at(w.frames, frame_index)
    link = link_at(w.links, frame.link)
    if frame.damaged != 0:
        link.corrupted += 1
        note(w, frame.link, frame_address(w, frame_index), frame.length, CORRUPTED)
        drop_frame(w, frame_index)
    else:
        emit(w, m, link.target_port, frame_index)


@kernel
def _link_free(w: Any, m: Any, link_index: int) -> None:
    link = link_at(w.links, link_index)
    port = port_at(m.ports, link.target_port)
    if port.blocked:
        port.wake_due = 0
        return
    link.waking = 0
    if w.now >= link.free_at:
        depart(w, link_index)
    elif link.backlog != 0:
        wake_when_free(w, link_index)


@kernel
def run_due(w: Any, m: Any) -> bool:
    """Process all events that are due; return False if there is no space for one."""
    wall = w.now
    while w.heap_size > 0:
        event = event_at(w.heap, 0)
        if event.time > wall:
            break
        if not has_space(w):
            return False
        w.now = event.time
        kind = event.what & (EVENT_KINDS - 1)
        index = event.what >> EVENT_BITS
        if kind == ARRIVAL:
            _leave(w, m, first_on_wire(w, index))
            continue
        remove_first(w)
        if kind == LATE_ARRIVAL:
            _leave(w, m, index)
        elif kind == LINK_FREE:
            _link_free(w, m, index)
        elif kind == ENTRY:
            frame = frame_at(w.frames, index)
            process_any(w, frame.node, frame.port, index, w.now)
        elif kind == RETURN:
            come_again(w, index)
    w.now = wall
    return True


@kernel
def _receive(w: Any, m: Any) -> int:
    """Give every port its turn; return how many frames or messages came in, or -1 if there is no space."""
    total = 0
    for index in range(m.port_count):
        port = port_at(m.ports, index)
        if port.blocked == WRITABLE:
            unblock(w, m, index)
        count = 0
        if port.kind == RING:
            count = receive_ring(w, m, index)
        elif port.readable:
            count = receive_datagrams(w, m, index)
        if count < 0:
            return -1
        if count > 0:
            total += count
            if not run_due(w, m):
                return -1
    return total


@entry(WORLD, MACHINE)
def drive(worlds: Any, machines: Any) -> int:
    """Carry frames until there is a reason to return to Python; return STOPPED, FULL or MOVED."""
    w = worlds[0]
    m = machines[0]
    busy = False
    while True:
        hold(m)
        if asked(m, STOP):
            return STOPPED
        if asked(m, MOVE):
            return MOVED
        w.now = max(w.now, clock_ps(m))
        if not take_pending(w, m) or not run_due(w, m):
            return FULL
        count = _receive(w, m)
        if count < 0:
            return FULL
        flush_all(w, m)
        if w.tap_used > m.noticed:
            m.noticed = w.tap_used
            signal(m.notice_fd, m.time)
        if count > 0:
            busy = True
            if m.polled > 0:
                poll_ports(w, m, _NOW)
        elif busy and m.rest_ns > 0:
            busy = False
            rest(m)
            if m.polled > 0:
                poll_ports(w, m, _NOW)
        else:
            m.sleeps += 1
            poll_ports(w, m, event_at(w.heap, 0).time if w.heap_size > 0 else _NEVER)
