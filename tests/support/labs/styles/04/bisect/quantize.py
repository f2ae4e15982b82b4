import math
from fractions import Fraction

import numpy as np

LIMIT = 32767


def quantize(values, exponent):
    if not all(abs(v) < math.inf for v in np.asarray(values).flat):
        raise ValueError("not finite")
    return np.rint(np.ldexp(values, exponent)).astype(np.int64)


def dequantize(total, exponent):
    return np.ldexp(total.astype(np.float64), -exponent)


def fits(most, workers, e):
    return workers * np.rint(np.ldexp(most, e)) <= LIMIT


def common_exponent(largest, workers):
    most = sorted(largest)[-1]
    if most == 0.0:
        return 0
    low, high = -1100, 1200
    while high - low > 1:
        middle = (low + high) // 2
        if fits(most, workers, middle):
            low = middle
        else:
            high = middle
    return low
