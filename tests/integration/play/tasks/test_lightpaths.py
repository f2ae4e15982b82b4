"""Tasks over lightpaths: shared slots, waiting, kills at any step, and lightpaths that go dark."""

import random
from dataclasses import replace
from itertools import combinations, product

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.optical.plan import OpticalError
from p4reduce.control_plane.orchestrator import OrchestratorOptions, TaskState
from p4reduce.control_plane.orchestrator.options import StoreError
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.play.tasks.world import World
from p4reduce.topologies import TopologyBuilder
from p4reduce.topologies.wdm import Wdm
from tests.integration.play.tasks.test_inference import answers, chat, served
from tests.support.effort import examples
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
)
from tests.support.orchestrated.sums import expected_digest

SLOT = 50 * 10**9


def cities(transponders: int = 2) -> Wdm:
    """Four cities in a line, with one wavelength of two slots."""
    builder = TopologyBuilder("cities")
    for city in "abcd":
        builder.switch(city)
        for number in (1, 2):
            builder.host(f"{city}{number}")
            builder.link(f"{city}{number}", city, "40G", "100ns")
    for a, b in ("ab", "bc", "cd"):
        builder.link(a, b, "100G", "2us")
    return Wdm(builder.build(), wavelengths=1, slots=2, transponders=transponders)


def task(name: str, server: str, *workers: str, slots: int = 1, rounds: int = 3, **more: object) -> Task:
    return Task(name, server, workers, 2000, rounds, demand_bps=slots * SLOT, **more)  # type: ignore[arg-type]


def tasks() -> list[Task]:
    """Return two tasks that share lightpaths, one that needs whole ones and waits, and one that fits beside all."""
    return [
        task("one", "a1", "b1", "c1"),
        task("two", "a2", "b2", "c2"),
        task("whole", "a1", "c2", slots=2),
        task("aside", "c1", "d1", arrival_ps=40 * PS_PER_US),
    ]


def options(network: Wdm) -> OrchestratorOptions:
    return replace(OPTIONS, wdm=network)


def end(world: World, path: object) -> dict[str, TaskState]:
    """Check that nothing is left, lost or misrouted; return the states."""
    links = world.network.fabric.links.array()
    assert [int(links[name].sum()) for name in ("dark_lost", "misrouted", "queue_drops")] == [0, 0, 0]
    with open_store(path) as store:  # type: ignore[arg-type]
        check_end(world, store)
        found = {row.name: row.state for row in store.tasks()}
        for row in store.tasks():
            if row.state is TaskState.FINISHED and row.task.serving is not None:
                assert digests(store)[row.name] == answers(row.task)
            elif row.state is TaskState.FINISHED:
                rounds = [tuple(range(len(row.task.workers)))] * row.task.rounds
                assert digests(store)[row.name] == expected_digest(row.task, rounds)
        return found


def test_tasks_share_lightpaths_wait_for_slots_and_sum_exactly(tmp_path):
    network, path = cities(), tmp_path / "tasks.sqlite"
    with World(network.physical(), PROGRAM) as world:
        with open_store(path) as store:
            store.submit(tasks())
            with orchestrating(world, store, options=options(network)) as orchestrator:
                orchestrator.run()
            given = {
                one["task"]: one["why"]["lightpaths"] for one in store.history.decisions() if one["what"] == "schedule"
            }
            times = {row.name: (row.started_ps, row.finished_ps) for row in store.tasks()}
            waits = [one["task"] for one in store.history.decisions() if one["what"] == "wait"]
        assert end(world, path) == dict.fromkeys(("one", "two", "whole", "aside"), TaskState.FINISHED)
    circuits = {name: [one["circuit"] for one in own] for name, own in given.items()}
    assert circuits["one"] == circuits["two"]
    assert all(a["slots"] & b["slots"] == 0 for a, b in zip(given["one"], given["two"], strict=True))
    assert waits == ["whole"]
    assert times["whole"][0] >= max(times["one"][1], times["two"][1])
    assert times["aside"][0] < times["one"][1]


@pytest.mark.parametrize("seed", range(2))
def test_kills_at_random_steps_change_no_sum_and_give_no_slot_twice(tmp_path, seed):
    network, path, chance = cities(), tmp_path / "tasks.sqlite", random.Random(seed)
    with World(network.physical(), PROGRAM) as world:
        with open_store(path) as store:
            store.submit(tasks())
        run_killed(world, path, [KillAt(chance.randint(1, 14)) for _ in range(6)], options=options(network))
        assert set(end(world, path).values()) == {TaskState.FINISHED}
        with open_store(path) as store:
            ends = {row.name: row.finished_ps for row in store.tasks()}
            found = [one for one in store.history.decisions() if one["what"] == "schedule"]
        last = {one["task"]: (one["at_ps"], ends[one["task"]], one["why"]["lightpaths"]) for one in found}
        for (begins, finished, own), (others_begin, others_finished, others) in combinations(last.values(), 2):
            if begins < others_finished and others_begin < finished:
                for a, b in product(own, others):
                    assert a["circuit"] != b["circuit"] or a["slots"] & b["slots"] == 0


def chatting(**more) -> list[Task]:
    """Clients in three cities share one slot of lightpaths; a training has the other."""
    return [
        task("train", "a1", "b1", "c1", rounds=8),
        chat(server="", clients=("a2", "b2", "c2"), rate=20_000.0, **more),
    ]


def test_answers_have_slots_of_their_own_and_training_loses_nothing(tmp_path):
    network, found = cities(), {}
    for name, wanted in (("both", chatting()), ("alone", chatting()[:1])):
        with World(network.physical(), PROGRAM) as world:
            path = tmp_path / f"{name}.sqlite"
            with open_store(path) as store:
                store.submit(wanted)
                with orchestrating(world, store, options=options(network)) as orchestrator:
                    orchestrator.run()
                found[name] = sum(one["done_ps"] - one["started_ps"] for one in store.history.rounds("train"))
                told = {one["task"]: one["why"] for one in store.history.decisions() if one["what"] == "schedule"}
                if name == "both":
                    latencies = served(store)
                    given = {
                        key: {str(one["circuit"]): one["slots"] for one in why["lightpaths"]}
                        for key, why in told.items()
                    }
            assert set(end(world, path).values()) == {TaskState.FINISHED}
    assert {circuit: given["train"][circuit] & given["chat"][circuit] for circuit in given["train"]} == dict.fromkeys(
        given["train"], 0
    )
    assert found["both"] <= 1.01 * found["alone"]
    assert latencies["requests"] == 3 * 12
    assert latencies["worst_ps"] > 2 * 4 * PS_PER_US


@pytest.mark.parametrize("seed", range(examples(1, 40)))
def test_kills_change_no_answer(tmp_path, seed):
    network, path, chance = cities(), tmp_path / "tasks.sqlite", random.Random(seed)
    with World(network.physical(), PROGRAM) as world:
        with open_store(path) as store:
            store.submit(chatting(arrival_ps=chance.randrange(100) * PS_PER_US))
        run_killed(world, path, [KillAt(chance.randint(1, 9)) for _ in range(6)], options=options(network))
        assert set(end(world, path).values()) == {TaskState.FINISHED}


def test_services_that_cannot_be_are_rejected_wait_for_slots_or_fail_with_their_lightpath(tmp_path):
    network, path = cities(), tmp_path / "tasks.sqlite"
    wanted = [
        chat("hasty", server="a1", clients=("d1",), objective_ps=10 * PS_PER_US),  # the fibre takes 6 us each way
        chat("much", server="a1", clients=("b1", "c1"), demand_bps=SLOT + SLOT // 2),
        chat("whole", server="b1", clients=("c1",), demand_bps=2 * SLOT, rounds=30),
        chat("later", server="b2", clients=("c2",)),
        chat("far", server="c1", clients=("d1",), rounds=200, rate=5000.0),
    ]
    with World(network.physical(), PROGRAM) as world:
        with open_store(path) as store:
            store.submit(wanted)
            world.change_link("d1", "d", up=False, at_ps=300 * PS_PER_US)
            with orchestrating(world, store, options=options(network)) as orchestrator:
                orchestrator.run()
            rows = {row.name: row for row in store.tasks()}
        end(world, path)
    assert "objective: 10000000 ps is less than the" in rows["hasty"].reason
    assert "demand" in rows["much"].reason
    assert rows["later"].started_ps >= rows["whole"].finished_ps
    assert (rows["far"].state, "is down" in rows["far"].reason) == (TaskState.FAILED, True)


def test_what_cannot_be_is_rejected_and_a_task_whose_link_is_cut_fails(tmp_path):
    network, path = cities(), tmp_path / "tasks.sqlite"
    wanted = [
        task("wide", "a1", "b1", slots=3),
        task("shrinks", "a1", "b1", on_failure="shrink"),
        task("cut", "a1", "b1", "c1", rounds=200),
    ]
    with World(network.physical(), PROGRAM) as world:
        with open_store(path) as store:
            store.submit(wanted)
            world.change_link("b1", "b", up=False, at_ps=200 * PS_PER_US)
            with orchestrating(world, store, options=options(network)) as orchestrator:
                orchestrator.run()
            reasons = {row.name: row.reason for row in store.tasks()}
        with open_store(path) as store:
            check_end(world, store)
    assert "more than a lightpath" in reasons["wide"]
    assert "on_failure" in reasons["shrinks"]
    assert "is down" in reasons["cut"]


def test_without_transponders_nobody_runs(tmp_path):
    network, path = cities(transponders=1), tmp_path / "tasks.sqlite"
    with World(network.physical(), PROGRAM) as world, open_store(path) as store:
        store.submit([task("tree", "a1", "b1", "c1"), task("home", "a1", "a2")])
        with orchestrating(world, store, options=options(network)) as orchestrator:
            orchestrator.run()
        (tree, home) = store.tasks()
        assert tree.state is TaskState.REJECTED
        assert "transponders are not free" in tree.reason
        assert home.state is TaskState.FINISHED


def test_another_policy_or_network_is_refused(tmp_path):
    network = cities()
    with World(network.physical(), PROGRAM) as world, open_store(tmp_path / "tasks.sqlite") as store:
        for wrong, error, what in (
            (replace(OPTIONS, wdm=network, grooming="spff"), OpticalError, "groom-agg"),
            (replace(OPTIONS, wdm=network, move=1.0), PlanError, "move"),
            (OPTIONS, PlanError, "wdm:"),
        ):
            with pytest.raises(error, match=what), orchestrating(world, store, options=wrong):
                pass
        with orchestrating(world, store, options=options(network)):
            pass
        others = replace(OPTIONS, wdm=replace(network, slots=4))
        with pytest.raises(StoreError, match="2 slots"), orchestrating(world, store, options=others):
            pass
