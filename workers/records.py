"""The state of endpoints as NumPy records: what the compiled cores read and write, and nothing else.

``ENDPOINT_DTYPE`` is one endpoint. Times are integer picoseconds of virtual time, lengths bytes, addresses
int64 machine addresses of memory that ``Endpoints`` keeps alive. Sequence numbers are kept unwrapped
in 64 bits; the 32 low bits travel. ``NEVER`` is the deadline of an endpoint that waits for nothing.

``ENTRY_DTYPE`` is one outgoing chunk of a sender's window (a ring of ``ring`` entries, indexed by seq & (ring - 1)).
``SLOT_DTYPE`` is one chunk of a server's window, ``RELAY_SLOT_DTYPE`` one of a worker that adds up for others.
"""

from enum import IntEnum
from typing import Final

import numpy as np

NEVER: Final = 1 << 62
REFUSAL_CELLS: Final = 24
CLASSES: Final = 8
"""of endpoints at a host, as of the queues of a switch's port"""


class EndpointKind(IntEnum):
    """The kind of an endpoint; 0 is an unused record."""

    WORKER = 1
    SERVER = 2
    RING = 3
    ALL_TO_ALL = 4
    RELAY = 5


class Collective(IntEnum):
    """The collective of an operation; the table is in docs/protocol.md."""

    ALL_REDUCE = 1
    PUSH = 2
    PULL = 3
    PUSH_PULL = 4
    BARRIER = 5
    ALL_TO_ALL = 6


class EndpointState(IntEnum):
    """Where an endpoint stands with its operation."""

    IDLE = 0
    ACTIVE = 1
    DONE = 2
    FAILED = 3


class Refusal(IntEnum):
    """Why an endpoint ignored a frame. Numbers as in ``p4src/refuse.p4`` where a switch has the same reason."""

    CHECKSUM = 2
    MALFORMED = 6
    JOB = 7
    PEER = 8
    TYPE = 9
    EPOCH = 10
    SEQ = 11
    KIND = 12
    DUPLICATE = 13
    NOT_POSTED = 15
    TOKEN = 18


class EntryState(IntEnum):
    """Where an outgoing chunk stands."""

    WAITING = 0
    OUTSTANDING = 1
    ANSWERED = 2


class ChunkAnswer(IntEnum):
    """The content of a chunk's RESULT."""

    NOTHING = 0
    SUM = 1
    RAW = 2


def _integers(*names: str) -> list[tuple[str, str]]:
    return [(name, "i8") for name in names]


ENDPOINT_DTYPE: Final = np.dtype(
    [
        # priority: its class at its host, 0..7; the highest is asked first.
        *_integers("kind", "status", "lingering", "done_at", "priority"),
        # Who it is: its address, the job, the peers it talks to.
        *_integers("mac", "ip", "udp", "shared", "job", "epoch", "lanes", "members"),
        # peers: how many. templates: 128 bytes a peer, an empty frame and one with lanes, 64 bytes of header each,
        # with the token that both show each other.
        # senders: sorted int64 of (ip << 16 | udp) of the peers; ranks: the peer of each of them, int64.
        *_integers("peers", "templates", "senders", "ranks"),
        # Numbers: mode as in numbers.NumberMode, headroom in bits; fixed scale and each worker's share of int32.
        *_integers("mode", "headroom"),
        ("scale", "f8"),
        ("limit", "f8"),
        # Lanes narrower than 32 bits (narrow.py): bits of the operation's, and elements of each of its chunks; how many
        # elements an entry of ``payloads`` has room for. Of others: 32, ``lanes``, ``lanes``.
        *_integers("bits", "elements", "room_elements"),
        # The operation: collective, first seq and the one after its last, chunks, lead, length in elements.
        *_integers("operation", "collective", "start", "end", "chunks", "lead", "max_lead", "length", "iteration"),
        # source, target: callers' float32 arrays; exponents: uint8 for each chunk.
        *_integers("source", "target", "exponents"),
        # known: its first chunks, whose exponents the operation before has agreed on. tail: its last seqs, which may
        # announce those of the next one. ahead: exponents of the next one, or 0; ahead_count: how many are announced.
        *_integers("known", "tail", "ahead", "ahead_count"),
        # Of a worker that guesses exponents; 0: it does not. truths: int16 for each of the first ``lead``
        # chunks, agreed on or -1; unknown: how many are -1. guesses, doubtful: uint8 for each, what they left with,
        # whether a RESULT was flagged; inputs: float32, copies of them; again: int64, which come again; redone: how
        # many do, redone_total: in all operations. losing: some worker has said that it lacked many chunks;
        # lost_before: how many this one had lacked when it last said so or not.
        *_integers("truths", "unknown", "guesses", "doubtful", "inputs", "again", "redone", "redone_total"),
        *_integers("losing", "lost_before"),
        # words: the lanes are the array's own int32; poison: uint8 for each chunk, or 0: which ones are not finite.
        # tainted: of a ring's sum of words, whether some lane met the end of int32, here or at others.
        *_integers("words", "poison", "tainted"),
        # Of an operation that may be closed without some (`kernels/worker.py`): uint16, uint8 for each chunk; 0: none.
        # kept: float32, the part of this worker's numbers that no sum has (late, or lost by rounding); 0: not kept.
        *_integers("counts", "lates", "kept"),
        ("step", "f4"),
        # The sender's window: entries from low (oldest unanswered) to next; fresh: the first seq never sent in any
        # epoch; epoch_base: the seq that the epoch began with. entries, payloads: rings of ENTRY_DTYPE and of lanes.
        # A worker's window is slot by slot: a chunk waits for the RESULT ``window`` before it, and for the oldest that
        # is missing to be less than ``reach`` before it; room: how many may be on their way at most.
        *_integers("ring", "window", "first", "low", "next", "fresh", "epoch_base", "entries", "payloads"),
        *_integers("reach", "room"),
        # Loss detection: transmissions are numbered (order); top: the newest answered one; swept: those before it
        # were in flight when the timer ran out; reorder: how far answers may overtake; lost: marked for resending.
        *_integers("order", "top", "swept", "reorder", "lost", "progress"),
        # A worker's (recovery.py): seqs to ask for, to send again and to send late (rings of 2 * ring int64); skipped:
        # a byte for each seq; when the last answer came and when, before it, there had been none for a while.
        *_integers("ask_queue", "ask_head", "ask_tail", "again_queue", "again_head", "again_tail"),
        *_integers("late", "late_head", "late_tail", "skipped", "answered_at", "resumed_at", "settled_at"),
        # asks, waits: ASKs sent, WAITs received; the last of these: its chunk, how many switches up it was told, the
        # mask of children that are awaited there, when it came. own_losses: chunks of which the worker's own link lost
        # something, own_rate: their moving average, in CHUNKs; needless: of questions by order that were for nothing;
        # late_by: how much earlier than what overtook them frames had left that came after all; top_sent_at: when the
        # newest answered chunk had (blocked, below: nothing new may leave);
        # slack: doublings of the time after which a chunk is missing, in real time; when it grew last.
        # longest: round trips that took longer than the time after which they were asked for: the longest, forgotten
        # slowly (`kernels/recovery.py`); moved_at: when a chunk that was not asked for, or for nothing, was answered
        # last.
        # cover: for how long other jobs' windows may keep a chunk waiting, picoseconds; burst: in queues of switches;
        # strangers: those of other tensors;
        # joined: its round trips when one of these jobs, or this one, last began.
        # latest: the chunk whose RESULT came last, of those sent for the first time. sent_seq, sent_iteration: of the
        # last contribution in this epoch; numbered: RESULTs name the chunk of the previous one (kernels/worker.py);
        # stirred: and some arrived out of order, so a frame was lost somewhere in the tree.
        # prompt: the parent repeats no RESULT that is on its way, so this worker may ask early.
        # repeats: it asks by sending its contribution again. deadline, share: of a tree that closes chunks, and of each
        # of its levels, picoseconds.
        *_integers("asks", "waits", "wait_seq", "wait_level", "wait_mask", "wait_at", "own_losses", "own_rate"),
        *_integers(
            "needless",
            "slack",
            "slackened_at",
            "repeats",
            "least_reorder",
            "late_by",
            "top_sent_at",
            "deadline",
            "share",
            "longest",
            "moved_at",
            "cover",
            "burst",
            "strangers",
            "joined",
            "latest",
            "sent_seq",
            "sent_iteration",
            "numbered",
            "stirred",
            "prompt",
        ),
        # Congestion (`kernels/sender.py`): flight: chunks sent and neither answered nor lost. cwnd and its like in
        # CHUNKs; held_back, cut_order: transmissions before these were on their way when the window filled, or was cut.
        *_integers("adaptive", "flight", "cwnd", "initial", "floor", "threshold", "keep", "brake", "brake_ps"),
        *_integers("held_back", "cut_order", "base_rtt", "last_rtt", "echo"),
        *_integers("cwnd_low", "cwnd_high", "cwnd_sum", "answers", "cuts", "braked", "lost_by_order", "lost_by_time"),
        # The timer (RFC 6298), picoseconds.
        *_integers(
            "timer", "srtt", "rttvar", "rtt_min", "round_rtt", "sampled_at", "rto", "rto_initial", "rto_min", "rto_max"
        ),
        # question: least time between questions by time, or again (0: none); question_at: when the next may leave.
        *_integers("timeouts", "retries", "failed_seq", "question", "question_at"),
        # Pacing (`kernels/sender.py`), picoseconds: between new chunks (0: none), when the next may leave, when to ask
        # again.
        *_integers("pace", "pace_at", "wake"),
        # Ring: this worker's rank, segment length in chunks, what came in (cells: one byte a seq, held: early frames).
        *_integers("rank", "size", "segment", "rx_low", "rx_start", "rx_end", "rx_high", "reported", "reportable"),
        *_integers("cells", "held", "ack_every", "acks_sent", "acks_due", "poll"),
        # Selective acknowledgements (`kernels/ring.py`): how far the window may reach beyond a gap; the latest
        # transmission when a loss was noticed, and the least time-out from then on; new frames since the last report of
        # them; frames that were sent again and are to be confirmed, the latest, and whether one was in already; whether
        # a poll is to be answered.
        *_integers("lossy", "rto_lossy", "unreported", "confirming", "repeated", "early", "polled"),
        ("confirm", "i8", (4,)),
        # All-to-all: its streams (records of this type, all of the kind ALL_TO_ALL), whose turn it is; of a stream:
        # blocked, it sends nothing new.
        *_integers("streams", "turn", "blocked"),
        # Server: slots (a ring of SLOT_DTYPE), contributions, results, who has come and been answered, replies to send.
        *_integers("slots", "contributions", "results", "marks", "replies", "reply_head", "reply_tail", "completed"),
        # unposted: by member, the seq after the newest that came before its operation was posted.
        *_integers("unposted"),
        # Relay: a worker with slots (a ring of RELAY_SLOT_DTYPE), their lanes in ``results``, marks and replies as a
        # server's. root: it has no parent. scratch: room for a frame between the worker and its slots.
        *_integers("root", "scratch"),
        # What happened. frames_sent counts resends too, resends separately; bytes without FCS.
        *_integers("frames_sent", "bytes_sent", "resends", "resend_bytes", "frames_received", "results_received"),
        # poisoned: chunks that were NaN or infinite somewhere. bare: chunks of sums that travelled without lanes.
        *_integers("saturated", "poisoned", "bare", "congested", "rtt_samples", "spurious"),
        ("refused", "i8", (REFUSAL_CELLS,)),
    ],
    align=True,
)

ENTRY_DTYPE: Final = np.dtype(
    [
        *_integers("seq", "order", "sent_at", "target", "count", "iteration", "lead", "operation", "chance"),
        ("attempts", "i4"),
        ("state", "u1"),
        ("lost", "u1"),
        ("type", "u1"),
        ("has_lanes", "u1"),
        ("answer", "u1"),
        ("words", "u1"),
        # bits: of its lanes; chance, below: what they are rounded by (narrow.py).
        ("bits", "u1"),
        ("poisoned", "u1"),
        # bare: its lanes are zero at all workers, so neither it nor its RESULT carries them.
        ("bare", "u1"),
        # Exponents: this worker's of the chunk it announces; the agreed one of its own lanes; the one that came back.
        ("announced", "u1"),
        ("agreed", "u1"),
        ("carried", "u1"),
        # exponent: this worker's own of its lanes; withheld: they went as zeros, since it is beyond the agreed one.
        ("exponent", "u1"),
        ("withheld", "u1"),
        ("closes", "u1"),
        # guessed: its exponent was a guess, or was settled before it left (kernels/chunks.py); else it is announced.
        ("guessed", "u1"),
        # Sent again because the timer ran out, to ask whether the peer answers.
        ("probe", "u1"),
        # A ring's: its operation was tainted when it left.
        ("saturated", "u1"),
        ("contributions", "u2"),
        # A worker's: in_order: it left in its turn; flies: it counts as on its way; again: it is to be sent again;
        # told: a WAIT came since it was last asked for; waited: 1 + the level of the last WAIT, 0: none came; repeated:
        # its RESULT was; proven: whether that was for nothing is known; own_loss: its own link lost of it; insists: its
        # RESULT has been sent, but is not on its way: it is to be asked for in any case (INSISTS), or has been
        # (INSISTED).
        ("in_order", "u1"),
        ("flies", "u1"),
        ("again", "u1"),
        ("told", "u1"),
        ("waited", "u1"),
        ("cause", "u1"),
        ("repeated", "u1"),
        ("proven", "u1"),
        ("own_loss", "u1"),
        ("insists", "u1"),
        # asks, unheard: questions, and those since something was heard of the chunk
        ("asks", "i4"),
        ("unheard", "i4"),
        ("asked_at", "i8"),
    ],
    align=True,
)

SLOT_DTYPE: Final = np.dtype(
    [
        *_integers("seq", "arrived", "count", "iteration"),
        ("done", "u1"),
        ("type", "u1"),
        ("has_lanes", "u1"),
        ("answer", "u1"),
        ("exponent", "u1"),
        ("saturated", "u1"),
        ("congested", "u1"),
    ],
    align=True,
)

RELAY_SLOT_DTYPE: Final = np.dtype(
    [
        # wait_level, wait_mask: what the parent has said of whom it waits for. number: how many chunks were done before
        # this one and with it, in the order in which RESULTs leave. evidence: the field ``count`` of the next ASK up.
        *_integers("seq", "arrived", "count", "iteration", "wait_level", "wait_mask", "number", "evidence"),
        ("done", "u1"),
        ("has_lanes", "u1"),
        ("exponent", "u1"),
        ("saturated", "u1"),
        ("congested", "u1"),
    ],
    align=True,
)
