"""Expected results of endpoints, computed directly from all workers' arrays."""

from math import ceil

import numpy as np
from numpy.typing import NDArray

from p4reduce.workers.numbers import Numbers, local_exponent

Floats = NDArray[np.float32]


def chunks_of(array: Floats, lanes: int) -> list[Floats]:
    """Return the array in chunks; the last one may be shorter."""
    return [array[begin : begin + lanes] for begin in range(0, len(array), lanes)]


def quantized_sum(sources: list[Floats], lanes: int, numbers: Numbers, members: int | None = None) -> Floats:
    """Return the network's sum: integers, chunk by chunk, with the largest exponent of any worker."""
    n = members or len(sources)
    sums = []
    for pieces in zip(*(chunks_of(source, lanes) for source in sources), strict=True):
        exponent = max(local_exponent(piece) for piece in pieces)
        total = sum(numbers.quantize(piece, exponent, n)[0].astype(np.int64) for piece in pieces)
        sums.append(numbers.dequantize(np.clip(total, -(2**31), 2**31 - 1).astype(np.int32), exponent, n))
    return np.concatenate(sums)


def rank_order_sum(sources: list[Floats]) -> Floats:
    """Return the float32 sum in the order of ranks."""
    total = sources[0].copy()
    for source in sources[1:]:
        total = total + source
    return total


def ring_sum(sources: list[Floats], lanes: int) -> Floats:
    """Return the float32 sum in the ring's order: segment s starts at rank s and passes every rank."""
    n = len(sources)
    length = len(sources[0])
    segment = ceil(ceil(length / lanes) / n) * lanes
    total = np.zeros(length, np.float32)
    for s in range(n):
        part = slice(s * segment, min((s + 1) * segment, length))
        value = sources[s][part].copy()
        for step in range(1, n):
            value = sources[(s + step) % n][part] + value
        total[part] = value
    return total
