"""The event loop: takes the first event, lets it happen, until there is a reason to go back to Python."""

from typing import Any

from p4reduce.fabric.access import event_at, frame_at, link_at, node_at
from p4reduce.fabric.kernels.cells import drop_frame, frame_address, prefetch_frame
from p4reduce.fabric.kernels.circuits import cross, darken, light, schedule_last
from p4reduce.fabric.kernels.detours import come_again, process_any
from p4reduce.fabric.kernels.events import remove_first, replace_first, schedule
from p4reduce.fabric.kernels.hosts import deliver, go_off, pause, pump, resume, start, submit
from p4reduce.fabric.kernels.jit import entry, kernel
from p4reduce.fabric.kernels.queues import depart
from p4reduce.fabric.kernels.taps import note, record
from p4reduce.fabric.kernels.wires import wake_when_free
from p4reduce.fabric.records import (
    ARRIVAL,
    CIRCUIT,
    CORRUPTED,
    ENOUGH_EVENTS,
    ENTRY,
    EVENT_BITS,
    EVENT_KINDS,
    GATE,
    LATE_ARRIVAL,
    LIGHT,
    LINK_FREE,
    NEED_SPACE,
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
)


@kernel
def has_space(w: Any) -> bool:
    """Whether there is room for all that one event can do (`memory.py`)."""
    return (  # type: ignore[no-any-return]
        w.free_frames >= w.frames_wanted
        and w.free_copies >= w.copies_wanted
        and w.free_phvs >= w.phvs_wanted
        and w.heap_capacity - w.heap_size >= w.events_wanted
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
        replace_first(w, frame.time, frame.seq, link_index * EVENT_KINDS + ARRIVAL)
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


@entry(WORLD, int, int)
def add_event(worlds: Any, time: int, what: int) -> None:
    """An event of Python's."""
    schedule(worlds[0], time, what)


@entry(WORLD, int, int)
def add_last(worlds: Any, time: int, what: int) -> None:
    """The same, behind all others of its time."""
    schedule_last(worlds[0], time, what)


@entry(WORLD, int)
def run(worlds: Any, most_events: int) -> int:
    """Let events happen; one of the reasons in `records.py`."""
    w = worlds[0]
    last = w.events + most_events
    while True:
        if w.watching != 0 and w.unfinished <= 0:
            return WATCHED_DONE
        if w.heap_size == 0:
            if w.until < NO_LIMIT:
                w.now = max(w.now, w.until)
            return NO_EVENTS
        event = event_at(w.heap, 0)
        if event.time > w.until:
            w.now = max(w.now, w.until)
            return REACHED_TIME
        if w.events >= last:
            return ENOUGH_EVENTS
        if not has_space(w):
            return NEED_SPACE
        w.events += 1
        w.now = event.time
        kind = event.what & (EVENT_KINDS - 1)
        index = event.what >> EVENT_BITS
        if kind == ARRIVAL:
            _arrive(w, first_on_wire(w, index))
            continue
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
