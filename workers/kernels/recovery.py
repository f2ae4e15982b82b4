"""What became of a worker's chunks, compiled: which are missing, what is asked for, what is pushed again, and when.

A worker pushes a chunk again only when it is asked to. What it does by itself is ask: "your RESULT of this seq has not
come" (an ASK without lanes); the answer is the RESULT, an ASK for its own contribution, or a WAIT, which says that the
contribution is in and for whom the chunk waits.

A chunk is missing **by order** when ``reorder`` chunks that left after it, for the first time and in order, have been
answered (packet numbers as in RFC 9002, section 6.1.1, but only what tells of the path counts: a chunk that left late
since its slot was taken, or one that was asked for, is answered when others have repaired something). It is missing
**by time** as `patience.py` says. It is asked for once more on new evidence, at the earliest two round trips later.

Frames that overtake each other are not lost (the idea is that of RFC 8985, RACK-TLP: a reordering window in time,
as wide as what proves to have been late). What proves it here is exact: a RESULT that comes after the one that was
repeated since it had been asked for left before that, and so was overtaken on the way. From then on a chunk is missing
by order only if what has been answered left by so much later, and as many chunks may be on their way as have slots.

Switches that close chunks by a deadline look when they are asked. So each chunk of such an operation is asked for when
the deadline has passed, and each level's share of it, in silence too, where nobody tells a worker to wait. What has
been silent for so long is in no queue, and does not count as on its way: all that waits for a straggler is open at
once.
"""

from typing import Any, Final

from p4reduce.workers.kernels.congestion import CHUNK, cut_for_loss, grow, note_round_trip, start_over
from p4reduce.workers.kernels.jit import kernel
from p4reduce.workers.kernels.leaving import NOTHING, empty_queues, queue_again, queue_question
from p4reduce.workers.kernels.patience import (
    closes_at,
    due_at,
    is_last,
    is_silent,
    learn_longest,
    learn_trip,
    silent_at,
    sooner,
    tail_trip,
    tells_of_queues,
    trip,
)
from p4reduce.workers.kernels.sender import entry_at, give_up
from p4reduce.workers.records import NEVER, EntryState

_WAITING: Final = int(EntryState.WAITING)
_OUTSTANDING: Final = int(EntryState.OUTSTANDING)
_ANSWERED: Final = int(EntryState.ANSWERED)
MAX_REORDER: Final = 16
"""what ``reorder`` grows to: frames overtake each other by little, or the timer finds what is missing"""
_MOST_SLACK: Final = 3
"""doublings of the time after which a chunk is missing, where processes that share processors answer late"""
_AT_ONCE: Final = 8
"""chunks that are missing by time together: of more, a process that had no turn is likelier the cause"""
_OWN_LOSSES: Final = CHUNK // 8
"""of a worker's chunks: from there on what its own link loses is taken for congestion"""
_FORGETFUL: Final = 64
"""questions by order after which frames that overtake each other are half forgotten, and a bit more"""

# Why a chunk was asked for.
_BY_ORDER: Final = 1
_BY_TIME: Final = 2
_BY_DEADLINE: Final = 3


# What happens to a chunk.


@kernel
def _fly(e: Any, entry: Any) -> None:
    """A chunk counts as on its way, unless neither it nor its answer has lanes: such frames fill no queue."""
    if e.adaptive or entry.has_lanes or entry.answer != 0:
        entry.flies = 1
        e.flight += 1


@kernel
def _land(e: Any, entry: Any) -> None:
    """A chunk does not count as on its way any more."""
    if entry.flies:
        entry.flies = 0
        e.flight -= 1


@kernel
def mark_sent(e: Any, entry: Any, now: int, in_order: int) -> None:
    """A chunk leaves for the first time in this epoch."""
    entry.state = _OUTSTANDING
    entry.sent_at = now
    entry.in_order = in_order
    entry.asks = 0
    entry.unheard = 0
    entry.lost = 0
    entry.again = 0
    entry.told = 0
    entry.waited = 0
    entry.own_loss = 0
    entry.order = e.order - 1 + in_order
    e.order += in_order
    entry.attempts += 1
    _fly(e, entry)
    e.blocked = 0
    e.timer = min(e.timer, now + (tail_trip(e) if is_last(e) else e.rto))
    if e.deadline > 0:
        e.timer = min(e.timer, closes_at(e, entry))


@kernel
def mark_blocked(e: Any, now: int) -> None:
    """Nothing new may leave."""
    if e.blocked == 0:
        e.blocked = 1
        e.timer = min(e.timer, max(sooner(e), now))


@kernel
def mark_sent_again(e: Any, entry: Any) -> None:
    """A chunk leaves again, since it was asked for."""
    entry.again = 0
    entry.attempts += 1
    if not entry.flies:
        _fly(e, entry)


@kernel
def mark_asked(e: Any, entry: Any, now: int) -> None:
    """An ASK leaves."""
    entry.lost = 0
    entry.told = 0
    entry.asks += 1
    entry.unheard += 1
    entry.asked_at = now
    entry.order = e.order - 1
    e.asks += 1
    if not entry.flies:
        _fly(e, entry)
    e.timer = min(e.timer, due_at(e, entry))


@kernel
def _miss(e: Any, entry: Any, seq: int, cause: int) -> None:
    """A chunk is missing."""
    entry.lost = 1
    entry.cause = cause
    _land(e, entry)
    if cause == _BY_ORDER:
        e.lost_by_order += 1
    elif cause == _BY_TIME:
        e.lost_by_time += 1
    if cause == _BY_ORDER and entry.asks == 0:
        e.late_by -= e.late_by // _FORGETFUL
        e.needless -= e.needless // 16
        if e.needless > CHUNK // 2:
            e.reorder = min(2 * e.reorder, max(e.least_reorder, MAX_REORDER))
            e.needless = CHUNK // 4
        elif e.needless < CHUNK // 4 and e.adaptive == 0:
            e.reorder = max(e.reorder - 1, e.least_reorder)
    queue_question(e, seq)


@kernel
def _lose_here(e: Any, entry: Any) -> None:
    """What was lost of a chunk was lost between the worker and its switch."""
    if not entry.own_loss:
        entry.own_loss = 1
        e.own_losses += 1


@kernel
def asked_for(e: Any, entry: Any, seq: int, now: int) -> Any:
    """The switch has no contribution of this worker: whether that is news."""
    _lose_here(e, entry)
    if entry.again:
        return False
    entry.again = 1
    entry.told = 0
    entry.unheard = 0
    if now - e.answered_at > 2 * trip(e):
        e.answered_at = now  # not silence, but a loss: perhaps of more
        e.timer = now
    queue_again(e, seq)
    return True


@kernel
def told_to_wait(e: Any, entry: Any, seq: int, level: int, awaited: int, now: int) -> None:
    """The contribution is in; others' are awaited ``level`` switches up."""
    entry.told = 1
    entry.waited = 1
    entry.unheard = 0
    _land(e, entry)
    e.waits += 1
    e.wait_seq = seq
    e.wait_level = level
    e.wait_mask = awaited
    e.wait_at = now


@kernel
def settle(e: Any, entry: Any, now: int, repeated: int) -> None:
    """A chunk is answered; repeated: to this worker alone."""
    if now - e.answered_at > 2 * trip(e):
        if repeated:
            e.timer = now  # it was there: what is missing beside it was lost, too
        else:
            e.resumed_at = now
    e.answered_at = now
    e.settled_at = now
    _land(e, entry)
    entry.repeated = repeated
    entry.proven = 0
    if repeated:
        _lose_here(e, entry)
        if e.slack > 0 and entry.cause == _BY_TIME:
            e.slack -= 1
        if entry.cause == _BY_TIME:
            e.longest -= e.longest // 4
    elif entry.asks > 0 and entry.cause == _BY_TIME and not (entry.waited or entry.own_loss) and tells_of_queues(e):
        e.moved_at = now
        learn_longest(e, now - entry.sent_at)
    elif entry.asks == 0 and entry.in_order:
        if entry.order > e.top:
            e.top, e.top_sent_at, e.moved_at = entry.order, entry.sent_at, now
        if entry.sent_at >= e.resumed_at:
            rtt = now - entry.sent_at
            if entry.has_lanes or entry.answer != 0:
                learn_trip(e, rtt)
            e.round_rtt = min(e.round_rtt, rtt)
            if entry.sent_at >= e.sampled_at:
                note_round_trip(e, e.round_rtt)
                e.round_rtt = NEVER
                e.sampled_at = now
    e.own_rate += (entry.own_loss * CHUNK - e.own_rate) // 32
    if entry.own_loss and e.own_rate > _OWN_LOSSES:
        cut_for_loss(e, entry.order)
    entry.state = _ANSWERED
    entry.lost = 0
    entry.again = 0
    grow(e, entry.order)
    while e.low < e.next and entry_at(e, e.low).seq == e.low and entry_at(e, e.low).state == _ANSWERED:
        e.low += 1
    e.timeouts = 0
    if e.low == e.next:
        e.timer = NEVER


@kernel
def answered_twice(e: Any, entry: Any, now: int, repeated: int) -> None:
    """A RESULT came after the one for this worker alone, and was late; or that one did, and was asked for in vain."""
    if entry.asks == 0 or entry.proven or (repeated != 0) == (entry.repeated != 0):
        return
    entry.proven = 1
    if entry.repeated:
        if entry.asks == 1 and entry.cause == _BY_ORDER:  # else its repair is in that time
            e.late_by = max(e.late_by, e.top_sent_at - entry.sent_at)
        return
    e.spurious += 1
    if entry.asks == 1 and entry.cause == _BY_ORDER and e.reorder != NEVER:
        e.needless += CHUNK // 16
    if entry.cause == _BY_TIME and e.adaptive and now - e.slackened_at > 4 * trip(e):
        e.slack = min(e.slack + 1, _MOST_SLACK)
        e.slackened_at = now


@kernel
def _is_overtaken(e: Any, entry: Any) -> Any:
    """Whether as much that left later has been answered as no frame overtakes."""
    left_at = entry.asked_at if entry.asks > 0 else entry.sent_at
    return entry.order + e.reorder <= e.top and e.top_sent_at - left_at >= e.late_by


@kernel
def find_missing(e: Any, now: int) -> None:
    """Marks what later chunks have overtaken."""
    for seq in range(e.low, e.next):
        entry = entry_at(e, seq)
        if entry.seq != seq or entry.state != _OUTSTANDING:
            continue
        if not _is_overtaken(e, entry):
            if entry.asks == 0 and entry.in_order:
                break  # what left after it is younger still
        elif not entry.lost and not entry.again:
            patience = 0 if entry.asks == 0 else ((4 if e.adaptive else 3) if entry.told else 2) * trip(e)
            if now - entry.asked_at >= patience or entry.asks == 0:
                _miss(e, entry, seq, _BY_ORDER)


@kernel
def _ask_what_closes(e: Any, now: int) -> Any:
    """What may have been closed is asked for; when the next may be."""
    earliest = NEVER
    for seq in range(e.low, e.next):
        entry = entry_at(e, seq)
        if entry.seq != seq or entry.state != _OUTSTANDING or entry.lost or entry.again:
            continue
        at = closes_at(e, entry)
        if at <= now:
            _miss(e, entry, seq, _BY_DEADLINE)
        else:
            earliest = min(earliest, at)
    return earliest


@kernel
def _land_all(e: Any) -> None:
    """After so long a silence nothing is in a queue any more: what was not lost waits in slots."""
    for seq in range(e.low, e.next):
        entry = entry_at(e, seq)
        if entry.seq == seq and entry.state == _OUTSTANDING:
            _land(e, entry)


@kernel
def _ask_the_oldest(e: Any, now: int) -> None:
    """Nobody answers: somebody may be computing."""
    if e.deadline > 0:
        _land_all(e)
    entry = entry_at(e, e.low)
    if entry.seq != e.low or entry.state != _OUTSTANDING or entry.lost or entry.again:
        e.timer = now + 2 * trip(e)
        return
    due = due_at(e, entry)
    if due > now:
        e.timer = due
        return
    e.timeouts += 1
    if e.timeouts > e.retries and now - e.settled_at >= e.retries * e.rto_max:
        give_up(e)
        return
    _miss(e, entry, e.low, _BY_TIME)
    e.timer = now + 2 * trip(e)


@kernel
def time_out(e: Any, now: int) -> None:
    """The timer ran out: marks what is missing by time, and sets it again."""
    if e.low == e.next:
        e.timer = NEVER
        return
    closing = _ask_what_closes(e, now) if e.deadline > 0 else NEVER
    _ask_what_is_missing(e, now)
    e.timer = min(e.timer, closing)


@kernel
def _ask_what_is_missing(e: Any, now: int) -> None:
    """What is missing by time."""
    if is_silent(e, now):
        _ask_the_oldest(e, now)
        return
    earliest = NEVER
    found = 0
    for seq in range(e.low, e.next):
        entry = entry_at(e, seq)
        if entry.seq != seq or entry.state != _OUTSTANDING:
            continue
        if entry.lost or entry.again:
            earliest = min(earliest, now + 2 * trip(e))
            continue
        due = due_at(e, entry)
        if due <= now and (found < _AT_ONCE or e.adaptive == 0):
            _miss(e, entry, seq, _BY_TIME)
            found += 1
        if due <= now:
            due = now + 2 * trip(e)
        earliest = min(earliest, due)
    e.timer = min(earliest, silent_at(e)) if silent_at(e) > now else earliest


@kernel
def stand_still(e: Any, paused: int) -> None:
    """A time in which nothing could be answered is not time that an answer took."""
    if e.timer != NEVER:
        e.timer += paused
    e.answered_at += paused
    e.settled_at += paused
    e.moved_at += paused
    e.resumed_at += paused
    for seq in range(e.low, e.next):
        entry = entry_at(e, seq)
        entry.sent_at += paused
        entry.asked_at += paused


@kernel
def rewind(e: Any, seq: int) -> None:
    """Everything from ``seq`` on is to be sent anew, in a new epoch."""
    for again in range(seq, e.next):
        entry = entry_at(e, again)
        if entry.seq == again:
            entry.state = _WAITING
            entry.lost = 0
            entry.again = 0
            entry.flies = 0
    e.low = seq
    e.next = seq
    e.epoch_base = seq
    e.late_by = 0
    e.rtt_min = e.srtt
    empty_queues(e)
    start_over(e)
    e.timeouts = 0
    e.timer = NEVER
    e.wait_seq = NOTHING
