"""Work objects of collectives have the whole interface of gloo's works, even if only C++ still holds them."""

import pytest

from tests.support.torch_scripts.starting import LONG, WHY_LONG, WHY_NOT, by_gloo, launched

torch = pytest.importorskip("torch", reason=WHY_NOT)
pytestmark = [pytest.mark.torch, pytest.mark.skipif(not LONG, reason=WHY_LONG)]
EVERY = """
import gc, sys, time, warnings, torch, torch.distributed as dist
from datetime import timedelta
warnings.simplefilter("ignore")
dist.init_process_group("p4reduce")
rank, group = dist.get_rank(), dist.group.WORLD
def of(kind=torch.float32): return torch.arange(4).to(kind) + 4 * rank
def two(kind=torch.float32): return [torch.zeros(4, dtype=kind) for _ in range(2)]
def unboxed(call, *rest): return dist.Work.unbox(call(*rest)[1])
ops, double = torch.ops.c10d, torch.float64
calls = {
    "sum": lambda: dist.all_reduce(of(), async_op=True),
    "nothing but a group of one": lambda: alone.allreduce([of()]),
    "sum by gloo": lambda: dist.all_reduce(of(double), async_op=True),
    "gather": lambda: dist.all_gather(two(), of(), async_op=True),
    "several": lambda: group.allgather_into_tensor_coalesced([torch.zeros(8)] * 2, [of(), of()]),
    "several by gloo": lambda: group.allgather_into_tensor_coalesced([torch.zeros(8, dtype=double)], [of(double)]),
    "several scattered": lambda: group.reduce_scatter_tensor_coalesced([torch.zeros(2)] * 2, [of(), of()]),
    "blocks": lambda: dist.all_to_all_single(of(), of(), async_op=True),
    "blocks by gloo": lambda: dist.all_to_all_single(of(double), of(double), async_op=True),
    "barrier": lambda: dist.barrier(async_op=True),
    "copy": lambda: dist.broadcast(of(), 0, async_op=True),
    "list by gloo": lambda: dist.gather(of(), two() if rank == 0 else None, async_op=True),
    "gather of C++": lambda: unboxed(ops._allgather_base_, torch.zeros(8), of(), group.boxed(), False, -1),
    "copy of C++": lambda: unboxed(ops.broadcast_, [of(double)], group.boxed(), 0, 0, False, -1),
}
alone = [dist.new_group([0]), dist.new_group([1])][rank]
for name, call in calls.items():
    work = call()
    future = work.get_future()
    assert isinstance(future, torch.Future), name
    value = future.wait()  # nobody waits for the work itself
    assert isinstance(value, list), (name, value)
    until = time.monotonic() + 20
    if "C++" not in name:
        while not work.is_completed():
            assert time.monotonic() < until, name
    assert work.wait() and work.wait(timedelta(seconds=20)), name
    assert work.is_completed() and work.is_success() and work.exception() is None, name
    work.synchronize()
    if "C++" not in name:
        work.block_current_stream()
        assert [one.shape for one in work.result()] == [one.shape for one in value], name
    assert isinstance(dist.Work.unbox(work.boxed()), dist.Work), name
    for held in (call().boxed(), dist.Work.unbox(call().boxed()).boxed()):
        gc.collect()  # C++ alone has them
        again = dist.Work.unbox(held)
        assert again.wait(), name
        assert isinstance(again.get_future().wait(), list), name
for source in (0, None):
    work = dist.isend(of(), 1) if rank == 0 else dist.irecv(got := torch.zeros(4), source)
    boxed = work.boxed()
    assert work.wait() and work.is_completed() and work.is_success() and work.exception() is None
    if rank == 1:
        assert work.source_rank() == work._source_rank() == 0 and got.tolist() == [0, 1, 2, 3]
print("all right")
dist.destroy_process_group()
"""


def test_every_work_answers(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(EVERY)
    assert launched(tmp_path, 2, str(script)).count("all right") == 2


BAD = """
import torch, torch.distributed as dist
dist.init_process_group("p4reduce")
rank = dist.get_rank()
bad = dist.all_reduce(torch.full((4,), float("nan")) if rank else torch.ones(4), async_op=True)
for ask in (bad.wait, lambda: bad.get_future().wait(), bad.result, bad.synchronize):
    try:
        ask()
        raise SystemExit("no error")
    except (RuntimeError, ValueError) as error:
        assert "rank 1" in str(error), error
assert bad.is_completed() and not bad.is_success() and "rank 1" in str(bad.exception())
print("all right")
"""


def test_a_work_that_failed_says_so_each_time(tmp_path):
    """The command ends with the same error."""
    script = tmp_path / "script.py"
    script.write_text(BAD)
    with pytest.raises(AssertionError, match=r"all right.*(.|\n)*all right.*(.|\n)*error: all_reduce"):
        launched(tmp_path, 2, str(script), P4REDUCE_NOT_FINITE="error")


JOIN = """
import sys, torch, torch.distributed as dist
dist.init_process_group(sys.argv[1])
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(40, 20))
steps = torch.optim.SGD(model.parameters(), lr=0.1)
with model.join(divide_by_initial_world_size=False):
    for step in range(3 + 2 * rank):
        torch.manual_seed(10 * step + rank)
        steps.zero_grad()
        model(torch.randn(8, 40)).square().sum().backward(retain_graph=True)
        steps.step()
torch.save([one.detach() for one in model.parameters()], f"{sys.argv[2]}.{rank}")
dist.destroy_process_group()
"""


def test_a_join_divides_by_the_ranks_that_are_there(tmp_path):
    """DDP gives C++ the work that counts the ranks, and drops its own reference."""
    script = tmp_path / "script.py"
    script.write_text(JOIN)
    launched(tmp_path, 3, str(script), "p4reduce", str(tmp_path / "ours"))
    by_gloo(tmp_path, 3, str(script), "gloo", str(tmp_path / "theirs"))
    for rank in range(3):
        ours, theirs = (torch.load(f"{tmp_path}/{name}.{rank}") for name in ("ours", "theirs"))
        torch.testing.assert_close(ours, theirs, rtol=2e-4, atol=2e-6)
