"""Reduce-scatter and all-gather whose blocks travel to or from their owners in separate trees."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from p4reduce.control_plane.plans.routes import frame_time_ps
from p4reduce.group.communicator import Communicator
from p4reduce.runs.experiment import Experiment, FaultOptions
from p4reduce.runs.jobs import FIRST_OWNER_JOB, RunJobs
from p4reduce.runs.virtual.cluster import Cluster

STAR = "star:hosts=8,rate=10G"
SPINES = "leaf-spine:leaves=2,spines=1,hosts=4,rate=10G"
FRAME_PS = frame_time_ps(62 + 4 * 256, 10 * 10**9)


@dataclass(frozen=True)
class Outcome:
    """Result of one collective."""

    arrays: list[np.ndarray]
    took_ps: int
    by_owner: bool
    """whether blocks had separate trees"""
    jobs: int
    """jobs installed at the end"""


def carried(what: str, elements: int, topology: str = STAR, *, poison: bool = False, **settings: Any) -> Outcome:
    """Run one collective of ``elements`` numbers over all ranks; check the predicted bytes of links."""
    experiment = Experiment(topology=topology, lanes=256, **{"plan": "steiner", **settings})

    def script(comm: Communicator) -> np.ndarray:
        rng = np.random.default_rng(comm.rank)
        if what == "all_gather":
            own = rng.integers(0, 2**32, elements // comm.size, dtype=np.uint32)  # any bits
            return comm.all_gather(own, np.empty((comm.size, own.size), np.uint32))
        given = (rng.standard_normal(elements) * np.exp(rng.uniform(-4, 4, elements))).astype(np.float32)
        if poison and comm.rank == 1:
            given[7], given[elements // 2] = np.nan, np.inf
        return comm.reduce_scatter(given, not_finite="nan" if poison else "error").copy()

    with Cluster(experiment) as cluster:
        arrays = cluster.run_threads(script)
        cluster.carrier.drain()
        predicted: Counter[Any] = Counter()
        for job in cluster.carrier.jobs:
            predicted.update({hop: traffic.bytes for hop, traffic in job.predicted().items()})
        if not experiment.faults.loss:
            for hop, link in cluster.carrier.network.fabric.links.items():
                assert link.inc_first_bytes == predicted[hop]
        took = cluster.carrier.records[-1].communication_ps
        numbers = [job.plan.job for job in cluster.carrier.jobs if job.carried]
        by_owner = numbers != [] and min(numbers) >= FIRST_OWNER_JOB
        return Outcome(arrays, took, by_owner, len(cluster.carrier.network.jobs))


def as_one(monkeypatch: pytest.MonkeyPatch, *args: Any, **settings: Any) -> Outcome:
    """Run the same collective as an all-reduce."""
    with monkeypatch.context() as patch:
        patch.setattr(RunJobs, "_blocks", lambda self, chosen, elements, workers: [])
        return carried(*args, **settings)


@pytest.mark.parametrize("settings", [{}, {"numbers": "fixed", "scale": 1000.0}])
@pytest.mark.parametrize("topology", [STAR, SPINES])
def test_a_reduce_scatter_takes_what_others_blocks_take(topology, settings):
    found = carried("reduce_scatter", 262_144, topology, **settings)
    assert found.by_owner
    assert found.took_ps <= 1.034 * 7 * 128 * FRAME_PS


@pytest.mark.parametrize("topology", [STAR, SPINES])
def test_an_all_gather_takes_what_others_blocks_take(topology):
    found = carried("all_gather", 262_144, topology)
    assert found.by_owner
    assert found.took_ps <= 1.03 * 7 * 128 * FRAME_PS


@pytest.mark.parametrize("elements", [65_536, 8 * 9001])  # chunks shared by two blocks are summed as in the all-reduce
@pytest.mark.parametrize("settings", [{}, {"numbers": "fixed", "scale": 1000.0}, {"faults": FaultOptions(loss=0.01)}])
def test_the_sums_have_the_bytes_of_an_all_reduce(monkeypatch, elements, settings):
    found = carried("reduce_scatter", elements, **settings)
    whole = as_one(monkeypatch, "reduce_scatter", elements, **settings)
    assert (found.by_owner, whole.by_owner) == (True, False)
    for own, same in zip(found.arrays, whole.arrays, strict=True):
        assert own.tobytes() == same.tobytes()


def test_what_is_not_finite_is_nan_in_its_chunk(monkeypatch):
    found = carried("reduce_scatter", 65_536, poison=True)
    assert found.by_owner
    assert sum(int(np.isnan(own).sum()) for own in found.arrays) == 2 * 256
    for own, same in zip(found.arrays, as_one(monkeypatch, "reduce_scatter", 65_536, poison=True).arrays, strict=True):
        assert np.array_equal(own, same, equal_nan=True)


def test_a_gather_is_exact_where_frames_are_lost():
    found = carried("all_gather", 40_008, faults=FaultOptions(loss=0.01))
    assert found.by_owner
    for rank in range(8):
        own = np.random.default_rng(rank).integers(0, 2**32, 5001, dtype=np.uint32)
        assert all(np.array_equal(every[rank], own) for every in found.arrays)


@pytest.mark.parametrize(
    ("elements", "settings"),
    [
        (8, {}),  # more frames
        (2048, {}),  # fewer frames, but a longer path
        (65_536, {"plan": "ring"}),
        (65_536, {"topology": "star:hosts=8,rate=10G,servers=1", "plan": "ps"}),
        (65_536, {"on_failure": "shrink"}),
        (65_536, {"deadline": "1ms"}),
    ],
)
def test_elsewhere_it_is_an_all_reduce(elements, settings):
    assert not carried("reduce_scatter", elements, **settings).by_owner


def test_groups_integers_and_halves():
    """A group's blocks have trees, too; sums of int32 are all-reduces."""

    def script(comm: Communicator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        odd = comm.group([1, 3, 5]) if comm.rank in {1, 3, 5} else None
        mine = np.full(3 * 2048, comm.rank, np.float32)
        part = mine[:0] if odd is None else odd.reduce_scatter(mine).copy()
        words = comm.reduce_scatter(np.full(8 * 2048, 2**24 + comm.rank, np.int32)).copy()
        return part, words, comm.reduce_scatter(np.full(8 * 2048, comm.rank / 4, np.float16)).copy()

    with Cluster(Experiment(topology=STAR, plan="steiner", lanes=256)) as cluster:
        for rank, (part, words, halves) in enumerate(cluster.run_threads(script)):
            assert np.array_equal(part, np.full(2048 if rank in {1, 3, 5} else 0, 9, np.float32))
            assert np.array_equal(words, np.full(2048, 8 * 2**24 + 28, np.int32))
            assert np.array_equal(halves, np.full(2048, 7, np.float16))


def test_where_switches_have_no_room_for_so_many_jobs(monkeypatch):
    """The jobs that found room are removed again, and the sum becomes an all-reduce."""
    monkeypatch.setattr("p4reduce.runs.jobs.slots_of_each", lambda trees, slots: slots)
    found = carried("reduce_scatter", 65_536, window=512)
    assert not found.by_owner
    assert found.jobs == 1
