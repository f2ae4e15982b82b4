"""Loss recovery of a worker, compiled: which chunks are missing, which it asks for, which it pushes again, and when.

A worker pushes a chunk again only when it is asked to. By itself it only asks (an ASK without lanes): "the RESULT of
this seq has not come". The answer is the RESULT, an ASK for its own contribution, or a WAIT, which says that the
contribution is in, and which other contributions are missing.

A chunk is missing **by order** when ``reorder`` chunks that left after it, for the first time and in order, have been
answered (packet numbers as in RFC 9002, section 6.1.1, but counting only chunks that tell of the path: a chunk that
left late because its slot was taken, or that was asked for, is answered when another worker has repaired a loss). It is
missing **by time** after the times in the comment on round trips below. The worker asks again on new evidence, at the
earliest two round trips later.

Frames that overtake each other are not lost (as in RFC 8985, RACK-TLP: a reordering window in time, as wide as the
lateness seen). The proof is exact here: if the first RESULT comes after the repeated one, which left later, it was
overtaken on the way. From then on a chunk is missing by order only if an answered chunk left later by at least that
lateness, and as many chunks may be on their way as have slots.

A late RESULT may wait in the queue of a link, where a second copy would make the queue longer. So an ASK says which
RESULT came last (`evidence`), and the switch repeats the missing RESULT only if it was sent before that one. Otherwise
it answers that the RESULT has been sent (``wire.RESULT_SENT``). Links keep the order of frames: if the RESULT has not
come before this answer, it is lost, and the worker insists.

A switch that closes chunks by a deadline checks the time only when it is asked. So a worker asks for each chunk of such
an operation after each level's share of the deadline, even if no WAIT has come. After so long a silence the chunk is in
no queue and no longer counts as on its way, so all chunks that wait for a straggler may be open at once.
"""

from typing import Any, Final

from p4reduce.workers.kernels import kernel
from p4reduce.workers.kernels.sender import (
    CHUNK,
    NOTHING,
    cut_for_loss,
    empty_queues,
    entry_at,
    give_up,
    grow,
    has_weight,
    is_prompt,
    may_be_prompt,
    note_round_trip,
    queue_again,
    queue_question,
    start_over,
)
from p4reduce.workers.records import NEVER, EntryState

# When a worker's chunk is missing by time, compiled.
#
# A chunk is missing four round trips after it left. With a fixed window it is missing after one and a half, if no new
# chunk is left to send whose answer could tell of it, answers come, and a chunk was missing by order before. (On a path
# that loses nothing, other jobs' frames may make a round trip that long.)
#
# The round trip is smoothed over chunks with lanes that left in order. If no answer came for a while, another worker
# may have been computing: the chunks that were on their way then give no sample of the path, and their time counts from
# the first answer on.
#
# If a worker's own link loses much, hardly any chunk gets through at once: order says nothing, and all round trips
# contain other workers' repairs. There a worker that may send nothing new goes by the shortest round trip: it asks
# after two and a half of them for the first time, and after two more each time no answer comes.
#
# In silence the worker asks only for the oldest chunk: every two round trips, later more and more rarely. After a WAIT,
# which shows that the path works, it asks again after a sixteenth of the time that it has waited so far.


_PATIENT: Final = 7
"""questions into silence before they become rarer"""
_MOST_DOUBLED: Final = 5
"""times that the time between questions for one chunk doubles, where late is likelier than lost"""
_SILENCE: Final = 16
"""round trips without an answer"""
_CLEAN: Final = CHUNK // 32
"""of a worker's chunks: up to there its own link hardly loses, and patience costs little"""
_HEAVY: Final = CHUNK // 4
"""of a worker's chunks: from there on silence means loss on its own link rather than a worker that still computes"""
_MANY: Final = 64
"""answers without a loss after which a path is taken for one that loses nothing"""
_LONGEST_FADES: Final = 512
"""round trips after which the longest one counts for a third of what it was"""
_LEARNT: Final = 32
"""round trips through queues that are as long as they get, after which time-outs are longer than these"""
_UNHEARD: Final = 64
"""questions without an answer, of which only the lowest child has one, after which a prompt worker asks less often"""
_BURST: Final = 4
"""questions by time, or again, that may leave at once"""
_BY_OWN_SWITCH: Final = 2
"""``waited`` of a chunk that the switch next to the worker holds until its other children have contributed"""
_MUCH: Final = 5 * CHUNK // 32
"""of a worker's chunks: from there on its own link loses so much that it asks soon"""


@kernel
def trip(e: Any) -> Any:
    """The estimated round trip, picoseconds."""
    return e.rto // 4


@kernel
def learn_trip(e: Any, rtt: int) -> None:
    """Take a sample: a data chunk that left in order, with or without lanes, was answered after ``rtt`` picoseconds."""
    e.rtt_min = rtt if e.rtt_samples == 0 else min(e.rtt_min, rtt)
    if e.rtt_samples == 0:
        e.srtt = rtt
    elif rtt < e.srtt:
        e.srtt -= (e.srtt - rtt) // 4
    else:
        e.srtt += (rtt - e.srtt) // 32
    e.rtt_samples += 1
    e.longest -= e.longest // _LONGEST_FADES
    e.rto = min(max(4 * e.srtt, e.rto_min), e.rto_max)


@kernel
def tells_of_queues(e: Any) -> Any:
    """Whether a late RESULT of whose chunk nothing was lost here can only have waited in queues.

    It can if no other worker contributes to the job. With several workers a frame of another one may have been lost, so
    then it can only if many answers have come, none of which told of a loss.
    """
    quiet = e.results_received > _MANY and e.lost_by_order == 0 and e.own_losses == 0
    return e.adaptive == 0 and (e.members == 1 or quiet)


@kernel
def learn_longest(e: Any, rtt: int) -> None:
    """Note the round trip of a chunk that was asked for by time, but had only been late: nothing of it was lost.

    Such a chunk is no sample for `learn_trip`. Without this note, all chunks would be asked for where queues grow
    faster than samples come, and their repeated RESULTs would make the queues longer still. (RFC 4015: a needless
    time-out tells what the round trip is.)
    """
    e.longest = max(e.longest, rtt)
    e.srtt = max(e.srtt, rtt)
    e.rto = min(max(4 * e.srtt, e.rto_min), e.rto_max)


@kernel
def is_silent(e: Any, now: int) -> Any:
    """Whether no answer came for long, or none at all since the oldest missing chunk left."""
    if e.own_rate > _HEAVY and e.adaptive == 0:
        return False
    oldest = entry_at(e, e.low)
    if oldest.seq == e.low and oldest.in_order and e.answered_at <= oldest.sent_at:
        return True
    return now - e.answered_at > _SILENCE * trip(e)


@kernel
def is_last(e: Any) -> Any:
    """Whether nothing is left to send whose answer could tell of what is missing, on a path that is known to lose."""
    return e.next == e.end and e.adaptive == 0 and e.lost_by_order + e.stirred > 0


@kernel
def tail_trip(e: Any) -> Any:
    """Picoseconds after which the last chunks are missing by time, as long as answers come."""
    return _prompt_trip(e) if may_be_prompt(e) else 3 * trip(e) // 2


@kernel
def _prompt_trip(e: Any) -> Any:
    """Picoseconds before a prompt worker asks, and asks again: the shortest round trip and a margin."""
    return 9 * _shortest_trip(e) // 8 + e.late_by


@kernel
def _shortest_trip(e: Any) -> Any:
    """The shortest round trip known of this path, picoseconds."""
    return min(e.rtt_min, trip(e)) if e.rtt_samples > 0 else e.rto_min // 4


@kernel
def _is_hasty(e: Any) -> Any:
    """Whether, behind a link that loses much, no chunk may be sent whose answer could tell of a missing one."""
    return e.blocked and e.adaptive == 0 and e.own_rate > _MUCH and e.lost_by_order > 0


@kernel
def _soon(e: Any) -> Any:
    """Picoseconds after which a chunk of a hasty worker is missing by time."""
    return 5 * _shortest_trip(e) // 2 + e.late_by


@kernel
def _cover(e: Any) -> Any:
    """Picoseconds for which other jobs may keep a chunk waiting.

    Trees of the same tensor count only until this job hears of a loss: they are paced to fit on their links, but their
    chunks may meet there. After a loss, a chunk that is late was more likely lost.
    """
    return e.cover if e.lost_by_order + e.own_losses == 0 else e.strangers


@kernel
def _behind_others(e: Any, entry: Any, due: int) -> Any:
    """Picoseconds beyond ``due`` for which a chunk may wait behind frames of other jobs.

    While chunks that left before it are still being answered, it is in the same queues; a frame of each other job may
    be between two chunks, on both ways. Until round trips have shown these queues, or a loss has shown the path, the
    chunk may also be behind all frames that others had on their way.
    """
    cover = _cover(e)
    turn = 2 * cover // e.room
    until = 0
    if entry.order > e.top:
        until = e.moved_at + turn + 3 * trip(e)
    if e.rtt_samples - e.joined < e.room + _LEARNT and e.lost_by_order == 0 and e.own_losses == 0:
        until = max(until, entry.sent_at + e.burst + turn + 4 * trip(e))
    return min(cover, max(0, until - due))


@kernel
def due_at(e: Any, entry: Any) -> Any:
    """When a chunk that is on its way is missing by time."""
    if entry.asks == 0 and is_prompt(e):
        soon = max(5 * _prompt_trip(e) // 4, 5 * trip(e) // 4) if e.numbered else 5 * _prompt_trip(e) // 4
        return max(entry.sent_at, e.resumed_at) + soon
    if entry.asks == 0 and _is_hasty(e):
        return max(entry.sent_at, e.resumed_at) + _soon(e)
    if entry.asks == 0 and is_last(e) and e.answered_at > entry.sent_at:
        return max(entry.sent_at, e.resumed_at) + (max(tail_trip(e), e.longest) if e.members == 1 else tail_trip(e))
    if entry.asks == 0:
        patience = (4 * trip(e)) << (e.slack if e.own_rate <= _CLEAN else 0)
        since = max(entry.sent_at, e.resumed_at)
        if _cover(e) > 0:
            patience += _behind_others(e, entry, since + patience)
        if not tells_of_queues(e):
            return since + patience
        due = since + max(patience, min(2 * e.longest, e.rto_max))
        # While chunks that left before it are still being answered, it is in the same queue, however long that is.
        return max(due, e.moved_at + 3 * trip(e)) if entry.order > e.top else due
    since = max(entry.asked_at, e.resumed_at)
    wait = 2 * trip(e)
    if (is_prompt(e) or (may_be_prompt(e) and is_last(e))) and entry.unheard <= _UNHEARD:
        wait = _prompt_trip(e)
        if e.numbered and not is_last(e):
            wait = max(wait, 3 * trip(e) // 4)
        if entry.told:
            wait = max(wait, (entry.asked_at - entry.sent_at) // 16)
    elif entry.told:
        wait = max(wait, (entry.asked_at - entry.sent_at) // (2 if e.adaptive else 16))
    elif tells_of_queues(e) and e.own_rate <= _CLEAN and e.results_received > _MANY:
        wait *= max(1 << min(max(entry.unheard - 1, 0), _MOST_DOUBLED), 1 + (entry.unheard - _PATIENT) // 8)
        wait = max(wait, e.longest)
    elif entry.unheard > _PATIENT:
        wait *= 1 + (entry.unheard - _PATIENT) // 8
    elif _is_hasty(e):
        wait = 2 * _shortest_trip(e)
    elif e.adaptive == 0 and e.next - entry.seq > e.window:
        wait = 3 * trip(e) // 2  # the chunk that takes its slot next waits for it
    return since + min(wait, e.rto_max)


@kernel
def sooner(e: Any) -> Any:
    """When the oldest chunk is missing by time, now that nothing new may be sent; NEVER where that changes nothing."""
    if e.low == e.next or not _is_hasty(e):
        return NEVER
    return max(entry_at(e, e.low).sent_at, e.resumed_at) + _soon(e)


@kernel
def silent_at(e: Any) -> Any:
    """The time from which on the worker counts as without answers (`is_silent`)."""
    return e.answered_at + _SILENCE * trip(e) + 1


@kernel
def closes_at(e: Any, entry: Any) -> Any:
    """The time at which one more level of switches may close a chunk than when it was asked for last; NEVER: none.

    The root's deadline begins with the first subtree's sum, which may have waited for a deadline itself: up to two in
    all.
    """
    if not entry.closes or (entry.asks > 0 and entry.asked_at - entry.sent_at > 2 * e.deadline + 4 * trip(e)):
        return NEVER
    first = entry.sent_at + e.share + trip(e)
    if entry.asks == 0 or entry.asked_at < first:
        return first
    return entry.asked_at + max(e.share, 2 * trip(e))


_WAITING: Final = int(EntryState.WAITING)
_ANSWERED: Final = int(EntryState.ANSWERED)
_OUTSTANDING: Final = int(EntryState.OUTSTANDING)
MAX_REORDER: Final = 16
"""the most that ``reorder`` grows to: beyond it the timer finds missing chunks"""
_MOST_SLACK: Final = 3
"""doublings of the time after which a chunk is missing, where processes that share processors answer late"""
_AT_ONCE: Final = 8
"""chunks that may become missing by time together: if more are late, the likelier cause is a process without a turn"""
_OWN_LOSSES: Final = CHUNK // 8
"""of a worker's chunks: from there on, losses of its own link are taken for congestion"""
_FORGETFUL: Final = 64
"""questions by order after which frames that overtake each other are half forgotten, and a bit more"""

INSISTS: Final = 1
INSISTED: Final = 2

# Why a chunk was asked for.
_BY_ORDER: Final = 1
_BY_TIME: Final = 2
_BY_DEADLINE: Final = 3


# What happens to a chunk.


@kernel
def _fly(e: Any, entry: Any) -> None:
    """Count a chunk as on its way, unless neither it nor its answer has lanes: such frames fill no queue."""
    if e.adaptive or has_weight(entry):
        entry.flies = 1
        e.flight += 1


@kernel
def _land(e: Any, entry: Any) -> None:
    """Stop counting a chunk as on its way."""
    if entry.flies:
        entry.flies = 0
        e.flight -= 1


@kernel
def mark_sent(e: Any, entry: Any, now: int, in_order: int) -> None:
    """Note that a chunk leaves for the first time in this epoch, and set the timer."""
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
    entry.insists = 0
    entry.order = e.order - 1 + in_order
    e.order += in_order
    entry.attempts += 1
    _fly(e, entry)
    e.blocked = 0
    e.timer = min(e.timer, now + (tail_trip(e) if is_last(e) else e.rto))
    if e.deadline > 0:
        e.timer = min(e.timer, closes_at(e, entry))


@kernel
def sum_leaves(e: Any, entry: Any, seq: int, now: int) -> None:
    """Note that a relay sends a sum to its parent. If it has asked for the chunk, its wait for an answer begins now.

    A child's contribution was missing until now, so the time that has passed says nothing of the parent.
    """
    if entry.seq != seq or entry.state != _OUTSTANDING or entry.asks == 0:
        return
    entry.sent_at = now
    entry.asked_at = now
    entry.order = e.order - 1
    entry.unheard = 0
    entry.told = 0
    e.timer = min(e.timer, due_at(e, entry))


@kernel
def mark_blocked(e: Any, now: int) -> None:
    """Note that no new chunk may leave."""
    if e.blocked == 0:
        e.blocked = 1
        e.timer = min(e.timer, max(sooner(e), now))


@kernel
def mark_sent_again(e: Any, entry: Any) -> None:
    """Note that a chunk leaves again because it was asked for."""
    entry.again = 0
    entry.attempts += 1
    if not entry.flies:
        _fly(e, entry)


@kernel
def evidence(e: Any, entry: Any, seq: int) -> Any:
    """The field ``count`` of the ASK that is about to leave: how much higher the latest RESULT's seq is, modulo 2**16.

    0: the switch or server that is asked repeats the RESULT in any case. 2**15: it never repeats a RESULT that it has
    sent. A worker that asks again by time uses 2**15, since the repeated RESULT may still be on its way.
    """
    ahead = e.latest - seq
    if entry.insists == INSISTS:
        return 0
    if (entry.asks > 0 and entry.cause == _BY_TIME) or e.latest == NOTHING or abs(ahead) >= 1 << 15:
        return 1 << 15
    return ahead & 0xFFFF


@kernel
def result_was_sent(e: Any, entry: Any, seq: int, now: int) -> Any:
    """Note that a RESULT is lost: the switch sent it before this answer. Return whether that is news."""
    if entry.insists != 0 or entry.asks == 0:
        return False
    entry.insists = INSISTS
    _hear_of_loss(e, entry, now)
    if not entry.lost:
        entry.lost = 1
        _land(e, entry)
        queue_question(e, seq)
    return True


@kernel
def mark_asked(e: Any, entry: Any, now: int) -> None:
    """Note that an ASK leaves, and set the timer."""
    entry.insists = INSISTED if entry.insists == INSISTS else 0
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
    """Mark a chunk as missing, for a cause, and queue a question for it."""
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
def miss_behind_gap(e: Any, entry: Any, seq: int, now: int) -> None:
    """Ask for a lost RESULT: the one that the switch sent after it has arrived.

    Does nothing if frames of this job overtake each other, or if the RESULT was asked for less than a round trip ago.
    """
    if entry.state != _OUTSTANDING or entry.again or e.late_by > 0:
        return
    if entry.insists == INSISTED and now - entry.asked_at < _prompt_trip(e):
        return
    entry.insists = INSISTS
    if entry.lost:
        return
    entry.lost = 1
    entry.cause = _BY_ORDER
    _land(e, entry)
    e.lost_by_order += 1
    queue_question(e, seq)


@kernel
def _may_ask(e: Any, entry: Any, now: int) -> Any:
    """Whether a worker may ask for a chunk now. Counts the question if it is one of those that are limited.

    A worker that asks promptly limits first questions by time, and later ones for a chunk that its own switch holds
    for other children: the switch gets their contributions without this question. Nothing is limited where nothing is
    left to send, where frames overtake each other, or where the worker's own link loses a quarter of its chunks.
    """
    if not is_prompt(e) or e.late_by > 0 or e.next == e.end or e.own_rate > _HEAVY:
        return True
    if entry.waited > _BY_OWN_SWITCH and entry.asks > 0:
        return True
    if now < e.question_at:
        return False
    e.question_at = max(e.question_at, now - _BURST * e.question) + e.question
    return True


@kernel
def _lose_here(e: Any, entry: Any) -> None:
    """Count a chunk of which a frame was lost between the worker and its switch."""
    if not entry.own_loss:
        entry.own_loss = 1
        e.own_losses += 1


@kernel
def asked_for(e: Any, entry: Any, seq: int, now: int) -> Any:
    """Queue a chunk whose contribution the switch lacks, to be sent again; return whether that is news."""
    if entry.again:
        _lose_here(e, entry)
        return False
    entry.again = 1
    lost_above(e, entry, now)
    queue_again(e, seq)
    return True


@kernel
def lost_above(e: Any, entry: Any, now: int) -> None:
    """Note that the parent lacks a chunk, which is sent again."""
    _lose_here(e, entry)
    _hear_of_loss(e, entry, now)


@kernel
def _hear_of_loss(e: Any, entry: Any, now: int) -> None:
    """Note that a silence was a loss, perhaps of several chunks."""
    entry.told = 0
    entry.unheard = 0
    _trust_plan(e)
    if now - e.answered_at > 2 * trip(e):
        e.answered_at = now
        e.timer = now


@kernel
def _trust_plan(e: Any) -> None:
    """Shorten time-outs to those of empty queues, if no round trip has been measured yet.

    The first time-outs allow for full queues; a chunk that was lost is in none of them.
    """
    if e.rtt_samples == 0 and e.adaptive == 0:
        e.rto = min(e.rto, e.rto_min)


@kernel
def told_to_wait(e: Any, entry: Any, seq: int, level: int, awaited: int, now: int) -> None:
    """Take in a WAIT: the contribution is in; contributions of others are awaited ``level`` switches up."""
    entry.told = 1
    entry.waited = min(1 + level, 255)
    entry.unheard = 0
    if e.own_losses + e.lost_by_order > 0:
        _trust_plan(e)
    _land(e, entry)
    e.waits += 1
    e.wait_seq = seq
    e.wait_level = level
    e.wait_mask = awaited
    e.wait_at = now


@kernel
def settle(e: Any, entry: Any, now: int, repeated: int) -> None:
    """Take in the RESULT of a chunk; repeated: it was sent to this worker alone."""
    if now - e.answered_at > 2 * trip(e):
        if repeated:
            e.timer = now  # the sum was complete: chunks that are missing beside it were lost, too
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
    """Take in a second RESULT of a chunk: the first copy was late, or the question was needless."""
    if entry.asks == 0 or entry.proven or (repeated != 0) == (entry.repeated != 0):
        return
    entry.proven = 1
    if entry.repeated:
        if entry.asks == 1 and entry.cause == _BY_ORDER:  # else that time contains a repair
            e.late_by = max(e.late_by, e.top_sent_at - entry.sent_at)
        return
    e.spurious += 1
    if entry.asks == 1 and entry.cause == _BY_ORDER and e.reorder != NEVER:
        e.needless += CHUNK // 16
    if entry.cause == _BY_TIME and e.adaptive and now - e.slackened_at > 4 * trip(e):
        e.slack = min(e.slack + 1, _MOST_SLACK)
        e.slackened_at = now


@kernel
def _is_overtaken(e: Any, entry: Any, now: int) -> Any:
    """Whether chunks have been answered that left too much later to have just overtaken this one."""
    left_at = entry.asked_at if entry.asks > 0 else entry.sent_at
    if entry.order + e.reorder > e.top:
        return False
    if e.numbered == 0:
        return e.top_sent_at - left_at >= e.late_by
    if e.stirred == 0:
        e.stirred = 1
        e.timer = now  # chunks are due sooner on a path that loses
    return e.top_sent_at - left_at >= max(e.late_by, 5 * _shortest_trip(e) // 4)


@kernel
def find_missing(e: Any, now: int) -> None:
    """Mark chunks as missing that later ones have overtaken."""
    for seq in range(e.low, e.next):
        entry = entry_at(e, seq)
        if entry.seq != seq or entry.state != _OUTSTANDING:
            continue
        if not _is_overtaken(e, entry, now):
            if entry.asks == 0 and entry.in_order:
                break  # what left after it is younger still
        elif not entry.lost and not entry.again:
            patience = 0 if entry.asks == 0 else ((4 if e.adaptive else 3) if entry.told else 2) * trip(e)
            if is_prompt(e) and entry.asks > 0:
                patience = _prompt_trip(e)
            if entry.asks == 0 or (now - entry.asked_at >= patience and _may_ask(e, entry, now)):
                _miss(e, entry, seq, _BY_ORDER)


@kernel
def _ask_what_closes(e: Any, now: int) -> Any:
    """Ask for the chunks that may have been closed; return when the next one may be."""
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
    """Stop counting chunks as on their way: after so long a silence, those that are not lost wait in slots."""
    for seq in range(e.low, e.next):
        entry = entry_at(e, seq)
        if entry.seq == seq and entry.state == _OUTSTANDING:
            _land(e, entry)


@kernel
def _ask_the_oldest(e: Any, now: int) -> None:
    """No answer comes, perhaps because a worker still computes: ask for the oldest chunk only."""
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
    """Handle the end of the timer: mark chunks that are missing by time, and set the timer again."""
    if e.low == e.next:
        e.timer = NEVER
        return
    closing = _ask_what_closes(e, now) if e.deadline > 0 else NEVER
    _ask_what_is_missing(e, now)
    e.timer = min(e.timer, closing)


@kernel
def _ask_what_is_missing(e: Any, now: int) -> None:
    """Mark chunks that are missing by time, and set the timer."""
    if is_silent(e, now):
        _ask_the_oldest(e, now)
        return
    earliest = NEVER
    missed = 0
    for seq in range(e.low, e.next):
        entry = entry_at(e, seq)
        if entry.seq != seq or entry.state != _OUTSTANDING:
            continue
        if entry.lost or entry.again:
            earliest = min(earliest, now + 2 * trip(e))
            continue
        due = due_at(e, entry)
        if due <= now and not _may_ask(e, entry, now):
            due = e.question_at
        elif due <= now:
            if missed < _AT_ONCE or e.adaptive == 0:
                _miss(e, entry, seq, _BY_TIME)
                missed += 1
            due = now + 2 * trip(e)
        earliest = min(earliest, due)
    e.timer = min(earliest, silent_at(e)) if silent_at(e) > now else earliest


@kernel
def stand_still(e: Any, paused: int) -> None:
    """Shift timer and clocks by a time (picoseconds) in which nothing could be answered."""
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
    """Go back to ``seq``: chunks from there on are sent anew, in a new epoch."""
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
    e.latest = NOTHING
    e.sent_seq = NOTHING
    e.numbered = 0
    e.late_by = 0
    e.rtt_min = e.srtt
    empty_queues(e)
    start_over(e)
    e.timeouts = 0
    e.timer = NEVER
    e.wait_seq = NOTHING
