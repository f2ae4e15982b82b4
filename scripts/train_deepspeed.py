"""Train with DeepSpeed on scikit-learn's digits: `p4reduce launch -n 4 scripts/train_deepspeed.py --zero 3`.

ZeRO shards the optimizer's state (1), also gradients (2), also parameters (3). At its first start DeepSpeed compiles an
extension, which needs a C++ compiler and takes a minute.
"""

import deepspeed
import torch.distributed as dist
from digits import arguments, digits, network, optimizer_of, report
from torch import nn

parser = arguments(__doc__)
parser.add_argument("--zero", type=int, default=2, choices=(0, 1, 2, 3), help="stage (default: %(default)s)")
parser.add_argument("--local_rank", type=int, help="set by the program deepspeed")
options = parser.parse_args()
deepspeed.init_distributed(options.backend, auto_mpi_discovery=False)
rank, size = dist.get_rank(), dist.get_world_size()
model = network(options.model)
engine, *_ = deepspeed.initialize(
    model=model,
    optimizer=optimizer_of(model, options.momentum),
    config={
        "train_micro_batch_size_per_gpu": options.batch,
        # Stage 3 pads scattered blocks with uninitialized memory, which spoils sums that share an exponent.
        "zero_optimization": {"stage": options.zero, "reduce_scatter": options.zero < 3},
        "zero_allow_untested_optimizer": True,
    },
)
data = digits(options.steps * size * options.batch)
losses = []
for step in range(options.steps):
    first = (step * size + rank) * options.batch
    images, labels = data[first : first + options.batch]
    loss = nn.functional.cross_entropy(engine(images), labels)
    engine.backward(loss)
    engine.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    losses.append(mean.item() / size)
with deepspeed.zero.GatheredParameters(list(model.parameters()), enabled=options.zero == 3):
    if rank == 0:
        report(model, losses, options.save)
engine.destroy()
dist.destroy_process_group()
