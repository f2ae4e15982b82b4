"""A plan as JSON, and back: what the database keeps, and what goes to another process."""

import json
from dataclasses import asdict
from itertools import pairwise
from typing import Any

from p4reduce.control_plane.orchestrator.timetable import circuits_from_data, circuits_to_data
from p4reduce.control_plane.plans.plan import Address, Aggregator, Child, Plan
from p4reduce.control_plane.resources import Grant, Share
from p4reduce.topologies import Link, Topology
from p4reduce.topologies.optical import view

_PLAIN = (
    "name",
    "job",
    "epoch",
    "generation",
    "server",
    "lanes",
    "priority",
    "window",
    "slots",
    "rtt_ps",
    "chunk_ps",
    "window_needed",
    "window_wanted",
    "mesh",
)
"""fields of a plan that are numbers, texts or flags"""


def plan_to_json(plan: Plan) -> str:
    """A plan without its topology, but with its tokens, as JSON text; the same plan gives the same text."""
    data: dict[str, Any] = {name: getattr(plan, name) for name in _PLAIN}
    data["workers"], data["ring"] = list(plan.workers), list(plan.ring)
    data["udp_ports"] = dict(plan.udp_ports)
    data["paths"] = [list(path) for path in plan.paths.values()]
    data["grant"] = asdict(plan.grant)
    data["tokens"] = [[*pair, token] for pair, token in plan.tokens.items()]
    data["aggregators"] = [asdict(aggregator) for aggregator in plan.aggregators]
    if plan.topology.partial:
        data["circuits"] = circuits_to_data(circuits_of(plan))
    return json.dumps(data, separators=(",", ":"))


def plan_from_json(topology: Topology, text: str) -> Plan:
    """The plan that :func:`plan_to_json` wrote, in the topology that it was made for, or of which that was a view."""
    data = json.loads(text)
    grant = data["grant"]
    if "circuits" in data:
        topology = view(topology, circuits_from_data(data["circuits"]))
    return Plan(
        **{name: data[name] for name in _PLAIN if name in data},
        topology=topology,
        workers=tuple(data["workers"]),
        ring=tuple(data["ring"]),
        udp_ports=data["udp_ports"],
        paths={(path[0], path[-1]): tuple(path) for path in data["paths"]},
        aggregators=tuple(_aggregator(one) for one in data["aggregators"]),
        tokens={(a, b): token for a, b, token in data.get("tokens", ())},
        grant=Grant(
            grant["generation"],
            grant["stats"],
            grant["slots"],
            tuple(Share(**{**share, "rids": tuple(share["rids"])}) for share in grant["shares"]),
        ),
    )


def circuits_of(plan: Plan) -> tuple[Link, ...]:
    """Links between switches that a plan uses; in a view these are its circuits."""
    hosts = {host.name for host in plan.topology.hosts}
    pairs = {(min(ends), max(ends)) for path in plan.paths.values() for ends in pairwise(path) if not hosts & set(ends)}
    return tuple(plan.topology.link_between(a, b) for a, b in sorted(pairs))


def _aggregator(data: dict[str, Any]) -> Aggregator:
    children = tuple(Child(**{**child, "address": Address(**child["address"])}) for child in data["children"])
    parent = None if data["parent"] is None else Address(**data["parent"])
    return Aggregator(**{**data, "children": children, "parent": parent})
