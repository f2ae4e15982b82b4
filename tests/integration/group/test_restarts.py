"""``p4reduce launch --max-restarts``: a training resumed from a checkpoint equals an uninterrupted one."""

import re

import pytest

from tests.support.launched import launch

SCRIPT = """
import hashlib, os, signal, sys
import numpy as np
from p4reduce import Checkpoint, connect
die, checkpoint = int(sys.argv[1]), Checkpoint(sys.argv[2])
comm = connect()
state = checkpoint.load()
weights, velocity, begin = np.zeros(3000, np.float32), np.zeros(3000, np.float32), 0
noise = np.random.default_rng(5)
if state is not None:
    weights, velocity, begin, noise = state.arrays["w"], state.arrays["v"], state.iteration, state.generator
print("begins at", begin)
for iteration in range(begin, 9):
    if iteration == die and comm.rank == 1 and os.environ["P4REDUCE_RESTART"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    gradient = (weights + noise.standard_normal(3000) * (comm.rank + 1)).astype(np.float32)
    comm.all_reduce(gradient)
    velocity = np.float32(0.9) * velocity + gradient
    weights -= np.float32(0.01) * velocity
    if comm.rank == 0 and iteration % 2:
        checkpoint.save(iteration + 1, {"w": weights, "v": velocity}, noise)
print("ended with", hashlib.sha256(weights.tobytes()).hexdigest())
comm.close()
"""


def trained(tmp_path, die, *flags, restarts=1):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    state = tmp_path / f"state-{die}"
    own = ["-n", 3, "--topology", "star:hosts=3", "--max-restarts", restarts, *flags, script]
    done = launch(*own, die, state)
    return done, re.findall(r"\] begins at (\d+)", done.stdout), set(re.findall(r"ended with (\w{64})", done.stdout))


@pytest.mark.parametrize(
    "flags", [(), pytest.param(("--time", "real", "--links", "udp"), marks=pytest.mark.soak)], ids=["virtual", "real"]
)
def test_weights_equal_those_of_a_training_that_nothing_ended(tmp_path, flags):
    whole, begins, weights = trained(tmp_path, -1, *flags)
    assert whole.returncode == 0, whole.stderr
    assert begins == ["0"] * 3
    done, begins, again = trained(tmp_path, 7, *flags)
    assert done.returncode == 0, done.stderr
    assert begins == ["0"] * 3 + ["6"] * 3
    assert "restart 1 of 1" in done.stderr
    assert len(weights) == 1
    assert again == weights


def test_without_restarts_left_the_exit_code_is_the_ranks(tmp_path):
    done, _, _ = trained(tmp_path, 3, restarts=0)
    assert done.returncode == 128 + 9
    assert "restart" not in done.stderr
