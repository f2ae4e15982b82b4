"""Traces as data: JSON for programs, and small HTML tables for notebooks.

The JSON has one object for each packet, with its events in their order. Numbers above 2**53 are hexadecimal strings,
because JSON readers would round them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from p4switch.base.values import table
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
from p4switch.program.actions import Conditional
from p4switch.program.errors import SourceInfo
from p4switch.trace.record import Headers, PacketTrace, ReadableNames

_LONGEST = 16
"""digits of a number; lanes are numbers of 2,048 bits"""


def packet_html(trace: PacketTrace) -> str:
    """Returns HTML of one packet: parser states, tables, changes, and frames that left. Everything is escaped."""
    note = f", {trace.note}" if trace.note else ""
    title = f"packet {trace.number} by port {trace.port}, {len(trace.frame)} bytes{note}"
    sent = [("left", f"by port {packet.port}, {len(packet.frame)} bytes") for packet in trace.sent]
    names = ReadableNames(trace.program)
    rows = chain.from_iterable(_rows(event, names) for event in trace.events)
    return table(title, ("", "what happened"), [*rows, ("outcome", trace.outcome.why), *sent])


def _rows(event: Event, names: ReadableNames) -> Iterator[tuple[str, str]]:
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
    """Returns a packet's trace, made of dicts, lists, strings, numbers, booleans and None."""
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
    """Returns an event as a dict: the name of its kind, then its fields."""
    data: dict[str, Any] = {"event": type(event).__name__}
    for item in dataclasses.fields(event):
        value = getattr(event, item.name)
        match value:
            case Conditional():
                data["condition"] = value.name
                data["source"] = _plain(value.source)
            case _ if isinstance(event, PrimitiveRun) and item.name == "primitive":
                data["primitive"] = type(value).__name__
                data["source"] = _plain(getattr(value, "source", None))
                data |= {n: getattr(value, n) for n in ("register", "counter", "header") if hasattr(value, n)}
            case _ if item.name in ("keys", "arguments") and isinstance(event, TableApplied):
                data[item.name] = {name: _plain(number) for name, number in value}
            case _:
                data[item.name] = _plain(value)
    if isinstance(event, TableApplied):
        data["hit"] = event.hit
    return data


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
