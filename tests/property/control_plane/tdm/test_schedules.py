"""Random instances: configurations are matchings, capacities hold, every job is served once a round."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from p4reduce.base.records import from_json, to_json
from p4reduce.control_plane.tdm import one_topology, optimum  # noqa: F401  (register all)
from p4reduce.control_plane.tdm.circuits import least_time, split
from p4reduce.control_plane.tdm.jobs import OpticalNetwork, TdmError, TdmJob
from p4reduce.control_plane.tdm.registry import SCHEDULERS, TurnOptions, make_schedule
from p4reduce.control_plane.tdm.schedule import Schedule
from tests.support.circuits import check_matrix
from tests.support.effort import examples

OPTIONS = TurnOptions(moves=500, restarts=2)
SWITCHED = ("seed", "tdm", "random")
ELECTRICAL = ("eps-ideal", "eps-ecmp")


@st.composite
def instances(draw: st.DrawFn) -> tuple[OpticalNetwork, list[TdmJob]]:
    network = OpticalNetwork(
        draw(st.integers(1, 5)), draw(st.integers(2, 4)), 10**10, draw(st.integers(1, 5)), 10**10, delta_s=1e-5
    )
    size = draw(st.integers(2, min(8, network.all_gpus)))
    most = 2 * (network.all_gpus // size)
    jobs = [
        TdmJob(
            f"j{place}",
            draw(st.sampled_from(("ps", "rar", "a2a"))),
            draw(st.integers(1, 10**8)),
            draw(st.floats(1e-3, 1.0)),
            draw(st.integers(2, size)),
            elastic=draw(st.booleans()),
        )
        for place in range(draw(st.integers(1, min(6, most))))
    ]
    return network, jobs


@pytest.mark.parametrize("policy", sorted(set(SCHEDULERS) - {"best", "exact", "exact-one-tree"}))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(instance=instances())
def test_every_schedule_keeps_to_ports_and_gpus_and_covers_every_job(
    policy: str, instance: tuple[OpticalNetwork, list[TdmJob]]
) -> None:
    network, jobs = instance
    try:
        schedule = make_schedule(policy, jobs, network, OPTIONS)
    except TdmError:
        assume(False)
        return
    check(schedule, jobs)
    assert 0 <= schedule.bound_s <= schedule.round_s * (1 + 1e-6)
    assert from_json(Schedule, to_json(schedule), "a schedule") == schedule


def check(schedule: Schedule, jobs: list[TdmJob]) -> None:
    network = schedule.network
    for process in schedule.processes:
        for one in process.configurations:
            check_matrix(one.circuits, network.ports)
    assert [plan.job for plan in schedule.jobs] == [job.name for job in jobs]
    assert sorted(name for cycle in schedule.cycles for name in cycle.jobs) == sorted(job.name for job in jobs)
    seats: dict[tuple[int, str], int] = {}
    for plan, job in zip(schedule.jobs, jobs, strict=True):
        assert plan.job in schedule.cycles[plan.cycle].jobs
        units = sum(count for _, count in plan.placement)
        assert units == job.units or (job.elastic and units >= 2)
        assert len({host for host, _ in plan.placement}) == len(plan.placement)
        for host, count in plan.placement:
            seats[plan.group, host] = seats.get((plan.group, host), 0) + count
        check_ways(schedule, jobs, plan.job)
    assert all(count <= network.gpus for count in seats.values())


def check_ways(schedule: Schedule, jobs: list[TdmJob], name: str) -> None:
    """Check that circuits of its process connect a job's pods, unless the network is electrical."""
    plan = schedule.plan(name)
    job = next(one for one in jobs if one.name == name)
    pods = {schedule.network.pod_of(host) for host, _ in plan.placement}
    lit = schedule.processes[plan.process].configurations
    electrical = schedule.policy in ELECTRICAL
    if job.kind == "a2a":
        assert {(way.path[0], way.path[-1]) for way in plan.routes} == {(a, b) for a in pods for b in pods if a != b}
        for route in plan.routes:
            for a, b in zip(route.path, route.path[1:], strict=False):
                assert electrical or lit[route.configuration].circuits[a][b]
        return
    assert plan.trees or plan.ring
    if plan.ring:
        assert set(plan.ring.order) == pods
    for tree in plan.trees:
        joined = {tree.root}
        for child, parent in sorted(tree.edges, key=lambda edge: edge[1] != tree.root):
            assert electrical or schedule.policy == "seed" or lit[tree.configuration].circuits[child][parent]
            joined |= {child, parent}
        assert joined >= pods
        assert len({child for child, _ in tree.edges}) == len(tree.edges)
        assert tree.root not in {child for child, _ in tree.edges}
    if plan.trees:
        assert sum(tree.share for tree in plan.trees) == pytest.approx(1.0)


@settings(max_examples=examples(25, 60), deadline=None)
@given(st.integers(1, 6), st.integers(0, 6), st.data())
def test_the_least_time_is_the_least_there_is(pods: int, ports: int, data: st.DataObject) -> None:
    """Reference: ports assigned one by one where each helps most (independent of the search)."""
    upper = [[data.draw(st.integers(0, 50)) for _ in range(pods)] for _ in range(pods)]
    demand = np.array(
        [[float(upper[i][j] if i < j else upper[j][i]) if i != j else 0.0 for j in range(pods)] for i in range(pods)]
    )
    rows = []
    for row in demand:
        wanted = [value for value in row if value]
        if len(wanted) > ports:
            with pytest.raises(TdmError, match="would need circuits"):
                least_time(demand, ports)
            return
        lanes = [1] * len(wanted)
        for _ in range(ports - len(wanted) if wanted else 0):
            lanes[max(range(len(wanted)), key=lambda x: wanted[x] / lanes[x])] += 1
        rows.append(max((size / lane for size, lane in zip(wanted, lanes, strict=True)), default=0.0))
    found = least_time(demand, ports)
    assert found.bytes == pytest.approx(max(rows))
    check_matrix(found.matrix, ports)


@settings(max_examples=examples(15, 40), deadline=None)
@given(st.integers(2, 9), st.integers(1, 4), st.data())
def test_configurations_of_a_process_carry_all_of_it(pods: int, ports: int, data: st.DataObject) -> None:
    demand = np.zeros((pods, pods))
    for i in range(pods):
        for j in range(pods):
            if i != j:
                demand[i, j] = data.draw(st.sampled_from((0, 0, 1, 7, 100)))
    parts = split(demand, ports)
    assert np.array_equal(sum((part.demand for part in parts), np.zeros((pods, pods))), demand)
    for part in parts:
        check_matrix(part.matrix, ports)
        lit = np.array(part.matrix)
        assert (lit[part.demand > 0] > 0).all()
        assert all(part.demand[i, j] <= part.bytes * lit[i, j] * (1 + 1e-9) for i in range(pods) for j in range(pods))
