"""Requests to an executor in another process and its answers, as plain data in messages of ``comm/framing.py``."""

import json
import socket
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from p4reduce.comm import framing
from p4reduce.control_plane.orchestrator.executor import Order, Report, Role, Running
from p4reduce.control_plane.orchestrator.plan_json import plan_from_json, plan_to_json
from p4reduce.control_plane.orchestrator.rows import task_from_data
from p4reduce.control_plane.orchestrator.timetable import Timetable, window_from_data, window_to_data
from p4reduce.control_plane.plans import Plan
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop

LIMIT: Final = 64 << 20
"""bytes of a message: a plan has some 200 bytes for each path"""
VERSION: Final = 9
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
    return {role: json.loads(plan_to_json(plan)) for role, plan in plans.items()}


def plans_from_data(topology: Topology, data: Mapping[Role, Any]) -> dict[Role, Plan]:
    """The inverse of :func:`plans_to_data`."""
    return {role: plan_from_json(topology, json.dumps(plan)) for role, plan in data.items()}


def order_to_data(order: Order) -> dict[str, Any]:
    """A task to run."""
    return {
        "task": asdict(order.task),
        "plans": plans_to_data(order.plans),
        "training_ps": dict(order.training_ps),
        "aggregation_ps": order.aggregation_ps,
        "reads": [list(read) for read in order.reads],
        "schedule": order.schedule,
        "ranks": list(order.ranks),
        "anew": list(order.anew),
        "attempt": order.attempt,
    }


def order_from_data(topology: Topology, data: Mapping[str, Any]) -> Order:
    """The inverse of :func:`order_to_data`."""
    return Order(
        task_from_data(data["task"]),
        plans_from_data(topology, data["plans"]),
        dict(data["training_ps"]),
        int(data["aggregation_ps"]),
        tuple((str(home), str(reader), int(size)) for home, reader, size in data["reads"]),
        data["schedule"],
        tuple(int(rank) for rank in data["ranks"]),
        tuple(map(str, data["anew"])),
        int(data["attempt"]),
    )


def timetable_to_data(timetable: Timetable) -> dict[str, Any]:
    """A timetable."""
    return {
        "number": timetable.number,
        "windows": [window_to_data(window) for window in timetable.windows],
        "delta_ps": timetable.delta_ps,
        "guard_ps": timetable.guard_ps,
        "plans": {task: plans_to_data(plans) for task, plans in timetable.plans.items()},
    }


def timetable_from_data(topology: Topology, data: Mapping[str, Any]) -> Timetable:
    """The inverse of :func:`timetable_to_data`."""
    return Timetable(
        int(data["number"]),
        tuple(window_from_data(window) for window in data["windows"]),
        int(data["delta_ps"]),
        int(data["guard_ps"]),
        {task: plans_from_data(topology, plans) for task, plans in data["plans"].items()},
    )


def report_to_data(report: Report) -> dict[str, Any]:
    """A report."""
    return asdict(report)


def report_from_data(data: Mapping[str, Any]) -> Report:
    """The inverse of :func:`report_to_data`."""
    return Report(**data)


def running_to_data(running: Mapping[str, Running]) -> dict[str, Any]:
    """Tasks by name."""
    return {name: asdict(one) for name, one in running.items()}


def running_from_data(data: Mapping[str, Any]) -> dict[str, Running]:
    """The inverse of :func:`running_to_data`."""
    return {
        name: Running(
            {role: (job, epoch) for role, (job, epoch) in one["keys"].items()},
            one["round"],
            one["ended"],
            tuple(one["died"]),
            one["attempt"],
        )
        for name, one in data.items()
    }


def hops_to_data(hops: Mapping[Hop, int]) -> list[tuple[str, int, int]]:
    """Numbers by directed link."""
    return [(node, port, value) for (node, port), value in hops.items()]


def hops_from_data(data: list[tuple[str, int, int]]) -> dict[Hop, int]:
    """The inverse of :func:`hops_to_data`."""
    return {(node, port): value for node, port, value in data}
