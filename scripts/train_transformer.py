"""Train a small transformer to continue text, character by character, with DDP or FSDP2.

The text is Python's own reference (`pydoc_data`), so nothing is downloaded. `p4reduce launch -n 4
scripts/train_transformer.py --fsdp` shards parameters.
"""

import argparse
from pydoc_data.topics import topics

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--backend", default="p4reduce", help="p4reduce, or gloo")
parser.add_argument("--fsdp", action="store_true", help="shard parameters (FSDP2) instead of DDP")
parser.add_argument("--steps", type=int, default=30)
parser.add_argument("--batch", type=int, default=4, help="pieces of text of each rank in a step")
parser.add_argument("--length", type=int, default=64, help="characters of a piece")
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--layers", type=int, default=2)
parser.add_argument("--save", help="file for the loss of every step, of rank 0")
options = parser.parse_args()

text = "".join(topics[name] for name in sorted(topics))[:200_000]
alphabet = sorted(set(text))
number = {letter: at for at, letter in enumerate(alphabet)}
tokens = torch.tensor([number[letter] for letter in text])


class Transformer(nn.Module):
    """Embeds characters and positions, attends to earlier characters, and predicts the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(len(alphabet), options.width)
        self.places = nn.Embedding(options.length, options.width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(options.width, 4, 4 * options.width, 0.0, batch_first=True, norm_first=True)
            for _ in range(options.layers)
        )
        self.out = nn.Linear(options.width, len(alphabet))

    def forward(self, given: torch.Tensor) -> torch.Tensor:
        """Return scores of every character at every position: (batch, length) to (batch, length, alphabet)."""
        seen = self.letters(given) + self.places(torch.arange(given.shape[1]))
        mask = nn.Transformer.generate_square_subsequent_mask(given.shape[1])
        for block in self.blocks:
            seen = block(seen, src_mask=mask, is_causal=True)
        scores: torch.Tensor = self.out(seen)
        return scores


dist.init_process_group(options.backend)
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model: nn.Module = Transformer()
if options.fsdp:
    mesh = dist.init_device_mesh("cpu", (size,))
    for block in model.blocks:  # type: ignore[union-attr]
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
else:
    model = DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
draw = torch.Generator().manual_seed(1)
losses = []
for step in range(options.steps):
    starts = torch.randint(len(tokens) - options.length - 1, (size, options.batch), generator=draw)[rank]
    pieces = torch.stack([tokens[start : start + options.length + 1] for start in starts])
    scores = model(pieces[:, :-1])
    loss = nn.functional.cross_entropy(scores.flatten(0, 1), pieces[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = loss.detach()
    dist.all_reduce(mean)
    losses.append(mean.item() / size)
    if rank == 0 and (step + 1) % 10 == 0:
        print(f"step {step + 1}: loss {losses[-1]:.4f}")
if rank == 0 and options.save:
    torch.save({"losses": losses}, options.save)
dist.destroy_process_group()
