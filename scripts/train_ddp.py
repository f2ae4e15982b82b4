"""PyTorch's DistributedDataParallel on scikit-learn's digits: a small convolutional network, or a linear one.

Nothing here knows the network below: `p4reduce launch -n 8 scripts/train_ddp.py` sums gradients in P4 switches,
`torchrun --nproc-per-node 4 scripts/train_ddp.py --backend gloo` does without.
"""

import argparse

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="p4reduce", help="p4reduce, or gloo")
parser.add_argument("--model", default="cnn", choices=("cnn", "linear"))
parser.add_argument("--steps", type=int, default=50)
parser.add_argument("--batch", type=int, default=16, help="images of each rank in a step")
parser.add_argument("--save", help="file for the loss of every step and the parameters at the end, of rank 0")
options = parser.parse_args()

dist.init_process_group(options.backend)
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
if options.model == "cnn":
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(512, 10),
    )
else:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
ddp = DistributedDataParallel(model)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32)[:, None] / 16
labels = torch.tensor(digits.target)
order = torch.randperm(len(images), generator=torch.Generator().manual_seed(1))
losses = []
for step in range(options.steps):
    first = (step * size + rank) * options.batch
    mine = order[torch.arange(first, first + options.batch) % len(order)]
    loss = nn.functional.cross_entropy(ddp(images[mine]), labels[mine])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = loss.detach()
    dist.all_reduce(mean)
    losses.append(mean.item() / size)
    if rank == 0 and (step + 1) % 10 == 0:
        print(f"step {step + 1}: loss {losses[-1]:.4f}")
if rank == 0:
    with torch.no_grad():
        print(f"accuracy {(model(images).argmax(1) == labels).float().mean():.4f}")
    if options.save:
        torch.save({"losses": losses, "parameters": [one.detach() for one in model.parameters()]}, options.save)
dist.destroy_process_group()
