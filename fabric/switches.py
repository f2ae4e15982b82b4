"""What a switch does with a frame that comes in: ingress, then replication into output queues."""

from typing import Any, Final

import numpy as np

from p4reduce.dataplane.abi import DROP_PORT, INSTANCE_NORMAL, INSTANCE_REPLICATION
from p4reduce.fabric.access import call5, cell_at, frame_at, io_at, node_at, pair_at
from p4reduce.fabric.cells import drop_frame, drop_phv, frame_address, phv_address, take_phv
from p4reduce.fabric.jit import kernel
from p4reduce.fabric.queues import CPU_PORT, PS_PER_US, enqueue, to_controller

_UNICAST: Final = np.int64(INSTANCE_NORMAL)
_REPLICATION: Final = np.int64(INSTANCE_REPLICATION)
_NO_RID: Final = np.int64(0)


@kernel
def _output(w: Any, node_index: int, phv_index: int, port: int, rid: int, instance: int, priority: int) -> None:
    """One copy, to the queue of its port, or to the controller."""
    node = node_at(w.nodes, node_index)
    node.copies += 1
    if port == CPU_PORT:
        to_controller(w, node_index, phv_index, rid, instance)
        return
    link_index = -1
    if port < node.ports:
        link_index = cell_at(w.ports, node.first_port + port).value
    if link_index < 0:
        node.no_link_drops += 1
    else:
        enqueue(w, link_index, phv_index, rid, instance, priority)


@kernel
def _replicate(w: Any, node_index: int, phv_index: int, group: int, priority: int) -> None:
    node = node_at(w.nodes, node_index)
    members = pair_at(node.groups, group)
    first = members.first
    count = members.second
    if count > w.max_replicas:
        node.replica_drops += count
        return
    for place in range(first, first + count):
        replica = pair_at(node.replicas, place)
        port = np.int64(replica.first)
        rid = np.int64(replica.second)
        _output(w, node_index, phv_index, port, rid, _REPLICATION, priority)


@kernel
def process(w: Any, node_index: int, port: int, frame_index: int, came_ps: int) -> None:
    """Run a frame that came in at ``came_ps`` through ingress, and do what it says."""
    node = node_at(w.nodes, node_index)
    phv_index = take_phv(w)
    io = io_at(w.io, 0)
    io.in_port = port
    io.in_time_us = came_ps // PS_PER_US
    io.in_instance = INSTANCE_NORMAL
    length = frame_at(w.frames, frame_index).length
    used = call5(node.ingress, node.state, frame_address(w, frame_index), length, w.io, phv_address(w, phv_index))
    node.passes += 1
    drop_frame(w, frame_index)
    # The cells of `io` are used again by egress, which may run before this function ends.
    group = io.out_mcast_grp
    port_out = io.out_egress_spec
    priority = io.out_priority
    if used < 0 or (group == 0 and port_out == DROP_PORT):
        node.ingress_drops += 1
    elif group != 0:
        _replicate(w, node_index, phv_index, group, priority)
    else:
        _output(w, node_index, phv_index, port_out, _NO_RID, _UNICAST, priority)
    drop_phv(w, phv_index)
