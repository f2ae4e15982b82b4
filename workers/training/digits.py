"""The digits that scikit-learn ships: 1,797 real images of 8 x 8 pixels, read from its package, no download."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from p4reduce.base.errors import BadInput

# A multi-layer perceptron whose parameters and gradients are one flat float32 vector each.


FloatArray = npt.NDArray[np.float32]
LabelArray = npt.NDArray[np.int64]

DIGITS_LAYERS: Final = (64, 480, 480, 10)
"""266,890 parameters: 1.07 MB a gradient, enough to fill every window."""


class Mlp:
    """Fully connected layers with ReLU between them and softmax cross entropy at the end.

    The class holds shapes only. Parameters are passed in as one flat vector of ``size`` float32, which is
    also the vector that travels, so nothing is copied between the model and the network.
    """

    def __init__(self, layers: Sequence[int] = DIGITS_LAYERS) -> None:
        if len(layers) < 2 or min(layers) < 1:
            raise ValueError(f"layers: expected at least two positive widths, got {tuple(layers)}")
        self.layers = tuple(layers)
        self._shapes = list(zip(self.layers[:-1], self.layers[1:], strict=True))
        self.size = sum(inputs * outputs + outputs for inputs, outputs in self._shapes)
        """Number of parameters."""

    def initial(self, seed: int) -> FloatArray:
        """He initialization (He et al. 2015, eq. 10: normal, variance 2 / inputs), biases zero; shape (size,)."""
        generator = np.random.default_rng(seed)
        parameters = np.zeros(self.size, np.float32)
        for weights, _ in self.views(parameters):
            weights[:] = generator.standard_normal(weights.shape, np.float32) * np.float32((2 / len(weights)) ** 0.5)
        return parameters

    def views(self, flat: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
        """Weights (inputs, outputs) and bias (outputs,) of each layer, as views of ``flat``."""
        if flat.shape != (self.size,):
            raise ValueError(f"expected {self.size} parameters, got an array of shape {flat.shape}")
        views = []
        start = 0
        for inputs, outputs in self._shapes:
            end = start + inputs * outputs
            views.append((flat[start:end].reshape(inputs, outputs), flat[end : end + outputs]))
            start = end + outputs
        return views

    def logits(self, parameters: FloatArray, images: FloatArray) -> FloatArray:
        """Forward pass: images (batch, inputs) to logits (batch, classes)."""
        return self._activations(parameters, images)[-1]

    def loss_and_gradient(
        self, parameters: FloatArray, images: FloatArray, labels: LabelArray, gradient: FloatArray
    ) -> float:
        """Mean cross entropy of a batch; writes its gradient to ``gradient`` (size,), in place."""
        activations = self._activations(parameters, images)
        probabilities = _softmax(activations[-1])
        rows = np.arange(len(labels))
        loss = float(-np.log(np.maximum(probabilities[rows, labels], np.float32(1e-30))).mean())
        probabilities[rows, labels] -= np.float32(1)
        delta = probabilities / np.float32(len(labels))
        layers = list(zip(self.views(parameters), self.views(gradient), activations, strict=False))
        for depth, ((weights, _), (weight_gradient, bias_gradient), entering) in reversed(list(enumerate(layers))):
            np.matmul(entering.T, delta, out=weight_gradient)
            np.sum(delta, axis=0, out=bias_gradient)
            if depth:
                delta = (delta @ weights.T) * (entering > 0)
        return loss

    def accuracy(self, parameters: FloatArray, images: FloatArray, labels: LabelArray) -> float:
        """Share of images whose largest logit is that of their label."""
        return float((self.logits(parameters, images).argmax(axis=1) == labels).mean())

    def flops(self, batch: int) -> int:
        """Floating-point operations of one training step: 2 forward and 4 backward for each weight and image."""
        return 6 * batch * sum(inputs * outputs for inputs, outputs in self._shapes)

    def _activations(self, parameters: FloatArray, images: FloatArray) -> list[FloatArray]:
        """The input of each layer, then the logits."""
        values = [images]
        layers = self.views(parameters)
        for depth, (weights, bias) in enumerate(layers):
            output = values[-1] @ weights
            output += bias
            if depth < len(layers) - 1:
                np.maximum(output, np.float32(0), out=output)
            values.append(output)
        return values


def _softmax(logits: FloatArray) -> FloatArray:
    exponentials: FloatArray = np.exp(logits - logits.max(axis=1, keepdims=True))
    exponentials /= exponentials.sum(axis=1, keepdims=True)
    return exponentials


TEST_SHARE: Final = 0.2
IMAGES: Final = 1797


class DataError(BadInput, RuntimeError):
    """The data set is missing; the message says what to install."""


@dataclass(frozen=True)
class Dataset:
    """Images (count, inputs) of float32 and their labels (count,) from 0 on; the digits: 64 in 0 .. 1, and 0 .. 9."""

    images: FloatArray
    labels: LabelArray

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: LabelArray) -> "Dataset":
        """The images and labels at the given indices, in that order."""
        return Dataset(self.images[indices], self.labels[indices])

    def shard(self, rank: int, size: int) -> "Dataset":
        """Part ``rank`` of ``size``: every ``size``-th image, so parts differ by at most one in length."""
        if not 0 <= rank < size:
            raise ValueError(f"shard {rank} of {size}: ranks are 0 to {size - 1}")
        return Dataset(self.images[rank::size], self.labels[rank::size])


@dataclass(frozen=True)
class Split:
    """Images for training, and images for testing."""

    train: Dataset
    test: Dataset


def load_digits(seed: int) -> Split:
    """The digits, shuffled by ``seed`` and split 80 : 20. Raises ``DataError`` without scikit-learn."""
    everything = _digits()
    order = np.random.default_rng(seed).permutation(len(everything))
    tests = round(len(everything) * TEST_SHARE)
    return Split(train=everything.take(order[tests:]), test=everything.take(order[:tests]))


@cache
def _digits() -> Dataset:
    """As ``sklearn.datasets.load_digits``, but from its file: importing scikit-learn takes seconds."""
    spec = find_spec("sklearn")
    if spec is None or spec.origin is None:
        raise DataError("the digits come with scikit-learn, which is missing: pip install 'p4reduce[demo]'")
    path = Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"
    try:
        rows = np.loadtxt(path, delimiter=",")
    except OSError:
        raise DataError(f"{path}: cannot be read; install another release of scikit-learn") from None
    return Dataset((rows[:, :-1] / 16.0).astype(np.float32), rows[:, -1].astype(np.int64))


# The clarity of 53,940 real diamonds from their price, weight, measures, cut and colour, as plotnine ships them.
#
# They are harder than the digits: eight grades that are so similar that no model separates them reliably.


DIAMONDS_LAYERS: Final = (19, 256, 128, 8)
"""39,048 parameters"""
DIAMONDS: Final = 53_940
_FARTHEST: Final = 5.0
"""standard deviations at which inputs are clipped, as a few stones have wrong measures"""
_CUTS: Final = ("Fair", "Good", "Very Good", "Premium", "Ideal")
_COLOURS: Final = "DEFGHIJ"
_CLARITIES: Final = ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF")
_MEASURES: Final = (0, 4, 5, 6, 7, 8, 9)
"""columns: carat, depth, table, price, x, y, z"""


def load_diamonds(seed: int) -> Split:
    """The diamonds, shuffled by ``seed`` and split 80 : 20; inputs are standardized by the training part.

    Raises ``DataError`` without plotnine.
    """
    inputs, labels = _diamonds()
    order = np.random.default_rng(seed).permutation(len(labels))
    tests = round(len(labels) * TEST_SHARE)
    learned = inputs[order[tests:]]
    scaled = ((inputs - learned.mean(axis=0)) / learned.std(axis=0)).clip(-_FARTHEST, _FARTHEST).astype(np.float32)
    everything = Dataset(scaled, labels)
    return Split(train=everything.take(order[tests:]), test=everything.take(order[:tests]))


@cache
def _diamonds() -> tuple[FloatArray, LabelArray]:
    """Inputs (count, 19) and clarity (count,), from plotnine's file: importing the library takes seconds."""
    spec = find_spec("plotnine")
    if spec is None or spec.origin is None:
        raise DataError("the diamonds come with plotnine, which is missing: pip install 'p4reduce[study]'")
    path = Path(spec.origin).parent / "data" / "diamonds.csv"
    try:
        rows = np.loadtxt(path, delimiter=",", dtype=str, skiprows=1, quotechar='"')
        measures = rows[:, _MEASURES].astype(np.float64)
        labels = np.array([_CLARITIES.index(name) for name in rows[:, 3]], np.int64)
    except (OSError, ValueError, IndexError):
        raise DataError(f"{path}: is not the table of diamonds; install another release of plotnine") from None
    measures[:, [0, 3]] = np.log(measures[:, [0, 3]])  # weight and price span orders of magnitude
    cuts = rows[:, 1, None] == np.array(_CUTS)
    colours = rows[:, 2, None] == np.array(list(_COLOURS))
    return np.hstack([measures, cuts, colours]).astype(np.float32), labels
