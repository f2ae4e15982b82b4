"""Workers of running tasks die: the tasks go on with the others, or end with a reason that names the dead."""

import contextlib
import random
from dataclasses import replace

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.orchestrator import ComputingManager, HostProfile, TaskState
from p4reduce.control_plane.scheduling import Task
from p4reduce.control_plane.scheduling.task import WantedHosts
from p4reduce.group.errors import ClusterError
from p4reduce.network.virtual import Faults
from p4reduce.play.tasks.world import World
from p4reduce.topologies import leaf_spine, with_capable
from p4reduce.topologies.optical import oxc
from tests.support.orchestrated.bench import (
    OPTIONS,
    PROGRAM,
    PS_PER_MS,
    PS_PER_US,
    KillAt,
    Killed,
    check_end,
    open_store,
    orchestrating,
    run_killed,
    two_spines,
)
from tests.support.orchestrated.sums import expected_digest, ranks_of

AT_PS = 90 * PS_PER_US
ROUNDS = 6


def two_tasks(on_failure, **more):
    """Return two tasks that share switches and a server's host; workers of the first one die."""
    return [
        Task("a", "server1", ("h1", "h3", "h5"), 3000, ROUNDS, 20 * PS_PER_US, on_failure=on_failure, **more),
        Task("b", "server1", ("h2", "h4"), 3000, ROUNDS, 20 * PS_PER_US),
    ]


def run(tmp_path, tasks, damage, *, kills=None, capable=None, **how):
    path = tmp_path / "t.sqlite"
    topology = two_spines() if capable is None else with_capable(two_spines(), capable)
    with World(topology, PROGRAM) as world, open_store(path) as store:
        store.submit(tasks)
        damage(world.damage)
        steps = []
        if kills is None:
            with orchestrating(world, store, **how) as orchestrator:
                orchestrator.run()
        else:
            steps = run_killed(world, path, list(kills), **how)
        check_end(world, store)
        rows = {row.name: row for row in store.tasks()}
        found = {name: ranks_of(store, name) for name in rows}
        for name, row in rows.items():
            if row.state is TaskState.FINISHED:
                assert len(found[name]) == row.task.rounds
                assert row.digest == expected_digest(row.task, found[name]), "an exact sum over one set of members"
        return steps, rows, found, store.history.decisions("a"), store.history.replans("a")


def ends_process(*hosts, at_ps=AT_PS):
    return lambda damage: [damage.end_process(host, task="a", at_ps=at_ps) for host in hosts]


def ends_host(*hosts, at_ps=AT_PS, **more):
    return lambda damage: [damage.end_host(host, at_ps=at_ps, **more) for host in hosts]


HOWS = {"process": ends_process, "host": ends_host}


PLANS = {
    "tree": {},
    "star": {"policy": "spff"},
    "ring": {"options": replace(OPTIONS, slots="whole"), "slots": 16},
    "trees with relays": {"policy": "packing", "capable": ["leaf1"]},
    "trees of switches": {"policy": "striped"},
}


SOME = [("process", "tree"), ("process", "ring"), ("host", "star"), ("process", "trees with relays")]
REST = [(how, plan) for how in HOWS for plan in PLANS if (how, plan) not in SOME]


@pytest.mark.parametrize(("how", "plan"), [*SOME, *(pytest.param(*one, marks=pytest.mark.soak) for one in REST)])
def test_survivors_go_on_and_the_other_task_does_not_hear_of_it(tmp_path, how, plan):
    _, rows, found, told, replans = run(tmp_path, two_tasks("shrink"), HOWS[how]("h3"), **PLANS[plan])
    assert {row.state for row in rows.values()} == {TaskState.FINISHED}
    assert {(0, 2)} <= set(found["a"]) <= {(0, 1, 2), (0, 2)}
    assert found["a"] == sorted(found["a"], key=len, reverse=True), "who is lost stays away"
    assert set(found["b"]) == {(0, 1)}
    assert (rows["a"].task.workers, rows["a"].ranks) == (("h1", "h5"), (0, 2))
    (shrink,) = [one for one in told if one["what"] == "shrink"]
    assert (shrink["why"]["lost"], shrink["why"]["hosts"], shrink["why"]["ranks"]) == (["h3"], ["h1", "h5"], [0, 2])
    assert [(one["what"], one["at_once"]) for one in replans] == [("shrink", True)]
    assert replans[0]["round"] == found["a"].index((0, 2))


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("on_failure", ["raise", "abort"])
def test_else_the_task_ends_and_says_who_died(tmp_path, how, on_failure):
    _, rows, found, _, replans = run(tmp_path, two_tasks(on_failure), HOWS[how]("h3"))
    assert (rows["a"].state, rows["b"].state) == (TaskState.FAILED, TaskState.FINISHED)
    said = f"worker h3 (rank 1) is lost in round {len(found['a'])} of 6 (on_failure: {on_failure}): "
    assert rows["a"].reason.startswith(said)
    assert replans == []


@pytest.mark.parametrize(
    "at_us", [*(34, 47, 59), *(pytest.param(at, marks=pytest.mark.soak) for at in range(13, 200, 3))]
)
def test_at_any_moment_of_a_round(tmp_path, at_us):
    """While chunks travel, while hosts train, and between two rounds; with two trees and with one."""
    _, rows, found, _, _ = run(tmp_path, two_tasks("shrink"), ends_process("h1", at_ps=at_us * PS_PER_US))
    assert {row.state for row in rows.values()} == {TaskState.FINISHED}
    assert found["a"][-1] == (1, 2)


@pytest.mark.parametrize("at_us", [1, *(pytest.param(at, marks=pytest.mark.soak) for at in (4, 10))])
def test_a_process_that_has_not_begun_does_not_end(tmp_path, at_us):
    """The task starts some 12 microseconds after the orchestrator; before, there is no process to end."""
    _, rows, found, _, _ = run(tmp_path, two_tasks("shrink"), ends_process("h1", at_ps=at_us * PS_PER_US))
    assert {row.state for row in rows.values()} == {TaskState.FINISHED}
    assert found["a"] == [(0, 1, 2)] * ROUNDS


@pytest.mark.parametrize(
    ("order", "gap_us"),
    [
        (("h1", "h5"), 0),
        (("h5", "h1"), 10),
        (("h1", "h5"), 11),
        *(pytest.param(("h5", "h1"), gap_us, marks=pytest.mark.soak) for gap_us in (0, 1, 9, 11, 20, 21, 40)),
    ],
)
def test_two_die_one_after_the_other_or_while_survivors_are_told(tmp_path, order, gap_us):
    def damage(to):
        for place, host in enumerate(order):
            to.end_process(host, task="a", at_ps=AT_PS + place * gap_us * PS_PER_US)

    _, rows, found, _, _ = run(tmp_path, two_tasks("shrink"), damage)
    assert {row.state for row in rows.values()} == {TaskState.FINISHED}
    assert found["a"][-1] == (1,)


def test_nobody_is_left_or_no_model(tmp_path):
    _, rows, _, _, _ = run(tmp_path, two_tasks("shrink"), ends_process("h1", "h3", "h5"))
    assert rows["a"].state is TaskState.FAILED
    assert rows["a"].reason.startswith("workers h1 (rank 0), h3 (rank 1), h5 (rank 2) are lost in round ")
    (tmp_path / "other").mkdir()
    _, rows, _, _, _ = run(tmp_path / "other", two_tasks("shrink"), ends_process("server1"))
    assert (rows["a"].state, rows["b"].state) == (TaskState.FAILED, TaskState.FINISHED)
    assert rows["a"].reason.startswith("the server's host server1 is lost, and the global model with it in round ")


def test_one_worker_that_is_alone(tmp_path):
    tasks = [replace(task, workers=task.workers[:1]) for task in two_tasks("shrink")]
    _, rows, _, _, _ = run(tmp_path, tasks, ends_host("h1"))
    assert (rows["a"].state, rows["b"].state) == (TaskState.FAILED, TaskState.FINISHED)


@pytest.mark.parametrize(
    "on_failure", ["shrink", *(pytest.param(one, marks=pytest.mark.soak) for one in ("raise", "abort"))]
)
def test_links_between_switches_make_new_trees_in_all_three(tmp_path, on_failure):
    def damage(to):
        to.change_link("leaf1", "spine1", up=False, at_ps=AT_PS)
        to.change_link("leaf2", "spine1", up=False, at_ps=AT_PS)

    _, rows, found, _, _ = run(tmp_path, two_tasks(on_failure), damage)
    assert {row.state for row in rows.values()} == {TaskState.FINISHED}
    assert set(found["a"]) == {(0, 1, 2)}


def test_of_a_network_that_falls_apart_the_part_with_the_model_goes_on(tmp_path):
    def damage(to):
        for spine in ("spine1", "spine2"):
            to.change_link("leaf1", spine, up=False, at_ps=AT_PS)

    _, rows, found, _, _ = run(tmp_path, [replace(one, on_failure="shrink") for one in two_tasks("shrink")], damage)
    assert {row.state for row in rows.values()} == {TaskState.FINISHED}
    assert {name: ranks[-1] for name, ranks in found.items()} == {"a": (0,), "b": (0,)}


STEPS = ["installed both", "recorded installation", "uninstalled"]


@pytest.mark.parametrize(
    ("on_failure", "step"),
    [
        ("shrink", "report died"),
        ("shrink", "intended change"),
        ("shrink", "told of change"),
        ("raise", "report died"),
        *(pytest.param("shrink", step, marks=pytest.mark.soak) for step in STEPS),
        pytest.param("raise", "uninstalled", marks=pytest.mark.soak),
    ],
)
def test_killed_on_the_way_it_comes_to_the_same(tmp_path, on_failure, step):
    kills = [KillAt(number, step) for number in (1, 2, 1, 1)]
    damage = ends_process("h3")
    steps, rows, found, told, _ = run(tmp_path, two_tasks(on_failure), damage, kills=kills)
    assert step in steps or on_failure == "raise"
    assert rows["b"].state is TaskState.FINISHED
    if on_failure == "raise":
        assert rows["a"].state is TaskState.FAILED
        assert "worker h3 (rank 1) is lost" in rows["a"].reason
        return
    assert rows["a"].state is TaskState.FINISHED
    assert found["a"][-1] == (0, 2)
    assert [one["what"] for one in told].count("died") == 1


def test_data_at_a_host_that_ends_fail_their_task_at_once_or_it_begins_anew(tmp_path):
    """The task does not wait for a time-out; when the host returns, another attempt reads its data."""
    path = tmp_path / "t.sqlite"
    task = Task("a", "server1", (), 3000, 2, wanted=WantedHosts(2, ("server2", "server2"), 4_000_000))
    topology = leaf_spine(leaves=3, spines=2, hosts=2, servers=2)  # no worker can be at the data's host
    with World(topology, PROGRAM) as world, open_store(path) as store:
        again = replace(task, name="again", max_restarts=1)
        store.submit([task, again])
        world.damage.end_host("server2", at_ps=2 * PS_PER_MS, away_ps=PS_PER_MS)
        with orchestrating(world, store, options=OPTIONS) as orchestrator:
            orchestrator.run()
        check_end(world, store)
        reader = store.task("a").task.workers[0]
        assert store.task("a").reason == f"{reader} cannot read its data at server2: that host has ended"
        assert store.task("a").finished_ps == 2 * PS_PER_MS
        assert (store.task("again").state, store.task("again").attempt) == (TaskState.FINISHED, 1)


def test_what_dies_is_a_host():
    with World(two_spines(), PROGRAM) as world:
        for end in (world.damage.end_host, lambda host: world.damage.end_process(host, task="a")):
            with pytest.raises(ClusterError, match="'leaf1' is no host"):
                end("leaf1")
        with pytest.raises(ClusterError, match="away_ps: -1 is below 0"):
            world.damage.end_host("h1", away_ps=-1)


def test_the_field_has_three_values():
    with pytest.raises(PlanError, match="task a: on_failure: 'die' is none of 'abort', 'raise' and 'shrink'"):
        replace(two_tasks("abort")[0], on_failure="die")


def some(chance):
    """Return three tasks that share switches and hosts, and one to three deaths at any moment of them."""
    found = []
    for number in range(3):
        hosts = chance.sample(["h1", "h2", "h3", "h4", "h5", "h6"], chance.randint(2, 5))
        server = chance.choice(["server1", *(["h1"] if "h1" not in hosts else [])])
        how = chance.choice(["shrink", "shrink", "abort", "raise"])
        more = {"max_restarts": chance.choice([0, 1, 3])} if how != "raise" else {}
        if chance.random() < 0.4:
            more |= {"wanted": WantedHosts(len(hosts), ("server1", "server1"), 40_000)}
            hosts = []
        sizes = chance.choice([1, 1000, 3000]), chance.randint(1, 6), chance.choice([0, 20 * PS_PER_US])
        found.append(Task(f"t{number}", server, tuple(hosts), *sizes, on_failure=how, **more))
    return found


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 60))])
def test_deaths_at_any_moment_with_losses_and_hosts_that_take_time(tmp_path, seed):
    chance = random.Random(seed)
    tasks, topology = some(chance), two_spines()
    faults = Faults(loss=0.01, duplicate=0.01, reorder=0.02) if seed % 2 else Faults()
    slots = chance.choice([None, 128, 32])
    giving = "first" if slots is None else chance.choice(["first", "whole", "value"])
    options = replace(OPTIONS, slots=giving, move=chance.choice([None, 0.0]), back_off_ps=200 * PS_PER_US)
    computing = ComputingManager(topology, {"server1": HostProfile(add_ps=chance.choice([0, 2000]), slots=8)})
    path = tmp_path / "t.sqlite"
    with (
        World(topology, PROGRAM, faults=faults, seed=seed, checkpoints=tmp_path / "state") as world,
        open_store(path) as store,
    ):
        store.submit(tasks)
        for _ in range(chance.randint(1, 3)):
            at_ps, host = chance.randint(0, 600) * PS_PER_US, f"h{chance.randint(1, 6)}"
            if chance.random() < 0.6:
                world.damage.end_process(host, task=f"t{chance.randint(0, 2)}", at_ps=at_ps)
            else:
                away_ps = chance.choice([None, 300 * PS_PER_US])
                world.damage.end_host(host, at_ps=at_ps, away_ps=away_ps)
        for left in (chance.randint(1, 60), chance.randint(1, 60), 0):
            with (
                contextlib.suppress(Killed),
                orchestrating(
                    world, store, options=options, computing=computing, slots=slots, checkpoint=KillAt(left)
                ) as orchestrator,
            ):
                orchestrator.run()
        check_end(world, store)
        for row in store.tasks():
            if row.state is TaskState.FINISHED:
                assert row.digest == expected_digest(row.task, ranks_of(store, row.name)), row


@pytest.mark.parametrize("at_us", [165, *(pytest.param(at, marks=pytest.mark.soak) for at in range(20, 500, 23))])
def test_where_tasks_take_turns_it_fails_at_once_and_the_others_have_theirs(tmp_path, at_us):
    """Even while a joining task's schedule is on its way, which waits for the end of the round."""
    hosts = {"a": ("h1", "h4"), "b": ("h1", "h7"), "c": ("h2", "h7")}
    tasks = [
        Task(name, server, (worker,), 4000, 5, 60 * PS_PER_US, arrival_ps=150 * PS_PER_US * (name == "c"))
        for name, (server, worker) in hosts.items()
    ]
    options = replace(OPTIONS, schedule="tdm", delta_ps=20 * PS_PER_US)
    with World(oxc(4, 3, 2, rate="10G"), PROGRAM) as world, open_store(tmp_path / "t.sqlite") as store:
        store.submit([replace(task, on_failure="raise") for task in tasks])
        world.damage.end_process("h4", task="a", at_ps=at_us * PS_PER_US)
        with orchestrating(world, store, options=options) as orchestrator:
            orchestrator.run(50 * PS_PER_MS)
        check_end(world, store)
        rows = {row.name: row for row in store.tasks()}
        assert {rows["b"].state, rows["c"].state} == {TaskState.FINISHED}
        if rows["a"].state is TaskState.FINISHED:
            assert rows["a"].finished_ps < at_us * PS_PER_US or rows["a"].started_ps > at_us * PS_PER_US
        else:
            assert rows["a"].reason.startswith("worker h4 (rank 0) is lost in round ")
        assert all((row["dark_lost"], row["misrouted"]) == (0, 0) for row in store.schedules.turns("b"))


@pytest.mark.parametrize("field", [{"on_failure": "shrink"}, {"max_restarts": 1}])
def test_where_tasks_take_turns_some_fields_are_refused(tmp_path, field):
    options = replace(OPTIONS, schedule="tdm", delta_ps=20 * PS_PER_US)
    with World(oxc(4, 3, 2, rate="10G"), PROGRAM) as world, open_store(tmp_path / "t.sqlite") as store:
        store.submit([Task("a", "h1", ("h4",), 4000, 5, **field)])
        with orchestrating(world, store, options=options) as orchestrator:
            orchestrator.run()
        row = store.task("a")
        assert (row.state, row.reason.split(":")[0]) == (TaskState.REJECTED, next(iter(field)))
