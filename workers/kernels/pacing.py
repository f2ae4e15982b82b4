"""When the next chunk may leave, compiled: one each ``pace`` picoseconds, as the plan's busiest link takes them.

Where several edges of a plan share a link, or several workers a server's link, a window that leaves as fast as the
host's own link only waits in front of the shared one. There first come, first served is not fair: who sits near the
link gets more of it, chunks are complete late, and answers wait for each other. Sent at the pace of the shared
link, chunks hardly queue (as TCP senders are paced: Aggarwal, Savage, Anderson, INFOCOM 2000).

A sender that comes less than one pace late keeps its beat, so that the rate is exact; who is later than that may catch
up by one chunk, no more. Frames without lanes whose answer has none are not counted, resends neither.
"""

from typing import Any

from p4reduce.workers.kernels.jit import kernel
from p4reduce.workers.records import NEVER, Answer

_NOTHING = int(Answer.NOTHING)


@kernel
def too_early(e: Any, now: int) -> Any:
    """Whether the next new chunk must wait; if so the endpoint wants to be asked again when it need not."""
    if now >= e.pace_at:
        return False
    e.wake = e.pace_at
    return True


@kernel
def left(e: Any, entry: Any, now: int) -> None:
    """A new chunk leaves."""
    if e.pace > 0 and (entry.has_lanes or entry.answer != _NOTHING):
        e.pace_at = max(e.pace_at, now - e.pace) + e.pace


@kernel
def forget(e: Any) -> None:
    """Nothing waits for its time."""
    e.wake = NEVER
