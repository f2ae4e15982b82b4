"""What a switch does with a frame that comes in: ingress, then replication into output queues."""

from typing import Any, Final

import numpy as np

from p4reduce.network.virtual.kernels.events import drop_frame, drop_phv, frame_address, phv_address, record, take_phv
from p4reduce.network.virtual.kernels.jit import kernel
from p4reduce.network.virtual.kernels.queues import NO_RID, come_back, output, replicate, to_session
from p4reduce.network.virtual.records import CONTROLLER_TAP, call5, frame_at, io_at, node_at, phv_at, session_at
from p4switch.abi import (
    CLONE_VALID,
    DROP_PORT,
    INSTANCE_EGRESS_CLONE,
    INSTANCE_INGRESS_CLONE,
    INSTANCE_NORMAL,
    INSTANCE_RESUBMITTED,
)
from p4switch.base.units import PS_PER_US

UNICAST: Final = np.int64(INSTANCE_NORMAL)


@kernel
def ingress(
    w: Any, node_index: int, port: int, address: int, length: int, came_ps: int, instance: int, phv_index: int
) -> int:
    """Run ingress; the bytes used in the PHV, 0: nothing leaves, -1: too long a frame."""
    node = node_at(w.nodes, node_index)
    io = io_at(w.io, 0)
    io.in_port = port
    io.in_time_us = came_ps // PS_PER_US
    io.in_instance = instance
    return call5(node.ingress, node.state, address, length, w.io, phv_address(w, phv_index))  # type: ignore[no-any-return]


@kernel
def leave(w: Any, node_index: int, phv_index: int, used: int) -> None:
    """Do what ingress said."""
    # The cells of `io` are used again by egress, which may run before this function ends.
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
    """Run the frame at ``address``, which came in at ``came_ps``, through ingress, and do what it says.

    For programs that stay on the straight path.
    """
    phv_index = take_phv(w)
    node_at(w.nodes, node_index).passes += 1
    leave(w, node_index, phv_index, ingress(w, node_index, port, address, length, came_ps, UNICAST, phv_index))


@kernel
def process(w: Any, node_index: int, port: int, frame_index: int, came_ps: int) -> None:
    """The same for a frame in a cell, which is given back."""
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
    """The frame as it came in is parsed again, for a session."""
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
    if used < 0:  # too long a frame; nothing else was written
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
    """Run a frame that came in at ``came_ps`` through ingress, do what it says, and give its cell back."""
    if node_at(w.nodes, node_index).detours == 0:
        process(w, node_index, port, frame_index, came_ps)
    else:
        _pass(w, node_index, port, frame_index, came_ps, _NORMAL, _NONE, _NONE)


@kernel
def come_again(w: Any, frame_index: int) -> None:
    """A frame that was resubmitted or recirculated, or the packet of an egress clone (`egress.py`)."""
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
