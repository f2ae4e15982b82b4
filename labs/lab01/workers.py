"""A worker of a lab, as small as it can be: a window of chunks, and the oldest missing one again when all is quiet."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from p4reduce.labs.lab01.frames import End, Lanes, contribution, frame, read
from p4reduce.labs.lab01.tree import EPOCH, JOB, WINDOW
from p4reduce.workers.wire import INC_UDP_PORT, PacketType


class Worker:
    """Pushes chunks 0..n-1 and collects their RESULTs.

    Attributes:
        results: chunk -> lanes.
        wrong: what came that should not have come, in words.
    """

    def __init__(
        self, name: str, number: int, own: End, parent: End, chunks: int, job: int = JOB, epoch: int = EPOCH
    ) -> None:
        """A worker that has sent nothing yet."""
        self.name = name
        self._number = number
        self._own = own
        self._parent = parent
        self._chunks = chunks
        self._next = 0
        self._job = job
        self._epoch = epoch
        self.results: dict[int, Lanes] = {}
        self.wrong: list[str] = []

    @property
    def oldest_missing(self) -> int:
        """The first chunk without RESULT; the number of chunks when all are there."""
        return next((seq for seq in range(self._chunks) if seq not in self.results), self._chunks)

    @property
    def done(self) -> bool:
        """Whether all RESULTs are there."""
        return len(self.results) == self._chunks

    def due(self) -> Iterator[bytes]:
        """Frames that the window allows now."""
        while self._next < min(self._chunks, self.oldest_missing + WINDOW):
            yield self._push(self._next, resend=False)
            self._next += 1

    def again(self) -> bytes:
        """The oldest chunk without RESULT once more."""
        return self._push(self.oldest_missing, resend=True)

    def receive(self, data: bytes) -> None:
        """A frame from the network."""
        message = read(data)
        if message is None or message.type != PacketType.RESULT or message.lanes is None:
            self.wrong.append("a frame that is no RESULT")
        elif message.destination != self._own or message.udp != INC_UDP_PORT:
            pass  # to somebody else: a host's network card drops it
        elif message.source != self._parent:
            self.wrong.append(f"a RESULT of chunk {message.seq} that is not from its leaf")
        elif message.seq in self.results and not np.array_equal(self.results[message.seq], message.lanes):
            self.wrong.append(f"two different RESULTs of chunk {message.seq}")
        else:
            self.results[message.seq] = message.lanes

    def _push(self, seq: int, *, resend: bool) -> bytes:
        lanes = contribution(self._number, seq)
        return frame(
            PacketType.PUSH, self._own, self._parent, seq, lanes, resend=resend, job=self._job, epoch=self._epoch
        )
