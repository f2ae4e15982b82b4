"""Announced exponents on packets through the P4 program: with losses, and with trees that change meanwhile."""

from dataclasses import replace

import numpy as np
import pytest

from p4reduce.control_plane.plans import PlanRequest
from p4reduce.network.jobs.asynchronous import Clockwork, TaskChannels
from p4reduce.network.jobs.network import EmbeddedSwitches, JobNetwork, bundled
from p4reduce.network.jobs.specs import chunk_times, expect_sum
from p4reduce.network.virtual import Faults
from p4reduce.topologies import load
from p4reduce.workers.numbers import BlockFloat
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective
from p4switch.base.values import PS_PER_US

SPINES = "leaf-spine:leaves=2,spines=2,hosts=2,rate=10G"
SIZES = (6000, 9000, 300, 7000, 64, 8000)
"""elements of operations that are called at once; some have fewer chunks than the lead"""


@pytest.mark.parametrize("faults", [Faults(), Faults(loss=0.03, duplicate=0.02, reorder=0.02)])
@pytest.mark.parametrize("changes", [(), (20, 45, 60)])
def test_the_same_sums_whatever_happens(faults: Faults, changes: tuple[int, ...]) -> None:
    """``changes``: microseconds after which the job changes epoch and spine."""
    rng = np.random.default_rng(3)
    with (
        EmbeddedSwitches(load(SPINES), bundled(64)) as switches,
        JobNetwork(switches, faults=faults, seed=4) as network,
    ):
        clockwork = Clockwork(network)
        request = PlanRequest("steiner", 5)
        channels = TaskChannels.install(clockwork, switches.controller, request, [None])
        (job,) = channels.jobs
        neighbour = job.plan.topology.neighbour
        workers = job.plan.workers
        given = [[rng.standard_normal(size).astype(np.float32) for _ in workers] for size in SIZES]
        got = [[np.zeros(size, np.float32) for _ in workers] for size in SIZES]
        for number in range(len(SIZES)):
            for place, worker in enumerate(workers):
                post = Post(Collective.ALL_REDUCE, given[number][place], got[number][place], number)
                channels.post(worker, 0, post, lambda _done: None)

        def change(epoch: int) -> None:
            used = {hop: job.plan.topology.link_at(*hop).rate_bps for hop in chunk_times(job.plan)}
            used = {hop: rate for hop, rate in used.items() if {"h"}.isdisjoint({hop[0][0], neighbour(*hop)[0]})}
            plan = switches.controller.start_job(replace(request, epoch=epoch, load=used))
            assert plan.root != job.plan.root, "another spine is free"
            network.change_over(job, plan)

        for epoch, after in enumerate(changes, 1):
            clockwork.at(network.now + after * PS_PER_US, lambda epoch=epoch: change(epoch))
        clockwork.run()
        assert job.plan.epoch == len(changes)
        assert job.spared > 0
        for inputs, outputs in zip(given, got, strict=True):
            assert all(output.tobytes() == outputs[0].tobytes() for output in outputs)
            assert expect_sum(inputs, BlockFloat(), 64).deviation(outputs[0]).worst_ratio <= 1
        if not changes and faults == Faults():
            for size in SIZES:
                job.note("all_reduce", size)
            network.advance()
            predicted = job.predicted()
            assert all(link.inc_first_bytes == predicted[hop].bytes for hop, link in network.fabric.links.items())
            assert all(network.status(index).asks == 0 for index in job.endpoints)
