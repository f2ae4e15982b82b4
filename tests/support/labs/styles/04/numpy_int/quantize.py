import math
from fractions import Fraction

import numpy as np

LIMIT = 32767


def quantize(values, exponent):
    if not np.isfinite(values).all():
        raise ValueError("not finite")
    return np.round(np.asarray(values) * np.exp2(exponent)).astype(int) if abs(exponent) < 900 else np.rint(np.ldexp(values, exponent)).astype(np.int32)


def dequantize(total, exponent):
    return np.ldexp(total.astype(np.float64), -exponent)


def common_exponent(largest, workers):
    """The exponent as NumPy has it."""
    most = np.float64(max(largest))
    if most == 0:
        return np.int64(0)
    e = np.int64(np.frexp(LIMIT / workers)[1] - np.frexp(most)[1] + 2)
    while workers * np.rint(np.ldexp(most, e)) > LIMIT:
        e = e - 1
    return e
