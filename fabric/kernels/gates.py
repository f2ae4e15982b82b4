"""Gate control lists (IEEE 802.1Qbv): at which times a port's queues may send.

A frame leaves only while its queue's gate stays open for as long as the longest frame takes: how long the frame at hand
is, egress has yet to say. A list repeats for ever; a closed queue keeps what it has.
"""

from typing import Any

from p4reduce.fabric.access import gate_at, gate_list_at, link_at
from p4reduce.fabric.kernels.events import schedule
from p4reduce.fabric.kernels.jit import kernel
from p4reduce.fabric.kernels.wires import BIT_PS, MIN_FRAME, OVERHEAD
from p4reduce.fabric.records import EVENT_KINDS, GATE


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
