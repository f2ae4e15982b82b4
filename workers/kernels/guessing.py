"""Exponents that a worker guesses instead of waiting for them, compiled (docs/protocol.md, Speculation).

An operation that guesses sends its frames without lanes as ever, and waits for none of their RESULTs: its first chunks
follow at once, scaled by ``guesses``. Those RESULTs bring the ``truths``. When all are in, every worker knows the same
chunks whose guess does not do; they come again behind the last one, scaled by their truths.
"""

from typing import Any, Final

import numpy as np

from p4reduce.native.memory import carray, load_u8, pointer, store_u8
from p4reduce.workers.kernels.jit import kernel
from p4reduce.workers.numbers import EXCESS

_FEW: Final = 64
"""of so many chunks one may be missing, and exponents are still agreed on only a round trip ahead"""
UNKNOWN: Final = -1
"""in the place of an agreed exponent: not yet"""

# What an entry's exponent is, if it is not announced by the RESULT a lead before it.
GUESSED: Final = 1
SETTLED: Final = 2


@kernel
def _truth(e: Any, chunk: int) -> Any:
    return carray(pointer(e.truths), (e.lead,), np.int16)[chunk]


@kernel
def set_truth(e: Any, chunk: int, exponent: int) -> Any:
    """The agreed exponent of one of the first chunks is known, or in a new epoch again; whether that is new."""
    cells = carray(pointer(e.truths), (e.lead,), np.int16)
    first = cells[chunk] == UNKNOWN
    cells[chunk] = exponent
    return first


@kernel
def is_guessed(e: Any, chunk: int) -> Any:
    """Whether a data chunk of the operation leaves before its exponent is agreed on."""
    return e.guesses != 0 and e.known <= chunk < e.lead


@kernel
def is_missed(e: Any, chunk: int) -> Any:
    """Whether a guess does not do, once all exponents are in: lanes were held at their ends, or say too little."""
    truth = _truth(e, chunk)
    guess = load_u8(e.guesses, chunk)
    return truth > guess or 0 < truth < guess - EXCESS


@kernel
def repeated_chunk(e: Any, number: int) -> Any:
    """The data chunk that comes again as the number-th, the lowest first."""
    return carray(pointer(e.again), (e.lead,), np.int64)[number]


@kernel
def exponent_of_entry(e: Any, entry: Any, chunk: int, again: int) -> None:
    """The exponent of a chunk's lanes that is settled when the chunk is opened. again: it is repeated."""
    if again:
        entry.guessed = SETTLED
        entry.agreed = _truth(e, chunk)
    elif is_guessed(e, chunk):
        entry.guessed = GUESSED
        entry.agreed = load_u8(e.guesses, chunk)


@kernel
def _settle(e: Any) -> None:
    """All exponents are in: which chunks come again."""
    missed = 0
    for chunk in range(e.known, e.lead):
        if is_missed(e, chunk):
            carray(pointer(e.again), (e.lead,), np.int64)[missed] = chunk
            missed += 1
        elif load_u8(e.doubtful, chunk) != 0:
            e.poisoned += 1
    e.redone = missed
    e.redone_total += missed
    e.end += missed


@kernel
def _note_truth(e: Any, chunk: int, exponent: int) -> None:
    """A RESULT without lanes brought the agreed exponent of one of the first chunks; in a new epoch, the same again."""
    if set_truth(e, chunk, exponent):
        e.unknown -= 1
        if e.unknown == 0 and e.guesses != 0:
            _settle(e)


@kernel
def told_losses(e: Any) -> Any:
    """Whether this worker has lacked many chunks since it last said so: 1 or 0."""
    lost = e.lost_by_order + e.lost_by_time
    many = (lost - e.lost_before) * _FEW > e.chunks
    e.lost_before = lost
    return 1 if many else 0


@kernel
def note_announced(e: Any, announced: int, exponent: int) -> None:
    """A RESULT of the operation brought what a chunk has announced, by its number: exponents, and then losses."""
    if announced < e.lead:
        _note_truth(e, announced, exponent)
    elif announced == e.chunks:
        e.losing = exponent


@kernel
def is_to_be_taken(e: Any, chunk: int, flagged: int) -> Any:
    """Whether the sum of a guessed chunk goes to the caller; flagged: lanes were held, or somebody's are not finite."""
    if e.unknown != 0:
        if flagged:
            store_u8(e.doubtful, chunk, 1)
        return True  # if it was missed, its repetition is still to come
    if is_missed(e, chunk):
        return False  # its repetition may be in already
    if flagged:
        e.poisoned += 1
    return True
