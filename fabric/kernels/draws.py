"""Counter-based random numbers: a draw depends on (seed, link, frame number, purpose) and on nothing else.

SplitMix64 (Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014) addressed by counter: the
n-th number of the stream with key k is mix(k + n * gamma).
"""

from typing import Any, Final

import numpy as np

from p4reduce.fabric.kernels.jit import kernel

# All operands are uint64: Numba makes a float of uint64 with int64.
_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_A: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_B: Final = np.uint64(0x94D049BB133111EB)
_S30: Final = np.uint64(30)
_S27: Final = np.uint64(27)
_S31: Final = np.uint64(31)
_S11: Final = np.uint64(11)
_PURPOSES: Final = np.uint64(16)
_MASK: Final = (1 << 64) - 1

PROBABILITY_BITS: Final = 53


@kernel
def draw(link: Any, number: Any, purpose: int) -> Any:
    """64 random bits for one purpose about one frame of a link."""
    z = link.key + (number * _PURPOSES + np.uint64(purpose)) * _GAMMA
    z = (z ^ (z >> _S30)) * _MIX_A
    z = (z ^ (z >> _S27)) * _MIX_B
    return z ^ (z >> _S31)


@kernel
def happens(link: Any, number: Any, purpose: int, threshold: Any) -> bool:
    """Whether something happens whose probability is threshold / 2^53."""
    return (draw(link, number, purpose) >> _S11) < threshold  # type: ignore[no-any-return]


def threshold(probability: float) -> int:
    """A probability as a whole number of 2^-53."""
    return int(probability * (1 << PROBABILITY_BITS))


def link_key(seed: int, link: int) -> int:
    """The key of a link's stream: two rounds of SplitMix64's mixer, over the seed and over the link's number."""
    return _mix(_mix(seed + int(_GAMMA)) + (link + 1) * int(_GAMMA))


def _mix(z: int) -> int:
    z &= _MASK
    z = (z ^ (z >> 30)) * int(_MIX_A) & _MASK
    z = (z ^ (z >> 27)) * int(_MIX_B) & _MASK
    return z ^ (z >> 31)
