"""Reads STF: one command a line, ``#`` starts a comment.

add TABLE [PRIORITY] KEY:NUMBER ... ACTION(ARGUMENT:NUMBER, ...) [= NAME]
setdefault TABLE ACTION(...)
packet PORT HEX...          expect PORT [HEX with *...] [$]
check_counter NAME(INDEX) [packets|bytes ==|!=|<|<=|>|>= NUMBER]
wait, and commands of BMv2's command line.
"""

import re
from collections.abc import Callable
from typing import Final

from tests.support.conformance.stf.numbers import parse_number
from tests.support.conformance.stf.statements import (
    Add,
    CheckCounter,
    Command,
    Expect,
    Packet,
    SetDefault,
    Statement,
    StfError,
    Wait,
)

COMMANDS: Final = frozenset(
    {
        *("mc_mgrp_create", "mc_node_create", "mc_node_associate"),
        *("mirroring_add", "mirroring_add_mc", "mirroring_get", "mirroring_delete"),
        *("register_read", "register_write", "register_reset", "counter_read", "counter_write"),
        *("meter_get_rates", "meter_set_rates", "meter_array_set_rates"),
    }
)
"""Commands that p4c's runner passes to BMv2's command line."""

_CALL: Final = re.compile(r"(?P<name>[^\s(]+)\s*\((?P<arguments>[^)]*)\)\s*(?:=\s*(?P<handle>\w+)\s*)?$")
_COUNTER: Final = re.compile(
    r"(?P<name>[^\s(]+)\s*\(\s*(?P<index>[^)\s]+)\s*\)"
    r"(?:\s*(?P<unit>packets|bytes)\s*(?P<comparison>==|!=|<=|>=|<|>)\s*(?P<value>\w+))?\s*$"
)


def parse_stf(text: str) -> list[Statement]:
    """Returns the statements of a test.

    Raises:
        StfError: with the line's number, for any line that is not understood; no line is skipped.
    """
    statements = []
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.split("#", 1)[0].strip()
        if line:
            statements.append(_statement(line, number))
    return statements


def _statement(line: str, number: int) -> Statement:
    word, _, rest = line.partition(" ")
    name = word.strip().lower()
    try:
        if name in COMMANDS:
            return Command(name, tuple(rest.split()), number)
        reader = _READERS.get(name)
        if reader is None:
            raise StfError(f"unknown command {word!r}")
        return reader(rest.strip(), number)
    except StfError as error:
        raise StfError(f"line {number}: {error}") from None


def _add(rest: str, line: int) -> Add:
    found = _CALL.search(rest)
    if found is None:
        raise StfError("'add' without an action: expected ACTION(...)")
    table, *words = rest[: found.start()].split()
    priority = None
    if words and words[0].isdecimal():
        priority = int(words.pop(0))
    keys = tuple(_pair(word, "key") for word in words)
    return Add(table, priority, keys, found["name"], _arguments(found["arguments"]), found["handle"], line)


def _set_default(rest: str, line: int) -> SetDefault:
    found = _CALL.search(rest)
    tables = rest[: found.start()].split() if found is not None else []
    if found is None or len(tables) != 1:
        raise StfError("expected 'setdefault TABLE ACTION(...)'")
    return SetDefault(tables[0], found["name"], _arguments(found["arguments"]), line)


def _packet(rest: str, line: int) -> Packet:
    port, data = _port(rest)
    try:
        return Packet(port, bytes.fromhex(data), line)
    except ValueError:
        raise StfError(f"packet data {data!r} is not a row of bytes in hex") from None


def _expect(rest: str, line: int) -> Expect:
    port, data = _port(rest)
    exact = data.endswith("$")
    pattern = "".join(data.removesuffix("$").split()).upper()
    if not re.fullmatch(r"[0-9A-F*]*", pattern):
        raise StfError(f"expected data {data!r} is not hex with '*'")
    return Expect(port, pattern if data else None, exact, line)


def _check_counter(rest: str, line: int) -> CheckCounter:
    found = _COUNTER.match(rest)
    if found is None:
        raise StfError("expected 'check_counter NAME(INDEX) packets == NUMBER'")
    value = parse_number(found["value"] or "0")
    return CheckCounter(
        found["name"], found["index"], found["unit"] or "packets", found["comparison"] or "==", value, line
    )


def _wait(rest: str, line: int) -> Wait:
    if rest:
        raise StfError(f"'wait' takes nothing, got {rest!r}")
    return Wait(line)


_READERS: Final[dict[str, Callable[[str, int], Statement]]] = {
    "add": _add,
    "setdefault": _set_default,
    "packet": _packet,
    "expect": _expect,
    "check_counter": _check_counter,
    "wait": _wait,
}


def _port(rest: str) -> tuple[int, str]:
    word, _, data = rest.partition(" ")
    if not word.isdecimal():
        raise StfError(f"port {word!r} is not a decimal number")
    return int(word), data.strip()


def _pair(word: str, what: str) -> tuple[str, str]:
    name, colon, number = word.partition(":")
    if not (name.strip() and colon and number.strip()):
        raise StfError(f"{what} {word!r} is not NAME:NUMBER")
    return name.strip(), number.strip()


def _arguments(text: str) -> tuple[tuple[str, str], ...]:
    return tuple(_pair(word, "argument") for word in text.split(",") if word.strip())
