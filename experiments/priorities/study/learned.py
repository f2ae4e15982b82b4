"""Staleness and time to accuracy: the digits, with a parameter server that waits for all, for some rounds, or not."""

from dataclasses import dataclass
from typing import Final

from p4reduce.experiments.priorities.description import Description, JobDescription, with_phi
from p4reduce.experiments.priorities.run import run
from p4reduce.experiments.priorities.study.settings import StudySettings
from p4reduce.experiments.priorities.study.stale import TOPOLOGY

WORKERS: Final = 4
NO_BOUND: Final = -1
"""stands for workers that do not wait at all (dist_async)"""
SYNCHRONOUS: Final = 0


@dataclass(frozen=True)
class LearningUnit:
    """The digits under one bound, with a straggler, under one seed."""

    settings: StudySettings
    staleness: int
    straggler: float
    seed: int


@dataclass(frozen=True)
class LearningRow:
    """How good the weights were: a line of learning.csv."""

    staleness: int
    """0: all wait (dist_sync); -1: nobody waits (dist_async)"""
    straggler: float
    seed: int
    rounds: float
    """gradients that were applied, over the workers"""
    at_ps: int
    accuracy: float


def learning_units(settings: StudySettings) -> list[LearningUnit]:
    """Synchronous, every bound, none; with and without the worst straggler."""
    if not settings.learning_rounds:
        return []
    stragglers = sorted({1.0, max(settings.stragglers, default=1.0)})
    bounds = (SYNCHRONOUS, *settings.stalenesses, NO_BOUND)
    seeds = settings.seeds[: settings.few_seeds]
    return [LearningUnit(settings, bound, slow, seed) for bound in bounds for slow in stragglers for seed in seeds]


def run_learning(unit: LearningUnit) -> list[LearningRow]:
    """Classes by batch where workers do not wait for all; weights are held against the sum of all gradients."""
    settings = unit.settings
    hosts = tuple(f"h{8 + number}" for number in range(1, WORKERS + 1))
    bare = JobDescription(hosts, "server1", 0, 1, plan="ps", model="digits", name="digits")
    takes = round(run(Description(TOPOLOGY, (bare,), rounds=2)).jobs[0].iteration_ps)
    slow = (1.0,) * (WORKERS - 1) + (unit.straggler,)
    about = with_phi(bare, takes, settings.stale_phi)
    about = JobDescription(
        hosts,
        "server1",
        0,
        about.compute_ps,
        plan="ps",
        staleness=None if unit.staleness == NO_BOUND else unit.staleness,
        order="none" if unit.staleness == SYNCHRONOUS else "switch",
        slowdowns=slow,
        model="digits",
        name="digits",
    )
    description = Description(
        TOPOLOGY, (about,), rounds=settings.learning_rounds, jitter=settings.jitter, seed=unit.seed
    )
    scores = run(description).jobs[0].scores
    return [
        LearningRow(unit.staleness, unit.straggler, unit.seed, one.rounds, one.at_ps, one.accuracy) for one in scores
    ]
