"""Train with Lightning on scikit-learn's digits: `p4reduce launch -n 4 scripts/train_lightning.py`.

With `python scripts/train_lightning.py --devices 4` Lightning starts the ranks.
"""

import os

import lightning
import torch
from digits import arguments, digits, network, optimizer_of, report
from lightning.pytorch.plugins.environments import TorchElasticEnvironment
from lightning.pytorch.strategies import DDPStrategy
from torch import nn
from torch.utils.data import DataLoader


class Learner(lightning.LightningModule):
    """A network and its training."""

    def __init__(self, model: nn.Module, momentum: float) -> None:
        super().__init__()
        self.model, self.momentum = model, momentum
        self.losses: list[float] = []

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Return the loss of a batch; its mean over ranks is recorded."""
        images, labels = batch
        loss = nn.functional.cross_entropy(self.model(images), labels)
        self.losses.append(self.trainer.strategy.reduce(loss.detach(), reduce_op="mean").item())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer of the other scripts."""
        return optimizer_of(self, self.momentum)


parser = arguments(__doc__)
parser.add_argument("--devices", type=int, default=2, help="number of ranks, if Lightning starts them")
options = parser.parse_args()
started = "RANK" in os.environ
here = int(os.environ.get("LOCAL_WORLD_SIZE", options.devices))
size = int(os.environ.get("WORLD_SIZE", here))
trainer = lightning.Trainer(
    accelerator="cpu",
    devices=here,
    num_nodes=size // here,
    strategy=DDPStrategy(process_group_backend=options.backend),
    plugins=[TorchElasticEnvironment()] if started else None,
    max_epochs=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
learner = Learner(network(options.model), options.momentum)
trainer.fit(learner, DataLoader(digits(options.steps * size * options.batch), options.batch))
if trainer.is_global_zero:
    report(learner.model, learner.losses, options.save)
torch.distributed.destroy_process_group()
