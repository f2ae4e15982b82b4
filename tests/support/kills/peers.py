"""Models of a group's members in real time, without processes, networks or time; each does a step at its turn.

They follow the table in ``runs/real/member.py``, and share no code with it. The data path is a book of contributions: a
collective is done in an epoch once all of the epoch's members have contributed.
"""

import itertools
import json
import os
import random
import socket
import struct
from typing import Any

import numpy as np

from tests.support.kills.script import UNKNOWN, Got, given, kind_of

BEAT_S = 0.1
_NAMES = itertools.count()
ELEMENTS = 2


class Book:
    """Contributions by epoch and collective: the kind and numbers of each member."""

    def __init__(self) -> None:
        self.members: dict[int, tuple[int, ...]] = {}
        self._given: dict[tuple[int, int], dict[int, tuple[str, list[int]]]] = {}

    def give(self, epoch: int, turn: int, member: int, kind: str, numbers: list[int]) -> None:
        self._given.setdefault((epoch, turn), {})[member] = kind, numbers

    def missing(self, epoch: int, turn: int) -> set[int]:
        return set(self.members[epoch]) - self._given.get((epoch, turn), {}).keys()

    def result(self, epoch: int, turn: int) -> list[int] | None:
        """Return the result of a collective; None while a contribution is missing."""
        if self.missing(epoch, turn):
            return None
        parts, members = self._given[epoch, turn], self.members[epoch]
        kinds = {kind for kind, _ in parts.values()}
        assert len(kinds) == 1, f"collective {turn} of epoch {epoch} is {kinds}"
        (kind,) = kinds
        if kind in {"broadcast", "state"}:
            return parts[members[0]][1]
        if kind == "gather":
            empty = [0] * ELEMENTS
            return [value for rank in range(64) for value in (parts[rank][1] if rank in parts else empty)]
        if kind == "barrier":
            return []
        return [sum(column) for column in zip(*(parts[member][1] for member in members), strict=True)]


def packed(message: dict[str, Any], numbers: list[int] | None = None) -> bytes:
    """Return a message in wire format, with an optional array behind it."""
    array = b""
    if numbers is not None:
        found = np.array(numbers or [0], np.float32)  # a message cannot carry an empty array
        message, array = {**message, "floats": found.size}, found.tobytes()
    text = json.dumps(message).encode()
    return struct.pack("!I", len(text)) + text + array


class Line:
    """A non-blocking connection to the coordinator."""

    def __init__(self, address: str, who: int | str) -> None:
        """Connect; the socket's name contains ``who``, in place of the PID that the kernel reports."""
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.connection.setblocking(False)
        self.connection.bind(f"\0p4reduce-{os.getpid()}-{next(_NAMES)}-{who}")
        self.ended = False
        self._buffer = bytearray()
        try:
            self.connection.connect(address)
        except OSError:  # the listen queue is full
            self.ended = True

    def write(self, data: bytes) -> None:
        try:
            self.connection.send(data)
        except OSError:
            return

    def read(self) -> list[tuple[dict[str, Any], list[int]]]:
        """Return messages that have arrived completely, with their arrays."""
        try:
            while data := self.connection.recv(1 << 16):
                self._buffer += data
            self.ended = True
        except BlockingIOError:
            pass
        except OSError:
            self.ended = True
        found = []
        while len(self._buffer) >= 4:
            (length,) = struct.unpack_from("!I", self._buffer)
            if len(self._buffer) < 4 + length:
                break
            message = json.loads(self._buffer[4 : 4 + length])
            end = 4 + length + 4 * message.get("floats", 0)
            if len(self._buffer) < end:
                break
            array = np.frombuffer(bytes(self._buffer[4 + length : end]), np.float32)
            found.append((message, [int(value) for value in array]))
            del self._buffer[:end]
        return found

    def close(self) -> None:
        self.connection.close()


class Peer:
    """A member, or a rank that joins; ``got`` collects its results, ``ended`` tells how it ended."""

    def __init__(
        self, address: str, rank: int, members: tuple[int, ...], seed: int, operations: int, book: Book
    ) -> None:
        self.rank, self.got, self.ended = rank, Got(), ""
        self.stopped = self.left = False
        self.sent: list[bytes] = []
        """messages sent so far, which a traitor repeats"""
        self._rng = random.Random(f"{seed}/{rank}")
        self._seed, self._operations, self._book = seed, operations, book
        self._members = self._known = members
        self._epoch = self._view = self._finished = 0
        self._operation = 0 if members else UNKNOWN
        self._told = bool(members)
        self._admitted = bool(members)
        self._changes: list[dict[str, Any]] = []
        self._calling: str | None = None
        self._trying = self._answered = False
        self._term: int | None = None
        self._held: int | None = None
        self._stop_at = 0.0
        self._free_at = self._rng.random() * 0.1
        self._beat_at = 0.0
        self._result: tuple[list[int], tuple[int, ...]] | None = None
        self._taken = False
        """True if the last result came with a commit and has not been returned to the script yet."""
        self.got.begun, self.got.joined = members, not members
        self.line = Line(address, rank)
        self.say({"join": rank, "pid": 1})

    @property
    def done(self) -> bool:
        return bool(self.ended)

    @property
    def epoch(self) -> int:
        return self._epoch

    def say(self, message: dict[str, Any], numbers: list[int] | None = None) -> None:
        self.sent.append(packed(message, numbers))
        self.line.write(self.sent[-1])

    def step(self, now: float) -> None:
        """Do one step."""
        if self.stopped or self.done:
            return
        for message, numbers in self.line.read():
            self._take(message, numbers, now)
        if self.done:
            return
        if self.line.ended:
            self.ended = "the run has ended"
            return
        if now >= self._beat_at:
            self._beat_at = now + BEAT_S
            self._beat()
        if self._term is not None and not self._answered and now >= self._stop_at:
            self._interrupt()
        self._play(now)

    # --- messages

    def _beat(self) -> None:
        waits: dict[str, Any] = {}
        if self._trying:
            waits = {"waits": [self._finished], "told": [None]}
        calls = self._calling is not None
        rests = calls and not self._trying
        self.say({"beat": self._finished, "calls": calls, "held": self._held, "rests": rests, **waits})

    def _take(self, message: dict[str, Any], numbers: list[int], now: float) -> None:
        if "prepare" in message:
            self._term, self._answered = message["prepare"], False
            self._stop_at = now + self._rng.choice((0.0, 0.01, 0.1))
        elif "give" in message:
            if self._result is not None:
                self.say({"array": message["give"]}, self._result[0])
        elif "hold" in message:
            self._held = message["hold"]
            self._beat()
        elif "commit" in message:
            self._commit(message, numbers)
        elif "refused" in message or "excluded" in message:
            (self.ended,) = message
        elif "released" in message:
            self.ended = "well"

    def _commit(self, message: dict[str, Any], numbers: list[int]) -> None:
        decision = message["commit"]
        if "history" in message:
            self._changes = [one for one in message["history"] if one["after"] != one["before"]]
            self._finished, self._view, self._admitted = decision["operation"], len(self._changes), True
            self.got.begun = self._known = tuple(decision["after"])
        elif decision["after"] != decision["before"]:
            self._changes.append(decision)
        self._members, self._epoch = tuple(decision["after"]), decision["epoch"]
        self._book.members[self._epoch] = self._members
        if message.get("floats"):
            self._taken, self._result = True, (numbers, tuple(decision["contributors"]))
            self._finished, self._calling = decision["operation"] + 1, None
        self._term = self._held = None

    def _interrupt(self) -> None:
        """Stop the current collective, unless its result has arrived, and answer the coordinator."""
        if self._trying and self._rng.random() < 0.5:
            self._finish_what_came()
        self._trying = False
        self._answered = True
        self.say(
            {
                "stopped": self._term,
                "finished": self._finished,
                "contributors": list(self._result[1]) if self._result else [],
                "operation": self._calling,
                "root": self._known[0] if self._calling else -1,
            }
        )

    # --- the script

    def _play(self, now: float) -> None:
        if not self._admitted or self.left or now < self._free_at:
            return
        if self._operation >= self._operations:
            self.left = True
            self.got.ended = "well"
            self.say({"left": self._finished})
            return
        if self._taken:
            numbers, contributors = self._result
            barrier = self._told and kind_of(self._seed, self._operation) == "barrier"
            self._return([] if barrier else numbers, contributors)
            self._taken = False
            return
        if self._calling is None:
            broadcast = not self._told or kind_of(self._seed, self._operation) == "broadcast"
            self._calling = "broadcast" if broadcast else "all_reduce"
            if self._held is not None:
                self._beat()
        if self._term is not None:
            return
        if self._trying:
            self._finish_what_came()
            return
        if self._held is not None or self._hears():
            return
        self._trying = True
        kind = kind_of(self._seed, self._operation) if self._told else "state"
        numbers = given(self._seed, self._operation, self.rank, ELEMENTS) if self._told else [self._operation]
        self._book.give(self._epoch, self._finished, self.rank, kind, numbers)

    def _hears(self) -> bool:
        """Process the next change of the group if it or a later one is due; return whether it was."""
        due = False
        for change in self._changes[self._view :]:
            lost = {int(member) for member in change["lost"]}
            due |= change["operation"] + (change["outcome"] != "raised") <= self._finished
            due |= self._calling == "broadcast" and self._known[0] in lost
        if not due:
            return False
        change = self._changes[self._view]
        self._view, self._known = self._view + 1, tuple(change["after"])
        self.got.changes.append((self._operation, self._view, tuple(change["after"])))
        self._told = self._told and not change["joined"]
        self._calling = None
        return True

    def _finish_what_came(self) -> None:
        numbers = self._book.result(self._epoch, self._finished)
        if numbers is not None and self._rng.random() < 0.7:
            self._finish(numbers, self._members)

    def _finish(self, numbers: list[int], contributors: tuple[int, ...]) -> None:
        self._finished += 1
        self._result = numbers, contributors
        self._calling, self._trying = None, False
        self._return(numbers, contributors)

    def _return(self, numbers: list[int], contributors: tuple[int, ...]) -> None:
        """Return a result to the script."""
        if self._told:
            self.got.results.append((self._operation, contributors, numbers))
            self._operation += 1
        else:
            self._operation, self._told = numbers[0], True
        self._free_at += self._rng.choice((0.0, 0.01, 0.05))
