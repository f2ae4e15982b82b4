"""One piece of the experiment that can run anywhere: a scenario under one seed, every size and policy."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from p4reduce.control_plane.orchestrator.computing import ComputingManager, HostProfile
from p4reduce.control_plane.plans.problem import Layout, RingLayout, TreeLayout
from p4reduce.control_plane.scheduling.policy import Decision, Policy, Rejection
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.experiments.poster.capable import with_share
from p4reduce.experiments.poster.least import least_bytes
from p4reduce.experiments.poster.measured import Measured
from p4reduce.experiments.poster.packets import TaskNetwork, task_network
from p4reduce.experiments.poster.policies import POLICIES
from p4reduce.experiments.poster.settings import EXPLAINING, PosterSettings, Scenario
from p4reduce.experiments.poster.tasks import draw_tasks, tasks_of
from p4reduce.topologies.model import Hop

FINISHED = "finished"
REJECTED = "rejected"


@dataclass(frozen=True)
class Row:
    """One task under one policy: a line of runs.csv."""

    scenario: str
    capable: float
    """share of switches that can aggregate"""
    chooser: str
    """how these were chosen"""
    size: int
    """local models"""
    seed: int
    task: str
    policy: str
    status: str
    reason: str
    """why it was rejected"""
    together: bool
    """one tree for upload and broadcast"""
    communication_ps: int
    bound_ps: int
    ordered_ps: int
    """lower bound where a host-side server answers chunk by chunk; for trees that is ``bound_ps``"""
    bytes: int
    first_bytes: int
    predicted_bytes: int
    resend_bytes: int
    dropped: int
    aggregators: int
    aggregation_ps: int
    """adding up what reaches the global model's host: one model from a tree, else all; not part of communication"""
    chunk_ps: int
    """what one more chunk takes on the busiest link of the trees"""
    least_bytes: int
    """certified lower bound of any tree's bytes; 0 where exact was not asked"""


@dataclass(frozen=True)
class Unit:
    """What one process does."""

    settings: PosterSettings
    scenario: Scenario
    seed: int
    sizes: tuple[int, ...]
    policies: tuple[str, ...]
    capable: float = 1.0
    chooser: str = "random"


@dataclass(frozen=True)
class UnitResult:
    """What came of it."""

    rows: tuple[Row, ...]
    differences: tuple[str, ...]
    """where counted first transmissions are not what was predicted, on links or in the P4 program's counters"""
    background: Mapping[Hop, int]
    """measured background traffic, bit/s"""


_COUNTED = tuple(field.name for field in dataclasses.fields(Measured) if field.name != "differences")


def units_of(settings: PosterSettings) -> list[Unit]:
    """The whole sweep; long pieces first."""
    made = [
        Unit(settings, scenario, seed, settings.sizes, _policies(settings, seed))
        for seed in settings.seeds
        for scenario in settings.scenarios
        if seed in settings.seeds_of(scenario)
    ]
    return sorted(made, key=lambda unit: -len(unit.policies))


def run_unit(unit: Unit) -> UnitResult:
    """Decide and measure every task of a unit.

    Tasks come one after the other; each is planned on what those before it left (``NetworkState``: reserved and
    background traffic). Where several policies give a task the same trees, its packets are sent once, and count for
    all of them: the network is deterministic, and tasks take turns.
    """
    settings, scenario = unit.settings, unit.scenario
    whole = scenario.build()
    drawn = draw_tasks(whole, settings, unit.seed, max(unit.sizes))
    topology = with_share(whole, unit.capable, unit.seed, unit.chooser, drawn)
    profile = HostProfile(add_ps=settings.add_ps)
    hosts = ComputingManager(topology, {host.name: profile for host in topology.hosts})
    rows: list[Row] = []
    differences: list[str] = []
    with task_network(settings, scenario, topology, unit.seed) as network:
        background = network.background()
        for size in unit.sizes:
            tasks = tasks_of(scenario, topology, settings, unit.seed, size)
            decided = {
                name: decide_all(POLICIES[name], tasks, NetworkState(topology, dict(background)), settings.lanes)
                for name in unit.policies
            }
            measured = _measure(network, decided.values())
            least = [least_bytes(task, topology, settings.lanes) if "exact" in decided else 0 for task in tasks]
            for name, answers in decided.items():
                for task, answer, bound in zip(tasks, answers, least, strict=True):
                    found = None if isinstance(answer, Rejection) else measured[trees_key(answer)]
                    rows.append(replace(_row(unit, hosts, task, name, answer, found), least_bytes=bound))
            differences += [
                f"{scenario.name}, seed {unit.seed}, {size} local models: {text}"
                for one in measured.values()
                for text in one.differences
            ]
        differences += [f"{scenario.name}, seed {unit.seed}: {text}" for text in network.check_counters()]
    return UnitResult(tuple(rows), tuple(differences), background)


def decide_all(policy: Policy, tasks: Sequence[Task], state: NetworkState, lanes: int) -> list[Decision | Rejection]:
    """Admit tasks one after the other; changes ``state``."""
    answers: list[Decision | Rejection] = []
    for task in tasks:
        try:
            decision = policy(task, state, lanes=lanes)
        except Rejection as rejection:
            answers.append(rejection)
            continue
        state.reserve(decision.demand_bps)
        answers.append(decision)
    return answers


def _measure(network: TaskNetwork, decided: Iterable[Sequence[Decision | Rejection]]) -> dict[Any, Measured]:
    once: dict[Any, Decision] = {}
    for answers in decided:
        for answer in answers:
            if isinstance(answer, Decision):
                once.setdefault(trees_key(answer), answer)
    return dict(zip(once, network.run(list(once.values())), strict=True))


def _policies(settings: PosterSettings, seed: int) -> tuple[str, ...]:
    seeds = {"exact": settings.exact_seeds} | dict.fromkeys(EXPLAINING, settings.ablation_seeds)
    place = settings.seeds.index(seed)
    return tuple(name for name in settings.policies if place < seeds.get(name, len(settings.seeds)))


def trees_key(decision: Decision) -> Any:
    """Equal for the same task with the same trees, whoever decided them."""
    return decision.task.name, _layout_key(decision.upload), _layout_key(decision.broadcast)


def _layout_key(layout: Layout) -> Any:
    paths = tuple(sorted((layout.paths or {}).items()))
    if isinstance(layout, TreeLayout):
        return layout.root, layout.spread, tuple(sorted(layout.parent.items())), paths
    return type(layout).__name__, paths


def _arriving(answer: Decision | Rejection, found: Measured, size: int) -> int:
    """Models that the busiest host adds up: one of a tree and, piece by piece, of a ring; else all."""
    ring = isinstance(answer, Decision) and isinstance(answer.upload, RingLayout)
    return 1 if found.aggregators or ring else size


def _row(
    unit: Unit,
    hosts: ComputingManager,
    task: Task,
    policy: str,
    answer: Decision | Rejection,
    found: Measured | None,
) -> Row:
    size = len(task.workers)
    return Row(
        scenario=unit.scenario.name,
        capable=unit.capable,
        chooser=unit.chooser,
        size=size,
        seed=unit.seed,
        task=task.name,
        policy=policy,
        status=FINISHED if found else REJECTED,
        reason=str(answer) if isinstance(answer, Rejection) else "",
        together=isinstance(answer, Decision) and answer.together,
        aggregation_ps=0 if found is None else hosts.aggregation_ps(task, _arriving(answer, found, size)),
        least_bytes=0,
        **{name: 0 if found is None else getattr(found, name) for name in _COUNTED},
    )
