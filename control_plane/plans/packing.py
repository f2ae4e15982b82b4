"""``packing``: trees with shares that use all links as well as any plan can; workers may aggregate inside trees.

The trees come from the linear program of the best plan (`bounds.py`), in the form with a column for each tree: shares
y_k of trees k, sum(y) = 1, with the least time T such that on every link l the trees' frames, each in its share, take
at most T. Trees are found on demand (column generation): the dual prices of links tell which tree would lower T most,
namely the cheapest tree under these prices, approximately a Steiner tree over workers and capable switches. Dual prices
are smoothed (Wentges, 1997), since they oscillate. Fractional packings of Steiner trees: Jain, Mahdian,
Salavatipour, Packing Steiner trees (SODA 2003).

The optimum may take many trees. A few trees with about equal shares are therefore sought as well, as in packings by
multiplicative weights (Plotkin, Shmoys, Tardos, 1995): in turn, one tree is removed and the cheapest added, under
prices that grow exponentially with the load of the others on a link. The linear program then sets their shares.
Finally, column generation continues from these trees, and from those of the optimum: after each round the trees with
the least shares are removed until few enough are left.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans.forest import MOST_TREES, TreeShare, paces, predicted_forest_ps
from p4reduce.control_plane.plans.kernels.spanning import cheap_tree
from p4reduce.control_plane.plans.problem import Problem, TreeLayout, all_paths, check_forwarding
from p4reduce.control_plane.plans.routes import frame_bytes
from p4reduce.workers.specs import MOST_CHILDREN

PACKING: Final = "packing"
MOST_NODES: Final = 200
"""largest number of workers and aggregating switches; the search over more takes long"""
_COUNTS: Final = (1, 2, 3, 4, 6, 8, MOST_TREES)
"""numbers of trees that are tried"""
_ROUNDS: Final = 100
"""largest number of rounds of column generation"""
_CLOSE: Final = 1e-4
"""relative tolerance of the optimum"""
_ALIKE: Final = 1.01
"""ratio to the least predicted time up to which fewer trees are preferred"""
_STEEPER: Final = (3.0, 6.0, 10.0, 16.0, 24.0, 40.0)
"""exponents of prices, from the first round of exchanges to the last"""
_NEAR: Final = 1.005
"""ratio to the optimum at which the search stops"""
_STALE: Final = 6
"""number of rounds without improvement after which the search stops"""
_REFINED: Final = 4
"""least number of trees from which column generation continues"""
_NONE: Final = 1e-9
"""shares up to this count as 0"""
_UNIT: Final = 1 << 16
"""sum of the weights, up to rounding"""

Floats = npt.NDArray[np.float64]
Edge = tuple[int, int]


Around = dict[int, list[tuple[int, tuple[str, ...]]]]
"""for each node of a tree, its neighbours with the path from each of them"""


@dataclass(frozen=True, eq=False)
class _Tree:
    """Edges between terminals, by their numbers, each with its path of nodes; frames for a chunk on each link."""

    edges: tuple[tuple[Edge, tuple[str, ...]], ...]
    frames: Floats


class Packer:
    """Finds the trees of one problem.

    Raises
    ------
    PlanError
        The job has a server, fewer than two workers, or too many nodes that may aggregate; or the workers have no path.
    """

    def __init__(self, problem: Problem) -> None:
        if problem.server is not None:
            raise PlanError(f"plan {PACKING}: a job with a server has one tree, to the server; choose steiner")
        topology = problem.topology
        self.names = [*problem.workers, *problem.reached]
        if len(problem.workers) < 2:
            raise PlanError(f"plan {PACKING}: one worker alone has no trees; choose steiner")
        if len(self.names) > MOST_NODES:
            raise PlanError(
                f"plan {PACKING}: {len(problem.workers)} workers and {len(problem.reached)} switches that aggregate "
                f"are more than {MOST_NODES}; choose striped, steiner or ring"
            )
        self.problem = problem
        nodes = {node.name: number for number, node in enumerate(topology.nodes)}
        self._node_names = list(nodes)
        self._terminals = np.array([nodes[name] for name in self.names])
        self._a = np.array([nodes[link.a] for link in topology.links])
        self._b = np.array([nodes[link.b] for link in topology.links])
        self._link: dict[Edge, int] = {}
        for number, (a, b) in enumerate(zip(self._a.tolist(), self._b.tolist(), strict=True)):
            self._link[a, b] = self._link[b, a] = number
        times = [
            max(problem.chunk_ps((link.a, link.port_a)), problem.chunk_ps((link.b, link.port_b)))
            for link in topology.links
        ]
        self.unit_ps = min(times)
        self.times = np.array(times) / self.unit_ps
        """time of a full frame on each link, in its slower direction, in units of ``unit_ps``"""
        # Small random prices in the low bits make the shortest path between two nodes unique.
        self._own = np.random.default_rng(0).integers(1 << 19, 1 << 20, len(times)).astype(np.float64)
        self._known: dict[bytes, _Tree] = {}
        self._layouts: dict[_Tree, TreeLayout] = {}

    def cheapest(self, prices: Floats) -> _Tree:
        """An approximately cheapest tree for these prices of a frame on each link: float64 (links,), not negative."""
        from scipy.sparse import csr_array  # noqa: PLC0415  (slow to import, and only needed here)
        from scipy.sparse.csgraph import dijkstra  # noqa: PLC0415

        scaled = np.floor(prices / max(float(prices.max()), 1e-300) * 2**24) * 2**20 + self._own
        ends = np.concatenate([self._a, self._b]), np.concatenate([self._b, self._a])
        size = len(self._node_names)
        graph = csr_array((np.concatenate([scaled, scaled]), ends), shape=(size, size))
        shortest: Any = dijkstra(graph, indices=self._terminals, return_predecessors=True)
        distance, before = shortest
        matrix = distance[:, self._terminals]
        if not np.isfinite(matrix).all():
            raise PlanError(f"plan {PACKING}: no way connects all workers")
        _, parent = cheap_tree(matrix.astype(np.int64), len(self.problem.workers))
        return self._tree([(int(above), node) for node, above in enumerate(parent) if above >= 0], before)

    def _tree(self, edges: list[Edge], before: npt.NDArray[np.int32]) -> _Tree:
        frames = np.zeros(len(self.times))
        made = []
        for a, b in sorted(self._thinned(edges)):
            at = int(self._terminals[b])
            path = [self._node_names[at]]
            while at != self._terminals[a]:
                onward = int(before[a, at])
                frames[self._link[onward, at]] += 1
                at = onward
                path.append(self._node_names[at])
            made.append(((a, b), tuple(path)))
        return self._known.setdefault(frames.tobytes(), _Tree(tuple(made), frames))

    def _thinned(self, edges: list[Edge]) -> list[Edge]:
        """Move surplus leaf workers so that no node has more neighbours than a relay may have children; new edges."""
        around: dict[int, list[int]] = {}
        for a, b in edges:
            around.setdefault(a, []).append(b)
            around.setdefault(b, []).append(a)
        workers = len(self.problem.workers)
        for near in list(around.values()):
            leaves = [node for node in near if node < workers and len(around[node]) == 1]
            surplus = len(near) - MOST_CHILDREN
            if surplus <= 0 or len(leaves) <= surplus:
                continue
            for place, leaf in enumerate(leaves[:surplus]):
                other = leaves[surplus + place % (len(leaves) - surplus)]
                near.remove(leaf)
                around[leaf] = [other]
                around[other].append(leaf)
        return [(a, b) for a, near in around.items() for b in near if a < b]

    # The choice of trees.

    def shares(self, trees: Sequence[_Tree]) -> tuple[float, Floats, Floats]:
        """The least time T of these trees in ``unit_ps``, the shares that reach it, and the links' dual prices."""
        from scipy.optimize import linprog  # noqa: PLC0415  (takes a while to import)

        load = np.array([tree.frames for tree in trees]) * self.times
        count, links = load.shape
        solver: Any = linprog
        solution = solver(
            np.append(np.zeros(count), 1.0),
            A_ub=np.hstack([load.T, -np.ones((links, 1))]),
            b_ub=np.zeros(links),
            A_eq=np.append(np.ones(count), 0.0)[None, :],
            b_eq=[1.0],
            method="highs",
        )
        if solution.status != 0:
            raise PlanError(f"plan {PACKING}: no shares of the trees were found: {solution.message}")
        return float(solution.fun), np.maximum(solution.x[:-1], 0.0), np.maximum(-solution.ineqlin.marginals, 0.0)

    @cached_property
    def optimum(self) -> tuple[float, list[_Tree]]:
        """T of the best packing in ``unit_ps``, if the approximate trees are cheapest, and trees that reach it."""
        pool = [self.cheapest(self.times)]
        known = {pool[0]}
        smooth = np.ones(len(self.times)) / len(self.times)
        least = 0.0
        while True:
            value, shares, dual = self.shares(pool)
            smooth = (smooth + dual) / 2
            size = len(pool)
            for prices in (smooth, dual):
                tree = self.cheapest(prices * self.times)
                least = max(least, float((prices * self.times * tree.frames).sum() / prices.sum()))
                if tree not in known:
                    known.add(tree)
                    pool.append(tree)
            if value <= least * (1 + _CLOSE) or len(pool) == size or len(pool) > 2 * _ROUNDS:
                return value, [tree for tree, share in zip(pool, shares, strict=False) if share > _NONE]

    @property
    def least_ps(self) -> float:
        """Lower bound in ps on every packing: the optimum's rate, and the farthest worker's path from the first."""
        routes, workers = self.problem.paths, self.problem.workers
        lengths = (self.problem.frame_bytes, frame_bytes(0))
        first = workers[0]  # the two workers farthest apart are at least as far apart as the first and any other
        there = max(sum(routes.latency_ps(first, other, length) for length in lengths) for other in workers[1:])
        return (self.problem.chunks - 1) * self.optimum[0] * self.unit_ps + there

    def few(self, count: int) -> list[_Tree]:
        """At most ``count`` trees whose busiest link is about as busy as in the optimum."""
        aim = self.optimum[0]
        step = self.times / count

        def prices(load: Floats, steep: float) -> Floats:
            grown = np.exp(np.minimum(steep * step / aim, 20.0)) - 1
            frame_prices: Floats = (
                np.exp(np.minimum(steep * (load / aim - 1), 50.0)) * grown * self.times + 1e-9 * self.times
            )
            return frame_prices

        def pressure(load: Floats, steep: float) -> float:
            return float(np.exp(np.minimum(steep * (load / aim - 1), 50.0)).sum())

        trees: list[_Tree] = []
        load = np.zeros(len(self.times))
        for _ in range(count):
            trees.append(self.cheapest(prices(load, 2 * _STEEPER[0])))
            load = load + trees[-1].frames * step
        best, least = list(trees), load.max()
        for steep in _STEEPER:
            for place in range(count):
                others = load - trees[place].frames * step
                tree = self.cheapest(prices(others, steep))
                changed = others + tree.frames * step
                if pressure(changed, steep) < pressure(load, steep) * (1 - 1e-9):
                    trees[place], load = tree, changed
                    if load.max() < least - 1e-9:
                        best, least = list(trees), load.max()
            if least <= aim * (1 + _CLOSE):
                break
        return list(dict.fromkeys(best))

    def trimmed(self, trees: Sequence[_Tree], count: int) -> tuple[float, list[_Tree]]:
        """T with at most ``count`` of these trees, and the trees kept: trees with the least shares are removed."""
        _, shares, _ = self.shares(trees)
        left = [tree for tree, share in zip(trees, shares, strict=True) if share > _NONE]
        while len(left) > count:
            surplus = max(1, (len(left) - count) // 3)
            _, shares, _ = self.shares(left)
            left = [left[place] for place in sorted(np.argsort(shares, kind="stable")[surplus:])]
        return self.shares(left)[0], left

    def refined(self, trees: Sequence[_Tree], count: int) -> list[_Tree]:
        """Continue column generation from these trees while the best ``count`` trees found improve T."""
        least, best = self.trimmed(trees, count)
        pool, smooth, stale = best, None, 0
        while least > self.optimum[0] * _NEAR and stale < _STALE:
            dual = self.shares(pool)[2]
            smooth = dual if smooth is None else (smooth + dual) / 2
            size = len(pool)
            pool = list(dict.fromkeys([*pool, *(self.cheapest(prices * self.times) for prices in (smooth, dual))]))
            if len(pool) == size:
                break
            value, kept = self.trimmed(pool, count)
            stale += 1
            if value < least * (1 - _CLOSE):
                least, best, stale = value, kept, 0
        return best

    # The plans of the trees.

    def parts(self, trees: Sequence[_Tree]) -> list[TreeShare]:
        """Trees with their shares and paces."""
        _, shares, _ = self.shares(trees)
        pairs = [(tree, round(share * _UNIT)) for tree, share in zip(trees, shares, strict=True)]
        pairs = sorted((pair for pair in pairs if pair[1]), key=lambda pair: -pair[1])
        layouts = [self._layout(tree) for tree, _ in pairs]
        weights = [weight for _, weight in pairs]
        every = paces(self.problem, layouts, weights)
        return [TreeShare(*fields) for fields in zip(layouts, weights, every, strict=True)]

    def _layout(self, tree: _Tree) -> TreeLayout:
        """The tree below the inner node with the fewest links to the farthest node; a switch is preferred to a worker.

        Raises `PlanError` if switches could not forward it.
        """
        if tree in self._layouts:
            return self._layouts[tree]
        around: Around = {}
        for (a, b), path in tree.edges:  # from b to a
            around.setdefault(a, []).append((b, path))
            around.setdefault(b, []).append((a, path[::-1]))
        inner = [node for node, near in around.items() if len(near) > 1] or [tree.edges[0][0][0]]
        root = min(sorted(inner, reverse=True), key=lambda node: _depth(node, around))
        layout = self._under(root, around)
        check_forwarding(all_paths(self.problem, layout))
        self._layouts[tree] = layout
        return layout

    def _under(self, root: int, around: Around) -> TreeLayout:
        parent: dict[str, str] = {}
        paths: dict[tuple[str, str], tuple[str, ...]] = {}
        open_, seen = [root], {root}
        while open_:
            node = open_.pop()
            for child, path in around[node]:
                if child not in seen:
                    seen.add(child)
                    open_.append(child)
                    edge = self.names[child], self.names[node]
                    parent[edge[0]] = edge[1]
                    paths[edge] = path
        return TreeLayout(self.names[root], parent, paths=paths)


def packing(problem: Problem) -> list[TreeShare]:
    """At most :data:`MOST_TREES` trees that are fastest for ``problem.elements``.

    Raises
    ------
    PlanError
        As in :class:`Packer`.
    """
    return fastest_of(Packer(problem))


def fastest_of(packer: Packer) -> list[TreeShare]:
    """The packing with the least predicted time; one with fewer trees is preferred if it takes at most 1 % longer."""
    packings = [(predicted_forest_ps(packer.problem, parts), parts) for parts in candidates(packer)]
    if not packings:
        raise PlanError(f"plan {PACKING}: no trees were found that switches could forward")
    least = min(time for time, _ in packings)
    return min((parts for time, parts in packings if time <= _ALIKE * least), key=len)


def candidates(packer: Packer) -> Iterator[list[TreeShare]]:
    """Packings with several numbers of trees, and the optimum's if its trees are few enough."""
    _, trees = packer.optimum
    sets = [trees if len(trees) <= MOST_TREES else packer.refined(trees, MOST_TREES)]
    for count in _COUNTS:
        if count <= packer.problem.chunks:
            few = packer.few(count)
            sets.append(few if count < _REFINED else packer.refined(few, count))
    for tree_set in sets:
        with suppress(PlanError):
            yield packer.parts(tree_set)


def _depth(root: int, around: Around) -> int:
    """Number of links to the farthest node."""
    most, open_ = 0, [(root, -1, 0)]
    while open_:
        node, above, depth = open_.pop()
        most = max(most, depth)
        open_ += [(near, node, depth + len(path) - 1) for near, path in around[node] if near != above]
    return most
