"""Named classes of differences between the status codes of the embedded switch and those of BMv2.

Each class has a name, the codes of both sides and a predicate; the table in docs/p4runtime.md has the same names. Any
other difference fails the tests.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from finsy.proto import p4r
from google.protobuf import text_format

from p4switch.p4runtime import StatusCode
from tests.support.conformance.codes.compare import Answered, Step, p4info
from tests.support.conformance.codes.facts import (
    LONGEST_PORT,
    MAX_INSTANCE,
    MAX_PORT,
    Facts,
    counter_data,
    meter_configs,
    numbers,
    port_of,
    repeats_argument,
    replicas,
    table_entry,
    watched,
)

OK, UNKNOWN, INVALID, NOT_FOUND = StatusCode.OK, StatusCode.UNKNOWN, StatusCode.INVALID_ARGUMENT, StatusCode.NOT_FOUND
UNIMPLEMENTED, EXHAUSTED, RANGE = StatusCode.UNIMPLEMENTED, StatusCode.RESOURCE_EXHAUSTED, StatusCode.OUT_OF_RANGE
DENIED, ENDED, EXISTS = StatusCode.PERMISSION_DENIED, StatusCode.UNAVAILABLE, StatusCode.ALREADY_EXISTS
ANY: Final = frozenset(StatusCode)


@dataclass(frozen=True)
class Exception_:
    """A class of differences.

    Attributes:
        bmv2, ours: codes that belong to it.
        applies: whether a step belongs to it.
    """

    name: str
    bmv2: Collection[StatusCode]
    ours: Collection[StatusCode]
    applies: Callable[[Step, Facts], bool]


def _kind(step: Step) -> str | None:
    return step.update.entity.WhichOneof("entity")


def _is(*kinds: str | None) -> Callable[[Step, Facts], bool]:
    return lambda step, _: _kind(step) in kinds


def _indexed(step: Step) -> p4r.CounterEntry | p4r.MeterEntry:
    entity = step.update.entity
    return entity.meter_entry if entity.HasField("meter_entry") else entity.counter_entry


def _all_cells(step: Step, _: Facts) -> bool:
    return step.call == "write" and _kind(step) in _CELLS and not _indexed(step).HasField("index")


def _a_cell_of_all(step: Step, _: Facts) -> bool:
    entry, kind = _indexed(step), _kind(step)
    ident = entry.meter_id if isinstance(entry, p4r.MeterEntry) else entry.counter_id
    return step.call == "read" and kind in _CELLS and ident == 0 and entry.HasField("index")


def _not_modified(step: Step, _: Facts) -> bool:
    changed = step.update.type != p4r.Update.MODIFY
    return step.call == "write" and _kind(step) in ("counter_entry", "direct_counter_entry") and changed


def _all_direct(step: Step, _: Facts) -> bool:
    return step.call == "read" and _kind(step) in _DIRECT and table_entry(step.update.entity).table_id == 0


def _indirect(step: Step, _: Facts) -> bool:
    chosen = step.update.entity.table_entry.action.WhichOneof("type")
    return chosen in ("action_profile_member_id", "action_profile_group_id")


def _set(step: Step) -> p4r.ActionProfileActionSet | None:
    action = step.update.entity.table_entry.action
    return action.action_profile_action_set if action.HasField("action_profile_action_set") else None


def _empty_set(step: Step, _: Facts) -> bool:
    actions = _set(step)
    return actions is not None and not actions.action_profile_actions


def _default(step: Step, _: Facts) -> bool:
    return table_entry(step.update.entity).is_default_action


def _selects_too_much(step: Step, _: Facts) -> bool:
    """Return whether a read selects default entries by match or priority, or all tables by match or action."""
    entry = table_entry(step.update.entity)
    keyed = bool(entry.match) or (entry.priority != 0 and entry.is_default_action)
    return step.call == "read" and (
        (entry.is_default_action and keyed) or (entry.table_id == 0 and (keyed or entry.HasField("action")))
    )


def _modified(step: Step) -> bool:
    return step.call == "write" and _kind(step) == "table_entry" and step.update.type == p4r.Update.MODIFY


def _deleted_unread(step: Step, _: Facts) -> bool:
    entry = step.update.entity.table_entry
    return step.update.type == p4r.Update.DELETE and entry.HasField("time_since_last_hit")


def _written(step: Step, kind: str) -> bool:
    return step.call == "write" and _kind(step) == kind and step.update.type != p4r.Update.DELETE


_CELLS: Final = ("counter_entry", "meter_entry")
_DIRECT: Final = ("direct_counter_entry", "direct_meter_entry")

EXCEPTIONS: Final = (
    # Features of this switch that BMv2 lacks.
    Exception_("registers", {UNIMPLEMENTED}, ANY, _is("register_entry")),
    Exception_("value sets", {UNIMPLEMENTED}, ANY, _is("value_set_entry")),
    Exception_("all cells in one write", {UNIMPLEMENTED}, {OK, INVALID, UNKNOWN, UNIMPLEMENTED}, _all_cells),
    Exception_("direct resources of all tables", {UNIMPLEMENTED}, {OK, INVALID}, _all_direct),
    Exception_("all digests", {UNIMPLEMENTED}, {OK}, lambda s, _: s.call == "read" and _kind(s) == "digest_entry"),
    Exception_("empty action sets", {UNIMPLEMENTED}, {OK, INVALID, NOT_FOUND}, _empty_set),
    Exception_(
        "MODIFY without action",
        {INVALID},
        {OK, NOT_FOUND},
        lambda s, _: _modified(s) and not s.update.entity.table_entry.HasField("action"),
    ),
    Exception_(
        "members or groups of a table that has action sets",
        {INVALID},
        {OK},
        lambda s, _: s.call == "read" and "profile" in str(_kind(s)),
    ),
    # Where the specification names another code than BMv2 answers.
    Exception_("no entity", {UNKNOWN}, {INVALID}, _is(None)),
    Exception_("index beyond the last cell", {UNKNOWN}, {RANGE}, _is(*_CELLS)),
    Exception_("direct resource of no entry", {INVALID}, {NOT_FOUND}, _is(*_DIRECT)),
    Exception_("no such member or group", {INVALID}, {NOT_FOUND}, _indirect),
    Exception_(
        "tables with constant entries",
        {UNKNOWN, INVALID, NOT_FOUND},
        {DENIED},
        lambda s, f: s.call == "write" and s.update.entity.table_entry.table_id in f.const,
    ),
    Exception_(
        "INSERT without a key", {UNKNOWN}, {INVALID}, lambda s, f: s.update.entity.table_entry.table_id in f.keyless
    ),
    Exception_("full", {UNKNOWN}, {EXHAUSTED}, _is("table_entry", "action_profile_member")),
    Exception_(
        "empty bytestring",
        {OK, NOT_FOUND, UNKNOWN, EXISTS},
        {INVALID},
        lambda s, _: b"" in numbers(s.update.entity),
    ),
    Exception_(
        "argument given twice",
        {OK, NOT_FOUND, EXISTS},
        {INVALID},
        lambda s, _: repeats_argument(s.update.entity),
    ),
    Exception_(
        "action set without selector",
        {UNKNOWN, UNIMPLEMENTED, NOT_FOUND},
        {INVALID},
        lambda s, f: _set(s) is not None and s.update.entity.table_entry.table_id in f.of_plain,
    ),
    Exception_(
        "is_const in a write",
        {OK, NOT_FOUND, EXISTS},
        {INVALID},
        lambda s, _: s.call == "write" and s.update.entity.table_entry.is_const,
    ),
    Exception_("DELETE with more than a key", {INVALID}, {OK, NOT_FOUND}, _deleted_unread),
    Exception_("INSERT or DELETE of a counter", {OK, UNKNOWN, UNIMPLEMENTED}, {INVALID}, _not_modified),
    Exception_("read of what cannot be selected", {OK, ENDED, UNIMPLEMENTED}, {INVALID}, _selects_too_much),
    Exception_("one cell of all arrays", {OK, UNKNOWN}, {INVALID}, _a_cell_of_all),
    # Requests that BMv2 accepts, or refuses late, although they have no meaning.
    Exception_(
        "group without selector",
        {OK, NOT_FOUND, EXISTS, EXHAUSTED},
        {INVALID},
        lambda s, f: s.call == "write" and s.update.entity.action_profile_group.action_profile_id in f.plain,
    ),
    Exception_(
        "port beyond 511",
        {OK, UNKNOWN, ENDED},
        {INVALID},
        lambda s, _: any(port_of(replica) > MAX_PORT for replica in replicas(s.update.entity)),
    ),
    Exception_(
        "port of more than 4 bytes",
        {UNIMPLEMENTED},
        {OK, INVALID},
        lambda s, _: any(len(replica.port) > LONGEST_PORT for replica in replicas(s.update.entity)),
    ),
    Exception_(
        "port 0", {INVALID}, {OK}, lambda s, _: any(r.port and port_of(r) == 0 for r in replicas(s.update.entity))
    ),
    Exception_(
        "backup replicas",
        {OK, INVALID},
        {UNIMPLEMENTED},
        lambda s, _: any(r.backup_replicas for r in replicas(s.update.entity)),
    ),
    Exception_(
        "truncated clones",
        {OK, UNKNOWN, INVALID},
        {UNIMPLEMENTED},
        lambda s, _: s.update.entity.packet_replication_engine_entry.clone_session_entry.packet_length_bytes != 0,
    ),
    Exception_(
        "instance above 65535",
        {OK},
        {INVALID},
        lambda s, _: any(replica.instance > MAX_INSTANCE for replica in replicas(s.update.entity)),
    ),
    Exception_("watch ports", {OK, NOT_FOUND, INVALID}, {UNIMPLEMENTED}, lambda s, _: watched(s.update.entity)),
    Exception_(
        "counts of meters",
        {OK, NOT_FOUND, INVALID, EXISTS},
        {INVALID, UNIMPLEMENTED},
        lambda s, _: s.update.entity.table_entry.HasField("meter_counter_data"),
    ),
    Exception_(
        "direct resources of default entries",
        {OK, INVALID, UNKNOWN},
        {UNIMPLEMENTED},
        _default,
    ),
    Exception_(
        "negative priority", {OK, NOT_FOUND, EXISTS}, {INVALID}, lambda s, _: table_entry(s.update.entity).priority < 0
    ),
    Exception_(
        "negative counts",
        {OK, NOT_FOUND, UNKNOWN},
        {INVALID},
        lambda s, _: any(d.packet_count < 0 or d.byte_count < 0 for d in counter_data(s.update.entity)),
    ),
    Exception_(
        "-1 in a meter",
        {OK, NOT_FOUND, UNKNOWN},
        {INVALID},
        lambda s, _: any(-1 in (c.cir, c.cburst, c.pir, c.pburst) for c in meter_configs(s.update.entity)),
    ),
    Exception_(
        "rates of a meter and another fault",
        {INVALID},
        {UNKNOWN},
        lambda s, _: any(config.cir > config.pir for config in meter_configs(s.update.entity)),
    ),
    Exception_("negative times of digests", {OK}, {INVALID}, lambda s, _: _written(s, "digest_entry")),
    Exception_("extern entries", {UNKNOWN}, {OK, UNIMPLEMENTED}, _is("extern_entry")),
)


def named(answered: Answered, facts: Facts) -> str | None:
    """Return the name of a difference; None if it has none."""
    for one in EXCEPTIONS:
        if answered.bmv2 in one.bmv2 and answered.ours in one.ours and one.applies(answered.step, facts):
            return one.name
    return None


@dataclass
class Tally:
    """Statistics of the comparison so far.

    Attributes:
        updates, reads: numbers of compared steps.
        named: how often each class of differences occurred.
        unnamed: descriptions of differences without a name.
    """

    updates: int = 0
    reads: int = 0
    named: Counter[str] = field(default_factory=Counter)
    unnamed: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        different = f"{self.named.total()} other codes of {len(self.named)} named classes"
        return f"{self.updates} updates, {self.reads} reads; {different}, {len(self.unnamed)} without a name"

    def add(self, program: str, answered: Iterable[Answered]) -> int:
        """Count an episode; return its length up to the last step that shows a new class, 0 if there is none."""
        facts, new = Facts(p4info(program)), 0
        for number, one in enumerate(answered, 1):
            self.updates += one.step.call == "write"
            self.reads += one.step.call == "read"
            if one.bmv2 is one.ours:
                continue
            name = named(one, facts)
            if name is None:
                said = text_format.MessageToString(one.step.update, as_one_line=True)
                self.unnamed.append(f"{program}: {one.step.call} {said}: {one.bmv2.name} on BMv2, {one.ours.name} here")
            else:
                new = number if name not in self.named else new
                self.named[name] += 1
        return new
