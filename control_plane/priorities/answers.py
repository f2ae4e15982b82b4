"""What a priority policy may answer."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from p4reduce.control_plane.priorities.facts import Flow, JobFacts, Situation


@dataclass(frozen=True)
class Order:
    """Groups of flows, the most urgent first; those of one group tie. Queues are cut from it (`queues.py`)."""

    groups: tuple[tuple[Flow, ...], ...]

    def rotated(self, turn: int) -> "Order":
        """The same with so many groups moved from the front to the back: nobody is last for ever."""
        place = turn % len(self.groups) if self.groups else 0
        return Order(self.groups[place:] + self.groups[:place])


@dataclass(frozen=True)
class Classes:
    """The class of every flow, 1..6, when a policy does not leave the cutting to others."""

    by_flow: Mapping[Flow, int]


@dataclass(frozen=True)
class Paces:
    """Weights by which jobs share the links that they have in common: each sends at its share. All in one class."""

    weights: Mapping[str, float]


@dataclass(frozen=True)
class Shifts:
    """How long each job puts off its next flow, picoseconds, once. All in one class."""

    by_job: Mapping[str, int]


Answer: TypeAlias = Order | Classes | Paces | Shifts


def tied(situation: Situation) -> Order:
    """All flows alike."""
    return Order((situation.flows,) if situation.flows else ())


def by_flow(situation: Situation, key: Callable[[JobFacts, Flow], Any]) -> Order:
    """Flows by a key, the smallest first; equal ones tie."""
    groups: dict[Any, list[Flow]] = {}
    for flow in situation.flows:
        groups.setdefault(key(situation.by_name[flow.job], flow), []).append(flow)
    return Order(tuple(tuple(groups[value]) for value in sorted(groups)))


def one_by_one(situation: Situation, key: Callable[[JobFacts], Any]) -> Order:
    """Jobs by a key, the smallest first, each with all its flows in a group of its own; equal ones by their names.

    Jobs whose key is None, of which nothing is known, come last and tie.
    """
    keys = {job.name: key(job) for job in situation.jobs}
    known = sorted((job for job in situation.jobs if keys[job.name] is not None), key=lambda job: keys[job.name])
    unknown = [flow for job in situation.jobs if keys[job.name] is None for flow in job.flows]
    return Order((*(job.flows for job in known), *_some(unknown)))


def _some(flows: Iterable[Flow]) -> tuple[tuple[Flow, ...], ...]:
    group = tuple(flows)
    return (group,) if group else ()
