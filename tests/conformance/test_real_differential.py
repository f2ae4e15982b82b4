"""The same 10,000 frames into BMv2 and into the embedded switch over veth: both send the same bytes."""

import json
import subprocess
import sys

import pytest

from p4reduce.network.real.bmv2 import find_bmv2
from p4reduce.network.real.net import enter_command, why_not
from tests.support.paths import ROOT

DEADLINE_S = 540


def missing() -> str | None:
    """Return why these tests cannot run here."""
    if find_bmv2() is None:
        return "simple_switch_grpc is neither on PATH nor in $SIMPLE_SWITCH_GRPC"
    return why_not()


pytestmark = [pytest.mark.bmv2, pytest.mark.skipif(missing() is not None, reason=missing() or "")]


@pytest.mark.parametrize("lanes", [64, 256])
def test_the_same_frames_leave_bmv2_and_the_embedded_switch(lanes):
    options = json.dumps({"frames": 10_000, "lanes": lanes, "seed": 3 + lanes})
    done = subprocess.run(
        enter_command([sys.executable, "-m", "tests.support.real_io.differential", options]),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["different"] == {}
    assert seen["same_counters"]
    assert seen["results"] > 1000
    assert min(seen["left"].values()) > 500
