"""Bounds of communication times, computed by hand for small networks."""

import pytest

from p4reduce.control_plane.counters import Operation
from p4reduce.control_plane.plans import PlanRequest, make_plan
from p4reduce.control_plane.plans.routes import frame_bytes, frame_time_ps
from p4reduce.control_plane.resources import Resources
from p4reduce.topologies import TopologyBuilder, leaf_spine, star
from studies.poster.packets import limits

LANES, CHUNKS = 64, 100
ELEMENTS = LANES * CHUNKS
RATE, DELAY = 10**10, 1_000_000
FULL = frame_time_ps(frame_bytes(LANES), RATE)
EMPTY = frame_time_ps(62, RATE)


def plan_of(topology, plan, server):
    workers = tuple(host.name for host in topology.workers)
    return make_plan(topology, PlanRequest(plan, workers=workers, server=server, lanes=LANES), Resources())


def bound_ps(plan, operation, elements):
    return limits(plan, operation, elements).bound_ps


def chunk_ps(plan, operation):
    return limits(plan, operation, ELEMENTS).chunk_ps


def test_aggregation_takes_one_model_and_the_way():
    plan = plan_of(star(4, servers=1), "steiner", "server1")
    # Two links up, two down for a chunk; the others follow one frame apart.
    assert bound_ps(plan, Operation.PUSH_PULL, ELEMENTS) == (CHUNKS - 1) * FULL + 4 * (FULL + DELAY)
    assert chunk_ps(plan, Operation.PUSH_PULL) == FULL


def test_without_aggregation_it_takes_a_model_for_each_worker():
    plan = plan_of(star(4, servers=1), "ps", "server1")
    # All 4 C frames cross the server's link; then the last chunk's 4 results return in sequence.
    up = FULL + DELAY + 4 * CHUNKS * FULL + DELAY
    down = 4 * FULL + DELAY + FULL + DELAY
    assert bound_ps(plan, Operation.PUSH_PULL, ELEMENTS) == up + down
    assert chunk_ps(plan, Operation.PUSH_PULL) == 4 * FULL


def test_a_server_that_answers_chunk_by_chunk_begins_when_the_farthest_worker_is_heard():
    """One worker beside the server, one far away: in any other order of chunks, answers could leave earlier."""
    far = 1_000_000_000
    made = TopologyBuilder("far")
    made.switch("s1")
    made.switch("s2")
    for host, switch in (("near", "s1"), ("away", "s2"), ("server", "s1")):
        made.host(host, server=host == "server")
        made.link(host, switch, RATE, f"{DELAY}ps")
    made.link("s1", "s2", RATE, f"{far}ps")
    plan = make_plan(
        made.build(), PlanRequest("ps", workers=("near", "away"), server="server", lanes=LANES), Resources()
    )
    way = 3 * FULL + 2 * DELAY + far
    found = limits(plan, Operation.PUSH_PULL, ELEMENTS)
    assert found.ordered_ps == way + 2 * (CHUNKS - 1) * FULL + way
    assert found.bound_ps <= way + CHUNKS * FULL + way


def test_trees_have_one_bound():
    for plan in (
        plan_of(star(4, servers=1), "steiner", "server1"),
        plan_of(leaf_spine(3, 2, 3, servers=1), "mst", "server1"),
    ):
        found = limits(plan, Operation.PUSH_PULL, ELEMENTS)
        assert found.ordered_ps == found.bound_ps


def test_a_push_alone_and_a_pull_alone_have_empty_frames_the_other_way():
    plan = plan_of(star(4, servers=1), "steiner", "server1")
    one_way = (CHUNKS - 1) * FULL + 2 * (FULL + DELAY) + 2 * (EMPTY + DELAY)
    assert bound_ps(plan, Operation.PUSH, ELEMENTS) == one_way
    assert bound_ps(plan, Operation.PULL, ELEMENTS) == one_way


@pytest.mark.parametrize("plan_name", ["steiner", "mst", "spt", "ps"])
def test_twice_the_model_takes_as_much_longer_as_the_busiest_link_says(plan_name):
    topology = leaf_spine(3, 2, 3, servers=1)
    plan = plan_of(topology, plan_name, "server1")
    once, twice = (bound_ps(plan, Operation.PUSH_PULL, times * ELEMENTS) for times in (1, 2))
    assert twice - once == CHUNKS * chunk_ps(plan, Operation.PUSH_PULL)
