"""All entities except table entries and digests: replicas, cells, resources of table entries, members of value sets."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from finsy.proto import p4r

from p4switch import abi
from p4switch.device import Device
from p4switch.p4runtime.errors import P4RuntimeError, StatusCode, decode, encode
from p4switch.p4runtime.p4info import (
    CounterInfo,
    MeterInfo,
    RegisterInfo,
    Schema,
    TableInfo,
    ValueSetInfo,
    ValueType,
)
from p4switch.p4runtime.table_entries import TableEntries, config_message, meter_config
from p4switch.p4runtime.updates import (
    Kind,
    check_index,
    check_modify_only,
    check_update_type,
    copied,
    counter_data,
    counter_values,
    invalid,
    state_errors,
)
from p4switch.tables import Table, TableEntry
from p4switch.tables.table import TableSnapshot

FIRST_RESERVED_GROUP: Final = 1 << 15
"""BMv2 reserves the groups from this number on for clone sessions (PI, pre_mc_mgr.h)."""
LAST_SESSION: Final = (1 << 15) - 1
"""The last clone session (PI, pre_clone_mgr.h); sessions start from 1."""


class ReplicaEntities:
    """Reads and writes entities that consist of a number and a list of replicas.

    Attributes:
        what: the name of such an entity in messages.
        ident: the field with its number.
        message: the protobuf message.
    """

    what: ClassVar[str]
    ident: ClassVar[str]
    message: ClassVar[type[Any]]

    def __init__(self, held: Any) -> None:
        self._held = held
        self._written: dict[int, Any] = {}

    def write(self, kind: Kind, entry: Any) -> None:
        """Creates, replaces or deletes an entity. Raises P4RuntimeError."""
        number = getattr(entry, self.ident)
        what = f"{self.what} {number}"
        self._check(kind, number, what)
        exists = number in self._numbers()
        if kind == p4r.Update.INSERT and exists:
            raise P4RuntimeError(StatusCode.ALREADY_EXISTS, f"{what} exists already")
        if kind != p4r.Update.INSERT and not exists:
            raise P4RuntimeError(StatusCode.NOT_FOUND, f"{what} does not exist")
        if kind == p4r.Update.DELETE:
            self._held.delete(number)
            self._written.pop(number, None)
            return
        self._check_fields(entry, what)
        replicas = decode_replicas(entry.replicas, what)
        with state_errors():
            self._held.set(number, replicas)
        self._written[number] = copied(entry)

    def read(self, wanted: Any) -> Iterator[Any]:
        """Yields the entity with a number, or all entities if the number is 0. Raises P4RuntimeError."""
        number = getattr(wanted, self.ident)
        known: Sequence[int] = self._numbers()
        if number:
            self._check_number(number, f"{self.what} {number}")
            if number not in known:
                raise P4RuntimeError(StatusCode.NOT_FOUND, f"{self.what} {number} does not exist")
            known = [number]
        now = [(number, self._replicas(number), self._written.get(number)) for number in known]
        return (self._shown(number, replicas, written) for number, replicas, written in now)

    def _shown(self, number: int, replicas: tuple[tuple[int, int], ...], written: Any) -> Any:
        """Returns an entity as it was written, unless it has been changed since by other means than P4Runtime."""
        if written is not None and decode_replicas(written.replicas, "") == replicas:
            return written
        message = self.message(**{self.ident: number})
        for port, rid in replicas:
            message.replicas.add(port=encode(port), instance=rid)
        return message

    def _numbers(self) -> tuple[int, ...]:
        """Returns the numbers that exist."""
        raise NotImplementedError

    def _replicas(self, number: int) -> tuple[tuple[int, int], ...]:
        """Returns (port, rid) of each copy."""
        raise NotImplementedError

    def _check(self, kind: Kind, number: int, what: str) -> None:
        """Refuses a number that cannot be written. Raises P4RuntimeError."""
        raise NotImplementedError

    def _check_number(self, number: int, what: str) -> None:
        """Refuses an impossible number. Raises P4RuntimeError."""

    def _check_fields(self, entry: Any, what: str) -> None:
        """Refuses fields that are not supported. Raises P4RuntimeError."""


class MulticastEntries(ReplicaEntities):
    """Reads and writes MulticastGroupEntry."""

    what, ident, message = "multicast group", "multicast_group_id", p4r.MulticastGroupEntry

    def __init__(self, device: Device) -> None:
        super().__init__(device.multicast)

    def _numbers(self) -> tuple[int, ...]:
        return tuple(self._held.groups())

    def _replicas(self, number: int) -> tuple[tuple[int, int], ...]:
        return tuple(self._held.get(number))

    def _check(self, kind: Kind, number: int, what: str) -> None:
        if number == 0:
            raise invalid("multicast group 0 means no multicast; groups start from 1")
        self._check_number(number, what)
        check_update_type(kind, what)

    def _check_number(self, number: int, what: str) -> None:
        if number >= FIRST_RESERVED_GROUP:
            message = f"{what}: numbers from {FIRST_RESERVED_GROUP} on are reserved"
            raise P4RuntimeError(StatusCode.OUT_OF_RANGE, message)


class CloneEntries(ReplicaEntities):
    """Reads and writes CloneSessionEntry."""

    what, ident, message = "clone session", "session_id", p4r.CloneSessionEntry

    def __init__(self, device: Device) -> None:
        super().__init__(device.clone_sessions)

    def _numbers(self) -> tuple[int, ...]:
        return tuple(self._held.sessions())

    def _replicas(self, number: int) -> tuple[tuple[int, int], ...]:
        session = self._held.get(number)
        return () if session is None else tuple(session.replicas)

    def _check(self, kind: Kind, number: int, what: str) -> None:
        check_update_type(kind, what)
        if not 1 <= number <= LAST_SESSION:
            raise invalid(f"{what}: sessions are numbered 1..{LAST_SESSION}")

    def _check_fields(self, entry: p4r.CloneSessionEntry, what: str) -> None:
        if entry.class_of_service != 0:
            raise P4RuntimeError(StatusCode.UNIMPLEMENTED, f"{what}: class_of_service is not supported")
        if entry.packet_length_bytes != 0:
            raise P4RuntimeError(
                StatusCode.UNIMPLEMENTED, f"{what}: BMv2 does not truncate clones (packet_length_bytes)"
            )


class ReplicationEntries:
    """Reads and writes PacketReplicationEngineEntry, which holds a multicast group or a clone session."""

    def __init__(self, device: Device) -> None:
        self._kinds = {"multicast_group_entry": MulticastEntries(device), "clone_session_entry": CloneEntries(device)}

    def write(self, kind: Kind, entry: p4r.PacketReplicationEngineEntry) -> None:
        """Creates, replaces or deletes an entry. Raises P4RuntimeError."""
        name = _kind_of(entry)
        self._kinds[name].write(kind, getattr(entry, name))

    def read(self, wanted: p4r.PacketReplicationEngineEntry) -> Iterator[p4r.PacketReplicationEngineEntry]:
        """Yields the entry with a number, or all of its kind if the number is 0. Raises P4RuntimeError."""
        name = _kind_of(wanted)
        return (
            p4r.PacketReplicationEngineEntry(**{name: entry}) for entry in self._kinds[name].read(getattr(wanted, name))
        )

    def all(self) -> Iterator[p4r.PacketReplicationEngineEntry]:
        """Yields all multicast groups and clone sessions."""
        for name, kind in self._kinds.items():
            for message in kind.read(kind.message()):
                yield p4r.PacketReplicationEngineEntry(**{name: message})


def _kind_of(entry: p4r.PacketReplicationEngineEntry) -> str:
    kind = entry.WhichOneof("type")
    if kind is None:
        raise invalid("PacketReplicationEngineEntry: neither a multicast group nor a clone session is given")
    return kind


def decode_replicas(given: Iterable[p4r.Replica], what: str) -> tuple[tuple[int, int], ...]:
    """Returns (port, rid) of each copy. Raises P4RuntimeError."""
    replicas = []
    for replica in given:
        if replica.backup_replicas:
            raise P4RuntimeError(StatusCode.UNIMPLEMENTED, f"{what}: backup replicas are not supported")
        replicas.append((_port(replica, what), replica.instance))
    if len(set(replicas)) != len(replicas):
        repeated = next(r for r in replicas if replicas.count(r) > 1)
        raise invalid(f"{what}: replica (port {repeated[0]}, instance {repeated[1]}) is given twice")
    return tuple(replicas)


def _port(replica: p4r.Replica, what: str) -> int:
    match replica.WhichOneof("port_kind"):
        case "port" if replica.port:
            port = int.from_bytes(replica.port, "big")
        case "egress_port":
            port = replica.egress_port
        case _:
            raise invalid(f"{what}: a replica has no port")
    if port > abi.MAX_PORT:
        raise invalid(f"{what}: a port is not in 0..{abi.MAX_PORT}")
    return port


# Cells of registers, counters and meters, direct counters and meters, and the members of value sets.


class Arrays:
    """Reads and writes cells of one kind of array: one cell, an array if the index is unset, or all arrays.

    Attributes:
        what: the kind, as in messages and in the name of the id field.
        message: the protobuf message of a cell.
    """

    what: ClassVar[str]
    message: ClassVar[type[Any]]

    def __init__(self, infos: Mapping[int, Any], device: Device, direct: frozenset[int] = frozenset()) -> None:
        """Makes the access to the arrays of a device.

        Args:
            infos: the arrays by id.
            device: holds the cells.
            direct: ids of the direct counters or meters, for hints.
        """
        self._infos = infos
        self._device = device
        self._direct = direct

    def write(self, kind: Kind, entry: Any) -> None:
        """Sets one cell, or all cells if the index is unset. Raises P4RuntimeError."""
        info = self._info(getattr(entry, f"{self.what}_id"))
        what = f"{self.what} {info.name!r}"
        check_modify_only(kind, what)
        self._set(info, self._indices(info, entry), entry, what)

    def read(self, wanted: Any) -> Iterator[Any]:
        """Yields the cells that a request selects, with their values at the time of the call. Raises P4RuntimeError."""
        ident = getattr(wanted, f"{self.what}_id")
        if ident == 0 and wanted.HasField("index"):
            raise invalid(f"{self.what}_id is 0: cells of all {self.what}s cannot be selected by index")
        cells = []
        for info in [self._info(ident)] if ident else self._infos.values():
            indices = self._indices(info, wanted)
            cells.append((info.id, indices, self._now(info, indices)))
        return (
            self.message(**{f"{self.what}_id": ident}, index=p4r.Index(index=index), **now(index))
            for ident, indices, now in cells
            for index in indices
        )

    def _info(self, ident: int) -> Any:
        info = self._infos.get(ident)
        if info is None:
            raise invalid(self._unknown(ident))
        return info

    def _unknown(self, ident: int) -> str:
        name = {"counter": "DirectCounterEntry", "meter": "DirectMeterEntry"}[self.what]
        hint = f" (a direct {self.what}: use {name})" if ident in self._direct else ""
        return f"there is no indirect {self.what} with id {ident}{hint}"

    def _indices(self, info: Any, entry: Any) -> range:
        if not entry.HasField("index"):
            return range(info.size)
        check_index(entry.index.index, info.size, f"{self.what} {info.name!r}")
        return range(entry.index.index, entry.index.index + 1)

    def _set(self, info: Any, indices: range, entry: Any, what: str) -> None:
        """Writes the values of an entry to cells."""
        raise NotImplementedError

    def _now(self, info: Any, indices: range) -> Callable[[int], dict[str, Any]]:
        """Returns a function that gives the message fields of a cell by index, with the values at this call."""
        raise NotImplementedError


class RegisterEntries(Arrays):
    """Reads and writes RegisterEntry."""

    what, message = "register", p4r.RegisterEntry

    def _set(self, info: RegisterInfo, indices: range, entry: p4r.RegisterEntry, what: str) -> None:
        if not entry.HasField("data"):
            raise invalid(f"{what}: data is missing")
        value, register = _type_of(info).decode(entry.data, what), self._device.registers[info.name]
        for index in indices:
            register.write(index, value)

    def _now(self, info: RegisterInfo, indices: range) -> Callable[[int], dict[str, Any]]:
        kind, cells = _type_of(info), self._device.registers[info.name].copy(indices.start, indices.stop)
        return lambda index: {"data": kind.encode(cells.read(index - indices.start))}

    def changed(self) -> Iterator[p4r.RegisterEntry]:
        """Yields the cells that are not 0."""
        for info in self._infos.values():
            register = self._device.registers[info.name]
            for index in range(info.size) if info.type is not None else ():
                value = register.read(index)
                if value != 0:
                    data = info.type.encode(value)
                    yield p4r.RegisterEntry(register_id=info.id, index=p4r.Index(index=index), data=data)

    def _unknown(self, ident: int) -> str:
        return f"there is no register with id {ident}"


def _type_of(info: RegisterInfo) -> ValueType:
    if info.type is None:
        what = f"register {info.name!r}"
        raise P4RuntimeError(StatusCode.UNIMPLEMENTED, f"{what}: cells that are no number or bool are not supported")
    return info.type


class CounterEntries(Arrays):
    """Reads and writes CounterEntry; a write without data changes nothing."""

    what, message = "counter", p4r.CounterEntry

    def _set(self, info: CounterInfo, indices: range, entry: p4r.CounterEntry, what: str) -> None:
        if not entry.HasField("data"):
            return
        given, counter = counter_values(entry.data, what), self._device.counters[info.name]
        for index in indices:
            new = zip(info.counts, given, counter.read(index), strict=True)
            counter.write(index, *(value if counts else old for counts, value, old in new))

    def _now(self, info: CounterInfo, indices: range) -> Callable[[int], dict[str, Any]]:
        cells = self._device.counters[info.name].cells[indices.start : indices.stop].copy()
        return lambda index: {"data": counter_data(*cells[index - indices.start].tolist())}


class MeterEntries(Arrays):
    """Reads and writes MeterEntry; without a config, every packet is green."""

    what, message = "meter", p4r.MeterEntry

    def _set(self, info: MeterInfo, indices: range, entry: p4r.MeterEntry, what: str) -> None:
        config = meter_config(entry.config, what) if entry.HasField("config") else None
        for index in indices:
            self._device.meters[info.name].write(index, config)

    def _now(self, info: MeterInfo, indices: range) -> Callable[[int], dict[str, Any]]:
        configs = self._device.meters[info.name].configs()
        return lambda index: {"config": config_message(configs[index]) if index in configs else None}


class Direct:
    """Reads and writes direct resources: counters or meters of table entries.

    Attributes:
        what: the kind of resource.
        message: the protobuf message.
        no_default: why a default entry has no such resource.
    """

    what: ClassVar[str]
    message: ClassVar[type[Any]]
    no_default: ClassVar[str]

    def __init__(self, schema: Schema, device: Device, tables: TableEntries) -> None:
        self._schema = schema
        self._device = device
        self._tables = tables

    def write(self, kind: Kind, entry: Any) -> None:
        """Sets the resource of one entry. Raises P4RuntimeError."""
        info = self._table(entry)
        what = f"direct {self.what} of table {info.name!r}"
        check_modify_only(kind, what)
        key, table = self._key(info, entry.table_entry), self._device.tables[info.name]
        with state_errors():
            table.get(key)
        self._set(info, table, key, entry, what)

    def read(self, wanted: Any) -> Iterator[Any]:
        """Yields the present resources of an entry, of a table's entries, or of all tables. Raises P4RuntimeError."""
        entry = wanted.table_entry
        if entry.table_id == 0 and wanted.HasField("table_entry"):
            if entry.match or entry.is_default_action:
                raise invalid(f"table_id is 0: direct {self.what}s of all tables cannot be selected by match")
            infos = [info for info in self._schema.tables.values() if self._has(info)]
        else:
            infos = [self._table(wanted)]
            if entry.is_default_action:
                self._key(infos[0], entry)
        snapshots = [(info, self._tables.snapshot(info, entry)) for info in infos]
        return (
            self.message(table_entry=self._tables.key_message(info, known), **self._now(snapshot, at, row))
            for info, snapshot in snapshots
            for at, (known, row) in enumerate(snapshot.entries)
        )

    def _table(self, entry: Any) -> TableInfo:
        if not entry.HasField("table_entry"):
            raise invalid(f"{entry.DESCRIPTOR.name}: table_entry is missing")
        info, _ = self._tables.table(entry.table_entry.table_id)
        if not self._has(info):
            raise invalid(f"table {info.name!r} has no direct {self.what}")
        return info

    def _key(self, info: TableInfo, entry: p4r.TableEntry) -> TableEntry:
        if entry.is_default_action:
            what = f"default entry of table {info.name!r}"
            raise P4RuntimeError(StatusCode.UNIMPLEMENTED, f"{what}: {self.no_default}")
        return self._tables.key(info, entry)

    def _has(self, info: TableInfo) -> bool:
        """Returns whether the entries of a table have such a resource."""
        raise NotImplementedError

    def _set(self, info: TableInfo, table: Table, key: TableEntry, entry: Any, what: str) -> None:
        """Sets the resource of an existing entry."""
        raise NotImplementedError

    def _now(self, snapshot: TableSnapshot, at: int, row: int) -> dict[str, Any]:
        """Returns the message fields of the entry at index ``at`` of a snapshot, in row ``row`` of its table."""
        raise NotImplementedError


class DirectCounterEntries(Direct):
    """Reads and writes DirectCounterEntry; a write without data changes nothing."""

    what, message = "counter", p4r.DirectCounterEntry
    no_default = "direct counters of default entries are not supported"

    def _has(self, info: TableInfo) -> bool:
        return info.has_counter

    def _set(self, info: TableInfo, table: Table, key: TableEntry, entry: p4r.DirectCounterEntry, what: str) -> None:
        if entry.HasField("data"):
            self._tables.set_counter(info, table, key, counter_values(entry.data, what))

    def _now(self, snapshot: TableSnapshot, at: int, row: int) -> dict[str, Any]:
        return {"data": counter_data(*snapshot.counters[at].tolist())}


class DirectMeterEntries(Direct):
    """Reads and writes DirectMeterEntry; without a config, every packet is green."""

    what, message = "meter", p4r.DirectMeterEntry
    no_default = "a miss runs no direct meter"

    def _has(self, info: TableInfo) -> bool:
        return info.id in self._schema.metered

    def _set(self, info: TableInfo, table: Table, key: TableEntry, entry: p4r.DirectMeterEntry, what: str) -> None:
        config = meter_config(entry.config, what) if entry.HasField("config") else None
        with state_errors():
            table.write_meter(key, config)

    def _now(self, snapshot: TableSnapshot, at: int, row: int) -> dict[str, Any]:
        return {"config": config_message(snapshot.meters[row]) if row in snapshot.meters else None}


class ValueSetEntries:
    """Reads and writes the value sets of one device."""

    def __init__(self, schema: Schema, device: Device) -> None:
        self._schema = schema
        self._device = device

    def write(self, kind: Kind, entry: p4r.ValueSetEntry) -> None:
        """Replaces all members of a set. Raises P4RuntimeError."""
        info = self._value_set(entry.value_set_id)
        what = f"value set {info.name!r}"
        check_modify_only(kind, what)
        members = [_decode(info, member, what) for member in entry.members]
        if len(set(members)) != len(members):
            raise P4RuntimeError(StatusCode.ALREADY_EXISTS, f"{what}: a member is given twice")
        value_set = self._device.value_sets[info.name]
        if len(members) > value_set.spec.max_size:
            most = value_set.spec.max_size
            raise P4RuntimeError(
                StatusCode.RESOURCE_EXHAUSTED, f"{what}: {len(members)} members; the program allows {most}"
            )
        value_set.set(members)

    def read(self, wanted: p4r.ValueSetEntry) -> Iterator[p4r.ValueSetEntry]:
        """Yields one set, or all sets if the id is 0. Raises P4RuntimeError."""
        infos = (
            list(self._schema.value_sets.values())
            if wanted.value_set_id == 0
            else [self._value_set(wanted.value_set_id)]
        )
        value_sets = [(info, tuple(self._device.value_sets[info.name].values)) for info in infos]
        return (
            p4r.ValueSetEntry(value_set_id=info.id, members=[_encode(info, value) for value in values])
            for info, values in value_sets
        )

    def _value_set(self, ident: int) -> ValueSetInfo:
        info = self._schema.value_sets.get(ident)
        if info is None:
            raise invalid(f"there is no value set with id {ident}")
        return info


def _decode(info: ValueSetInfo, member: p4r.ValueSetMember, what: str) -> int:
    """Returns the concatenated fields of a member as one number."""
    given = {match.field_id: match for match in member.match}
    if len(given) != len(member.match) or set(given) != {ident for ident, _ in info.fields}:
        known = ", ".join(str(ident) for ident, _ in info.fields)
        raise invalid(f"{what}: a member must have each of the fields {known} once")
    value = 0
    for ident, width in info.fields:
        if given[ident].WhichOneof("field_match_type") != "exact":
            raise invalid(f"{what}: match field {ident} is not exact")
        value = value << width | decode(given[ident].exact.value, width, f"{what}, match field {ident}")
    return value


def _encode(info: ValueSetInfo, value: int) -> p4r.ValueSetMember:
    matches = []
    for ident, width in reversed(info.fields):
        match = p4r.FieldMatch(field_id=ident)
        match.exact.value = encode(value & ((1 << width) - 1))
        matches.append(match)
        value >>= width
    return p4r.ValueSetMember(match=reversed(matches))
