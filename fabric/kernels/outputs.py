"""Copies of a packet to a switch's ports: one, those of a multicast group, those of a clone session."""

from typing import Any, Final

import numpy as np

from p4reduce.dataplane.abi import CPU_PORT, INSTANCE_REPLICATION
from p4reduce.fabric.access import cell_at, node_at, pair_at, session_at
from p4reduce.fabric.kernels.jit import kernel
from p4reduce.fabric.kernels.queues import enqueue, to_controller, to_nowhere

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
