"""What a switch does with a frame that comes in: ingress, then replication into output queues."""

from typing import Any, Final

import numpy as np

from p4reduce.base.units import PS_PER_US
from p4reduce.dataplane.abi import DROP_PORT, INSTANCE_NORMAL
from p4reduce.fabric.access import call5, frame_at, io_at, node_at
from p4reduce.fabric.kernels.cells import drop_frame, drop_phv, frame_address, phv_address, take_phv
from p4reduce.fabric.kernels.jit import kernel
from p4reduce.fabric.kernels.outputs import NO_RID, output, replicate

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
