"""Frames that come in: from a packet ring or a datagram socket into the switch."""

from typing import Any, Final

import numpy as np

from p4reduce.fabric.access import byte_at, frame_at, node_at
from p4reduce.fabric.kernels.cells import frame_address, take_frame
from p4reduce.fabric.kernels.detours import process_any
from p4reduce.fabric.kernels.jit import kernel
from p4reduce.fabric.kernels.loop import has_space
from p4reduce.fabric.kernels.switches import process_bytes
from p4reduce.fabric.kernels.taps import INC_FIRST, INC_RESEND, classify, record
from p4reduce.fabric.kernels.wires import send
from p4reduce.fabric.real.io.records import BATCH, message_at, port_at, tpacket_at
from p4reduce.fabric.real.io.system import MSG_TRUNC, load_status, store_status
from p4reduce.native.libc import MSG_DONTWAIT, recvmmsg
from p4reduce.native.memory import copy_bytes, store_u8

ETHERNET_BYTES: Final = 14
_TICK_PS: Final = 1000
"""frames of one batch are a nanosecond apart"""
_OF_KERNEL: Final = np.int64(0)
_OF_USER: Final = 1
_NO_CHECKSUM: Final = 8
_VLAN: Final = 0x10
_VLAN_TPID: Final = 0x40
_MOST_WAITING: Final = 1024
"""frames of a relay that wait for a full socket"""
_DOT1Q: Final = np.int64(0x8100)
_TOO_LONG: Final = np.int64(1 << 16)
"""stands for the length of a frame of which only a part was received"""


@kernel
def enter(w: Any, m: Any, port_index: int, address: int, length: int) -> None:
    """A frame came in by a port."""
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
    """Put the VLAN tag back that the kernel took out of a frame; the frame's new address (the ring has space)."""
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

    The field holds the sum over the pseudo-header already (Linux, Documentation/networking/checksum-offloads).
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
    """One slot of a ring, which the kernel has filled."""
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
    """Take in up to BATCH frames of a packet ring; how many, or -1: there is no space for the next one."""
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
    """Take in the datagrams that were received; False: there is no space for the next one."""
    while m.pending_next < m.pending_end:
        if not has_space(w):
            return False
        place = m.pending_next
        message = message_at(m.receiving, place)
        length = np.int64(message.length)
        if message.flags & MSG_TRUNC:
            length = _TOO_LONG
        enter(w, m, m.pending_port, m.inbox + place * m.inbox_cell, length)
        m.pending_next = place + 1
    return True


@kernel
def receive_datagrams(w: Any, m: Any, port_index: int) -> int:
    """Take in up to BATCH datagrams; how many, or -1: there is no space for the next one."""
    port = port_at(m.ports, port_index)
    received = recvmmsg(port.fd, m.receiving, BATCH, MSG_DONTWAIT, 0)
    if received < BATCH:
        port.readable = 0
    if received <= 0:
        return 0
    m.pending_port = port_index
    m.pending_next = 0
    m.pending_end = received
    return received if take_pending(w, m) else -1
