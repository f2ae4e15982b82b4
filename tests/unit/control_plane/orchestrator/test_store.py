"""The database: states, unique keys, terms, versions."""

import os
import sqlite3

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.orchestrator import PlanPhase, PlanRow, Store, StoreError, TaskError, TaskState
from p4reduce.control_plane.orchestrator.options import FOLLOWING
from p4reduce.control_plane.scheduling import Task


def task(name="a", **fields):
    return Task(name, "h1", ("h2", "h3"), 100, **fields)


def plan(generation, job=1, epoch=0, phase=PlanPhase.INSTALLING):
    return PlanRow(generation, "a", "both", job, epoch, phase, {("h1", 1): 5}, "{}")


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "tasks.sqlite", synchronous=False) as opened:
        yield opened


def test_a_task_comes_back_as_it_was_submitted(store):
    given = task(rounds=3, training_ps=5, demand_bps=7, arrival_ps=2, deadline_ps=99, priority=4)
    store.submit([given])
    with Store(store.path) as other:
        row = other.task("a")
    assert row.task == given
    assert (row.state, row.reason, row.cancel, row.started_ps) == (TaskState.QUEUED, "", False, None)


@pytest.mark.parametrize(
    "placed",
    [
        "nothing",
        "[]",
        '{"workers": ["h2", "h3"]}',
        '{"workers": [], "server": "h1"}',
        '{"workers": [], "server": "h1", "ranks": []}',
        '{"workers": ["h2", "h2"], "server": "h1"}',
        '{"workers": ["h2", "h3"], "server": "h1", "ranks": []}',
        '{"workers": ["h2", "h3"], "server": "h1", "ranks": [0, 0]}',
        '{"workers": ["h2", "h3"], "server": "h1", "ranks": [0, -1]}',
    ],
)
def test_hosts_that_cannot_be_read_are_their_tasks_fault(store, placed):
    store.submit([task("a"), task("b")])
    with store.transaction():
        store._connection.execute("UPDATE tasks SET placed = ? WHERE name = 'a'", (placed,))
    broken, whole = store.tasks()
    assert broken.fault.startswith("its hosts in the database cannot be used")
    assert (whole.task, whole.fault) == (task("b"), "")


def test_tasks_are_submitted_all_or_none(store):
    store.submit([task("a")])
    with pytest.raises(TaskError, match="task a: name: there is such a task already"):
        store.submit([task("b"), task("a")])
    assert [row.name for row in store.tasks()] == ["a"]


def test_tasks_are_listed_by_arrival(store):
    store.submit([task("late", arrival_ps=9), task("first"), task("second")])
    assert [row.name for row in store.tasks([TaskState.QUEUED])] == ["first", "second", "late"]
    assert store.tasks([TaskState.FAILED]) == []


@pytest.mark.parametrize("before", TaskState)
def test_only_states_that_may_follow_do(store, before):
    ways = {TaskState.QUEUED: []}
    for _ in TaskState:
        for state, way in list(ways.items()):
            for following in FOLLOWING[state]:
                ways.setdefault(following, [*way, following])
    for after in TaskState:
        name = f"{before}-{after}"
        store.submit([task(name)])
        for state in ways[before]:
            store.change(name, state, 1, "because")
        if after in FOLLOWING[before]:
            store.change(name, after, 2, "why")
            assert store.task(name).state is after
            assert store.history.changes(name)[-1] == {"at_ps": 2, "before": before, "after": after, "reason": "why"}
        else:
            with pytest.raises(ValueError, match="cannot follow"):
                store.change(name, after, 2)
            assert store.task(name).state is before


def test_an_ended_task_cannot_be_cancelled(store):
    store.submit([task()])
    store.request_cancel("a")
    assert store.task("a").cancel
    store.change("a", TaskState.REJECTED, 0, "cancelled")
    with pytest.raises(TaskError, match="task a is rejected already"):
        store.request_cancel("a")
    with pytest.raises(TaskError, match="there is no task 'b'"):
        store.request_cancel("b")


def test_keys_and_generations_are_given_once(store):
    store.submit([task()])
    assert store.free_keys(2) == [(1, 0), (2, 0)]
    store.add_plan(plan(4), 0)
    store.set_phase(4, PlanPhase.REMOVED)
    assert store.free_keys(1) == [(2, 0)]
    assert store.next_epoch(1) == 1
    assert store.next_generation() == 5
    for again in (plan(4, job=9), plan(5)):
        with pytest.raises(StoreError, match="was used before"):
            store.add_plan(again, 0)
    assert [row.generation for row in store.plans(tuple(PlanPhase))] == [4]
    assert store.plans() == []
    assert store.plans(tuple(PlanPhase), "a")[0].demand_bps == {("h1", 1): 5}


def test_job_numbers_that_come_round_go_on_with_their_epochs(store):
    store.submit([task()])
    for generation, (job, epoch, phase) in enumerate(
        [
            (65_535, 0, PlanPhase.REMOVED),
            (7, 3, PlanPhase.ACTIVE),
            (8, 65_535, PlanPhase.REMOVED),
            (9, 12, PlanPhase.REMOVED),
        ],
        1,
    ):
        store.add_plan(plan(generation, job, epoch, phase), 0)
    assert store.free_keys(2) == [(65_535, 1), (9, 13)]
    with pytest.raises(PlanError, match="no job number is left"):
        store.free_keys(3)
    with pytest.raises(PlanError, match="job 8 has used all its epochs"):
        store.next_epoch(8)


def test_a_new_orchestrator_shuts_out_the_old_one(store):
    store.submit([task()])
    assert store.take_charge() == 1
    with Store(store.path) as other:
        assert other.take_charge() == 2
        with pytest.raises(StoreError, match="another orchestrator has taken over"):
            store.change("a", TaskState.FAILED, 0, "no")
        other.change("a", TaskState.SCHEDULED, 0)
    assert store.task("a").state is TaskState.SCHEDULED


def test_what_fails_in_a_transaction_leaves_nothing(store):
    store.submit([task()])

    def stop_half_way():
        with store.transaction():
            store.change("a", TaskState.SCHEDULED, 0)
            store.add_plan(plan(1), 0)
            raise RuntimeError("half-way")

    with pytest.raises(RuntimeError, match="half-way"):
        stop_half_way()
    assert store.task("a").state is TaskState.QUEUED
    assert store.plans(tuple(PlanPhase)) == []
    assert len(store.history.changes("a")) == 1


@pytest.mark.parametrize("version", [0, 1, 8])
def test_a_database_of_another_version_is_refused(store, version):
    store.close()
    with sqlite3.connect(store.path) as raw:
        raw.execute(f"PRAGMA user_version = {version}")
    raw.close()
    before = store.path.read_bytes()
    with pytest.raises(StoreError, match=f"version {version} of the tables, and this p4reduce reads version 3 alone"):
        Store(store.path)
    assert store.path.read_bytes() == before


def test_a_database_is_its_owners_alone(tmp_path):
    before = os.umask(0)
    try:
        with Store(tmp_path / "new.sqlite") as store:
            store.take_charge()
            assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
            assert len(list(tmp_path.iterdir())) == 3, "SQLite's files beside it were looked at, too"
    finally:
        os.umask(before)


def test_what_is_no_regular_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "fifo"):
        with pytest.raises(StoreError, match="is not a regular file"):
            Store(path)
    with pytest.raises(StoreError, match="does its folder exist"):
        Store(tmp_path / "none" / "new.sqlite")


def test_an_empty_file_is_a_new_database(tmp_path):
    """Its creator was killed before it made the tables."""
    (tmp_path / "new.sqlite").touch()
    with Store(tmp_path / "new.sqlite") as store:
        assert store.take_charge() == 1


def test_another_programs_database_is_refused(tmp_path):
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE things (name TEXT)")
    raw.close()
    with pytest.raises(StoreError, match="is a database of another program"):
        Store(path)


def test_a_file_that_is_no_database_is_refused(tmp_path):
    path = tmp_path / "text.sqlite"
    path.write_text("not a database, but long enough to be looked at\n" * 100)
    with pytest.raises(StoreError, match=r"text\.sqlite: file is not a database"):
        Store(path)
    with pytest.raises(StoreError, match="does its folder exist"):
        Store(tmp_path / "nowhere" / "tasks.sqlite")


def test_the_log_is_written_ahead(store):
    with sqlite3.connect(store.path) as raw:
        assert raw.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    raw.close()
