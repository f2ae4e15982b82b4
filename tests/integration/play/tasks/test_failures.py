"""Failures end in a clear state: a task runs on a correct tree, or has failed or was rejected with a reason."""

import json
from contextlib import contextmanager
from dataclasses import replace

import pytest

from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.entries import plan_entries
from p4reduce.control_plane.orchestrator import PlanPhase, Store, TaskState
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.control_plane.scheduling import Task
from p4reduce.play.tasks.world import World
from tests.support.orchestrated.bench import (
    OPTIONS,
    PROGRAM,
    PS_PER_US,
    KillAt,
    Killed,
    check_end,
    digests,
    open_store,
    orchestrating,
    run_killed,
    some_tasks,
    two_spines,
    undisturbed,
)
from tests.support.p4runtime.client import RawClient


@pytest.fixture
def world():
    with World(two_spines(), PROGRAM) as made:
        yield made


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "tasks.sqlite") as opened:
        yield opened


def states(store):
    return {row.name: str(row.state) for row in store.tasks()}


def task(name="a", server="server1", workers=("h1", "h3"), **fields):
    return Task(name, server, workers, 2000, **{"rounds": 3, "training_ps": 20 * PS_PER_US, **fields})


@contextmanager
def refusing(world, switch):
    """Make a switch refuse our writes: another controller is its primary."""
    (target,) = [one for one in world.switches.targets() if one.name == switch]
    with RawClient(target.address, target.device_id, election_id=None) as witness:
        with RawClient(target.address, target.device_id) as other:
            assert other.arbitrate(1 << 40).status.code == 0
            assert witness.arbitrate().status.code != 0
            yield
        witness.receive()  # the other controller has left, so the next orchestrator is primary


def test_a_switch_that_refuses_a_write_fails_the_tasks_that_need_it(world, store):
    store.submit([task("here", "h6", ("h5",)), task("there", "h4", ("h1", "h3"))])
    with orchestrating(world, store) as orchestrator:
        with refusing(world, "leaf2"):
            orchestrator.run()
        assert states(store) == {"here": "finished", "there": "failed"}
        assert store.task("there").reason.startswith("its trees could not be installed: switch leaf2 (")
    with orchestrating(world, store) as orchestrator:
        orchestrator.run()  # entries that could not be removed then are removed now
    check_end(world, store)


def test_a_swap_that_a_switch_refuses_leaves_the_old_tree_or_a_reason(world, store):
    store.submit([task("a", rounds=5)])
    world.change_link("leaf1", "spine1", up=False, at_ps=60 * PS_PER_US)
    with orchestrating(world, store) as orchestrator:
        orchestrator.run(55 * PS_PER_US)
        assert states(store) == {"a": "running"}
        with refusing(world, "spine2"):
            orchestrator.run()
        reason = store.task("a").reason
        assert reason.startswith("link ")
        assert ", and other trees could not be installed: switch spine2 (" in reason
    with orchestrating(world, store) as orchestrator:
        orchestrator.run()
    assert states(store) == {"a": "failed"}
    check_end(world, store)


def test_a_task_without_any_way_left_fails_and_names_the_link(world, store):
    store.submit([task("cut off"), task("other", "h6", ("h4",))])
    for spine in ("spine1", "spine2"):
        world.change_link("leaf1", spine, up=False, at_ps=60 * PS_PER_US)
    with orchestrating(world, store) as orchestrator:
        orchestrator.run()
    assert states(store) == {"cut off": "failed", "other": "finished"}
    assert "is down, and no other tree fits" in store.task("cut off").reason
    check_end(world, store)


def test_a_task_that_never_fits_is_rejected_and_one_that_does_not_fit_yet_waits(world, store):
    rate = two_spines().link_at("h1", 1).rate_bps
    store.submit(
        [
            task("first", demand_bps=rate // 2 + 1),
            task("too much", demand_bps=2 * rate),
            task("later", demand_bps=rate // 2 + 1, arrival_ps=1),
            task("unknown", workers=("h1", "nobody")),
            task("in time", demand_bps=rate // 2 + 1, arrival_ps=2, deadline_ps=30 * PS_PER_US),
        ]
    )
    with orchestrating(world, store) as orchestrator:
        orchestrator.run()
    found = states(store)
    assert found == {
        "first": "finished",
        "too much": "rejected",
        "later": "finished",
        "unknown": "rejected",
        "in time": "rejected",
    }
    assert store.task("in time").reason.startswith("its deadline passed while it waited: ")
    assert "nobody" in store.task("unknown").reason
    assert "wait" in {decision["what"] for decision in store.history.decisions("later")}
    assert store.task("later").started_ps > store.task("first").finished_ps
    check_end(world, store)


def test_without_a_queue_what_does_not_fit_is_rejected_at_once(world, store):
    rate = two_spines().link_at("h1", 1).rate_bps
    store.submit([task("first", demand_bps=rate // 2 + 1), task("second", demand_bps=rate // 2 + 1)])
    with orchestrating(world, store, options=replace(OPTIONS, queueing=False)) as orchestrator:
        orchestrator.run()
    assert states(store) == {"first": "finished", "second": "rejected"}
    check_end(world, store)


def test_a_cancelled_task_stops_wherever_it_is(world, store):
    store.submit([task("running", rounds=1000), task("waiting", arrival_ps=10**12), task("other", "h6", ("h4",))])
    with orchestrating(world, store) as orchestrator:
        orchestrator.run(50 * PS_PER_US)
        for name in ("running", "waiting"):
            store.request_cancel(name)
        orchestrator.run()
    assert states(store) == {"running": "failed", "waiting": "rejected", "other": "finished"}
    assert store.task("running").reason == "cancelled"
    assert world.now() < 10**12
    check_end(world, store)


def test_a_kill_between_stopping_a_task_and_writing_it_down(world, tmp_path):
    path = tmp_path / "killed.sqlite"
    for spine in ("spine1", "spine2"):
        world.change_link("leaf1", spine, up=False, at_ps=60 * PS_PER_US)
    with open_store(path) as store:
        store.submit([task("cut off")])
    run_killed(world, path, [KillAt(1, "stopped"), KillAt(1, "recorded stop")])
    with open_store(path) as store:
        assert states(store) == {"cut off": "failed"}
        assert "is down, and no other tree fits" in store.task("cut off").reason
        check_end(world, store)


def test_entries_that_a_switch_lost_are_brought_back_in_a_new_epoch(tmp_path, world, store):
    expected = undisturbed(tmp_path, some_tasks(), two_spines())
    store.submit(some_tasks())
    with orchestrating(world, store) as orchestrator:
        orchestrator.run(48 * PS_PER_US)
        plan = orchestrator.installer.controller.installed[0]
        orchestrator.installer.controller.delete(plan.root, plan_entries(plan)[plan.root].activate)
    with orchestrating(world, store) as orchestrator:
        orchestrator.run()
    assert {one["cause"] for one in store.history.swaps()} == {"a switch has lost its entries"}
    assert digests(store) == expected
    check_end(world, store)


def test_entries_that_belong_to_no_plan_are_removed(world, store):
    targets = world.switches.targets()
    with Controller(world.topology, targets, PROGRAM, keep=True) as stranger:
        stranger.start_job(PlanRequest("steiner", job=99, workers=("h1", "h3"), priority=5))
    store.take_charge()
    store.submit([task()])
    with orchestrating(world, store) as orchestrator:
        orchestrator.run()
    assert states(store) == {"a": "finished"}
    check_end(world, store)


def test_after_a_new_start_of_the_network_running_tasks_have_failed_and_waiting_ones_run(world, store):
    store.submit([task("running", rounds=1000), task("waiting", arrival_ps=200 * PS_PER_US)])
    with orchestrating(world, store) as orchestrator:
        orchestrator.run(100 * PS_PER_US)
    with World(two_spines(), PROGRAM) as other:
        with orchestrating(other, store) as orchestrator:
            orchestrator.run()
        assert states(store) == {"running": "failed", "waiting": "finished"}
        assert "the network that it ran in has ended" in store.task("running").reason
        assert len({plan.generation for plan in store.plans(tuple(PlanPhase))}) == 2
        assert store.task("waiting").state is TaskState.FINISHED
        check_end(other, store)


class Unnoticed(World):
    """A network whose interfaces do not report that a link is down."""

    def links_down(self):
        return set()


def test_a_task_whose_hosts_give_up_fails_with_what_they_say(store):
    store.submit([task("cut off"), task("other", "h6", ("h4",))])
    with Unnoticed(two_spines(), PROGRAM) as world:
        world.change_link("leaf1", "h1", up=False, at_ps=60 * PS_PER_US)
        with orchestrating(world, store, options=replace(OPTIONS, measure_every_ps=10**13)) as orchestrator:
            orchestrator.run()
        assert states(store) == {"cut off": "failed", "other": "finished"}
        assert store.task("cut off").reason.startswith("job 1 epoch 0: no RESULT for seq ")
        check_end(world, store)


def test_generations_go_on_when_nothing_of_the_earlier_ones_is_left(world, store):
    """Slots keep the generations of removed jobs."""
    for name in ("a", "b"):
        store.submit([task(name)])
        with orchestrating(world, store) as orchestrator:
            orchestrator.run()
    assert states(store) == {"a": "finished", "b": "finished"}
    assert [plan.generation for plan in store.plans(tuple(PlanPhase))] == [1, 2]
    check_end(world, store)


def test_what_a_failed_installation_took_is_nobody_elses_until_it_is_removed(world, store):
    """The refusing switch comes first: the next task must not get the failed plan's slots, groups and counter cell."""
    store.submit([task("there", "h4", ("h1", "h3")), task("here", "h6", ("h5",))])
    with orchestrating(world, store) as orchestrator:
        with refusing(world, "leaf2"):
            orchestrator.run()
        assert states(store) == {"there": "failed", "here": "finished"}
    for _ in range(2):
        with orchestrating(world, store) as orchestrator:
            orchestrator.run()
    check_end(world, store)


def test_a_kill_between_a_refused_write_and_the_end_of_its_task(world, tmp_path, monkeypatch):
    path = tmp_path / "killed.sqlite"
    change = Store.change

    def killed(store, name, state, *more):
        if state is TaskState.FAILED:
            raise Killed("before the end is written down")
        change(store, name, state, *more)

    with open_store(path) as store:
        store.submit([task("there", "h4", ("h1", "h3"))])
        monkeypatch.setattr(Store, "change", killed)
        with orchestrating(world, store) as orchestrator, refusing(world, "leaf2"), pytest.raises(Killed):
            orchestrator.run()
        monkeypatch.undo()
    with open_store(path) as store:
        with orchestrating(world, store) as orchestrator:
            orchestrator.run()
        assert store.task("there").state is TaskState.FINISHED
        check_end(world, store)


def test_a_database_in_which_a_given_up_task_is_still_scheduled(world, store):
    """An orchestrator that wrote the two changes in separate transactions left this."""
    store.submit([task("there", "h4", ("h1", "h3"))])
    kill = KillAt(1, "intended")
    with pytest.raises(Killed), orchestrating(world, store, checkpoint=kill) as orchestrator:
        orchestrator.run()
    (row,) = store.plans()
    store.set_phase(row.generation, PlanPhase.REMOVING)
    with orchestrating(world, store) as orchestrator:
        orchestrator.run()
    assert states(store) == {"there": "finished"}
    check_end(world, store)


def test_a_kill_while_a_task_is_stopped_and_its_link_comes_back(world, tmp_path):
    path = tmp_path / "killed.sqlite"
    for up, at_us in ((False, 60), (True, 300)):
        for spine in ("spine1", "spine2"):
            world.change_link("leaf1", spine, up=up, at_ps=at_us * PS_PER_US)
    with open_store(path) as store:
        store.submit([task("cut off", rounds=1000)])
        with pytest.raises(Killed), orchestrating(world, store, checkpoint=KillAt(1, "stopped")) as orchestrator:
            orchestrator.run()
    world.advance(400 * PS_PER_US)
    with open_store(path) as store:
        with orchestrating(world, store) as orchestrator:
            orchestrator.run()
        assert "is down, and no other tree fits" in store.task("cut off").reason
        check_end(world, store)


def test_a_task_whose_hosts_have_stopped_without_a_word_ends(world, store):
    store.submit([task("stopped", rounds=1000)])
    with orchestrating(world, store) as orchestrator:
        orchestrator.run(50 * PS_PER_US)
    world.stop("stopped")
    with orchestrating(world, store) as orchestrator:
        orchestrator.run()
    assert store.task("stopped").reason == "its hosts had stopped when the orchestrator came back"
    check_end(world, store)


def test_two_plans_of_a_database_that_claim_the_same(world, store):
    """An orchestrator that reassigned a failed plan's resources left this: the plan in use stays."""
    store.submit([task("runs", rounds=30), task("gone", "h4", ("h1", "h3"), rounds=30)])
    with orchestrating(world, store) as orchestrator:
        orchestrator.run(60 * PS_PER_US)
    first, second = store.plans()
    plan = json.loads(second.plan)
    plan["grant"]["stats"] = json.loads(first.plan)["grant"]["stats"]
    with store.transaction():
        store._connection.execute(
            "UPDATE plans SET plan = ?, phase = 'removing' WHERE generation = ?", (json.dumps(plan), second.generation)
        )
    with orchestrating(world, store) as orchestrator:
        orchestrator.run()
    assert states(store) == {"runs": "finished", "gone": "failed"}
    assert "counter cell" in str([one["why"] for one in store.history.decisions("gone")])
    check_end(world, store)
