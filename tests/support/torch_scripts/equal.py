"""The same steps with DDP and FSDP variants over a given back end; rank 0 saves the parameters.

``equal.py BACKEND CASE FILE``
"""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

backend, case, file = sys.argv[1:]
if case == "hook":
    dist.init_process_group("gloo")
else:
    dist.init_process_group(backend)
rank, size = dist.get_rank(), dist.get_world_size()
STEPS = 50
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.spare = nn.Linear(20, 300), nn.Linear(300, 10), nn.Linear(20, 300)
        self.norm = nn.BatchNorm1d(300)

    def forward(self, given: torch.Tensor, step: int) -> torch.Tensor:
        hidden = self.spare(given) if case == "unused" and step % 2 else self.first(given)
        return self.second(torch.relu(self.norm(hidden)))


net = Net()
model: nn.Module
options = {"unused": {"find_unused_parameters": True}, "static": {"static_graph": True}}
options |= {"views": {"gradient_as_bucket_view": True}, "small": {"bucket_cap_mb": 0.01}}
if case == "fsdp1":
    model = FullyShardedDataParallel(net, device_id=torch.device("cpu"))
elif case == "fsdp2":
    mesh = dist.init_device_mesh("cpu", (size,))
    fully_shard(net.first, mesh=mesh)
    model = fully_shard(net, mesh=mesh)
else:
    if case not in ("unused",):
        net.spare = nn.Linear(1, 1).requires_grad_(False)
    model = DistributedDataParallel(net, **options.get(case, {}))
    if case == "hook" and backend == "p4reduce":
        import p4reduce.torch

        model.register_comm_hook(None, p4reduce.torch.hook)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
draw = torch.Generator().manual_seed(rank + 1)
if case in ("fsdp1", "fsdp2"):
    STEPS = 10
for step in range(STEPS):
    given = torch.randn(8, 20, generator=draw)
    loss = (model(given, step) - given[:, :10]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if case == "fsdp2":
    parameters = [one.full_tensor().detach() for one in model.parameters()]
    spread = distribute_tensor(torch.arange(12.0).reshape(6, 2), mesh, [Shard(0)])
    assert torch.equal((spread * 2).full_tensor(), torch.arange(0.0, 24, 2).reshape(6, 2))
    assert isinstance(spread, DTensor)
elif case == "fsdp1":
    with FullyShardedDataParallel.summon_full_params(model):
        parameters = [one.detach().clone() for one in model.parameters()]
else:
    parameters = [one.detach() for one in model.parameters()]
if rank == 0:
    torch.save(parameters, file)
dist.barrier()
dist.destroy_process_group()
