import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans import PlanRequest, make_plan, release_plan
from p4reduce.control_plane.plans.problem import choose_window, power_of_two, ring_window
from p4reduce.control_plane.resources import Resources, SlotPool
from p4reduce.topologies import leaf_spine, star


def test_ranges_are_aligned_and_first_fit():
    pool = SlotPool(64)
    assert [pool.allocate(8), pool.allocate(16), pool.allocate(8), pool.allocate(32)] == [0, 16, 8, 32]
    assert (pool.free, pool.largest()) == (0, 0)
    pool.release(16)
    assert (pool.free, pool.largest()) == (16, 16)
    assert pool.allocate(4) == 16
    assert pool.allocate(8) == 24
    assert pool.largest() == 4
    with pytest.raises(PlanError, match=r"no 8 slots in one range are left \(4 of 64 free\)"):
        pool.allocate(8)


def test_what_a_pool_does_not_take():
    pool = SlotPool(64)
    for count in (0, -2, 3, 12):
        with pytest.raises(ValueError, match="powers of two"):
            pool.allocate(count)
    with pytest.raises(PlanError):
        pool.allocate(128)
    with pytest.raises(KeyError):
        pool.release(0)
    with pytest.raises(ValueError, match="at least one slot"):
        SlotPool(0)


def test_a_pool_that_is_no_power_of_two():
    pool = SlotPool(100)
    assert pool.largest() == 64
    assert pool.allocate(64) == 0
    assert pool.largest() == 32
    assert pool.allocate(32) == 64
    assert pool.largest() == 4


def test_generations_are_never_used_twice():
    resources = Resources(first_generation=7)
    first = resources.grant([("s1", 3)], 8)
    resources.release(first)
    second = resources.grant([("s1", 3)], 8)
    assert (first.generation, second.generation, resources.next_generation) == (7, 8, 9)
    assert first.shares == second.shares
    for wrong in (0, 2**32):
        with pytest.raises(ValueError, match="generations"):
            Resources(first_generation=wrong)
    last = Resources(first_generation=2**32 - 1)
    assert last.grant([], 1).generation == 2**32 - 1
    with pytest.raises(PlanError, match="generations are used"):
        last.grant([], 1)


def test_all_or_nothing():
    resources = Resources(slots=16)
    resources.grant([("s2", 2)], 16)
    with pytest.raises(PlanError, match="switch s2: no 8 slots"):
        resources.grant([("s1", 2), ("s2", 2)], 8)
    assert resources.free("s1") == 16
    assert resources.grant([("s1", 2)], 16).shares[0].rids == (1, 2)


def test_counter_cells_and_replication_ids_run_out():
    resources = Resources()
    grants = [resources.grant([], 1) for _ in range(512)]
    assert sorted(grant.stats for grant in grants) == list(range(512))
    with pytest.raises(PlanError, match="no counter cell is left"):
        resources.grant([], 1)
    resources.release(grants[3])
    assert resources.grant([], 1).stats == 3

    crowded = Resources()
    crowded.grant([("s1", 0x3FFF)], 2)
    with pytest.raises(PlanError, match="switch s1: no replication id is left"):
        crowded.grant([("s1", 1)], 2)
    assert crowded.free("s1") == 4094


def test_windows():
    assert [power_of_two(n) for n in (0, 1, 2, 3, 4, 5, 1000)] == [1, 1, 2, 4, 4, 8, 1024]
    for needed in (1, 2, 7, 19, 100, 1023, 5000):
        window = choose_window(needed)
        assert window >= needed + 4
        assert window & (window - 1) == 0
        assert ring_window(needed) >= needed + 32


def test_the_window_keeps_the_link_busy():
    """star, 10 Gb/s, 1 us: a full frame of 318 + 24 bytes takes 273.6 ns; there and back over two links."""
    built = make_plan(star(8), PlanRequest("spt", lanes=64), Resources())
    assert built.chunk_ps == 273_600
    assert built.rtt_ps == 2 * (273_600 + 1_000_000)
    assert built.window_needed == -(-built.rtt_ps // built.chunk_ps) == 10
    assert (built.window, built.slots, built.slots_limited) == (32 // 2, 128, False)
    assert built.slots_rate_bps == 16 * 64 * 32 * 10**12 // built.rtt_ps


def test_round_trips_count_copies_behind_one_port():
    """Two racks behind routers: four copies of a chunk cross the link between router and spine in sequence."""
    topology = leaf_spine(1, 1, 4, capable=["spine*"])
    built = make_plan(topology, PlanRequest("spt", lanes=64), Resources())
    frame, delay = 273_600, 1_000_000
    assert built.chunk_ps == 4 * frame
    assert built.rtt_ps == 2 * (frame + delay + 4 * frame + delay)


def test_the_servers_way_is_part_of_the_round_trip():
    built = make_plan(star(4, servers=1), PlanRequest("spt", server="server1", lanes=64), Resources())
    assert built.rtt_ps == 4 * (273_600 + 1_000_000)


def test_a_window_of_the_users_own():
    built = make_plan(star(8), PlanRequest("spt", window=5, lanes=64), Resources())
    assert (built.window, built.slots, built.slots_limited) == (5, 16, False)
    built = make_plan(star(8), PlanRequest("spt", max_slots=9, lanes=64), Resources())
    assert (built.window, built.slots, built.slots_limited) == (4, 8, True)
    # rate <= (slots / 2) * payload / RTT
    assert built.slots_rate_bps == 4 * 256 * 8 * 10**12 // built.rtt_ps


def test_the_fullest_switch_limits_the_window():
    topology, resources = leaf_spine(2, 1, 2), Resources(slots=64)
    first = make_plan(topology, PlanRequest("spt", job=1, workers=("h1", "h2"), window=16, lanes=64), resources)
    assert [aggregator.name for aggregator in first.aggregators] == ["leaf1"]
    second = make_plan(topology, PlanRequest("spt", job=2, lanes=64), resources)
    assert {aggregator.slots for aggregator in second.aggregators} == {32}
    assert (second.window, second.slots_limited) == (16, True)
    with pytest.raises(PlanError, match="switch leaf1: no 2 slots in one range are left"):
        make_plan(topology, PlanRequest("spt", job=3, lanes=64), resources)
    release_plan(first, resources)
    assert make_plan(topology, PlanRequest("spt", job=3, lanes=64), resources).slots == 32
