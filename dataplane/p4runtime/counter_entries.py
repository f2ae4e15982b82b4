"""CounterEntry and DirectCounterEntry."""

from collections.abc import Iterator

from finsy.proto import p4r

from p4reduce.dataplane.device import Device
from p4reduce.dataplane.p4runtime.errors import Code, P4RuntimeError
from p4reduce.dataplane.p4runtime.p4info import CounterInfo, Schema, TableInfo
from p4reduce.dataplane.p4runtime.table_entries import TableEntries
from p4reduce.dataplane.p4runtime.updates import (
    check_index,
    check_modify_only,
    counter_data,
    counter_values,
    invalid,
    state_errors,
)
from p4reduce.dataplane.tables import TableEntry


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
