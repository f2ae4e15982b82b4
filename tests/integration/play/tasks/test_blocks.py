"""All-to-all tasks over ordinary links: sums, bytes, kills, deaths, moves, flow model."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from p4reduce.base.records import from_json
from p4reduce.control_plane.orchestrator import PlanPhase, TaskState
from p4reduce.control_plane.orchestrator.installer import round_traffic
from p4reduce.control_plane.placement import ClusterView, Racks
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.scheduling import NetworkState, Selection, Task
from p4reduce.control_plane.scheduling.task import WantedHosts
from p4reduce.play.tasks.world import World
from p4reduce.topologies import leaf_spine, load
from tests.support.orchestrated.bench import (
    OPTIONS,
    PROGRAM,
    PS_PER_MS,
    PS_PER_US,
    KillAt,
    check_end,
    open_store,
    run_killed,
    two_spines,
)
from tests.support.orchestrated.sums import expected_digest, ranks_of

BLOCKS = Task("x", "server1", ("h1", "h3", "h5"), 700, 4, 20 * PS_PER_US, exchange="a2a")
BESIDE = Task("t", "h6", ("h2", "h4", "h5"), 3000, 4, 10 * PS_PER_US)


def run(tmp_path, tasks, *, topology=None, damage=lambda world: None, kills=(), time="virtual", last=None, **how):
    """Return rows by name, bytes of links and steps; check exact sums. ``last`` is that of `expected_digest`."""
    path = tmp_path / "t.sqlite"
    with World(topology or two_spines(), PROGRAM, time=time) as world, open_store(path) as store:
        store.submit(tasks)
        damage(world)
        steps = run_killed(world, path, list(kills), **how)
        check_end(world, store)
        world.advance(world.now() + 100 * PS_PER_MS)  # wait for the last acknowledgements
        rows = {row.name: row for row in store.tasks()}
        for name, row in rows.items():
            ranks = ranks_of(store, name)
            if row.state is TaskState.FINISHED:
                assert len(ranks) == row.task.rounds
                assert time == "flow" or row.digest == expected_digest(row.task, ranks, last)
        sent = {hop: size for hop, size in world.interface_bytes().items() if size}
        return rows, sent, steps


def predicted(tmp_path, topology):
    """Return the bytes of all rounds of a database's tasks on every link, predicted from their plans."""
    found = Counter()
    with open_store(tmp_path / "t.sqlite") as store:
        for row in store.plans(tuple(PlanPhase)):
            plan, task = from_json(Plan, row.plan, "plan", topology=topology), store.task(row.task).task
            for hop, traffic in round_traffic(task, row.role, plan).items():
                found[hop] += task.rounds * traffic.bytes
    return {hop: size for hop, size in found.items() if size}


@pytest.mark.parametrize(
    ("spec", "hosts", "elements"),
    [
        ("leaf-spine:leaves=3,spines=2,hosts=2,servers=1", ("server1", "h1", "h3"), 300),
        ("leaf-spine:leaves=3,spines=2,hosts=2,servers=1", ("h2", "h1"), 1),
        pytest.param("fat-tree:k=4", ("h1", "h2", "h5", "h9", "h14"), 64, marks=pytest.mark.soak),
        pytest.param("nobel-us", ("Ithaca-h1", "Pittsburgh-h1"), 200, marks=pytest.mark.soak),
    ],
)
def test_every_link_carries_what_plans_predict_on_packets_and_in_the_flow_model(tmp_path, spec, hosts, elements):
    task = replace(BLOCKS, server=hosts[0], workers=hosts[1:], elements=elements, rounds=2)
    found = {}
    for time in ("virtual", "flow"):
        (tmp_path / time).mkdir()
        topology = load(spec)
        rows, found[time], _ = run(tmp_path / time, [task], topology=topology, time=time)
        assert rows["x"].state is TaskState.FINISHED, rows["x"].reason
        with open_store(tmp_path / time / "t.sqlite") as store:
            found[time, "ps"] = sum(one["done_ps"] - one["trained_ps"] for one in store.history.rounds("x"))
        assert found[time] == predicted(tmp_path / time, topology)
    assert found["flow", "ps"] == pytest.approx(found["virtual", "ps"], rel=0.08)


def cut(world):
    world.change_link("leaf1", "spine1", up=False, at_ps=48 * PS_PER_US)
    world.change_link("leaf2", "spine2", up=False, at_ps=90 * PS_PER_US)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(30))
def test_kills_and_links_that_are_cut_change_no_block(tmp_path, seed):
    """Hosts change paths at the start of a round; a killed orchestrator leaves that to the next one."""
    chance = random.Random(seed)
    kills = [KillAt(chance.randint(1, 12)) for _ in range(8)] if seed else []
    rows, _, steps = run(tmp_path, [BLOCKS, BESIDE], damage=cut, kills=kills)
    assert {row.state for row in rows.values()} == {TaskState.FINISHED}, [row.reason for row in rows.values()]
    assert "intended change" in steps
    with open_store(tmp_path / "t.sqlite") as store:
        assert any(one["what"] == "rescue" and one["done_ps"] for one in store.history.replans("x"))


OWN = ("told of change",)
OTHERS = ("intended", "started", "report round", "intended change", "report replanned", "uninstalled")


@pytest.mark.parametrize("step", [*OWN, *(pytest.param(step, marks=pytest.mark.soak) for step in OTHERS)])
def test_a_kill_after_a_step(tmp_path, step):
    rows, _, steps = run(tmp_path, [BLOCKS], damage=cut, kills=[KillAt(1, step)])
    assert step in steps
    assert rows["x"].state is TaskState.FINISHED, rows["x"].reason


@pytest.mark.parametrize("at_us", [34, *(pytest.param(at_us, marks=pytest.mark.soak) for at_us in range(1, 99, 3))])
def test_who_is_left_goes_on_with_blocks_of_its_own(tmp_path, at_us):
    """Deaths before the first blocks leave, while they travel, and while they return."""
    task = replace(BLOCKS, on_failure="shrink")
    die = lambda world: world.damage.end_host("h3", at_ps=at_us * PS_PER_US)  # noqa: E731
    rows, _, _ = run(tmp_path, [task, BESIDE], damage=die, last=3)
    assert {row.state for row in rows.values()} == {TaskState.FINISHED}, rows["x"].reason
    assert (rows["x"].task.workers, rows["x"].ranks) == (("h1", "h5"), (0, 2))
    (tmp_path / "abort").mkdir()
    rows, _, _ = run(tmp_path / "abort", [BLOCKS], damage=die)
    assert rows["x"].state is TaskState.FAILED
    assert "worker h3 (rank 1) is lost" in rows["x"].reason


def test_chosen_hosts_move_and_get_the_model(tmp_path):
    """A host ends; another one takes its rank, with the model from the server's host."""
    wanted = replace(BLOCKS, server="server1", workers=(), wanted=WantedHosts(3, ("h6",), 5000), rounds=6)
    die = lambda world: world.damage.end_host("h1", at_ps=100 * PS_PER_US)  # noqa: E731
    rows, _, _ = run(tmp_path, [wanted], damage=die, options=replace(OPTIONS, move=0.0))
    assert rows["x"].state is TaskState.FINISHED, rows["x"].reason
    assert "h1" not in rows["x"].task.workers
    assert rows["x"].ranks == (0, 1, 2)
    with open_store(tmp_path / "t.sqlite") as store:
        (rescue,) = [one for one in store.history.replans("x") if one["done_ps"]]
    assert rescue["what"] == "rescue"


@pytest.mark.soak
@pytest.mark.parametrize("slots", ["value", "whole"])
def test_where_slots_are_given_by_value_it_needs_none(tmp_path, slots):
    rows, _, _ = run(tmp_path, [BLOCKS, BESIDE], options=replace(OPTIONS, slots=slots), slots=16)
    assert {row.state for row in rows.values()} == {TaskState.FINISHED}, [row.reason for row in rows.values()]


@pytest.mark.soak
def test_some_of_its_workers_are_selected(tmp_path):
    some = replace(BLOCKS, select=Selection("random", 0.6, seed=1))
    rows, _, _ = run(tmp_path, [some])
    assert rows["x"].state is TaskState.FINISHED
    assert 0 < len(rows["x"].task.workers) < 3


def test_a_link_that_is_too_slow_for_every_pair_is_named(tmp_path):
    rate = two_spines().link_at("h1", 1).rate_bps
    rows, _, _ = run(tmp_path, [replace(BLOCKS, demand_bps=rate // 2)])
    assert rows["x"].state is TaskState.REJECTED
    assert "left of" in rows["x"].reason


@pytest.mark.parametrize("kind", ["a2a", pytest.param("rar", marks=pytest.mark.soak)])
def test_placement_predicts_what_the_plans_put_on_links(tmp_path, kind):
    """Full frames only: blocks of whole frames, without acknowledgements."""
    topology = leaf_spine(leaves=3, spines=1, hosts=3)
    task = Task("x", "h2", ("h1", "h4", "h5", "h9"), 64 * 50, 1, exchange=kind)
    run(tmp_path, [task], topology=topology)
    cluster = ClusterView(Racks(topology), NetworkState(topology), slots={}, free={})
    bits = cluster.load(task, task.workers, task.server).bits
    with open_store(tmp_path / "t.sqlite") as store:
        (row,) = store.plans(tuple(PlanPhase))
    plan = from_json(Plan, row.plan, "plan", topology=topology)
    for (node, port), traffic in round_traffic(task, row.role, plan).items():
        if traffic.bytes:
            link = cluster.racks.link(node, topology.neighbour(node, port))
            assert 8 * traffic.bytes == pytest.approx(bits[link] * plan.frame_bytes / (4 * plan.lanes), rel=0.03)
