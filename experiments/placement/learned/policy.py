"""A policy that scores candidates by a small network: sampled while it learns, the best one afterwards.

As DeepRM (Mao et al., "Resource management with deep reinforcement learning", HotNets 2016) it may let a task wait,
too. It sees the candidates of 'ina-aware' and that policy's predictions among other features, so it can be as good.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.control_plane.placement.candidates import hosts_of, shares
from p4reduce.control_plane.placement.cluster import Cluster, asked
from p4reduce.control_plane.placement.policies.ina_aware import broken, cost_of, worth
from p4reduce.control_plane.scheduling.policy import Rejection
from p4reduce.control_plane.scheduling.task import Task

Floats = NDArray[np.float64]
FEATURES: Final = 11
HIDDEN: Final = 16
AHEAD: Final = 2
"""ends of other tasks that a task may wait for"""
_LEAST: Final = 1e-12


@dataclass
class Weights:
    """Of a network with one hidden layer (tanh) beside a linear part: (features, hidden), (hidden,), (features,)."""

    inner: Floats
    outer: Floats
    linear: Floats

    @classmethod
    def drawn(cls, seed: int) -> "Weights":
        """To begin with: hardly any preference."""
        random = np.random.Generator(np.random.Philox(seed))
        return cls(
            random.normal(0, 0.5 / FEATURES**0.5, (FEATURES, HIDDEN)),
            random.normal(0, 0.1 / HIDDEN**0.5, HIDDEN),
            np.zeros(FEATURES),
        )

    def parts(self) -> tuple[Floats, Floats, Floats]:
        """The arrays, to be changed in place."""
        return self.inner, self.outer, self.linear


@dataclass
class Learned:
    """A placement policy. With ``random`` it draws from its probabilities and sums up their gradients."""

    weights: Weights
    random: np.random.Generator | None = None
    gradient: Weights = field(init=False)

    def __post_init__(self) -> None:
        self.gradient = Weights(*(np.zeros_like(part) for part in self.weights.parts()))

    def __call__(self, task: Task, cluster: Cluster) -> tuple[Sequence[str], Mapping[str, Any]]:
        """The hosts of a candidate; `Rejection` where it would rather wait."""
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

    def _waits(self, task: Task, cluster: Cluster, now_s: float) -> float | None:
        """Logarithm of how long it takes if it waits for one of the next ends, over now; None where nobody runs."""
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
