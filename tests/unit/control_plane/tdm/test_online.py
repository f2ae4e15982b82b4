"""Arrivals in a schedule of two groups."""

import pytest

from p4reduce.control_plane.tdm.jobs import TdmError, TdmJob, parse_network
from p4reduce.control_plane.tdm.registry import make_schedule
from p4reduce.control_plane.tdm.switched import join
from tests.support.circuits import check_matrix

NETWORK = parse_network("oxc:pods=4,hosts=3,ports=3,rate=8G")


def test_who_runs_stays_and_the_new_one_fits() -> None:
    jobs = [TdmJob(f"j{x}", "ps", 10**8, 0.1 + 0.01 * x, 4) for x in range(4)]
    before = make_schedule("tdm", jobs, NETWORK)
    after = join(before, jobs, TdmJob("new", "rar", 10**8, 0.3, 4))
    for plan in before.jobs:
        assert after.plan(plan.job).placement == plan.placement
        assert after.plan(plan.job).group == plan.group
    assert sum(units for _, units in after.plan("new").placement) == 4
    for process in after.processes:
        for one in process.configurations:
            check_matrix(one.circuits, NETWORK.ports)
    for group in (0, 1):
        hosts = [host for plan in after.jobs if plan.group == group for host, _ in plan.placement]
        assert len(hosts) == len(set(hosts)) <= NETWORK.all_gpus


def test_what_fits_neither_group_waits() -> None:
    jobs = [TdmJob(f"j{x}", "ps", 10**8, 0.1, 8) for x in range(2)]
    with pytest.raises(TdmError, match="fit neither group"):
        join(make_schedule("tdm", jobs, NETWORK), jobs, TdmJob("new", "rar", 10**8, 0.1, 5))
    with pytest.raises(TdmError, match="only schedules of two groups"):
        join(make_schedule("pairs", jobs, NETWORK), jobs, TdmJob("new", "rar", 10**8, 0.1, 2))
