"""A deadline in real time: the straggler waits until the others have their result, so that it cannot be in it."""

import os

import pytest

from p4reduce.fabric.real.bmv2 import find_bmv2
from p4reduce.fabric.real.net import why_not
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.real.run import run_script
from p4reduce.runs.real.scripts import script_argv

LATE = """
import sys
import numpy as np
from p4reduce import connect
gate, elements = sys.argv[1], int(sys.argv[2])
comm = connect()
array = np.full(elements, comm.rank + 1, np.float32)
comm.barrier()
if comm.rank == 1:
    open(gate).read()  # until the others have their result
comm.all_reduce(array)
if comm.rank == 0:
    open(gate, "w").close()
    print("without rank 1", np.unique(comm.counts).tolist(), np.unique(array).tolist(), flush=True)
total, more = array.copy(), 0
while (total != 10).any() and more < 50:  # what was late is in a later one; on a busy machine that may be late itself
    total += comm.all_reduce(np.zeros(elements, np.float32))
    more += 1
print("in the end", np.unique(total).tolist(), "after some" if more else "at once", flush=True)
"""
BMV2 = pytest.param(
    "bmv2",
    "veth",
    marks=[
        pytest.mark.bmv2,
        pytest.mark.skipif(find_bmv2() is None, reason="needs simple_switch_grpc"),
        pytest.mark.skipif(why_not() is not None, reason="needs network namespaces"),
    ],
)  # fmt: skip


@pytest.mark.parametrize(("target", "links"), [("embedded", "udp"), BMV2])
@pytest.mark.parametrize("topology", ["star:hosts=4", "leaf-spine:leaves=2,spines=1,hosts=2"])
def test_nobody_waits_for_who_waits_for_their_result(tmp_path, target, links, topology):
    """40 chunks of 256 lanes and as many exponents, all of which the straggler is to be left out of."""
    os.mkfifo(tmp_path / "gate")
    (tmp_path / "late.py").write_text(LATE)
    given = {"time": "real", "target": target, "links": links, "lanes": 256, "deadline": "200ms"}
    lines = []
    done = run_script(
        Experiment(topology=topology, **given),
        script_argv([str(tmp_path / "late.py"), str(tmp_path / "gate"), "10000"]),
        emit=lambda *line: lines.append(line),
        timeout_s=240,
    )
    assert done.result is not None, lines
    said = sorted(text for _, stream, text in lines if stream == "stdout")
    assert said == ["in the end [10.0] after some"] * 4 + ["without rank 1 [3] [8.0]"]
    first = done.result.network.closed[0]
    assert first["late"]["1"] == first["chunks"] == 40
