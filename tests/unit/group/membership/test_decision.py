"""Decisions that follow from the survivors' finished operations."""

import json

import pytest

from p4reduce.group.agreement import Agreement, Answered, Joined, ProcessEnded
from p4reduce.group.errors import ClusterError
from p4reduce.group.membership import Journal, Lease, Leases, SurvivorAnswer, group_changed

ALL = (0, 1, 2)
LOST = {1: "was killed"}


class Ground:
    """A network without damage."""

    damaged = may_return = False

    def __init__(self):
        self.reach = self

    def lost(self, members, dead):
        return {member: dead[member] for member in members if member in dead}, ()

    def no_room(self, members):
        return None


def made(answers, *, before=ALL, lost=LOST, joined=(), on_failure="shrink", term=1, epoch=1):
    """Return the decision of a group in which ``lost`` end, once the others have given their ``answers``."""
    agreement = Agreement(before, Leases(Lease(1, 10), before, 0), Ground(), on_failure, epoch - 1)
    agreement.term = term - 1
    agreement.on(0, *map(Joined, joined), *(ProcessEnded(member, why) for member, why in lost.items()))
    (install,) = agreement.on(1, *(Answered(member, agreement.term, answer) for member, answer in answers.items()))
    return install.decision


def test_nobody_finished_it_is_done_again_over_the_survivors():
    decision = made({0: SurvivorAnswer(4), 2: SurvivorAnswer(4)})
    assert (decision.outcome, decision.operation, decision.contributors) == ("redone", 4, (0, 2))
    assert made({0: SurvivorAnswer(4), 2: SurvivorAnswer(4)}, on_failure="raise").outcome == "raised"


def test_somebody_finished_it_stands_with_whom_it_had():
    for on_failure in ("shrink", "raise"):
        decision = made({0: SurvivorAnswer(4), 2: SurvivorAnswer(5, ALL)}, on_failure=on_failure)
        assert (decision.outcome, decision.operation, decision.contributors) == ("kept", 4, ALL)
        assert decision.holder == 2


def test_all_finished_it_the_next_one_is_over_the_survivors():
    decision = made({0: SurvivorAnswer(5, ALL), 2: SurvivorAnswer(5, ALL)})
    assert (decision.outcome, decision.operation, decision.contributors) == ("redone", 5, (0, 2))


def test_who_joins_comes_in_before_an_operation_that_nobody_has_begun():
    answers = {0: SurvivorAnswer(4, (), "barrier"), 2: SurvivorAnswer(4, (), "barrier")}
    decision = made(answers, joined=(3,))
    assert (decision.outcome, decision.operation, decision.contributors) == ("raised", 4, ())
    assert decision.after == (0, 2, 3)
    assert (
        decision.describe() == "rank 1 was killed; rank 3 joined: 2 of 3 go on, with 1 more; operation 4 was not done"
    )
    assert made({0: SurvivorAnswer(4, (), "barrier"), 2: SurvivorAnswer(5, ALL, "barrier")}, joined=(3,)).joined == ()
    assert made({0: SurvivorAnswer(4, (), "barrier"), 2: SurvivorAnswer(4)}, joined=(3,)).joined == ()


def test_who_came_and_went_since_a_caller_last_heard_is_no_news():
    called = SurvivorAnswer(4, (), "barrier")
    first = made({0: called, 2: called}, joined=(3, 4))
    answers = {0: called, 2: called, 4: called}
    second = made(answers, before=first.after, lost={3: "was killed"}, term=2, epoch=2, on_failure="raise")
    change = group_changed([first, second], 0, 4)
    assert (change.joined, change.lost, change.members) == ((4,), LOST, (0, 2, 4))
    assert group_changed([first, second], 1, 4).lost == {3: "was killed"}


def test_no_member_can_be_two_operations_ahead():
    with pytest.raises(ClusterError, match="rank 2 has finished 6 operations, another one 4: none is two ahead"):
        made({0: SurvivorAnswer(4), 2: SurvivorAnswer(6)})


def test_results_of_different_members_contradict_each_other():
    answers = {0: SurvivorAnswer(4), 1: SurvivorAnswer(5, (0, 1)), 2: SurvivorAnswer(5, ALL)}
    with pytest.raises(ClusterError, match="different members"):
        made(answers, before=(*ALL, 3), lost={3: "x"})


def test_decisions_are_on_disk(tmp_path):
    journal = Journal(tmp_path / "decisions")
    answers = {0: SurvivorAnswer(4), 2: SurvivorAnswer(4)}
    journal.write(made(answers))
    assert [(one.epoch, one.term) for one in journal.decisions] == [(1, 1)]
    (line,) = (tmp_path / "decisions").read_text().splitlines()
    assert json.loads(line)["lost"] == {"1": "was killed"}
    with pytest.raises(ClusterError, match="cannot be written down"):
        Journal(tmp_path / "no" / "folder").write(made(answers))


def test_who_missed_two_changes_hears_of_both():
    first = made({0: SurvivorAnswer(4), 2: SurvivorAnswer(4)})
    second = made({2: SurvivorAnswer(6)}, before=(0, 2), lost={0: "fell silent"}, term=2, epoch=2)
    change = group_changed([first, second], 0, 6)
    assert (change.view, change.members, change.operation) == (2, (2,), 6)
    assert change.lost == {0: "fell silent", 1: "was killed"}
    assert group_changed([first, second], 1, 6).lost == {0: "fell silent"}
