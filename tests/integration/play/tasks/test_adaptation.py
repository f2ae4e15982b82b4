"""Slots by value, moves and rescues on packets: decisions, their execution, and unchanged weights."""

from dataclasses import replace

import pytest

from p4reduce.control_plane.orchestrator import TaskState
from p4reduce.control_plane.placement import ClusterView, Racks
from p4reduce.control_plane.plans.routes import frame_bytes, frame_time_ps
from p4reduce.control_plane.scheduling import NetworkState, Task
from p4reduce.control_plane.scheduling.task import WantedHosts
from p4reduce.play.tasks.world import World
from p4reduce.topologies import leaf_spine
from tests.support.orchestrated.bench import (
    LANES,
    OPTIONS,
    PROGRAM,
    PS_PER_US,
    KillAt,
    check_end,
    digests,
    open_store,
    orchestrating,
    rounds_of,
    run_killed,
    two_spines,
)

FEW = 128
"""slots of a switch: room for one tree of these tasks"""


def racks():
    return leaf_spine(leaves=2, spines=2, hosts=4, servers=2)


def wanting(name, count, *, rounds=8, elements=4000, **more):
    return Task(name, "", (), elements, rounds, 20 * PS_PER_US, wanted=WantedHosts(count), **more)


def two_tasks():
    """Return two tasks; the second, which arrives later, saves more."""
    return [
        Task("small", "server1", ("h1", "h2"), 2000, 12, 60 * PS_PER_US),
        Task("large", "server1", ("h3", "h4", "h5", "h6"), 8000, 8, 20 * PS_PER_US, arrival_ps=100 * PS_PER_US),
    ]


def run(tmp_path, tasks, topology, *, switch_slots=None, during=None, background=None, **options):
    """Run tasks; return an open database in which all have ended."""
    with World(topology, PROGRAM, background=background) as world:
        store = open_store(tmp_path / "t.sqlite")
        store.submit(tasks)
        with orchestrating(world, store, options=replace(OPTIONS, **options), slots=switch_slots) as orchestrator:
            if during is not None:
                during(world)
            orchestrator.run()
        check_end(world, store)
        return store


def whats(store, name):
    return [one["what"] for one in store.history.replans(name)]


@pytest.fixture(scope="module")
def plenty(tmp_path_factory):
    with run(tmp_path_factory.mktemp("plenty"), two_tasks(), racks()) as store:
        return digests(store)


def test_slots_go_to_whom_they_save_most_and_come_back(tmp_path, plenty):
    with run(tmp_path, two_tasks(), racks(), switch_slots=FEW, slots="value") as store:
        assert {row.state for row in store.tasks()} == {TaskState.FINISHED}
        assert digests(store) == plenty
        assert whats(store, "small") == ["hosts add", "tree"]
        assert whats(store, "large") == ["tree"]
        (given,) = store.history.replans("large")
        assert given["saving_s"] > given["cost_s"] > 0
        assert given["done_ps"] > given["at_ps"]
        reasons = [one["reason"] for one in store.history.changes("large") if one["after"] == "re-scheduled"]
        assert "tree of" in reasons[0]
        (why,) = [one["why"] for one in store.history.decisions("large") if one["what"] == "tree"]
        assert why["tree_s"] < why["hosts_add_s"]
        rounds_of(store, {"small": 12, "large": 8})


def test_first_come_first_served_with_whole_trees_changes_nothing_later(tmp_path, plenty):
    with run(tmp_path, two_tasks(), racks(), switch_slots=FEW, slots="whole") as store:
        assert digests(store) == plenty
        assert store.history.replans() == []


def test_killed_between_any_two_steps_of_a_change_it_has_the_same_sums(tmp_path, plenty):
    options = replace(OPTIONS, slots="value")
    for step in ("intended change", "installed both", "recorded installation", "told of change", "report replanned"):
        path = tmp_path / f"{step}.sqlite"
        with open_store(path) as store:
            store.submit(two_tasks())
        with World(racks(), PROGRAM) as world:
            steps = run_killed(world, path, [KillAt(1, step), KillAt(2, step)], options=options, slots=FEW)
            assert step in steps
            with open_store(path) as store:
                check_end(world, store)
                assert digests(store) == plenty, step


def test_workers_move_to_where_a_round_is_quicker_and_the_model_goes_with_them(tmp_path):
    """The task begins across two racks with a thin link; when others end, one rack has room for it."""
    topology = leaf_spine(leaves=2, spines=1, hosts=4, servers=2, uplink="2G")
    tasks = [
        Task("a1", "server1", ("h1", "h2"), 2000, 4, 20 * PS_PER_US),
        Task("a2", "server2", ("h5", "h6"), 2000, 4, 20 * PS_PER_US),
        wanting("b", 3, rounds=20, elements=10_000),
    ]
    (tmp_path / "still").mkdir()
    with run(tmp_path / "still", tasks, topology) as store:
        expected, still = digests(store), store.task("b")
        assert store.history.replans() == []
    with run(tmp_path, tasks, topology, move=1.0, measure_every_ps=100 * PS_PER_US) as store:
        row, (moved,) = store.task("b"), store.history.replans("b")
        assert digests(store) == expected
        assert moved["what"] == "move"
        assert moved["saving_s"] > moved["cost_s"] > 0
        assert moved["model_bytes"] == 4 * 10_000 * 3
        assert row.finished_ps < still.finished_ps
        racks_of = [{topology.neighbours(host)[0] for host in one.task.workers} for one in (still, row)]
        assert [len(one) for one in racks_of] == [2, 1]
        (why,) = [one["why"] for one in store.history.decisions("b") if one["what"] == "move"]
        assert why["hosts"] == list(row.task.workers)
        assert why["new_s"] < why["old_s"]
    (tmp_path / "dear").mkdir()
    with run(tmp_path / "dear", tasks, topology, move=1e9, measure_every_ps=100 * PS_PER_US) as store:
        assert store.history.replans() == []
        assert [one["why"]["threshold"] for one in store.history.decisions("b") if one["what"] == "stay"][:1] == [1e9]


def test_a_host_that_dies_costs_a_round_where_moving_is_on(tmp_path):
    def die(world):
        world.change_link("h1", "leaf1", up=False, at_ps=100 * PS_PER_US)

    tasks = [wanting("a", 4, rounds=10)]
    (tmp_path / "alive").mkdir()
    with run(tmp_path / "alive", tasks, racks()) as store:
        expected = digests(store)
        assert "h1" in store.task("a").task.workers
    with run(tmp_path, tasks, racks(), during=die, move=1.0) as store:
        row = store.task("a")
        assert row.state is TaskState.FINISHED
        assert digests(store) == expected
        assert "h1" not in row.task.workers
        (moved,) = store.history.replans("a")
        assert moved["what"] == "rescue"
        assert "h1" in moved["cause"]
        assert moved["at_once"]
        assert moved["model_bytes"] == 4 * 4 * 4000
        rounds_of(store, {"a": 10})


def test_a_tree_that_no_other_can_replace_makes_place_for_hosts_that_add_up(tmp_path):
    """Both spines lose a leaf that is not needed: hosts take over the aggregation that switches cannot do."""
    topology = two_spines()
    tasks = [Task("t", "server1", ("h1", "h3", "h5"), 4000, 6, 20 * PS_PER_US)]
    (tmp_path / "whole").mkdir()
    with run(tmp_path / "whole", tasks, topology) as store:
        expected = digests(store)
    asked = []

    def policy(task, state, *, lanes=256):
        from p4reduce.control_plane.scheduling import Rejection, policy_named

        if state.down and task.aggregation == "switches":
            asked.append(task.name)
            raise Rejection("no tree any more")
        return policy_named("steiner")(task, state, lanes=lanes)

    with World(topology, PROGRAM) as world, open_store(tmp_path / "t.sqlite") as store:
        store.submit(tasks)
        for leaf in ("leaf1", "leaf3"):
            world.change_link(leaf, "spine1", up=False, at_ps=70 * PS_PER_US)
        with orchestrating(world, store, policy=policy) as orchestrator:
            orchestrator.run()
        assert asked
        assert digests(store) == expected
        assert whats(store, "t") == ["rescue"]
        check_end(world, store)


def test_data_are_read_on_packets_as_long_as_predicted(tmp_path):
    """INA-aware placement predicts the reading time; the hosts need that time."""
    wanted = WantedHosts(2, ("h1", "server2", "server2"), 2_000_000)
    tasks = [Task("t", "", (), 2000, 2, 20 * PS_PER_US, wanted=wanted)]
    with run(tmp_path, tasks, racks(), placement="random") as store:
        row = store.task("t")
        (why,) = [one["why"] for one in store.history.decisions("t") if one["what"] == "place"]
        first = store.history.rounds("t")[0]
        took_s = (first["started_ps"] - row.started_ps) / 1e12
    assert row.task.workers[0] == "h1"  # h1 has one of the shards; the other worker, chosen at random, reads two
    cluster = ClusterView(Racks(racks()), NetworkState(racks()), {}, {})
    predicted_s = cluster.read_seconds(wanted, row.task.workers)
    framing = frame_time_ps(frame_bytes(LANES), 10**10) / frame_time_ps(4 * LANES - 24, 10**10)
    assert took_s == pytest.approx(predicted_s * framing, rel=0.03)
    assert why["placement"] == "random"
