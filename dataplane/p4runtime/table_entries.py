"""TableEntry: match-action entries and default entries."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from finsy.proto import p4r

from p4reduce.dataplane.device import Device
from p4reduce.dataplane.p4runtime.bytestring import encode
from p4reduce.dataplane.p4runtime.errors import Code, P4RuntimeError
from p4reduce.dataplane.p4runtime.idle import Clock, IdleTimers
from p4reduce.dataplane.p4runtime.matches import decode_matches, encode_matches
from p4reduce.dataplane.p4runtime.meter_config import config_message, meter_config
from p4reduce.dataplane.p4runtime.p4info import ActionInfo, Schema, TableInfo
from p4reduce.dataplane.p4runtime.profile_entries import ProfileEntries
from p4reduce.dataplane.p4runtime.updates import (
    check_update_type,
    counter_data,
    counter_values,
    decode_arguments,
    invalid,
    state_errors,
)
from p4reduce.dataplane.tables import DefaultEntry, Match, Table, TableEntry


@dataclass(frozen=True, slots=True)
class _Notes:
    """What a controller attaches to an entry and the device knows nothing of."""

    controller_metadata: int = 0
    metadata: bytes = b""
    idle_timeout_ns: int = 0


_NO_NOTES: Final = _Notes()
_DEFAULT: Final = None

_Identity = tuple[tuple[Match, ...], int] | None
"""Match and priority of an entry; None is the default entry."""


class TableEntries:
    """Reads and writes the tables of one device."""

    def __init__(
        self, schema: Schema, device: Device, clock: Clock, profiles: ProfileEntries, metered: Collection[int]
    ) -> None:
        """Args:
        profiles: what entries name in place of actions.
        metered: ids of the tables with a direct meter.
        """
        self._schema = schema
        self._profiles = profiles
        self._metered = metered
        self._device = device
        self._notes: dict[int, dict[_Identity, _Notes]] = {ident: {} for ident in schema.tables}
        self._timers: dict[int, IdleTimers[_Identity]] = {
            info.id: IdleTimers(clock) for info in schema.tables.values() if info.idle_timeout
        }

    def table(self, table_id: int) -> tuple[TableInfo, Table]:
        """A table by its id. Raises INVALID_ARGUMENT."""
        info = self._schema.tables.get(table_id)
        if info is None:
            raise invalid(f"there is no table with id {table_id}")
        return info, self._device.tables[info.name]

    def key(self, info: TableInfo, entry: p4r.TableEntry) -> TableEntry:
        """The match and priority of an entry, without action. Raises INVALID_ARGUMENT."""
        matches = decode_matches(info, entry.match)
        if info.prioritized and entry.priority <= 0:
            raise invalid(f"table {info.name!r}: priority {entry.priority}; it must be above 0")
        if not info.prioritized and entry.priority != 0:
            raise invalid(f"table {info.name!r} has no ternary, range or optional field: priority must be 0")
        return TableEntry(matches, "", (), entry.priority)

    # --- write

    def write(self, kind: p4r.Update.Type.ValueType, entry: p4r.TableEntry) -> None:
        """Applies one update, wholly or not at all.

        Args:
            kind: p4.v1.Update.Type.
            entry: what to write.

        Raises:
            P4RuntimeError.
        """
        info, table = self.table(entry.table_id)
        check_update_type(kind, f"table {info.name!r}")
        if entry.is_default_action:
            self._write_default(kind, info, table, entry)
            return
        key = self.key(info, entry)
        if kind == p4r.Update.DELETE:
            with state_errors():
                before = table.get(key)
                table.delete(key)
            self._release(info, before)
            self._notes[info.id].pop(key.identity, None)
            if info.idle_timeout:
                self._timers[info.id].stop(key.identity)
            return
        if kind == p4r.Update.INSERT and info.const:
            raise P4RuntimeError(Code.PERMISSION_DENIED, f"table {info.name!r}: the program fixes its entries")
        self._check_unused(info, entry)
        counts = self._counts(info, entry)
        if entry.HasField("action"):
            self._store_action(kind, info, table, key, entry.action)
        elif kind == p4r.Update.INSERT:
            raise invalid(f"table {info.name!r}: the entry has no action")
        else:
            with state_errors():
                table.get(key)
        if counts is not None:
            self.set_counter(info, table, key, counts)
        self._set_meter(info, table, key, entry)
        self._annotate(info, key.identity, entry)
        if info.idle_timeout:
            timers = self._timers[info.id]
            begin = timers.start if kind == p4r.Update.INSERT else timers.restart
            begin(key.identity, table.hits(key))

    def _store_action(
        self,
        kind: p4r.Update.Type.ValueType,
        info: TableInfo,
        table: Table,
        key: TableEntry,
        action: p4r.TableAction,
    ) -> None:
        profile = self._profiles.profile_of(info)
        if profile is None:
            found, arguments = self._action(info, action, default=False)
            self._store(kind, table, TableEntry(key.match, found.name, arguments, key.priority))
            return
        before = next((e for e in self._selected(info, key) if kind == p4r.Update.MODIFY), None)

        def store(member: int | None, group: int | None) -> None:
            self._store(kind, table, TableEntry(key.match, "", (), key.priority, member, group))

        self._profiles.attach(profile, action, store)
        if before is not None:
            self._release(info, before)

    def _release(self, info: TableInfo, entry: TableEntry) -> None:
        """An entry is no longer there: nor is the action set that was its own."""
        profile = self._profiles.profile_of(info)
        if profile is not None:
            self._profiles.release(profile, entry.group)

    def _set_meter(self, info: TableInfo, table: Table, key: TableEntry, entry: p4r.TableEntry) -> None:
        if entry.HasField("meter_config"):
            config = meter_config(entry.meter_config, f"direct meter of table {info.name!r}")
            with state_errors():
                table.write_meter(key, config)

    def _store(self, kind: p4r.Update.Type.ValueType, table: Table, entry: TableEntry) -> None:
        with state_errors():
            if kind == p4r.Update.INSERT:
                table.insert(entry)
            else:
                table.modify(entry)

    def _write_default(
        self, kind: p4r.Update.Type.ValueType, info: TableInfo, table: Table, entry: p4r.TableEntry
    ) -> None:
        what = f"default entry of table {info.name!r}"
        if kind != p4r.Update.MODIFY:
            raise invalid(f"{what}: it always exists and can only be modified")
        if entry.match or entry.priority != 0:
            raise invalid(f"{what}: match and priority must be unset")
        if info.const_default:
            raise P4RuntimeError(Code.PERMISSION_DENIED, f"{what}: the program declares it const")
        self._check_unused(info, entry)
        if entry.idle_timeout_ns != 0:
            raise invalid(f"{what}: it has no idle time-out, idle_timeout_ns must be 0")
        if self._profiles.profile_of(info) is not None and entry.HasField("action"):
            raise P4RuntimeError(Code.UNIMPLEMENTED, f"{what}: tables with an action profile have none in BMv2")
        if entry.HasField("meter_config"):
            raise P4RuntimeError(Code.UNIMPLEMENTED, f"{what}: a miss runs no direct meter")
        if entry.HasField("counter_data"):
            raise P4RuntimeError(Code.UNIMPLEMENTED, f"{what}: direct counters of default entries are not supported")
        if not entry.HasField("action"):
            table.reset_default()
            self._notes[info.id].pop(_DEFAULT, None)
            return
        action, arguments = self._action(info, entry.action, default=True)
        with state_errors():
            table.set_default(action.name, arguments)
        self._annotate(info, _DEFAULT, entry)

    def _check_unused(self, info: TableInfo, entry: p4r.TableEntry) -> None:
        """Refuses fields that a write must leave alone or that the table has no use for."""
        what = f"table {info.name!r}"
        if entry.HasField("time_since_last_hit"):
            raise invalid(f"{what}: time_since_last_hit must not be set in a write")
        if entry.is_const:
            raise invalid(f"{what}: is_const must not be set in a write")
        metered = info.id in self._metered
        if not metered and (entry.HasField("meter_config") or entry.HasField("meter_counter_data")):
            raise invalid(f"{what} has no direct meter")
        if entry.HasField("meter_counter_data"):
            raise P4RuntimeError(Code.UNIMPLEMENTED, f"{what}: meters do not count (meter_counter_data)")
        if entry.HasField("meter_config"):
            meter_config(entry.meter_config, f"direct meter of {what}")
        if entry.idle_timeout_ns < 0:
            raise invalid(f"{what}: idle_timeout_ns is negative")
        if entry.idle_timeout_ns != 0 and not info.idle_timeout:
            raise invalid(f"{what} does not support idle time-outs: idle_timeout_ns must be 0")

    def _action(self, info: TableInfo, action: p4r.TableAction, *, default: bool) -> tuple[ActionInfo, tuple[int, ...]]:
        if action.WhichOneof("type") != "action":
            raise invalid(f"table {info.name!r} takes actions, not members or groups of an action profile")
        ref = info.actions.get(action.action.action_id)
        if ref is None:
            known = ", ".join(f"{i} ({r.action.name})" for i, r in info.actions.items())
            raise invalid(f"table {info.name!r} has no action {action.action.action_id}; it has {known}")
        if default and not ref.as_default:
            raise P4RuntimeError(Code.PERMISSION_DENIED, f"action {ref.action.name!r} is not allowed as default action")
        if not default and not ref.in_entries:
            raise P4RuntimeError(
                Code.PERMISSION_DENIED, f"action {ref.action.name!r} is allowed as default action only"
            )
        return ref.action, decode_arguments(ref.action, action.action)

    def _counts(self, info: TableInfo, entry: p4r.TableEntry) -> tuple[int, int] | None:
        """What to set the direct counter to, None: leave it."""
        if not entry.HasField("counter_data"):
            return None
        if not info.has_counter:
            raise invalid(f"table {info.name!r} has no direct counter")
        return counter_values(entry.counter_data, f"direct counter of table {info.name!r}")

    def set_counter(self, info: TableInfo, table: Table, key: TableEntry, counts: tuple[int, int]) -> None:
        """Sets what the counter's unit names of an entry's direct counter. Raises NOT_FOUND."""
        with state_errors():
            packets, octets = table.read_counter(key)
            table.write_counter(key, counts[0] if info.counts[0] else packets, counts[1] if info.counts[1] else octets)
        if info.idle_timeout:
            self._timers[info.id].counter_set(key.identity, table.hits(key))

    def _annotate(self, info: TableInfo, identity: _Identity, entry: p4r.TableEntry) -> None:
        notes = _Notes(entry.controller_metadata, entry.metadata, entry.idle_timeout_ns)
        if notes == _NO_NOTES:
            self._notes[info.id].pop(identity, None)
        else:
            self._notes[info.id][identity] = notes

    # --- read

    def read(self, wanted: p4r.TableEntry) -> Iterator[p4r.TableEntry]:
        """The entries that a request selects: one, those of a table, or all. Raises P4RuntimeError."""
        if wanted.table_id == 0:
            if wanted.match or wanted.HasField("action"):
                raise invalid("table_id is 0: entries of all tables cannot be selected by match or action")
            for info in self._schema.tables.values():
                yield from self._read_table(info, wanted)
        else:
            yield from self._read_table(self.table(wanted.table_id)[0], wanted)

    def _read_table(self, info: TableInfo, wanted: p4r.TableEntry) -> Iterator[p4r.TableEntry]:
        if wanted.HasField("time_since_last_hit") and not info.idle_timeout:
            raise invalid(f"table {info.name!r} does not support idle time-outs: leave time_since_last_hit unset")
        if wanted.is_default_action:
            if wanted.match or wanted.priority != 0:
                raise invalid(f"default entry of table {info.name!r}: match and priority must be unset")
            if wanted.HasField("time_since_last_hit"):
                raise invalid(f"default entry of table {info.name!r}: it has no idle time-out")
            found = [self._default_entry(info)]
        else:
            found = [self._entry(info, entry, wanted) for entry in self._selected(info, wanted)]
        action_id = wanted.action.action.action_id
        for entry in found:
            if (
                action_id in (0, entry.action.action.action_id)
                and wanted.controller_metadata in (0, entry.controller_metadata)
                and wanted.metadata in (b"", entry.metadata)
            ):
                yield entry

    def _selected(self, info: TableInfo, wanted: p4r.TableEntry | TableEntry) -> list[TableEntry]:
        table = self._device.tables[info.name]
        if isinstance(wanted, p4r.TableEntry) and not wanted.match:
            return [e for e in table.entries() if wanted.priority in (0, e.priority)]
        key = self.key(info, wanted) if isinstance(wanted, p4r.TableEntry) else wanted
        try:
            with state_errors():
                return [table.get(key)]
        except P4RuntimeError:
            return []

    def _entry(self, info: TableInfo, entry: TableEntry, wanted: p4r.TableEntry) -> p4r.TableEntry:
        message = self.key_message(info, entry)
        profile = self._profiles.profile_of(info)
        if profile is None:
            self._put_action(info, message, entry.action, entry.arguments)
        else:
            self._profiles.put(profile, message.action, entry.member, entry.group)
        notes = self._notes[info.id].get(entry.identity, _NO_NOTES)
        message.controller_metadata, message.metadata = notes.controller_metadata, notes.metadata
        message.idle_timeout_ns = notes.idle_timeout_ns
        if wanted.HasField("time_since_last_hit"):
            hits = self._device.tables[info.name].hits(entry)
            message.time_since_last_hit.elapsed_ns = self._timers[info.id].elapsed(entry.identity, hits)
        message.is_const = info.const or self._device.tables[info.name].spec.entries is not None
        if info.has_counter and wanted.HasField("counter_data"):
            message.counter_data.CopyFrom(counter_data(*self._device.tables[info.name].read_counter(entry)))
        if info.id in self._metered and wanted.HasField("meter_config"):
            config = self._device.tables[info.name].read_meter(entry)
            if config is not None:
                message.meter_config.CopyFrom(config_message(config))
        return message

    def key_message(self, info: TableInfo, entry: TableEntry) -> p4r.TableEntry:
        """A message with table, match and priority of an entry."""
        return p4r.TableEntry(
            table_id=info.id,
            match=encode_matches(info, entry.match),
            priority=entry.priority if info.prioritized else 0,
        )

    def _default_entry(self, info: TableInfo) -> p4r.TableEntry:
        default = self._device.tables[info.name].default
        message = p4r.TableEntry(table_id=info.id, is_default_action=True, is_const=info.const_default)
        if default.action is not None:
            self._put_action(info, message, default.action, default.arguments)
        notes = self._notes[info.id].get(_DEFAULT, _NO_NOTES)
        message.controller_metadata, message.metadata = notes.controller_metadata, notes.metadata
        return message

    def idle(self) -> Iterator[list[p4r.TableEntry]]:
        """For each table that has some, the entries that were idle for their time-out since the last look."""
        for table_id, timers in self._timers.items():
            info, table = self.table(table_id)
            notes, entries = self._notes[table_id], {e.identity: e for e in table.entries()}
            state = [(key, table.hits(e), notes.get(key, _NO_NOTES).idle_timeout_ns) for key, e in entries.items()]
            expired = [self._expired(info, entries[key], notes[key]) for key in timers.expired(state) if key]
            if expired:
                yield expired

    def _expired(self, info: TableInfo, entry: TableEntry, notes: _Notes) -> p4r.TableEntry:
        message = self.key_message(info, entry)
        message.controller_metadata, message.metadata = notes.controller_metadata, notes.metadata
        message.idle_timeout_ns = notes.idle_timeout_ns
        return message

    def changed_defaults(self) -> Iterator[p4r.TableEntry]:
        """The default entries that differ from those of the P4 program."""
        for info in self._schema.tables.values():
            table = self._device.tables[info.name]
            changed = table.default != _program_default(table) or _DEFAULT in self._notes[info.id]
            if changed and not info.const_default:
                yield self._default_entry(info)

    def _put_action(self, info: TableInfo, message: p4r.TableEntry, name: str, arguments: tuple[int, ...]) -> None:
        action = info.action_by_name(name)
        if action is None:
            return
        message.action.action.action_id = action.id
        for parameter, value in zip(action.parameters, arguments, strict=True):
            message.action.action.params.add(param_id=parameter.id, value=encode(value))


def _program_default(table: Table) -> DefaultEntry:
    """The default entry that the P4 program gives a table."""
    index = table.spec.default_action
    return DefaultEntry(None if index is None else table.actions[index].name, table.spec.default_arguments)
