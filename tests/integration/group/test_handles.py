"""Non-blocking collectives, groups of some workers, and types other than float32, on packets."""

import numpy as np
import pytest

from p4reduce.group.communicator import Communicator
from p4reduce.group.errors import CollectiveError
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import result_of
from p4reduce.runs.virtual.cluster import Cluster

STAR = "star:hosts=4,servers=1"


def test_collectives_overlap_computation_and_start_when_they_may() -> None:
    def train(comm: Communicator) -> list[float]:
        begin = comm.now
        first, second = np.ones(100_000, np.float32), np.full(100_000, 2.0, np.float32)
        comm.compute(1e-3)
        one = comm.all_reduce(first, start=comm.now)
        comm.compute(1e-3)
        two = comm.all_reduce(second, start=comm.now)
        comm.compute(5e-6)
        before = comm.now
        one.wait()
        two.wait()
        assert (first == 4).all()
        assert (second == 8).all()
        return [before - begin, one.done_s - begin, two.done_s - begin, comm.now - begin]

    with Cluster(Experiment(topology=STAR, rate="10G")) as cluster:
        times = cluster.run_threads(train)
        records = cluster.carrier.records
        spans = cluster.spans()
    for before, one, two, end in times:
        assert before == pytest.approx(2.005e-3)
        assert 1e-3 < one < 2e-3 < two < 2.5e-3  # the first ended before the second began
        assert end == two
    assert records[1].start_ps - records[0].start_ps == 10**9
    assert [span.name for span in spans if span.rank == 0] == ["compute", "all_reduce", "all_reduce"]
    mine = {span.name: span.end_ps - span.start_ps for span in spans if span.rank == 0}
    assert mine == {"compute": 2_005_000_000, "all_reduce": records[1].done_ps - records[1].start_ps}


def test_one_stream_carries_one_after_the_other() -> None:
    def train(comm: Communicator) -> list[float]:
        arrays = [np.ones(50_000, np.float32) for _ in range(3)]
        start = comm.now
        handles = [comm.all_reduce(array, start=start) for array in arrays]
        comm.barrier()  # after the collectives
        assert all(handle.done for handle in handles)
        return [handle.done_s for handle in handles]

    with Cluster(Experiment(topology=STAR)) as cluster:
        for times in cluster.run_threads(train):
            assert times == sorted(times)
            assert len(set(times)) == 3


@pytest.mark.parametrize("plan", ["steiner", "ring", "ps"])
def test_other_types_and_gathers(plan: str) -> None:
    def work(comm: Communicator) -> None:
        words = np.arange(700, dtype=np.int32) * (comm.rank + 1) - 2**26
        comm.all_reduce(words)
        assert (words == np.arange(700, dtype=np.int64) * 10 - 4 * 2**26).all()
        half = np.full(300, 0.5 + comm.rank, np.float16)
        assert (comm.all_reduce(half) == 8.0).all()
        block = comm.reduce_scatter(np.arange(8, dtype=np.float32))
        assert block.tolist() == [8.0 * comm.rank, 8.0 * comm.rank + 4]
        octets = np.frombuffer(b"rank %d" % comm.rank, np.uint8)
        every = comm.all_gather(octets, np.empty((4, 6), np.uint8))
        assert [bytes(row) for row in every] == [b"rank 0", b"rank 1", b"rank 2", b"rank 3"]
        odd = np.array([np.nan, -0.0, np.inf, comm.rank])
        gathered = comm.all_gather(odd, np.empty((4, 4)))
        assert gathered[:, 3].tolist() == [0, 1, 2, 3]
        assert np.signbit(gathered[:, 1]).all()
        bits = np.full(300, -1 if comm.rank == 2 else comm.rank)  # a NaN as float32
        assert (comm.broadcast(bits, 2) == -1).all()
        text = np.frombuffer(b"hello" if comm.rank == 2 else b".....", np.uint8).copy()
        assert bytes(comm.broadcast(text, 2)) == b"hello"

    with Cluster(Experiment(topology=STAR, plan=plan)) as cluster:
        cluster.run_threads(work)
        result = result_of(cluster)
    assert result.network.prediction_differences == []
    assert {"all_gather", "all_reduce", "broadcast"} == {one.operation for one in result.network.collectives}


@pytest.mark.parametrize("plan", ["steiner", "ring"])
def test_groups_have_sums_and_broadcasts_of_their_own(plan: str) -> None:
    def work(comm: Communicator) -> list[float]:
        row = comm.group([0, 2] if comm.rank in (0, 2) else [3, 1])
        array = np.full(600, float(comm.rank), np.float32)
        row.all_reduce(array)
        mine = array[0]
        row.broadcast(array.fill(comm.rank) or array, 1)
        row.barrier()
        comm.barrier()
        return [mine, array[0], row.rank, row.size]

    with Cluster(Experiment(topology=STAR, plan=plan)) as cluster:
        found = cluster.run_threads(work)
        result = result_of(cluster)
    assert found == [[2, 2, 0, 2], [4, 1, 1, 2], [2, 2, 1, 2], [4, 1, 0, 2]]
    assert result.network.prediction_differences == []


def test_a_group_waits_as_long_as_it_was_told_to_and_the_others_go_on() -> None:
    def work(comm: Communicator) -> str:
        row = comm.group([0, 2] if comm.rank in (0, 2) else [1, 3], patience_s=0.05)
        said = ""
        if comm.rank == 2:
            try:
                row.barrier()
            except CollectiveError as error:
                said = str(error)
        comm.barrier()
        return said

    with Cluster(Experiment(topology=STAR)) as cluster:
        found = cluster.run_threads(work)
    assert found == ["", "", "barrier #0: rank 2 reached its timeout of 0.05 s waiting for rank 0", ""]


def test_what_is_not_finite_comes_through_or_is_an_error() -> None:
    def work(comm: Communicator) -> None:
        array = np.ones(1000, np.float32)
        if comm.rank == 1:
            array[300] = np.inf
        comm.all_reduce(array, not_finite="nan")
        assert np.isnan(array[256:512]).all()
        assert (array[:256] == 4).all()
        assert (array[512:] == 4).all()
        array[:] = 1
        comm.all_reduce(array)
        assert (array == 4).all()
        array[:] = 2.0**30 if comm.rank else np.nan
        comm.all_reduce(array)

    with (
        Cluster(Experiment(topology=STAR)) as cluster,
        pytest.raises(ValueError, match="rank 0 gave nan at index 0"),
    ):
        cluster.run_threads(work)


def test_integers_beyond_int32_are_an_error_and_so_are_wrong_groups() -> None:
    def overflow(comm: Communicator) -> None:
        comm.all_reduce(np.full(3, 2**30, np.int32))

    with Cluster(Experiment(topology=STAR)) as cluster, pytest.raises(CollectiveError, match="beyond int32"):
        cluster.run_threads(overflow)

    def wrong(comm: Communicator) -> None:
        for ranks in ([], [0, 0], [0, 9], [(comm.rank + 1) % 4]):
            with pytest.raises(ValueError, match="group: "):
                comm.group(ranks)
        with pytest.raises(TypeError, match="float64"):
            comm.all_reduce(np.ones(3))
        with pytest.raises(ValueError, match="3 elements are no 4 equal blocks"):
            comm.reduce_scatter(np.ones(3, np.float32))

    with Cluster(Experiment(topology=STAR)) as cluster:
        cluster.run_threads(wrong)
