"""Choice of the switches to make programmable: the switches that lower the bound of the best plan most."""

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
"""largest number of sets that are searched completely; beyond it the search is greedy"""
Told = Callable[[int, int], None]
"""progress: (programs solved, upper limit of their number)"""
_Counts = tuple[int, ...]
"""number of switches of each class"""


@dataclass(frozen=True)
class UpgradeChoice:
    """Switches to make programmable in addition to capable switches; the bound of the best plan with them, in ps."""

    switches: tuple[str, ...]
    bound_ps: int


@dataclass(frozen=True)
class Upgrade:
    """The search for an upgrade: the network, its workers, and the size of the tensor for which the bound holds."""

    topology: Topology
    workers: tuple[str, ...]
    elements: int
    lanes: int

    @property
    def candidates(self) -> tuple[str, ...]:
        """Switches that cannot aggregate yet."""
        return tuple(node.name for node in self.topology.switches if not node.capable)

    def with_switches(self, switches: Sequence[str]) -> Topology:
        """The network in which these switches can aggregate as well."""
        there = [node.name for node in self.topology.switches if node.capable]
        return with_capable(self.topology, [*there, *switches] or False)

    def bound(self, switches: Sequence[str]) -> UpgradeChoice:
        """The bound of the best plan with these switches.

        Raises
        ------
        PlanError
            The network is too large for the linear program.
        """
        bound_ps = best_plan_ps(self.with_switches(switches), self.workers, self.elements, self.lanes)
        if bound_ps is None:
            raise PlanError(
                f"topology {self.topology.name!r} has too many switches and racks for the bound of the best plan; "
                "choose among fewer: mark those as capable that are bought anyway, or take a part of the network"
            )
        return UpgradeChoice(tuple(switches), bound_ps)

    def best(self, count: int, told: Told = lambda done, most: None) -> UpgradeChoice:
        """``count`` switches with the least bound: exact for at most :data:`MOST_SETS` sets, else greedy.

        Interchangeable switches (:meth:`classes`) make sets equal. The greedy search takes the better of adding the
        best switch ``count`` times, and of removing the least useful switch from all.
        """
        classes = self.classes()
        sizes = tuple(len(names) for names in classes)
        count = min(count, sum(sizes))
        choices: dict[_Counts, UpgradeChoice] = {}

        def of(counts: _Counts) -> UpgradeChoice:
            if counts not in choices:
                chosen = [name for names, number in zip(classes, counts, strict=True) for name in names[:number]]
                choices[counts] = self.bound(chosen)
                told(len(choices), most)
            return choices[counts]

        if _sets(sizes, count) <= MOST_SETS:
            most = _sets(sizes, count)
            return min(map(of, _all_counts(sizes, count)), key=lambda choice: choice.bound_ps)
        most = len(classes) * (sum(sizes) + 1)
        added = _greedy(of, (0,) * len(sizes), sizes, count, 1)
        taken = _greedy(of, sizes, sizes, sum(sizes) - count, -1)
        return min(of(added), of(taken), key=lambda choice: choice.bound_ps)

    def classes(self) -> list[list[str]]:
        """Candidates in classes of switches with the same neighbours: equal hosts, and the same switches."""
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

    def drawn(self, count: int, samples: int, seed: int) -> list[UpgradeChoice]:
        """``samples`` random sets of ``count`` switches, with their bounds."""
        rng = random.Random(seed)  # noqa: S311  (a comparison, no secret)
        names = self.candidates
        return [self.bound(sorted(rng.sample(names, min(count, len(names))))) for _ in range(samples)]


def _sets(sizes: Sequence[int], count: int) -> int:
    """An upper bound on the number of vectors of counts, without listing them."""
    return min(prod(size + 1 for size in sizes), comb(sum(sizes), count))


def _all_counts(sizes: Sequence[int], count: int) -> Iterator[_Counts]:
    if not sizes:
        if count == 0:
            yield ()
        return
    for first in range(min(sizes[0], count) + 1):
        for rest in _all_counts(sizes[1:], count - first):
            yield (first, *rest)


def _greedy(of: Callable[[_Counts], UpgradeChoice], begin: _Counts, sizes: _Counts, steps: int, by: int) -> _Counts:
    counts = begin
    for _ in range(steps):
        possible = [
            (*counts[:place], number + by, *counts[place + 1 :])
            for place, number in enumerate(counts)
            if 0 <= number + by <= sizes[place]
        ]
        counts = min(possible, key=lambda changed: of(changed).bound_ps)
    return counts
