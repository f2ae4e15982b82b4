"""Inference tasks beside tasks that take turns: within pods, over permanent circuits, with kills at any step."""

import random
from dataclasses import replace

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.base.records import from_json
from p4reduce.control_plane.orchestrator import PlanPhase, TaskState
from p4reduce.control_plane.orchestrator.executor import circuits_of
from p4reduce.control_plane.orchestrator.options import StoreError
from p4reduce.control_plane.plans import Plan
from p4reduce.play.tasks.world import World
from tests.integration.play.tasks.test_inference import answers, chat, served
from tests.integration.play.tasks.test_turns import check_windows, moving_tasks, named, pods, turns
from tests.support.effort import examples
from tests.support.orchestrated.bench import (
    PROGRAM,
    PS_PER_US,
    KillAt,
    check_end,
    digests,
    open_store,
    orchestrating,
    run_killed,
)


def run(tmp_path, tasks, options, *, topology=None, kills=(), meanwhile=lambda world: None, trains=True):
    """Return rows by name, digests and the world; check that no frame is lost in the dark or misrouted."""
    path = tmp_path / "t.sqlite"
    with World(topology or pods(ports=3), PROGRAM) as world:
        with open_store(path) as store:
            store.submit(tasks)
        meanwhile(world)
        run_killed(world, path, list(kills), options=options)
        lost = world.network.fabric.links.array()
        assert [int(lost[name].sum()) for name in ("dark_lost", "misrouted")] == [0, 0]
        with open_store(path) as store:
            check_end(world, store)
            if trains:
                check_windows(store)
            for row in store.tasks():
                if row.task.serving is not None and row.state is TaskState.FINISHED:
                    assert row.digest == answers(row.task)
            return {row.name: row for row in store.tasks()}, digests(store)


def circuits(tmp_path, name, topology):
    with open_store(tmp_path / "t.sqlite") as store:
        plans = [from_json(Plan, row.plan, "plan", topology=topology) for row in store.plans(tuple(PlanPhase), name)]
    return {one for plan in plans for one in circuits_of(plan)}


def services(**more):
    """Return services with clients in one pod, and in two."""
    near = chat("near", server="", clients=("h1", "h2"), rounds=20, rate=50_000.0, **more)
    far = chat("far", server="", clients=("h4", "h8"), rounds=20, rate=50_000.0, arrival_ps=150 * PS_PER_US)
    return [near, far]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Return the results of the training tasks without services."""
    return run(tmp_path_factory.mktemp("alone"), moving_tasks(), turns(service_ports=1))[1]


def test_answers_cross_pods_that_stay_joined_while_circuits_turn(tmp_path, alone):
    rows, found = run(tmp_path, [*moving_tasks(), *services()], turns(service_ports=1))
    assert {row.state for row in rows.values()} == {TaskState.FINISHED}, [row.reason for row in rows.values()]
    assert {name: found[name] for name in "abd"} == alone
    assert rows["near"].task.server == "h3"
    assert circuits(tmp_path, "near", pods(ports=3)) == set()
    (standing,) = circuits(tmp_path, "far", pods(ports=3))
    with open_store(tmp_path / "t.sqlite") as store:
        for name in ("near", "far"):
            latencies = served(store, name)
            assert latencies["requests"] == 40
            assert latencies["p99_ps"] < 60 * PS_PER_US, "less than a round of turns"
        used = {one for lit in store.schedules.configurations().values() for one in lit}
        ports = {end for one in used for end in ((one.a, one.port_a), (one.b, one.port_b))}
        assert not ports & {(standing.a, standing.port_a), (standing.b, standing.port_b)}


@pytest.mark.parametrize("seed", range(examples(1, 60)))
def test_kills_at_random_steps(tmp_path, alone, seed):
    chance = random.Random(seed)
    tasks = [*moving_tasks(), *services(arrival_ps=chance.randrange(300) * PS_PER_US)]
    kills = [KillAt(chance.randint(1, 14)) for _ in range(8)]
    rows, found = run(tmp_path, tasks, turns(service_ports=chance.choice([1, 2])), kills=kills)
    assert {row.state for row in rows.values()} == {TaskState.FINISHED}, [row.reason for row in rows.values()]
    assert {name: found[name] for name in "abd"} == alone


def test_services_share_circuits_wait_for_ports_or_are_rejected_with_the_reason(tmp_path):
    tasks = [
        named("train", "h1", "h4", rounds=8),
        chat("first", server="h1", clients=("h4",), rounds=30),
        chat("shares", server="h2", clients=("h5",)),
        chat("waits", server="h4", clients=("h7",)),
        chat("never", server="h1", clients=("h4", "h7", "h10"), rounds=5),
        chat("hasty", server="", clients=("h7", "h8"), objective_ps=PS_PER_US),
    ]
    rows, _ = run(tmp_path, tasks, turns(service_ports=1))
    states = {name: row.state for name, row in rows.items()}
    assert states == {
        "train": "finished",
        "first": "finished",
        "shares": "finished",
        "waits": "finished",
        "never": "rejected",
        "hasty": "rejected",
    }
    assert circuits(tmp_path, "shares", pods(ports=3)) == circuits(tmp_path, "first", pods(ports=3))
    assert rows["waits"].started_ps >= max(rows["first"].finished_ps, rows["shares"].finished_ps)
    assert "no ports that are kept for services are left" in rows["never"].reason
    assert "objective" in rows["hasty"].reason


def test_without_ports_for_services_only_pods_are_served(tmp_path):
    tasks = [chat("near", server="h1", clients=("h2",)), chat("far", server="h1", clients=("h4",))]
    rows, _ = run(tmp_path, tasks, turns(), trains=False)
    assert (rows["near"].state, rows["far"].state) == (TaskState.FINISHED, TaskState.REJECTED)
    assert "keep ports for services (--service-ports 1)" in rows["far"].reason


@pytest.mark.soak
def test_a_cut_circuit_or_a_dead_client_ends_a_service_and_turns_go_on(tmp_path):
    for name, damage in (
        ("cut", lambda world: world.change_link("h4", "tor2", up=False, at_ps=250 * PS_PER_US)),
        ("dead", lambda world: world.damage.end_process("h8", task="far", at_ps=250 * PS_PER_US)),
    ):
        (tmp_path / name).mkdir()
        far = replace(services()[1], rounds=400)
        rows, _ = run(tmp_path / name, [*moving_tasks()[:2], far], turns(service_ports=1), meanwhile=damage)
        assert rows["far"].state is TaskState.FAILED
        assert ("link" if name == "cut" else "h8") in rows["far"].reason
        assert rows["b"].state is TaskState.FINISHED


def test_ports_are_kept_as_they_were_and_some_are_left_for_turns(tmp_path):
    with World(pods(), PROGRAM) as world, open_store(tmp_path / "t.sqlite") as store:
        with (
            pytest.raises(PlanError, match="service_ports: 2 of 2"),
            orchestrating(world, store, options=turns(service_ports=2)),
        ):
            pass
        with orchestrating(world, store, options=turns(service_ports=1)):
            pass
        with pytest.raises(StoreError, match="leave 1 ports"), orchestrating(world, store, options=turns()):
            pass
