"""A playground for a P4 program: its source, entries and packets, their errors, and the steps of each packet.

The texts of the page are compiled and run in a separate process (``python -m p4reduce.views.live.play``). It has
imported all that it needs and forks for each question: the child has limits of time and memory, and writes nothing.
"""

import hashlib
import json
import os
import re
import resource
import select
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from p4reduce.base.errors import BadInput
from p4reduce.views.live.session import NotOffered
from p4switch.base.files import read_bytes, read_text, whole

WHICH: Final = ("program", "entries", "packets")
MOST_TEXT: Final = 1 << 20
"""Most bytes of a request from the page."""
CPU_S: Final = 5
WALL_S: Final = 15.0
"""Seconds for one question, on a machine that also does other work."""
MEMORY: Final = 3 << 30
"""Bytes of address space."""
MOST_PACKETS: Final = 64
MOST_ANSWER: Final = 8 << 20
"""Most bytes of an answer."""
UNREADABLE: Final = "unreadable"
"""Digest of a file that exists and cannot be read as text."""
FIRST_PACKETS: Final = f"# port, and a frame as hexadecimal digits\n1 ffffffffffff 020000000001 0800 {'00' * 46}\n"
FIRST_ENTRIES: Final = "# tables, multicast and registers: 'p4reduce example entries' has some\n"
TOO_MUCH: Final = (
    f"Compiling and running this took more than {CPU_S} s or {MEMORY >> 30} GB, and was given up: "
    "make the program smaller, or send fewer packets."
)
_PLACE: Final = re.compile(r".*?, line (\d+): (.*)", re.S)


@dataclass(frozen=True)
class PlaygroundStart:
    """Start parameters of a playground. ``files``: paths of the program, the entries and the packets."""

    files: Mapping[str, Path]
    defines: Mapping[str, str] = field(default_factory=dict)
    folders: Sequence[Path] = ()
    port: int = 1


class PlaySource:
    """Source of a playground's page. The files on disk are authoritative: they are written only when the user saves."""

    def __init__(self, given: PlaygroundStart) -> None:
        self._given = given
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[tuple[int, int, int], str]] = {}
        self._bench = PlaygroundBench()

    def tick(self) -> dict[str, Any]:
        """Return the digests of the files on disk; '' if there is no such file, ``UNREADABLE`` if it cannot be read."""
        return {"state": "playing", "files": {which: self._digest(which) for which in WHICH}}

    def looks(self, change: int) -> None:
        """Do nothing: viewers cost nothing."""

    def files(self) -> dict[str, Any]:
        """Return the texts on disk, each with its name and digest; a missing file is replaced by a suggestion.

        Raises `BadInput` if a file cannot be read.
        """
        suggested = {"program": "", "entries": FIRST_ENTRIES, "packets": FIRST_PACKETS}
        texts = {which: self._read(which) for which in WHICH}
        shown = [
            {"which": which, "name": self._given.files[which].name, "text": suggested[which] if text is None else text,
             "digest": _digest(text)} for which, text in texts.items()
        ]  # fmt: skip
        return {"title": self._given.files["program"].name, "files": shown}

    def attempt(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """Compile and run these texts; return ``messages`` and ``traces`` (see :func:`attempt`)."""
        program = self._given.files["program"]
        return self._bench.ask(
            {
                "path": str(program),
                "names": {which: self._given.files[which].name for which in WHICH},
                "defines": dict(self._given.defines),
                "folders": [str(folder) for folder in self._given.folders],
                "port": self._given.port,
                **{which: texts[which] for which in WHICH},
            }
        )

    def save(self, which: str, text: str, base: str) -> str:
        """Write a text to disk if the file still has digest ``base``; return its new digest.

        A link's target is written, with the file's mode and its line ends.

        Raises `NotOffered` if it was changed meanwhile, or cannot be written.
        """
        path = self._given.files[which]
        with self._lock:
            if self._digest(which) != base:
                raise NotOffered(f"{path.name} was changed on disk meanwhile: load it, or keep yours")
            try:
                _replace(path, text)
            except OSError as error:
                raise NotOffered(f"{path.name} cannot be written: {error.strerror}") from None
        return _digest(text)

    def close(self) -> None:
        """End the compiling process."""
        self._bench.close()

    def _read(self, which: str) -> str | None:
        path = self._given.files[which]
        try:
            return read_text(path, MOST_TEXT)
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{path}: {getattr(error, 'strerror', '') or 'is no UTF-8 text'}") from None

    def _digest(self, which: str) -> str:
        try:
            status = self._given.files[which].stat()
        except OSError:
            return ""
        stamp = status.st_mtime_ns, status.st_size, status.st_ino
        if self._seen.get(which, (None, ""))[0] != stamp:
            try:
                self._seen[which] = stamp, _digest(self._read(which))
            except BadInput:
                return UNREADABLE
        return self._seen[which][1]


def _replace(path: Path, text: str) -> None:
    """Write a text over a file: through links, and with its mode and line ends."""
    path = path.resolve()
    mode, windows = None, False
    with suppress(FileNotFoundError):
        mode, data = stat.S_IMODE(path.stat().st_mode), read_bytes(path)
        windows = 0 < data.count(b"\n") == data.count(b"\r\n")
    with whole(path) as aside:
        aside.write_bytes((text.replace("\n", "\r\n") if windows else text).encode())
        if mode is not None:
            aside.chmod(mode)


def _digest(text: str | None) -> str:
    return "" if text is None else hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


class TraceSource:
    """Source of a page of packets that were traced already."""

    def __init__(self, title: str, traces: Sequence[dict[str, Any]]) -> None:
        self._found = {"title": title, "files": [], "result": {"messages": [], "traces": list(traces), "more": 0}}

    def tick(self) -> dict[str, Any]:
        """Return a constant tick."""
        return {"state": "traced", "files": {}}

    def looks(self, change: int) -> None:
        """Do nothing: viewers cost nothing."""

    def files(self) -> dict[str, Any]:
        """Return the traces, and no text to edit."""
        return self._found


# The process that compiles and runs.


class PlaygroundBench:
    """Client of a separate process, with one question at a time; it starts another process if that one has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = self._start()

    @staticmethod
    def _start() -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-m", "p4reduce.views.live.play"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C belongs to the page
        )

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a question; raise `NotOffered` if there is none."""
        with self._lock:
            if self._process.poll() is not None:
                self._process = self._start()
            process = self._process
            assert process.stdin is not None  # noqa: S101  (for the type checker: both are pipes)
            assert process.stdout is not None  # noqa: S101
            try:
                process.stdin.write(json.dumps(question).encode() + b"\n")
                process.stdin.flush()
                answer = json.loads(process.stdout.readline() or b"{}")
            except (OSError, ValueError):
                answer = {}
            if not isinstance(answer, dict) or "messages" not in answer:
                process.kill()
                process.wait()
                raise NotOffered("the process that compiles has ended; try again")
            return answer

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def attempt(question: Mapping[str, Any]) -> dict[str, Any]:
    """Compile a program, enter its entries and send the packets.

    messages: text that they are about (other: an included file), line (None: none), severity, text, hint.

    traces: number, port, note, description, outcome and steps of each packet; ``more`` packets were left out.
    """
    from p4switch.device import Device  # noqa: PLC0415  (the page's process needs none of it)
    from p4switch.p4.compile import compile_text  # noqa: PLC0415
    from p4switch.program.loader import load_program  # noqa: PLC0415
    from p4switch.trace import EntriesError, PacketError, Recorder, TextFormat, parse_entries  # noqa: PLC0415
    from p4switch.trace.record import parse_packets  # noqa: PLC0415
    from p4switch.trace.steps import traced  # noqa: PLC0415
    from p4switch.trace.to_text import SourceLines, from_sources  # noqa: PLC0415

    folders = [Path(folder) for folder in question["folders"]]
    names, path = question["names"], question["path"]
    compiled = compile_text(question["program"], path, question["defines"], folders=folders)
    messages = []
    for item in compiled.diagnostics.items:
        place = compiled.sources.place(item.position)
        own = place.file == path
        text = item.message if own else f"{place.file}:{place.line}: {item.message}"
        which, line = ("program", place.line) if own else ("other", None)
        messages.append(_message(which, line, text, item.severity, item.hint))
    answer: dict[str, Any] = {"messages": messages, "traces": [], "more": 0}
    if not compiled.ok or compiled.json is None:
        return answer
    program = load_program(compiled.json)
    device = Device(program, executor="interpreted")
    try:
        if question["entries"].strip(" \n") and _says_something(question["entries"]):
            parse_entries(question["entries"], program, names["entries"]).apply(device)
    except EntriesError as error:
        messages += [_placed("entries", line) for line in str(error).splitlines()]
    try:
        packets = parse_packets(question["packets"], names["packets"])
    except PacketError as error:
        messages.append(_placed("packets", str(error)))
        packets = []
    lines = dict(zip(compiled.sources.names, (text.splitlines() for text in compiled.sources.texts), strict=True))
    shown = TextFormat(program, SourceLines([], dict(lines)), from_sources(compiled.sources.texts), all_writes=False)
    recorder, size = Recorder(device), 0
    for number, packet in enumerate(packets):
        trace = traced(recorder.run(packet, question["port"]), shown)
        size += len(json.dumps(trace))
        if number >= MOST_PACKETS or size > MOST_ANSWER // 2:
            answer["more"] = len(packets) - number
            break
        answer["traces"].append(trace)
    return answer


def _says_something(text: str) -> bool:
    return any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines())


def _message(which: str, line: int | None, text: str, severity: str = "error", hint: str = "") -> dict[str, Any]:
    return {"which": which, "line": line, "severity": severity, "text": text, "hint": hint}


def _placed(which: str, text: str) -> dict[str, Any]:
    """Return a message from an error that names a file and a line of it."""
    match = _PLACE.fullmatch(text)
    return _message(which, int(match[1]), match[2]) if match else _message(which, None, text)


def _in_a_copy(question: bytes) -> bytes:
    """Answer a question in a fork of this process, within its limits."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _limit()
        _answer(question, writer)
    os.close(writer)
    data, deadline = bytearray(), time.monotonic() + WALL_S
    while len(data) <= MOST_ANSWER and (left := deadline - time.monotonic()) > 0:
        if select.select([reader], [], [], left)[0]:
            piece = os.read(reader, 1 << 16)
            if not piece:
                break
            data += piece
    os.close(reader)
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if data.endswith(b"\n") and len(data) <= MOST_ANSWER:
        return bytes(data)
    return json.dumps({"messages": [_message("other", None, TOO_MUCH)], "traces": [], "more": 0}).encode() + b"\n"


def _limit() -> None:
    for what, most in (
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        wanted = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (wanted, wanted))


def _answer(question: bytes, writer: int) -> None:
    """Write the answer, and end this process. Any failure gives a text."""
    try:
        answer = attempt(json.loads(question))
    except MemoryError:
        os._exit(1)
    except Exception as error:  # any failure of an untested program
        text = f"this program cannot be run here: {type(error).__name__}: {str(error)[:500]}"
        answer = {"messages": [_message("program", None, text)], "traces": [], "more": 0}
    with os.fdopen(writer, "wb") as out:
        out.write(json.dumps(answer).encode() + b"\n")
    os._exit(0)


def serve(questions: IO[bytes], answers: IO[bytes]) -> None:
    """Answer questions, one per line, until there are no more."""
    with suppress(Exception):  # a first question imports everything, and fills the caches
        attempt({"path": "p.p4", "names": dict.fromkeys(WHICH, ""), "defines": {}, "folders": [], "port": 1,
                 "program": "#include <v1model.p4>", "entries": "", "packets": ""})  # fmt: skip
    for question in questions:
        answers.write(_in_a_copy(question))
        answers.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
