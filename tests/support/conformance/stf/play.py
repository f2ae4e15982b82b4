"""Plays an STF test on a switch."""

import operator
from collections.abc import Sequence
from typing import Final

from p4switch.program.program import Program
from p4switch.tables import TableEntry
from tests.support.conformance.stf.entries import default_of, entry_of
from tests.support.conformance.stf.names import find
from tests.support.conformance.stf.numbers import parse_number
from tests.support.conformance.stf.statements import (
    Add,
    CheckCounter,
    Command,
    Expect,
    Packet,
    SetDefault,
    Statement,
    StfError,
)
from tests.support.conformance.targets.target import Target

_COMPARISONS: Final = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Player:
    """One run of one test.

    Frames are compared in order for each port that the test mentions. Frames on other ports are ignored: p4c's runner
    gives BMv2 no such interface.
    """

    def __init__(self, program: Program, target: Target) -> None:
        self.program = program
        self.target = target
        self.problems: list[str] = []
        self._handles: dict[str, tuple[str, TableEntry]] = {}
        self._groups: dict[int, list[tuple[int, int]]] = {}
        self._nodes: list[list[tuple[int, int]]] = []
        self._left: dict[int, list[bytes]] = {}

    def play(self, statements: Sequence[Statement]) -> list[str]:
        """Returns the differences from the test's expectations; [] if it passed.

        Raises:
            StfError: the test does not fit the program.
            NotOffered: the target lacks an operation.
        """
        for statement in statements:
            self._do(statement)
        self._collect()
        self._compare(statements)
        return self.problems

    def _do(self, statement: Statement) -> None:
        match statement:
            case Add():
                table, entry = entry_of(self.program, statement)
                self.target.insert(table, entry)
                if statement.handle is not None:
                    self._handles[statement.handle] = (table, entry)
            case SetDefault():
                self.target.set_default(*default_of(self.program, statement))
            case Packet(port, frame):
                self.target.send(port, frame)
            case CheckCounter():
                self._collect()
                self._check_counter(statement)
            case Command():
                self._collect()
                self._command(statement)
            case _:
                self._collect()

    def _collect(self) -> None:
        for port, frame in self.target.drain():
            self._left.setdefault(port, []).append(frame)

    # --- commands of BMv2's command line

    def _command(self, command: Command) -> None:
        words = command.arguments
        match command.name:
            case "mc_mgrp_create":
                self._set_group(parse_number(words[0]), [])
            case "mc_node_create":
                rid = parse_number(words[0])
                self._nodes.append([(port, rid) for port in sorted(map(parse_number, words[1:]))])
            case "mc_node_associate":
                group, node = map(parse_number, words)
                self._set_group(group, [*self._groups[group], *self._nodes[node]])
            case "mirroring_add":
                session, port = map(parse_number, words)
                self.target.set_clone_session(session, [(port, 0)])
            case "mirroring_add_mc":
                session, group = map(parse_number, words)
                self.target.set_clone_group(session, group)
            case "register_write":
                self.target.write_register(self._register(words[0]), *map(parse_number, words[1:]))
            case "register_read" | "mirroring_get":
                pass  # only prints
            case _:
                raise StfError(f"line {command.line}: command {command.name} is not played")

    def _set_group(self, group: int, replicas: list[tuple[int, int]]) -> None:
        self._groups[group] = replicas
        self.target.set_group(group, replicas)

    def _register(self, name: str) -> str:
        return find("register", name, self.program.registers)

    # --- checks

    def _check_counter(self, check: CheckCounter) -> None:
        if check.index.startswith("$"):
            handle = self._handles.get(check.index[1:])
            if handle is None:
                raise StfError(f"line {check.line}: no entry is called {check.index[1:]}")
            packets, octets = self.target.read_direct_counter(*handle)
        else:
            name = find("counter", check.counter, self.program.counters)
            packets, octets = self.target.read_counter(name, parse_number(check.index))
        count = packets if check.unit == "packets" else octets
        if not _COMPARISONS[check.comparison](count, check.value):
            wanted = f"{check.comparison} {check.value}"
            self.problems.append(
                f"line {check.line}: counter {check.counter}({check.index}) has {count} {check.unit}, expected {wanted}"
            )

    def _compare(self, statements: Sequence[Statement]) -> None:
        expected: dict[int, list[Expect]] = {}
        for statement in statements:
            if isinstance(statement, Packet | Expect):
                wanted = expected.setdefault(statement.port, [])
                if isinstance(statement, Expect):
                    wanted.append(statement)
        for port, wanted in sorted(expected.items()):
            if any(one.pattern is None for one in wanted):
                continue
            self._compare_port(port, wanted, self._left.get(port, []))

    def _compare_port(self, port: int, wanted: list[Expect], left: list[bytes]) -> None:
        if len(wanted) != len(left):
            self.problems.append(
                f"port {port}: {len(left)} frames left, expected {len(wanted)}: {[f.hex() for f in left]}"
            )
        for one, frame in zip(wanted, left, strict=False):
            if not fits(frame, one):
                self.problems.append(
                    f"port {port}, line {one.line}: {frame.hex().upper()} left, expected {one.pattern}"
                )


def fits(frame: bytes, expect: Expect) -> bool:
    """Returns whether a frame matches an expectation."""
    digits, pattern = frame.hex().upper(), expect.pattern or ""
    if len(digits) < len(pattern) or (expect.exact and len(digits) != len(pattern)):
        return False
    return all(wanted in ("*", digit) for wanted, digit in zip(pattern, digits, strict=False))
