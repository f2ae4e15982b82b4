"""Train with Hugging Face Accelerate on scikit-learn's digits: `p4reduce launch -n 4 scripts/train_accelerate.py`.

`accelerate launch --cpu --num_processes 4 scripts/train_accelerate.py` starts the ranks too. The script makes the
process group before `Accelerator`, which would otherwise make one of gloo.
"""

import torch.distributed as dist
from accelerate import Accelerator
from digits import arguments, digits, network, optimizer_of, report
from torch import nn
from torch.utils.data import DataLoader

options = arguments(__doc__).parse_args()
dist.init_process_group(options.backend)
accelerator = Accelerator(cpu=True)
model = network(options.model)
model, optimizer, loader = accelerator.prepare(
    model,
    optimizer_of(model, options.momentum),
    DataLoader(digits(options.steps * accelerator.num_processes * options.batch), options.batch),
)
losses = []
for images, labels in loader:
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
    losses.append(accelerator.reduce(loss.detach(), "mean").item())
if accelerator.is_main_process:
    report(accelerator.unwrap_model(model), losses, options.save)
dist.destroy_process_group()
