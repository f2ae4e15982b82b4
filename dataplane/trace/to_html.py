"""Traces as small tables of HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from p4reduce.base.html import table
from p4reduce.dataplane.interpreter import Event
from p4reduce.dataplane.interpreter.trace import (
    HeaderEmitted,
    HeaderExtracted,
    ParserFailed,
    PrimitiveRun,
    StageStarted,
    StateEntered,
    TableApplied,
    Verdict,
)
from p4reduce.dataplane.trace.names import Names
from p4reduce.dataplane.trace.record import PacketTrace

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
