"""The coordinator of a group in real time and its members' ends, over sockets without a network."""

import socket
import subprocess
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from p4reduce.base.errors import ControllerError, PlanError
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.group import remote
from p4reduce.group.errors import ClusterError, CollectiveError, GroupChanged
from p4reduce.group.membership import Journal, Reach
from p4reduce.runs.real import coordinator, presence
from p4reduce.runs.real.coordinator import Coordinator
from p4reduce.runs.real.member import Calling, LeftMessage, Member
from p4reduce.runs.real.presence import Arrivals, Presence
from p4reduce.topologies import load

HOSTS = ("h1", "h2", "h3")
CALL = Calling("all_reduce", 0, 0)


class Trees:
    """Stand-in for trees: a plan is its epoch."""

    damaged = may_return = False

    def __init__(self):
        self.hosts, self.plan, self.epoch, self.blames = HOSTS, None, 0, ()
        self.reach = Reach(load("star:hosts=3"), HOSTS)

    def next(self, members, epoch):
        self.epoch = epoch
        return lambda: None

    def drop(self, plan):
        """Do nothing: no plan is installed."""

    def swap(self, plan):
        return lambda: None

    def blamed(self, waiting, members):
        return self.blames


class Group:
    """Three members, whose processes sleep, and their coordinator in a thread."""

    def __init__(self, folder, on_failure, without=()):
        self.presence, self.trees = Presence(folder), Trees()
        self.processes = [subprocess.Popen(["sleep", "100"]) for _ in HOSTS]
        for process in self.processes:
            self.presence.add(process)
        deadline = time.monotonic() + 60
        self.journal = Journal()
        arrivals = Arrivals([], HOSTS, self.presence, start=None)
        self.coordinator = Coordinator(
            self.presence, self.trees, self.journal, on_failure, watch=tuple, deadline=deadline, arrivals=arrivals
        )
        self.error = None
        self.stops = [threading.Event() for _ in HOSTS]
        self.members = [
            Member(self.presence.address, rank, 3, stop=stop.set, go_on=stop.clear, waits=dict)
            for rank, stop in enumerate(self.stops)
            if rank not in without
        ]
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        try:
            self.coordinator.wait()
        except ClusterError as error:
            self.error = error

    def end(self):
        for process in self.processes:
            process.kill()
        self._thread.join(20)
        self.presence.close()
        for member in self.members:
            member.close()
        assert not self._thread.is_alive()


@pytest.fixture
def grouped(tmp_path, monkeypatch):
    monkeypatch.setattr(presence, "is_of", lambda connection, pid: True)  # all members belong to this process
    made = []

    def make(on_failure="shrink", without=()):
        made.append(Group(tmp_path, on_failure, without))
        return made[0]

    yield make
    for one in made:
        one.end()


def changed(member, operation, view=0):
    with pytest.raises(GroupChanged) as found:
        member.begin(Calling(operation, 0, view))
    return found.value.view, found.value.operation, found.value.members


def test_who_lacks_a_result_gets_that_of_one_who_has_it(grouped):
    group = grouped()
    first, second, _ = group.members
    for member in (first, second):
        assert member.begin(CALL).array is None
    first.done(np.arange(5, dtype=np.float32), (0, 1, 2))
    group.processes[2].kill()
    assert group.stops[1].wait(10)
    second.stopped()
    turn = second.begin(CALL)
    assert turn.array.tolist() == [0, 1, 2, 3, 4]
    assert turn.contributors == (0, 1, 2)
    second.done(turn.array, turn.contributors)
    for member in (first, second):
        assert changed(member, "all_reduce") == (1, 1, (0, 1))
        assert member.begin(Calling("all_reduce", 0, 1)).members == (0, 1)
    (decision,) = group.journal.decisions
    assert (decision.outcome, decision.holder, decision.operation) == ("kept", 0, 0)


def test_an_operation_that_nobody_has_is_done_again_by_those_who_called_it_and_those_who_do_later(grouped):
    group = grouped()
    first, _, third = group.members
    first.begin(CALL)
    group.processes[1].kill()
    assert group.stops[0].wait(10)
    first.stopped()
    again = first.begin(CALL)
    late = third.begin(CALL)
    assert (again.members, again.epoch, late.members, late.epoch) == ((0, 2), 1, (0, 2), 1)
    for member in (first, third):
        member.done(np.zeros(1, np.float32), (0, 2))
        assert changed(member, "all_reduce") == (1, 1, (0, 2))


@pytest.mark.parametrize(("on_failure", "operation"), [("raise", "all_reduce"), ("shrink", "all_to_all")])
def test_what_is_not_done_again_is_heard_of_at_once(grouped, on_failure, operation):
    group = grouped(on_failure)
    first, _, third = group.members
    first.begin(Calling(operation, 0, 0))
    group.processes[1].kill()
    assert group.stops[0].wait(10)
    first.stopped()
    for member in (first, third):
        assert changed(member, operation) == (1, 0, (0, 2))
        assert member.begin(Calling(operation, 0, 1)).members == (0, 2)


def test_a_broadcast_from_one_who_died_before_anybody_called_it(grouped):
    group = grouped()
    group.processes[0].kill()
    for member in group.members[1:]:
        while not group.journal.decisions:
            time.sleep(0.01)
        assert changed(member, "broadcast") == (1, 0, (1, 2))


def test_one_that_waits_for_one_that_left_ends_all(grouped):
    group = grouped()
    left = threading.Thread(target=group.members[2].leave)
    left.start()
    group.members[0].begin(CALL)
    group._thread.join(10)
    assert isinstance(group.error, CollectiveError)
    assert "rank 0 waits for rank 2, which left the group" in str(group.error)
    group.presence.close()
    left.join(10)
    assert not left.is_alive()


def test_two_changes_are_heard_of_one_after_the_other(grouped):
    group = grouped()
    first = group.members[0]
    for rank, known in ((2, 1), (1, 2)):
        group.processes[rank].kill()
        while len(group.journal.decisions) < known:
            time.sleep(0.01)
    first.begin(CALL)
    first.done(np.zeros(1, np.float32), (0,))
    assert changed(first, "all_reduce") == (1, 1, (0, 1))
    assert changed(first, "all_reduce", 1) == (2, 1, (0,))
    assert [one.epoch for one in group.journal.decisions] == [1, 2]


def test_one_more_that_dies_while_they_stop_is_in_the_same_decision(grouped):
    group = grouped()
    first = group.members[0]
    first.begin(CALL)
    group.processes[1].kill()
    assert group.stops[0].wait(10)
    group.processes[2].kill()
    while group.presence.term < 2:
        time.sleep(0.01)
    first.stopped()
    assert first.begin(CALL).members == (0,)
    (decision,) = group.journal.decisions
    assert (set(decision.lost), decision.after, decision.outcome) == ({1, 2}, (0,), "redone")


def said(address, *messages):
    """Return a connection on which all these messages were sent."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(address)
    connection.settimeout(20)
    for message in messages:
        remote.send(connection, message)
    return connection


def test_one_that_has_a_result_and_falls_silent_before_it_gives_it_holds_up_nobody(grouped):
    group = grouped(without=(0,))
    second, _ = group.members
    second.begin(CALL)
    with said(group.presence.address, {"join": 0, "pid": 1}) as holder:
        group.processes[2].kill()
        while "prepare" not in (asked := remote.receive(holder)[0]):
            pass
        answer = {"finished": 1, "contributors": [0, 1, 2], "operation": None, "root": -1}
        remote.send(holder, {"stopped": asked["prepare"], **answer})
        assert group.stops[1].wait(10)
        second.stopped()
        assert second.begin(CALL).members == (1,)
        while "excluded" not in (told := remote.receive(holder)[0]):
            pass
    assert told["excluded"] == "said nothing for its lease, and others waited for it"
    assert set(group.journal.decisions[0].lost) == {0, 2}


def test_whoever_speaks_out_of_turn_is_named_and_the_others_go_on(grouped):
    group = grouped(without=(2,))
    first, second = group.members
    for member in (first, second):
        member.begin(CALL)
    with said(group.presence.address, {"join": 2, "pid": 1}, {"beat": {}}) as third:
        assert remote.receive(third)[0] == {
            "excluded": "said what no member says: a message: beat: input should be a valid integer, got {}"
        }
    for member, stop in zip((first, second), group.stops, strict=False):
        assert stop.wait(10)
        member.stopped()
    for member in (first, second):
        assert member.begin(CALL).members == (0, 1)
    assert group.error is None


def test_what_a_message_may_leave_out_ends_nothing(grouped):
    group = grouped(without=(2,))
    first, second = group.members
    for member in (first, second):
        member.begin(CALL)
    with said(group.presence.address, {"join": 2, "pid": 1}, {"beat": 0, "calls": True, "rests": False}) as third:
        group.processes[1].kill()
        while "prepare" not in (asked := remote.receive(third)[0]):
            pass
        remote.send(third, {"stopped": asked["prepare"], "finished": 0, "contributors": [], "root": -1})
        assert group.stops[0].wait(10)
        first.stopped()
        assert first.begin(CALL).members == (0, 2)
    assert group.error is None


def test_a_rank_is_taken_by_its_own_process_alone(grouped, monkeypatch):
    group = grouped(without=(2,))
    monkeypatch.undo()
    with said(group.presence.address, {"join": 2, "pid": group.processes[2].pid}) as forged:
        assert remote.receive(forged)[0] == {"refused": "the connection is not of a process of rank 2"}
        assert remote.receive(forged) is None
    assert group.presence.seen[2].control is None


def test_strangers_that_say_nothing_are_bounded_and_a_member_comes_in_by_their_side(grouped):
    group = grouped(without=(2,))
    idle = [said(group.presence.address) for _ in range(3 * presence.MOST_STRANGERS)]
    with said(group.presence.address, {"join": 2, "pid": 1}):
        deadline = time.monotonic() + 10
        while group.presence.seen[2].control is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert group.presence.seen[2].control is not None
        for connection in idle[: presence.MOST_STRANGERS]:
            assert remote.receive(connection) is None
    assert len(group.presence._strangers) <= presence.MOST_STRANGERS
    for connection in idle:
        connection.close()


def test_whatever_happens_to_the_network_while_a_tree_is_installed_may_have_hit_that_tree():
    star = load("star:hosts=3")
    plan = SimpleNamespace(epoch=0, paths={}, topology=star)
    stand = coordinator.Stand((plan,))
    trees = coordinator.Trees(star, None, None, stand, None, hosts=HOSTS, registers=True)
    trees.reach.links.add(frozenset(("h1", "s1")))
    trees.next([0], 1)
    assert not trees.damaged
    trees.reach.links.add(frozenset(("h2", "s1")))
    assert trees.damaged
    trees.swap(None)
    trees.next([0], 2)
    trees.begin_anew("s1")
    assert trees.damaged


class Installs:
    """A controller that installs a number of trees, and then fails."""

    def __init__(self, room, error):
        self.room, self.error, self.installed = room, error, []

    def start_job(self, request, view):
        if len(self.installed) == self.room:
            raise self.error
        self.installed.append((request.job, request.epoch, request.workers))
        return self.installed[-1]

    def uninstall(self, plan, lost):
        self.installed.remove(plan)


@pytest.mark.parametrize(
    ("error", "raised"), [(PlanError("no slots"), ClusterError), (ControllerError("no answer"), ControllerError)]
)
def test_where_one_of_several_trees_cannot_be_none_of_them_stays(error, raised):
    star, plan = load("star:hosts=3"), SimpleNamespace(epoch=4, paths={})

    def requests(view, workers):
        return [PlanRequest(job=job, workers=workers) for job in (1, 7)], (2, 1)

    for room in (2, 1, 0):
        switches = Installs(room, error)
        stand = coordinator.Stand((plan,))
        trees = coordinator.Trees(star, switches, requests, stand, None, hosts=HOSTS, registers=True)
        install = trees.next([0, 2], 5)
        if room == 2:
            assert install() == coordinator.Stand(((1, 5, ("h1", "h3")), (7, 5, ("h1", "h3"))), (2, 1))
            continue
        with pytest.raises(raised):
            install()
        assert switches.installed == []


def test_who_waits_in_one_of_several_trees_names_whom_that_tree_waits_for():
    """Named by registers and by switches' answers; relays and their descendants are always named."""
    star, asked = load("star:hosts=3"), []
    relay = SimpleNamespace(name="h1", children=[SimpleNamespace(name="h2", mask=2)])
    plans = [
        SimpleNamespace(epoch=0, in_network=True, relays=relays, by_switch={}, edges=(), server=None)
        for relays in ([relay], [])
    ]
    switches = SimpleNamespace(blamed=lambda plan, seq: asked.append((plans.index(plan), seq)) or {"h3"})
    for registers, found in ((True, [2]), (False, [0, 1])):
        stand = coordinator.Stand(tuple(plans), (1, 1))
        trees = coordinator.Trees(star, switches, None, stand, None, hosts=HOSTS, registers=registers)
        assert trees.blamed({0: [(None, None), (None, None)]}, [0, 1, 2]) == []
        assert trees.blamed({0: [(5, None)], 1: [(5, None), (None, None), (3, None)]}, [0, 1, 2]) == found
    assert asked == [(0, 5)]


def test_who_has_left_waits_for_nobody_though_its_last_beat_said_so(grouped):
    group = grouped()
    waits = {"waits": (3,), "told": (None,)}
    group.members[0]._waits = lambda: waits
    group.members[0].begin(CALL)
    seen = group.presence.seen[0]
    assert _until(lambda: seen.beat is not None and seen.beat.waits == (3,))
    group.members[0].done(np.zeros(1, np.float32), (0, 1, 2))
    group.members[0]._say(LeftMessage(1))
    assert _until(lambda: seen.left == 1)
    assert seen.beat is None


def _until(found):
    deadline = time.monotonic() + 20
    while not found() and time.monotonic() < deadline:
        time.sleep(0.01)
    return found()
