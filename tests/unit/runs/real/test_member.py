"""A member's end of the control connection; the test acts as the coordinator."""

import socket

import numpy as np
import pytest

from p4reduce.base.records import to_plain
from p4reduce.group import remote
from p4reduce.group.errors import ClusterError, GroupChanged
from p4reduce.group.membership import MembershipDecision
from p4reduce.runs.real.member import Calling, Member


class Told:
    """One member of three, and the other end of its connection."""

    def __init__(self, folder):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(folder / "group"))
            listener.listen()
            nothing = {"stop": lambda: None, "go_on": lambda: None, "waits": dict}
            self.member = Member(str(folder / "group"), 0, (0, 1, 2), **nothing)
            self.end, _ = listener.accept()
        self.end.settimeout(20)

    def tell(self, message, array=None):
        remote.send(self.end, message, array)

    def commit(self, decision, array=None):
        self.tell({"commit": to_plain(decision), "endpoints": []}, array)

    def hear(self, name):
        """Return the next message of this name."""
        while True:
            message, array = remote.receive(self.end)
            if name in message:
                return message, array

    def answer(self, term):
        self.tell({"prepare": term})
        while (message := self.hear("stopped")[0])["stopped"] != term:
            pass
        return message["finished"], message["contributors"], message["operation"]

    def close(self):
        self.end.close()
        self.member.close()


@pytest.fixture
def told(tmp_path):
    made = Told(tmp_path)
    yield made
    made.close()


def decision(epoch, operation, outcome, before, after, **more):
    lost = dict.fromkeys(set(before) - set(after), "ended")
    given = {"contributors": (), "holder": None, "joined": tuple(set(after) - set(before)), **more}
    return MembershipDecision(epoch, epoch, operation, outcome, before, after, lost=lost, **given)


COMMIT = to_plain(decision(1, 0, "kept", (0, 1, 2), (0, 1)))


def heard(member, view, operation="all_reduce"):
    with pytest.raises(GroupChanged) as found:
        member.begin(Calling(operation, 0, view))
    return found.value.operation, found.value.view, found.value.members


def test_an_operation_that_was_to_be_done_again_and_then_was_not_is_not_done_in_the_later_group(told):
    told.answer(1)
    told.commit(decision(1, 0, "redone", (0, 1, 2), (0, 1)))
    told.commit(decision(2, 0, "raised", (0, 1), (0, 1, 3)))
    told.answer(3)
    told.commit(decision(3, 0, "redone", (0, 1, 3), (0, 1, 3)))
    assert heard(told.member, 0) == (0, 1, (0, 1))
    assert heard(told.member, 1) == (0, 2, (0, 1, 3))
    assert told.member.begin(Calling("all_reduce", 0, 2)).epoch == 3


@pytest.mark.parametrize("calls_before", [True, False])
def test_a_result_of_another_one_counts_as_soon_as_it_is_there_whatever_happens_before_it_is_taken(told, calls_before):
    member = told.member
    if calls_before:
        member.begin(Calling("all_reduce", 0, 0))
        member.stopped()
    told.answer(1)
    given = np.arange(3, dtype=np.float32)
    told.commit(decision(1, 0, "kept", (0, 1, 2), (0, 1), contributors=(0, 1, 2), holder=1), given)
    assert told.answer(2) == (1, [0, 1, 2], None)
    told.tell({"give": 2})
    assert told.hear("array")[1].tolist() == [0, 1, 2]
    told.commit(decision(2, 1, "raised", (0, 1), (0, 1, 3)))
    turn = member.begin(Calling("all_reduce", 0, 0))
    assert (turn.array.tolist(), turn.contributors) == ([0, 1, 2], (0, 1, 2))
    member.done(turn.array, turn.contributors)
    assert heard(member, 0) == (1, 1, (0, 1))
    assert heard(member, 1) == (1, 2, (0, 1, 3))
    member.begin(Calling("all_reduce", 0, 2))
    member.stopped()
    assert told.answer(4)[0] == 1


def test_a_broadcast_that_one_has_stands_though_its_root_is_dead(told):
    member = told.member
    member.begin(Calling("broadcast", 1, 0))
    member.stopped()
    told.answer(1)
    given = np.ones(2, np.float32)
    told.commit(decision(1, 0, "kept", (0, 1, 2), (0, 2), contributors=(0, 1, 2), holder=2), given)
    turn = member.begin(Calling("broadcast", 1, 0))
    assert turn.array.tolist() == [1, 1]
    member.done(turn.array, turn.contributors)
    assert heard(member, 0) == (1, 1, (0, 2))


@pytest.mark.parametrize(
    "message",
    [
        {"commit": {}, "endpoints": []},
        {"commit": COMMIT},
        {"commit": COMMIT, "endpoints": [{"kind": "worker"}]},
        {"commit": COMMIT, "endpoints": [], "history": [1]},
        {"commit": {**COMMIT, "epoch": "1"}, "endpoints": []},
        {"commit": COMMIT, "endpoints": [], "more": 1},
        {"prepare": "x"},
        {"excluded": None, "commit": 1},
    ],
)
def test_a_coordinator_that_speaks_nonsense_is_an_error_of_one_line(told, message):
    told.tell(message)
    told.member._thread.join(20)
    with pytest.raises(ClusterError, match=r"^the coordinator said what it never says: "):
        told.member.begin(Calling("all_reduce", 0, 0))
