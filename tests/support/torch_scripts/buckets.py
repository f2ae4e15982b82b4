"""Two DDP steps with default buckets and a model of 25 M parameters; the backward pass takes SECONDS."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("p4reduce")
model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(24)))
if float(sys.argv[1]) > 0:
    import p4reduce.torch

    p4reduce.torch.time_backward(model, float(sys.argv[1]))
ddp = DistributedDataParallel(model)
for _ in range(2):
    ddp(torch.ones(2, 1024)).sum().backward()
assert sum(one.numel() for one in model.parameters()) > 25e6
dist.destroy_process_group()
