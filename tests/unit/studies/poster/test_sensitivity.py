"""What figures depend on: variations of a scenario, and the arithmetic of savings."""

from dataclasses import replace

import pytest

from p4reduce.control_plane.scheduling.view import POLICIES, NetworkState, consumed
from p4reduce.topologies import load
from studies.poster.experiment import claims
from studies.poster.sensitivity import (
    ACCESS,
    PACKETS,
    failing_rate_bps,
    longest_training_ms,
    sensitivity_points,
    variations,
)
from studies.poster.settings import POSTER_SAVING, SCENARIOS, PosterSettings, Scenario, draw_tasks, with_share
from studies.poster.swaps import largest_utilisation
from tests.unit.studies.poster.test_statistics import MS, row

SETTINGS = PosterSettings(
    scenarios=(SCENARIOS["germany50"], SCENARIOS["geant"], SCENARIOS["fat-tree"]),
    access_rates=("10G", "40G", "400G"),
    access_elements=(61_706,),
    delays=("50us", "real"),
    delay_elements=(61_706, 100),
)


def test_every_rate_and_delay_changes_that_and_nothing_else():
    made = variations(SETTINGS)
    assert [(one.study, one.value, one.scenario) for one in made] == [
        *((ACCESS, rate, "germany50") for rate in ("10G", "40G", "400G")),
        *[("delay", "50us", "germany50")] * 2,
        *[("delay", "real", "germany50")] * 2,
        *[("delay", "real", "geant")] * 2,
    ]
    plain = SCENARIOS["germany50"].build()
    for one in made[:3]:
        changed = one.unit.scenario.build()
        for link, before in zip(changed.links, plain.links, strict=True):
            host = not (plain.node(link.a).is_switch and plain.node(link.b).is_switch)
            access = int(one.value.removesuffix("G")) * 10**9
            assert link.rate_bps == (access if host else max(access, before.rate_bps))
            assert link.delay_ps == before.delay_ps
    far = made[3].unit.scenario.build()
    inner = [link for link in far.links if far.node(link.a).is_switch and far.node(link.b).is_switch]
    assert {link.delay_ps for link in inner} == {50_000_000}
    distances = {link.delay_ps for link in made[5].unit.scenario.build().links}
    assert len(distances) > 50
    assert {one.unit.settings.elements for one in made[3:5]} == {61_706, 100}


def test_a_network_without_these_parameters_is_not_varied():
    plain = Scenario("racks", "leaf-spine:leaves=3,spines=2,hosts=3,rate=10G")
    assert variations(replace(SETTINGS, scenarios=(plain,))) == []


def test_the_longest_training_is_where_the_saving_is_the_posters():
    longest = longest_training_ms(0.1 * MS, 0.8 * MS)
    assert longest is not None
    assert 1 - (longest + 0.1) / (longest + 0.8) == pytest.approx(POSTER_SAVING)
    assert longest_training_ms(0.7 * MS, 0.8 * MS) is None
    assert longest_training_ms(0.9 * MS, 0.8 * MS) is None


def points_of(times):
    """Points of access rates, given spff's and overlay-mst's communication for each."""
    settings = replace(SETTINGS, access_rates=tuple(times), delays=())
    varied = variations(settings)
    rows = [[row("spff", theirs, bytes_=200), row("overlay-mst", ours, bytes_=80)] for theirs, ours in times.values()]
    return sensitivity_points(settings, varied, rows, training_ps=MS)


def test_savings_with_a_training_time_that_fills_the_posters_total_and_with_the_experiments_own():
    found = points_of({"10G": (3 * MS, MS), "40G": (8 * MS // 10, MS // 10)})
    slow, fast = (one for one in found if one.policy == "overlay-mst" and one.source == PACKETS)
    assert slow.saving == pytest.approx(2 / 3), "spff alone takes longer than 2.3 ms: no training time is left"
    assert fast.saving == pytest.approx(0.7 / 2.3)
    assert fast.held_saving == pytest.approx(0.7 / 1.8)
    assert fast.bytes_saving == pytest.approx(0.6)
    modelled = [one for one in found if one.source != PACKETS]
    assert {one.saving for one in modelled} == {None}
    assert {one.elements for one in modelled} >= {25_600_000, 1_500_000_000}


def test_the_rate_above_which_the_saving_is_too_small_lies_where_it_crosses():
    times = {f"{rate}G": (round(32 * MS / rate), 1) for rate in (10, 40, 100, 400)}
    found = points_of(times)
    # 32 ms Gb/s over the rate is saved of 2.3 ms: 17.4 % of that at 80 Gb/s.
    assert failing_rate_bps(found, "overlay-mst", 61_706) == pytest.approx(80e9, rel=1e-3)
    assert failing_rate_bps(found, "spff", 61_706) is None


def test_bytes_are_claimed_at_every_rate_and_delays_of_the_fixed_scheduler():
    found = points_of({"40G": (MS, MS // 10)})
    good, bad = (
        claims(SETTINGS, [], [], [], sensitivity=[replace(one, bytes_saving=saving) for one in found])
        for saving in (0.6, 0.4)
    )
    assert [claim.holds for claim in good if "at every rate" in claim.text] == [True]
    assert [claim.holds for claim in bad if "at every rate" in claim.text] == [False]
    throttled = [replace(one, study="delay", ratio_to_ordered=2.26) for one in found if one.policy == "spff"]
    (claim,) = (one for one in claims(SETTINGS, [], [], [], sensitivity=throttled) if "chunk by chunk" in one.text)
    assert not claim.holds


def test_steiner_above_spff_with_few_capable_switches_is_a_claim_that_does_not_hold():
    rows = [row("spff", MS, bytes_=1000), row("steiner", MS, bytes_=900)]
    few = [row("steiner", MS, bytes_=1200, capable=0.1)]
    (claim,) = (one for one in claims(SETTINGS, rows, [], [], share_rows=few) if "never takes more" in one.text)
    assert not claim.holds
    assert claim.measured == "1 of 2 tasks above (1 with few capable switches); at worst 1.200 x"


def test_switches_that_soar_chooses_are_better_than_random_ones():
    topology = load("leaf-spine:leaves=6,spines=2,hosts=4,rate=10G")
    settings = replace(SETTINGS, sizes=(12,), tasks=6)
    tasks = draw_tasks(topology, settings, 1, 12)
    for share in (0.125, 0.25, 0.5):
        taken = {}
        for chooser in ("random", "soar"):
            some = with_share(topology, share, 1, chooser, tasks)
            assert sum(one.capable for one in some.switches) == round(share * 8)
            decisions = [POLICIES["spff-ina"](task, NetworkState(some)) for task in tasks]
            taken[chooser] = sum(consumed(decision, some) for decision in decisions)
        assert taken["soar"] < taken["random"]
    assert with_share(topology, 1.0, 0, "soar", tasks) is topology


def test_utilisation_counts_reserved_and_background_on_links_between_switches():
    topology = load("leaf-spine:leaves=2,spines=1,hosts=1,rate=10G")
    state = NetworkState(topology)
    assert largest_utilisation(state) == 0
    leaf = topology.neighbour(topology.hosts[0].name, 1)
    hop = (leaf, next(port for port in (1, 2) if topology.node(topology.neighbour(leaf, port)).is_switch))
    state.reserve({hop: 10**9, (topology.hosts[0].name, 1): 9 * 10**9})
    state.background_bps[hop] = 2 * 10**9
    assert largest_utilisation(state) == pytest.approx(0.3)
