"""A program compiled by a reference compiler, with cases and their expected outcomes."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from p4switch.interpreter import Event
from p4switch.interpreter.trace import ConditionEvaluated, PrimitiveRun, TableApplied
from p4switch.program import Program, load_program
from p4switch.program.actions import Conditional
from tests.support.conformance.fuzz.operations import Operation
from tests.support.conformance.fuzz.outcome import Outcome, differences, play
from tests.support.conformance.fuzz.shape import Shape, read_shape, shape_of
from tests.support.frontend.differential.cases import Coverage, GuidedCaseMaker, Point
from tests.support.frontend.differential.frames import ParserFrames
from tests.support.frontend.differential.switch import TimedSwitch
from tests.support.frontend.differential.values import Values

CASES: Final = 8
PACKETS: Final = 120


@dataclass(frozen=True)
class Seen:
    """Observed results of a case: frames and first cells of arrays, all cells of arrays, digests."""

    outcome: Outcome
    registers: dict[str, bytes]
    counters: dict[str, bytes]
    digests: list[tuple[int, ...]]


class Pair:
    """A reference and its outcomes of cases; ``differs`` compares another compilation with it."""

    def __init__(self, json: Path, name: str, cases: int = CASES, packets: int = PACKETS) -> None:
        self.shape: Shape = read_shape(json)
        self.program = load_program(json)
        self.frames = ParserFrames(json, Values(json))
        self.coverage = Coverage()
        self.cases: list[tuple[list[Operation], Seen]] = []
        for number in range(cases):
            rng = random.Random(f"{name} {number}")
            operations = GuidedCaseMaker(self.shape, self.frames, self.program, rng, self.coverage).case(packets)
            self.cases.append((operations, self.seen(self.program, operations)))

    def points(self) -> list[Point]:
        """Return all transitions of the parser, outcomes of conditions and actions of tables."""
        program = self.program
        found: list[Point] = [
            ("transition", state.name, str(transition.next_state))
            for state in program.parser.states.values()
            for transition in state.transitions
        ]
        for pipeline in (program.ingress, program.egress):
            for node in pipeline.nodes.values():
                if isinstance(node, Conditional):
                    found += [("condition", node.name, str(outcome)) for outcome in (True, False)]
                elif node.keys:
                    found += [("action", node.name, program.actions[number].name) for number in node.actions]
        return list(dict.fromkeys(found))

    def seen(self, program: Program, operations: Sequence[Operation]) -> Seen:
        """Return a program's observed results of a case."""
        switch = TimedSwitch(program)
        digests: list[tuple[int, ...]] = []
        switch.device.on_digest = lambda digest: digests.append(digest.values)
        outcome = play(operations, self.shape, switch)
        device = switch.device
        return Seen(
            outcome,
            {name: bytes(one._cells.tobytes()) for name, one in device.registers.items()},
            {name: one.cells.tobytes() for name, one in device.counters.items()},
            digests,
        )

    def lines(self, json: Any, file: str) -> set[int]:
        """Return the source lines that packets of the cases run, as far as the compilation has source locations."""
        found: set[int] = set()

        def note(event: Event) -> None:
            match event:
                case PrimitiveRun(primitive):
                    source = getattr(primitive, "source", None)
                case ConditionEvaluated(conditional):
                    source = conditional.source
                case TableApplied():
                    source = event.source
                case _:
                    return
            if source is not None and source.file == file:
                found.add(source.line)

        program = load_program(json)
        for operations, _ in self.cases:
            play(operations, self.shape, TimedSwitch(program, note))
        return found

    def differs(self, json: Any, shapes: bool = True) -> str:
        """Return the first difference of another compilation; empty if there is none.

        ``shapes``: compare the tables and arrays offered to the control plane, too.
        """
        program, shape = load_program(json), shape_of(json)
        if shapes and shape != self.shape:
            return f"what the control plane can set differs: {_first(self.shape, shape)}"
        for operations, expected in self.cases:
            try:
                found = self.seen(program, operations)
            except Exception as error:  # an entry that is refused is a difference, too
                return f"{type(error).__name__}: {error}"
            lines = differences(operations, expected.outcome, found.outcome)
            lines += _others("register", expected.registers, found.registers)
            lines += _others("counter", expected.counters, found.counters)
            if expected.digests != found.digests:
                lines.append(f"digests: expected {expected.digests[:3]} …, got {found.digests[:3]} …")
            if lines:
                return lines[0]
        return ""


def _first(expected: Shape, found: Shape) -> str:
    for name, table in expected.tables.items():
        if table != found.tables.get(name):
            return f"expected {table}, got {found.tables.get(name)}"
    return f"expected {expected}, got {found}"


def _others(what: str, expected: dict[str, Any], found: dict[str, Any]) -> list[str]:
    names = [name for name in expected if expected[name] != found.get(name)]
    return [f"{what} {name}: other cells" for name in names]
