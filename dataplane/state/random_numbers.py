"""The numbers that ``random()`` gives: SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom generators, 2014).

BMv2 takes std::default_random_engine, seeded by the thread's id, so its numbers differ from run to run. Here they
repeat, and both executors draw from one sequence, whose state is in the device.
"""

from typing import Final

MASK: Final = (1 << 64) - 1
STEP: Final = 0x9E3779B97F4A7C15
MIX: Final = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
"""Shift and multiplier of each round; a last shift follows."""

LAST_SHIFT: Final = 31


def advance(state: int) -> int:
    """The next state."""
    return (state + STEP) & MASK


def mixed(state: int) -> int:
    """The number that belongs to a state, 64 bits."""
    z = state
    for shift, factor in MIX:
        z = ((z ^ z >> shift) * factor) & MASK
    return z ^ z >> LAST_SHIFT


def within(number: int, low: int, high: int) -> int:
    """A number from ``low`` to ``high``, which is not below it; all 64 bits wide."""
    return low + number % (high - low + 1)
