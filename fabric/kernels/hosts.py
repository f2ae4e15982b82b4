"""Hosts: endpoints take the frames that come in, and are asked for the next one whenever the link is free.

A host has no queue of its own for them (a pull model): a frame is made when it can leave. Endpoints of the highest
class are asked first, those of one class in turn. Only frames that Python sends (`VirtualNetwork.send`) wait in a list,
and go before all.
"""

from typing import Any, Final

from p4reduce.fabric.access import call5, cell_at, endpoint_at, frame_at, link_at, node_at, rota_at
from p4reduce.fabric.kernels.cells import drop_frame, frame_address, take_frame
from p4reduce.fabric.kernels.events import schedule
from p4reduce.fabric.kernels.jit import kernel
from p4reduce.fabric.kernels.wires import send, wake_when_free
from p4reduce.fabric.records import ACTIVE, EVENT_KINDS, NEVER, TIMER

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
