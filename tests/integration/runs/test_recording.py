"""Recorded traces, replayed on the same network, take as long as the original run."""

import numpy as np
import pytest

from p4reduce.group.backend import Called, Moved, ParticipantTrace, Wait
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.replay import play
from p4reduce.runs.traces import TraceError, read, recorded, write_rank
from p4reduce.runs.virtual.cluster import Cluster
from p4reduce.runs.workload import check

SETTINGS = {"topology": "star8", "workers": 4, "rate": "25G"}
MICRO = 1e-6


def trained(folder, script, plan="steiner"):
    """Run a script on every rank, write its traces; return the start of the first call and the end of the last work,
    ps."""
    with Cluster(Experiment(plan=plan, **SETTINGS)) as cluster:
        cluster.run_threads(script)
        spans = cluster.spans()
        folder.mkdir()
        for number, rank in enumerate(recorded(cluster.told(), spans, cluster.size)):
            write_rank(folder / f"rank.{number}.et", rank)
    return max(span.end_ps for span in spans) - min(span.start_ps for span in spans)


def buckets(comm):
    """Two backward passes with concurrent sums; ranks are not equally fast."""
    for _ in range(2):
        handles = []
        for size in (9000, 30_000, 20_000, 700):
            comm.compute((4 + comm.rank) * MICRO)
            handles.append(comm.all_reduce(np.ones(size, np.float32), start=comm.now))
        comm.compute(3 * MICRO)
        for handle in handles:
            handle.wait()
        comm.compute(5 * MICRO)


def blocking(comm):
    """Alternate computation and collectives."""
    for size in (3000, 40_000):
        comm.compute((2 + 3 * (comm.rank % 2)) * MICRO)
        comm.all_reduce(np.ones(size, np.float32))
        comm.barrier()


@pytest.mark.parametrize("script", [buckets, blocking])
def test_a_replay_takes_as_long_with_any_plan(tmp_path, script):
    first = trained(tmp_path / "steiner", script)
    ring = trained(tmp_path / "ring", script, "ring")
    workload = read([tmp_path / "steiner"])
    assert play(workload, Experiment(plan="steiner", **SETTINGS)).total_ps == first
    assert play(workload, Experiment(plan="ring", **SETTINGS)).total_ps == pytest.approx(ring, rel=0.01)
    assert ring > 1.2 * first


def test_what_is_recorded_of_each_operation(tmp_path):
    def script(comm):
        comm.all_reduce(np.ones(1000, np.float32))
        comm.reduce_scatter(np.ones(4000, np.float32))
        comm.all_gather(np.ones(500, np.float32), np.empty((4, 500), np.float32))
        comm.broadcast(np.ones(600, np.float32), root=2)
        comm.all_to_all(np.ones(800, np.float32), np.empty(800, np.float32))
        pair = comm.group([0, 2] if comm.rank % 2 == 0 else [1, 3])
        pair.broadcast(np.ones(100, np.float32), root=1)
        comm.barrier()

    trained(tmp_path / "all", script)
    workload = read([tmp_path / "all"])
    found = {(one.communication.operation, one.members): one.communication for one in workload.meetings}
    world = (0, 1, 2, 3)
    octets = {operation: one.octets for (operation, members), one in found.items() if members == world}
    assert octets == {"all_reduce": 4000, "reduce_scatter": 16_000, "all_gather": 2000, "broadcast": 2400,
                      "all_to_all": 3200, "barrier": 0}  # fmt: skip
    assert found["broadcast", world].peer == 2
    assert found["broadcast", (1, 3)].peer == 3


def test_what_is_waited_for_is_a_dependency_even_if_it_cost_nothing():
    told = ParticipantTrace([Called("all_reduce", 10, 0, 0, 50)], [Wait(100, 50)])
    (rank,) = recorded([((0,), [told])], [], 1)
    assert [(node.name, node.after) for node in rank.nodes] == [("all_reduce", ()), ("end", (0,))]


def test_messages_have_both_ends_and_receivers_wait():
    sender, receiver = (
        ParticipantTrace(moves=[Moved(4, 7, ((1, 64, True),), 3)]),
        ParticipantTrace([], [Wait(9, 9, 6)], [Moved(6, 5, ((0, 64, False),), 3)]),
    )
    ranks = recorded([((0, 1), [sender, receiver])], [], 2)
    assert [node.communication.operation for rank in ranks for node in rank.nodes if node.communication] == [
        "send",
        "recv",
    ]
    assert ranks[1].nodes[-1].after == (0,)
    assert len(check(ranks, {}).meetings) == 1


def test_messages_of_a_group_have_ranks_of_the_whole_run():
    sender = ParticipantTrace(moves=[Moved(0, 7, ((1, 64, True),), 3)])
    receiver = ParticipantTrace(moves=[Moved(1, 5, ((0, 64, False),), 3)])
    alone = [ParticipantTrace()] * 3
    ranks = recorded([((0, 1, 2), alone), ((1, 2), [sender, receiver])], [], 3)
    assert [node.communication.peer for rank in ranks for node in rank.nodes] == [2, 1]
    assert [meeting.members for meeting in check(ranks, {}).meetings] == [(1, 2)]


def test_a_parameter_server_has_no_trace():
    with pytest.raises(TraceError, match="a trace has no node for push"):
        recorded([((0,), [ParticipantTrace([Called("push", 1, 0, 0, 1)])])], [], 1)
