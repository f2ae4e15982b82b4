"""A student's P4 program in one switch, and its results for each frame."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, TypeVar

from p4reduce_course.frame.grading import skeleton_of
from p4reduce_course.frame.lab import GradingTask
from p4reduce_course.frame.likeness import plain
from p4reduce_course.frame.report import LOOK, Files, Wrong, counted
from p4reduce_course.sandbox.program import FrameAnswer, Parts, StudentProgram, WatchedFrame
from p4reduce_course.sandbox.trail import TrailStep

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
Cells = Sequence[tuple[str, int]]
"""register and index of some cells"""
T = TypeVar("T")


@dataclass(frozen=True)
class Sum:
    """The header of a frame."""

    kind: int
    seq: int
    lanes: Lanes

    def frame(self, ether_type: int, addresses: bytes = _ETHERNET) -> bytes:
        """Returns the frame; ``addresses``: destination and source."""
        return addresses + ether_type.to_bytes(2, "big") + _HEADER.pack(self.kind, self.seq, *self.lanes)


def read(data: bytes) -> Sum | None:
    """Returns the header of a frame; None if it is too short."""
    if len(data) < _START + _HEADER.size:
        return None
    kind, seq, *lanes = _HEADER.unpack_from(data, _START)
    return Sum(kind, seq, tuple(lanes))


def odd_part(data: bytes, came: bytes) -> str:
    """Returns what is not as it was in the frame that came, apart from the lab's header; empty if nothing."""
    for name, begin, end in (("dst", 0, 6), ("src", 6, 12), ("ether_type", 12, _START)):
        if data[begin:end] != came[begin:end]:
            return f"ethernet.{name}"
    return "payload" if len(data) != len(came) else ""


def added(lanes: Lanes, other: Lanes) -> Lanes:
    """Returns the sums lane by lane, modulo 2^32."""
    return tuple((a + b) % WRAP for a, b in zip(lanes, other, strict=True))


@dataclass(frozen=True)
class Push:
    """A worker's frame; workers count from 1, and worker n sits at port n.

    Attributes:
        bit: the worker's bit in a bitmap.
    """

    worker: int
    seq: int
    lanes: Lanes
    bit: int

    def frame(self, ether_type: int) -> bytes:
        """Returns the frame; each worker has addresses of its own, which do not tell its port."""
        addresses = bytes.fromhex("02bb000000") + bytes([0xE0 - self.worker])
        addresses += bytes.fromhex("02cc000000") + bytes([0xF0 - self.worker])
        return Sum(PUSH, self.seq, self.lanes).frame(ether_type, addresses)

    def __str__(self) -> str:
        """Returns the frame's name in messages."""
        return f"worker {self.worker}'s PUSH of chunk {self.seq}"


@dataclass(frozen=True)
class Members:
    """The workers of a switch, at ports 1, 2, ..., and the bits that the controller gives them.

    Attributes:
        moved: 0: worker n has bit n - 1; else the last worker has this bit, the others those above it, and the first
            two the highest of all, 31 and 30.
    """

    count: int
    moved: int = 0

    def bit(self, worker: int) -> int:
        """Returns a worker's bit."""
        if not self.moved:
            return 1 << worker - 1
        return 1 << (32 - worker if worker < 3 else self.moved + self.count - worker)

    @property
    def bits(self) -> dict[int, int]:
        """The workers' bits, by port."""
        return {worker: self.bit(worker) for worker in range(1, self.count + 1)}

    @property
    def full(self) -> int:
        """The bitmap of all workers."""
        return sum(self.bits.values())

    def push(self, worker: int, seq: int, lanes: Lanes) -> Push:
        """Returns a worker's frame."""
        return Push(worker, seq, lanes, self.bit(worker))


# Correct switches: of lab 05 here, of lab 03 beside its grader.


@dataclass
class SumModel:
    """Bitmaps and sums of a correct switch, by the index of their cell; a cell that is not there is empty.

    Attributes:
        slots: the number of slots.
        full: the bits of all workers.
    """

    slots: int
    full: int
    bitmaps: dict[int, int] = field(default_factory=dict)
    sums: dict[int, Lanes] = field(default_factory=dict)

    def take(self, cell: int, push: Push) -> bool:
        """Adds a frame to a cell, unless its worker is in already; returns whether it was added."""
        before = self.bitmaps.get(cell, 0)
        if before & push.bit:
            return False
        self.sums[cell] = added(self.sums[cell], push.lanes) if before else push.lanes
        self.bitmaps[cell] = before | push.bit
        return True


HIGH: Final = WRAP - 64
"""the first of the last chunks that there can be; it uses cell 0"""
Outcome = Literal["first", "complete", "early", "late"]
"""A first contribution, a contribution that completes its chunk, a repetition before, or after, the completion."""


@dataclass
class TwoCellModel(SumModel):
    """The state of a correct switch with two cells for each slot; ``done`` tells by cell whether all workers are in."""

    done: dict[int, int] = field(default_factory=dict)

    def push(self, push: Push) -> Outcome:
        """Takes one frame; returns its outcome."""
        cell = push.seq % (2 * self.slots)
        if not self.take(cell, push):
            return "late" if self.done[cell] else "early"
        other = (cell + self.slots) % (2 * self.slots)
        self.bitmaps[other] = self.bitmaps.get(other, 0) & ~push.bit
        self.done[cell] = int(self.bitmaps[cell] == self.full)
        return "complete" if self.done[cell] else "first"

    def possible(self, pushes: Sequence[Push]) -> bool:
        """Returns whether real workers could send these frames, given that frames and RESULTs may be lost."""
        there: dict[int, set[int]] = {}
        newest: dict[int, int] = {}
        workers = self.full.bit_count()
        for push in pushes:
            mine, seq = newest.get(push.worker, -1), push.seq
            seq -= HIGH - 2 * self.slots if seq >= HIGH else 0  # they follow the first chunks of all cells
            if seq >= self.slots and len(there.get(seq - self.slots, ())) < workers:
                return False  # a worker must have the RESULT of the other cell first
            if seq <= mine - self.slots:
                return False  # the worker has the RESULT of this chunk already
            there.setdefault(seq, set()).add(push.worker)
            newest[push.worker] = max(mine, seq)
        return True


# Shortening the frames that show a mistake.


_MOST: Final = 1500
"""most frames sent while searching for a shorter sequence"""
_HALF: Final = WRAP >> 1
"""half of 2^32; the sum of two such lanes wraps around"""


def minimal(items: Sequence[T], fails: Callable[[list[T]], bool]) -> None:
    """Removes parts, large ones first, while the remaining items fail; ``fails`` records the best remainder.

    Delta debugging: A. Zeller and R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002.
    """
    rest = list(items)
    size = len(rest)
    while size:
        start = 0
        while start < len(rest):
            kept = rest[:start] + rest[start + size :]
            if fails(kept):
                rest = kept
            else:
                start += size
        size //= 2


def shrunk(pushes: Sequence[Push], slots: int, fails: Callable[[Sequence[Push]], bool]) -> list[Push]:
    """Returns fewer frames with smaller numbers, the last of which still fails.

    Frames are removed (`minimal`), then lanes are made small. The search sends about 1,500 frames, so the result is
    short, though not always the shortest.

    Args:
        pushes: frames, the last of which fails.
        slots: number of slots of the switch; chunks this far apart share a slot.
        fails: returns whether the last frame fails and real workers could send these frames.
    """
    best, sent = list(pushes), 0

    def better(candidate: list[Push]) -> bool:
        nonlocal best, sent
        sent += len(candidate)
        if not candidate or candidate == best or sent > _MOST or not fails(candidate):
            return False
        best = candidate
        return True

    last = best[-1]
    if not better([last]) and not better([push for push in best if push.seq == last.seq]):
        better([push for push in best if push.seq % slots == last.seq % slots])
    minimal(best[:-1], lambda kept: better([*kept, best[-1]]))
    sent = 0
    if not better(_small(best)):
        better([replace(push, lanes=(_HALF,) * LANES) for push in best])
    return best


def _small(pushes: Sequence[Push]) -> list[Push]:
    """Returns the frames with lanes that tell worker and chunk: worker 2 has 3, 30, 300, 3000 in its first chunk.

    The numbers are powers of 3, so that no sum equals another sum or twice a number.
    """
    chunks = {seq: place for place, seq in enumerate(dict.fromkeys(push.seq for push in pushes))}
    base = 10 ** len(str(3 ** max(push.worker for push in pushes)))
    return [
        replace(
            push,
            lanes=tuple((base * chunks[push.seq] + 3 ** (push.worker - 1)) * 10**lane % WRAP for lane in range(LANES)),
        )
        for push in pushes
    ]


def shown(
    file: Path, home: Path, name: str, members: Members, frames: Sequence[tuple[int, bytes, str]]
) -> tuple[str, Files]:
    """Returns the command that traces the last of some frames, and the files of entries and packets that it reads.

    Args:
        file: the student's program.
        home: folder of the lab's copy.
        name: name of the files.
        members: the workers.
        frames: port, frame and remark of each.
    """
    entries, packets = f"{members.count}-workers.yaml", f"{name}.txt"
    look = f"p4reduce trace {file} --entries {home / LOOK / entries} --packet {home / LOOK / packets}"
    lines = [f"{port} {frame.hex()} # {remark}" for port, frame, remark in frames]
    heading = f"# Port, frame, remark: {counted(len(frames), 'frame')}; the last one shows it.\n"
    texts = ((entries, entries_text(members)), (packets, heading + "\n".join(lines) + "\n"))
    return f"{look} --only {len(frames)} --brief", texts


@dataclass(frozen=True)
class Strangers:
    """Frames that the skeletons of labs 03 and 05 drop, since they are not for the slots.

    Attributes:
        home: folder of the lab's copy.
    """

    path: Path
    home: Path
    ether_type: int
    registers: Sequence[str]

    def check(self, program: StudentProgram, parts: Parts) -> None:
        """Raises Wrong if such a frame is sent on, or changes a register, empty or with a worker's PUSH in it."""
        lanes, members = (1, 2, 3, 4), Members(3)
        there = {name.rpartition(".")[2] for name in parts.registers} & set(self.registers)
        push, first = Sum(PUSH, 0, lanes), members.push(1, 0, lanes)
        kinds = [(number, f"a frame of kind {number}") for number in (PUSH ^ 1 << bit for bit in range(8))]
        frames = [
            (5, push.frame(self.ether_type), "a PUSH by a port without a worker", "table worker has no entry for it"),
            *(
                (2, Sum(kind, 0, lanes).frame(self.ether_type), what, "its kind is not PUSH")
                for kind, what in [(RESULT, "a RESULT of a worker"), *kinds]
            ),
            *(
                (2, push.frame(self.ether_type ^ 1 << bit), "a frame of another EtherType", "hdr.sum is not valid")
                for bit in range(16)
            ),
        ]
        with new_bench(program, parts, members) as bench:
            for before in ((), (first,)):
                earlier = [(other.worker, other.frame(self.ether_type), str(other)) for other in before]
                for port, data, _ in earlier:
                    bench.send(port, data)
                cells = {register: bench.cells(register) for register in there}
                for port, data, what, why in frames:
                    look = shown(self.path, self.home, "strangers", members, [*earlier, (port, data, what)])
                    if bench.send(port, data).sent:
                        problem = f"{what} was sent on; the skeleton drops it, because {why}"
                        raise Wrong(f"{problem}: leave the first if as it is", str(self.path), *look)
                    if any(bench.cells(register) != cells[register] for register in there):
                        problem = f"{what} is not for the slots, because {why}, and changed a register"
                        raise Wrong(problem, str(self.path), *look)


def entries_text(members: Members) -> str:
    """Returns a file for ``p4reduce trace``: workers at ports 1, 2, ..., and group 1 of all of them."""
    count = members.count
    lines = [f"# {counted(count, 'worker').capitalize()}, at ports 1 to {count}.", "tables:"]
    for port, bit in members.bits.items():
        lines.append(f"  - {{table: worker, match: {{std.ingress_port: {port}}}, action: member,")
        lines.append(f"     params: {{bit_: {bit:#b}, full: {members.full:#b}}}}}")
    replicas = ", ".join(f"{{port: {port}, rid: 0}}" for port in members.bits)
    return "\n".join([*lines, "multicast:", f"  - {{group: {GROUP}, replicas: [{replicas}]}}"]) + "\n"


_LIMIT: Final = 1 << 16
"""most bytes of a student's program"""
_SHOWN: Final = 5
"""most compiler errors that are shown at once"""


def compiled(task: GradingTask, name: str, program: StudentProgram) -> Parts:
    """Returns the parts of a program. Raises Wrong with the compiler's errors, or if it is the skeleton."""
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
        problem = "nothing is written yet (that is how the lab begins): see README.md"
        raise Wrong(problem, f"{path}{where}")
    look = f"p4reduce p4 check {path}"
    compilation = program.compile(text)
    if compilation.refused:
        raise Wrong(f"{path.name}: the embedded switch does not run this: {compilation.refused}", str(path), look)
    if compilation.parts is None:
        problem = "\n".join([f"{path.name} does not compile:", *compilation.messages[:_SHOWN]])
        if todos:
            problem += f"\n{counted(len(todos), 'TODO')} left, line {', '.join(map(str, todos))}"
        raise Wrong(problem, str(path), look)
    return compilation.parts


class P4Bench:
    """A new switch with the student's program, in the process of that program."""

    def __init__(self, program: StudentProgram, parts: Parts) -> None:
        """Makes a switch with empty registers and tables."""
        self._program = program
        self._parts = parts
        self._switch = program.switch()

    def close(self) -> None:
        """Frees the switch's memory."""
        self._program.forget(self._switch)

    def send(self, port: int, frame: bytes) -> FrameAnswer:
        """Sends one frame into a port; returns the result."""
        return self._program.send(self._switch, port, frame)

    def fill(self, table: str, action: str, entries: Mapping[int, Sequence[int]]) -> None:
        """Fills an exact table of one key by port, and group 1 with these ports. Raises Wrong if a name is missing."""
        name, runs = _named(self._parts.tables, table, "table"), _named(self._parts.actions, action, "action")
        self._program.fill(self._switch, name, runs, entries, GROUP)

    def cells(self, register: str) -> list[int]:
        """Returns all values of a register, named by its last part. Raises Wrong if the program lacks it."""
        return self._program.cells(self._switch, _named(self._parts.registers, register, "register"))

    def watch(self, frames: Sequence[tuple[int, bytes, Cells]], everywhere: Sequence[str] = ()) -> list[WatchedFrame]:
        """Sends frames, given as port, frame, and cells whose values are read before and after the frame.

        ``everywhere``: registers whose changed cells are all returned. Names are the last parts of full names.
        """
        named = {name: _named(self._parts.registers, name, "register") for name in everywhere}
        named |= {name: _named(self._parts.registers, name, "register") for _, _, cells in frames for name, _ in cells}
        sent = [(port, frame, [(named[name], cell) for name, cell in cells]) for port, frame, cells in frames]
        watched = self._program.watch(self._switch, sent, [named[name] for name in everywhere])
        if len(watched) != len(frames):
            raise Wrong(f"{self._program.file.name}: a frame has no answer", str(self._program.file))
        return watched

    def trails(self, frames: Sequence[tuple[int, bytes]]) -> list[list[TrailStep]]:
        """Sends frames; returns the steps of each."""
        return [steps for port, frame in frames for steps in self._program.trails(self._switch, [(port, frame, 0)])]

    def size(self, register: str) -> int:
        """Returns the number of cells of a register. Raises Wrong if the program lacks it."""
        return self._parts.registers[_named(self._parts.registers, register, "register")]


def _named(there: Iterable[str], wanted: str, what: str) -> str:
    full_names = [name for name in there if name == wanted or name.endswith(f".{wanted}")]
    if len(full_names) != 1:
        raise Wrong(f"the program has no {what} {wanted}: keep the names of the skeleton")
    return full_names[0]


def look(path: Path, port: int, frame: bytes) -> str:
    """Returns the command that traces one frame without table entries."""
    return f"p4reduce trace {path} --port {port} --packet {frame.hex()} --brief"


@contextmanager
def new_bench(program: StudentProgram, parts: Parts, members: Members) -> Iterator[P4Bench]:
    """Yields a switch with workers at ports 1, 2, ... and group 1 of all of them, for labs 03 and 05."""
    bench = P4Bench(program, parts)
    try:
        bench.fill("worker", "member", {port: (bit, members.full) for port, bit in members.bits.items()})
        yield bench
    finally:
        bench.close()
