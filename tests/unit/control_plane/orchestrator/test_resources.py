"""A restarted controller re-adopts earlier allocations, all of a plan's or none."""

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.resources import Resources

TREE = [("leaf1", 3), ("spine1", 2)]


def numbers(grant):
    return [(share.switch, share.base, share.slots, share.group, share.rids) for share in grant.shares]


def state(resources):
    """Return the next grants, the only visible part of the state."""
    probes = [resources.grant(TREE, 64) for _ in range(2)]
    for probe in probes:
        resources.release(probe)
    return [(probe.stats, numbers(probe)) for probe in probes]


def test_what_was_granted_before_is_not_granted_again():
    before = Resources(256)
    grants = [before.grant(TREE, 64) for _ in range(3)]
    before.release(grants[1])
    after = Resources(256)
    after.adopt(grants[2])
    after.adopt(grants[0])
    assert after.next_generation == grants[2].generation + 1
    assert after.free("leaf1") == before.free("leaf1")
    assert state(after) == state(before)


def test_adopted_and_released_is_as_if_it_had_never_been():
    grant = Resources(256).grant(TREE, 64)
    resources = Resources(256)
    resources.adopt(grant)
    resources.release(grant)
    assert resources.free("leaf1") == 256
    assert state(resources) == state(Resources(256))


def test_what_is_taken_cannot_be_adopted_and_nothing_of_it_is():
    resources = Resources(256)
    mine = resources.grant([("spine1", 2)], 64)
    foreign = Resources(256).grant([("leaf1", 3)], 64)
    with pytest.raises(PlanError, match="counter cell 0 is taken"):
        resources.adopt(foreign)
    other = Resources(256)
    other.release(other.grant(TREE, 64))
    theirs = [other.grant(TREE, 64), other.grant(TREE, 64)][1]
    before = state(resources)
    resources.adopt(theirs)
    resources.release(theirs)
    assert state(resources) == before
    small = Resources(64)
    with pytest.raises(PlanError, match=r"slots 64\.\.127 are outside 0\.\.63"):
        small.adopt(theirs)
    assert small.free("leaf1") == 64
    overlapping = Resources(256)
    wide = overlapping.grant([("leaf1", 1)], 128)
    with pytest.raises(PlanError, match=r"slots 64\.\.127 are taken in part"):
        overlapping.adopt(theirs)
    overlapping.release(wide)
    overlapping.adopt(theirs)
    resources.release(mine)


def test_generations_begin_where_they_are_told_to():
    resources = Resources(64)
    resources.begin_at(70)
    resources.begin_at(5)
    assert resources.grant((), 1).generation == 70
