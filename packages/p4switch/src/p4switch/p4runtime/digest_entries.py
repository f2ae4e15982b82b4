"""DigestEntry, and the digest lists that controllers get and acknowledge (PI, digest_mgr.cpp)."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
from finsy.proto import p4r
from numpy.typing import NDArray

from p4switch.p4runtime.errors import P4RuntimeError, StatusCode
from p4switch.p4runtime.p4info import DigestInfo, Schema, Shape, encode_shape
from p4switch.p4runtime.updates import Kind, check_update_type, copied, invalid
from p4switch.traffic import Digest

# Idle time-outs: table entries that no packet has hit for a time (P4Runtime specification, section "Idle-timeout").
#
# No timers run by themselves: the devices' driver polls for idle entries as often as it likes, in its own time. A hit
# takes effect at the next poll, so the interval between polls is the resolution, as on other targets.


Clock: TypeAlias = Callable[[], int]
"""Returns the devices' time in nanoseconds, which never goes back."""

_FIRST_ROWS: Final = 8
_NEVER: Final = np.iinfo(np.int64).max


class IdleTimers:
    """The idle timers of all entries of one table, indexed by the entries' rows.

    A poll of all entries takes a few array operations. ``hits``: packets counted at the last poll; ``hit_at``: time of
    the last hit or of the insertion; ``since``: start of the interval; both in nanoseconds.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running: NDArray[np.bool_] = np.zeros(_FIRST_ROWS, dtype=np.bool_)
        self._hits: NDArray[np.uint64] = np.zeros(_FIRST_ROWS, dtype=np.uint64)
        self._hit_at: NDArray[np.int64] = np.zeros(_FIRST_ROWS, dtype=np.int64)
        self._since: NDArray[np.int64] = np.zeros(_FIRST_ROWS, dtype=np.int64)
        self._timeout: NDArray[np.int64] = np.full(_FIRST_ROWS, _NEVER, dtype=np.int64)

    def start(self, row: int, hits: int, timeout: int) -> None:
        """Starts the timer of a new entry. ``hits``: its counter now; ``timeout``: nanoseconds, 0: none."""
        self._grow(row + 1)
        self._running[row] = True
        self._hits[row] = hits
        self._hit_at[row] = self._since[row] = self._clock()
        self._timeout[row] = timeout or _NEVER

    def restart(self, row: int, hits: int, timeout: int) -> None:
        """Starts a new interval for a modified entry; the time of its last hit stays."""
        self.elapsed([row], np.array([hits], dtype=np.uint64))
        self._since[row] = self._clock()
        self._timeout[row] = timeout or _NEVER

    def counter_set(self, row: int, hits: int) -> None:
        """Adopts a counter value that a controller has set, which is not a hit."""
        if row < len(self._running) and self._running[row]:
            self._hits[row] = hits

    def stop(self, row: int) -> None:
        """Ends the timer of an entry."""
        if row < len(self._running):
            self._running[row] = False
            self._timeout[row] = _NEVER

    def elapsed(self, rows: list[int], packets: NDArray[np.uint64]) -> list[int]:
        """Returns nanoseconds since the last hit of each entry, or since its insertion if it was never hit.

        Args:
            rows: rows of the entries.
            packets: packets counted so far at each of them.
        """
        if not rows:
            return []
        self._grow(max(rows) + 1)
        at, now = np.array(rows, dtype=np.intp), self._clock()
        new = ~self._running[at]  # constant entries, which are never inserted
        self._running[at[new]], self._hits[at[new]], self._hit_at[at[new]] = True, packets[new], now
        hit = packets != self._hits[at]
        self._hits[at[hit]] = packets[hit]
        self._hit_at[at[hit]] = self._since[at[hit]] = now
        return [int(ns) for ns in now - self._hit_at[at]]

    def expired(self, packets: NDArray[np.uint64]) -> list[int]:
        """Returns the rows of entries that were idle for their time-out; reported again after another time-out.

        Args:
            packets: packets counted so far, by row.
        """
        known = min(len(packets), len(self._running))
        now, packets = self._clock(), packets[:known]
        hit = self._running[:known] & (packets != self._hits[:known])
        if hit.any():
            self._hits[:known][hit] = packets[hit]
            self._hit_at[:known][hit] = self._since[:known][hit] = now
        late = np.flatnonzero(now - self._since[:known] >= self._timeout[:known])
        self._since[late] = now
        return [int(row) for row in late]

    def _grow(self, rows: int) -> None:
        more = max(rows, 2 * len(self._running)) - len(self._running)
        if rows > len(self._running):
            self._running = np.concatenate([self._running, np.zeros(more, dtype=np.bool_)])
            self._hits = np.concatenate([self._hits, np.zeros(more, dtype=np.uint64)])
            self._hit_at = np.concatenate([self._hit_at, np.zeros(more, dtype=np.int64)])
            self._since = np.concatenate([self._since, np.zeros(more, dtype=np.int64)])
            self._timeout = np.concatenate([self._timeout, np.full(more, _NEVER, dtype=np.int64)])


Values = tuple[int, ...]


MAX_LIST: Final = 1024
"""Largest number of samples in a list, and the default for max_list_size: a message stays below gRPC's 4 MiB."""

MAX_UNACKED: Final = 65_536
"""Largest number of samples of a digest that wait for an acknowledgement; further samples are dropped."""


@dataclass(slots=True)
class _List:
    """The state of one digest.

    Attributes:
        waiting: samples of the unfinished list; began: time of the first one, nanoseconds.
        unacked: samples of the lists that wait for an acknowledgement, with the time of sending, oldest first.
        pending: by sample, how often it is in ``waiting`` or ``unacked``.
    """

    info: DigestInfo
    shape: Shape
    entry: p4r.DigestEntry
    next_id: int = 1
    waiting: list[Values] = field(default_factory=list)
    began: int = 0
    unacked: dict[int, tuple[tuple[Values, ...], int]] = field(default_factory=dict)
    unacked_samples: int = 0
    pending: Counter[Values] = field(default_factory=Counter)

    def forget(self, list_id: int) -> None:
        """Forgets a list that was sent: it is acknowledged, or no acknowledgement is expected any more."""
        samples, _ = self.unacked.pop(list_id, ((), 0))
        self.unacked_samples -= len(samples)
        self.release(samples)

    def release(self, samples: tuple[Values, ...]) -> None:
        """Takes samples out of ``pending``."""
        for values in samples:
            self.pending[values] -= 1
            if not self.pending[values]:
                del self.pending[values]

    def expire(self, sent_until: int) -> None:
        """Forgets the lists that were sent up to a time."""
        while self.unacked:
            list_id, (_, sent) = next(iter(self.unacked.items()))
            if sent > sent_until:
                return
            self.forget(list_id)


class DigestEntries:
    """Configures digests, collects samples and hands full lists to ``send``."""

    def __init__(self, schema: Schema, clock: Clock) -> None:
        self._schema = schema
        self._clock = clock
        self._lists: dict[int, _List] = {}
        self._next_ids: dict[int, int] = {}
        self.send: Callable[[p4r.StreamMessageResponse], bool] = lambda _: False
        """Sends a message to the controllers; returns False if no controller got it."""
        self.dropped = 0
        """Number of samples that no controller got."""

    # --- configuration

    def write(self, kind: Kind, entry: p4r.DigestEntry) -> None:
        """Turns a digest on, reconfigures it, or turns it off. Raises P4RuntimeError."""
        info = self._schema.digests.get(entry.digest_id)
        if info is None:
            raise P4RuntimeError(StatusCode.NOT_FOUND, f"there is no digest with id {entry.digest_id}")
        what = f"digest {info.name!r}"
        check_update_type(kind, what)
        configured = self._lists.get(info.id)
        if kind == p4r.Update.INSERT and configured is not None:
            raise P4RuntimeError(StatusCode.ALREADY_EXISTS, f"{what} is configured already")
        if kind != p4r.Update.INSERT and configured is None:
            raise P4RuntimeError(StatusCode.NOT_FOUND, f"{what} is not configured")
        if kind == p4r.Update.DELETE:
            self._next_ids[info.id] = self._lists.pop(info.id).next_id
            return
        config = entry.config
        if config.max_timeout_ns < 0 or config.ack_timeout_ns < 0 or config.max_list_size < 0:
            raise invalid(f"{what}: a time-out or the list size is negative")
        if info.shape is None:
            raise P4RuntimeError(StatusCode.UNIMPLEMENTED, f"{what}: its type is not supported")
        kept = copied(entry)
        if configured is None:
            self._lists[info.id] = _List(info, info.shape, kept, self._next_ids.get(info.id, 1))
        else:
            configured.entry = kept

    def read(self, wanted: p4r.DigestEntry) -> Iterator[p4r.DigestEntry]:
        """Yields the configuration of one digest, or of all if the id is 0. Raises P4RuntimeError."""
        if wanted.digest_id == 0:
            return iter([digest.entry for digest in self._lists.values()])
        if wanted.digest_id not in self._lists:
            raise P4RuntimeError(StatusCode.NOT_FOUND, f"digest {wanted.digest_id} is not configured")
        return iter([self._lists[wanted.digest_id].entry])

    # --- samples

    def learn(self, digest: Digest) -> None:
        """Adds the digest of a packet to its list; sends the list if it is full or need not wait."""
        for learned in self._lists.values():
            if learned.info.name == digest.learn_list.name:
                self._learn(learned, digest.values)

    def flush(self) -> int:
        """Sends the lists that have waited for max_timeout_ns. Returns their number."""
        now, sent = self._clock(), 0
        for learned in self._lists.values():
            if learned.waiting and now - learned.began >= learned.entry.config.max_timeout_ns:
                self._send(learned)
                sent += 1
        return sent

    def acknowledge(self, ack: p4r.DigestListAck) -> None:
        """Takes a controller's acknowledgement of a list: its samples may be reported again. Raises NOT_FOUND."""
        if ack.digest_id not in self._schema.digests:
            raise P4RuntimeError(StatusCode.NOT_FOUND, f"there is no digest with id {ack.digest_id}")
        learned = self._lists.get(ack.digest_id)
        if learned is not None:
            learned.forget(ack.list_id)

    def _learn(self, learned: _List, values: Values) -> None:
        config, now = learned.entry.config, self._clock()
        learned.expire(now - config.ack_timeout_ns)
        if config.ack_timeout_ns > 0:
            if values in learned.pending:
                return
            if learned.unacked_samples + len(learned.waiting) >= MAX_UNACKED:
                self.dropped += 1
                return
        if not learned.waiting:
            learned.began = now
        learned.pending[values] += 1
        learned.waiting.append(values)
        full = len(learned.waiting) >= min(config.max_list_size or MAX_LIST, MAX_LIST)
        if full or now - learned.began >= config.max_timeout_ns:
            self._send(learned)

    def _send(self, learned: _List) -> None:
        now, samples = self._clock(), tuple(learned.waiting)
        message = p4r.DigestList(digest_id=learned.info.id, list_id=learned.next_id, timestamp=now)
        message.data.extend(encode_shape(learned.shape, iter(values)) for values in samples)
        learned.next_id += 1
        learned.waiting.clear()
        delivered = self.send(p4r.StreamMessageResponse(digest=message))
        if not delivered:
            self.dropped += len(samples)
        if delivered and learned.entry.config.ack_timeout_ns > 0:
            learned.unacked[message.list_id] = (samples, now)
            learned.unacked_samples += len(samples)
        else:
            learned.release(samples)
