"""A deadline in real time: others get their result before a straggler contributes; its part comes in the next sum."""

import json
import os
import sys

import pytest

from p4reduce.network.real.bmv2 import find_bmv2
from p4reduce.network.real.net import why_not
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.real.run import run_script

RANKS, SLOW, ATTEMPTS = 4, 2, 50
SCRIPT = """
import json, os, sys
import numpy as np
from p4reduce import connect

told, elements, slow, attempts = os.open(sys.argv[1], os.O_RDWR), *map(int, sys.argv[2:])
comm = connect()
comm.barrier()
given = np.arange(elements, dtype=np.float32) % 7 + 10**comm.rank
if comm.rank == slow:
    others = comm.size - 1
    while others:  # it computes for as long as all others need for their results
        others -= len(os.read(told, others))
array = given.copy()
comm.all_reduce(array, name="gradient")
first, counts = array.copy(), comm.counts
if comm.rank != slow:
    os.write(told, b".")
later, total = 0, first.copy()
while later < attempts and total[0] < 1111:  # all see the same sums
    array = np.zeros(elements, np.float32)
    comm.all_reduce(array, name="gradient")
    total += array
    later += 1
print(json.dumps([first.tolist(), counts.tolist(), total.tolist()]))
"""


STAR, TREE = f"star:hosts={RANKS}", f"leaf-spine:leaves=2,spines=1,hosts={RANKS // 2}"
# On a busy machine only the straggler may be late: three attempts suffice for others to go ahead, not four.
BMV2 = {"target": "bmv2", "deadline": "2s"}
ON_BMV2 = [
    pytest.mark.bmv2,
    pytest.mark.skipif(find_bmv2() is None, reason="needs simple_switch_grpc"),
    pytest.mark.skipif(why_not() is not None, reason="needs network namespaces"),
]


@pytest.mark.parametrize(
    ("elements", "more"),
    [
        pytest.param(100, {}, id="udp"),
        pytest.param(100, {"faults": {"loss": 0.02}}, marks=pytest.mark.soak, id="udp, losses"),
        # 40 chunks and their exponents: more than a window.
        pytest.param(10_000, {"topology": STAR, **BMV2}, marks=ON_BMV2, id="BMv2"),
        pytest.param(10_000, {"topology": TREE, **BMV2}, marks=ON_BMV2, id="BMv2, a tree"),
    ],
)
def test_a_straggler_is_left_out_and_its_contribution_is_in_a_later_sum(tmp_path, elements, more):
    script, fifo = tmp_path / "script.py", tmp_path / "told"
    script.write_text(SCRIPT)
    os.mkfifo(fifo)
    on_bmv2, lanes = "target" in more, 256 if "target" in more else 64
    given = {"topology": STAR, "time": "real", "links": "veth" if on_bmv2 else "udp", "lanes": lanes, "workers": RANKS}
    lines = {}
    done = run_script(
        Experiment(**{**given, "deadline": "100ms", "quorum": RANKS - 1, **more}),
        [sys.executable, str(script), str(fifo), str(elements), str(SLOW), str(ATTEMPTS)],
        emit=lambda rank, stream, line: lines.setdefault(rank, []).append(line),
        timeout_s=200,
    )
    assert done.result is not None, lines
    every = [json.loads(lines[rank][-1]) for rank in range(RANKS)]
    assert all(one == every[0] for one in every)  # equal bytes and counts, at the straggler, too
    first, counts, total = every[0]
    assert first == [3 * (place % 7) + 1 + 10 + 1000 for place in range(elements)]
    assert set(counts) == {RANKS - 1}
    assert total == [4 * (place % 7) + 1111 for place in range(elements)]
    closed = next(one for one in done.result.network.closed if one.iteration == 1)
    assert closed.late[SLOW] == closed.chunks == -(-elements // lanes)
    assert closed.least == RANKS - 1
