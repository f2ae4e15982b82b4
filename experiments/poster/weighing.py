"""What lambda does: bandwidth against latency in the weights of links, where links are unequally long and loaded.

w = lambda * b / residual + (1 - lambda) * delay / reference. On the experiment's other networks every link is 1 us long
and nearly idle, so all weigh nearly the same, and lambda changes little but which of equally good trees is taken. Here
cities are as far from each other as they are, links between them have 10 Gb/s, and background traffic and tasks fill
them.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from p4reduce.control_plane.scheduling.policy import Decision, Policy
from p4reduce.control_plane.scheduling.state import NetworkState
from p4reduce.control_plane.scheduling.weights import Weights
from p4reduce.experiments.poster.packets import task_network
from p4reduce.experiments.poster.policies import POLICIES
from p4reduce.experiments.poster.settings import SPFF, PosterSettings, Scenario
from p4reduce.experiments.poster.tasks import tasks_of
from p4reduce.experiments.poster.units import decide_all, trees_key

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
