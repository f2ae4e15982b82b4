"""What each frame says of the one before it on its link, compiled: a lost frame shows when the next one comes.

In ``ipv4.identification`` each contribution, and each RESULT of a switch, says how far the chunk of the frame that left
before it on the same link is behind its own, modulo 2**16. 0: it does not say; so do the first frame of an epoch or of
an iteration, and all frames of hosts that add. Links keep the order of frames: if what left before has not come, it is
lost. A worker then asks its switch for that RESULT in any case, and a switch asks for the contribution; a repair takes
one round trip of the link, not one of the tree. Jobs whose chunks may overtake each other do without.
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
    """Write into a contribution, which was just made and leaves next, how far the one before it is behind."""
    if e.kind != _WORKER or e.reorder == NEVER:
        return
    if e.sent_seq != NOTHING and e.sent_iteration == iteration:
        set_identification(out, (seq - e.sent_seq) & 0xFFFF)
    e.sent_seq = seq
    e.sent_iteration = iteration


@kernel
def find_gap(e: Any, frame: Any, seq: int, now: int) -> None:
    """Ask for the RESULT that the switch sent before this one, if it is lost."""
    behind = identification_of(frame)
    if behind == 0 or e.kind != _WORKER or e.reorder == NEVER:
        return
    e.numbered = 1
    before = seq - ((behind ^ 0x8000) - 0x8000)
    if e.low <= before < e.next and entry_at(e, before).seq == before:
        miss_behind_gap(e, entry_at(e, before), before, now)
