"""The student's process: confines itself, imports the student's file, and answers calls.

``python -P -m p4reduce_course.sandbox.child FILE LIMITS IN OUT``; requests come by descriptor IN, answers leave by OUT;
the process moves the two to 3 and 4.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import sys
import sysconfig
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

from p4reduce_course.sandbox.confine import ProcessLimits, confine, die_with_parent
from p4reduce_course.sandbox.lines import Over, trailed
from p4reduce_course.sandbox.messages import LOAD, TRAIL, MessageError, Remote, pack, unpack


class Stub:
    """Stands for an object of the grader; each method call is sent to the grader."""

    def __init__(self, remote: Remote, channel: Channel) -> None:
        """Makes a stub with the remote object's plain attributes."""
        self.__dict__.update(remote.attributes)
        self.__name = remote.name
        self.__channel = channel

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)

        def call(*arguments: Any, **named: Any) -> Any:
            self.__channel.write({"ask": self.__name, "method": method, "arguments": arguments, "named": named})
            answer = self.__channel.read()
            if "over" in answer:
                raise Over
            if "problem" in answer:
                raise RuntimeError(answer["problem"])
            return answer["value"]

        return call


class Channel:
    """Messages to and from the grader."""

    def __init__(self, reader: BinaryIO, writer: BinaryIO) -> None:
        """Makes a channel over two pipes."""
        self._reader = reader
        self._writer = writer

    def read(self) -> dict[str, Any]:
        """Returns the next message; ends the process if the grader has closed its end."""
        line = self._reader.readline()
        if not line:
            os._exit(0)
        message: dict[str, Any] = unpack(line)
        return message

    def write(self, message: dict[str, Any]) -> None:
        """Sends one message."""
        self._writer.write(pack(message))
        self._writer.flush()


def main() -> None:
    """Answers calls until the grader closes its end."""
    die_with_parent()
    file = Path(sys.argv[1])
    limits = ProcessLimits(**json.loads(sys.argv[2]))
    channel = Channel(*moved(int(sys.argv[3]), int(sys.argv[4])))
    readable = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    readable |= {Path("/usr/lib"), Path("/lib"), Path("/lib64"), Path("/usr/local/lib"), Path("/etc/ld.so.cache")}
    readable |= {Path("/dev/null"), Path("/dev/urandom"), Path("/usr/share/zoneinfo")}
    ways = confine(limits, readable, file.parent)
    channel.write({"confined": ways})
    try:
        module = _load(file)
    except BaseException as error:
        channel.write(_problem(error, file.parent))
        return
    serve(channel, module, file.parent)


def serve(channel: Channel, functions: Any, folder: Path) -> None:
    """Answers calls of the grader with an object's functions, until the grader closes its end."""
    channel.write({"value": None})
    while True:
        functions = _answer(channel, functions, folder)


def moved(inward: int, outward: int) -> tuple[BinaryIO, BinaryIO]:
    """Moves the pipes from any descriptors to 3 and 4."""
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 10) for descriptor in (inward, outward)]
    for descriptor in (inward, outward):
        os.close(descriptor)
    for number, descriptor in zip((3, 4), high, strict=True):
        os.dup2(descriptor, number, inheritable=False)
        os.close(descriptor)
    return os.fdopen(3, "rb"), os.fdopen(4, "wb")


def _answer(channel: Channel, module: Any, folder: Path) -> Any:
    """Answers the next call; returns the object whose functions answer the one after it."""
    request = channel.read()
    try:
        if request["call"] == LOAD and isinstance(module, ModuleType):
            return _other(channel, module, request["arguments"][0])
        if request["call"] == TRAIL and isinstance(module, ModuleType):
            function = getattr(module, request["arguments"].pop(0))
            given = [Stub(a, channel) if isinstance(a, Remote) else a for a in request["arguments"]]
            channel.write({"value": trailed(function, given, str(module.__file__))})
            return module
        function = getattr(module, request["call"], None)
        if not callable(function):
            channel.write({"missing": request["call"]})
            return module
        given = [Stub(a, channel) if isinstance(a, Remote) else a for a in request["arguments"]]
        value = function(*given)
        try:
            channel.write({"value": value})
        except MessageError as error:
            channel.write({"problem": f"{request['call']} returned {error}", "where": "", "kind": "MessageError"})
    except BaseException as error:
        channel.write(_problem(error, folder))
    return module


def _other(channel: Channel, module: ModuleType, text: str) -> ModuleType:
    """Returns a module made from a text, in place of another one. Raises the exceptions of the text."""
    made = ModuleType(module.__name__)
    made.__dict__["__file__"] = module.__file__
    exec(compile(text, str(module.__file__), "exec"), made.__dict__)  # noqa: S102  (confined, as the file is)
    channel.write({"value": True})
    return made


def _load(file: Path) -> Any:
    sys.path.append(str(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None  # noqa: S101  (it is a .py file)
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def _problem(error: BaseException, folder: Path) -> dict[str, Any]:
    """Returns an exception of the student's code: what and where, in the student's own files."""
    where = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if Path(frame.filename).parent == folder:
            where = f"{Path(frame.filename).name}, line {frame.lineno}: {frame.line}"
    if isinstance(error, SyntaxError) and error.filename and isinstance(error.filename, str):
        where = f"{Path(error.filename).name}, line {error.lineno}: {str(error.text or '').strip()}"
    try:
        text = str(error)[:2000]
    except BaseException as other:  # the student's class may have any __str__
        text = f"its __str__ raises {type(other).__name__}"
    kind = type(error).__name__
    kinds = [base.__name__ for base in type(error).__mro__ if base.__module__ == "builtins"]
    return {"problem": f"{kind}: {text}" if text else kind, "where": where, "kind": kind, "kinds": kinds}


if __name__ == "__main__":
    main()
