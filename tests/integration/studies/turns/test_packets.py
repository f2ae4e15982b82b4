"""Schedules played on packets: calculated times, predicted frames, exact sums."""

from dataclasses import replace

import pytest

from p4reduce.control_plane.tdm.jobs import OpticalNetwork, TdmError
from p4reduce.control_plane.tdm.registry import make_schedule
from p4reduce.control_plane.tdm.schedule import Configuration, Cycle, PodRoute, PodTree, Ring, RoundProcess, Schedule
from p4reduce.control_plane.tdm.stripes import lay_stripes
from p4reduce.play.turns.acts import PlayedSchedule
from p4reduce.play.turns.player import play
from studies.turns.packets import CHAIN, FRAME, NARROW, RoundCell, run_round, two_groups
from studies.turns.planning import X2
from tests.integration.studies.turns.schedules import GBPS, NETWORK, job, placed, schedule

SIZE = 200_000
SENT_S = SIZE / NETWORK.nic * FRAME
"""seconds that a vector takes on a NIC: 71 us"""


def sound(played: PlayedSchedule) -> None:
    assert played.exact
    assert not played.differing
    assert (played.dark_lost, played.misrouted, played.lost, played.resends) == (0, 0, 0, 0)


def test_darkness_hides_behind_training() -> None:
    played = play(*two_groups(NETWORK, SIZE, 150e-6), rounds=2)
    sound(played)
    assert played.rounds_ps == [300_000_000] * 2  # max(delta + C, W), twice, to the picosecond
    assert played.reconfigurations == 5
    assert played.iterations_ps["b"] == [300_000_000] * 2


def test_where_communication_is_longer_it_is_what_counts() -> None:
    played = play(*two_groups(NETWORK, SIZE, 10e-6), rounds=2)
    sound(played)
    assert 1.0 < played.round_s / (2 * (SENT_S + NETWORK.delta_s)) < 1.15  # round trips of a small vector's lead
    for window in played.windows:
        dark = 0 if window is played.windows[0] else 20_000_000
        assert window.end_ps - window.start_ps == window.communicated_ps + dark


@pytest.mark.parametrize("delta_s", [0.0, 1e-6, 500e-6])
def test_any_darkness(delta_s: float) -> None:
    plan, jobs = two_groups(NETWORK, SIZE, 10e-6)
    sound(play(replace(plan, network=plan.network.with_delta(delta_s)), jobs, rounds=1))


def test_the_same_configuration_twice_is_never_dark() -> None:
    plan, jobs = two_groups(NETWORK, SIZE, 10e-6)
    both = ((0, 1, 1, 0), (1, 0, 0, 0), (1, 0, 0, 1), (0, 0, 1, 0))
    plans = (
        replace(plan.plan("a"), trees=(PodTree(0, ((1, 0), (2, 0), (3, 2)), 1.0),)),
        replace(plan.plan("b"), trees=(PodTree(0, ((2, 0), (3, 2)), 1.0),)),
    )
    played = play(schedule(plans, (both, both), 1.0), jobs, rounds=1)
    sound(played)
    assert played.reconfigurations == 0
    assert not [span for span in played.spans if span.what == "dark"]


def test_darkness_is_for_jobs_whose_ports_change() -> None:
    """Of two jobs in one turn, one keeps its circuit from before, and goes on at once."""
    before = ((0, 1, 0, 0), (1, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 0))
    after = ((0, 1, 0, 0), (1, 0, 1, 0), (0, 1, 0, 0), (0, 0, 0, 0))
    plans = (
        placed("first", ("h5", "h7"), 0, PodTree(2, ((3, 2),), 1.0)),
        placed("stays", ("h1", "h3"), 1, PodTree(0, ((1, 0),), 1.0)),
        placed("moves", ("h4", "h6"), 1, PodTree(1, ((2, 1),), 1.0)),
    )
    jobs = {
        "first": job("first", SIZE, 0.0, 2),
        "stays": job("stays", SIZE, 0.0, 2),
        "moves": job("moves", 4096, 0.0, 2),
    }
    played = play(schedule(plans, (before, after), 1.0), jobs, rounds=1)
    sound(played)
    own = {span.job: span for span in played.spans if span.what == "communicate"}
    assert own["moves"].start_ps - own["stays"].start_ps == 20_000_000
    last = played.windows[-1]
    assert last.end_ps - last.start_ps == own["stays"].end_ps - own["stays"].start_ps
    assert SENT_S * 1e12 < last.end_ps - last.start_ps < (SENT_S + 15e-6) * 1e12


def test_three_stripes_serve_a_triangle_in_two_thirds_of_the_time() -> None:
    """One tree over three pods fills two circuits; three trees of a third each fill all three by two thirds."""
    network = OpticalNetwork(3, 2, 24 * GBPS, 2, 16 * GBPS, delta_s=0.0)
    vision = job("vision", 3_200_000, 0.0, 6)
    took = {}
    for policy in ("exact-one-tree", "striped"):
        plan = make_schedule(policy, [vision], network)
        played = play(plan, {"vision": vision}, rounds=1)
        sound(played)
        assert played.round_s / plan.round_s == pytest.approx(FRAME, rel=0.02)
        took[policy] = played.round_s
    assert took["exact-one-tree"] / took["striped"] == pytest.approx(1.5, rel=0.02)


def test_an_all_to_all_in_stripes_goes_both_ways_round_a_ring() -> None:
    """Four pods in a ring: opposite pairs split their chunks over both sides, in two all-to-alls."""
    network = OpticalNetwork(4, 1, 25 * GBPS, 2, 10 * GBPS, delta_s=0.0)
    ring = ((0, 1, 0, 1), (1, 0, 1, 0), (0, 1, 0, 1), (1, 0, 1, 0))
    experts = job("experts", 400_000, 0.0, 4, kind="a2a")
    laid = lay_stripes([experts], ((1, 1, 1, 1),), ring, 2)
    assert laid is not None
    assert laid.bytes == pytest.approx(2 * 2 * 400_000)  # 4 neighbours and 2 pairs over 2 hops, on 4 circuits
    own = replace(placed("experts", ("h1", "h2", "h3", "h4"), 0), trees=(), routes=laid.routes[0])
    played = play(schedule((own,), (ring,), 1.0, network=network), {"experts": experts}, rounds=1)
    sound(played)
    assert len({route.stripe for route in laid.routes[0]}) > 1
    assert played.round_s / (laid.bytes / network.circuit) == pytest.approx(FRAME, rel=0.06)


def test_stripes_take_both_parallel_circuits_and_bonds_the_same_time() -> None:
    network = OpticalNetwork(2, 2, 50 * GBPS, 2, 25 * GBPS, delta_s=0.0)
    twice = ((0, 2), (2, 0))
    took = {}
    for parallel, shares in (("bonded", (1.0,)), ("striped", (0.5, 0.5)), ("striped", (1.0,))):
        trees = (PodTree(0, ((1, 0),), share) for share in shares)
        own = replace(network, parallel=parallel)
        plan = schedule((placed("a", ("h1", "h2", "h3"), 0, *trees),), (twice,), 1.0, network=own)
        played = play(plan, {"a": job("a", 400_000, 0.0, 3)}, rounds=1)
        sound(played)
        took[parallel, len(shares)] = played.round_s
    assert took["striped", 2] == pytest.approx(took["bonded", 1], rel=0.03)
    assert took["striped", 1] > 1.7 * took["bonded", 1]


def all_to_all(routes: tuple[PodRoute, ...], matrices: tuple[tuple[tuple[int, ...], ...], ...]) -> Schedule:
    plan = schedule((placed("e", ("h1", "h2", "h3", "h5"), 0, routes=routes),), matrices[:1], 1.0)
    configurations = tuple(Configuration(matrix, 0.0, 0.5) for matrix in matrices)
    return replace(plan, processes=(RoundProcess(configurations, 0.0, 1.0),))


def test_an_all_to_all_by_way_of_another_pod() -> None:
    routes = tuple(PodRoute(path, 1.0) for path in ((0, 1), (1, 0), (1, 2), (2, 1), (0, 1, 2), (2, 1, 0)))
    sound(play(all_to_all(routes, (CHAIN,)), {"e": job("e", 20_000, 50e-6, 4, "a2a")}, rounds=2))


def test_an_all_to_all_in_two_configurations() -> None:
    second = ((0, 0, 1, 0), (0, 0, 0, 1), (1, 0, 0, 0), (0, 1, 0, 0))
    routes = (
        *(PodRoute(path, 1.0) for path in ((0, 1), (1, 0), (1, 2), (2, 1))),
        *(PodRoute(path, 1.0, configuration=1) for path in ((0, 2), (2, 0))),
    )
    played = play(all_to_all(routes, (CHAIN, second)), {"e": job("e", 20_000, 50e-6, 4, "a2a")}, rounds=2)
    sound(played)
    assert played.reconfigurations == 5


def test_losses_change_times_and_nothing_else() -> None:
    plan, jobs = two_groups(NETWORK, SIZE, 50e-6)
    quiet, lossy = play(plan, jobs, rounds=1), play(plan, jobs, rounds=1, loss=0.01)
    assert lossy.exact
    assert lossy.resends > 0
    assert (lossy.dark_lost, lossy.misrouted) == (0, 0)
    assert lossy.round_s > quiet.round_s


@pytest.mark.parametrize("mode", ["free", "priority", "exclusive"])
def test_jobs_that_no_window_gates(mode: str) -> None:
    tree = PodTree(1, ((0, 1), (2, 1)), 1.0)
    plans = tuple(placed(name, ("h1", "h3", "h5"), 0, tree, priority=number) for number, name in enumerate("ab"))
    jobs = {name: job(name, SIZE, 100e-6, 3) for name in "ab"}
    played = play(schedule(plans, (CHAIN,), 1.0, mode=mode), jobs, rounds=3)
    sound(played)
    alone = 100e-6 + SENT_S
    if mode == "exclusive":
        assert played.iteration_s("a") == pytest.approx(2 * alone, rel=0.15)
    else:  # eventually one trains while the other communicates
        assert alone < played.iteration_s("a") < 2.2 * alone


def test_the_clock_of_slots_keeps_its_beat_and_loses_nothing_in_time() -> None:
    plan, jobs = two_groups(NETWORK, SIZE, 50e-6, clock="slots", round_s=300e-6)
    for keep in ("starts", "pause", "gates"):
        played = play(plan, jobs, rounds=2, keep=keep)
        sound(played)
        assert played.iterations_ps["b"] == [300_000_000] * 3


def test_each_way_of_keeping_windows_by_itself() -> None:
    """Slots of 50 us are shorter than the 71 us needed: the rest waits for the next window."""
    plan, jobs = two_groups(NETWORK, SIZE, 1e-6, clock="slots", round_s=100e-6, guard_s=12e-6)
    played = {keep: play(plan, jobs, rounds=20, keep=keep) for keep in ("starts", "pause", "gates")}
    assert all(one.exact for one in played.values())
    assert played["pause"].iterations_ps["a"]
    assert played["starts"].dark_lost > 0
    assert (played["pause"].dark_lost, played["pause"].misrouted, played["pause"].resends) == (0, 0, 0)
    assert (played["gates"].dark_lost, played["gates"].misrouted) == (0, 0)


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (lambda one: replace(one, trees=(PodTree(1, ((0, 1), (3, 1)), 1.0),)), "a circuit between pods 3 and 1"),
        (lambda one: replace(one, trees=(), ring=Ring((0, 2, 3), 100)), "a circuit between pods 3 and 0"),
    ],
)
def test_what_packets_cannot_do_says_why(broken: object, said: str) -> None:
    plan, jobs = two_groups(NETWORK, SIZE, 1e-6)
    with pytest.raises(TdmError, match=said):
        play(replace(plan, jobs=(broken(plan.jobs[0]), *plan.jobs[1:])), jobs, rounds=1)  # type: ignore[operator]
    with pytest.raises(TdmError, match="at least 1"):
        play(plan, jobs, rounds=0)


@pytest.mark.parametrize("ring", [False, True])
def test_a_push_that_ends_before_the_pull_begins(ring: bool) -> None:
    """The source's model: twice F / b along a tree, and 2 (m - 1) / m of F on every circuit of a ring of ToRs."""
    closed = ((0, 1, 0, 1), (1, 0, 1, 0), (0, 1, 0, 1), (1, 0, 1, 0))
    star = PodTree(1, ((0, 1), (2, 1)), 1.0, pipelined=False)
    one = placed("a", ("h1", "h2", "h3", "h5", "h7")[: 5 if ring else 4], 0, *(() if ring else (star,)))
    if ring:
        one = replace(one, ring=Ring((0, 1, 2, 3), SIZE * 3 // 4))
    plan = schedule((one,), (closed,), 1.0)
    played = play(plan, {"a": job("a", SIZE, 0.0, 5 if ring else 4)}, rounds=2)
    sound(played)
    assert played.round_s == pytest.approx(2 * SENT_S, rel=0.2)
    assert played.round_s > 2 * SENT_S


def test_two_all_to_alls_of_a_turn_share_a_circuit_and_lose_nothing() -> None:
    routes = (PodRoute((0, 1), 1.0), PodRoute((1, 0), 1.0))
    pairs = (("h1", "h3"), ("h2", "h4"))
    plans = tuple(placed(name, hosts, 0, routes=routes) for name, hosts in zip("ab", pairs, strict=True))
    network = replace(NETWORK, ports=1)
    matrix = ((0, 1, 0, 0), (1, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0))
    jobs = {name: job(name, 4 * SIZE, 0.0, 2, "a2a") for name in "ab"}
    both = play(schedule(plans, (matrix,), 1.0, network=network), jobs, rounds=1)
    sound(both)
    alone = play(schedule(plans[:1], (matrix,), 1.0, network=network), {"a": jobs["a"]}, rounds=1)
    assert both.round_s == pytest.approx(2 * alone.round_s, rel=0.05)


def test_one_pod_needs_no_circuit() -> None:
    network = OpticalNetwork(1, 2, 25 * GBPS, 1, 25 * GBPS)
    plan = schedule((placed("a", ("h1", "h2"), 0, PodTree(0, (), 1.0)),), (((0,),),), 1.0, network=network)
    sound(play(plan, {"a": job("a", 10_000, 1e-6, 2)}, rounds=2))
    with pytest.raises(TdmError, match="without ports"):
        play(replace(plan, network=replace(network, ports=0)), {"a": job("a", 10_000, 1e-6, 2)}, rounds=1)


def test_cycles_that_know_nothing_of_each_other() -> None:
    pairs = (("a", "b", "h1", "h3", 0), ("c", "d", "h5", "h7", 1))
    plans, jobs = [], {}
    for one, other, *hosts, cycle in pairs:
        for group, name in enumerate((one, other)):
            pods = (0, 1) if cycle == 0 else (2, 3)
            tree = PodTree(pods[0], ((pods[1], pods[0]),), 1.0)
            plan = placed(name, tuple(hosts), 0, tree, group=group, cycle=cycle)
            plans.append(replace(plan, start_s=group * 1e-6))
            jobs[name] = job(name, SIZE, 100e-6 * (1 + cycle), 2)
    both = schedule(tuple(plans), (CHAIN,), 1.0)
    cycles = tuple(Cycle(names, 1.0, "gated") for names in (("a", "b"), ("c", "d")))
    played = play(replace(both, cycles=cycles), jobs, rounds=2)
    sound(played)
    assert played.iterations_ps["a"] == [200_000_000] * 2
    assert played.iterations_ps["c"] == [400_000_000] * 2


@pytest.mark.parametrize(
    "cell",
    [
        RoundCell(NARROW, "striped", 106, sigma=0.3, ratio=2.0, least=2, most=7, scale=128.0),
        RoundCell(X2, "tdm", 104, mix="all-to-all"),
        RoundCell(replace(X2, pods=6), "no-tdm", 105, mix="mixed"),
    ],
    ids=["trees of a job", "all-to-alls of one turn", "an all-to-all beside sums"],
)
def test_the_flow_model_takes_as_long_as_packets(cell: RoundCell) -> None:
    (row,) = run_round(cell)
    assert abs(row.flow_error) < 0.005
    assert row.exact
