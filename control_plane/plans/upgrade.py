"""Which switches to make programmable: those with which the bound of the best plan falls most."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import comb, prod
from typing import Final

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans.bounds import best_plan_ps
from p4reduce.topologies import Topology, with_capable

MOST_SETS: Final = 300
"""sets of switches that are all looked at; of more, one switch after the other is added, or taken away from all"""
Told = Callable[[int, int], None]
"""(programs solved, of how many at most)"""
_Counts = tuple[int, ...]
"""how many switches of each class"""


@dataclass(frozen=True)
class Choice:
    """Switches that are made programmable beside those that are, and the bound of the best plan with them, in ps."""

    switches: tuple[str, ...]
    bound_ps: int


@dataclass(frozen=True)
class Upgrade:
    """What is searched: the network, its workers, and the size of the tensor, for which a bound holds."""

    topology: Topology
    workers: tuple[str, ...]
    elements: int
    lanes: int

    @property
    def candidates(self) -> tuple[str, ...]:
        """Switches that cannot aggregate yet."""
        return tuple(node.name for node in self.topology.switches if not node.capable)

    def with_switches(self, switches: Sequence[str]) -> Topology:
        """The network in which these switches aggregate, too."""
        there = [node.name for node in self.topology.switches if node.capable]
        return with_capable(self.topology, [*there, *switches] or False)

    def bound(self, switches: Sequence[str]) -> Choice:
        """The bound with these switches.

        Raises
        ------
        PlanError
            The network is too large for the linear program.
        """
        found = best_plan_ps(self.with_switches(switches), self.workers, self.elements, self.lanes)
        if found is None:
            raise PlanError(
                f"topology {self.topology.name!r} has too many switches and racks for the bound of the best plan; "
                "choose among fewer: mark those as capable that are bought anyway, or take a part of the network"
            )
        return Choice(tuple(switches), found)

    def best(self, count: int, told: Told = lambda done, most: None) -> Choice:
        """``count`` switches with the least bound: exact where there are at most :data:`MOST_SETS` sets, else greedy.

        Switches that can be exchanged for each other (:meth:`classes`) count as one set. Greedy means: the better of
        adding the best switch ``count`` times, and of taking the least useful one away from all.
        """
        classes = self.classes()
        sizes = tuple(len(names) for names in classes)
        count = min(count, sum(sizes))
        found: dict[_Counts, Choice] = {}

        def of(counts: _Counts) -> Choice:
            if counts not in found:
                chosen = [name for names, number in zip(classes, counts, strict=True) for name in names[:number]]
                found[counts] = self.bound(chosen)
                told(len(found), most)
            return found[counts]

        if _sets(sizes, count) <= MOST_SETS:
            most = _sets(sizes, count)
            return min(map(of, _all_counts(sizes, count)), key=lambda one: one.bound_ps)
        most = len(classes) * (sum(sizes) + 1)
        added = _greedy(of, (0,) * len(sizes), sizes, count, 1)
        taken = _greedy(of, sizes, sizes, sum(sizes) - count, -1)
        return min(of(added), of(taken), key=lambda one: one.bound_ps)

    def classes(self) -> list[list[str]]:
        """Candidates, those together that have the same neighbours: as many hosts alike, and the same switches."""
        near: dict[str, Counter[tuple[str, int]]] = defaultdict(Counter)
        for link in self.topology.links:
            for here, other in ((link.a, link.b), (link.b, link.a)):
                node = self.topology.node(other)
                kind = f"{node.role}, works: {other in self.workers}" if node.is_host else f"switch {other}"
                near[here][kind, link.rate_bps] += 1
        alike: dict[object, list[str]] = defaultdict(list)
        for name in self.candidates:
            alike[frozenset(near[name].items())].append(name)
        return list(alike.values())

    def drawn(self, count: int, samples: int, seed: int) -> list[Choice]:
        """So many random sets, with their bounds."""
        rng = random.Random(seed)  # noqa: S311  (a comparison, no secret)
        names = self.candidates
        return [self.bound(sorted(rng.sample(names, min(count, len(names))))) for _ in range(samples)]


def _sets(sizes: Sequence[int], count: int) -> int:
    """At most how many vectors of counts there are, without listing them."""
    return min(prod(size + 1 for size in sizes), comb(sum(sizes), count))


def _all_counts(sizes: Sequence[int], count: int) -> Iterator[_Counts]:
    if not sizes:
        if count == 0:
            yield ()
        return
    for first in range(min(sizes[0], count) + 1):
        for rest in _all_counts(sizes[1:], count - first):
            yield (first, *rest)


def _greedy(of: Callable[[_Counts], Choice], begin: _Counts, sizes: _Counts, steps: int, by: int) -> _Counts:
    counts = begin
    for _ in range(steps):
        possible = [
            (*counts[:place], number + by, *counts[place + 1 :])
            for place, number in enumerate(counts)
            if 0 <= number + by <= sizes[place]
        ]
        counts = min(possible, key=lambda one: of(one).bound_ps)
    return counts
