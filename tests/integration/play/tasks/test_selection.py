"""Tasks that select local models: only selected workers send, whatever fails meanwhile."""

from dataclasses import replace

import pytest

from p4reduce.control_plane.orchestrator import TaskState
from p4reduce.control_plane.scheduling import Selection, Task
from p4reduce.play.tasks.world import World
from tests.support.orchestrated.bench import (
    PROGRAM,
    PS_PER_US,
    KillAt,
    check_end,
    digests,
    open_store,
    orchestrating,
    run_killed,
    two_spines,
    undisturbed,
)

WORKERS = ("h5", "h1", "h3", "h2")
UTILITIES = (("h5", 1.0), ("h1", 1.0), ("h3", 50.0), ("h2", 1.0))
SELECTING = Task(
    "selecting", "server1", WORKERS, 4000, 2, 20 * PS_PER_US, 10**9, select=Selection("useful", 0.5, 0, UTILITIES)
)
OTHER = Task("other", "h6", ("h2", "h4"), 4000, 2, 10 * PS_PER_US, 10**9, select=Selection("random", 0.9, seed=4))


def chosen(store):
    return {row.name: row.task.workers for row in store.tasks()}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Return the selected workers and the results."""
    folder = tmp_path_factory.mktemp("expected")
    with World(two_spines(), PROGRAM) as world, open_store(folder / "tasks.sqlite") as store:
        store.submit([SELECTING, OTHER])
        with orchestrating(world, store) as orchestrator:
            orchestrator.run()
        check_end(world, store)
        assert {row.state for row in store.tasks()} == {TaskState.FINISHED}
        sent = {host.name: world.host_bytes()[host.name, 1] for host in world.topology.hosts}
        return chosen(store), digests(store), sent, store.history.decisions()


def test_only_the_chosen_send_and_the_result_is_theirs(tmp_path, expected):
    workers, results, sent, decisions = expected
    for task in (SELECTING, OTHER):
        assert set(workers[task.name]) < set(task.workers)
    assert "h3" in workers["selecting"]
    everyone = {"server1", "h6", *workers["selecting"], *workers["other"]}
    assert {host for host, octets in sent.items() if octets} == everyone
    plain = [replace(one, workers=workers[one.name], select=None) for one in (SELECTING, OTHER)]
    assert undisturbed(tmp_path, plain, two_spines()) == results
    selected = {one["task"]: one["why"] for one in decisions if one["what"] == "select"}
    for task in (SELECTING, OTHER):
        why = selected[task.name]
        assert tuple(why["chosen"]) == workers[task.name]
        assert set(why["left_out"]) == set(task.workers) - set(why["chosen"])
        assert why["copies"] <= why["allowed"] == round(task.select.budget * why["copies_of_all"])


@pytest.mark.parametrize("step", ["intended", "installed both", "recorded installation", "started", "report round"])
def test_a_choice_that_was_made_outlives_its_orchestrator(tmp_path, expected, step):
    path = tmp_path / "tasks.sqlite"
    with World(two_spines(), PROGRAM) as world:
        with open_store(path) as store:
            store.submit([SELECTING, OTHER])
        run_killed(world, path, [KillAt(1, step), KillAt(2, step)])
        with open_store(path) as store:
            assert (chosen(store), digests(store)) == expected[:2]
            made = [one["task"] for one in store.history.decisions() if one["what"] == "select"]
            assert sorted(made) == ["other", "selecting"]
            check_end(world, store)


def test_a_choice_that_cannot_be_used_is_its_tasks_fault(tmp_path, expected):
    with World(two_spines(), PROGRAM) as world, open_store(tmp_path / "tasks.sqlite") as store:
        store.submit([SELECTING, OTHER, replace(SELECTING, name="unknown", select=Selection("useful", 0.5))])
        for text in ("nothing", '["h6"]', "[]", '[["h1"]]', '{"h1": 1}'):
            store.submit([replace(SELECTING, name=text)])
            with store.transaction():
                store._connection.execute("UPDATE tasks SET chosen = ? WHERE name = ?", (text, text))
        with orchestrating(world, store) as orchestrator:
            orchestrator.run()
        rejected = {row.name: row.reason for row in store.tasks([TaskState.REJECTED])}
        assert "how useful the data of h5 are is not known" in rejected.pop("unknown")
        assert len(rejected) == 5
        assert all("its choice of workers in the database cannot be used" in reason for reason in rejected.values())
        assert {name: digests(store)[name] for name in expected[1]} == expected[1]
        check_end(world, store)
