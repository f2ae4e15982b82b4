"""A multi-layer perceptron whose parameters and gradients are one flat float32 vector each."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

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
        """What enters each layer, then the logits."""
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
