"""Who takes part in a round, when the bytes of a round are limited."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from p4reduce.cluster.selection.local_models import LocalModel

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


Chooser = Callable[[Sequence[LocalModel], Budget, np.random.Generator], list[LocalModel]]


def everyone(models: Sequence[LocalModel], budget: Budget, random: np.random.Generator) -> list[LocalModel]:
    """All of them, whatever it costs: the reference."""
    del budget, random
    return list(models)


def at_random(models: Sequence[LocalModel], budget: Budget, random: np.random.Generator) -> list[LocalModel]:
    """In a random order, as long as they fit."""
    return _fill([models[place] for place in random.permutation(len(models))], budget)


def cheapest(models: Sequence[LocalModel], budget: Budget, random: np.random.Generator) -> list[LocalModel]:
    """As many as fit: each time the one that costs the least beside those chosen."""
    del random
    return _greedy(models, budget, lambda _model, extra: -float(extra))


def useful(models: Sequence[LocalModel], budget: Budget, random: np.random.Generator) -> list[LocalModel]:
    """Most useful for what they cost: each time the largest usefulness for each extra copy of a frame on links."""
    del random
    return _greedy(models, budget, lambda model, extra: model.usefulness / max(1, extra))


CHOOSERS: dict[str, Chooser] = {"all": everyone, "random": at_random, "cheapest": cheapest, "useful": useful}


def _fill(order: Sequence[LocalModel], budget: Budget) -> list[LocalModel]:
    chosen: list[LocalModel] = []
    for model in order:
        if budget.allows([*(one.host for one in chosen), model.host]):
            chosen.append(model)
    return chosen


def _greedy(
    models: Sequence[LocalModel], budget: Budget, score: Callable[[LocalModel, int], float]
) -> list[LocalModel]:
    chosen: list[LocalModel] = []
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
