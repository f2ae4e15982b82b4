"""A topology as placement sees it: racks of hosts, and the ways in which their switches can be joined."""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.topologies import Topology

MOST_WAYS: Final = 64
"""ways that are compared for one set of racks"""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Way:
    """A tree of shortest paths from the switches of racks to a root; ``parent`` by switch, the root has none."""

    root: str
    parent: Mapping[str, str]


class Racks:
    """Facts of one topology that no task changes.

    Links are counted by their place in ``topology.links``; what tasks put on one is the same in both directions, as of
    every sum that goes up and comes down, so a link is one thing here.

    Attributes
    ----------
    topology : Topology
        Whose hosts and switches these are.
    of : mapping
        The switch of every host.
    members : mapping
        Hosts for local models by switch, in the order of the topology.
    rate_bps : float64 (links,)
        Of every link.
    """

    def __init__(self, topology: Topology) -> None:
        self.topology: Final = topology
        self.of: Final[dict[str, str]] = {host.name: topology.neighbours(host.name)[0] for host in topology.hosts}
        self.members: Final[dict[str, list[str]]] = {}
        for host in topology.workers:
            self.members.setdefault(self.of[host.name], []).append(host.name)
        self.rate_bps: Final[Floats] = np.array([link.rate_bps for link in topology.links], np.float64)
        self._link = {
            pair: number for number, one in enumerate(topology.links) for pair in ((one.a, one.b), (one.b, one.a))
        }
        self._switches = {switch.name for switch in topology.switches}
        self._ways: dict[tuple[frozenset[str], frozenset[str]], tuple[Way, ...]] = {}
        self._distances: dict[str, dict[str, int]] = {}

    def link(self, a: str, b: str) -> int:
        """Number of the link between two neighbours."""
        return self._link[(a, b)]

    def uplink(self, host: str) -> int:
        """Number of a host's link."""
        return self._link[(host, self.of[host])]

    @cached_property
    def uplinks(self) -> dict[str, list[int]]:
        """Links of every switch to other switches."""
        return {switch: [self.link(switch, other) for other in self._next(switch)] for switch in sorted(self._switches)}

    @cached_property
    def capable(self) -> frozenset[str]:
        """Switches that can aggregate."""
        return frozenset(switch.name for switch in self.topology.switches if switch.capable)

    def distance(self, a: str, b: str) -> int:
        """Links between two switches; a large number where there is no way."""
        return self._from(b).get(a, len(self._switches) + 1)

    def ways(self, switches: Iterable[str], roots: Collection[str] | None = None) -> tuple[Way, ...]:
        """The ways to join the switches of some racks, along shortest paths to one root.

        Of all possible roots those with the least sum of distances; where one of the racks and a switch between them
        are as good, the latter. Equal paths are told apart, up to `MOST_WAYS` ways. ``roots``: only these; None: any.
        """
        wanted = frozenset(switches)
        among = frozenset(self._switches if roots is None else roots)
        known = self._ways.get((wanted, among))
        if known is None:
            known = self._ways[(wanted, among)] = self._find(wanted, among)
        return known

    def _find(self, wanted: frozenset[str], roots: frozenset[str]) -> tuple[Way, ...]:
        total = {root: sum(self.distance(switch, root) for switch in wanted) for root in roots}
        total = {root: distance for root, distance in total.items() if distance <= len(self._switches) * len(wanted)}
        if not total:
            return ()
        least = min(total.values())
        best = sorted(root for root, distance in total.items() if distance == least)
        best = [root for root in best if root not in wanted] or best
        found: dict[tuple[str, tuple[tuple[str, str], ...]], Way] = {}
        for variant in range(len(self._switches)):
            before = len(found)
            for root in best:
                parent = self._parents(wanted, root, variant)
                found.setdefault((root, tuple(sorted(parent.items()))), Way(root, parent))
            if len(found) == before or len(found) >= MOST_WAYS:
                break
        return tuple(found.values())[:MOST_WAYS]

    def _parents(self, wanted: frozenset[str], root: str, variant: int) -> dict[str, str]:
        """Next hops to the root; of equal ones the ``variant``-th, at every switch."""
        distances, parent = self._from(root), dict[str, str]()
        for switch in sorted(wanted):
            at = switch
            while at != root and at not in parent:
                nearer = [other for other in self._next(at) if distances.get(other, -1) == distances[at] - 1]
                parent[at] = nearer[variant % len(nearer)]
                at = parent[at]
        return parent

    def _next(self, switch: str) -> list[str]:
        return [other for other in self.topology.neighbours(switch) if other in self._switches]

    def _from(self, root: str) -> dict[str, int]:
        known = self._distances.get(root)
        if known is None:
            known, left = {root: 0}, deque([root])
            while left:
                switch = left.popleft()
                for other in self._next(switch):
                    if other not in known:
                        known[other] = known[switch] + 1
                        left.append(other)
            self._distances[root] = known
        return known
