"""The event loop: process events in order until there is a reason to return to Python."""

from typing import Any, Final

import numpy as np

from p4reduce.network.virtual.kernels import entry, kernel
from p4reduce.network.virtual.kernels.events import (
    drop_frame,
    frame_address,
    next_seq,
    note,
    prefetch_frame,
    push_to,
    record,
    remove_first,
    replace_first,
    schedule,
)
from p4reduce.network.virtual.kernels.nodes import (
    come_again,
    deliver,
    go_off,
    pause,
    process_any,
    pump,
    resume,
    start,
    submit,
)
from p4reduce.network.virtual.kernels.wires import cross, darken, depart, light, schedule_last, wake_when_free
from p4reduce.network.virtual.records import (
    ARRIVAL,
    CACHE_LINE,
    CIRCUIT,
    COPY,
    CORRUPTED,
    ENOUGH_EVENTS,
    ENTRY,
    EVENT_BITS,
    EVENT_KINDS,
    FRAME,
    GATE,
    HOME_BIT,
    LATE_ARRIVAL,
    LIGHT,
    LINK_FREE,
    NEED_SPACE,
    NEVER,
    NO_EVENTS,
    NO_LIMIT,
    NONE,
    PAUSE,
    PHV,
    REACHED_TIME,
    RESUME,
    RETURN,
    SEND,
    START,
    TIMER,
    WATCHED_DONE,
    WORLD,
    cell_at,
    endpoint_at,
    event_at,
    frame_at,
    free_at,
    link_at,
    node_at,
    part_at,
    world_at,
)
from p4switch.native.memory import atomic_add, atomic_load, atomic_store, relax, sched_yield, thread_ns, usleep

_FRAME_BYTES: Final = np.int64(FRAME.itemsize)
_PHV_BYTES: Final = np.int64(PHV.itemsize)
_COPY_BYTES: Final = np.int64(COPY.itemsize)


@kernel
def has_space(w: Any) -> bool:
    """Return whether there is space for everything that one event can do (`memory.py`)."""
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
    """Process a frame at a node's port, whole and undamaged."""
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
    """Process a frame after its switch's delay, or an injected one."""
    frame = frame_at(w.frames, frame_index)
    if node_at(w.nodes, frame.node).is_switch == 0:
        deliver(w, frame.node, frame_index)
    else:
        process_any(w, frame.node, frame.port, frame_index, frame.time)


@kernel
def _arrive(w: Any, frame_index: int) -> None:
    """Process the arrival of a frame's last bit at the other end of its link."""
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
    """Take the first frame off a wire and return its index; replace its event by the next frame's arrival."""
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


# Events added by Python.


@kernel
def _home(w: Any, what: int) -> int:
    """Return the partition in which an event happens."""
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
    if w.part >= 0:
        _note_first(w)


@entry(WORLD, int, int)
def add_event(worlds: Any, time: int, what: int) -> None:
    """Add an event at a time."""
    _add(worlds[0], time, what)


@entry(WORLD, int, int)
def add_last(worlds: Any, time: int, what: int) -> None:
    """Add a turn of mirrors, after everything else at that time."""
    schedule_last(worlds[0], time, what)


@entry(WORLD, int, int, int)
def start_all(worlds: Any, time: int, indices: int, count: int) -> int:
    """Start the endpoints whose indices are at an address; return how many there was space for."""
    w = worlds[0]
    for place in range(count):
        if not _has_room(w):
            return place
        index = cell_at(indices, place).value
        endpoint_at(w.endpoints, index).starting += 1
        _add(w, time, index * EVENT_KINDS + START)
    return count


# Windows.
#
# A switch and its hosts are a partition. Each partition has its own heap of events, whose memory stays in the
# processor's cache. Its events affect another partition after the delay of a link at the earliest. So a window as long
# as the shortest of these delays is opened for all partitions, one after the other; frames to other partitions arrive
# after the window's end (conservative windows: Nicol, "The cost of conservative synchronization in parallel discrete
# event simulations", J. ACM 40, 1993) and stay with their link until all partitions have had their turns. Events that
# concern all partitions, turns of mirrors, happen between two windows.
#
# A run that watches endpoints must end with the very event with which the last of them is done, and no later event may
# have happened. A window is sure not to contain that event if some partition has run through it and still has a watched
# endpoint that works. So one such partition, the sentinel, has the first turn. If its endpoints get done within the
# window, it stops at that event, and the next partition with working watched endpoints has its turn. If all are done,
# the partitions continue up to the latest of these events.
#
# Threads share the turns of a window, except the sentinel's. Each has its own world, with free cells of the pools, its
# records for Python, and the heap in use. It takes its own partitions first, then those of other threads that have not
# been taken yet. Partitions share nothing while a window is open, so it does not matter which thread runs which
# partition.


_CLOSED: Final = np.int64(0)
"""Stage of a window: none is open."""
_SENTINEL: Final = np.int64(1)
"""Stage of a window: partitions with watched endpoints have their turns."""
_OTHERS: Final = np.int64(2)
"""Stage of a window: all partitions have their turns."""
_STOPPING: Final = np.int64(3)
"""Stage of a window: all partitions have their turns, up to the last event of the run."""
_NO_FIRST: Final = np.int64(NEVER)
_OPENED: Final = np.int64(-1)
_NO_PART: Final = np.int64(NONE)

_GATE: Final = 0
"""Cell of `signals`: number of the latest window that helpers may share, or _NO_MORE."""
_ARRIVED: Final = CACHE_LINE // 8
"""Cell of `signals`: number of helpers' turns that have ended."""
_TAKEN: Final = 2 * _ARRIVED
"""First cell of `signals` with, one cache line per thread, the number of the thread's own partitions already taken."""
_BLOCKS: Final = 16
"""Blocks of partitions for each thread, if there are enough partitions."""
_NO_MORE: Final = np.int64(NEVER)
_SPINS: Final = 400
_YIELDS: Final = 100
_NAP_US: Final = 50


@kernel
def _note_first(w: Any) -> None:
    """Publish the first event time of the heap in use to other threads."""
    cell_at(w.firsts, w.part).value = event_at(w.heap, 0).time if w.heap_size > 0 else _NO_FIRST


@kernel
def _leave_part(w: Any) -> None:
    part_at(w.parts, w.part).heap_size = w.heap_size
    _note_first(w)
    w.latest = max(w.latest, w.now)
    w.part = _NO_PART


@kernel
def _use_part(w: Any, index: int) -> None:
    part = part_at(w.parts, index)
    w.heap = part.heap
    w.heap_size = part.heap_size
    w.heap_capacity = part.heap_capacity
    w.part = index


@kernel
def _happen(w: Any) -> None:
    """Take the first event of the heap in use, and process it."""
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
    """Process the first event that concerns all partitions; return False if there is no space for it."""
    before = w.part
    if before >= 0:
        _leave_part(w)
    _use_part(w, w.part_count)
    enough = has_space(w)
    if enough:
        _happen(w)
    else:
        w.short = w.part
    _leave_part(w)
    if before >= 0:
        _use_part(w, before)
    return enough  # type: ignore[no-any-return]


@kernel
def _one_heap(w: Any, last: int) -> int:
    """Process all events in one heap, in order; return the reason for stopping."""
    if not bring(w):
        w.short = w.part
        return NEED_SPACE
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
                w.short = w.part
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
    """Return whether an event comes after the last one of the run that is known so far."""
    if time != w.stop_time:
        return time > w.stop_time  # type: ignore[no-any-return]
    return since > w.stop_since or (since == w.stop_since and seq > w.stop_seq)  # type: ignore[no-any-return]


@kernel
def _go_on(w: Any, index: int) -> bool:
    """Run a partition's turn in the window; return False if there is no space."""
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
            w.short = index
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
    """Process events that concern all partitions, then open the next window; return _OPENED or why the run stops."""
    if not bring(w):
        return NEED_SPACE
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
    w.stage = _OTHERS if w.watching == 0 else _SENTINEL
    return _OPENED


@kernel
def _watch(w: Any) -> bool:
    """Run the sentinels' turns, up to the first that still has a working watched endpoint; False: no space."""
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


# Merge between two windows: frames that partitions have sent to others, and counts of the threads.


@kernel
def _has_room(w: Any) -> bool:
    """Return whether there is space for one more event, in any heap."""
    return w.homeless_count == 0 and (w.part < 0 or w.heap_capacity - w.heap_size >= w.events_wanted)  # type: ignore[no-any-return]


@kernel
def bring(w: Any) -> bool:
    """Put frames between partitions on their wires and into heaps; return False if there is no space."""
    for thread in range(w.made):
        other = world_at(w.worlds, thread)
        while other.sent_link >= 0:
            if not _has_room(w):
                return False
            index = other.sent_link
            link = link_at(w.links, index)
            other.sent_link = link.sent_next
            if link.wire_head < 0:
                link.wire_head = link.sent_head
                frame = frame_at(w.frames, link.sent_head)
                what = (link.target_part << HOME_BIT) + index * EVENT_KINDS + ARRIVAL
                push_to(w, link.target_part, frame.time, frame.since, frame.seq, what)
            else:
                frame_at(w.frames, link.wire_tail).next = link.sent_head
            link.wire_tail = link.sent_tail
            link.sent_head = _NO_PART
        while other.sent_late >= 0:
            if not _has_room(w):
                return False
            index = other.sent_late
            frame = frame_at(w.frames, index)
            other.sent_late = frame.next
            home = link_at(w.links, frame.link).target_part
            what = (home << HOME_BIT) + index * EVENT_KINDS + LATE_ARRIVAL
            push_to(w, home, frame.time, frame.since, frame.seq, what)
        w.latest = max(w.latest, other.latest)
        if thread > 0:
            w.events += other.events
            w.unfinished += other.unfinished
            other.events = 0
            other.unfinished = 0
    return True


@kernel
def _cut(records: int, cell: int, first: int, count: int, onto: int) -> int:
    """Cut ``count`` cells off the free list at ``first``, append list ``onto`` to them, and return the list's rest."""
    at: Any = first
    for _ in range(count - 1):
        at = np.int64(free_at(records + at * cell, 0).next)
    last = free_at(records + at * cell, 0)
    rest: Any = np.int64(last.next)
    last.next = onto
    return rest  # type: ignore[no-any-return]


@kernel
def _even_out(w: Any) -> bool:
    """Redistribute free cells evenly among threads; return False if Python has to make space, in pools or elsewhere."""
    frames, phvs, copies = w.free_frames, w.free_phvs, w.free_copies
    for thread in range(1, w.threads):
        other = world_at(w.worlds, thread)
        frames += other.free_frames
        phvs += other.free_phvs
        copies += other.free_copies
    least = 2 * w.threads
    if frames < least * w.frames_wanted or phvs < least * w.phvs_wanted or copies < least * w.copies_wanted:
        return False
    frames //= w.threads
    phvs //= w.threads
    copies //= w.threads
    for thread in range(w.threads):
        poor = world_at(w.worlds, thread)
        for giver in range(w.threads):
            rich = world_at(w.worlds, giver)
            count = min(rich.free_frames - frames, frames - poor.free_frames)
            if count > 0:
                first = rich.free_frame
                rich.free_frame = _cut(w.frames, _FRAME_BYTES, first, count, poor.free_frame)
                poor.free_frame = first
                rich.free_frames -= count
                poor.free_frames += count
            count = min(rich.free_phvs - phvs, phvs - poor.free_phvs)
            if count > 0:
                first = rich.free_phv
                rich.free_phv = _cut(w.phvs, _PHV_BYTES, first, count, poor.free_phv)
                poor.free_phv = first
                rich.free_phvs -= count
                poor.free_phvs += count
            count = min(rich.free_copies - copies, copies - poor.free_copies)
            if count > 0:
                first = rich.free_copy
                rich.free_copy = _cut(w.copies, _COPY_BYTES, first, count, poor.free_copy)
                poor.free_copy = first
                rich.free_copies -= count
                poor.free_copies += count
    for thread in range(w.threads):
        other = world_at(w.worlds, thread)
        if other.short >= 0:
            _use_part(other, other.short)
            enough = has_space(other)
            other.part = _NO_PART
            if not enough:
                return False
    return True


# Threads.


@kernel
def _await(signals: int, place: int, wanted: int) -> int:
    """Wait until a signal is at least ``wanted``; return its value."""
    tries = 0
    while atomic_load(signals, place) < wanted:
        tries += 1
        if tries < _SPINS:
            relax()
        elif tries < _SPINS + _YIELDS:
            sched_yield()
        else:
            usleep(_NAP_US)
    return atomic_load(signals, place)  # type: ignore[no-any-return]


@kernel
def _spent_ns(w: Any) -> int:
    """Return this thread's processor time in ns if measured, otherwise 0."""
    if w.timed == 0:
        return np.int64(0)  # type: ignore[return-value]
    return thread_ns(w.signals + 8 * (_TAKEN + w.thread * _ARRIVED + 1))  # type: ignore[no-any-return]


@kernel
def _share(w: Any) -> None:
    """Run a thread's turns in the open window: its own partitions, then those that other threads have not taken yet.

    Blocks of neighbouring partitions alternate between threads, because partitions are numbered in the order of a
    topology's nodes, kind by kind.
    """
    began = _spent_ns(w)
    block = max(w.part_count // (w.threads * _BLOCKS), 1)
    for step in range(w.threads if w.timed == 0 else 1):
        thread = (w.thread + step) % w.threads
        while w.short < 0:
            taken = atomic_add(w.signals, _TAKEN + thread * _ARRIVED, 1)
            index = (taken // block * w.threads + thread) * block + taken % block
            if index >= w.part_count:
                break
            if cell_at(w.firsts, index).value <= w.window_end:
                _go_on(w, index)
    w.turns_ns = _spent_ns(w) - began


@kernel
def _all_turns(w: Any) -> bool:
    """Run the turns of all partitions in the open window; return False if there is no space."""
    while True:
        for thread in range(w.threads):
            world_at(w.worlds, thread).short = _NO_PART
            atomic_store(w.signals, _TAKEN + thread * _ARRIVED, 0)
        if w.threads > 1:
            w.opened += 1
            atomic_store(w.signals, _GATE, w.opened)
        began = _spent_ns(w)
        _share(w)
        if w.threads > 1:
            _await(w.signals, _ARRIVED, w.opened * (w.threads - 1))
        longest = np.int64(0)
        enough = True
        for thread in range(w.threads):
            other = world_at(w.worlds, thread)
            longest = max(longest, other.turns_ns)
            enough &= other.short < 0
        w.spared_ns += _spent_ns(w) - began - longest
        if enough:
            return True
        if w.threads == 1 or not _even_out(w):
            return False


@entry(WORLD, int)
def help_along(worlds: Any, thread: int) -> None:
    """Share the turns of every window with the main thread, until `release`."""
    w = worlds[thread]
    w.opened = 0
    while True:
        w.opened += 1
        if _await(w.signals, _GATE, w.opened) == _NO_MORE:
            return
        first = worlds[0]
        w.stage = first.stage
        w.window_end = first.window_end
        w.stop_time = first.stop_time
        w.stop_since = first.stop_since
        w.stop_seq = first.stop_seq
        _share(w)
        atomic_add(w.signals, _ARRIVED, 1)


@entry(WORLD)
def release(worlds: Any) -> None:
    """Make helpers return."""
    atomic_store(worlds[0].signals, _GATE, _NO_MORE)


@entry(WORLD)
def enlist(worlds: Any) -> None:
    """Reset the signals before helpers begin, so that no window is open for them."""
    w = worlds[0]
    w.opened = 0
    atomic_store(w.signals, _ARRIVED, 0)
    atomic_store(w.signals, _GATE, 0)


@kernel
def _windows(w: Any, last: int) -> int:
    """Process events in windows, with a heap for each partition; return the reason for stopping."""
    while True:
        if w.stage == _CLOSED:
            reason = _open(w, last)
            if reason != _OPENED:
                return reason  # type: ignore[no-any-return]
        if w.stage == _SENTINEL:
            w.opened += w.threads > 1  # its records come after those that helpers made in the window before
            enough = _watch(w)
            w.opened -= w.threads > 1
            if not enough:
                return NEED_SPACE
        if not _all_turns(w):
            return NEED_SPACE
        if w.stage == _STOPPING:
            w.now = w.stop_time
        w.stage = _CLOSED


@entry(WORLD, int)
def run(worlds: Any, most_events: int) -> int:
    """Process events; return one of the reasons in `records.py`."""
    w = worlds[0]
    last = w.events + most_events
    if w.heaps == 1:
        return _one_heap(w, last)  # type: ignore[no-any-return]
    w.latest = max(w.latest, w.now)
    reason = _windows(w, last)
    if reason in (ENOUGH_EVENTS, NEED_SPACE):
        w.now = w.latest
    return reason  # type: ignore[no-any-return]
