"""Without switches that add: what the same tasks take when hosts add up models among themselves.

Rings, and the overlay MST of hosts. A piece of its own, in no claim: the bound of a ring is not tight
(:mod:`~p4reduce.experiments.poster.bounds`), and phases are not pipelined.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from p4reduce.control_plane.scheduling.host_trees import NAME as HOST_TREE
from p4reduce.control_plane.scheduling.host_trees import overlay_mst_hosts
from p4reduce.control_plane.scheduling.policy import Decision, Rejection
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.experiments.poster.hierarchical import NAME as HIERARCHICAL
from p4reduce.experiments.poster.hierarchical import hierarchical_ring
from p4reduce.experiments.poster.host_phases import HostPhases
from p4reduce.experiments.poster.measured import Measured
from p4reduce.experiments.poster.phases import Phased, PhasedNetwork
from p4reduce.experiments.poster.policies import POLICIES
from p4reduce.experiments.poster.settings import SPFF, PosterSettings, Scenario
from p4reduce.experiments.poster.tasks import tasks_of
from p4reduce.experiments.poster.units import FINISHED, REJECTED, decide_all
from p4reduce.jobs.programs import bundled
from p4reduce.runs.tensors import tensor

COMPARED: Final = (SPFF, "overlay-mst", "steiner", "ring")
"""and those of ``IN_PHASES``"""


def _host_tree(task: Task, state: NetworkState, *, lanes: int) -> Phased:
    return HostPhases(overlay_mst_hosts(task, state, lanes=lanes))


IN_PHASES: Final[dict[str, Callable[..., Phased]]] = {HIERARCHICAL: hierarchical_ring, HOST_TREE: _host_tree}
"""by name: from a task, the network's state and ``lanes`` to what was admitted, or a `Rejection`"""


@dataclass(frozen=True)
class RingUnit:
    """What one process does: a network with the first tasks of a seed, of the most local models."""

    settings: PosterSettings
    scenario: Scenario
    seed: int


@dataclass(frozen=True)
class RingRow:
    """One task under one policy: a line of rings.csv."""

    scenario: str
    policy: str
    size: int
    """local models"""
    seed: int
    task: str
    status: str
    reason: str
    """why it was rejected"""
    phases: int
    """one after the other, those with something to do; 1 of a tree in switches and of a ring"""
    communication_ps: int
    bound_ps: int
    """of the phases together, for rings not tight"""
    bytes: int
    first_bytes: int
    predicted_bytes: int


@dataclass(frozen=True)
class RingResult:
    """What came of a unit."""

    rows: tuple[RingRow, ...]
    differences: tuple[str, ...]


@dataclass(frozen=True)
class RingPoint:
    """Means over the tasks of a network that a policy admitted."""

    scenario: str
    policy: str
    tasks: int
    rejected: int
    communication_ms: float
    bound_ms: float
    megabytes: float


def ring_units(settings: PosterSettings) -> list[RingUnit]:
    """By network, under the first seed."""
    return [
        RingUnit(settings, scenario, settings.seeds[0])
        for scenario in settings.scenarios
        if settings.ring_tasks and scenario.name in settings.ring_networks
    ]


def run_rings(unit: RingUnit) -> RingResult:
    """Admit the tasks of every policy one after the other, and carry one round of each; sums and bytes are checked."""
    settings, scenario = unit.settings, unit.scenario
    topology, size = scenario.build(), max(settings.sizes)
    inputs = [tensor(unit.seed, rank, 0, settings.elements) for rank in range(size)]
    rows: list[RingRow] = []
    differences: list[str] = []
    with PhasedNetwork(
        topology,
        bundled(settings.lanes),
        elements=settings.elements,
        load=scenario.load,
        seed=unit.seed,
    ) as network:
        background = network.background()
        tasks = tasks_of(scenario, topology, settings, unit.seed, size)[: settings.ring_tasks]
        answers: dict[str, Sequence[Decision | Phased | Rejection]] = {
            name: decide_all(POLICIES[name], tasks, NetworkState(topology, dict(background)), settings.lanes)
            for name in COMPARED
        }
        for name, admit in IN_PHASES.items():
            answers[name] = _in_phases(admit, tasks, NetworkState(topology, dict(background)), settings.lanes)
        for name, own in answers.items():
            trees = iter(network.run([one for one in own if isinstance(one, Decision)]))
            for task, answer in zip(tasks, own, strict=True):
                found: Measured | None = None
                if isinstance(answer, Decision):
                    found = next(trees)
                elif not isinstance(answer, Rejection):
                    _, found, _ = network.run_phases(answer, inputs)
                rows.append(_row(unit, name, task, answer, found))
                if found is not None:
                    differences += [f"{scenario.name}, seed {unit.seed}, {name}: {text}" for text in found.differences]
            # What is left of the generator takes the trees away again.
            assert next(trees, None) is None  # noqa: S101
        differences += [f"{scenario.name}, seed {unit.seed}, rings: {text}" for text in network.check_counters()]
    return RingResult(tuple(rows), tuple(differences))


def _in_phases(
    admit: Callable[..., Phased], tasks: Sequence[Task], state: NetworkState, lanes: int
) -> list[Phased | Rejection]:
    """Admit tasks one after the other; changes ``state``."""
    answers: list[Phased | Rejection] = []
    for task in tasks:
        try:
            found = admit(task, state, lanes=lanes)
        except Rejection as rejection:
            answers.append(rejection)
            continue
        state.reserve(found.demand_bps)
        answers.append(found)
    return answers


def _row(
    unit: RingUnit, policy: str, task: Task, answer: Decision | Phased | Rejection, found: Measured | None
) -> RingRow:
    return RingRow(
        scenario=unit.scenario.name,
        policy=policy,
        size=len(task.workers),
        seed=unit.seed,
        task=task.name,
        status=FINISHED if found else REJECTED,
        reason=str(answer) if isinstance(answer, Rejection) else "",
        phases=int(found is not None) if isinstance(answer, Decision | Rejection) else len(answer.phases),
        communication_ps=found.communication_ps if found else 0,
        bound_ps=found.bound_ps if found else 0,
        bytes=found.bytes if found else 0,
        first_bytes=found.first_bytes if found else 0,
        predicted_bytes=found.predicted_bytes if found else 0,
    )


def ring_points(rows: Sequence[RingRow]) -> list[RingPoint]:
    """A point for every network and policy, in the order of the rows; none where all tasks were rejected."""
    groups: dict[tuple[str, str], list[RingRow]] = {}
    for row in rows:
        groups.setdefault((row.scenario, row.policy), []).append(row)
    found = []
    for (scenario, policy), own in groups.items():
        done = [row for row in own if row.status == FINISHED]
        if done:
            found.append(
                RingPoint(
                    scenario,
                    policy,
                    len(done),
                    len(own) - len(done),
                    statistics.fmean(row.communication_ps for row in done) / 1e9,
                    statistics.fmean(row.bound_ps for row in done) / 1e9,
                    statistics.fmean(row.bytes for row in done) / 1e6,
                )
            )
    return found
