"""Replayed training traces: their times on packets and in the flow model, and the overlap with computation."""

import json

import numpy as np
import pytest

from p4reduce.group.backend import TimeSpan
from p4reduce.group.errors import ClusterError
from p4reduce.runs import replay
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.replay import play, rank_times
from p4reduce.runs.result import timeline
from p4reduce.runs.runner import run_experiment
from p4reduce.runs.traces import TraceError, read
from p4reduce.runs.workload import Communication, RankTrace, TraceNode, check
from tests.support import chakra

KIB = 1024


def played(folder, ranks, *, topology="star8", plan="steiner", time="virtual", **more):
    """Replay traces; check numbers and predicted bytes."""
    workload = read([chakra.write_all(folder, *ranks)])
    settings = Experiment(topology=topology, plan=plan, workers=len(ranks), rate="100G", time=time, **more)
    found = play(workload, settings)
    assert found.network is None or found.network.prediction_differences == []
    return found


def data_parallel(layers, micros, octets):
    """Backward passes of layers; each gradient is summed while the next layer computes."""
    nodes = []
    for layer in range(layers):
        nodes.append(chakra.compute(2 * layer, [2 * layer - 2] if layer else [], micros))
        nodes.append(chakra.collective(2 * layer + 1, "all_reduce", octets, [2 * layer]))
    return nodes


def sharded(ranks, layers=2):
    """As in FSDP: weights are gathered before a layer computes, gradients scattered after it."""
    nodes, last = [], []
    for layer in range(layers):
        at = 3 * layer
        nodes.append(chakra.collective(at, "all_gather", 256 * KIB // ranks, last))
        nodes.append(chakra.compute(at + 1, [at], 20))
        nodes.append(chakra.collective(at + 2, "reduce_scatter", 256 * KIB, [at + 1]))
        last = [at + 1]
    return nodes


def pipeline(rank, stages, batches=3):
    """Activations from stage to stage, and a sum at the end."""
    nodes, last = [], []

    def add(make, *given, **more):
        nodes.append(make(len(nodes), *given, **more))
        return [len(nodes) - 1]

    for batch in range(batches):
        came = add(chakra.receive, rank - 1, 64 * KIB, tag=batch) if rank else []
        last = add(chakra.compute, came + last, 30)
        if rank < stages - 1:
            add(chakra.send, rank + 1, 64 * KIB, last, tag=batch)
    add(chakra.collective, "all_reduce", 64 * KIB, last)
    return nodes


def two_ways(rank):
    """Tensor-parallel pairs, data-parallel groups of four, and all other kinds of nodes."""
    ranks = {f"t{one}": [2 * one, 2 * one + 1] for one in range(4)} | {
        f"d{one}": [one, one + 2, one + 4, one + 6] for one in (0, 1)
    }
    nodes = [chakra.groups(99, ranks)]
    for turn in range(2):
        at = 3 * turn
        nodes.append(chakra.compute(at, [at - 2] if turn else [], 10))
        nodes.append(chakra.collective(at + 1, "all_reduce", 40 * KIB, [at], pg_name=f"t{rank // 2}"))
        nodes.append(chakra.collective(at + 2, "all_reduce", 100 * KIB, [at + 1], pg_name=f"d{rank % 2}"))
    for at, what in enumerate(("all_to_all", "broadcast", "reduce", "barrier", "all_gather"), start=6):
        about = {"comm_root": 3} if what in {"broadcast", "reduce"} else {}
        nodes.append(chakra.collective(at, what, None if what == "barrier" else 10_001, [at - 1], **about))
    return nodes


@pytest.mark.parametrize("plan", ["steiner", "ring", "ps"])
def test_one_collective_takes_what_it_takes_in_a_run(tmp_path, plan):
    nodes = [chakra.compute(1, micros=7), chakra.collective(2, "all_reduce", 4 * 30_001, [1])]
    found = played(tmp_path, [nodes] * 8, plan=plan)
    alone = run_experiment(Experiment(topology="star8", plan=plan, rate="100G", elements=30_001))
    assert found.total_ps - 7_000_000 == alone.network.collectives[0].communication_ps
    assert found.exposed_ps == alone.network.collectives[0].communication_ps
    assert [one.overlapped_ps for one in found.ranks] == [0] * 8


def test_computation_hides_communication(tmp_path):
    """Layers of 10 us with shorter sums: all but the last sum overlap with computation."""
    short = played(tmp_path / "a", [data_parallel(6, 10, 40 * KIB)] * 4)
    (one,) = {(rank.compute_ps, rank.end_ps) for rank in short.ranks}
    assert one[0] == 60_000_000
    last = max(short.network.collectives, key=lambda record: record.done_ps)
    assert short.total_ps == 60_000_000 + last.communication_ps
    assert {rank.exposed_ps for rank in short.ranks} == {last.communication_ps}
    assert {rank.overlapped_ps for rank in short.ranks} == {
        rank.communication_ps - rank.exposed_ps for rank in short.ranks
    }
    long = played(tmp_path / "b", [data_parallel(6, 1, 40 * KIB)] * 4)
    assert long.exposed_ps > 3 * short.exposed_ps


def test_a_rank_waits_for_the_slowest(tmp_path):
    slow = [
        [chakra.compute(1, micros=500 if rank == 3 else 5), chakra.collective(2, "all_reduce", KIB, [1])]
        for rank in range(4)
    ]
    found = played(tmp_path, slow)
    assert found.ranks[0].exposed_ps > 495_000_000
    assert found.ranks[3].exposed_ps < 100_000_000


def test_one_accelerator_computes_one_node_at_a_time(tmp_path):
    nodes = [chakra.compute(number, micros=10) for number in range(3)]
    nodes += [
        chakra.node(9, "COMP_NODE", micros=25, is_cpu_op=True),
        chakra.collective(10, "barrier", None, [0, 1, 2, 9]),
    ]
    found = played(tmp_path, [nodes] * 2)
    assert {rank.compute_ps for rank in found.ranks} == {30_000_000}
    rows = {span.name for span in found.spans if span.rank == 0}
    assert rows == {"compute", "compute [host]", "barrier"}


@pytest.mark.parametrize(
    ("name", "topology", "plan"),
    [
        ("sharded", "star8", "steiner"),
        pytest.param("sharded", "leaf-spine-8", "steiner", marks=pytest.mark.soak),
        ("sharded", "star8", "ring"),
        ("pipeline", "leaf-spine-8", "steiner"),
        ("two_ways", "leaf-spine-8", "steiner"),
        pytest.param("two_ways", "star8", "ps", marks=pytest.mark.soak),
        pytest.param("two_ways", "star8", "ring", marks=pytest.mark.soak),
        pytest.param("two_ways", "leaf-spine-8", "best", marks=pytest.mark.soak),
    ],
)
def test_trainings_on_packets_and_in_the_flow_model(tmp_path, name, topology, plan):
    make = {"sharded": lambda _: sharded(8), "pipeline": lambda rank: pipeline(rank, 8), "two_ways": two_ways}[name]
    ranks = [make(rank) for rank in range(8)]
    packets = played(tmp_path / "a", ranks, topology=topology, plan=plan)
    again = played(tmp_path / "b", ranks, topology=topology, plan=plan)
    assert packets.ranks == again.ranks
    flows = played(tmp_path / "c", ranks, topology=topology, plan=plan, time="flow")
    assert flows.total_ps == pytest.approx(packets.total_ps, rel=0.1)
    assert packets.network.refused == {}


def test_each_group_has_its_share_of_the_slots(tmp_path):
    """Windows of links of thousands of kilometres fill a switch."""
    found = played(tmp_path, [two_ways(rank) for rank in range(8)], topology="nobel-us")
    assert found.total_ps > 20 * 1e9


def test_tensors_that_no_memory_holds(tmp_path):
    huge = [[chakra.collective(7, "all_reduce", 1 << 40)]] * 4
    with pytest.raises(
        TraceError, match=r"trace.0.et: node 7 .*: comm_size: 4 tensors of 1,100 GB do not fit .*--time flow"
    ):
        played(tmp_path / "a", huge)
    assert played(tmp_path / "b", huge, time="flow").total_ps > 8 * (1 << 40) / 100e9 * 1e12


def test_losses_cost_time_and_no_number(tmp_path):
    clean = played(tmp_path / "a", [two_ways(rank) for rank in range(8)])
    lossy = played(tmp_path / "b", [two_ways(rank) for rank in range(8)], faults={"loss": 0.01}, seed=11)
    assert lossy.total_ps > clean.total_ps
    assert sum(link.lost for link in lossy.network.links) > 0


def test_wrong_numbers_are_noticed(tmp_path, monkeypatch):
    monkeypatch.setattr(replay._Numbers, "_sum", lambda *_: np.ones(replay.PERIOD, np.float32))
    with pytest.raises(ClusterError, match=r"trace.0.et: node 1 .*rank 0 got wrong numbers"):
        played(tmp_path, [[chakra.collective(1, "all_reduce", KIB)]] * 4)


def test_what_overlaps_is_counted_as_each_moment_is():
    draw = np.random.default_rng(5)
    for _ in range(40):
        spans, computing, sending = [], np.zeros(60, bool), np.zeros(60, bool)
        for _ in range(draw.integers(1, 9)):
            begin, length, sends = int(draw.integers(0, 50)), int(draw.integers(1, 10)), bool(draw.integers(2))
            spans.append(TimeSpan(0, "all_reduce" if sends else "compute", begin, begin + length))
            (sending if sends else computing)[begin : begin + length] = True
        (found,) = rank_times(spans, 1)
        assert found.compute_ps == computing.sum()
        assert found.communication_ps == sending.sum()
        assert found.exposed_ps == (sending & ~computing).sum()
        assert found.overlapped_ps == (sending & computing).sum()


def test_the_time_line_has_a_row_for_each_group(tmp_path):
    found = played(tmp_path, [two_ways(rank) for rank in range(8)])
    events = json.loads(json.dumps(timeline(found.spans)))["traceEvents"]
    rows = {event["args"]["name"] for event in events if event["name"] == "thread_name" and event["pid"] == 3}
    assert rows == {"compute", "collectives", "collectives [2,3]", "collectives [1,3,5,7]"}
    assert any(event["name"] == "COMP_NODE 0" and event["cat"] == "compute" for event in events)


def test_groups_with_losses_have_no_common_bound_with_losses():
    groups = {"pair": (0, 1)}
    pair = TraceNode(1, "sum", (0,), 0, False, Communication("all_reduce", 64 * KIB, "pair", 0))
    first = TraceNode(0, "spread", (), 0, False, Communication("broadcast", 64 * KIB, "", 2))
    ranks = [RankTrace(f"rank {rank}", [first, pair] if rank < 2 else [first], groups) for rank in range(3)]
    lossy = Experiment(topology="star8", plan="steiner", workers=3, faults={"loss": 0.01}, seed=3)
    found = play(check(ranks, {}), lossy).network
    assert (found.prediction_differences, found.loss_bound_ps) == ([], None)
    alone = play(check([RankTrace(f"rank {rank}", [first], {}) for rank in range(3)], {}), lossy).network
    assert alone.loss_bound_ps > alone.bound_ps
