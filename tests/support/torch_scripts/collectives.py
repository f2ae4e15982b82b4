"""Every collective that crosses the switches, and some that do not, compared with the expected results."""

import os
import sys

import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional

dist.init_process_group("p4reduce")
rank, size = dist.get_rank(), dist.get_world_size()
total = size * (size - 1) // 2


def check(found: torch.Tensor, wanted: object, what: str) -> None:
    if not torch.equal(found, torch.as_tensor(wanted).to(found.dtype).expand_as(found)):
        sys.exit(f"rank {rank}: {what}: {found.flatten()[:8].tolist()}, not {wanted}")


for kind in (torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.int64, torch.float64, torch.uint8):
    given = torch.full((5, 60), rank, dtype=kind)
    dist.all_reduce(given)
    check(given, total, f"all_reduce {kind}")
    given = torch.full((3,), rank + 7, dtype=kind)
    dist.broadcast(given, size - 1)
    check(given, size + 6, f"broadcast {kind}")
    every = [torch.zeros(2, dtype=kind) for _ in range(size)]
    dist.all_gather(every, torch.full((2,), rank, dtype=kind))
    check(torch.stack(every)[:, 0], range(size), f"all_gather {kind}")
    block = torch.zeros(3, dtype=kind)
    dist.reduce_scatter(block, [torch.full((3,), r + 1, dtype=kind) for r in range(size)])
    check(block, size * (rank + 1), f"reduce_scatter {kind}")
    given = torch.full((300,), rank, dtype=kind)
    dist.reduce(given, size - 1)
    if rank == size - 1 or kind in (torch.float32, torch.bfloat16, torch.float16, torch.int32):  # gloo may use the rest
        check(given, total if rank == size - 1 else rank, f"reduce {kind}")
scattered = torch.arange(600).reshape(20, 30).float()[:, ::2]  # not contiguous
dist.all_reduce(scattered)
check(scattered, size * torch.arange(600).reshape(20, 30)[:, ::2], "all_reduce of a view")
for op, wanted in ((dist.ReduceOp.AVG, total / size), (dist.ReduceOp.MIN, 0), (dist.ReduceOp.MAX, size - 1)):
    given = torch.full((4,), float(rank))
    dist.all_reduce(given, op=op)
    check(given, wanted, str(op))
given = torch.arange(12).reshape(3, 4).float()[:, 1].fill_(rank)  # not contiguous
dist.reduce(given, 0, op=dist.ReduceOp.AVG)
check(given, rank or total / size, "reduce of a view")
given = torch.full((4,), float(rank))
dist.reduce(given, 0, op=dist.ReduceOp.MAX)
if rank == 0:
    check(given, size - 1, "reduce MAX")
given = torch.full((4,), float(rank + 1))
dist.all_reduce(given, op=dist.ReduceOp.PRODUCT)
check(given, float(torch.arange(1, size + 1).prod()), "PRODUCT")
for kind in (torch.float32, torch.bfloat16, torch.float64):
    rows = torch.tensor([[rank, 40, rank]])  # a repeated row: not coalesced
    given = torch.sparse_coo_tensor(rows, torch.ones(3, 8, dtype=kind), (60, 8))
    dist.all_reduce(given)
    wanted = torch.zeros(60, 8)
    wanted[:size] = 2
    wanted[40] = size
    check(given.to_dense(), wanted, f"all_reduce of a sparse tensor, {kind}")
    if not given.is_sparse or given.coalesce().indices().tolist() != [[*range(size), 40]]:
        sys.exit(f"rank {rank}: a sparse sum has the rows {given.coalesce().indices().tolist()}")
several = [torch.full((1000 * (k + 1),), float(rank + k)) for k in range(4)]
works = [dist.all_reduce(one, async_op=True) for one in several]
futures = [work.get_future() for work in works]
for work in reversed(works):
    work.wait()
for k, one in enumerate(several):
    check(one, total + size * k, "several in flight")
    check(futures[k].value()[0], total + size * k, "their futures")
together = [torch.full((3,), float(rank)), torch.full((700,), 2.0)]
with dist.distributed_c10d._coalescing_manager():
    for one in together:
        dist.all_reduce(one)
check(together[0], total, "coalesced")
check(together[1], 2 * size, "coalesced")
block = torch.zeros(2)
dist.distributed_c10d._get_default_group()._reduce_scatter_base(block, torch.ones(2 * size)).wait()
check(block, size, "_reduce_scatter_base")
row = dist.new_group(list(range(0, size, 2)))
again = dist.new_group(list(range(0, size, 2)))
other = dist.new_group([size - 1, 0])
if rank % 2 == 0:
    for group in (row, again):
        given = torch.ones(300)
        dist.all_reduce(given, group=group)
        check(given, dist.get_world_size(row), "a group")
if rank in (0, size - 1):
    given = torch.full((4,), float(rank))
    dist.broadcast(given, size - 1, group=other)
    check(given, size - 1, "broadcast in a group")
    dist.barrier(group=other)
broken = torch.ones(1000)
if rank == 1:
    broken[300] = float("nan")
    broken[900] = float("inf")
dist.all_reduce(broken)
# If switches add, whole chunks become NaN; if hosts add (ring, ps), IEEE arithmetic applies to each element.
at_switches = bool(broken[301].isnan())
chunks = (broken[256:512], broken[768:]) if at_switches else (broken[300:301], broken[900:901])
lost = int((broken != size).sum())
if (
    not (chunks[0].isnan().all() and (chunks[1].isnan() | chunks[1].isinf()).all())
    or lost != sum(map(len, chunks))
    or (os.environ.get("P4REDUCE_SET_PLAN") in ("ring", "ps")) == at_switches
):
    sys.exit(f"rank {rank}: NaN and infinity did not come through: {lost} are not {size}")
objects: list[object] = [None] * size
dist.all_gather_object(objects, {"rank": rank})
if objects != [{"rank": r} for r in range(size)]:
    sys.exit(f"rank {rank}: objects: {objects}")
check(functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD).clone(), size, "functional all_reduce")
every = functional.all_gather_tensor(torch.full((2,), float(rank)), 0, dist.group.WORLD).clone()
check(every[::2], range(size), "functional all_gather")
block = functional.reduce_scatter_tensor(torch.arange(2.0 * size), "sum", 0, dist.group.WORLD).clone()
check(block, [size * 2.0 * rank, size * (2.0 * rank + 1)], "functional reduce_scatter")
check(functional.broadcast(torch.full((2,), float(rank)), 1, dist.group.WORLD).clone(), 1, "functional broadcast")
if size == 4:
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("rows", "columns"))
    given = torch.full((9,), float(rank))
    dist.all_reduce(given, group=mesh["rows"].get_group())
    check(given, 2 * (rank % 2) + 2, "a dimension of a mesh")
if rank == 0:
    dist.send(torch.ones(2), 1)
if rank == 1:
    dist.recv(torch.zeros(2), 0)
empty = torch.zeros(0)
dist.all_reduce(empty)
try:
    dist.all_reduce(torch.full((3,), 2**30 + 2**30 - 1, dtype=torch.int32))
except RuntimeError as error:
    if "beyond int32" not in str(error):
        raise
else:
    sys.exit(f"rank {rank}: a sum beyond int32 was no error")
print(f"rank {rank}: all as they must be")
