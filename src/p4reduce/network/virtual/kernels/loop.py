"""The event loop: takes the first event, lets it happen, until there is a reason to go back to Python."""

from typing import Any, Final

import numpy as np

from p4reduce.network.virtual.kernels import entry, kernel
from p4reduce.network.virtual.kernels.events import (
    drop_frame,
    drop_phv,
    frame_address,
    next_seq,
    note,
    phv_address,
    prefetch_frame,
    push_to,
    record,
    remove_first,
    replace_first,
    schedule,
    take_frame,
    take_phv,
)
from p4reduce.network.virtual.kernels.wires import (
    NO_RID,
    come_back,
    cross,
    darken,
    depart,
    light,
    output,
    replicate,
    schedule_last,
    send,
    to_session,
    wake_when_free,
)
from p4reduce.network.virtual.records import (
    ACTIVE,
    ARRIVAL,
    CIRCUIT,
    CONTROLLER_TAP,
    CORRUPTED,
    ENOUGH_EVENTS,
    ENTRY,
    EVENT_BITS,
    EVENT_KINDS,
    GATE,
    HOME_BIT,
    LATE_ARRIVAL,
    LIGHT,
    LINK_FREE,
    NEED_SPACE,
    NEVER,
    NO_EVENTS,
    NO_LIMIT,
    PAUSE,
    REACHED_TIME,
    RESUME,
    RETURN,
    SEND,
    START,
    TIMER,
    WATCHED_DONE,
    WORLD,
    call5,
    cell_at,
    endpoint_at,
    event_at,
    frame_at,
    io_at,
    link_at,
    node_at,
    part_at,
    phv_at,
    rota_at,
    session_at,
)
from p4switch.abi import (
    CLONE_VALID,
    DROP_PORT,
    INSTANCE_EGRESS_CLONE,
    INSTANCE_INGRESS_CLONE,
    INSTANCE_NORMAL,
    INSTANCE_RESUBMITTED,
)
from p4switch.base.values import PS_PER_US

# What a switch does with a frame that comes in: ingress, then replication into output queues.


UNICAST: Final = np.int64(INSTANCE_NORMAL)


@kernel
def ingress(
    w: Any, node_index: int, port: int, address: int, length: int, came_ps: int, instance: int, phv_index: int
) -> int:
    """Run ingress; the bytes used in the PHV, 0: nothing leaves, -1: too long a frame."""
    node = node_at(w.nodes, node_index)
    io = io_at(w.io, 0)
    io.in_port = port
    io.in_time_us = came_ps // PS_PER_US
    io.in_instance = instance
    return call5(node.ingress, node.state, address, length, w.io, phv_address(w, phv_index))  # type: ignore[no-any-return]


@kernel
def leave(w: Any, node_index: int, phv_index: int, used: int) -> None:
    """Do what ingress said."""
    # The cells of `io` are used again by egress, which may run before this function ends.
    io = io_at(w.io, 0)
    group = io.out_mcast_grp
    port_out = io.out_egress_spec
    priority = io.out_priority
    if used < 0 or (group == 0 and port_out == DROP_PORT):
        node_at(w.nodes, node_index).ingress_drops += 1
    elif group != 0:
        replicate(w, node_index, phv_index, group, priority)
    else:
        output(w, node_index, phv_index, port_out, NO_RID, UNICAST, priority)
    drop_phv(w, phv_index)


@kernel
def process_bytes(w: Any, node_index: int, port: int, address: int, length: int, came_ps: int) -> None:
    """Run the frame at ``address``, which came in at ``came_ps``, through ingress, and do what it says.

    For programs that stay on the straight path.
    """
    phv_index = take_phv(w)
    node_at(w.nodes, node_index).passes += 1
    leave(w, node_index, phv_index, ingress(w, node_index, port, address, length, came_ps, UNICAST, phv_index))


@kernel
def process(w: Any, node_index: int, port: int, frame_index: int, came_ps: int) -> None:
    """The same for a frame in a cell, which is given back."""
    phv_index = take_phv(w)
    address = frame_address(w, frame_index)
    length = frame_at(w.frames, frame_index).length
    node_at(w.nodes, node_index).passes += 1
    used = ingress(w, node_index, port, address, length, came_ps, UNICAST, phv_index)
    drop_frame(w, frame_index)
    leave(w, node_index, phv_index, used)


# Ingress of programs that clone, resubmit, recirculate, truncate or send digests (`p4switch/abi.py`).


_NORMAL: Final = np.int64(INSTANCE_NORMAL)
_INGRESS_CLONE: Final = np.int64(INSTANCE_INGRESS_CLONE)
_RESUBMITTED: Final = np.int64(INSTANCE_RESUBMITTED)
_NONE: Final = np.int64(0)


@kernel
def _clone(w: Any, node_index: int, port: int, frame_index: int, came_ps: int, session: int, field_list: int) -> None:
    """The frame as it came in is parsed again, for a session."""
    if session_at(node_at(w.nodes, node_index).sessions, session).exists == 0:
        return
    io = io_at(w.io, 0)
    io.in_field_list = field_list
    phv_index = take_phv(w)
    phv_at(w.phvs, phv_index).rounds = _NONE
    address = frame_address(w, frame_index)
    ingress(w, node_index, port, address, frame_at(w.frames, frame_index).length, came_ps, _INGRESS_CLONE, phv_index)
    to_session(w, node_index, phv_index, session, _INGRESS_CLONE, io.out_priority)
    drop_phv(w, phv_index)


@kernel
def _pass(
    w: Any, node_index: int, port: int, frame_index: int, came_ps: int, instance: int, field_list: int, rounds: int
) -> None:
    node = node_at(w.nodes, node_index)
    io = io_at(w.io, 0)
    phv_index = take_phv(w)
    phv_at(w.phvs, phv_index).rounds = rounds
    address = frame_address(w, frame_index)
    io.kept_address = address + w.kept_offset
    io.in_field_list = field_list
    length = frame_at(w.frames, frame_index).length
    node.passes += 1
    used = ingress(w, node_index, port, address, length, came_ps, instance, phv_index)
    if used < 0:  # too long a frame; nothing else was written
        node.ingress_drops += 1
        drop_phv(w, phv_index)
        drop_frame(w, frame_index)
        return
    group = io.out_mcast_grp
    egress_spec = io.out_egress_spec
    priority = io.out_priority
    resubmit = io.out_resubmit
    if io.out_digest != 0:
        node.digests += 1
        tap = CONTROLLER_TAP - node_index - w.node_count * io.out_digest
        record(w, tap, w.now, io.kept_address, w.kept_bytes)
    if io.out_clone != 0:
        _clone(w, node_index, port, frame_index, came_ps, io.out_clone & ~CLONE_VALID, io.out_clone_list)
    if resubmit != 0:
        node.resubmitted += 1
        drop_phv(w, phv_index)
        frame_at(w.frames, frame_index).port = port
        come_back(w, node_index, frame_index, _RESUBMITTED, resubmit, rounds + 1)
        return
    drop_frame(w, frame_index)
    io.out_mcast_grp = group
    io.out_egress_spec = egress_spec
    io.out_priority = priority
    leave(w, node_index, phv_index, used)


@kernel
def process_any(w: Any, node_index: int, port: int, frame_index: int, came_ps: int) -> None:
    """Run a frame that came in at ``came_ps`` through ingress, do what it says, and give its cell back."""
    if node_at(w.nodes, node_index).detours == 0:
        process(w, node_index, port, frame_index, came_ps)
    else:
        _pass(w, node_index, port, frame_index, came_ps, _NORMAL, _NONE, _NONE)


@kernel
def come_again(w: Any, frame_index: int) -> None:
    """A frame that was resubmitted or recirculated, or the packet of an egress clone (`egress.py`)."""
    frame = frame_at(w.frames, frame_index)
    node_index = frame.node
    instance = frame.link & 7
    named = frame.link >> 3
    if instance == INSTANCE_EGRESS_CLONE:
        phv_index = frame.seq
        session = frame.port
        drop_frame(w, frame_index)
        to_session(w, node_index, phv_index, session, instance, named)
        drop_phv(w, phv_index)
    else:
        _pass(w, node_index, frame.port, frame_index, w.now, instance, named, frame.seq)


# Hosts: endpoints take the frames that come in, and are asked for the next one whenever the link is free.
#
# A host has no queue of its own for them (a pull model): a frame is made when it can leave. Endpoints of the highest
# class are asked first, those of one class in turn. Only frames that Python sends (`VirtualNetwork.send`) wait in a
# list, and go before all.


OVERDUE_PS: Final = 1_000_000
"""after which an endpoint's timer goes off whose deadline is past already, so that time passes whatever it says"""


@kernel
def _settle(w: Any, index: int) -> None:
    """After an endpoint was given a turn: its timer and whether it still works."""
    endpoint = endpoint_at(w.endpoints, index)
    at = call5(w.deadline, w.endpoint_records, index, 0, 0, 0)
    if at < NEVER:
        if at <= w.now:
            at = w.now + OVERDUE_PS
        # A deadline that moves later needs no event: its timer finds that out when it goes off.
        if at < endpoint.timer_at:
            endpoint.timer_at = at
            schedule(w, at, index * EVENT_KINDS + TIMER)
    watched = endpoint.unfinished != 0 and endpoint.starting == 0
    if watched and call5(w.status, w.endpoint_records, index, 0, 0, 0) != ACTIVE:
        endpoint.unfinished = 0
        w.unfinished -= 1
        part_at(w.parts, endpoint.part).unfinished -= 1


@kernel
def _ask(w: Any, node: Any, frame_index: int) -> int:
    """Have a host's endpoints make the next frame, class by class; its length, 0 when none of them has one."""
    for place in range(node.first_rota, node.first_rota + node.classes):
        rota = rota_at(w.rotas, place)
        for _ in range(rota.count):
            index = cell_at(w.endpoint_lists, rota.first + rota.next).value
            rota.next += 1
            if rota.next == rota.count:
                rota.next = 0
            if endpoint_at(w.endpoints, index).started == 0 or endpoint_at(w.endpoints, index).paused != 0:
                continue
            length = call5(w.transmit, w.endpoint_records, index, w.now, frame_address(w, frame_index), w.max_frame)
            _settle(w, index)
            if length > 0:
                return length  # type: ignore[no-any-return]
    return 0


@kernel
def pump(w: Any, node_index: int) -> None:
    """Send a host's next frame, if its link is free and somebody has one."""
    node = node_at(w.nodes, node_index)
    link = link_at(w.links, node.link)
    if w.now < link.free_at:
        wake_when_free(w, node.link)
        return
    if node.send_head >= 0:
        frame_index = node.send_head
        frame = frame_at(w.frames, frame_index)
        node.send_head = frame.next
        send(w, node.link, frame_index, frame.length)
        wake_when_free(w, node.link)
        return
    frame_index = take_frame(w)
    length = _ask(w, node, frame_index)
    if length > 0:
        send(w, node.link, frame_index, length)
        wake_when_free(w, node.link)
    else:
        drop_frame(w, frame_index)


@kernel
def deliver(w: Any, node_index: int, frame_index: int) -> None:
    """Offer a frame that came in to the host's endpoints, until one takes it."""
    node = node_at(w.nodes, node_index)
    length = frame_at(w.frames, frame_index).length
    address = frame_address(w, frame_index)
    claimed = 0
    for place in range(node.first_endpoint, node.first_endpoint + node.endpoints):
        index = cell_at(w.endpoint_lists, place).value
        if call5(w.receive, w.endpoint_records, index, address, length, w.now) != 0:
            claimed = 1
            _settle(w, index)
            break
    drop_frame(w, frame_index)
    if claimed == 0:
        node.unclaimed += 1
        return
    node.claimed += 1
    pump(w, node_index)


@kernel
def start(w: Any, index: int) -> None:
    """From now on an endpoint is asked for frames."""
    endpoint = endpoint_at(w.endpoints, index)
    endpoint.started = 1
    endpoint.starting -= 1
    _settle(w, index)
    pump(w, endpoint.host)


@kernel
def go_off(w: Any, index: int) -> None:
    """An endpoint's timer, unless an earlier or later one took its place."""
    endpoint = endpoint_at(w.endpoints, index)
    if endpoint.timer_at != w.now:
        return
    endpoint.timer_at = NEVER
    if endpoint.paused != 0:
        return
    if call5(w.deadline, w.endpoint_records, index, 0, 0, 0) <= w.now:
        call5(w.expire, w.endpoint_records, index, w.now, 0, 0)
        _settle(w, index)
        pump(w, endpoint.host)
    else:
        _settle(w, index)


@kernel
def pause(w: Any, index: int) -> None:
    """An endpoint sends nothing from now on; what comes in is taken in."""
    endpoint = endpoint_at(w.endpoints, index)
    if endpoint.paused == 0:
        endpoint.paused = 1
        endpoint.paused_at = w.now


@kernel
def resume(w: Any, index: int) -> None:
    """It goes on, its timers as they stood."""
    endpoint = endpoint_at(w.endpoints, index)
    if endpoint.paused == 0:
        return
    endpoint.paused = 0
    if w.resume != 0:
        call5(w.resume, w.endpoint_records, index, w.now - endpoint.paused_at, 0, 0)
    _settle(w, index)
    pump(w, endpoint.host)


@kernel
def submit(w: Any, frame_index: int) -> None:
    """Append a frame of Python's to its host's list."""
    frame = frame_at(w.frames, frame_index)
    node = node_at(w.nodes, frame.node)
    frame.next = -1
    if node.send_head < 0:
        node.send_head = frame_index
    else:
        frame_at(w.frames, node.send_tail).next = frame_index
    node.send_tail = frame_index
    pump(w, frame.node)


@kernel
def has_space(w: Any) -> bool:
    """Whether there is room for all that one event can do (`memory.py`)."""
    return (  # type: ignore[no-any-return]
        w.free_frames >= w.frames_wanted
        and w.free_copies >= w.copies_wanted
        and w.free_phvs >= w.phvs_wanted
        and w.heap_capacity - w.heap_size >= w.events_wanted
        and w.homeless_count == 0
        and w.incident_limit - w.incident_count >= w.incidents_wanted
        and w.tap_used <= w.tap_limit
    )


@kernel
def _enter(w: Any, node_index: int, port: int, frame_index: int) -> None:
    """A frame is at a node's port, whole and undamaged."""
    node = node_at(w.nodes, node_index)
    if node.is_switch == 0:
        deliver(w, node_index, frame_index)
    elif node.delay_ps == 0:
        process_any(w, node_index, port, frame_index, w.now)
    else:
        frame = frame_at(w.frames, frame_index)
        frame.node = node_index
        frame.port = port
        frame.time = w.now
        schedule(w, w.now + node.delay_ps, frame_index * EVENT_KINDS + ENTRY)


@kernel
def _enter_now(w: Any, frame_index: int) -> None:
    """A frame is through with its switch's delay, or was injected."""
    frame = frame_at(w.frames, frame_index)
    if node_at(w.nodes, frame.node).is_switch == 0:
        deliver(w, frame.node, frame_index)
    else:
        process_any(w, frame.node, frame.port, frame_index, frame.time)


@kernel
def _arrive(w: Any, frame_index: int) -> None:
    """The last bit of a frame is at the other end of its link."""
    frame = frame_at(w.frames, frame_index)
    link = link_at(w.links, frame.link)
    if frame.damaged != 0:
        link.corrupted += 1
        note(w, frame.link, frame_address(w, frame_index), frame.length, CORRUPTED)
        drop_frame(w, frame_index)
        return
    if link.optical != 0:
        cross(w, frame_index)
        return
    link.delivered += 1
    if link.tap_target >= 0:
        record(w, link.tap_target, w.now, frame_address(w, frame_index), frame.length)
    _enter(w, link.target, link.target_port, frame_index)


@kernel
def first_on_wire(w: Any, link_index: int) -> int:
    """Take the first frame off a wire; the next one's arrival becomes an event in its place."""
    link = link_at(w.links, link_index)
    frame_index = link.wire_head
    following = frame_at(w.frames, frame_index).next
    link.wire_head = following
    if following >= 0:
        frame = frame_at(w.frames, following)
        what = (link.target_part << HOME_BIT) + link_index * EVENT_KINDS + ARRIVAL
        replace_first(w, frame.time, frame.since, frame.seq, what)
        prefetch_frame(w, following)
    else:
        remove_first(w)
    return frame_index  # type: ignore[no-any-return]


@kernel
def _link_free(w: Any, link_index: int) -> None:
    link = link_at(w.links, link_index)
    link.waking = 0
    if node_at(w.nodes, link.source).is_switch == 0:
        pump(w, link.source)
    elif w.now >= link.free_at:
        depart(w, link_index)
    elif link.backlog != 0:
        wake_when_free(w, link_index)


@kernel
def _gate_opens(w: Any, link_index: int) -> None:
    link = link_at(w.links, link_index)
    if link.gate_at != w.now:
        return
    link.gate_at = 0
    if w.now >= link.free_at:
        depart(w, link_index)
    elif link.backlog != 0:
        wake_when_free(w, link_index)


# Events of Python's.


@kernel
def _home(w: Any, what: int) -> int:
    """The partition in which an event happens."""
    kind = what & (EVENT_KINDS - 1)
    index = what >> EVENT_BITS
    if kind in (START, PAUSE, RESUME):
        return endpoint_at(w.endpoints, index).part  # type: ignore[no-any-return]
    if kind == GATE:
        return link_at(w.links, index).source_part  # type: ignore[no-any-return]
    return node_at(w.nodes, frame_at(w.frames, index).node).part  # type: ignore[no-any-return]


@kernel
def _add(w: Any, time: int, what: int) -> None:
    home = _home(w, what)
    w.scope = home
    push_to(w, home, time, w.now, next_seq(w), what + (home << HOME_BIT))
    _note_first(w)


@entry(WORLD, int, int)
def add_event(worlds: Any, time: int, what: int) -> None:
    """Have an entry, a start or the like happen at a time."""
    _add(worlds[0], time, what)


@entry(WORLD, int, int)
def add_last(worlds: Any, time: int, what: int) -> None:
    """Have mirrors turn, behind all else that happens at that time."""
    schedule_last(worlds[0], time, what)


@entry(WORLD, int, int, int)
def start_all(worlds: Any, time: int, indices: int, count: int) -> int:
    """Start endpoints, whose indices are at an address; how many there was space for."""
    w = worlds[0]
    for place in range(count):
        if w.homeless_count > 0 or w.heap_capacity - w.heap_size < w.events_wanted:
            return place
        index = cell_at(indices, place).value
        endpoint_at(w.endpoints, index).starting += 1
        _add(w, time, index * EVENT_KINDS + START)
    return count


# Windows.
#
# A switch and its hosts are a partition, and partitions have a heap of events each, whose memory stays in the
# processor's cache. What one does reaches another after the delay of a link at the earliest. So a window as long as the
# shortest of these delays is open for one partition after the other, and what it sends to others lies behind the
# window's end (conservative windows: Nicol, "The cost of conservative synchronization in parallel discrete event
# simulations", J. ACM 40, 1993). What concerns all partitions, mirrors that turn, happens between two windows.
#
# A run that watches endpoints ends with the very event with which the last of them is done, and nothing that comes
# later may have happened. A window that is sure to contain no such event is one that a partition has run through and
# still has a watched endpoint that works. So one such partition, the sentinel, has the first turn; where it is done
# within the window, it stands still at that event, and the next one with such endpoints has its turn. Where all are
# done, partitions go on as far as the latest of these events.


_CLOSED: Final = np.int64(0)
"""stages of a window: none is open,"""
_SENTINEL: Final = np.int64(1)
"""partitions with watched endpoints have their turns,"""
_OTHERS: Final = np.int64(2)
"""all of them have,"""
_STOPPING: Final = np.int64(3)
"""all of them have, up to the last event of the run"""
_NO_FIRST: Final = np.int64(NEVER)
_OPENED: Final = np.int64(-1)


@kernel
def _note_first(w: Any) -> None:
    """The first time in the heap in use, which others see."""
    cell_at(w.firsts, w.part).value = event_at(w.heap, 0).time if w.heap_size > 0 else _NO_FIRST


@kernel
def _leave_part(w: Any) -> None:
    part_at(w.parts, w.part).heap_size = w.heap_size
    _note_first(w)
    w.latest = max(w.latest, w.now)


@kernel
def _use_part(w: Any, index: int) -> None:
    if w.part != index:
        _leave_part(w)
        part = part_at(w.parts, index)
        w.heap = part.heap
        w.heap_size = part.heap_size
        w.heap_capacity = part.heap_capacity
        w.part = index


@kernel
def _happen(w: Any) -> None:
    """Take the first event of the heap in use, and let it happen."""
    event = event_at(w.heap, 0)
    what = event.what
    w.events += 1
    w.now = event.time
    w.scope = what >> HOME_BIT
    kind = what & (EVENT_KINDS - 1)
    index = (what & ((1 << HOME_BIT) - 1)) >> EVENT_BITS
    if kind == ARRIVAL:
        _arrive(w, first_on_wire(w, index))
        return
    remove_first(w)
    if kind == LINK_FREE:
        _link_free(w, index)
    elif kind == LATE_ARRIVAL:
        _arrive(w, index)
    elif kind == TIMER:
        go_off(w, index)
    elif kind == START:
        start(w, index)
    elif kind == ENTRY:
        _enter_now(w, index)
    elif kind == SEND:
        submit(w, index)
    elif kind == RETURN:
        come_again(w, index)
    elif kind == CIRCUIT:
        darken(w, index)
    elif kind == LIGHT:
        light(w, index)
    elif kind == GATE:
        _gate_opens(w, index)
    elif kind == PAUSE:
        pause(w, index)
    elif kind == RESUME:
        resume(w, index)


@kernel
def _for_all(w: Any) -> bool:
    """Let what is first of what concerns all partitions happen; False: there is no space for it."""
    before = w.part
    _use_part(w, w.part_count)
    enough = has_space(w)
    if enough:
        _happen(w)
    _use_part(w, before)
    return enough  # type: ignore[no-any-return]


@kernel
def _one_heap(w: Any, last: int) -> int:
    """All events in one heap, in their order."""
    while True:
        common = cell_at(w.firsts, w.part_count).value
        end = min(w.until, common)
        while True:
            if w.watching != 0 and w.unfinished <= 0:
                return WATCHED_DONE
            if w.heap_size == 0 or event_at(w.heap, 0).time > end:
                break
            if w.events >= last:
                return ENOUGH_EVENTS
            if not has_space(w):
                return NEED_SPACE
            _happen(w)
        if common > w.until:
            if w.heap_size > 0 or common < NEVER:
                w.now = max(w.now, w.until)
                return REACHED_TIME
            if w.until < NO_LIMIT:
                w.now = max(w.now, w.until)
            return NO_EVENTS
        if w.events >= last:
            return ENOUGH_EVENTS
        if not _for_all(w):
            return NEED_SPACE


@kernel
def _is_later(w: Any, time: int, since: int, seq: int) -> bool:
    """Whether an event comes after the last one of the run, as far as is known."""
    if time != w.stop_time:
        return time > w.stop_time  # type: ignore[no-any-return]
    return since > w.stop_since or (since == w.stop_since and seq > w.stop_seq)  # type: ignore[no-any-return]


@kernel
def _go_on(w: Any, index: int) -> bool:
    """Let a partition have its turn; False: there is no space."""
    _use_part(w, index)
    part = part_at(w.parts, index)
    enough = True
    while w.heap_size > 0:
        event = event_at(w.heap, 0)
        time = event.time
        since = event.since
        seq = event.seq
        if time >= w.window_end and (w.stage != _STOPPING or _is_later(w, time, since, seq)):
            break
        enough = has_space(w)
        if not enough:
            break
        _happen(w)
        if w.stage == _SENTINEL and part.unfinished == 0:
            if _is_later(w, time, since, seq):
                w.stop_time = time
                w.stop_since = since
                w.stop_seq = seq
            break
    _leave_part(w)
    return enough


@kernel
def _open(w: Any, last: int) -> Any:
    """Open the next window, or say why there is none, and let happen what concerns all partitions before it."""
    if w.watching != 0 and w.unfinished <= 0:
        return WATCHED_DONE
    while True:
        first = _NO_FIRST
        for index in range(w.part_count):
            first = min(first, cell_at(w.firsts, index).value)
        common = cell_at(w.firsts, w.part_count).value
        if min(first, common) > w.until:
            w.now = w.latest
            if w.until < NO_LIMIT or min(first, common) < NEVER:
                w.now = max(w.now, w.until)
            return REACHED_TIME if min(first, common) < NEVER else NO_EVENTS
        if w.events >= last:
            return ENOUGH_EVENTS
        if first <= common:
            break
        if not _for_all(w):
            return NEED_SPACE
    w.window_end = min(first + w.lookahead, w.until + 1, common + 1)
    w.next_part = 0
    w.stage = _OTHERS if w.watching == 0 else _SENTINEL
    return _OPENED


@kernel
def _watch(w: Any) -> bool:
    """The turns of those that have watched endpoints, up to the first that still has some; False: no space."""
    while w.sentinel < w.part_count:
        if part_at(w.parts, w.sentinel).unfinished > 0:
            if cell_at(w.firsts, w.sentinel).value < w.window_end and not _go_on(w, w.sentinel):
                return False
            if part_at(w.parts, w.sentinel).unfinished > 0:
                w.stage = _OTHERS
                return True
        w.sentinel += 1
    w.stage = _STOPPING
    w.window_end = w.stop_time
    return True


@kernel
def _windows(w: Any, last: int) -> int:
    """A heap for each partition, in windows."""
    while True:
        if w.stage == _CLOSED:
            reason = _open(w, last)
            if reason != _OPENED:
                return reason  # type: ignore[no-any-return]
        if w.stage == _SENTINEL and not _watch(w):
            return NEED_SPACE
        while w.next_part < w.part_count:
            if cell_at(w.firsts, w.next_part).value <= w.window_end and not _go_on(w, w.next_part):
                return NEED_SPACE
            w.next_part += 1
        stopping = w.stage == _STOPPING
        w.stage = _CLOSED
        if stopping:
            w.now = w.stop_time
            return WATCHED_DONE


@entry(WORLD, int)
def run(worlds: Any, most_events: int) -> int:
    """Let events happen; one of the reasons in `records.py`."""
    w = worlds[0]
    last = w.events + most_events
    if w.heaps == 1:
        return _one_heap(w, last)  # type: ignore[no-any-return]
    w.latest = max(w.latest, w.now)
    reason = _windows(w, last)
    if reason in (ENOUGH_EVENTS, NEED_SPACE):
        w.now = w.latest
    return reason  # type: ignore[no-any-return]
