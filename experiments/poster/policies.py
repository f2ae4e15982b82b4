"""What the experiment adds to the scheduler's policies: the tree's routes without aggregation."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import networkx as nx

from p4reduce.control_plane.plans.problem import StarLayout, TreeLayout
from p4reduce.control_plane.scheduling import policies as _policies
from p4reduce.control_plane.scheduling.consumption import copies
from p4reduce.control_plane.scheduling.policy import POLICIES, Decision, register_policy
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.topologies.model import Hop

__all__ = ["POLICIES", "mst_routes"]
assert _policies.__all__  # imported for what it registers  # noqa: S101

Path = tuple[str, ...]


@register_policy("mst-routes")
def mst_routes(task: Task, state: NetworkState, *, lanes: int = 256) -> Decision:
    """Routing alone: every local model on its own along the links of the overlay MST, aggregation at G only.

    With `spff` (neither), `spff-ina` (aggregation alone) and `overlay-mst` (both) it tells the two gains apart. The
    way of a local model is the shortest one within the tree's links. Not admitted by residual bandwidth: the
    fixed scheduler's reservations would not fit on few links either.
    """
    chosen = POLICIES["overlay-mst"](replace(task, aggregation="switches"), state, lanes=lanes)
    up, down = (_within(layout, task) for layout in (chosen.upload, chosen.broadcast))
    star = StarLayout(up | {pair: path for pair, path in down.items() if pair[0] == task.server})
    demand: dict[Hop, int] = {}
    for direction in ("upload", "broadcast"):
        for hop, times in copies(task, state.topology, star, direction).items():
            demand[hop] = demand.get(hop, 0) + times * task.reserved_bps
    return Decision("mst-routes", task, star, star, demand)


def _within(layout: object, task: Task) -> dict[tuple[str, str], Path]:
    """Shortest ways between each local model and G on the links of a tree, both directions."""
    assert isinstance(layout, TreeLayout)  # noqa: S101
    graph: nx.Graph[str] = nx.Graph()
    for path in (layout.paths or {}).values():
        graph.add_edges_from(pairwise(path))
    found: dict[tuple[str, str], Path] = {}
    ways: Mapping[str, list[str]] = nx.single_source_shortest_path(graph, task.server)
    for worker in task.workers:
        way = tuple(ways[worker])
        found[(task.server, worker)] = way
        found[(worker, task.server)] = way[::-1]
    return found
