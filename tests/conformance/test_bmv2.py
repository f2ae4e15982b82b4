"""The same experiment on real BMv2 and in virtual time: same bytes, same first transmissions."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conformance.bmv2.switches import find_bmv2

from p4reduce.cluster.experiment import Experiment
from p4reduce.cluster.runner import run_experiment

ROOT = Path(__file__).parents[2]
TWO_LEVELS = "leaf-spine:leaves=2,spines=1,hosts=2"
FAULTS = {"loss": 0.02, "duplicate": 0.02, "reorder": 0.05}
NO_FAULTS = {"loss": 0.0, "duplicate": 0.0, "reorder": 0.0}


def missing() -> str | None:
    """Why these tests cannot run here."""
    if find_bmv2() is None:
        return "simple_switch_grpc is neither on PATH nor in $SIMPLE_SWITCH_GRPC (docs/usage.md: p4reduce doctor)"
    if os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("ip") is None:
        return "network namespaces need root, unshare and ip"
    return None


pytestmark = [pytest.mark.bmv2, pytest.mark.skipif(missing() is not None, reason=missing() or "")]


def lab(**options: object) -> dict:
    """Run the lab in a network namespace that goes away with it."""
    defaults = {"elements": 3000, "window": 8, "seed": 5, "rounds": 2, **NO_FAULTS}
    done = subprocess.run(
        [
            *("unshare", "--net", "--fork", "--kill-child", sys.executable, "-m", "tests.conformance.bmv2.lab"),
            json.dumps({**defaults, **options}),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("faults", [NO_FAULTS, FAULTS], ids=["clean", "faulty"])
@pytest.mark.parametrize("lanes", [64, 256])
@pytest.mark.parametrize("topology", ["star:hosts=3", TWO_LEVELS], ids=["one-level", "two-levels"])
def test_sums_on_bmv2_equal_those_in_virtual_time(topology, lanes, faults):
    real = lab(topology=topology, plan="steiner", lanes=lanes, **faults)
    virtual = run_experiment(
        Experiment(topology=topology, plan="steiner", lanes=lanes, elements=3000, repeat=2, seed=5)
    )
    assert real["result_sha256"] == virtual.network.result_sha256
    # Every hop of this tree is one link, so first transmissions are exact under faults too.
    assert real["first"] == real["predicted"]
    assert all(frames == real["predicted"][port] for port, frames in real["link_sent"].items())
    if faults is FAULTS:
        assert real["lost"] > 0
        assert real["resends"] > 0


@pytest.mark.parametrize("plan", ["ring", "ps"])
def test_the_same_switches_forward_the_baselines(plan):
    topology = f"{TWO_LEVELS},servers=1"
    real = lab(topology=topology, plan=plan, lanes=64)
    virtual = run_experiment(Experiment(topology=topology, plan=plan, lanes=64, elements=3000, repeat=2, seed=5))
    assert real["result_sha256"] == virtual.network.result_sha256
