"""Several (job, epoch) pairs of one task on packets: layers by urgency, a tensor over several spines."""

from dataclasses import replace

import numpy as np
import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.network.jobs.asynchronous import Clockwork, TaskChannels
from p4reduce.network.jobs.network import EmbeddedSwitches, JobNetwork, bundled
from p4reduce.play.priorities.models import LayerDescription, run_layers
from p4reduce.topologies import load
from p4reduce.workers.numbers import FixedScale
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective

SPINES = "leaf-spine:leaves=2,spines=2,hosts=2,rate=20G,uplink=10G"
FRAME_PS = 1110 * 8 * 100
"""time of a full frame with its overhead at 10 Gb/s"""


@pytest.mark.parametrize("model", ["vgg16", "resnet50"])
def test_urgent_layers_first(model):
    """Communication takes as long as computation: four channels hide nearly all of it."""
    about = LayerDescription("star:hosts=2,rate=10G", model, 0, scale=512, iterations=5)
    about = replace(about, compute_ps=sum(-(-size // 256) for size in about.elements) * FRAME_PS)
    one, four = (run_layers(replace(about, channels=channels)) for channels in (1, 4))
    assert four.iteration_ps <= 0.85 * one.iteration_ps
    assert (one.resend_share, four.resend_share) == (0, 0)


def shared(trees: int, elements: int) -> tuple[int, list[str]]:
    """Return the time of an all-reduce over a number of trees, and their roots."""
    with EmbeddedSwitches(load(SPINES), bundled(256)) as switches, JobNetwork(switches) as network:
        clockwork = Clockwork(network)
        channels = TaskChannels.install(
            clockwork, switches.controller, PlanRequest("steiner", 5), [None] * trees, FixedScale(1.0), apart=True
        )
        workers = channels.jobs[0].plan.workers
        arrays = [np.full(elements, rank + 1, np.float32) for rank in range(len(workers))]
        ended: list[int] = []
        for place, job in enumerate(channels.jobs):
            part = replace(job.plan, part=(place, 1, trees)).part_of(elements)
            for worker, array in zip(workers, arrays, strict=True) if part.start < part.stop else ():
                post = Post(Collective.ALL_REDUCE, array[part], array[part])
                channels.post(worker, place, post, ended.append)
            if part.start < part.stop:
                job.note("all_reduce", part.stop - part.start)
        clockwork.run()
        assert channels.idle
        assert all(np.array_equal(array, np.full(elements, 10, np.float32)) for array in arrays)
        roots = [job.plan.root for job in channels.jobs]
        spines = {name for job in channels.jobs for name in job.plan.by_switch if name.startswith("spine")}
        for hop, link in network.fabric.links.items():
            predicted = sum(job.predicted()[hop].bytes for job in channels.jobs if hop in job.predicted())
            assert link.inc_first_bytes == predicted
        channels.uninstall(switches.controller)
        assert switches.controller.installed == ()
        return max(ended), sorted(spines) or roots


def test_a_tensor_over_two_spines_takes_half_the_time():
    one, spine = shared(1, 100_000)
    two, spines = shared(2, 100_000)
    assert len(spine) == 1
    assert spines == ["spine1", "spine2"]
    assert two < 0.6 * one


@pytest.mark.parametrize("elements", [1, 257])
def test_a_tensor_of_fewer_chunks_than_channels(elements):
    shared(3, elements)


def test_after_an_error_no_channel_is_left():
    with EmbeddedSwitches(load(SPINES), bundled(64)) as switches, JobNetwork(switches) as network:
        with pytest.raises(PlanError):
            TaskChannels.install(Clockwork(network), switches.controller, PlanRequest("steiner", 65535), [1, 2])
        assert switches.controller.installed == ()
