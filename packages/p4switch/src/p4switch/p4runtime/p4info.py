"""P4Info, indexed by id."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, TypeVar

from finsy.proto import p4d, p4i, p4t

from p4switch.p4runtime import errors
from p4switch.p4runtime.errors import P4RuntimeError, StatusCode
from p4switch.program import Program
from p4switch.program.actions import MatchKind, MatchTable

# Values of registers: P4Data, and the types that P4Info gives them.


Kind: TypeAlias = Literal["bit", "int", "bool", "enum"]

_MAX_ALIASES = 32


@dataclass(frozen=True, slots=True)
class ValueType:
    """A scalar P4 type.

    Attributes:
        kind: ``enum`` is a serializable enum, which is sent as ``enum_value``.
        width: bits; 1 for ``bool``.
    """

    kind: Kind
    width: int

    def encode(self, cell: int) -> p4d.P4Data:
        """Returns the P4Data of a cell, which is given as an unsigned number of ``width`` bits."""
        match self.kind:
            case "bit":
                return p4d.P4Data(bitstring=errors.encode(cell))
            case "int":
                signed = cell - (1 << self.width) if cell >> (self.width - 1) else cell
                return p4d.P4Data(bitstring=errors.encode_signed(signed))
            case "bool":
                return p4d.P4Data(bool=bool(cell))
            case "enum":
                return p4d.P4Data(enum_value=errors.encode(cell))

    def decode(self, data: p4d.P4Data, what: str) -> int:
        """Returns the cell, unsigned, from P4Data. Raises P4RuntimeError (INVALID_ARGUMENT)."""
        expected = {"bit": "bitstring", "int": "bitstring", "bool": "bool", "enum": "enum_value"}[self.kind]
        given = data.WhichOneof("data")
        if given != expected:
            raise P4RuntimeError(
                StatusCode.INVALID_ARGUMENT, f"{what}: data is {given or 'unset'}, expected {expected}"
            )
        match self.kind:
            case "bit":
                return errors.decode(data.bitstring, self.width, what)
            case "int":
                return errors.decode_signed(data.bitstring, self.width, what) & ((1 << self.width) - 1)
            case "bool":
                return int(data.bool)
            case "enum":
                return errors.decode(data.enum_value, self.width, what)


def value_type(spec: p4t.P4DataTypeSpec, types: p4t.P4TypeInfo) -> ValueType | None:
    """Returns the scalar type of a P4Info type specification; None for types that are not scalar or not known.

    Args:
        spec: the type of a register's cells.
        types: P4Info's named types; ``type`` declarations are followed.
    """
    for _ in range(_MAX_ALIASES):
        match spec.WhichOneof("type_spec"):
            case "bitstring":
                return _bitstring_type(spec.bitstring)
            case "bool":
                return ValueType("bool", 1)
            case "serializable_enum":
                if spec.serializable_enum.name not in types.serializable_enums:
                    return None
                width = types.serializable_enums[spec.serializable_enum.name].underlying_type.bitwidth
                return ValueType("enum", width) if width > 0 else None
            case "new_type":
                if spec.new_type.name not in types.new_types:
                    return None
                named = types.new_types[spec.new_type.name]
                if named.WhichOneof("representation") == "translated_type":
                    width = named.translated_type.sdn_bitwidth
                    return ValueType("bit", width) if width > 0 else None
                spec = named.original_type
            case _:
                return None
    return None


def _bitstring_type(spec: p4t.P4BitstringLikeTypeSpec) -> ValueType | None:
    match spec.WhichOneof("type_spec"):
        case "bit" if spec.bit.bitwidth > 0:
            return ValueType("bit", spec.bit.bitwidth)
        case "int" if spec.int.bitwidth > 0:
            return ValueType("int", spec.int.bitwidth)
        case _:
            return None


FieldKind: TypeAlias = Literal["exact", "lpm", "ternary", "range", "optional"]

_FIELD_KINDS: Final[Mapping[int, FieldKind]] = {
    p4i.MatchField.EXACT: "exact", p4i.MatchField.LPM: "lpm", p4i.MatchField.TERNARY: "ternary",
    p4i.MatchField.RANGE: "range", p4i.MatchField.OPTIONAL: "optional",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class P4InfoField:
    """A match field, an action parameter, or a field of a controller header; ``width`` in bits."""

    id: int
    name: str
    width: int


@dataclass(frozen=True, slots=True)
class MatchField(P4InfoField):
    """A match field of a table."""

    kind: FieldKind


@dataclass(frozen=True, slots=True)
class Info:
    """An object that has an id in P4Info."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class ActionInfo(Info):
    """An action with its parameters in the order of declaration."""

    parameters: tuple[P4InfoField, ...]


@dataclass(frozen=True, slots=True)
class TableAction:
    """An action of a table, and whether entries and the default entry may use it."""

    action: ActionInfo
    in_entries: bool
    as_default: bool


@dataclass(frozen=True)
class TableInfo(Info):
    """A table.

    Attributes:
        fields: in the order of the key.
        actions: by id.
        prioritized: its entries have priorities.
        const: its entries cannot be changed.
        const_default: its default entry cannot be changed.
        has_counter: it has a direct counter.
        counts: which of (packets, bytes) a write sets, by the counter's unit.
        idle_timeout: whether the program asks for idle time-outs.
    """

    fields: tuple[MatchField, ...]
    actions: Mapping[int, TableAction]
    const: bool
    const_default: bool
    has_counter: bool
    counts: tuple[bool, bool]
    idle_timeout: bool

    @property
    def prioritized(self) -> bool:
        """Whether entries carry a priority."""
        return any(f.kind in ("ternary", "range", "optional") for f in self.fields)

    def action_by_name(self, name: str) -> ActionInfo | None:
        """Returns an action of the table by its full name; None if there is none."""
        return next((ref.action for ref in self.actions.values() if ref.action.name == name), None)


@dataclass(frozen=True, slots=True)
class CounterInfo(Info):
    """An indirect counter; ``counts``: which of (packets, bytes) a write sets."""

    size: int
    counts: tuple[bool, bool]


@dataclass(frozen=True, slots=True)
class RegisterInfo(Info):
    """A register; ``type`` is None for types that P4Runtime access does not support."""

    size: int
    type: ValueType | None


@dataclass(frozen=True, slots=True)
class StructShape:
    """A struct or a tuple of shapes."""

    members: tuple["Shape", ...]
    is_tuple: bool


Shape: TypeAlias = ValueType | StructShape


@dataclass(frozen=True, slots=True)
class MeterInfo(Info):
    """An indirect meter."""

    size: int


@dataclass(frozen=True, slots=True)
class ProfileInfo(Info):
    """An action profile; ``table`` is a table that uses it, 0 if there is none."""

    max_group_size: int
    table: int


@dataclass(frozen=True, slots=True)
class DigestInfo(Info):
    """A digest; ``shape`` is None for types that are not supported."""

    shape: Shape | None


@dataclass(frozen=True, slots=True)
class ValueSetInfo(Info):
    """A value set; ``fields`` are (match field id, width in bits)."""

    fields: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Schema:
    """All objects of P4Info, by id.

    Attributes:
        proto: the P4Info as it was sent.
        packet_in, packet_out: fields of the controller headers; None if the program has none.
        metered: ids of the tables with a direct meter.
        implementations: the action profile of each table that has one.
    """

    proto: p4i.P4Info = field(repr=False)
    tables: Mapping[int, TableInfo]
    counters: Mapping[int, CounterInfo]
    registers: Mapping[int, RegisterInfo]
    direct_counters: frozenset[int]
    packet_in: tuple[P4InfoField, ...] | None
    packet_out: tuple[P4InfoField, ...] | None
    meters: Mapping[int, MeterInfo]
    direct_meters: frozenset[int]
    metered: frozenset[int]
    profiles: Mapping[int, ProfileInfo]
    implementations: Mapping[int, ProfileInfo]
    digests: Mapping[int, DigestInfo]
    value_sets: Mapping[int, ValueSetInfo]


T = TypeVar("T", bound=Info)


def load_schema(proto: p4i.P4Info) -> Schema:
    """Indexes P4Info.

    Raises:
        P4RuntimeError: INVALID_ARGUMENT: an id is missing, unknown or repeated, or a width is missing.
    """
    actions = _by_id((_action(a) for a in proto.actions), "action")
    direct = {c.preamble.id: c for c in proto.direct_counters}
    counters = (CounterInfo(*_known(c), c.size, _counts(c.spec)) for c in proto.counters)
    registers = (RegisterInfo(*_known(r), r.size, value_type(r.type_spec, proto.type_info)) for r in proto.registers)
    profiles = [ProfileInfo(*_known(p), p.max_group_size, next(iter(p.table_ids), 0)) for p in proto.action_profiles]
    by_id = {profile.id: profile for profile in profiles}
    digests = (DigestInfo(*_known(d), shape_of(d.type_spec, proto.type_info)) for d in proto.digests)
    value_sets = (ValueSetInfo(*_known(v), tuple((m.id, m.bitwidth) for m in v.match)) for v in proto.value_sets)
    return Schema(
        proto=proto,
        tables=_by_id((_table(t, actions, direct) for t in proto.tables), "table"),
        counters=_by_id(counters, "counter"),
        registers=_by_id(registers, "register"),
        direct_counters=frozenset(direct),
        packet_in=_controller_header(proto, "packet_in"),
        packet_out=_controller_header(proto, "packet_out"),
        meters={m.preamble.id: MeterInfo(*_known(m), m.size) for m in proto.meters},
        direct_meters=frozenset(m.preamble.id for m in proto.direct_meters),
        metered=frozenset(m.direct_table_id for m in proto.direct_meters),
        profiles=by_id,
        implementations={
            t.preamble.id: by_id[t.implementation_id] for t in proto.tables if t.implementation_id in by_id
        },
        digests={digest.id: digest for digest in digests},
        value_sets={value_set.id: value_set for value_set in value_sets},
    )


def _known(message: Any) -> tuple[int, str]:
    return message.preamble.id, message.preamble.name


def invalid(message: str) -> P4RuntimeError:
    """Returns the error for an invalid P4Info."""
    return P4RuntimeError(StatusCode.INVALID_ARGUMENT, f"P4Info: {message}")


def _by_id(infos: Iterable[T], what: str) -> dict[int, T]:
    by_id: dict[int, T] = {}
    for info in infos:
        if info.id == 0 or info.id in by_id:
            raise invalid(f"{what} {info.name!r}: id {info.id} is zero or given twice")
        by_id[info.id] = info
    return by_id


def _width(bitwidth: int, what: str) -> int:
    if bitwidth <= 0:
        raise invalid(f"{what} has no bitwidth; types translated to strings are not supported")
    return bitwidth


def _action(proto: p4i.Action) -> ActionInfo:
    name = proto.preamble.name
    parameters = tuple(
        P4InfoField(p.id, p.name, _width(p.bitwidth, f"parameter {p.name!r} of action {name!r}")) for p in proto.params
    )
    return ActionInfo(*_known(proto), parameters)


def _match_field(proto: p4i.MatchField, table: str) -> MatchField:
    what = f"match field {proto.name!r} of table {table!r}"
    kind = _FIELD_KINDS.get(proto.match_type)
    if kind is None:
        raise invalid(f"{what}: match type {proto.other_match_type or proto.match_type!r} is not supported")
    return MatchField(proto.id, proto.name, _width(proto.bitwidth, what), kind)


def _action_ref(proto: p4i.ActionRef, actions: Mapping[int, ActionInfo], table: str) -> TableAction:
    if proto.id not in actions:
        raise invalid(f"table {table!r} refers to action {proto.id}, which is not declared")
    scope = proto.scope
    return TableAction(actions[proto.id], scope != p4i.ActionRef.DEFAULT_ONLY, scope != p4i.ActionRef.TABLE_ONLY)


def _table(proto: p4i.Table, actions: Mapping[int, ActionInfo], direct: Mapping[int, p4i.DirectCounter]) -> TableInfo:
    name = proto.preamble.name
    counter = next((direct[i] for i in proto.direct_resource_ids if i in direct), None)
    return TableInfo(
        id=proto.preamble.id,
        name=name,
        fields=tuple(_match_field(f, name) for f in proto.match_fields),
        actions={ref.id: _action_ref(ref, actions, name) for ref in proto.action_refs},
        const=proto.is_const_table,
        const_default=proto.const_default_action_id != 0,
        has_counter=counter is not None,
        counts=(False, False) if counter is None else _counts(counter.spec),
        idle_timeout=proto.idle_timeout_behavior != p4i.Table.NO_TIMEOUT,
    )


def _counts(spec: p4i.CounterSpec) -> tuple[bool, bool]:
    """Returns which of (packets, bytes) a counter's unit names."""
    return spec.unit != p4i.CounterSpec.BYTES, spec.unit != p4i.CounterSpec.PACKETS


def _controller_header(proto: p4i.P4Info, name: str) -> tuple[P4InfoField, ...] | None:
    for header in proto.controller_packet_metadata:
        if header.preamble.name == name:
            return tuple(
                P4InfoField(m.id, m.name, _width(m.bitwidth, f"field {m.name!r} of controller header {name!r}"))
                for m in header.metadata
            )
    return None


def shape_of(spec: p4t.P4DataTypeSpec, types: p4t.P4TypeInfo) -> Shape | None:
    """Returns the shape of a digest's type; None if it holds a type that is not supported."""
    members: Sequence[p4t.P4DataTypeSpec]
    match spec.WhichOneof("type_spec"):
        case "struct" if spec.struct.name in types.structs:
            members = [m.type_spec for m in types.structs[spec.struct.name].members]
        case "tuple":
            members = spec.tuple.members
        case _:
            return value_type(spec, types)
    shapes = tuple(shape_of(member, types) for member in members)
    known = tuple(shape for shape in shapes if shape is not None)
    return StructShape(known, spec.HasField("tuple")) if len(known) == len(shapes) else None


def encode_shape(shape: Shape, values: Iterator[int]) -> p4d.P4Data:
    """Returns P4Data made from the elements of a digest, in their order."""
    if isinstance(shape, ValueType):
        return shape.encode(next(values) & ((1 << shape.width) - 1))
    members = [encode_shape(member, values) for member in shape.members]
    packed = p4d.P4StructLike(members=members)
    return p4d.P4Data(tuple=packed) if shape.is_tuple else p4d.P4Data(struct=packed)


# Conformity of P4Info and program: names, widths and sizes must be those that p4c wrote into the JSON.


_KEY_KINDS: Final[Mapping[FieldKind, MatchKind]] = {
    "exact": "exact", "lpm": "lpm", "ternary": "ternary", "range": "range", "optional": "ternary",
}  # fmt: skip


def check_conformity(schema: Schema, program: Program) -> None:
    """Checks that every object of P4Info is in the program, with the same properties.

    Raises:
        P4RuntimeError: INVALID_ARGUMENT, which names the first difference.
    """
    for table in schema.tables.values():
        spec = program.tables.get(table.name)
        if spec is None:
            raise _differs(f"table {table.name!r} is not in it")
        _check_key(table, spec)
        _check_actions(table, spec, program)
        _check_table_externs(table, spec, schema)
        if table.has_counter != (spec.direct_counter is not None):
            raise _differs(f"table {table.name!r} has {'no' if table.has_counter else 'a'} direct counter there")
        if table.idle_timeout and not spec.idle_timeout:
            raise _differs(f"table {table.name!r} has no idle time-outs there")
    _check_externs(schema, program)
    for counter in schema.counters.values():
        array = program.counters.get(counter.name)
        if array is None or array.table is not None or array.size != counter.size:
            raise _differs(f"indirect counter {counter.name!r} of {counter.size} cells is not in it")
    for register in schema.registers.values():
        cells = program.registers.get(register.name)
        if cells is None or cells.size != register.size:
            raise _differs(f"register {register.name!r} of {register.size} cells is not in it")
        if register.type is not None and register.type.width != cells.width:
            raise _differs(f"register {register.name!r} has cells of {cells.width} bits there")


def _check_externs(schema: Schema, program: Program) -> None:
    for meter in schema.meters.values():
        cells = program.meters.get(meter.name)
        if cells is None or cells.table is not None or cells.size != meter.size:
            raise _differs(f"indirect meter {meter.name!r} of {meter.size} cells is not in it")
    learned = {learn_list.name for learn_list in program.learn_lists.values()}
    for what, infos, known in (
        ("action profile", schema.profiles, program.profiles),
        ("value set", schema.value_sets, program.value_sets),
        ("digest", schema.digests, learned),
    ):
        for info in infos.values():
            if info.name not in known:
                raise _differs(f"{what} {info.name!r} is not in it")
    for value_set in schema.value_sets.values():
        if program.value_sets[value_set.name].width != sum(width for _, width in value_set.fields):
            raise _differs(f"value set {value_set.name!r} has another width there")


def _check_table_externs(table: TableInfo, spec: MatchTable, schema: Schema) -> None:
    if (table.id in schema.metered) != (spec.direct_meter is not None):
        raise _differs(f"table {table.name!r} has {'no' if table.id in schema.metered else 'a'} direct meter there")
    profile = schema.implementations.get(table.id)
    if (None if profile is None else profile.name) != spec.profile:
        raise _differs(f"table {table.name!r} has another action profile there")


def _check_key(table: TableInfo, spec: MatchTable) -> None:
    if len(table.fields) != len(spec.keys):
        raise _differs(f"table {table.name!r} has {len(spec.keys)} match fields there")
    for member, key in zip(table.fields, spec.keys, strict=True):
        if member.width != key.width or _KEY_KINDS[member.kind] != key.kind:
            raise _differs(f"match field {member.name!r} of table {table.name!r} is {key.kind}, {key.width} bits there")


def _check_actions(table: TableInfo, spec: MatchTable, program: Program) -> None:
    there = {program.actions[ident].name: program.actions[ident] for ident in spec.actions}
    for ref in table.actions.values():
        action = there.get(ref.action.name)
        if action is None:
            raise _differs(f"table {table.name!r} has no action {ref.action.name!r} there")
        if tuple(p.width for p in action.parameters) != tuple(p.width for p in ref.action.parameters):
            raise _differs(f"action {ref.action.name!r} has other parameters there")


def _differs(message: str) -> Exception:
    return invalid(f"does not describe the program in p4_device_config: {message}")
