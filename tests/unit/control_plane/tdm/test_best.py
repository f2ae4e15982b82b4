"""The best of all policies, bounds of plans, layers of jobs, and avoidable darkness."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from p4reduce.control_plane.tdm.groups import keep_lit
from p4reduce.control_plane.tdm.jobs import OpticalNetwork, TdmError, TdmJob
from p4reduce.control_plane.tdm.optimum import ASKED, relative_to_alone
from p4reduce.control_plane.tdm.pairs import LEAST, TimesAlone, in_layers, turns_period_s
from p4reduce.control_plane.tdm.registry import TurnOptions, make_schedule
from p4reduce.control_plane.tdm.switched import renamed, striped_groups

NETWORK = OpticalNetwork(4, 3, 25 * 10**9, 2, 10 * 10**9)
GANGS = [
    TdmJob(f"j{place}", kind, size * 10**6, train_s, units)
    for place, (kind, size, train_s, units) in enumerate(
        (("rar", 300, 0.10, 5), ("ps", 200, 0.08, 4), ("a2a", 40, 0.12, 3), ("rar", 400, 0.15, 7), ("ps", 90, 0.05, 5))
    )
]

FEW = [TdmJob("a", "rar", 3 * 10**8, 0.1, 9), TdmJob("b", "ps", 2 * 10**8, 0.08, 7), TdmJob("c", "rar", 10**8, 0.05, 5)]


@pytest.mark.parametrize("of", ["round", "mean-relative"])
def test_best_takes_the_best_of_what_it_asks(of: str) -> None:
    told: list[str] = []
    options = TurnOptions(moves=500, of=of, progress=lambda label, _done, _all: told.append(label))  # type: ignore[arg-type]
    best = make_schedule("best", FEW, NETWORK, options)
    assert [one.policy for one in best.tried] == list(ASKED)
    assert set(told) >= set(ASKED)
    known = [one for one in best.tried if not one.refused]
    taken = next(one for one in known if one.policy == best.policy)
    if all(cycle.mode == "gated" for cycle in best.cycles):
        assert taken.longest_s == pytest.approx(max(cycle.period_s for cycle in best.cycles))
    if of == "round":
        assert taken.longest_s <= min(one.longest_s for one in known) * (1 + 1e-6)
    else:
        assert taken.relative >= max(one.relative for one in known) * (1 - 1e-6)
    assert [one.policy for one in best.tried if one.refused] == ["pairs"]
    assert all("units for" in one.refused for one in best.tried if one.refused)


def test_what_best_looks_at_is_checked() -> None:
    with pytest.raises(TdmError, match="of: 'speed' is none of round, mean-relative"):
        TurnOptions(of="speed")  # type: ignore[arg-type]
    with pytest.raises(TdmError, match="5 units, but the network has 4 GPUs"):
        make_schedule("best", [TdmJob("a", "ps", 4, 0.1, 5)], OpticalNetwork(4, 1, 10**9, 1, 10**9))


@pytest.mark.parametrize("policy", ["striped", "tdm", "no-tdm", "layers", "static"])
def test_a_bound_below_every_round_that_slower_circuits_raise(policy: str) -> None:
    found = {}
    for rate in (25, 5):
        schedule = make_schedule(policy, GANGS, replace(NETWORK, port_rate_bps=rate * 10**9), TurnOptions(moves=500))
        assert 0 < schedule.bound_s <= schedule.round_s * (1 + 1e-6)
        found[rate] = schedule.bound_s
    assert found[5] > found[25]


def test_circuits_of_both_groups_stay_lit_where_names_of_pods_allow_it() -> None:
    """One configuration for both groups, or two equal up to renaming, avoids 30 ms of darkness."""
    dark = make_schedule("striped", GANGS, NETWORK.with_delta(30e-3), TurnOptions(moves=500))
    light = make_schedule("striped", GANGS, NETWORK.with_delta(0.0), TurnOptions(moves=500))
    assert dark.round_s <= light.round_s + 2 * 30e-3
    for plan in dark.jobs:
        before = dark.processes[plan.process - 1].configurations[-1].circuits
        lit = dark.processes[plan.process].configurations[0].circuits
        used = {pair for tree in plan.trees for pair in tree.edges}
        changes = any(before[a][b] != lit[a][b] for a, b in used)
        if plan.trees:
            assert (plan.dark_s > 0) == changes


def test_ports_to_spare_keep_circuits_of_the_other_group() -> None:
    one = ((0, 1, 0, 0), (1, 0, 0, 0), (0, 0, 0, 2), (0, 0, 2, 0))
    other = ((0, 1, 0, 1), (1, 0, 1, 0), (0, 1, 0, 0), (1, 0, 0, 0))
    kept = keep_lit(one, other, 2)
    assert kept[0] == one  # pods 3 and 4 have no port left
    assert kept[1] == other
    assert (
        keep_lit(((0, 1, 0), (1, 0, 0), (0, 0, 0)), ((0, 0, 0), (0, 0, 1), (0, 1, 0)), 2)
        == (((0, 1, 0), (1, 0, 1), (0, 1, 0)),) * 2
    )


def test_other_names_of_pods_change_nothing_else() -> None:
    plan = striped_groups(tuple(GANGS), NETWORK, 500, 1).options((0, 1, 2))[0]
    turned = renamed(plan, (2, 0, 3, 1))
    assert renamed(turned, (1, 3, 0, 2)) == plan
    assert [sorted(row) for row in turned.units] == [sorted(row) for row in plan.units]


@pytest.mark.parametrize("seed", range(4))
def test_layers_against_all_ways_there_are(seed: int) -> None:
    random = np.random.default_rng(seed)
    jobs = [TimesAlone(*random.uniform(0.1, 1.0, 2)) for _ in range(4)]
    sizes = random.integers(1, 5, 4).tolist()
    gpus = max(*sizes, -(-sum(sizes) // 2) + int(random.integers(0, 2)))
    best: float | None = None
    for where in product(range(4), repeat=4):
        for sides in product(range(2), repeat=4):
            groups = {x: [[j for j in range(4) if where[j] == x and sides[j] == s] for s in (0, 1)] for x in where}
            if sum(max(sum(sizes[j] for j in side) for side in own) for own in groups.values()) > gpus:
                continue
            if any(len(own[0]) == len(own[1]) == 1 for own in groups.values()):
                continue  # pairs also share in other ways
            value = 0.0
            for own in groups.values():
                period = turns_period_s(*([jobs[j] for j in side] for side in own))
                rates = [min(1.0, jobs[j].period_s / period) for side in own for j in side]
                value += sum(rates) - (100.0 if min(rates) < LEAST else 0.0)
            best = value if best is None else max(best, value)
    found = in_layers(jobs, sizes, gpus)
    if found is None:
        assert best is None
        return
    value = 0.0
    for one in found:
        period = turns_period_s(*([jobs[j] for j in side] for side in one.layers))
        rates = [min(1.0, jobs[j].period_s / period) for j in one.jobs]
        if one.sharing is not None:
            rates = list(one.sharing.relative)
        value += sum(rates) - (100.0 if min(rates) < LEAST else 0.0)
    assert best is None or value >= best - 1e-9


def test_gangs_of_unequal_size_that_pairs_refuses() -> None:
    random = np.random.default_rng(7)
    for most in (9, 17):
        jobs = [TdmJob(f"j{x}", "rar", 10**8, float(random.uniform(0.05, 0.2)), x) for x in range(2, most + 1)]
        network = OpticalNetwork(sum(job.units for job in jobs) // 4, 2, 25 * 10**9, 2, 25 * 10**9)
        with pytest.raises(TdmError, match="units for"):
            make_schedule("pairs", jobs, network)
        schedule = make_schedule("layers", jobs, network)
        rates = relative_to_alone(schedule, jobs)
        assert min(rates.values()) > 0.3
        two = relative_to_alone(make_schedule("tdm", jobs, network, TurnOptions(moves=500)), jobs)
        assert sum(rates.values()) >= sum(two.values()) * (1 - 1e-9)


def test_layers_say_what_they_need() -> None:
    jobs = [TdmJob("a", "rar", 10**6, 0.1, 5), TdmJob("b", "rar", 10**6, 0.1, 5)]
    with pytest.raises(TdmError, match="policy layers joins a pod to the next on both sides, and pods have 1 ports"):
        make_schedule("layers", jobs, OpticalNetwork(3, 2, 10**9, 1, 10**9))
    named = [TdmJob("a", "rar", 10**6, 0.1, 2, ("h1", "h2"))]
    with pytest.raises(TdmError, match="places jobs itself"):
        make_schedule("layers", named, OpticalNetwork(3, 2, 10**9, 2, 10**9))
