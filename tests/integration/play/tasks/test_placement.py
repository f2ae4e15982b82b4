"""Tasks without named hosts, on packets: the scheduler assigns hosts, and the record says why."""

from dataclasses import replace

import pytest

from p4reduce.control_plane.orchestrator import TaskState
from p4reduce.control_plane.scheduling import Task
from p4reduce.control_plane.scheduling.task import WantedHosts
from p4reduce.play.tasks.world import World
from tests.support.orchestrated.bench import (
    OPTIONS,
    PROGRAM,
    PS_PER_US,
    KillAt,
    check_end,
    digests,
    open_store,
    orchestrating,
    run_killed,
    two_spines,
)


def wanting(name, count, rounds=2, **more):
    return Task(name, "", (), 2000, rounds, 20 * PS_PER_US, wanted=WantedHosts(count), **more)


def run(tmp_path, tasks, topology=None, slowdowns=None, during=None, **options):
    with World(topology or two_spines(), PROGRAM, slowdowns=slowdowns) as world:
        store = open_store(tmp_path / "t.sqlite")
        store.submit(tasks)
        with orchestrating(world, store, options=replace(OPTIONS, **options)) as orchestrator:
            if during is not None:
                during(world)
            orchestrator.run()
        check_end(world, store)
        return store


def why(store, name, what):
    return [one["why"] for one in store.history.decisions(name) if one["what"] == what]


def test_chosen_hosts_give_the_sums_of_the_same_hosts_by_name(tmp_path):
    (tmp_path / "named").mkdir()
    with run(tmp_path, [wanting("a", 3), wanting("b", 2)], placement="ina-aware") as store:
        rows = {row.name: row for row in store.tasks()}
        assert {row.state for row in rows.values()} == {TaskState.FINISHED}
        assert not set(rows["a"].task.workers) & set(rows["b"].task.workers)
        assert rows["a"].task.server == "server1"
        (reason,) = why(store, "a", "place")
        assert reason["placement"] == "ina-aware"
        assert tuple(reason["workers"]) == rows["a"].task.workers
        assert reason["iteration_s"] > 0
        found = digests(store)
        again = [row.task for row in rows.values()]
    assert all(task.wanted is None for task in again)
    with run(tmp_path / "named", again) as store:
        assert digests(store) == found


def test_a_task_larger_than_the_cluster_is_rejected_at_once_and_one_that_does_not_fit_now_waits(tmp_path):
    with run(tmp_path, [wanting("all", 6), wanting("large", 7), wanting("next", 6), wanting("small", 1)]) as store:
        rows = {row.name: row for row in store.tasks()}
        assert rows["large"].state is TaskState.REJECTED
        assert rows["large"].reason.startswith("it wants 7 hosts with 1 slots each; the cluster has 6 such hosts")
        assert rows["next"].state is rows["small"].state is TaskState.FINISHED
        assert why(store, "next", "wait")[0]["reason"].endswith(
            "it wants 6 hosts with 1 free slots each; now there are 0"
        )


def test_hosts_that_rounds_show_to_be_slow_are_left_to_those_who_must(tmp_path):
    tasks = [wanting("first", 6), wanting("second", 4, arrival_ps=10**12), wanting("third", 6, arrival_ps=2 * 10**12)]
    slow = {"h1": 5.0, "h4": 3.0}
    with run(tmp_path, tasks, slowdowns=slow, placement="ina-aware", measure_every_ps=10**12) as store:
        assert set(store.task("second").task.workers) == {"h2", "h3", "h5", "h6"}
        found = store.history.slowdowns()
        assert {host: round(factor, 6) for host, factor in found.items()} == {
            **dict.fromkeys(["h2", "h3", "h5", "h6"], 1.0),
            **slow,
        }


def test_a_host_that_dies_fails_its_task_with_the_reason_and_gets_no_other_one(tmp_path):
    def die(world):
        world.change_link("h1", "leaf1", up=False, at_ps=60 * PS_PER_US)

    tasks = [wanting("a", 6, rounds=50), wanting("b", 5, arrival_ps=10**9), wanting("c", 6, arrival_ps=10**9)]
    with run(tmp_path, tasks, during=die) as store:
        assert store.task("a").state is TaskState.FAILED
        assert "h1" in store.task("a").reason
        assert "is down" in store.task("a").reason
        assert "h1" not in store.task("b").task.workers
        assert store.task("b").state is TaskState.FINISHED
        assert store.task("c").state is TaskState.REJECTED
        assert "now there are 5" in store.task("c").reason


@pytest.mark.parametrize(
    ("order", "expected"),
    [("fifo", "abcd"), ("priority", "adcb"), ("sjf", "acdb"), ("edf", "abdc"), ("fair", "acbd")],
)
def test_queue_orders(tmp_path, order, expected):
    """Each task takes all hosts, so they run in sequence; 'a' arrives first."""
    tasks = [
        wanting("a", 6, owner="x"),
        wanting("b", 6, rounds=6, owner="x", arrival_ps=1, deadline_ps=10**13),
        wanting("c", 6, rounds=2, owner="y", arrival_ps=2, priority=3),
        wanting("d", 6, rounds=4, owner="y", arrival_ps=3, priority=7, deadline_ps=2 * 10**13),
    ]
    with run(tmp_path, tasks, order=order) as store:
        began = {row.started_ps: row.name for row in store.tasks()}
        assert "".join(began[at_ps] for at_ps in sorted(began)) == expected


@pytest.mark.parametrize(("backfill", "expected"), [(True, ["a", "small", "b"]), (False, ["a", "b", "small"])])
def test_with_and_without_back_filling(tmp_path, backfill, expected):
    tasks = [wanting("a", 4, rounds=8), wanting("b", 6, arrival_ps=1), wanting("small", 2, arrival_ps=2)]
    with run(tmp_path, tasks, backfill=backfill) as store:
        began = sorted(store.tasks(), key=lambda row: row.started_ps)
        assert [row.name for row in began] == expected


def test_killed_anywhere_it_has_the_same_sums(tmp_path):
    tasks = [wanting("a", 3), wanting("b", 3)]
    with run(tmp_path, tasks) as store:
        expected = digests(store)
    for step in ("intended", "installed both", "started"):
        path = tmp_path / f"{step}.sqlite"
        with open_store(path) as store:
            store.submit(tasks)
        with World(two_spines(), PROGRAM) as world:
            run_killed(world, path, [KillAt(2, step)])
            with open_store(path) as store:
                check_end(world, store)
                assert digests(store) == expected
