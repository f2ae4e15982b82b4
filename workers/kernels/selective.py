"""Selective acknowledgements of a stream, compiled: what has come beyond the first gap, and what that says of the rest.

While frames are missing, the receiver tells for every frame that was sent again, and for every ``_EVERY``-th new one,
which of 32 frames are in (as RFC 2018 does for TCP): those up to the frame that it tells for. That is a RESULT with
RESEND whose ``count`` is ``SELECTIVE`` plus how far its ``seq`` is beyond the first frame that is not in; bit i of
``iteration`` is frame ``seq`` + i. SATURATED: one was sent again for nothing.
The frames before the first missing one are in, so each of them is an acknowledgement, too.

The sender numbers transmissions. A frame that is named as missing is lost when ``reorder`` later transmissions are in
(RFC 9002, section 6.1.1): so a second copy that is lost, too, is found within a round trip, without the timer.
What is in does not count as being on its way: a gap does not hold the window.
"""

from typing import Any, Final

from p4reduce.workers import wire
from p4reduce.workers.kernels.frames import (
    RESEND,
    SATURATED,
    count_of,
    flags_of,
    iteration_of,
    seq_of,
    write_frame,
)
from p4reduce.workers.kernels.jit import kernel
from p4reduce.workers.kernels.sender import advance, entry_at, give_up, lose_by_order, mark_lost, settle
from p4reduce.workers.records import NEVER, EntryState, Refusal

_ANSWERED: Final = int(EntryState.ANSWERED)
_OUTSTANDING: Final = int(EntryState.OUTSTANDING)
_RESULT: Final = int(wire.PacketType.RESULT)
_WRONG_SEQ: Final = int(Refusal.SEQ)

TO_THE_END: Final = 65535
"""``count`` of the last answer to a poll"""
SELECTIVE: Final = 32768
"""``count`` of a selective acknowledgement, at least; gaps are reported in pieces below it"""
BITS: Final = 32
_FARTHEST: Final = TO_THE_END - 1 - SELECTIVE
"""beyond the first missing frame, of what can be told"""
_EVERY: Final = 8
REMEMBERED: Final = 4096
"""transmissions for which a sender expects more losses after one"""


@kernel
def _be_patient(e: Any) -> None:
    """A frame was taken for lost and was only late."""
    if e.reorder != NEVER:
        e.reorder = max(e.reorder, min(2 * e.reorder, e.window // 2))


@kernel
def settle_once(e: Any, seq: int, now: int, timed: int) -> Any:
    """A frame is in, perhaps known to be already; whether that is new."""
    entry = entry_at(e, seq)
    if entry.state == _ANSWERED:
        return False
    top = e.top
    reorder = e.reorder
    late = entry.lost
    settle(e, entry, now, timed)
    e.reorder = reorder
    # Which copy of it came, the answer does not show where another one was about to leave, or asked what is in.
    e.top = top if entry.probe or late else max(top, entry.order)
    if late and not entry.probe:
        _be_patient(e)
    return True


@kernel
def answered(e: Any, now: int) -> None:
    """As ``advance``; where frames are lost, silence is answered sooner than where it may mean a peer that computes."""
    advance(e, now)
    if e.timer != NEVER and e.rtt_samples > 0 and e.order - e.lossy < REMEMBERED:
        e.rto = min(e.rto, max(e.srtt + 4 * e.rttvar, e.rto_lossy))
        e.timer = now + e.rto


@kernel
def poll_after(e: Any, now: int) -> None:
    """The timer ran out: the oldest frame asks what is in. The answer tells of all that left before the first poll."""
    e.timeouts += 1
    if e.timeouts > e.retries:
        give_up(e)
        return
    entry = entry_at(e, e.low)
    entry.probe = 1
    mark_lost(e, entry)
    if not e.polled:
        e.polled = 1
        e.swept = e.order
    e.rto = min(2 * e.rto, e.rto_max)
    e.timer = now + e.rto


@kernel
def receive_selection(e: Any, frame: Any, now: int) -> Any:
    """Settles what is in, and finds what is lost."""
    first = seq_of(frame, e.low)
    bits = iteration_of(frame)
    missing = first - (count_of(frame) - SELECTIVE)
    if missing > e.next or first < e.low - e.ring:
        return _WRONG_SEQ
    e.lossy = e.order
    if flags_of(frame) & SATURATED:
        _be_patient(e)
    new = False
    for seq in range(e.low, missing):
        new |= settle_once(e, seq, now, False)
    for back in range(BITS):
        seq = first + BITS - 1 - back
        if bits >> (BITS - 1 - back) & 1 and e.low <= seq < e.next:
            # The newest one that was sent once has only just come.
            new |= settle_once(e, seq, now, not new and entry_at(e, seq).attempts == 1)
    if e.low <= missing < e.next:
        _lose_if_overtaken(e, missing)
    for place in range(BITS):
        seq = first + place
        if not bits >> place & 1 and e.low <= seq < e.next:
            _lose_if_overtaken(e, seq)
    if new:
        answered(e, now)
    return 0


@kernel
def _lose_if_overtaken(e: Any, seq: int) -> None:
    entry = entry_at(e, seq)
    if entry.state == _OUTSTANDING and entry.order + e.reorder <= e.top:
        lose_by_order(e, entry)


@kernel
def note_arrival(e: Any, seq: int, again: int, new: int) -> None:
    """A frame of the previous worker came; ``again``: it was sent again."""
    if again:
        if not new and seq != e.repeated:  # a link that doubles frames does so one right behind the other
            e.early = 1
            _be_patient(e)
        e.repeated = seq
        if e.confirming < len(e.confirm):
            e.confirm[e.confirming] = seq
            e.confirming += 1
    elif new and e.rx_low < e.rx_high:
        e.unreported += 1


@kernel
def next_selection(e: Any, missing: int) -> Any:
    """The first of the 32 frames that the receiver should tell of now, or -1; ``missing``: the first that is not in."""
    while e.confirming > 0:
        seq = e.confirm[0]
        for place in range(1, e.confirming):
            e.confirm[place - 1] = e.confirm[place]
        e.confirming -= 1
        first = min(max(seq - BITS + 1, missing), missing + _FARTHEST)
        while e.confirming > 0 and first <= e.confirm[0] < first + BITS:
            for place in range(1, e.confirming):
                e.confirm[place - 1] = e.confirm[place]
            e.confirming -= 1
        return first
    if e.unreported >= _EVERY and missing < e.rx_high:
        e.unreported = 0
        return min(max(missing, e.rx_high - BITS), missing + _FARTHEST)
    return -1


@kernel
def write_selection(e: Any, out: Any, peer: int, missing: int, first: int, bits: int) -> Any:
    """Tells the ``peer`` which of the 32 frames from ``first`` on are in, and all before ``missing``."""
    flags = RESEND | SATURATED if e.early else RESEND
    e.early = 0
    return write_frame(e, out, peer, _RESULT, flags, SELECTIVE + first - missing, first, bits, 0)
