"""Rings as a baseline: admission by link demand, packets, and counts on every link."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.orchestrator import Orchestrator, OrchestratorOptions
from p4reduce.control_plane.plans import RingLayout
from p4reduce.control_plane.scheduling import NetworkState, Rejection, Task, consumed, plan_requests, policy_named
from p4reduce.network.jobs.network import bundled
from p4reduce.topologies import load
from studies.poster.packets import TaskNetwork

RACKS = "leaf-spine:leaves=3,spines=2,hosts=3,rate=10G"
ELEMENTS = 64 * 40


def task(*workers, server="h1", **fields):
    return Task("t", server, workers, ELEMENTS, **fields)


def test_a_ring_reserves_two_copies_of_every_stream():
    topology = load(RACKS)
    decision = policy_named("ring")(task("h2", "h5", "h9", demand_bps=10**9), NetworkState(topology))
    layout = decision.upload
    assert isinstance(layout, RingLayout)
    assert decision.together
    assert set(layout.order) == {"h1", "h2", "h5", "h9"}
    streams = Counter()
    for a, b in zip(layout.order, (*layout.order[1:], layout.order[0]), strict=True):
        streams.update((x, topology.port(x, y)) for x, y in pairwise(layout.paths[(a, b)]))
    assert decision.demand_bps == {hop: 2 * many * 10**9 for hop, many in streams.items()}
    assert consumed(decision, topology) == 2 * sum(streams.values())
    (request,) = plan_requests(decision, job=1)
    assert (request.workers, request.server) == (("h2", "h5", "h9", "h1"), None)


def test_a_ring_goes_round_what_is_full_or_is_refused_with_the_link():
    topology = load(RACKS)
    busy = {("leaf1", topology.port("leaf1", "spine1")): 9 * 10**9}
    decision = policy_named("ring")(task("h5", demand_bps=10**9), NetworkState(topology, background_bps=busy))
    assert not decision.demand_bps.keys() & busy.keys()
    with pytest.raises(Rejection, match="task t: link h5 -> leaf2 has 1Gb/s left of 10Gb/s, 2Gb/s are needed"):
        policy_named("ring")(
            task("h5", demand_bps=10**9), NetworkState(topology, background_bps={("h5", 1): 9 * 10**9})
        )
    cut = {(leaf, topology.port(leaf, spine)) for leaf in ("leaf1",) for spine in ("spine1", "spine2")}
    with pytest.raises(Rejection):
        policy_named("ring")(task("h5"), NetworkState(topology, down=cut))


@pytest.mark.parametrize("network", [RACKS, "wan:graph=nobel-us,rate=10G"])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_every_host_gets_the_sum_and_links_carry_what_was_predicted(network, count):
    """Rings of 1, 2 and many hosts; two of them concurrently with spff."""
    topology = load(network)
    hosts = [host.name for host in topology.hosts]
    model = Task("t", hosts[0], tuple(hosts[1 : 1 + count]), ELEMENTS, demand_bps=10**6)
    ring, star = (policy_named(name)(model, NetworkState(topology)) for name in ("ring", "spff"))
    rng = np.random.default_rng(count)
    inputs = [rng.standard_normal(ELEMENTS, np.float32) for _ in range(count)]
    with TaskNetwork(topology, bundled(64), elements=ELEMENTS) as carried:
        total, measured = carried.add_up(ring, inputs)
        _, together = carried.run_at_once([ring, star])
        assert carried.check_counters() == []
    assert np.allclose(total, np.sum(np.array(inputs, np.float64), axis=0), rtol=1e-5, atol=1e-5)
    for one in (measured, together):
        assert one.differences == ()
        assert one.first_bytes == one.predicted_bytes > 0
    assert 0 < measured.bound_ps <= measured.communication_ps


@pytest.mark.parametrize("name", ["ring", "packing"])
def test_the_orchestrator_refuses_a_policy_without_a_server_for_turns_and_for_slots_by_value(name):
    for options, what in (
        (OrchestratorOptions(schedule="tdm"), "a schedule"),
        (OrchestratorOptions(slots="value"), "slots 'value'"),
    ):
        said = rf"policy '{name}' exchanges models between hosts, but {what} needs .*choose one of exact, .*spff"
        with pytest.raises(PlanError, match=said):
            Orchestrator(None, None, None, policy_named(name), name=name, options=options)
