"""The fluid model compared with hand computations, and the cluster with known queues."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from studies.placement.calibration import MODELS, ClusterJob, FluidJob, draw_jobs, ends_of, steady_times
from studies.placement.flow_model import ClusterRun
from studies.placement.settings import CAPABLE, RING, SCARCE, UNIFORM, ClusterScenario

ONE = np.array([1.0, 1.0])


def test_alone_an_iteration_is_computing_its_busiest_link_and_its_latency():
    flow = FluidJob(1.0, {0: 2.0, 1: 0.5}, 0.5, latency_s=0.25)
    assert flow.alone_s(ONE) == 3.25
    assert ends_of([flow], ONE, 3).tolist() == [[3.25, 6.5, 9.75]]
    with pytest.raises(ValueError, match="rounds: 0"):
        ends_of([flow], ONE, 0)


def test_jobs_in_step_stay_in_step_and_jobs_that_take_turns_do_not_meet():
    same = FluidJob(1.0, {0: 1.0}, 1.0)
    assert steady_times([same, same], ONE) == pytest.approx([3.0, 3.0])
    assert steady_times([same, replace(same, begin_s=1.0)], ONE) == pytest.approx([2.0, 2.0])


def test_flows_share_evenly_and_one_of_three_copies_has_three_shares():
    """The first has three of four shares while both send: 3 / (3/4) = 4 s, in which the other sends its one."""
    found = ends_of([FluidJob(0.0, {0: 3.0}, 1.0), FluidJob(0.0, {0: 1.0}, 1.0)], ONE, 1)
    assert found[:, 0] == pytest.approx([4.0, 4.0], abs=1e-6)


def test_a_flow_of_twice_the_weight_has_two_thirds_of_a_link():
    """1 / (2/3) = 1.5 s, twice; the other has its third all the time."""
    found = ends_of([FluidJob(0.0, {0: 1.0}, 0.5), FluidJob(0.0, {0: 1.0}, 1.0)], ONE, 1)
    assert found[:, 0] == pytest.approx([1.5, 3.0], abs=1e-6)


def test_what_one_cannot_use_others_get():
    """The second link limits the first flow to 1/4: the other gets 3/4 of the shared link."""
    capacity = np.array([1.0, 0.25])
    found = ends_of([FluidJob(0.0, {0: 1.0, 1: 1.0}, 1.0), FluidJob(0.0, {0: 1.0}, 1.0)], capacity, 1)
    assert found[:, 0] == pytest.approx([4.0, 4 / 3], abs=1e-6)


def test_the_order_of_jobs_does_not_matter():
    flows = [FluidJob(0.3 + 0.1 * n, {0: 0.2, 1: 0.1 * n + 0.1}, 0.1, begin_s=0.2 * n) for n in range(6)]
    assert ends_of(flows[::-1], ONE, 5)[::-1] == pytest.approx(ends_of(flows, ONE, 5), rel=1e-9)


def job(name, arrival, workers, rounds=1000.0):
    model = MODELS[0]
    return ClusterJob(name, arrival, workers, model, rounds, rounds * (model.compute_s + model.bits / 25e9))


def test_a_cluster_that_is_full_makes_others_wait_until_one_ends():
    first, second = ClusterRun(UNIFORM, [job("job0", 0.0, 128), job("job1", 1.0, 128)], "packed").run()
    assert first.jct_s == pytest.approx(first.slowdown * job("job0", 0.0, 128).alone_s)
    assert first.slowdown == pytest.approx(1.0)
    assert second.wait_s == pytest.approx(first.jct_s - 1.0)
    assert (first.racks, second.racks) == (8, 8)


def test_with_and_without_back_filling():
    jobs = [job("job0", 0.0, 100), job("job1", 1.0, 100), job("job2", 2.0, 10)]
    passed = {one.name: one for one in ClusterRun(UNIFORM, jobs, "packed").run()}
    kept = {one.name: one for one in ClusterRun(UNIFORM, jobs, "packed", backfill=False).run()}
    assert passed["job2"].wait_s == 0
    assert kept["job2"].wait_s > 0
    assert kept["job1"].wait_s == passed["job1"].wait_s


def test_orders_change_who_comes_first_and_nobody_is_lost():
    jobs = draw_jobs(1, 40, 1.5, 128, 25e9)
    waits = {}
    for order in ("fifo", "sjf", "edf", "fair", "priority"):
        ended = ClusterRun(UNIFORM, jobs, "packed", order).run()
        assert {one.name for one in ended} == {one.name for one in jobs}
        waits[order] = sum(one.wait_s for one in ended)
    assert waits["sjf"] < waits["fifo"]


def test_a_job_is_never_faster_than_alone_and_a_whole_tree_never_slower_than_a_ring():
    jobs = draw_jobs(2, 30, 0.8, 128, 25e9)
    for scenario in (UNIFORM, RING, CAPABLE, *SCARCE[:3]):
        for one in ClusterRun(scenario, jobs, "first-fit").run():
            assert one.slowdown >= 1 - 1e-9
    total = {scenario: sum(e.jct_s for e in ClusterRun(scenario, jobs, "packed").run()) for scenario in (UNIFORM, RING)}
    assert total[UNIFORM] < total[RING]


def test_the_same_jobs_give_the_same_times_in_any_order():
    jobs = draw_jobs(3, 25, 0.9, 128, 25e9)
    found = [
        sorted((e.name, e.jct_s) for e in ClusterRun(UNIFORM, given, "ina-aware").run()) for given in (jobs, jobs[::-1])
    ]
    assert found[0] == found[1]


def test_jobs_are_those_that_were_asked_for():
    jobs = draw_jobs(4, 2000, 0.5, 128, 25e9)
    assert {one.workers for one in jobs} == set(range(2, 33))
    assert all(a.arrival_s <= b.arrival_s for a, b in pairwise(jobs))
    busy = sum(one.workers * one.alone_s for one in jobs) / (128 * jobs[-1].arrival_s)
    assert busy == pytest.approx(0.5, rel=0.1)
    with pytest.raises(ValueError, match="load: 0"):
        draw_jobs(1, 1, 0, 128, 25e9)


def test_no_jobs_and_one_job():
    assert ClusterRun(UNIFORM, [], "packed").run() == []
    (one,) = ClusterRun(ClusterScenario("x", network="fat-tree"), [job("job0", 5.0, 2)], "ina-aware").run()
    assert (one.wait_s, round(one.slowdown, 9)) == (0.0, 1.0)
