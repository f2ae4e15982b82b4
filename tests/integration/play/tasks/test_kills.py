"""The orchestrator is killed at every step; the next one goes on, and the tasks' bytes stay the same.

A kill is an exception that is not handled, after which controller, store and orchestrator are thrown away: their writes
to the database and to switches stay, their memory is lost. `test_processes.py` does it with SIGKILL.
"""

import random

import pytest

from p4reduce.control_plane.orchestrator import PlanPhase, TaskState
from p4reduce.control_plane.orchestrator.installer import InstalledEntries
from p4reduce.play.tasks.world import World
from tests.support.effort import examples
from tests.support.orchestrated.bench import (
    PROGRAM,
    PS_PER_US,
    KillAt,
    Killed,
    check_end,
    digests,
    open_store,
    orchestrating,
    rounds_of,
    run_killed,
    some_tasks,
    two_spines,
    undisturbed,
)

STEPS = {
    "read switches": 1,
    "intended": 2,
    "installed both": 3,
    "recorded installation": 3,
    "started": 2,
    "recorded start": 2,
    "report round": 2,
    "report link": 1,
    "report resumed": 1,
    "report finished": 1,
    "intended swap": 1,
    "swapped": 1,
    "recorded swap": 1,
    "uninstalled": 3,
    "recorded removal": 3,
}
"""steps of the scenario, and the least number of each that is tried"""
TASKS = {"first": 3, "second": 3}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return undisturbed(tmp_path_factory.mktemp("undisturbed"), some_tasks(), two_spines())


def scenario(tmp_path, kills):
    """Two tasks and a link failure, with an orchestrator that dies; return the steps and the final states."""
    path = tmp_path / "tasks.sqlite"
    with World(two_spines(), PROGRAM) as world:
        with open_store(path) as store:
            store.submit(some_tasks())
        world.change_link("leaf1", "spine1", up=False, at_ps=48 * PS_PER_US)
        steps = run_killed(world, path, kills)
        with open_store(path) as store:
            check_end(world, store)
            rounds_of(store, {row.name: TASKS[row.name] for row in store.tasks() if row.state is TaskState.FINISHED})
            return steps, {row.name: row.state for row in store.tasks()}, digests(store)


def test_the_steps_that_are_tried_are_all_that_there_are(tmp_path, expected):
    steps, states, found = scenario(tmp_path, [])
    assert set(states.values()) == {TaskState.FINISHED}
    assert found == expected
    assert set(steps) == set(STEPS)
    assert all(steps.count(step) >= number for step, number in STEPS.items())


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_after_a_step(tmp_path, expected, step):
    """Kill at the first step of that name, and the following orchestrators at the next ones."""
    _, states, found = scenario(tmp_path, [KillAt(1, step), KillAt(2, step)])
    assert set(states.values()) == {TaskState.FINISHED}
    assert found == expected


@pytest.mark.parametrize("seed", range(examples(1, 3)))
def test_kills_at_random_steps(tmp_path, expected, seed):
    chance = random.Random(seed)
    _, states, found = scenario(tmp_path, [KillAt(chance.randint(1, 12)) for _ in range(8)])
    assert set(states.values()) == {TaskState.FINISHED}
    assert found == expected


@pytest.mark.parametrize(
    ("step", "number", "epochs"),
    [
        ("intended swap", 1, [0, 1, 2]),  # rolled back, and tried again in another epoch
        ("installed both", 3, [0, 1]),
        ("recorded installation", 3, [0, 1]),
        ("swapped", 1, [0, 1]),
        ("recorded swap", 1, [0, 1]),
    ],
)
def test_a_swap_that_was_begun_is_finished_or_taken_back(tmp_path, expected, step, number, epochs):
    _, states, found = scenario(tmp_path, [KillAt(number, step)])
    assert set(states.values()) == {TaskState.FINISHED}
    assert found == expected
    with open_store(tmp_path / "tasks.sqlite") as store:
        assert [plan.epoch for plan in store.plans(tuple(PlanPhase), "first")] == epochs
        assert [swap["epoch"] for swap in store.history.swaps() if swap["task"] == "first"] == epochs[-1:]
        states = [change["after"] for change in store.history.changes("first")]
        assert states.count(TaskState.RESCHEDULED) == 1


@pytest.mark.parametrize(
    ("step", "number", "plans"),
    [("intended", 1, 2), ("installed both", 1, 1), ("started", 1, 1), ("recorded start", 1, 1)],
)
def test_a_task_that_was_begun_is_begun_or_taken_back(tmp_path, step, number, plans):
    scenario(tmp_path, [KillAt(number, step)])
    with open_store(tmp_path / "tasks.sqlite") as store:
        assert len({plan.job for plan in store.plans(tuple(PlanPhase), "first")}) == plans
        states = [change["after"] for change in store.history.changes("first")]
        assert states.count(TaskState.QUEUED) == plans
        assert states.count(TaskState.RUNNING) == 1


@pytest.mark.parametrize(
    ("step", "number", "phases"),
    [
        ("intended", 1, ["removing"]),
        ("installed both", 1, ["active"]),
        ("started", 1, ["active"]),
        ("intended swap", 1, ["active", "removing"]),
        ("installed both", 3, ["removing", "active"]),
        ("swapped", 1, ["removing", "active"]),
        ("recorded swap", 1, ["removing", "active"]),
    ],
)
def test_coming_back_makes_the_database_true_before_anything_else_is_done(tmp_path, step, number, phases):
    """An orchestrator that is constructed, but not run, already makes database, switches and hosts agree."""
    with World(two_spines(), PROGRAM) as world, open_store(tmp_path / "tasks.sqlite") as store:
        store.submit(some_tasks())
        world.change_link("leaf1", "spine1", up=False, at_ps=48 * PS_PER_US)
        with pytest.raises(Killed), orchestrating(world, store, checkpoint=KillAt(number, step)) as orchestrator:
            orchestrator.run()
        before = world.now()
        with orchestrating(world, store) as orchestrator:
            assert world.now() == before
            rows = store.plans(tuple(PlanPhase), "first")
            assert [row.phase for row in rows] == phases
            active = [(row.job, row.epoch) for row in rows if row.phase is PlanPhase.ACTIVE]
            assert [*world.running()["first"].keys.values()] == active if active else "first" not in world.running()
            found = InstalledEntries.read(orchestrator.installer.controller)
            assert all(
                found.complete(orchestrator.installer.plan_of(row)) for row in rows if row.phase is PlanPhase.ACTIVE
            )
            assert (store.task("first").state is TaskState.QUEUED) == (not active)
