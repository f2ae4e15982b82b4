"""Which k switches of a tree should aggregate: SOAR's dynamic program."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.plans.problem import Problem
from p4reduce.control_plane.plans.routes import Ints
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.topologies import Topology

_NONE: Final = np.iinfo(np.int64).max // 4


@dataclass(frozen=True)
class Placement:
    """Switches that aggregate, and what all frames of a chunk then cost: sum over links of cost times copies."""

    chosen: tuple[int, ...]
    cost: int


def place(
    parent: Sequence[int],
    cost: Sequence[int],
    hosts: Sequence[int],
    count: int,
    available: Collection[int] | None = None,
) -> Placement:
    """At most ``count`` nodes of a tree that aggregate, so that the least crosses its links.

    A node that aggregates sends one frame up if it gets any; another sends on what it gets. With B(v, l, k) the
    least cost of the frames of v's subtree up to the nearest aggregating node above (or to the destination), to which
    one frame of v costs l, and at most k aggregating nodes in the subtree:

        B aggregating     = l + best split of k - 1 among the children c, B(c, cost of c, .)
        B not aggregating = l * hosts(v) + best split of k among the children, B(c, l + cost of c, .)

    l takes one value for each node above v. O(nodes * depth * count^2) (Segal, Avin and Scalosub, SOAR: minimizing
    network utilization with bounded in-network computing, CoNEXT 2021, which this follows).

    Parameters
    ----------
    parent : sequence of int
        The node above each; -1 at the root.
    cost : sequence of int
        Of a frame on the link to the node above, at the root of that to the destination.
    hosts : sequence of int
        Workers at each node.
    count : int
        k.
    available : collection of int or None
        Nodes that could aggregate; None: all.

    Raises
    ------
    PlanError
        When the parents are no tree, or lengths differ.
    """
    order = _top_down(parent)
    if not len(parent) == len(cost) == len(hosts):
        raise PlanError("placement: parents, costs and hosts must have one value for each node")
    children: list[list[int]] = [[] for _ in parent]
    for node, above in enumerate(parent):
        if above >= 0:
            children[above].append(node)
    # lead[v][d]: cost of a frame from v to the node d steps above (the last: to the destination).
    lead: list[list[int]] = [[] for _ in parent]
    for node in order:
        farther = lead[parent[node]] if parent[node] >= 0 else []
        lead[node] = [cost[node], *(cost[node] + more for more in farther)]
    able = set(range(len(parent))) if available is None else set(available)
    limit = max(0, min(count, len(able)))
    tables: dict[int, _Table] = {}
    for node in reversed(order):
        tables[node] = _Table(node, lead[node], hosts[node], children[node], tables, limit, possible=node in able)
    root = order[0]
    chosen: list[int] = []
    open_ = [(root, 0, limit)]
    while open_:
        node, step, left = open_.pop()
        table = tables[node]
        merges = bool(table.merges[step, left])
        if merges:
            chosen.append(node)
        open_ += table.split(step, left, merges=merges)
    return Placement(tuple(sorted(chosen)), int(tables[root].best[0, limit]))


class _Table:
    """B(v, l, k) of one node for every step up and every k, with what it takes to find the choice again.

    Step d counts from the nearest aggregating node above: 0 when that is the parent.
    """

    def __init__(
        self,
        node: int,
        lead: Sequence[int],
        hosts: int,
        children: Sequence[int],
        tables: "Mapping[int, _Table]",
        limit: int,
        *,
        possible: bool,
    ) -> None:
        self._children = children
        self._tables = tables
        self.gets: bool = hosts > 0 or any(tables[child].gets for child in children)
        self._splits: dict[tuple[int, bool], list[Ints]] = {}
        self.best = np.empty((len(lead), limit + 1), np.int64)
        self.merges = np.zeros((len(lead), limit + 1), np.bool_)
        below = self._shared(0, limit, merges=True)
        for step, way in enumerate(lead):
            self.best[step] = way * hosts + self._shared(step + 1, limit, merges=False)
            if possible and limit and self.gets:
                merged = np.full(limit + 1, _NONE, np.int64)
                merged[1:] = way + below[:-1]
                self.merges[step] = merged < self.best[step]
                self.best[step] = np.minimum(merged, self.best[step])

    def _shared(self, step: int, limit: int, *, merges: bool) -> Ints:
        """The least cost of all children that share k aggregating nodes, for every k."""
        total = np.zeros(limit + 1, np.int64)
        splits: list[Ints] = []
        for child in self._children:
            own = self._tables[child].best[step]
            options = np.full((limit + 1, limit + 1), _NONE, np.int64)  # [k, of these to the child]
            for given in range(limit + 1):
                options[given:, given] = total[: limit + 1 - given] + own[given]
            splits.append(options.argmin(axis=1))
            total = options.min(axis=1)
        self._splits[(step, merges)] = splits
        return total

    def split(self, step: int, left: int, *, merges: bool) -> list[tuple[int, int, int]]:
        """For each child: node, step and number of aggregating nodes in its subtree."""
        below, left = (0, left - 1) if merges else (step + 1, left)
        found = []
        for child, given in zip(self._children[::-1], self._splits[(below, merges)][::-1], strict=True):
            share = int(given[left])
            found.append((child, below, share))
            left -= share
        return found


def _top_down(parent: Sequence[int]) -> list[int]:
    roots = [node for node, above in enumerate(parent) if above < 0]
    if len(roots) != 1:
        raise PlanError(f"placement: a tree has one root, not {len(roots)}")
    below: dict[int, list[int]] = {}
    for node, above in enumerate(parent):
        below.setdefault(above, []).append(node)
    order = list(roots)
    for node in order:
        order.extend(below.get(node, ()))
    if len(order) != len(parent):
        raise PlanError("placement: the parents have a cycle")
    return order


def choose_capable(topology: Topology, workers: Sequence[str], server: str, count: int) -> tuple[str, ...]:
    """The switches on the workers' shortest paths to the server with which the fewest copies cross links.

    :func:`~p4reduce.topologies.with_capable` makes a topology in which only they aggregate. (A plan needs one switch
    next to the server that merges everything; where none of the chosen ones does, its tree differs from this one.)

    Parameters
    ----------
    topology : Topology
        Its capable switches may be chosen.
    workers : sequence of str
        Hosts.
    server : str
        The destination.
    count : int
        How many switches may aggregate.

    Returns
    -------
    tuple of str
        At most ``count`` switches: fewer where more would save nothing.
    """
    tree = _paths(topology, workers, server)
    available = [tree.names.index(name) for name in tree.names if topology.node(name).capable]
    found = place(tree.parent, [1] * len(tree.names), tree.hosts, count, available)
    return tuple(tree.names[node] for node in found.chosen)


def choose_capable_for(topology: Topology, tasks: Sequence[Task], count: int) -> tuple[str, ...]:
    """The switches that should aggregate for several tasks, the one that saves most first.

    One task gets what :func:`choose_capable` finds. For several it is greedy: in every step the switch with which the
    fewest copies cross links, all tasks together, each on its shortest paths. So a smaller count gives the
    first ones of a larger count.

    Parameters
    ----------
    topology : Topology
        Its capable switches may be chosen.
    tasks : sequence of Task
        Whose models are added up; each counts with the frames of its model (``elements``).
    count : int
        How many switches may aggregate.

    Returns
    -------
    tuple of str
        At most ``count`` switches: fewer where more would save nothing.
    """
    if len(tasks) == 1:
        return choose_capable(topology, tasks[0].workers, tasks[0].server, count)
    trees = [(_paths(topology, task.workers, task.server), task.elements) for task in tasks]
    chosen: list[str] = []
    spent = [tree.copies(frozenset()) for tree, _ in trees]
    while len(chosen) < count:
        saved: dict[str, int] = {}
        for (tree, elements), now in zip(trees, spent, strict=True):
            for name in tree.names:
                if name not in chosen and topology.node(name).capable:
                    gain = now - tree.copies(frozenset((*chosen, name)))
                    saved[name] = saved.get(name, 0) + gain * elements
        best = max(sorted(saved), key=lambda name: saved[name], default=None)
        if best is None or saved[best] <= 0:
            break
        chosen.append(best)
        spent = [tree.copies(frozenset(chosen)) for tree, _ in trees]
    return tuple(chosen)


@dataclass(frozen=True)
class _PathTree:
    """Shortest paths of workers to a server: switches, the switch above each (-1: the server), workers at each."""

    names: list[str]
    parent: list[int]
    hosts: list[int]

    def copies(self, chosen: frozenset[str]) -> int:
        """What crosses links when these switches aggregate."""
        frames, total = list(self.hosts), 0
        for node in reversed(_top_down(self.parent)):
            sent = min(frames[node], 1) if self.names[node] in chosen else frames[node]
            total += sent
            if self.parent[node] >= 0:
                frames[self.parent[node]] += sent
        return total


def _paths(topology: Topology, workers: Sequence[str], server: str) -> _PathTree:
    routes = Problem(topology, tuple(workers), server).paths
    above: dict[str, str | None] = {}
    hosts: dict[str, int] = {}
    for worker in workers:
        path = routes.path(worker, routes.access(server))[1:]
        hosts[path[0]] = hosts.get(path[0], 0) + 1
        above.update(zip(path, (*path[1:], None), strict=True))
    names = list(above)
    index = {name: position for position, name in enumerate(names)}
    parent = [-1 if (other := above[name]) is None else index[other] for name in names]
    return _PathTree(names, parent, [hosts.get(name, 0) for name in names])
