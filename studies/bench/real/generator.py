"""A load for a switch in this process: frames into its interfaces, never more on their way than its rings hold.

It reads the counters of the switch's ports in memory, so that frames are lost nowhere and nothing needs to answer.
"""

from pathlib import Path
from typing import Any, Final

import numpy as np

from p4reduce.network.real.io.records import BATCH, load_shared
from p4reduce.network.virtual.records import cell_at
from p4reduce.workers import wire
from p4switch.native.compiler import Compiler
from p4switch.native.libc import clock_ns, poll, sendmmsg
from p4switch.native.memory import store_be32

_compiler = Compiler(Path(__file__).parent)
entry, kernel = _compiler.entry, _compiler.kernel

WINDOW: Final = 512
"""frames of each port on their way"""
SEQ: Final = np.int64(wire.offset(wire.INC, "seq"))
_PAUSE_NS: Final = 20_000
_PATIENCE_NS: Final = 10_000_000_000
_ENDED: Final = -1


@kernel
def _wait(time: int) -> None:
    """Let others have the processor for a moment."""
    poll(0, 0, _PAUSE_NS, time)


@kernel
def _numbered(frames: int, frame_cell: int, seq: int, count: int) -> None:
    for place in range(count):
        store_be32(frames + place * frame_cell + SEQ, 0, np.int32(seq + place))


@entry(int, int, int, int, int, int, np.dtype(np.int64), int)
def load(
    sockets: int, received: int, ports: int, frames: int, frame_cell: int, messages: int, limits: Any, numbered: int
) -> int:
    """Send to every port in turn until a time is over; rounds of BATCH frames that every port got, or -1.

    sockets, received: addresses of ``ports`` int64: descriptors, and addresses of the counts of frames that came in.
    frames: ``ports`` times BATCH cells of ``frame_cell`` bytes; their messages likewise. limits: int64 (first seq,
    CLOCK_MONOTONIC at the end, and two to use). ``numbered``: each round has the next BATCH sequence numbers. -1: the
    switch takes nothing more.
    """
    time = limits.ctypes.data + 16
    first = limits[0]
    until = limits[1]
    rounds = 0
    base = load_shared(cell_at(received, 0).value)
    while True:
        sent = rounds * BATCH
        for port in range(ports):
            while sent + BATCH - (load_shared(cell_at(received, port).value) - base) > WINDOW:
                if clock_ns(time) > until + _PATIENCE_NS:
                    return _ENDED
                _wait(time)
            own = frames + port * BATCH * frame_cell
            if numbered != 0:
                _numbered(own, frame_cell, first + sent, BATCH)
            done = 0
            while done < BATCH:
                count = sendmmsg(cell_at(sockets, port).value, messages + (port * BATCH + done) * 64, BATCH - done, 0)
                done += max(count, 0)
        rounds += 1
        if clock_ns(time) > until:
            return rounds
