"""What one participant calls of a collective, and whether all of them call the same."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from p4reduce.comm.backend import PLAIN, FloatArray, Options
from p4reduce.comm.errors import CollectiveError

SERVED = frozenset({"push", "pull", "push_pull"})
"""Operations in which the server takes part."""
OPERATIONS = frozenset({"all_reduce", "broadcast", "barrier", "all_to_all"}) | SERVED


@dataclass
class Call:
    """One participant's part of a collective."""

    rank: int
    operation: str
    array: FloatArray
    root: int
    learning_rate: float
    start_ps: int
    iteration: int
    done_ps: int = -1
    options: Options = PLAIN
    error: Exception | None = None
    """What this participant's call fails with, where others' do not."""
    raised: bool = False
    """It was not carried out, as members died: the caller hears of the new group, and calls again."""
    contributors: tuple[int, ...] = ()
    """Whose arrays are in the result; empty for those of all members."""
    summed: tuple[tuple[int, int], ...] = ()
    """(elements, contributions) of one stretch of the result after the other; empty: as many as contributors."""


def check_agreement(calls: list[Call], name: Callable[[int], str]) -> None:
    """`CollectiveError` where the participants of one collective do not call the same; ``name`` names a rank."""
    first = calls[0]
    for call in calls[1:]:
        if _shape(call) != _shape(first):
            raise CollectiveError(
                f"participants disagree: {name(first.rank)} called {_describe(first)}, "
                f"{name(call.rank)} {_describe(call)}"
            )


def _shape(call: Call) -> tuple[str, int, int, float, bool, bool, str, int | None]:
    chosen = call.options
    return (
        call.operation,
        call.array.size,
        call.root,
        call.learning_rate,
        chosen.words,
        chosen.poison,
        chosen.name,
        chosen.staleness,
    )


def _describe(call: Call) -> str:
    extra = f", root={call.root}" if call.operation == "broadcast" else ""
    if call.operation == "push_pull":
        extra = f", learning_rate={call.learning_rate:g}"
        if call.options.stale:
            extra += f", staleness={call.options.staleness}"
    kind = " of int32" if call.options.words and call.operation == "all_reduce" and not call.options.name else ""
    return f"{call.options.name or call.operation}({call.array.size} elements{kind}{extra})"


def first_bad_value(array: FloatArray) -> int | None:
    """Index of the first value that is not finite, or None."""
    # A dot product is finite only if all is, and costs a tenth of isfinite; overflow alone may lie.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.dot(array, array)):
            return None
    bad = np.flatnonzero(~np.isfinite(array))
    return int(bad[0]) if bad.size else None
