"""Tasks of the orchestrator in the flow model: the rounds, bytes and nearly the times of packets."""

import json
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from p4reduce.cli.main import app
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.orchestrator import TaskState, write_trace
from p4reduce.control_plane.orchestrator.executor import Timetable
from p4reduce.control_plane.orchestrator.options import TaskRefusedError
from p4reduce.control_plane.scheduling import Task
from p4reduce.control_plane.scheduling.task import WantedHosts
from p4reduce.group.errors import ClusterError
from p4reduce.network.background import Background
from p4reduce.network.virtual import Faults
from p4reduce.play.tasks.world import World
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import run_experiment
from p4reduce.topologies import load
from tests.support.orchestrated.bench import (
    PROGRAM,
    PS_PER_US,
    check_end,
    open_store,
    orchestrating,
    some_tasks,
    two_spines,
)
from tests.support.orchestrated.sums import ranks_of

FLOW = {"time": "flow"}


@contextmanager
def ended(path, tasks, policy="steiner", before=lambda world: None, **options):
    """A world whose tasks have ended, and its store."""
    with World(two_spines(), PROGRAM, **options) as world, open_store(path) as store:
        store.submit(tasks)
        before(world)
        with orchestrating(world, store, policy=policy) as orchestrator:
            orchestrator.run()
        check_end(world, store)
        yield world, store


@pytest.mark.parametrize("policy", ["steiner", "spff"])
def test_rounds_and_bytes_are_those_of_packets_and_times_nearly(tmp_path, policy):
    found = []
    for name, options in (("packets", {}), ("flow", FLOW)):
        with ended(tmp_path / name, some_tasks(), policy, **options) as (world, store):
            rounds = [one for row in store.tasks() for one in store.history.rounds(row.name)]
            counted = {hop: size for hop, size in world.interface_bytes().items() if size}
            found.append(
                ([one["round"] for one in rounds], counted, [one["done_ps"] - one["trained_ps"] for one in rounds])
            )
    packets, flow = found
    assert flow[:2] == packets[:2]
    assert sum(flow[2]) == pytest.approx(sum(packets[2]), rel=0.08)


def test_no_counter_of_a_switch_is_read(tmp_path, monkeypatch):
    """In the flow model counters are zero; reading a thousand switches would take seconds."""
    read, whole = [], Controller.read_counters
    monkeypatch.setattr(
        Controller, "read_counters", lambda self, switches=None: read.append(switches) or whole(self, switches)
    )
    with ended(tmp_path / "t.sqlite", some_tasks(elements=1_000_000), **FLOW) as (world, store):
        assert read
        assert not any(switches is None or switches for switches in read)
        for switch in world.topology.switches:
            counted = store.history.switches(switch.name)
            assert counted
            assert {row["sent"] + row["resent"] + row["refused"] for row in counted} == {0}


def test_a_round_over_several_trees_takes_what_one_all_reduce_over_them_takes(tmp_path):
    """Exactly so on packets, where trees keep their paces; nearly in the flow model, where each tree has a share."""
    racks = "leaf-spine:leaves=4,spines=2,hosts=4,servers=0,rate=10G,capable=leaf1"
    workers = tuple(f"h{number}" for number in range(1, 16))
    task = Task("one", server="h16", workers=workers, elements=65_536, rounds=1, training_ps=PS_PER_US)
    took = []
    for name, options in (("packets", {}), ("flow", FLOW)):
        with World(load(racks), PROGRAM, **options) as world, open_store(tmp_path / name) as store:
            store.submit([task])
            with orchestrating(world, store, policy="packing") as orchestrator:
                orchestrator.run()
            check_end(world, store)
            (one,) = store.history.rounds("one")
            took.append(one["done_ps"] - one["trained_ps"])
    given = Experiment(topology=racks, plan="packing", elements=65_536, lanes=PROGRAM.lanes)
    alone = run_experiment(given).network.communication_ps
    assert took[0] == pytest.approx(alone, rel=0.02)
    assert took[1] == pytest.approx(alone, rel=0.08)


def test_a_swap_goes_on_with_what_has_not_flowed(tmp_path):
    """The tree changes in the middle of a round, and both trees carry a part."""
    task = some_tasks(elements=40_000, rounds=2)[0]
    moved = []
    with World(two_spines(), PROGRAM, **FLOW) as world, open_store(tmp_path / "t.sqlite") as store:
        swap = world.swap
        world.swap = lambda *given: moved.append((world.network.sent(), swap(*given)))
        store.submit([task])
        with orchestrating(world, store) as orchestrator:
            orchestrator.run(until_ps=150 * PS_PER_US)
            (used,) = {link for link in ("spine1", "spine2") if world.network.sent()["leaf1", 3 + int(link[-1] == "2")]}
            ends = ("leaf1", used)
            for hop in (ends, ends[::-1]):  # as the failure of a link is reported
                world.damage._down.add((hop[0], two_spines().port(*hop)))
            world._report(None, "link", {"node": "leaf1", "port": two_spines().port(*ends), "up": False})
            orchestrator.run()
        (row,) = store.tasks()
        assert (row.state, row.digest, len(ranks_of(store, task.name))) == (TaskState.FINISHED, "", 2)
        (before, _) = moved[0]
        port = two_spines().port("leaf1", used)
        assert 0 < before["leaf1", port] == world.network.sent()["leaf1", port]
        other = two_spines().port("leaf1", "spine2" if used == "spine1" else "spine1")
        assert world.network.sent()["leaf1", other] > before["leaf1", port]


def test_a_host_that_ends_leaves_the_others_their_rounds(tmp_path):
    tasks = [some_tasks(rounds=4)[0]]
    tasks = [type(tasks[0])(**{**vars(tasks[0]), "on_failure": "shrink"})]

    def end(world):
        world.damage.end_host("h3", at_ps=70 * PS_PER_US)

    with ended(tmp_path / "t.sqlite", tasks, before=end, **FLOW) as (_, store):
        (row,) = store.tasks()
        ranks = ranks_of(store, row.name)
        assert (row.state, len(ranks), {len(own) for own in ranks}) == (TaskState.FINISHED, 4, {2, 3})


def test_workers_read_the_data_that_their_home_has(tmp_path):
    wanted = WantedHosts(3, ("server1",) * 3, 400_000)  # a host without room for a worker
    with ended(tmp_path / "t.sqlite", [Task("reads", "", (), 640, rounds=1, wanted=wanted)], **FLOW) as (world, store):
        (row,) = store.tasks()
        assert row.state == TaskState.FINISHED
        assert "server1" not in row.task.workers
        assert world.network.sent()["server1", 1] >= 3 * 400_000


def test_what_the_model_does_not_know_is_refused():
    for options in ({"faults": Faults(loss=0.1)}, {"background": Background("gravity", 0.1, 1)}):
        with pytest.raises(ClusterError, match="choose time: virtual"):
            World(two_spines(), PROGRAM, **FLOW, **options)
    with pytest.raises(ClusterError, match="circuits"):
        World(load("oxc:pods=2,hosts=2,ports=1,rate=25G"), PROGRAM, **FLOW)
    with World(two_spines(), PROGRAM, **FLOW) as world:
        with pytest.raises(ClusterError, match="leaf1 - spine1: the flow model knows no links that are cut"):
            world.change_link("leaf1", "spine1", up=False)
        with pytest.raises(TaskRefusedError, match="circuits"):
            world.set_schedule(Timetable(1, (), 0, 0, {}))


def test_the_command_tells_the_error_and_keeps_to_one_kind_of_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    write_trace(tmp_path / "tasks.yaml", some_tasks(rounds=1))
    assert invoke("tasks", "submit", "tasks.yaml").exit_code == 0
    flags = ("orchestrate", "-t", "leaf-spine:leaves=3,spines=2,hosts=2,servers=1", "-l", 64)
    for more in (("--cut", "leaf1,spine1@5ms"), ("--background", "gravity:load=0.1,seed=1"), ("--live",)):
        refused = invoke(*flags, "--time", "flow", *more)
        assert (refused.exit_code, f"{more[0]} needs packets" in refused.output) == (2, True), refused.output
    ran = invoke(*flags, "--time", "flow", "--json")
    assert ran.exit_code == 0, ran.output
    rows = json.loads(ran.stdout)
    assert {row["state"] for row in rows} == {"finished"}
    assert all(row["time"] == "flow" and 0 < row["model_error"]["mean"] < 0.02 for row in rows)
    other = invoke(*flags)
    assert (other.exit_code, "have run with --time flow" in other.output) == (2, True), other.output
