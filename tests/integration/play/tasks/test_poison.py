"""A faulty task harms only itself: good tasks finish, restarts do not repeat the fault, the network stays."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.orchestrator import PlanPhase, StoreError, TaskOrder, TaskRefusedError, TaskState
from p4reduce.control_plane.scheduling import Task, policy_named
from p4reduce.play.tasks.world import World
from tests.support.orchestrated.bench import (
    PROGRAM,
    PS_PER_US,
    check_end,
    open_store,
    orchestrating,
    some_tasks,
    two_spines,
)

GOOD = Task("good", "h6", ("h4", "h2"), 2000, 2, 20 * PS_PER_US)
SPEC = {"name": "bad", "server": "h1", "workers": ["h2"], "elements": 5}
SMALL = 10**6
"""bytes for models: 10^4 elements fit, 10^6 do not"""


def write_row(store, spec, name):
    """Write a row that `submit` would refuse."""
    with store.transaction():
        store._connection.execute(
            "INSERT INTO tasks (name, spec, arrival_ps, state) VALUES (?, ?, 0, 'queued')", (name, spec)
        )


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("elements", 10**14, "is above"),
        ("elements", 10**30, "is above"),
        ("elements", 0, "is below 1"),
        ("elements", float("nan"), "is no whole number"),
        ("elements", 1.5, "is no whole number"),
        ("elements", True, "is no whole number"),
        ("elements", "5", "is no whole number"),
        ("rounds", 2**40, "is above"),
        ("rounds", -1, "is below 1"),
        ("training_ps", float("inf"), "is no whole number"),
        ("training_ps", 10**30, "is above"),
        ("demand_bps", -1, "is below 0"),
        ("demand_bps", 10**30, "is above"),
        ("arrival_ps", 2**63, "is above"),
        ("deadline_ps", float("nan"), "is no whole number"),
        ("deadline_ps", 2**63, "is above"),
        ("priority", 8, "is above 7"),
        ("priority", 1.0, "is no whole number"),
        ("name", "", "a name is needed"),
        ("name", "a\nb", "printable"),
        ("name", "\ud800", "printable"),
        ("name", "x" * 10**6, "printable"),
        ("name", 7, "printable"),
        ("server", None, "is no name of a host"),
        ("workers", (), "at least one"),
        ("workers", ("h2", "h2"), "each named once"),
        ("workers", ("h1",), "each named once"),
        ("workers", (["h2"],), "is no name of a host"),
    ],
)
def test_what_no_task_can_be_is_refused_briefly(field, value, complaint):
    with pytest.raises(PlanError, match=complaint) as refused:
        Task(**{**SPEC, "workers": ("h2",), field: value})
    assert len(str(refused.value)) < 300


CANNOT_RUN = (
    Task("server", "nobody", ("h1", "h3"), 5),
    Task("worker", "h1", ("h3", "nobody"), 5),
    Task("switch as server", "leaf1", ("h3",), 5),
    Task("switch as worker", "h1", ("leaf1", "h3"), 5),
    Task("10,000 workers", "h1", tuple(f"x{number}" for number in range(10_000)), 5),
    Task("elements", "h1", ("h3",), 1 << 40),
    Task("demand", "h1", ("h3",), 5, demand_bps=10**15),
)


def test_tasks_that_cannot_run_leave_the_others_alone(tmp_path):
    with World(two_spines(), PROGRAM) as world, open_store(tmp_path / "t.sqlite") as store:
        store.submit([*CANNOT_RUN, GOOD])
        for _ in range(2):
            with orchestrating(world, store) as orchestrator:
                orchestrator.run()
        for bad in CANNOT_RUN:
            row = store.task(bad.name)
            assert row.state in (TaskState.REJECTED, TaskState.FAILED), bad.name
            assert row.reason, bad.name
            assert len([one for one in store.history.changes(bad.name) if one["after"] == row.state]) == 1, bad.name
        assert store.task("good").state is TaskState.FINISHED
        check_end(world, store)


UNREADABLE = (
    "not json",
    "[]",
    "{}",
    "[" * 100_000,
    {"elements": 10**14},
    {"elements": float("nan")},
    {"workers": ["h1"]},
    {"workers": 5},
    {"speed": 5},
    {"name": "good"},
)


def test_rows_that_cannot_be_read_are_rejected(tmp_path):
    rows = {f"bad{number}": spec for number, spec in enumerate(UNREADABLE)}
    with World(two_spines(), PROGRAM) as world, open_store(tmp_path / "t.sqlite") as store:
        for name, spec in rows.items():
            write_row(store, spec if isinstance(spec, str) else json.dumps({**SPEC, "name": name, **spec}), name)
        store.submit([GOOD])
        with orchestrating(world, store) as orchestrator:
            orchestrator.run()
        for name, spec in rows.items():
            assert store.task(name).state is TaskState.REJECTED, spec
            assert store.task(name).reason.startswith("its specification"), spec
            assert len(store.task(name).reason) < 400
        assert store.task("good").state is TaskState.FINISHED
        check_end(world, store)


def test_a_policy_that_breaks_on_a_task_breaks_on_that_task(tmp_path):
    steiner = policy_named("steiner")

    def broken(task, state, *, lanes=256):
        if task.name == "bad":
            raise ZeroDivisionError("a bug")
        return steiner(task, state, lanes=lanes)

    with World(two_spines(), PROGRAM) as world, open_store(tmp_path / "t.sqlite") as store:
        store.submit([Task("bad", "h1", ("h3",), 5), GOOD])
        with orchestrating(world, store, policy=broken) as orchestrator:
            orchestrator.run()
        assert store.task("bad").reason == "its trees could not be planned: ZeroDivisionError: a bug"
        assert store.task("good").state is TaskState.FINISHED
        check_end(world, store)


def test_hosts_take_no_more_models_than_there_is_memory_for(tmp_path):
    with World(two_spines(), PROGRAM, most_bytes=SMALL) as world, open_store(tmp_path / "t.sqlite") as store:
        store.submit([Task("large", "server1", ("h1", "h3"), 10**6), GOOD, Task("again", "h1", ("h3",), 10**4)])
        with orchestrating(world, store) as orchestrator:
            orchestrator.run()
        states = {row.name: str(row.state) for row in store.tasks()}
        assert states == {"large": "failed", "good": "finished", "again": "finished"}
        assert "its hosts cannot run it: task large: ClusterError: 34 MB for its models" in store.task("large").reason
        check_end(world, store)


def test_another_task_of_the_same_name_is_refused_by_the_hosts(tmp_path):
    with World(two_spines(), PROGRAM) as world, open_store(tmp_path / "t.sqlite") as store:
        store.submit([GOOD])
        with orchestrating(world, store) as orchestrator:
            orchestrator.run(30 * PS_PER_US)
            (row,) = store.plans((PlanPhase.ACTIVE,))
            plan = orchestrator.installer.plan_of(row)
            order = TaskOrder(GOOD, {"both": plan}, dict.fromkeys(GOOD.workers, 0))
            world.start(order)  # starting again changes nothing
            from dataclasses import replace

            with pytest.raises(TaskRefusedError, match="another task of that name"):
                world.start(replace(order, plans={"both": replace(plan, epoch=9)}))
            orchestrator.run()
        assert store.task("good").state is TaskState.FINISHED


@pytest.mark.parametrize(
    ("at_ps", "said"),
    [(-(2**63), ""), (-5, ""), (10**17, ""), (10**18 + 1, "which no run reaches"), (2**63 - 1, "which no run reaches")],
)
def test_a_clock_that_has_jumped(tmp_path, at_ps, said):
    """Times of another network, slightly or far behind this one's: tasks run on, or a message says why not."""
    path = tmp_path / "tasks.sqlite"
    with open_store(path) as store:
        store.submit([Task("a", "server1", ("h1", "h3"), 2000, 2)])
        store.set_fact("instance", "another")
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("UPDATE changes SET at_ps = ?", (at_ps,))
        raw.execute("INSERT INTO link_measurements VALUES (?, 'leaf1', 1, 5, 5, 0.5)", (at_ps,))
        raw.commit()
    with World(two_spines(), PROGRAM) as world, open_store(path) as store:
        if said:
            with pytest.raises(StoreError, match=said), orchestrating(world, store) as orchestrator:
                orchestrator.run()
            assert world.now() == 0
            return
        with orchestrating(world, store) as orchestrator:
            orchestrator.run()
        assert store.task("a").state is TaskState.FINISHED
        assert world.now() >= max(at_ps, 0)
        check_end(world, store)


def test_a_clock_that_goes_back_in_a_network_that_runs(tmp_path):
    """Measurements later than now do not keep tasks from running."""
    path = tmp_path / "tasks.sqlite"
    with World(two_spines(), PROGRAM) as world:
        for name in ("a", "b"):
            with open_store(path) as store:
                store.submit([Task(name, "server1", ("h1", "h3"), 2000, 2)])
                with orchestrating(world, store) as orchestrator:
                    orchestrator.run()
                assert store.task(name).state is TaskState.FINISHED
            with closing(sqlite3.connect(path)) as raw:
                raw.execute("UPDATE link_measurements SET at_ps = at_ps + 1000000000000000")
                raw.execute("UPDATE changes SET at_ps = at_ps + 1000000000000000")
                raw.commit()


DEATHS = {
    "two processes": (("h2", "second"), ("h4", "second")),
    "two hosts": (("h2", None), ("h4", None)),
    "a host and a process elsewhere": (("h2", None), ("h4", "second")),
    "a process and its host": (("h2", "second"), ("h2", None)),
    "a worker and the server": (("h2", "second"), ("h6", None)),
    "all workers": (("h2", None), ("h4", None), ("h5", "second")),
}


@pytest.mark.parametrize(
    ("how", "which"),
    [*(("shrink", one) for one in DEATHS), ("abort", "two hosts"), ("raise", "a worker and the server")],
)
def test_deaths_at_one_time_have_one_end_in_any_order(tmp_path, how, which):
    deaths, ends = DEATHS[which], []
    for number, order in enumerate((deaths, deaths[::-1])):
        with (
            World(two_spines(), PROGRAM) as world,
            open_store(tmp_path / f"{number}.sqlite") as store,
            orchestrating(world, store) as orchestrator,
        ):
            store.submit([replace(task, on_failure=how) for task in some_tasks()])
            for host, task in order:
                if task is None:
                    world.damage.end_host(host, at_ps=80 * PS_PER_US)
                else:
                    world.damage.end_process(host, task=task, at_ps=80 * PS_PER_US)
            orchestrator.run()
            check_end(world, store)
            ends.append(
                {row.name: (row.state, row.task.workers, row.digest, bool(row.reason)) for row in store.tasks()}
            )
    assert ends[0] == ends[1]
    dead = {host for host, _ in deaths}
    goes_on = how == "shrink" and "h6" not in dead and len(dead) < 3
    of_first = how != "shrink" and ("h5", None) in deaths
    assert ends[0]["first"][0] is (TaskState.FAILED if of_first else TaskState.FINISHED)
    assert ends[0]["second"][0] is (TaskState.FINISHED if goes_on else TaskState.FAILED)
    assert not dead & set(ends[0]["second"][1]) or not goes_on
