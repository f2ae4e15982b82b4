"""Taking cells from the pools and giving them back. The loop sees to it that there are enough (`loop.py`)."""

from typing import Any

from p4reduce.fabric.access import copy_at, frame_at, phv_at, prefetch
from p4reduce.fabric.kernels.jit import kernel
from p4reduce.fabric.pools import CACHE_LINE


@kernel
def take_frame(w: Any) -> int:
    """A cell for a frame; the one given back last, which is still in the processor's cache."""
    index = w.free_frame
    frame = frame_at(w.frames, index)
    w.free_frame = frame.next
    w.free_frames -= 1
    frame.next = -1
    frame.damaged = 0
    return index  # type: ignore[no-any-return]


@kernel
def drop_frame(w: Any, index: int) -> None:
    """Give a frame's cell back."""
    frame_at(w.frames, index).next = w.free_frame
    w.free_frame = index
    w.free_frames += 1


@kernel
def frame_address(w: Any, index: int) -> int:
    """Where a frame's bytes are."""
    return w.frame_bytes + index * w.frame_cell  # type: ignore[no-any-return]


@kernel
def prefetch_frame(w: Any, index: int) -> None:
    """Fetch a frame that arrives soon into the processor's cache; with many links this halves the cost of an event."""
    address = frame_address(w, index)
    for line in range(0, frame_at(w.frames, index).length, CACHE_LINE):
        prefetch(address + line)


@kernel
def take_phv(w: Any) -> int:
    """A cell for what lies between ingress and egress, with one reference."""
    index = w.free_phv
    phv = phv_at(w.phvs, index)
    w.free_phv = phv.next
    w.free_phvs -= 1
    phv.references = 1
    return index  # type: ignore[no-any-return]


@kernel
def drop_phv(w: Any, index: int) -> None:
    """Give one reference back, and the cell with the last one."""
    phv = phv_at(w.phvs, index)
    phv.references -= 1
    if phv.references == 0:
        phv.next = w.free_phv
        w.free_phv = index
        w.free_phvs += 1


@kernel
def phv_address(w: Any, index: int) -> int:
    """Where a PHV's bytes are."""
    return w.phv_bytes + index * w.phv_cell  # type: ignore[no-any-return]


@kernel
def take_copy(w: Any) -> int:
    """A place in a queue."""
    index = w.free_copy
    copy = copy_at(w.copies, index)
    w.free_copy = copy.next
    w.free_copies -= 1
    copy.next = -1
    return index  # type: ignore[no-any-return]


@kernel
def drop_copy(w: Any, index: int) -> None:
    """Give a place in a queue back."""
    copy_at(w.copies, index).next = w.free_copy
    w.free_copy = index
    w.free_copies += 1
