"""Failures give one clear error, and no rank waits forever."""

import math
import signal
import threading

import numpy as np
import pytest
from pydantic import ValidationError

from p4reduce.base.errors import PlanError
from p4reduce.group.backend import CollectiveCall
from p4reduce.group.errors import ClusterError, CollectiveError
from p4reduce.network.virtual import Faults
from p4reduce.runs.experiment import Experiment, ExperimentError, FaultOptions
from p4reduce.runs.runner import run_experiment
from p4reduce.runs.virtual.cluster import Cluster
from p4reduce.topologies import TopologyError

SMALL = Experiment(topology="star:hosts=3", lanes=64, elements=1000)


CUT_OFF = {("h2", 1): Faults(loss=1.0)}


def reduced(experiment, faults):
    with Cluster(experiment, faults=faults) as cluster:
        cluster.run_threads(lambda comm: comm.all_reduce(np.ones(1000, np.float32)))


def test_a_worker_that_is_cut_off_is_named():
    with pytest.raises(CollectiveError, match="h2") as caught:
        reduced(SMALL, CUT_OFF)
    assert "no RESULT for seq 0" in str(caught.value)
    assert "s1" in str(caught.value)


@pytest.mark.parametrize("plan", ["ring", "ps"])
def test_the_baselines_give_up_too(plan):
    with pytest.raises(CollectiveError, match=r"h\d: .* retries"):
        reduced(Experiment(topology="star:hosts=3,servers=1", plan=plan, lanes=64), CUT_OFF)


def test_a_group_that_ends_ends_the_collective_that_is_under_way():
    elements = 3_000_000
    calls = [CollectiveCall(rank, "all_reduce", np.ones(elements, np.float32), 0, 0.0, 0, 0) for rank in range(3)]

    checks = []

    def check():
        checks.append(None)
        if len(checks) > 1:  # at the first check nothing has been sent yet
            raise ClusterError("interrupted")

    with Cluster(SMALL) as cluster:
        with pytest.raises(ClusterError, match="interrupted"):
            cluster.carrier.carry(calls, check)
        seen = sum(link.inc_first_bytes for link in cluster.carrier.network.fabric.links.values())
        assert 0 < seen < 6 * 4 * elements  # three links up and down
        assert not cluster.carrier.records


def test_a_rank_that_leaves_is_named():
    def participate(comm):
        if comm.rank != 1:
            comm.all_reduce(np.ones(10, np.float32))

    with Cluster(SMALL) as cluster, pytest.raises(ClusterError, match="waits for rank 1, which left the group"):
        cluster.run_threads(participate)


def test_a_rank_that_fails_ends_the_others():
    def participate(comm):
        if comm.rank == 1:
            raise OSError("disk full")
        comm.all_reduce(np.ones(10, np.float32))

    with Cluster(SMALL) as cluster, pytest.raises((OSError, ClusterError), match="disk full"):
        cluster.run_threads(participate)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_no_sum_can_carry_is_refused_with_its_index(value):
    def participate(comm):
        array = np.ones(100, np.float32)
        if comm.rank == 2:
            array[57] = value
        comm.all_reduce(array)

    with Cluster(SMALL) as cluster, pytest.raises((ValueError, ClusterError), match=r"rank 2 .*index 57"):
        cluster.run_threads(participate)


def test_ranks_that_disagree_are_named():
    def participate(comm):
        comm.all_reduce(np.ones(10 + comm.rank, np.float32))

    with (
        Cluster(SMALL) as cluster,
        pytest.raises(CollectiveError, match=r"rank 0 called all_reduce.10 elements"),
    ):
        cluster.run_threads(participate)


def test_an_interrupt_ends_the_ranks_at_their_next_call():
    calls, main = [], threading.main_thread().ident

    def train_for_long(comm):
        for _ in range(2000):
            comm.all_reduce(np.ones(64, np.float32))
            calls.append(comm.rank)
            if len(calls) == 1:
                signal.pthread_kill(main, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with Cluster(SMALL) as cluster, pytest.raises(KeyboardInterrupt):
            cluster.run_threads(train_for_long)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(calls) < 2000


@pytest.mark.parametrize(
    "use",
    [
        lambda comm: comm.push_pull(np.ones(3, np.float32), math.nan),
        lambda comm: comm.record("loss", math.inf),
        lambda comm: comm.compute(math.inf),
    ],
)
def test_figures_that_are_no_numbers_are_refused(use):
    with Cluster(SMALL) as cluster, pytest.raises(ValueError, match="finite"):
        use(cluster.communicators()[0])


def test_a_server_that_is_not_there_is_asked_for():
    with Cluster(SMALL) as cluster, pytest.raises(CollectiveError, match="needs a parameter server"):
        cluster.run_threads(lambda comm: comm.push(np.ones(10, np.float32)))


@pytest.mark.parametrize(
    ("array", "error", "message"),
    [
        (np.ones(3), TypeError, "float32"),
        ([1.0, 2.0], TypeError, "float32"),
        (np.ones((4, 4), np.float32)[:, 0], ValueError, "C-contiguous"),
        (np.zeros(0, np.float32), ValueError, "empty"),
        (np.broadcast_to(np.float32(1), (1,)), ValueError, "read-only"),
    ],
)
def test_arrays_that_do_not_fit(array, error, message):
    with Cluster(SMALL) as cluster:
        comm = cluster.communicators()[0]
        with pytest.raises(error, match=message):
            comm.all_reduce(array)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"plan": "stainer"}, ValidationError, "unknown plan 'stainer'; known: "),
        ({"topology": "nowhere"}, TopologyError, "nowhere"),
        ({"topology": "star:hosts=3", "workers": 4}, ExperimentError, "workers: 4, but topology"),
        ({"rate": "fast"}, ValidationError, "rate"),
        ({"topology": "star:hosts=33", "plan": "steiner"}, PlanError, "32"),
        ({"topology": "star:hosts=3,capable=none", "plan": "steiner"}, PlanError, "no switch"),
        ({"numbers": "fixed"}, ValidationError, "scale"),
        ({"faults": {"loss": 1.5}}, ValidationError, "loss"),
        ({"window": 5000}, PlanError, "window"),
    ],
)
def test_what_cannot_be_run_says_why_and_leaves_nothing(settings, error, message):
    before = set(threading.enumerate())
    with pytest.raises(error, match=message):
        run_experiment(Experiment(**{"elements": 100, **settings}))
    for thread in set(threading.enumerate()) - before:
        if "_poll_wrapper" in thread.name:
            continue  # gRPC's poller thread: it lives as long as any of its asyncio objects
        thread.join(timeout=10)
        assert not thread.is_alive()


def test_slots_that_limit_the_rate_are_reported():
    """100 Gb/s over 100 us per link needs more chunks in flight than half of 4,096 slots."""
    result = run_experiment(Experiment(elements=1_000_000, rate="100G", delay="100us")).network
    assert result.slots == 4096
    assert result.slots_limited
    assert result.ratio_to_bound > 1.5
    assert not run_experiment(Experiment(elements=1000, rate="100G")).network.slots_limited


def test_heavy_faults_still_give_the_sum():
    faults = FaultOptions(loss=0.2, duplicate=0.2, reorder=0.2, corrupt=0.05)
    quiet = run_experiment(SMALL).network
    noisy = run_experiment(SMALL.model_copy(update={"faults": faults})).network
    assert quiet.result_sha256 == noisy.result_sha256
