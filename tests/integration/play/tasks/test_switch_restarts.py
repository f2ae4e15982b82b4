"""Switches that restart under running tasks: they are restored, and the tasks' weights stay the same."""

from dataclasses import replace

import pytest

from p4reduce.control_plane.orchestrator import TaskState
from p4reduce.control_plane.scheduling import Task
from p4reduce.group.errors import ClusterError
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

AT_PS = 90 * PS_PER_US
OFTEN = replace(OPTIONS, measure_every_ps=50 * PS_PER_US)


def tasks():
    return [
        Task("a", "server1", ("h1", "h3"), 3000, 6, 20 * PS_PER_US, priority=5),
        Task("b", "server1", ("h2", "h5"), 3000, 6, 20 * PS_PER_US),
    ]


def run(tmp_path, *, restarts=(), kills=(), options=OFTEN, policy=None):
    path = tmp_path / "t.sqlite"
    with World(two_spines(), PROGRAM) as world:
        for switch, at_ps, away_ps in restarts:
            world.damage.restart_switch(switch, at_ps=at_ps, away_ps=away_ps)
        with open_store(path) as store:
            store.submit(tasks())
            if policy is None:
                steps = run_killed(world, path, list(kills), options=options)
            else:
                with orchestrating(world, store, options=options, policy=policy) as orchestrator:
                    orchestrator.run()
                steps = []
            check_end(world, store)
            told = [one for one in store.history.decisions(None) if one["what"] == "switch began anew"]
            return steps, {row.name: row for row in store.tasks()}, digests(store), told, store.history.swaps()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return run(tmp_path_factory.mktemp("undisturbed"))[2]


@pytest.mark.parametrize("away_us", [0, 70])
@pytest.mark.parametrize("switch", ["leaf1", "spine1"])
def test_tasks_go_on_in_new_epochs_with_the_same_weights(tmp_path, undisturbed, switch, away_us):
    _, rows, found, told, swaps = run(tmp_path, restarts=[(switch, AT_PS, away_us * PS_PER_US)])
    if (switch, away_us) == ("leaf1", 70):  # no other tree avoids it, and hosts may not move
        assert {row.state for row in rows.values()} == {TaskState.FAILED}
        assert all("is down" in row.reason for row in rows.values())
        return
    assert {row.state for row in rows.values()} == {TaskState.FINISHED}
    assert found == undisturbed
    assert [one["why"]["switch"] for one in told] == [switch]
    if not away_us:
        assert {one["task"] for one in swaps if one["cause"] == "a switch has lost its entries"} == {"a", "b"}


@pytest.mark.parametrize("step", ["found restarted", "restored switch", "swapped"])
def test_killed_on_the_way_it_has_the_same_weights(tmp_path, undisturbed, step):
    kills = [KillAt(1, step), KillAt(1, step)]
    steps, rows, found, _, _ = run(tmp_path, restarts=[("leaf1", AT_PS, 0)], kills=kills)
    assert step in steps
    assert {row.state for row in rows.values()} == {TaskState.FINISHED}
    assert found == undisturbed


def test_what_is_no_switch_is_named():
    with World(two_spines(), PROGRAM) as world, pytest.raises(ClusterError, match="'h1' is no switch"):
        world.damage.restart_switch("h1")
