"""A few steps of a training: DDP, FSDP of both kinds, or a pipeline of stages that send to each other."""

import sys

import torch
import torch.distributed as dist
from torch import nn

KIND = sys.argv[1]
WIDTH = 256

dist.init_process_group("p4reduce")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)


def layers() -> nn.Module:
    """Return five layers, wrapped as requested."""
    model: nn.Module = nn.Sequential(
        *[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(4)], nn.Linear(WIDTH, 10)
    )
    if KIND == "ddp":
        return nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.3)
    if KIND == "fsdp1":
        from torch.distributed.fsdp import FullyShardedDataParallel

        return FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (size,))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def pipeline() -> None:
    """Run two steps of three batches: all forward, then all backward."""
    stage = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
    for _ in range(2):
        done = []
        for _ in range(3):
            given = torch.randn(64, WIDTH) if rank == 0 else torch.zeros(64, WIDTH)
            if rank:
                dist.recv(given, rank - 1)
            given.requires_grad_()
            result = stage(given)
            if rank < size - 1:
                dist.send(result.detach(), rank + 1)
            done.append((given, result))
        for given, result in done:
            gradient = torch.ones_like(result)
            if rank < size - 1:
                dist.recv(gradient, rank + 1)
            result.backward(gradient)
            if rank:
                dist.send(given.grad, rank - 1)
        for parameter in stage.parameters():
            dist.all_reduce(parameter.grad)


if KIND == "pipeline":
    pipeline()
else:
    model = layers()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(64, WIDTH)).sum().backward()
        optimizer.step()
dist.destroy_process_group()
