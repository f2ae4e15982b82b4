"""DDP over gloo, with gradients through the switches by a communication hook: ``hooks.py plain|int8|topk``."""

import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import p4reduce.torch

dist.init_process_group("gloo")
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(50, 20))
state, hook = {
    "plain": (None, p4reduce.torch.hook),
    "int8": (p4reduce.torch.Int8(), p4reduce.torch.int8_hook),
    "topk": (p4reduce.torch.TopK(0.05), p4reduce.torch.topk_hook),
}[sys.argv[1]]
model.register_comm_hook(state, hook)
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
draw = torch.Generator().manual_seed(dist.get_rank())
wanted = torch.randn(20, 50, generator=torch.Generator().manual_seed(9))
losses = []
for _ in range(60):
    given = torch.randn(64, 50, generator=draw)
    loss = (model(given) - given @ wanted.T).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
same = [one.detach().clone() for one in model.parameters()]
for one in same:
    dist.broadcast(one, 0)
assert all(torch.equal(a, b) for a, b in zip(same, model.parameters(), strict=True)), "ranks have different models"
print(f"from {losses[0]:.3f} to {losses[-1]:.3f}: {'learned' if losses[-1] < 0.3 * losses[0] else 'did not learn'}")
