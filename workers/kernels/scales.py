"""Lanes per unit and units per lane of a chunk, compiled; `numbers.py` has the same in NumPy."""

from typing import Any, Final

from p4reduce.native.memory import as_double
from p4reduce.workers.kernels.jit import kernel
from p4reduce.workers.numbers import EXPONENT_BIAS, NumberMode

_BLOCK: Final = int(NumberMode.BLOCK)


@kernel
def power_of_two(exponent: int) -> Any:
    """2**exponent as float64, for -1022..1023, from its bits: no call of ldexp."""
    return as_double((exponent + 1023) << 52)


@kernel
def scale_up(e: Any, exponent: int) -> Any:
    """Lanes per unit: 2**(30 - h - e) with block floating point (numbers.BlockFloat.scale)."""
    if e.mode != _BLOCK:
        return e.scale
    if exponent == 0:
        return 1.0
    return power_of_two(30 - e.headroom - (exponent - EXPONENT_BIAS))


@kernel
def scale_down(e: Any, exponent: int) -> Any:
    """The inverse of ``scale_up``: exact for powers of two."""
    return 1.0 / scale_up(e, exponent)
