"""Rounds of tasks on packets: counted bytes, predictions and bounds."""

import functools
from dataclasses import replace

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans.trees import mst
from p4reduce.control_plane.scheduling.trees import decide_trees
from p4reduce.control_plane.scheduling.view import POLICIES, LinkWeights, NetworkState, View
from p4reduce.network.jobs.network import bundled
from studies.poster.cells import FINISHED, CellResult, PolicyCell, decide_all, run_policies
from studies.poster.packets import TaskNetwork
from studies.poster.settings import PosterSettings, TrafficScenario, draw_tasks
from studies.poster.study import STUDY
from studies.poster.swaps import OverlapCell, run_overlapping

RACKS = TrafficScenario("racks", "leaf-spine:leaves=4,spines=2,hosts=3,rate=10G")
LOADED = TrafficScenario("loaded", RACKS.topology, load=0.3)
SETTINGS = PosterSettings(
    scenarios=(RACKS,), sizes=(3, 6), tasks=4, seeds=(0,), exact_seeds=1, elements=64 * 40, lanes=64, demand_bps=10**7
)
TREES = ("spff-ina", "spt", "overlay-mst", "steiner", "exact")


def cell(scenario=RACKS, **changes):
    settings = replace(SETTINGS, scenarios=(scenario,))
    return PolicyCell(settings, scenario, 0, settings.sizes, settings.policies, **changes)


@functools.cache
def unit(scenario=RACKS):
    """Return the results of a unit, which several tests look at; each is run once."""
    return run_policies(cell(scenario))


def terminals_only(task, topology):
    """Policy whose tree aggregates in racks only, unlike that of any other policy."""
    view = View(task, NetworkState(topology), 64)
    return decide_trees("mst", view, mst, view.words(LinkWeights()))


def test_every_policy_and_task_sends_what_was_predicted_and_no_faster_than_its_bound():
    result = unit()
    assert result.differences == ()
    assert len(result.rows) == len(SETTINGS.policies) * len(SETTINGS.sizes) * SETTINGS.tasks
    for row in result.rows:
        assert row.status == FINISHED
        assert row.first_bytes == row.predicted_bytes == row.bytes > 0
        assert row.bound_ps <= row.communication_ps
        assert (row.aggregators > 0) == (row.policy in TREES)
        arriving = 1 if row.policy in TREES else row.size
        assert row.aggregation_ps == arriving * SETTINGS.elements * SETTINGS.add_ps > 0
    by_policy = {
        name: sum(row.bytes for row in result.rows if row.policy == name and row.size == 6)
        for name in SETTINGS.policies
    }
    assert by_policy["exact"] <= by_policy["steiner"] < by_policy["spff"]
    assert by_policy["overlay-mst"] < by_policy["spff"] <= by_policy["mst-routes"]


@pytest.mark.parametrize("delay", ["1us", "50us", "200us"])
def test_the_fixed_scheduler_is_not_throttled_where_links_are_long(delay):
    """Its window is set by the round trip: with a share of the server's queue it took 4 times its bound."""
    long = TrafficScenario("long", f"wan:graph=germany50,rate=100G,access_rate=40G,delay={delay}")
    settings = PosterSettings(scenarios=(long,), sizes=(15,), tasks=1, seeds=(0,))
    (row,) = run_policies(PolicyCell(settings, long, 0, (15,), ("spff",))).rows
    assert row.bound_ps <= row.ordered_ps <= row.communication_ps < 1.01 * row.ordered_ps
    assert row.communication_ps < 1.3 * row.bound_ps
    assert row.resend_bytes == row.dropped == 0


def test_background_traffic_is_measured_and_slows_rounds_down_but_no_byte_is_off():
    calm, loaded = unit(), unit(LOADED)
    assert calm.background == {}
    assert max(loaded.background.values()) > 10**9
    assert loaded.differences == ()
    slow, fast = (sum(row.communication_ps for row in result.rows if row.policy == "spff") for result in (loaded, calm))
    assert slow > fast


def test_the_same_unit_gives_the_same_rows():
    assert run_policies(cell(LOADED)) == unit(LOADED)


def test_two_trees_push_first_and_pull_then():
    """If links weigh differently in the two directions, upload and broadcast may use different trees."""
    topology = RACKS.build()
    (task,) = draw_tasks(topology, replace(SETTINGS, tasks=1), 0, 6)
    one = POLICIES["steiner"](task, NetworkState(topology), lanes=64)
    other = terminals_only(task, topology)
    both = replace(one, broadcast=other.broadcast)
    assert not both.together
    with TaskNetwork(topology, bundled(64), elements=SETTINGS.elements) as network:
        together, apart = network.run([one, both])
        assert network.check_counters() == []
    assert together.differences == apart.differences == ()
    assert apart.first_bytes == apart.predicted_bytes
    assert apart.bound_ps <= apart.communication_ps
    assert apart.communication_ps > together.communication_ps


def test_two_trees_on_long_links_share_the_slots_of_a_switch():
    """If the round trip demands all slots, the first tree left none to the second."""
    topology = TrafficScenario("far", f"{RACKS.topology},delay=1ms").build()
    (task,) = draw_tasks(topology, replace(SETTINGS, tasks=1), 0, 6)
    one = POLICIES["steiner"](task, NetworkState(topology), lanes=64)
    other = terminals_only(task, topology)
    with TaskNetwork(topology, bundled(64), elements=64 * 2500) as network:
        (apart,) = network.run([replace(one, broadcast=other.broadcast)])
    assert apart.differences == ()


def test_fewer_capable_switches_cost_bytes():
    few, whole = run_policies(cell(capable=0.34)).rows, unit().rows
    assert {row.capable for row in few} == {0.34}
    assert {row.capable for row in whole} == {1.0}
    fewer, all_ = (sum(row.bytes for row in rows if row.policy == "steiner") for rows in (few, whole))
    assert fewer > all_


def test_what_does_not_fit_is_rejected_with_the_reason():
    topology = RACKS.build()
    tasks = draw_tasks(topology, replace(SETTINGS, demand_bps=2 * 10**9), 0, 6)
    answers = decide_all(POLICIES["spff"], tasks, NetworkState(topology), 64)
    assert any("link" in str(answer) for answer in answers if isinstance(answer, Exception))
    crowded = replace(cell(), settings=replace(SETTINGS, demand_bps=2 * 10**9), policies=("spff",))
    rejected = [row for row in run_policies(crowded).rows if row.status != FINISHED]
    assert rejected
    assert all(row.reason and row.bytes == 0 for row in rejected)


@pytest.mark.parametrize("policy", ["spff", "overlay-mst"])
def test_many_tasks_take_turns_in_one_network(policy):
    """More tasks than a switch has slots for at the same time."""
    topology = RACKS.build()
    tasks = draw_tasks(topology, replace(SETTINGS, tasks=20), 1, 3)
    decisions = [POLICIES[policy](task, NetworkState(topology), lanes=64) for task in tasks]
    with TaskNetwork(topology, bundled(64), elements=SETTINGS.elements) as network:
        measured = list(network.run(decisions))
        again = list(network.run(decisions[:1]))
    assert len(measured) == 20
    assert again == measured[:1]


@pytest.mark.parametrize("policy", ["spff", "steiner"])
def test_tasks_that_begin_at_once_share_links_and_no_byte_is_off(policy):
    topology = RACKS.build()
    tasks = draw_tasks(topology, replace(SETTINGS, tasks=6), 1, 6)
    decisions = [POLICIES[policy](task, NetworkState(topology), lanes=64) for task in tasks]
    with TaskNetwork(topology, bundled(64), elements=SETTINGS.elements) as network:
        fitting = network.fitting(decisions)
        alone = list(network.run(fitting))
        lasted, measured = network.run_at_once(fitting)
        assert network.check_counters() == []
    assert len(fitting) > 1
    assert measured.differences == ()
    assert measured.first_bytes == measured.predicted_bytes == sum(one.predicted_bytes for one in alone)
    assert max(lasted) == measured.communication_ps
    assert all(one.bound_ps <= time for one, time in zip(alone, lasted, strict=True))
    assert sum(lasted) > sum(one.communication_ps for one in alone)


def test_a_task_with_two_trees_among_those_that_begin_at_once():
    topology = RACKS.build()
    first, second = draw_tasks(topology, replace(SETTINGS, tasks=2), 0, 6)
    one = POLICIES["steiner"](first, NetworkState(topology), lanes=64)
    other = terminals_only(first, topology)
    decisions = [replace(one, broadcast=other.broadcast), POLICIES["spff"](second, NetworkState(topology), lanes=64)]
    with TaskNetwork(topology, bundled(64), elements=SETTINGS.elements) as network:
        _, measured = network.run_at_once(decisions)
        assert network.check_counters() == []
    assert measured.differences == ()
    assert measured.first_bytes == measured.predicted_bytes


def test_more_tasks_at_once_than_slots_are_refused_and_leave_nothing():
    topology = RACKS.build()
    tasks = draw_tasks(topology, replace(SETTINGS, tasks=30), 1, 6)
    decisions = [POLICIES["steiner"](task, NetworkState(topology), lanes=64) for task in tasks] * 8
    with TaskNetwork(topology, bundled(64), elements=SETTINGS.elements) as network:
        fitting = network.fitting(decisions)
        assert 0 < len(fitting) < len(decisions)
        with pytest.raises(PlanError, match=r"slots for \d+ of 240 tasks"):
            network.run_at_once(decisions)
        assert network.fitting(decisions) == fitting


def test_overlapping_tasks_are_compared_on_the_same_tasks_under_every_policy():
    settings = replace(SETTINGS, tasks=5, overlap_tasks=3, sizes=(3,))
    result = run_overlapping(OverlapCell(settings, LOADED, 0, ("spff", "steiner")))
    assert result.differences == ()
    tasks = {name: [row.task for row in result.rows if row.policy == name] for name in ("spff", "steiner")}
    assert tasks["spff"] == tasks["steiner"]
    assert {row.together for row in result.rows} == {len(tasks["spff"])} == {3}
    (part,) = STUDY.chosen(["overlapping"])
    assert [point["together"] for point in part.points(result.rows)] == [3, 3]


def test_tasks_that_leave_first_come_nearer_to_their_bound_beside_background_traffic():
    def over_bound(scenario):
        rows = [row for row in unit(scenario).rows if row.policy == "steiner"]
        return sum(row.communication_ps / row.bound_ps for row in rows) / len(rows)

    assert over_bound(replace(LOADED, priority=7)) < over_bound(LOADED)


def test_where_no_task_is_admitted_nothing_overlaps():
    settings = replace(SETTINGS, demand_bps=2 * 10**10)
    assert run_overlapping(OverlapCell(settings, RACKS, 0, ("spff", "steiner"))) == CellResult((), ())
    with (
        TaskNetwork(RACKS.build(), bundled(64), elements=64) as network,
        pytest.raises(PlanError, match="no task to run"),
    ):
        network.run_at_once([])
