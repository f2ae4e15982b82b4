"""Under torchrun: creates, uses and destroys the process group many times in one process.

``closes.py closes|trainings ROUNDS SEED``: each round of ``closes`` does at random nothing, a sum, or groups that are
or are not destroyed first; ``trainings`` alternates DDP, FSDP2 and DTensor. Rank 0 prints a line for each finished
round.
"""

import random
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

CLOSES = ("nothing", "sum", "groups", "groups left first", "pauses")
TRAININGS = ("ddp", "fsdp2", "dtensor")


def close_in_one_way(way: str, drawn: random.Random) -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    pauses = [drawn.choice((0, 0, drawn.random() / 20)) for _ in range(size)]
    groups = [dist.new_group([*range(size)]), dist.new_group([0, size - 1])] if "groups" in way else []
    for group in [] if way == "nothing" else [None, *groups[:1]]:
        given = torch.full((300,), rank + 1.0)
        dist.all_reduce(given, group=group)
        assert (given == size * (size + 1) / 2).all(), given
    if way == "pauses":
        time.sleep(pauses[rank])
    if way == "groups left first":
        for group in groups:
            if group is not dist.GroupMember.NON_GROUP_MEMBER:
                dist.destroy_process_group(group)


def train(way: str, seed: int) -> None:
    torch.manual_seed(seed)
    rank, size = dist.get_rank(), dist.get_world_size()
    mesh = dist.init_device_mesh("cpu", (size,))
    if way == "dtensor":
        whole = torch.arange(24.0 * size).reshape(-1, 2)
        spread = distribute_tensor(whole, mesh, [Shard(0)])
        assert torch.equal((spread * 2).full_tensor(), whole * 2)
        assert torch.equal(spread.redistribute(mesh, [Replicate()]).to_local(), whole)
        return
    net = nn.Sequential(nn.Linear(8, 30), nn.ReLU(), nn.Linear(30, 2))
    model = fully_shard(net, mesh=mesh) if way == "fsdp2" else DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    given = torch.randn(4, 8, generator=torch.Generator().manual_seed(rank))
    losses = []
    for _ in range(3):
        loss = model(given).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    total = torch.stack(losses)
    dist.all_reduce(total)
    assert total[-1] < total[0], total


def main(kind: str, rounds: int, seed: int) -> None:
    for number in range(rounds):
        drawn = random.Random(f"{seed} {number}")
        dist.init_process_group("p4reduce", timeout=timedelta(seconds=300))
        rank = dist.get_rank()
        if kind == "closes":
            way = drawn.choice(CLOSES)
            close_in_one_way(way, drawn)
        else:
            way = TRAININGS[(seed + number) % len(TRAININGS)]
            train(way, seed + number)
        dist.destroy_process_group()
        if rank == 0:
            print(f"left: {way}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
