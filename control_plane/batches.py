"""Classes by batch inside a group of jobs, the workers of one asynchronous training: whoever is behind goes first.

Two ways to the same end: the switch finds out by itself how far a packet is behind (``by_lag``), or the controller
writes a class for each of eight neighbouring iterations, and anew as batches advance.
"""

from dataclasses import dataclass
from typing import Final

import finsy as fy

from p4reduce.control_plane.entries import PRIORITIES
from p4reduce.control_plane.errors import ControllerError
from p4reduce.workers.wire import PacketType

GROUPS: Final = 256
"""cells of register ``newest`` (p4src/sizes.p4)"""
BATCHES: Final = 8
"""iterations in a row that the controller's entries tell apart: those that are the same modulo 8 have one entry"""
_BY_BATCH: Final = 30
"""P4Runtime priority: before the class of a job and that of its RESULTs (`entries.py`)"""
_DIRECTIONS: Final = ((PacketType.RESULT, 0), (PacketType.PUSH, 1))
"""what comes down goes before what goes up in the same batch"""


@dataclass(frozen=True)
class JobGroup:
    """Jobs ``first`` to ``first + size - 1``, which one ternary match covers, and the classes that they have together.

    Attributes
    ----------
    first, size : int
        ``size`` is a power of two and divides ``first``.
    cell : int
        Of register ``newest``: 0..255, one for each group that is there at the same time.
    generation : int
        Never used for this cell before: that of one of the plans.
    base, most : int
        Classes base .. base + most, 0..7.
    """

    first: int
    size: int
    cell: int
    generation: int
    base: int
    most: int

    def __post_init__(self) -> None:
        if self.size < 1 or self.size & (self.size - 1) or self.first % self.size or self.first + self.size > 1 << 16:
            raise ControllerError(f"group of jobs {self.first}..{self.first + self.size - 1}: needed: a power of two "
                                  "of them, aligned to it, below 65536")  # fmt: skip
        if not 0 <= self.cell < GROUPS:
            raise ControllerError(f"cell: {self.cell}, must be 0..{GROUPS - 1}")
        if self.base < 0 or self.most < 0 or self.base + self.most >= PRIORITIES:
            raise ControllerError(f"base: {self.base}, most: {self.most}: classes must be 0..{PRIORITIES - 1}")

    @property
    def match(self) -> tuple[int, int]:
        """Value and mask of the job field."""
        return self.first, 0xFFFF & ~(self.size - 1)


def group_size(jobs: int) -> int:
    """The least size of a group for so many jobs."""
    return 1 << max(0, jobs - 1).bit_length()


def lag_entry(group: JobGroup) -> fy.P4TableEntry:
    """The switch does it: class base + min(lag, most), the lag behind the newest iteration it has seen of the group."""
    action = fy.P4TableAction("by_lag", group=group.cell, generation=group.generation, base=group.base, most=group.most)
    match = fy.P4TableMatch({"hdr.inc.job": group.match})
    return fy.P4TableEntry("traffic_class", match=match, action=action, priority=_BY_BATCH)


def batch_entries(group: JobGroup, oldest: int, span: int = BATCHES) -> tuple[fy.P4TableEntry, ...]:
    """The controller does it: a class for each of the eight iterations from ``oldest`` on and each direction.

    The order is r = 2 * batch + [push]; the r's of ``span`` batches share the group's classes evenly, later ones have
    the lowest. Sixteen entries, always with the same matches: the next ones are written over them.
    """
    if not 1 <= span <= BATCHES:
        raise ControllerError(f"span: {span} batches, must be 1..{BATCHES}")
    return tuple(
        fy.P4TableEntry(
            "traffic_class",
            match=fy.P4TableMatch(
                {
                    "hdr.inc.job": group.match,
                    "hdr.inc.type": (kind, 0xF),
                    "hdr.inc.iteration": (iteration % BATCHES, BATCHES - 1),
                }
            ),
            action=fy.P4TableAction("prioritize", priority=batch_class(group, iteration - oldest, push, span)),
            priority=_BY_BATCH,
        )
        for iteration in range(oldest, oldest + BATCHES)
        for kind, push in _DIRECTIONS
    )


def batch_class(group: JobGroup, ahead: int, push: int, span: int = BATCHES) -> int:
    """Of a batch that is so far ahead of the oldest one; ``push``: 1 for gradients, 0 for parameters."""
    rank = 2 * ahead + push
    return group.base + group.most - min(group.most, rank * (group.most + 1) // (2 * span))
