"""Keeps docs/embedded-switch.md true: the LLVM IR that it shows, and the list of what is refused.

An IR block follows a mark ``<!-- ir: function label -->``, the list stands between ``<!-- unsupported: begin -->`` and
``<!-- unsupported: end -->``. To bring the page up to date:
``python -m p4switch.trace.page tests/data/ten_lines.json docs/embedded-switch.md``
"""

from __future__ import annotations

import ast
import dataclasses
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final

from p4switch.base.files import write_text
from p4switch.base.values import table
from p4switch.compiler.pipelines import build_module
from p4switch.interpreter import Event
from p4switch.interpreter.trace import (
    HeaderEmitted,
    HeaderExtracted,
    ParserFailed,
    PrimitiveRun,
    StageStarted,
    StateEntered,
    TableApplied,
    Verdict,
)
from p4switch.program import Program, load_program
from p4switch.program.actions import Conditional
from p4switch.program.errors import SourceInfo
from p4switch.trace.record import Headers, Names, PacketTrace

# Traces as JSON: one object for each packet, its events in the order in which they happened.
#
# Numbers above 2**53 are written as hexadecimal strings, since JSON readers would round them.


# Traces as small tables of HTML, for notebooks.


_LONGEST = 16
"""digits of a number; lanes are numbers of 2,048 bits"""


def packet_html(trace: PacketTrace) -> str:
    """One packet: parser states, tables, what changed, and what left. Everything is escaped."""
    note = f", {trace.note}" if trace.note else ""
    title = f"packet {trace.number} by port {trace.port}, {len(trace.frame)} bytes{note}"
    sent = [("left", f"by port {one.port}, {len(one.frame)} bytes") for one in trace.sent]
    names = Names(trace.program)
    rows = chain.from_iterable(_rows(event, names) for event in trace.events)
    return table(title, ("", "what happened"), [*rows, ("outcome", trace.outcome.why), *sent])


def _rows(event: Event, names: Names) -> Iterator[tuple[str, str]]:
    match event:
        case StageStarted(stage):
            yield stage, ""
        case StateEntered(state):
            yield "state", state
        case HeaderExtracted(header, _, fields):
            yield "extract", f"{header}: {_named(fields)}"
        case ParserFailed(state, error):
            yield "error", f"{error} in state {state}"
        case TableApplied(name, keys, entry, action, arguments) if keys:
            hit = "hit" if entry is not None else "miss"
            yield "table", f"{name} ({_named(keys)}): {hit}, {action or 'nothing'}({_named(arguments)})"
        case PrimitiveRun():
            if not event.in_range:
                yield "nothing", f"index {event.index} is out of range"
            for change in event.changes:
                if change.before != change.after:
                    yield "change", f"{names(change.what)}: {_number(change.before)} to {_number(change.after)}"
        case HeaderEmitted(header):
            yield "emit", header
        case Verdict(stage, kind, target):
            yield stage, "drop" if kind == "drop" else f"{kind} {target}"
        case _:
            pass


def _named(values: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{name}={_number(value)}" for name, value in values)


def _number(value: int) -> str:
    text = str(value) if value.bit_length() <= 4 * _LONGEST else f"{value:#x}"
    return text if len(text) <= _LONGEST + 4 else f"{text[:_LONGEST]}…"


_EXACT: Final = 1 << 53


def packet_json(trace: PacketTrace) -> dict[str, Any]:
    """A packet's trace, made of dicts, lists, strings, numbers, booleans and None."""
    return {
        "number": trace.number,
        "port": trace.port,
        "frame": trace.frame.hex(),
        "note": trace.note,
        "headers": _headers(trace.headers),
        "events": [event_json(event) for event in trace.events],
        "outcome": _plain(trace.outcome),
        "sent": [{"port": s.port, "frame": s.frame.hex(), "headers": _headers(s.headers)} for s in trace.sent],
    }


def event_json(event: Event) -> dict[str, Any]:
    """An event: its kind by name, then its fields."""
    found: dict[str, Any] = {"event": type(event).__name__}
    for item in dataclasses.fields(event):
        value = getattr(event, item.name)
        match value:
            case Conditional():
                found["condition"] = value.name
                found["source"] = _plain(value.source)
            case _ if isinstance(event, PrimitiveRun) and item.name == "primitive":
                found["primitive"] = type(value).__name__
                found["source"] = _plain(getattr(value, "source", None))
                found |= {n: getattr(value, n) for n in ("register", "counter", "header") if hasattr(value, n)}
            case _ if item.name in ("keys", "arguments") and isinstance(event, TableApplied):
                found[item.name] = {name: _plain(number) for name, number in value}
            case _:
                found[item.name] = _plain(value)
    if isinstance(event, TableApplied):
        found["hit"] = event.hit
    return found


def _headers(headers: Headers) -> dict[str, Any]:
    fields = [{"header": name, "fields": {k: _plain(v) for k, v in values}} for name, values in headers.fields]
    return {"headers": fields, "payload_bytes": headers.payload}


def _plain(value: Any) -> Any:
    match value:
        case None | bool() | str() | float():
            return value
        case int():
            return value if abs(value) < _EXACT else hex(value)
        case bytes():
            return value.hex()
        case SourceInfo():
            return {"file": value.file, "line": value.line}
        case dict():
            return {str(k): _plain(v) for k, v in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(item) for item in value]
        case _ if dataclasses.is_dataclass(value):
            kind = {"kind": type(value).__name__} if not hasattr(value, "kind") else {}
            return kind | {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        case _:
            return str(value)


# The LLVM IR of a program as text: what the compiler hands to LLVM, before LLVM's own passes.


_QUOTED = re.compile(r'([%@])"([-a-zA-Z$._][-a-zA-Z$._0-9]*)"')
_LABEL = re.compile(r'^"?([-a-zA-Z$._0-9]+)"?:')
_VALUE = re.compile(r"%\.\d+\b")
_STATE_CELL = re.compile(r"(ptr %state, i64) \d+")


def module_text(program: Program) -> str:
    """The whole module; the same on every machine. Names stand without quotes where LLVM needs none.

    Raises:
        UnsupportedConstruct: the program is beyond the compiler.
    """
    lines = [_QUOTED.sub(r"\1\2", line.rstrip()) for line in str(build_module(program)).splitlines()]
    return "\n".join(lines).strip() + "\n"


def block_text(module: str, function: str, label: str) -> str:
    """One basic block of a module's text: its label and its instructions. Raises KeyError."""
    found: list[str] = []
    inside = False
    for line in module.splitlines():
        if line.startswith("define "):
            inside = f"@{function}(" in line
        start = _LABEL.match(line)
        if found and (start or line.startswith("}")):
            return "\n".join(found) + "\n"
        if found or (inside and start and start[1] == label):
            found.append(line)
    raise KeyError(f"{function} has no block {label!r}")


def renumbered(block: str) -> str:
    """The same with values numbered in the order in which they appear, and without the places of cells in the state.

    Equal texts mean equal instructions, whatever came before the block and whatever else the state holds.
    """
    numbers: dict[str, str] = {}
    block = _VALUE.sub(lambda found: numbers.setdefault(found[0], f"%.{len(numbers)}"), block)
    return _STATE_CELL.sub(r"\1 cell", block)


# What the embedded switch refuses, read from where it refuses it: the first words of each UnsupportedConstruct.


_TABLES = "UNSUPPORTED"
"""Constants with this word in their names map p4c's words to those of the message."""


def refused_constructs() -> list[str]:
    """The constructs by the words of their messages, sorted; ``...`` stands for what a message fills in."""
    root = Path(__file__).resolve().parents[1]
    found: set[str] = set()
    for folder in ("program", "compiler"):
        for file in sorted((root / folder).glob("*.py")):
            found |= set(_of_source(ast.parse(file.read_text("utf-8"))))
    return sorted(words for words in found if words.strip(". '"))


def _of_source(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="UnsupportedConstruct"), args=[first, *_]):
                if (words := _words(first)) is not None:
                    yield words
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Dict(values=values)) if _TABLES in name:
                for value in values:
                    if (words := _words(value)) is not None:
                        yield words
            case _:
                pass


def _words(node: ast.expr) -> str | None:
    """The text of a string or f-string; None for anything else."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in parts)
        case _:
            return None


_IR = re.compile(r"(<!-- ir: (\S+) (\S+) -->\n```llvm\n)(.*?)(```)", re.DOTALL)
_LIST = re.compile(r"(<!-- unsupported: begin -->\n)(.*?)(<!-- unsupported: end -->)", re.DOTALL)


def shown_blocks(page: str) -> Iterator[tuple[str, str, str]]:
    """(function, label, block as the page shows it) of each block."""
    return ((found[2], found[3], found[4]) for found in _IR.finditer(page))


def shown_list(page: str) -> list[str]:
    """The constructs that the page says are refused."""
    found = _LIST.search(page)
    return [] if found is None else [line.removeprefix("- ") for line in found[2].splitlines()]


def refreshed(page: str, module: str, refused: Iterable[str]) -> str:
    """The page as it should be. Raises KeyError where a block that it shows is no more."""
    listed = "".join(f"- {words}\n" for words in refused)
    page = _IR.sub(lambda found: found[1] + block_text(module, found[2], found[3]) + found[5], page)
    return _LIST.sub(lambda found: found[1] + listed + found[3], page)


def main() -> int:
    """Entry point; the exit code."""
    if len(sys.argv) != 3:
        print((__doc__ or "").strip(), file=sys.stderr)
        return 2
    program, page = Path(sys.argv[1]), Path(sys.argv[2])
    text = refreshed(page.read_text("utf-8"), module_text(load_program(program)), refused_constructs())
    write_text(page, text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
