"""Names of the nodes that a WAIT refers to."""

import pytest

from p4reduce.control_plane.entries import awaited_at, explain_waits, slot_index
from p4reduce.control_plane.plans import PlanRequest, make_plan
from p4reduce.control_plane.resources import Resources
from p4reduce.topologies import leaf_spine
from p4reduce.workers.status import WaitStatus


@pytest.fixture
def plan():
    """Return spine1 over leaf1 (h1, h2) and leaf2 (h3, h4), after another job, so that bases are not 0."""
    topology, resources = leaf_spine(2, 1, 2), Resources()
    make_plan(topology, PlanRequest("spt", job=1), resources)
    return make_plan(topology, PlanRequest("spt", job=2), resources)


def wait(level, awaited, seq=17):
    return WaitStatus(seq, level, awaited, at_ps=5)


def mask(plan, switch, name):
    return next(child.mask for child in plan.by_switch[switch].children if child.name == name)


def test_a_worker_has_its_name(plan):
    assert awaited_at(plan, "h1", wait(1, mask(plan, "leaf1", "h2"))) == ("leaf1", ("h2",))
    assert awaited_at(plan, "h1", wait(2, mask(plan, "spine1", "leaf2"))) == ("spine1", ("leaf2",))
    assert awaited_at(plan, "h1", wait(1, 0)) == ("leaf1", ())


def test_a_worker_behind_another_switch_is_found_through_who_waits_there(plan):
    index = slot_index(plan.by_switch["leaf2"], 17)
    waits = {
        "h1": wait(2, mask(plan, "spine1", "leaf2")),
        "h2": wait(1, 0),
        "h3": None,
        "h4": wait(1, mask(plan, "leaf2", "h3")),
    }
    assert explain_waits(plan, waits) == [f"chunk 17: slot {index} of leaf2 waits for worker 2 (h3)"]


def test_without_them_the_switch_is_named(plan):
    index = slot_index(plan.by_switch["spine1"], 17)
    (line,) = explain_waits(plan, {"h1": wait(2, mask(plan, "spine1", "leaf2"))})
    assert line == f"chunk 17: slot {index} of spine1 waits for the sum of leaf2, 2 workers"


def test_the_oldest_chunk_counts_and_silence_says_nothing(plan):
    waits = {"h1": wait(1, mask(plan, "leaf1", "h2"), seq=18), "h4": wait(1, mask(plan, "leaf2", "h3"))}
    assert [line.split(":")[0] for line in explain_waits(plan, waits)] == ["chunk 17"]
    assert explain_waits(plan, {"h1": None}) == []
