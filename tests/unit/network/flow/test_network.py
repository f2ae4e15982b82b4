"""Collectives of several jobs in the flow model."""

from contextlib import nullcontext

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.counters import Operation
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.control_plane.plans.make import make_plan
from p4reduce.control_plane.resources import Resources
from p4reduce.network.flow import FlowNetwork
from p4reduce.network.jobs.network import BLOCK
from p4reduce.topologies import load

TWO_RACKS = load("leaf-spine:leaves=2,spines=1,hosts=4")
PAIRS = (("h1", "h5"), ("h2", "h6"), ("h3", "h7"))
"""pairs of hosts, each across the only link between the racks"""
LARGE = 1_000_000


def jobs(*workers, plan="steiner", priorities=None):
    network, resources = FlowNetwork(TWO_RACKS), Resources()
    every = zip(workers, priorities or [None] * len(workers), strict=True)
    requests = [PlanRequest(plan=plan, job=1 + k, workers=own, priority=level) for k, (own, level) in enumerate(every)]
    return network, [network.add(make_plan(TWO_RACKS, request, resources), BLOCK) for request in requests]


def took(network, found):
    transfers = [network.begin([(job, LARGE)], Operation.ALL_REDUCE) for job in found]
    assert not network.advance()
    return [transfer.done_ps - transfer.begun_ps for transfer in transfers]


def test_one_job_takes_what_it_takes_alone():
    network, (job,) = jobs(PAIRS[0])
    (alone,) = took(network, [job])
    assert took(network, [job]) == [alone]
    assert network.now == 2 * alone


def test_jobs_of_one_class_share_a_link():
    network, found = jobs(*PAIRS)
    alone = took(network, found[:1])[0]
    times = took(network, found)
    assert max(times) == pytest.approx(3 * alone, rel=0.02)
    assert min(times) == pytest.approx(3 * alone, rel=0.02)


def test_a_higher_class_goes_first():
    network, found = jobs(*PAIRS[:2], priorities=[6, 1])
    first, second = took(network, found)
    network, (job,) = jobs(PAIRS[0], priorities=[6])
    (alone,) = took(network, [job])
    assert first == alone
    assert second == pytest.approx(2 * alone, rel=0.02)


def test_jobs_on_other_links_do_not_meet():
    network, found = jobs(("h1", "h2"), ("h3", "h4"))
    both = took(network, found)
    assert both == [took(network, [job])[0] for job in found]


def test_time_stops_where_it_is_told_to():
    network, (job,) = jobs(PAIRS[0])
    transfer = network.begin([(job, LARGE)], Operation.ALL_REDUCE)
    assert not network.advance(1_000)
    assert (network.now, transfer.done_ps) == (1_000, None)
    assert network.advance(10**15, [transfer])
    assert network.now == transfer.done_ps
    assert not network.advance(network.now + 5)
    assert network.now == transfer.done_ps + 5


@pytest.mark.parametrize("plan", ["steiner", "ring"])
def test_one_worker_is_done_at_once_or_after_its_round_trip(plan):
    network, (job,) = jobs(("h1",), plan=plan)
    (time,) = took(network, [job])
    assert (time == 0) == (plan == "ring")


def test_what_a_plan_cannot_do_is_refused():
    network, (job,) = jobs(PAIRS[0], plan="ring")
    with pytest.raises(PlanError, match="ring"):
        network.begin([(job, 5)], Operation.PUSH)
    assert network.advance() is False
    assert network.now == 0


def test_queues_without_room_for_all_windows_are_refused():
    network, found = jobs(*PAIRS)
    network.queue_frames = 20
    network.begin([(found[0], LARGE)], Operation.ALL_REDUCE)
    with pytest.raises(PlanError, match="queue has 20"):
        network.begin([(found[1], LARGE)], Operation.ALL_REDUCE)


@pytest.mark.parametrize("plan", ["ring", "steiner"])
def test_rings_that_wait_longer_than_their_time_outs_are_refused(plan):
    """A ring's window waits before a link that another job needs for each of its few chunks in flight.

    Time-outs of trees cover the frames that others have in flight.
    """
    topology = load("star:hosts=4,rate=100M")
    network, resources = FlowNetwork(topology), Resources()
    requests = [
        PlanRequest(plan="ring", job=1, workers=("h1", "h2", "h3"), window=512),
        PlanRequest(plan=plan, job=2, workers=("h3", "h4"), window=1 if plan == "steiner" else 64),
    ]
    with pytest.raises(PlanError, match="longer than their time-out") if plan == "ring" else nullcontext():
        for request in requests:
            job = network.add(make_plan(topology, request, resources), BLOCK)
            network.begin([(job, LARGE)], Operation.ALL_REDUCE)
        network.advance()
