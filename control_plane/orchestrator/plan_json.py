"""A plan as JSON, and back: what the database keeps, and what goes to another process."""

import json
from itertools import pairwise

from p4reduce.base.records import plain, restore
from p4reduce.control_plane.plans import Plan
from p4reduce.topologies import Link, Topology


def plan_to_json(plan: Plan) -> str:
    """A plan without its topology, but with its tokens, as JSON text; the same plan gives the same text."""
    return json.dumps(plain(plan), separators=(",", ":"))


def plan_from_json(topology: Topology, text: str) -> Plan:
    """The plan that :func:`plan_to_json` wrote, in the topology that it was made for, or of which that was a view."""
    return restore(Plan, json.loads(text), topology=topology)


def circuits_of(plan: Plan) -> tuple[Link, ...]:
    """Links between switches that a plan uses; in a view these are its circuits."""
    hosts = {host.name for host in plan.topology.hosts}
    pairs = {(min(ends), max(ends)) for path in plan.paths.values() for ends in pairwise(path) if not hosts & set(ends)}
    return tuple(plan.topology.link_between(a, b) for a, b in sorted(pairs))
