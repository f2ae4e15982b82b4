"""Expected behaviour of a job that speculates on exponents, from the inputs of its operations alone.

It shares no code with the package. Rules as in docs/protocol.md: of the last eight sums of a length, the largest
exponent of a chunk plus one bit.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from math import ceil, frexp, log2

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def exponent(values: Floats) -> int:
    """Return the smallest e with abs(x) < 2**e, at least -126, plus 127; 0 for zeros."""
    largest = float(np.abs(values).max())
    return 0 if largest == 0 else max(frexp(largest)[1], -126) + 127


def added(pieces: list[Floats], biased: int) -> Floats:
    """Return a chunk's sum over all workers with this exponent: q = rint(x * 2**(30-h-e)), y = sum * 2**(e+h-30)."""
    shift = 30 - ceil(log2(len(pieces))) - (biased - 127 if biased else 30)
    if not biased:
        return np.zeros(len(pieces[0]), np.float32)
    total = sum(np.rint(piece.astype(np.float64) * 2.0**shift) for piece in pieces)
    with np.errstate(over="ignore"):
        return np.asarray(total * 2.0**-shift, np.float64).astype(np.float32)


@dataclass
class Oracle:
    """Model of a job's speculation; it is given each sum of the job in order."""

    lanes: int
    count: int
    """number of leading chunks whose exponents are guessed"""
    seen: dict[int, list[list[int]]] = field(default_factory=lambda: defaultdict(list))
    useless: set[int] = field(default_factory=set)

    def expect(self, sources: list[Floats], known: int, lossy: bool = False) -> tuple[Floats, int]:
        """Return the sum, and the number of chunks that are sent twice.

        known: leading chunks whose exponents were announced. lossy: some member has reported lost chunks before.
        """
        length = len(sources[0])
        chunks = [[one[at : at + self.lanes] for one in sources] for at in range(0, length, self.lanes)]
        true = [max(map(exponent, pieces)) for pieces in chunks]
        first = true[: self.count]
        history = self.seen[length][-8:]
        guesses = [max(column) and min(max(column) + 1, 255) for column in zip(*history, strict=True)]
        wrong = [t > g or 0 < t < g - 6 for t, g in zip(first, guesses, strict=False)]
        used, repeats = list(true), 0
        if history and not lossy and length not in self.useless:
            for place in range(known, len(first)):
                repeats += wrong[place]
                used[place] = true[place] if wrong[place] else guesses[place]
        self.useless.discard(length)
        if 2 * sum(wrong) > len(first):
            self.useless.add(length)
        self.seen[length].append(first)
        total = [added(*pair) if t else np.zeros(len(pair[0][0]), np.float32)
                 for t, pair in zip(true, zip(chunks, used, strict=True), strict=True)]  # fmt: skip
        return np.concatenate(total), repeats
