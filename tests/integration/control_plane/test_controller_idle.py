"""Plans of idle jobs: installed and removed with one write for each switch."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from p4reduce.base.errors import ControllerError
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.network.jobs.network import EmbeddedSwitches, bundled
from p4reduce.topologies import leaf_spine

TOPOLOGY = leaf_spine(2, 2, 2)


@contextmanager
def switches() -> Iterator[EmbeddedSwitches]:
    made = EmbeddedSwitches(TOPOLOGY, bundled(64))
    try:
        yield made
    finally:
        made.close()


def entries(made: EmbeddedSwitches) -> dict[str, dict[str, int]]:
    """Return the number of entries of each table of each switch."""
    return {
        switch.name: {
            name: len(list(table.entries())) for name, table in made.server.device(switch.index + 1).tables.items()
        }
        for switch in TOPOLOGY.switches
    }


def classes(made: EmbeddedSwitches) -> int:
    return sum(sizes["IncIngress.traffic_class"] for sizes in entries(made).values())


def requested(controller: Controller, *requests: PlanRequest):
    return [controller.plan(request) for request in requests]


def test_one_by_one_and_all_at_once_give_the_same_entries_and_leave_nothing():
    requests = [
        PlanRequest("steiner", job=1, priority=7),
        PlanRequest("mst", job=2),
        PlanRequest("ps", job=3, server="h1", workers=("h2", "h3", "h4"), priority=1),
    ]
    with switches() as made:
        controller = made.controller
        before = entries(made)
        plans = requested(controller, *requests)
        for plan in plans:
            controller.install(plan)
        one_by_one = entries(made)
        assert classes(made) > 0
        for plan in plans:
            controller.uninstall(plan)
        assert entries(made) == before
        plans = requested(controller, *requests)
        controller.install_idle(plans)
        assert entries(made) == one_by_one
        controller.uninstall_idle(plans)
        assert entries(made) == before
        assert controller.installed == ()


def test_a_priority_belongs_to_a_job_that_is_new():
    with switches() as made:
        controller = made.controller
        controller.start_job(PlanRequest("steiner", job=1, priority=3))
        before = entries(made)
        plans = requested(controller, PlanRequest("spt", job=2), PlanRequest("steiner", job=1, epoch=1, priority=3))
        with pytest.raises(ControllerError, match="job 1: epochs of a job with a priority are installed one by one"):
            controller.install_idle(plans)
        assert entries(made) == before


def test_removed_jobs_may_come_again_with_another_priority():
    with switches() as made:
        controller = made.controller
        for priority in (2, 5):
            plans = requested(controller, PlanRequest("steiner", job=1, priority=priority))
            controller.install_idle(plans)
            assert classes(made) > 0
            controller.uninstall_idle(plans)
            assert classes(made) == 0
