"""What a worker expects exponents to be, from those that were agreed on before; the same at all workers of a job."""

from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.native.memory import address_of
from p4reduce.workers.kernels.guessing import UNKNOWN
from p4reduce.workers.numbers import EXCESS, MAX_BIASED
from p4reduce.workers.operation import Post
from p4reduce.workers.records import Collective

DEPTH: Final = 8
"""operations of one length whose exponents are remembered"""
SLACK: Final = 1
"""bits that are added to the largest of them"""
LENGTHS: Final = 64
"""lengths of operations that are remembered, the latest"""

Exponents = NDArray[np.uint8]


def guess(seen: Sequence[Exponents] | deque[Exponents], slack: int = SLACK) -> Exponents:
    """For each chunk the largest exponent that was seen and ``slack`` bits; 0 where it was always all zeros."""
    largest = np.max(seen, axis=0).astype(np.int64)
    return np.where(largest == 0, 0, np.minimum(largest + slack, MAX_BIASED)).astype(np.uint8)


def missed(guesses: Exponents, truths: Exponents) -> NDArray[np.bool_]:
    """Where a guess does not do (as ``guessing.is_missed``)."""
    wide, true = guesses.astype(np.int64), truths.astype(np.int64)
    return np.asarray((true > wide) | ((true > 0) & (true < wide - EXCESS)))


class Guesses:
    """Of one endpoint. What is decided depends only on its operations and their RESULTs, which all workers have alike.

    Operations are told apart by their length: gradients of one model have theirs in each iteration. Where the last one
    of a length would have been guessed wrong for more than half of its first chunks, as by turns of different tensors,
    the next is not guessed; nor where some worker has said that it lacks many chunks (``losing``): then
    exponents are agreed on as far ahead as can be, not only the ``count`` chunks of a round trip.
    """

    def __init__(self, count: int, most: int, lanes: int) -> None:
        self._count, self._most, self._lanes = count, most, lanes
        self._seen: OrderedDict[int, deque[Exponents]] = OrderedDict()
        self._useless: set[int] = set()
        self._length: int | None = None
        self._truths = np.full(most, UNKNOWN, np.int16)
        self._guesses = np.zeros(count, np.uint8)
        self._doubtful = np.zeros(count, np.uint8)
        self._again = np.zeros(count, np.int64)
        self._inputs = np.zeros((count, lanes), np.float32)

    def learn(self) -> None:
        """The operation before is done: its exponents become part of what is known."""
        if self._length is None:
            return
        length, self._length = self._length, None
        told = self._truths[: min(self._count, -(-length // self._lanes))]
        if (told == UNKNOWN).any():
            return  # it was given up
        truths = told.astype(np.uint8)
        seen = self._seen.setdefault(length, deque(maxlen=DEPTH))
        self._useless.discard(length)
        if seen and 2 * np.count_nonzero(missed(guess(seen), truths)) > len(truths):
            self._useless.add(length)
        seen.append(truths)
        self._seen.move_to_end(length)
        while len(self._seen) > LENGTHS:
            self._useless.discard(self._seen.popitem(last=False)[0])

    def fresh(self) -> "Guesses":
        """Of the same endpoint, without what was seen."""
        return Guesses(self._count, self._most, self._lanes)

    def begin(self, record: Any, operation: Post) -> None:
        """An operation with exponents begins at a worker; its record has ``known``, and ``lead`` as if it waited."""
        if operation.collective is not Collective.ALL_REDUCE or operation.partial is not None:
            return
        known, length = int(record["known"]), operation.length
        self._length = length
        seen = self._seen.get(length)
        quick = seen and length not in self._useless and not record["losing"]
        if quick:
            record["lead"] = max(known, min(self._count, int(record["lead"])))
        lead = int(record["lead"])
        record["tail"] = lead - 1  # the first of these seqs tells of losses
        self._truths[:lead] = UNKNOWN
        record["truths"], record["unknown"] = address_of(self._truths), lead - known
        if not quick or known == lead:
            return
        assert operation.source is not None  # noqa: S101
        self._guesses[:lead] = guess(seen or ())
        self._doubtful[:] = 0
        count = min(length, lead * self._lanes)
        self._inputs.reshape(-1)[:count] = operation.source[:count]  # a result may overwrite its own input
        record["guesses"], record["doubtful"] = address_of(self._guesses), address_of(self._doubtful)
        record["inputs"], record["again"] = address_of(self._inputs), address_of(self._again)


def begin_guessing(record: Any, guesses: Guesses | None, operation: Post) -> None:
    """What the operation before has shown, and what is guessed of this one; None: nothing is guessed."""
    for name in ("truths", "guesses", "redone"):
        record[name] = 0
    if guesses is not None:
        guesses.learn()
        if record["lead"]:
            guesses.begin(record, operation)
