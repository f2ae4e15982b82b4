"""Guessed exponents on packets through the P4 program: losses, changing trees, and predicted frame counts."""

from dataclasses import replace

import numpy as np
import pytest

from p4reduce.control_plane.plans import PlanRequest
from p4reduce.network.jobs.asynchronous import Clockwork, TaskChannels
from p4reduce.network.jobs.network import EmbeddedSwitches, JobNetwork, bundled
from p4reduce.network.jobs.specs import chunk_times
from p4reduce.network.virtual import Faults
from p4reduce.topologies import load
from p4reduce.workers.numbers import BlockFloat
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from p4switch.base.values import PS_PER_US
from tests.support.loopback.guessing import Floats, Oracle

SPINES = "leaf-spine:leaves=2,spines=2,hosts=2,rate=10G"
SIZES = (6000, 500, 6000, 64, 6000, 500, 64, 6000)
"""elements; some have fewer chunks than the lead"""


def inputs(rng: np.random.Generator, size: int, workers: int) -> list[Floats]:
    """Return inputs whose magnitudes differ by chunk, and some by operation."""
    scale = np.exp2(np.arange(size) // 64 % 7).astype(np.float32)
    given = [rng.standard_normal(size).astype(np.float32) * scale for _ in range(workers)]
    given[0][rng.integers(0, size, 2)] *= np.float32(2.0 ** rng.integers(4, 20))
    return given


@pytest.mark.parametrize("in_a_row", [False, True])
@pytest.mark.parametrize("faults", [Faults(), Faults(loss=0.001, duplicate=0.02), Faults(loss=0.03, reorder=0.02)])
@pytest.mark.parametrize("changes", [(), (60, 90, 130)])
def test_the_sums_of_the_oracle_whatever_happens(in_a_row: bool, faults: Faults, changes: tuple[int, ...]) -> None:
    """``changes``: microseconds after which the job changes epoch and spine."""
    rng = np.random.default_rng(3)
    with (
        EmbeddedSwitches(load(SPINES), bundled(64)) as switches,
        JobNetwork(switches, faults=faults, seed=4) as network,
    ):
        clockwork = Clockwork(network)
        request = PlanRequest("steiner", 5)
        channels = TaskChannels.install(clockwork, switches.controller, request, [None], BlockFloat(speculates=True))
        (job,) = channels.jobs
        workers, neighbour = job.plan.workers, job.plan.topology.neighbour
        given = [inputs(rng, size, len(workers)) for size in SIZES]
        got = [[np.zeros(size, np.float32) for _ in workers] for size in SIZES]
        first = job.members[workers[0]]
        heard: list[tuple[int, bool]] = []

        def post(place: int, number: int) -> None:
            if number < len(SIZES):
                one = Post(Collective.ALL_REDUCE, given[number][place], got[number][place], number)
                channels.post(workers[place], 0, one, lambda _done: None if in_a_row else post(place, number + 1))

        def change(epoch: int) -> None:
            used = {hop: job.plan.topology.link_at(*hop).rate_bps for hop in chunk_times(job.plan)}
            used = {hop: rate for hop, rate in used.items() if {"h"}.isdisjoint({hop[0][0], neighbour(*hop)[0]})}
            plan = switches.controller.start_job(replace(request, epoch=epoch, load=used))
            network.change_over(job, plan)

        begin = network.endpoints.post

        def noted(index: int, operation: Post) -> None:
            begin(index, operation)
            if index == first:
                record = network.endpoints.records[index]
                heard.append((int(record["known"]), bool(record["losing"])))

        network.endpoints.post = noted  # type: ignore[method-assign]
        for epoch, after in enumerate(changes, 1):
            clockwork.at(network.now + after * PS_PER_US, lambda epoch=epoch: change(epoch))
        for number in range(len(SIZES) if in_a_row else 1):
            for place in range(len(workers)):
                post(place, number)
        clockwork.run()
        assert job.plan.epoch == len(changes)
        oracle, repeats = Oracle(64, job.guessed), 0
        for sources, outputs, told in zip(given, got, heard, strict=True):
            total, again = oracle.expect(sources, *told)
            repeats += again
            assert all(output.tobytes() == total.tobytes() for output in outputs)
        network.advance()
        assert job.repeated == repeats
        assert repeats > 0 or in_a_row or faults.loss > 0.01
        assert any(known for known, _ in heard) == in_a_row
        assert any(lossy for _, lossy in heard) or faults.loss < 0.01
        if not changes and faults == Faults():
            for size in SIZES:
                job.note("all_reduce", size)
            predicted = job.predicted()
            assert all(link.inc_first_bytes == predicted[hop].bytes for hop, link in network.fabric.links.items())
            assert all(network.status(index).asks == 0 for index in job.endpoints)
