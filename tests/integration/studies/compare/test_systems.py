"""The compared systems: exact sums under link faults, and each protocol's specific mechanism."""

import re
import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.network.background import Requests
from p4reduce.network.virtual import Faults
from p4reduce.topologies import load
from studies.compare.atp import Atp, Server
from studies.compare.panama import LEAST_WINDOW, Panama
from studies.compare.pool import OmniReduce, PoolWorker, Sharp, SwitchML
from studies.compare.protocol import SYSTEMS, RoundTrips, WrongSum, integers, jobs_of, run
from tests.support.effort import examples
from tests.support.paths import ROOT

STAR = "star:hosts=4,servers=1"
RACKS = "leaf-spine:leaves=3,spines=2,hosts=2,servers=1"
LANES = 64
ROUGH = Faults(loss=0.03, duplicate=0.05, reorder=0.2)


def carry(system, topology=STAR, elements=64 * 50, *, jobs=1, density=1.0, faults=None, seed=1):
    network = load(topology)
    ranks = len(network.workers) // jobs
    arrays = [
        [integers(seed + 100 * job, rank, elements, density, LANES) for rank in range(ranks)] for job in range(jobs)
    ]
    return run(system, network, jobs_of(system, network, arrays, LANES), faults=faults or Faults(), seed=seed)


@pytest.mark.parametrize("topology", [STAR, RACKS])
@pytest.mark.parametrize("name", ["switchml", "omnireduce", "atp", "sharp", "panama"])
def test_sums_are_exact_under_loss_duplication_and_reordering(name, topology):
    """``run`` raises if a sum is not exact."""
    for seed in range(101, 101 + examples(1, 50)):
        outcome = carry(SYSTEMS[name](), topology, faults=ROUGH, density=0.3, seed=seed)
        assert (outcome.resends > 0) == (name != "sharp")
        assert outcome.done_ps[0] > carry(SYSTEMS[name](), topology, density=0.3, seed=seed).done_ps[0]


@pytest.mark.parametrize("name", ["switchml", "omnireduce", "atp", "sharp", "panama"])
@pytest.mark.parametrize("elements", [1, 65])
def test_small_arrays_and_several_jobs(name, elements):
    assert len(carry(SYSTEMS[name](), RACKS, elements, jobs=3, faults=ROUGH).done_ps) == 3


def test_runs_repeat():
    one, other = (carry(SwitchML(), RACKS, faults=ROUGH, seed=7) for _ in range(2))
    assert (one.done_ps, one.resends, one.busiest_bytes) == (other.done_ps, other.resends, other.busiest_bytes)


def test_a_sum_that_is_wrong_is_seen():
    class Careless(PoolWorker):
        def acknowledge(self, frame, now_ps):
            super().acknowledge(frame._replace(lanes=frame.lanes + (frame.tag.seq == 60) * (1 << 24)), now_ps)

    class Wrong(SwitchML):
        worker = Careless

    with pytest.raises(WrongSum, match="switchml, seed 1: h1 of job 1 has a wrong sum"):
        carry(Wrong())


def test_an_error_in_an_end_ends_the_run():
    class Broken(PoolWorker):
        def acknowledge(self, frame, now_ps):
            raise ZeroDivisionError

    class Failing(SwitchML):
        worker = Broken

    with pytest.raises(ZeroDivisionError):
        carry(Failing())


def test_switchml_needs_a_switch_that_adds_and_atp_does_not():
    with pytest.raises(PlanError):
        carry(SwitchML(), f"{STAR},capable=none")
    server = next(one for one in carry(Atp(), f"{STAR},capable=none").ends if isinstance(one, Server))
    assert server.contributions == 4 * 50


def test_omnireduce_sends_no_blocks_that_are_zero():
    dense, sparse, empty = (carry(OmniReduce(), density=density).busiest_bytes for density in (1.0, 0.1, 0.0))
    assert empty < 62 * 100 < sparse < dense / 2  # with frames of 62 bytes, but no lanes
    assert carry(SwitchML(), density=0.1).busiest_bytes == carry(SwitchML()).busiest_bytes


def test_atp_falls_back_to_the_server_where_aggregators_are_few():
    shares = []
    for cells in (4096, 4):
        outcome = carry(Atp(cells), jobs=2)
        servers = [one for one in outcome.ends if isinstance(one, Server)]
        shares.append(sum(one.collided for one in servers) / sum(one.contributions for one in servers))
        assert outcome.slots <= cells
    assert shares[0] < 0.02 < shares[1]


def test_atps_results_pass_switches_that_add_for_other_racks():
    """leaf2's results pass spine1, which aggregates for leaf3 and must leave them alone."""
    outcome = carry(Atp(), f"{RACKS.replace('spines=2', 'spines=1')},capable=leaf1+leaf2+spine1")
    assert outcome.resends == 0
    assert outcome.done_ps[0] < 2 * carry(Atp(), RACKS).done_ps[0]


def test_a_split_of_atps_aggregators_keeps_jobs_apart():
    system = Atp(64, split=True)
    arrays = [[integers(job, rank, 64) for rank in range(2)] for job in range(2)]
    first, second = jobs_of(system, load(STAR), arrays, LANES)
    assert not {system.slot(first, seq) for seq in range(1000)} & {system.slot(second, seq) for seq in range(1000)}
    assert {system.slot(replace(first, share=(0, 1)), seq) for seq in range(1000)} == set(range(64))


def test_reliable_hops_lose_nothing_and_are_late():
    outcome = carry(Sharp(), RACKS, faults=Faults(loss=0.05))
    assert outcome.resends == 0
    assert outcome.slots == carry(SwitchML(), RACKS).slots // 2


def test_a_repair_takes_its_link_s_bytes_and_time():
    clean, lossy = (carry(Sharp(), RACKS, 64 * 400, faults=Faults(loss=loss)) for loss in (0.0, 0.2))
    assert 1.1 < lossy.busiest_bytes / clean.busiest_bytes < 1.35
    assert lossy.done_ps[0] > clean.done_ps[0] / (1 - 0.2)


def test_requests_of_others_are_answered_beside_a_job():
    network = load(RACKS.replace("servers=1", "servers=4"))
    others = [host.name for host in network.servers]
    arrays = [[integers(1, rank, 64 * 50) for rank in range(len(network.workers))]]
    system = SwitchML()
    requests = Requests(tuple(others[:2]), tuple(others[2:]), 20_000.0, 5, frames=2)
    outcome = run(system, network, jobs_of(system, network, arrays, LANES), requests=requests)
    assert outcome.done_ps >= run(SwitchML(), network, jobs_of(system, network, arrays, LANES)).done_ps
    assert (outcome.parties.ended_ps > outcome.parties.asked_ps).all()
    few = [[array[: 64 * 4] for array in arrays[0]]]  # they last long enough for many requests
    with pytest.raises(WrongSum, match="requests have no answer"):
        run(system, network, jobs_of(system, network, few, LANES), requests=requests, faults=Faults(loss=0.9), seed=2)


def test_panamas_windows_shrink_where_queues_are_marked_and_its_trees_are_apart():
    alone = carry(Panama(), RACKS, 64 * 300)
    assert [job.tree.root for job in dict.fromkeys(end.job for end in alone.ends)] == ["spine1", "spine2"]
    crowded = carry(Panama(), "leaf-spine:leaves=2,spines=1,hosts=4,servers=0", 64 * 300, jobs=4)
    assert len(crowded.done_ps) == 4
    windows = [max(end.window for end in outcome.ends) for outcome in (alone, crowded)]
    assert windows[0] > windows[1] >= LEAST_WINDOW


def test_the_example_of_the_page_is_a_system(tmp_path, monkeypatch):
    page = (ROOT / "docs/compare.md").read_text("utf-8")
    (program,), (python,) = (re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL) for language in ("p4", "python"))
    (tmp_path / "one_slot.p4").write_text(program)
    (tmp_path / "my_systems.py").write_text(python)
    spec = spec_from_file_location("my_systems", tmp_path / "my_systems.py")
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "my_systems", module)
    spec.loader.exec_module(module)
    outcome = carry(module.OneSlot(), faults=ROUGH, jobs=2)
    assert outcome.resends > 0
    assert min(carry(module.OneSlot()).done_ps) > 5 * max(carry(SwitchML()).done_ps)
    with pytest.raises(PlanError, match="more than one switch"):
        carry(module.OneSlot(), RACKS)


def test_a_time_out_follows_the_shortest_round_trip_and_grows_when_all_leave_again():
    clock = RoundTrips(1000)
    for late in range(200):
        clock.took(5000 if late % 4 == 0 else 90_000, 4)  # three of four samples wait for others' losses
    assert 5000 <= clock.timeout_ps < 7000
    before = clock.timeout_ps
    for _ in range(40):
        clock.unclear(4)
    assert clock.timeout_ps >= 2 * before
    clock.took(5000, 4)
    assert clock.timeout_ps < 7000
