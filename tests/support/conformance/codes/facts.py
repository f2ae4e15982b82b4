"""Facts about a P4Info's tables and profiles and about messages, for the predicates of named exceptions."""

from collections.abc import Iterator
from functools import cached_property

from finsy.proto import p4i, p4r

MAX_PORT = 511
LONGEST_PORT = 4
MAX_INSTANCE = (1 << 16) - 1


class Facts:
    """The properties of a program on which exceptions depend."""

    def __init__(self, info: p4i.P4Info) -> None:
        self._info = info

    @cached_property
    def const(self) -> set[int]:
        """Ids of tables whose entries the program fixes."""
        return {table.preamble.id for table in self._info.tables if table.is_const_table}

    @cached_property
    def keyless(self) -> set[int]:
        """Ids of tables without a key."""
        return {table.preamble.id for table in self._info.tables if not table.match_fields}

    @cached_property
    def plain(self) -> set[int]:
        """Ids of action profiles without a selector."""
        return {profile.preamble.id for profile in self._info.action_profiles if not profile.with_selector}

    @cached_property
    def of_plain(self) -> set[int]:
        """Ids of tables with an action profile that has no selector."""
        return {table.preamble.id for table in self._info.tables if table.implementation_id in self.plain}


def table_entry(entity: p4r.Entity) -> p4r.TableEntry:
    """Return the table entry that an entity is or names; an empty entry if there is none."""
    match entity.WhichOneof("entity"):
        case "direct_counter_entry":
            return entity.direct_counter_entry.table_entry
        case "direct_meter_entry":
            return entity.direct_meter_entry.table_entry
        case _:
            return entity.table_entry


def numbers(entity: p4r.Entity) -> Iterator[bytes]:
    """Yield all bytestrings that stand for numbers in matches and arguments."""
    for match in table_entry(entity).match:
        yield from _match_numbers(match)
    for action in _actions(entity):
        yield from (param.value for param in action.params)


def _actions(entity: p4r.Entity) -> list[p4r.Action]:
    action = table_entry(entity).action
    sets = action.action_profile_action_set.action_profile_actions
    return [action.action, entity.action_profile_member.action, *(one.action for one in sets)]


def repeats_argument(entity: p4r.Entity) -> bool:
    """Return whether an action has two arguments for one parameter."""
    return any(len({p.param_id for p in action.params}) < len(action.params) for action in _actions(entity))


def _match_numbers(match: p4r.FieldMatch) -> tuple[bytes, ...]:
    match match.WhichOneof("field_match_type"):
        case "exact":
            return (match.exact.value,)
        case "lpm":
            return (match.lpm.value,)
        case "ternary":
            return (match.ternary.value, match.ternary.mask)
        case "range":
            return (match.range.low, match.range.high)
        case "optional":
            return (match.optional.value,)
        case _:
            return ()


def replicas(entity: p4r.Entity) -> list[p4r.Replica]:
    """Return the replicas of a multicast group or clone session."""
    engine = entity.packet_replication_engine_entry
    return [*engine.multicast_group_entry.replicas, *engine.clone_session_entry.replicas]


def port_of(replica: p4r.Replica) -> int:
    """Return the port number of a replica."""
    return replica.egress_port or int.from_bytes(replica.port, "big")


def meter_configs(entity: p4r.Entity) -> list[p4r.MeterConfig]:
    """Return the meter configurations of an entity; unset ones are empty."""
    return [entity.meter_entry.config, entity.direct_meter_entry.config, entity.table_entry.meter_config]


def counter_data(entity: p4r.Entity) -> list[p4r.CounterData]:
    """Return the counter data of an entity; unset ones are empty."""
    return [entity.counter_entry.data, entity.direct_counter_entry.data, entity.table_entry.counter_data]


def watched(entity: p4r.Entity) -> bool:
    """Return whether a group or an action set names a watch port."""
    actions = entity.table_entry.action.action_profile_action_set.action_profile_actions
    return any(one.watch or one.watch_port for one in (*entity.action_profile_group.members, *actions))
