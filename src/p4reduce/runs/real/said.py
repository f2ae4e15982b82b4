"""What a member says, held against the protocol of runs/real/member.py before anybody relies on it.

A message has a form, and a place: a member that has finished seven operations has not finished six, answers no question
that was not asked, and joins once. What was said before, by it or by another one, is no message any more.
"""

from collections.abc import Mapping
from typing import Any, Final

from p4reduce.base.records import RecordError, from_plain
from p4reduce.control_plane.plans.forest import MOST_BLOCKS
from p4reduce.group.remote import FramingError
from p4reduce.workers.status import WaitStatus

Message = Mapping[str, Any]
KINDS: Final = ("beat", "stopped", "array", "left")
MOST_OPERATIONS: Final = 1 << 53
_SEQS: Final = 1 << 32
_LEVELS: Final = 1 << 16
"""more than a tree has; the coordinator climbs as many"""


def check(message: Message, *, finished: int, term: int, left: bool, ranks: int) -> str:
    """Which of ``KINDS`` a message is. Raises ``FramingError`` for one that no member says.

    finished: operations that its member has said to have finished. term: the last one in which anybody was asked.
    left: whether it has said that it leaves. ranks: that there are.
    """
    kind = next((one for one in KINDS if one in message), None)
    if kind == "beat":
        _check_beat(message, finished)
    elif kind == "stopped":
        _term(message, kind, term)
        _number(message, "finished", finished)
        contributors = message.get("contributors")
        if not isinstance(contributors, list) or any(
            type(one) is not int or not 0 <= one < ranks for one in contributors
        ):
            raise FramingError(f"contributors: {contributors!r}")
        if not isinstance(message.get("operation"), str | None) or type(message.get("root")) is not int:
            raise FramingError("an operation or a root that is none")
    elif kind == "array":
        _term(message, kind, term)
        if not isinstance(message.get("failed"), str | None):
            raise FramingError("an error that is no text")
    elif kind == "left":
        if left:
            raise FramingError("it left twice")
        _number(message, "left", finished)
    else:
        raise FramingError("it joined twice" if "join" in message else f"a message of {sorted(message)[:5]!r}")
    return kind


def joins(message: Message, ranks: int) -> int | None:
    """The rank that a new connection asks for; None where that is none."""
    rank = message.get("join")
    return rank if type(rank) is int and 0 <= rank < ranks else None


def _check_beat(message: Message, finished: int) -> None:
    _number(message, "beat", finished)
    held = message.get("held")
    if any(type(message.get(name)) is not bool for name in ("calls", "rests")) or type(held) not in (int, type(None)):
        raise FramingError("a beat that does not say whether it calls")
    if "waits" not in message:
        return
    waits, every = message["waits"], message.get("told")
    if not (isinstance(waits, list) and isinstance(every, list) and len(waits) == len(every) <= MOST_BLOCKS):
        raise FramingError("a beat that does not say for each tree what is waited for")
    for seq in waits:
        if seq is not None:
            _number({"waits": seq}, "waits", 0, _SEQS)
    for told in every:
        if told is None:
            continue
        try:
            from_plain(WaitStatus, told, "told")
        except RecordError as error:
            raise FramingError(str(error)) from None
        _number(told, "seq", 0, _SEQS)
        _number(told, "level", 0, _LEVELS)


def _term(message: Message, name: str, term: int) -> None:
    if type(message[name]) is not int or not 0 < message[name] <= term:
        raise FramingError(f"{name}: nobody asked in a term {message[name]!r}")


def _number(message: Message, name: str, least: int, end: int = MOST_OPERATIONS) -> None:
    found = message.get(name)
    if type(found) is not int or not 0 <= found < end:
        raise FramingError(f"{name}: {found!r}")
    if found < least:
        raise FramingError(f"{name}: {found} operations, and it had finished {least}")
