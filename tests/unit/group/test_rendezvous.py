"""A rendezvous while the network carries a collective: it answers, and ending the group ends the collective."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from p4reduce.group.backend import Asked
from p4reduce.group.communicator import Communicator
from p4reduce.group.errors import ClusterError
from p4reduce.group.rendezvous import Rendezvous

SOON_S = 20.0
"""seconds after which a network gives up by itself, so that a failing test ends, too"""


class Network:
    """A network that carries a collective until it is told to finish, in slices of a millisecond."""

    def __init__(self):
        self.carrying, self.done, self.let_go = threading.Event(), threading.Event(), threading.Event()
        self.carried = []

    def carry(self, calls, check):
        self.let_go.clear()
        self.carrying.set()
        try:
            for _ in range(round(1000 * SOON_S)):
                if self.done.wait(0.001):
                    break
                check()
            self.carried.append([call.rank for call in calls])
            for call in calls:
                call.done_ps = call.start_ps + 1
        finally:
            self.let_go.set()


@pytest.fixture
def network():
    return Network()


@pytest.fixture
def group(network):
    return Rendezvous(2, server=True, carry=network.carry, start_ps=0, patience_s=SOON_S)


@pytest.fixture
def pool():
    with ThreadPoolExecutor(3) as made:
        yield made


def ranks(group):
    return [Communicator(group.backend(rank)) for rank in range(3)]


def all_reduce(pool, group):
    return [pool.submit(one.all_reduce, np.ones(4, np.float32)) for one in ranks(group)[:2]]


def test_the_group_answers_and_can_be_ended_while_a_collective_is_under_way(network, group, pool):
    calls = all_reduce(pool, group)
    assert network.carrying.wait(SOON_S)
    assert group.waiting() == ""
    assert group.backend(2).now() == 0
    group.fail(ClusterError("interrupted"))
    for call in calls:
        with pytest.raises(ClusterError, match="interrupted"):
            call.result(SOON_S)
    assert network.let_go.is_set()
    assert not network.carried


def test_nobody_has_its_array_back_before_the_network_lets_go_of_it(network, pool):
    slices = threading.Event()

    def carry(calls, check):
        network.carrying.set()
        assert slices.wait(SOON_S)  # a long slice
        network.let_go.set()
        check()

    group = Rendezvous(2, server=False, carry=carry, start_ps=0, patience_s=SOON_S)
    held = []

    def participate(rank):
        try:
            group.backend(rank).collective(Asked("all_reduce", np.ones(4, np.float32)))
        finally:
            held.append(network.let_go.is_set())

    calls = [pool.submit(participate, rank) for rank in range(2)]
    assert network.carrying.wait(SOON_S)
    group.fail(ClusterError("interrupted"))
    slices.set()
    for call in calls:
        with pytest.raises(ClusterError, match="interrupted"):
            call.result(SOON_S)
    assert held == [True, True]


def test_closing_waits_for_the_network(network, group, pool):
    calls = all_reduce(pool, group)
    assert network.carrying.wait(SOON_S)
    group.close()
    assert network.let_go.is_set()
    for call in calls:
        with pytest.raises(ClusterError, match="has ended"):
            call.result(SOON_S)


def test_who_calls_meanwhile_is_part_of_the_next_collective(network, group, pool):
    first = all_reduce(pool, group)
    assert network.carrying.wait(SOON_S)
    server = pool.submit(ranks(group)[2].push, np.ones(4, np.float32))
    while not group.waiting():
        assert not server.done()
    assert group.waiting() == "push #0: the server waits for rank 0, rank 1"
    network.done.set()
    for call in first:
        call.result(SOON_S)
    second = [pool.submit(one.push, np.ones(4, np.float32)) for one in ranks(group)[:2]]
    for call in [*second, server]:
        call.result(SOON_S)
    assert [sorted(ranks) for ranks in network.carried] == [[0, 1], [0, 1, 2]]
    assert [group.clock(rank).now_ps for rank in range(3)] == [2, 2, 1]


def test_who_leaves_meanwhile_is_missed_by_the_next_collective_only(network, group, pool):
    first = all_reduce(pool, group)
    assert network.carrying.wait(SOON_S)
    group.leave(1)
    network.done.set()
    for call in first:
        call.result(SOON_S)
    with pytest.raises(ClusterError, match="rank 0 waits for rank 1, which left the group"):
        ranks(group)[0].all_reduce(np.ones(4, np.float32))
