"""A student's P4 program in one switch, and what it did with each frame."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from p4reduce_course.frame.grading import plain, skeleton_of
from p4reduce_course.frame.lab import Task
from p4reduce_course.frame.report import Wrong, counted
from p4reduce_course.sandbox.compiling import compile_apart
from p4switch.device import Device
from p4switch.interpreter.trace import HeaderEmitted, HeaderExtracted, ParserFailed, Verdict
from p4switch.program.errors import ProgramError
from p4switch.program.loader import load_program
from p4switch.program.program import Program
from p4switch.tables import Exact, TableEntry
from p4switch.trace.record import Packet, PacketTrace, Recorder

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


T = TypeVar("T")
_LIMIT: Final = 1 << 16
"""bytes of a student's program"""
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_SHOWN: Final = 5
"""errors of the compiler that are told at once"""


def compiled(task: Task, name: str) -> Program:
    """A student's program, loaded. Raises Wrong with what the compiler says, and where it is the skeleton still."""
    path = task.answers / name
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
    found = compile_apart(text, path.name)
    if found.json is None:
        said = "\n".join([f"{path.name} does not compile:", *found.messages[:_SHOWN]])
        if todos:
            said += f"\n{counted(len(todos), 'TODO')} left, line {', '.join(map(str, todos))}"
        raise Wrong(said, str(path), look)
    try:
        return load_program(found.json)
    except ProgramError as error:
        raise Wrong(f"{path.name}: the embedded switch does not run this: {error}", str(path), look) from None


@dataclass(frozen=True)
class Answer:
    """What a switch did with one frame.

    Attributes:
        sent: (port, frame) of what left.
    """

    trace: PacketTrace
    sent: tuple[tuple[int, bytes], ...]

    def events(self, kind: type[T]) -> list[T]:
        """What happened, of one kind."""
        return [event for event in self.trace.events if isinstance(event, kind)]

    @property
    def extracted(self) -> list[str]:
        """Headers that the parser took out, in their order."""
        return [event.header for event in self.events(HeaderExtracted)]

    @property
    def emitted(self) -> list[str]:
        """Headers that the deparser put in."""
        return [event.header for event in self.events(HeaderEmitted)]

    @property
    def parser_error(self) -> str:
        """Of the parser; empty where there was none."""
        return next((event.error for event in self.events(ParserFailed)), "")

    @property
    def group(self) -> int:
        """The multicast group that ingress ended with; 0: none."""
        return next((v.target for v in self.events(Verdict) if v.stage == "ingress" and v.kind == "multicast"), 0)


class Bench:
    """A switch that is traced, with empty registers and tables."""

    def __init__(self, program: Program) -> None:
        """A new switch with the program."""
        self.device = Device(program, executor="interpreted")
        self._recorder = Recorder(self.device)
        self.sent_in: list[tuple[int, bytes]] = []

    def send(self, port: int, frame: bytes) -> Answer:
        """One frame in by a port."""
        self.sent_in.append((port, frame))
        trace = self._recorder.run(Packet(frame, port))
        return Answer(trace, tuple((one.port, one.frame) for one in trace.sent))

    def group(self, number: int, ports: Sequence[int]) -> None:
        """A multicast group of these ports."""
        self.device.multicast.set(number, [(port, 0) for port in ports])

    def insert(self, table: str, match: Sequence[int], action: str, arguments: Sequence[int]) -> None:
        """An entry of an exact table; both names by their last part. Raises Wrong where the program lacks them."""
        name = _named(self.device.tables, table, "table")
        actions = {a.name: a for a in self.device.program.actions.values()}
        full = _named(actions, action, "action")
        self.device.tables[name].insert(TableEntry(tuple(Exact(value) for value in match), full, tuple(arguments)))

    def cells(self, register: str) -> list[int]:
        """All values of a register, named by its last part. Raises Wrong where the program lacks it."""
        found = self.device.registers[_named(self.device.registers, register, "register")]
        return [int(found.read(index)) for index in range(found.size)]


def _named(there: Mapping[str, object], wanted: str, what: str) -> str:
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
