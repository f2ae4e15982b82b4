"""The plain tensors that a run moves when it trains nothing."""

import numpy as np

from p4reduce.comm.backend import FloatArray


def tensor(seed: int, rank: int, turn: int, elements: int) -> FloatArray:
    """Gradient-like values, float32 of shape (elements,): normal, with a scale that differs from block to block."""
    random = np.random.Generator(np.random.Philox(key=[seed, rank << 32 | turn]))
    values = random.standard_normal(elements, dtype=np.float32)
    blocks = -(-elements // 4096)
    scales = np.exp2(random.integers(-12, 4, blocks)).astype(np.float32)
    values *= np.repeat(scales, 4096)[:elements]
    return values
