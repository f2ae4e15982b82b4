"""Plays a case on a switch, and compares the outcomes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from p4switch.tables import TableEntry
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
from tests.support.conformance.fuzz.shape import Shape
from tests.support.conformance.targets.target import Sent, Target

CELLS: Final = 16
"""Cells of each array that are compared, from the first."""
READABLE: Final = (1 << 63) - 1
"""BMv2 reports this for any greater register value (its Thrift interface has signed 64-bit numbers). Programs that send
the cell out show its value in packets."""

Frames: TypeAlias = list[list[Any]]
"""[port, frame, frame ...] for each port on which frames left, sorted by port; frames in hex."""


@dataclass
class Outcome:
    """Frames that left for each frame that arrived, and the final state.

    Attributes:
        sent: frames that left after each Send.
        unordered: numbers of the Sends for which the switch's threads race, so that order on a port is arbitrary.
        registers, counters: the first cells of each array; zeros at the end are left out.
        direct: packets and bytes of each entry of a table with a direct counter, oldest first.
    """

    sent: list[Frames] = field(default_factory=list)
    registers: dict[str, list[int]] = field(default_factory=dict)
    counters: dict[str, list[list[int]]] = field(default_factory=dict)
    direct: dict[str, list[list[int]]] = field(default_factory=dict)
    unordered: list[int] = field(default_factory=list)


def play(operations: Sequence[Operation], shape: Shape, target: Target) -> Outcome:
    """Runs a case on a freshly started switch."""
    outcome = Outcome()
    live: dict[tuple[str, object], TableEntry] = {}
    for operation in operations:
        match operation:
            case Send(port, frame):
                target.send(port, frame)
                outcome.sent.append(by_port(target.drain()))
            case Insert(table, entry):
                live[table, entry.identity] = entry
                apply(operation, target)
            case Delete(table, entry):
                del live[table, entry.identity]
                apply(operation, target)
            case _:
                apply(operation, target)
    _read_state(outcome, shape, target, live)
    return outcome


def by_port(sent: Sent) -> Frames:
    """Groups frames by port: a switch with several threads promises an order on each port only."""
    ports: dict[int, list[str]] = {}
    for port, frame in sent:
        ports.setdefault(port, []).append(frame.hex())
    return [[port, *frames] for port, frames in sorted(ports.items())]


def unordered(frames: Frames) -> Frames:
    """Returns the frames of each port sorted, to compare without order."""
    return [[port, *sorted(some)] for port, *some in frames]


def merge(outcomes: Sequence[Outcome]) -> Outcome | None:
    """Returns the common outcome of several runs of one case; None if they differ in more than order."""
    first = outcomes[0]
    raced = list(first.unordered)
    for place, frames in enumerate(first.sent):
        others = [outcome.sent[place] for outcome in outcomes[1:]]
        if any(unordered(other) != unordered(frames) for other in others):
            return None
        if any(other != frames for other in others) and place not in raced:
            raced.append(place)
    states = [(outcome.registers, outcome.counters, outcome.direct) for outcome in outcomes]
    if any(state != states[0] for state in states):
        return None
    return Outcome(first.sent, first.registers, first.counters, first.direct, raced)


def apply(operation: Operation, target: Target) -> None:
    """Applies one operation that is not a Send."""
    match operation:
        case Insert(table, entry, None, None):
            target.insert(table, entry)
        case Insert(table, entry, member, group):
            target.insert_indirect(table, entry, member, group)
        case Modify(table, entry):
            target.modify(table, entry)
        case Delete(table, entry):
            target.delete(table, entry)
        case SetDefault(table, action, arguments):
            target.set_default(table, action, arguments)
        case SetGroup(group, replicas):
            target.set_group(group, replicas)
        case SetSession(session, replicas):
            target.set_clone_session(session, replicas)
        case SetMember(profile, member, action, arguments):
            target.set_member(profile, member, action, arguments)
        case SetMembers(profile, group, members):
            target.set_members(profile, group, members)
        case SetMeter(meter, index, committed, peak):
            target.set_meter(meter, index, committed, peak)
        case SetDirectMeter(table, entry, committed, peak):
            target.set_direct_meter(table, entry, committed, peak)
        case AddToValueSet(name, value):
            target.add_to_value_set(name, value)
        case WriteRegister(register, index, value):
            target.write_register(register, index, value)


def _read_state(outcome: Outcome, shape: Shape, target: Target, live: dict[tuple[str, object], TableEntry]) -> None:
    for name, size in shape.registers.items():
        values = [min(target.read_register(name, index), READABLE) for index in range(min(size, CELLS))]
        outcome.registers[name] = _trim(values, 0)
    for name, size in shape.counters.items():
        cells = [list(target.read_counter(name, index)) for index in range(min(size, CELLS))]
        outcome.counters[name] = _trim(cells, [0, 0])
    for name, table in shape.tables.items():
        if table.direct_counter is not None:
            entries = [entry for (where, _), entry in live.items() if where == name]
            outcome.direct[name] = [list(target.read_direct_counter(name, entry)) for entry in entries]


def _trim(cells: list[Any], zero: object) -> list[Any]:
    while cells and cells[-1] == zero:
        cells.pop()
    return cells


def differences(operations: Sequence[Operation], expected: Outcome, actual: Outcome) -> list[str]:
    """Returns the differences between two outcomes, one line each; frames with the operation that sent them."""
    found = []
    sends = [(number, one) for number, one in enumerate(operations) if isinstance(one, Send)]
    for place, ((number, send), wanted, got) in enumerate(zip(sends, expected.sent, actual.sent, strict=True)):
        raced = place in expected.unordered
        if (unordered(wanted) != unordered(got)) if raced else (wanted != got):
            found.append(f"operation {number}: port {send.port} {send.frame.hex()}: expected {wanted}, got {got}")
    for part in ("registers", "counters", "direct"):
        wanted_part, got_part = getattr(expected, part), getattr(actual, part)
        found += [
            f"{part} {name}: expected {wanted_part[name]}, got {got_part.get(name)}"
            for name in wanted_part
            if wanted_part[name] != got_part.get(name)
        ]
    return found
