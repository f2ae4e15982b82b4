"""Interruption against saving: the orchestrator decides whether to swap the tree of a running task."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np

from p4reduce.control_plane.orchestrator import OrchestratorOptions, Store, TaskState
from p4reduce.control_plane.scheduling import Rejection, Task, TreeDecision, consumed, policy_named
from p4reduce.control_plane.scheduling.view import POLICIES, LinkWeights, NetworkState, Policy
from p4reduce.play.tasks.world import World
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from studies.frame import column, percent, record, scaled
from studies.orchestrated import orchestrated
from studies.poster.cells import CellResult, decide_all, trees_key
from studies.poster.packets import TaskNetwork, task_network
from studies.poster.settings import SPFF, PosterSettings, TrafficScenario, draw_tasks, tasks_of

POLICY = "steiner"
TRAINING_PS = 20_000_000
"""short training time: the swap then comes while the task communicates, when there is something to interrupt"""
CONTROL_LATENCY_PS = 10_000_000
_NEVER_PS = 10**15
_ROUND = 1
"""index of the round of the swap; the later rounds remain"""


@record
class SwapRow:
    """One trial. Times in virtual picoseconds, bytes summed over all links."""

    scenario: str = column("network")
    loss: float = column("loss", percent(0))
    """loss rate of every link"""
    seed: int
    detour: float = column("detour", percent(0))
    """share by which the first tree's bytes should exceed the best tree's"""
    rounds: int = column("rounds")
    threshold: float | None = column("threshold", "{:g}")
    """least ratio of a swap's saving to its cost; None: no swap, the baseline of the other trials"""
    decision: str
    """swap or keep"""
    remaining_rounds: int
    saving_bytes: int = column("expected saving, MB", scaled(1e-6, "{:.2f}"))
    """(bytes of a round on the old tree - on the new one) * remaining rounds"""
    cost_bytes: int = column("expected cost, MB", scaled(1e-6, "{:.2f}"))
    """upper bound: a window of frames on all hops of the new tree"""
    in_flight: int = column("chunks in flight", "{:.0f}")
    resent_frames: int = column("frames resent", "{:.0f}")
    resent_bytes: int
    """bytes sent again on the workers' links"""
    late_frames: int = column("frames late", "{:.0f}")
    """frames of the old epoch that hosts dropped"""
    interruption_ps: int = column("interruption, us", scaled(1e-6, "{:.1f}"))
    """time until every worker had all results that were in flight"""
    link_bytes: int
    """counted bytes of all rounds"""
    saved_bytes: int = column("counted saving, MB", scaled(1e-6, "{:.2f}"))
    """reduction relative to the trial without a swap; negative if the interruption cost more than the tree saved"""
    finished_ps: int
    later_ps: int = column("finished later, us", scaled(1e-6, "{:.1f}"))
    """delay relative to the trial without a swap; negative: earlier"""


@dataclass(frozen=True)
class SwapCell:
    """The work of one process: a network with a loss rate, under one seed."""

    settings: PosterSettings
    scenario: TrafficScenario
    loss: float
    seed: int


@dataclass(frozen=True)
class _Trial:
    """One run of a task: its first tree avoids links that become free later."""

    topology: Topology
    task: Task
    avoided: frozenset[Hop]
    free_ps: int
    threshold: float | None


def swap_cells(settings: PosterSettings) -> list[SwapCell]:
    """Return cells by network, loss rate and seed."""
    by_name = {scenario.name: scenario for scenario in settings.scenarios}
    return [
        SwapCell(settings, by_name[name], loss, seed)
        for name, loss in settings.swap_networks
        if name in by_name
        for seed in settings.seeds[: settings.swap_seeds]
    ]


def run_swaps(cell: SwapCell) -> CellResult:
    """Run every detour, number of rounds and threshold, each on a new network, and once without a swap.

    All trials of a task must give the same weights in every round, for any tree, swap and loss.
    """
    settings, topology = cell.settings, cell.scenario.build()
    (drawn,) = draw_tasks(topology, replace(settings, tasks=1), cell.seed, max(settings.sizes))
    chance = np.random.Generator(np.random.Philox(key=[cell.seed, 0x5A]))
    rows: list[SwapRow] = []
    differences: list[str] = []
    for detour in settings.swap_detours:
        avoided = _avoided(topology, drawn, settings.lanes, detour, cell.seed)
        for rounds in settings.swap_rounds:
            task = replace(drawn, rounds=rounds, training_ps=TRAINING_PS)
            before, wrong = _run(cell, _Trial(topology, task, avoided, _NEVER_PS, None), detour)
            rows.append(before.row)
            differences += wrong
            trained, done = before.communicating
            change_ps = round(trained + chance.uniform(0.05, 0.95) * (done - trained))
            for threshold in settings.swap_thresholds:
                trial = _Trial(topology, task, avoided, change_ps - CONTROL_LATENCY_PS, threshold)
                run, wrong = _run(cell, trial, detour)
                row = run.row
                saved, later = before.row.link_bytes - row.link_bytes, row.finished_ps - before.row.finished_ps
                rows.append(replace(row, saved_bytes=saved, later_ps=later))
                differences += wrong
                if run.digest != before.digest:
                    differences.append(f"{_names(row)}: other weights than without a swap")
    return CellResult(tuple(rows), tuple(differences))


@dataclass(frozen=True)
class _Found:
    row: SwapRow
    digest: str | None
    communicating: tuple[int, int]
    """start and end of communication in the round of the swap"""


def _run(cell: SwapCell, trial: _Trial, detour: float) -> tuple[_Found, list[str]]:
    lanes, task = cell.settings.lanes, trial.task
    options = OrchestratorOptions(
        control_latency_ps=CONTROL_LATENCY_PS,
        # Counters are read, and trees considered, when the links are free again; reading the switches of a large
        # network many times in a round would take longer than its packets.
        measure_every_ps=trial.free_ps,
        threshold=trial.threshold,
    )
    best = policy_named(POLICY)

    def policy(world: World) -> Policy:
        def decide(task: Task, state: NetworkState, *, lanes: int = lanes) -> TreeDecision:
            full = trial.avoided if world.now() < trial.free_ps else frozenset()
            return best(task, replace(state, down=state.down | full), lanes=lanes)

        return decide

    with orchestrated(
        trial.topology, [task], policy, name=POLICY, options=options, lanes=lanes, loss=cell.loss, seed=cell.seed
    ) as (world, store):
        return _found(cell, trial, detour, store, sum(world.interface_bytes().values()))


def _found(cell: SwapCell, trial: _Trial, detour: float, store: Store, octets: int) -> tuple[_Found, list[str]]:
    task = trial.task
    end, history = store.task(task.name), store.history
    decisions = history.decisions(task.name)
    weighed = next((decision for decision in decisions if decision["what"] in ("swap", "keep")), None)
    why = {} if weighed is None else weighed["why"]
    swaps, rounds = history.swaps(), history.rounds(task.name)
    row = SwapRow(
        scenario=cell.scenario.name,
        loss=cell.loss,
        seed=cell.seed,
        detour=detour,
        rounds=task.rounds,
        threshold=trial.threshold,
        decision="swap" if swaps else "keep",
        **{name: int(why.get(name, 0)) for name in ("remaining_rounds", "saving_bytes", "cost_bytes")},
        **{
            name: sum(int(swap[name] or 0) for swap in swaps)
            for name in ("in_flight", "resent_frames", "resent_bytes", "late_frames")
        },
        interruption_ps=max((int(swap["duration_ps"] or 0) for swap in swaps), default=0),
        link_bytes=octets,
        saved_bytes=0,
        finished_ps=end.finished_ps or 0,
        later_ps=0,
    )
    wrong = []
    if end.state is not TaskState.FINISHED or len(rounds) != task.rounds:
        wrong.append(f"{_names(row)}: {end.state.value} after {len(rounds)} rounds: {end.reason}")
    first = next(decision["why"]["round_bytes"] for decision in decisions if decision["what"] == "schedule")
    if not swaps and not cell.loss and octets != first * task.rounds:
        wrong.append(f"{_names(row)}: {octets} bytes on links, predicted were {first * task.rounds}")
    at = rounds[min(_ROUND, len(rounds) - 1)] if rounds else {"trained_ps": 0, "done_ps": 0}
    return _Found(row, end.digest, (at["trained_ps"], at["done_ps"])), wrong


def _avoided(topology: Topology, task: Task, lanes: int, detour: float, seed: int) -> frozenset[Hop]:
    """Return links between switches, both directions, whose removal makes the best tree larger by at least a share.

    Links are removed in a random order, except those without which there is no tree. If removing all others does not
    make the tree large enough, they are all returned.
    """
    policy = policy_named(POLICY)
    least = consumed(policy(task, NetworkState(topology), lanes=lanes), topology)
    between = [link for link in topology.links if all(topology.node(end).is_switch for end in (link.a, link.b))]
    chance = np.random.Generator(np.random.Philox(key=[seed, 0x5B]))
    gone: frozenset[Hop] = frozenset()
    for place in chance.permutation(len(between)):
        link = between[place]
        more = gone | {(link.a, link.port_a), (link.b, link.port_b)}
        try:
            size = consumed(policy(task, NetworkState(topology, down=set(more)), lanes=lanes), topology)
        except Rejection:
            continue
        gone = more
        if size >= (1 + detour) * least:
            break
    return gone


def _names(row: SwapRow) -> str:
    return (
        f"swap on {row.scenario}, loss {row.loss:g}, seed {row.seed}, detour {row.detour:g}, {row.rounds} rounds, "
        f"threshold {row.threshold}"
    )


# The mutual effect of tasks that communicate at the same time, under each policy.
#
# In all other parts rounds take turns on the links, so that each can be compared with its bound. Here the same tasks,
# on the same trees, all begin at once, as if all local models had been trained equally long: the worst case of mutual
# interference.


COMPARED: Final = (SPFF, "overlay-mst", "steiner")


@dataclass(frozen=True)
class OverlapCell:
    """A network and a seed, with the policies to compare and the most local models."""

    settings: PosterSettings
    scenario: TrafficScenario
    seed: int
    policies: tuple[str, ...]


@record
class OverlapRow:
    """One task."""

    scenario: str = column("network")
    policy: str = column("policy")
    seed: int
    task: str
    together: int = column("tasks", "{:.0f}")
    """number of tasks that began at the same time"""
    alone_ps: int = column("alone, ms", scaled(1e-9, "{:.4f}"))
    """communication time without other tasks on the links"""
    overlapping_ps: int = column("at once, ms", scaled(1e-9, "{:.4f}"))
    """communication time if all tasks begin at the same time"""
    resend_bytes: int
    """resent bytes of all tasks at once: time-outs caused by long queues"""


def overlap_cells(settings: PosterSettings) -> list[OverlapCell]:
    """Return cells by network and seed."""
    policies = tuple(name for name in COMPARED if name in settings.policies)
    return [
        OverlapCell(settings, scenario, seed, policies)
        for scenario in settings.scenarios
        for seed in settings.seeds_of(scenario)[: settings.overlap_seeds]
    ]


def run_overlapping(cell: OverlapCell) -> CellResult:
    """Run every policy's tasks one after the other, and then all at once.

    At most ``settings.overlap_tasks`` tasks run; sums, weights and bytes are checked.
    """
    settings, scenario = cell.settings, cell.scenario
    topology = scenario.build()
    rows: list[OverlapRow] = []
    differences: list[str] = []
    where = f"{scenario.name}, seed {cell.seed}, overlapping"
    with task_network(settings, scenario, topology, cell.seed) as network:
        background = network.background()
        tasks = tasks_of(scenario, topology, settings, cell.seed, max(settings.sizes))
        answers = {
            name: decide_all(POLICIES[name], tasks, NetworkState(topology, dict(background)), settings.lanes)
            for name in cell.policies
        }
        chosen = _chosen(network, answers.values(), settings.overlap_tasks)
        if not chosen:
            return CellResult((), ())
        for name, own in answers.items():
            decisions = [answer for answer in own if isinstance(answer, TreeDecision) and answer.task.name in chosen]
            alone = list(network.run(decisions))
            lasted, measured = network.run_at_once(decisions)
            differences += [
                f"{where}, {name}: {text}" for counted in (*alone, measured) for text in counted.differences
            ]
            rows += [
                OverlapRow(
                    scenario.name,
                    name,
                    cell.seed,
                    decision.task.name,
                    len(decisions),
                    before.communication_ps,
                    after,
                    measured.resend_bytes,
                )
                for decision, before, after in zip(decisions, alone, lasted, strict=True)
            ]
        differences += [f"{where}: {text}" for text in network.check_counters(resends=True)]
    return CellResult(tuple(rows), tuple(differences))


def _chosen(network: TaskNetwork, answers: Iterable[Sequence[TreeDecision | Rejection]], most: int) -> list[str]:
    """Return the first tasks that every policy admits and that fit into the switches' slots together, under each."""
    chosen: list[str] | None = None
    for own in answers:
        admitted = [
            answer
            for answer in own
            if isinstance(answer, TreeDecision) and (chosen is None or answer.task.name in chosen)
        ]
        chosen = [decision.task.name for decision in network.fitting(admitted)]
    return (chosen or [])[:most]


# The effect of lambda: bandwidth against latency in the weights of links with unequal lengths and loads.
#
# w = lambda * b / residual + (1 - lambda) * delay / reference. On the experiment's other networks every link is 1 us
# long and nearly idle, so all weights are nearly equal, and lambda only chooses between equally good trees. Here cities
# have their real distances, links between them have 10 Gb/s, and background traffic and tasks fill them.


CROWDED: Final = TrafficScenario(
    "germany50-crowded",
    "wan:graph=germany50,rate=10G,access_rate=40G",
    load=0.05,
    says="50 hosts at 40 Gb/s, 10 Gb/s between cities, real distances, gravity background that uses the busiest host's "
    "link to 5 %",
)
DEMAND_BPS: Final = 1_000_000_000
"""rate that a task reserves on a link for each copy of its model"""
SIZE: Final = 6
"""number of local models: with more of them spff is not admitted at all"""
WEIGHED: Final = ("overlay-mst", "steiner")


@dataclass(frozen=True)
class WeightCell:
    """Every lambda under one seed."""

    settings: PosterSettings
    seed: int


@record
class WeightRow:
    """One policy with one lambda."""

    scenario: str = column("network")
    seed: int
    policy: str = column("policy")
    bandwidth: float | None = column("lambda", "{:g}")
    """lambda; None: the policy has no weights"""
    asked: int
    admitted: int = column("admitted", "{:.0f}")
    others: int = column("other trees", "{:.0f}")
    """number of admitted tasks whose trees differ from those of the first lambda"""
    megabytes: float = column("MB on links", "{:.2f}")
    """on all links, mean over the admitted tasks"""
    communication_ms: float = column("communication, ms", "{:.3f}")
    largest_utilisation: float = column("busiest link", percent(0))
    """highest share of reserved and background traffic in the rate of a link between switches"""
    bound_ms: float


def weight_cells(settings: PosterSettings) -> list[WeightCell]:
    """Return cells by seed; empty without lambdas, or if the reference scenario is not run."""
    if not settings.lambdas or settings.calibrated_in.name != settings.reference:
        return []
    return [WeightCell(settings, seed) for seed in settings.seeds[: settings.lambda_seeds]]


def run_weights(cell: WeightCell) -> CellResult:
    """Admit the tasks with every lambda, and run a round of each on packets.

    The background traffic is measured on its packets; trees that two lambdas share run once.
    """
    settings = replace(cell.settings, demand_bps=DEMAND_BPS, sizes=(SIZE,))
    topology = CROWDED.build()
    tasks = tasks_of(CROWDED, topology, settings, cell.seed, SIZE)
    plain: list[tuple[str, float | None, Policy]] = [(SPFF, None, POLICIES[SPFF])]
    weighed = [
        (name, value, _weighed(name, value))
        for name in WEIGHED
        if name in settings.policies
        for value in settings.lambdas
    ]
    rows: list[WeightRow] = []
    with task_network(settings, CROWDED, topology, cell.seed) as network:
        background = network.background()
        decided: list[tuple[str, float | None, list[TreeDecision], NetworkState]] = []
        for name, value, policy in [*plain, *weighed]:
            state = NetworkState(topology, dict(background))
            answers = decide_all(policy, tasks, state, settings.lanes)
            decided.append((name, value, [answer for answer in answers if isinstance(answer, TreeDecision)], state))
        once = {trees_key(decision): decision for _, _, own, _ in decided for decision in own}
        measured = dict(zip(once, network.run(list(once.values())), strict=True))
        first: dict[str, set[Any]] = {}
        for name, value, own, state in decided:
            keys = [trees_key(decision) for decision in own]
            own_measured = [measured[key] for key in keys]
            known = first.setdefault(name, set(keys))
            rows.append(
                WeightRow(
                    CROWDED.name,
                    cell.seed,
                    name,
                    value,
                    len(tasks),
                    len(own),
                    sum(key not in known for key in keys),
                    _mean([tree.bytes / 1e6 for tree in own_measured]),
                    _mean([tree.communication_ps / 1e9 for tree in own_measured]),
                    largest_utilisation(state),
                    _mean([tree.bound_ps / 1e9 for tree in own_measured]),
                )
            )
        differences = [text for tree in measured.values() for text in tree.differences]
        differences += network.check_counters()
    return CellResult(tuple(rows), tuple(f"{CROWDED.name}, seed {cell.seed}: {text}" for text in differences))


def largest_utilisation(state: NetworkState) -> float:
    """Return the highest ratio of reserved plus background traffic to the rate, over links between switches."""
    topology = state.topology
    most = 0.0
    for link in topology.links:
        if topology.node(link.a).is_switch and topology.node(link.b).is_switch:
            for hop in ((link.a, link.port_a), (link.b, link.port_b)):
                used = state.background_bps.get(hop, 0) + state.reserved_bps.get(hop, 0)
                most = max(most, used / link.rate_bps)
    return most


def _weighed(name: str, value: float) -> Policy:
    policy: Any = POLICIES[name]
    chosen: Policy = partial(policy, weights=LinkWeights(value))
    return chosen


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else 0.0
