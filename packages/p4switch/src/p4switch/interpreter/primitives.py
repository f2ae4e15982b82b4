"""Primitives and actions in the interpreter (behavioral-model, targets/simple_switch/primitives.cpp)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from p4switch import abi
from p4switch.interpreter.evaluate import Phv, ValueScope, calculate, header_bytes, make_valid, move_headers, note
from p4switch.interpreter.trace import Change, ConditionEvaluated, Listener, PrimitiveRun, TableApplied
from p4switch.program import Program
from p4switch.program import program as model
from p4switch.state import device_state
from p4switch.state.device_state import DeviceState
from p4switch.tables import Exact, Lookup, Lpm, Match, Range, Table, TableEntry, Ternary

_INDEX_MASK: Final = (1 << 32) - 1
_MASK_64: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Primitives:
    """Runs primitives on a device's state.

    Attributes:
        now: the time of the stage in microseconds, for meters.
    """

    program: Program
    state: DeviceState
    listener: Listener | None
    now: int = 0

    def run_all(self, primitives: Sequence[model.Primitive], scope: ValueScope) -> None:
        """Runs the primitives of an action, following its jumps."""
        at = 0
        while at < len(primitives):
            primitive = primitives[at]
            at += 1
            match primitive:
                case model.Jump(to):
                    at = _jumped(at, to, scope)
                case model.JumpIfZero(condition, to):
                    if scope.data(condition) == 0:
                        at = _jumped(at, to, scope)
                case _:
                    self.run(primitive, scope)

    def run(self, primitive: model.Primitive, scope: ValueScope) -> None:
        """Runs one primitive that is not a jump, and reports it."""
        done = self._run(primitive, scope)
        if self.listener is not None:
            self.listener(done)

    def _run(self, primitive: model.Primitive, scope: ValueScope) -> PrimitiveRun:
        match primitive:
            case model.Assign(target, value):
                return PrimitiveRun(primitive, (self._set(scope, target, scope.data(value)),))
            case model.AssignHeader(target, origin):
                return self._assign_header(primitive, target, origin, scope)
            case model.AddHeader(header):
                return PrimitiveRun(primitive, self._add_header(header, scope))
            case model.RemoveHeader(header):
                return PrimitiveRun(primitive, self._remove_header(header, scope))
            case model.MarkToDrop(header):
                return PrimitiveRun(primitive, self._mark_to_drop(header, scope))
            case model.Count(counter, index):
                return self._count(primitive, counter, self._index(index, scope), scope)
            case model.RegisterRead(target, register, index):
                return self._register_read(primitive, target, register, self._index(index, scope), scope)
            case model.RegisterWrite(register, index, value):
                at = self._index(index, scope)
                return self._register_write(primitive, register, at, scope.data(value))
            case model.Hash():
                return PrimitiveRun(primitive, (self._set(scope, primitive.target, self._hash(primitive, scope)),))
            case model.ExecuteMeter(target=target, meter=meter, index=index):
                return self._execute_meter(primitive, target, meter, self._index(index, scope), scope)
            case model.Clone() | model.Resubmit() | model.Recirculate() | model.Truncate() | model.GenerateDigest():
                return PrimitiveRun(primitive, text=note(primitive, scope.phv.notes, scope.data))
            case model.Exit():
                scope.phv.exit = True
                return PrimitiveRun(primitive)
            case model.LogMessage(template, arguments):
                return PrimitiveRun(primitive, text=_format(template, [scope.data(a) for a in arguments]))
            case model.Random():
                return self._random(primitive, scope)
            case model.MoveHeaders():
                return PrimitiveRun(primitive, move_headers(self.program, primitive, scope.phv))
            case model.Several(_, steps):
                changes = [change for step in steps for change in self._run(step, scope).changes]
                return PrimitiveRun(primitive, tuple(changes))
            case model.OneOf(cases):
                return self._one_of(primitive, cases, scope)
            case model.Assertion(kind, condition):
                return self._assert(primitive, f"{kind} failed: {condition}", scope.truth(condition))
            case _:
                raise AssertionError(f"not a primitive that stands alone: {primitive}")

    def _set(self, scope: ValueScope, target: model.FieldRef, value: int) -> Change:
        before = scope.phv.bits(target)
        scope.phv.store(target, value)
        return Change(str(target), before, scope.phv.bits(target))

    def _one_of(
        self, primitive: model.Primitive, cases: tuple[tuple[model.BoolExpr, model.Primitive], ...], scope: ValueScope
    ) -> PrimitiveRun:
        for condition, chosen in cases:
            if scope.truth(condition):
                done = self._run(chosen, scope)
                return PrimitiveRun(primitive, done.changes, done.index, done.in_range, done.text)
        return PrimitiveRun(primitive)

    # --- headers

    def _assign_header(self, primitive: model.Primitive, target: str, origin: str, scope: ValueScope) -> PrimitiveRun:
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

    def _add_header(self, header: str, scope: ValueScope) -> tuple[Change, ...]:
        phv, change = scope.phv, _validity(scope.phv.valid, header, True)
        if header not in phv.valid:
            for field in self.program.headers[header].type.wire_fields:
                phv.values[header, field.name] = 0  # a varbit field keeps its length, as in BMv2
            make_valid(self.program, header, phv)
            phv.packet_length += header_bytes(self.program, header, phv)
        return (change,)

    def _remove_header(self, header: str, scope: ValueScope) -> tuple[Change, ...]:
        if self.program.headers[header].metadata:
            return ()
        phv, change = scope.phv, _validity(scope.phv.valid, header, False)
        if header in phv.valid:
            phv.valid.discard(header)
            phv.packet_length -= header_bytes(self.program, header, phv)
        return (change,)

    def _mark_to_drop(self, header: str, scope: ValueScope) -> tuple[Change, ...]:
        changes = [self._set(scope, self.program.field(header, "egress_spec"), abi.DROP_PORT)]
        if "mcast_grp" in self.program.headers[header].type.by_name:
            changes.append(self._set(scope, self.program.field(header, "mcast_grp"), 0))
        return tuple(changes)

    # --- state

    def _index(self, expr: model.DataExpr, scope: ValueScope) -> int:
        return scope.data(expr) & _INDEX_MASK

    def _count(self, primitive: model.Primitive, name: str, index: int, scope: ValueScope) -> PrimitiveRun:
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
        self, primitive: model.Primitive, target: model.FieldRef, name: str, index: int, scope: ValueScope
    ) -> PrimitiveRun:
        meter = self.state.meters[name]
        if index >= meter.size:
            return PrimitiveRun(primitive, index=index, in_range=False)
        color = meter.execute(index, scope.phv.ingress_length, self.now)
        return PrimitiveRun(primitive, (self._set(scope, target, color),), index)

    def _register_read(
        self, primitive: model.Primitive, target: model.FieldRef, name: str, index: int, scope: ValueScope
    ) -> PrimitiveRun:
        register = self.state.registers[name]
        if index >= register.size:
            return PrimitiveRun(primitive, index=index, in_range=False)
        return PrimitiveRun(primitive, (self._set(scope, target, register.read(index)),), index)

    def _register_write(self, primitive: model.Primitive, name: str, index: int, value: int) -> PrimitiveRun:
        register = self.state.registers[name]
        if index >= register.size:
            return PrimitiveRun(primitive, index=index, in_range=False)
        before = register.read(index)
        register.write(index, value)
        return PrimitiveRun(primitive, (Change(f"{name}[{index}]", before, register.read(index)),), index)

    def _hash(self, primitive: model.Hash, scope: ValueScope) -> int:
        base, size = scope.data(primitive.base) & _MASK_64, scope.data(primitive.size) & _MASK_64
        hashed = calculate(self.program, self.program.calculations[primitive.calculation], scope.phv)
        return (hashed % max(size, 1) + base) & _MASK_64

    def _random(self, primitive: model.Random, scope: ValueScope) -> PrimitiveRun:
        low, high = scope.data(primitive.low) & _MASK_64, scope.data(primitive.high) & _MASK_64
        if low > high:
            return PrimitiveRun(primitive)
        state = self.state
        state.random_state = device_state.advance(state.random_state)
        number = device_state.within(device_state.mixed(state.random_state), low, high)
        return PrimitiveRun(primitive, (self._set(scope, primitive.target, number),))

    def _assert(self, primitive: model.Primitive, failure: str, holds: bool) -> PrimitiveRun:
        """Counts a failed assertion; the packet goes on (BMv2 aborts)."""
        if not holds:
            self.state.failed_assertions += 1
        return PrimitiveRun(primitive, text="" if holds else failure)


def _jumped(following: int, to: int, scope: ValueScope) -> int:
    """Returns ``to``; counts a step if the jump goes to itself or backwards."""
    if to < following:
        scope.phv.step()
    return to


def _validity(valid: set[str], header: str, after: bool) -> Change:
    return Change(f"{header}.isValid()", int(header in valid), int(after))


def _format(template: str, values: list[int]) -> str:
    r"""Returns the text of log_msg: each ``{...}`` takes one value; ``\{`` and ``\}`` give literal braces.

    BMv2 aborts if there are not as many values as ``{...}``, or if the text begins with ``{}``, which it overlooks.
    """
    rest = iter(values)

    def put(match: re.Match[str]) -> str:
        return match[0][1:] if match[0][0] == "\\" else str(next(rest, match[0]))

    return re.sub(r"\\[{}]|\{[^}]*\}", put, template)


# Pipelines, from node to node (behavioral-model, src/bm_sim/pipeline.cpp and match_tables.cpp).


def run_pipeline(pipeline: model.Pipeline, phv: Phv, primitives: Primitives) -> None:
    """Runs a control until it ends or an action executes ``exit``. Raises TooManySteps."""
    phv.exit, phv.steps = False, 0
    name = pipeline.start
    while name is not None and not phv.exit:
        if name in pipeline.watched:
            phv.step()
        node = pipeline.nodes[name]
        name = _decide(node, phv, primitives) if isinstance(node, model.Conditional) else _apply(node, phv, primitives)


def _decide(conditional: model.Conditional, phv: Phv, primitives: Primitives) -> str | None:
    outcome = ValueScope(phv).truth(conditional.condition)
    if primitives.listener is not None:
        primitives.listener(ConditionEvaluated(conditional, outcome))
    return conditional.next_true if outcome else conditional.next_false


def _apply(spec: model.MatchTable, phv: Phv, primitives: Primitives) -> str | None:
    table = primitives.state.tables[spec.name]
    keys = [_bits(key.target, phv) for key in spec.keys]
    lookup = table.lookup(keys, partial(_selector_hash, spec, phv, primitives))
    if lookup.hit and spec.direct_meter is not None:
        meter = primitives.program.meters[spec.direct_meter]
        if meter.target is not None:
            color = table.execute_meter(lookup.ref, meter.unit, phv.ingress_length, primitives.now)
            phv.store(meter.target, color)
    if lookup.hit and (spec.direct_counter is not None or spec.idle_timeout):
        table.count(lookup.ref, phv.ingress_length)
    if primitives.listener is not None:
        primitives.listener(_applied(spec, table, keys, lookup))
    if lookup.action is not None:
        primitives.run_all(table.actions[lookup.action].primitives, ValueScope(phv, lookup.arguments))
    return spec.next_node(lookup.hit, lookup.action)


def _selector_hash(spec: model.MatchTable, phv: Phv, primitives: Primitives) -> int:
    """Returns the hash that chooses a group's member; 0 if the profile has no selector, as in BMv2."""
    selector = None if spec.profile is None else primitives.program.profiles[spec.profile].selector
    return 0 if selector is None else calculate(primitives.program, selector, phv)


def _bits(target: model.FieldRef | model.Valid, phv: Phv) -> int:
    return phv.bits(target) if isinstance(target, model.FieldRef) else int(target.header in phv.valid)


def _applied(spec: model.MatchTable, table: Table, keys: list[int], lookup: Lookup) -> TableApplied:
    action = None if lookup.action is None else table.actions[lookup.action]
    return TableApplied(
        table=spec.name,
        keys=tuple((key.name, value) for key, value in zip(spec.keys, keys, strict=True)),
        entry=_matching_entry(table, keys) if lookup.hit else None,
        action=None if action is None else action.name,
        arguments=()
        if action is None
        else tuple((p.name, value) for p, value in zip(action.parameters, lookup.arguments, strict=True)),
        source=spec.source,
    )


def _matching_entry(table: Table, keys: list[int]) -> TableEntry:
    """Returns the entry that a lookup found: the matching one of highest priority or longest prefix."""
    masked = [value & key.mask for value, key in zip(keys, table.spec.keys, strict=True)]
    widths = [key.width for key in table.spec.keys]
    fitting = [e for e in table.entries() if all(map(_fits, e.match, masked, widths))]
    return max(fitting, key=lambda e: (e.priority, sum(m.prefix for m in e.match if isinstance(m, Lpm))))


def _fits(match: Match, value: int, width: int) -> bool:
    match match:
        case Exact(wanted):
            return value == wanted
        case Lpm(wanted, prefix):
            return value >> (width - prefix) == wanted >> (width - prefix)
        case Ternary(wanted, mask):
            return value & mask == wanted
        case Range(low, high):
            return low <= value <= high
