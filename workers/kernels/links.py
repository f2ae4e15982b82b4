"""Detection of losses on one link, compiled: each frame names the chunk of the previous frame on its link.

``ipv4.identification`` of a contribution, and of a switch's RESULT, is its seq minus that of the previous frame on the
same link, modulo 2**16. It is 0 in the first frame of an epoch or an iteration and in frames of hosts that add. Links
keep the order of frames, so a previous frame that has not arrived is lost. A worker then asks its switch for that
RESULT, and a switch asks its child for the contribution. The repair takes one round trip of the link, not of the tree.
Jobs whose chunks may overtake each other do not use this.
"""

from typing import Any

from p4reduce.workers.kernels import kernel
from p4reduce.workers.kernels.frames import identification_of, set_identification
from p4reduce.workers.kernels.recovery import miss_behind_gap
from p4reduce.workers.kernels.sender import NOTHING, entry_at
from p4reduce.workers.records import NEVER, EndpointKind

_WORKER = int(EndpointKind.WORKER)


@kernel
def number(e: Any, out: Any, seq: int, iteration: int) -> None:
    """Write the distance to the previous contribution into a contribution that leaves next."""
    if e.kind != _WORKER or e.reorder == NEVER:
        return
    if e.sent_seq != NOTHING and e.sent_iteration == iteration:
        set_identification(out, (seq - e.sent_seq) & 0xFFFF)
    e.sent_seq = seq
    e.sent_iteration = iteration


@kernel
def find_gap(e: Any, frame: Any, seq: int, now: int) -> None:
    """Ask for the RESULT that the switch sent before this one if it has not arrived."""
    behind = identification_of(frame)
    if behind == 0 or e.kind != _WORKER or e.reorder == NEVER:
        return
    e.numbered = 1
    before = seq - ((behind ^ 0x8000) - 0x8000)
    if e.low <= before < e.next and entry_at(e, before).seq == before:
        miss_behind_gap(e, entry_at(e, before), before, now)
