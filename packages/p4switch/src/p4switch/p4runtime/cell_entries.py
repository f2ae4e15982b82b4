"""ValueSetEntry: the members of parser value sets, which BMv2 does not offer over P4Runtime."""

from collections.abc import Iterator

from finsy.proto import p4r

from p4switch.device import Device
from p4switch.p4runtime.errors import Code, P4RuntimeError, decode, encode
from p4switch.p4runtime.p4info import (
    CounterInfo,
    ExternInfo,
    MeterInfo,
    RegisterInfo,
    Schema,
    TableInfo,
    ValueSetInfo,
    ValueType,
)
from p4switch.p4runtime.table_entries import TableEntries, config_message, meter_config
from p4switch.p4runtime.updates import (
    check_index,
    check_modify_only,
    counter_data,
    counter_values,
    invalid,
    state_errors,
)
from p4switch.tables import TableEntry

# RegisterEntry: read and write of register cells, which BMv2 does not offer over P4Runtime.


class RegisterEntries:
    """Reads and writes the registers of one device."""

    def __init__(self, schema: Schema, device: Device) -> None:
        self._schema = schema
        self._device = device

    def write(self, kind: p4r.Update.Type.ValueType, entry: p4r.RegisterEntry) -> None:
        """Sets one cell, or all of them where the index is unset. Raises P4RuntimeError."""
        info = self._register(entry.register_id)
        what = f"register {info.name!r}"
        check_modify_only(kind, what)
        indices = self._indices(info, entry)
        if not entry.HasField("data"):
            raise invalid(f"{what}: data is missing")
        value = _type_of(info).decode(entry.data, what)
        register = self._device.registers[info.name]
        for index in indices:
            register.write(index, value)

    def read(self, wanted: p4r.RegisterEntry) -> Iterator[p4r.RegisterEntry]:
        """The cells that a request selects, as they are now. Raises P4RuntimeError."""
        if wanted.register_id == 0:
            if wanted.HasField("index"):
                raise invalid("register_id is 0: cells of all registers cannot be selected by index")
            infos = list(self._schema.registers.values())
        else:
            infos = [self._register(wanted.register_id)]
        found = []
        for info in infos:
            indices, register = self._indices(info, wanted), self._device.registers[info.name]
            found.append((info, _type_of(info), indices, register.copy(indices.start, indices.stop)))
        return (
            p4r.RegisterEntry(
                register_id=info.id,
                index=p4r.Index(index=index),
                data=value_type.encode(register.read(index - indices.start)),
            )
            for info, value_type, indices, register in found
            for index in indices
        )

    def changed(self) -> Iterator[p4r.RegisterEntry]:
        """The cells that are not 0."""
        for info in self._schema.registers.values():
            register = self._device.registers[info.name]
            if info.type is not None:
                for index in range(info.size):
                    value = register.read(index)
                    if value != 0:
                        data = info.type.encode(value)
                        yield p4r.RegisterEntry(register_id=info.id, index=p4r.Index(index=index), data=data)

    def _register(self, register_id: int) -> RegisterInfo:
        info = self._schema.registers.get(register_id)
        if info is None:
            raise invalid(f"there is no register with id {register_id}")
        return info

    def _indices(self, info: RegisterInfo, entry: p4r.RegisterEntry) -> range:
        if not entry.HasField("index"):
            return range(info.size)
        check_index(entry.index.index, info.size, f"register {info.name!r}")
        return range(entry.index.index, entry.index.index + 1)


def _type_of(info: RegisterInfo) -> ValueType:
    if info.type is None:
        raise P4RuntimeError(
            Code.UNIMPLEMENTED, f"register {info.name!r}: cells that are no number or bool are not supported"
        )
    return info.type


# CounterEntry and DirectCounterEntry.


class CounterEntries:
    """Reads and writes the indirect counters of one device."""

    def __init__(self, schema: Schema, device: Device) -> None:
        self._schema = schema
        self._device = device

    def write(self, kind: p4r.Update.Type.ValueType, entry: p4r.CounterEntry) -> None:
        """Sets one cell, or all of them where the index is unset; unset data changes nothing. Raises P4RuntimeError."""
        info = self._counter(entry.counter_id)
        what = f"counter {info.name!r}"
        check_modify_only(kind, what)
        indices = self._indices(info, entry)
        if not entry.HasField("data"):
            return
        packets, octets = counter_values(entry.data, what)
        counter = self._device.counters[info.name]
        for index in indices:
            old_packets, old_octets = counter.read(index)
            counter.write(index, packets if info.counts[0] else old_packets, octets if info.counts[1] else old_octets)

    def read(self, wanted: p4r.CounterEntry) -> Iterator[p4r.CounterEntry]:
        """The cells that a request selects, as they are now. Raises P4RuntimeError."""
        if wanted.counter_id == 0:
            infos = list(self._schema.counters.values())
            if wanted.HasField("index"):
                raise invalid("counter_id is 0: cells of all counters cannot be selected by index")
        else:
            infos = [self._counter(wanted.counter_id)]
        found = []
        for info in infos:
            indices = self._indices(info, wanted)
            found.append((info, indices, self._device.counters[info.name].cells[indices.start : indices.stop].copy()))
        return (
            p4r.CounterEntry(counter_id=info.id, index=p4r.Index(index=index), data=counter_data(*cell.tolist()))
            for info, indices, cells in found
            for index, cell in zip(indices, cells, strict=True)
        )

    def _counter(self, counter_id: int) -> CounterInfo:
        info = self._schema.counters.get(counter_id)
        if info is None:
            direct = counter_id in self._schema.direct_counters
            hint = " (a direct counter: use DirectCounterEntry)" if direct else ""
            raise invalid(f"there is no indirect counter with id {counter_id}{hint}")
        return info

    def _indices(self, info: CounterInfo, entry: p4r.CounterEntry) -> range:
        if not entry.HasField("index"):
            return range(info.size)
        check_index(entry.index.index, info.size, f"counter {info.name!r}")
        return range(entry.index.index, entry.index.index + 1)


class DirectCounterEntries:
    """Reads and writes the direct counters of one device."""

    def __init__(self, schema: Schema, device: Device, tables: TableEntries) -> None:
        self._schema = schema
        self._device = device
        self._tables = tables

    def write(self, kind: p4r.Update.Type.ValueType, entry: p4r.DirectCounterEntry) -> None:
        """Sets the counter of one entry; unset data changes nothing. Raises P4RuntimeError."""
        info = self._table(entry)
        what = f"direct counter of table {info.name!r}"
        check_modify_only(kind, what)
        key = self._key(info, entry.table_entry)
        table = self._device.tables[info.name]
        with state_errors():
            table.get(key)
        if entry.HasField("data"):
            self._tables.set_counter(info, table, key, counter_values(entry.data, what))

    def read(self, wanted: p4r.DirectCounterEntry) -> Iterator[p4r.DirectCounterEntry]:
        """The counter of an entry, of all entries of a table, or of all tables, as now. Raises P4RuntimeError."""
        entry = wanted.table_entry
        if entry.table_id == 0 and wanted.HasField("table_entry"):
            if entry.match or entry.is_default_action:
                raise invalid("table_id is 0: direct counters of all tables cannot be selected by match")
            infos = [info for info in self._schema.tables.values() if info.has_counter]
        else:
            infos = [self._table(wanted)]
            if entry.is_default_action:
                self._key(infos[0], entry)
        found = [(info, self._tables.snapshot(info, entry)) for info in infos]
        return (
            p4r.DirectCounterEntry(
                table_entry=self._tables.key_message(info, known), data=counter_data(*counts.tolist())
            )
            for info, snapshot in found
            for (known, _), counts in zip(snapshot.entries, snapshot.counters, strict=True)
        )

    def _table(self, entry: p4r.DirectCounterEntry) -> TableInfo:
        if not entry.HasField("table_entry"):
            raise invalid("DirectCounterEntry: table_entry is missing")
        info, _ = self._tables.table(entry.table_entry.table_id)
        if not info.has_counter:
            raise invalid(f"table {info.name!r} has no direct counter")
        return info

    def _key(self, info: TableInfo, entry: p4r.TableEntry) -> TableEntry:
        if entry.is_default_action:
            what = f"default entry of table {info.name!r}"
            raise P4RuntimeError(Code.UNIMPLEMENTED, f"{what}: direct counters of default entries are not supported")
        return self._tables.key(info, entry)


# MeterEntry and DirectMeterEntry.


class MeterEntries:
    """Reads and writes the indirect meters of one device."""

    def __init__(self, externs: ExternInfo, device: Device) -> None:
        self._externs = externs
        self._device = device

    def write(self, kind: p4r.Update.Type.ValueType, entry: p4r.MeterEntry) -> None:
        """Configures one cell, or all where the index is unset; without a config, every packet is green."""
        info = self._meter(entry.meter_id)
        what = f"meter {info.name!r}"
        check_modify_only(kind, what)
        indices = self._indices(info, entry)
        config = meter_config(entry.config, what) if entry.HasField("config") else None
        for index in indices:
            self._device.meters[info.name].write(index, config)

    def read(self, wanted: p4r.MeterEntry) -> Iterator[p4r.MeterEntry]:
        """The cells that a request selects. Raises P4RuntimeError."""
        if wanted.meter_id == 0:
            if wanted.HasField("index"):
                raise invalid("meter_id is 0: cells of all meters cannot be selected by index")
            infos = list(self._externs.meters.values())
        else:
            infos = [self._meter(wanted.meter_id)]
        found = [(info, self._indices(info, wanted), self._device.meters[info.name].configs()) for info in infos]
        return (
            p4r.MeterEntry(
                meter_id=info.id,
                index=p4r.Index(index=index),
                config=config_message(configs[index]) if index in configs else None,
            )
            for info, indices, configs in found
            for index in indices
        )

    def _meter(self, meter_id: int) -> MeterInfo:
        info = self._externs.meters.get(meter_id)
        if info is None:
            hint = " (a direct meter: use DirectMeterEntry)" if meter_id in self._externs.direct_meters else ""
            raise invalid(f"there is no indirect meter with id {meter_id}{hint}")
        return info

    def _indices(self, info: MeterInfo, entry: p4r.MeterEntry) -> range:
        if not entry.HasField("index"):
            return range(info.size)
        check_index(entry.index.index, info.size, f"meter {info.name!r}")
        return range(entry.index.index, entry.index.index + 1)


class DirectMeterEntries:
    """Reads and writes the direct meters of one device."""

    def __init__(self, externs: ExternInfo, schema: Schema, device: Device, tables: TableEntries) -> None:
        self._externs = externs
        self._schema = schema
        self._device = device
        self._tables = tables

    def write(self, kind: p4r.Update.Type.ValueType, entry: p4r.DirectMeterEntry) -> None:
        """Configures the meter of one entry; without a config, every packet is green. Raises P4RuntimeError."""
        info = self._table(entry)
        what = f"direct meter of table {info.name!r}"
        check_modify_only(kind, what)
        key, table = self._key(info, entry.table_entry), self._device.tables[info.name]
        with state_errors():
            table.get(key)
            table.write_meter(key, meter_config(entry.config, what) if entry.HasField("config") else None)

    def read(self, wanted: p4r.DirectMeterEntry) -> Iterator[p4r.DirectMeterEntry]:
        """The meter of an entry, of all entries of a table, or of all tables. Raises P4RuntimeError."""
        entry = wanted.table_entry
        if entry.table_id == 0 and wanted.HasField("table_entry"):
            if entry.match or entry.is_default_action:
                raise invalid("table_id is 0: direct meters of all tables cannot be selected by match")
            infos = [info for info in self._schema.tables.values() if info.id in self._externs.metered]
        else:
            infos = [self._table(wanted)]
        if entry.is_default_action:
            self._key(infos[0], entry)
        found = [(info, self._tables.snapshot(info, entry)) for info in infos]
        return (
            p4r.DirectMeterEntry(
                table_entry=self._tables.key_message(info, known),
                config=config_message(snapshot.meters[row]) if row in snapshot.meters else None,
            )
            for info, snapshot in found
            for known, row in snapshot.entries
        )

    def _table(self, entry: p4r.DirectMeterEntry) -> TableInfo:
        if not entry.HasField("table_entry"):
            raise invalid("DirectMeterEntry: table_entry is missing")
        info, _ = self._tables.table(entry.table_entry.table_id)
        if info.id not in self._externs.metered:
            raise invalid(f"table {info.name!r} has no direct meter")
        return info

    def _key(self, info: TableInfo, entry: p4r.TableEntry) -> TableEntry:
        if entry.is_default_action:
            what = f"default entry of table {info.name!r}"
            raise P4RuntimeError(Code.UNIMPLEMENTED, f"{what}: a miss runs no direct meter")
        return self._tables.key(info, entry)


class ValueSetEntries:
    """Reads and writes the value sets of one device."""

    def __init__(self, externs: ExternInfo, device: Device) -> None:
        self._externs = externs
        self._device = device

    def write(self, kind: p4r.Update.Type.ValueType, entry: p4r.ValueSetEntry) -> None:
        """Replaces all members of a set. Raises P4RuntimeError."""
        info = self._value_set(entry.value_set_id)
        what = f"value set {info.name!r}"
        check_modify_only(kind, what)
        members = [_decode(info, member, what) for member in entry.members]
        if len(set(members)) != len(members):
            raise P4RuntimeError(Code.ALREADY_EXISTS, f"{what}: a member is given twice")
        value_set = self._device.value_sets[info.name]
        if len(members) > value_set.spec.max_size:
            most = value_set.spec.max_size
            raise P4RuntimeError(Code.RESOURCE_EXHAUSTED, f"{what}: {len(members)} members; the program allows {most}")
        value_set.set(members)

    def read(self, wanted: p4r.ValueSetEntry) -> Iterator[p4r.ValueSetEntry]:
        """One set, or all where the id is 0. Raises P4RuntimeError."""
        infos = (
            list(self._externs.value_sets.values())
            if wanted.value_set_id == 0
            else [self._value_set(wanted.value_set_id)]
        )
        found = [(info, tuple(self._device.value_sets[info.name].values)) for info in infos]
        return (
            p4r.ValueSetEntry(value_set_id=info.id, members=[_encode(info, value) for value in values])
            for info, values in found
        )

    def _value_set(self, ident: int) -> ValueSetInfo:
        info = self._externs.value_sets.get(ident)
        if info is None:
            raise invalid(f"there is no value set with id {ident}")
        return info


def _decode(info: ValueSetInfo, member: p4r.ValueSetMember, what: str) -> int:
    """The fields of a member, one behind the other."""
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
