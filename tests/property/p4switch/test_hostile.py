"""Several thousand hostile frames and requests; ``make soak-hostile`` has a million."""

from collections import Counter

import pytest

from tests.support.hostile import frames, requests


@pytest.mark.parametrize("lanes", [64, 256])
def test_forged_and_damaged_frames_do_what_the_model_says(lanes):
    total = sum(frames.play(1500, seed=lanes, lanes=lanes), Counter())
    assert total["frames"] == 1500
    assert total["frames: taken or forwarded"] < 1000
    assert len([what for what in total if what.startswith("frames: ")]) > 8


def test_hostile_batches_are_done_refused_or_undone():
    total = sum(requests.play(400, seed=1), Counter())
    assert total["requests"] == 400
    kinds = {what.split()[1] for what in total if what.startswith("requests: ")}
    assert kinds == {"CONTINUE_ON_ERROR", "ROLLBACK_ON_ERROR", "DATAPLANE_ATOMIC"}
