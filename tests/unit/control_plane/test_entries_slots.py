"""Missing workers, derived from the slots of a tree."""

import pytest

from p4reduce.control_plane.entries import SlotState, slot_index, who_is_missing
from p4reduce.control_plane.plans import PlanRequest, make_plan
from p4reduce.control_plane.resources import Resources
from p4reduce.topologies import leaf_spine, star


@pytest.fixture
def plan():
    """Return spine1 over leaf1 (h1, h2) and leaf2 (h3, h4), after another job: bases and generation are not 0."""
    topology, resources = leaf_spine(2, 1, 2), Resources()
    make_plan(topology, PlanRequest("spt", job=1), resources)
    return make_plan(topology, PlanRequest("spt", job=2), resources)


def cell(plan, seq, bitmap, *, done=False, generation=None):
    generation = plan.generation if generation is None else generation
    return generation << 96 | seq << 64 | bitmap << 32 | 3 << 16 | 130 << 8 | 1 << 6 | 1 << 5 | done << 2


def diagnose(plan, seq, **cells):
    def read(switch, index):
        assert index == slot_index(plan.by_switch[switch], seq)
        return cells[switch]

    return who_is_missing(plan, seq, read)


def test_unpacking():
    packed = 7 << 96 | 0xFFFFFFFE << 64 | 0x80000001 << 32 | 5 << 16 | 200 << 8 | 0b10101100
    assert SlotState.unpack(packed) == SlotState(
        generation=7,
        seq=0xFFFFFFFE,
        bitmap=0x80000001,
        count=5,
        exponent=200,
        pull=True,
        has_lanes=False,
        result_lanes=True,
        saturated=False,
        ecn=True,
        done=True,
    )


def test_slots_wrap(plan):
    leaf = plan.by_switch["leaf1"]
    assert leaf.base == leaf.slots
    assert slot_index(leaf, 0) == leaf.base
    assert slot_index(leaf, leaf.slots + 3) == leaf.base + 3


def test_a_worker_is_missing(plan):
    found = diagnose(plan, 17, spine1=cell(plan, 17, 0b01), leaf1=cell(plan, 17, 0b11), leaf2=cell(plan, 17, 0b10))
    index = slot_index(plan.by_switch["leaf2"], 17)
    assert found == f"job 2 epoch 0, chunk 17: slot {index} of leaf2 waits for worker 2 (h3)"


def test_workers_are_missing_at_several_switches(plan):
    old = cell(plan, 17 - plan.slots, 0b11, done=True)
    found = diagnose(plan, 17, spine1=old, leaf1=cell(plan, 17, 0b01), leaf2=old).splitlines()
    assert len(found) == 2
    assert found[0].endswith("of leaf1 waits for worker 1 (h2)")
    assert found[1].endswith("of leaf2 waits for worker 2 (h3), worker 3 (h4)")


def test_another_jobs_slot_counts_for_nothing(plan):
    other = cell(plan, 17, 0b11, done=True, generation=1)
    found = diagnose(plan, 17, spine1=other, leaf1=other, leaf2=cell(plan, 17, 0b11))
    assert "of spine1 waits for the partial sum of leaf2" in found
    assert "of leaf1 waits for worker 0 (h1), worker 1 (h2)" in found
    assert "of leaf2 has every contribution and waits for the result of spine1" in found


def test_a_result_is_missing(plan):
    found = diagnose(
        plan,
        17,
        spine1=cell(plan, 17, 0b11, done=True),
        leaf1=cell(plan, 17, 0b11, done=True),
        leaf2=cell(plan, 17, 0b11),
    )
    assert found.endswith("of leaf2 has every contribution and waits for the result of spine1")


def test_nobody_is_missing(plan):
    done = cell(plan, 17, 0b11, done=True)
    later = cell(plan, 17 + plan.slots, 0b01)
    for leaf in (done, later):
        found = diagnose(plan, 17, spine1=done, leaf1=leaf, leaf2=done)
        assert found == "job 2 epoch 0, chunk 17: done at every switch; a worker that lacks it can ask spine1"


def test_sequence_numbers_wrap(plan):
    """0x3 follows 0xffffffff: a slot that holds it is done with the older chunk."""
    later, older = cell(plan, 3, 0b11), cell(plan, 0xFFFFFFF0, 0b11, done=True)
    assert "done at every switch" in diagnose(plan, 0xFFFFFFFF, spine1=later, leaf1=later, leaf2=later)
    assert "waits for worker 0" in diagnose(plan, 3, spine1=older, leaf1=older, leaf2=older)


def test_targets_without_registers(plan):
    assert "of spine1 cannot be read: its target has no P4Runtime registers" in diagnose(plan, 1, spine1=None)


def test_plans_without_slots():
    built = make_plan(star(2), PlanRequest("ring"), Resources())
    assert "plan 'ring' has no slots" in who_is_missing(built, 1, lambda _switch, _index: 0)


def test_long_diagnoses_are_cut():
    topology = leaf_spine(20, 1, 2)
    built = make_plan(topology, PlanRequest("spt"), Resources())
    found = who_is_missing(built, 1, lambda _switch, _index: 0).splitlines()
    assert len(found) == 17
    assert found[-1].endswith("... and 4 more")
