"""A switch's output port: eight finite queues in strict priority, and egress for the frame that leaves.

As in BMv2's simple_switch: the higher number leaves first, a priority that has no queue drops, each queue holds
``capacity`` frames and drops those that come when it is full (tail drop), and egress runs when a copy leaves its queue.
Unlike there, the depths that egress is told are those of the copy's own queue, not of all queues of the port: by them
the program marks congestion, and a class is not to be slowed down for what waits behind it.
"""

from typing import Any, Final

import numpy as np

from p4reduce.base.units import PS_PER_US
from p4reduce.dataplane.abi import CPU_PORT
from p4reduce.fabric.access import copy_at, frame_at, link_at, node_at, phv_at, queue_at
from p4reduce.fabric.kernels.cells import drop_copy, drop_frame, drop_phv, frame_address, take_copy, take_frame
from p4reduce.fabric.kernels.egress import RECIRCULATED, describe, peek_egress, run_egress
from p4reduce.fabric.kernels.gates import open_queues, wake_at_gate
from p4reduce.fabric.kernels.jit import kernel
from p4reduce.fabric.kernels.taps import note, record
from p4reduce.fabric.kernels.wires import send, wake_when_free
from p4reduce.fabric.records import CONTROLLER_TAP, PRIORITIES, QUEUE_DROPPED

_CPU_PORT: Final = np.int64(CPU_PORT)
_EMPTY: Final = np.int64(0)


@kernel
def _note_tail_drop(w: Any, link_index: int, phv_index: int, rid: int, instance: int, depth: int) -> None:
    """Count a copy that found its queue full.

    What it would have been, only egress can say: it runs on a state whose counters and registers nobody reads.
    """
    link = link_at(w.links, link_index)
    node = node_at(w.nodes, link.source)
    link.queue_drops += 1
    if node.peek_state == 0:
        link.unattributed += 1
        return
    describe(w, link.source_port, rid, instance, w.now // PS_PER_US, depth, depth)
    frame_index = take_frame(w)
    length = peek_egress(w, link.source, phv_index, frame_index)
    note(w, link_index, frame_address(w, frame_index), length, QUEUE_DROPPED)
    drop_frame(w, frame_index)


@kernel
def _append(w: Any, link_index: int, priority: int, copy_index: int) -> None:
    link = link_at(w.links, link_index)
    queue = queue_at(w.queues, link_index * PRIORITIES + priority)
    if queue.depth == 0:
        queue.head = copy_index
        link.backlog |= 1 << priority
    else:
        copy_at(w.copies, queue.tail).next = copy_index
    queue.tail = copy_index
    queue.depth += 1
    link.depth += 1


@kernel
def _take_highest(w: Any, link_index: int, ready: int) -> int:
    """Take the first copy of the highest of some queues (bits), each of which has one; in ``depth``, what stays."""
    link = link_at(w.links, link_index)
    priority = PRIORITIES - 1
    while (ready >> priority) == 0:
        priority -= 1
    queue = queue_at(w.queues, link_index * PRIORITIES + priority)
    copy_index = queue.head
    queue.head = copy_at(w.copies, copy_index).next
    queue.depth -= 1
    if queue.depth == 0:
        link.backlog ^= 1 << priority
    link.depth -= 1
    copy_at(w.copies, copy_index).depth = queue.depth
    return copy_index  # type: ignore[no-any-return]


@kernel
def depart(w: Any, link_index: int) -> None:
    """The link is free: send the next copy that egress does not drop.

    Of programs that clone or recirculate, one copy has its turn in an event, whatever becomes of it (`memory.py`).
    """
    link = link_at(w.links, link_index)
    detours = node_at(w.nodes, link.source).detours
    while link.backlog != 0:
        ready = link.backlog
        if link.gates != 0:
            ready &= open_queues(w, link_index, w.now)
            if ready == 0:
                wake_at_gate(w, link_index)
                return
        copy_index = _take_highest(w, link_index, ready)
        copy = copy_at(w.copies, copy_index)
        describe(w, link.source_port, copy.rid, copy.instance, copy.enqueued_us, copy.enqueued_depth, copy.depth)
        frame_index = take_frame(w)
        length = run_egress(w, link.source, copy.phv, frame_index)
        drop_phv(w, copy.phv)
        towards = copy.towards
        drop_copy(w, copy_index)
        if length >= 0:
            frame_at(w.frames, frame_index).port = towards
            send(w, link_index, frame_index, length)
            break
        if length != RECIRCULATED:
            link.egress_drops += 1
            drop_frame(w, frame_index)
        if detours != 0:
            break
    if link.backlog != 0:
        wake_when_free(w, link_index)


@kernel
def enqueue(w: Any, link_index: int, phv_index: int, rid: int, instance: int, priority: int) -> None:
    """Put a copy of a packet into an output queue; it leaves at once if the link is free."""
    link = link_at(w.links, link_index)
    if priority >= PRIORITIES:
        node_at(w.nodes, link.source).priority_drops += 1
        return
    depth = queue_at(w.queues, link_index * PRIORITIES + priority).depth
    if depth >= link.capacity:
        _note_tail_drop(w, link_index, phv_index, rid, instance, depth)
        return
    copy_index = take_copy(w)
    copy = copy_at(w.copies, copy_index)
    copy.phv = phv_index
    copy.rid = rid
    copy.instance = instance
    copy.enqueued_us = w.now // PS_PER_US
    copy.enqueued_depth = depth
    copy.towards = link.towards
    phv_at(w.phvs, phv_index).references += 1
    _append(w, link_index, priority, copy_index)
    if w.now >= link.free_at:
        depart(w, link_index)
    else:
        wake_when_free(w, link_index)
    link.max_depth = max(link.max_depth, link.depth)


@kernel
def to_controller(w: Any, node_index: int, phv_index: int, rid: int, instance: int) -> None:
    """A copy for the controller's port: no queue, no link."""
    describe(w, _CPU_PORT, rid, instance, w.now // PS_PER_US, _EMPTY, _EMPTY)
    frame_index = take_frame(w)
    length = run_egress(w, node_index, phv_index, frame_index)
    if length >= 0:
        node_at(w.nodes, node_index).packet_ins += 1
        record(w, CONTROLLER_TAP - node_index, w.now, frame_address(w, frame_index), length)
    if length != RECIRCULATED:
        drop_frame(w, frame_index)


@kernel
def to_nowhere(w: Any, node_index: int, phv_index: int, port: int, rid: int, instance: int, priority: int) -> None:
    """A copy for a port without a link, of a program that may clone or recirculate it: egress runs at once."""
    node = node_at(w.nodes, node_index)
    if priority >= PRIORITIES:
        node.priority_drops += 1
        return
    describe(w, port, rid, instance, w.now // PS_PER_US, _EMPTY, _EMPTY)
    frame_index = take_frame(w)
    if run_egress(w, node_index, phv_index, frame_index) != RECIRCULATED:
        node.no_link_drops += 1
        drop_frame(w, frame_index)
