import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.counters import Operation, Traffic, add, exchange, predict
from p4reduce.control_plane.plans import PlanRequest, make_plan
from p4reduce.control_plane.plans.routes import frame_time_ps
from p4reduce.control_plane.resources import Resources
from p4reduce.topologies import leaf_spine, load, star

FULL, EMPTY = 62 + 4 * 64, 62


def plan(topology, name, **request):
    return make_plan(topology, PlanRequest(name, **{"lanes": 64, **request}), Resources())


def test_all_reduce_with_block_floating_point():
    built = plan(star(3), "spt", window=4)
    expected = predict(built, "all_reduce", 64 * 9 + 1)
    # 10 chunks, 4 of them opened by an empty PUSH and its empty RESULT; the same in every direction.
    assert expected == {(node, port): Traffic(14, 10 * FULL + 4 * EMPTY) for node, port in _ends(built.topology)}
    fixed = predict(built, "all_reduce", 64 * 9 + 1, lead=0)
    assert set(fixed.values()) == {Traffic(10, 10 * FULL)}
    short = predict(built, "all_reduce", 64 * 2)
    assert set(short.values()) == {Traffic(4, 2 * FULL + 2 * EMPTY)}


def _ends(topology):
    return [end for link in topology.links for end in ((link.a, link.port_a), (link.b, link.port_b))]


@pytest.mark.parametrize(
    ("operation", "up", "down"),
    [
        ("push", Traffic(14, 10 * FULL + 4 * EMPTY), Traffic(14, 14 * EMPTY)),
        ("pull", Traffic(10, 10 * EMPTY), Traffic(10, 10 * FULL)),
        ("push_pull", Traffic(14, 10 * FULL + 4 * EMPTY), Traffic(14, 10 * FULL + 4 * EMPTY)),
        ("barrier", Traffic(1, EMPTY), Traffic(1, EMPTY)),
    ],
)
def test_collectives_with_a_server(operation, up, down):
    built = plan(star(3, servers=1), "spt", server="server1", window=4)
    expected = predict(built, operation, 640)
    assert {expected[(host, 1)] for host in built.workers} == {up}
    assert {expected[("s1", port)] for port in (1, 2, 3)} == {down}
    # On the server's link, up comes from the switch, down from the server.
    assert (expected[("s1", 4)], expected[("server1", 1)]) == (up, down)


@pytest.mark.parametrize(
    ("operation", "up", "down"),
    [
        ("all_reduce", Traffic(10, 10 * FULL), Traffic(10, 10 * FULL)),
        ("push", Traffic(10, 10 * FULL), Traffic(10, 10 * EMPTY)),
        ("pull", Traffic(10, 10 * EMPTY), Traffic(10, 10 * FULL)),
        ("push_pull", Traffic(10, 10 * FULL), Traffic(10, 10 * FULL)),
        ("barrier", Traffic(1, EMPTY), Traffic(1, EMPTY)),
    ],
)
def test_a_parameter_server_without_aggregation(operation, up, down):
    built = plan(star(3, servers=1), "ps", window=4)
    expected = predict(built, operation, 640)
    assert {expected[(host, 1)] for host in built.workers} == {up}
    assert expected[("server1", 1)] == down + down + down
    assert expected[("s1", 4)] == up + up + up


def test_a_ring():
    built = plan(star(4), "ring")
    expected = predict(built, "all_reduce", 64 * 10)
    # 10 chunks in 4 segments of 3: 2 * 3 * 3 = 18 full frames to the next, two acknowledgements for 18 frames.
    data, acks = Traffic(18, 18 * FULL), Traffic(2, 2 * EMPTY)
    assert set(expected.values()) == {data + acks}
    barrier = predict(built, "barrier", 1)
    assert set(barrier.values()) == {Traffic(6, 6 * FULL) + Traffic(1, EMPTY)}
    for operation in ("push", "pull", "push_pull"):
        with pytest.raises(PlanError, match=f"a ring does all_reduce, not {operation}"):
            predict(built, operation, 64)


def test_links_without_traffic_are_zero():
    built = plan(leaf_spine(2, 2, 2), "spt")
    expected = predict(built, "all_reduce", 64)
    assert set(expected) == set(_ends(built.topology))
    assert expected[("spine2", 1)] == Traffic()
    assert expected[("spine1", 1)].frames == 2


def test_copies_behind_one_port_are_counted_each():
    built = plan(load("leaf-spine-8-partial"), "spt")
    expected = predict(built, "all_reduce", 64, lead=0)
    leaf1 = built.topology.port("leaf1", "spine1")
    assert expected[("leaf1", leaf1)] == Traffic(4, 4 * FULL)
    assert expected[("spine1", built.topology.port("spine1", "leaf1"))] == Traffic(4, 4 * FULL)


@pytest.mark.parametrize("lanes", [64, 256])
def test_frames_follow_the_lanes(lanes):
    built = plan(star(2), "spt", lanes=lanes)
    assert predict(built, "all_reduce", lanes * 3, lead=0)[("h1", 1)] == Traffic(3, 3 * (62 + 4 * lanes))


def test_what_cannot_be_predicted():
    built = plan(star(2), "spt")
    for operation in ("push", "pull", "push_pull"):
        with pytest.raises(PlanError, match=f"{operation} needs a parameter server"):
            predict(built, operation, 64)
    with pytest.raises(PlanError, match="elements: 0"):
        predict(built, "all_reduce", 0)
    with pytest.raises(ValueError, match="gather"):
        predict(built, "gather", 64)


def test_sums_of_predictions():
    built = plan(star(2), "spt")
    one = predict(built, "all_reduce", 64)
    assert add(one, one) == {hop: traffic + traffic for hop, traffic in one.items()}
    assert add() == {}
    assert exchange(built, Operation.BARRIER, 0).up_empty == 1


def test_frame_times():
    # docs/architecture.md: ceil((max(n, 60) + 24) * 8 * 10^12 / rate)
    assert frame_time_ps(318, 10**10) == 273_600
    assert frame_time_ps(20, 10**9) == 84 * 8 * 1000
    assert frame_time_ps(62, 3) == -(-86 * 8 * 10**12 // 3)
