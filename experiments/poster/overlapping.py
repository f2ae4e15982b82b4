"""Tasks that communicate at the same time: what they do to each other, under each policy.

Everywhere else in the experiment rounds take turns on the links, so that each can be held against its own bound. Here
the same tasks, on the same trees, all begin at once, as if all local models had been trained equally long: the most
that they can be in each other's way.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from p4reduce.control_plane.scheduling.policy import Decision, Rejection
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.experiments.poster.packets import TaskNetwork, task_network
from p4reduce.experiments.poster.policies import POLICIES
from p4reduce.experiments.poster.settings import SPFF, PosterSettings, Scenario
from p4reduce.experiments.poster.tasks import tasks_of
from p4reduce.experiments.poster.units import decide_all

COMPARED: Final = (SPFF, "overlay-mst", "steiner")


@dataclass(frozen=True)
class OverlapUnit:
    """A network and a seed, with the policies that are compared and the most local models."""

    settings: PosterSettings
    scenario: Scenario
    seed: int
    policies: tuple[str, ...]


@dataclass(frozen=True)
class OverlapRow:
    """One task: a line of overlapping.csv."""

    scenario: str
    policy: str
    seed: int
    task: str
    together: int
    """tasks that began with it"""
    alone_ps: int
    """its communication when the links are its own"""
    overlapping_ps: int
    """when all of them begin at one time"""
    resend_bytes: int
    """of all of them then: time-outs behind long queues"""


@dataclass(frozen=True)
class OverlapResult:
    """What came of a unit."""

    rows: tuple[OverlapRow, ...]
    differences: tuple[str, ...]


@dataclass(frozen=True)
class OverlapPoint:
    """Means over all tasks of a network under a policy, milliseconds."""

    scenario: str
    policy: str
    tasks: int
    alone_ms: float
    overlapping_ms: float
    worst_ms: float
    """of the task that took longest"""


def overlap_units(settings: PosterSettings) -> list[OverlapUnit]:
    """By network and seed."""
    policies = tuple(name for name in COMPARED if name in settings.policies)
    return [
        OverlapUnit(settings, scenario, seed, policies)
        for scenario in settings.scenarios
        for seed in settings.seeds_of(scenario)[: settings.overlap_seeds]
    ]


def run_overlapping(unit: OverlapUnit) -> OverlapResult:
    """Every policy's tasks, one after the other and then all at once.

    At most ``settings.overlap_tasks`` of them; sums, weights and bytes are checked.
    """
    settings, scenario = unit.settings, unit.scenario
    topology = scenario.build()
    rows: list[OverlapRow] = []
    differences: list[str] = []
    where = f"{scenario.name}, seed {unit.seed}, overlapping"
    with task_network(settings, scenario, topology, unit.seed) as network:
        background = network.background()
        tasks = tasks_of(scenario, topology, settings, unit.seed, max(settings.sizes))
        answers = {
            name: decide_all(POLICIES[name], tasks, NetworkState(topology, dict(background)), settings.lanes)
            for name in unit.policies
        }
        chosen = _chosen(network, answers.values(), settings.overlap_tasks)
        if not chosen:
            return OverlapResult((), ())
        for name, own in answers.items():
            decisions = [one for one in own if isinstance(one, Decision) and one.task.name in chosen]
            alone = list(network.run(decisions))
            lasted, measured = network.run_at_once(decisions)
            differences += [
                f"{where}, {name}: {text}" for counted in (*alone, measured) for text in counted.differences
            ]
            rows += [
                OverlapRow(
                    scenario.name,
                    name,
                    unit.seed,
                    one.task.name,
                    len(decisions),
                    before.communication_ps,
                    after,
                    measured.resend_bytes,
                )
                for one, before, after in zip(decisions, alone, lasted, strict=True)
            ]
        differences += [f"{where}: {text}" for text in network.check_counters(resends=True)]
    return OverlapResult(tuple(rows), tuple(differences))


def _chosen(network: TaskNetwork, answers: Iterable[Sequence[Decision | Rejection]], most: int) -> list[str]:
    """The first tasks that every policy admits and that switches have slots for at the same time, under each."""
    chosen: list[str] | None = None
    for own in answers:
        admitted = [one for one in own if isinstance(one, Decision) and (chosen is None or one.task.name in chosen)]
        chosen = [one.task.name for one in network.fitting(admitted)]
    return (chosen or [])[:most]


def overlap_points(rows: Sequence[OverlapRow]) -> list[OverlapPoint]:
    """A point for every network and policy, in the order of the rows."""
    groups: dict[tuple[str, str], list[OverlapRow]] = {}
    for row in rows:
        groups.setdefault((row.scenario, row.policy), []).append(row)
    return [
        OverlapPoint(
            scenario,
            policy,
            len(own),
            statistics.fmean(row.alone_ps for row in own) / 1e9,
            statistics.fmean(row.overlapping_ps for row in own) / 1e9,
            max(row.overlapping_ps for row in own) / 1e9,
        )
        for (scenario, policy), own in groups.items()
    ]
