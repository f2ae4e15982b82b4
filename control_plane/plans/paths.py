"""Shortest paths that are unique, so that whatever uses them agrees.

Switches forward by destination alone. If every overlay edge of a plan takes *the* shortest path of its two ends, then
both directions use the same links, every part of a path is the path of its own ends, and no switch is ever asked to
forward one destination two ways. To make shortest paths unique each link gets a tiny extra weight: from what it carries
already, then from its place in the topology, so that equal paths of one tree merge, then from its name.
"""

from collections.abc import Mapping
from typing import Final, Literal

import numpy as np

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans.graph import Ints, SwitchGraph, switch_graph
from p4reduce.control_plane.plans.routes import Routes, Row, hops, no_way, path_latency_ps
from p4reduce.topologies import Link, Topology

__all__ = ["Cost", "Paths", "hops", "path_latency_ps", "unique_words"]

Cost = Literal["hops", "delay"]
"""What a path costs: links crossed (copies of a frame on links), or propagation delay in picoseconds."""

_LOAD_SHIFT: Final = 37
_LOAD_STEPS: Final = 512
"""Levels of load that count. An extra weight stays below 2**46: sums over 65,536 links fit a word of 63 bits."""


class Paths(Routes):
    """Shortest paths that both directions agree on.

    Ties of ``cost`` go to the smaller delay, then to the smaller load, then to links that come first in the topology:
    equal paths merge. With ``spread`` a hash decides instead, so that pairs spread over equal paths.

    Parameters
    ----------
    topology : Topology
        The network.
    cost : 'hops' or 'delay'
        What a path costs.
    load : mapping
        What is already used of directed links, bit/s by (node, port); of a link the busier direction counts.
    spread : bool
        Whether pairs spread over equal paths.
    """

    def __init__(
        self,
        topology: Topology,
        cost: Cost = "hops",
        load: Mapping[tuple[str, int], int] | None = None,
        *,
        spread: bool = False,
    ) -> None:
        if cost not in ("hops", "delay"):
            raise PlanError(f"cost {cost!r} is unknown; choose 'hops' or 'delay'")
        self.cost: Cost = cost
        graph = switch_graph(topology)
        main = np.ones(len(graph.heads), np.int64) if cost == "hops" else graph.delay_ps
        used = graph.by_arc(load or {})
        used = np.maximum(used, used[graph.reverse])
        super().__init__(topology, graph, unique_words(graph, main, used, spread=spread))

    def host_cost(self, host: str, *, leaving: bool) -> int:
        """Cost of a host's link."""
        return _weight(self.topology.link_at(host, 1), self.cost)

    def _check(self, switch: int, row: Row) -> None:
        if self.topology.partial:
            return  # whoever wants a path to what is cut off is told then
        far = int(row.costs.argmax())
        if no_way(int(row.costs[far])):
            # A host has one link, so a network that only hosts would connect is not connected.
            missing = next(name for name, cost in zip(self.graph.names, row.costs, strict=True) if no_way(cost))
            raise PlanError(f"no path from {self.graph.names[switch]} to {missing}")


def unique_words(graph: SwitchGraph, main: Ints, used_bps: Ints, *, spread: bool = False) -> Ints:
    """Weights with which shortest paths are unique: int64 (m, 3) of cost, delay, and load, place (or a hash), name.

    Parameters
    ----------
    graph : SwitchGraph
        The switches; m arcs.
    main : int64 (m,)
        Cost of every arc.
    used_bps : int64 (m,)
        What is used of every arc.
    spread : bool
        A hash instead of the link's place.
    """
    words = np.empty((len(main), 3), np.int64)
    words[:, 0], words[:, 1], words[:, 2] = main, graph.delay_ps, graph.tie_breaks(spread=spread)
    if used_bps.any():
        words[:, 2] += np.minimum(_LOAD_STEPS - 1, used_bps * _LOAD_STEPS // graph.rate_bps) << _LOAD_SHIFT
    return words


def _weight(link: Link, cost: Cost) -> int:
    return 1 if cost == "hops" else link.delay_ps
