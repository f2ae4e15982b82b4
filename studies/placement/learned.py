"""REINFORCE (Williams, 1992) over whole runs of small clusters, and tests on other seeds and larger networks."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.control_plane.placement.cluster import ClusterView, asked
from p4reduce.control_plane.placement.policies import PlacementPolicy, broken, cost_of, hosts_of, shares, worth
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.view import Rejection
from studies.frame import column, record
from studies.placement.calibration import draw_jobs
from studies.placement.flow_model import ClusterRun
from studies.placement.settings import SMALL_HOSTS, ClusterScenario

# A policy that scores candidates with a small network: it samples while it learns, and takes the best afterwards.
#
# Like DeepRM (Mao et al., "Resource management with deep reinforcement learning", HotNets 2016) it may also let a task
# wait. It sees the candidates of 'ina-aware', and that policy's predictions among other features, so it can be equally
# good.


Floats = NDArray[np.float64]
FEATURES: Final = 11
HIDDEN: Final = 16
AHEAD: Final = 2
"""number of other tasks' ends for which a task may wait"""
_LEAST: Final = 1e-12


@dataclass
class LayerWeights:
    """Weights of a hidden layer (tanh) beside a linear part: (features, hidden), (hidden,), (features,)."""

    inner: Floats
    outer: Floats
    linear: Floats

    @classmethod
    def drawn(cls, seed: int) -> "LayerWeights":
        """Draw initial weights with almost no preference."""
        random = np.random.Generator(np.random.Philox(seed))
        return cls(
            random.normal(0, 0.5 / FEATURES**0.5, (FEATURES, HIDDEN)),
            random.normal(0, 0.1 / HIDDEN**0.5, HIDDEN),
            np.zeros(FEATURES),
        )

    def parts(self) -> tuple[Floats, Floats, Floats]:
        """Return the arrays, for changes in place."""
        return self.inner, self.outer, self.linear


@dataclass
class Learned:
    """A learned placement policy. With ``random`` it samples by its probabilities and accumulates their gradients."""

    weights: LayerWeights
    random: np.random.Generator | None = None
    gradient: LayerWeights = field(init=False)

    def __post_init__(self) -> None:
        self.gradient = LayerWeights(*(np.zeros_like(part) for part in self.weights.parts()))

    def __call__(self, task: Task, cluster: ClusterView) -> tuple[Sequence[str], Mapping[str, Any]]:
        """Return the hosts of a candidate; raise `Rejection` if waiting scores higher."""
        room = cluster.check(task)
        options = shares(cluster, task, room)
        hosts = [hosts_of(cluster, task, room, share) for share in options]
        costs = [cost_of(task, cluster, own) for own in hosts]
        least = min(total for total, _ in costs)
        free, count = sum(map(len, room.values())), asked(task).count
        rows = []
        for place, (share, (total, why)) in enumerate(zip(options, costs, strict=True)):
            rows.append(
                [
                    1.0,
                    np.log(total / least),
                    np.log(max(why["iteration_s"], _LEAST) / max(task.training_ps / 1e12, _LEAST)),
                    np.clip(why["others_s"] / total, -1.0, 1.0),
                    len(share) / 4.0,
                    worth(cluster, share),
                    broken(room, share) / max(free, 1),
                    float(place == 0),
                    free / max(len(cluster.slots), 1),
                    count / 32.0,
                    0.0,
                ]
            )
        waits = self._waits(task, cluster, least)
        if waits is not None:
            rows.append([1.0, waits, *[0.0] * 6, free / max(len(cluster.slots), 1), count / 32.0, 1.0])
        chosen = self._choose(np.array(rows, np.float64))
        if chosen == len(options):
            raise Rejection(f"task {task.name}: it waits for another to end")
        return hosts[chosen], {"candidates": len(options)}

    def _waits(self, task: Task, cluster: ClusterView, now_s: float) -> float | None:
        """Return log(best time with waiting for one of the next ends / time without); None if no job runs."""
        best, gone = np.inf, list[str]()
        for end_s, name in cluster.ends()[:AHEAD]:
            gone.append(name)
            later = cluster.without(gone)
            room = later.room(task.slots)
            share = shares(later, task, room)[0]
            best = min(best, end_s + cost_of(task, later, hosts_of(later, task, room, share))[0])
        return float(np.log(best / now_s)) if gone else None

    def _choose(self, rows: Floats) -> int:
        hidden = np.tanh(rows @ self.weights.inner)
        scores = hidden @ self.weights.outer + rows @ self.weights.linear
        if self.random is None:
            return int(scores.argmax())
        chances = np.exp(scores - scores.max())
        chances /= chances.sum()
        chosen = int(self.random.choice(len(chances), p=chances))
        pull = -chances
        pull[chosen] += 1.0
        self.gradient.outer += hidden.T @ pull
        self.gradient.linear += rows.T @ pull
        self.gradient.inner += rows.T @ (pull[:, None] * self.weights.outer * (1 - hidden**2))
        return chosen


LEARNED: Final = "learned"
HEURISTICS: Final = ("packed", "netpack", "cassini", "ina-aware")
FIRST_SEED: Final = 1000
"""first seed of the jobs for training, far above those of tests"""
JOBS: Final = 40
LOAD: Final = 0.8
ROLLOUTS: Final = 8
"""number of runs with the same jobs; each run is compared with their mean"""
RATE: Final = 0.03
"""learning rate of Adam"""
LEAVES: Final = 6


@dataclass(frozen=True)
class LearnCell:
    """A policy that is learned from one seed, and tested."""

    seed: int
    updates: int
    scenarios: tuple[ClusterScenario, ...]
    test_seeds: tuple[int, ...]
    jobs: int
    """number of jobs in a test"""


@record
class LearnRow:
    """Mean JCT in a test."""

    scenario: str = column("cluster")
    policy: str = column("policy")
    training: int = column("training")
    """seed of the training; 0 for heuristics"""
    seed: int
    jct_s: float = column("mean JCT, s", "{:.0f}")


@record
class LearningStep:
    """An update's mean JCT over its rollouts relative to that of 'packed'; each update has new jobs and a cluster."""

    training: int = column("training")
    update: int = column("update")
    over_packed: float = column("mean JCT over that of packed", "{:.3f}")


def scenes(random: np.random.Generator) -> Iterator[ClusterScenario]:
    """Yield small clusters without end, each with random background traffic and incapable leaves."""
    while True:
        loaded = tuple(int(leaf) + 1 for leaf in np.flatnonzero(random.random(LEAVES) < 0.4))
        incapable = tuple(int(leaf) + 1 for leaf in np.flatnonzero(random.random(LEAVES) < 0.3))
        background = float(random.choice((0.0, 0.5, 0.8)))
        yield ClusterScenario("training", "small", background=background, loaded=loaded, incapable=incapable)


def mean_jct(scenario: ClusterScenario, policy: str | PlacementPolicy, seed: int, jobs: int, slots: int) -> float:
    """Return the mean JCT of a run in seconds."""
    drawn = draw_jobs(seed, jobs, LOAD, slots, 1e9 * scenario.rate_gbps)
    return statistics.fmean(ended.jct_s for ended in ClusterRun(scenario, drawn, policy).run())


def learn(seed: int, updates: int) -> tuple[LayerWeights, list[float]]:
    """Return the weights, and by update the mean JCT of rollouts over that of 'packed'."""
    random = np.random.Generator(np.random.Philox(key=[seed, 1]))
    weights = LayerWeights.drawn(seed)
    moments = [(np.zeros_like(part), np.zeros_like(part)) for part in weights.parts()]
    clusters, curve = scenes(random), []
    for update in range(updates):
        scenario, jobs_seed = next(clusters), FIRST_SEED + 1000 * seed + update
        base = mean_jct(scenario, "packed", jobs_seed, JOBS, SMALL_HOSTS)
        rollouts = [Learned(weights, random) for _ in range(ROLLOUTS)]
        times = np.log([mean_jct(scenario, rollout, jobs_seed, JOBS, SMALL_HOSTS) / base for rollout in rollouts])
        curve.append(float(np.exp(times.mean())))
        gains = (times.mean() - times) / (times.std() + 1e-3) / ROLLOUTS
        for number, (part, (first, second)) in enumerate(zip(weights.parts(), moments, strict=True)):
            slope: Floats = sum(
                (gain * rollout.gradient.parts()[number] for gain, rollout in zip(gains, rollouts, strict=True)),
                start=np.zeros_like(part),
            )
            first[...] = 0.9 * first + 0.1 * slope
            second[...] = 0.999 * second + 0.001 * slope**2
            steady = 1 - 0.9 ** (update + 1), 1 - 0.999 ** (update + 1)
            part[...] += RATE * (1 - update / updates) * (first / steady[0]) / (np.sqrt(second / steady[1]) + 1e-8)
    return weights, curve


def run_learning(cell: LearnCell) -> Iterator[LearnRow | LearningStep]:
    """Learn a policy and test it; the cell with seed 1 also tests the heuristics."""
    weights, curve = learn(cell.seed, cell.updates)
    for update, over in enumerate(curve):
        yield LearningStep(cell.seed, update, over)
    tests: list[tuple[str, str | PlacementPolicy, int]] = [(LEARNED, Learned(weights), cell.seed)]
    if cell.seed == 1:
        tests += [(name, name, 0) for name in HEURISTICS]
    for scenario in cell.scenarios:
        for name, policy, training in tests:
            for seed in cell.test_seeds:
                yield LearnRow(scenario.name, name, training, seed, mean_jct(scenario, policy, seed, cell.jobs, 128))
