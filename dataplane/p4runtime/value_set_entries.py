"""ValueSetEntry: the members of parser value sets, which BMv2 does not offer over P4Runtime."""

from collections.abc import Iterator

from finsy.proto import p4r

from p4reduce.dataplane.device import Device
from p4reduce.dataplane.p4runtime.bytestring import decode, encode
from p4reduce.dataplane.p4runtime.errors import Code, P4RuntimeError
from p4reduce.dataplane.p4runtime.extern_info import ExternInfo, ValueSetInfo
from p4reduce.dataplane.p4runtime.updates import check_modify_only, invalid


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
