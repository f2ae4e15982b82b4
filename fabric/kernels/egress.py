"""Egress for one copy of a packet, and what leaves the straight path there: clones, recirculated frames."""

from typing import Any, Final

import numpy as np

from p4reduce.base.units import PS_PER_US
from p4reduce.dataplane.abi import CLONE_VALID, INSTANCE_EGRESS_CLONE, INSTANCE_RECIRCULATED
from p4reduce.fabric.access import call4, frame_at, io_at, node_at, phv_at
from p4reduce.fabric.kernels.cells import drop_frame, drop_phv, frame_address, phv_address, take_frame, take_phv
from p4reduce.fabric.kernels.events import schedule
from p4reduce.fabric.kernels.jit import kernel
from p4reduce.fabric.records import EVENT_KINDS, RETURN

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
