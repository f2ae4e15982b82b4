"""A link: how long a frame is on it, what can go wrong on it, and when its sender may go on."""

from typing import Any, Final

import numpy as np

from p4reduce.base.units import PS_PER_S
from p4reduce.fabric.access import frame_at, link_at
from p4reduce.fabric.kernels.cells import drop_frame, frame_address, take_frame
from p4reduce.fabric.kernels.draws import draw, happens
from p4reduce.fabric.kernels.events import next_seq, push, schedule
from p4reduce.fabric.kernels.jit import kernel
from p4reduce.fabric.kernels.taps import INC_FIRST, INC_RESEND, classify, note, record
from p4reduce.fabric.records import (
    ARRIVAL,
    DRAW_CORRUPT,
    DRAW_DELAY,
    DRAW_DUPLICATE,
    DRAW_LOSS,
    DRAW_REORDER,
    DUPLICATED,
    EVENT_KINDS,
    FIRST_COPY,
    LATE_ARRIVAL,
    LINK_FREE,
    LOST,
    SECOND_COPY,
)
from p4reduce.native.memory import copy_bytes

MIN_FRAME: Final = 60
"""shorter frames are padded on the link"""
OVERHEAD: Final = 24
"""preamble 8, frame check sequence 4, inter-frame gap 12"""
BIT_PS: Final = 8 * PS_PER_S
"""picoseconds of a byte at 1 bit/s"""
_ONE: Final = np.uint64(1)
_IN_TIME: Final = np.int64(0)


@kernel
def serialization_ps(link: Any, length: int) -> int:
    """ceil((max(length, 60) + 24) * 8 * 10^12 / rate): how long a frame occupies the link; 0 on one without a rate."""
    if link.rate_bps == 0:
        return 0
    if length != link.last_length:
        link.last_length = length
        link.last_ps = ((max(length, MIN_FRAME) + OVERHEAD) * BIT_PS + link.rate_bps - 1) // link.rate_bps
    return link.last_ps  # type: ignore[no-any-return]


@kernel
def wake_when_free(w: Any, link_index: int) -> None:
    """Have the sender look again when the link is free."""
    link = link_at(w.links, link_index)
    if link.waking == 0:
        link.waking = 1
        schedule(w, max(link.free_at, w.now), link_index * EVENT_KINDS + LINK_FREE)


@kernel
def _propagate(w: Any, link_index: int, frame_index: int, extra_ps: int) -> None:
    """Let a frame travel. Those in order wait behind each other, and only the first has an event."""
    link = link_at(w.links, link_index)
    frame = frame_at(w.frames, frame_index)
    frame.link = link_index
    frame.time = link.free_at + link.delay_ps + extra_ps
    frame.seq = next_seq(w)
    frame.next = -1
    if extra_ps > 0:
        push(w, frame.time, frame.seq, frame_index * EVENT_KINDS + LATE_ARRIVAL)
    elif link.wire_head < 0:
        link.wire_head = frame_index
        link.wire_tail = frame_index
        push(w, frame.time, frame.seq, link_index * EVENT_KINDS + ARRIVAL)
    else:
        frame_at(w.frames, link.wire_tail).next = frame_index
        link.wire_tail = frame_index


@kernel
def _meet_fate(w: Any, link_index: int, frame_index: int, number: Any, first_purpose: int) -> None:
    """One copy of a frame: lost, damaged or late, each with its own probability and draw."""
    link = link_at(w.links, link_index)
    if happens(link, number, first_purpose + DRAW_LOSS, link.p_loss):
        link.lost += 1
        note(w, link_index, frame_address(w, frame_index), frame_at(w.frames, frame_index).length, LOST)
        drop_frame(w, frame_index)
        return
    if happens(link, number, first_purpose + DRAW_CORRUPT, link.p_corrupt):
        frame_at(w.frames, frame_index).damaged = 1
    extra_ps = _IN_TIME
    if happens(link, number, first_purpose + DRAW_REORDER, link.p_reorder):
        link.reordered += 1
        random = draw(link, number, first_purpose + DRAW_DELAY)
        extra_ps = np.int64(_ONE + random % np.uint64(link.extra_delay_ps))
    _propagate(w, link_index, frame_index, extra_ps)


@kernel
def _with_faults(w: Any, link_index: int, frame_index: int) -> None:
    link = link_at(w.links, link_index)
    number = link.draws
    link.draws = number + _ONE
    if happens(link, number, DRAW_DUPLICATE, link.p_duplicate):
        link.duplicated += 1
        length = frame_at(w.frames, frame_index).length
        twin = take_frame(w)
        frame_at(w.frames, twin).length = length
        frame_at(w.frames, twin).node = frame_at(w.frames, frame_index).node
        frame_at(w.frames, twin).port = frame_at(w.frames, frame_index).port
        copy_bytes(frame_address(w, twin), frame_address(w, frame_index), length)
        note(w, link_index, frame_address(w, twin), length, DUPLICATED)
        _meet_fate(w, link_index, frame_index, number, FIRST_COPY)
        _meet_fate(w, link_index, twin, number, SECOND_COPY)
    else:
        _meet_fate(w, link_index, frame_index, number, FIRST_COPY)


@kernel
def _count(link: Any, address: int, length: int, busy: int) -> None:
    link.busy_ps += busy
    link.frames += 1
    link.bytes += length
    traffic = classify(address, length)
    if traffic == INC_FIRST:
        link.inc_first_frames += 1
        link.inc_first_bytes += length
    elif traffic == INC_RESEND:
        link.inc_resend_frames += 1
        link.inc_resend_bytes += length


@kernel
def pass_on(w: Any, link_index: int, frame_index: int, busy: int) -> None:
    """A frame whose last bit leaves a mirror now goes on; a fibre takes it as it comes, nothing is sent once more."""
    link = link_at(w.links, link_index)
    link.free_at = w.now
    _count(link, frame_address(w, frame_index), frame_at(w.frames, frame_index).length, busy)
    _propagate(w, link_index, frame_index, _IN_TIME)


@kernel
def send(w: Any, link_index: int, frame_index: int, length: int) -> None:
    """Put a frame on a link that is free now."""
    link = link_at(w.links, link_index)
    frame_at(w.frames, frame_index).length = length
    address = frame_address(w, frame_index)
    busy = serialization_ps(link, length)
    link.free_at = w.now + busy
    _count(link, address, length, busy)
    if link.optical != 0:
        frame_at(w.frames, frame_index).node = busy
    if link.tap_source >= 0:
        record(w, link.tap_source, w.now, address, length)
    if link.faulty != 0:
        _with_faults(w, link_index, frame_index)
    else:
        _propagate(w, link_index, frame_index, _IN_TIME)
