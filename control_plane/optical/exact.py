"""The cheapest lightpaths for a few tasks in a small network, by mixed-integer linear programming (HiGHS).

A virtual link joins two nodes by whole lightpaths, over the shortest paths by fibres and by kilometres. A task's tree
is a set of arcs of virtual links away from the global model's node that carries a unit of flow to each of its nodes
(bidirected, which gives better bounds than undirected cuts). Wavelengths are assigned afterwards, by backtracking; if W
do not suffice, the program is solved again with a variable for each path and wavelength.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from p4reduce.control_plane.linear import Rows
from p4reduce.control_plane.optical.auxiliary import TRANSPONDER, WAVELENGTH, Fibres, Groomer, Taken
from p4reduce.control_plane.optical.plan import GroomingPlan, Lightpath, OpticalError, slots_of
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.topologies.wdm import Wdm

if TYPE_CHECKING:
    from p4reduce.control_plane.optical.policies import GroomingOptions

MOST_NODES: Final = 8
MOST_TASKS: Final = 8
BLOCKED: Final = 1000.0
EDGE: Final = 1e-3
"""cost of an edge of a tree: less than any lightpath"""

Column = tuple[tuple[int, ...], int]
"""a path of nodes, and its wavelength; -1: any"""


class _Program(Rows):
    """A program whose rows and columns are added one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.cost: list[float] = []
        self.most: list[float] = []
        self.whole: list[int] = []

    def add(self, cost: float, most: float, *, whole: bool) -> int:
        """Add a column with values from 0 to ``most``; return its number."""
        self.cost.append(cost)
        self.most.append(most)
        self.whole.append(int(whole))
        return len(self.cost) - 1

    def best(self, time_limit_s: float) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], float]:
        """Return the values and a lower bound. Raises `OpticalError` if the time is too short for a solution."""
        solution = self.solve(self.cost, whole=self.whole, most=self.most, time_limit=time_limit_s, mip_rel_gap=1e-6)
        if solution.x is None:
            raise OpticalError(f"exact: {solution.message.strip()}; give it more time, or use best")
        return solution.x, float(solution.mip_dual_bound)


def exact(tasks: Sequence[Task], network: Wdm, options: "GroomingOptions") -> GroomingPlan:
    """Return the cheapest plan; its ``bound`` is a lower bound on the cost of every plan with these paths."""
    from p4reduce.control_plane.optical.policies import Granted, Grooming  # noqa: PLC0415  (they ask for this)

    if len(network.nodes) > MOST_NODES or len(tasks) > MOST_TASKS or options.grid != "fixed":
        raise OpticalError(f"exact: at most {MOST_NODES} nodes and {MOST_TASKS} tasks, with the fixed grid; use best")
    if len({slots_of(task, network) for task in tasks}) > 1:
        raise OpticalError("exact: demands: tasks must take the same number of slots; use best")
    fibres = Fibres(network, options.grid, options.assign)
    bound = 0.0
    for wavelengths in (1, network.wavelengths):
        columns, trees, dual = _solved(tasks, fibres, options.time_limit_s, split=wavelengths > 1)
        bound = max(bound, dual)
        coloured = columns if wavelengths > 1 else _coloured([path for path, _ in columns], fibres)
        if coloured is not None:
            break
    assert coloured is not None  # noqa: S101  (wavelengths were variables)
    grooming = Grooming(network, options, fibres)
    granted: list[Granted] = [None] * len(tasks)
    _lay(grooming.groomer, coloured)
    for place, (task, tree) in enumerate(zip(tasks, trees, strict=True)):
        if tree is not None:
            granted[place] = {"": tuple(_take(grooming.groomer, a, b, slots_of(task, network)) for a, b in tree)}
    plan = grooming.finished("exact", tasks, granted, grooming.groomer.lights)
    least = np.ceil(bound - EDGE * len(tasks) * len(network.nodes) - 1e-6)
    return replace(plan, bound=float(least))


def _solved(
    tasks: Sequence[Task], fibres: Fibres, time_limit_s: float, *, split: bool
) -> tuple[list[Column], list[list[tuple[int, int]] | None], float]:
    network, program = fibres.network, _Program()
    slots = slots_of(tasks[0], network)
    waves = range(network.wavelengths) if split else (-1,)
    light: dict[Column, int] = {}
    crossing: dict[tuple[int, int], list[int]] = defaultdict(list)
    ending: dict[int, list[int]] = defaultdict(list)
    joining: dict[tuple[int, int], list[int]] = defaultdict(list)
    for a, b in combinations(range(fibres.size), 2):
        for path in fibres.others(a, b):
            for wave in waves:
                worth = 2 * TRANSPONDER + (len(path) - 1) * WAVELENGTH
                column = light[path, wave] = program.add(worth, 1 if split else network.wavelengths, whole=True)
                for pair in pairwise(path):
                    crossing[fibres.number[pair], wave].append(column)
                for end in (a, b):
                    ending[end].append(column)
                joining[a, b].append(column)
    for own in crossing.values():
        program.row(dict.fromkeys(own, 1.0), 0, 1 if split else network.wavelengths)
    for node, own in ending.items():
        program.row(dict.fromkeys(own, 1.0), 0, network.at_most(network.nodes[node]))
    arcs = [(a, b) for a in range(fibres.size) for b in range(fibres.size) if a != b]
    used: list[dict[tuple[int, int], int]] = []
    admitted = []
    for task in tasks:
        root, ends = _ends(task, network)
        yes = program.add(-BLOCKED, 1, whole=True)
        arc = {pair: program.add(EDGE, float(pair[1] != root), whole=True) for pair in arcs}
        for node in range(fibres.size):
            into = {arc[pair]: 1.0 for pair in arcs if pair[1] == node}
            program.row(into | {yes: -1.0}, 0 if node in ends else -np.inf, 0)
        for end in ends:
            flow = {pair: program.add(0, 1, whole=False) for pair in arcs}
            for node in range(fibres.size):
                terms = {flow[pair]: (1.0 if pair[1] == node else -1.0) for pair in arcs if node in pair}
                net = float(node == end) - float(node == root)
                program.row(terms | ({yes: -net} if net else {}), 0, 0)
            for pair in arcs:
                program.row({flow[pair]: 1.0, arc[pair]: -1.0}, -np.inf, 0)
        used.append(arc)
        admitted.append(yes)
    fits = network.slots // slots
    for (a, b), own in joining.items():
        load = {arc[pair]: 1.0 for arc in used for pair in ((a, b), (b, a))}
        program.row(load | dict.fromkeys(own, -float(fits)), -np.inf, 0)
        for arc in used:  # cuts: an edge needs a lightpath, whatever else shares it
            program.row({arc[a, b]: 1.0, arc[b, a]: 1.0} | dict.fromkeys(own, -1.0), -np.inf, 0)
    values, dual = program.best(time_limit_s)
    columns = [column for column, number in light.items() for _ in range(round(values[number]))]
    trees = [
        [pair for pair in arcs if values[arc[pair]] > 0.5] if values[yes] > 0.5 else None
        for arc, yes in zip(used, admitted, strict=True)
    ]
    return columns, trees, dual + BLOCKED * round(sum(values[yes] for yes in admitted))


def _ends(task: Task, network: Wdm) -> tuple[int, set[int]]:
    root, *ends = (network.place[network.home[host]] for host in (task.server, *task.workers))
    return root, set(ends) - {root}


def _coloured(paths: Sequence[tuple[int, ...]], fibres: Fibres) -> list[Column] | None:
    """Return a wavelength for each path, different where paths share a fibre; None: W are too few."""
    over = [frozenset(fibres.number[pair] for pair in pairwise(path)) for path in paths]
    order = sorted(range(len(paths)), key=lambda number: -len(over[number]))
    waves: dict[int, int] = {}

    def colour(place: int) -> bool:
        if place == len(order):
            return True
        own = order[place]
        taken = {waves[other] for other in order[:place] if over[other] & over[own]}
        top = max((waves[other] for other in order[:place]), default=-1) + 1
        for wave in range(min(top + 1, fibres.network.wavelengths)):
            if wave not in taken:
                waves[own] = wave
                if colour(place + 1):
                    return True
        waves.pop(own, None)
        return False

    return [(path, waves[place]) for place, path in enumerate(paths)] if colour(0) else None


def _lay(groomer: Groomer, columns: Sequence[Column]) -> None:
    names = groomer.fibres.network.nodes
    for path, wave in columns:
        groomer.light(groomer.fibres.lit(Lightpath(tuple(names[node] for node in path), wave)))


def _take(groomer: Groomer, a: int, b: int, slots: int) -> Taken:
    return groomer.take(groomer.room(a, b, slots)[0], slots)
