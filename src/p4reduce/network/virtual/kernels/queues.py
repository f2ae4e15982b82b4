"""A switch's output port: eight finite queues in strict priority, and egress for the frame that leaves.

As in BMv2's simple_switch: the higher number leaves first, a priority that has no queue drops, each queue holds
``capacity`` frames and drops those that come when it is full (tail drop), and egress runs when a copy leaves its queue.
Unlike there, the depths that egress is told are those of the copy's own queue, not of all queues of the port: by them
the program marks congestion, and a class is not to be slowed down for what waits behind it.
"""

from typing import Any, Final

import numpy as np

from p4reduce.network.virtual.kernels.events import (
    drop_copy,
    drop_frame,
    drop_phv,
    frame_address,
    note,
    phv_address,
    record,
    schedule,
    take_copy,
    take_frame,
    take_phv,
)
from p4reduce.network.virtual.kernels.jit import kernel
from p4reduce.network.virtual.kernels.wires import open_queues, send, wake_at_gate, wake_when_free
from p4reduce.network.virtual.records import (
    CONTROLLER_TAP,
    EVENT_KINDS,
    PRIORITIES,
    QUEUE_DROPPED,
    RETURN,
    call4,
    cell_at,
    copy_at,
    frame_at,
    io_at,
    link_at,
    node_at,
    pair_at,
    phv_at,
    queue_at,
    session_at,
)
from p4switch.abi import (
    CLONE_VALID,
    CPU_PORT,
    INSTANCE_EGRESS_CLONE,
    INSTANCE_RECIRCULATED,
    INSTANCE_REPLICATION,
)
from p4switch.base.units import PS_PER_US

# Egress for one copy of a packet, and what leaves the straight path there: clones, recirculated frames.


RECIRCULATED: Final = -2
"""instead of a length: the frame's cell is on its way back to ingress"""
MAX_ROUNDS: Final = 256
"""How often a packet and its copies may come back to ingress or be cloned by egress; BMv2 knows no bound, but there
time passes meanwhile."""
_CLONE: Final = np.int64(INSTANCE_EGRESS_CLONE)
_RECIRCULATED_TYPE: Final = np.int64(INSTANCE_RECIRCULATED)


@kernel
def describe(w: Any, port: int, rid: int, instance: int, enqueued_us: int, enqueued_depth: int, depth: int) -> None:
    """Tell egress of the copy that leaves now."""
    io = io_at(w.io, 0)
    now_us = w.now // PS_PER_US
    io.eg_port = port
    io.eg_rid = rid
    io.eg_instance = instance
    io.eg_enq_time_us = enqueued_us
    io.eg_enq_qdepth = enqueued_depth
    io.eg_deq_timedelta_us = now_us - enqueued_us
    io.eg_deq_qdepth = depth
    io.eg_time_us = now_us


@kernel
def come_back(w: Any, node_index: int, frame_index: int, instance: int, field_list: int, rounds: int) -> None:
    """Have a frame enter ingress again, after the pipeline's delay; it is lost where it has gone round too often."""
    node = node_at(w.nodes, node_index)
    if rounds > MAX_ROUNDS:
        node.round_drops += 1
        drop_frame(w, frame_index)
        return
    frame = frame_at(w.frames, frame_index)
    frame.node = node_index
    frame.link = instance + 8 * field_list
    frame.seq = rounds
    schedule(w, w.now + node.delay_ps, frame_index * EVENT_KINDS + RETURN)


@kernel
def _clone(w: Any, node_index: int, session: int, priority: int, clone_index: int, rounds: int) -> None:
    """A packet that egress has cloned: into its session's queues, as an event of its own, which a frame carries."""
    node = node_at(w.nodes, node_index)
    if rounds > MAX_ROUNDS:
        node.round_drops += 1
        drop_phv(w, clone_index)
        return
    phv_at(w.phvs, clone_index).rounds = rounds
    carrier = take_frame(w)
    frame = frame_at(w.frames, carrier)
    frame.node = node_index
    frame.link = _CLONE + 8 * priority
    frame.seq = clone_index
    frame.port = session
    schedule(w, w.now, carrier * EVENT_KINDS + RETURN)


@kernel
def _run_with_detours(w: Any, node_index: int, phv_index: int, frame_index: int) -> int:
    node = node_at(w.nodes, node_index)
    io = io_at(w.io, 0)
    clone_index = take_phv(w)
    rounds = phv_at(w.phvs, phv_index).rounds + 1
    address = frame_address(w, frame_index)
    io.kept_address = address + w.kept_offset
    io.clone_address = phv_address(w, clone_index)
    length = call4(node.egress, node.state, phv_address(w, phv_index), w.io, address)
    if length > w.max_frame:
        node.oversize_drops += 1
        length = -1
    if io.eg_out_clone != 0:
        _clone(w, node_index, io.eg_out_clone & ~CLONE_VALID, io.eg_out_clone_priority, clone_index, rounds)
    else:
        drop_phv(w, clone_index)
    if length >= 0 and io.eg_out_recirculate != 0:
        frame = frame_at(w.frames, frame_index)
        frame.length = length
        frame.port = 0  # which the program does not see: its metadata are gone but for the field list
        node.recirculated += 1
        come_back(w, node_index, frame_index, _RECIRCULATED_TYPE, io.eg_out_recirculate, rounds)
        return RECIRCULATED
    return length  # type: ignore[no-any-return]


@kernel
def run_egress(w: Any, node_index: int, phv_index: int, frame_index: int) -> int:
    """Run egress into a frame's cell; the frame's length, -1: dropped, or RECIRCULATED."""
    node = node_at(w.nodes, node_index)
    if node.detours != 0:
        return _run_with_detours(w, node_index, phv_index, frame_index)  # type: ignore[no-any-return]
    length = call4(node.egress, node.state, phv_address(w, phv_index), w.io, frame_address(w, frame_index))
    if length > w.max_frame:
        node.oversize_drops += 1
        return -1
    return length  # type: ignore[no-any-return]


@kernel
def peek_egress(w: Any, node_index: int, phv_index: int, frame_index: int) -> int:
    """Run egress on a state whose counters and registers nobody reads; the frame's length, -1: dropped."""
    node = node_at(w.nodes, node_index)
    address = frame_address(w, frame_index)
    if node.detours == 0:
        return call4(node.egress, node.peek_state, phv_address(w, phv_index), w.io, address)  # type: ignore[no-any-return]
    io = io_at(w.io, 0)
    clone_index = take_phv(w)
    io.kept_address = address + w.kept_offset
    io.clone_address = phv_address(w, clone_index)
    length = call4(node.egress, node.peek_state, phv_address(w, phv_index), w.io, address)
    drop_phv(w, clone_index)
    return length  # type: ignore[no-any-return]


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


# Copies of a packet to a switch's ports: one, those of a multicast group, those of a clone session.


NO_RID: Final = np.int64(0)
_REPLICATION: Final = np.int64(INSTANCE_REPLICATION)


@kernel
def output(w: Any, node_index: int, phv_index: int, port: int, rid: int, instance: int, priority: int) -> None:
    """One copy, to the queue of its port, or to the controller."""
    node = node_at(w.nodes, node_index)
    node.copies += 1
    if port == CPU_PORT:
        to_controller(w, node_index, phv_index, rid, instance)
        return
    link_index = -1
    if port < node.ports:
        link_index = cell_at(w.ports, node.first_port + port).value
    if link_index >= 0:
        enqueue(w, link_index, phv_index, rid, instance, priority)
    elif node.detours != 0:
        to_nowhere(w, node_index, phv_index, port, rid, instance, priority)
    else:
        node.no_link_drops += 1


@kernel
def _copies(
    w: Any, node_index: int, phv_index: int, groups: int, replicas: int, group: int, instance: int, priority: int
) -> int:
    """A copy for each replica of a group of these tables; the rid of the last one, or 0."""
    members = pair_at(groups, group)
    first = members.first
    count = members.second
    rid: Any = NO_RID
    if count > w.max_replicas:
        node_at(w.nodes, node_index).replica_drops += count
        return rid  # type: ignore[no-any-return]
    for place in range(first, first + count):
        replica = pair_at(replicas, place)
        port = np.int64(replica.first)
        rid = np.int64(replica.second)
        output(w, node_index, phv_index, port, rid, instance, priority)
    return rid  # type: ignore[no-any-return]


@kernel
def replicate(w: Any, node_index: int, phv_index: int, group: int, priority: int) -> None:
    """A copy for each replica of a multicast group."""
    node = node_at(w.nodes, node_index)
    _copies(w, node_index, phv_index, node.groups, node.replicas, group, _REPLICATION, priority)


@kernel
def to_session(w: Any, node_index: int, phv_index: int, session: int, instance: int, priority: int) -> None:
    """The copies that a clone session makes, none if it does not exist: its own replicas, those of its multicast
    group, then one to its port, with the rid of the last.
    """
    node = node_at(w.nodes, node_index)
    found = session_at(node.sessions, session)
    if found.exists == 0:
        return
    node.clones += 1
    rid = _copies(w, node_index, phv_index, node.session_groups, node.session_replicas, session + 1, instance, priority)
    if found.group != 0:
        group = np.int64(found.group)
        if pair_at(node.groups, group).second > 0:
            rid = _copies(w, node_index, phv_index, node.groups, node.replicas, group, instance, priority)
    if found.port >= 0:
        output(w, node_index, phv_index, np.int64(found.port), rid, instance, priority)
