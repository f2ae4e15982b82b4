"""Jobs of an external scheduler in one network: ranks connect over sockets, and their collectives run on packets."""

import threading
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from p4reduce.adapters.network import SharedNetwork
from p4reduce.adapters.rank import take_part
from p4reduce.group.errors import ClusterError, RefusedError, SaturatedError
from p4reduce.group.remote import ADDRESS, RANK, SIZE, connect
from p4reduce.topologies import load


@pytest.fixture
def network(tmp_path_factory):
    with SharedNetwork(load("two-generations"), tmp_path_factory.mktemp("n")) as made:
        yield made


class Ranks:
    """The ranks of a job, each in a thread."""

    def __init__(self, folder, size, work):
        self.results, self.errors = {}, {}
        self._threads = [threading.Thread(target=self._run, args=(folder, rank, size, work)) for rank in range(size)]
        for thread in self._threads:
            thread.start()

    def _run(self, folder, rank, size, work):
        try:
            comm = connect({ADDRESS: str(folder / "socket"), RANK: str(rank), SIZE: str(size)})
            self.results[rank] = work(comm)
            comm.close()
        except (ClusterError, ValueError) as error:
            self.errors[rank] = error

    def join(self):
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()


def training(elements=3000, rounds=3, seconds=20e-6, seed=1):
    return lambda comm: take_part(comm, elements, rounds, seconds, seed)


def test_two_jobs_share_links_and_their_sums_are_exact(network):
    tree = Ranks(network.begin("a", ("h9", "h10", "h13"), "steiner"), 3, training())
    ring = Ranks(network.begin("b", ("h1", "h5", "h14", "h15"), "ring"), 4, training(5000, 2, seed=2))
    first, second = network.advance(), network.advance() if len(network.names) == 2 else []
    names = {one.name: one for one in [*first, *second]}
    for name in names:
        network.remove(name)
    while network.names:
        for one in network.advance():
            names[one.name] = one
            network.remove(one.name)
    tree.join()
    ring.join()
    assert tree.results == dict.fromkeys(range(3), 3)
    assert ring.results == dict.fromkeys(range(4), 2)
    assert {name: (one.rounds, one.error) for name, one in names.items()} == {"a": (3, ""), "b": (2, "")}
    assert names["a"].ended_ps > 3 * 20_000_000


def times(tmp_path, order):
    """Return the end times of jobs whose ranks were started in a given order."""
    ended = {}
    with SharedNetwork(load("two-generations"), tmp_path) as network:
        folders = {
            "a": network.begin("a", ("h9", "h10", "h13"), "steiner"),
            "b": network.begin("b", ("h11", "h12", "h14"), "steiner"),
        }
        ranks = [Ranks(folders[name], 3, training(seed=3)) for name in order]
        while network.names:
            for one in network.advance():
                ended[one.name] = one.ended_ps
                network.remove(one.name)
        for one in ranks:
            one.join()
    return ended


def test_jobs_of_several_trees_share_links_and_of_one_that_cannot_be_added_nothing_is_left(network):
    hosts = (("h9", "h10", "h13"), ("h1", "h5", "h11", "h14", "h15"), ("h2", "h6", "h12", "h16"))
    plans = ("best", "packing", "rina")
    jobs = [
        Ranks(network.begin(plan, at, plan, 5000), len(at), training(5000, 2, seed=len(at)))
        for plan, at in zip(plans, hosts, strict=True)
    ]
    resources = network._switches.controller.resources
    before = {switch.name: resources.free(switch.name) for switch in network.topology.switches}
    add, plans_before = network._network.add, network._switches.controller.installed
    first = iter([True])

    def one(plan):
        if not next(first, False):
            raise ClusterError("there is no room for the second tree")
        return add(plan)

    with mock.patch.object(network._network, "add", one), pytest.raises(ClusterError, match="second tree"):
        network.begin("more", ("h3", "h4", "h7"), "halving-doubling")
    assert network._switches.controller.installed == plans_before
    assert {switch.name: resources.free(switch.name) for switch in network.topology.switches} == before
    ended = []
    while network.names:
        for one in network.advance():
            ended.append((one.name, one.rounds, one.error))
            network.remove(one.name)
    for ranks in jobs:
        ranks.join()
        assert not ranks.errors
        assert set(ranks.results.values()) == {2}
    assert sorted(ended) == [(plan, 2, "") for plan in sorted(plans)]


def test_who_comes_first_in_wall_clock_time_changes_nothing(tmp_path):
    for name in ("1", "2"):
        (tmp_path / name).mkdir()
    assert times(tmp_path / "1", "ab") == times(tmp_path / "2", "ba")


def test_time_stops_at_an_arrival_and_for_ranks_that_are_not_there(network):
    assert network.advance(5_000_000) == []
    assert network.now_ps == 5_000_000
    folder = network.begin("a", ("h1", "h2"), "ring")
    assert network.advance(9_000_000, patience_s=0.1) == []
    assert network.now_ps == 5_000_000
    assert "rank 0, 1 has not come" in network.missing()
    ranks = Ranks(folder, 2, training())
    assert [one.name for one in network.advance()] == ["a"]
    network.remove("a")
    ranks.join()
    assert not ranks.errors


def test_a_job_of_one_host_sums_alone(network):
    ranks = Ranks(network.begin("a", ("h7",), ""), 1, training(100, 2, 1e-6))
    (ended,) = network.advance()
    network.remove("a")
    ranks.join()
    assert ranks.results == {0: 2}
    assert ended.ended_ps == 2_000_000


def test_a_rank_that_dies_ends_its_job_and_no_other(network):
    def dies(comm):
        if comm.rank == 1:
            comm._backend._connection.close()
            raise ClusterError("dead")
        return take_part(comm, 100, 1, 0.0, 1)

    one = Ranks(network.begin("a", ("h9", "h10"), "steiner"), 2, dies)
    two = Ranks(network.begin("b", ("h11", "h12"), "steiner"), 2, training())
    ended = {}
    while network.names:
        for found in network.advance():
            ended[found.name] = found.error
            network.remove(found.name)
    one.join()
    two.join()
    assert "rank 1" in ended["a"]
    assert ended["b"] == ""
    assert set(one.errors) == {0, 1}
    assert two.results == {0: 3, 1: 3}


def test_removed_while_its_ranks_wait(network):
    ranks = Ranks(network.begin("a", ("h9", "h10"), "steiner"), 2, training())
    while not network.joined("a"):
        pass
    network.remove("a", "Slurm has ended the job")
    ranks.join()
    assert ranks.errors
    assert network.advance() == []
    again = Ranks(network.begin("a", ("h9", "h10"), "steiner"), 2, training())
    assert network.advance()[0].error == ""
    network.remove("a")
    again.join()
    assert again.results == {0: 3, 1: 3}


@pytest.mark.parametrize("plan", ["steiner", "ring", "halving-doubling"])
def test_what_goes_wrong_with_one_collective_is_told_to_all_and_the_next_works(network, plan):
    def work(comm):
        said = []
        words = np.full(9, 2**31 - 1, np.int32)
        for call in (lambda: comm.broadcast(np.zeros(3, np.float32)), lambda: comm.all_reduce(words)):
            with pytest.raises((RefusedError, SaturatedError)) as caught:
                call()
            said.append(str(caught.value))
        assert (words == 2**31 - 1).all()
        return said, int(comm.all_reduce(np.full(9, comm.rank, np.int32))[0])

    ranks = Ranks(network.begin("a", ("h9", "h10", "h13"), plan), 3, work)
    (ended,) = network.advance()
    network.remove("a")
    ranks.join()
    refused = "broadcast: ranks that another scheduler starts have all_reduce and barrier"
    assert ranks.results == dict.fromkeys(range(3), ([refused, "a: a sum of int32 lies beyond int32"], 3))
    assert (ended.error, ended.rounds) == ("", 2)


def test_a_rank_that_does_not_take_an_error_ends_its_job(network):
    told = threading.Barrier(2)

    def work(comm):
        try:
            comm.all_reduce(np.full(9, 2**31 - 1, np.int32))
        finally:
            told.wait(60)  # otherwise the other rank may hear of this one's end first
            comm._backend._connection.close()  # as if its process ended

    ranks = Ranks(network.begin("a", ("h9", "h10"), "steiner"), 2, work)
    (ended,) = network.advance()
    network.remove("a")
    ranks.join()
    assert "ended without leaving the group" in ended.error
    assert {type(error) for error in ranks.errors.values()} == {SaturatedError}


def test_a_rank_that_there_is_not_and_a_second_one(network):
    folder = network.begin("a", ("h9", "h10"), "steiner")
    place = {ADDRESS: str(folder / "socket"), SIZE: "2"}
    with pytest.raises(ValueError, match="rank 7"):
        connect({**place, RANK: "7"})
    ranks = Ranks(folder, 2, training())
    while not network.joined("a"):
        pass
    with pytest.raises(ClusterError, match="connected already"):
        connect({**place, RANK: "0"})
    network.advance()
    network.remove("a")
    ranks.join()
    assert not ranks.errors


def test_a_name_is_there_once_and_trees_are_given_back(network):
    network.begin("a", ("h9", "h10"), "steiner")
    with pytest.raises(ClusterError, match="already"):
        network.begin("a", ("h9", "h10"), "steiner")
    network.remove("a")
    for number in range(40):
        network.begin(f"b{number}", ("h9", "h10", "h13"), ("steiner", "rina")[number % 2])
        network.remove(f"b{number}")
    resources = network._switches.controller.resources
    assert {resources.free(switch.name) for switch in network.topology.switches} == {resources.slots}
    assert network.names == []
    assert list(network.folder.iterdir()) == []


HOSTILE = [
    "",
    ".",
    "..",
    "../x",
    "../../x",
    str(Path("/").resolve() / "p4r-x"),
    "a/b",
    "a\nb",
    "a'b\"c",
    "$(id)",
    "\0",
    "\x1b[2J",
    "é\u2028",
    "\ud800",
    "x" * 100_000,
]


def test_what_jobs_are_called_reaches_no_path_and_no_message(network):
    """Each job has a folder directly below the network's, and its sums."""
    before = {path.name for path in network.folder.parent.iterdir()}
    for name in HOSTILE:
        folder = network.begin(name, ("h9", "h10"), "steiner")
        assert folder.parent == network.folder
        assert folder.parent.resolve() == folder.resolve().parent
        assert network.missing().isprintable()
        assert len(network.missing()) < 200
        ranks = Ranks(folder, 2, training(600, 1))
        (ended,) = network.advance()
        assert (ended.name, ended.error) == (name, "")
        network.remove(name)
        ranks.join()
        assert (ranks.results, ranks.errors) == ({0: 1, 1: 1}, {})
    assert list(network.folder.iterdir()) == []
    assert {path.name for path in network.folder.parent.iterdir()} == before


def test_two_jobs_with_names_that_are_no_folders_are_told_apart(network):
    folders = [network.begin(name, (host,), "") for name, host in (("a/b", "h1"), ("a//b", "h5"), ("b", "h9"))]
    assert len(set(folders)) == 3
    assert folders[2].name == "b", "whoever knows a plain name finds its folder"
    with pytest.raises(ClusterError, match="'a/b' is in the network already"):
        network.begin("a/b", ("h10",), "")
    for name in ("a/b", "a//b", "b"):
        network.remove(name)


def test_a_job_whose_folder_cannot_be_made_leaves_nothing(network):
    (network.folder / "a").mkdir()
    with pytest.raises(ClusterError, match="File exists"):
        network.begin("a", ("h9", "h10"), "steiner")
    assert network.names == []
    (network.folder / "a").rmdir()
    network.begin("a", ("h9", "h10"), "steiner")
    network.remove("a")
