"""Nothing goes by gloo in silence: a table at the end, a warning for what is in a loop, a line for each kind."""

import pytest

from tests.support.torch_scripts.starting import LONG, WHY_LONG, WHY_NOT, launched, torchrun

pytest.importorskip("torch", reason=WHY_NOT)
pytestmark = [pytest.mark.torch, pytest.mark.skipif(not LONG, reason=WHY_LONG)]
SCRIPT = """
import sys, torch, torch.distributed as dist, warnings
shown = []
warnings.showwarning = lambda message, *_, **__: shown.append(str(message))
dist.init_process_group("p4reduce")
rank = dist.get_rank()
for step in range(4):
    dist.all_reduce(torch.ones(10, dtype=torch.bfloat16))
    dist.all_reduce(torch.ones(10, dtype=torch.float64))
    dist.all_reduce(torch.ones(10), op=dist.ReduceOp.MAX)
    (dist.recv if rank else dist.send)(torch.ones(10), 1 - rank)
    out = None if rank else [torch.ones(10) for _ in range(2)]
    dist.gather(torch.ones(10), out, 0)
    dist.scatter(torch.ones(10), out, 0)
    dist.reduce(torch.ones(10), 0)
    dist.reduce(torch.ones(10, dtype=torch.float64), 0)
    dist.broadcast(torch.ones(10, dtype=torch.int32), 0)
    if step < 2:
        dist.broadcast(torch.ones(10, dtype=torch.int64), 0)
before = len(shown)
padded = torch.ones(300)
dist.all_reduce(padded)
assert len(shown) == before
for _ in range(2):
    padded[-1] = 1e20  # as memory that nothing has written may hold
    padded[:-1] = 1
    dist.all_reduce(padded)
assert [text[:40] for text in shown[before:]] == ["p4reduce: most numbers of a block are le"], shown
if rank == 0:
    print("warned", sorted(text.split(" goes ")[0] for text in shown if " goes by gloo" in text))
dist.destroy_process_group()
"""
TABLE = [
    ["all_reduce", "bfloat16", "network", "8", "160"],
    ["all_reduce", "float64", "gloo", "8", "640"],
    ["all_reduce MAX", "float32", "gloo", "8", "320"],
    ["broadcast", "int32", "network", "8", "320"],
    ["broadcast", "int64", "gloo", "4", "320"],
    ["gather", "float32", "gloo", "8", "320"],
    ["receive", "float32", "gloo", "4", "160"],
    ["reduce", "float32", "network", "8", "320"],
    ["reduce", "float64", "gloo", "8", "640"],
    ["scatter", "float32", "gloo", "8", "320"],
    ["send", "float32", "gloo", "4", "160"],
]
WARNED = ["all_reduce MAX of float32", "all_reduce of float64", "gather of float32", "reduce of float64",
          "scatter of float32", "send of float32"]  # fmt: skip


@pytest.mark.parametrize("start", [torchrun, launched])
def test_calls_are_counted_by_what_carried_them(tmp_path, start):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    said = start(tmp_path, 2, str(script), P4REDUCE_DEBUG="INFO", COLUMNS="120")
    cells = [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in said.splitlines()]
    assert [row for row in TABLE if row not in cells] == []
    assert "warned " + str([f"p4reduce: {one}" for one in WARNED]) in said
    assert said.count("INFO all_reduce MAX of float32: by gloo, since switches add, and nothing else") == 2
    assert said.count(" came in by a Unix socket") >= 2
