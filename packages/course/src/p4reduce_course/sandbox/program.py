"""A student's P4 program, compiled and run in a confined process with bounded resources; its results are data.

The grader starts one server process that has loaded compiler and interpreter and has no threads. The server makes a
copy of itself for each program; the copy confines itself and answers the grader's calls until it is ended.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked

import p4switch
from p4reduce_course.frame.report import Wrong
from p4reduce_course.sandbox.child import Channel, moved, serve
from p4reduce_course.sandbox.confine import MIB, ProcessLimits, confine, die_with_parent, undumpable
from p4reduce_course.sandbox.process import Apart, GraderProcess
from p4reduce_course.sandbox.trail import TrailStep, trail_of
from p4switch.device import Device
from p4switch.interpreter.trace import (
    ConditionEvaluated,
    Event,
    HeaderEmitted,
    HeaderExtracted,
    ParserFailed,
    PrimitiveRun,
    TableApplied,
    Verdict,
)
from p4switch.p4.compile import compile_text
from p4switch.program.errors import ProgramError, SourceInfo
from p4switch.program.expressions import FieldRef
from p4switch.program.loader import load_program
from p4switch.program.program import ParserState, Program, Transition
from p4switch.tables import Exact, TableEntry
from p4switch.trace import EntriesError, Packet, Recorder, parse_entries

LIMITS: Final = ProcessLimits(cpu_s=30, wall_s=60, calls_s=900, memory=1024 * MIB, files=32)
"""``memory`` is added to what the process has at its start; ``cpu_s`` covers compiling and all frames"""
_STRICT: Final = ConfigDict(extra="forbid")
_MESSAGE: Final = 1 << 14
"""most bytes of a message between the grader and the server"""


@checked(config=_STRICT, frozen=True)
class Parts:
    """The elements of a program.

    Attributes:
        headers: the fields of each header, with their bits.
        states: parser states; whether each has a select whose lines do not fit all frames.
        deparser: headers in the order in which they are emitted.
        tables, actions: full names.
        registers: number of cells of each register, by its full name.
        lines: lines of the source that frames may run.
    """

    headers: dict[str, list[tuple[str, int]]]
    states: dict[str, bool]
    deparser: list[str]
    tables: list[str]
    actions: list[str]
    registers: dict[str, int]
    lines: list[int]


@checked(config=_STRICT, frozen=True)
class Compiled:
    """The results of compiler and switch for a program.

    Attributes:
        parts: the program's elements; None if it does not compile.
        messages: messages of the compiler.
        refused: why the embedded switch does not run it; empty if it does.
    """

    parts: Parts | None
    messages: list[str]
    refused: str


@checked(config=_STRICT, frozen=True)
class FrameAnswer:
    """The result of one frame in a switch.

    Attributes:
        sent: (port, frame) of each frame that left.
        extracted: headers that the parser extracted, in order.
        emitted: headers that the deparser emitted.
        parser_error: error of the parser; empty if there was none.
        group: the multicast group at the end of ingress; 0: none.
        digests: the elements of each digest to the controller.
        lines: lines of the source that it ran, each once.
    """

    sent: tuple[tuple[int, bytes], ...]
    extracted: list[str]
    emitted: list[str]
    parser_error: str
    group: int
    digests: tuple[tuple[int, ...], ...]
    lines: list[int]


@checked(config=_STRICT, frozen=True)
class FramesPlayed:
    """The results of frames in a switch, which exists until all have been played.

    Attributes:
        problem: why the program cannot take the entries; empty if it does.
    """

    switch: int
    problem: str
    answers: list[FrameAnswer]


@checked(config=_STRICT, frozen=True)
class WatchedFrame:
    """The result of one frame, and what it changed in registers.

    Attributes:
        before, after: values of the cells that were asked for.
        changed: registers and cells that it changed, of those that were looked at as a whole.
    """

    answer: FrameAnswer
    before: list[int]
    after: list[int]
    changed: list[tuple[str, int]]


T = TypeVar("T")


@cache
def _adapter(kind: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(cast(Any, kind))


class StudentProgram(Apart):
    """A P4 program and its switches in a confined process. Every failure of the process is raised as Wrong."""

    def __init__(self, file: Path, limits: ProcessLimits = LIMITS, seen: dict[str, None] | None = None) -> None:
        """Does not start the process before the first call."""
        super().__init__(file, limits, seen)

    def compile(self, text: str) -> Compiled:
        """Compiles a text, which may include core.p4 and v1model.p4; returns the results of compiler and switch."""
        return self._told(Compiled, self.call("compile", text, self.file.name))

    def switch(self) -> int:
        """Makes a switch with empty registers and tables; returns its number."""
        return self._told(int, self.call("switch"))

    def forget(self, switch: int) -> None:
        """Frees the memory of a switch."""
        self.call("forget", switch)

    def send(self, switch: int, port: int, frame: bytes) -> FrameAnswer:
        """Sends one frame in by a port; returns the result."""
        return self.play(switch, [(port, frame, 0)])[0]

    def play(self, switch: int, frames: Sequence[tuple[int, bytes, int]]) -> list[FrameAnswer]:
        """Sends several frames in order: port, frame and time in microseconds of each. Returns the results."""
        answers = self._told(list[FrameAnswer], self.call("play", switch, [list(frame) for frame in frames]))
        if len(answers) != len(frames):
            raise self._no_answer()
        return answers

    def begin(self, entries: str, frames: Sequence[tuple[int, bytes, int]], *, until_digest: bool) -> FramesPlayed:
        """Makes a switch with entries, and plays frames; ``until_digest``: up to the first that tells a digest."""
        return self._told(FramesPlayed, self.call("begin", entries, [list(frame) for frame in frames], until_digest))

    def go_on(self, switch: int, entries: str, frames: Sequence[tuple[int, bytes, int]]) -> FramesPlayed:
        """Loads more entries into such a switch, and plays more frames up to the first that tells a digest."""
        return self._told(FramesPlayed, self.call("go_on", switch, entries, [list(frame) for frame in frames]))

    def watch(
        self,
        switch: int,
        frames: Sequence[tuple[int, bytes, Sequence[tuple[str, int]]]],
        everywhere: Sequence[str] = (),
    ) -> list[WatchedFrame]:
        """Sends frames: port, frame, and cells whose values are returned; ``everywhere``: registers looked at whole."""
        sent = [[port, frame, [list(cell) for cell in cells]] for port, frame, cells in frames]
        return self._told(list[WatchedFrame], self.call("watch", switch, sent, list(everywhere)))

    def trails(self, switch: int, frames: Sequence[tuple[int, bytes, int]]) -> list[list[TrailStep]]:
        """Sends frames as ``play`` does; returns the steps of each."""
        return self._told(list[list[TrailStep]], self.call("trails", switch, [list(frame) for frame in frames]))

    def load(self, switch: int, entries: str) -> str:
        """Loads an entries file of ``p4reduce trace``; returns why the program cannot take it, or an empty text."""
        return self._told(str, self.call("load", switch, entries))

    def fill(self, switch: int, table: str, action: str, entries: Mapping[int, Sequence[int]], group: int) -> None:
        """Fills an exact table by its key, and makes a multicast group of these keys; names are full."""
        listed = [[key, list(arguments)] for key, arguments in entries.items()]
        self.call("fill", switch, table, action, listed, group)

    def cells(self, switch: int, register: str) -> list[int]:
        """Returns all values of a register, given by its full name."""
        return self._told(list[int], self.call("cells", switch, register))

    def _told(self, kind: type[T], value: Any) -> T:
        try:
            valid: T = _adapter(cast(Hashable, kind)).validate_python(value)
        except ValidationError:
            raise self._no_answer() from None
        return valid

    def _no_answer(self) -> Wrong:
        return Wrong(f"{self.file.name}: what came from the process that runs it is no answer", str(self.file))

    def _begin(self, folder: Path, inward: int, outward: int, prints: int) -> GraderProcess:
        return _SERVER.copy(folder, self.limits, (inward, outward, prints))

    def _checked(self, message: dict[str, Any], name: str) -> Any:
        if message.get("kind") == "MemoryError":
            raise Wrong(f"{self._doing(name)} needs more memory for it than a lab gives", str(self.file))
        return super()._checked(message, name)

    def _doing(self, name: str) -> str:
        return f"{self.file.name}: the compiler" if name == "compile" else f"{self.file.name}: the switch"


# The grader's end of the server.


class _Server:
    """The server of this process; threads take turns."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._of = 0
        self._lock = threading.Lock()

    def copy(self, folder: Path, limits: ProcessLimits, descriptors: Sequence[int]) -> GraderProcess:
        """Makes a copy that is confined to a folder; starts the server if it does not run."""
        with self._lock:
            if self._process is None or self._of != os.getpid() or self._process.poll() is not None:
                self._start()
            process_id = self._asked({"folder": str(folder), "limits": asdict(limits)}, descriptors)
        if process_id is None:
            raise Wrong("the process that runs P4 programs has ended")
        return _Copy(process_id, self)

    def ended(self, copy: int, *, wait: bool) -> int | None:
        """Returns the exit code of a copy; None while it runs; -9 if the server has ended, which ends its copies."""
        with self._lock:
            if self._of != os.getpid() or self._process is None:
                return -signal.SIGKILL
            code = self._asked({"of": copy, "wait": wait})
        return -signal.SIGKILL if code is None else None if code == _RUNS else code

    def _asked(self, question: dict[str, Any], descriptors: Sequence[int] = ()) -> int | None:
        assert self._socket is not None  # noqa: S101  (it was started)
        try:
            socket.send_fds(self._socket, [json.dumps(question).encode()], descriptors)
            data = self._socket.recv(_MESSAGE)
        except OSError:
            return None
        return int(data) if data else None

    def _start(self) -> None:
        undumpable()
        path = os.pathsep.join(folder for folder in sys.path if folder)
        if self._socket is not None:
            self._socket.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-s", "-m", "p4reduce_course.sandbox.program", str(theirs.fileno())],
                env={"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", "LANG": "C.UTF-8"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._socket, self._of = ours, os.getpid()
        atexit.register(self.close)

    def close(self) -> None:
        """Ends the server and its copies; without this call they end with the grader."""
        process, self._process = self._process, None
        if process is not None and self._of == os.getpid():
            if self._socket is not None:
                self._socket.close()
                self._socket = None
            process.kill()
            process.wait()


_RUNS: Final = 1 << 10
"""answer for a copy that still runs; exit codes are smaller"""


@dataclass
class _Copy:
    """A copy of the server, with the methods of ``subprocess.Popen``; its number is valid until it is waited for."""

    pid: int
    server: _Server
    code: int | None = None

    def poll(self) -> int | None:
        """Returns the exit code; None while the copy runs."""
        if self.code is None:
            self.code = self.server.ended(self.pid, wait=False)
        return self.code

    def wait(self) -> int:
        """Waits until the copy has ended; returns the exit code."""
        if self.code is None:
            self.code = self.server.ended(self.pid, wait=True)
        assert self.code is not None  # noqa: S101  (it was waited for)
        return self.code

    def kill(self) -> None:
        """Sends SIGKILL."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


_SERVER = _Server()


# The server and its copies.


def main() -> None:
    """Makes copies of this process, and reports how they ended, until the grader closes its end."""
    undumpable()
    grader = socket.socket(fileno=int(sys.argv[1]))
    while True:
        data, descriptors, _, _ = socket.recv_fds(grader, _MESSAGE, 3)
        if not data:
            return
        asked = json.loads(data)
        if "of" in asked:
            told = _ended(asked["of"], wait=asked["wait"])
        else:
            told = copied(Path(asked["folder"]), ProcessLimits(**asked["limits"]), descriptors, SandboxSwitches())
        grader.send(str(told).encode())


def _ended(copy: int, *, wait: bool) -> int:
    try:
        number, status = os.waitpid(copy, 0 if wait else os.WNOHANG)
    except ChildProcessError:  # a copy of an earlier server
        return -signal.SIGKILL
    return os.waitstatus_to_exitcode(status) if number else _RUNS


def copied(folder: Path, limits: ProcessLimits, descriptors: Sequence[int], functions: Any) -> int:
    """Forks a copy, which confines itself and answers calls with these functions; returns its process id."""
    process = os.fork()
    if process == 0:
        _copy(folder, limits, descriptors, functions)
    for descriptor in descriptors:
        os.close(descriptor)
    return process


def _copy(folder: Path, limits: ProcessLimits, descriptors: Sequence[int], functions: Any) -> None:
    """Runs the copy; never returns."""
    try:
        gc.freeze()  # the copy must not clean up the server's objects
        die_with_parent()
        inward, outward, prints = descriptors
        for stream in (1, 2):
            os.dup2(prints, stream)
        channel = Channel(*moved(inward, outward))
        os.closerange(5, 1 << 16)
        pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
        memory = pages * os.sysconf("SC_PAGE_SIZE") + limits.memory
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        readable = [Path(p4switch.__file__).parent, Path(os.__file__).parent]
        ways = confine(ProcessLimits(limits.cpu_s, memory=memory, files=limits.files), readable, folder)
        channel.write({"confined": ways})
        serve(channel, functions, folder)
    finally:
        os._exit(1)


class SandboxSwitches:
    """The functions that the grader calls in the copy."""

    def __init__(self) -> None:
        self._program: Program | None = None
        self._switches: dict[int, tuple[Device, Recorder]] = {}
        self._digests: list[tuple[int, ...]] = []
        self._made = 0

    def compile(self, text: str, name: str) -> dict[str, Any]:
        """Returns ``Compiled`` as plain data."""
        compilation = compile_text(text, name, library_only=True)
        messages = [str(message) for message in compilation.messages()]
        if not compilation.ok or compilation.json is None:
            return {"parts": None, "messages": messages, "refused": ""}
        try:
            self._program = load_program(compilation.json)
        except ProgramError as error:
            return {"parts": None, "messages": messages, "refused": str(error)}
        return {
            "parts": _parts(self._program) | {"lines": _lines(compilation.json)},
            "messages": messages,
            "refused": "",
        }

    def switch(self) -> int:
        """Makes a switch; returns its number."""
        assert self._program is not None  # noqa: S101  (it was compiled)
        device = Device(self._program, executor="interpreted")
        device.on_digest = lambda digest: self._digests.append(digest.values)
        self._made += 1
        self._switches[self._made] = device, Recorder(device)
        return self._made

    def forget(self, switch: int) -> None:
        """Frees a switch's memory."""
        del self._switches[switch]

    def play(self, switch: int, frames: list[list[Any]]) -> list[dict[str, Any]]:
        """Returns the ``FrameAnswer`` for each frame as plain data."""
        return [self._sent(switch, port, frame, time_us) for port, frame, time_us in frames]

    def begin(self, entries: str, frames: list[list[Any]], until_digest: bool) -> dict[str, Any]:
        """Returns ``FramesPlayed`` for a new switch as plain data."""
        switch = self.switch()
        if problem := self.load(switch, entries):
            self.forget(switch)
            return {"switch": switch, "problem": problem, "answers": []}
        return self._on(switch, frames, until_digest)

    def go_on(self, switch: int, entries: str, frames: list[list[Any]]) -> dict[str, Any]:
        """Returns ``FramesPlayed`` for further entries and frames as plain data."""
        self.load(switch, entries)
        return self._on(switch, frames, True)

    def _on(self, switch: int, frames: list[list[Any]], until_digest: bool) -> dict[str, Any]:
        answers: list[dict[str, Any]] = []
        for port, frame, time_us in frames:
            answers.append(self._sent(switch, port, frame, time_us))
            if until_digest and answers[-1]["digests"]:
                break
        if len(answers) == len(frames):
            self.forget(switch)
        return {"switch": switch, "problem": "", "answers": answers}

    def watch(self, switch: int, frames: list[list[Any]], everywhere: list[str]) -> list[dict[str, Any]]:
        """Returns the ``WatchedFrame`` of each frame as plain data."""
        watched = []
        for port, frame, cells in frames:
            before = [self.values(switch, [name], cell)[0] for name, cell in cells]
            all_before = {name: self.cells(switch, name) for name in everywhere}
            answer = self._sent(switch, port, frame, 0)
            after = [self.values(switch, [name], cell)[0] for name, cell in cells]
            all_after = {name: self.cells(switch, name) for name in everywhere}
            changed = [
                (name, cell)
                for name, values in all_after.items()
                for cell, value in enumerate(values)
                if value != all_before[name][cell]
            ]
            watched.append({"answer": answer, "before": before, "after": after, "changed": changed})
        return watched

    def trails(self, switch: int, frames: list[list[Any]]) -> list[list[dict[str, Any]]]:
        """Returns the ``TrailStep`` of each frame as plain data."""
        recorder = self._switches[switch][1]
        packets = [Packet(frame, port, time_us=time_us) for port, frame, time_us in frames]
        return [trail_of(recorder.run(packet), packet.time_us) for packet in packets]

    def load(self, switch: int, entries: str) -> str:
        """Loads entries from text; returns what is wrong with them."""
        device = self._switches[switch][0]
        try:
            parse_entries(entries, device.program).apply(device, over=True)
        except EntriesError as error:
            return str(error)
        return ""

    def _sent(self, switch: int, port: int, frame: bytes, time_us: int) -> dict[str, Any]:
        self._digests.clear()
        trace = self._switches[switch][1].run(Packet(frame, port, time_us=time_us))
        verdicts = [event for event in trace.events if isinstance(event, Verdict)]
        groups = [verdict.target for verdict in verdicts if verdict.stage == "ingress" and verdict.kind == "multicast"]
        errors = [event.error for event in trace.events if isinstance(event, ParserFailed)]
        return {
            "sent": [(packet.port, packet.frame) for packet in trace.sent],
            "extracted": [event.header for event in trace.events if isinstance(event, HeaderExtracted)],
            "emitted": [event.header for event in trace.events if isinstance(event, HeaderEmitted)],
            "parser_error": errors[0] if errors else "",
            "group": groups[0] if groups else 0,
            "digests": list(self._digests),
            "lines": sorted({source.line for source in map(_source, trace.events) if source is not None}),
        }

    def fill(self, switch: int, table: str, action: str, entries: list[list[Any]], group: int) -> None:
        """Fills an exact table by its key, and makes a multicast group of these keys."""
        device = self._switches[switch][0]
        for key, arguments in entries:
            device.tables[table].insert(TableEntry((Exact(key),), action, tuple(arguments)))
        device.multicast.set(group, [(key, 0) for key, _ in entries])

    def cells(self, switch: int, register: str) -> list[int]:
        """Returns all values of a register."""
        array = self._switches[switch][0].registers[register]
        return [int(array.read(index)) for index in range(array.size)]

    def values(self, switch: int, registers: list[str], index: int) -> list[int]:
        """Returns the value of one cell in each of several registers."""
        return [int(self._switches[switch][0].registers[name].read(index)) for name in registers]


def _source(event: Event) -> SourceInfo | None:
    match event:
        case PrimitiveRun():
            return event.primitive.source
        case ConditionEvaluated():
            return event.conditional.source
        case TableApplied():
            return event.source
    return None


def _parts(program: Program) -> dict[str, Any]:
    """Returns ``Parts`` as plain data."""
    states = program.parser.states.values()
    device = Device(program, executor="interpreted")
    return {
        "headers": {
            name: [(field.name, field.width) for field in header.type.fields]
            for name, header in program.headers.items()
        },
        "states": {state.name: _open_ended(state) for state in states},
        "deparser": list(program.deparser),
        "tables": list(device.tables),
        "actions": [action.name for action in program.actions.values()],
        "registers": {name: register.size for name, register in device.registers.items()},
    }


def _lines(program: Mapping[str, Any]) -> list[int]:
    """Returns the lines of the source with a primitive or a condition."""
    parts = [primitive for action in program["actions"] for primitive in action["primitives"]]
    parts += [conditional for pipeline in program["pipelines"] for conditional in pipeline["conditionals"]]
    return sorted({part["source_info"]["line"] for part in parts if part.get("source_info")})


_TRIED: Final = 8
"""most bits of keys of which every value is tried"""


def _open_ended(state: ParserState) -> bool:
    """Returns whether a state has a select without a default whose lines do not name every value."""
    if not state.keys or any(way.is_default for way in state.transitions):
        return False
    named = [way for way in state.transitions if way.value_set is None]
    bits = [key.width if isinstance(key, FieldRef) else _TRIED + 1 for key in state.keys]
    if sum(bits) > _TRIED or not named:
        return True
    every = product(*(range(1 << width) for width in bits))
    return not all(any(_fits(way, keys) for way in named) for keys in every)


def _fits(way: Transition, keys: Sequence[int]) -> bool:
    return all(key & mask == value for key, value, mask in zip(keys, way.values, way.masks, strict=True))


if __name__ == "__main__":
    main()
