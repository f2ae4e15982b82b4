"""ActionProfileMember, ActionProfileGroup, and what table entries name of them."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Final, TypeAlias

from finsy.proto import p4r

from p4reduce.dataplane.device import Device
from p4reduce.dataplane.p4runtime.bytestring import encode
from p4reduce.dataplane.p4runtime.errors import Code, P4RuntimeError
from p4reduce.dataplane.p4runtime.extern_info import ExternInfo, ProfileInfo
from p4reduce.dataplane.p4runtime.p4info import ActionInfo, Schema, TableInfo
from p4reduce.dataplane.p4runtime.updates import check_update_type, decode_arguments, invalid, state_errors
from p4reduce.dataplane.tables.profile import Profile

FIRST_HIDDEN: Final = 1 << 32
"""Members and groups of one-shot action sets have numbers that no P4Runtime client can name."""


ActionSets: TypeAlias = dict[int, p4r.ActionProfileActionSet]
"""The action sets of entries, by their hidden group."""


class ProfileEntries:
    """Reads and writes the members and groups of one device."""

    def __init__(self, externs: ExternInfo, schema: Schema, device: Device) -> None:
        self._externs = externs
        self._schema = schema
        self._device = device
        self._groups: dict[tuple[int, int], p4r.ActionProfileGroup] = {}
        self._hidden = count(FIRST_HIDDEN)
        self._sets: dict[tuple[str, int], p4r.ActionProfileActionSet] = {}

    # --- members

    def write_member(self, kind: p4r.Update.Type.ValueType, entry: p4r.ActionProfileMember) -> None:
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
        """The member with an id, if there is one, those of a profile, or all, as now. Raises P4RuntimeError."""
        found: list[tuple[ProfileInfo, int, str, tuple[int, ...]]] = []
        for info, profile in self._selected(wanted.action_profile_id):
            idents = {wanted.member_id} & profile.members.keys() if wanted.member_id else profile.members
            members = ((ident, profile.members[ident]) for ident in idents if ident < FIRST_HIDDEN)
            found += [(info, ident, member.action, member.arguments) for ident, member in members]
        return (
            p4r.ActionProfileMember(
                action_profile_id=info.id, member_id=ident, action=self._action_message(info, action, arguments)
            )
            for info, ident, action, arguments in found
        )

    # --- groups

    def write_group(self, kind: p4r.Update.Type.ValueType, entry: p4r.ActionProfileGroup) -> None:
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
                raise P4RuntimeError(Code.UNIMPLEMENTED, f"{what}: watch ports are not supported")
            (profile.insert_group if kind == p4r.Update.INSERT else profile.modify_group)(entry.group_id, members)
        kept = p4r.ActionProfileGroup()
        kept.CopyFrom(entry)
        if kind == p4r.Update.MODIFY and not entry.max_size:
            kept.max_size = self._groups[info.id, entry.group_id].max_size
        self._groups[info.id, entry.group_id] = kept

    def _check_size(
        self, info: ProfileInfo, kind: p4r.Update.Type.ValueType, entry: p4r.ActionProfileGroup, weights: list[int]
    ) -> None:
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
                Code.RESOURCE_EXHAUSTED, f"{what}: the weights of group {entry.group_id} sum up to more than {most}"
            )

    def read_groups(self, wanted: p4r.ActionProfileGroup) -> Iterator[p4r.ActionProfileGroup]:
        """The group with an id, if there is one, those of a profile, or all, as now. Raises P4RuntimeError."""
        found: list[p4r.ActionProfileGroup] = []
        for info, _ in self._selected(wanted.action_profile_id):
            found += [
                group
                for (owner, ident), group in self._groups.items()
                if owner == info.id and wanted.group_id in (0, ident)
            ]
        return iter(found)

    # --- table entries

    def profile_of(self, info: TableInfo) -> ProfileInfo | None:
        """The action profile of a table, None where its entries take actions."""
        return self._externs.implementations.get(info.id)

    def attach(
        self, info: ProfileInfo, action: p4r.TableAction, store: Callable[[int | None, int | None], None]
    ) -> None:
        """Finds the member or group that an entry names, or makes those of an action set, and stores the entry.

        Args:
            info: of the profile.
            action: from the entry.
            store: takes (member, group), one of them None; raises P4RuntimeError where the table refuses the entry.
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
        """Forgets the members and the group of an action set that no entry has any more."""
        if group is None or group < FIRST_HIDDEN:
            return
        profile = self._device.profiles[info.name]
        members = profile.group(group).members
        profile.delete_group(group)
        for member, _ in members:
            profile.delete_member(member)
        del self._sets[info.name, group]

    def sets(self, info: ProfileInfo) -> ActionSets:
        """The action sets of entries now, by group."""
        return {group: actions for (name, group), actions in self._sets.items() if name == info.name}

    def _make_set(self, info: ProfileInfo, actions: p4r.ActionProfileActionSet) -> int:
        """A group with members of its own. Raises P4RuntimeError; then nothing is left of it."""
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
                raise P4RuntimeError(Code.UNIMPLEMENTED, f"{what}: watch ports are not supported")
            parsed.append((self._action(info, item.action), item.weight))
        if info.max_group_size and sum(weight for _, weight in parsed) > info.max_group_size:
            raise P4RuntimeError(Code.RESOURCE_EXHAUSTED, f"{what}: weights sum up to more than {info.max_group_size}")
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
        kept = p4r.ActionProfileActionSet()
        kept.CopyFrom(actions)
        self._sets[info.name, group] = kept
        return group

    # --- inside

    def _profile(self, ident: int) -> tuple[ProfileInfo, Profile]:
        info = self._externs.profiles.get(ident)
        if info is None:
            raise invalid(f"there is no action profile with id {ident}")
        return info, self._device.profiles[info.name]

    def _selected(self, ident: int) -> list[tuple[ProfileInfo, Profile]]:
        if ident != 0:
            return [self._profile(ident)]
        return [self._profile(known) for known in self._externs.profiles]

    def _action(self, info: ProfileInfo, action: p4r.Action) -> tuple[ActionInfo, tuple[int, ...]]:
        refs = self._schema.tables[info.table].actions if info.table in self._schema.tables else {}
        if action.action_id not in refs:
            raise invalid(f"action profile {info.name!r} has no action {action.action_id}")
        ref = refs[action.action_id]
        return ref.action, decode_arguments(ref.action, action)

    def _action_message(self, info: ProfileInfo, name: str, arguments: tuple[int, ...]) -> p4r.Action:
        action = self._schema.tables[info.table].action_by_name(name)
        message = p4r.Action()
        if action is not None:
            message.action_id = action.id
            for parameter, value in zip(action.parameters, arguments, strict=True):
                message.params.add(param_id=parameter.id, value=encode(value))
        return message


def _first(profile: Profile) -> int:
    """The id of some member or group; FIRST_HIDDEN where there is none."""
    return next(iter(profile.members), next(iter(profile.groups), FIRST_HIDDEN))


def _check_no_sets(profile: Profile) -> None:
    """Refuses to mix members and groups with action sets (P4Runtime specification, "One Shot ... Programming")."""
    if _first(profile) >= FIRST_HIDDEN and (profile.members or profile.groups):
        raise invalid(f"action profile {profile.name!r}: its entries have action sets; members and groups do not mix")


def put_choice(sets: ActionSets, message: p4r.TableAction, member: int | None, group: int | None) -> None:
    """Writes what an entry names, the inverse of ProfileEntries.attach."""
    if member is not None:
        message.action_profile_member_id = member
    elif group is not None and group >= FIRST_HIDDEN:
        message.action_profile_action_set.CopyFrom(sets[group])
    elif group is not None:
        message.action_profile_group_id = group
