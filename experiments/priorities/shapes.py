"""Layers of known models: parameters, and multiplications of a forward pass for one image or sequence.

VGG-16 (arXiv 1409.1556, configuration D), ResNet-50 (arXiv 1512.03385, table 1; convolutions and the last layer, batch
normalization counted with its convolution), and a transformer as GPT-2 small (12 blocks of width 768, 1,024 tokens).
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Layer:
    """One layer whose gradient travels as one tensor."""

    name: str
    parameters: int
    multiplications: int


def _convolution(name: str, side: int, kernel: int, inputs: int, outputs: int) -> Layer:
    """``side``: of the output."""
    weights = kernel * kernel * inputs * outputs
    return Layer(name, weights + 2 * outputs, weights * side * side)


def _dense(name: str, inputs: int, outputs: int, times: int = 1) -> Layer:
    return Layer(name, inputs * outputs + outputs, inputs * outputs * times)


def vgg16() -> tuple[Layer, ...]:
    """138 M parameters, most of them in the first dense layer."""
    layers, inputs = [], 3
    for stage, (side, outputs, count) in enumerate(
        ((224, 64, 2), (112, 128, 2), (56, 256, 3), (28, 512, 3), (14, 512, 3)), start=1
    ):
        for number in range(1, count + 1):
            weights = 9 * inputs * outputs
            layers.append(Layer(f"conv{stage}_{number}", weights + outputs, weights * side * side))
            inputs = outputs
    return (*layers, _dense("fc6", 25_088, 4096), _dense("fc7", 4096, 4096), _dense("fc8", 4096, 1000))


def resnet50() -> tuple[Layer, ...]:
    """25.6 M parameters, growing towards the end."""
    layers = [_convolution("conv1", 112, 7, 3, 64)]
    inputs = 64
    for stage, (side, width, blocks) in enumerate(((56, 64, 3), (28, 128, 4), (14, 256, 6), (7, 512, 3)), start=2):
        for block in range(1, blocks + 1):
            name = f"conv{stage}_{block}"
            layers.append(_convolution(f"{name}a", side, 1, inputs, width))
            layers.append(_convolution(f"{name}b", side, 3, width, width))
            layers.append(_convolution(f"{name}c", side, 1, width, 4 * width))
            if block == 1:
                layers.append(_convolution(f"{name}d", side, 1, inputs, 4 * width))
            inputs = 4 * width
    return (*layers, _dense("fc", 2048, 1000))


def transformer() -> tuple[Layer, ...]:
    """124 M parameters; a third of them are the embedding, which the forward pass needs first."""
    width, tokens, blocks = 768, 1024, 12
    layers = [Layer("embedding", 50_257 * width + tokens * width, tokens * width)]
    for block in range(1, blocks + 1):
        layers.append(_dense(f"attention{block}", width, 4 * width, tokens))
        layers.append(Layer(f"mlp{block}", 8 * width * width + 5 * width, 8 * width * width * tokens))
    return tuple(layers)


SHAPES: Final = {"vgg16": vgg16, "resnet50": resnet50, "transformer": transformer}
