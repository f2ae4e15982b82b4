"""REINFORCE (Williams, 1992) over whole runs of small clusters, and tests on other seeds and larger networks."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from p4reduce.control_plane.placement.policy import PlacementPolicy
from p4reduce.experiments.placement.flow_model import ClusterRun
from p4reduce.experiments.placement.learned.policy import Floats, Learned, Weights
from p4reduce.experiments.placement.settings import SMALL_HOSTS, Scenario
from p4reduce.experiments.placement.workload import draw_jobs

LEARNED: Final = "learned"
HEURISTICS: Final = ("packed", "netpack", "cassini", "ina-aware")
FIRST_SEED: Final = 1000
"""of the jobs that it learns from; those of tests are far below"""
JOBS: Final = 40
LOAD: Final = 0.8
ROLLOUTS: Final = 8
"""of the same jobs, whose mean is what each is compared with"""
RATE: Final = 0.03
"""of Adam"""
LEAVES: Final = 6


@dataclass(frozen=True)
class LearnUnit:
    """A policy that is learned from one seed, and tested."""

    seed: int
    updates: int
    scenarios: tuple[Scenario, ...]
    test_seeds: tuple[int, ...]
    jobs: int
    """of a test"""


@dataclass(frozen=True)
class LearnRow:
    """Mean JCT in a test: a line of learned.csv."""

    scenario: str
    policy: str
    training: int
    """seed of the training; 0: it did not learn"""
    seed: int
    jct_s: float


@dataclass(frozen=True)
class Learning:
    """What came of a training: after each update the JCT of its rollouts over those of 'packed'; tests."""

    seed: int
    curve: tuple[float, ...]
    rows: tuple[LearnRow, ...]


def scenes(random: np.random.Generator) -> Iterator[Scenario]:
    """Small clusters without end, each with others' traffic and incapable leaves of its own."""
    while True:
        loaded = tuple(int(leaf) + 1 for leaf in np.flatnonzero(random.random(LEAVES) < 0.4))
        incapable = tuple(int(leaf) + 1 for leaf in np.flatnonzero(random.random(LEAVES) < 0.3))
        background = float(random.choice((0.0, 0.5, 0.8)))
        yield Scenario("training", "small", background=background, loaded=loaded, incapable=incapable)


def mean_jct(scenario: Scenario, policy: str | PlacementPolicy, seed: int, jobs: int, slots: int) -> float:
    """Seconds, of a run."""
    drawn = draw_jobs(seed, jobs, LOAD, slots, 1e9 * scenario.rate_gbps)
    return statistics.fmean(one.jct_s for one in ClusterRun(scenario, drawn, policy).run())


def learn(seed: int, updates: int) -> tuple[Weights, list[float]]:
    """Weights, and by update the mean JCT of rollouts over that of 'packed'."""
    random = np.random.Generator(np.random.Philox(key=[seed, 1]))
    weights = Weights.drawn(seed)
    moments = [(np.zeros_like(part), np.zeros_like(part)) for part in weights.parts()]
    clusters, curve = scenes(random), []
    for update in range(updates):
        scenario, jobs_seed = next(clusters), FIRST_SEED + 1000 * seed + update
        base = mean_jct(scenario, "packed", jobs_seed, JOBS, SMALL_HOSTS)
        rollouts = [Learned(weights, random) for _ in range(ROLLOUTS)]
        times = np.log([mean_jct(scenario, one, jobs_seed, JOBS, SMALL_HOSTS) / base for one in rollouts])
        curve.append(float(np.exp(times.mean())))
        gains = (times.mean() - times) / (times.std() + 1e-3) / ROLLOUTS
        for number, (part, (first, second)) in enumerate(zip(weights.parts(), moments, strict=True)):
            slope: Floats = sum(
                (gain * one.gradient.parts()[number] for gain, one in zip(gains, rollouts, strict=True)),
                start=np.zeros_like(part),
            )
            first[...] = 0.9 * first + 0.1 * slope
            second[...] = 0.999 * second + 0.001 * slope**2
            steady = 1 - 0.9 ** (update + 1), 1 - 0.999 ** (update + 1)
            part[...] += RATE * (1 - update / updates) * (first / steady[0]) / (np.sqrt(second / steady[1]) + 1e-8)
    return weights, curve


def run_learning(unit: LearnUnit) -> Learning:
    """Learn, and test; heuristics are tested by the first seed's training alone."""
    weights, curve = learn(unit.seed, unit.updates)
    tests: list[tuple[str, str | PlacementPolicy, int]] = [(LEARNED, Learned(weights), unit.seed)]
    if unit.seed == 1:
        tests += [(name, name, 0) for name in HEURISTICS]
    rows = [
        LearnRow(scenario.name, name, training, seed, mean_jct(scenario, policy, seed, unit.jobs, 128))
        for scenario in unit.scenarios
        for name, policy, training in tests
        for seed in unit.test_seeds
    ]
    return Learning(unit.seed, tuple(curve), tuple(rows))


@dataclass(frozen=True)
class LearnPoint:
    """Means over test seeds; of 'learned' over trainings too, with the best and the worst of them."""

    scenario: str
    policy: str
    trainings: int
    seeds: int
    jct_s: float
    best_s: float
    worst_s: float


def learn_points(learnings: Sequence[Learning]) -> list[LearnPoint]:
    """In the order of the rows."""
    groups: dict[tuple[str, str], dict[int, list[float]]] = {}
    for learning in learnings:
        for row in learning.rows:
            groups.setdefault((row.scenario, row.policy), {}).setdefault(row.training, []).append(row.jct_s)
    points = []
    for (scenario, policy), trainings in groups.items():
        means = [statistics.fmean(own) for own in trainings.values()]
        first = next(iter(trainings.values()))
        points.append(
            LearnPoint(scenario, policy, len(means), len(first), statistics.fmean(means), min(means), max(means))
        )
    return points
