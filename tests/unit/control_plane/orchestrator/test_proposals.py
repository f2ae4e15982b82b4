"""New trees proposed for a running task: no link is promised more than it has."""

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.base.records import to_json
from p4reduce.control_plane.orchestrator.history import PlanRow
from p4reduce.control_plane.orchestrator.installer import Installer
from p4reduce.control_plane.orchestrator.options import OrchestratorOptions, PlanPhase
from p4reduce.control_plane.plans import make_plan
from p4reduce.control_plane.resources import Resources
from p4reduce.control_plane.scheduling import NetworkState, Task, plan_requests, policy_named
from p4reduce.topologies import TopologyBuilder

GIGA = 10**9
TASK = Task("t", "g", ("w1", "w2"), 1000, demand_bps=2 * GIGA)


class Switches:
    """A controller that makes plans without switches."""

    installed = ()

    def __init__(self, topology):
        self.topology, self._resources = topology, Resources()

    def plan(self, request, view=None):
        return make_plan(self.topology, request, self._resources)


class Keys:
    """A database that only counts epochs."""

    def next_epoch(self, job):
        return 1


def square():
    """G behind s1, two workers behind s4, and two paths of equal length between them, over s2 and s3."""
    builder = TopologyBuilder("square")
    for number in range(1, 5):
        builder.switch(f"s{number}")
    for host, switch in (("g", "s1"), ("w1", "s4"), ("w2", "s4")):
        builder.host(host)
        builder.link(host, switch, "10G", "1us")
    for a, b in (("s1", "s2"), ("s1", "s3"), ("s2", "s4"), ("s3", "s4")):
        builder.link(a, b, "10G", "1us")
    return builder.build()


def running(topology):
    """A task with both directions in one job, and an installer that can propose other trees."""
    switches = Switches(topology)
    decision = policy_named("steiner")(TASK, NetworkState(topology))
    (request,) = plan_requests(decision, job=1)
    plan = switches.plan(request)
    row = PlanRow(
        generation=plan.generation,
        task=TASK.name,
        role="both",
        job=1,
        epoch=0,
        phase=PlanPhase.ACTIVE,
        demand_bps=decision.demand_bps,
        plan=to_json(plan),
    )
    return Installer(Keys(), switches, None, lambda step: None, OrchestratorOptions()), row


def busy(topology, *ways):
    return NetworkState(topology, background_bps={(a, topology.port(a, b)): 9 * GIGA for a, b in ways})


def over_booked(topology, proposals, state):
    demand = [item for one in proposals for item in one.demand_bps.items()]
    return [hop for hop, bps in demand if bps > state.residual_bps(hop)]


def test_a_job_of_both_directions_takes_no_tree_that_one_direction_does_not_fit_on():
    """The policy answers with two trees, up by s3 and down by s2; on either, the other direction does not fit."""
    topology = square()
    installer, row = running(topology)
    state = busy(topology, ("s4", "s2"), ("s2", "s1"), ("s1", "s3"), ("s3", "s4"))
    decision = policy_named("steiner")(TASK, state)
    assert not decision.together
    with pytest.raises(PlanError, match=r"task t: one tree for both directions: link s\d -> s\d has 1Gb/s left"):
        installer.propose_next(decision, [row], state, must=False)
    # A task that has lost its tree has no better choice.
    (proposal,) = installer.propose_next(decision, [row], state, must=True)
    assert over_booked(topology, [proposal], state)


def test_a_job_of_both_directions_takes_the_tree_that_fits():
    topology = square()
    installer, row = running(topology)
    state = busy(topology, ("s4", "s2"))
    decision = policy_named("steiner")(TASK, state)
    (proposal,) = installer.propose_next(decision, [row], state, must=False)
    assert over_booked(topology, [proposal], state) == []
    assert any("s3" in path for path in proposal.plan.paths.values())
