"""Lab 04: floating point in lanes of {{bits}} bits.

README.md, steps 2 and 3.
"""

LIMIT = {{limit}}


def quantize(values, exponent):
    """The nearest integers to values * 2^exponent, as int64.

    values: an array of one or more dimensions.
    ValueError for NaN and infinity.
    """
    raise NotImplementedError


def dequantize(total, exponent):
    """What a sum of integers stands for, as float64."""
    raise NotImplementedError


def common_exponent(largest, workers):
    """The largest exponent with which the sum over all workers still fits.

    largest: the largest absolute value of each worker's chunk, as floats.
    workers: how many there are.
    """
    raise NotImplementedError
