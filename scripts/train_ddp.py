"""Train with PyTorch's DistributedDataParallel on scikit-learn's digits: a convolutional network, or a linear one.

`p4reduce launch -n 8 scripts/train_ddp.py` sums gradients in P4 switches. `torchrun --nproc-per-node 4
scripts/train_ddp.py --backend gloo` sums them on the hosts.
"""

import torch.distributed as dist
from digits import arguments, digits, network, optimizer_of, report
from torch import nn
from torch.nn.parallel import DistributedDataParallel

options = arguments(__doc__).parse_args()
dist.init_process_group(options.backend)
rank, size = dist.get_rank(), dist.get_world_size()
model = network(options.model)
ddp = DistributedDataParallel(model)
optimizer = optimizer_of(ddp, options.momentum)

data = digits(options.steps * size * options.batch)
losses = []
for step in range(options.steps):
    first = (step * size + rank) * options.batch
    images, labels = data[first : first + options.batch]
    loss = nn.functional.cross_entropy(ddp(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = loss.detach()
    dist.all_reduce(mean)
    losses.append(mean.item() / size)
    if rank == 0 and (step + 1) % 10 == 0:
        print(f"step {step + 1}: loss {losses[-1]:.4f}")
if rank == 0:
    report(model, losses, options.save)
dist.destroy_process_group()
