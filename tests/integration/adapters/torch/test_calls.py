"""Calls that gloo carries are reported: a table at the end, a warning for calls in a loop, a line for each kind."""

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


FROM_CPP = """
import torch, torch.distributed as dist
dist.init_process_group("p4reduce")
group, rank = dist.group.WORLD, dist.get_rank()
ops, name = torch.ops._c10d_functional, group.group_name
for kind in (torch.float32, torch.float64):
    one = torch.arange(4, dtype=kind) + 4 * rank
    out = ops.wait_tensor(ops.all_gather_into_tensor_out(one, 2, name, out=torch.empty(8, dtype=kind)))
    assert out.tolist() == list(range(8)), out
    out = ops.wait_tensor(ops.reduce_scatter_tensor_out(one, "sum", 2, name, out=torch.empty(2, dtype=kind)))
    assert out.tolist() == [4 + 4 * rank, 6 + 4 * rank], out
    _, work = torch.ops.c10d._allgather_base_(out := torch.empty(8, dtype=kind), one, group.boxed(), False, -1)
    dist.Work.unbox(work).wait()
    assert out.tolist() == list(range(8)), out
lists = [[torch.empty(4), torch.empty(2)] for _ in range(2)]
dist.all_gather_coalesced(lists, [torch.full((4,), 1.0 + rank), torch.full((2,), 3.0 + rank)])
assert [[part[0].item() for part in one] for one in lists] == [[1.0, 3.0], [2.0, 4.0]]
beside = dist.new_group(backend="gloo")
dist.all_gather_into_tensor(out := torch.empty(8), torch.arange(4.0) + 4 * rank, group=beside)
assert out.tolist() == list(range(8)), out
told = [row for row in group.communicator.tally.rows() if row.by == "gloo"]
assert sum(row.calls for row in told) == group._gloo._get_sequence_number_for_group() == 4, told
print("all right")
dist.destroy_process_group()
"""


def test_calls_that_come_from_cpp_are_carried_and_counted(tmp_path):
    """Includes calls from C++ that no Python group can override; other groups keep their back end."""
    script = tmp_path / "script.py"
    script.write_text(FROM_CPP)
    said = launched(tmp_path, 2, str(script))
    assert said.count("all right") == 2
    cells = [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in said.splitlines()]
    assert ["all_gather", "float32", "network", "4", "64"] in cells
    assert ["reduce_scatter", "float32", "network", "2", "32"] in cells
    assert ["all_gather", "float64", "gloo", "4", "128"] in cells
