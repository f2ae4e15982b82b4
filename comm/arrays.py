"""Arrays of a training script as collectives take them: checked, and as 32-bit words."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def check_array(operation: str, array: Any, wanted: set[np.dtype[Any]] | None) -> None:
    """Raise what is wrong with a caller's array; ``wanted``: types that the operation takes, None for any."""
    if not isinstance(array, np.ndarray) or (wanted is not None and array.dtype not in wanted):
        kind = array.dtype if isinstance(array, np.ndarray) else f"{type(array).__name__}, which is no array"
        mend = "array.astype(np.float32)" if isinstance(array, np.ndarray) else "np.array(value, np.float32)"
        raise TypeError(f"{operation}: expected a float32 array, got {kind}; use {mend}")
    if not array.flags.c_contiguous:
        raise ValueError(f"{operation}: the array must be C-contiguous; use np.ascontiguousarray(array)")
    if array.size == 0:
        raise ValueError(f"{operation}: the array is empty")
    if not array.flags.writeable:
        raise ValueError(f"{operation}: the array is read-only, but results are written in place")
    if array.dtype.hasobject:
        raise TypeError(f"{operation}: arrays of Python objects have no bytes to send")


def as_words(array: Array) -> npt.NDArray[np.int32]:
    """A copy of an array's bytes as int32, padded with zeros."""
    octets = np.zeros(-(-array.nbytes // 4) * 4, np.uint8)
    octets[: array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return octets.view(np.int32)
