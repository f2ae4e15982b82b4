import math
from fractions import Fraction

import numpy as np

LIMIT = 32767


def quantize(values, exponent):
    if not np.isfinite(values).all():
        raise ValueError("not finite")
    return np.rint(np.ldexp(values, exponent)).astype(np.int64)


def dequantize(total, exponent):
    return np.ldexp(total.astype(np.float64), -exponent)


def common_exponent(largest, workers):
    most = max(largest)
    if most == 0:
        return 0
    e = 1100 + 16
    while workers * round(Fraction(most) * Fraction(2) ** e) > LIMIT:
        e -= 1
    return e
