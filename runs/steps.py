"""How long the network takes for a step of a script: between marks of its own, or of collectives that repeat."""

import statistics
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from p4reduce.comm.communicator import STEP
from p4reduce.comm.participant import COMPUTE, Figure, Span
from p4reduce.runs.result import CollectiveRecord

MOST_APART: Final = 4
"""collectives before the first step, and after the last, that may be of no step: weights that are spread, a check"""
How = Literal["marks", "repetition", "run"]


@dataclass(frozen=True)
class Step:
    """One step: its time without the computation that was declared, the sum of its lower bounds, what a rank sent."""

    communication_ps: int
    bound_ps: int
    elements: int


@dataclass(frozen=True)
class Steps:
    """The steps of a run, and how they were found."""

    every: tuple[Step, ...]
    how: How
    """``marks``: by ``comm.step()``; ``repetition``: of a sequence of collectives; ``run``: nothing repeats."""
    collectives: int
    """in a step; of marked steps, the median"""

    @property
    def median(self) -> Step | None:
        """That of median communication time."""
        if not self.every:
            return None
        middle = statistics.median_low(step.communication_ps for step in self.every)
        return next(step for step in self.every if step.communication_ps == middle)


def steps_of(records: Sequence[CollectiveRecord], figures: Sequence[Figure], spans: Sequence[Span]) -> Steps:
    """The steps of a script whose ranks recorded ``figures`` and did ``spans``."""
    marks: dict[int, list[int]] = {}
    for figure in figures:
        if figure.name == STEP:
            marks.setdefault(figure.rank, []).append(figure.time_ps)
    if marks:
        return _between(marks, records, spans)
    sequence = [(record.operation, record.elements) for record in records]
    first, period, count = _repeated(sequence)
    found = [records[first + period * number : first + period * (number + 1)] for number in range(count)]
    return Steps(tuple(_sum(own) for own in found), "repetition" if count > 1 else "run", period)


def _between(marks: dict[int, list[int]], records: Sequence[CollectiveRecord], spans: Sequence[Span]) -> Steps:
    """From each mark of a rank to its next; a step is as long as that of the slowest rank."""
    count = min(map(len, marks.values()))
    longest = [0] * count
    for rank, times in marks.items():
        own = [span for span in spans if span.rank == rank]
        begin = min((span.start_ps for span in own), default=times[0])
        computed = [(span.start_ps, span.end_ps) for span in own if span.name == COMPUTE]
        for number, end in enumerate(times[:count]):
            longest[number] = max(longest[number], end - begin - _inside(computed, begin, end))
            begin = end
    ends = [max(times[number] for times in marks.values()) for number in range(count)]
    within: list[list[CollectiveRecord]] = [[] for _ in ends]
    for record in records:
        number = bisect_left(ends, record.done_ps)
        if number < count:
            within[number].append(record)
    steps = tuple(
        Step(time, sum(record.bound_ps for record in own), sum(record.elements for record in own))
        for time, own in zip(longest, within, strict=True)
    )
    return Steps(steps, "marks", statistics.median_low(map(len, within)) if within else 0)


def _inside(spans: Sequence[tuple[int, int]], begin: int, end: int) -> int:
    return sum(max(0, min(stop, end) - max(start, begin)) for start, stop in spans)


def _sum(records: Sequence[CollectiveRecord]) -> Step:
    """Collectives one after the other; what one runs beside the one before does not count twice."""
    time, done = 0, 0
    for record in records:
        time += max(0, min(record.communication_ps, record.done_ps - done))
        done = max(done, record.done_ps)
    return Step(time, sum(record.bound_ps for record in records), sum(record.elements for record in records))


def _repeated(sequence: Sequence[tuple[str, int]]) -> tuple[int, int, int]:
    """(first, period, count) of the shortest sequence that repeats; (0, length, 1) where none does.

    A few at the beginning and at the end may stand apart, the fewer the better.
    """
    most = min(MOST_APART, len(sequence) // 4)
    for apart in range(2 * most + 1):
        for first in range(max(0, apart - most), min(apart, most) + 1):
            part = sequence[first : len(sequence) - (apart - first)]
            period = _period(part)
            if period <= len(part) // 2:
                return first, period, len(part) // period
    return 0, len(sequence), int(len(sequence) > 0)


def _period(sequence: Sequence[tuple[str, int]]) -> int:
    """The least p > 0 with ``sequence[i] == sequence[i + p]`` wherever both are there (Knuth, Morris, Pratt 1977)."""
    longest = [0] * len(sequence)
    matched = 0
    for place in range(1, len(sequence)):
        while matched and sequence[place] != sequence[matched]:
            matched = longest[matched - 1]
        matched += sequence[place] == sequence[matched]
        longest[place] = matched
    return max(1, len(sequence) - longest[-1]) if longest else 1
