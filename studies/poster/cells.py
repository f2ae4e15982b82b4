"""The cells of the main part: a scenario under one seed, every size and policy; and a flow-level model of them."""

import dataclasses
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import networkx as nx

from p4reduce.control_plane.orchestrator.executor import ComputingManager, HostProfile
from p4reduce.control_plane.plans.problem import Layout, RingLayout, StarLayout, TreeLayout
from p4reduce.control_plane.plans.routes import chunks, frame_bytes
from p4reduce.control_plane.plans.steiner import solve
from p4reduce.control_plane.scheduling import policies as _policies
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.control_plane.scheduling.view import (
    POLICIES,
    NetworkState,
    Policy,
    Rejection,
    TreeDecision,
    View,
    copies,
    hop_words,
    problem_of,
    register_policy,
)
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from studies.frame import column, percent, record
from studies.poster.packets import RoundCounts, TaskNetwork, task_network
from studies.poster.settings import EXPLAINING, PosterSettings, TrafficScenario, draw_tasks, tasks_of, with_share

# The certified lower bound of the bytes that any tree of a task puts on links: a linear program.


_ROUNDING: Final = 1e-6
"""relative tolerance of the solver"""


def least_bytes(task: Task, topology: Topology, lanes: int) -> int:
    """Return a lower bound of the bytes per round of any trees of a task, regardless of other use of the network.

    Every link weighs one, and nothing is reserved. At least L copies of a frame must cross links between switches on
    the way up: L is the value of the linear program of `solve` in control_plane/plans/steiner.py without integrality,
    rounded up because copies are whole. As many must cross on the way down (the same tree reversed), and n + 1 copies
    cross hosts' links in each direction.
    """
    view = View(task, NetworkState(topology), lanes)
    copies = solve(problem_of(view, hop_words(view.graph, view.residual_bps, 0), "upload")).bound
    whole = math.ceil(copies * (1 - _ROUNDING) - _ROUNDING)
    return 2 * (whole + len(task.workers) + 1) * chunks(task.elements, lanes) * frame_bytes(lanes)


# Policies that the experiment adds to the scheduler's: the tree's routes without aggregation.


_REGISTERED: Final = _policies.__name__  # imported because it registers policies

Path = tuple[str, ...]


@register_policy("mst-routes")
def mst_routes(task: Task, state: NetworkState, *, lanes: int = 256) -> TreeDecision:
    """Routing alone: every local model takes the links of the overlay MST separately; only G aggregates.

    Compared with `spff` (neither), `spff-ina` (aggregation alone) and `overlay-mst` (both) it separates the two gains.
    The path of a local model is the shortest one within the tree's links. Residual bandwidth does not limit admission,
    because the fixed scheduler's reservations would not fit on few links either.
    """
    chosen = POLICIES["overlay-mst"](replace(task, aggregation="switches"), state, lanes=lanes)
    up, down = (_within(layout, task) for layout in (chosen.upload, chosen.broadcast))
    star = StarLayout(up | {pair: path for pair, path in down.items() if pair[0] == task.server})
    demand: dict[Hop, int] = {}
    for direction in ("upload", "broadcast"):
        for hop, times in copies(task, state.topology, star, direction).items():
            demand[hop] = demand.get(hop, 0) + times * task.reserved_bps
    return TreeDecision("mst-routes", task, star, star, demand)


def _within(layout: object, task: Task) -> dict[tuple[str, str], Path]:
    """Return shortest paths between each local model and G on the links of a tree, in both directions."""
    assert isinstance(layout, TreeLayout)  # noqa: S101
    graph: nx.Graph[str] = nx.Graph()
    for path in (layout.paths or {}).values():
        graph.add_edges_from(pairwise(path))
    paths: dict[tuple[str, str], Path] = {}
    ways: Mapping[str, list[str]] = nx.single_source_shortest_path(graph, task.server)
    for worker in task.workers:
        way = tuple(ways[worker])
        paths[(task.server, worker)] = way
        paths[(worker, task.server)] = way[::-1]
    return paths


FINISHED = "finished"
REJECTED = "rejected"


@record
class PolicyRow:
    """One task under one policy."""

    scenario: str = column("network")
    capable: float = column("switches that aggregate", percent(0))
    chooser: str = column("chosen")
    """how the aggregating switches were chosen"""
    size: int = column("local models")
    seed: int
    task: str
    policy: str = column("policy")
    status: str
    reason: str
    """why the task was rejected; empty if it was not"""
    together: bool
    """whether upload and broadcast have the same tree"""
    communication_ps: int
    bound_ps: int
    ordered_ps: int
    """lower bound for a host-side server that answers chunk by chunk; equal to ``bound_ps`` for trees"""
    bytes: int
    first_bytes: int
    predicted_bytes: int
    resend_bytes: int
    dropped: int
    aggregators: int
    aggregation_ps: int
    """sum of the models that arrive at the global model's host: one from a tree, else all; not part of communication"""
    chunk_ps: int
    """time of one more chunk on the busiest link of the trees"""
    least_bytes: int
    """certified lower bound of any tree's bytes; 0 if the exact policy was not run"""
    study: str = column("varied", default="")
    """'access' or 'delay' if that parameter of the network is varied"""
    value: str = column("value", default="")
    elements: int = column("parameters", "{:,}", default=0)
    training_ps: int = 0
    """calibrated: the target time minus the communication time of spff"""
    held_ps: int = 0
    """if a parameter is varied: the training time without the change"""
    exact_bytes: int = 0
    """bytes of the exact policy for the same task; 0 if it was not run"""


@record
class Difference:
    """A deviation of counted first transmissions from the prediction, on links or in the P4 program's counters."""

    text: str = column("difference")


@record
class BackgroundRow:
    """Measured background traffic of a link between switches."""

    scenario: str = column("network")
    seed: int
    node: str
    port: int
    share: float = column("used", percent(0))
    """share of the link's rate"""


@dataclass(frozen=True)
class PolicyCell:
    """The work of one process."""

    settings: PosterSettings
    scenario: TrafficScenario
    seed: int
    sizes: tuple[int, ...]
    policies: tuple[str, ...]
    capable: float = 1.0
    chooser: str = "random"


@dataclass(frozen=True)
class CellResult:
    """The results of a cell; iteration gives the records of its part."""

    rows: tuple[Any, ...]
    differences: tuple[str, ...]
    """wrong sums, and deviations of counted first transmissions from the prediction"""

    def __iter__(self) -> Iterator[Any]:
        yield from self.rows
        yield from map(Difference, self.differences)


@dataclass(frozen=True)
class PolicyResult(CellResult):
    """The results of a cell, and its measured background traffic, bit/s."""

    background: Mapping[Hop, int]


_COUNTED = tuple(field.name for field in dataclasses.fields(RoundCounts) if field.name != "differences")


def policy_cells(settings: PosterSettings) -> list[PolicyCell]:
    """Return the cells of the whole sweep."""
    for scenario in settings.scenarios:  # rejects scenarios that are too small before anything runs
        draw_tasks(scenario.build(), replace(settings, tasks=1), settings.seeds[0], max(settings.sizes))
    return [
        PolicyCell(settings, scenario, seed, settings.sizes, _policies_of_seed(settings, seed))
        for scenario in settings.scenarios
        for seed in settings.seeds_of(scenario)
    ]


def run_policies(cell: PolicyCell) -> PolicyResult:
    """Decide and measure every task of a cell.

    Tasks come one after the other; each is planned on the resources that earlier ones left (``NetworkState``: reserved
    and background traffic). If several policies give a task the same trees, its packets are sent only once and count
    for all of them: the network is deterministic, and tasks take turns.
    """
    settings, scenario = cell.settings, cell.scenario
    whole = scenario.build()
    drawn = draw_tasks(whole, settings, cell.seed, max(cell.sizes))
    topology = with_share(whole, cell.capable, cell.seed, cell.chooser, drawn)
    profile = HostProfile(add_ps=settings.add_ps)
    hosts = ComputingManager(topology, {host.name: profile for host in topology.hosts})
    rows: list[PolicyRow] = []
    differences: list[str] = []
    with task_network(settings, scenario, topology, cell.seed) as network:
        background = network.background()
        for size in cell.sizes:
            tasks = tasks_of(scenario, topology, settings, cell.seed, size)
            decided = {
                name: decide_all(POLICIES[name], tasks, NetworkState(topology, dict(background)), settings.lanes)
                for name in cell.policies
            }
            measured = _measure(network, decided.values())
            least = [least_bytes(task, topology, settings.lanes) if "exact" in decided else 0 for task in tasks]
            for name, answers in decided.items():
                for task, answer, bound in zip(tasks, answers, least, strict=True):
                    own_measured = None if isinstance(answer, Rejection) else measured[trees_key(answer)]
                    rows.append(replace(_row(cell, hosts, task, name, answer, own_measured), least_bytes=bound))
            differences += [
                f"{scenario.name}, seed {cell.seed}, {size} local models: {text}"
                for tree_measured in measured.values()
                for text in tree_measured.differences
            ]
        differences += [f"{scenario.name}, seed {cell.seed}: {text}" for text in network.check_counters()]
    return PolicyResult(tuple(rows), tuple(differences), background)


def decide_all(
    policy: Policy, tasks: Sequence[Task], state: NetworkState, lanes: int
) -> list[TreeDecision | Rejection]:
    """Decide tasks one after the other, and reserve their bandwidth in ``state``."""
    answers: list[TreeDecision | Rejection] = []
    for task in tasks:
        try:
            decision = policy(task, state, lanes=lanes)
        except Rejection as rejection:
            answers.append(rejection)
            continue
        state.reserve(decision.demand_bps)
        answers.append(decision)
    return answers


def _measure(network: TaskNetwork, decided: Iterable[Sequence[TreeDecision | Rejection]]) -> dict[Any, RoundCounts]:
    once: dict[Any, TreeDecision] = {}
    for answers in decided:
        for answer in answers:
            if isinstance(answer, TreeDecision):
                once.setdefault(trees_key(answer), answer)
    return dict(zip(once, network.run(list(once.values())), strict=True))


def _policies_of_seed(settings: PosterSettings, seed: int) -> tuple[str, ...]:
    seeds = {"exact": settings.exact_seeds} | dict.fromkeys(EXPLAINING, settings.ablation_seeds)
    place = settings.seeds.index(seed)
    return tuple(name for name in settings.policies if place < seeds.get(name, len(settings.seeds)))


def trees_key(decision: TreeDecision) -> Any:
    """Return a key that is equal for the same task with the same trees, for any policy."""
    return decision.task.name, _layout_key(decision.upload), _layout_key(decision.broadcast)


def _layout_key(layout: Layout) -> Any:
    paths = tuple(sorted((layout.paths or {}).items()))
    if isinstance(layout, TreeLayout):
        return layout.root, layout.spread, tuple(sorted(layout.parent.items())), paths
    return type(layout).__name__, paths


def _arriving(answer: TreeDecision | Rejection, measured: RoundCounts, size: int) -> int:
    """Return the number of models that the busiest host adds: one with a tree or a ring (piece by piece), else all."""
    ring = isinstance(answer, TreeDecision) and isinstance(answer.upload, RingLayout)
    return 1 if measured.aggregators or ring else size


def _row(
    cell: PolicyCell,
    hosts: ComputingManager,
    task: Task,
    policy: str,
    answer: TreeDecision | Rejection,
    measured: RoundCounts | None,
) -> PolicyRow:
    size = len(task.workers)
    counted: dict[str, Any] = {name: 0 if measured is None else getattr(measured, name) for name in _COUNTED}
    return PolicyRow(
        scenario=cell.scenario.name,
        capable=cell.capable,
        chooser=cell.chooser,
        size=size,
        seed=cell.seed,
        task=task.name,
        policy=policy,
        status=FINISHED if measured else REJECTED,
        reason=str(answer) if isinstance(answer, Rejection) else "",
        together=isinstance(answer, TreeDecision) and answer.together,
        aggregation_ps=0 if measured is None else hosts.aggregation_ps(task, _arriving(answer, measured, size)),
        least_bytes=0,
        **counted,
    )


# A flow-level model for models too large for packets, calibrated against packets.
#
# T(C) = f * (bound(C_0) + (C - C_0) * chunk): the bound of the trees grows by a chunk's time on their busiest link; a
# factor f for each policy is the mean ratio of the time on packets to the bound (queues, windows). The factor is
# calibrated on models of the experiment's size; the error is that of other rounds on packets with a larger model.


MODELS: Final = {
    "LeNet-5": 61_706,
    "ResNet-50": 25_600_000,
    "BERT-base": 110_000_000,
    "VGG-16": 138_000_000,
    "BERT-large": 340_000_000,
    "GPT-2": 1_500_000_000,
}
"""number of parameters by model"""


@record
class FlowModel:
    """The flow-level model of one policy in one scenario with one number of local models."""

    policy: str = column("policy")
    factor: float = column("factor", "{:.4f}")
    """f of the model"""
    tasks: int = column("rounds")
    """number of rounds for calibration"""
    checked: int = column("checked")
    """number of rounds of the larger model for the check"""
    checked_elements: int = column("of parameters", "{:,}")
    mean_error: float = column("mean error", percent(2))
    """mean of |T - packets| / packets over these rounds"""
    worst_error: float = column("worst error", percent(2))
    predictions_ms: dict[str, float]
    """mean communication time of a round by model"""


def calibrate_flow(
    small: Sequence[PolicyRow], large: Sequence[PolicyRow], *, elements: int, large_elements: int, lanes: int
) -> list[FlowModel]:
    """Return a model for every policy in both sets of rows; ``large`` are rounds of ``large_elements``."""
    made = []
    for policy in dict.fromkeys(row.policy for row in large):
        known = [row for row in small if row.policy == policy and row.status == FINISHED]
        held = [row for row in large if row.policy == policy and row.status == FINISHED]
        if not known or not held:
            continue
        factor = statistics.fmean(row.communication_ps / row.bound_ps for row in known)
        more = chunks(large_elements, lanes) - chunks(elements, lanes)
        by_task = {(row.seed, row.task): row for row in known}
        errors = []
        for row in held:
            base = by_task[row.seed, row.task]
            errors.append(abs(_time(base, factor, more) / row.communication_ps - 1))
        predictions = {
            name: statistics.fmean(_time(row, factor, chunks(size, lanes) - chunks(elements, lanes)) for row in known)
            / 1e9
            for name, size in MODELS.items()
        }
        made.append(
            FlowModel(
                policy=policy,
                factor=factor,
                tasks=len(known),
                checked=len(held),
                checked_elements=large_elements,
                mean_error=statistics.fmean(errors),
                worst_error=max(errors),
                predictions_ms=predictions,
            )
        )
    return made


def _time(row: PolicyRow, factor: float, more_chunks: int) -> float:
    """Return the predicted time of the row's trees with ``more_chunks`` more chunks, picoseconds."""
    return factor * (row.bound_ps + more_chunks * row.chunk_ps)
