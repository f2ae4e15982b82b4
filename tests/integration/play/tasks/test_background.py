"""Background traffic in an orchestrated network: it is measured as used bandwidth, and decisions account for it."""

import json
from dataclasses import dataclass

import pytest

from p4reduce.control_plane.orchestrator import PlanPhase, TaskRow, TaskState
from p4reduce.control_plane.scheduling import Task
from p4reduce.network.background import parse_background
from p4reduce.play.tasks.world import World
from tests.support.orchestrated.bench import (
    PROGRAM,
    PS_PER_MS,
    PS_PER_US,
    check_end,
    open_store,
    orchestrating,
    two_spines,
)

ARRIVAL_PS = 2 * PS_PER_MS
LOADED = parse_background("gravity:load=0.3,seed=3")
RATE = two_spines().link_at("h1", 1).rate_bps


@dataclass
class Run:
    """Result of one task that arrives after some measurements."""

    row: TaskRow
    spines: list[set[str]]  # spines of each plan
    before: dict  # bit/s on each link before the task arrived, from interfaces alone
    seen: dict  # background as seen by the orchestrator at that time
    during: dict  # the same at the end


def run(folder, background, demand_bps=RATE // 10, rounds=20):
    task = Task("late", "server1", ("h1", "h3", "h5"), 4000, rounds, 20 * PS_PER_US, demand_bps, ARRIVAL_PS)
    with (
        World(two_spines(), PROGRAM, background=background) as world,
        open_store(folder / "tasks.sqlite") as store,
    ):
        store.submit([task])
        with orchestrating(world, store) as orchestrator:
            while world.now() < ARRIVAL_PS:
                orchestrator.step()
            before = {hop: 8 * octets * 10**12 // world.now() for hop, octets in world.interface_bytes().items()}
            assert world.now() == ARRIVAL_PS
            seen = orchestrator.monitor.background_bps
            orchestrator.run()
            during = orchestrator.monitor.background_bps
        check_end(world, store)
        spines = [
            {node for _, path in json.loads(plan.plan)["paths"] for node in path if node.startswith("spine")}
            for plan in store.plans(tuple(PlanPhase), "late")
        ]
        return Run(store.task("late"), spines, before, seen, during)


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    return run(tmp_path_factory.mktemp("quiet"), None)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    return run(tmp_path_factory.mktemp("loaded"), LOADED)


def test_before_a_task_comes_all_that_interfaces_sent_is_background(quiet, loaded):
    assert loaded.seen == {hop: bps for hop, bps in loaded.before.items() if bps}
    assert len(loaded.seen) == len(loaded.before), "some link carries nothing"
    assert max(loaded.seen.values()) < RATE
    assert (quiet.seen, quiet.during) == ({}, {})


def test_while_a_task_runs_its_packets_are_no_background_even_on_hosts_links(loaded):
    demands = LOADED.demands(two_spines())
    for host, sent in zip(demands.hosts, demands.sent_bps, strict=True):
        # Bursts are random, and the last measurement spans about a millisecond.
        assert loaded.during[host, 1] == pytest.approx(sent, rel=0.6), host
    assert loaded.during["server1", 1] < RATE // 4, "its broadcasts alone take more"


def test_a_decision_changes_with_it_and_the_result_does_not(tmp_path, quiet, loaded):
    assert quiet.row.state is loaded.row.state is TaskState.FINISHED
    assert quiet.row.digest == loaded.row.digest
    assert quiet.spines == [{"spine1"}]
    assert loaded.spines != quiet.spines
    again = run(tmp_path, LOADED)
    assert (again.spines, again.row, again.during) == (loaded.spines, loaded.row, loaded.during)


def test_a_task_that_fits_alone_is_refused_beside_it(tmp_path):
    for background, state in ((None, TaskState.FINISHED), (LOADED, TaskState.REJECTED)):
        folder = tmp_path / state
        folder.mkdir()
        found = run(folder, background, demand_bps=RATE * 7 // 10, rounds=1)
        assert found.row.state is state, found.row
    assert "link" in found.row.reason


def test_counters_of_a_network_that_was_started_anew_begin_at_nothing(tmp_path):
    with open_store(tmp_path / "tasks.sqlite") as store:
        for name, background in (("first", LOADED), ("same again", LOADED), ("quiet", None)):
            with World(two_spines(), PROGRAM, background=background) as world, orchestrating(world, store) as one:
                arrival_ps = world.now() + ARRIVAL_PS
                store.submit([Task(name, "server1", ("h1", "h3"), 2000, 1, arrival_ps=arrival_ps)])
                while world.now() < arrival_ps:
                    one.step()
                total = world.interface_bytes()
                assert one.monitor.background_bps == {
                    hop: 8 * octets * 10**12 // world.now() for hop, octets in total.items() if octets
                }
                one.run()
        links = [row for hop in total for row in store.history.links(*hop)]
        assert all(0 <= row["utilisation"] <= 1 for row in links)
        assert {row.state for row in store.tasks()} == {TaskState.FINISHED}
