"""Conversion of tensors to what crosses the switches: float32 arrays, or 32-bit words that are added as they are."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

FLOATS: Final = frozenset({torch.float32, torch.bfloat16, torch.float16})
"""Types that are added as float32 (bf16 and fp16 are widened, and rounded once at the end)."""
WORDS: Final = frozenset({torch.int32})
"""Types that are added as they are."""
CARRIED: Final = FLOATS | WORDS


def why_not(tensors: Sequence[torch.Tensor]) -> str:
    """Return why switches do not carry tensors; "" if they are dense, on the CPU, not empty of one of the types."""
    if not tensors:
        return "there is no tensor"
    refusals = (
        ("a tensor is not on the CPU", lambda tensor: tensor.device.type != "cpu"),
        ("a tensor is sparse", lambda tensor: tensor.layout is not torch.strided),
        ("switches do not add or carry this type", lambda tensor: tensor.dtype not in CARRIED),
        ("types differ", lambda tensor: tensor.dtype != tensors[0].dtype),
        ("a tensor is empty", lambda tensor: tensor.numel() == 0),
    )
    return next((why for why, holds in refusals if any(map(holds, tensors))), "")


def is_carried(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether the switches can carry the tensors (`why_not`)."""
    return not why_not(tensors)


MOST_SPARSE: Final = 1 << 26
"""most elements in the shape of a sparse tensor that switches add: each rank holds a dense copy meanwhile"""


def is_sparse_sum(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether there is one sparse tensor of floats (COO) that switches add up, such as an embedding's gradient.

    Only its shape and type decide, since all ranks must decide alike and the number of coordinates differs.
    """
    return (
        len(tensors) == 1
        and tensors[0].layout is torch.sparse_coo
        and tensors[0].device.type == "cpu"
        and tensors[0].dtype in FLOATS
        and 0 < tensors[0].numel() <= MOST_SPARSE
    )


def array_of(tensor: torch.Tensor) -> NDArray[Any]:
    """Return a tensor's numbers as a flat array for a sum: its own memory if possible, else a copy."""
    flat = tensor.detach()
    if not flat.is_contiguous():
        flat = flat.contiguous()
    flat = flat.reshape(-1)
    if flat.dtype in (torch.bfloat16, torch.float16):
        flat = flat.float()
    array: NDArray[Any] = flat.numpy()
    return array


def bytes_of(tensor: torch.Tensor) -> NDArray[np.uint8]:
    """Return a flat copy of a tensor's bytes, for gathering and broadcasting."""
    octets: NDArray[np.uint8] = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().copy()
    return octets


def put(tensor: torch.Tensor, array: NDArray[Any]) -> None:
    """Write a sum into a tensor, unless it is in the tensor's memory already."""
    if tensor.data_ptr() == array.ctypes.data:
        return
    with torch.no_grad():
        tensor.copy_(torch.from_numpy(array).reshape(tensor.shape))


def put_bytes(tensor: torch.Tensor, octets: NDArray[np.uint8]) -> None:
    """Write bytes into a tensor."""
    with torch.no_grad():
        tensor.copy_(torch.from_numpy(octets).view(tensor.dtype).reshape(tensor.shape))


def joined(tensors: Sequence[torch.Tensor]) -> NDArray[Any]:
    """Return a copy of the numbers of several tensors, one after the other."""
    return np.concatenate([array_of(tensor) for tensor in tensors])


def parts(array: NDArray[Any], tensors: Sequence[torch.Tensor]) -> None:
    """Write an array that ``joined`` returned back, each part to its tensor."""
    at = 0
    for tensor in tensors:
        put(tensor, array[at : at + tensor.numel()])
        at += tensor.numel()


BLOCK: Final = 256
"""numbers assumed to share an exponent: the lanes of a frame, unless a run has another number of lanes"""
UNEVEN: Final = 2.0**-20
"""share of a block's largest number; smaller numbers keep fewer than ten bits"""


def is_uneven(array: NDArray[Any]) -> bool:
    """Whether most numbers of a block are so much below its largest that a shared exponent costs most of their bits.

    An example is gradients beside padding that is not zero. False if a number is not finite, as the sum shows that.
    """
    if array.dtype != np.float32 or array.size == 0:
        return False
    sizes = np.abs(array)
    largest = sizes.max()
    if not np.isfinite(largest) or not ((sizes > 0) & (sizes < UNEVEN * largest)).any():
        return False
    blocks = np.pad(sizes, (0, -sizes.size % BLOCK)).reshape(-1, BLOCK)
    small = (blocks > 0) & (blocks < UNEVEN * blocks.max(axis=1, keepdims=True))
    return bool((2 * small.sum(axis=1) > (blocks > 0).sum(axis=1)).any())
