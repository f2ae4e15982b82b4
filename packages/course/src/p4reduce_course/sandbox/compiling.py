"""A student's P4 program, compiled in a process of its own: what the compiler uses is bounded, what comes is data.

The grader starts one process that has loaded the compiler, with no threads and nothing of the grader's. That makes a
copy of itself for each program; the copy confines itself, compiles, tells, and ends.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import p4switch
from p4reduce_course.frame.report import Wrong
from p4reduce_course.sandbox.confine import MIB, Limits, confine, die_with_parent, undumpable
from p4switch.p4.compile import compile_text

LIMITS: Final = Limits(cpu_s=20, wall_s=60, memory=1024 * MIB, files=32)
"""``memory`` beyond what the grader has, of which the process is a copy"""
_MOST_BYTES: Final = 32 * MIB
"""of an answer"""
_PIECE: Final = 1 << 16


@dataclass(frozen=True)
class Compiled:
    """What the compiler says: BMv2's JSON, or None; and its messages."""

    json: Any
    messages: tuple[str, ...]


def compile_apart(text: str, name: str, limits: Limits = LIMITS) -> Compiled:
    """Compile P4 in a confined process; it may include core.p4 and v1model.p4. Raises Wrong at a limit."""
    found = _SERVER.ask({"text": text, "name": name, "limits": asdict(limits)})
    if "wrong" in found:
        raise Wrong(found["wrong"])
    return Compiled(found["json"], tuple(found["messages"]))


class _Server:
    """The grader's end of the process that makes copies of itself. One for a process; threads take turns."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._of = 0
        self._lock = threading.Lock()

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """The answer; the process is started with the first question."""
        with self._lock:
            if self._process is None or self._of != os.getpid() or self._process.poll() is not None:
                self._start()
            process = self._process
            assert process is not None  # noqa: S101  (it was started)
            assert process.stdin is not None  # noqa: S101
            assert process.stdout is not None  # noqa: S101
            try:
                process.stdin.write(json.dumps(question).encode() + b"\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except BrokenPipeError:
                line = b""
        if not line:
            raise Wrong(f"{question['name']}: the compiler's process has ended")
        found: dict[str, Any] = json.loads(line)
        return found

    def _start(self) -> None:
        undumpable()
        path = os.pathsep.join(one for one in sys.path if one)
        self._of = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-s", "-m", "p4reduce_course.sandbox.compiling"],
            env={"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "LANG": "C.UTF-8"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        atexit.register(self.close)

    def close(self) -> None:
        """End it; it ends by itself, too, when the grader has gone."""
        process, self._process = self._process, None
        if process is not None and self._of == os.getpid():
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
            process.kill()
            process.wait()


_SERVER: Final = _Server()


def main() -> None:
    """Compile what is asked for, line by line, until the grader closes its end."""
    out = os.fdopen(os.dup(1), "wb")
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        try:
            found = _apart(partial(_compiled, asked["text"], asked["name"]), asked["name"], Limits(**asked["limits"]))
            told = {"json": found.json, "messages": found.messages}
        except Wrong as wrong:
            told = {"wrong": wrong.finding.said}
        out.write(json.dumps(told).encode() + b"\n")
        out.flush()


def _compiled(text: str, name: str) -> dict[str, Any]:
    found = compile_text(text, name, library_only=True)
    return {"json": found.json if found.ok else None, "messages": [str(one) for one in found.messages()]}


def _apart(work: Callable[[], dict[str, Any]], name: str, limits: Limits) -> Compiled:
    undumpable()
    with tempfile.TemporaryDirectory(prefix="p4reduce-lab-", ignore_cleanup_errors=True) as folder:
        answers, told = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        process = os.fork()
        if process == 0:
            _child(work, told, Path(folder), limits)
        os.close(told)
        try:
            data = _read(answers, limits)
        finally:
            os.close(answers)
            os.kill(process, signal.SIGKILL)
            _, status = os.waitpid(process, 0)
    why = "is something in it endless?"
    try:
        found = json.loads(data or b"")
        if "failed" not in found:
            return Compiled(found["json"], tuple(map(str, found["messages"])))
        why = str(found["failed"])[:200]
    except (ValueError, TypeError, KeyError):
        pass
    code = os.waitstatus_to_exitcode(status)
    if data is not None and code in {-signal.SIGXCPU, -signal.SIGKILL}:
        raise Wrong(f"{name}: the compiler needs more than {limits.cpu_s} s of processor time for it")
    if data is not None and code != 0:
        why = f"its process ended with {code}"
    raise Wrong(f"{name}: the compiler needs more time or memory for it than a lab takes; {why}")


def _child(work: Callable[[], dict[str, Any]], told: int, folder: Path, limits: Limits) -> None:
    """Confine this copy of the grader, compile, tell, end. Never returns."""
    try:
        gc.freeze()  # what is the grader's is not this copy's to clean up
        die_with_parent()
        silent = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(silent, stream)
        os.dup2(told, 3)
        os.closerange(4, 1 << 16)
        pages = int(Path("/proc/self/statm").read_text().split()[0]) if sys.platform == "linux" else 0
        used = pages * os.sysconf("SC_PAGE_SIZE")
        given = Limits(limits.cpu_s, limits.wall_s, memory=used + limits.memory, files=limits.files)
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        confine(given, [Path(p4switch.__file__).parent, Path(os.__file__).parent], folder)
        _tell(work())
    except Exception as error:
        _tell({"failed": f"{type(error).__name__}: {error}"})
    finally:
        os._exit(0)


def _tell(found: dict[str, Any]) -> None:
    left = memoryview(json.dumps(found).encode())
    while left:
        left = left[os.write(3, left) :]


def _read(answers: int, limits: Limits) -> bytes | None:
    """All that comes, until its end; None where that takes too long or is too much."""
    until, data = time.monotonic() + limits.wall_s, bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(answers, selectors.EVENT_READ)
        while selector.select(max(0.0, until - time.monotonic())):
            piece = os.read(answers, _PIECE)
            if not piece:
                return bytes(data)
            data += piece
            if len(data) > _MOST_BYTES:
                return None
    return None


if __name__ == "__main__":
    main()
