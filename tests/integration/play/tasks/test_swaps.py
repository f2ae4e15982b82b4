"""Tree swaps of running tasks: no chunk is lost or counted twice."""

import random
import struct
from dataclasses import replace

import pytest

from p4reduce.control_plane.orchestrator import TaskState
from p4reduce.control_plane.scheduling import Rejection, TreeDecision, policy_named
from p4reduce.network.virtual import Faults
from p4reduce.play.tasks.world import World
from tests.support.orchestrated.bench import (
    OPTIONS,
    PROGRAM,
    PS_PER_MS,
    PS_PER_US,
    check_end,
    digests,
    open_store,
    orchestrating,
    rounds_of,
    some_tasks,
    two_spines,
    undisturbed,
)

TASKS = {"first": 3, "second": 3}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return undisturbed(tmp_path_factory.mktemp("undisturbed"), some_tasks(), two_spines())


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "tasks.sqlite") as opened:
        opened.submit(some_tasks())
        yield opened


def without(state, *links):
    """Return the network with some links down."""
    topology = state.topology
    ends = {(a, topology.port(a, b)) for link in links for a, b in (link, link[::-1])}
    return replace(state, down=state.down | ends)


def check_finished(world, store, expected):
    assert {row.state for row in store.tasks()} == {TaskState.FINISHED}
    assert digests(store) == expected
    rounds_of(store, TASKS)
    check_end(world, store)


@pytest.mark.parametrize("at_us", [35, 48, 77, 120])
def test_a_link_that_fails_moves_the_trees_that_used_it(store, expected, at_us):
    with World(two_spines(), PROGRAM) as world:
        for leaf in ("leaf1", "leaf3"):
            world.change_link(leaf, "spine1", up=False, at_ps=at_us * PS_PER_US)
        with orchestrating(world, store) as orchestrator:
            orchestrator.run()
        for swap in store.history.swaps():
            assert swap["cause"].startswith("link ")
            assert swap["resent_frames"] >= swap["in_flight"] > 0
            assert swap["duration_ps"] > 0
        assert store.history.swaps()
        assert "re-scheduled" in {change["after"] for change in store.history.changes("first")}
        check_finished(world, store, expected)


def wide_first(number):
    """A Steiner policy whose first ``number`` trees cross both spines, and so more links than needed."""
    steiner, asked = policy_named("steiner"), []

    def decide(task, state, *, lanes=256):
        asked.append(task.name)
        if len(asked) > number:
            return steiner(task, state, lanes=lanes)
        return steiner(task, without(state, ("leaf1", "spine1"), ("leaf2", "spine2")), lanes=lanes)

    return decide


def test_a_tree_that_saves_bytes_takes_over_while_the_old_one_still_works(store, expected):
    options = replace(OPTIONS, measure_every_ps=25 * PS_PER_US, threshold=0.1)
    with World(two_spines(), PROGRAM) as world:
        with orchestrating(world, store, policy=wide_first(1), options=options) as orchestrator:
            orchestrator.run()
        (swap,) = [one for one in store.history.swaps() if one["task"] == "first"]
        assert swap["cause"] == "saving"
        assert swap["saving_bytes"] > 0.1 * swap["cost_bytes"] > 0
        assert swap["in_flight"] > 0
        assert 0 < swap["resent_bytes"] <= swap["cost_bytes"]
        assert swap["late_frames"] > 0, "nothing of the old epoch was on its way: the swap came at an idle moment"
        assert swap["duration_ps"] > 0
        check_finished(world, store, expected)


@pytest.mark.parametrize("threshold", [1e9, None])
def test_a_tree_that_saves_too_little_for_its_interruption_does_not(store, expected, threshold):
    options = replace(OPTIONS, measure_every_ps=25 * PS_PER_US, threshold=threshold)
    with World(two_spines(), PROGRAM) as world:
        with orchestrating(world, store, policy=wide_first(1), options=options) as orchestrator:
            orchestrator.run()
        assert store.history.swaps() == []
        kept = [decision["why"] for decision in store.history.decisions("first") if decision["what"] == "keep"]
        assert bool(kept) == (threshold is not None)
        assert all(why["saving_bytes"] > 0 and not why["worthwhile"] for why in kept)
        check_finished(world, store, expected)


def one_spine_each(task, state, *, lanes=256):
    """A policy with uploads over one spine and broadcasts over the other, or both over the only one left."""
    steiner = policy_named("steiner")
    leaves = ("leaf1", "leaf2", "leaf3")

    def by(spine):
        try:
            return steiner(task, without(state, *((leaf, spine) for leaf in leaves)), lanes=lanes)
        except Rejection:
            return steiner(task, state, lanes=lanes)

    up, down = by("spine2"), by("spine1")
    return TreeDecision("own", task, up.upload, down.broadcast, up.demand_bps)


@pytest.mark.parametrize("at_us", [66, *(pytest.param(at_us, marks=pytest.mark.soak) for at_us in (52, 85))])
def test_two_trees_give_the_same_weights_and_are_swapped_one_by_one(store, expected, at_us):
    with World(two_spines(), PROGRAM) as world:
        world.change_link("leaf1", "spine1", up=False, at_ps=at_us * PS_PER_US)
        with orchestrating(world, store, policy=one_spine_each) as orchestrator:
            orchestrator.run()
        assert {one["role"] for one in store.history.swaps() if one["task"] == "first"} == {"upload"}
        check_finished(world, store, expected)


def test_hosts_that_add_up_themselves_change_their_paths_too(tmp_path, store):
    topology = two_spines()
    expected = undisturbed(tmp_path, some_tasks(), topology, policy="spff")
    with World(topology, PROGRAM) as world:
        for leaf in ("leaf1", "leaf3"):
            world.change_link(leaf, "spine1", up=False, at_ps=60 * PS_PER_US)
        with orchestrating(world, store, policy="spff") as orchestrator:
            orchestrator.run()
        assert store.history.swaps()
        check_finished(world, store, expected)


def test_a_link_that_comes_back_is_used_again(store, expected):
    with World(two_spines(), PROGRAM) as world:
        world.change_link("leaf1", "spine1", up=False, at_ps=45 * PS_PER_US)
        world.change_link("leaf1", "spine1", up=True, at_ps=80 * PS_PER_US)
        world.change_link("leaf1", "spine2", up=False, at_ps=90 * PS_PER_US)
        with orchestrating(world, store) as orchestrator:
            orchestrator.run()
        assert [row["what"] for row in store.history.decisions() if row["what"].startswith("link")] == [
            "link down",
            "link up",
            "link down",
        ]
        assert {one["epoch"] for one in store.history.swaps() if one["task"] == "first"} >= {1, 2}
        check_finished(world, store, expected)


@pytest.mark.parametrize("seed", range(2))
def test_trees_move_again_and_again_over_links_that_lose_duplicate_and_reorder(store, expected, seed):
    chance = random.Random(seed)
    faults = Faults(loss=0.01, duplicate=0.01, reorder=0.02)
    with World(two_spines(), PROGRAM, faults=faults, seed=seed) as world:
        at_us = 20
        for number in range(6):
            at_us += chance.randint(15, 60)
            ends = ("spine1", "spine2")[:: 1 if number % 2 else -1]
            for leaf in ("leaf1", "leaf2", "leaf3"):
                for spine, up in zip(ends, (True, False), strict=True):
                    world.change_link(leaf, spine, up=up, at_ps=at_us * PS_PER_US)
        with orchestrating(world, store) as orchestrator:
            orchestrator.run()
        assert len({(one["job"], one["epoch"]) for one in store.history.swaps()}) >= 3
        check_finished(world, store, expected)


def datagram(topology, source, target, size):
    """Return plain UDP to the first switch, not an INC packet."""
    here, there = topology.node(source), topology.node(target)
    head = struct.pack(">BBHHHBBHII", 0x45, 0, size - 14, 0, 0, 64, 17, 0, here.ip, there.ip)
    total = sum(struct.unpack(">10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = 0xFFFF - ((total & 0xFFFF) + (total >> 16))
    head = head[:10] + struct.pack(">H", checksum) + head[12:]
    ethernet = topology.node(topology.neighbour(source, 1)).mac.to_bytes(6, "big") + here.mac.to_bytes(6, "big")
    udp = struct.pack(">HHHH", 5000, 5000, size - 34, 0)
    return (ethernet + b"\x08\x00" + head + udp).ljust(size, b"\0")


def test_background_traffic_is_measured_to_the_byte(store):
    topology = two_spines()
    options = replace(OPTIONS, measure_every_ps=PS_PER_MS // 10)
    with World(topology, PROGRAM) as world:
        frame = datagram(topology, "h1", "h6", 1000)
        for number in range(50):
            world.network.fabric.send("h1", frame, at_ps=number * 2 * PS_PER_US)
        with orchestrating(world, store, options=options) as orchestrator:
            orchestrator.run(100 * PS_PER_US)
            hop = ("leaf3", topology.port("leaf3", "h6"))
            (sample,) = store.history.links(*hop)
            assert 40_000 <= sample["bytes"] - sample["inc_bytes"] <= 50_000
            assert orchestrator.state().background_bps[hop] == (sample["bytes"] - sample["inc_bytes"]) * 8 * 10**12 // (
                100 * PS_PER_US
            )
            assert 0 < sample["utilisation"] <= 1
            orchestrator.run()
        last = store.history.links(*hop)[-1]
        assert last["bytes"] - last["inc_bytes"] == 50_000
        (spine,) = store.history.switches("spine1")[-1:]
        assert spine["sent"] > 0
        check_end(world, store)


def test_a_task_leaves_a_link_that_background_traffic_fills(tmp_path):
    topology = two_spines()
    tasks = [replace(some_tasks(rounds=12)[0], demand_bps=4 * 10**9)]
    expected = undisturbed(tmp_path, tasks, topology)
    options = replace(OPTIONS, measure_every_ps=PS_PER_MS // 10, threshold=None)
    with World(topology, PROGRAM) as world, open_store(tmp_path / "tasks.sqlite") as store:
        store.submit(tasks)
        frame = datagram(topology, "h2", "h6", 1500)
        with orchestrating(world, store, options=options) as orchestrator:
            orchestrator.run(20 * PS_PER_US)
            used = {hop for plan in store.plans() for hop in plan.demand_bps}
            for number in range(400):  # 8 of the link's 10 Gb/s
                world.network.fabric.send("h2", frame, at_ps=(20 + number * 3 // 2) * PS_PER_US)
            orchestrator.run()
        (swap,) = store.history.swaps()
        assert swap["cause"].endswith("is overloaded")
        crowded = swap["cause"].split()[1:4:2]
        assert (crowded[0], topology.port(*crowded)) in used
        assert digests(store) == expected
        check_end(world, store)
