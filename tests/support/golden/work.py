"""The work of a job: its chunks, each worker's contributions, and the right sums.

The first lanes hold one hexadecimal digit for each worker, so a sum shows how often each contribution went into it. The
other lanes are pseudo-random, and differ between chunks and jobs.
"""

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Final

from tests.support.golden.frames import SEQ_MODULUS, Kind
from tests.support.golden.switch import INT32_MAX, INT32_MIN

DIGITS_PER_LANE: Final = 7
MAX_WORKERS: Final = 32
DIGIT_LANES: Final = -(-MAX_WORKERS // DIGITS_PER_LANE)
MIN_LANES: Final = DIGIT_LANES + 1

UNANNOUNCED: Final = 255

Lanes = tuple[int, ...]


class Collective(Enum):
    """The collective of one chunk. A root switch answers the first three kinds; a server answers all but the first."""

    ALL_REDUCE = "sums of all, to all"
    OPEN = "a push without lanes, which only agrees on an exponent"
    BARRIER = "a pull that a root switch answers, or a server without weights"
    PUSH = "upload, acknowledged without lanes"
    PULL = "download"
    PUSH_PULL = "upload, answered with new weights"

    @property
    def kind(self) -> Kind:
        """Packet type that workers send."""
        return Kind.PULL if self in (Collective.PULL, Collective.BARRIER) else Kind.PUSH

    @property
    def lanes_up(self) -> bool:
        """Whether contributions have lanes."""
        return self in (Collective.ALL_REDUCE, Collective.PUSH, Collective.PUSH_PULL)

    @property
    def lanes_down(self) -> bool:
        """Whether results have lanes."""
        return self in (Collective.ALL_REDUCE, Collective.PULL, Collective.PUSH_PULL)


AT_ROOT: Final = (Collective.ALL_REDUCE, Collective.ALL_REDUCE, Collective.OPEN, Collective.BARRIER)
AT_SERVER: Final = tuple(Collective)[1:]


@dataclass(frozen=True)
class Work:
    """``len(collectives)`` chunks of a job, the first with sequence number ``first_seq``.

    Chunks are counted from 0 (``index``); the values of those in ``extreme`` fill all of int32, so their sums saturate.
    The chunks in ``tail`` are the end of an operation: they announce exponents of the next one. ``said``: the exponents
    that each worker has sent in one run.
    """

    job: int
    first_seq: int
    slots: int
    lanes: int
    collectives: tuple[Collective, ...]
    extreme: frozenset[int]
    said: dict[tuple[int, int], int] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def tail(self) -> range:
        """Indices of the chunks that announce exponents: at most a window; none if the work has a single chunk."""
        long, end = (abs(value) for value in noise(2, "tail", self.job, 0, self.first_seq))
        length = min(1 + long % (self.slots // 2), self.chunks - 1)
        stop = length + end % (self.chunks - length)
        return range(stop - length, stop)

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return len(self.collectives)

    def seq(self, index: int) -> int:
        """Return the sequence number of a chunk on the wire."""
        return (self.first_seq + index) % SEQ_MODULUS

    def index(self, seq: int) -> int:
        """Return the chunk of a sequence number; it is out of range for a number of other work."""
        return (seq - self.first_seq) % SEQ_MODULUS

    def contribution(self, worker: int, index: int) -> Lanes:
        """Return the lanes of worker ``worker`` (0..31) for chunk ``index``."""
        digits = [0] * DIGIT_LANES
        digits[worker // DIGITS_PER_LANE] = 1 << 4 * (worker % DIGITS_PER_LANE)
        values = noise(self.lanes - DIGIT_LANES, "lanes", self.job, worker, self.seq(index))
        shift = 0 if index in self.extreme else 7  # 32 workers of 25 bits stay within int32
        return (*digits, *(value >> shift for value in values))

    def exponent(self, worker: int, index: int) -> int:
        """Return the exponent that worker ``worker`` sends with a chunk, 0..255. Repetitions have the same.

        In the tail it is an exponent of the next operation, or `UNANNOUNCED` if the worker does not know that one yet.
        """
        if (worker, index) not in self.said:
            own = noise(1, "exponent", self.job, worker, self.seq(index))[0] & 0xFF
            if index in self.tail:
                sent = sum(rank == worker for rank, _ in self.said)
                late, by = (abs(value) for value in noise(2, "called", self.job, worker, self.first_seq))
                called = sent >= self.tail.start + by % (len(self.tail) + 1) or late % 4 != 0
                own = min(own, UNANNOUNCED - 1) if called else UNANNOUNCED
            self.said[worker, index] = own
        return self.said[worker, index]

    def exact_sum(self, workers: Iterable[int], index: int) -> Lanes:
        """Return the sum of the contributions of ``workers``, without a limit of int32."""
        rows = [self.contribution(worker, index) for worker in workers]
        return tuple(map(sum, zip(*rows, strict=True)))

    def weights(self, index: int) -> Lanes:
        """Return the lanes with which a server answers a PULL."""
        return noise(self.lanes, "weights", self.job, 0, self.seq(index))

    def updated(self, total: Lanes, index: int) -> Lanes:
        """Return the lanes with which a server answers a PUSH_PULL: a function of the sum and the chunk."""
        return tuple((a + b - INT32_MIN) % 2**32 + INT32_MIN for a, b in zip(total, self.weights(index), strict=True))


def multiplicities(total: Lanes) -> dict[int, int]:
    """Return how often each worker's contribution is in ``total``, without workers whose contribution is not in it."""
    found = {}
    for worker in range(MAX_WORKERS):
        digit = total[worker // DIGITS_PER_LANE] >> 4 * (worker % DIGITS_PER_LANE) & 0xF
        if digit:
            found[worker] = digit
    return found


def clamped(exact: Lanes) -> bool:
    """Return whether some lane of ``exact`` exceeds int32."""
    return any(not INT32_MIN <= value <= INT32_MAX for value in exact)


def noise(count: int, what: str, job: int, worker: int, seq: int) -> Lanes:
    """Return ``count`` pseudo-random int32 that depend on all arguments."""
    key = what.encode() + struct.pack(">IIQ", job, worker, seq)
    return struct.unpack(f">{count}i", hashlib.shake_128(key).digest(4 * count))
