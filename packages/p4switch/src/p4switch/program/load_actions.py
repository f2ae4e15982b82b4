"""Actions and primitives from the JSON."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast, get_args

from p4switch.program import model
from p4switch.program.errors import (
    Json,
    ProgramError,
    SourceInfo,
    UnsupportedConstruct,
    get,
    hexstr,
    objects,
    optional,
    source_of,
)
from p4switch.program.load_expressions import (
    UNSUPPORTED_VALUES,
    ExpressionLoader,
    Scope,
    assign_header,
    assign_stack,
    assign_union,
    assign_varbit,
    pop,
    push,
    with_header,
    with_target,
)

# Registers, counters, calculations and checksums from the JSON.


_ALGORITHMS: Final[tuple[model.HashAlgorithm, ...]] = get_args(model.HashAlgorithm)


def load_registers(root: Json) -> dict[str, model.RegisterArray]:
    """Register arrays by name."""
    registers = {}
    for obj in objects(root, "register_arrays", "program"):
        name = get(obj, "name", str, "register_arrays")
        where = f"register {name!r}"
        size, width = get(obj, "size", int, where), get(obj, "bitwidth", int, where)
        if size < 0 or width < 1:
            raise ProgramError(f"{where}: {size} cells of {width} bits")
        registers[name] = model.RegisterArray(name, size, width, source_of(obj))
    return registers


def load_counters(root: Json) -> dict[str, model.CounterArray]:
    """Counters by name, direct and indirect."""
    counters = {}
    for obj in objects(root, "counter_arrays", "program"):
        name = get(obj, "name", str, "counter_arrays")
        where = f"counter {name!r}"
        if obj.get("is_direct", False):
            counters[name] = model.CounterArray(name, 0, get(obj, "binding", str, where), source_of(obj))
        else:
            counters[name] = model.CounterArray(name, get(obj, "size", int, where), None, source_of(obj))
    return counters


def load_calculations(root: Json, scope: Scope) -> dict[str, model.Calculation]:
    """Hash calculations by name."""
    calculations = {}
    for obj in objects(root, "calculations", "program"):
        calculation = load_calculation(obj, scope)
        calculations[calculation.name] = calculation
    return calculations


def load_calculation(obj: Json, scope: Scope) -> model.Calculation:
    """One hash calculation."""
    name = get(obj, "name", str, "calculations")
    where, source = f"calculation {name!r}", source_of(obj)
    algorithm = get(obj, "algo", str, where)
    if algorithm not in _ALGORITHMS:
        raise UnsupportedConstruct(f"hash algorithm {algorithm!r}", where, source)
    entries = objects(obj, "input", where)
    payload = any(entry.get("type") == "payload" for entry in entries)
    inputs = tuple(_hash_input(e, scope, where) for e in entries if e.get("type") != "payload")
    return model.Calculation(name, algorithm, inputs, payload, source)


def _hash_input(obj: Json, scope: Scope, where: str) -> model.HashInput:
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


def load_checksums(root: Json, scope: Scope, calculations: dict[str, model.Calculation]) -> tuple[model.Checksum, ...]:
    """Checksums in the order in which they are verified and updated."""
    checksums = []
    for obj in objects(root, "checksums", "program"):
        name = get(obj, "name", str, "checksums")
        where, source = f"checksum {name!r}", source_of(obj)
        kind = get(obj, "type", str, where)
        if kind != "generic":
            raise UnsupportedConstruct(f"checksum of type {kind!r}", where, source)
        calculation = get(obj, "calculation", str, where)
        if calculation not in calculations:
            raise ProgramError(f"{where}: unknown calculation {calculation!r}")
        condition = optional(obj, "if_cond", dict, where)
        checksums.append(
            model.Checksum(
                name,
                scope.target(obj.get("target"), where),
                calculation,
                bool(obj.get("verify", True)),
                bool(obj.get("update", True)),
                None if condition is None else ExpressionLoader(scope, where, source).bool(condition),
                source,
            )
        )
    return tuple(checksums)


# Field lists, digests, value sets, meters and action profiles from the JSON.


RATES = 2
"""Rates of v1model's meters."""


@dataclass(frozen=True, slots=True)
class PathSections:
    """What primitives, tables and parser states refer to, by name or id."""

    field_lists: dict[int, model.FieldList]
    learn_lists: dict[int, model.LearnList]
    meters: dict[str, model.MeterArray]
    value_sets: dict[str, model.ValueSet]

    @classmethod
    def load(cls, root: Json, scope: Scope) -> "PathSections":
        """From the top level of the JSON."""
        return cls(_field_lists(root, scope), _learn_lists(root, scope), _meters(root, scope), _value_sets(root))


def _field_lists(root: Json, scope: Scope) -> dict[int, model.FieldList]:
    lists = {}
    for obj in objects(root, "field_lists", "program"):
        ident = get(obj, "id", int, "field_lists")
        where = f"field list {obj.get('name')!r}"
        # BMv2 copies nothing for constants.
        fields = tuple(f for f in _elements(obj, scope, where) if isinstance(f, model.FieldRef))
        lists[ident] = model.FieldList(ident, fields)
    return lists


def _learn_lists(root: Json, scope: Scope) -> dict[int, model.LearnList]:
    lists = {}
    for obj in objects(root, "learn_lists", "program"):
        ident, name = get(obj, "id", int, "learn_lists"), get(obj, "name", str, "learn_lists")
        lists[ident] = model.LearnList(ident, name, _elements(obj, scope, f"digest {name!r}"))
    return lists


def _elements(obj: Json, scope: Scope, where: str) -> tuple[model.FieldRef | model.LearnConstant, ...]:
    found: list[model.FieldRef | model.LearnConstant] = []
    for element in objects(obj, "elements", where):
        kind, value = element.get("type"), element.get("value")
        if kind == "field":
            found.append(scope.target(value, where))
        elif kind == "hexstr":
            digits = str(value).lower().removeprefix("0x")
            found.append(model.LearnConstant(hexstr(value, where), 8 * -(-len(digits) // 2)))
        else:
            raise UnsupportedConstruct(f"element of type {kind!r}", where, source_of(obj))
    return tuple(found)


def _meters(root: Json, scope: Scope) -> dict[str, model.MeterArray]:
    meters = {}
    for obj in objects(root, "meter_arrays", "program"):
        name = get(obj, "name", str, "meter_arrays")
        where, unit = f"meter {name!r}", get(obj, "type", str, f"meter {name!r}")
        if unit not in ("packets", "bytes"):
            raise ProgramError(f"{where}: type {unit!r} is neither 'packets' nor 'bytes'")
        if get(obj, "rate_count", int, where) != RATES:
            raise UnsupportedConstruct(f"meter with {obj['rate_count']} rates", where, source_of(obj))
        table, target, size = None, None, optional(obj, "size", int, where) or 0
        if obj.get("is_direct", False):
            table, target = get(obj, "binding", str, where), scope.target(obj.get("result_target"), where)
            size = 0
        meters[name] = model.MeterArray(name, size, cast(Any, unit), table, target, source_of(obj))
    return meters


def _value_sets(root: Json) -> dict[str, model.ValueSet]:
    sets = {}
    for obj in objects(root, "parse_vsets", "program"):
        name = get(obj, "name", str, "parse_vsets")
        where = f"value set {name!r}"
        size = optional(obj, "max_size", int, where)
        sets[name] = model.ValueSet(name, get(obj, "compressed_bitwidth", int, where), 1024 if size is None else size)
    return sets


def load_profiles(pipeline: Json, scope: Scope, actions: dict[str, tuple[int, ...]]) -> dict[str, model.ActionProfile]:
    """The action profiles of a pipeline; ``actions``: ids of the actions of the first table that uses each."""
    profiles = {}
    for obj in objects(pipeline, "action_profiles", "pipeline"):
        name = get(obj, "name", str, "action_profiles")
        where = f"action profile {name!r}"
        selector = optional(obj, "selector", dict, where)
        calculation: model.Calculation | None = None
        if selector is not None:
            calculation = load_calculation({**selector, "name": f"selector of {name}"}, scope)
        size = optional(obj, "max_size", int, where) or 0
        profiles[name] = model.ActionProfile(name, size, calculation, actions.get(name, ()))
    return profiles


@dataclass(frozen=True, slots=True)
class Externs:
    """What primitives refer to by name."""

    registers: dict[str, model.RegisterArray]
    counters: dict[str, model.CounterArray]
    calculations: dict[str, model.Calculation]
    paths: PathSections


@dataclass(frozen=True, slots=True)
class PrimitiveLoader:
    """Loads the primitives of one action or parser state."""

    scope: Scope
    externs: Externs
    where: str
    parameter_widths: tuple[int, ...] = ()

    def load(self, obj: Json) -> model.Primitive:
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
        value = self.value(position)
        if value.get("type") != "field":
            kind = str(value.get("type"))
            what = UNSUPPORTED_VALUES.get(kind, f"assignment to a {kind!r}")
            raise UnsupportedConstruct(what, self.where, self.source)
        return self.loader.scope.target(value.get("value"), self.where)

    def to_target(self, position: int, make: Callable[[model.FieldRef], model.Primitive]) -> model.Primitive:
        """A primitive that writes a field, which may be chosen at run time."""
        return with_target(self.expressions(), self.value(position), make)

    def offset(self, position: int) -> int:
        value = self.expressions().data(self.value(position))
        if not isinstance(value, model.Const):
            raise ProgramError(f"{self.where}: the jump's target is not a constant")
        return value.value


def _register_read(args: _Arguments) -> model.Primitive:
    register, index = args.register(1), args.expressions().data(args.value(2))
    return args.to_target(0, lambda target: model.RegisterRead(target, register, index, args.source))


def _hash(args: _Arguments) -> model.Primitive:
    base, size = (args.expressions().data(args.value(position)) for position in (1, 3))
    calculation = args.calculation(2)
    return args.to_target(0, lambda target: model.Hash(target, base, calculation, size, args.source))


def _random(args: _Arguments) -> model.Primitive:
    low, high = (args.expressions().data(args.value(position)) for position in (1, 2))
    return args.to_target(0, lambda target: model.Random(target, low, high, args.source))


def _assign(args: _Arguments) -> model.Primitive:
    value = args.expressions().data(args.value(1))
    return args.to_target(0, lambda target: model.Assign(target, value, args.source))


def _log_message(args: _Arguments) -> model.LogMessage:
    text = args.named(0, "string")
    vector = args.value(1)
    values = get(vector, "value", list, args.where)
    return model.LogMessage(text, tuple(args.expressions().data(v) for v in values), args.source)


def _mark_to_drop(args: _Arguments) -> model.MarkToDrop:
    header = args.header(0)
    if "egress_spec" not in args.loader.scope.headers[header].type.by_name:
        raise ProgramError(f"{args.where}: {header!r} has no field 'egress_spec'")
    return model.MarkToDrop(header, args.source)


_LOADERS: Final[Mapping[str, Callable[[_Arguments], model.Primitive]]] = {
    "assign": _assign,
    "assign_VL": lambda a: assign_varbit(a.expressions(), a.value(0), a.value(1)),
    "assign_header": lambda a: assign_header(a.expressions(), a.value(0), a.value(1)),
    "assign_union": lambda a: assign_union(a.expressions(), a.value(0), a.value(1)),
    "assign_header_stack": lambda a: assign_stack(a.expressions(), a.op, a.value(0), a.value(1)),
    "assign_union_stack": lambda a: assign_stack(a.expressions(), a.op, a.value(0), a.value(1)),
    "push": lambda a: push(a.expressions(), a.value(0), a.value(1)),
    "pop": lambda a: pop(a.expressions(), a.value(0), a.value(1)),
    "add_header": lambda a: with_header(a.expressions(), a.value(0), lambda header: model.AddHeader(header, a.source)),
    "remove_header": lambda a: with_header(
        a.expressions(), a.value(0), lambda header: model.RemoveHeader(header, a.source)
    ),
    "mark_to_drop": _mark_to_drop,
    "count": lambda a: model.Count(a.counter(0), a.expressions().data(a.value(1)), a.source),
    "register_read": _register_read,
    "register_write": lambda a: model.RegisterWrite(
        a.register(0), a.expressions().data(a.value(1)), a.expressions().data(a.value(2)), a.source
    ),
    "modify_field_with_hash_based_offset": _hash,
    "modify_field_rng_uniform": _random,
    "_jump": lambda a: model.Jump(a.offset(0), a.source),
    "_jump_if_zero": lambda a: model.JumpIfZero(a.expressions().data(a.value(0)), a.offset(1), a.source),
    "clone_ingress_pkt_to_egress": lambda a: model.Clone(a.expressions().data(a.value(0)), a.field_list(1), a.source),
    "clone_egress_pkt_to_egress": lambda a: model.Clone(a.expressions().data(a.value(0)), a.field_list(1), a.source),
    "resubmit": lambda a: model.Resubmit(a.field_list(0), a.source),
    "recirculate": lambda a: model.Recirculate(a.field_list(0), a.source),
    "truncate": lambda a: model.Truncate(a.expressions().data(a.value(0)), a.source),
    # The first argument is the receiver, which BMv2 ignores.
    "generate_digest": lambda a: model.GenerateDigest(a.learn_list(1), a.source),
    "execute_meter": lambda a: model.ExecuteMeter(a.meter(0), a.expressions().data(a.value(1)), a.target(2), a.source),
    "exit": lambda a: model.Exit(a.source),
    "log_msg": _log_message,
    "assert": lambda a: model.Assertion("assert", a.expressions().bool(a.value(0)), a.source),
    "assume": lambda a: model.Assertion("assume", a.expressions().bool(a.value(0)), a.source),
}


def load_actions(root: Json, scope: Scope, externs: Externs) -> dict[int, model.Action]:
    """Actions by id."""
    actions: dict[int, model.Action] = {}
    for obj in objects(root, "actions", "program"):
        action = _load_action(obj, scope, externs)
        actions[action.id] = action
    return actions


def _load_action(obj: Json, scope: Scope, externs: Externs) -> model.Action:
    name = get(obj, "name", str, "actions")
    where = f"action {name!r}"
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
    return model.Action(ident, name, parameters, primitives, source_of(obj))
