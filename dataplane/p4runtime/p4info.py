"""P4Info, indexed by id."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, TypeVar

from finsy.proto import p4i

from p4reduce.dataplane.p4runtime.errors import Code, P4RuntimeError
from p4reduce.dataplane.p4runtime.p4types import ValueType, value_type

FieldKind: TypeAlias = Literal["exact", "lpm", "ternary", "range", "optional"]

_FIELD_KINDS: Final[Mapping[int, FieldKind]] = {
    p4i.MatchField.EXACT: "exact",
    p4i.MatchField.LPM: "lpm",
    p4i.MatchField.TERNARY: "ternary",
    p4i.MatchField.RANGE: "range",
    p4i.MatchField.OPTIONAL: "optional",
}


@dataclass(frozen=True, slots=True)
class Field:
    """A match field, an action parameter or a field of a controller header; ``width`` in bits."""

    id: int
    name: str
    width: int


@dataclass(frozen=True, slots=True)
class MatchField(Field):
    """A match field of a table."""

    kind: FieldKind


@dataclass(frozen=True, slots=True)
class ActionInfo:
    """An action with its parameters in the order of declaration."""

    id: int
    name: str
    parameters: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class ActionRef:
    """An action of a table, and whether it may stand in entries and be the default."""

    action: ActionInfo
    in_entries: bool
    as_default: bool


@dataclass(frozen=True)
class TableInfo:
    """A table.

    Attributes:
        fields: in the order of the key.
        actions: by id.
        prioritized: its entries have priorities.
        const: its entries cannot be changed.
        const_default: its default entry cannot be changed.
        has_counter: it has a direct counter.
        counts: units of that counter that a write sets: (packets, bytes).
        idle_timeout: the program asks for idle time-outs.
    """

    id: int
    name: str
    fields: tuple[MatchField, ...]
    actions: Mapping[int, ActionRef]
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
        """An action by its full name."""
        return next((ref.action for ref in self.actions.values() if ref.action.name == name), None)


@dataclass(frozen=True, slots=True)
class CounterInfo:
    """An indirect counter; ``counts``: what a write sets, (packets, bytes)."""

    id: int
    name: str
    size: int
    counts: tuple[bool, bool]


@dataclass(frozen=True, slots=True)
class RegisterInfo:
    """A register; ``type`` None: of a type that P4Runtime access does not support."""

    id: int
    name: str
    size: int
    type: ValueType | None


@dataclass(frozen=True)
class Schema:
    """Everything that P4Runtime addresses, by id.

    Attributes:
        proto: the P4Info as it was sent.
        packet_in, packet_out: fields of the controller headers, None where the program has none.
    """

    proto: p4i.P4Info = field(repr=False)
    tables: Mapping[int, TableInfo]
    counters: Mapping[int, CounterInfo]
    registers: Mapping[int, RegisterInfo]
    direct_counters: frozenset[int]
    packet_in: tuple[Field, ...] | None
    packet_out: tuple[Field, ...] | None


Info = TypeVar("Info", ActionInfo, TableInfo, CounterInfo, RegisterInfo)


def load_schema(proto: p4i.P4Info) -> Schema:
    """Indexes P4Info.

    Raises:
        P4RuntimeError: INVALID_ARGUMENT: an id is missing, unknown or given twice, a width is missing.
    """
    actions = _by_id((_action(a) for a in proto.actions), "action")
    direct = {c.preamble.id: c for c in proto.direct_counters}
    counters = (CounterInfo(c.preamble.id, c.preamble.name, c.size, _counts(c.spec)) for c in proto.counters)
    registers = (
        RegisterInfo(r.preamble.id, r.preamble.name, r.size, value_type(r.type_spec, proto.type_info))
        for r in proto.registers
    )
    return Schema(
        proto=proto,
        tables=_by_id((_table(t, actions, direct) for t in proto.tables), "table"),
        counters=_by_id(counters, "counter"),
        registers=_by_id(registers, "register"),
        direct_counters=frozenset(direct),
        packet_in=_controller_header(proto, "packet_in"),
        packet_out=_controller_header(proto, "packet_out"),
    )


def invalid(message: str) -> P4RuntimeError:
    """What is wrong with a P4Info."""
    return P4RuntimeError(Code.INVALID_ARGUMENT, f"P4Info: {message}")


def _by_id(infos: Iterable[Info], what: str) -> dict[int, Info]:
    found: dict[int, Info] = {}
    for info in infos:
        if info.id == 0 or info.id in found:
            raise invalid(f"{what} {info.name!r}: id {info.id} is zero or given twice")
        found[info.id] = info
    return found


def _width(bitwidth: int, what: str) -> int:
    if bitwidth <= 0:
        raise invalid(f"{what} has no bitwidth; types translated to strings are not supported")
    return bitwidth


def _action(proto: p4i.Action) -> ActionInfo:
    name = proto.preamble.name
    parameters = tuple(
        Field(p.id, p.name, _width(p.bitwidth, f"parameter {p.name!r} of action {name!r}")) for p in proto.params
    )
    return ActionInfo(proto.preamble.id, name, parameters)


def _match_field(proto: p4i.MatchField, table: str) -> MatchField:
    what = f"match field {proto.name!r} of table {table!r}"
    kind = _FIELD_KINDS.get(proto.match_type)
    if kind is None:
        raise invalid(f"{what}: match type {proto.other_match_type or proto.match_type!r} is not supported")
    return MatchField(proto.id, proto.name, _width(proto.bitwidth, what), kind)


def _action_ref(proto: p4i.ActionRef, actions: Mapping[int, ActionInfo], table: str) -> ActionRef:
    if proto.id not in actions:
        raise invalid(f"table {table!r} refers to action {proto.id}, which is not declared")
    scope = proto.scope
    return ActionRef(actions[proto.id], scope != p4i.ActionRef.DEFAULT_ONLY, scope != p4i.ActionRef.TABLE_ONLY)


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
    """Which of (packets, bytes) a counter's unit names."""
    return spec.unit != p4i.CounterSpec.BYTES, spec.unit != p4i.CounterSpec.PACKETS


def _controller_header(proto: p4i.P4Info, name: str) -> tuple[Field, ...] | None:
    for header in proto.controller_packet_metadata:
        if header.preamble.name == name:
            return tuple(
                Field(m.id, m.name, _width(m.bitwidth, f"field {m.name!r} of controller header {name!r}"))
                for m in header.metadata
            )
    return None
