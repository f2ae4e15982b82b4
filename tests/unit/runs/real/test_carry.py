"""A real-time run's evaluation of its counts."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from p4reduce.runs.real.carry import _unseen_losses
from p4reduce.runs.real.targets import NO_TRAFFIC
from p4reduce.topologies import load


@pytest.mark.parametrize(
    ("came", "again", "unseen"),
    [(9, 1, True), (10, 1, False), (9, 0, False)],
    ids=["lost and sent again", "all came", "lost, but nobody sent again"],
)
def test_a_loss_that_nobody_counted_shows_by_what_endpoints_sent_again(came, again, unseen):
    """Records of a script do not list resends per collective."""
    cluster = SimpleNamespace(
        topology=load("star:hosts=2"),
        target=SimpleNamespace(received=lambda counters: {}),
        moved=SimpleNamespace(records=[SimpleNamespace(resends=0)]),
    )
    counts = SimpleNamespace(
        endpoints={"1": SimpleNamespace(resends=again)}, port=SimpleNamespace(first_frames=came, resend_frames=0)
    )
    links = {("s1", 1): replace(NO_TRAFFIC, frames=10)}
    assert _unseen_losses(cluster, {"h1": counts}, {}, links) is unseen
