"""Loads actions and primitives from the JSON."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast, get_args

from p4switch.program import program as model
from p4switch.program.errors import (
    Json,
    ProgramError,
    SourceInfo,
    UnsupportedConstruct,
    each,
    get,
    hexstr,
    objects,
    optional,
    source_of,
)
from p4switch.program.load_expressions import (
    UNSUPPORTED_VALUES,
    ExpressionLoader,
    HeaderScope,
    assign_header,
    assign_stack,
    assign_union,
    assign_varbit,
    one_of,
    pop,
    push,
)

# Registers, counters, calculations and checksums from the JSON.


_ALGORITHMS: Final[tuple[model.HashAlgorithm, ...]] = get_args(model.HashAlgorithm)


def _registers(root: Json) -> dict[str, model.RegisterArray]:
    registers = {}
    for name, where, obj in each(root, "register_arrays", "register"):
        size, width = get(obj, "size", int, where), get(obj, "bitwidth", int, where)
        if size < 0 or width < 1:
            raise ProgramError(f"{where}: {size} cells of {width} bits")
        registers[name] = model.RegisterArray(name, size, width, source=source_of(obj))
    return registers


def _counters(root: Json) -> dict[str, model.CounterArray]:
    counters = {}
    for name, where, obj in each(root, "counter_arrays", "counter"):
        direct = obj.get("is_direct", False)
        table, size = (get(obj, "binding", str, where), 0) if direct else (None, get(obj, "size", int, where))
        counters[name] = model.CounterArray(name, size, table, source=source_of(obj))
    return counters


def load_calculation(obj: Json, scope: HeaderScope) -> model.Calculation:
    """Loads one hash calculation."""
    name = get(obj, "name", str, "calculations")
    where, source = f"calculation {name!r}", source_of(obj)
    algorithm = get(obj, "algo", str, where)
    if algorithm not in _ALGORITHMS:
        raise UnsupportedConstruct(f"hash algorithm {algorithm!r}", where, source)
    entries = objects(obj, "input", where)
    payload = any(entry.get("type") == "payload" for entry in entries)
    inputs = tuple(_hash_input(e, scope, where) for e in entries if e.get("type") != "payload")
    return model.Calculation(name, algorithm, inputs, payload, source=source)


def _hash_input(obj: Json, scope: HeaderScope, where: str) -> model.HashInput:
    kind, value = obj.get("type"), obj.get("value")
    match kind:
        case "field":
            field = scope.field(value, where)
            if isinstance(field, model.Valid):
                raise UnsupportedConstruct("header validity as hash input", where)
            return model.FieldInput(field)
        case "hexstr":
            return model.ConstInput(hexstr(value, where), get(obj, "bitwidth", int, where))
        case "header":
            return model.HeaderInput(scope.header(value, where).name)
        case _:
            raise UnsupportedConstruct(f"hash input of type {kind!r}", where)


def load_checksums(
    root: Json, scope: HeaderScope, calculations: dict[str, model.Calculation]
) -> tuple[model.Checksum, ...]:
    """Loads checksums, in the order in which they are verified and updated."""
    checksums = []
    for name, where, obj in each(root, "checksums", "checksum"):
        source = source_of(obj)
        kind = get(obj, "type", str, where)
        if kind != "generic":
            raise UnsupportedConstruct(f"checksum of type {kind!r}", where, source)
        calculation = get(obj, "calculation", str, where)
        if calculation not in calculations:
            raise ProgramError(f"{where}: unknown calculation {calculation!r}")
        condition = optional(obj, "if_cond", dict, where)
        target, verify, update = (
            scope.target(obj.get("target"), where),
            obj.get("verify", True),
            obj.get("update", True),
        )
        holds = None if condition is None else ExpressionLoader(scope, where, source).bool(condition)
        checksums.append(model.Checksum(name, target, calculation, bool(verify), bool(update), holds, source=source))
    return tuple(checksums)


# Field lists, digests, value sets, meters and action profiles from the JSON.


RATES = 2
"""Rates of v1model's meters."""


def _field_lists(root: Json, scope: HeaderScope) -> dict[int, model.FieldList]:
    lists = {}
    for obj in objects(root, "field_lists", "program"):
        ident = get(obj, "id", int, "field_lists")
        where = f"field list {obj.get('name')!r}"
        # BMv2 copies nothing for constants.
        fields = tuple(f for f in _elements(obj, scope, where) if isinstance(f, model.FieldRef))
        lists[ident] = model.FieldList(ident, fields)
    return lists


def _learn_lists(root: Json, scope: HeaderScope) -> dict[int, model.LearnList]:
    lists = {}
    for obj in objects(root, "learn_lists", "program"):
        ident, name = get(obj, "id", int, "learn_lists"), get(obj, "name", str, "learn_lists")
        lists[ident] = model.LearnList(ident, name, _elements(obj, scope, f"digest {name!r}"))
    return lists


def _elements(obj: Json, scope: HeaderScope, where: str) -> tuple[model.FieldRef | model.LearnConstant, ...]:
    elements: list[model.FieldRef | model.LearnConstant] = []
    for element in objects(obj, "elements", where):
        kind, value = element.get("type"), element.get("value")
        if kind == "field":
            elements.append(scope.target(value, where))
        elif kind == "hexstr":
            digits = str(value).lower().removeprefix("0x")
            elements.append(model.LearnConstant(hexstr(value, where), 8 * -(-len(digits) // 2)))
        else:
            raise UnsupportedConstruct(f"element of type {kind!r}", where, source_of(obj))
    return tuple(elements)


def _meters(root: Json, scope: HeaderScope) -> dict[str, model.MeterArray]:
    meters = {}
    for name, where, obj in each(root, "meter_arrays", "meter"):
        unit = get(obj, "type", str, where)
        if unit not in ("packets", "bytes"):
            raise ProgramError(f"{where}: type {unit!r} is neither 'packets' nor 'bytes'")
        if get(obj, "rate_count", int, where) != RATES:
            raise UnsupportedConstruct(f"meter with {obj['rate_count']} rates", where, source_of(obj))
        table, target, size = None, None, optional(obj, "size", int, where) or 0
        if obj.get("is_direct", False):
            table, target = get(obj, "binding", str, where), scope.target(obj.get("result_target"), where)
            size = 0
        meters[name] = model.MeterArray(name, size, cast(Any, unit), table, target, source=source_of(obj))
    return meters


def _value_sets(root: Json) -> dict[str, model.ValueSet]:
    sets = {}
    for name, where, obj in each(root, "parse_vsets", "value set"):
        size = optional(obj, "max_size", int, where)
        sets[name] = model.ValueSet(name, get(obj, "compressed_bitwidth", int, where), 1024 if size is None else size)
    return sets


def load_profiles(
    pipeline: Json, scope: HeaderScope, actions: dict[str, tuple[int, ...]]
) -> dict[str, model.ActionProfile]:
    """Loads the action profiles of a pipeline; ``actions``: by profile, the action ids of its first table."""
    profiles = {}
    for name, where, obj in each(pipeline, "action_profiles", "action profile", "pipeline"):
        selector = optional(obj, "selector", dict, where)
        named_so = {**(selector or {}), "name": f"selector of {name}"}
        calculation = None if selector is None else load_calculation(named_so, scope)
        size = optional(obj, "max_size", int, where) or 0
        profiles[name] = model.ActionProfile(name, size, calculation, actions.get(name, ()))
    return profiles


@dataclass(frozen=True, slots=True)
class Externs:
    """Objects that primitives, tables and parser states refer to, by name or id."""

    calculations: dict[str, model.Calculation]
    field_lists: dict[int, model.FieldList]
    learn_lists: dict[int, model.LearnList]
    meters: dict[str, model.MeterArray]
    value_sets: dict[str, model.ValueSet]
    registers: dict[str, model.RegisterArray]
    counters: dict[str, model.CounterArray]

    @classmethod
    def load(cls, root: Json, scope: HeaderScope) -> "Externs":
        """Loads all objects from the top level of the JSON."""
        calculations = (load_calculation(obj, scope) for obj in objects(root, "calculations", "program"))
        return cls(
            {calculation.name: calculation for calculation in calculations},
            _field_lists(root, scope),
            _learn_lists(root, scope),
            _meters(root, scope),
            _value_sets(root),
            _registers(root),
            _counters(root),
        )


@dataclass(frozen=True, slots=True)
class PrimitiveLoader:
    """Loads the primitives of one action or parser state."""

    scope: HeaderScope
    externs: Externs
    where: str
    parameter_widths: tuple[int, ...] = ()

    def load(self, obj: Json) -> model.Primitive:
        """Loads one primitive call."""
        op, source = get(obj, "op", str, self.where), source_of(obj)
        if op not in _LOADERS:
            raise UnsupportedConstruct(f"primitive {op!r}", self.where, source)
        where = f"{self.where}, {op}"
        expressions = ExpressionLoader(self.scope, where, source, self.parameter_widths)
        return _LOADERS[op](Arguments(expressions, self.externs, op, get(obj, "parameters", list, where)))


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one primitive call, read by position."""

    expressions: ExpressionLoader
    externs: Externs
    op: str
    values: list[Any]

    @property
    def where(self) -> str:
        """The name of the call, for messages."""
        return self.expressions.where

    @property
    def source(self) -> SourceInfo | None:
        """The source line of the call."""
        return self.expressions.source

    @property
    def scope(self) -> HeaderScope:
        """The program's headers."""
        return self.expressions.scope

    def value(self, position: int) -> Json:
        """Returns a mandatory argument. Raises ProgramError if it is missing."""
        if position >= len(self.values) or not isinstance(self.values[position], dict):
            raise ProgramError(f"{self.where}: argument {position} is missing")
        value: Json = self.values[position]
        return value

    def two(self) -> tuple[ExpressionLoader, Json, Json]:
        """Returns a loader of expressions, and the first two arguments."""
        return self.expressions, self.value(0), self.value(1)

    def data(self, position: int) -> model.DataExpr:
        """Returns an argument as a number."""
        return self.expressions.data(self.value(position))

    def holds(self) -> model.BoolExpr:
        """Returns the first argument as a condition."""
        return self.expressions.bool(self.value(0))

    def named(self, position: int, kind: str) -> str:
        """Returns the name of an object of a kind."""
        value = self.value(position)
        actual = value.get("type")
        if actual != kind:
            if isinstance(actual, str) and actual in UNSUPPORTED_VALUES:
                raise UnsupportedConstruct(UNSUPPORTED_VALUES[actual], self.where, self.source)
            if actual == "expression":
                raise UnsupportedConstruct(f"{kind} chosen at run time", self.where, self.source)
            raise ProgramError(f"{self.where}: argument {position} is a {actual!r}, expected a {kind}")
        return get(value, "value", str, self.where)

    def header(self, position: int) -> str:
        """Returns the name of a header."""
        return self.scope.header(self.named(position, "header"), self.where, self.source).name

    def register(self, position: int) -> str:
        """Returns the name of a register."""
        return self._extern(self.named(position, "register_array"), self.externs.registers)

    def counter(self, position: int) -> str:
        """Returns the name of a counter."""
        return self._extern(self.named(position, "counter_array"), self.externs.counters)

    def calculation(self, position: int) -> str:
        """Returns the name of a hash."""
        return self._extern(self.named(position, "calculation"), self.externs.calculations)

    def meter(self, position: int) -> str:
        """Returns the name of a meter."""
        return self._extern(self.named(position, "meter_array"), self.externs.meters)

    def field_list(self, position: int) -> int:
        """Returns the id of a field list."""
        return self._listed(position, self.externs.field_lists, "field list")

    def learn_list(self, position: int) -> int:
        """Returns the id of a digest."""
        return self._listed(position, self.externs.learn_lists, "digest")

    def _listed(self, position: int, known: Mapping[int, object], what: str) -> int:
        number = self.data(position)
        if not isinstance(number, model.Const):
            raise UnsupportedConstruct(f"{what} chosen at run time", self.where, self.source)
        if number.value not in known:
            raise ProgramError(f"{self.where}: there is no {what} with id {number.value}")
        return number.value

    def _extern(self, name: str, known: Mapping[str, object]) -> str:
        if name not in known:
            raise ProgramError(f"{self.where}: {name!r} is not declared")
        return name

    def target(self, position: int) -> model.FieldRef:
        """Returns the field that an argument names; it may not be chosen at run time."""
        value = self.value(position)
        if value.get("type") != "field":
            kind = str(value.get("type"))
            what = UNSUPPORTED_VALUES.get(kind, f"assignment to a {kind!r}")
            raise UnsupportedConstruct(what, self.where, self.source)
        return self.scope.target(value.get("value"), self.where)

    def to_target(self, make: Callable[..., model.Primitive], *rest: object) -> model.Primitive:
        """Makes a primitive that writes the first argument, a field that may be chosen at run time."""
        cases = self.expressions.target(self.value(0))
        return one_of(
            [(condition, make(target, *rest, source=self.source)) for condition, target in cases], self.source
        )

    def to_header(self, make: Callable[..., model.Primitive]) -> model.Primitive:
        """Makes a primitive on the first argument, a header that may be chosen at run time."""
        cases = self.expressions.header(self.value(0)).conditions
        return one_of([(condition, make(name, source=self.source)) for condition, name in cases], self.source)

    def offset(self, position: int) -> int:
        """Returns the target of a jump."""
        value = self.data(position)
        if not isinstance(value, model.Const):
            raise ProgramError(f"{self.where}: the jump's target is not a constant")
        return value.value


def _log_message(args: Arguments) -> model.LogMessage:
    text = args.named(0, "string")
    values = get(args.value(1), "value", list, args.where)
    return model.LogMessage(text, tuple(args.expressions.data(v) for v in values), source=args.source)


def _mark_to_drop(args: Arguments) -> model.MarkToDrop:
    header = args.header(0)
    if "egress_spec" not in args.scope.headers[header].type.by_name:
        raise ProgramError(f"{args.where}: {header!r} has no field 'egress_spec'")
    return model.MarkToDrop(header, source=args.source)


def _hash(args: Arguments) -> model.Primitive:
    base, size, calculation = args.data(1), args.data(3), args.calculation(2)
    return args.to_target(model.Hash, base, calculation, size)


_LOADERS: Final[Mapping[str, Callable[[Arguments], model.Primitive]]] = {
    "assign": lambda a: a.to_target(model.Assign, a.data(1)),
    "assign_VL": lambda a: assign_varbit(*a.two()),
    "assign_header": lambda a: assign_header(*a.two()),
    "assign_union": lambda a: assign_union(*a.two()),
    "assign_header_stack": lambda a: assign_stack(a.op, *a.two()),
    "assign_union_stack": lambda a: assign_stack(a.op, *a.two()),
    "push": lambda a: push(*a.two()),
    "pop": lambda a: pop(*a.two()),
    "add_header": lambda a: a.to_header(model.AddHeader),
    "remove_header": lambda a: a.to_header(model.RemoveHeader),
    "mark_to_drop": _mark_to_drop,
    "count": lambda a: model.Count(a.counter(0), a.data(1), source=a.source),
    "register_read": lambda a: a.to_target(model.RegisterRead, a.register(1), a.data(2)),
    "register_write": lambda a: model.RegisterWrite(a.register(0), a.data(1), a.data(2), source=a.source),
    "modify_field_with_hash_based_offset": _hash,
    "modify_field_rng_uniform": lambda a: a.to_target(model.Random, a.data(1), a.data(2)),
    "_jump": lambda a: model.Jump(a.offset(0), source=a.source),
    "_jump_if_zero": lambda a: model.JumpIfZero(a.data(0), a.offset(1), source=a.source),
    "clone_ingress_pkt_to_egress": lambda a: model.Clone(a.data(0), a.field_list(1), source=a.source),
    "clone_egress_pkt_to_egress": lambda a: model.Clone(a.data(0), a.field_list(1), source=a.source),
    "resubmit": lambda a: model.Resubmit(a.field_list(0), source=a.source),
    "recirculate": lambda a: model.Recirculate(a.field_list(0), source=a.source),
    "truncate": lambda a: model.Truncate(a.data(0), source=a.source),
    # The first argument is the receiver, which BMv2 ignores.
    "generate_digest": lambda a: model.GenerateDigest(a.learn_list(1), source=a.source),
    "execute_meter": lambda a: model.ExecuteMeter(a.meter(0), a.data(1), a.target(2), source=a.source),
    "exit": lambda a: model.Exit(source=a.source),
    "log_msg": _log_message,
    "assert": lambda a: model.Assertion("assert", a.holds(), source=a.source),
    "assume": lambda a: model.Assertion("assume", a.holds(), source=a.source),
}


def load_actions(root: Json, scope: HeaderScope, externs: Externs) -> dict[int, model.Action]:
    """Loads actions by id."""
    loaded = (_action(*item, scope, externs) for item in each(root, "actions", "action"))
    return {action.id: action for action in loaded}


def _action(name: str, where: str, obj: Json, scope: HeaderScope, externs: Externs) -> model.Action:
    parameters = tuple(
        model.ActionParameter(get(p, "name", str, where), get(p, "bitwidth", int, where))
        for p in objects(obj, "runtime_data", where)
    )
    loader = PrimitiveLoader(scope, externs, where, tuple(p.width for p in parameters))
    primitives = tuple(loader.load(p) for p in objects(obj, "primitives", where))
    for primitive in primitives:
        if isinstance(primitive, model.Jump | model.JumpIfZero) and not 0 <= primitive.to <= len(primitives):
            raise ProgramError(f"{where}: jump to primitive {primitive.to} of {len(primitives)}")
    ident = get(obj, "id", int, where)
    optional(obj, "source_info", dict, where)
    return model.Action(ident, name, parameters, primitives, source=source_of(obj))
