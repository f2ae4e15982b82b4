"""Train with Ray Train on scikit-learn's digits: `python scripts/train_ray.py --ranks 4`. Each rank is an actor of Ray.

Rank 0 starts the network, which gets the variables `P4REDUCE_SET_PLAN=ring`, `P4REDUCE_OUT` and so on.
"""

import os
from pathlib import Path
from typing import Any

import ray
import ray.train
import torch.distributed as dist
from digits import arguments, digits, network, optimizer_of, report
from ray.train.torch import TorchConfig, TorchTrainer, prepare_data_loader, prepare_model
from torch import nn
from torch.utils.data import DataLoader


def train(options: dict[str, Any]) -> None:
    """Train on one rank."""
    size = dist.get_world_size()
    model = prepare_model(network(options["model"]))
    optimizer = optimizer_of(model, options["momentum"])
    losses = []
    for images, labels in prepare_data_loader(
        DataLoader(digits(options["steps"] * size * options["batch"]), options["batch"])
    ):
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach()
        dist.all_reduce(mean)
        losses.append(mean.item() / size)
    if dist.get_rank() == 0:
        report(model.module, losses, options["save"])
    ray.train.report({"loss": losses[-1]})


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    options = parser.parse_args()
    ours = {name: value for name, value in os.environ.items() if name.startswith("P4REDUCE_")}
    here = None if "RAY_ADDRESS" in os.environ else options.ranks + 1  # of the cluster that this script starts
    ray.init(num_cpus=here, runtime_env={"env_vars": ours})
    if options.save:
        options.save = str(Path(options.save).resolve())  # the ranks run in other folders
    TorchTrainer(
        train,
        train_loop_config=vars(options),
        torch_config=TorchConfig(backend=options.backend),
        scaling_config=ray.train.ScalingConfig(num_workers=options.ranks),
    ).fit()
    ray.shutdown()
