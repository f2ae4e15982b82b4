"""Hierarchical rings: their phases, their reservations, and every byte and sum on packets."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from p4reduce.control_plane.scheduling import NetworkState, Rejection, Task, policy_named
from p4reduce.network.jobs.network import bundled
from p4reduce.topologies import load
from studies.poster.rings import IN_PHASES, PhasedNetwork, hierarchical_ring, ring_cells, run_rings
from studies.poster.settings import PosterSettings, TrafficScenario
from studies.poster.study import STUDY

RACKS = "leaf-spine:leaves=3,spines=2,hosts=4,rate=10G"
LANES = 64
ELEMENTS = LANES * 40
GBPS = 10**9


def task(*workers, server="h1", **fields):
    return Task("t", server, workers, ELEMENTS, **fields)


def phases(found):
    return [[{*one.task.workers, one.task.server} for one in phase.decisions] for phase in found.phases]


def test_racks_reduce_then_leaders_then_racks_get_the_sum():
    found = hierarchical_ring(task("h6", "h2", "h5", "h9", demand_bps=GBPS), NetworkState(load(RACKS)))
    racks = [{"h1", "h2"}, {"h5", "h6"}]
    assert phases(found) == [racks, [{"h1", "h6", "h9"}], racks]
    assert [one.task.server for one in found.spread] == ["h1", "h6"]


def test_a_link_is_reserved_for_the_phase_that_takes_most_of_it():
    topology = load(RACKS)
    found = hierarchical_ring(task("h2", "h3", "h4", "h5", demand_bps=GBPS), NetworkState(topology))
    up, down = ("h1", 1), ("leaf1", topology.port("leaf1", "h1"))
    assert found.demand_bps[up] == 3 * GBPS  # three copies to its rack exceed a ring's two
    assert found.demand_bps[down] == 2 * GBPS
    taken: Counter = Counter()
    for phase in found.phases:
        own: Counter = Counter()
        for one in phase.decisions:
            own.update(one.demand_bps)
        taken |= own
    assert taken == found.demand_bps
    with pytest.raises(Rejection, match="task t: link h1 -> leaf1 has 2Gb/s left of 10Gb/s, 3Gb/s are needed"):
        hierarchical_ring(task("h2", "h3", "h4", "h5", demand_bps=GBPS), NetworkState(topology, {up: 8 * GBPS}))


@pytest.mark.parametrize(
    ("network", "count", "shape"),
    [
        (RACKS, 11, [3, 1, 3]),
        (RACKS, 5, [2, 1, 2]),
        (RACKS, 3, [1]),  # one rack: the first phase is everything
        ("wan:graph=nobel-us,rate=10G", 7, [1]),  # one host per city: a plain ring
        ("wan:graph=nobel-us,hosts=2,rate=10G", 9, [5, 1, 5]),
    ],
)
def test_every_host_gets_the_sum_and_links_carry_what_was_predicted(network, count, shape):
    topology = load(network)
    hosts = [host.name for host in topology.hosts]
    chosen = hosts[: count + 1]
    model = task(*chosen[1:], server=chosen[0], demand_bps=10**6)
    found = hierarchical_ring(model, NetworkState(topology), lanes=LANES)
    assert [len(phase.decisions) for phase in found.phases] == shape
    rng = np.random.default_rng(count)
    inputs = [rng.standard_normal(ELEMENTS, np.float32) for _ in range(count)]
    with PhasedNetwork(topology, bundled(LANES), elements=ELEMENTS) as carried:
        total, measured, each = carried.run_phases(found, inputs)
        again, same, _ = carried.run_phases(found, inputs)
        plain, _ = carried.add_up(policy_named("ring")(model, NetworkState(topology)), inputs)
        assert carried.check_counters() == []
    assert np.allclose(total, np.sum(np.array(inputs, np.float64), axis=0), rtol=1e-5, atol=1e-5)
    assert np.array_equal(total, again)
    assert measured == same
    assert np.allclose(total, plain, rtol=1e-5, atol=1e-5)
    assert measured.differences == ()
    assert measured.first_bytes == measured.predicted_bytes > 0
    assert sum(one.communication_ps for one in each) == measured.communication_ps
    for one in each:
        assert 0 < one.bound_ps <= one.communication_ps


def test_bytes_of_full_frames_counted_by_hand():
    """Rings of n hosts send 2 (n - 1) models, leaders one to each other host of their rack; each over its path."""
    topology = load(RACKS)
    found = hierarchical_ring(task("h2", "h5", "h6", demand_bps=1), NetworkState(topology), lanes=LANES)
    (ring,) = found.leaders
    order = ring.upload.order
    far = sum(len(list(pairwise(ring.upload.paths[pair]))) for pair in zip(order, order[::-1], strict=True))
    frame = 4 * LANES
    # Two racks: a ring of two sends two models, over 2 links each; the copies to the others take 2 links each.
    models = 2 * (2 * 2) + far + 2 * 2
    payload = models * (ELEMENTS // LANES) * frame
    with PhasedNetwork(topology, bundled(LANES), elements=ELEMENTS) as carried:
        _, measured, _ = carried.run_phases(found, [np.ones(ELEMENTS, np.float32)] * 3)
    assert payload < measured.first_bytes < 1.45 * payload  # headers of full frames, and empty ones the other way


def test_rings_are_a_piece_of_the_experiment_beside_the_schedulers():
    settings = PosterSettings(
        scenarios=(TrafficScenario("racks", RACKS, load=0.2), TrafficScenario("other", RACKS)),
        sizes=(2, 7),
        tasks=3,
        seeds=(4,),
        elements=ELEMENTS,
        lanes=LANES,
        demand_bps=10**7,
        ring_networks=("racks",),
        ring_tasks=2,
    )
    assert ring_cells(replace(settings, ring_tasks=0)) == []
    (cell,) = ring_cells(settings)
    found = run_rings(cell)
    assert found.differences == ()
    (part,) = STUDY.chosen(["rings"])
    by_policy = {point["policy"]: point for point in part.points(found.rows)}
    assert list(by_policy) == ["spff", "overlay-mst", "steiner", "ring", "hierarchical-ring", "overlay-mst-hosts"]
    assert {(point["tasks"], point["rejected"]) for point in by_policy.values()} == {(2, 0)}
    assert by_policy["hierarchical-ring"]["megabytes"] != by_policy["ring"]["megabytes"]
    assert all(row.first_bytes == row.predicted_bytes > 0 for row in found.rows)
    full = run_rings(replace(cell, settings=replace(settings, demand_bps=4 * 10**9)))
    phased = [row for row in full.rows if row.policy in IN_PHASES]
    assert {row.status for row in phased if row.policy == "hierarchical-ring"} == {"rejected"}
    assert all("are needed" in row.reason for row in phased if row.status == "rejected")
