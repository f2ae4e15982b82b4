"""The grader's end of a student's process."""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from base64 import b85encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Any, Final, NamedTuple, Protocol
from zlib import compress

import numpy as np

import p4reduce
from p4reduce_course.frame.report import LOOK, Files, TooSlow, Wrong
from p4reduce_course.sandbox.confine import MIB, ProcessLimits, undumpable
from p4reduce_course.sandbox.messages import LIMIT, LOAD, TRAIL, MessageError, Remote, pack, unpack
from p4switch.base.closing import Closable

Service = Callable[..., Any]
"""``service(method, *arguments, **named)`` answers a call of the student's on an object of the grader."""
_REPEATED: Final = 1024
"""most calls that are kept to be repeated, the first ones"""
_PIECE: Final = 1 << 20
"""most bytes that are read or written at once"""
_LARGEST: Final = 8 * MIB
"""most bytes of the student's folder"""
_PARTING_S: Final = 5.0
"""time of waiting for a process that has closed its pipe to end"""


class Untold(Exception):
    """An exception that a service raises in the student's code."""


class NoAnswer(Exception):
    """A service has no answer: the call of the student's code ends, and what its lines did is kept."""


class Raised(Wrong):
    """Raised for an exception of the student's code.

    Attributes:
        kinds: names of the exception's class and its base classes, as far as Python has them built in.
    """

    def __init__(self, said: str, where: str, kinds: Sequence[str]) -> None:
        """Takes what happened, where, and the kinds."""
        super().__init__(said, where)
        self.kinds = frozenset(kinds)


class GraderProcess(Protocol):
    """A process that the grader has started, with the methods of ``subprocess.Popen``."""

    pid: int

    def poll(self) -> int | None:
        """Returns the exit code; None while the process runs."""

    def wait(self) -> int:
        """Waits until the process has ended; returns its exit code."""

    def kill(self) -> None:
        """Sends SIGKILL."""


class _Call(NamedTuple):
    """A call of a student's function, with its questions to the grader, as `_question_of`, and the grader's answers."""

    name: str
    arguments: Sequence[Any]
    answers: list[tuple[str, Any]]


class LineStep(NamedTuple):
    """A line of a student's Python that set a variable or, with an empty name, returned a value.

    Attributes:
        call: number of the call that it is in; ``above``: of the call above, or -1; ``from_``: the line there.
    """

    call: int
    above: int
    line: int
    from_: int
    name: str
    value: str

    @classmethod
    def of(cls, step: Any, base: int) -> LineStep:
        """Returns a step that a process told. Raises TypeError, ValueError."""
        call, above, line, from_, name, value = step
        if not (isinstance(name, str) and isinstance(value, str)):
            raise TypeError(step)
        return cls(
            base + int(call), base + int(above) if above >= 0 else -1, int(line), int(from_), name[:60], value[:60]
        )


class Apart(Closable, ABC):
    """Something of a student's in a confined process; ``call`` runs one of its functions.

    Every failure of the process is raised as Wrong, because it is the student's; later calls fail in the same way.
    """

    def __init__(self, file: Path, limits: ProcessLimits, seen: dict[str, None] | None = None) -> None:
        """Does not start the process before the first call.

        Args:
            file: the student's file.
            limits: limits of the process.
            seen: the ways of confinement that took effect are added here.
        """
        self.file = file
        self.limits = limits
        self.printed = ""
        self._seen = seen if seen is not None else {}
        self._process: GraderProcess | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._dead: Wrong | None = None
        self._output = 0
        self._buffer = bytearray()
        self._unsent = bytearray()
        self._asked = 0
        self._idle_s = 0.0  # of all waiting for answers, that in which nothing ran
        self._waited_s = 0.0  # all of it, by the clock
        self._calls: list[_Call] = []
        self._last = _Call("", (), [])
        self._given: list[tuple[str, Any]] = []  # questions of this call, and answers to them
        self._made = 0  # calls
        self._look: tuple[str, Files] = "", ()  # of the last finding
        self._trails: tuple[int, bool, list[LineStep]] | None = None  # the last one, by calls

    def call(self, name: str, *arguments: Any, services: Mapping[str, Service] | None = None) -> Any:
        """Calls a function of the student's code; returns its result. Raises Wrong."""
        self.start()
        self._asked = 0
        self._given = list[tuple[str, Any]]()
        if name not in (LOAD, TRAIL):
            self._made += 1
            self._last = _Call(name, arguments, self._given)
            if len(self._calls) < _REPEATED:
                self._calls.append(self._last)
        try:
            self._write({"call": name, "arguments": list(arguments)})
            return self._answer(name, services or {})
        except Wrong as wrong:
            self._note(wrong)
            raise

    def start(self) -> None:
        """Starts the process if necessary. Raises Wrong if it cannot start, or has ended.

        On Linux it ends with the thread that starts it: if several threads call, start it in one that outlives them.
        """
        if self._dead is not None:
            raise self._dead
        if self._process is None:
            try:
                self._start()
            except Wrong as wrong:  # final, though the process may still be ending
                self._dead = wrong
                raise

    def close(self) -> None:
        """Ends the process and removes its folder."""
        if self._process is not None:
            self._kill()
            for pipe in (self._requests, self._answers, self._prints):
                os.close(pipe)
            self._process = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    # --- the process

    def _note(self, wrong: Wrong) -> None:
        """Makes later calls fail in the same way if the process has ended."""
        if self._process is None or self._process.poll() is not None:
            self._dead = wrong

    def _start(self) -> None:
        if not self.file.is_file():
            raise Wrong(f"there is no {self.file.name}: hand it in", str(self.file))
        undumpable()
        self._folder = tempfile.TemporaryDirectory(prefix="p4reduce-lab-", ignore_cleanup_errors=True)
        folder = Path(self._folder.name)
        inward, self._requests = os.pipe()
        self._answers, outward = os.pipe()
        self._prints, prints = os.pipe()
        try:
            self._process = self._begin(folder, inward, outward, prints)
        except BaseException:
            for pipe in (self._requests, self._answers, self._prints):
                os.close(pipe)
            raise
        finally:
            for pipe in (inward, outward, prints):
                os.close(pipe)
        for pipe in (self._prints, self._answers, self._requests):
            os.set_blocking(pipe, False)
        self._seen.update(dict.fromkeys(self._message(self.file.name)["confined"]))
        self._checked(self._message(self.file.name), self.file.name)

    @abstractmethod
    def _begin(self, folder: Path, inward: int, outward: int, prints: int) -> GraderProcess:
        """Starts the process, which confines itself to ``folder``.

        It reads requests from descriptor ``inward``, writes answers to ``outward``, and prints to ``prints``.
        """

    def _kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    # --- messages

    def _write(self, message: dict[str, Any]) -> None:
        """Appends a message to those that wait to be sent; `_message` sends them while it reads."""
        self._unsent += pack(message)
        if len(self._unsent) > 2 * LIMIT:
            self._kill()
            raise Wrong(f"{self.file.name} asks and does not read the answers", str(self.file))

    def _answer(self, name: str, services: Mapping[str, Service]) -> Any:
        while True:
            message = self._message(name)
            if "ask" not in message:
                return self._checked(message, name)
            self._asked += 1
            if self._asked > self.limits.messages:
                self._kill()
                raise Wrong(f"{name} asked the grader more than {self.limits.messages:,} times", str(self.file))
            asked = ""
            try:
                method, arguments, named = _question(message)
                asked = _question_of(message["ask"], method, arguments)
                service = services.get(message["ask"])
                if service is None:
                    raise Untold(f"there is no {message['ask']} here")
                value = service(method, *arguments, **named)
                self._write({"value": value})
                self._given.append((asked, value))
            except NoAnswer:
                self._write({"over": True})
            except (Untold, TypeError, KeyError, ValueError, MessageError) as error:
                self._write({"problem": str(error)})
                self._given.append((asked, RuntimeError(str(error))))
            except Wrong:  # no answer is sent: the code still waits for one
                self._kill()
                raise

    def _checked(self, message: dict[str, Any], name: str) -> Any:
        file = self.file.name
        if "missing" in message:
            raise Wrong(f"{file} has no function {name}: keep the names of the skeleton", str(self.file))
        if "problem" in message:
            kinds = message.get("kinds")
            names = [str(kind) for kind in kinds] if isinstance(kinds, list) else []
            raise Raised(_explained(message, name), str(message.get("where") or self.file), names)
        if "value" not in message:
            raise Wrong(f"{file} wrote into the grader's pipe; leave descriptors 3 and 4 alone", str(self.file))
        return message["value"]

    def _message(self, name: str) -> dict[str, Any]:
        """Returns the process's next message; meanwhile keeps its output, and sends waiting messages. Raises Wrong.

        One loop with one clock serves both directions, so that a process that does not read blocks nothing. The
        grader's own time between messages does not count.
        """
        began, idle, searched = self._unused(), self._idle_s, 0
        clock, waited = time.monotonic(), self._waited_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            selector.register(self._prints, selectors.EVENT_READ)
            if self._unsent:
                selector.register(self._requests, selectors.EVENT_WRITE)
            while (end := self._buffer.find(b"\n", searched)) < 0:
                searched = len(self._buffer)
                self._idle_s = idle + max(0.0, self._unused() - began)
                self._waited_s = waited + time.monotonic() - clock
                left, patience = self.limits.calls_s - self._waited_s, self.limits.wall_s - self._idle_s
                if min(left, patience) <= 0:
                    self._kill()
                    raise self._waits(name, too_slow=patience > 0)
                for key, _ in selector.select(min(left, patience)):
                    if key.fd == self._requests:
                        self._send(selector)
                    else:
                        self._take(key.fd, selector, name)
        self._idle_s = idle + max(0.0, self._unused() - began)
        self._waited_s = waited + time.monotonic() - clock
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        try:
            message = unpack(line)
        except MessageError:
            message = None
        if not isinstance(message, dict):
            self._kill()
            raise Wrong(f"{self.file.name} wrote into the grader's pipe; leave descriptors alone", str(self.file))
        return message

    def _waits(self, name: str, *, too_slow: bool) -> Wrong:
        """Returns a finding about a process that was waited for in vain."""
        doing = f"{name} did not return within"
        if too_slow:
            return TooSlow(f"{doing} {self.limits.calls_s:g} s of the clock, most of which it waited for a processor")
        problem = f"{doing} {self.limits.wall_s:g} s of waiting, all calls together: does it wait for something?"
        return Wrong(problem, str(self.file))

    def _send(self, selector: selectors.BaseSelector) -> None:
        """Sends as much of the waiting messages as the pipe takes."""
        try:
            sent = os.write(self._requests, self._unsent[:_PIECE])
        except BlockingIOError:
            return
        except BrokenPipeError:  # the other pipe tells why the process has ended
            sent = len(self._unsent)
        del self._unsent[:sent]
        if not self._unsent:
            selector.unregister(self._requests)

    def _unused(self) -> float:
        """Returns seconds of the clock without those in which the process or this thread ran or waited for a CPU."""
        assert self._process is not None  # noqa: S101  (it was started)
        return time.monotonic() - _used(f"{self._process.pid}") - _used("thread-self")

    def _take(self, descriptor: int, selector: selectors.BaseSelector, name: str) -> None:
        data = os.read(descriptor, _PIECE)
        if descriptor == self._answers:
            if not data:
                raise self._ended(name)
            self._buffer += data
            if len(self._buffer) > LIMIT:
                self._kill()
                raise Wrong(f"{name} returned more than {LIMIT} bytes", str(self.file))
            return
        if not data:
            selector.unregister(descriptor)
            return
        self._output += len(data)
        self.printed = (self.printed + data.decode("utf-8", "replace"))[-4000:]
        if self._output > self.limits.output:
            self._kill()
            problem = f"{name} printed more than {self.limits.output // 1024} KiB: take the print out of the loop"
            raise Wrong(problem, str(self.file))

    def _ended(self, name: str) -> Wrong:
        """Returns the reason why the process has ended."""
        assert self._process is not None  # noqa: S101  (it was started)
        doing, ran_s = self._doing(name), _times(f"{self._process.pid}")[0]
        began = self._unused()
        while (code := self._process.poll()) is None:
            if self._unused() - began > _PARTING_S:
                self._kill()
                return Wrong(f"{doing} closed the grader's pipe; leave descriptors 3 and 4 alone", str(self.file))
            time.sleep(0.01)
        if code == -signal.SIGKILL and 0 < ran_s < self.limits.cpu_s / 2:
            return TooSlow(
                f"{doing} was killed after {ran_s:.1f} s of processor time; systems do this when memory runs out"
            )
        if code in (-signal.SIGXCPU, -signal.SIGKILL):
            problem = f"{doing} used more than {self.limits.cpu_s} s of processor time: does a loop never end?"
            return Wrong(problem, str(self.file))
        if code == -signal.SIGXFSZ:
            return Wrong(f"{doing} wrote a file of more than {self.limits.file // MIB} MiB", str(self.file))
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return Wrong(f"{doing} ended its process ({how}); functions return, they do not exit", str(self.file))

    def _doing(self, name: str) -> str:
        """Returns what the process was doing, as the subject of a sentence."""
        return f"{self.file.name}, in {name}," if name else self.file.name


class StudentCode(Apart):
    """A student's Python file in a separate process, with a temporary copy of the other files of its folder."""

    def __init__(self, file: Path, limits: ProcessLimits | None = None, seen: dict[str, None] | None = None) -> None:
        """Makes an :class:`Apart` with the limits of Python code."""
        super().__init__(file, limits or ProcessLimits(), seen)

    def load(self, text: str) -> None:
        """Loads a text, whose functions replace the file's in later calls. Raises Wrong."""
        self.call(LOAD, text)

    def trail(self, *, anew: bool = False) -> list[LineStep]:
        """Repeats the last call in another process; returns what its lines set and return, or nothing if that fails.

        ``anew``: repeats all calls since `begin`, with the same answers, because the last one depends on them.
        """
        if self._trails is not None and self._trails[:2] == (self._made, anew):
            return self._trails[2]
        self._trails = self._made, anew, self._repeated(list(self._calls) if anew else [self._last])
        return self._trails[2]

    def _repeated(self, calls: Sequence[_Call]) -> list[LineStep]:
        steps: list[LineStep] = []
        with StudentCode(self.file, self.limits) as other:
            try:
                for call in calls:
                    service = _answering([answer for _, answer in call.answers])
                    services = {
                        given.name: service for each in calls for given in each.arguments if isinstance(given, Remote)
                    }
                    base = max((step.call for step in steps), default=-1) + 1
                    told = other.call(TRAIL, call.name, *call.arguments, services=services)
                    steps = [*steps, *(LineStep.of(step, base) for step in told)][-_STEPS:]
            except (Wrong, TypeError, ValueError):
                return []
        return steps

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        return self._dead is not None

    def begin(self) -> None:
        """Forgets earlier calls: `shown` repeats those from here on."""
        self._made += 1
        self._calls.clear()

    def shown(self, wrong: Wrong, home: Path, name: str) -> Wrong:
        """Returns a finding with a command that repeats the calls with the same answers, if it has no command.

        After the process has ended, no call is made, and the command is that of the finding before.

        Args:
            wrong: the finding.
            home: folder of the lab's copy.
            name: name of the file that makes the calls.
        """
        finding = wrong.finding
        if isinstance(wrong, TooSlow):
            return wrong
        if finding.look:
            self._look = finding.look, finding.files
        elif self._calls:
            look = f"cd {quote(str(self.file.parent))} && PYTHONPATH=. python3 {quote(f'{home / LOOK / name}.py')}"
            self._look = look, ((f"{name}.py", _replay(self.file.stem, self._calls)),)
        elif not self.ended:
            return wrong
        return Wrong(finding.said, finding.where, *self._look)

    def _begin(self, folder: Path, inward: int, outward: int, prints: int) -> GraderProcess:
        _copy(self.file.parent, folder)
        root = Path(p4reduce.__file__).parent.parent
        environment = {
            "PYTHONPATH": str(root),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            "PYTHONUNBUFFERED": "1",
            "PYTHONIOENCODING": "utf-8:replace",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
            "TMPDIR": str(folder),
            "HOME": str(folder),
            "LANG": "C.UTF-8",
        }
        inner = [sys.executable, "-P", "-s", "-m", "p4reduce_course.sandbox.child"]
        inner += [str(folder / self.file.name), json.dumps(asdict(self.limits)), str(inward), str(outward)]
        return subprocess.Popen(
            inner,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=prints,
            stderr=prints,
            pass_fds=(inward, outward),
            start_new_session=True,
        )


def _answering(answers: Sequence[Any]) -> Service:
    """Returns a service that gives some answers, one after the other."""
    waiting = list(answers)

    def answer(*_: Any, **__: Any) -> Any:
        if not waiting:
            raise NoAnswer
        told = waiting.pop(0)
        if isinstance(told, Exception):
            raise Untold(str(told))
        return told

    return answer


_STEPS: Final = 12000
"""most steps of a trail, the last ones"""


# The file that repeats calls.

_LONG: Final = 200_000
"""most characters of a file that repeats calls with all their numbers"""
_SHORT: Final = 40_000
"""most characters of one without them"""
_NAMED: Final = 80
"""most characters of a question's first argument"""
_WIDE: Final = 64
"""most numbers of an array that are written one by one"""

_REPLAY: Final = """\
# Repeats the grader's calls, with the answers that it gave. Run it in the folder of {module}.py.
from base64 import b85decode
from zlib import decompress

from numpy import array, frombuffer, full, inf, integer, nan, ndarray

import {module}

ANSWERS = []  # questions of a call, and what the grader answered


class Attributes:
    def __init__(self, name, **attributes):
        self.__dict__.update(attributes)
        self.name = name

    def __getattr__(self, method):
        def call(*arguments, **named):
            print(f"   {{self.name}}.{{method}}", *map(brief, arguments), *map(brief, named.values()))
            about = arguments[0] if arguments else None
            about = f" {{about}}"[:{named}] if type(about) in (str, int) or isinstance(about, integer) else ""
            if not ANSWERS or ANSWERS[0][0] != f"{{self.name}}.{{method}}{{about}}":
                print("     ", "another question than in the grading:" if ANSWERS else "here the grader ended:", "None")
                return None
            answer = ANSWERS.pop(0)[1]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


def packed(text, shape, kind):
    return frombuffer(decompress(b85decode(text)), kind).reshape(shape).copy()


def brief(value):
    if isinstance(value, list | tuple) and any(isinstance(part, ndarray) for part in value):
        return "".join(f"\\n   {{place}}: {{brief(part)}}" for place, part in enumerate(value))
    if isinstance(value, ndarray) and value.size > {wide}:
        return f"{{value.size}} {{value.dtype}}, sum {{float(value.sum(dtype=float)):.9g}}: {{value.ravel()[:4]}}..."
    return value


def show(name, *arguments):
    try:
        print(name, "returned", brief(getattr({module}, name)(*arguments)))
    except Exception as error:
        print(name, "raised", repr(error))


"""


def _question_of(of: str, method: str, arguments: Sequence[Any]) -> str:
    """Returns the name of a question, with its first argument if that is a text or an integer."""
    about = arguments[0] if arguments else None
    return f"{of}.{method}" + (f" {about}"[:_NAMED] if type(about) in (str, int) else "")


def _replay(module: str, calls: Sequence[_Call]) -> str:
    """Returns a Python file that repeats calls; of many numbers it has those of large arrays only by their first."""
    head = _REPLAY.format(module=module, wide=_WIDE, named=_NAMED)
    exact = [_repeated(call, exact=True) for call in calls]
    if sum(map(len, exact)) <= _LONG:
        return head + "".join(exact)
    text = head
    for call in calls:
        lines = _repeated(call, exact=False)
        if len(text) + len(lines) > _SHORT:
            break
        text += lines
    return text


def _repeated(call: _Call, *, exact: bool) -> str:
    given = "".join(f", {_written(argument, exact)}" for argument in call.arguments)
    answers = ", ".join(f"({asked!r}, {_written(answer, exact)})" for asked, answer in call.answers)
    return f"ANSWERS[:] = [{answers}]\nshow({call.name!r}{given})\n"


def _written(value: Any, exact: bool) -> str:
    """Returns a value as Python; of a large array, if it need not be exact, only its size and its first number."""
    if isinstance(value, Remote):
        return f"Attributes({value.name!r}, **{value.attributes!r})"
    if not isinstance(value, np.ndarray):
        return repr(value)
    if value.size <= _WIDE:
        return f"array({value.tolist()!r}, {value.dtype.name!r})"
    if not exact or (value == value.flat[0]).all():
        return f"full({value.shape}, {value.flat[0].item()!r}, {value.dtype.name!r})"
    return f"packed({b85encode(compress(value.tobytes(), 9)).decode()!r}, {value.shape}, {value.dtype.name!r})"


def _used(task: str) -> float:
    """Returns seconds in which a task of the system ran or was ready to run; 0 if the system does not tell."""
    return sum(_times(task))


def _times(task: str) -> tuple[float, float]:
    """Returns seconds in which a task of the system ran, and in which it was ready to run; 0 if the system is silent.

    Linux tells them for a process's first thread; a student's process has no other.
    """
    try:
        told = os.open(f"/proc/{task}/schedstat", os.O_RDONLY)
        try:
            ran, waited, _ = os.read(told, 128).split()
        finally:
            os.close(told)
    except (OSError, ValueError):
        return 0.0, 0.0
    return int(ran) / 1e9, int(waited) / 1e9


def _question(message: Mapping[str, Any]) -> tuple[str, list[Any], dict[str, Any]]:
    """Returns method, arguments and named arguments of a question. Raises MessageError for anything else."""
    method, arguments, named = message.get("method"), message.get("arguments"), message.get("named")
    if not isinstance(method, str) or not isinstance(arguments, list | tuple) or not isinstance(named, dict):
        raise MessageError("a question has a method, arguments and named arguments")
    if not all(isinstance(key, str) for key in named):
        raise MessageError("named arguments have names")
    return method, list(arguments), named


def _copy(source: Path, target: Path) -> None:
    """Copies the files of a folder without links, which could name files that the student must not read."""
    total = 0
    for entry in sorted(source.iterdir()):
        if entry.is_file() and not entry.is_symlink():
            total += entry.stat().st_size
            if total > _LARGEST:
                raise Wrong(f"more than {_LARGEST // MIB} MiB were handed in", str(source))
            shutil.copy(entry, target / entry.name)


def _explained(message: Mapping[str, Any], name: str) -> str:
    problem, kind = str(message["problem"]), message.get("kind")
    hints = {
        "MemoryError": "it asked for more memory than there is for it",
        "ModuleNotFoundError": "only Python's own modules and NumPy are there",
        "PermissionError": "student code reads files of its own folder, and has no processes, threads or sockets",
        "SystemExit": "functions return, they do not exit",
        "NotImplementedError": "that is how the lab begins: write this function, see README.md",
    }
    hint = hints.get(str(kind))
    if (kind == "OSError" and "Permission" in problem) or (kind == "FileNotFoundError" and "'/" in problem):
        hint = hints["PermissionError"]
    return f"{name}: {problem}" + (f" ({hint})" if hint else "")


def calls(code: StudentCode, name: str, many: Sequence[Sequence[Any]]) -> list[Any]:
    """Returns a function's results for many lists of arguments."""
    return [code.call(name, *arguments) for arguments in many]
