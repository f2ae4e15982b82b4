"""Policies that plan a set of tasks: today's lightpaths, grooming with and without aggregation, and a search."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp
from typing import Final, Literal

from p4reduce.base.output import Progress
from p4reduce.control_plane import GROOMERS
from p4reduce.control_plane.optical.auxiliary import Assign, Fibres, Grid, Groomer, Lights, PathWeights, Taken
from p4reduce.control_plane.optical.plan import GroomingPlan, OpticalError, Use, check_tasks, slots_of
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.topologies.wdm import Wdm

PHIS: Final = (1.0, 0.5, 0.25, 0.0)
"""values of phi that `best` tries; 0 means d / T"""
MUS: Final = (0.0, 0.5, 2.0)
"""values of mu, the cost of a fibre, that `best` tries"""
FEW: Final = PathWeights(phi=0.0, mu=1000.0)
SHORT: Final = PathWeights(phi=0.0, lam=1000.0)
"""weights for the fewest fibres, and for the fewest kilometres"""


@dataclass(frozen=True)
class GroomingOptions:
    """Options of policies.

    Attributes
    ----------
    phi : float or None
        phi of :class:`PathWeights`, for `groom` and `groom-agg`; None: .25 and 1.
    lam : float
        lam of :class:`PathWeights`, for these and the searches.
    grid, assign : str
        Spectrum grid, and its assignment.
    shortest : str
        Unit of shortest paths: km or fibres.
    seed, moves : int
        Seed of searches, and their number of changes.
    budget : float
        Limit of searches on fibre bytes, as a multiple of those of `opaque-agg` (for flows: `spff`), if that blocks
        no task; 0: no limit.
    time_limit_s : float
        Time limit of `exact`, in seconds.
    """

    phi: float | None = None
    lam: float = 0.0
    grid: Grid = "fixed"
    assign: Assign = "first-fit"
    shortest: Literal["km", "fibres"] = "km"
    seed: int = 1
    moves: int = 1500
    budget: float = 1.1
    time_limit_s: float = 60.0
    progress: Progress | None = None


DEFAULT: Final = GroomingOptions()
Granted = dict[str, tuple[Taken, ...]] | None
"""uses of a task: by worker, under '' for a tree; None: blocked"""


class Grooming:
    """Grooms tasks, one after the other, over lightpaths that they share."""

    def __init__(self, network: Wdm, options: GroomingOptions = DEFAULT, fibres: Fibres | None = None) -> None:
        self.network, self.options = network, options
        self.fibres = Fibres(network, options.grid, options.assign) if fibres is None else fibres
        self.groomer = Groomer(self.fibres)

    def admit(self, policy: str, task: Task) -> Granted:
        """Add a task, as a whole or not at all; return its uses, None if it is blocked."""
        if policy == "opaque-agg":
            return self.tree(task, FEW, opaque=True)
        phi = self.options.phi
        if policy == "groom-agg":
            return self.tree(task, PathWeights(1.0 if phi is None else phi, self.options.lam))
        return self.flows(policy, task, PathWeights(0.25 if phi is None else phi, self.options.lam))

    def tree(
        self, task: Task, way: PathWeights, *, opaque: bool = False, no_new: Iterable[tuple[int, int]] = ()
    ) -> Granted:
        """Add a task with one tree."""
        home, place = self.network.home, self.network.place
        root, *ends = (place[home[host]] for host in (task.server, *task.workers))
        slots = slots_of(task, self.network)
        uses = self.groomer.join(root, ends, slots, way, opaque=opaque, no_new=no_new)
        return None if uses is None else {"": tuple(uses.values())}

    def release(self, granted: Granted) -> None:
        """Release the slots of an ended task."""
        for uses in (granted or {}).values():
            self.groomer.release(uses)

    def flows(self, policy: str, task: Task, way: PathWeights, *, no_new: Iterable[tuple[int, int]] = ()) -> Granted:
        """Add a task with a path for each of its local models."""
        home, place = self.network.home, self.network.place
        slots, granted = slots_of(task, self.network), dict[str, tuple[Taken, ...]]()
        b = place[home[task.server]]
        for worker in task.workers:
            a = place[home[worker]]
            if a == b:
                continue
            if policy == "groom":
                joined = self.groomer.join(b, [a], slots, way, no_new=no_new)
                uses = None if joined is None else tuple(joined.values())[::-1]
            else:
                uses = self._shortest(policy, a, b, slots)
            if uses is None:
                self.release(granted)
                return None
            granted[worker] = uses
        return granted

    def _shortest(self, policy: str, a: int, b: int, slots: int) -> tuple[Taken, ...] | None:
        """Use the shortest path: one lightpath, or one for each of its fibres."""
        shortest = SHORT if self.options.shortest == "km" else FEW
        path = self.fibres.path(a, b, self.fibres.cheapest(1.0, shortest)[1])
        uses: list[Taken] = []
        for part in pairwise(path) if policy == "opaque" else [path]:
            known = [] if policy == "lightpath-per-flow" else self.groomer.room(part[0], part[-1], slots)
            if not known:
                lit = self.groomer.plan(part)
                if lit is None:
                    self.groomer.release(uses)
                    return None
                known = [self.groomer.light(lit)]
            uses.append(self.groomer.take(known[0], slots))
        return tuple(uses)

    def finished(self, policy: str, tasks: Sequence[Task], granted: Sequence[Granted], lights: Lights) -> GroomingPlan:
        """Return the resulting plan, with lightpaths numbered from 0."""
        numbers = {number: place for place, number in enumerate(lights.lit)}
        slots = range(self.network.slots)
        uses = tuple(
            tuple(
                Use(numbers[number], tuple(slot for slot in slots if mask >> slot & 1), worker)
                for worker, own in (grant or {}).items()
                for number, mask in own
            )
            for grant in granted
        )
        return GroomingPlan(
            self.network,
            policy,
            tuple(tasks),
            tuple(map(self.fibres.lightpath, lights.lit.values())),
            uses,
            tuple(grant is not None for grant in granted),
            trees=policy not in FLOWS,
        )


FLOWS: Final = ("lightpath-per-flow", "spff", "opaque", "groom", "best-flows")
SEARCHES: Final = ("best", "best-opaque", "best-flows")
"""`FLOWS`: policies without aggregation on the way; `SEARCHES`: policies that search over plans of all tasks"""


def groom(policy: str, tasks: Sequence[Task], network: Wdm, options: GroomingOptions = DEFAULT) -> GroomingPlan:
    """Plan all tasks with a policy, in the given order if the policy depends on it.

    Raises
    ------
    OpticalError
        For an unknown policy, or a task that is impossible in this network; for `exact`: the network is too large.
    """
    GROOMERS.check(policy, "policy")
    check_tasks(tasks, network)
    if policy in SEARCHES:
        return _Search(tasks, network, options, policy).run()
    if policy == "exact":
        from p4reduce.control_plane.optical.exact import exact  # noqa: PLC0415  (a solver, which few ask for)

        return exact(tasks, network, options)
    grooming = Grooming(network, options)
    granted = [grooming.admit(policy, task) for task in tasks]
    return grooming.finished(policy, tasks, granted, grooming.groomer.lights)


@dataclass(frozen=True)
class _State:
    lights: Lights
    granted: tuple[Granted, ...]
    blocked: int
    transponders: int
    copies: int
    worth: float


class _Search:
    """Searches by drawing orders and weights, then by removing tasks and joining them again, some off a lightpath.

    The search begins with the plan of `opaque-agg` (for flows: `spff`), so it is never worse. Simulated annealing: a
    slightly worse plan is accepted sometimes, less often later; the best plan is kept.
    """

    def __init__(self, tasks: Sequence[Task], network: Wdm, options: GroomingOptions, policy: str) -> None:
        self._tasks, self._options, self._policy = list(tasks), options, policy
        self._grooming = Grooming(network, options)
        self._random = random.Random(options.seed)  # noqa: S311  (a search, no secret)
        self._limit = float("inf")
        self._price = 0.0
        self._origin: tuple[Granted, ...] = ()

    def run(self) -> GroomingPlan:
        """Return the best plan found."""
        start = self._whole(range(len(self._tasks)), None)
        if self._options.budget and not start.blocked:
            self._limit = self._options.budget * start.copies
        best = start
        tries = max(1, self._options.moves // 60)
        for number in range(tries):
            order = list(range(len(self._tasks)))
            if number >= len(PHIS) * len(MUS):
                self._random.shuffle(order)
            way = self._way(number)
            best = min(best, self._whole(order, way), key=self._key)
        return self._annealed(best)

    def change(self, plan: GroomingPlan, price: float) -> GroomingPlan:
        """Return a changed plan; the transponders that it saves must outweigh ``price`` for each task that is moved."""
        if self._options.budget:
            self._limit = self._options.budget * plan.fibre_copies
        groomer = self._grooming.groomer = Groomer(self._grooming.fibres)
        numbers = [groomer.light(self._grooming.fibres.lit(lightpath)) for lightpath in plan.lightpaths]
        granted: list[Granted] = []
        for own, yes in zip(plan.uses, plan.admitted, strict=True):
            grant: dict[str, tuple[Taken, ...]] = {} if self._policy == "best-flows" else {"": ()}
            for use in own:
                number, mask = numbers[use.lightpath], sum(1 << slot for slot in use.slots)
                groomer.lights.taken[number] |= mask
                grant[use.worker] = (*grant.get(use.worker, ()), (number, mask))
            granted.append(grant if yes else None)
        self._origin, self._price = tuple(granted), price
        return self._annealed(self._state(granted))

    def _annealed(self, best: _State) -> GroomingPlan:
        now = best
        for number in range(self._options.moves):
            if self._options.progress is not None and number % 16 == 0:
                self._options.progress("moves", number, self._options.moves)
            heat = (0.3 if self._origin else 2.0) * (1 - number / self._options.moves) + 1e-9
            changed = self._changed(now)
            worse = self._energy(changed) - self._energy(now)
            if worse <= 0 or self._random.random() < exp(-worse / heat):
                now = changed
            if self._key(now) < self._key(best):
                best = now
        return self._grooming.finished(self._policy, self._tasks, best.granted, best.lights)

    def _key(self, state: _State) -> tuple[float, ...]:
        """Return the sort key of a state; less is better."""
        paid = state.transponders + self._price * self._moved(state)
        return state.blocked, max(0.0, state.copies - self._limit), paid, state.worth, state.copies

    def _moved(self, state: _State) -> int:
        return sum(a != b for a, b in zip(self._origin, state.granted, strict=False))

    def _energy(self, state: _State) -> float:
        over = max(0.0, state.copies - self._limit)
        paid = state.transponders + self._price * self._moved(state)
        return 1000.0 * state.blocked + paid + 0.05 * state.worth + 0.02 * state.copies + 0.5 * over

    def _way(self, number: int) -> PathWeights:
        return PathWeights(PHIS[number % len(PHIS)], self._options.lam, MUS[number // len(PHIS) % len(MUS)])

    def _one(self, place: int, way: PathWeights | None, no_new: Iterable[tuple[int, int]] = ()) -> Granted:
        """Add one task; if ``way`` is None, by the policy with which the search begins."""
        task, flows = self._tasks[place], self._policy == "best-flows"
        if way is None:
            return self._grooming.admit("spff" if flows else "opaque-agg", task)
        if flows:
            return self._grooming.flows("groom", task, way, no_new=no_new)
        return self._grooming.tree(task, way, opaque=self._policy == "best-opaque", no_new=no_new)

    def _whole(self, order: Iterable[int], way: PathWeights | None) -> _State:
        self._grooming.groomer = Groomer(self._grooming.fibres)
        granted: list[Granted] = [None] * len(self._tasks)
        for place in order:
            granted[place] = self._one(place, way)
        return self._state(granted)

    def _state(self, granted: Sequence[Granted]) -> _State:
        lights = self._grooming.groomer.lights
        hops = {number: lit.hops for number, lit in lights.lit.items()}
        copies = sum(hops[number] for grant in granted for number, _ in _uses(grant))
        worth = sum(lit.worth for lit in lights.lit.values())
        return _State(lights, tuple(granted), granted.count(None), 2 * len(lights.lit), copies, worth)

    def _changed(self, state: _State) -> _State:
        """Remove and add again some tasks: random ones, or those of a lightpath, which new lightpaths then avoid."""
        draw = self._random
        lights = state.lights.copy()
        self._grooming.groomer = Groomer(self._grooming.fibres, lights)
        granted = list(state.granted)
        blocked = [place for place, grant in enumerate(granted) if grant is None]
        banned: list[tuple[int, int]] = []
        if lights.lit and draw.random() < 0.6:
            number = min(draw.choices(list(lights.lit), k=3), key=lambda candidate: lights.taken[candidate].bit_count())
            chosen = [place for place, grant in enumerate(granted) if any(n == number for n, _ in _uses(grant))]
            banned = [lights.lit[number].ends]
        else:
            chosen = draw.sample(range(len(granted)), min(len(granted), draw.randint(1, 3)))
        chosen = list(dict.fromkeys([*chosen, *blocked]))
        draw.shuffle(chosen)
        for place in chosen:
            self._grooming.release(granted[place])
        way = PathWeights(draw.choice(PHIS[:3]), self._options.lam, draw.choice((0.1, *MUS)))
        for place in chosen:
            granted[place] = self._one(place, way, banned)
            if granted[place] is None and banned:
                granted[place] = self._one(place, way)
        return self._state(granted)


def _uses(granted: Granted) -> list[Taken]:
    return [use for own in (granted or {}).values() for use in own]


def regroom(plan: GroomingPlan, options: GroomingOptions = DEFAULT, price: float = 0.5) -> GroomingPlan:
    """Return a plan of the same tasks with fewer transponders, or fewer blocked tasks.

    Parameters
    ----------
    plan : GroomingPlan
        The present plan. Wavelengths and slots of a task that is not moved stay the same.
    options : GroomingOptions
        Options of the search; ``budget``: limit on fibre bytes, as a multiple of the plan's.
    price : float
        Number of transponders that must be saved for each task that is moved, and so interrupted.
    """
    return _Search(plan.tasks, plan.network, options, "best" if plan.trees else "best-flows").change(plan, price)


def laid_anew(before: GroomingPlan, after: GroomingPlan) -> list[int]:
    """Return the indices of tasks whose use differs between two plans of the same tasks, or that only one admits."""

    def laid(plan: GroomingPlan, place: int) -> set[object]:
        return {(plan.lightpaths[use.lightpath], use.slots, use.worker) for use in plan.uses[place]}

    return [
        place
        for place in range(len(before.tasks))
        if laid(before, place) != laid(after, place) or before.admitted[place] != after.admitted[place]
    ]


def draw_tasks(
    network: Wdm, seed: int, *, tasks: int = 30, models: int = 15, elements: int = 61_706, demand_bps: int = 10**10
) -> list[Task]:
    """Draw tasks with ``models`` local models each at random hosts, like those of the poster.

    Raises
    ------
    OpticalError
        There are too few hosts.
    """
    hosts = [host.name for host in network.base.hosts]
    if models + 1 > len(hosts):
        raise OpticalError(
            f"models: {models} local models and a global one need {models + 1} hosts, "
            f"{network.base.name} has {len(hosts)}"
        )
    draw = random.Random(70_000 + seed)  # noqa: S311
    drawn = []
    for number in range(tasks):
        server, *workers = draw.sample(hosts, models + 1)
        drawn.append(Task(f"task{number}", server, tuple(workers), elements, demand_bps=demand_bps))
    return drawn
