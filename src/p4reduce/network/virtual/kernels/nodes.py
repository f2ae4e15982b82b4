"""Nodes at the ends of links: a switch's ingress and its output, or a host's endpoints."""

from typing import Any, Final

import numpy as np

from p4reduce.network.virtual.kernels import kernel
from p4reduce.network.virtual.kernels.events import (
    drop_frame,
    drop_phv,
    frame_address,
    phv_address,
    record,
    schedule,
    take_frame,
    take_phv,
)
from p4reduce.network.virtual.kernels.wires import (
    NO_RID,
    come_back,
    output,
    replicate,
    send,
    to_session,
    wake_when_free,
)
from p4reduce.network.virtual.records import (
    ACTIVE,
    CONTROLLER_TAP,
    EVENT_KINDS,
    NEVER,
    TIMER,
    call5,
    cell_at,
    endpoint_at,
    frame_at,
    io_at,
    link_at,
    node_at,
    part_at,
    phv_at,
    rota_at,
    session_at,
)
from p4switch.abi import (
    CLONE_VALID,
    DROP_PORT,
    INSTANCE_EGRESS_CLONE,
    INSTANCE_INGRESS_CLONE,
    INSTANCE_NORMAL,
    INSTANCE_RESUBMITTED,
)
from p4switch.base.values import PS_PER_US

# Processing of a frame at a switch: ingress, then replication into output queues.


UNICAST: Final = np.int64(INSTANCE_NORMAL)


@kernel
def ingress(
    w: Any, node_index: int, port: int, address: int, length: int, came_ps: int, instance: int, phv_index: int
) -> int:
    """Run ingress; return the bytes used in the PHV, 0 if nothing leaves, -1 if the frame is too long."""
    node = node_at(w.nodes, node_index)
    io = io_at(w.io, 0)
    io.in_port = port
    io.in_time_us = came_ps // PS_PER_US
    io.in_instance = instance
    return call5(node.ingress, node.state, address, length, w.io, phv_address(w, phv_index))  # type: ignore[no-any-return]


@kernel
def leave(w: Any, node_index: int, phv_index: int, used: int) -> None:
    """Carry out the decisions of ingress."""
    # Egress, which may run before this function ends, overwrites the cells of `io`.
    io = io_at(w.io, 0)
    group = io.out_mcast_grp
    port_out = io.out_egress_spec
    priority = io.out_priority
    if used < 0 or (group == 0 and port_out == DROP_PORT):
        node_at(w.nodes, node_index).ingress_drops += 1
    elif group != 0:
        replicate(w, node_index, phv_index, group, priority)
    else:
        output(w, node_index, phv_index, port_out, NO_RID, UNICAST, priority)
    drop_phv(w, phv_index)


@kernel
def process_bytes(w: Any, node_index: int, port: int, address: int, length: int, came_ps: int) -> None:
    """Run the frame at ``address``, which came in at ``came_ps``, through ingress, and carry out its decisions.

    For programs without detours.
    """
    phv_index = take_phv(w)
    node_at(w.nodes, node_index).passes += 1
    leave(w, node_index, phv_index, ingress(w, node_index, port, address, length, came_ps, UNICAST, phv_index))


@kernel
def process(w: Any, node_index: int, port: int, frame_index: int, came_ps: int) -> None:
    """Run a frame in a cell through ingress as :func:`process_bytes` does, and free the cell."""
    phv_index = take_phv(w)
    address = frame_address(w, frame_index)
    length = frame_at(w.frames, frame_index).length
    node_at(w.nodes, node_index).passes += 1
    used = ingress(w, node_index, port, address, length, came_ps, UNICAST, phv_index)
    drop_frame(w, frame_index)
    leave(w, node_index, phv_index, used)


# Ingress of programs that clone, resubmit, recirculate, truncate or send digests (`p4switch/abi.py`).


_NORMAL: Final = np.int64(INSTANCE_NORMAL)
_INGRESS_CLONE: Final = np.int64(INSTANCE_INGRESS_CLONE)
_RESUBMITTED: Final = np.int64(INSTANCE_RESUBMITTED)
_NONE: Final = np.int64(0)


@kernel
def _clone(w: Any, node_index: int, port: int, frame_index: int, came_ps: int, session: int, field_list: int) -> None:
    """Parse the original frame again as an ingress clone, and send it to a clone session."""
    if session_at(node_at(w.nodes, node_index).sessions, session).exists == 0:
        return
    io = io_at(w.io, 0)
    io.in_field_list = field_list
    phv_index = take_phv(w)
    phv_at(w.phvs, phv_index).rounds = _NONE
    address = frame_address(w, frame_index)
    ingress(w, node_index, port, address, frame_at(w.frames, frame_index).length, came_ps, _INGRESS_CLONE, phv_index)
    to_session(w, node_index, phv_index, session, _INGRESS_CLONE, io.out_priority)
    drop_phv(w, phv_index)


@kernel
def _pass(
    w: Any, node_index: int, port: int, frame_index: int, came_ps: int, instance: int, field_list: int, rounds: int
) -> None:
    node = node_at(w.nodes, node_index)
    io = io_at(w.io, 0)
    phv_index = take_phv(w)
    phv_at(w.phvs, phv_index).rounds = rounds
    address = frame_address(w, frame_index)
    io.kept_address = address + w.kept_offset
    io.in_field_list = field_list
    length = frame_at(w.frames, frame_index).length
    node.passes += 1
    used = ingress(w, node_index, port, address, length, came_ps, instance, phv_index)
    if used < 0:  # frame too long; nothing else was written
        node.ingress_drops += 1
        drop_phv(w, phv_index)
        drop_frame(w, frame_index)
        return
    group = io.out_mcast_grp
    egress_spec = io.out_egress_spec
    priority = io.out_priority
    resubmit = io.out_resubmit
    if io.out_digest != 0:
        node.digests += 1
        tap = CONTROLLER_TAP - node_index - w.node_count * io.out_digest
        record(w, tap, w.now, io.kept_address, w.kept_bytes)
    if io.out_clone != 0:
        _clone(w, node_index, port, frame_index, came_ps, io.out_clone & ~CLONE_VALID, io.out_clone_list)
    if resubmit != 0:
        node.resubmitted += 1
        drop_phv(w, phv_index)
        frame_at(w.frames, frame_index).port = port
        come_back(w, node_index, frame_index, _RESUBMITTED, resubmit, rounds + 1)
        return
    drop_frame(w, frame_index)
    io.out_mcast_grp = group
    io.out_egress_spec = egress_spec
    io.out_priority = priority
    leave(w, node_index, phv_index, used)


@kernel
def process_any(w: Any, node_index: int, port: int, frame_index: int, came_ps: int) -> None:
    """Run a frame that came in at ``came_ps`` through ingress, carry out its decisions, and free its cell."""
    if node_at(w.nodes, node_index).detours == 0:
        process(w, node_index, port, frame_index, came_ps)
    else:
        _pass(w, node_index, port, frame_index, came_ps, _NORMAL, _NONE, _NONE)


@kernel
def come_again(w: Any, frame_index: int) -> None:
    """Process a resubmitted or recirculated frame, or the packet of an egress clone."""
    frame = frame_at(w.frames, frame_index)
    node_index = frame.node
    instance = frame.link & 7
    named = frame.link >> 3
    if instance == INSTANCE_EGRESS_CLONE:
        phv_index = frame.seq
        session = frame.port
        drop_frame(w, frame_index)
        to_session(w, node_index, phv_index, session, instance, named)
        drop_phv(w, phv_index)
    else:
        _pass(w, node_index, frame.port, frame_index, w.now, instance, named, frame.seq)


# Hosts: endpoints receive incoming frames, and are asked for the next one whenever the link is free.
#
# A host has no queue for endpoints' frames (a pull model): a frame is made when it can leave. Endpoints of the highest
# class are asked first, those of one class in turn. Only frames that Python sends (`VirtualNetwork.send`) wait in a
# list, and precede all others.


OVERDUE_PS: Final = 1_000_000
"""Delay of an endpoint's timer if its deadline is already past, so that time passes in any case."""


@kernel
def _settle(w: Any, index: int) -> None:
    """Update an endpoint's timer, and whether it still works, after its turn."""
    endpoint = endpoint_at(w.endpoints, index)
    at = call5(w.deadline, w.endpoint_records, index, 0, 0, 0)
    if at < NEVER:
        if at <= w.now:
            at = w.now + OVERDUE_PS
        # A deadline that moves later needs no event: the timer checks the deadline when it goes off.
        if at < endpoint.timer_at:
            endpoint.timer_at = at
            schedule(w, at, index * EVENT_KINDS + TIMER)
    watched = endpoint.unfinished != 0 and endpoint.starting == 0
    if watched and call5(w.status, w.endpoint_records, index, 0, 0, 0) != ACTIVE:
        endpoint.unfinished = 0
        w.unfinished -= 1
        part_at(w.parts, endpoint.part).unfinished -= 1


@kernel
def _ask(w: Any, node: Any, frame_index: int) -> int:
    """Have a host's endpoints make the next frame, class by class; return its length, 0 if none has a frame."""
    for place in range(node.first_rota, node.first_rota + node.classes):
        rota = rota_at(w.rotas, place)
        for _ in range(rota.count):
            index = cell_at(w.endpoint_lists, rota.first + rota.next).value
            rota.next += 1
            if rota.next == rota.count:
                rota.next = 0
            if endpoint_at(w.endpoints, index).started == 0 or endpoint_at(w.endpoints, index).paused != 0:
                continue
            length = call5(w.transmit, w.endpoint_records, index, w.now, frame_address(w, frame_index), w.max_frame)
            _settle(w, index)
            if length > 0:
                return length  # type: ignore[no-any-return]
    return 0


@kernel
def pump(w: Any, node_index: int) -> None:
    """Send a host's next frame, if its link is free and one of its endpoints has a frame."""
    node = node_at(w.nodes, node_index)
    link = link_at(w.links, node.link)
    if w.now < link.free_at:
        wake_when_free(w, node.link)
        return
    if node.send_head >= 0:
        frame_index = node.send_head
        frame = frame_at(w.frames, frame_index)
        node.send_head = frame.next
        send(w, node.link, frame_index, frame.length)
        wake_when_free(w, node.link)
        return
    frame_index = take_frame(w)
    length = _ask(w, node, frame_index)
    if length > 0:
        send(w, node.link, frame_index, length)
        wake_when_free(w, node.link)
    else:
        drop_frame(w, frame_index)


@kernel
def deliver(w: Any, node_index: int, frame_index: int) -> None:
    """Offer an incoming frame to the host's endpoints, until one takes it."""
    node = node_at(w.nodes, node_index)
    length = frame_at(w.frames, frame_index).length
    address = frame_address(w, frame_index)
    claimed = 0
    for place in range(node.first_endpoint, node.first_endpoint + node.endpoints):
        index = cell_at(w.endpoint_lists, place).value
        if call5(w.receive, w.endpoint_records, index, address, length, w.now) != 0:
            claimed = 1
            _settle(w, index)
            break
    drop_frame(w, frame_index)
    if claimed == 0:
        node.unclaimed += 1
        return
    node.claimed += 1
    pump(w, node_index)


@kernel
def start(w: Any, index: int) -> None:
    """Start asking an endpoint for frames."""
    endpoint = endpoint_at(w.endpoints, index)
    endpoint.started = 1
    endpoint.starting -= 1
    _settle(w, index)
    pump(w, endpoint.host)


@kernel
def go_off(w: Any, index: int) -> None:
    """Process an endpoint's timer, unless it was replaced by an earlier or later one."""
    endpoint = endpoint_at(w.endpoints, index)
    if endpoint.timer_at != w.now:
        return
    endpoint.timer_at = NEVER
    if endpoint.paused != 0:
        return
    if call5(w.deadline, w.endpoint_records, index, 0, 0, 0) <= w.now:
        call5(w.expire, w.endpoint_records, index, w.now, 0, 0)
        _settle(w, index)
        pump(w, endpoint.host)
    else:
        _settle(w, index)


@kernel
def pause(w: Any, index: int) -> None:
    """Stop asking an endpoint for frames; it still receives."""
    endpoint = endpoint_at(w.endpoints, index)
    if endpoint.paused == 0:
        endpoint.paused = 1
        endpoint.paused_at = w.now


@kernel
def resume(w: Any, index: int) -> None:
    """Resume an endpoint with its timers where they stood."""
    endpoint = endpoint_at(w.endpoints, index)
    if endpoint.paused == 0:
        return
    endpoint.paused = 0
    if w.resume != 0:
        call5(w.resume, w.endpoint_records, index, w.now - endpoint.paused_at, 0, 0)
    _settle(w, index)
    pump(w, endpoint.host)


@kernel
def submit(w: Any, frame_index: int) -> None:
    """Append a frame from Python to its host's list."""
    frame = frame_at(w.frames, frame_index)
    node = node_at(w.nodes, frame.node)
    frame.next = -1
    if node.send_head < 0:
        node.send_head = frame_index
    else:
        frame_at(w.frames, node.send_tail).next = frame_index
    node.send_tail = frame_index
    pump(w, frame.node)
