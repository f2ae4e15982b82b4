"""Ways to sum gradients over workers: as float32, in a few bits, or a part of them. All sums are the switches'.

Each worker has an exchange of its own, which keeps what it did not send (error feedback: Karimireddy et al., "Error
feedback fixes SignSGD", ICML 2019).
"""

from typing import Final, Protocol

import numpy as np

from p4reduce.comm.communicator import Communicator
from p4reduce.experiments.placement.knobs.packing import Packing
from p4reduce.workers.training.model import FloatArray

BLOCK: Final = 1024
"""numbers of one scale"""
FRAME: Final = 256
"""lanes of a frame"""


class Exchange(Protocol):
    """Replaces a worker's gradient by (about) the sum over all workers, the same bits at each of them."""

    def __call__(self, comm: Communicator, gradient: FloatArray) -> None:
        """In place; all workers call it."""


class Whole:
    """float32."""

    def __call__(self, comm: Communicator, gradient: FloatArray) -> None:
        """An all-reduce."""
        comm.all_reduce(gradient)


class Quantized:
    """A few bits for each number, packed into lanes; all workers share the largest number of a block as its scale.

    Scales come first: each worker's own, gathered. Without feedback rounding is random, so it has no bias; with it
    rounding is to the nearest, and what it lost is added to the next gradient.
    """

    def __init__(self, size: int, workers: int, level: int, *, feedback: bool, seed: int) -> None:
        self._packing = Packing(workers, level)
        self._left = np.zeros(size, np.float32) if feedback else None
        self._random = np.random.Generator(np.random.Philox(seed))
        self._largest = np.zeros((workers, -(-size // BLOCK)), np.float32)

    def __call__(self, comm: Communicator, gradient: FloatArray) -> None:
        """An all-gather of scales and an all-reduce of lanes."""
        if self._left is not None:
            gradient += self._left
        blocks = np.zeros(self._largest.shape[1] * BLOCK, np.float32)
        blocks[: gradient.size] = np.abs(gradient)
        comm.all_gather(blocks.reshape(-1, BLOCK).max(axis=1), self._largest)
        unit = np.repeat(self._largest.max(axis=0) / self._packing.level, BLOCK)[: gradient.size]
        exact = np.divide(gradient, unit, out=np.zeros_like(gradient), where=unit > 0)
        if self._left is None:
            rounded = np.floor(exact + self._random.random(exact.size, np.float32))
        else:
            rounded = np.rint(exact)
        sent = rounded.clip(-self._packing.level, self._packing.level).astype(np.int32)
        if self._left is not None:
            self._left[:] = gradient - sent * unit
        lanes = self._packing.pack(sent)
        comm.all_reduce(lanes)
        gradient[:] = self._packing.unpack(lanes, gradient.size) * unit


class TopElements:
    """Each worker gives its own largest numbers; the rest waits for its next gradient.

    A switch adds lanes at places, so all must send the same places: first who gives what is counted, then numbers go
    for all places that anybody gives.
    """

    def __init__(self, size: int, workers: int, share: float) -> None:
        self._count = max(1, round(share * size))
        self._packing = Packing(workers, 1, signed=False)
        self._left = np.zeros(size, np.float32)

    def __call__(self, comm: Communicator, gradient: FloatArray) -> None:
        """An all-reduce of marks and one of numbers."""
        self._left += gradient
        own = np.argpartition(np.abs(self._left), self._left.size - self._count)[-self._count :]
        marks = np.zeros(self._left.size, np.int32)
        marks[own] = 1
        lanes = self._packing.pack(marks)
        comm.all_reduce(lanes)
        places = np.flatnonzero(self._packing.unpack(lanes, marks.size))
        numbers = self._left[places]  # what one gives at the others' places costs nothing more
        self._left[places] = 0.0
        comm.all_reduce(numbers)
        gradient[:] = 0.0
        gradient[places] = numbers


class TopFrames:
    """The frames that are largest over all workers, by the sum of their norms; the rest waits.

    All know the norms' sums, so all choose the same frames.
    """

    def __init__(self, size: int, share: float) -> None:
        self._frames = -(-size // FRAME)
        self._count = max(1, round(share * self._frames))
        self._left = np.zeros(self._frames * FRAME, np.float32)

    def __call__(self, comm: Communicator, gradient: FloatArray) -> None:
        """An all-reduce of norms and one of frames."""
        self._left[: gradient.size] += gradient
        frames = self._left.reshape(self._frames, FRAME)
        norms = np.sqrt(np.square(frames).sum(axis=1))
        comm.all_reduce(norms)
        chosen = np.sort(np.argsort(-norms, kind="stable")[: self._count])
        numbers = frames[chosen]
        frames[chosen] = 0.0
        comm.all_reduce(numbers)
        total = np.zeros_like(frames)
        total[chosen] = numbers
        gradient[:] = total.reshape(-1)[: gradient.size]
