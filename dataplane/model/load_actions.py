"""Actions and primitives from the JSON."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from p4reduce.dataplane.model.actions import (
    Action,
    ActionParameter,
    AddHeader,
    Assertion,
    Assign,
    Count,
    Exit,
    Hash,
    Jump,
    JumpIfZero,
    LogMessage,
    MarkToDrop,
    Primitive,
    Random,
    RegisterRead,
    RegisterWrite,
    RemoveHeader,
)
from p4reduce.dataplane.model.errors import ProgramError, SourceInfo, UnsupportedConstruct
from p4reduce.dataplane.model.expressions import Const, FieldRef
from p4reduce.dataplane.model.externs import Calculation, CounterArray, RegisterArray
from p4reduce.dataplane.model.load_compounds import (
    assign_header,
    assign_stack,
    assign_union,
    assign_varbit,
    pop,
    push,
    with_header,
    with_target,
)
from p4reduce.dataplane.model.load_expressions import UNSUPPORTED_VALUES, ExpressionLoader
from p4reduce.dataplane.model.load_headers import Scope
from p4reduce.dataplane.model.load_packet_path import PathSections
from p4reduce.dataplane.model.packet_path import (
    Clone,
    ExecuteMeter,
    GenerateDigest,
    Recirculate,
    Resubmit,
    Truncate,
)
from p4reduce.dataplane.model.reading import Json, get, objects, optional, source_of


@dataclass(frozen=True, slots=True)
class Externs:
    """What primitives refer to by name."""

    registers: dict[str, RegisterArray]
    counters: dict[str, CounterArray]
    calculations: dict[str, Calculation]
    paths: PathSections


@dataclass(frozen=True, slots=True)
class PrimitiveLoader:
    """Loads the primitives of one action or parser state."""

    scope: Scope
    externs: Externs
    where: str
    parameter_widths: tuple[int, ...] = ()

    def load(self, obj: Json) -> Primitive:
        """One primitive call."""
        op = get(obj, "op", str, self.where)
        source = source_of(obj)
        if op not in _LOADERS:
            raise UnsupportedConstruct(f"primitive {op!r}", self.where, source)
        arguments = _Arguments(self, op, get(obj, "parameters", list, f"{self.where}, {op}"), source)
        return _LOADERS[op](arguments)


@dataclass(frozen=True, slots=True)
class _Arguments:
    """The arguments of one primitive call, read by position."""

    loader: PrimitiveLoader
    op: str
    values: list[Any]
    source: SourceInfo | None

    @property
    def where(self) -> str:
        return f"{self.loader.where}, {self.op}"

    def expressions(self) -> ExpressionLoader:
        return ExpressionLoader(self.loader.scope, self.where, self.source, self.loader.parameter_widths)

    def value(self, position: int) -> Json:
        if position >= len(self.values) or not isinstance(self.values[position], dict):
            raise ProgramError(f"{self.where}: argument {position} is missing")
        value: Json = self.values[position]
        return value

    def named(self, position: int, kind: str) -> str:
        value = self.value(position)
        found = value.get("type")
        if found != kind:
            if isinstance(found, str) and found in UNSUPPORTED_VALUES:
                raise UnsupportedConstruct(UNSUPPORTED_VALUES[found], self.where, self.source)
            if found == "expression":
                raise UnsupportedConstruct(f"{kind} chosen at run time", self.where, self.source)
            raise ProgramError(f"{self.where}: argument {position} is a {found!r}, expected a {kind}")
        return get(value, "value", str, self.where)

    def header(self, position: int) -> str:
        return self.loader.scope.header(self.named(position, "header"), self.where, self.source).name

    def register(self, position: int) -> str:
        return self._extern(self.named(position, "register_array"), self.loader.externs.registers)

    def counter(self, position: int) -> str:
        return self._extern(self.named(position, "counter_array"), self.loader.externs.counters)

    def calculation(self, position: int) -> str:
        return self._extern(self.named(position, "calculation"), self.loader.externs.calculations)

    def meter(self, position: int) -> str:
        return self._extern(self.named(position, "meter_array"), self.loader.externs.paths.meters)

    def field_list(self, position: int) -> int:
        return self._listed(position, self.loader.externs.paths.field_lists, "field list")

    def learn_list(self, position: int) -> int:
        return self._listed(position, self.loader.externs.paths.learn_lists, "digest")

    def _listed(self, position: int, known: Mapping[int, object], what: str) -> int:
        number = self.expressions().data(self.value(position))
        if not isinstance(number, Const):
            raise UnsupportedConstruct(f"{what} chosen at run time", self.where, self.source)
        if number.value not in known:
            raise ProgramError(f"{self.where}: there is no {what} with id {number.value}")
        return number.value

    def _extern(self, name: str, known: Mapping[str, object]) -> str:
        if name not in known:
            raise ProgramError(f"{self.where}: {name!r} is not declared")
        return name

    def target(self, position: int) -> FieldRef:
        value = self.value(position)
        if value.get("type") != "field":
            kind = str(value.get("type"))
            what = UNSUPPORTED_VALUES.get(kind, f"assignment to a {kind!r}")
            raise UnsupportedConstruct(what, self.where, self.source)
        return self.loader.scope.target(value.get("value"), self.where)

    def to_target(self, position: int, make: Callable[[FieldRef], Primitive]) -> Primitive:
        """A primitive that writes a field, which may be chosen at run time."""
        return with_target(self.expressions(), self.value(position), make)

    def offset(self, position: int) -> int:
        value = self.expressions().data(self.value(position))
        if not isinstance(value, Const):
            raise ProgramError(f"{self.where}: the jump's target is not a constant")
        return value.value


def _register_read(args: _Arguments) -> Primitive:
    register, index = args.register(1), args.expressions().data(args.value(2))
    return args.to_target(0, lambda target: RegisterRead(target, register, index, args.source))


def _hash(args: _Arguments) -> Primitive:
    base, size = (args.expressions().data(args.value(position)) for position in (1, 3))
    calculation = args.calculation(2)
    return args.to_target(0, lambda target: Hash(target, base, calculation, size, args.source))


def _random(args: _Arguments) -> Primitive:
    low, high = (args.expressions().data(args.value(position)) for position in (1, 2))
    return args.to_target(0, lambda target: Random(target, low, high, args.source))


def _assign(args: _Arguments) -> Primitive:
    value = args.expressions().data(args.value(1))
    return args.to_target(0, lambda target: Assign(target, value, args.source))


def _log_message(args: _Arguments) -> LogMessage:
    text = args.named(0, "string")
    vector = args.value(1)
    values = get(vector, "value", list, args.where)
    return LogMessage(text, tuple(args.expressions().data(v) for v in values), args.source)


def _mark_to_drop(args: _Arguments) -> MarkToDrop:
    header = args.header(0)
    if "egress_spec" not in args.loader.scope.headers[header].type.by_name:
        raise ProgramError(f"{args.where}: {header!r} has no field 'egress_spec'")
    return MarkToDrop(header, args.source)


_LOADERS: Final[Mapping[str, Callable[[_Arguments], Primitive]]] = {
    "assign": _assign,
    "assign_VL": lambda a: assign_varbit(a.expressions(), a.value(0), a.value(1)),
    "assign_header": lambda a: assign_header(a.expressions(), a.value(0), a.value(1)),
    "assign_union": lambda a: assign_union(a.expressions(), a.value(0), a.value(1)),
    "assign_header_stack": lambda a: assign_stack(a.expressions(), a.op, a.value(0), a.value(1)),
    "assign_union_stack": lambda a: assign_stack(a.expressions(), a.op, a.value(0), a.value(1)),
    "push": lambda a: push(a.expressions(), a.value(0), a.value(1)),
    "pop": lambda a: pop(a.expressions(), a.value(0), a.value(1)),
    "add_header": lambda a: with_header(a.expressions(), a.value(0), lambda header: AddHeader(header, a.source)),
    "remove_header": lambda a: with_header(a.expressions(), a.value(0), lambda header: RemoveHeader(header, a.source)),
    "mark_to_drop": _mark_to_drop,
    "count": lambda a: Count(a.counter(0), a.expressions().data(a.value(1)), a.source),
    "register_read": _register_read,
    "register_write": lambda a: RegisterWrite(
        a.register(0), a.expressions().data(a.value(1)), a.expressions().data(a.value(2)), a.source
    ),
    "modify_field_with_hash_based_offset": _hash,
    "modify_field_rng_uniform": _random,
    "_jump": lambda a: Jump(a.offset(0), a.source),
    "_jump_if_zero": lambda a: JumpIfZero(a.expressions().data(a.value(0)), a.offset(1), a.source),
    "clone_ingress_pkt_to_egress": lambda a: Clone(a.expressions().data(a.value(0)), a.field_list(1), a.source),
    "clone_egress_pkt_to_egress": lambda a: Clone(a.expressions().data(a.value(0)), a.field_list(1), a.source),
    "resubmit": lambda a: Resubmit(a.field_list(0), a.source),
    "recirculate": lambda a: Recirculate(a.field_list(0), a.source),
    "truncate": lambda a: Truncate(a.expressions().data(a.value(0)), a.source),
    # The first argument is the receiver, which BMv2 ignores.
    "generate_digest": lambda a: GenerateDigest(a.learn_list(1), a.source),
    "execute_meter": lambda a: ExecuteMeter(a.meter(0), a.expressions().data(a.value(1)), a.target(2), a.source),
    "exit": lambda a: Exit(a.source),
    "log_msg": _log_message,
    "assert": lambda a: Assertion("assert", a.expressions().bool(a.value(0)), a.source),
    "assume": lambda a: Assertion("assume", a.expressions().bool(a.value(0)), a.source),
}


def load_actions(root: Json, scope: Scope, externs: Externs) -> dict[int, Action]:
    """Actions by id."""
    actions: dict[int, Action] = {}
    for obj in objects(root, "actions", "program"):
        action = _load_action(obj, scope, externs)
        actions[action.id] = action
    return actions


def _load_action(obj: Json, scope: Scope, externs: Externs) -> Action:
    name = get(obj, "name", str, "actions")
    where = f"action {name!r}"
    parameters = tuple(
        ActionParameter(get(p, "name", str, where), get(p, "bitwidth", int, where))
        for p in objects(obj, "runtime_data", where)
    )
    loader = PrimitiveLoader(scope, externs, where, tuple(p.width for p in parameters))
    primitives = tuple(loader.load(p) for p in objects(obj, "primitives", where))
    for primitive in primitives:
        if isinstance(primitive, Jump | JumpIfZero) and not 0 <= primitive.to <= len(primitives):
            raise ProgramError(f"{where}: jump to primitive {primitive.to} of {len(primitives)}")
    ident = get(obj, "id", int, where)
    optional(obj, "source_info", dict, where)
    return Action(ident, name, parameters, primitives, source_of(obj))
