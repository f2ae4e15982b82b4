"""What stays the same while a run goes on, as the page gets it: nodes, links, jobs and their trees, and their trees."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.slots import node_name
from p4reduce.runs.summary import describe_topology
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop


def scene(title: str, topology: Topology, plans: Iterable[Plan]) -> dict[str, Any]:
    """Nodes, links (both directions, in the order of :func:`directions`) and jobs, as plain data; no notes yet."""
    return {
        "title": title,
        "topology": topology.name,
        "nodes": describe_topology(topology)["nodes"],
        "links": [
            {
                "from": node,
                "port": port,
                "to": topology.neighbour(node, port),
                "rate": topology.link_at(node, port).rate_bps,
            }
            for node, port in directions(topology)
        ],
        "jobs": [job(plan) for plan in plans],
        "notes": [],
    }


def job(plan: Plan) -> dict[str, Any]:
    """A job: its plan, its tree, and who its workers are."""
    return {
        "key": job_key(plan),
        "job": plan.job,
        "epoch": plan.epoch,
        "plan": plan.name,
        "workers": [node_name(plan, worker) for worker in plan.workers],
        "server": plan.server,
        "window": plan.window,
        "slots": plan.slots,
        "switches": [aggregator.name for aggregator in plan.aggregators],
        "paths": [list(plan.paths[edge]) for edge in plan.edges],
        "tree": list(_tree(plan)),
    }


def job_key(plan: Plan) -> str:
    """What the page calls a job by."""
    return f"{plan.job}.{plan.epoch}"


def directions(topology: Topology) -> Sequence[Hop]:
    """Every direction of every link by the (node, port) that it leaves."""
    return [hop for link in topology.links for hop in ((link.a, link.port_a), (link.b, link.port_b))]


def _tree(plan: Plan) -> Iterable[dict[str, Any]]:
    """Rows of an outline: the root first, each node's children after it; none of a ring or an all-to-all."""
    if plan.ring or plan.mesh or not plan.edges:
        return ()
    children: dict[str, list[str]] = {}
    for child, parent in plan.edges:
        children.setdefault(parent, []).append(child)
    top = plan.server if plan.server is not None else plan.root
    return _below(plan, top, children, 0)


def _below(plan: Plan, node: str, children: Mapping[str, list[str]], depth: int) -> Iterable[dict[str, Any]]:
    kind = "switch" if node in plan.by_switch else "server" if node == plan.server else "worker"
    yield {"depth": depth, "node": node, "says": node_name(plan, node), "kind": kind}
    for child in children.get(node, ()):
        yield from _below(plan, child, children, depth + 1)
