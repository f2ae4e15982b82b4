"""Traces as text for people; ``rich`` adds colours where the output is a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from rich.text import Text

from p4reduce.dataplane.interpreter.trace import (
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
from p4reduce.dataplane.model import Program
from p4reduce.dataplane.model.actions import Count, RegisterRead, RegisterWrite
from p4reduce.dataplane.model.errors import SourceInfo
from p4reduce.dataplane.tables import Exact, Lpm, Match, Range, TableEntry, Ternary
from p4reduce.dataplane.trace.conditions import condition_text
from p4reduce.dataplane.trace.glossary import NOTHING, Glossary
from p4reduce.dataplane.trace.names import Names
from p4reduce.dataplane.trace.outcome import Decision
from p4reduce.dataplane.trace.record import PacketTrace
from p4reduce.dataplane.trace.source import Sources
from p4reduce.dataplane.trace.summary import summary
from p4reduce.dataplane.trace.values import show

_SOURCE_COLUMN = 78


@dataclass
class TextFormat:
    """Formats traces of one program.

    Attributes:
        sources: where P4 lines come from.
        glossary: what numbers in fields mean.
        all_writes: also show statements that left a value as it was.
    """

    program: Program
    sources: Sources = field(default_factory=Sources)
    glossary: Glossary = NOTHING
    all_writes: bool = True

    @cached_property
    def names(self) -> Names:
        """Readable names of fields."""
        return Names(self.program)

    def packet(self, trace: PacketTrace) -> Iterator[Text]:
        """The lines of one packet."""
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
        """What the program says of a packet that it refuses, by its own list of reasons; empty where it does not."""
        found = ""
        for event in trace.events:
            for change in event.changes if isinstance(event, PrimitiveRun) else ():
                name = self.names(change.what)
                if name.endswith("refused") and (meaning := self.glossary(name, change.after)):
                    found = f"{change.after}, {meaning}"
        return found

    def why(self, trace: PacketTrace) -> str:
        """The outcome as a sentence, with the statement that decided."""
        refusal = self.refusal(trace)
        return trace.outcome.why + self._code(trace.outcome.decision) + (f"; refused {refusal}" if refusal else "")

    def _code(self, decision: Decision | None) -> str:
        code = "" if decision is None else self.sources.line(decision.source)
        return f" '{_shorten(code)}'" if code else ""

    def event(self, event: object) -> Iterator[Text]:
        """The lines of one event; an event of a kind that this page does not know is shown by its fields."""
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
            case ChecksumVerified(name, computed, found):
                said = "right" if computed == found else f"wrong: the packet has {found:#x}, computed {computed:#x}"
                yield Text(f"  checksum {name}: {said}", "" if computed == found else "red")
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
        said = (f"  -> {str(event.outcome).lower()}", "bold")
        return self._with_source(f"  if ({_shorten(text or conditional.name)})", said, conditional.source)

    def _table(self, event: TableApplied) -> Iterator[Text]:
        spec = self.program.tables[event.table]
        arguments = ", ".join(
            f"{name}={show(value, name, self._width(event, name))}" for name, value in event.arguments
        )
        action = "nothing" if event.action is None else f"{event.action}({arguments})"
        if not spec.keys and spec.const_default:  # p4c's wrapping of a statement
            if Names.declared(event.action):
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

    def _width(self, event: TableApplied, parameter: str) -> int:
        for ident in self.program.tables[event.table].actions:
            action = self.program.actions[ident]
            if action.name == event.action:
                return next(p.width for p in action.parameters if p.name == parameter)
        return 0

    def entry(self, entry: TableEntry, table: str) -> str:
        """The match of an entry, in the notation of the entries file."""
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
            case RegisterRead(register=name):
                head = f"    read {name}[{event.index}]: "
            case RegisterWrite():
                head = "    write "
            case Count(counter=name):
                changes = ", ".join(f"{c.what.rsplit(' ', 1)[-1]} {c.before} -> {c.after}" for c in event.changes)
                yield self._with_source(f"    count {name}[{event.index}]: {changes}", ("", ""), source)
                return
            case _:
                head = "    "
        if not event.changes:
            said = event.text or type(primitive).__name__
            yield self._with_source(f"{head}{said}", ("", ""), source)
        for change in event.changes:
            if change.before != change.after or self.all_writes:
                yield self._with_source(f"{head}{self.names(change.what)}: ", (self._change(change), "magenta"), source)

    def _change(self, change: Change) -> str:
        width = self._field_width(change.what)
        name = self.names(change.what)
        after = show(change.after, name, width)
        meaning = self.glossary(self.names(change.what), change.after)
        told = f" ({meaning})" if meaning else ""
        if change.before == change.after:
            return f"stays {after}{told}"
        return f"{show(change.before, name, width)} -> {after}{told}"

    def _field_width(self, what: str) -> int:
        header, _, name = what.partition(".")
        if header in self.program.headers and name in self.program.headers[header].type.by_name:
            return self.program.headers[header].type.by_name[name].width
        register = self.program.registers.get(what.partition("[")[0])
        return 0 if register is None else register.width

    def _fields(self, header: str, fields: tuple[tuple[str, int], ...]) -> str:
        return " ".join(f"{name}={show(value, name, self._field_width(f'{header}.{name}'))}" for name, value in fields)

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
