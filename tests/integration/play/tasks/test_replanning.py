"""A running task changes between a tree, a ring and a star, and moves to other hosts: its weights stay the same."""

from dataclasses import replace

import pytest

from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.orchestrator import TaskRefusedError
from p4reduce.control_plane.orchestrator.executor import TaskOrder, roles
from p4reduce.control_plane.scheduling import NetworkState, Task, plan_requests, policy_named
from p4reduce.network.virtual import Faults
from p4reduce.play.tasks.world import World
from tests.support.orchestrated.bench import LANES, PROGRAM, PS_PER_US, two_spines
from tests.support.orchestrated.sums import expected_digest

TASK = Task("t", "server1", ("h1", "h3", "h5"), 3000, 5, 20 * PS_PER_US)
ELSEWHERE = replace(TASK, workers=("h2", "h3", "h6"))
LATE_PS = 10**12


def expected(task=TASK):
    """Return the digest of sums of all workers in all rounds."""
    return expected_digest(task, [range(len(task.workers))] * task.rounds)


class Site:
    """A network, its controller, and orders for tasks."""

    def __init__(self, world, controller):
        self.world, self.controller, self._jobs = world, controller, 0

    def order(self, task, policy, *, aggregation_ps=0, reads=(), **without):
        state = NetworkState(self.world.topology, **without)
        decision = policy_named(policy)(task, state, lanes=LANES)
        requests = plan_requests(decision, job=self._jobs + 1)
        self._jobs += len(requests)
        plans = [self.controller.start_job(request) for request in requests]
        names = roles(len(plans), trees=bool(decision.parts))
        times = dict.fromkeys(task.workers, task.training_ps)
        return TaskOrder(task, dict(zip(names, plans, strict=True)), times, aggregation_ps, reads)

    def until(self, us):
        self.world.advance(us * PS_PER_US)

    def finish(self):
        """Run to the end; return all reports."""
        while not self.world.running()["t"].ended:
            assert self.world.advance(self.world.now() + LATE_PS // 100) < LATE_PS
        return self.world.reports(0)


@pytest.fixture(params=[0, 0.01], ids=["clean", "lossy"])
def site(request):
    faults = Faults(loss=request.param, duplicate=request.param, reorder=2 * request.param)
    with (
        World(two_spines(), PROGRAM, faults=faults, seed=3) as world,
        Controller(world.topology, world.switches.targets(), PROGRAM, keep=True) as controller,
    ):
        yield Site(world, controller)


def check(reports, count, task=TASK):
    assert [one.data["round"] for one in reports if one.kind == "round"] == list(range(task.rounds))
    assert reports[-1].data.get("digest") == expected(task), reports[-1]
    assert [one.kind for one in reports].count("replanned") == count
    assert not any("error" in one.data for one in reports)


WAYS = [("ring", 0), ("hierarchical", 3 * PS_PER_US), ("spff", 0), ("striped", 3 * PS_PER_US)]


@pytest.mark.parametrize("first", [("steiner", 0), ("ring", 0)], ids=["tree", "ring"])
@pytest.mark.parametrize("at_us", [24, *(pytest.param(at_us, marks=pytest.mark.soak) for at_us in (1, 19, 33))])
@pytest.mark.parametrize("at_once", [False, True], ids=["after the round", "at once"])
def test_from_one_kind_of_plan_to_another(site, first, at_us, at_once):
    """Changes also take effect at once: while a chunk travels, while hosts train, and after another change."""
    site.world.start(site.order(TASK, first[0]))
    for policy, aggregation_ps in WAYS:
        site.until(site.world.now() // PS_PER_US + at_us)
        site.world.replan(site.order(TASK, policy, aggregation_ps=aggregation_ps), at_once=at_once)
        if not at_once:
            site.world.advance(LATE_PS, after=site.world.news)
    reports = site.finish()
    changed = [one.data for one in reports if one.kind == "replanned"]
    check(reports, len(changed))
    assert len(changed) == 4
    assert any(one["again"] for one in changed) == at_once


@pytest.mark.parametrize("at_once", [False, True], ids=["after the round", "at once"])
@pytest.mark.parametrize("policy", ["steiner", "ring", "spff", "rina"])
@pytest.mark.parametrize("at_us", [30, pytest.param(5, marks=pytest.mark.soak)])
def test_to_other_hosts(site, policy, at_once, at_us):
    site.world.start(site.order(TASK, policy))
    site.until(at_us + 60)
    site.world.replan(site.order(ELSEWHERE, policy), at_once=at_once)
    site.until(at_us + 70)
    reports = site.finish()
    check(reports, 1)
    (restored,) = [one.data for one in reports if one.kind == "restored"]
    assert restored["model_bytes"] == 4 * 3000 * 3
    assert restored["duration_ps"] > 0


def test_an_order_that_waits_is_replaced_or_forgotten_and_repeats_change_nothing(site):
    site.world.start(site.order(TASK, "steiner"))
    ring, star = site.order(TASK, "ring"), site.order(TASK, "spff")
    site.world.replan(ring)
    site.world.replan(star)
    site.world.replan(star)
    site.world.advance(LATE_PS, after=site.world.news)
    site.world.replan(star)
    site.world.replan(ring)
    site.world.keep_plans("t")
    site.world.keep_plans("nobody")
    reports = site.finish()
    check(reports, 1)
    assert site.world.running()["t"].keys == star.keys
    site.world.replan(ring)  # the task has ended


def test_a_task_keeps_its_model_and_the_number_of_its_workers(site):
    site.world.start(site.order(TASK, "steiner"))
    fewer = replace(TASK, workers=("h1", "h3"))
    with pytest.raises(TaskRefusedError, match="keeps its model"):
        site.world.replan(site.order(fewer, "steiner"))
    check(site.finish(), 0)


def test_workers_read_their_data_first_and_those_that_move_read_theirs(site):
    reads = (("h2", "h1", 40_000), ("h2", "h3", 1_500_000), ("h6", "h3", 4))
    before = site.world.host_bytes()
    site.world.start(site.order(TASK, "steiner", reads=reads))
    site.world.replan(site.order(ELSEWHERE, "ring", reads=(reads[1], ("h1", "h6", 4000))))
    reports = site.finish()
    check(reports, 1)
    first, second = [one.data for one in reports if one.kind == "restored"]
    assert first["read_bytes"] == sum(size for _, _, size in reads)
    assert second["read_bytes"] == 4000
    port = ("h2", site.world.topology.port("h2", "leaf1"))
    assert site.world.host_bytes()[port] - before.get(port, 0) > 1_540_000
    assert first["duration_ps"] >= 1_540_000 * 8 * 10**12 // site.world.topology.link_at(*port).rate_bps


def test_data_at_a_host_that_is_down_fail_the_task_with_the_reason(site):
    site.world.change_link("h2", "leaf1", up=False)
    site.world.start(site.order(TASK, "steiner", reads=(("h2", "h1", 40_000),)))
    while not site.world.running()["t"].ended:
        site.world.advance(site.world.now() + LATE_PS)
    assert site.world.reports(0)[-1].data["reason"] == "h1 cannot read its data at h2: no answer comes"
