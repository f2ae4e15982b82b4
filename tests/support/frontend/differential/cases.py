"""Cases guided by coverage: entries match the keys that packets of the case looked up on the reference."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from p4switch.interpreter import Event
from p4switch.interpreter.trace import ConditionEvaluated, ParserFailed, PrimitiveRun, Selected, TableApplied
from p4switch.program import Program
from p4switch.program.actions import RegisterRead, RegisterWrite
from p4switch.state.layout import ValueSetError
from p4switch.tables import Exact, Lpm, Match, Range, TableEntry, Ternary
from tests.support.conformance.fuzz.generate import CaseMaker
from tests.support.conformance.fuzz.operations import (
    Modify,
    Operation,
    Send,
    SetDefault,
    SetDirectMeter,
    SetGroup,
    SetMeter,
    SetSession,
    WriteRegister,
)
from tests.support.conformance.fuzz.outcome import apply
from tests.support.conformance.fuzz.shape import ActionShape, Key, Shape, TableShape
from tests.support.frontend.differential.frames import ParserFrames
from tests.support.frontend.differential.switch import TimedSwitch

Point: TypeAlias = tuple[str, str, str]
"""A parser transition or error, the outcome of a condition, or an action that a table ran, as (kind, where, which)."""
NUMBERED: Final = 6
"""Highest number of the groups and clone sessions that every case sets."""
ENOUGH: Final = 4
"""Packets that must run an action, all without leaving, until it counts as an action that drops."""
GENEROUS: Final = 1_000_000
"""Packets or bytes that make a meter let every packet pass."""


@dataclass
class Coverage:
    """How often packets reached each point of a program, and how often such a packet left the switch."""

    reached: Counter[Point] = field(default_factory=Counter)
    left: Counter[Point] = field(default_factory=Counter)


class GuidedCaseMaker(CaseMaker):
    """Case maker that plays each operation on the reference and inserts entries for keys that missed."""

    def __init__(
        self, shape: Shape, frames: ParserFrames, program: Program, rng: random.Random, coverage: Coverage
    ) -> None:
        """Prefer actions that few packets ran that left the switch, according to ``coverage``."""
        super().__init__(shape, frames, rng)
        self._switch = TimedSwitch(program, self._note)
        self._coverage = coverage
        self._news = False
        self._seen: list[tuple[str, tuple[int, ...], bool]] = []
        self._known: dict[str, list[tuple[int, ...]]] = {}
        self._table = ""
        self._passed: list[Point] = []
        self._cells: list[tuple[str, int]] = []
        self._aimed: tuple[int, ...] | None = None
        self._keys: Iterator[int] = iter(())
        self._made: list[Operation] = []
        self._last: list[Send] = []
        self._fresh: list[Send] = []

    def _note(self, event: Event) -> None:
        """Record an event of the reference's processing of a packet."""
        match event:
            case Selected(state, _, following):
                self._reach(("transition", state, str(following)))
            case ParserFailed(state, error):
                self._reach(("parser error", state, error))
            case ConditionEvaluated(conditional, outcome):
                self._reach(("condition", conditional.name, str(outcome)))
            case TableApplied(table, keys, entry, action):
                self._reach(("action", table, str(action)))
                self._seen.append((table, tuple(value for _, value in keys), entry is not None))
            case PrimitiveRun(RegisterRead(register=name) | RegisterWrite(register=name), index=int(index)):
                self._cells.append((name, index))

    def _reach(self, point: Point) -> None:
        self._passed.append(point)

    def case(self, packets: int) -> list[Operation]:
        """Return the set-up, then at least ``packets`` frames, most repeated after entries for them were inserted."""
        self._do(self._set_up())
        self._do(self._defaults())
        frames = self._frames
        for number in frames.values.numbers if isinstance(frames, ParserFrames) else ():
            if number > NUMBERED:
                self._do([SetGroup(number, self._replicas(2))])
                if self._shape.clones:
                    self._do([SetSession(number, self._replicas(1))])
        while sum(isinstance(one, Send) for one in self._made) < packets:
            send = self._frame()
            self._last = [*self._last[-20:], send]
            self._news = False
            self._send(send)
            if self._news:
                self._fresh.append(send)
            draw = self._rng.random()
            if draw < 0.85:
                self._answer(send)
            if draw < 0.3:
                self._do(self._change())
                self._send(send)
            elif draw < 0.45:
                self._do(self._other_actions())
                self._send(send)
        return self._made

    def _do(self, operations: Sequence[Operation]) -> None:
        for operation in operations:
            if isinstance(operation, SetMeter | SetDirectMeter) and self._rng.random() < 0.8:
                # Packets that pass a meter show more than packets that it drops.
                operation = replace(operation, committed=GENEROUS, peak=GENEROUS)  # noqa: PLW2901
            with suppress(ValueSetError):  # the value set is full
                apply(operation, self._switch)
                self._made.append(operation)

    def _frame(self) -> Send:
        """Return a new frame, or a recent one: unchanged, with one byte changed, or on another port."""
        draw = self._rng.random()
        if draw < 0.7 or not self._last:
            return Send(self._port(), self._frames(self._rng))
        send = self._rng.choice(self._fresh if self._fresh and self._rng.random() < 0.5 else self._last)
        if draw < 0.8:
            return send
        if draw < 0.85:
            return Send(self._port(), send.frame)
        frame = bytearray(send.frame)
        at = self._rng.randrange(len(frame))
        frame[at] = (frame[at] + self._rng.choice((1, 255, 128))) & 255
        return Send(send.port, bytes(frame))

    def _port(self) -> int:
        frames = self._frames
        return frames.values.port(self._rng) if isinstance(frames, ParserFrames) else 0

    def _send(self, send: Send) -> None:
        self._seen.clear()
        self._cells.clear()
        self._passed.clear()
        self._switch.send(send.port, send.frame)
        left = bool(self._switch.drain())
        for point in self._passed:
            self._news = self._news or not self._coverage.reached[point]
            self._coverage.reached[point] += 1
            self._coverage.left[point] += left
        self._made.append(send)
        for name, values, _ in self._seen:
            known = self._known.setdefault(name, [])
            known.append(values)
            del known[:-30]

    def _answer(self, send: Send) -> None:
        """Insert entries for keys that missed and repeat the frame, several times as it gets further."""
        for _ in range(6):
            missed = [(n, v) for n, v, hit in self._seen if not hit and n in self._shape.tables]
            missed = list(dict.fromkeys(missed))
            made: list[Operation] = []
            for name, values in missed:
                if self._rng.random() < 0.8:
                    self._aimed = values
                    made += self._insert(self._shape.tables[name])
            self._aimed = None
            cells = [(n, i) for n, i in self._cells if i < self._switch.device.registers[n].size]
            if cells and self._rng.random() < 0.25:
                name, index = self._rng.choice(cells)
                made.append(WriteRegister(name, index, self._value(self._switch.device.registers[name].bitwidth)))
            if not made:
                return
            self._do(made)
            self._send(send)

    def _other_actions(self) -> list[Operation]:
        """Return operations that give the entries that the last frame hit other actions."""
        hit = {(n, v) for n, v, found in self._seen if found}
        made = self._defaults()
        for key, (table, entry) in list(self._live.items()):
            fits = any(name == table.name and _fits(entry.match, values) for name, values in hit)
            if fits and table.profile is None:
                self._table = table.name
                changed = TableEntry(entry.match, *self._action(table.actions), entry.priority)
                self._live[key] = (table, changed)
                made.append(Modify(table.name, changed))
        return made

    def _defaults(self) -> list[Operation]:
        """Return operations that set default actions of tables without a key."""
        made: list[Operation] = []
        for name, table in self._shape.keyless.items():
            self._table = name
            if table.profile is None and self._rng.random() < 0.8:
                made.append(SetDefault(name, *self._action(table.actions)))
        return made

    # --- contents of entries

    def _value(self, width: int) -> int:
        frames = self._frames
        return frames.values.draw(self._rng, width) if isinstance(frames, ParserFrames) else 0

    def _insert(self, table: TableShape) -> list[Operation]:
        known = self._known.get(table.name)
        aimed = self._aimed
        if aimed is None and known and self._rng.random() < 0.8:
            self._aimed = self._rng.choice(known)
        self._keys, self._table = iter(self._aimed or ()), table.name
        made = super()._insert(table)
        self._keys, self._aimed = iter(()), aimed
        return made

    def _action(self, actions: Sequence[ActionShape]) -> tuple[str, tuple[int, ...]]:
        coverage = self._coverage
        points = {action: ("action", self._table, action.name) for action in actions}
        sinks = {a for a, p in points.items() if coverage.reached[p] >= ENOUGH and not coverage.left[p]}
        order = sorted(actions, key=lambda a: (a in sinks, coverage.left[points[a]], self._rng.random()))
        action = order[0] if self._rng.random() < 0.6 else self._rng.choice(order[: max(len(order) - len(sinks), 1)])
        if self._rng.random() < 0.1:
            action = self._rng.choice(actions)
        return action.name, tuple(self._value(width) for width in action.widths)

    def _match(self, key: Key) -> Match:
        value = next(self._keys, None)
        if value is None:
            return super()._match(key)
        rng, ones = self._rng, (1 << key.width) - 1
        match key.kind:
            case "exact":
                return Exact(value)
            case "lpm":
                prefix = rng.choice((key.width, key.width, key.width - 1, rng.randint(0, key.width)))
                return Lpm(value & ~(ones >> prefix) & ones, prefix)
            case "ternary":
                mask = rng.choice((ones, ones, 0, rng.getrandbits(key.width)))
                return Ternary(value & mask, mask)
            case "range":
                return Range(max(value - rng.randrange(2), 0), min(value + rng.randrange(2), ones))
        raise ValueError(f"no kind of match {key.kind!r}")


def _fits(matches: Sequence[Match], values: Sequence[int]) -> bool:
    """Return whether an entry may have matched a key; only exact fields are compared."""
    return all(not isinstance(one, Exact) or one.value == value for one, value in zip(matches, values, strict=True))
