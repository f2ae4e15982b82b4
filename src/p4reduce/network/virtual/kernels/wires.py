"""Links: serialization time of a frame, faults, and output queues of the sender."""

from typing import Any, Final

import numpy as np

from p4reduce.network.virtual.kernels import kernel
from p4reduce.network.virtual.kernels.events import (
    INC_FIRST,
    INC_RESEND,
    classify,
    draw,
    drop_copy,
    drop_frame,
    drop_phv,
    frame_address,
    happens,
    next_node,
    next_seq,
    note,
    phv_address,
    push,
    push_elsewhere,
    push_to,
    record,
    schedule,
    take_copy,
    take_frame,
    take_phv,
)
from p4reduce.network.virtual.records import (
    ARRIVAL,
    CONTROLLER_TAP,
    DRAW_CORRUPT,
    DRAW_DELAY,
    DRAW_DUPLICATE,
    DRAW_LOSS,
    DRAW_REORDER,
    DUPLICATED,
    EVENT_KINDS,
    FIRST_COPY,
    GATE,
    HOME_BIT,
    LATE_ARRIVAL,
    LIGHT,
    LINK_FREE,
    LOST,
    NONE,
    PRIORITIES,
    QUEUE_DROPPED,
    RETURN,
    SECOND_COPY,
    call4,
    cell_at,
    copy_at,
    frame_at,
    gate_at,
    gate_list_at,
    io_at,
    link_at,
    mirror_at,
    node_at,
    pair_at,
    phv_at,
    queue_at,
    reconfiguration_at,
    session_at,
    turn_at,
)
from p4switch.abi import CLONE_VALID, CPU_PORT, INSTANCE_EGRESS_CLONE, INSTANCE_RECIRCULATED, INSTANCE_REPLICATION
from p4switch.base.values import PS_PER_S, PS_PER_US
from p4switch.native.memory import copy_bytes

# Egress for one copy of a packet, and its detours: clones, recirculated frames.


RECIRCULATED: Final = -2
"""Result in place of a length: the frame's cell is on its way back to ingress."""
MAX_ROUNDS: Final = 256
"""How often a packet and its copies may return to ingress or be cloned by egress. BMv2 has no limit, but there time
passes meanwhile."""
_CLONE: Final = np.int64(INSTANCE_EGRESS_CLONE)
_RECIRCULATED_TYPE: Final = np.int64(INSTANCE_RECIRCULATED)


@kernel
def describe(w: Any, port: int, rid: int, instance: int, enqueued_us: int, enqueued_depth: int, depth: int) -> None:
    """Write the metadata of the leaving copy for egress."""
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
    """Schedule a frame to enter ingress again, after the pipeline's delay; drop it after MAX_ROUNDS returns."""
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
    """Schedule an egress clone to enter its session's queues, as a separate event that a carrier frame holds."""
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
        frame.port = 0  # not visible to the program: only the field list of its metadata is kept
        node.recirculated += 1
        come_back(w, node_index, frame_index, _RECIRCULATED_TYPE, io.eg_out_recirculate, rounds)
        return RECIRCULATED
    return length  # type: ignore[no-any-return]


@kernel
def run_egress(w: Any, node_index: int, phv_index: int, frame_index: int) -> int:
    """Run egress into a frame's cell; return the frame's length, -1 if dropped, or RECIRCULATED."""
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
    """Run egress on the shadow state; return the frame's length, -1 if dropped."""
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


# A switch's output port: eight finite queues in strict priority, and egress for the frame that leaves.
#
# As in BMv2's simple_switch, the higher number leaves first, a priority without a queue drops, each queue holds
# ``capacity`` frames and drops those that come when it is full (tail drop), and egress runs when a copy leaves its
# queue. Unlike there, egress is told the depths of the copy's own queue, not those of all queues of the port: the
# program marks congestion by them, and a class must not be slowed down by frames that wait behind it.


@kernel
def _note_tail_drop(w: Any, link_index: int, phv_index: int, rid: int, instance: int, depth: int) -> None:
    """Count a copy that found its queue full.

    Egress runs on the shadow state to determine the frame that would have been sent.
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
    """Take the first copy of the highest queue in ``ready`` (bits, none empty); set its ``depth`` to those left."""
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
    """Send the next copy that egress does not drop; the link is free.

    For programs with detours, an event processes only one copy, even if that one is dropped (`memory.py`).
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
    """Send a copy to the controller's port, without queue or link."""
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
    """Process a copy for a port without a link, in a program with detours: egress runs at once."""
    node = node_at(w.nodes, node_index)
    if priority >= PRIORITIES:
        node.priority_drops += 1
        return
    describe(w, port, rid, instance, w.now // PS_PER_US, _EMPTY, _EMPTY)
    frame_index = take_frame(w)
    if run_egress(w, node_index, phv_index, frame_index) != RECIRCULATED:
        node.no_link_drops += 1
        drop_frame(w, frame_index)


# Copies of a packet to a switch's ports: a single one, those of a multicast group, those of a clone session.


NO_RID: Final = np.int64(0)
_REPLICATION: Final = np.int64(INSTANCE_REPLICATION)


@kernel
def output(w: Any, node_index: int, phv_index: int, port: int, rid: int, instance: int, priority: int) -> None:
    """Send one copy to the queue of its port, or to the controller."""
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
    """Send a copy for each replica of a group of these tables; return the rid of the last one, or 0."""
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
    """Send a copy for each replica of a multicast group."""
    node = node_at(w.nodes, node_index)
    _copies(w, node_index, phv_index, node.groups, node.replicas, group, _REPLICATION, priority)


@kernel
def to_session(w: Any, node_index: int, phv_index: int, session: int, instance: int, priority: int) -> None:
    """Send the copies of a clone session, if it exists: its own replicas, those of its multicast group, then its port.

    The copy for the port has the rid of the last replica.
    """
    node = node_at(w.nodes, node_index)
    clone = session_at(node.sessions, session)
    if clone.exists == 0:
        return
    node.clones += 1
    rid = _copies(w, node_index, phv_index, node.session_groups, node.session_replicas, session + 1, instance, priority)
    if clone.group != 0:
        group = np.int64(clone.group)
        if pair_at(node.groups, group).second > 0:
            rid = _copies(w, node_index, phv_index, node.groups, node.replicas, group, instance, priority)
    if clone.port >= 0:
        output(w, node_index, phv_index, np.int64(clone.port), rid, instance, priority)


MIN_FRAME: Final = 60
"""Bytes; shorter frames are padded on the link."""
OVERHEAD: Final = 24
"""Bytes: preamble 8, frame check sequence 4, inter-frame gap 12."""
BIT_PS: Final = 8 * PS_PER_S
"""Picoseconds of a byte at 1 bit/s."""
_ONE: Final = np.uint64(1)
_IN_TIME: Final = np.int64(0)


@kernel
def serialization_ps(link: Any, length: int) -> int:
    """Return ceil((max(length, 60) + 24) * 8 * 10^12 / rate), how long a frame occupies the link; 0 without a rate."""
    if link.rate_bps == 0:
        return 0
    if length != link.last_length:
        link.last_length = length
        link.last_ps = ((max(length, MIN_FRAME) + OVERHEAD) * BIT_PS + link.rate_bps - 1) // link.rate_bps
    return link.last_ps  # type: ignore[no-any-return]


@kernel
def wake_when_free(w: Any, link_index: int) -> None:
    """Schedule an event for when the link is free, unless there is one."""
    link = link_at(w.links, link_index)
    if link.waking == 0:
        link.waking = 1
        schedule(w, max(link.free_at, w.now), link_index * EVENT_KINDS + LINK_FREE)


@kernel
def _hold(w: Any, link_index: int, frame_index: int, late: bool) -> None:
    """Hold a frame to another partition until the window's end (`loop.py`, `bring`)."""
    frame = frame_at(w.frames, frame_index)
    if late:
        frame.next = w.sent_late
        w.sent_late = frame_index
        return
    link = link_at(w.links, link_index)
    if link.sent_head < 0:
        link.sent_head = frame_index
        link.sent_next = w.sent_link
        w.sent_link = link_index
    else:
        frame_at(w.frames, link.sent_tail).next = frame_index
    link.sent_tail = frame_index


@kernel
def _propagate(w: Any, link_index: int, frame_index: int, extra_ps: int) -> None:
    """Put a frame on the wire. Frames in order form a list, and only the first has an event."""
    link = link_at(w.links, link_index)
    frame = frame_at(w.frames, frame_index)
    frame.link = link_index
    time = link.free_at + link.delay_ps + extra_ps
    seq = next_seq(w)
    home = link.target_part
    frame.time = time
    frame.since = w.now
    frame.seq = seq
    frame.next = -1
    if w.heaps > 1 and link.source_part != home:
        _hold(w, link_index, frame_index, extra_ps > 0)
    elif extra_ps > 0:
        push_to(w, home, time, w.now, seq, (home << HOME_BIT) + frame_index * EVENT_KINDS + LATE_ARRIVAL)
    elif link.wire_head < 0:
        link.wire_head = frame_index
        link.wire_tail = frame_index
        push_to(w, home, time, w.now, seq, (home << HOME_BIT) + link_index * EVENT_KINDS + ARRIVAL)
    else:
        frame_at(w.frames, link.wire_tail).next = frame_index
        link.wire_tail = frame_index


@kernel
def _meet_fate(w: Any, link_index: int, frame_index: int, number: Any, first_purpose: int) -> None:
    """Apply faults to one copy of a frame: loss, corruption and delay, each with its own probability and draw."""
    link = link_at(w.links, link_index)
    if happens(link, number, first_purpose + DRAW_LOSS, link.p_loss):
        link.lost += 1
        note(w, link_index, frame_address(w, frame_index), frame_at(w.frames, frame_index).length, LOST)
        drop_frame(w, frame_index)
        return
    if happens(link, number, first_purpose + DRAW_CORRUPT, link.p_corrupt):
        frame_at(w.frames, frame_index).damaged = 1
    extra_ps = _IN_TIME
    if happens(link, number, first_purpose + DRAW_REORDER, link.p_reorder):
        link.reordered += 1
        random = draw(link, number, first_purpose + DRAW_DELAY)
        extra_ps = np.int64(_ONE + random % np.uint64(link.extra_delay_ps))
    _propagate(w, link_index, frame_index, extra_ps)


@kernel
def _with_faults(w: Any, link_index: int, frame_index: int) -> None:
    link = link_at(w.links, link_index)
    number = link.draws
    link.draws = number + _ONE
    if happens(link, number, DRAW_DUPLICATE, link.p_duplicate):
        link.duplicated += 1
        length = frame_at(w.frames, frame_index).length
        twin = take_frame(w)
        frame_at(w.frames, twin).length = length
        frame_at(w.frames, twin).node = frame_at(w.frames, frame_index).node
        frame_at(w.frames, twin).port = frame_at(w.frames, frame_index).port
        copy_bytes(frame_address(w, twin), frame_address(w, frame_index), length)
        note(w, link_index, frame_address(w, twin), length, DUPLICATED)
        _meet_fate(w, link_index, frame_index, number, FIRST_COPY)
        _meet_fate(w, link_index, twin, number, SECOND_COPY)
    else:
        _meet_fate(w, link_index, frame_index, number, FIRST_COPY)


@kernel
def _count(link: Any, address: int, length: int, busy: int) -> None:
    link.busy_ps += busy
    link.frames += 1
    link.bytes += length
    traffic = classify(address, length)
    if traffic == INC_FIRST:
        link.inc_first_frames += 1
        link.inc_first_bytes += length
    elif traffic == INC_RESEND:
        link.inc_resend_frames += 1
        link.inc_resend_bytes += length


@kernel
def pass_on(w: Any, link_index: int, frame_index: int, busy: int, extra_ps: int) -> None:
    """Forward a frame whose last bit leaves a mirror now, onto the next fibre; it is not serialized again."""
    link = link_at(w.links, link_index)
    link.free_at = w.now
    _count(link, frame_address(w, frame_index), frame_at(w.frames, frame_index).length, busy)
    _propagate(w, link_index, frame_index, extra_ps)


@kernel
def send(w: Any, link_index: int, frame_index: int, length: int) -> None:
    """Send a frame on a link that is free."""
    link = link_at(w.links, link_index)
    frame_at(w.frames, frame_index).length = length
    address = frame_address(w, frame_index)
    busy = serialization_ps(link, length)
    link.free_at = w.now + busy
    _count(link, address, length, busy)
    if link.optical != 0:
        frame_at(w.frames, frame_index).node = busy
    if link.tap_source >= 0:
        record(w, link.tap_source, w.now, address, length)
    if link.faulty != 0:
        _with_faults(w, link_index, frame_index)
    else:
        _propagate(w, link_index, frame_index, _IN_TIME)


# An optical cross-connect: mirrors that join its ports in pairs, and are dark while they turn.
#
# A frame reaches a mirror bit by bit while its switch sends it, after a fibre's delay; the mirror adds no time and
# buffers nothing. So the event at a cross-connect is that of a frame's *last* bit, and the frame passes if its port has
# been lit, on the same circuit, since the first bit. Mirrors turn after everything else at that time: a frame whose
# last bit arrives at that time still passes.


@kernel
def schedule_last(w: Any, time: int, what: int) -> None:
    """Add an event that concerns all partitions, after all others of its time except earlier ones of this kind."""
    w.scope = w.part_count
    seq = next_seq(w)
    what += w.part_count << HOME_BIT
    if w.part == w.part_count:
        push(w, time, w.now, seq, what)
    else:
        push_elsewhere(w, w.part_count, time, w.now, seq, what)


@kernel
def _light(w: Any, uplink: int) -> None:
    mirror = mirror_at(w.mirrors, uplink)
    mirror.dark = 0
    mirror.lit_at = w.now
    mirror.circuit = mirror.following
    mirror.extra_ps = mirror.following_extra_ps


@kernel
def darken(w: Any, index: int) -> None:
    """Begin a reconfiguration: ports whose circuits change become dark, all others are not affected."""
    reconfiguration = reconfiguration_at(w.reconfigurations, index)
    changed = 0
    for place in range(reconfiguration.first, reconfiguration.first + reconfiguration.count):
        turn = turn_at(w.turns, place)
        mirror = mirror_at(w.mirrors, turn.uplink)
        link = link_at(w.links, turn.uplink)
        same = mirror.following == turn.circuit and mirror.following_extra_ps == turn.extra_ps
        if same and link.rate_bps == turn.rate_bps:
            continue
        changed = 1
        mirror.following = turn.circuit
        mirror.following_extra_ps = turn.extra_ps
        link.rate_bps = turn.rate_bps
        link.last_length = NONE
        link.towards = turn.towards
        if reconfiguration.dark_ps == 0:
            _light(w, turn.uplink)
        else:
            mirror.dark = 1
            mirror.lit_at = w.now + reconfiguration.dark_ps
    if changed != 0 and reconfiguration.dark_ps > 0:
        schedule_last(w, w.now + reconfiguration.dark_ps, index * EVENT_KINDS + LIGHT)


@kernel
def light(w: Any, index: int) -> None:
    """End a reconfiguration, except for ports that a later one keeps dark for longer."""
    reconfiguration = reconfiguration_at(w.reconfigurations, index)
    for place in range(reconfiguration.first, reconfiguration.first + reconfiguration.count):
        uplink = turn_at(w.turns, place).uplink
        mirror = mirror_at(w.mirrors, uplink)
        if mirror.dark != 0 and mirror.lit_at <= w.now:
            _light(w, uplink)


@kernel
def cross(w: Any, frame_index: int) -> None:
    """Process a frame's last bit at its mirror: forward the frame to the circuit's other end, or drop it."""
    frame = frame_at(w.frames, frame_index)
    link = link_at(w.links, frame.link)
    mirror = mirror_at(w.mirrors, frame.link)
    occupied = frame.node
    if mirror.dark != 0 or mirror.circuit == NONE or w.now - occupied < mirror.lit_at:
        link.dark_lost += 1
        note(w, frame.link, frame_address(w, frame_index), frame.length, LOST)
        drop_frame(w, frame_index)
        return
    link.delivered += 1
    meant = next_node(w, frame_address(w, frame_index))
    if meant < 0:
        meant = frame.port
    if meant != link_at(w.links, mirror.circuit).target:
        link.misrouted += 1
    pass_on(w, mirror.circuit, frame_index, occupied, mirror.extra_ps)


# Gate control lists (IEEE 802.1Qbv): times at which a port's queues may send.
#
# A frame leaves only if its queue's gate stays open for as long as the longest frame takes, because the length of the
# frame itself is known only after egress. A list repeats for ever; a closed queue keeps its frames.


@kernel
def open_queues(w: Any, link_index: int, time: int) -> int:
    """Return the queues (bits) whose gates are open at a time, and stay so until the longest frame has left."""
    link = link_at(w.links, link_index)
    gates = gate_list_at(w.gate_lists, link.gates - 1)
    offset = (time - gates.base_ps) % gates.cycle_ps
    left = ((max(gates.longest, MIN_FRAME) + OVERHEAD) * BIT_PS + link.rate_bps - 1) // link.rate_bps
    place = gates.first
    while gate_at(w.gates, place).until_ps <= offset:
        place += 1
    queues = gate_at(w.gates, place).queues
    seen = 0
    while seen < gates.count:
        left -= gate_at(w.gates, place).until_ps - offset
        if left <= 0:
            break
        offset = gate_at(w.gates, place).until_ps
        place += 1
        seen += 1
        if place == gates.first + gates.count:
            place = gates.first
            offset = 0
        queues &= gate_at(w.gates, place).queues
    return queues  # type: ignore[no-any-return]


@kernel
def wake_at_gate(w: Any, link_index: int) -> None:
    """Schedule an event for when a gate opens for a queue that is not empty; none if that never happens."""
    link = link_at(w.links, link_index)
    gates = gate_list_at(w.gate_lists, link.gates - 1)
    begin = w.now - (w.now - gates.base_ps) % gates.cycle_ps
    for step in range(2 * gates.count):
        turn = step // gates.count
        entry = gate_at(w.gates, gates.first + step % gates.count)
        time = begin + turn * gates.cycle_ps + entry.until_ps
        if time > w.now and open_queues(w, link_index, time) & link.backlog:
            if link.gate_at == 0 or time < link.gate_at or link.gate_at < w.now:
                link.gate_at = time
                schedule(w, time, link_index * EVENT_KINDS + GATE)
            return
