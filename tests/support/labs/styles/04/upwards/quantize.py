import math
from fractions import Fraction

import numpy as np

LIMIT = 32767


def quantize(values, exponent):
    for value in np.ravel(values):
        if math.isnan(value) or math.isinf(value):
            raise ValueError(f"{value} has no integer")
    flat = [round(math.ldexp(float(value), exponent)) for value in np.ravel(values)]
    return np.array(flat, np.int64).reshape(np.shape(values))


def dequantize(total, exponent):
    return np.array([math.ldexp(float(one), -exponent) for one in total])


def common_exponent(largest, workers):
    top = np.max(np.array(largest))
    if not top > 0:
        return 7
    exponent = np.frexp(LIMIT / workers / top)[1] - 3
    while workers * np.rint(np.ldexp(top, exponent + 1)) <= LIMIT:
        exponent += 1
    return int(exponent)
