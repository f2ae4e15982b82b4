"""Tasks that restart from checkpoints instead of failing: their weights equal those of an undisturbed run."""

import contextlib
from dataclasses import replace

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.orchestrator import TaskState
from p4reduce.control_plane.scheduling import Task
from p4reduce.control_plane.scheduling.task import WantedHosts
from p4reduce.play.tasks.world import World
from p4switch.base.values import PS_PER_MS
from tests.support.orchestrated import deaths
from tests.support.orchestrated.bench import (
    OPTIONS,
    PROGRAM,
    PS_PER_US,
    KillAt,
    check_end,
    open_store,
    orchestrating,
    run_killed,
    two_spines,
)
from tests.support.orchestrated.sums import expected_digest, ranks_of

AT_PS = 150 * PS_PER_US
SOON = replace(OPTIONS, back_off_ps=100 * PS_PER_US)
TASK = Task("a", "server1", ("h1", "h3", "h5"), 3000, 6, 20 * PS_PER_US, max_restarts=2)
OTHER = Task("b", "server1", ("h2", "h4"), 3000, 6, 20 * PS_PER_US)


@contextlib.contextmanager
def site(tmp_path, *, kept=True):
    """A network, with or without checkpoints, and a database."""
    with (
        World(two_spines(), PROGRAM, checkpoints=tmp_path / "state" if kept else None) as world,
        open_store(tmp_path / "t.sqlite") as store,
    ):
        yield world, store


def restarts(store):
    return [one for one in store.history.decisions("a") if one["what"] == "restart"]


def changes(store):
    return [one["after"] for one in store.history.changes("a")]


def check(world, store, *, attempt, task=TASK):
    check_end(world, store)
    rows = {row.name: row for row in store.tasks()}
    assert {row.state for row in rows.values()} == {TaskState.FINISHED}, rows
    assert rows["a"].attempt == attempt
    assert rows["a"].digest == expected_digest(task, [range(len(task.workers) or 3)] * task.rounds)
    assert len(ranks_of(store, "a")) == task.rounds


@pytest.mark.parametrize("kept", [True, False], ids=["from a checkpoint", "from the first round"])
@pytest.mark.parametrize("host", ["h3", "server1"])
def test_it_goes_on_where_it_was_or_begins_anew(tmp_path, host, kept):
    with site(tmp_path, kept=kept) as (world, store):
        store.submit([TASK, OTHER])
        world.damage.end_process(host, task="a", at_ps=AT_PS)
        with orchestrating(world, store, options=SOON) as orchestrator:
            orchestrator.run()
        check(world, store, attempt=1)
        (again,) = restarts(store)
        assert again["why"]["not_before_ps"] == again["at_ps"] + SOON.back_off_ps
        assert "is lost" in again["why"]["reason"]
        rounds = store.history.rounds("a")
        before = [one for one in rounds if one["done_ps"] < AT_PS]
        assert bool(before) == kept
    assert not (tmp_path / "state").exists(), "nothing is left of it"


def test_a_host_that_is_away_for_a_while_is_waited_for_longer_and_longer(tmp_path):
    with site(tmp_path) as (world, store):
        task = replace(TASK, max_restarts=5)
        store.submit([task])
        world.damage.end_host("h3", at_ps=AT_PS, away_ps=PS_PER_MS)
        with orchestrating(world, store, options=SOON) as orchestrator:
            orchestrator.run()
        check(world, store, attempt=4, task=task)
        waits = [
            one["why"]["not_before_ps"] - one["at_ps"]
            for one in store.history.decisions("a")
            if one["what"] == "restart"
        ]
        assert waits == [SOON.back_off_ps << number for number in range(4)]


def test_with_none_left_it_fails_and_nothing_is_left(tmp_path):
    with site(tmp_path) as (world, store):
        store.submit([TASK, OTHER])
        world.damage.end_host("h3", at_ps=AT_PS)
        with orchestrating(world, store, options=SOON) as orchestrator:
            orchestrator.run()
        check_end(world, store)
        row = store.task("a")
        assert (row.state, row.attempt) == (TaskState.FAILED, 2)
        assert store.task("b").state is TaskState.FINISHED


def test_hosts_that_were_chosen_are_chosen_anew(tmp_path):
    task = replace(TASK, workers=(), wanted=WantedHosts(3))
    with site(tmp_path) as (world, store):
        store.submit([task])
        world.damage.end_host("h1", at_ps=AT_PS)
        with orchestrating(world, store, options=SOON) as orchestrator:
            orchestrator.run()
        check(world, store, attempt=1, task=task)
        assert "h1" not in store.task("a").task.workers


def test_a_cancelled_one_does_not_begin_anew(tmp_path):
    with site(tmp_path) as (world, store):
        store.submit([TASK])
        with orchestrating(world, store, options=SOON) as orchestrator:
            orchestrator.run(AT_PS)
            store.request_cancel("a")
            orchestrator.run()
        assert (store.task("a").state, store.task("a").reason) == (TaskState.FAILED, "cancelled")


def test_in_another_network_it_goes_on_from_what_the_first_one_kept(tmp_path):
    with site(tmp_path) as (world, store):
        store.submit([TASK])
        with orchestrating(world, store, options=SOON) as orchestrator:
            orchestrator.run(AT_PS)
        assert 0 < len(ranks_of(store, "a")) < TASK.rounds
    with site(tmp_path) as (world, store):
        with orchestrating(world, store, options=SOON) as orchestrator:
            orchestrator.run()
        check(world, store, attempt=1)
        assert changes(store).count(TaskState.RUNNING) == 2
    assert not (tmp_path / "state").exists()


STEPS = ["report died", "recorded stop", "started"]
MORE = [
    "stopped",
    "intended",
    "recorded start",
    "installed both",
    "recorded installation",
    "uninstalled",
    "report round",
]


@pytest.mark.parametrize("step", [*STEPS, *(pytest.param(step, marks=pytest.mark.soak) for step in MORE)])
def test_killed_on_the_way_it_comes_to_the_same(tmp_path, step):
    kills = [KillAt(number, step) for number in (1, 1, 2, 1)]
    with site(tmp_path) as (world, store):
        store.submit([TASK, OTHER])
        world.damage.end_process("h3", task="a", at_ps=AT_PS)
        steps = run_killed(world, tmp_path / "t.sqlite", kills, options=SOON)
        assert step in steps
        check(world, store, attempt=1)
        assert len(restarts(store)) == 1


def test_a_task_that_raises_does_not_begin_anew():
    with pytest.raises(PlanError, match="task a: max_restarts: with on_failure 'raise' nothing begins anew"):
        replace(TASK, on_failure="raise")
    with pytest.raises(PlanError, match="task a: max_restarts: -1 is below 0"):
        replace(TASK, max_restarts=-1)


def test_going_on_is_the_cheapest_and_resumes_within_its_bar():
    base = deaths.run(0, deaths.WAYS["nobody dies"], 4, None)
    shrink, anew = (deaths.run(0, deaths.WAYS[name], 4, base) for name in ("shrink", "abort, max_restarts 1"))
    assert base.finished_ms < shrink.finished_ms < anew.finished_ms
    assert shrink.resumed_ms < 20
    assert shrink.models < base.models == anew.models
