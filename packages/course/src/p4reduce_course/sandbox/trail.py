"""What a frame did in a student's program, as plain data: statements that ran, what they read and changed."""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import islice
from typing import Any, Final, Literal

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass as checked

from p4switch.interpreter.trace import (
    Change,
    ConditionEvaluated,
    Event,
    HeaderEmitted,
    HeaderExtracted,
    ParserFailed,
    PrimitiveRun,
    Selected,
    TableApplied,
    Verdict,
)
from p4switch.program.actions import GenerateDigest, Hash, MarkToDrop, RegisterRead, RegisterWrite
from p4switch.program.errors import SourceInfo
from p4switch.program.expressions import (
    Arith,
    BoolConst,
    Compare,
    Const,
    FieldRef,
    Logic,
    Not,
    Parameter,
    ToBool,
    ToData,
    Valid,
)  # fmt: skip
from p4switch.program.program import Program
from p4switch.trace.record import PacketTrace, ReadableNames

StepKind = Literal[
    "extract", "select", "error", "if", "table", "set", "read", "write", "drop", "digest", "verdict", "emit"
]


@checked(config=ConfigDict(extra="forbid"), frozen=True)
class TrailStep:
    """A step of a frame.

    Attributes:
        line: its line in the source; 0: it has none.
        name: the header, parser state, field, register, table or stage that it is about.
        before, after: values of the field or cell; ``after`` of an ``if`` or a table: whether it is true or hits.
        cell: of a register; -1: no register.
        reads: names and values that it looked at.
        text: the next state, the parser's error, the register that was read, the action, or the verdict.
    """

    kind: StepKind
    line: int
    name: str
    before: int
    after: int
    cell: int
    reads: list[tuple[str, int]]
    text: str


def trail_of(trace: PacketTrace, time_us: int) -> list[dict[str, Any]]:
    """Returns the steps of a frame, in their order, as plain data of ``TrailStep``.

    Of a frame that goes round and round, only the first and the last steps are returned, so that they fit a message.
    """
    steps = _Trail(trace.program, trace.port, len(trace.frame), time_us).steps(trace)
    return [*islice(steps, _ENDS), *deque(steps, maxlen=_ENDS)]


_ENDS: Final = 1000
"""most steps at the beginning of a trail, and most at its end; those between are left out"""
_OPERATORS: Final[dict[str, Callable[[int, int], int]]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "and": operator.and_, "or": operator.or_, "+": operator.add, "-": operator.sub, "&": operator.and_,
    "|": operator.or_,
}  # fmt: skip
_STANDARD: Final = "standard_metadata"
BEYOND: Final = ", beyond its end"
"""behind the name of a register in ``text``: the cell that was read is not there"""


@dataclass
class _Trail:
    program: Program
    port: int
    length: int
    time_us: int
    values: dict[str, int] = field(default_factory=dict)
    arguments: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        self.names = ReadableNames(self.program)
        self.values |= {
            f"{_STANDARD}.ingress_port": self.port,
            f"{_STANDARD}.packet_length": self.length,
            f"{_STANDARD}.ingress_global_timestamp": self.time_us,
        }

    def steps(self, trace: PacketTrace) -> Iterator[dict[str, Any]]:
        for event in trace.events:
            yield from self._of(event)

    def _of(self, event: Event) -> Iterator[dict[str, Any]]:
        match event:
            case HeaderExtracted(header, _, values):
                self.values |= {f"{header}.{name}": value for name, value in values} | {f"{header}.isValid()": 1}
                yield _step("extract", None, header)
            case Selected(state, keys, following):
                yield _step("select", None, state, reads=[("", key) for key in keys], text=following or "accept")
            case ParserFailed(state, error):
                self.values[f"{_STANDARD}.parser_error"] = 1
                yield _step("error", None, state, text=error)
            case ConditionEvaluated(conditional, outcome):
                reads = self._reads(self._decisive(conditional.condition, outcome))
                yield _step("if", conditional.source, conditional.name, after=int(outcome), reads=reads)
            case TableApplied():
                self.arguments = event.arguments
                if event.keys or not event.table.startswith("tbl_"):
                    action = event.action.rpartition(".")[2] if event.action else ""
                    reads = [(name.removeprefix("hdr."), value) for name, value in event.keys]
                    yield _step("table", event.source, event.table, after=int(event.hit), reads=reads, text=action)
            case PrimitiveRun():
                yield from self._primitive(event)
            case Verdict(stage, kind, target):
                self.values[f"{_STANDARD}.egress_port"] = target
                yield _step("verdict", None, stage, after=target, text=kind)
            case HeaderEmitted(header):
                yield _step("emit", None, header)
            case _:
                pass

    def _primitive(self, event: PrimitiveRun) -> Iterator[dict[str, Any]]:
        primitive = event.primitive
        source: SourceInfo | None = getattr(primitive, "source", None)
        reads = self._reads(primitive)
        cell = -1 if event.index is None else event.index
        match primitive:
            case MarkToDrop():
                yield _step("drop", source, "std.egress_spec")
            case GenerateDigest(learn_list=number):
                learned = [read for element in self.program.learn_lists[number].fields for read in self._reads(element)]
                yield _step("digest", source, reads=learned)
            case RegisterWrite(register=name):
                change = event.changes[0] if event.changes else Change("", 0, 0)
                yield _step(
                    "write", source, name.rpartition(".")[2], change.before, change.after, cell=cell, reads=reads
                )
            case RegisterRead(register=name, target=target):
                short = name.rpartition(".")[2]
                if not event.changes and cell >= self.program.registers[name].size:
                    known = self.values.get(str(target), 0)
                    change, short = Change(str(target), known, known), f"{short}{BEYOND}"
                    yield self._changed("read", source, change, cell=cell, reads=reads, text=short)
                for change in event.changes:
                    yield self._changed("read", source, change, cell=cell, reads=reads, text=short)
            case _:
                if isinstance(primitive, Hash):
                    reads = self._reads(self.program.calculations[primitive.calculation].inputs)
                for change in event.changes:
                    yield self._changed("set", source, change, reads=reads)
        for change in event.changes:
            self.values[change.what] = change.after

    def _changed(self, kind: StepKind, source: SourceInfo | None, change: Change, **more: Any) -> dict[str, Any]:
        return _step(kind, source, self.names(change.what), change.before, change.after, **more)

    def _decisive(self, condition: object, outcome: bool) -> object:
        """Returns the part of a condition that decided it: a true operand of ``||``, a false one of ``&&``."""
        match condition:
            case Not(operand):
                return self._decisive(operand, not outcome)
            case Logic(op, left, right) if op == ("or" if outcome else "and"):
                first = self._value(left)
                if first is not None:
                    return self._decisive(left if bool(first) == outcome else right, outcome)
        return condition

    def _value(self, part: object) -> int | None:
        """Returns the value of an expression; None if it is of a kind that is seldom in conditions."""
        match part:
            case Const(value) | BoolConst(value):
                return int(value)
            case FieldRef():
                return self.values.get(str(part), 0)
            case Valid(header):
                return self.values.get(f"{header}.isValid()", 0)
            case ToBool(operand) | ToData(operand):
                return self._value(operand)
            case Not(operand):
                inner = self._value(operand)
                return None if inner is None else int(not inner)
            case Compare(op, left, right) | Logic(op, left, right) | Arith(op, left, right):
                first, second = self._value(left), self._value(right)
                if first is None or second is None or op not in _OPERATORS:
                    return None
                return int(_OPERATORS[op](first, second))
        return None

    def _reads(self, element: object) -> list[tuple[str, int]]:
        """Returns names and values of fields, validities and parameters in an element, but not of its target."""
        reads: dict[str, int] = {}
        for part in _parts(element):
            match part:
                case FieldRef():
                    reads[self.names(str(part))] = self.values.get(str(part), 0)
                case Valid(header):
                    reads[f"{header}.isValid()"] = self.values.get(f"{header}.isValid()", 0)
                case Parameter(index) if index < len(self.arguments):
                    reads[self.arguments[index][0]] = self.arguments[index][1]
                case _:
                    pass
        return list(reads.items())


def _parts(element: object) -> Iterator[object]:
    if isinstance(element, FieldRef | Valid | Parameter):
        yield element
    elif isinstance(element, tuple):
        for member in element:
            yield from _parts(member)
    elif is_dataclass(element):
        for each in fields(element):
            if each.name not in ("target", "source"):
                yield from _parts(getattr(element, each.name))


def _step(
    kind: StepKind,
    source: SourceInfo | None,
    name: str = "",
    before: int = 0,
    after: int = 0,
    *,
    cell: int = -1,
    reads: list[tuple[str, int]] | None = None,
    text: str = "",
) -> dict[str, Any]:
    line = source.line if source is not None else 0
    return {
        "kind": kind,
        "line": line,
        "name": name,
        "before": before,
        "after": after,
        "cell": cell,
        "reads": reads or [],
        "text": text,
    }
