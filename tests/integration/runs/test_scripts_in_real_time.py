"""A user's script at each host of a run in real time, on datagrams over loopback."""

import sys

import pytest

from p4reduce.group.errors import ClusterError
from p4reduce.runs.experiment import Experiment, ExperimentError
from p4reduce.runs.real.run import run_script
from p4reduce.runs.real.session import script_argv

COLLECTIVES = """
import numpy as np
from p4reduce import connect
comm = connect()
array = np.full(5000, comm.rank + 1, np.float32)
assert (comm.all_reduce(array) == 3).all()
words = np.arange(300, dtype=np.int32)
assert (comm.all_reduce(words) == 2 * np.arange(300)).all()
assert (comm.broadcast(np.full(7, comm.rank), 1) == 1).all()
every = comm.all_gather(np.full(3, comm.rank, np.uint8), np.empty((2, 3), np.uint8))
assert every[:, 0].tolist() == [0, 1]
assert (comm.all_reduce(np.ones(10, np.float32), start=comm.now).wait() == 2).all()
comm.barrier()
comm.record("loss", 1.5)
print("fine")
"""
WIRED = Experiment(topology="star:hosts=2", rate="1G", time="real", links="udp", lanes=64)


def run(tmp_path, text, experiment=WIRED):
    script = tmp_path / "script.py"
    script.write_text(text)
    lines = []
    done = run_script(experiment, script_argv([str(script)]), emit=lambda *line: lines.append(line), timeout_s=120)
    return done, lines


@pytest.mark.parametrize("plan", ["steiner", "ring"])
def test_collectives_cross_sockets_as_predicted(tmp_path, plan):
    done, lines = run(tmp_path, COLLECTIVES, WIRED.model_copy(update={"plan": plan}))
    assert sorted(lines) == [(0, "stdout", "fine"), (1, "stdout", "fine")]
    assert done.result is not None
    network = done.result.network
    assert network.prediction_differences == []
    names = [one.operation for one in network.collectives]
    assert names == ["all_reduce", "all_reduce", "broadcast", "all_gather", "all_reduce", "barrier"]
    assert done.result.training.points[0].value == 1.5


def test_a_script_that_fails_ends_the_run(tmp_path):
    done, lines = run(
        tmp_path, "import os, time\nif os.environ['RANK'] == '1':\n    raise SystemExit(7)\ntime.sleep(60)\n"
    )
    assert (done.result, done.failed, done.code) == (None, 1, 7)
    assert lines == []


def test_what_cannot_be_is_said(tmp_path):
    with pytest.raises(ClusterError, match="rank 0 ended well, but did not join the group"):
        run(tmp_path, "pass\n")
    with pytest.raises(ExperimentError, match="plan: ps"):
        run(tmp_path, "pass\n", WIRED.model_copy(update={"plan": "ps", "topology": "star:hosts=2,servers=1"}))
    assert script_argv(["x.py", "1"]) == [sys.executable, "x.py", "1"]
    assert script_argv(["x", "1"]) == ["x", "1"]
