"""A link: how long a frame is on it, what can go wrong on it, and when its sender may go on."""

from typing import Any, Final

import numpy as np

from p4reduce.network.virtual.kernels.events import (
    INC_FIRST,
    INC_RESEND,
    classify,
    draw,
    drop_frame,
    frame_address,
    happens,
    next_node,
    next_seq,
    note,
    push,
    record,
    schedule,
    take_frame,
)
from p4reduce.network.virtual.kernels.jit import kernel
from p4reduce.network.virtual.records import (
    ARRIVAL,
    DRAW_CORRUPT,
    DRAW_DELAY,
    DRAW_DUPLICATE,
    DRAW_LOSS,
    DRAW_REORDER,
    DUPLICATED,
    EVENT_KINDS,
    FIRST_COPY,
    GATE,
    LAST,
    LATE_ARRIVAL,
    LIGHT,
    LINK_FREE,
    LOST,
    NONE,
    SECOND_COPY,
    frame_at,
    gate_at,
    gate_list_at,
    link_at,
    mirror_at,
    reconfiguration_at,
    turn_at,
)
from p4switch.base.units import PS_PER_S
from p4switch.native.memory import copy_bytes

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


# An optical cross-connect: mirrors that join its ports in pairs, and are dark while they turn.
#
# A frame comes to a mirror bit by bit while its switch sends it, a fibre's delay later; the mirror adds no time and
# keeps nothing. So the event at a cross-connect is that of a frame's *last* bit, and the question whether its port
# has been lit, on the same circuit, since the first one. Mirrors turn behind all else that happens at their time: a
# frame whose last bit has passed by then is through.


@kernel
def schedule_last(w: Any, time: int, what: int) -> None:
    """Add an event behind all others of its time but those added so."""
    push(w, time, LAST + next_seq(w), what)


@kernel
def _light(w: Any, uplink: int) -> None:
    mirror = mirror_at(w.mirrors, uplink)
    mirror.dark = 0
    mirror.lit_at = w.now
    mirror.circuit = mirror.following


@kernel
def darken(w: Any, index: int) -> None:
    """A reconfiguration begins: ports whose circuits change are dark from now on, the others notice nothing."""
    reconfiguration = reconfiguration_at(w.reconfigurations, index)
    changed = 0
    for place in range(reconfiguration.first, reconfiguration.first + reconfiguration.count):
        turn = turn_at(w.turns, place)
        mirror = mirror_at(w.mirrors, turn.uplink)
        link = link_at(w.links, turn.uplink)
        if mirror.following == turn.circuit and link.rate_bps == turn.rate_bps:
            continue
        changed = 1
        mirror.following = turn.circuit
        link.rate_bps = turn.rate_bps
        link.last_length = NONE
        link.towards = turn.towards
        if reconfiguration.dark_ps == 0:
            _light(w, turn.uplink)
        else:
            mirror.dark = 1
            mirror.lit_at = w.now + reconfiguration.dark_ps
    if changed != 0 and reconfiguration.dark_ps > 0:
        schedule_last(w, w.now + reconfiguration.dark_ps, index * EVENT_KINDS + LIGHT)


@kernel
def light(w: Any, index: int) -> None:
    """It ends, for those ports that none which began later has made dark for longer."""
    reconfiguration = reconfiguration_at(w.reconfigurations, index)
    for place in range(reconfiguration.first, reconfiguration.first + reconfiguration.count):
        uplink = turn_at(w.turns, place).uplink
        mirror = mirror_at(w.mirrors, uplink)
        if mirror.dark != 0 and mirror.lit_at <= w.now:
            _light(w, uplink)


@kernel
def cross(w: Any, frame_index: int) -> None:
    """A frame's last bit is at its mirror: the frame goes on to the circuit's other end, or is lost."""
    frame = frame_at(w.frames, frame_index)
    link = link_at(w.links, frame.link)
    mirror = mirror_at(w.mirrors, frame.link)
    occupied = frame.node
    if mirror.dark != 0 or mirror.circuit == NONE or w.now - occupied < mirror.lit_at:
        link.dark_lost += 1
        note(w, frame.link, frame_address(w, frame_index), frame.length, LOST)
        drop_frame(w, frame_index)
        return
    link.delivered += 1
    meant = next_node(w, frame_address(w, frame_index))
    if meant < 0:
        meant = frame.port
    if meant != link_at(w.links, mirror.circuit).target:
        link.misrouted += 1
    pass_on(w, mirror.circuit, frame_index, occupied)


# Gate control lists (IEEE 802.1Qbv): at which times a port's queues may send.
#
# A frame leaves only while its queue's gate stays open for as long as the longest frame takes: how long the frame at
# hand is, egress has yet to say. A list repeats for ever; a closed queue keeps what it has.


@kernel
def open_queues(w: Any, link_index: int, time: int) -> int:
    """The queues (bits) whose gates are open at a time, and stay so until the longest frame has left."""
    link = link_at(w.links, link_index)
    gates = gate_list_at(w.gate_lists, link.gates - 1)
    offset = (time - gates.base_ps) % gates.cycle_ps
    left = ((max(gates.longest, MIN_FRAME) + OVERHEAD) * BIT_PS + link.rate_bps - 1) // link.rate_bps
    place = gates.first
    while gate_at(w.gates, place).until_ps <= offset:
        place += 1
    found = gate_at(w.gates, place).queues
    seen = 0
    while seen < gates.count:
        left -= gate_at(w.gates, place).until_ps - offset
        if left <= 0:
            break
        offset = gate_at(w.gates, place).until_ps
        place += 1
        seen += 1
        if place == gates.first + gates.count:
            place = gates.first
            offset = 0
        found &= gate_at(w.gates, place).queues
    return found  # type: ignore[no-any-return]


@kernel
def wake_at_gate(w: Any, link_index: int) -> None:
    """Have a port look again when a gate opens for something that it has; if that never happens, not at all."""
    link = link_at(w.links, link_index)
    gates = gate_list_at(w.gate_lists, link.gates - 1)
    begin = w.now - (w.now - gates.base_ps) % gates.cycle_ps
    for step in range(2 * gates.count):
        turn = step // gates.count
        entry = gate_at(w.gates, gates.first + step % gates.count)
        time = begin + turn * gates.cycle_ps + entry.until_ps
        if time > w.now and open_queues(w, link_index, time) & link.backlog:
            if link.gate_at == 0 or time < link.gate_at or link.gate_at < w.now:
                link.gate_at = time
                schedule(w, time, link_index * EVENT_KINDS + GATE)
            return
