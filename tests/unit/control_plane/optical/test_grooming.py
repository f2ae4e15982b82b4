"""Lightpaths, slots and blocking on networks with known solutions."""

import pytest

from p4reduce.control_plane.optical.arrivals import arrive, interval
from p4reduce.control_plane.optical.auxiliary import Fibres, Groomer, PathWeights
from p4reduce.control_plane.optical.exact import _coloured
from p4reduce.control_plane.optical.plan import GroomingPlan, OpticalError
from p4reduce.control_plane.optical.policies import (
    FEW,
    Grooming,
    GroomingOptions,
    draw_tasks,
    groom,
    laid_anew,
    regroom,
)
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.topologies import TopologyBuilder, TopologyError, load
from p4reduce.topologies.files import wdm_of
from p4reduce.topologies.wdm import ROADMS, Wdm
from studies.optical.reader import faults
from studies.optical.study import ring

KM = 4900
"""nanoseconds"""
SLOT = 10 * 10**9


def network(*fibres: tuple[str, str, int], hosts: int = 2, **what: int) -> Wdm:
    """Return a network of cities named by letters, with fibres by kilometres."""
    builder = TopologyBuilder("cities")
    cities = sorted({end for a, b, _ in fibres for end in (a, b)})
    for city in cities:
        builder.switch(city)
        for number in range(1, hosts + 1):
            builder.host(f"{city}{number}")
            builder.link(f"{city}{number}", city, "40G", "1us")
    for a, b, km in fibres:
        builder.link(a, b, "100G", f"{km * KM}ns")
    return Wdm(builder.build(), **({"wavelengths": 2, "transponders": 0} | what))


def line(**what: int) -> Wdm:
    return network(("A", "B", 100), ("B", "C", 200), **what)


def task(name: str, server: str, *workers: str, slots: int = 1) -> Task:
    return Task(name, server, workers, elements=1000, demand_bps=slots * SLOT)


def paths(plan: GroomingPlan) -> list[str]:
    return sorted(min("".join(one.path), "".join(one.path[::-1])) for one in plan.lightpaths)


def test_a_city_without_a_member_is_bypassed_and_one_with_is_not() -> None:
    ends, all_ = task("ends", "A1", "C1"), task("all", "A1", "B1", "C1")
    assert paths(groom("groom-agg", [ends], line())) == ["ABC"]
    assert paths(groom("groom-agg", [all_], line())) == ["AB", "BC"]
    assert paths(groom("opaque-agg", [ends], line())) == ["AB", "BC"]


def test_sums_on_the_way_take_one_slot_where_flows_take_each_one() -> None:
    tasks = [task("t", "A1", "B1", "C1", "C2")]
    tree, stars, own = (
        groom(policy, tasks, line(transponders=8)) for policy in ("groom-agg", "spff", "lightpath-per-flow")
    )
    assert [len(use.slots) for use in tree.uses[0]] == [1, 1]
    assert paths(stars) == ["AB", "ABC"]
    assert sum(len(use.slots) for use in stars.uses[0]) == 3
    assert own.blocked == 1, "two wavelengths do not do for three lightpaths over A - B"
    assert not own.lightpaths, "a task that is blocked leaves nothing behind"
    assert tree.metrics()["fibre_bytes"] == 2 * 2 * 4000
    assert stars.metrics()["router_bytes"] == 2 * 3 * 4000


def test_latency_is_that_of_the_longest_way_and_of_the_slots() -> None:
    plan = groom("groom-agg", [task("t", "A1", "B1", "C1", slots=2)], line())
    propagation = 2 * (300 * KM * 1000 + 2 * 2_000_000)
    assert plan.latency_ps(0) == propagation + 4000 * 8 * 10**12 // (20 * 10**9)
    star = groom("spff", [task("t", "A1", "B1", "C1")], line())
    assert star.latency_ps(0) == 2 * (300 * KM * 1000 + 2_000_000) + 2 * 4000 * 8 * 10**12 // (40 * 10**9)


def test_wavelengths_are_continuous_and_a_longer_way_is_taken_when_none_is_left() -> None:
    square = network(("A", "B", 10), ("B", "C", 10), ("C", "D", 10), ("D", "A", 10), wavelengths=1)
    tasks = [task(f"t{number}", "A1", "B1", slots=10) for number in range(3)]
    plan = groom("groom-agg", tasks, square)
    assert paths(plan) == ["AB", "ADCB"]
    assert plan.admitted == (True, True, False)


def test_transponders_are_a_limit_and_lightpaths_through_another_city_help() -> None:
    """B has one transponder: C's lightpath ends there, and A reaches D by a lightpath that bypasses B."""
    star = network(("A", "B", 10), ("C", "B", 10), ("D", "B", 10), transponders=1)
    plan = groom("groom-agg", [task("one", "B1", "C1"), task("two", "A1", "D1"), task("three", "B1", "A1")], star)
    assert plan.admitted == (True, True, False)
    assert paths(plan) == ["ABD", "BC"]


def test_a_slot_is_free_again_when_its_task_ends() -> None:
    grooming = Grooming(line())
    granted = [grooming.admit("groom-agg", task("t", "A1", "B1", "C2", slots=6)) for _ in range(3)]
    assert granted[2] is None
    for one in granted:
        grooming.release(one)
    lights, dark = grooming.groomer.lights, grooming.fibres.dark()
    assert not lights.lit
    assert lights.free.all()
    assert (lights.left == dark.left).all()


def test_a_new_lightpath_or_several_that_are_there() -> None:
    """phi = 1 uses two existing lightpaths; phi = 0 sets up one, as both cost the same."""
    for phi, hops in ((1.0, 2), (0.0, 1)):
        groomer = Groomer(Fibres(line()))
        assert groomer.join(0, [1, 2], 1, PathWeights(), opaque=True) is not None
        found = groomer.join(0, [2], 1, PathWeights(phi, mu=0.1))
        assert found is not None
        assert len(found) == hops


def test_the_flexible_grid_takes_slices_by_length_and_refuses_what_is_too_far() -> None:
    long = network(("A", "B", 400), ("B", "C", 900), ("C", "D", 3600), transponders=0)
    options = GroomingOptions(grid="flex")
    plan = groom(
        "spff", [task("near", "A1", "B1"), task("far", "A1", "C1"), task("farther", "C1", "D1")], long, options
    )
    assert [one.count for one in plan.lightpaths] == [3, 5, 9]
    assert not faults(plan.as_data(), 320)
    assert groom("spff", [task("too far", "A1", "D1")], long, options).blocked == 1
    assert not groom("groom-agg", [task("regenerated", "A1", "D1")], long, options).blocked


def test_optima_are_never_above_the_search_and_their_bounds_hold() -> None:
    square = network(("A", "B", 10), ("B", "C", 20), ("C", "D", 30), ("D", "A", 40), slots=2, transponders=4)
    tasks = draw_tasks(square, 0, tasks=4, models=3, demand_bps=50 * 10**9)
    exact, best = (groom(policy, tasks, square, GroomingOptions(moves=60, budget=0)) for policy in ("exact", "best"))
    assert exact.bound <= exact.cost <= best.cost
    assert not faults(exact.as_data())
    assert not exact.blocked


def test_wavelengths_that_do_not_do_are_noticed() -> None:
    """Three paths on a ring overlap in pairs, never all three: three wavelengths."""
    fibres = {
        count: Fibres(network(("A", "B", 1), ("B", "C", 1), ("C", "A", 1), wavelengths=count)) for count in (2, 3)
    }
    three = [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    assert _coloured(three, fibres[2]) is None
    found = _coloured(three, fibres[3])
    assert found is not None
    assert sorted(wave for _, wave in found) == [0, 1, 2]


def test_arrivals_that_never_meet_are_never_blocked_and_full_networks_block() -> None:
    alone = arrive("groom-agg", line(), 0.01, arrivals=50, models=2)
    assert (alone.blocked, alone.interrupted) == (0.0, 0.0)
    full = arrive("groom-agg", line(transponders=1), 50.0, arrivals=50, models=2)
    assert full.blocked > 0.5
    assert full == arrive("groom-agg", line(transponders=1), 50.0, arrivals=50, models=2)


def test_with_room_for_all_as_many_run_as_erlang_says() -> None:
    found = [arrive("groom-agg", line(wavelengths=80), 8.0, arrivals=150, models=2, seed=seed) for seed in range(5)]
    mean, half = interval([one.running for one in found])
    assert not any(one.blocked for one in found)
    assert abs(mean - 1 - 8.0) <= half + 0.3, "one more than Erlang's mean: each counts itself"


def test_making_room_blocks_fewer() -> None:
    """A fibre of two wavelengths of two slots each way round a ring; tasks in the way are rerouted."""
    kept, moved = (
        sum(arrive("spff", ring(3), 3.0, arrivals=100, models=2, moved=moved, seed=seed).blocked for seed in range(2))
        for moved in (0, 3)
    )
    assert moved < kept


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("oxc:pods=2,hosts=1,ports=1", "has no fibres"),
        ("wdm:graph=nobel-us,wavelengths=0", "wavelengths: 0 is not within"),
        ("wdm:graph=nobel-us,lasers=3", "lasers: is not known here"),
        ("wdm:graph=nowhere", "topohub"),
    ],
)
def test_networks_that_cannot_be(text: str, said: str) -> None:
    with pytest.raises(TopologyError, match=said):
        wdm_of(text)


def test_tasks_that_cannot_be() -> None:
    for wrong, said in (
        (task("t", "A1", "X1"), "X1 is no host"),
        (task("t", "A1", "B1", slots=11), "more than a lightpath has"),
    ):
        with pytest.raises(OpticalError, match=said):
            groom("groom-agg", [wrong], line())
    with pytest.raises(OpticalError, match="exact"):
        groom("exact", [task("a", "A1", "B1"), task("b", "A1", "B1", slots=2)], line())
    with pytest.raises(OpticalError, match="looks at all tasks"):
        arrive("best", line(), 1.0)
    with pytest.raises(OpticalError, match="need 9 hosts"):
        draw_tasks(line(), 0, models=8)


def test_a_network_of_packets_has_a_port_for_each_transponder() -> None:
    made = load("wdm:graph=nobel-us,hosts=2,transponders=40,servers=1")
    assert [node.name for node in made.crossconnects] == [ROADMS]
    assert sum(ROADMS in (link.a, link.b) for link in made.links) == 14 * 40, "more ports than a switch may have"
    circuits = line().circuits(line().physical(), ["ABC"])
    assert [(one.a, one.b, one.delay_ps) for one in circuits] == [("A", "C", 300 * KM * 1000 + 2_000_000)]
    with pytest.raises(TopologyError, match="A: 2 new lightpaths, but 1 free transponders"):
        line(transponders=1).circuits(line(transponders=1).physical(), ["AB", "AC"])


def test_nothing_and_a_task_in_one_city() -> None:
    assert groom("best", [], line()).metrics()["transponders"] == 0
    local = groom("best", [task("t", "A1", "A2")], line(), GroomingOptions(moves=5))
    assert (local.blocked, local.lightpaths, local.uses) == (0, (), ((),))
    assert Grooming(line()).tree(task("t", "A1", "A2"), FEW) == {"": ()}


def test_regrooming_saves_what_each_task_that_is_laid_anew_must_save() -> None:
    small = ring(0)
    tasks = draw_tasks(small, 0, tasks=6, models=2, demand_bps=50 * 10**9)
    before = groom("opaque-agg", tasks, small)
    options = GroomingOptions(moves=150, budget=0)
    for price in (0.0, 1.0, 1e9):
        after = regroom(before, options, price)
        anew = laid_anew(before, after)
        assert not faults(after.as_data())
        assert after.transponders + price * len(anew) <= before.transponders
        staying = [place for place in range(6) if place not in anew]
        assert all(used(before, place) == used(after, place) for place in staying)
    assert (anew, after.lightpaths) == ([], before.lightpaths)
    assert regroom(before, options, 0.0).transponders < before.transponders, "then the others show nothing"


def used(plan: GroomingPlan, place: int) -> set[object]:
    return {(plan.lightpaths[use.lightpath], use.slots) for use in plan.uses[place]}


def test_lightpaths_that_stay_keep_their_ports() -> None:
    physical = line(transponders=2).physical()
    first = line(transponders=2).circuits(physical, ["AB", "BC"])
    second = line(transponders=2).circuits(physical, ["ABC", "BC"], {1: first[1]})
    assert second[1] == first[1]
    assert second[0].port_b != first[1].port_b
