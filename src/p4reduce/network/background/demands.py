"""Demand matrices: who sends how much to whom, bit/s between hosts."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from p4reduce.base import extras
from p4reduce.network.virtual.faults import FabricError
from p4reduce.topologies import Topology


@dataclass(frozen=True, eq=False)
class Demands:
    """A demand matrix.

    hosts : names of n hosts.
    bps : float64, shape (n, n): from row to column, bit/s; the diagonal is 0.
    """

    hosts: tuple[str, ...]
    bps: NDArray[np.float64]

    def __post_init__(self) -> None:
        if self.bps.shape != (len(self.hosts), len(self.hosts)):
            raise FabricError(f"bps: shape {self.bps.shape} for {len(self.hosts)} hosts")
        if not np.isfinite(self.bps).all() or (self.bps < 0).any() or self.bps.diagonal().any():
            raise FabricError("bps: demands are finite, at least 0, and 0 from a host to itself")

    @cached_property
    def sent_bps(self) -> NDArray[np.float64]:
        """What each host sends, float64 of shape (n,)."""
        return np.asarray(self.bps.sum(axis=1))

    @cached_property
    def received_bps(self) -> NDArray[np.float64]:
        """What each host receives, float64 of shape (n,)."""
        return np.asarray(self.bps.sum(axis=0))

    def at_load(self, topology: Topology, load: float) -> "Demands":
        """The same pattern, scaled so that the busiest host link is used to the share ``load`` (0..1).

        Links between switches may be used more or less: that depends on the routes, and is measured
        (:func:`~p4reduce.network.background.spec.link_loads`).
        """
        if not 0 <= load < 1:
            raise FabricError(f"load: {load} is not in 0 <= load < 1")
        rates = np.array([topology.link_at(host, 1).rate_bps for host in self.hosts], dtype=np.float64)
        busiest = max(float((self.sent_bps / rates).max()), float((self.received_bps / rates).max()))
        if busiest == 0:
            raise FabricError("bps: nobody sends anything, so nothing can be scaled")
        return Demands(self.hosts, self.bps * (load / busiest))


def gravity(hosts: tuple[str, ...], seed: int, *, sigma: float = 1.0) -> Demands:
    """A gravity matrix: T_ij = w_i * w_j / sum w, with log-normal weights exp(sigma * N(0, 1)).

    M. Roughan, "Simplifying the synthesis of Internet traffic matrices", ACM SIGCOMM CCR 35(5), 2005, section 2.

    Parameters
    ----------
    hosts : tuple of str
        Who takes part, at least two.
    seed : int
        Of the weights.
    sigma : float
        How unequal hosts are; 0: all alike.
    """
    if len(hosts) < 2:
        raise FabricError(f"hosts: {len(hosts)} cannot send to each other")
    weights = np.exp(sigma * np.random.Generator(np.random.Philox(seed)).standard_normal(len(hosts)))
    matrix = np.outer(weights, weights) / weights.sum()
    np.fill_diagonal(matrix, 0.0)
    return Demands(hosts, matrix)


def sndlib(topology: Topology, graph: str) -> Demands:
    """The demand matrix that SNDlib publishes with a graph, between the first hosts of its cities; any unit.

    Parameters
    ----------
    topology : Topology
        Made by :func:`p4reduce.topologies.datacenter` from the same graph: its switches are the cities in their order.
    graph : str
        The name at topohub, for example 'sndlib/germany50'.
    """
    topohub = extras.load("topohub", "wan")
    try:
        found: dict[str, Any] = topohub.get(graph if "/" in graph else f"sndlib/{graph}")
    except (KeyError, ValueError):
        raise FabricError(f"graph: topohub has no {graph!r}") from None
    demands: Mapping[Any, Mapping[Any, float]] = found["graph"].get("demands") or {}
    if not demands:
        raise FabricError(f"graph: {graph!r} comes without demands; use a gravity matrix")
    if len(found["nodes"]) != len(topology.switches):
        raise FabricError(
            f"graph: {graph!r} has {len(found['nodes'])} cities, {topology.name!r} {len(topology.switches)}"
        )
    place = {node["id"]: index for index, node in enumerate(found["nodes"])}
    hosts = tuple(
        next(name for name in topology.neighbours(switch.name) if topology.node(name).is_host)
        for switch in topology.switches
    )
    matrix = np.zeros((len(hosts), len(hosts)))
    for source, row in demands.items():
        for target, value in row.items():
            if source != target:
                matrix[place[source], place[target]] += value
    return Demands(hosts, matrix)
