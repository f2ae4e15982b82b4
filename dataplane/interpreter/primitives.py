"""Primitives and actions (behavioral-model, targets/simple_switch/primitives.cpp)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from p4reduce.dataplane import abi
from p4reduce.dataplane.interpreter.evaluate import Scope
from p4reduce.dataplane.interpreter.hashing import calculate
from p4reduce.dataplane.interpreter.headers import header_bytes, make_valid, move_headers
from p4reduce.dataplane.interpreter.paths import note
from p4reduce.dataplane.interpreter.trace import Change, Listener, PrimitiveRun
from p4reduce.dataplane.model import Program
from p4reduce.dataplane.model.actions import (
    AddHeader,
    Assertion,
    Assign,
    AssignHeader,
    Count,
    Exit,
    Hash,
    Jump,
    JumpIfZero,
    LogMessage,
    MarkToDrop,
    MoveHeaders,
    OneOf,
    Primitive,
    Random,
    RegisterRead,
    RegisterWrite,
    RemoveHeader,
    Several,
)
from p4reduce.dataplane.model.expressions import BoolExpr, DataExpr, FieldRef
from p4reduce.dataplane.model.packet_path import (
    Clone,
    ExecuteMeter,
    GenerateDigest,
    Recirculate,
    Resubmit,
    Truncate,
)
from p4reduce.dataplane.state import random_numbers
from p4reduce.dataplane.state.device_state import DeviceState

_INDEX_MASK: Final = (1 << 32) - 1
_MASK_64: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Primitives:
    """Runs primitives on a device's state.

    Attributes:
        now: the time of the stage, microseconds; what meters go by.
    """

    program: Program
    state: DeviceState
    listener: Listener | None
    now: int = 0

    def run_all(self, primitives: Sequence[Primitive], scope: Scope) -> None:
        """Runs the primitives of an action, following its jumps."""
        at = 0
        while at < len(primitives):
            primitive = primitives[at]
            at += 1
            match primitive:
                case Jump(to):
                    at = _jumped(at, to, scope)
                case JumpIfZero(condition, to):
                    if scope.data(condition) == 0:
                        at = _jumped(at, to, scope)
                case _:
                    self.run(primitive, scope)

    def run(self, primitive: Primitive, scope: Scope) -> None:
        """Runs one primitive that is no jump and reports it."""
        done = self._run(primitive, scope)
        if self.listener is not None:
            self.listener(done)

    def _run(self, primitive: Primitive, scope: Scope) -> PrimitiveRun:
        match primitive:
            case Assign(target, value):
                return PrimitiveRun(primitive, (self._set(scope, target, scope.data(value)),))
            case AssignHeader(target, origin):
                return self._assign_header(primitive, target, origin, scope)
            case AddHeader(header):
                return PrimitiveRun(primitive, self._add_header(header, scope))
            case RemoveHeader(header):
                return PrimitiveRun(primitive, self._remove_header(header, scope))
            case MarkToDrop(header):
                return PrimitiveRun(primitive, self._mark_to_drop(header, scope))
            case Count(counter, index):
                return self._count(primitive, counter, self._index(index, scope), scope)
            case RegisterRead(target, register, index):
                return self._register_read(primitive, target, register, self._index(index, scope), scope)
            case RegisterWrite(register, index, value):
                at = self._index(index, scope)
                return self._register_write(primitive, register, at, scope.data(value))
            case Hash():
                return PrimitiveRun(primitive, (self._set(scope, primitive.target, self._hash(primitive, scope)),))
            case ExecuteMeter(target=target, meter=meter, index=index):
                return self._execute_meter(primitive, target, meter, self._index(index, scope), scope)
            case Clone() | Resubmit() | Recirculate() | Truncate() | GenerateDigest():
                return PrimitiveRun(primitive, text=note(primitive, scope.phv.notes, scope.data))
            case Exit():
                scope.phv.exit = True
                return PrimitiveRun(primitive)
            case LogMessage(template, arguments):
                return PrimitiveRun(primitive, text=_format(template, [scope.data(a) for a in arguments]))
            case Random():
                return self._random(primitive, scope)
            case MoveHeaders():
                return PrimitiveRun(primitive, move_headers(self.program, primitive, scope.phv))
            case Several(_, steps):
                changes = [change for step in steps for change in self._run(step, scope).changes]
                return PrimitiveRun(primitive, tuple(changes))
            case OneOf(cases):
                return self._one_of(primitive, cases, scope)
            case Assertion(kind, condition):
                return self._assert(primitive, f"{kind} failed: {condition}", scope.truth(condition))
            case _:
                raise AssertionError(f"not a primitive that stands alone: {primitive}")

    def _set(self, scope: Scope, target: FieldRef, value: int) -> Change:
        before = scope.phv.bits(target)
        scope.phv.store(target, value)
        return Change(str(target), before, scope.phv.bits(target))

    def _one_of(
        self, primitive: Primitive, cases: tuple[tuple[BoolExpr, Primitive], ...], scope: Scope
    ) -> PrimitiveRun:
        for condition, chosen in cases:
            if scope.truth(condition):
                done = self._run(chosen, scope)
                return PrimitiveRun(primitive, done.changes, done.index, done.in_range, done.text)
        return PrimitiveRun(primitive)

    # --- headers

    def _assign_header(self, primitive: Primitive, target: str, origin: str, scope: Scope) -> PrimitiveRun:
        phv = scope.phv
        changes = [_validity(phv.valid, target, origin in phv.valid)]
        if origin in phv.valid:
            for field in self.program.headers[target].type.fields:
                ref = self.program.field(target, field.name)
                changes.append(self._set(scope, ref, phv.values[origin, field.name]))
            make_valid(self.program, target, phv)
        elif not self.program.headers[target].metadata:
            phv.valid.discard(target)
        return PrimitiveRun(primitive, tuple(changes))

    def _add_header(self, header: str, scope: Scope) -> tuple[Change, ...]:
        phv, change = scope.phv, _validity(scope.phv.valid, header, True)
        if header not in phv.valid:
            for field in self.program.headers[header].type.wire_fields:
                phv.values[header, field.name] = 0  # a varbit field keeps its length, as in BMv2
            make_valid(self.program, header, phv)
            phv.packet_length += header_bytes(self.program, header, phv)
        return (change,)

    def _remove_header(self, header: str, scope: Scope) -> tuple[Change, ...]:
        if self.program.headers[header].metadata:
            return ()
        phv, change = scope.phv, _validity(scope.phv.valid, header, False)
        if header in phv.valid:
            phv.valid.discard(header)
            phv.packet_length -= header_bytes(self.program, header, phv)
        return (change,)

    def _mark_to_drop(self, header: str, scope: Scope) -> tuple[Change, ...]:
        changes = [self._set(scope, self.program.field(header, "egress_spec"), abi.DROP_PORT)]
        if "mcast_grp" in self.program.headers[header].type.by_name:
            changes.append(self._set(scope, self.program.field(header, "mcast_grp"), 0))
        return tuple(changes)

    # --- state

    def _index(self, expr: DataExpr, scope: Scope) -> int:
        return scope.data(expr) & _INDEX_MASK

    def _count(self, primitive: Primitive, name: str, index: int, scope: Scope) -> PrimitiveRun:
        counter = self.state.counters[name]
        if index >= counter.size:
            return PrimitiveRun(primitive, index=index, in_range=False)
        packets, octets = counter.read(index)
        counter.count(index, scope.phv.ingress_length)
        changes = (
            Change(f"{name}[{index}] packets", packets, counter.read(index)[0]),
            Change(f"{name}[{index}] bytes", octets, counter.read(index)[1]),
        )
        return PrimitiveRun(primitive, changes, index)

    def _execute_meter(
        self, primitive: Primitive, target: FieldRef, name: str, index: int, scope: Scope
    ) -> PrimitiveRun:
        meter = self.state.meters[name]
        if index >= meter.size:
            return PrimitiveRun(primitive, index=index, in_range=False)
        color = meter.execute(index, scope.phv.ingress_length, self.now)
        return PrimitiveRun(primitive, (self._set(scope, target, color),), index)

    def _register_read(
        self, primitive: Primitive, target: FieldRef, name: str, index: int, scope: Scope
    ) -> PrimitiveRun:
        register = self.state.registers[name]
        if index >= register.size:
            return PrimitiveRun(primitive, index=index, in_range=False)
        return PrimitiveRun(primitive, (self._set(scope, target, register.read(index)),), index)

    def _register_write(self, primitive: Primitive, name: str, index: int, value: int) -> PrimitiveRun:
        register = self.state.registers[name]
        if index >= register.size:
            return PrimitiveRun(primitive, index=index, in_range=False)
        before = register.read(index)
        register.write(index, value)
        return PrimitiveRun(primitive, (Change(f"{name}[{index}]", before, register.read(index)),), index)

    def _hash(self, primitive: Hash, scope: Scope) -> int:
        base, size = scope.data(primitive.base) & _MASK_64, scope.data(primitive.size) & _MASK_64
        hashed = calculate(self.program, self.program.calculations[primitive.calculation], scope.phv)
        return (hashed % max(size, 1) + base) & _MASK_64

    def _random(self, primitive: Random, scope: Scope) -> PrimitiveRun:
        low, high = scope.data(primitive.low) & _MASK_64, scope.data(primitive.high) & _MASK_64
        if low > high:
            return PrimitiveRun(primitive)
        state = self.state
        state.random_state = random_numbers.advance(state.random_state)
        number = random_numbers.within(random_numbers.mixed(state.random_state), low, high)
        return PrimitiveRun(primitive, (self._set(scope, primitive.target, number),))

    def _assert(self, primitive: Primitive, failure: str, holds: bool) -> PrimitiveRun:
        """BMv2 aborts where an assertion fails; here it is counted and the packet goes on."""
        if not holds:
            self.state.failed_assertions += 1
        return PrimitiveRun(primitive, text="" if holds else failure)


def _jumped(following: int, to: int, scope: Scope) -> int:
    """``to``; a jump to the primitive itself or one before it counts as a step."""
    if to < following:
        scope.phv.step()
    return to


def _validity(valid: set[str], header: str, after: bool) -> Change:
    return Change(f"{header}.isValid()", int(header in valid), int(after))


def _format(template: str, values: list[int]) -> str:
    r"""The text of log_msg: each ``{...}`` takes one value, ``\{`` and ``\}`` stand for the brackets themselves.

    BMv2 ends where their numbers differ and where the text begins with ``{}``, which it overlooks.
    """
    rest = iter(values)

    def put(match: re.Match[str]) -> str:
        return match[0][1:] if match[0][0] == "\\" else str(next(rest, match[0]))

    return re.sub(r"\\[{}]|\{[^}]*\}", put, template)
