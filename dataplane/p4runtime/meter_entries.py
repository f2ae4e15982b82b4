"""MeterEntry and DirectMeterEntry."""

from collections.abc import Iterator

from finsy.proto import p4r

from p4reduce.dataplane.device import Device
from p4reduce.dataplane.p4runtime.errors import Code, P4RuntimeError
from p4reduce.dataplane.p4runtime.extern_info import ExternInfo, MeterInfo
from p4reduce.dataplane.p4runtime.meter_config import config_message, meter_config
from p4reduce.dataplane.p4runtime.p4info import Schema, TableInfo
from p4reduce.dataplane.p4runtime.table_entries import TableEntries
from p4reduce.dataplane.p4runtime.updates import check_index, check_modify_only, invalid, state_errors
from p4reduce.dataplane.tables import TableEntry


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
