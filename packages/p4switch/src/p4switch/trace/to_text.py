"""Traces as text for people; ``rich`` adds colours if the output is a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from rich.text import Text

from p4switch.base.values import show
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
    StateEntered,
    TableApplied,
    Verdict,
)
from p4switch.program import Program
from p4switch.program import program as model
from p4switch.program.errors import SourceInfo
from p4switch.tables import Exact, Lpm, Match, Range, TableEntry, Ternary
from p4switch.trace.record import Decision, Headers, PacketTrace, ReadableNames

# Conditions of the program as text. p4c may negate an ``if``, so the source line alone could mislead.


_WORDS = {"and": "&&", "or": "||"}


def condition_text(expr: model.Expr, name: Callable[[str], str]) -> str | None:
    """Returns an expression in P4's notation; None if a part of it has no notation here.

    Args:
        expr: the condition.
        name: returns the readable name of a field.
    """
    try:
        return _text(expr, name, outer=True)
    except LookupError:
        return None


def _text(expr: model.Expr, name: Callable[[str], str], outer: bool = False) -> str:
    match expr:
        case model.Compare(op, left, right) | model.Arith(op, left, right):
            inner = f"{_text(left, name)} {op} {_text(right, name)}"
        case model.Logic(op, left, right):
            inner = f"{_text(left, name)} {_WORDS.get(op, op)} {_text(right, name)}"
        case model.Const(value):
            return str(value) if abs(value) < 10_000 else hex(value)
        case model.BoolConst(value):
            return str(value).lower()
        case model.FieldRef():
            return name(str(expr))
        case model.Valid(header):
            return f"{header}.isValid()"
        case model.Parameter(index):
            return f"parameter {index}"
        case model.Not(operand):
            return f"!{_text(operand, name)}"
        case model.Invert(operand):
            return f"~{_text(operand, name)}"
        case model.ToBool(operand) | model.ToData(operand) | model.Cast(operand=operand):
            return _text(operand, name, outer)
        case _:
            raise LookupError(type(expr).__name__)
    return inner if outer else f"({inner})"


# Meanings of numbers in a program's fields, from its own ``#define`` lines.


_DEFINE = re.compile(r"#define\s+([A-Z][A-Z0-9]*)_([A-Z0-9_]+)\s+(\d+)\s*(?://\s*(.*))?$")


@dataclass(frozen=True)
class Glossary:
    """Names of numbers by the last part of a field's name: ``{"refused": {8: "PEER: not a child or parent"}}``."""

    meanings: Mapping[str, Mapping[int, str]]

    def __call__(self, field: str, value: int) -> str:
        """Returns the meaning of a field's value; empty if there is none."""
        return self.meanings.get(re.split(r"[.\[]", field.rstrip("]"))[-1], {}).get(value, "")

    def name(self, field: str, value: int) -> str:
        """Returns the meaning of a field's value without the remark after the colon."""
        return self(field, value).partition(":")[0]


NOTHING: Final = Glossary({})

_FIELDS: Final = {"REFUSED": "refused", "TYPE": "type", "REPLY": "reply"}
"""Prefix of the constants in p4src/ -> last part of the field's name."""


def from_sources(texts: Iterable[str]) -> Glossary:
    """Returns the glossary of P4 sources, given as texts."""
    meanings: dict[str, dict[int, str]] = {}
    for text in texts:
        for line in text.splitlines():
            match = _DEFINE.match(line.strip())
            if match is not None and match[1] in _FIELDS:
                meaning = match[2] + (f": {match[4].strip()}" if match[4] else "")
                meanings.setdefault(_FIELDS[match[1]], {}).setdefault(int(match[3]), meaning)
    return Glossary(meanings)


def of_folder(folder: Traversable) -> Glossary:
    """Returns the glossary of all ``.p4`` files of a folder."""
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".p4")), key=lambda f: f.name)
    return from_sources(f.read_text(encoding="utf-8") for f in files)


# Lines of the P4 source, if it lies beside the compiled program.


@dataclass
class SourceLines:
    """Finds source lines; falls back to the part of a line that p4c kept.

    Attributes:
        roots: folders to which the file names in the JSON may be relative.
    """

    roots: Sequence[Path | Traversable] = ()
    _files: dict[str, list[str] | None] = field(default_factory=dict)

    def line(self, source: SourceInfo | None) -> str:
        """Returns a source line without indentation; empty if it is unknown."""
        if source is None:
            return ""
        lines = self._read(source.file)
        if lines is not None and 0 < source.line <= len(lines):
            return lines[source.line - 1].strip()
        return source.fragment.removesuffix("; ...").removesuffix("...").strip(" ;=")

    def _read(self, name: str) -> list[str] | None:
        if name not in self._files:
            self._files[name] = next((text for root in self.roots if (text := _lines(root, name)) is not None), None)
        return self._files[name]


def _lines(root: Path | Traversable, name: str) -> list[str] | None:
    """Returns the lines of a file below a folder; a name that leads out of the folder is not followed."""
    parts = Path(name).parts
    if Path(name).is_absolute() or ".." in parts:
        return None
    try:
        return root.joinpath(*parts).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None


# A frame on one line: an INC packet by the fields of its wire format, other packets by their headers.


INC_HEADER: Final = "inc"
_INC_FIELDS: Final = ("job", "epoch", "seq", "count", "iteration", "exponent")
_INC_FLAGS: Final = ("resend", "saturated", "ecn_echo", "has_lanes")
_LANES_SHOWN: Final = 4
_LANE_BITS: Final = 128
"""a field with more bits and lanes in its name holds 32-bit numbers"""


def summary(headers: Headers, glossary: Glossary) -> str:
    """Returns ``PUSH job=1 epoch=0 seq=7 ... 10.0.0.1 -> 10.128.0.1``, or the names of the headers."""
    inc = headers.get(INC_HEADER)
    if inc is None or not {"type", *_INC_FIELDS, *_INC_FLAGS} <= inc.keys():
        names = [name for name, _ in headers.fields] or ["no header"]
        return f"{', '.join(names)}, {headers.payload} bytes of payload" + _addresses(headers)
    kind = glossary.name("type", inc["type"]) or f"type={inc['type']}"
    parts = [kind, *(f"{name}={inc[name]}" for name in _INC_FIELDS), *(name for name in _INC_FLAGS if inc[name])]
    return " ".join(parts) + _lanes(headers) + _addresses(headers)


def _addresses(headers: Headers) -> str:
    ipv4 = headers.get("ipv4")
    if ipv4 is None or not {"src", "dst"} <= ipv4.keys():
        return ""
    return f"  {show(ipv4['src'], 'src', 32)} -> {show(ipv4['dst'], 'dst', 32)}"


def _lanes(headers: Headers) -> str:
    values = next((values for name, values in headers.fields if name == "lanes"), ())
    words = [value for _, value in values]
    if not words:
        return ""
    bits = 2048
    lanes = [word >> (bits - 32 * (i + 1)) & 0xFFFFFFFF for word in words for i in range(bits // 32)]
    first = [str(lane - (1 << 32) if lane >> 31 else lane) for lane in lanes[:_LANES_SHOWN]]
    return f" [{', '.join(first)}, ... {len(lanes)} lanes]"


_SOURCE_COLUMN = 78


@dataclass
class TextFormat:
    """Formats traces of one program.

    Attributes:
        sources: finds P4 source lines.
        glossary: meanings of numbers in fields.
        all_writes: whether to show statements that left a value unchanged.
    """

    program: Program
    sources: SourceLines = field(default_factory=SourceLines)
    glossary: Glossary = NOTHING
    all_writes: bool = True

    @cached_property
    def names(self) -> ReadableNames:
        """Readable names of fields."""
        return ReadableNames(self.program)

    def packet(self, trace: PacketTrace) -> Iterator[Text]:
        """Yields the lines of one packet."""
        note = f"  # {trace.note}" if trace.note else ""
        yield Text.assemble((f"packet {trace.number}: port {trace.port}, {len(trace.frame)} bytes", "bold"), note)
        yield Text("  " + summary(trace.headers, self.glossary))
        for event in trace.events:
            yield from self.event(event)
        yield from self._outcome(trace)
        yield Text()

    def _outcome(self, trace: PacketTrace) -> Iterator[Text]:
        style = "bold red" if not trace.sent else "bold green"
        yield Text.assemble(("outcome ", "bold"), (self.why(trace), style))
        for port, rid in trace.outcome.replicas:
            yield Text(f"  copy: port {port}, rid {rid}")
        for sent in trace.sent:
            line = f"  left by port {sent.port}, {len(sent.frame)} bytes: {summary(sent.headers, self.glossary)}"
            yield Text(line, "green")
        if not trace.sent:
            yield Text("  nothing left", "red")

    def refusal(self, trace: PacketTrace) -> str:
        """Returns the program's reason for refusing a packet; empty if it does not refuse."""
        reason = ""
        for event in trace.events:
            for change in event.changes if isinstance(event, PrimitiveRun) else ():
                name = self.names(change.what)
                if name.endswith("refused") and (meaning := self.glossary(name, change.after)):
                    reason = f"{change.after}, {meaning}"
        return reason

    def why(self, trace: PacketTrace) -> str:
        """Returns the outcome as a sentence, with the statement that decided it."""
        refusal = self.refusal(trace)
        return trace.outcome.why + self._code(trace.outcome.decision) + (f"; refused {refusal}" if refusal else "")

    def _code(self, decision: Decision | None) -> str:
        code = "" if decision is None else self.sources.line(decision.source)
        return f" '{_shorten(code)}'" if code else ""

    def event(self, event: object) -> Iterator[Text]:
        """Yields the lines of one event; an unknown kind of event is shown by its fields."""
        match event:
            case StageStarted(stage):
                yield Text(stage, "bold cyan")
            case StateEntered(state):
                yield Text(f"  state {state}", "cyan")
            case HeaderExtracted(header, offset, fields):
                yield Text.assemble(f"    extract {header} at byte {offset}: ", (self._fields(header, fields), "dim"))
            case Selected(_, keys, following):
                chosen = following or "accept"
                by = f"select ({', '.join(show(k) for k in keys)}) -> " if keys else "-> "
                yield Text(f"    {by}{chosen}")
            case ParserFailed(state, error):
                yield Text(f"    parsing ends in state {state} with error.{error}; ingress runs nevertheless", "red")
            case ChecksumVerified(name, computed, held):
                verdict = "right" if computed == held else f"wrong: the packet has {held:#x}, computed {computed:#x}"
                yield Text(f"  checksum {name}: {verdict}", "" if computed == held else "red")
            case ChecksumUpdated(name, value):
                yield Text(f"  checksum {name} := {value:#x}")
            case TableApplied():
                yield from self._table(event)
            case ConditionEvaluated():
                yield self._condition(event)
            case PrimitiveRun():
                yield from self._primitive(event)
            case Verdict(stage, kind, target):
                at = {"drop": "drop", "unicast": f"port {target}", "multicast": f"multicast group {target}"}[kind]
                yield Text(f"  {stage} ends: {at}", "bold")
            case HeaderEmitted():
                yield Text(f"  emit {event.header}")
            case _:
                yield Text(f"  {event}")

    # --- tables

    def _condition(self, event: ConditionEvaluated) -> Text:
        conditional = event.conditional
        text = condition_text(conditional.condition, self.names) or self.sources.line(conditional.source)
        outcome = (f"  -> {str(event.outcome).lower()}", "bold")
        return self._with_source(f"  if ({_shorten(text or conditional.name)})", outcome, conditional.source)

    def _table(self, event: TableApplied) -> Iterator[Text]:
        spec = self.program.tables[event.table]
        arguments = ", ".join(
            f"{name}={show(value, name, self.width_of(event, name))}" for name, value in event.arguments
        )
        action = "nothing" if event.action is None else f"{event.action}({arguments})"
        if not spec.keys and spec.const_default:  # a table that p4c made for a statement
            if ReadableNames.declared(event.action):
                yield self._with_source(f"  run {event.action}", ("", ""), event.source)
            return
        keys = ", ".join(
            f"{name}={show(value, name, key.width)}" for (name, value), key in zip(event.keys, spec.keys, strict=True)
        )
        head = f"  table {event.table}" + (f" ({keys})" if keys else "")
        if event.entry is not None:
            hit = (f": hit {self.entry(event.entry, event.table)} -> {action}", "green")
        else:
            hit = (f": {'miss' if spec.keys else 'default'} -> {action}", "yellow")
        yield self._with_source(head, hit, event.source, code=False)

    def width_of(self, event: TableApplied, parameter: str) -> int:
        """Returns the bits of a parameter of the action that a table ran."""
        for ident in self.program.tables[event.table].actions:
            action = self.program.actions[ident]
            if action.name == event.action:
                return next(p.width for p in action.parameters if p.name == parameter)
        return 0

    def entry(self, entry: TableEntry, table: str) -> str:
        """Returns the match of an entry, in the notation of the entries file."""
        keys = self.program.tables[table].keys
        parts = [_match(match, key.name, key.width) for match, key in zip(entry.match, keys, strict=True)]
        return "{" + ", ".join(parts) + "}" + (f" priority {entry.priority}" if entry.priority else "")

    # --- primitives

    def _primitive(self, event: PrimitiveRun) -> Iterator[Text]:
        primitive = event.primitive
        source = getattr(primitive, "source", None)
        if not event.in_range:
            yield self._with_source(
                f"    index {event.index} is out of range: nothing happens", ("", ""), source, "red"
            )
            return
        match primitive:
            case model.RegisterRead(register=name):
                head = f"    read {name}[{event.index}]: "
            case model.RegisterWrite():
                head = "    write "
            case model.Count(counter=name):
                changes = ", ".join(f"{c.what.rsplit(' ', 1)[-1]} {c.before} -> {c.after}" for c in event.changes)
                yield self._with_source(f"    count {name}[{event.index}]: {changes}", ("", ""), source)
                return
            case _:
                head = "    "
        if not event.changes:
            text = event.text or type(primitive).__name__
            yield self._with_source(f"{head}{text}", ("", ""), source)
        for change in event.changes:
            if change.before != change.after or self.all_writes:
                yield self._with_source(f"{head}{self.names(change.what)}: ", (self._change(change), "magenta"), source)

    def _change(self, change: Change) -> str:
        width = self.field_width(change.what)
        name = self.names(change.what)
        after = show(change.after, name, width)
        meaning = self.glossary(self.names(change.what), change.after)
        told = f" ({meaning})" if meaning else ""
        if change.before == change.after:
            return f"stays {after}{told}"
        return f"{show(change.before, name, width)} -> {after}{told}"

    def field_width(self, what: str) -> int:
        """Returns the bits of a field, or of a register's cell; 0 for anything else."""
        header, _, name = what.partition(".")
        if header in self.program.headers and name in self.program.headers[header].type.by_name:
            return self.program.headers[header].type.by_name[name].width
        register = self.program.registers.get(what.partition("[")[0])
        return 0 if register is None else register.width

    def value(self, name: str, value: int, width: int) -> str:
        """Returns a value with its meaning: lanes as numbers, others as ``show`` writes them."""
        if width > _LANE_BITS and width % 32 == 0 and "lane" in name:
            lanes = [value >> (width - 32 * (at + 1)) & 0xFFFFFFFF for at in range(_LANES_SHOWN)]
            return f"{', '.join(str(lane - (lane >> 31 << 32)) for lane in lanes)}, … ({width // 32} lanes)"
        meaning = self.glossary.name(name, value)
        return show(value, name, width) + (f" ({meaning})" if meaning else "")

    def _fields(self, header: str, fields: tuple[tuple[str, int], ...]) -> str:
        return " ".join(f"{name}={show(value, name, self.field_width(f'{header}.{name}'))}" for name, value in fields)

    def _with_source(
        self, head: str, middle: tuple[str, str], source: SourceInfo | None, style: str = "", *, code: bool = True
    ) -> Text:
        line = Text.assemble((head, style), middle)
        if source is not None:
            pad = max(2, _SOURCE_COLUMN - len(line.plain))
            line.append(f"{' ' * pad}{source}", "dim")
            if code and (statement := self.sources.line(source)):
                line.append(f"  {_shorten(statement)}", "dim italic")
        return line


def _match(match: Match, name: str, width: int) -> str:
    match match:
        case Exact(value):
            return show(value, name, width)
        case Lpm(value, prefix):
            return f"{show(value, name, width)}/{prefix}"
        case Ternary(value, mask):
            return "any" if mask == 0 else f"{show(value)} &&& {mask:#x}"
        case Range(low, high):
            return f"{show(low)}..{show(high)}"


def _shorten(code: str) -> str:
    return code if len(code) <= 60 else code[:57] + "..."
