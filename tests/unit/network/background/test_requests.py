"""Requests and answers: latencies computed by hand, queues at servers, losses."""

import numpy as np
import pytest

from p4reduce.control_plane.entries import SwitchSettings
from p4reduce.network.background import Requests
from p4reduce.network.jobs.network import EmbeddedSwitches, JobNetwork, bundled
from p4reduce.network.virtual import FabricError, Faults
from p4reduce.topologies import leaf_spine

US = 1_000_000
TOPOLOGY = leaf_spine(2, 1, 4, rate="25G")
FRAME_PS = 1110 * 8 * 40
DELAY_PS = TOPOLOGY.link_between("h1", "leaf1").delay_ps


def run(requests, **options):
    settings = SwitchSettings(dscp_classes={46: 7})
    with (
        EmbeddedSwitches(TOPOLOGY, bundled(64), settings=settings) as switches,
        JobNetwork(switches, background=requests, **options) as network,
    ):
        network.advance()
        return network.endpoints, network.fabric.links


def least_ps(links, frames, service_ps=0):
    """Return the least latency: a frame to the server, link by link, and the answer's frames back to back."""
    return 2 * links * (FRAME_PS + DELAY_PS) + (frames - 1) * FRAME_PS + service_ps


@pytest.mark.parametrize(("server", "links"), [("h2", 2), ("h5", 4)])
def test_a_request_by_itself_takes_its_frames_and_links(server, links):
    parties, counted = run(Requests(("h1",), (server,), 100.0, 3, service_s=2e-6))
    assert (parties.ended_ps - parties.asked_ps).tolist() == [[least_ps(links, 16, 2 * US)] * 3]
    assert parties.finished
    hop = ("h1", 1)
    assert (counted[hop].frames, counted[hop].bytes) == (3, 3 * 1086)


def test_answers_wait_for_those_before_them():
    """A thousand requests at once: a server's link sends one frame after the other."""
    parties, _ = run(Requests(("h1", "h2"), ("h5",), 1e12, 50, frames=4))
    taken = np.sort((parties.ended_ps - parties.asked_ps).reshape(-1))
    assert parties.finished
    assert taken[-1] - taken[0] == pytest.approx(99 * 4 * FRAME_PS, rel=0.02)


def test_the_same_seed_gives_the_same_and_a_lost_frame_is_no_answer():
    requests = Requests(("h1", "h2"), ("h5", "h6"), 50_000.0, 40, dscp=46, priority=7, seed=5)
    first, second = run(requests)[0], run(requests)[0]
    assert first.ended_ps.tolist() == second.ended_ps.tolist()
    lossy, _ = run(requests, faults=Faults(loss=0.02), seed=1)
    assert not lossy.finished
    assert 0 < (lossy.ended_ps == 0).sum() < 80


@pytest.mark.parametrize(
    "wrong",
    [
        {"clients": ()},
        {"servers": ("h1",)},
        {"clients": ("h1", "h1")},
        {"rate_hz": 0.0},
        {"rate_hz": float("nan")},
        {"rate_hz": float("inf")},
        {"count": 10**30},
        {"count": 0},
        {"frames": 0},
        {"service_s": -1.0},
        {"frame_bytes": 59},
        {"dscp": 64},
        {"priority": 8},
    ],
)
def test_what_cannot_be_is_named(wrong):
    with pytest.raises(FabricError, match="requests: "):
        Requests(**{"clients": ("h1",), "servers": ("h2",), "rate_hz": 1.0, "count": 1, **wrong})
