"""Between tensors and what crosses the switches: float32 arrays, or 32-bit words that are added as they are."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

FLOATS: Final = frozenset({torch.float32, torch.bfloat16, torch.float16})
"""Added as float32 (bf16 and fp16 are widened, and rounded once at the end)."""
WORDS: Final = frozenset({torch.int32})
"""Added as they are."""
CARRIED: Final = FLOATS | WORDS


def is_carried(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether the switches take them: on the CPU, dense, of one of the types, the same for all, and not empty."""
    return bool(tensors) and all(
        tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and tensor.dtype in CARRIED
        and tensor.dtype == tensors[0].dtype
        and tensor.numel() > 0
        for tensor in tensors
    )


def array_of(tensor: torch.Tensor) -> NDArray[Any]:
    """Its numbers as a flat array for a sum: its own memory if that is possible, else a copy."""
    flat = tensor.detach()
    if not flat.is_contiguous():
        flat = flat.contiguous()
    flat = flat.reshape(-1)
    if flat.dtype in (torch.bfloat16, torch.float16):
        flat = flat.float()
    found: NDArray[Any] = flat.numpy()
    return found


def bytes_of(tensor: torch.Tensor) -> NDArray[np.uint8]:
    """A copy of its bytes, flat: what is gathered and broadcast."""
    found: NDArray[np.uint8] = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().copy()
    return found


def put(tensor: torch.Tensor, array: NDArray[Any]) -> None:
    """Write a sum into a tensor (nothing to do where the sum is in its memory already)."""
    if tensor.data_ptr() == array.ctypes.data:
        return
    with torch.no_grad():
        tensor.copy_(torch.from_numpy(array).reshape(tensor.shape))


def put_bytes(tensor: torch.Tensor, octets: NDArray[np.uint8]) -> None:
    """Write bytes into a tensor."""
    with torch.no_grad():
        tensor.copy_(torch.from_numpy(octets).view(tensor.dtype).reshape(tensor.shape))


def joined(tensors: Sequence[torch.Tensor]) -> NDArray[Any]:
    """The numbers of several tensors, one after the other; a copy."""
    return np.concatenate([array_of(tensor) for tensor in tensors])


def parts(array: NDArray[Any], tensors: Sequence[torch.Tensor]) -> None:
    """Write what ``joined`` put together back, each part to its tensor."""
    at = 0
    for tensor in tensors:
        put(tensor, array[at : at + tensor.numel()])
        at += tensor.numel()
