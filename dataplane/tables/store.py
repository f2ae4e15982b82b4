"""The rows of a table's entries: action and arguments, as machine code reads them, and direct counters."""

import heapq
from typing import Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.dataplane.model.actions import Action
from p4reduce.dataplane.tables.key import WORD_BITS, split_words

_FIRST_ROWS: Final = 8
DEFAULT_ROW: Final = 0


def argument_offsets(action: Action) -> tuple[int, ...]:
    """The word of an entry's row at which each argument starts; word 0 is the action."""
    offsets, at = [], 1
    for parameter in action.parameters:
        offsets.append(at)
        at += -(-parameter.width // WORD_BITS)
    return tuple(offsets)


def row_words(actions: tuple[Action, ...]) -> int:
    """uint64 words of a row: the action, and the arguments of the action that has most."""
    return 1 + max((sum(-(-p.width // WORD_BITS) for p in a.parameters) for a in actions), default=0)


class EntryStore:
    """Row 0 is the default entry; rows of entries are given out lowest first and reused.

    ``rows``: uint64 (capacity, row_words): index of the action among the table's (their number: none), arguments,
    each from a word of its own, least significant word first. ``counters``: uint64 (capacity, 2): packets, bytes.
    ``meters``: uint64 (capacity, METER_WORDS) for a table with a direct meter. All are replaced when they
    grow; ``addresses`` are those of the three now.
    """

    def __init__(self, actions: tuple[Action, ...], meter_words: int = 0, words: int | None = None) -> None:
        """``words`` of a row, if it is not an action and its arguments."""
        self._actions = actions
        self._free: list[int] = []
        self._used = 1
        self.rows: NDArray[np.uint64] = np.zeros((_FIRST_ROWS, words or row_words(actions)), np.uint64)
        self.counters: NDArray[np.uint64] = np.zeros((_FIRST_ROWS, 2), dtype=np.uint64)
        self.meters: NDArray[np.uint64] = np.zeros((_FIRST_ROWS, meter_words), dtype=np.uint64)
        self.addresses = self._where()

    def allocate(self) -> int:
        """A free row, its counters zero."""
        ref = heapq.heappop(self._free) if self._free else self._used
        self._used = max(self._used, ref + 1)
        if ref == len(self.rows):
            self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)])
            self.counters = np.concatenate([self.counters, np.zeros_like(self.counters)])
            self.meters = np.concatenate([self.meters, np.zeros_like(self.meters)])
            self.addresses = self._where()
        self.counters[ref] = 0
        self.meters[ref] = 0
        return ref

    def _where(self) -> tuple[int, int, int]:
        return self.rows.ctypes.data, self.counters.ctypes.data, self.meters.ctypes.data

    def free(self, ref: int) -> None:
        """Gives a row back."""
        heapq.heappush(self._free, ref)

    def write(self, ref: int, action: int | None, arguments: tuple[int, ...]) -> None:
        """Fills a row; ``action`` indexes the table's actions."""
        row = [0] * self.rows.shape[1]
        row[0] = len(self._actions) if action is None else action
        if action is not None:
            parameters = self._actions[action].parameters
            for value, parameter, at in zip(
                arguments, parameters, argument_offsets(self._actions[action]), strict=True
            ):
                words = -(-parameter.width // WORD_BITS)
                row[at : at + words] = split_words(value, words)
        self.rows[ref] = row
