"""All-to-all through the P4 program: every block reaches its owner, in the predicted number of frames."""

import numpy as np
import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.counters import Operation, compare_counters, plan_bound, predict
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.network.jobs.network import EmbeddedSwitches, JobNetwork, bundled
from p4reduce.network.virtual import Faults, StopReason
from p4reduce.topologies import load
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective, EndpointState

STAR, TWO_LEVELS = "star:hosts=5", "leaf-spine:leaves=3,spines=2,hosts=3,rate=10G"


def exchange(
    spec: str, workers: int, block: int, *, faults: Faults = Faults(), rounds: int = 1, late_ps: int = 0
) -> tuple[int, int, int]:
    """Exchange blocks between all workers, compare with a transposition; return time, lower bound and resends."""
    topology = load(spec)
    hosts = tuple(host.name for host in topology.workers[:workers])
    random = np.random.default_rng(7)
    with EmbeddedSwitches(topology, bundled(64)) as switches:
        plan = switches.controller.start_job(PlanRequest("all-to-all", workers=hosts))
        predicted = predict(plan, Operation.ALL_TO_ALL, workers * block)
        with JobNetwork(switches, faults=faults, seed=3) as network:
            job = network.add(plan)
            for _ in range(rounds):
                sent = random.integers(0, 2**32, (workers, workers, block), dtype=np.uint32)
                came = np.zeros_like(sent)
                began = network.now
                for rank, index in enumerate(job.members.values()):
                    source, target = (array[rank].reshape(-1).view(np.float32) for array in (sent, came))
                    network.post(index, Post(Collective.ALL_TO_ALL, source, target))
                    network.advance(network.now + late_ps)
                assert network.advance(watch=job.endpoints) is StopReason.DONE
                statuses = network.statuses(job)
                assert {status.state for status in statuses} == {EndpointState.DONE}
                assert np.array_equal(came, sent.swapaxes(0, 1))
                took = network.done_ps(job) - began
                network.advance()
            counted = {hop: (one.inc_first_frames, one.inc_first_bytes) for hop, one in network.fabric.links.items()}
            if not faults.any:
                expected = {hop: (one.frames * rounds, one.bytes * rounds) for hop, one in predicted.items()}
                assert counted == expected
                if rounds == 1:
                    assert not compare_counters(topology, predicted, switches.controller.read_counters())
            bound = plan_bound(plan, workers * block, Operation.ALL_TO_ALL).time_ps
            return took, bound, sum(status.resends for status in statuses)


@pytest.mark.parametrize(
    ("spec", "workers", "block"), [(STAR, 2, 1), (STAR, 5, 64), (STAR, 5, 1000), (TWO_LEVELS, 9, 300)]
)
def test_every_block_arrives_in_as_many_frames_as_predicted(spec: str, workers: int, block: int) -> None:
    *_, resends = exchange(spec, workers, block)
    assert resends == 0


def test_one_worker_keeps_its_block() -> None:
    assert exchange(STAR, 1, 10)[:2] == (0, 0)


def test_several_one_after_the_other_and_workers_that_come_late() -> None:
    exchange(TWO_LEVELS, 6, 200, rounds=3, late_ps=20_000_000)


@pytest.mark.parametrize(
    "faults", [Faults(loss=0.05), Faults(duplicate=0.1, reorder=0.2), Faults(loss=0.2, corrupt=0.1)]
)
def test_whatever_links_lose_is_sent_again(faults: Faults) -> None:
    *_, resends = exchange(STAR, 5, 700, faults=faults, rounds=2)
    assert resends > 0 or faults.loss == 0


@pytest.mark.parametrize(("spec", "workers"), [(STAR, 5), (TWO_LEVELS, 9)])
def test_pace_keeps_incast_away(spec: str, workers: int) -> None:
    took, bound, _ = exchange(spec, workers, 64 * 200)
    assert bound < took < 1.05 * bound


def test_blocks_must_be_equal_and_arrays_two() -> None:
    topology = load(STAR)
    with EmbeddedSwitches(topology, bundled(64)) as switches, JobNetwork(switches) as network:
        job = network.add(switches.controller.start_job(PlanRequest("all-to-all")))
        index = job.endpoints[0]
        same = np.zeros(10, np.float32)
        with pytest.raises(ValueError, match="no equal blocks for 5 ranks"):
            network.post(index, Post(Collective.ALL_TO_ALL, np.zeros(11, np.float32), np.zeros(11, np.float32)))
        with pytest.raises(ValueError, match="array of its own"):
            network.post(index, Post(Collective.ALL_TO_ALL, same, same))
        with pytest.raises(ValueError, match="cannot do ALL_REDUCE"):
            network.post(index, Post(Collective.ALL_REDUCE, same, same))
        for operation in (Operation.ALL_REDUCE, Operation.BARRIER):
            with pytest.raises(PlanError, match="cannot do"):
                predict(job.plan, operation, 10)
        with pytest.raises(PlanError, match="no equal blocks"):
            predict(job.plan, Operation.ALL_TO_ALL, 11)
