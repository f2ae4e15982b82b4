"""TableEntry: match-action entries and default entries."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, count
from typing import Final, TypeAlias

from finsy.proto import p4r

from p4switch.device import Device
from p4switch.p4runtime.digest_entries import Clock, IdleTimers
from p4switch.p4runtime.errors import P4RuntimeError, StatusCode, encode
from p4switch.p4runtime.p4info import ActionInfo, ProfileInfo, Schema, TableInfo
from p4switch.p4runtime.updates import (
    Kind,
    check_update_type,
    copied,
    counter_data,
    counter_values,
    decode_arguments,
    decode_matches,
    encode_matches,
    invalid,
    state_errors,
)
from p4switch.tables import DefaultEntry, NoSuchEntry, Table, TableEntry
from p4switch.tables.matching import DEFAULT_ROW
from p4switch.tables.profile import MeterConfig, Profile
from p4switch.tables.table import TableSnapshot

# MeterConfig: rates and bursts of meters.


_MAX_BURST: Final = (1 << 32) - 1


def meter_config(config: p4r.MeterConfig, what: str) -> MeterConfig | None:
    """Returns a configuration; None (all packets are green) if all numbers are -1, as in PI. Raises P4RuntimeError."""
    numbers = (config.cir, config.cburst, config.pir, config.pburst)
    if all(n == -1 for n in numbers):
        return None
    if any(n < 0 for n in numbers):
        raise invalid(f"{what}: a rate or burst is negative")
    if config.cburst > _MAX_BURST or config.pburst > _MAX_BURST:
        raise P4RuntimeError(StatusCode.UNIMPLEMENTED, f"{what}: a burst is above {_MAX_BURST}")
    if config.cir > config.pir:
        # PI translates BMv2's INVALID_INFO_RATE_VALUE to this code.
        raise P4RuntimeError(
            StatusCode.UNKNOWN, f"{what}: the committed rate {config.cir} is above the peak {config.pir}"
        )
    return MeterConfig(*numbers)


def config_message(config: MeterConfig) -> p4r.MeterConfig:
    """Returns the message of a configuration, the inverse of meter_config."""
    return p4r.MeterConfig(cir=config.cir, cburst=config.cburst, pir=config.pir, pburst=config.pburst)


# ActionProfileMember, ActionProfileGroup, and the choice of a member or group in table entries.


FIRST_HIDDEN: Final = 1 << 32
"""First number of the members and groups of one-shot action sets, which no P4Runtime client can name."""


ActionSets: TypeAlias = dict[int, p4r.ActionProfileActionSet]
"""The action sets of entries, by the number of their hidden group."""


class ProfileEntries:
    """Reads and writes the members and groups of one device."""

    def __init__(self, schema: Schema, device: Device) -> None:
        self._schema = schema
        self._device = device
        self._groups: dict[tuple[int, int], p4r.ActionProfileGroup] = {}
        self._hidden = count(FIRST_HIDDEN)
        self._sets: dict[tuple[str, int], p4r.ActionProfileActionSet] = {}

    # --- members

    def write_member(self, kind: Kind, entry: p4r.ActionProfileMember) -> None:
        """Creates, changes or deletes a member. Raises P4RuntimeError."""
        info, profile = self._profile(entry.action_profile_id)
        _check_no_sets(profile)
        check_update_type(kind, f"action profile {info.name!r}")
        with state_errors():
            if kind == p4r.Update.DELETE:
                profile.delete_member(entry.member_id)
                return
            action, arguments = self._action(info, entry.action)
            write = profile.insert_member if kind == p4r.Update.INSERT else profile.modify_member
            write(entry.member_id, action.name, arguments)

    def read_members(self, wanted: p4r.ActionProfileMember) -> Iterator[p4r.ActionProfileMember]:
        """Yields the member with an id, the members of a profile, or all, as they are now. Raises P4RuntimeError."""
        selected: list[tuple[ProfileInfo, int, str, tuple[int, ...]]] = []
        for info, profile in self._selected(wanted.action_profile_id):
            idents = {wanted.member_id} & profile.members.keys() if wanted.member_id else profile.members
            members = ((ident, profile.members[ident]) for ident in idents if ident < FIRST_HIDDEN)
            selected += [(info, ident, member.action, member.arguments) for ident, member in members]
        return (
            p4r.ActionProfileMember(
                action_profile_id=info.id,
                member_id=ident,
                action=action_message(self._schema.tables[info.table].action_by_name(action), arguments),
            )
            for info, ident, action, arguments in selected
        )

    # --- groups

    def write_group(self, kind: Kind, entry: p4r.ActionProfileGroup) -> None:
        """Creates, changes or deletes a group. Raises P4RuntimeError."""
        info, profile = self._profile(entry.action_profile_id)
        what = f"action profile {info.name!r}, group {entry.group_id}"
        _check_no_sets(profile)
        check_update_type(kind, what)
        with state_errors():
            if kind == p4r.Update.DELETE:
                profile.delete_group(entry.group_id)
                self._groups.pop((info.id, entry.group_id), None)
                return
            if kind == p4r.Update.MODIFY:
                profile.group(entry.group_id)
            if profile.spec.selector is None:
                raise invalid(f"{what}: the profile has no selector, so it has no groups")
            members = tuple((member.member_id, member.weight) for member in entry.members)
            self._check_size(info, kind, entry, [weight for _, weight in members])
            if any(m.watch or m.watch_port for m in entry.members):
                raise P4RuntimeError(StatusCode.UNIMPLEMENTED, f"{what}: watch ports are not supported")
            (profile.insert_group if kind == p4r.Update.INSERT else profile.modify_group)(entry.group_id, members)
        kept = copied(entry)
        if kind == p4r.Update.MODIFY and not entry.max_size:
            kept.max_size = self._groups[info.id, entry.group_id].max_size
        self._groups[info.id, entry.group_id] = kept

    def _check_size(self, info: ProfileInfo, kind: Kind, entry: p4r.ActionProfileGroup, weights: list[int]) -> None:
        what, before = f"action profile {info.name!r}", self._groups.get((info.id, entry.group_id))
        if entry.max_size < 0 or (info.max_group_size and entry.max_size > info.max_group_size):
            raise invalid(f"{what}: group size {entry.max_size} is not in 0..{info.max_group_size}")
        if kind == p4r.Update.MODIFY and before is not None and entry.max_size not in (0, before.max_size):
            raise invalid(f"{what}: max_size of group {entry.group_id} cannot be changed")
        if any(weight < 1 for weight in weights):
            raise invalid(f"{what}: a weight in group {entry.group_id} is not positive")
        most = entry.max_size or (before.max_size if before is not None else 0) or info.max_group_size
        if most and sum(weights) > most:
            raise P4RuntimeError(
                StatusCode.RESOURCE_EXHAUSTED,
                f"{what}: the weights of group {entry.group_id} sum up to more than {most}",
            )

    def read_groups(self, wanted: p4r.ActionProfileGroup) -> Iterator[p4r.ActionProfileGroup]:
        """Yields the group with an id, the groups of a profile, or all, as they are now. Raises P4RuntimeError."""
        groups: list[p4r.ActionProfileGroup] = []
        for info, _ in self._selected(wanted.action_profile_id):
            groups += [
                group
                for (owner, ident), group in self._groups.items()
                if owner == info.id and wanted.group_id in (0, ident)
            ]
        return iter(groups)

    # --- table entries

    def profile_of(self, info: TableInfo) -> ProfileInfo | None:
        """Returns the action profile of a table; None if its entries have actions."""
        return self._schema.implementations.get(info.id)

    def attach(
        self, info: ProfileInfo, action: p4r.TableAction, store: Callable[[int | None, int | None], None]
    ) -> None:
        """Finds the member or group that an entry names, or makes those of its action set; then stores the entry.

        Args:
            info: the profile.
            action: the action of the entry.
            store: called with (member, group), one of them None; raises P4RuntimeError if the table refuses the entry.
        """
        match action.WhichOneof("type"):
            case "action_profile_member_id":
                store(action.action_profile_member_id, None)
            case "action_profile_group_id":
                store(None, action.action_profile_group_id)
            case "action_profile_action_set":
                group = self._make_set(info, action.action_profile_action_set)
                try:
                    store(None, group)
                except P4RuntimeError:
                    self.release(info, group)
                    raise
            case _:
                raise invalid(f"action profile {info.name!r}: the entry must name a member, a group or an action set")

    def release(self, info: ProfileInfo, group: int | None) -> None:
        """Removes the members and the group of an action set whose entry is gone."""
        if group is None or group < FIRST_HIDDEN:
            return
        profile = self._device.profiles[info.name]
        members = profile.group(group).members
        profile.delete_group(group)
        for member, _ in members:
            profile.delete_member(member)
        del self._sets[info.name, group]

    def sets(self, info: ProfileInfo) -> ActionSets:
        """Returns the present action sets of entries, by group."""
        return {group: actions for (name, group), actions in self._sets.items() if name == info.name}

    def _make_set(self, info: ProfileInfo, actions: p4r.ActionProfileActionSet) -> int:
        """Makes a group with its own members. Raises P4RuntimeError, and then leaves nothing behind."""
        profile, what = self._device.profiles[info.name], f"action profile {info.name!r}, action set"
        if profile.spec.selector is None:
            raise invalid(f"{what}: the profile has no selector")
        if _first(profile) < FIRST_HIDDEN:
            raise invalid(f"{what}: the profile has members or groups of its own; action sets do not mix with them")
        parsed = []
        for item in actions.action_profile_actions:
            if item.weight < 1:
                raise invalid(f"{what}: weight {item.weight} is not positive")
            if item.watch or item.watch_port:
                raise P4RuntimeError(StatusCode.UNIMPLEMENTED, f"{what}: watch ports are not supported")
            parsed.append((self._action(info, item.action), item.weight))
        if info.max_group_size and sum(weight for _, weight in parsed) > info.max_group_size:
            raise P4RuntimeError(
                StatusCode.RESOURCE_EXHAUSTED, f"{what}: weights sum up to more than {info.max_group_size}"
            )
        members: list[tuple[int, int]] = []
        try:
            with state_errors():
                for (action, arguments), weight in parsed:
                    member = next(self._hidden)
                    profile.insert_member(member, action.name, arguments)
                    members.append((member, weight))
                group = next(self._hidden)
                profile.insert_group(group, members)
        except P4RuntimeError:
            for member, _ in members:
                profile.delete_member(member)
            raise
        self._sets[info.name, group] = copied(actions)
        return group

    # --- internal

    def _profile(self, ident: int) -> tuple[ProfileInfo, Profile]:
        info = self._schema.profiles.get(ident)
        if info is None:
            raise invalid(f"there is no action profile with id {ident}")
        return info, self._device.profiles[info.name]

    def _selected(self, ident: int) -> list[tuple[ProfileInfo, Profile]]:
        if ident != 0:
            return [self._profile(ident)]
        return [self._profile(known) for known in self._schema.profiles]

    def _action(self, info: ProfileInfo, action: p4r.Action) -> tuple[ActionInfo, tuple[int, ...]]:
        refs = self._schema.tables[info.table].actions if info.table in self._schema.tables else {}
        if action.action_id not in refs:
            raise invalid(f"action profile {info.name!r} has no action {action.action_id}")
        ref = refs[action.action_id]
        return ref.action, decode_arguments(ref.action, action)


def action_message(action: ActionInfo | None, arguments: tuple[int, ...]) -> p4r.Action:
    """Returns an action with its arguments; unset if P4Info lacks the action."""
    message = p4r.Action()
    if action is not None:
        message.action_id = action.id
        for parameter, value in zip(action.parameters, arguments, strict=True):
            message.params.add(param_id=parameter.id, value=encode(value))
    return message


def _first(profile: Profile) -> int:
    """Returns the id of a member or group; FIRST_HIDDEN if there is none."""
    return next(iter(profile.members), next(iter(profile.groups), FIRST_HIDDEN))


def _check_no_sets(profile: Profile) -> None:
    """Refuses to mix members and groups with action sets (P4Runtime specification, "One Shot ... Programming")."""
    if _first(profile) >= FIRST_HIDDEN and (profile.members or profile.groups):
        raise invalid(f"action profile {profile.name!r}: its entries have action sets; members and groups do not mix")


def put_choice(sets: ActionSets, message: p4r.TableAction, member: int | None, group: int | None) -> None:
    """Writes a member, group or action set into an entry's message, the inverse of ProfileEntries.attach."""
    if member is not None:
        message.action_profile_member_id = member
    elif group is not None and group >= FIRST_HIDDEN:
        message.action_profile_action_set.CopyFrom(sets[group])
    elif group is not None:
        message.action_profile_group_id = group


@dataclass(frozen=True, slots=True)
class _Notes:
    """Fields of an entry that only the controller uses; the device does not know them."""

    controller_metadata: int = 0
    metadata: bytes = b""
    idle_timeout_ns: int = 0


_NO_NOTES: Final = _Notes()


class TableEntries:
    """Reads and writes the tables of one device."""

    def __init__(self, schema: Schema, device: Device, clock: Clock, profiles: ProfileEntries) -> None:
        """Makes the tables of a device. ``profiles``: the members and groups that entries name."""
        self._schema = schema
        self._profiles = profiles
        self._device = device
        # By row of the entry.
        self._notes: dict[int, dict[int, _Notes]] = {ident: {} for ident in schema.tables}
        self._timers: dict[int, IdleTimers] = {
            info.id: IdleTimers(clock) for info in schema.tables.values() if info.idle_timeout
        }

    def table(self, table_id: int) -> tuple[TableInfo, Table]:
        """Returns a table by its id. Raises INVALID_ARGUMENT."""
        info = self._schema.tables.get(table_id)
        if info is None:
            raise invalid(f"there is no table with id {table_id}")
        return info, self._device.tables[info.name]

    def key(self, info: TableInfo, entry: p4r.TableEntry) -> TableEntry:
        """Returns the match and priority of an entry, without action. Raises INVALID_ARGUMENT."""
        matches = decode_matches(info, entry.match)
        if info.prioritized and entry.priority <= 0:
            raise invalid(f"table {info.name!r}: priority {entry.priority}; it must be above 0")
        if not info.prioritized and entry.priority != 0:
            raise invalid(f"table {info.name!r} has no ternary, range or optional field: priority must be 0")
        return TableEntry(matches, "", (), entry.priority)

    # --- write

    def write(self, kind: Kind, entry: p4r.TableEntry) -> None:
        """Applies one update, wholly or not at all.

        Args:
            kind: p4.v1.Update.Type.
            entry: the entry to write.

        Raises:
            P4RuntimeError.
        """
        info, table = self.table(entry.table_id)
        check_update_type(kind, f"table {info.name!r}")
        if entry.HasField("time_since_last_hit") and kind != p4r.Update.DELETE:
            raise invalid(f"table {info.name!r}: time_since_last_hit must not be set in a write")
        if entry.is_default_action:
            self._write_default(kind, info, table, entry)
            return
        key = self.key(info, entry)
        if kind == p4r.Update.DELETE:
            _check_keyed(info)
            with state_errors():
                before, row = table.get(key), table.row(key)
                table.delete(key)
            self._release(info, before)
            self._notes[info.id].pop(row, None)
            if info.idle_timeout:
                self._timers[info.id].stop(row)
            return
        if kind == p4r.Update.INSERT and info.const:
            raise P4RuntimeError(StatusCode.PERMISSION_DENIED, f"table {info.name!r}: the program fixes its entries")
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
        row = table.row(key)
        self._annotate(info, row, entry)
        if info.idle_timeout:
            timers = self._timers[info.id]
            begin = timers.start if kind == p4r.Update.INSERT else timers.restart
            begin(row, table.hits(key), entry.idle_timeout_ns)

    def _store_action(
        self,
        kind: Kind,
        info: TableInfo,
        table: Table,
        key: TableEntry,
        action: p4r.TableAction,
    ) -> None:
        profile = self._profiles.profile_of(info)
        if profile is None:
            action_info, arguments = self._action(info, action, default=False)
            if kind == p4r.Update.MODIFY:
                _check_keyed(info)
            self._store(kind, table, TableEntry(key.match, action_info.name, arguments, key.priority))
            return
        before = None
        if kind == p4r.Update.MODIFY:
            with suppress(NoSuchEntry):
                before = table.get(key)

        def store(member: int | None, group: int | None) -> None:
            self._store(kind, table, TableEntry(key.match, "", (), key.priority, member, group))

        self._profiles.attach(profile, action, store)
        if before is not None:
            self._release(info, before)

    def _release(self, info: TableInfo, entry: TableEntry) -> None:
        """Removes the action set of a removed entry."""
        profile = self._profiles.profile_of(info)
        if profile is not None:
            self._profiles.release(profile, entry.group)

    def _set_meter(self, info: TableInfo, table: Table, key: TableEntry, entry: p4r.TableEntry) -> None:
        if entry.HasField("meter_config"):
            config = meter_config(entry.meter_config, f"direct meter of table {info.name!r}")
            with state_errors():
                table.write_meter(key, config)

    def _store(self, kind: Kind, table: Table, entry: TableEntry) -> None:
        with state_errors():
            if kind == p4r.Update.INSERT:
                table.insert(entry)
            else:
                table.modify(entry)

    def _write_default(self, kind: Kind, info: TableInfo, table: Table, entry: p4r.TableEntry) -> None:
        what = f"default entry of table {info.name!r}"
        if kind != p4r.Update.MODIFY:
            raise invalid(f"{what}: it always exists and can only be modified")
        if entry.match or entry.priority != 0:
            raise invalid(f"{what}: match and priority must be unset")
        if self._profiles.profile_of(info) is not None:
            raise invalid(f"{what}: the table has an action profile, so what a miss does is fixed")
        if info.const_default:
            raise P4RuntimeError(StatusCode.PERMISSION_DENIED, f"{what}: the program declares it const")
        self._check_unused(info, entry)
        if entry.idle_timeout_ns != 0:
            raise invalid(f"{what}: it has no idle time-out, idle_timeout_ns must be 0")
        if entry.HasField("meter_config"):
            raise P4RuntimeError(StatusCode.UNIMPLEMENTED, f"{what}: a miss runs no direct meter")
        if entry.HasField("counter_data"):
            raise P4RuntimeError(
                StatusCode.UNIMPLEMENTED, f"{what}: direct counters of default entries are not supported"
            )
        if not entry.HasField("action"):
            table.reset_default()
            self._notes[info.id].pop(DEFAULT_ROW, None)
            return
        action, arguments = self._action(info, entry.action, default=True)
        with state_errors():
            table.set_default(action.name, arguments)
        self._annotate(info, DEFAULT_ROW, entry)

    def _check_unused(self, info: TableInfo, entry: p4r.TableEntry) -> None:
        """Refuses fields that a write must not set or that the table does not support."""
        what = f"table {info.name!r}"
        if entry.is_const:
            raise invalid(f"{what}: is_const must not be set in a write")
        metered = info.id in self._schema.metered
        if not metered and (entry.HasField("meter_config") or entry.HasField("meter_counter_data")):
            raise invalid(f"{what} has no direct meter")
        if entry.HasField("meter_counter_data"):
            raise P4RuntimeError(StatusCode.UNIMPLEMENTED, f"{what}: meters do not count (meter_counter_data)")
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
            raise P4RuntimeError(
                StatusCode.PERMISSION_DENIED, f"action {ref.action.name!r} is not allowed as default action"
            )
        if not default and not ref.in_entries:
            raise P4RuntimeError(
                StatusCode.PERMISSION_DENIED, f"action {ref.action.name!r} is allowed as default action only"
            )
        return ref.action, decode_arguments(ref.action, action.action)

    def _counts(self, info: TableInfo, entry: p4r.TableEntry) -> tuple[int, int] | None:
        """Returns the values for the direct counter; None leaves it unchanged."""
        if not entry.HasField("counter_data"):
            return None
        if not info.has_counter:
            raise invalid(f"table {info.name!r} has no direct counter")
        return counter_values(entry.counter_data, f"direct counter of table {info.name!r}")

    def set_counter(self, info: TableInfo, table: Table, key: TableEntry, counts: tuple[int, int]) -> None:
        """Sets packets, bytes or both of an entry's direct counter, by the counter's unit. Raises NOT_FOUND."""
        with state_errors():
            packets, octets = table.read_counter(key)
            table.write_counter(key, counts[0] if info.counts[0] else packets, counts[1] if info.counts[1] else octets)
        if info.idle_timeout:
            self._timers[info.id].counter_set(table.row(key), table.hits(key))

    def _annotate(self, info: TableInfo, row: int, entry: p4r.TableEntry) -> None:
        notes = _Notes(entry.controller_metadata, entry.metadata, entry.idle_timeout_ns)
        if notes == _NO_NOTES:
            self._notes[info.id].pop(row, None)
        else:
            self._notes[info.id][row] = notes

    # --- read

    def read(self, wanted: p4r.TableEntry) -> Iterator[p4r.TableEntry]:
        """Yields the entries that a request selects: one, those of a table, or all. Raises P4RuntimeError.

        They show the state at the call, even if the iterator makes their messages later.
        """
        if wanted.table_id == 0:
            if wanted.match or wanted.HasField("action"):
                raise invalid("table_id is 0: entries of all tables cannot be selected by match or action")
            infos = list(self._schema.tables.values())
        else:
            infos = [self.table(wanted.table_id)[0]]
        return chain.from_iterable([self._read_table(info, wanted) for info in infos])

    def _read_table(self, info: TableInfo, wanted: p4r.TableEntry) -> Iterator[p4r.TableEntry]:
        if wanted.HasField("time_since_last_hit") and not info.idle_timeout:
            raise invalid(f"table {info.name!r} does not support idle time-outs: leave time_since_last_hit unset")
        if wanted.is_default_action:
            if wanted.match or wanted.priority != 0:
                raise invalid(f"default entry of table {info.name!r}: match and priority must be unset")
            if wanted.HasField("time_since_last_hit"):
                raise invalid(f"default entry of table {info.name!r}: it has no idle time-out")
            entries = iter([self._default_entry(info)])
        else:
            entries = self._read_entries(info, wanted)
        action_id = wanted.action.action.action_id
        return (
            entry
            for entry in entries
            if action_id in (0, entry.action.action.action_id)
            and wanted.controller_metadata in (0, entry.controller_metadata)
            and wanted.metadata in (b"", entry.metadata)
        )

    def snapshot(self, info: TableInfo, wanted: p4r.TableEntry) -> TableSnapshot:
        """Returns the selected entries of a table; all if the request has no match. Raises P4RuntimeError."""
        table = self._device.tables[info.name]
        if not wanted.match:
            return table.snapshot()
        with state_errors():
            return table.snapshot(self.key(info, wanted))

    def _read_entries(self, info: TableInfo, wanted: p4r.TableEntry) -> Iterator[p4r.TableEntry]:
        try:
            snapshot = self.snapshot(info, wanted)
        except P4RuntimeError as error:
            if error.code is not StatusCode.NOT_FOUND:
                raise
            return iter(())
        profile = self._profiles.profile_of(info)
        sets = None if profile is None else self._profiles.sets(profile)
        notes = self._notes[info.id]
        notes = (
            dict(notes)
            if len(snapshot.entries) > 1
            else {row: notes[row] for _, row in snapshot.entries if row in notes}
        )
        const = info.const or self._device.tables[info.name].spec.entries is not None
        elapsed: list[int] = []
        if wanted.HasField("time_since_last_hit"):
            elapsed = self._timers[info.id].elapsed([row for _, row in snapshot.entries], snapshot.counters[:, 0])

        def encode() -> Iterator[p4r.TableEntry]:
            for at, (entry, row) in enumerate(snapshot.entries):
                if not wanted.match and wanted.priority not in (0, entry.priority):
                    continue
                message = self.key_message(info, entry)
                if sets is None:
                    self._put_action(info, message, entry.action, entry.arguments)
                else:
                    put_choice(sets, message.action, entry.member, entry.group)
                _put_notes(message, notes.get(row, _NO_NOTES))
                if elapsed:
                    message.time_since_last_hit.elapsed_ns = elapsed[at]
                message.is_const = const
                if info.has_counter and wanted.HasField("counter_data"):
                    message.counter_data.CopyFrom(counter_data(*snapshot.counters[at].tolist()))
                if info.id in self._schema.metered and wanted.HasField("meter_config") and row in snapshot.meters:
                    message.meter_config.CopyFrom(config_message(snapshot.meters[row]))
                yield message

        return encode()

    def key_message(self, info: TableInfo, entry: TableEntry) -> p4r.TableEntry:
        """Returns a message with table, match and priority of an entry."""
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
        _put_notes(message, self._notes[info.id].get(DEFAULT_ROW, _NO_NOTES))
        return message

    def idle(self) -> Iterator[list[p4r.TableEntry]]:
        """Yields, for each table that has some, the entries that were idle for their time-out since the last poll."""
        for table_id, timers in self._timers.items():
            info, table = self.table(table_id)
            expired = [self._expired(info, table.at(row), row) for row in timers.expired(table.packets)]
            if expired:
                yield expired

    def _expired(self, info: TableInfo, entry: TableEntry, row: int) -> p4r.TableEntry:
        message = self.key_message(info, entry)
        _put_notes(message, self._notes[info.id].get(row, _NO_NOTES))
        return message

    def changed_defaults(self) -> Iterator[p4r.TableEntry]:
        """Yields the default entries that differ from those of the P4 program."""
        for info in self._schema.tables.values():
            table = self._device.tables[info.name]
            changed = table.default != _program_default(table) or DEFAULT_ROW in self._notes[info.id]
            if changed and not info.const_default:
                yield self._default_entry(info)

    def _put_action(self, info: TableInfo, message: p4r.TableEntry, name: str, arguments: tuple[int, ...]) -> None:
        action = info.action_by_name(name)
        if action is not None:
            message.action.action.CopyFrom(action_message(action, arguments))


def _check_keyed(info: TableInfo) -> None:
    """Raises NOT_FOUND if the table can have a default entry only."""
    if not info.fields:
        raise P4RuntimeError(StatusCode.NOT_FOUND, f"table {info.name!r} has no key, so it has its default entry only")


def _put_notes(message: p4r.TableEntry, notes: _Notes) -> None:
    message.controller_metadata, message.metadata = notes.controller_metadata, notes.metadata
    message.idle_timeout_ns = notes.idle_timeout_ns


def _program_default(table: Table) -> DefaultEntry:
    """Returns the default entry that the P4 program gives a table."""
    index = table.spec.default_action
    return DefaultEntry(None if index is None else table.actions[index].name, table.spec.default_arguments)
