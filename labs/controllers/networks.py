"""Networks that a grader draws, the one tree that each has, and what students are told of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from p4reduce.control_plane.plans import Plan, PlanRequest, make_plan
from p4reduce.control_plane.plans.problem import TreeLayout
from p4reduce.control_plane.resources import Resources
from p4reduce.topologies import Topology
from p4reduce.topologies.builder import TopologyBuilder

LANES: Final = 64
RATE: Final = "10G"
DELAY: Final = "1us"


def wired(name: str, links: Sequence[tuple[str, str]], random: np.random.Generator) -> Topology:
    """A network of switches (``s1``, ...) and hosts (``h1``, ...); its ports are numbered in a drawn order."""
    builder = TopologyBuilder(name)
    nodes = sorted({node for link in links for node in link}, key=lambda node: (node[0], int(node[1:])))
    for node in nodes:
        (builder.host if node.startswith("h") else builder.switch)(node)
    for place in random.permutation(len(links)):
        builder.link(*links[int(place)], RATE, DELAY)
    return builder.build()


def nearest(topology: Topology, root: str, dead: frozenset[str] = frozenset()) -> dict[str, str]:
    """The next switch towards the root, of every other one that reaches it; of equal ones that at the lowest port.

    Breadth first: O(nodes + links).
    """
    distance = {root: 0}
    waiting = deque([root])
    switches = {node.name for node in topology.switches} - dead
    while waiting:
        name = waiting.popleft()
        for other in topology.neighbours(name):
            if other in switches and other not in distance:
                distance[other] = distance[name] + 1
                waiting.append(other)
    return {
        name: next(other for other in topology.neighbours(name) if distance.get(other, -1) == own - 1)
        for name, own in distance.items()
        if name != root
    }


def layout(topology: Topology, root: str, workers: Sequence[str], dead: frozenset[str] = frozenset()) -> TreeLayout:
    """The tree of :func:`nearest`, of those switches that have workers below them."""
    towards, parent = nearest(topology, root, dead), {}
    for worker in workers:
        node, above = worker, topology.neighbours(worker)[0]
        parent[worker] = above
        while above != root and above not in parent:
            node, above = above, towards[above]
            parent[node] = above
    paths = {edge: edge for edge in parent.items()}
    return TreeLayout(root, parent, paths=paths)


def plan_of(topology: Topology, job: dict[str, Any], dead: frozenset[str] = frozenset()) -> Plan:
    """The plan that a job's right entries make; ``job`` as students are told of it."""
    request = PlanRequest(
        "lab",
        job["job"],
        job["epoch"],
        workers=tuple(job["workers"]),
        lanes=LANES,
        window=job["slots"] // 2,
        max_slots=job["slots"],
        layout=layout(topology, job["root"], job["workers"], dead),
    )
    return make_plan(topology, request, Resources(first_generation=max(1, job.get("generation", 1))))


def told(topology: Topology) -> dict[str, Any]:
    """A network as plain data: addresses, and who stands behind which port."""
    switches = {
        node.name: {"ip": node.ip, "mac": node.mac, "ports": dict(enumerate(topology.neighbours(node.name), start=1))}
        for node in topology.switches
    }
    return {"switches": switches, "hosts": {node.name: {"ip": node.ip, "mac": node.mac} for node in topology.hosts}}
