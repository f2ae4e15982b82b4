"""An optical cross-connect: mirrors that join its ports in pairs, and are dark while they turn.

A frame comes to a mirror bit by bit while its switch sends it, a fibre's delay later; the mirror adds no time and keeps
nothing. So the event at a cross-connect is that of a frame's *last* bit, and the question whether its port has been
lit, on the same circuit, since the first one. Mirrors turn behind all else that happens at their time: a frame whose
last bit has passed by then is through.
"""

from typing import Any

from p4reduce.fabric.access import frame_at, link_at, mirror_at, reconfiguration_at, turn_at
from p4reduce.fabric.kernels.cells import drop_frame, frame_address
from p4reduce.fabric.kernels.events import next_seq, push
from p4reduce.fabric.kernels.jit import kernel
from p4reduce.fabric.kernels.taps import next_node, note
from p4reduce.fabric.kernels.wires import pass_on
from p4reduce.fabric.records import EVENT_KINDS, LAST, LIGHT, LOST, NONE


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
