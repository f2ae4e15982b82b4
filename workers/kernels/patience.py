"""When a worker's chunk is missing by time, compiled: round trips, patience, and what takes it away.

A chunk is missing four round trips after it left; with a fixed window after one and a half where nothing is left to
send that could tell of it, answers come, and something was missing by order before: where nothing is ever lost, others'
frames may still make a round trip as long.

The round trip is smoothed over chunks with lanes that left in order. Where nobody answered for a while a worker may
have been computing: what was on its way then says nothing of the path, and its time counts from the first answer on.

Where a worker's own link loses much, hardly any chunk comes through at once: no order tells of anything, and others'
repairs are in all round trips. There a worker that may send nothing new goes by the shortest round trip: two and a half
of them until it asks for the first time, two until it asks again where nobody answers.

In silence only the oldest chunk is asked for: every two round trips, after some time more and more rarely.
After a WAIT, which shows that the path lives, in a sixteenth as long again as it has been waited for.
"""

from typing import Any, Final

from p4reduce.workers.kernels.congestion import CHUNK
from p4reduce.workers.kernels.jit import kernel
from p4reduce.workers.kernels.sender import entry_at
from p4reduce.workers.records import NEVER

_PATIENT: Final = 7
"""questions into silence before they become rarer"""
_MOST_DOUBLED: Final = 5
"""times that the time between questions for one chunk doubles, where late is likelier than lost"""
_SILENCE: Final = 16
"""round trips without an answer"""
_CLEAN: Final = CHUNK // 32
"""of a worker's chunks: up to there its own link hardly loses, and patience costs little"""
_HEAVY: Final = CHUNK // 4
"""of a worker's chunks: from there on silence is what its link does rather than somebody who computes"""
_MANY: Final = 64
"""answers without a loss after which a path is taken for one that loses nothing"""
_FORGETFUL: Final = 512
"""round trips after which the longest one counts for a third of what it was"""
_MUCH: Final = 5 * CHUNK // 32
"""of a worker's chunks: from there on its own link loses so much that it asks soon"""


@kernel
def trip(e: Any) -> Any:
    """A round trip, as far as known."""
    return e.rto // 4


@kernel
def learn_trip(e: Any, rtt: int) -> None:
    """A chunk with lanes that left in order was answered after ``rtt`` picoseconds."""
    e.rtt_min = rtt if e.rtt_samples == 0 else min(e.rtt_min, rtt)
    if e.rtt_samples == 0:
        e.srtt = rtt
    elif rtt < e.srtt:
        e.srtt -= (e.srtt - rtt) // 4
    else:
        e.srtt += (rtt - e.srtt) // 32
    e.rtt_samples += 1
    e.longest -= e.longest // _FORGETFUL
    e.rto = min(max(4 * e.srtt, e.rto_min), e.rto_max)


@kernel
def tells_of_queues(e: Any) -> Any:
    """Whether a RESULT that is late, though nothing of its chunk was lost here, can only have waited in queues.

    It can where no other worker contributes to the job; of several another one's frame may be what was lost, so only
    where many answers have come and none of them told of a loss.
    """
    quiet = e.results_received > _MANY and e.lost_by_order == 0 and e.own_losses == 0
    return e.adaptive == 0 and (e.members == 1 or quiet)


@kernel
def learn_longest(e: Any, rtt: int) -> None:
    """A chunk that was asked for by time had only been late: its first RESULT came, and nothing of it was missing.

    Such a chunk is no sample for `learn_trip`, so where queues grow faster than samples come, all chunks were asked
    for, and their repeated RESULTs made the queues longer still. (RFC 4015: a time-out that turns out to be for nothing
    tells what the round trip is.)
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
    return e.next == e.end and e.adaptive == 0 and e.lost_by_order > 0


@kernel
def tail_trip(e: Any) -> Any:
    """After which the last chunks are missing by time, as long as answers come."""
    return 3 * trip(e) // 2


@kernel
def _shortest_trip(e: Any) -> Any:
    """The shortest round trip on this path, as far as known."""
    return min(e.rtt_min, trip(e)) if e.rtt_samples > 0 else trip(e)


@kernel
def _is_hasty(e: Any) -> Any:
    """Whether nothing may be sent that could tell of what is missing, behind a link that loses much."""
    return e.blocked and e.adaptive == 0 and e.own_rate > _MUCH and e.lost_by_order > 0


@kernel
def _soon(e: Any) -> Any:
    """After which a chunk is missing by time then."""
    return 5 * _shortest_trip(e) // 2 + e.late_by


@kernel
def due_at(e: Any, entry: Any) -> Any:
    """When a chunk that is on its way is missing by time."""
    if entry.asks == 0 and _is_hasty(e):
        return max(entry.sent_at, e.resumed_at) + _soon(e)
    if entry.asks == 0 and is_last(e) and e.answered_at > entry.sent_at:
        return max(entry.sent_at, e.resumed_at) + (max(tail_trip(e), e.longest) if e.members == 1 else tail_trip(e))
    if entry.asks == 0:
        patience = (4 * trip(e)) << (e.slack if e.own_rate <= _CLEAN else 0)
        since = max(entry.sent_at, e.resumed_at)
        if not tells_of_queues(e):
            return since + patience
        due = since + max(patience, min(2 * e.longest, e.rto_max))
        # While what left before it is still being answered it is in the same queue, however long that has become.
        return max(due, e.moved_at + 3 * trip(e)) if entry.order > e.top else due
    since = max(entry.asked_at, e.resumed_at)
    wait = 2 * trip(e)
    if entry.told:
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
    """From when on no answer has come for long."""
    return e.answered_at + _SILENCE * trip(e) + 1


@kernel
def closes_at(e: Any, entry: Any) -> Any:
    """When the switches may close a chunk that is on its way, one more of them than when it was asked for last.

    The root counts from the first subtree's sum on, which may itself have waited for a deadline: so up to two of them.
    """
    if not entry.closes or (entry.asks > 0 and entry.asked_at - entry.sent_at > 2 * e.deadline + 4 * trip(e)):
        return NEVER
    first = entry.sent_at + e.share + trip(e)
    if entry.asks == 0 or entry.asked_at < first:
        return first
    return entry.asked_at + max(e.share, 2 * trip(e))
