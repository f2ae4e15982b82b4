"""Windows of aggregating hosts: a parameter server's workers, and a ring's."""

import pytest

from p4reduce.control_plane.plans import PlanRequest, make_plan
from p4reduce.control_plane.plans.make import HOST_WINDOW
from p4reduce.control_plane.plans.problem import with_margin
from p4reduce.control_plane.resources import Resources
from p4reduce.network.jobs.specs import endpoint_specs, ps_window
from p4reduce.topologies import load
from p4reduce.workers.specs import MAX_RING_WINDOW, RingSpec

QUEUE = 1024


def plan_at(delay: str, hosts: int = 15, **asked: int):
    topology = load(f"star:hosts={hosts},servers=1,rate=40G,delay={delay}")
    return make_plan(topology, PlanRequest("ps", lanes=256, **asked), Resources())


@pytest.mark.parametrize("delay", ["1us", "50us", "1ms"])
def test_workers_have_what_the_round_trip_needs_in_flight(delay: str) -> None:
    plan = plan_at(delay)
    window = ps_window(plan, QUEUE, restrained=True)
    assert with_margin(plan.window_needed) <= window <= plan.window
    assert window >= min(plan.window, QUEUE // 15)


def test_workers_that_nothing_restrains_fit_the_queue_together() -> None:
    assert ps_window(plan_at("1ms"), QUEUE, restrained=False) == QUEUE // 15
    assert ps_window(plan_at("1us", hosts=400), 300, restrained=False) == 1


def test_what_a_server_keeps_of_all_its_workers_is_limited() -> None:
    plan = plan_at("100ms")
    assert plan.window_needed * 15 > HOST_WINDOW
    assert ps_window(plan, QUEUE, restrained=True) == HOST_WINDOW // 15


def test_a_window_that_was_asked_for_is_not_exceeded() -> None:
    assert ps_window(plan_at("1ms", window=7), QUEUE, restrained=True) == 7


def test_a_ring_whose_round_trip_asks_for_more_than_its_reports_can_count_gets_the_most() -> None:
    topology = load("star:hosts=4,rate=40G,delay=5ms")
    plan = make_plan(topology, PlanRequest("ring", lanes=256), Resources())
    assert plan.window_needed > MAX_RING_WINDOW
    specs = dict(endpoint_specs(plan, None, queue_frames=QUEUE))
    assert list(specs) == list(plan.workers)
    assert {spec.window for spec in specs.values() if isinstance(spec, RingSpec)} == {MAX_RING_WINDOW}
