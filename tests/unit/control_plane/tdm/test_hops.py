"""All-to-all over more pods than ports: hops compared with configurations; routes that switches can forward."""

from itertools import pairwise

import pytest

from p4reduce.control_plane.tdm.circuits import several_hops
from p4reduce.control_plane.tdm.jobs import OpticalNetwork, TdmJob
from p4reduce.control_plane.tdm.registry import make_schedule

GBPS = 10**9


@pytest.mark.parametrize(("pods", "ports"), [(8, 2), (8, 3), (8, 4), (5, 3), (12, 6), (2, 1)])
def test_routes_carry_all_bytes_within_the_ports(pods: int, ports: int) -> None:
    units = [[3] * pods]
    found = several_hops(units, [10], [ports] * pods)
    assert found is not None
    assert all(0 < sum(row) <= ports for row in found.matrix)
    carried: dict[tuple[int, int], float] = {}
    shares: dict[tuple[int, int], float] = {}
    for route in found.routes[0]:
        assert len(set(route.path)) == len(route.path)
        ends = route.path[0], route.path[-1]
        shares[ends] = shares.get(ends, 0.0) + route.share
        for a, b in pairwise(route.path):
            assert found.matrix[a][b] == 1
            carried[a, b] = carried.get((a, b), 0.0) + 9 * 10 * route.share
    assert len(shares) == pods * (pods - 1)
    assert all(share == pytest.approx(1.0) for share in shares.values())
    assert max(carried.values()) == pytest.approx(found.bytes)


def test_a_ring_is_as_good_as_it_can_be() -> None:
    """Eight pods, two ports: 16 hops from each pod over two circuits, so at least 8 times a pair's bytes."""
    found = several_hops([[1] * 8], [1], [2] * 8)
    assert found is not None
    assert 8.0 <= found.bytes <= 9.0
    assert several_hops([[1] * 8], [1], [1] * 8) is None


def test_darkness_decides_between_hops_and_configurations() -> None:
    network = OpticalNetwork(8, 4, 25 * GBPS, 4, 25 * GBPS)
    jobs = [TdmJob(name, "a2a", 4_000_000, 0.1, 32) for name in "ab"]
    short = make_schedule("tdm", jobs, network.with_delta(1e-3))
    long = make_schedule("tdm", jobs, network.with_delta(50e-3))
    assert [len(process.configurations) for process in short.processes] == [2, 2]
    assert [len(process.configurations) for process in long.processes] == [1, 1]
    assert not long.switches
    assert any(len(route.path) > 2 for route in long.jobs[0].routes)
    assert long.round_s < make_schedule("tdm", jobs, network.with_delta(1e-3)).round_s + 4 * 50e-3


def test_named_hosts_that_two_jobs_want_are_in_different_groups() -> None:
    """Four jobs on the same two halves of the hosts: only one partition into two groups fits."""
    network = OpticalNetwork(4, 2, 25 * GBPS, 2, 25 * GBPS)
    halves = (("h1", "h3", "h5", "h7"), ("h2", "h4", "h6", "h8"))
    jobs = [TdmJob(f"j{x}", "rar", 10**7, 0.1, 4, halves[x % 2]) for x in range(4)]
    plan = make_schedule("tdm", jobs, network)
    groups = [{one.job for one in plan.jobs if one.group == group} for group in (0, 1)]
    assert not any({"j0", "j2"} <= group or {"j1", "j3"} <= group for group in groups)
