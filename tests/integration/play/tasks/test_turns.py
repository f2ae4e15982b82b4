"""Tasks that take turns over an optical cross-connect: on packets, with orchestrators that die at every step."""

import hashlib
import itertools
import random
import sqlite3
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import replace

import numpy as np
import pytest

from p4reduce.base.errors import PlanError
from p4reduce.base.records import from_json
from p4reduce.control_plane.counters import predict
from p4reduce.control_plane.orchestrator import (
    ComputingManager,
    HostProfile,
    OrchestratorOptions,
    PlanPhase,
    TaskRefusedError,
    TaskState,
)
from p4reduce.control_plane.orchestrator.executor import Timetable, is_read
from p4reduce.control_plane.orchestrator.installer import round_traffic
from p4reduce.control_plane.placement import reads
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.scheduling import Task
from p4reduce.control_plane.scheduling.task import WantedHosts
from p4reduce.control_plane.tdm import one_topology, switched  # noqa: F401  (registers the built-in ones)
from p4reduce.control_plane.tdm.registry import SCHEDULERS
from p4reduce.play.tasks.task_run import LEARNING_RATE, gradient
from p4reduce.play.tasks.world import World
from p4reduce.topologies import leaf_spine
from p4reduce.topologies.optical import oxc
from tests.support.effort import examples
from tests.support.orchestrated.bench import (
    PROGRAM,
    PS_PER_MS,
    PS_PER_US,
    KillAt,
    Killed,
    check_end,
    digests,
    open_store,
    orchestrating,
    rounds_of,
    run_killed,
)

DELTA_PS = 20 * PS_PER_US
STEPS = {  # steps of both scenarios together
    "read switches": 1,
    "intended schedule": 2,
    "installed both": 8,
    "recorded installation": 8,
    "set schedule": 2,
    "recorded schedule": 2,
    "started": 4,
    "recorded start": 4,
    "report round": 2,
    "report window": 2,
    "report schedule": 3,
    "report resumed": 1,
    "report finished": 2,
    "uninstalled": 4,
    "recorded removal": 4,
}
"""steps of the scenario, and the least number of each"""
OWN = ("intended schedule", "recorded installation", "set schedule", "recorded schedule", "started", "report schedule")
"""steps of schedules; test_kills.py covers those of all orchestrators"""


def turns(schedule="tdm", **more):
    more = {"delta_ps": DELTA_PS, "control_latency_ps": 10 * PS_PER_US, "measure_every_ps": PS_PER_MS} | more
    return OrchestratorOptions(schedule=schedule, **more)


def pods(planes=1, ports=2):
    return oxc(4, 3, ports, rate="10G", planes=planes)


def task(name, count, *, arrival=0, rounds=3, elements=4000, training=60, **more):
    wanted = WantedHosts(count)
    arrival_ps, training_ps = arrival * PS_PER_US, training * PS_PER_US
    return Task(name, "", (), elements, rounds, training_ps, arrival_ps=arrival_ps, wanted=wanted, **more)


def some_tasks():
    """Return three tasks that begin together and take turns on assigned hosts, and a fourth that arrives meanwhile."""
    return [task("a", 3), task("b", 4, rounds=4), task("c", 5, training=80, rounds=4), task("d", 4, arrival=150)]


def named(name, *hosts, arrival=0, rounds=4, training_ps=60 * PS_PER_US):
    return Task(name, hosts[0], hosts[1:], 4000, rounds, training_ps, arrival_ps=arrival * PS_PER_US)


def moving_tasks():
    """The last task has a host of `b`, so it joins `a`, whose bond of two circuits becomes one: `a` moves."""
    return [named("a", "h1", "h4", rounds=6), named("b", "h1", "h7"), named("d", "h2", "h7", arrival=150)]


def other_kinds():
    """Return ring and all-to-all tasks that take turns with a tree; the last one moves the circuits of `r`."""
    return [
        replace(named("r", "h1", "h4", rounds=6), exchange="rar"),
        replace(named("x", "h2", "h5", "h7"), exchange="a2a", elements=500),
        named("b", "h1", "h8"),
        named("d", "h3", "h7", arrival=150),
    ]


def windows(store):
    return [dict(row) for row in store._connection.execute("SELECT * FROM window_rounds ORDER BY started_ps")]


def check_windows(store):
    """Check that windows are sequential, no frame is lost or misrouted, and each task has one window a round."""
    rows = windows(store)
    assert rows
    for row in rows:
        assert row["started_ps"] <= row["lit_ps"] <= row["ended_ps"]
        assert (row["dark_lost"], row["misrouted"]) == (0, 0)
    for before, after in itertools.pairwise(rows):
        assert before["ended_ps"] <= after["started_ps"]
    for row in store.tasks():
        if row.state is not TaskState.FINISHED or row.task.serving is not None:
            continue
        own = store.schedules.turns(row.name)
        assert len(own) == row.task.rounds
        for one, turn in zip(store.history.rounds(row.name), own, strict=True):
            assert turn["started_ps"] <= one["done_ps"] <= turn["ended_ps"]
            assert one["trained_ps"] <= turn["started_ps"]


def run(tmp_path, tasks, options, topology=None, kills=(), prepare=None):
    path = tmp_path / "tasks.sqlite"
    with World(topology or pods(), PROGRAM) as world:
        with open_store(path) as store:
            store.submit(tasks)
        if prepare is not None:
            prepare(world)
        steps = run_killed(world, path, list(kills), options=options)
        with open_store(path) as store:
            check_end(world, store)
            check_windows(store)
            rounds_of(store, {row.name: row.task.rounds for row in store.tasks() if row.state is TaskState.FINISHED})
            assert store.schedules.open() is None
            return steps, {row.name: row for row in store.tasks()}, digests(store)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Return the steps of both scenarios, and their results."""
    every, digests = [], {}
    for scenario in SCENARIOS:
        steps, rows, digests[scenario] = run(tmp_path_factory.mktemp("undisturbed"), scenario(), turns())
        assert {row.state for row in rows.values()} == {TaskState.FINISHED}
        every += steps
    return every, digests


SCENARIOS = (some_tasks, moving_tasks, other_kinds)


def test_the_steps_that_are_tried_are_all_that_there_are(expected):
    steps, _ = expected
    assert set(steps) >= set(STEPS)
    assert {step: steps.count(step) for step, number in STEPS.items() if steps.count(step) < number} == {}
    assert set(steps) - set(STEPS) <= {"measured"}


@pytest.mark.parametrize(
    "scenario",
    [pytest.param(some_tasks, marks=pytest.mark.soak), moving_tasks, pytest.param(other_kinds, marks=pytest.mark.soak)],
)
@pytest.mark.parametrize(
    "step", [step if step in OWN else pytest.param(step, marks=pytest.mark.soak) for step in STEPS]
)
def test_a_kill_after_a_step(tmp_path, expected, step, scenario):
    """Kill at the first step of that name, and the following orchestrators at the next ones."""
    _, rows, found = run(tmp_path, scenario(), turns(), kills=[KillAt(1, step), KillAt(2, step)])
    assert {row.state for row in rows.values()} == {TaskState.FINISHED}
    assert found == expected[1][scenario]


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("seed", range(examples(1, 30)))
def test_kills_at_random_steps(tmp_path, expected, seed, scenario):
    chance = random.Random(seed)
    _, rows, found = run(tmp_path, scenario(), turns(), kills=[KillAt(chance.randint(1, 14)) for _ in range(8)])
    assert {row.state for row in rows.values()} == {TaskState.FINISHED}
    assert found == expected[1][scenario]


def test_a_ring_gives_the_weights_of_a_tree_and_blocks_come_back(tmp_path, expected):
    found = expected[1][other_kinds]
    tree = named("r", "h1", "h4", rounds=6)
    assert run(tmp_path, [tree], turns())[2]["r"] == found["r"]
    weights, digest, count = np.zeros(500, np.float32), b"", 3
    for number in range(4):
        given = [gradient("x", rank, number, count * 500) for rank in range(count)]
        back = -np.sum([own.reshape(count, -1).sum(axis=0) for own in given], axis=0, dtype=np.float32)
        weights -= np.float32(LEARNING_RATE / count) * back
        digest = hashlib.sha256(digest + weights.tobytes()).digest()
    assert digest.hex() == found["x"]


def test_blocks_and_rings_need_no_turns_and_give_the_same(tmp_path, expected):
    topology = leaf_spine(leaves=2, spines=1, hosts=4)
    tasks = [*other_kinds()[:2], named("t", "h1", "h4", rounds=6)]
    with World(topology, PROGRAM) as world, open_store(tmp_path / "t.sqlite") as store:
        store.submit(tasks)
        with orchestrating(world, store) as orchestrator:
            orchestrator.run()
        check_end(world, store)
        assert {row.state for row in store.tasks()} == {TaskState.FINISHED}
        found = digests(store)
        assert {name: found[name] for name in "rx"} == {name: expected[1][other_kinds][name] for name in "rx"}
        assert {plan.role for plan in store.plans(tuple(PlanPhase), "r")} == {"both"}


def reading_tasks(size=20_000):
    """Return `some_tasks` whose hosts read data first: from other pods, their own, several from one home, and late."""
    shards = {"a": ("h1", "h5", "h9", "h12"), "b": ("h12",) * 4, "c": (), "d": ("h2", "h6", "h10")}
    return [replace(one, wanted=replace(one.wanted, shards=shards[one.name], shard_bytes=size)) for one in some_tasks()]


def test_data_are_read_over_circuits_of_their_own_before_the_first_round(tmp_path, expected):
    """Every link carries exactly the predicted bytes: of reads, then of rounds; reads are removed when they end."""
    alone = [one for one in reading_tasks() if one.name == "b"]
    with at_work(tmp_path, alone, 0) as (world, store):
        pass
    world.advance(world.now() + PS_PER_MS)
    lost = world.network.fabric.links.array()
    assert (int(lost["dark_lost"].sum()), int(lost["misrouted"].sum())) == (0, 0)
    predicted = Counter()
    with open_store(tmp_path / "tasks.sqlite") as store:
        (row,) = store.tasks()
        assert row.digest == expected[1][some_tasks]["b"]
        pairs = reads(row.wanted, row.task.workers)
        assert len(pairs) == 4
        assert len({pods().neighbours(reader) for _, reader in pairs}) > 1
        for plan_row in store.plans(tuple(PlanPhase)):
            plan = from_json(Plan, plan_row.plan, "plan", topology=pods())
            read = is_read(plan_row.role)
            once = predict(plan, "pull", 5000) if read else round_traffic(row.task, plan_row.role, plan)
            assert not read or (plan.server, *plan.workers) in pairs
            for hop, traffic in once.items():
                predicted[hop] += traffic.bytes * (1 if read else row.task.rounds)
    assert {hop: size for hop, size in world.interface_bytes().items() if size} == {
        hop: size for hop, size in predicted.items() if size
    }


READING = ("installed read 1 of 3", *(step for step in STEPS if step != "report resumed"))  # nothing pauses here


@pytest.mark.parametrize("step", ["report restored", *(pytest.param(step, marks=pytest.mark.soak) for step in READING)])
def test_a_kill_while_data_are_read(tmp_path, expected, step):
    steps, rows, found = run(tmp_path, reading_tasks(), turns(), kills=[KillAt(1, step), KillAt(1, step)])
    assert step in steps
    assert {row.state for row in rows.values()} == {TaskState.FINISHED}
    assert found == expected[1][some_tasks]


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(60))
def test_kills_at_random_steps_while_data_are_read(tmp_path, expected, seed):
    chance = random.Random(seed)
    planes = chance.choice([1, 2])
    kills = [KillAt(chance.randint(1, 14)) for _ in range(8)]
    _, rows, found = run(tmp_path, reading_tasks(chance.choice([1, 5000, 40_000])), turns(), pods(planes), kills=kills)
    assert {row.state for row in rows.values()} == {TaskState.FINISHED}
    assert found == expected[1][some_tasks]


@pytest.mark.parametrize("at_us", [40, pytest.param(130, marks=pytest.mark.soak)])
def test_a_home_that_ends_fails_who_reads_there_and_nobody_else(tmp_path, expected, at_us):
    """The home ends before or during a read; readers do not wait for an answer that never comes."""
    end = lambda world: world.damage.end_host("h12", at_ps=at_us * PS_PER_US)  # noqa: E731
    _, rows, found = run(tmp_path, reading_tasks(200_000), turns(), prepare=end)
    states = {name: row.state for name, row in rows.items()}
    assert (states["b"], states["c"]) == (TaskState.FAILED, TaskState.FINISHED)
    assert "h12" in rows["b"].reason
    assert found["c"] == expected[1][some_tasks]["c"]
    assert rows["c"].finished_ps < 10 * PS_PER_MS


def test_homes_that_are_unknown_or_empty(tmp_path, expected):
    tasks = reading_tasks(0)
    nowhere = task("e", 2)
    nowhere = replace(nowhere, wanted=replace(nowhere.wanted, shards=("h99",), shard_bytes=9))
    _, rows, found = run(tmp_path, [*tasks, nowhere], turns())
    assert rows["e"].state is TaskState.REJECTED
    assert "shards: 'h99' is no host of the topology" in rows["e"].reason
    assert {name: found[name] for name in "abcd"} == expected[1][some_tasks]


def test_circuits_move_between_two_rounds_and_nothing_is_sent_again(tmp_path, expected):
    _, _, found = run(tmp_path, moving_tasks(), turns())
    assert found == expected[1][moving_tasks]
    with open_store(tmp_path / "tasks.sqlite") as store:
        (swap,) = store.history.swaps()
        assert swap["task"] == "a"
        assert swap["cause"] == "circuits of schedule 2"
        assert (swap["in_flight"], swap["resent_frames"], swap["late_frames"]) == (0, 0, 0)
        (change,) = [one for one in store.history.changes("a") if one["after"] == TaskState.RESCHEDULED]
        began = {row.number: row.began_ps for row in store.schedules.rows()}
        assert change["at_ps"] == began[2]
        assert began[2] in {row["ended_ps"] for row in windows(store) if row["schedule"] == 1}
        assert [len(lit) for lit in store.schedules.configurations().values()] == [1, 1, 2]


def test_who_takes_over_leaves_a_swap_to_the_schedule_that_is_on_its_way(tmp_path):
    """`a` keeps its trees until the circuits of schedule 2 are lit, whichever orchestrator set it."""
    steps, _, _ = run(tmp_path, moving_tasks(), turns(), kills=[KillAt(2, "set schedule")])
    assert "swapped" not in steps
    with open_store(tmp_path / "tasks.sqlite") as store:
        (swap,) = store.history.swaps()
        assert (swap["task"], swap["cause"]) == ("a", "circuits of schedule 2")


@pytest.mark.parametrize(
    "policy", ["seed", "static", *(pytest.param(name, marks=pytest.mark.soak) for name in ("random", "exact-one-tree"))]
)
@pytest.mark.parametrize("scenario", [some_tasks, pytest.param(other_kinds, marks=pytest.mark.soak)])
def test_other_schedulers(tmp_path, expected, policy, scenario):
    if policy == "exact-one-tree" and scenario is other_kinds:
        return  # this scheduler places all hosts itself
    _, rows, found = run(tmp_path, scenario(), turns(policy))
    assert {row.state for row in rows.values()} == {TaskState.FINISHED}
    assert found == expected[1][scenario], "whoever schedules, sums are the same"


TAKEN = {"tdm", "seed", "static", "no-tdm", "random", "exact-one-tree"}


@pytest.mark.parametrize("policy", sorted(SCHEDULERS))
def test_every_scheduler_is_refused_by_name_or_takes_a_late_task(tmp_path, policy):
    """A task with named hosts joins while the first one runs, with every scheduler."""
    tasks = [task("a", 3, rounds=8), task("d", 4, arrival=150)]
    if policy in TAKEN:
        _, rows, _ = run(tmp_path, tasks, turns(policy))
        assert {row.state for row in rows.values()} == {TaskState.FINISHED}
        assert rows["d"].started_ps < 200 * PS_PER_US < rows["a"].finished_ps
        return
    with (
        World(pods(), PROGRAM) as world,
        open_store(tmp_path / "tasks.sqlite") as store,
        pytest.raises(PlanError, match=f"by '{policy}'.* exact-one-tree, no-tdm, random, seed, static, tdm$"),
        orchestrating(world, store, options=turns(policy)),
    ):
        pass


@contextmanager
def at_work(tmp_path, tasks, until_us, *, options=None, topology=None, prepare=None):
    """Yield a world and a store in mid-run; afterwards run to the end and check it."""
    with World(topology or pods(), PROGRAM) as world, open_store(tmp_path / "tasks.sqlite") as store:
        store.submit(tasks)
        if prepare is not None:
            prepare(world)
        with orchestrating(world, store, options=options or turns()) as orchestrator:
            orchestrator.run(until_us * PS_PER_US)
            yield world, store
            orchestrator.run()
        check_end(world, store)
        check_windows(store)


@pytest.mark.parametrize("until_us", [95, 110, 130])
def test_a_task_that_is_given_up_in_its_window_leaves_nothing_to_lose(tmp_path, expected, until_us):
    with at_work(tmp_path, moving_tasks(), until_us) as (world, store):
        turn = world.turn()
        assert (turn.schedule, len(turn.configuration)) == (1, 1)
        store.request_cancel("b")
    with open_store(tmp_path / "tasks.sqlite") as store:
        states = {row.name: row.state for row in store.tasks()}
        assert states == {"a": "finished", "b": "failed", "d": "finished"}
        found = digests(store)
        assert {name: found[name] for name in "ad"} == {name: expected[1][moving_tasks][name] for name in "ad"}


def test_a_link_that_is_cut_fails_those_who_need_it_and_the_others_take_their_turns(tmp_path, expected):
    cut = {"a": "tor2", "b": "tor3"}
    for name, tor in cut.items():
        folder = tmp_path / name
        folder.mkdir()
        host = {"a": "h4", "b": "h7"}[name]
        with at_work(folder, moving_tasks()[:2], 100) as (world, _):
            world.change_link(host, tor, up=False)
        with open_store(folder / "tasks.sqlite") as store:
            other = "b" if name == "a" else "a"
            assert store.task(name).state is TaskState.FAILED
            assert f"link {host} - {tor} is down" in store.task(name).reason
            assert store.task(other).state is TaskState.FINISHED
            assert digests(store)[other] == expected[1][moving_tasks][other]


def test_a_network_that_ends_takes_its_schedule_along(tmp_path):
    path = tmp_path / "tasks.sqlite"
    with World(pods(), PROGRAM) as world, open_store(path) as store:
        store.submit(some_tasks())
        with orchestrating(world, store, options=turns()) as orchestrator:
            orchestrator.run(100 * PS_PER_US)
        assert store.schedules.active() is not None
    with World(pods(), PROGRAM) as world, open_store(path) as store:
        with orchestrating(world, store, options=turns()) as orchestrator:
            orchestrator.run()
        states = {row.name: row.state for row in store.tasks()}
        assert states == {"a": "failed", "b": "failed", "c": "failed", "d": "finished"}
        assert [row.phase for row in store.schedules.rows()] == ["dropped", "active"]


def test_tasks_that_fit_nowhere_and_the_smallest_that_does(tmp_path):
    tasks = [
        task("one", 1),
        task("large", 40),
        replace(task("served", 2), server="h1"),
        Task("many", "h1", ("h2",), 4000, slots=2),
    ]
    _, rows, _ = run(tmp_path, tasks, turns())
    assert {name: row.state for name, row in rows.items()} == {
        "one": "finished",
        "large": "rejected",
        "served": "rejected",
        "many": "rejected",
    }
    assert "41 units, but the network has 12 GPUs" in rows["large"].reason
    assert "name all hosts, or none" in rows["served"].reason
    assert "slots: 2" in rows["many"].reason


def test_hosts_with_as_many_slots_as_a_task_wants(tmp_path):
    """In its turn a task has all slots of its hosts; sums equal those of a task that wants one."""
    two = {host.name: HostProfile(slots=2) for host in pods().hosts}
    wanting = [replace(one, slots=2) for one in moving_tasks()[:2]]
    few = {"h4": HostProfile(slots=2)}
    for profiles, states in ((two, {"a": "finished", "b": "finished"}), (few, {"a": "finished", "b": "rejected"})):
        (tmp_path / str(len(profiles))).mkdir()
        with World(pods(), PROGRAM) as world, open_store(tmp_path / str(len(profiles)) / "t.sqlite") as store:
            store.submit(wanting)
            computing = ComputingManager(pods(), profiles)
            with orchestrating(world, store, options=turns(), computing=computing) as orchestrator:
                orchestrator.run()
            assert {row.name: row.state for row in store.tasks()} == states
            if profiles is few:
                assert "slots: 2, but h7 has 1" in store.task("b").reason


def test_darkness_longer_than_a_round_lets_tasks_wait_for_each_other(tmp_path):
    _, rows, _ = run(tmp_path, moving_tasks()[:2], turns(delta_ps=10 * PS_PER_MS))
    assert {row.state for row in rows.values()} == {TaskState.FINISHED}
    with open_store(tmp_path / "tasks.sqlite") as store:
        assert [len(row.schedule.processes) for row in store.schedules.rows()] == [1, 1]
    assert rows["b"].started_ps >= rows["a"].finished_ps or rows["a"].started_ps >= rows["b"].finished_ps


def test_two_planes_and_what_they_cannot_share_out(tmp_path):
    _, rows, found = run(tmp_path, moving_tasks(), turns(), pods(planes=2))
    assert {row.state for row in rows.values()} == {TaskState.FINISHED}
    with open_store(tmp_path / "tasks.sqlite") as store:
        assert len(found) == len(store.tasks())


@pytest.mark.parametrize(
    ("topology", "schedule", "complaint"),
    [
        (leaf_spine(leaves=2, spines=1, hosts=2), "tdm", "has no cross-connect"),
        (pods(), "", "has a cross-connect"),
        (pods(), "nobody", "there is no scheduler 'nobody'"),
    ],
)
def test_schedules_are_for_cross_connects(tmp_path, topology, schedule, complaint):
    with (
        World(topology, PROGRAM) as world,
        open_store(tmp_path / "tasks.sqlite") as store,
        pytest.raises(PlanError, match=complaint),
        orchestrating(world, store, options=turns(schedule)),
    ):
        pass


def test_the_executor_takes_a_schedule_once_and_none_that_is_late(tmp_path):
    with at_work(tmp_path, moving_tasks()[:2], 100) as (world, store):
        windows_ = store.schedules.windows(1)
        world.set_schedule(Timetable(1, (), 0, 0))  # already set
        assert (world.turn().schedule, world.turn().waiting) == (1, 0)
        with pytest.raises(TaskRefusedError, match="1 came after it"):
            world.set_schedule(Timetable(0, windows_, DELTA_PS, 0))
        bad = replace(windows_[0], circuits=(replace(windows_[0].circuits[0], port_a=1),))
        with pytest.raises(TaskRefusedError, match="does not lead to"):
            world.set_schedule(Timetable(2, (bad,), DELTA_PS, 0))
        assert world.turn().waiting == 0


@pytest.mark.parametrize(
    ("table", "column", "text"),
    [
        ("windows", "tasks", "{}"),
        ("windows", "tasks", "[]"),
        ("windows", "tasks", "no json"),
        ("windows", "tasks", '["nobody"]'),
        ("configurations", "circuits", "[]"),
        ("schedules", "schedule", "{}"),
    ],
)
def test_a_schedule_that_is_damaged_on_its_way_is_taken_back(tmp_path, expected, table, column, text):
    """All its trees are installed; with the damaged windows, tasks would wait for a turn forever."""
    path = tmp_path / "tasks.sqlite"
    with World(pods(), PROGRAM) as world:
        with open_store(path) as store:
            store.submit(moving_tasks()[:2])
            kill = KillAt(2, "recorded installation")
            with pytest.raises(Killed), orchestrating(world, store, options=turns(), checkpoint=kill) as orchestrator:
                orchestrator.run()
        with closing(sqlite3.connect(path)) as raw:
            raw.execute(f"UPDATE OR REPLACE {table} SET {column} = ? WHERE rowid = 1", (text,))  # noqa: S608
            raw.commit()
        with open_store(path) as store:
            with orchestrating(world, store, options=turns()) as orchestrator:
                orchestrator.run(10 * PS_PER_MS)
            assert {row.state for row in store.tasks()} == {TaskState.FINISHED}
            assert digests(store) == {name: expected[1][moving_tasks][name] for name in "ab"}
            assert [row.phase for row in store.schedules.rows()] == ["dropped", "active"]
