"""Who takes part in a round, when the bytes of a round are limited."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np


class Candidate(Protocol):
    """A local model that may take part."""

    @property
    def host(self) -> str:
        """Where it is."""

    @property
    def usefulness(self) -> float:
        """Of its data to the global model; any unit, the same for all."""


_C = TypeVar("_C", bound=Candidate)
Cost = Callable[[Sequence[str]], int]
"""copies of a frame on links, of the trees of these hosts' local models and the global one"""


@dataclass(frozen=True)
class Budget:
    """What a round may consume: copies of a frame on links (bytes are copies * chunks * frame length)."""

    copies: int
    cost: Cost

    def allows(self, hosts: Sequence[str]) -> bool:
        """Whether the trees of these local models fit."""
        return self.cost(hosts) <= self.copies


class Chooser(Protocol):
    """Those of the candidates that take part."""

    def __call__(self, models: Sequence[_C], budget: Budget, random: np.random.Generator) -> list[_C]:
        """Choose."""


def everyone(models: Sequence[_C], budget: Budget, random: np.random.Generator) -> list[_C]:
    """All of them, whatever it costs: the reference."""
    del budget, random
    return list(models)


def at_random(models: Sequence[_C], budget: Budget, random: np.random.Generator) -> list[_C]:
    """In a random order, as long as they fit."""
    return _fill([models[place] for place in random.permutation(len(models))], budget)


def cheapest(models: Sequence[_C], budget: Budget, random: np.random.Generator) -> list[_C]:
    """As many as fit: each time the one that costs the least beside those chosen."""
    del random
    return _greedy(models, budget, lambda _model, extra: -float(extra))


def useful(models: Sequence[_C], budget: Budget, random: np.random.Generator) -> list[_C]:
    """Most useful for what they cost: each time the largest usefulness for each extra copy of a frame on links."""
    del random
    return _greedy(models, budget, lambda model, extra: model.usefulness / max(1, extra))


CHOOSERS: dict[str, Chooser] = {"all": everyone, "random": at_random, "cheapest": cheapest, "useful": useful}


def _fill(order: Sequence[_C], budget: Budget) -> list[_C]:
    chosen: list[_C] = []
    for model in order:
        if budget.allows([*(one.host for one in chosen), model.host]):
            chosen.append(model)
    return chosen


def _greedy(models: Sequence[_C], budget: Budget, score: Callable[[_C, int], float]) -> list[_C]:
    chosen: list[_C] = []
    left = list(models)
    while left:
        hosts = [one.host for one in chosen]
        now = budget.cost(hosts) if hosts else 0
        extra = {model.host: budget.cost([*hosts, model.host]) - now for model in left}
        fitting = [model for model in left if now + extra[model.host] <= budget.copies]
        if not fitting:
            break
        best = max(fitting, key=lambda model: (score(model, extra[model.host]), model.host))
        chosen.append(best)
        left.remove(best)
    return chosen
