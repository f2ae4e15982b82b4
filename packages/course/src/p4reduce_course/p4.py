"""A student's P4 program in one switch, and what it did with each frame."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from p4reduce_course.frame.grading import plain, skeleton_of
from p4reduce_course.frame.lab import Task
from p4reduce_course.frame.report import Wrong, counted
from p4reduce_course.sandbox.program import Answer, Parts, StudentProgram

# The frames of labs 03 and 05, packed by hand: Ethernet, kind, number, four lanes.


PUSH: Final = 1
RESULT: Final = 2
LANES: Final = 4
GROUP: Final = 1
_ETHERNET: Final = bytes.fromhex("020000000002020000000001")
_HEADER: Final = struct.Struct(">BI4I")
_START: Final = len(_ETHERNET) + 2
WRAP: Final = 1 << 32

Lanes = tuple[int, ...]


@dataclass(frozen=True)
class Sum:
    """A frame's header."""

    kind: int
    seq: int
    lanes: Lanes

    def frame(self, ether_type: int) -> bytes:
        """The frame."""
        return _ETHERNET + ether_type.to_bytes(2, "big") + _HEADER.pack(self.kind, self.seq, *self.lanes)


def read(data: bytes) -> Sum | None:
    """What a frame says; None where it is too short."""
    if len(data) < _START + _HEADER.size:
        return None
    kind, seq, *lanes = _HEADER.unpack_from(data, _START)
    return Sum(kind, seq, tuple(lanes))


def added(one: Lanes, other: Lanes) -> Lanes:
    """Lane by lane, modulo 2^32."""
    return tuple((a + b) % WRAP for a, b in zip(one, other, strict=True))


def full(workers: int) -> int:
    """The bits of all workers."""
    return (1 << workers) - 1


_LIMIT: Final = 1 << 16
"""bytes of a student's program"""
_SHOWN: Final = 5
"""errors of the compiler that are told at once"""


def compiled(task: Task, name: str, program: StudentProgram) -> Parts:
    """What a student's program is made of. Raises Wrong with what the compiler says, and where it is the skeleton."""
    path = program.file
    try:
        if path.stat().st_size > _LIMIT:
            raise Wrong(f"{path.name} has more than {_LIMIT} bytes: this lab takes fewer than 10,000", str(path))
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise Wrong(f"there is no {path.name}: hand it in", str(path)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise Wrong(f"{path.name} cannot be read: {error}", str(path)) from None
    todos = [number for number, line in enumerate(text.splitlines(), start=1) if re.search(r"\bTODO\b", line)]
    if plain(name, text) == plain(name, skeleton_of(task, name)):
        where = ", line " + ", ".join(map(str, todos)) if todos else ""
        said = "nothing is written yet (that is how the lab begins): see README.md"
        raise Wrong(said, f"{path}{where}")
    look = f"p4reduce p4 check {path}"
    found = program.compile(text)
    if found.refused:
        raise Wrong(f"{path.name}: the embedded switch does not run this: {found.refused}", str(path), look)
    if found.parts is None:
        said = "\n".join([f"{path.name} does not compile:", *found.messages[:_SHOWN]])
        if todos:
            said += f"\n{counted(len(todos), 'TODO')} left, line {', '.join(map(str, todos))}"
        raise Wrong(said, str(path), look)
    return found.parts


class Bench:
    """A switch with the program, with empty registers and tables; it stands in the program's process."""

    def __init__(self, program: StudentProgram, parts: Parts) -> None:
        """A new switch with the program."""
        self._program = program
        self._parts = parts
        self._switch = program.switch()

    def send(self, port: int, frame: bytes) -> Answer:
        """One frame in by a port."""
        return self._program.send(self._switch, port, frame)

    def group(self, number: int, ports: Sequence[int]) -> None:
        """A multicast group of these ports."""
        self._program.group(self._switch, number, ports)

    def insert(self, table: str, match: Sequence[int], action: str, arguments: Sequence[int]) -> None:
        """An entry of an exact table; both names by their last part. Raises Wrong where the program lacks them."""
        name = _named(self._parts.tables, table, "table")
        self._program.insert(self._switch, name, match, _named(self._parts.actions, action, "action"), arguments)

    def cells(self, register: str) -> list[int]:
        """All values of a register, named by its last part. Raises Wrong where the program lacks it."""
        return self._program.cells(self._switch, _named(self._parts.registers, register, "register"))

    def values(self, registers: Sequence[str], index: int) -> list[int]:
        """One cell of several registers, which are named by their last parts. Raises Wrong where one is missing."""
        names = [_named(self._parts.registers, register, "register") for register in registers]
        return self._program.values(self._switch, names, index)

    def size(self, register: str) -> int:
        """The number of cells of a register. Raises Wrong where the program lacks it."""
        return self._parts.registers[_named(self._parts.registers, register, "register")]


def _named(there: Iterable[str], wanted: str, what: str) -> str:
    found = [name for name in there if name == wanted or name.endswith(f".{wanted}")]
    if len(found) != 1:
        raise Wrong(f"the program has no {what} {wanted}: keep the names of the skeleton")
    return found[0]


def look(path: Path, frames: Sequence[tuple[int, bytes]], entries: str = "") -> str:
    """The command that shows the last of some frames; the earlier ones are sent before it."""
    listed = path.parent.parent / "packets.txt"
    if len(frames) > 1 or not frames:
        return ""
    port, frame = frames[-1]
    more = f" --entries {listed.parent / entries}" if entries else ""
    return f"p4reduce trace {path} --port {port} --packet {frame.hex()}{more} --brief"
