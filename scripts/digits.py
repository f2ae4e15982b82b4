"""Common code of the scripts that train with PyTorch: scikit-learn's digits, networks for them, and flags."""

import argparse
from collections.abc import Sequence

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import TensorDataset

MODELS = ("cnn", "linear")


def arguments(about: str | None) -> argparse.ArgumentParser:
    """Return a parser with the flags that the scripts have in common."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="p4reduce", help="p4reduce, or gloo")
    parser.add_argument("--model", default="cnn", choices=MODELS)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=16, help="images of each rank in a step")
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--save", help="file for the parameters at the end and the loss of every step, of rank 0")
    return parser


def digits(count: int | None = None) -> TensorDataset:
    """Return images (count, 1, 8, 8) in 0 .. 1 and their labels, in a random but fixed order.

    There are 1,797 images; beyond that number they repeat in the same order.
    """
    dataset = load_digits()
    order = torch.randperm(len(dataset.target), generator=torch.Generator().manual_seed(1))
    if count is not None:
        order = order[torch.arange(count) % len(order)]
    images = torch.tensor(dataset.images, dtype=torch.float32)[:, None] / 16
    return TensorDataset(images[order], torch.tensor(dataset.target)[order])


def network(kind: str = "cnn") -> nn.Module:
    """Return a network with the same initial weights in every process."""
    torch.manual_seed(0)
    if kind == "linear":
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(512, 10),
    )


def optimizer_of(model: nn.Module, momentum: float) -> torch.optim.Optimizer:
    """Return stochastic gradient descent."""
    return torch.optim.SGD(model.parameters(), lr=0.05, momentum=momentum)


def report(model: nn.Module, losses: Sequence[float], file: str | None) -> None:
    """Print a trained network's accuracy on the digits; save its parameters if a file is named."""
    images, labels = digits().tensors
    with torch.no_grad():
        right = (model(images).argmax(1) == labels).float().mean()
    print(f"{len(losses)} steps, loss {losses[-1]:.4f}, accuracy {right:.4f}")
    if file:
        parameters = [parameter.detach().clone() for parameter in model.parameters()]
        torch.save({"losses": list(losses), "parameters": parameters}, file)
