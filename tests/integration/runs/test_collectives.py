"""Whole runs: real P4Runtime over gRPC, packets through the compiled P4 program, endpoints on every host."""

import numpy as np
import pytest

from p4reduce.runs.experiment import Experiment, FaultOptions
from p4reduce.runs.participant import tensor
from p4reduce.runs.runner import result_of, run_experiment
from p4reduce.runs.virtual.cluster import Cluster

PLANS = ("steiner", "mst", "spt", "ring", "ps")
IN_NETWORK = ("steiner", "mst", "spt")
FAULTY = FaultOptions(loss=0.01, duplicate=0.01, reorder=0.01, corrupt=0.005)


@pytest.mark.parametrize("plan", PLANS)
def test_first_transmissions_equal_the_prediction_on_every_link(plan):
    result = run_experiment(Experiment(plan=plan, elements=30_001, repeat=2, seed=1)).network
    assert result.prediction_differences == []
    assert sum(load.predicted_bytes for load in result.links) == result.total_bytes > 0
    assert all(record.resends == 0 and record.saturated == 0 for record in result.collectives)
    assert result.refused == {}


@pytest.mark.parametrize("lanes", [64, 256])
@pytest.mark.parametrize("plan", PLANS)
def test_faults_on_every_link_change_no_byte_and_no_prediction(plan, lanes):
    clean = run_experiment(Experiment(plan=plan, lanes=lanes, elements=20_000, seed=2)).network
    faulty = run_experiment(Experiment(plan=plan, lanes=lanes, elements=20_000, seed=2, faults=FAULTY)).network
    assert sum(load.lost for load in faulty.links) > 0
    assert sum(record.resends for record in faulty.collectives) > 0
    assert faulty.result_sha256 == clean.result_sha256
    assert faulty.prediction_differences == []


def test_every_tree_gives_the_same_bytes():
    results = {run_experiment(Experiment(plan=plan, elements=9999)).network.result_sha256 for plan in IN_NETWORK}
    assert len(results) == 1


@pytest.mark.parametrize("topology", ["leaf-spine-8-partial", "fat-tree-4", "nobel-us", "two-racks"])
@pytest.mark.parametrize("plan", IN_NETWORK)
def test_partly_capable_and_other_topologies(topology, plan):
    result = run_experiment(Experiment(topology=topology, plan=plan, lanes=64, elements=5000, faults=FAULTY)).network
    assert result.prediction_differences == []
    assert result.collectives[0].max_error <= result.collectives[0].error_bound


@pytest.mark.parametrize(
    ("plan", "elements", "rate"),
    [(plan, 2**18, "10G") for plan in PLANS]
    + [(plan, 2**22, "100G") for plan in PLANS]
    + [(plan, 2**18, "100G") for plan in ("ring", "ps")],
)
def test_time_is_within_five_percent_of_the_bound(plan, elements, rate):
    """8 workers, two levels, 1 us a link: 1 MiB at 10 Gb/s and 16 MiB at 100 Gb/s (docs/performance.md has more)."""
    result = run_experiment(Experiment(plan=plan, elements=elements, rate=rate, delay="1us")).network
    assert 1.0 <= result.ratio_to_bound <= 1.05
    assert not result.slots_limited


@pytest.mark.parametrize("plan", ["steiner", "spt"])
def test_a_small_tensor_on_fast_links_is_within_five_percent_with_a_fixed_scale(plan):
    """1 MiB at 100 Gb/s lasts 21 round trips; block floating point needs one more to agree on exponents."""
    experiment = Experiment(plan=plan, elements=2**18, rate="100G", delay="1us", numbers="fixed", scale=2.0**14)
    assert 1.0 <= run_experiment(experiment).network.ratio_to_bound <= 1.05
    block = Experiment(plan=plan, elements=2**18, rate="100G", delay="1us")
    assert 1.05 < run_experiment(block).network.ratio_to_bound <= 1.10


@pytest.mark.parametrize("plan", ["steiner", "mst", "ring", "ps"])
@pytest.mark.parametrize("faults", [FaultOptions(), FAULTY], ids=["clean", "faulty"])
def test_all_collectives_one_after_the_other(plan, faults):
    size, elements = 8, 3000
    inputs = [tensor(7, rank, 0, elements) for rank in range(size)]
    weights = tensor(7, 99, 0, elements)
    exact = np.sum([array.astype(np.float64) for array in inputs], axis=0)

    def participate(comm):
        if comm.is_server:
            summed = comm.push(np.zeros(elements, np.float32))
            comm.pull(weights.copy())
            stepped = comm.push_pull(weights.copy(), learning_rate=0.5)
            return summed, None, stepped, None, None
        comm.push(inputs[comm.rank].copy())
        pulled = comm.pull(np.zeros(elements, np.float32))
        stepped = comm.push_pull(inputs[comm.rank].copy(), learning_rate=0.5)
        sent = comm.broadcast(inputs[comm.rank].copy(), root=3)
        comm.barrier()
        reduced = comm.all_reduce(inputs[comm.rank].copy())
        return None, pulled, stepped, sent, reduced

    experiment = Experiment(plan=plan, lanes=64, faults=faults)
    with Cluster(experiment) as cluster:
        returned = cluster.run_threads(participate, server=True)
        result = result_of(cluster)
    summed, _, server_weights, _, _ = returned[size]
    tolerance = 1e-4 * np.abs(exact).max()
    np.testing.assert_allclose(summed, exact, atol=tolerance)
    np.testing.assert_allclose(server_weights, weights - 0.5 / size * exact, atol=tolerance)
    for _, pulled, stepped, sent, reduced in returned[:size]:
        assert pulled.tobytes() == weights.tobytes()
        assert stepped.tobytes() == server_weights.tobytes()
        assert sent.tobytes() == inputs[3].tobytes()
        assert reduced.tobytes() == returned[0][4].tobytes()
        np.testing.assert_allclose(reduced, exact, atol=tolerance)
    assert result.network.prediction_differences == []


def test_a_fixed_scale_that_overflows_is_flagged_not_silent():
    result = run_experiment(Experiment(elements=1000, numbers="fixed", scale=2.0**40)).network
    assert result.collectives[0].saturated > 0


def test_one_worker_alone():
    for plan in PLANS:
        result = run_experiment(Experiment(plan=plan, workers=1, elements=777)).network
        assert result.collectives[0].max_error <= result.collectives[0].error_bound
