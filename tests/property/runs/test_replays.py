"""Random trainings on random networks: exact numbers, predicted bytes, possible times."""

import random

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.replay import play
from p4reduce.runs.workload import Communication, RankTrace, TraceNode, check
from tests.support.effort import examples

KINDS = (
    "all_reduce",
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "broadcast",
    "reduce",
    "all_to_all",
    "barrier",
    "send",
)
TOPOLOGIES = (
    "star8",
    "leaf-spine-8",
    "two-generations",
    "leaf-spine:leaves=3,spines=2,hosts=3,servers=1,oversubscription=2",
)


def training(draw):
    """Draw ranks whose collectives have one order, with random computation and dependencies."""
    size = draw.randint(2, 7)
    groups = {"": tuple(range(size))}
    for number in range(draw.randint(0, 3)):
        groups[f"g{number}"] = tuple(draw.sample(range(size), draw.randint(1, size)))
    nodes = [[] for _ in range(size)]

    def add(rank, duration_ps=0, wanted=None):
        own = nodes[rank]
        after = tuple({draw.randrange(len(own)) for _ in range(draw.randint(0, 2))}) if own else ()
        own.append(TraceNode(len(own), f"n{len(own)}", after, duration_ps, draw.random() < 0.2, wanted))

    for _ in range(draw.randint(1, 14)):
        for rank in range(size):
            if draw.random() < 0.7:
                add(rank, draw.randint(0, 30) * 1_000_000)
        kind, group = draw.choice(KINDS), draw.choice(list(groups))
        octets = draw.choice((1, 5, 1024, draw.randint(1, 200_000)))
        if kind == "send":
            a, b = draw.sample(range(size), 2)
            add(a, wanted=Communication("send", octets, peer=b, tag=draw.randint(0, 1)))
            add(b, wanted=Communication("recv", octets, peer=a, tag=nodes[a][-1].communication.tag))
            continue
        root = draw.choice(groups[group])
        for rank in groups[group]:
            add(rank, wanted=Communication(kind, 0 if kind == "barrier" else octets, group, root))
    named = {name: ranks for name, ranks in groups.items() if name}
    return [RankTrace(f"rank {rank}", own, named) for rank, own in enumerate(nodes) if own or rank < size]


@pytest.mark.parametrize("seed", range(examples(2, 300)))
def test_random_trainings(seed):
    draw = random.Random(seed)
    workload = check(training(draw), {})
    if not workload.nodes:
        return
    settings = Experiment(
        topology=draw.choice(TOPOLOGIES),
        plan=draw.choice(("steiner", "steiner", "ring", "ps", "mst", "packing", "best")),
        workers=len(workload.ranks),
        rate=draw.choice((None, "10G", "100G")),
        lanes=draw.choice((64, 256)),
        faults={"loss": draw.choice((0, 0, 0.01))},
        seed=seed,
    )
    found = play(workload, settings)
    if found.network is not None:
        assert found.network.prediction_differences == []
        assert len(found.network.collectives) == sum(
            len(one.nodes) > 1 or len(workload.ranks) == 1 for one in workload.meetings
        )
        assert all(one.done_ps - one.start_ps >= one.bound_ps for one in found.network.collectives)
    for rank, times in zip(workload.ranks, found.ranks, strict=True):
        longest = max(sum(node.duration_ps for node in rank.nodes if node.on_host == host) for host in (False, True))
        assert longest <= times.end_ps <= found.total_ps
        assert times.exposed_ps + times.overlapped_ps == times.communication_ps
    try:
        flow = play(workload, settings.model_copy(update={"time": "flow", "faults": type(settings.faults)()}))
    except PlanError:
        return  # the model refuses unsupported cases
    assert flow.nodes == found.nodes
