"""Tasks that communicate at the same time: what they do to each other, under each policy.

Everywhere else in the experiment rounds take turns on the links, so that each can be held against its own bound. Here
the same tasks, on the same trees, all begin at once, as if all local models had been trained equally long: the most
that they can be in each other's way.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from p4reduce.control_plane.scheduling.policy import POLICIES, Decision, NetworkState, Policy, Rejection
from p4reduce.control_plane.scheduling.view import Weights
from studies.poster.packets import TaskNetwork, task_network
from studies.poster.settings import SPFF, PosterSettings, Scenario, tasks_of
from studies.poster.units import decide_all, trees_key

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


# What lambda does: bandwidth against latency in the weights of links, where links are unequally long and loaded.
#
# w = lambda * b / residual + (1 - lambda) * delay / reference. On the experiment's other networks every link is 1 us
# long and nearly idle, so all weigh nearly the same, and lambda changes little but which of equally good trees is
# taken. Here cities are as far from each other as they are, links between them have 10 Gb/s, and background traffic
# and tasks fill them.


CROWDED: Final = Scenario(
    "germany50-crowded",
    "wan:graph=germany50,rate=10G,access_rate=40G",
    load=0.05,
    says="50 hosts at 40 Gb/s, 10 Gb/s between cities, real distances, gravity background that uses the busiest host's "
    "link to 5 %",
)
DEMAND_BPS: Final = 1_000_000_000
"""that a task reserves on a link for each copy of its model"""
SIZE: Final = 6
"""local models: with more of them spff is not admitted at all"""
WEIGHED: Final = ("overlay-mst", "steiner")


@dataclass(frozen=True)
class WeightUnit:
    """Every lambda under one seed."""

    settings: PosterSettings
    seed: int


@dataclass(frozen=True)
class WeightRow:
    """One policy with one lambda: a line of weights.csv."""

    scenario: str
    seed: int
    policy: str
    bandwidth: float | None
    """lambda; None: the policy has no weights"""
    asked: int
    admitted: int
    others: int
    """admitted tasks whose trees are not those of the first lambda"""
    megabytes: float
    """on all links, mean of an admitted task"""
    communication_ms: float
    largest_utilisation: float
    """of a link between switches: what is reserved and background, over its rate"""
    bound_ms: float


@dataclass(frozen=True)
class WeightResult:
    """What came of a unit."""

    rows: tuple[WeightRow, ...]
    differences: tuple[str, ...]


def weight_units(settings: PosterSettings) -> list[WeightUnit]:
    """By seed; none without lambdas, or where the reference scenario is not run either."""
    if not settings.lambdas or settings.calibrated_in.name != settings.reference:
        return []
    return [WeightUnit(settings, seed) for seed in settings.seeds[: settings.lambda_seeds]]


def run_weights(unit: WeightUnit) -> WeightResult:
    """Admit the tasks with every lambda, and carry a round of each on packets.

    The background traffic is measured on its packets; trees that two lambdas agree on are carried once.
    """
    settings = replace(unit.settings, demand_bps=DEMAND_BPS, sizes=(SIZE,))
    topology = CROWDED.build()
    tasks = tasks_of(CROWDED, topology, settings, unit.seed, SIZE)
    plain: list[tuple[str, float | None, Policy]] = [(SPFF, None, POLICIES[SPFF])]
    weighed = [
        (name, value, _weighed(name, value))
        for name in WEIGHED
        if name in settings.policies
        for value in settings.lambdas
    ]
    rows: list[WeightRow] = []
    with task_network(settings, CROWDED, topology, unit.seed) as network:
        background = network.background()
        decided: list[tuple[str, float | None, list[Decision], NetworkState]] = []
        for name, value, policy in [*plain, *weighed]:
            state = NetworkState(topology, dict(background))
            answers = decide_all(policy, tasks, state, settings.lanes)
            decided.append((name, value, [one for one in answers if isinstance(one, Decision)], state))
        once = {trees_key(decision): decision for _, _, own, _ in decided for decision in own}
        measured = dict(zip(once, network.run(list(once.values())), strict=True))
        first: dict[str, set[Any]] = {}
        for name, value, own, state in decided:
            keys = [trees_key(decision) for decision in own]
            found = [measured[key] for key in keys]
            known = first.setdefault(name, set(keys))
            rows.append(
                WeightRow(
                    CROWDED.name,
                    unit.seed,
                    name,
                    value,
                    len(tasks),
                    len(own),
                    sum(key not in known for key in keys),
                    _mean([one.bytes / 1e6 for one in found]),
                    _mean([one.communication_ps / 1e9 for one in found]),
                    largest_utilisation(state),
                    _mean([one.bound_ps / 1e9 for one in found]),
                )
            )
        differences = [text for one in measured.values() for text in one.differences]
        differences += network.check_counters()
    return WeightResult(tuple(rows), tuple(f"{CROWDED.name}, seed {unit.seed}: {text}" for text in differences))


def largest_utilisation(state: NetworkState) -> float:
    """Reserved and background traffic over the rate, of the link between switches where that is the most."""
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
    chosen: Policy = partial(policy, weights=Weights(value))
    return chosen


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else 0.0
