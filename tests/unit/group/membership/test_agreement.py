"""Actions that a group's agreement requests, step by step."""

import pytest

from p4reduce.group import agreement as made
from p4reduce.group.agreement import (
    Agreement,
    Answered,
    Beat,
    Built,
    Damaged,
    Joined,
    Left,
    ProcessEnded,
    Tell,
)
from p4reduce.group.errors import ClusterError, CollectiveError
from p4reduce.group.membership import Lease, Leases, SurvivorAnswer

CALLED = SurvivorAnswer(4, (0, 1, 2), "all_reduce")


class Ground:
    """A network whose state the test sets."""

    damaged = may_return = False

    def __init__(self):
        self.reach, self.cut, self.room = self, (), None

    def lost(self, members, dead):
        cut = tuple(member for member in self.cut if member in members and member not in dead)
        return {member: dead[member] for member in members if member in dead} | dict.fromkeys(cut, "cut"), cut

    def no_room(self, members):
        return self.room


class Group:
    """Three members, with the collected actions of each step."""

    def __init__(self, on_failure="shrink"):
        self.ground = Ground()
        leases = Leases(Lease(1, 10), range(3), 0)
        self.agreement = Agreement(range(3), leases, self.ground, on_failure)
        self.blamed, self.owing = set(), None
        self.agreement.blamed = self._blamed

    def _blamed(self, asked):
        self.owing = set(asked)
        return self.blamed

    def alive(self, now, *members):
        for member in members:
            self.agreement.leases.heard(member, now)

    def on(self, now, *events):
        return self.agreement.on(now, *events)

    def answer(self, now, *answers):
        term = self.agreement.term
        return self.on(now, *(Answered(member, term, answer) for member, answer in answers))


def kinds(actions):
    return [one.kind if isinstance(one, Tell) else type(one).__name__ for one in actions]


@pytest.fixture
def group():
    made_group = Group()
    made_group.on(0, *(Joined(member) for member in range(3)))
    return made_group


def test_a_decision_is_made_once_all_have_stopped_and_its_tree_stands(group):
    assert group.on(1, ProcessEnded(1, "was killed")) == [Tell((0, 2), "prepare", 1)]
    assert group.answer(2, (0, CALLED)) == []
    (install,) = group.answer(3, (2, CALLED))
    assert (install.decision.epoch, install.decision.after, install.decision.outcome) == (1, (0, 2), "redone")
    assert group.agreement.members == (0, 1, 2)
    assert group.on(4, Built(0), Built(2), Built(7, "no way")) == []
    (commit,) = group.on(4, Built(1))
    assert (commit.decision, commit.lacking, commit.noticed) == (install.decision, frozenset(), (1, 1))
    assert group.agreement.members == (0, 2)


def test_what_one_has_and_another_lacks_is_there_before_the_decision(group):
    group.on(1, ProcessEnded(1, "was killed"))
    group.answer(2, (0, SurvivorAnswer(5, (0, 1, 2))), (2, CALLED))
    assert group.on(3, Built(1)) == [Tell((0,), "give", 1)]
    assert group.on(4, Answered(2, 1, None), Answered(0, 7, None)) == []
    (commit,) = group.on(5, Answered(0, 1, None))
    assert (commit.lacking, commit.decision.contributors) == ({2}, (0, 1, 2))


@pytest.mark.parametrize("phase", ["asking", "installing", "giving"])
def test_one_more_that_dies_before_the_decision_is_in_it(group, phase):
    group.on(1, ProcessEnded(1, "was killed"))
    if phase != "asking":
        group.answer(2, (0, SurvivorAnswer(5, (0, 1, 2))), (2, CALLED))
    if phase == "giving":
        group.on(2, Built(1))
    abandoned = [] if phase == "asking" else [made.Abandon()]
    assert group.on(3, ProcessEnded(0, "fell")) == [Tell((2,), "prepare", 2), *abandoned]
    assert group.on(3, Built(1), Answered(0, 1, CALLED), Answered(2, 1, CALLED)) == []
    (install,) = group.answer(4, (2, CALLED))
    (commit,) = group.on(5, Built(install.decision.epoch))
    assert (commit.decision.lost, commit.noticed) == ({0: "fell", 1: "was killed"}, (1, 3))


def test_two_that_die_at_once_are_one_question_and_who_dies_where_nobody_waits_is_none():
    group = Group()
    assert group.on(1, ProcessEnded(1, "a"), ProcessEnded(2, "b")) == [Tell((0,), "prepare", 1)]
    nobody = ProcessEnded(7, "a rank that there never was")
    assert group.on(2, Damaged("link x-y is down"), nobody) == [Tell((0,), "prepare", 2)]
    (install,) = group.answer(3, (0, CALLED))
    group.on(4, Built(install.decision.epoch))
    assert group.on(5, Damaged("link x-y is down")) == []
    assert group.on(6, Left(0, 5)) == [Tell((0,), "released", True)]


def test_whom_the_others_wait_for_is_asked_before_anything_follows(group):
    assert group.on(9) == []
    assert group.owing is None
    group.alive(10, 0, 1)
    assert group.on(10, ProcessEnded(1, "was killed")) == [Tell((0, 2), "prepare", 1)]
    assert group.owing == set()
    group.blamed = {0, 2}
    actions = group.on(12)
    assert group.owing == {0, 2}
    assert actions == [Tell((2,), "excluded", group.agreement.leases.dead[2]), Tell((0,), "prepare", 2)]


def test_who_joins_waits_for_all_to_call_the_same_and_for_one_to_have_begun_nothing(group):
    assert group.on(1, Joined(3)) == [Tell((0, 1, 2), "hold", 1)]
    beats = [Beat(member, 4, True, 1, member == 0) for member in range(3)]
    assert group.on(2, *beats[:2], Beat(2, 4, True, None, True)) == []
    assert group.on(3, beats[2]) == [Tell((0, 1, 2), "prepare", 2)]
    (install,) = group.answer(4, *((member, CALLED) for member in range(3)))
    assert install.decision.joined == (3,)
    assert kinds(group.on(5, ProcessEnded(3, "was killed"))) == ["prepare", "Abandon"]
    assert group.on(6, Built(1)) == []
    assert group.agreement.refused == {3: "was killed"}
    (install,) = group.answer(7, *((member, CALLED) for member in range(3)))
    assert install.decision.joined == ()


def test_one_for_whom_there_is_no_tree_holds_up_nobody(group):
    group.ground.room = "4 ranks cannot go on"
    assert group.on(1, Joined(3)) == [Tell((3,), "refused", "4 ranks cannot go on")]
    group.ground.room = None
    group.on(2, Joined(4), *(Beat(member, 4, True, 1, True) for member in range(3)))
    group.on(3, *(Beat(member, 4, True, 1, True) for member in range(3)))
    assert kinds(group.answer(4, *((member, CALLED) for member in range(3)))) == ["Install"]
    refuse, again = group.on(5, Built(1, "no way"))
    assert (refuse, again.decision.after, again.decision.epoch) == (Tell((4,), "refused", "no way"), (0, 1, 2), 2)
    with pytest.raises(ClusterError, match="no way"):
        group.on(6, Built(2, "no way"))


def test_a_switch_that_takes_no_tree_is_waited_for_until_it_is_known_why(group):
    group.on(1, ProcessEnded(1, "was killed"))
    group.answer(2, (0, CALLED), (2, CALLED))
    refused = Built(1, "2 ranks cannot go on: s1 does not answer", known_by=9)
    assert group.on(3, refused) == []
    assert group.on(9) == []
    assert kinds(group.on(9, Damaged("switch s1 began anew"))) == ["prepare", "Abandon"]
    group.answer(9, (0, CALLED), (2, CALLED))
    group.on(9, Built(2, refused.error, known_by=9))
    group.alive(10, 0, 2)
    with pytest.raises(ClusterError, match="s1 does not answer"):
        group.on(10)


def test_a_switch_may_come_back_before_others_are_cut_off(group):
    group.ground.cut, group.ground.may_return = (2,), True
    assert group.on(1, Damaged("switch s1 has ended")) == []
    group.ground.may_return = False
    assert group.on(2) == [Tell((2,), "excluded", "cut"), Tell((0, 1), "prepare", 1)]


def test_with_abort_the_reason_is_waited_for_and_then_all_end():
    group = Group("abort")
    assert group.on(1, ProcessEnded(1, made.PARTED, known_by=4)) == []
    with pytest.raises(CollectiveError, match=r"^rank 1 ended with signal 9$"):
        group.on(2, ProcessEnded(1, "ended with signal 9"))


def test_who_waits_for_one_that_left_ends_all_and_who_went_back_is_excluded(group):
    group.on(1, Left(2, 4), Beat(0, 3, True, None, False))
    with pytest.raises(CollectiveError, match="operation 4: rank 1 waits for rank 2, which left the group"):
        group.on(2, Beat(1, 4, True, None, False))
    assert kinds(group.on(3, Beat(1, 5, True, None, False))) == ["excluded", "prepare"]


def test_one_that_was_lost_before_it_came_does_not_join_as_another():
    ground = Ground()
    agreement = Agreement(range(3), Leases(Lease(1, 10), (), 0), ground, "shrink")
    agreement.on(0, Joined(0), Joined(2))
    ground.cut = (1,)
    agreement.on(1, Damaged("link h1-s1 is down"))
    assert agreement.on(2, Joined(1)) == [Tell((1,), "excluded", "cut")]
    assert agreement.newcomers == ()


def test_time_that_stands_still_and_time_in_which_nobody_was_heard_exclude_nobody(group):
    for _ in range(100):
        assert group.on(9) == []
    group.blamed = {0, 1, 2}
    group.agreement.leases.postpone(1000)
    assert group.on(1009) == []
