"""How what a group sends crosses pods: direct circuits, several configurations, or over several hops.

What is quickest is taken. With B = 25 Gb/s an all-to-all over 8 pods that direct circuits would carry in 72 ms takes
two configurations and a darkness, or several hops on four ports: which is better is a question of delta.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from p4reduce.control_plane.tdm.circuits import least_time
from p4reduce.control_plane.tdm.demand import Floats
from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.hops import several_hops
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.control_plane.tdm.packing import Packed, Part, demand
from p4reduce.control_plane.tdm.schedule import Matrix, Route
from p4reduce.control_plane.tdm.several import split

Ints = np.typing.NDArray[np.int64]


@dataclass(frozen=True)
class Crossing:
    """Circuits of one process, and who takes which."""

    seconds: float
    """with the darkness between configurations"""
    matrices: tuple[Matrix, ...]
    bytes: tuple[float, ...]
    """over a circuit of the busiest pair, of each configuration"""
    routes: tuple[tuple[Route, ...], ...]
    """of each job; none for trees"""


def cross(parts: Sequence[Part], packed: Packed, network: OpticalNetwork, *, returns: bool = False) -> Crossing:
    """The quickest of the three ways; direct circuits wherever there are ports for them.

    Parameters
    ----------
    parts, packed
        The jobs of a process, and where they are.
    network : OpticalNetwork
        Its ports, rates and darkness.
    returns : bool
        The process is the only one: it ends with going back to its first configuration.

    Raises
    ------
    TdmError
        When none of them has enough ports.
    """
    whole = demand(packed, parts, network.pods).astype(np.float64)
    if ((whole > 0).sum(axis=1) <= network.ports).all():
        found = least_time(whole, network.ports)
        at = np.zeros(whole.shape, np.int64)
        return Crossing(
            found.bytes / network.circuit, (found.matrix,), (found.bytes,), direct_routes(packed, parts, at)
        )
    first = frozenset((min(edge), max(edge)) for edges in packed.edges for edge in edges)
    ways = [_by_hops(parts, packed, network)]
    try:
        ways.append(_several(parts, packed, network, whole, first, returns=returns))
    except TdmError:
        if ways == [None]:
            raise
    return min((way for way in ways if way is not None), key=lambda one: one.seconds)


def direct_routes(
    packed: Packed, parts: Sequence[Part], at: "np.typing.NDArray[np.int64]"
) -> tuple[tuple[Route, ...], ...]:
    """Of every all-to-all straight from pod to pod, in the configuration of each pair."""
    return tuple(
        tuple(
            Route((a, b), 1.0, int(at[a, b]))
            for a, here in enumerate(units)
            for b, there in enumerate(units)
            if a != b and here and there
        )
        if part.alltoall
        else ()
        for units, part in zip(packed.units, parts, strict=True)
    )


def _several(
    parts: Sequence[Part],
    packed: Packed,
    network: OpticalNetwork,
    whole: Floats,
    first: frozenset[tuple[int, int]],
    *,
    returns: bool,
) -> Crossing:
    cut = split(whole, network.ports, first=first)
    at = np.zeros(whole.shape, np.int64)
    for number, part in enumerate(cut):
        at[part.demand > 0] = number
    changes = len(cut) if returns else len(cut) - 1
    seconds = sum(part.bytes for part in cut) / network.circuit + changes * network.delta_s
    matrices, sizes = tuple(part.matrix for part in cut), tuple(part.bytes for part in cut)
    return Crossing(seconds, matrices, sizes, direct_routes(packed, parts, at))


def _by_hops(parts: Sequence[Part], packed: Packed, network: OpticalNetwork) -> Crossing | None:
    """Trees have circuits of their own, the rest of the ports is for all-to-alls; None: too few."""
    places = [place for place, part in enumerate(parts) if part.alltoall]
    trees: Floats = np.zeros((network.pods, network.pods))
    for edges, part in zip(packed.edges, parts, strict=True):
        for a, b in edges:
            trees[a, b] += part.load
            trees[b, a] += part.load
    try:
        own = least_time(trees, network.ports) if trees.any() else None
    except TdmError:
        return None
    # A circuit for each pair that trees join: their others are for all-to-alls.
    lit = (trees > 0).astype(np.int64)
    free = (network.ports - lit.sum(axis=1)).tolist()
    found = several_hops([packed.units[x] for x in places], [parts[x].load for x in places], free)
    if found is None:
        return None
    both = np.array(found.matrix, np.int64) + lit
    # Where a tree and an all-to-all join the same pods they share what is there.
    carried = np.maximum(np.where(np.array(found.matrix) > 0, found.bytes, 0.0), 0.0) + trees
    most = float((carried[both > 0] / both[both > 0]).max(initial=0.0)) if own is not None else found.bytes
    routes: list[tuple[Route, ...]] = [()] * len(parts)
    for place, way in zip(places, found.routes, strict=True):
        routes[place] = way
    matrix = tuple(tuple(int(value) for value in row) for row in both)
    return Crossing(most / network.circuit, (matrix,), (most,), tuple(routes))
