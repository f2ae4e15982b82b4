"""Workers with bounded staleness on packets: bounds, weights, and the order of their batches."""

import numpy as np
import pytest

from p4reduce.base.errors import ControllerError, PlanError
from p4reduce.network.jobs.asynchronous import (
    AsynchronousTraining,
    Clockwork,
    ControllerOrder,
    Staleness,
    SwitchOrder,
    group_of,
    install,
)
from p4reduce.network.jobs.network import EmbeddedSwitches, JobNetwork, bundled
from p4reduce.network.virtual import Faults
from p4reduce.play.priorities.description import Description, JobDescription
from p4reduce.play.priorities.run import run
from p4reduce.topologies import load

UPLINK = "leaf-spine:leaves=2,spines=1,hosts=4,servers=1,rate=40G,uplink=10G"
FAR = ("h5", "h6", "h7", "h8")


def test_a_bound_holds_back_whoever_is_ahead():
    staleness = Staleness(3, 1)
    staleness.done[:] = [2, 1, 1]
    assert [staleness.may(rank) for rank in range(3)] == [True, True, True]
    staleness.done[:] = [3, 1, 2]
    assert [staleness.may(rank) for rank in range(3)] == [False, True, True]
    assert (staleness.oldest, staleness.newest) == (1, 3)
    assert Staleness(2, None).may(0)
    with pytest.raises(ValueError, match="staleness"):
        Staleness(2, -1)


def described(**more) -> Description:
    fields = {"plan": "ps", "slowdowns": (1.0, 1.0, 1.0, 3.0), **more}
    return Description(UPLINK, (JobDescription(FAR, "server1", 4000, 60_000_000, **fields),), rounds=8)


def test_bounds_hold_on_packets_and_looser_ones_take_less_time():
    """The run itself checks weights and bytes."""
    took = {bound: run(described(staleness=bound)).jobs[0] for bound in (1, 3, None)}
    assert [took[bound].most_ahead for bound in (1, 3)] == [1, 3]
    assert took[None].most_ahead > 3
    first_done = {bound: min(own[-1] for own in job.by_worker_ps) for bound, job in took.items()}
    assert first_done[None] < first_done[3] < first_done[1]


@pytest.mark.parametrize("order", ["switch", "controller"])
def test_whoever_is_behind_goes_first(order):
    """Eight workers on one uplink, one of them half as fast: less time, no resends."""
    topology = "leaf-spine:leaves=2,spines=1,hosts=8,servers=1,rate=40G,uplink=10G"
    hosts = tuple(f"h{number}" for number in range(9, 17))
    job = {"plan": "ps", "staleness": 2, "slowdowns": (1.0,) * 7 + (2.0,)}
    took = {}
    for kind in ("none", order):
        about = JobDescription(hosts, "server1", 15_000, 180_000_000, order=kind, **job)
        took[kind] = run(Description(topology, (about,), rounds=8, control_latency_ps=10_000_000))
    assert took[order].jobs[0].completion_ps < 0.95 * took["none"].jobs[0].completion_ps
    assert took[order].resend_share <= 0.001
    assert (took[order].writes > 0) == (order == "controller")


class Constant:
    """A model with which every worker pushes ones."""

    def __init__(self, elements: int) -> None:
        self._ones = np.ones(elements, np.float32)
        self.ended: list[tuple[int, int]] = []

    def compute_ps(self, rank: int, iteration: int) -> int:
        del iteration
        return 1_000_000 * (rank + 1)

    def gradient(self, rank: int, iteration: int, weights: np.ndarray) -> np.ndarray:
        del rank, iteration, weights
        return self._ones

    def pulled(self, rank: int, iteration: int, done_ps: int, weights: np.ndarray) -> None:
        del done_ps, weights
        self.ended.append((rank, iteration))


def test_lost_frames_change_no_weight():
    weights, worker = np.zeros(3000, np.float32), Constant(3000)
    with (
        EmbeddedSwitches(load(UPLINK), bundled(64)) as switches,
        JobNetwork(switches, faults=Faults(loss=0.02, duplicate=0.02, reorder=0.02), seed=4) as network,
    ):
        clockwork = Clockwork(network)
        job = install(network, switches.controller, FAR, "server1", weights, first_job=4, priority=1)
        order = SwitchOrder(clockwork, switches.controller, job, group_of(job, 0, 1, 3))
        training = AsynchronousTraining(
            clockwork, job, worker, iterations=5, staleness=1, learning_rate=4.0, moved=order.moved
        )
        training.begin()
        clockwork.run()
        assert training.finished
        assert np.array_equal(weights, np.full(3000, -20, np.float32))
        assert sorted(worker.ended) == [(rank, k) for rank in range(4) for k in range(5)]
        order.close()
        job.uninstall(network, switches.controller)
        for device in switches.devices().values():
            assert list(device.tables["IncIngress.traffic_class"].entries()) == []


def test_what_cannot_be_installed():
    with EmbeddedSwitches(load(UPLINK), bundled(64)) as switches, JobNetwork(switches) as network:
        controller, weights = switches.controller, np.zeros(100, np.float32)
        with pytest.raises(PlanError, match="first_job: 6, must be a multiple of 4"):
            install(network, controller, FAR, "server1", weights, first_job=6)
        with pytest.raises(PlanError):
            install(network, controller, (*FAR[:3], "nobody"), "server1", weights, first_job=4)
        assert controller.installed == ()
        job = install(network, controller, FAR, "server1", weights, first_job=4)
        group = group_of(job, 0, 1, 3)
        for staleness, rebase in ((None, 4), (5, 4), (2, 0)):
            with pytest.raises(ControllerError, match="staleness"):
                ControllerOrder(
                    Clockwork(network), controller, job, group, staleness=staleness, latency_ps=0, rebase=rebase
                )


@pytest.mark.parametrize("staleness", [0, 2, None])
def test_the_digits_are_learned_and_every_gradient_counts_once(staleness):
    """The run compares the weights with the float64 sum of all gradients."""
    job = JobDescription(FAR, "server1", 0, 10_000_000, plan="ps", staleness=staleness, model="digits")
    found = run(Description(UPLINK, (job,), rounds=10)).jobs[0].scores
    assert [score.rounds for score in found] == list(range(1, 11))
    assert found[-1].accuracy > 0.6 > found[0].accuracy
    assert [score.at_ps for score in found] == sorted(score.at_ps for score in found)
