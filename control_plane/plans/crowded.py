"""The cheapest tree where more workers than a switch can have children: some of them hang on other switches."""

from collections import Counter, defaultdict
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from p4reduce.control_plane.plans.graph import Ints
from p4reduce.control_plane.plans.problem import MAX_CHILDREN, Problem, TreeLayout
from p4reduce.control_plane.plans.routes import no_way

_TOP = ""
"""stands for the root's parent: the server, or nobody"""


def solve_crowded(
    problem: Problem, *, limits: Ints | None, both_ways: bool, time_limit_s: float
) -> tuple[TreeLayout, int, bool] | None:
    """The cheapest tree with at most 32 children a switch, as a mixed-integer program with one flow.

    y_ab says whether switch a's parent is b, h_st how many workers at switch s hang on switch t; x_ab is a flow that
    every switch of the tree sends to the top (m switches can aggregate):

        minimize sum c_ab y_ab + sum c_st h_st   subject to   sum_b y_tb = z_t,   sum_t h_st = workers at s,
        h_st <= (workers at s) z_t,   sum_s h_st + sum_a y_at <= 32 z_t,   out x - in x = z_t,   0 <= x <= m y.

    Ways are shortest paths, also over switches that could merge and have no room.

    Parameters
    ----------
    problem, limits, both_ways, time_limit_s
        As of :func:`~p4reduce.control_plane.plans.exact.solve`.

    Returns
    -------
    TreeLayout, int, bool or None
        The tree, its cost between switches, whether it is proven; None when there is none.
    """
    return _Model(problem).run(limits, both_ways=both_ways, time_limit_s=time_limit_s)


class _Model:
    """Columns y, then x, then h, then z."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        routes, able = problem.paths, problem.capable
        self._able = able
        self._hosts: dict[str, list[str]] = defaultdict(list)
        for worker in problem.workers:
            self._hosts[routes.access(worker)].append(worker)
        self._top = None if problem.server is None else routes.access(problem.server)
        ends = [(a, b) for a in able for b in (*able, _TOP) if a != b]
        self._edges = [(a, b) for a, b in ends if not no_way(self._cost(a, b))]
        self._hangs = [(s, t) for s in self._hosts for t in able if not no_way(self._cost(s, t))]
        self._costs = [self._cost(a, b) for a, b in (*self._edges, *self._hangs)]

    def _cost(self, a: str, b: str) -> int:
        b = b or (self._top or a)
        return 0 if a == b else int(self._problem.paths.distance(a, b))

    def _links(self, a: str, b: str) -> list[int]:
        """Arcs from a to b."""
        b = b or (self._top or a)
        routes, graph = self._problem.paths, self._problem.paths.graph
        row, at, arcs = routes.towards(graph.index[b]).arcs, graph.index[a], []
        while at != graph.index[b]:
            arcs.append(int(row[at]))
            at = int(graph.heads[row[at]])
        return arcs

    def run(self, limits: Ints | None, *, both_ways: bool, time_limit_s: float) -> tuple[TreeLayout, int, bool] | None:
        from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415  (takes a while to import)
        from scipy.sparse import csr_array  # noqa: PLC0415

        edges, hangs, able = self._edges, self._hangs, self._able
        x, h, z = len(edges), 2 * len(edges), 2 * len(edges) + len(hangs)
        size = z + len(able)
        count = {s: len(own) for s, own in self._hosts.items()}
        rows: list[tuple[int, int, float]] = []
        low: list[float] = []
        high: list[float] = []

        def row(entries: Mapping[int, float], least: float, most: float) -> None:
            rows.extend((len(low), column, value) for column, value in entries.items())
            low.append(least)
            high.append(most)

        for place, name in enumerate(able):
            out = [at for at, (a, _) in enumerate(edges) if a == name]
            into = [at for at, (_, b) in enumerate(edges) if b == name]
            below = [h + at for at, (_, t) in enumerate(hangs) if t == name]
            row({**dict.fromkeys(out, 1.0), z + place: -1.0}, 0, 0)
            row({**dict.fromkeys([*into, *below], 1.0), z + place: -float(MAX_CHILDREN)}, -np.inf, 0)
            flow = dict.fromkeys((x + at for at in out), 1.0) | dict.fromkeys((x + at for at in into), -1.0)
            row({**flow, z + place: -1.0}, 0, 0)
            for at, (s, t) in enumerate(hangs):
                if t == name:
                    row({h + at: 1.0, z + place: -float(count[s])}, -np.inf, 0)
        row(dict.fromkeys((at for at, (_, b) in enumerate(edges) if b == _TOP), 1.0), 1, 1)
        for at in range(len(edges)):
            row({x + at: 1.0, at: -float(len(able))}, -np.inf, 0)
        for switch, many in count.items():
            row(dict.fromkeys((h + at for at, (s, _) in enumerate(hangs) if s == switch), 1.0), many, many)
        for link, columns in self._users(limits, both_ways=both_ways).items():
            row(columns, 0, float(limits[link]) if limits is not None else np.inf)
        costs = np.zeros(size)
        costs[: len(edges)], costs[h:z] = self._costs[: len(edges)], self._costs[len(edges) :]
        most = np.ones(size)
        most[x:h], most[h:z] = len(able), [count[s] for s, _ in hangs]
        whole = np.ones(size, np.int64)
        whole[x:h] = 0
        table = np.array(rows, np.float64).reshape(-1, 3)
        places = (table[:, 0].astype(np.int64), table[:, 1].astype(np.int64))
        matrix = csr_array((table[:, 2], places), shape=(len(low), size))
        found = milp(
            costs / (max(self._costs, default=1) or 1),
            integrality=whole,
            bounds=Bounds(0, most),
            constraints=LinearConstraint(matrix, low, high),
            options={"time_limit": time_limit_s},
        )
        if found.x is None:
            return None
        values = np.rint(found.x).astype(np.int64)
        return self._layout(values[:x], values[h:z]), int(costs @ values), found.status == 0

    def _users(self, limits: Ints | None, *, both_ways: bool) -> dict[int, dict[int, float]]:
        """Columns that put copies on an arc (of a link, with ``both_ways``), and how many."""
        users: dict[int, Counter[int]] = defaultdict(Counter)
        if limits is not None:
            reverse, h = self._problem.paths.graph.reverse, 2 * len(self._edges)
            for column, ends in [*enumerate(self._edges), *enumerate(self._hangs, h)]:
                for link in self._links(*ends):
                    users[min(link, int(reverse[link])) if both_ways else link][column] += 1
        return {link: {column: float(many) for column, many in own.items()} for link, own in users.items()}

    def _layout(self, chosen: "npt.NDArray[np.int64]", hanging: "npt.NDArray[np.int64]") -> TreeLayout:
        parent = {a: b for (a, b), taken in zip(self._edges, chosen.tolist(), strict=True) if taken}
        (root,) = (a for a, b in parent.items() if b == _TOP)
        del parent[root]
        waiting = {switch: list(own) for switch, own in self._hosts.items()}
        for (s, t), many in zip(self._hangs, hanging.tolist(), strict=True):
            for _ in range(many):
                parent[waiting[s].pop(0)] = t
        return TreeLayout(root, parent)
