"""Generator of updates of every kind from a program's P4Info: valid, nearly valid and invalid ones."""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from finsy.proto import p4i, p4r
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

T = TypeVar("T")

INSERT, MODIFY, DELETE = p4r.Update.INSERT, p4r.Update.MODIFY, p4r.Update.DELETE
VALID, NEARLY = 0.45, 0.45
"""Shares of valid updates and of updates with one or two changed fields; the rest are random messages."""
MAX_DEPTH: Final = 5
NUMBERS: Final = (0, 1, 2, 3, -1, 4, 15, 16, 510, 511, 512, 32767, 32768, 1 << 31, (1 << 32) - 1, (1 << 63) - 1)
BYTES: Final = (b"", b"\0", b"\1", b"\2", b"\0\1", b"\2\0", b"\1\xff", b"\xff" * 6, b"\0" * 9 + b"\1", b"\xff" * 17)
_RANGES: Final = {
    FieldDescriptor.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, (1 << 64) - 1),
}


class UpdateMaker:
    """Generator of random updates and reads; it draws keys, members and groups from few values so that they collide."""

    def __init__(self, info: p4i.P4Info, rng: random.Random) -> None:
        self._info = info
        self._rng = rng
        self._actions = {action.preamble.id: action for action in info.actions}
        lists: tuple[Sequence[Any], ...] = (info.tables, info.actions, info.action_profiles, info.counters)
        lists += (info.direct_counters, info.meters, info.direct_meters, info.registers, info.digests, info.value_sets)
        self._ids = [one.preamble.id for known in lists for one in known]
        kinds: list[tuple[int, Callable[[], p4r.Entity], Any]] = [
            (12, self._table_entry, info.tables),
            (2, self._default_entry, info.tables),
            (3, self._counter, info.counters),
            (3, self._direct_counter, info.tables),
            (4, self._meter, info.meters),
            (3, self._direct_meter, info.tables),
            (1, self._register, info.registers),
            (1, self._value_set, info.value_sets),
            (3, self._digest, info.digests),
            (7, self._member, info.action_profiles),
            (7, self._group, info.action_profiles),
            (4, self._multicast, True),
            (3, self._clone, True),
        ]
        self._kinds = [(make, weight) for weight, make, there in kinds if there]

    def update(self) -> p4r.Update:
        """Return a random update."""
        draw = self._rng.random()
        if draw > VALID + NEARLY:
            return p4r.Update(type=self._rng.randrange(5), entity=self._garbage())
        entity = self._entity()
        indexed = entity.WhichOneof("entity") in _MODIFIED_ONLY or entity.table_entry.is_default_action
        kinds = (MODIFY,) if indexed else (INSERT, INSERT, INSERT, MODIFY, DELETE)
        update = p4r.Update(type=self._rng.choice(kinds), entity=entity)
        if draw > VALID:
            for _ in range(self._rng.choice((1, 1, 2))):
                self._change(update)
        return update

    def wanted(self) -> p4r.Entity:
        """Return a random entity to read."""
        draw = self._rng.random()
        if draw > VALID + NEARLY:
            return self._garbage()
        entity = self._entity()
        if draw > VALID:
            self._change(entity)
        return entity

    # --- valid entities

    def _entity(self) -> p4r.Entity:
        makers, weights = zip(*self._kinds, strict=True)
        return self._rng.choices(makers, weights)[0]()

    def _number(self, width: int) -> bytes:
        """Return a number that fits ``width`` bits, mostly small and in its shortest form."""
        top = (1 << width) - 1
        value = min(self._rng.choice((0, 1, 1, 2, 3, 7, top)), top)
        shortest = value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")
        return self._rng.choice((b"", b"", b"", b"\0")) + shortest

    def _match(self, field: p4i.MatchField) -> p4r.FieldMatch | None:
        width, match = field.bitwidth, p4r.FieldMatch(field_id=field.id)
        kind = p4i.MatchField.MatchType.Name(field.match_type)
        if kind != "EXACT" and self._rng.random() < 0.2:
            return None
        match kind:
            case "EXACT":
                match.exact.value = self._number(width)
            case "LPM":
                length = self._rng.choice((1, width, width, self._rng.randint(1, width)))
                match.lpm.prefix_len = length
                match.lpm.value = _bytes(self._rng.choice((0, 1)) << (width - length))
            case "TERNARY":
                mask = self._rng.choice(((1 << width) - 1, 1, 1 << (width - 1)))
                match.ternary.mask = _bytes(mask)
                match.ternary.value = _bytes(mask & self._rng.choice((0, 1, 3, mask)))
            case "RANGE":
                low = self._rng.choice((0, 1, 2))
                match.range.low, match.range.high = _bytes(low), _bytes(low + self._rng.choice((0, 1)))
            case _:
                match.optional.value = self._number(width)
        return match

    def _action(self, refs: Sequence[p4i.ActionRef]) -> p4r.Action:
        action = self._actions[self._rng.choice(refs).id]
        params = [p4r.Action.Param(param_id=p.id, value=self._number(p.bitwidth)) for p in action.params]
        return p4r.Action(action_id=action.preamble.id, params=params)

    def _key(self, table: p4i.Table) -> p4r.TableEntry:
        matches = [match for field in table.match_fields if (match := self._match(field)) is not None]
        exact = (p4i.MatchField.EXACT, p4i.MatchField.LPM)
        prioritized = any(field.match_type not in exact for field in table.match_fields)
        priority = self._rng.choice((1, 1, 2)) if prioritized else 0
        return p4r.TableEntry(table_id=table.preamble.id, match=matches, priority=priority)

    def _table_entry(self) -> p4r.Entity:
        table = self._rng.choice(self._info.tables)
        entry = self._key(table)
        if table.implementation_id:
            self._choose(entry.action, table)
        else:
            refs = [ref for ref in table.action_refs if ref.scope != p4i.ActionRef.DEFAULT_ONLY]
            entry.action.action.CopyFrom(self._action(refs or table.action_refs))
        if self._rng.random() < 0.1:
            entry.counter_data.packet_count = 3
        if self._rng.random() < 0.1:
            entry.meter_config.CopyFrom(self._meter_config())
        if self._rng.random() < 0.1:
            entry.idle_timeout_ns = 10**12
        return p4r.Entity(table_entry=entry)

    def _choose(self, action: p4r.TableAction, table: p4i.Table) -> None:
        draw = self._rng.random()
        if draw < 0.4:
            action.action_profile_member_id = self._rng.choice((1, 2, 3))
        elif draw < 0.7:
            action.action_profile_group_id = self._rng.choice((1, 2, 3))
        else:
            for _ in range(self._rng.choice((1, 2, 3))):
                made = action.action_profile_action_set.action_profile_actions.add(weight=self._rng.choice((1, 2)))
                made.action.CopyFrom(self._action(table.action_refs))

    def _default_entry(self) -> p4r.Entity:
        table = self._rng.choice(self._info.tables)
        entry = p4r.TableEntry(table_id=table.preamble.id, is_default_action=True)
        if self._rng.random() < 0.8:
            entry.action.action.CopyFrom(self._action(table.action_refs))
        return p4r.Entity(table_entry=entry)

    def _index(self, size: int) -> p4r.Index | None:
        return None if self._rng.random() < 0.1 else p4r.Index(index=self._rng.choice((0, 1, size - 1, size)))

    def _counter(self) -> p4r.Entity:
        counter = self._rng.choice(self._info.counters)
        data = None if self._rng.random() < 0.1 else p4r.CounterData(packet_count=1, byte_count=64)
        entry = p4r.CounterEntry(counter_id=counter.preamble.id, index=self._index(counter.size), data=data)
        return p4r.Entity(counter_entry=entry)

    def _direct_key(self, resources: Sequence[Any]) -> p4r.TableEntry:
        """Return a key, mostly of a table that has the direct resource."""
        known = {one.direct_table_id for one in resources}
        having = [table for table in self._info.tables if table.preamble.id in known]
        return self._key(self._rng.choice(having if having and self._rng.random() < 0.8 else self._info.tables))

    def _direct_counter(self) -> p4r.Entity:
        key, data = self._direct_key(self._info.direct_counters), p4r.CounterData(packet_count=5)
        return p4r.Entity(direct_counter_entry=p4r.DirectCounterEntry(table_entry=key, data=data))

    def _meter_config(self) -> p4r.MeterConfig:
        rate = self._rng.choice((0, 1, 1000))
        return p4r.MeterConfig(cir=rate, cburst=1, pir=rate * self._rng.choice((1, 2)), pburst=2)

    def _meter(self) -> p4r.Entity:
        meter = self._rng.choice(self._info.meters)
        config = None if self._rng.random() < 0.2 else self._meter_config()
        entry = p4r.MeterEntry(meter_id=meter.preamble.id, index=self._index(meter.size), config=config)
        return p4r.Entity(meter_entry=entry)

    def _direct_meter(self) -> p4r.Entity:
        key, config = self._direct_key(self._info.direct_meters), self._meter_config()
        return p4r.Entity(direct_meter_entry=p4r.DirectMeterEntry(table_entry=key, config=config))

    def _register(self) -> p4r.Entity:
        register = self._rng.choice(self._info.registers)
        entry = p4r.RegisterEntry(register_id=register.preamble.id, index=self._index(register.size))
        entry.data.bitstring = b"\1"
        return p4r.Entity(register_entry=entry)

    def _value_set(self) -> p4r.Entity:
        value_set = self._rng.choice(self._info.value_sets)
        member = p4r.ValueSetMember(match=[match for f in value_set.match if (match := self._match(f)) is not None])
        return p4r.Entity(value_set_entry=p4r.ValueSetEntry(value_set_id=value_set.preamble.id, members=[member]))

    def _digest(self) -> p4r.Entity:
        digest = self._rng.choice(self._info.digests)
        config = p4r.DigestEntry.Config(max_timeout_ns=0, max_list_size=self._rng.choice((0, 1)), ack_timeout_ns=1000)
        return p4r.Entity(digest_entry=p4r.DigestEntry(digest_id=digest.preamble.id, config=config))

    def _member(self) -> p4r.Entity:
        profile = self._rng.choice(self._info.action_profiles)
        refs = [
            ref for table in self._info.tables if table.preamble.id in profile.table_ids for ref in table.action_refs
        ]
        member = p4r.ActionProfileMember(action_profile_id=profile.preamble.id, member_id=self._rng.choice((1, 2, 3)))
        member.action.CopyFrom(self._action(refs))
        return p4r.Entity(action_profile_member=member)

    def _group(self) -> p4r.Entity:
        profile = self._rng.choice(self._info.action_profiles)
        group = p4r.ActionProfileGroup(action_profile_id=profile.preamble.id, group_id=self._rng.choice((1, 2, 3)))
        group.max_size = self._rng.choice((0, 0, 2, 4))
        for ident in self._rng.sample((1, 2, 3), self._rng.randrange(3)):
            group.members.add(member_id=ident, weight=self._rng.choice((1, 1, 2)))
        return p4r.Entity(action_profile_group=group)

    def _replicas(self) -> list[p4r.Replica]:
        ports = self._rng.sample(range(1, 6), self._rng.randrange(4))
        return [p4r.Replica(egress_port=port, instance=self._rng.choice((0, 1))) for port in ports]

    def _multicast(self) -> p4r.Entity:
        entry = p4r.MulticastGroupEntry(multicast_group_id=self._rng.choice((1, 2, 3)), replicas=self._replicas())
        return p4r.Entity(packet_replication_engine_entry={"multicast_group_entry": entry})

    def _clone(self) -> p4r.Entity:
        entry = p4r.CloneSessionEntry(session_id=self._rng.choice((1, 2, 3)), replicas=self._replicas())
        return p4r.Entity(packet_replication_engine_entry={"clone_session_entry": entry})

    # --- invalid messages

    def _change(self, message: Message) -> None:
        """Set or clear a random field of the message or of a message nested in it."""
        while inside := _inside(message):
            if self._rng.random() < 0.2:
                break
            message = self._rng.choice(inside)
        field = self._rng.choice(message.DESCRIPTOR.fields)
        if self._rng.random() < 0.2:
            message.ClearField(field.name)
        else:
            self._fill(message, field, MAX_DEPTH - 1)

    def _garbage(self) -> p4r.Entity:
        """Return an entity of any kind, or an empty one, with random fields."""
        entity = p4r.Entity()
        if self._rng.random() < 0.95:
            self._fill(entity, self._rng.choice(entity.DESCRIPTOR.fields), 0)
        return entity

    def _message(self, kind: Callable[[], T], depth: int = 0) -> T:
        """Return a message with random fields."""
        made: Any = kind()
        fields = list(made.DESCRIPTOR.fields)
        for field in self._rng.sample(fields, min(len(fields), self._rng.randrange(5))):
            self._fill(made, field, depth)
        found: T = made
        return found

    def _fill(self, message: Any, field: FieldDescriptor, depth: int) -> None:
        count = self._rng.randrange(3) if field.is_repeated else 1
        if field.message_type is not None:
            kind = field.message_type
            if depth >= MAX_DEPTH or kind.full_name.startswith("google.protobuf") or kind.GetOptions().map_entry:
                return
            made = [self._message(kind._concrete_class, depth + 1) for _ in range(count)]
            if field.is_repeated:
                getattr(message, field.name).extend(made)
            else:
                getattr(message, field.name).CopyFrom(made[0])
        elif field.is_repeated:
            getattr(message, field.name).extend(self._scalar(field) for _ in range(count))
        else:
            setattr(message, field.name, self._scalar(field))

    def _scalar(self, field: FieldDescriptor) -> Any:
        match field.cpp_type:
            case FieldDescriptor.CPPTYPE_STRING:
                return self._rng.choice(BYTES) if field.type == FieldDescriptor.TYPE_BYTES else "x"
            case FieldDescriptor.CPPTYPE_BOOL:
                return self._rng.random() < 0.5
            case FieldDescriptor.CPPTYPE_ENUM:
                return self._rng.randrange(5)
            case kind:
                low, high = _RANGES.get(kind, (0, 0))
                drawn = self._rng.choice((*NUMBERS, *self._rng.sample(self._ids, min(len(self._ids), 8))))
                return drawn if low <= drawn <= high else low


_MODIFIED_ONLY: Final = {
    "counter_entry",
    "direct_counter_entry",
    "meter_entry",
    "direct_meter_entry",
    "register_entry",
    "value_set_entry",
}


def _inside(message: Message) -> list[Any]:
    found: list[Any] = []
    for _, value in message.ListFields():
        found += list(value) if hasattr(value, "add") else [value] if hasattr(value, "ListFields") else []
    return found


def _bytes(value: int) -> bytes:
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")
