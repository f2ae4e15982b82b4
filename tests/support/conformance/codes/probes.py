"""Hand-written updates and reads that random generation would hardly produce."""

from collections.abc import Callable, Mapping
from typing import Final, Literal

import finsy as fy
from finsy.proto import p4r

from tests.support.p4runtime.configs import schema

Call = Literal["write", "read"]
Probes = list[tuple[Call, p4r.Update]]


def _full() -> Probes:
    """Insert more entries than a table holds."""
    entries = [
        fy.P4TableEntry("exact_table", match=fy.Match(dst=1, ingress_port=port), action=fy.Action("forward", port=7))
        for port in range(6)
    ]
    return [("write", _insert(entry.encode(schema("entities")))) for entry in entries]


def _beside_sets() -> Probes:
    """Use a member beside an action set, then an action set beside a member."""
    chosen = fy.P4IndirectAction(action_set=[(1, fy.Action("drop"))])
    entry = fy.P4TableEntry("choose", match=fy.Match(index=1), action=chosen).encode(schema("control"))
    member = fy.P4ActionProfileMember("selector", member_id=1, action=fy.Action("drop")).encode(schema("control"))
    read: tuple[Call, p4r.Update] = ("read", p4r.Update(entity=member))
    probes: Probes = [("write", _insert(entry)), ("write", _insert(member)), read, ("write", _delete(entry))]
    return [*probes, ("write", _insert(member)), ("write", _insert(entry)), read]


def _insert(entity: p4r.Entity) -> p4r.Update:
    return p4r.Update(type=p4r.Update.INSERT, entity=entity)


def _delete(entity: p4r.Entity) -> p4r.Update:
    return p4r.Update(type=p4r.Update.DELETE, entity=entity)


PROBES: Final[Mapping[str, Callable[[], Probes]]] = {"entities": _full, "control": _beside_sets}
