"""Simulates tasks that come and go: Poisson arrivals, exponential stays, blocking, and re-grooming that makes room."""

import heapq
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, sqrt
from typing import Final

from scipy.special import stdtrit

from p4reduce.base.output import Progress
from p4reduce.control_plane.optical.auxiliary import Taken
from p4reduce.control_plane.optical.plan import OpticalError, check_tasks
from p4reduce.control_plane.optical.policies import FLOWS, SEARCHES, Granted, Grooming, GroomingOptions, draw_tasks
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.topologies.wdm import Wdm

WARM_UP: Final = 3.0
"""length of the warm-up in mean stays; its tasks fill the network and are not counted"""
MOST_LOAD: Final = 10_000
ATTEMPTS: Final = 12
"""number of sets of running tasks that are tried before a task is blocked"""
CONFIDENCE: Final = 0.95


@dataclass
class Arrived:
    """Statistics of arrivals.

    blocked, interrupted: numbers per arrival; a running task that gets other trees or flows counts as an interruption.
    transponders, running: means over arrivals.
    """

    policy: str
    load: float
    moved: int
    seed: int
    tasks: int = 0
    blocked: float = 0.0
    interrupted: float = 0.0
    transponders: float = 0.0
    running: float = 0.0


@dataclass
class _World:
    grooming: Grooming
    policy: str
    draw: random.Random
    running: dict[int, tuple[Task, Granted]] = field(default_factory=dict)
    interrupted: int = 0

    def admit(self, number: int, task: Task, moved: int) -> bool:
        """Admit a task, moving up to ``moved`` running tasks if necessary; return whether that worked."""
        granted = self.grooming.admit(self.policy, task)
        if granted is None and moved and self.running:
            granted = self._make_room(task, moved)
        if granted is not None:
            self.running[number] = task, granted
        return granted is not None

    def _make_room(self, task: Task, moved: int) -> Granted:
        groomer = self.grooming.groomer
        before = groomer.lights
        for _ in range(ATTEMPTS):
            groomer.lights = before.copy()
            chosen = self.draw.sample(list(self.running), min(moved, len(self.running)))
            for number in chosen:
                self.grooming.release(self.running[number][1])
            granted = self.grooming.admit(self.policy, task)
            again = [self.grooming.admit(self.policy, self.running[number][0]) for number in chosen]
            if granted is not None and None not in again:
                for number, new in zip(chosen, again, strict=True):
                    moved_task, old = self.running[number]
                    self.interrupted += _parts(new) != _parts(old)
                    self.running[number] = moved_task, new
                return granted
        groomer.lights = before
        return None


def _parts(granted: Granted) -> list[tuple[str, tuple[Taken, ...]]]:
    return sorted((granted or {}).items())


def arrive(
    policy: str,
    network: Wdm,
    load: float,
    *,
    arrivals: int = 500,
    models: int = 15,
    demand_bps: int = 10**10,
    moved: int = 0,
    seed: int = 1,
    options: GroomingOptions | None = None,
    progress: Progress | None = None,
) -> Arrived:
    """Simulate arrivals at one load.

    Parameters
    ----------
    policy, network, options
        A policy that handles tasks one after the other (no search, and not `exact`); its network and options.
    load : float
        Erlang: mean number of running tasks if none were blocked.
    arrivals, models, demand_bps : int
        Number of counted tasks, after a warm-up of three mean stays; local models of each task; rate of a copy of a
        model in bit/s.
    moved : int
        Largest number of running tasks that may be moved to avoid blocking one; 0: none.
    seed : int
        Seed of times and hosts: the same tasks for every policy.
    progress : Progress or None
        Receives the number of arrivals.

    Raises
    ------
    OpticalError
        For a policy that plans all tasks at once, or numbers that are not positive.
    """
    if policy in (*SEARCHES, "exact"):
        raise OpticalError(f"policy: {policy} looks at all tasks at once; take groom-agg, opaque-agg or {FLOWS[1]}")
    if not 0 < load <= MOST_LOAD or arrivals < 1 or moved < 0:
        raise OpticalError(f"load, arrivals: must be positive, load at most {MOST_LOAD}; moved: at least 0")
    warm = ceil(WARM_UP * load)
    tasks = draw_tasks(network, seed, tasks=arrivals + warm, models=models, demand_bps=demand_bps)
    check_tasks(tasks[:1], network)
    draw = random.Random(f"{seed} times")  # noqa: S311  (a simulation)
    times = [(draw.expovariate(1.0), draw.expovariate(1.0)) for _ in tasks]
    world = _World(Grooming(network, options or GroomingOptions()), policy, random.Random(f"{seed} moved"))  # noqa: S311
    arrived = Arrived(policy, load, moved, seed, tasks=arrivals)
    ends: list[tuple[float, int]] = []
    now, blocked = 0.0, 0
    for number, (task, (gap, stay)) in enumerate(zip(tasks, times, strict=True)):
        now += gap
        while ends and ends[0][0] <= now:
            world.grooming.release(world.running.pop(heapq.heappop(ends)[1])[1])
        if number == warm:
            blocked = world.interrupted = 0
        if world.admit(number, task, moved):
            heapq.heappush(ends, (now + load * stay, number))
        else:
            blocked += 1
        if number >= warm:
            arrived.transponders += 2 * len(world.grooming.groomer.lights.lit) / arrivals
            arrived.running += len(world.running) / arrivals
        if progress is not None and number % 32 == 0:
            progress("arrivals", number, len(tasks))
    arrived.blocked, arrived.interrupted = blocked / arrivals, world.interrupted / arrivals
    return arrived


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and half of its 95 % confidence interval over seeds (Student's t); infinite for one value."""
    mean, count = statistics.fmean(values), len(values)
    if count < 2:
        return mean, float("inf")
    return mean, float(stdtrit(count - 1, 0.5 + CONFIDENCE / 2)) * statistics.stdev(values) / sqrt(count)
