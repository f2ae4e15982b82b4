import math
from fractions import Fraction

import numpy as np

LIMIT = 32767


def quantize(values, exponent):
    scaled = np.ldexp(np.asarray(values, dtype=float), exponent)
    if np.isnan(scaled).any() or np.isinf(scaled).any():
        raise ValueError
    up = np.floor(scaled + 0.5)
    return (up - ((up - scaled == 0.5) & (up % 2 == 1))).astype("int64")


def dequantize(total, exponent):
    return np.ldexp(total.astype(np.float64), -exponent)


def common_exponent(largest, workers):
    most = max(largest)
    if most == 0:
        return 0
    e = int(math.log2(LIMIT / workers) - math.log2(most)) + 4
    while workers * round(Fraction(most) * Fraction(2) ** e) > LIMIT:
        e -= 1
    return e
