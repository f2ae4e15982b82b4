"""A packet's trace as steps; each has a sentence, the objects involved, and values before and after.

Statements that change nothing, and temporaries of the compiler, are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from p4switch.device import Device
from p4switch.interpreter.trace import (
    Change,
    ChecksumUpdated,
    ChecksumVerified,
    ConditionEvaluated,
    HeaderEmitted,
    HeaderExtracted,
    ParserFailed,
    PrimitiveRun,
    Selected,
    StageStarted,
    TableApplied,
    Verdict,
)
from p4switch.program.actions import Assign, Count, MarkToDrop, RegisterRead, RegisterWrite
from p4switch.program.errors import SourceInfo
from p4switch.trace.record import Packet, PacketTrace, ReadableNames, Recorder
from p4switch.trace.to_text import Glossary, SourceLines, TextFormat, condition_text, summary
from p4switch.traffic import ExecutorName

MOST_STEPS: Final = 2000
"""maximum number of steps of one packet; a packet in an endless loop has more"""
_TEMPORARY: Final = re.compile(r"(?:^|[._])(tmp|hasReturned|hasExited|retval)(_\d+)?$")
_VALID: Final = ".isValid()"
_NAMED: Final = 3
"""number of fields that a sentence names with their values; the rows hold all fields"""
_LONGEST: Final = 48
"""characters of a value in a sentence"""

Step = dict[str, Any]
"""A step. stage: parser, ingress, egress, deparser or end; copy: the copy's port in egress and deparser, or None; kind;
says: the sentence; at, code: its place in the source and the line there; rows: (field, before, after), before None for
fields of a new header; table: name, key, entry (None: a miss), action, arguments; register: name, index, before, after;
restart: the number of the step whose values this step starts from, -1 if there is none yet."""


def steps_of(trace: PacketTrace, text: TextFormat) -> list[Step]:
    """Returns the steps of a packet, at most ``MOST_STEPS``. ``text`` formats values and lines of source."""
    return _Steps(trace, text).run()


def traced(trace: PacketTrace, text: TextFormat) -> dict[str, Any]:
    """Returns a packet as JSON data: ``number``, ``port``, ``note``, ``says``, ``outcome`` and ``steps``."""
    return {
        "number": trace.number,
        "port": trace.port,
        "note": trace.note,
        "says": summary(trace.headers, text.glossary),
        "outcome": text.why(trace),
        "steps": steps_of(trace, text),
    }


class _Steps:
    def __init__(self, trace: PacketTrace, text: TextFormat) -> None:
        self._trace = trace
        self._text = text
        self._steps: list[Step] = []
        self._sets: list[tuple[list[Any], SourceInfo | None]] = []
        self._emitted: list[str] = []
        self._stage, self._parsed = "parser", False
        self._copy: int | None = None
        self._actor: str | None = None
        self._restart: int | None = None
        self._ended = -1  # the last step of ingress
        self._left = iter(trace.sent)

    def run(self) -> list[Step]:
        events = self._trace.events
        for at, event in enumerate(events):
            if isinstance(event, PrimitiveRun):
                self._primitive(event)
            else:
                self._flush()
                self._event(event, at)
            if len(self._steps) >= MOST_STEPS:
                self._add("end", f"The first {MOST_STEPS} steps are shown; this packet has more.")
                break
        self._flush()
        self._emit()
        self._stage, self._copy = "end", None
        why = self._text.why(self._trace)
        self._add("end", f"{why[0].upper()}{why[1:]}.")
        return self._steps

    def _event(self, event: object, at: int) -> None:
        match event:
            case StageStarted(stage):
                self._begin(stage, at)
            case HeaderExtracted(header, offset, fields):
                rows = [[f"{header}.{n}", None, self._value(f"{header}.{n}", v)] for n, v in fields]
                size = self._text.program.headers[header].bytes
                self._add("extract", f"Header {header} is taken from the frame, {size} bytes from byte {offset}.", rows)
            case Selected(state, keys, following) if keys:
                chosen = "the parser is done" if following is None else f"state {following} is next"
                self._add("select", f"State {state} looks at {', '.join(_brief(hex(k)) for k in keys)}: {chosen}.")
            case ParserFailed(state, error):
                self._add("error", f"Parsing ends in state {state} with error.{error}; ingress runs nevertheless.")
            case ChecksumVerified(_, computed, held) if computed == held:
                self._add("checksum", f"The checksum is right: {held:#x}.")
            case ChecksumVerified(_, computed, held):
                self._add("error", f"The checksum is wrong: the frame has {held:#x}, its header gives {computed:#x}.")
            case ChecksumUpdated(_, value):
                self._add("checksum", f"The checksum is computed anew: {value:#x}.")
            case TableApplied():
                self._table(event)
            case ConditionEvaluated():
                self._condition(event)
            case Verdict():
                self._verdict(event)
            case HeaderEmitted(header):
                self._emitted.append(header)
            case _:
                pass  # the event of a state, or of a select without keys

    def _begin(self, stage: str, at: int) -> None:
        self._emit()
        self._actor = None
        if stage == "egress":  # each copy begins with the values at the end of ingress
            self._restart = self._ended
            verdict = next((e for e in self._trace.events[at:] if isinstance(e, Verdict)), None)
            self._copy = verdict.target if verdict is not None and verdict.kind == "unicast" else None
        if stage == "parser":
            self._copy, self._restart = None, -1
        self._stage = stage
        if stage == "parser":
            again = "The frame comes back to the parser." if self._parsed else self._arrived()
            self._parsed = True
            self._add("begin", again)
        elif stage == "egress":
            self._add(
                "begin", "Egress begins" + ("." if self._copy is None else f" for the copy to port {self._copy}.")
            )

    def _arrived(self) -> str:
        return f"A frame of {len(self._trace.frame)} bytes comes in by port {self._trace.port}."

    def _table(self, event: TableApplied) -> None:
        spec = self._text.program.tables[event.table]
        declared = ReadableNames.declared(event.action)
        self._actor = f"Action {_short(event.action)}" if declared and event.action is not None else None
        if not spec.keys and spec.const_default:  # a table that the compiler made for a statement
            return
        widths = [key.width for key in spec.keys]
        key = [[n, self._value(n, v, w)] for (n, v), w in zip(event.keys, widths, strict=True)]
        entry = None if event.entry is None else self._text.entry(event.entry, event.table)
        arguments = [[n, self._value(n, v, self._text.width_of(event, n))] for n, v in event.arguments]
        runs = "nothing runs" if self._actor is None else f"action {_short(event.action or '')} runs"
        looked = f" looks up {_listed(f'{n} = {v}' for n, v in key)}" if key else ""
        matched = "; no entry matches" if entry is None else f"; the entry {_brief(entry)} matches"
        says = f"Table {_short(event.table)}{looked}{matched if key else ' has no key'}: {runs}."
        box = {"name": event.table, "key": key, "entry": entry, "action": event.action, "arguments": arguments}
        self._add("table", says, source=event.source, table=box)

    def _condition(self, event: ConditionEvaluated) -> None:
        conditional, names = event.conditional, self._text.names
        text = condition_text(conditional.condition, names) or ""
        if not text or any(_TEMPORARY.search(word) for word in re.findall(r"[\w.]+", text)):
            text = self._text.sources.line(conditional.source) or "a condition"
        self._add("if", f"Is {text}? {'Yes' if event.outcome else 'No'}.", source=conditional.source)

    def _verdict(self, event: Verdict) -> None:
        self._actor = None
        what = "the frame" if event.stage == "ingress" else "this copy"
        match event.kind:
            case "drop":
                ends = f"{what} is dropped"
            case "unicast":
                ends = f"{what} {'goes to' if event.stage == 'ingress' else 'leaves by'} port {event.target}"
            case _:
                ports = [str(port) for port, _ in self._trace.outcome.replicas]
                to = f" port{'s' * (len(ports) != 1)} {_listed(ports)}" if ports else " no port"
                ends = f"{what} is copied by multicast group {event.target} to{to}"
        self._add("verdict", f"{event.stage.capitalize()} ends: {ends}.")
        if event.stage == "ingress":
            self._ended = len(self._steps) - 1

    def _emit(self) -> None:
        """Adds one step for all headers that the deparser emitted."""
        if not self._emitted:
            return
        headers, self._emitted = self._emitted, []
        sent = next(self._left, None)
        leaves = "" if sent is None else f" {len(sent.frame)} bytes leave by port {sent.port}."
        rest = f", then {sent.headers.payload} bytes of payload" if sent is not None and sent.headers.payload else ""
        self._add("emit", f"The deparser puts {_listed(headers)} in front{rest}.{leaves}")

    # --- primitives

    def _primitive(self, event: PrimitiveRun) -> None:
        primitive = event.primitive
        source: SourceInfo | None = getattr(primitive, "source", None)
        if isinstance(primitive, Assign):
            rows = self._rows(event.changes)
            self._sets += [(row, source) for row in rows]
            return
        self._flush()
        who = self._actor or "The program"
        if not event.in_range:
            self._add("error", f"{who} names cell {event.index}, which does not exist: nothing happens.", source=source)
            return
        rows = self._rows(event.changes)
        match primitive:
            case RegisterRead(register=name):
                value = self._value(name, event.changes[0].after, self._text.program.registers[name].width)
                box = {"name": name, "index": event.index, "before": value, "after": value}
                says = f"{who} reads cell {event.index} of register {_short(name)}: {_brief(value)}."
                self._add("register", says, rows, source, register=box)
            case RegisterWrite(register=name):
                before, after = self._pair(event.changes[0], self._text.program.registers[name].width, name)
                box = {"name": name, "index": event.index, "before": before, "after": after}
                how = f"keeps {_brief(after)}" if before == after else f"goes from {_brief(before)} to {_brief(after)}"
                says = f"{who} writes cell {event.index} of register {_short(name)}, which {how}."
                self._add("register", says, (), source, register=box)
            case Count(counter=name):
                packets = event.changes[0]
                says = f"{who} counts the frame in cell {event.index} of {_short(name)}"
                self._add("counter", f"{says}: it is packet {packets.after}.", (), source)
            case MarkToDrop():
                self._add("drop", f"{who} marks the frame to be dropped.", rows, source)
            case _ if event.text:
                self._add("note", f"{who}: {event.text}.", rows, source)
            case _ if rows:
                self._add("set", self._set_text(rows), rows, source)

    def _rows(self, changes: Iterable[Change]) -> list[list[Any]]:
        """Returns rows for the changes of a primitive, without temporaries."""
        rows: list[list[Any]] = []
        for change in changes:
            name = self._text.names(change.what)
            if change.before != change.after and not _TEMPORARY.search(name):
                before, after = self._pair(change, self._text.field_width(change.what), name)
                rows.append([name, before, after])
            if name.endswith(_VALID) and change.after > change.before:  # the header's fields exist now, and are 0
                header = name.removesuffix(_VALID)
                fields = (f"{header}.{field.name}" for field in self._text.program.headers[header].type.fields)
                rows += [[member, None, self._value(member, 0)] for member in fields]
        return rows

    def _flush(self) -> None:
        """Adds one step for the assignments that followed each other."""
        if self._sets:
            sets, self._sets = self._sets, []
            rows = [row for row, _ in sets]
            self._add("set", self._set_text(rows), rows, sets[0][1])

    def _set_text(self, rows: list[list[Any]]) -> str:
        who = self._actor or "The program"
        if valid := [name.removesuffix(_VALID) for name, _, _ in rows if name.endswith(_VALID)]:
            how = "adds" if rows[0][2] == "1" else "takes away"
            return f"{who} {how} header{'s' * (len(valid) > 1)} {_listed(valid)}."
        if len(rows) == 1:
            name, before, after = rows[0]
            return f"{who} sets {name} from {_brief(before)} to {_brief(after)}."
        if len(rows) <= _NAMED:
            return f"{who} sets {_listed(f'{name} to {_brief(after)}' for name, _, after in rows)}."
        return f"{who} sets {len(rows)} fields: {_listed([*(str(row[0]) for row in rows[:_NAMED]), 'others'])}."

    # --- values and places

    def _pair(self, change: Change, width: int, name: str) -> tuple[str, str]:
        return self._value(name, change.before, width), self._value(name, change.after, width)

    def _value(self, name: str, value: int, width: int | None = None) -> str:
        return self._text.value(name, value, self._text.field_width(name) if width is None else width)

    def _add(
        self, kind: str, says: str, rows: Iterable[list[Any]] = (), source: SourceInfo | None = None, **boxes: Any
    ) -> None:
        step: Step = {"stage": self._stage, "copy": self._copy, "kind": kind, "says": says, "rows": list(rows)}
        step["at"] = "" if source is None else f"{source.file}:{source.line}"
        step["code"] = self._text.sources.line(source)
        if self._restart is not None:
            step["restart"], self._restart = self._restart, None
        self._steps.append(step | boxes)


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _brief(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _listed(texts: Iterable[str]) -> str:
    parts = list(texts)
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else "nothing"


# Copies of a switch, on which a packet can be tried while the original goes on.


def copied(device: Device, executor: ExecutorName = "interpreted") -> Device:
    """Returns a device with the same entries, groups, registers and counters; direct counters begin at 0.

    Raises ValueError for a program that has meters, action profiles or value sets, or that leaves the straight path
    (``Program.leaves_path``): their state is not copied.
    """
    program = device.program
    if device.profiles or device.meters or device.value_sets or program.leaves_path:
        raise ValueError(f"{program.name}: has meters, selectors, value sets or clones, which are not copied")
    twin = Device(program, name=device.name, device_id=device.device_id, executor=executor)
    for name, table in device.tables.items():
        if table.spec.entries is not None or not table.spec.keys:
            continue
        for entry in table.entries():
            twin.tables[name].insert(entry)
    for name, table in device.tables.items():
        default = table.default
        if default.action is not None and default != twin.tables[name].default:
            twin.tables[name].set_default(default.action, default.arguments)
    for group in device.multicast.groups():
        twin.multicast.set(group, device.multicast.get(group))
    for name, register in device.registers.items():
        twin.registers[name].take(register)
    for name, counter in device.counters.items():
        counted = counter.cells.any(axis=1)  # pages that are zero stay untouched
        twin.counters[name].cells[counted] = counter.cells[counted]
    return twin


def what_if(
    device: Device, port: int, frame: bytes, roots: Sequence[Path], glossary: Glossary, time_us: int = 0
) -> dict[str, Any]:
    """Sends a frame into a copy of ``device``; returns ``port``, ``outcome``, ``steps`` and the frames ``sent``.

    ``roots``: folders of the program's sources. The device must not run. Raises ValueError if it cannot be copied.
    """
    trace = Recorder(copied(device)).run(Packet(frame, port), time_us=time_us)
    text = TextFormat(device.program, SourceLines(list(roots)), glossary, all_writes=False)
    return {
        **traced(trace, text),
        "sent": [[packet.port, packet.frame.hex()] for packet in trace.sent],
    }
