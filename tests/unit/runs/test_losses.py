"""Tolerated differences from the prediction if frames are lost uncounted."""

from dataclasses import replace

import pytest

from p4reduce.control_plane.counters import Traffic
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import move_tensors
from p4reduce.runs.summary import CarriedCounts, result_of
from p4reduce.runs.virtual.cluster import Cluster

SWITCH, PORT = "s1", 1
"""port to the first host, on which the switch sends results first"""


@pytest.fixture(scope="module")
def observed():
    experiment = Experiment(topology="star:hosts=2", plan="steiner", lanes=64, elements=1000)
    with Cluster(experiment) as cluster:
        move_tensors(cluster, None)
        carrier = cluster.carrier
        counters = carrier.switches.controller.read_counters()
        yield CarriedCounts(carrier.topology, carrier.jobs, dict(carrier.network.fabric.links), {}, counters)


def without_one(observed, *, again):
    """Return the result as if a switch's first RESULT had been lost in its queue, with or without a resend."""
    link, own = observed.links[SWITCH, PORT], observed.counters[SWITCH]
    size = link.inc_first_bytes // link.inc_first_frames
    lacking = replace(
        link,
        inc_first_frames=link.inc_first_frames - 1,
        inc_first_bytes=link.inc_first_bytes - size,
        frames=link.frames - 1 + again,
        bytes=link.bytes - size + again * size,
    )
    sent = {**own.link_sent, (PORT, 0): own.link_sent[PORT, 0] - Traffic(1, size)}
    return replace(
        observed,
        links={**observed.links, (SWITCH, PORT): lacking},
        counters={**observed.counters, SWITCH: replace(own, link_sent=sent)},
    )


def differences(observed):
    return result_of(observed, [], "").prediction_differences


@pytest.mark.parametrize(
    ("unseen_losses", "uncounted_queues", "again", "good"),
    [
        (True, True, 1, True),
        (True, True, 0, False),
        (True, False, 1, False),
        (False, True, 1, False),
    ],
)
def test_a_result_lost_in_a_queue_must_have_been_sent_again(observed, unseen_losses, uncounted_queues, again, good):
    assert differences(observed) == []
    lacking = without_one(observed, again=again)
    found = differences(replace(lacking, unseen_losses=unseen_losses, uncounted_queues=uncounted_queues))
    assert (found == []) == good


def test_more_than_predicted_is_never_right(observed):
    link = observed.links[SWITCH, PORT]
    more = replace(link, inc_first_frames=link.inc_first_frames + 1, frames=link.frames + 1)
    links = {**observed.links, (SWITCH, PORT): more}
    assert differences(replace(observed, links=links, unseen_losses=True, uncounted_queues=True)) != []
