"""Operations of which a case consists, and their JSON in a recording."""

from dataclasses import dataclass
from typing import Any, TypeAlias

from p4switch.tables import Exact, Lpm, Match, Range, TableEntry, Ternary


@dataclass(frozen=True)
class Insert:
    """Adds an entry; in a table with an action profile it names a member or a group instead of an action."""

    table: str
    entry: TableEntry
    member: int | None = None
    group: int | None = None


@dataclass(frozen=True)
class Modify:
    """Gives an entry another action."""

    table: str
    entry: TableEntry


@dataclass(frozen=True)
class Delete:
    """Removes an entry."""

    table: str
    entry: TableEntry


@dataclass(frozen=True)
class SetDefault:
    """Sets a table's default action."""

    table: str
    action: str
    arguments: tuple[int, ...]


@dataclass(frozen=True)
class SetGroup:
    """Sets a multicast group's replicas (port, rid)."""

    group: int
    replicas: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class SetSession:
    """Sets a clone session's replicas (port, rid)."""

    session: int
    replicas: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class SetMember:
    """Creates a member of an action profile; members are numbered from 0."""

    profile: str
    member: int
    action: str
    arguments: tuple[int, ...]


@dataclass(frozen=True)
class SetMembers:
    """Sets the members of an action selector's group, created by the first use; groups are numbered from 0."""

    profile: str
    group: int
    members: tuple[int, ...]


@dataclass(frozen=True)
class SetMeter:
    """Sets a meter that never refills: ``committed`` packets or bytes are green, ``peak`` are green or yellow."""

    meter: str
    index: int
    committed: int
    peak: int


@dataclass(frozen=True)
class SetDirectMeter:
    """Sets the meter of a table entry; like ``SetMeter``, it never refills."""

    table: str
    entry: TableEntry
    committed: int
    peak: int


@dataclass(frozen=True)
class AddToValueSet:
    """Adds a value to a parser's value set."""

    value_set: str
    value: int


@dataclass(frozen=True)
class WriteRegister:
    """Writes a register's cell."""

    register: str
    index: int
    value: int


@dataclass(frozen=True)
class Send:
    """Sends a frame to the switch by a port."""

    port: int
    frame: bytes


Operation: TypeAlias = (
    Insert
    | Modify
    | Delete
    | SetDefault
    | SetGroup
    | SetSession
    | SetMember
    | SetMembers
    | SetMeter
    | SetDirectMeter
    | AddToValueSet
    | WriteRegister
    | Send
)

_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        *(Insert, Modify, Delete, SetDefault, SetGroup, SetSession),
        *(SetMember, SetMembers, SetMeter, SetDirectMeter, AddToValueSet, WriteRegister, Send),
    )
}
_MATCHES: dict[str, type[Any]] = {kind.__name__: kind for kind in (Exact, Lpm, Ternary, Range)}


def encode(operation: Operation) -> list[Any]:
    """Returns an operation as JSON: its name, then its fields in order."""
    if isinstance(operation, Send):
        return ["Send", operation.port, operation.frame.hex()]
    fields: list[Any] = []
    for name in operation.__dataclass_fields__:
        value = getattr(operation, name)
        fields.append(_encode_entry(value) if isinstance(value, TableEntry) else value)
    return [type(operation).__name__, *fields]


def decode(row: list[Any]) -> Operation:
    """Reverses ``encode``. Raises KeyError, TypeError."""
    name, *fields = row
    if name == "Send":
        return Send(fields[0], bytes.fromhex(fields[1]))
    if name in ("Insert", "Modify", "Delete", "SetDirectMeter"):
        fields[1] = _decode_entry(fields[1])
    operation: Operation = _KINDS[name](*[_tuples(field) for field in fields])
    return operation


def _encode_entry(entry: TableEntry) -> list[Any]:
    match = [[type(one).__name__, *(getattr(one, field) for field in one.__dataclass_fields__)] for one in entry.match]
    return [match, entry.action, list(entry.arguments), entry.priority]


def _decode_entry(row: list[Any]) -> TableEntry:
    match, action, arguments, priority = row
    decoded: tuple[Match, ...] = tuple(_MATCHES[name](*numbers) for name, *numbers in match)
    return TableEntry(decoded, action, tuple(arguments), priority)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
