"""Traces as JSON: one object for each packet, its events in the order in which they happened.

Numbers above 2**53 are written as hexadecimal strings, since JSON readers would round them.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from p4reduce.dataplane.interpreter import Event
from p4reduce.dataplane.interpreter.trace import PrimitiveRun, TableApplied
from p4reduce.dataplane.model.control import Conditional
from p4reduce.dataplane.model.errors import SourceInfo
from p4reduce.dataplane.trace.record import Headers, PacketTrace

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
