"""A member that uses slots before its turn is named and excluded within 2 s of virtual time; the others go on."""

import random
from dataclasses import replace

import numpy as np
import pytest

from p4reduce.group.errors import ClusterError, ExcludedError, GroupChanged
from p4reduce.runs.experiment import Experiment, FaultOptions
from p4reduce.runs.virtual import survival
from p4reduce.runs.virtual.cluster import Cluster
from tests.integration.runs.test_forged_frames import packet
from tests.support.effort import examples, first_of
from tests.support.golden.frames import Kind, encode

ELEMENTS = 64 * 300


def speak(cluster, host, kind, seqs, after_ps=0):
    """Send packets with the member's own address and token, about chunks whose turn has not come."""
    plan = cluster.carrier.main.plan
    target = next(parent for child, parent in plan.edges if child == host)
    for seq in seqs:
        frame = replace(packet(plan, host, host, target, kind, seq), token=plan.token(host, target))
        cluster.carrier.network.fabric.send(host, encode(frame), cluster.carrier.network.now + after_ps)


def carry(cluster, operations=3):
    """Return what each rank got from all-reduces of ones until told to stop, and when the first was done."""
    got, ended, first = {}, {}, {}

    def script(comm):
        start = comm.members[comm.rank]
        try:
            for _ in range(operations):
                array = np.ones(ELEMENTS, np.float32)
                try:
                    comm.all_reduce(array)
                except GroupChanged:
                    array[:] = 1
                    comm.all_reduce(array)
                first.setdefault(start, comm.now)
                got.setdefault(start, []).append(float(array[0]))
        except (ExcludedError, ClusterError) as error:
            ended[start] = str(error)

    cluster.run_threads(script)
    return got, ended, first


def experiment(topology, on_failure):
    return Experiment(topology=topology, lanes=64, on_failure=on_failure)


@pytest.mark.parametrize("on_failure", ["shrink", "raise"])
@pytest.mark.parametrize(
    ("topology", "host"),
    first_of([("star:hosts=4", "h1"), ("leaf-spine:leaves=2,spines=1,hosts=2", "h3")]),
)
@pytest.mark.parametrize(
    ("kind", "seqs"),
    [(Kind.PULL, range(282)), (Kind.PULL, [250]), (Kind.PULL, range(0, 300, 7))],
    ids=["282 early PULLs", "one", "some"],
)
def test_who_speaks_out_of_turn_is_excluded_and_the_others_go_on(topology, host, kind, seqs, on_failure):
    with Cluster(experiment(topology, on_failure)) as cluster:
        liar = cluster.workers.index(host)
        speak(cluster, host, kind, seqs)
        got, ended, first = carry(cluster)
        size = len(cluster.workers)
    assert "no member any more" in ended.pop(liar)
    assert ended == {}
    assert got == {rank: [size - 1.0] * 3 for rank in range(size) if rank != liar}
    assert max(first.values()) < 2


@pytest.mark.parametrize("seed", range(examples(3, 200)))
def test_looking_all_the_time_excludes_nobody_who_keeps_to_the_protocol(seed, monkeypatch):
    """Loss, reordering, duplication and tiny windows exclude no conforming member."""
    monkeypatch.setattr(survival, "LONG_PS", 50_000_000)
    rng = random.Random(seed)
    given = experiment(rng.choice(["star:hosts=4", "leaf-spine:leaves=2,spines=2,hosts=2"]), "shrink").model_copy(
        update={
            "faults": FaultOptions(loss=rng.choice([0, 0.05, 0.2]), reorder=rng.choice([0, 0.1]), duplicate=0.1),
            "window": rng.choice([None, 1, 4]),
            "seed": seed,
        }
    )
    with Cluster(given) as cluster:
        got, ended, _ = carry(cluster, operations=2)
    assert (got, ended) == ({rank: [4.0] * 2 for rank in range(4)}, {})


def test_two_members_that_speak_out_of_turn():
    with Cluster(experiment("star:hosts=6", "shrink")) as cluster:
        speak(cluster, "h2", Kind.PULL, range(50))
        speak(cluster, "h6", Kind.PULL, range(100, 200))
        got, ended, first = carry(cluster)
    (found,) = ended  # the last to take a slot; slots taken by the other are useless in the next epoch
    assert found in {1, 5}
    assert got == {rank: [5.0] * 3 for rank in range(6) if rank != found}
    assert max(first.values()) < 2


def test_with_abort_the_group_ends_and_the_error_names_it():
    with Cluster(experiment("star:hosts=4", "abort")) as cluster:
        speak(cluster, "h3", Kind.PULL, range(282))
        with pytest.raises(ClusterError, match=r"worker 2 \(h3\) spoke out of turn"):
            cluster.run_threads(lambda comm: comm.all_reduce(np.ones(ELEMENTS, np.float32)))
