"""Random cases for any program: entries for all its tables, groups, sessions, members, and frames between changes.

The programs' headers consist of small fields, so numbers drawn mostly from a few values collide often.
"""

import random
from collections.abc import Callable, Sequence
from typing import TypeAlias

from p4switch.tables import Exact, Lpm, Match, Range, TableEntry, Ternary
from tests.support.conformance.fuzz.operations import (
    AddToValueSet,
    Delete,
    Insert,
    Modify,
    Operation,
    Send,
    SetDefault,
    SetDirectMeter,
    SetGroup,
    SetMember,
    SetMembers,
    SetMeter,
    SetSession,
    WriteRegister,
)
from tests.support.conformance.fuzz.shape import ActionShape, Key, Shape, TableShape

FrameMaker: TypeAlias = Callable[[random.Random], bytes]
PORTS = 8
"""Number of ports, from 0, on which frames arrive and replicas leave."""
MEMBERS = 6
GROUPS = 3


def number(rng: random.Random, width: int) -> int:
    """Returns a number of ``width`` bits: mostly small or of small bytes as in frames, else random or the maximum."""
    draw = rng.random()
    if draw < 0.5:
        return rng.randrange(min(8, 1 << width))
    if draw < 0.8:
        small = bytes(rng.randrange(8) for _ in range(-(-width // 8)))
        return int.from_bytes(small, "big") & ((1 << width) - 1)
    return (1 << width) - 1 if draw < 0.9 else rng.getrandbits(width)


class CaseMaker:
    """Maker of one case for a program."""

    def __init__(self, shape: Shape, frames: FrameMaker, rng: random.Random) -> None:
        self._shape = shape
        self._frames = frames
        self._rng = rng
        self._live: dict[tuple[str, object], tuple[TableShape, TableEntry]] = {}
        self._priority = 0
        self._groups: dict[str, int] = {}

    def case(self, packets: int) -> list[Operation]:
        """Return operations that set everything up, then ``packets`` frames with changes in between."""
        operations = self._set_up()
        for _ in range(packets):
            if self._rng.random() < 0.3:
                operations += self._change()
            operations.append(Send(self._rng.randrange(PORTS), self._frames(self._rng)))
        return operations

    # --- set-up

    def _set_up(self) -> list[Operation]:
        rng, made = self._rng, list[Operation]()
        made += [SetGroup(group, self._replicas(rng.randrange(4))) for group in range(1, 7)]
        if self._shape.clones:
            made += [SetSession(session, self._replicas(rng.randrange(1, 3))) for session in range(1, 7)]
        profiles = {t.profile: t for t in self._shape.tables.values() if t.profile is not None}
        for profile, table in profiles.items():
            made += self._profile(profile, table)
        for name, size in self._shape.meters.items():
            for index in range(size):
                committed = rng.randrange(4) * rng.choice((1, 40))
                made.append(SetMeter(name, index, committed, committed + rng.randrange(4) * rng.choice((1, 40))))
        for name, width in self._shape.value_sets.items():
            made += [AddToValueSet(name, number(rng, width)) for _ in range(3)]
        for table in self._shape.tables.values():
            for _ in range(rng.randrange(8)):
                made += self._insert(table)
        return made

    def _replicas(self, count: int) -> tuple[tuple[int, int], ...]:
        return tuple((self._rng.randrange(PORTS), self._rng.randrange(4)) for _ in range(count))

    def _profile(self, profile: str, table: TableShape) -> list[Operation]:
        made: list[Operation] = []
        for member in range(MEMBERS):
            action, arguments = self._action(table.actions)
            made.append(SetMember(profile, member, action, arguments))
        if table.selects:
            for group in range(GROUPS):
                members = sorted(self._rng.sample(range(MEMBERS), self._rng.randint(1, MEMBERS)))
                made.append(SetMembers(profile, group, tuple(members)))
        return made

    # --- changes between packets

    def _change(self) -> list[Operation]:
        rng = self._rng
        draw = rng.random()
        tables = list(self._shape.tables.values())
        if tables and draw < 0.4:
            return self._insert(rng.choice(tables))
        if self._live and draw < 0.7:
            return self._touch(*rng.choice(list(self._live.values())), delete=draw < 0.55)
        free = [t for t in tables if not t.const_default and t.profile is None]
        if free and draw < 0.8:
            table = rng.choice(free)
            return [SetDefault(table.name, *self._action(table.actions))]
        if draw < 0.9:
            return [SetGroup(rng.randrange(1, 7), self._replicas(rng.randrange(4)))]
        if self._shape.registers:
            register = rng.choice(list(self._shape.registers))
            return [WriteRegister(register, rng.randrange(min(4, self._shape.registers[register])), number(rng, 8))]
        return []

    def _touch(self, table: TableShape, entry: TableEntry, *, delete: bool) -> list[Operation]:
        if delete or table.profile is not None:
            del self._live[table.name, entry.identity]
            return [Delete(table.name, entry)]
        changed = TableEntry(entry.match, *self._action(table.actions), entry.priority)
        return [Modify(table.name, changed)]

    # --- entries

    def _insert(self, table: TableShape) -> list[Operation]:
        match = tuple(self._match(key) for key in table.keys)
        self._priority += 1  # with equal priorities the choice between two matches would be open
        priority = self._priority if table.has_priority else 0
        bare = TableEntry(match, "", (), priority)
        full = sum(name == table.name for name, _ in self._live) >= table.size
        if (table.name, bare.identity) in self._live or full:
            return []
        if table.profile is not None:
            grouped = table.selects and self._rng.random() < 0.7
            self._live[table.name, bare.identity] = (table, bare)
            member, group = self._rng.randrange(MEMBERS), self._rng.randrange(GROUPS)
            return [Insert(table.name, bare, group=group) if grouped else Insert(table.name, bare, member=member)]
        entry = TableEntry(match, *self._action(table.actions), priority)
        self._live[table.name, entry.identity] = (table, entry)
        made: list[Operation] = [Insert(table.name, entry)]
        if table.direct_meter is not None:
            committed = self._rng.randrange(4)
            made.append(SetDirectMeter(table.name, entry, committed, committed + self._rng.randrange(4)))
        return made

    def _action(self, actions: Sequence[ActionShape]) -> tuple[str, tuple[int, ...]]:
        action = self._rng.choice(actions)
        return action.name, tuple(number(self._rng, width) for width in action.widths)

    def _match(self, key: Key) -> Match:
        rng, ones = self._rng, (1 << key.width) - 1
        value = number(rng, key.width)
        match key.kind:
            case "exact":
                return Exact(value)
            case "lpm":
                prefix = rng.choice((0, key.width, key.width - 1, rng.randint(0, key.width)))
                return Lpm(value & ~(ones >> prefix) & ones, prefix)
            case "ternary":
                mask = rng.choice((0, ones, 7, number(rng, key.width))) & ones
                return Ternary(value & mask, mask)
            case "range":
                other = number(rng, key.width)
                return Range(min(value, other), max(value, other))
        raise ValueError(f"unknown match kind {key.kind!r}")
