"""The sender's window, compiled: what is on its way, what is lost, and the one timer.

Loss is found in two ways. **By order** (in-network workers): every transmission has a number; a chunk is lost when
``reorder`` later transmissions have been answered, so a resent chunk that is lost again is found as well (as RFC
9002, section 6.1.1, does with packet numbers). An answer that comes sooner after a resend than the shortest round
trip answers the first copy: the resend was for nothing, and ``reorder`` doubles. **By time**: RFC 6298, on chunks
sent once; a new answer restarts the timer and ends the backoff. The sample of a round trip is the *shortest* of
those seen in it: a chunk may be answered late because another worker had to wait for its own timer, and if such
waits were taken for the path's round trip, the workers would drive each other's timers up. For the same reason one
much shorter sample starts the estimate anew.

When the timer runs out, only the oldest chunk is sent again: silence may mean a peer that is still computing. If
then answers come, but the oldest stays out until the timer runs out once more, everything that was in flight the
first time is sent again.
"""

from typing import Any, Final

from p4reduce.native.memory import carray, pointer
from p4reduce.workers.kernels.congestion import cut, grow, has_room, note_round_trip
from p4reduce.workers.kernels.frames import SEQ_MASK
from p4reduce.workers.kernels.jit import kernel
from p4reduce.workers.records import ENTRY_DTYPE, NEVER, EntryState, State

_WAITING: Final = int(EntryState.WAITING)
_OUTSTANDING: Final = int(EntryState.OUTSTANDING)
_ANSWERED: Final = int(EntryState.ANSWERED)
_ACTIVE: Final = int(State.ACTIVE)
_FAILED: Final = int(State.FAILED)
NOTHING_LOST: Final = -1


@kernel
def entry_at(e: Any, seq: int) -> Any:
    """The window's entry for a seq."""
    return carray(pointer(e.entries), (e.ring,), ENTRY_DTYPE)[seq & (e.ring - 1)]


@kernel
def payload_at(e: Any, seq: int) -> Any:
    """Address of the lanes kept for a seq: float32 in this machine's order, zero padded."""
    return e.payloads + (seq & (e.ring - 1)) * 4 * e.lanes


@kernel
def mark_sent(e: Any, entry: Any, now: int) -> None:
    """A chunk leaves, for the first time or again."""
    if entry.lost:
        entry.lost = 0
        e.lost -= 1
    e.flight += 1
    if entry.attempts == 0:
        entry.probe = 0
    entry.attempts += 1
    entry.state = _OUTSTANDING
    entry.sent_at = now
    entry.order = e.order
    e.order += 1
    if e.timer == NEVER:
        e.timer = now + e.rto


@kernel
def _take_sample(e: Any, rtt: int) -> None:
    """RFC 6298, section 2, in integers."""
    e.rtt_min = rtt if e.rtt_samples == 0 else min(e.rtt_min, rtt)
    if e.rtt_samples == 0 or 2 * rtt < e.srtt:
        e.srtt = rtt
        e.rttvar = rtt // 2
    else:
        e.rttvar += (abs(e.srtt - rtt) - e.rttvar) // 4
        e.srtt += (rtt - e.srtt) // 8
    e.rtt_samples += 1
    note_round_trip(e, rtt)


@kernel
def _base_rto(e: Any) -> Any:
    if e.rtt_samples == 0:
        return e.rto_initial
    return min(max(e.srtt + 4 * e.rttvar, e.rto_min), e.rto_max)


@kernel
def _tolerate(e: Any) -> None:
    """A chunk was taken for lost and was not: be more patient."""
    e.spurious += 1
    e.reorder = max(e.reorder, min(2 * e.reorder, e.window // 2))


@kernel
def settle(e: Any, entry: Any, now: int, timed: int) -> None:
    """A chunk is answered. timed: the answer was sent at once, so it may be a round-trip sample."""
    elapsed = now - entry.sent_at
    if entry.lost:
        entry.lost = 0
        e.lost -= 1
        _tolerate(e)
    else:
        e.flight -= 1
    if entry.attempts == 1:
        e.top = max(e.top, entry.order)
        if timed:
            e.round_rtt = min(e.round_rtt, elapsed)
            if entry.sent_at >= e.sampled_at:
                _take_sample(e, e.round_rtt)
                e.round_rtt = NEVER
                e.sampled_at = now
    elif elapsed >= e.rtt_min:
        # The answer to a probe may have come because another worker is there at last. It says nothing of what was sent
        # before the probe; with a fixed window that is sent again once too often, an adaptive one would be cut.
        if not (e.adaptive and entry.probe):
            e.top = max(e.top, entry.order)
    else:
        _tolerate(e)
    entry.state = _ANSWERED
    grow(e, entry.order)


@kernel
def advance(e: Any, now: int) -> None:
    """After new answers: move the window's low end, end the backoff, restart the timer."""
    while e.low < e.next and entry_at(e, e.low).state == _ANSWERED:
        e.low += 1
    e.timeouts = 0
    e.progress = 1
    e.rto = _base_rto(e)
    e.timer = now + e.rto if e.low < e.next else NEVER


@kernel
def mark_lost(e: Any, entry: Any) -> Any:
    """To be sent again, if it is on its way; whether it was."""
    if entry.state != _OUTSTANDING or entry.lost:
        return False
    entry.lost = 1
    e.lost += 1
    e.flight -= 1
    return True


@kernel
def lose_by_order(e: Any, entry: Any) -> None:
    """Later transmissions have come through, this one has not."""
    if mark_lost(e, entry):
        entry.probe = 0
        e.lost_by_order += 1
        cut(e, entry.order)


@kernel
def lose_by_time(e: Any, entry: Any) -> None:
    """Answers come again, but this one's stays out."""
    if mark_lost(e, entry):
        entry.probe = 0
        e.lost_by_time += 1
        cut(e, entry.order)


@kernel
def next_lost(e: Any) -> Any:
    """The oldest chunk to be sent again, or NOTHING_LOST."""
    if e.lost > 0:
        for seq in range(e.low, e.next):
            if entry_at(e, seq).lost:
                return seq
    return NOTHING_LOST


@kernel
def may_resend(e: Any, seq: int) -> Any:
    """Whether a lost chunk may leave now: the oldest always, or nothing would ever move again."""
    return seq == e.low or has_room(e)


@kernel
def give_up(e: Any) -> None:
    """Bounded retries are used up: the oldest chunk names what is missing."""
    e.failed_seq = e.low & SEQ_MASK
    e.timer = NEVER
    e.lingering = 0
    if e.status == _ACTIVE:
        e.status = _FAILED


@kernel
def stand_still(e: Any, paused: int) -> None:
    """A time in which nothing could be answered is not time that an answer took."""
    if e.timer != NEVER:
        e.timer += paused
    for seq in range(e.low, e.next):
        entry_at(e, seq).sent_at += paused
