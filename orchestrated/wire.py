"""Requests to an executor in another process and its answers, as plain data in messages of ``comm/framing.py``."""

import socket
from collections.abc import Mapping
from typing import Any, Final

from p4reduce.base.records import plain, restore
from p4reduce.comm import framing
from p4reduce.control_plane.orchestrator.executor import Role, Running
from p4reduce.control_plane.plans import Plan
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop

LIMIT: Final = 64 << 20
"""bytes of a message: a plan has some 200 bytes for each path"""
VERSION: Final = 10
"""of these messages: both ends must have the same"""


def send(connection: socket.socket, message: Mapping[str, Any]) -> None:
    """Send one message; ``OSError`` when the other end is gone."""
    framing.send(connection, dict(message), limit=LIMIT)


def receive(connection: socket.socket) -> dict[str, Any] | None:
    """One message, None at the end; ``FramingError``, ``OSError``."""
    found = framing.receive(connection, limit=LIMIT)
    return None if found is None else found[0]


def plans_to_data(plans: Mapping[Role, Plan]) -> dict[str, Any]:
    """Plans by role."""
    return {role: plain(plan) for role, plan in plans.items()}


def plans_from_data(topology: Topology, data: Mapping[Role, Any]) -> dict[Role, Plan]:
    """The inverse of :func:`plans_to_data`."""
    return {role: restore(Plan, plan, topology=topology) for role, plan in data.items()}


def running_to_data(running: Mapping[str, Running]) -> dict[str, Any]:
    """Tasks by name."""
    return {name: plain(one) for name, one in running.items()}


def running_from_data(data: Mapping[str, Any]) -> dict[str, Running]:
    """The inverse of :func:`running_to_data`."""
    return {name: restore(Running, one) for name, one in data.items()}


def hops_to_data(hops: Mapping[Hop, int]) -> list[tuple[str, int, int]]:
    """Numbers by directed link."""
    return [(node, port, value) for (node, port), value in hops.items()]


def hops_from_data(data: list[tuple[str, int, int]]) -> dict[Hop, int]:
    """The inverse of :func:`hops_to_data`."""
    return {(node, port): value for node, port, value in data}
