"""The event queue: a binary heap ordered by (time, sequence number), so that events at one time keep their order."""

from typing import Any

from p4reduce.fabric.access import event_at
from p4reduce.fabric.kernels.jit import kernel


@kernel
def next_seq(w: Any) -> int:
    """A new sequence number."""
    w.seq += 1
    return w.seq  # type: ignore[no-any-return]


@kernel
def push(w: Any, time: int, seq: int, what: int) -> None:
    """Add an event that has its sequence number already."""
    hole = w.heap_size
    w.heap_size = hole + 1
    while hole > 0:
        above = event_at(w.heap, (hole - 1) >> 1)
        if above.time < time or (above.time == time and above.seq < seq):
            break
        place = event_at(w.heap, hole)
        place.time = above.time
        place.seq = above.seq
        place.what = above.what
        hole = (hole - 1) >> 1
    place = event_at(w.heap, hole)
    place.time = time
    place.seq = seq
    place.what = what


@kernel
def schedule(w: Any, time: int, what: int) -> None:
    """Add an event behind all that were scheduled for the same time."""
    push(w, time, next_seq(w), what)


@kernel
def replace_first(w: Any, time: int, seq: int, what: int) -> None:
    """Take the first event away and add another one: one walk down the heap instead of two."""
    size = w.heap_size
    hole = 0
    child = 1
    while child < size:
        below = event_at(w.heap, child)
        if child + 1 < size:
            right = event_at(w.heap, child + 1)
            if right.time < below.time or (right.time == below.time and right.seq < below.seq):
                child += 1
                below = right
        if time < below.time or (time == below.time and seq < below.seq):
            break
        place = event_at(w.heap, hole)
        place.time = below.time
        place.seq = below.seq
        place.what = below.what
        hole = child
        child = 2 * hole + 1
    place = event_at(w.heap, hole)
    place.time = time
    place.seq = seq
    place.what = what


@kernel
def remove_first(w: Any) -> None:
    """Take the first event away."""
    w.heap_size -= 1
    last = event_at(w.heap, w.heap_size)
    if w.heap_size > 0:
        replace_first(w, last.time, last.seq, last.what)
