"""Object files: found on disk, or made by processes of their own, one for each module with entries."""

import contextlib
import fcntl
import hashlib
import importlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from p4switch.native import llvm

if TYPE_CHECKING:
    from p4switch.native.compiler import Entry

Report = Callable[[int, int], None]
"""``report(done, total)``: functions that are compiled, and those that there are; from the thread that compiles"""
Watch = Callable[[], AbstractContextManager[Report]]
"""entered when something has to be compiled"""


class CompilationError(RuntimeError):
    """The process that compiles has failed; the text is what it said."""


_entries: Final[dict[str, list["Entry"]]] = {}
_loaded: Final[dict[str, llvm.Linked]] = {}
_lock: Final = threading.RLock()


@contextmanager
def _say() -> Iterator[Report]:
    sys.stderr.write("compiling machine code (once, some ten seconds) …\n")
    yield lambda _done, _total: None


_watch: list[Watch] = [_say]


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Have compiling shown by ``watch`` inside; otherwise it is one line on stderr."""
    _watch.append(watch)
    try:
        yield
    finally:
        _watch.remove(watch)


def register(entry: "Entry") -> None:
    """An entry of a module that is being imported."""
    _entries.setdefault(entry.__module__, []).append(entry)


def entries_of(module: str) -> list["Entry"]:
    """The entries of a module that is imported."""
    return _entries.get(module, [])


def addresses(module: str, folder: Path) -> Mapping[str, int]:
    """The C functions of a module, by name.

    Raises:
        CompilationError: they are not on disk, and cannot be compiled.
    """
    with _lock:
        if module not in _loaded:
            path = folder / f"{module}.o"
            code = read(path)
            if code is None:
                prepare()
                code = read(path)
            if code is None:
                raise CompilationError(f"{path}: was written, and cannot be read")
            _loaded[module] = llvm.link(code, [entry.symbol for entry in _entries[module]])
        return _loaded[module].addresses


def prepare(*modules: str) -> None:
    """Make the object files of these modules that are not on disk, and of all that are imported.

    Who needs one will need the others, too, and they are made at the same time.

    Raises:
        CompilationError: one of them cannot be compiled.
    """
    for module in modules:
        importlib.import_module(module)
    paths = {module: entries[0].compiler.folder / f"{module}.o" for module, entries in _entries.items()}
    missing = [module for module, path in sorted(paths.items()) if read(path) is None]
    if not missing:
        return
    with _lock, ExitStack() as stack:
        report = stack.enter_context(_watch[-1]())
        for module in missing:  # in one order everywhere, so that no two processes wait for each other
            stack.enter_context(_alone(paths[module].with_suffix(".lock")))
        _compile({module: paths[module] for module in missing if read(paths[module]) is None}, report)


def _compile(paths: Mapping[str, Path], report: Report) -> None:
    """As many at once as there are processors; the first failure ends all."""
    waiting = sorted(paths)
    counts: dict[str, tuple[int, int]] = {}
    changed = threading.Condition()
    running: dict[str, _Maker] = {}

    def told(module: str, done: int, total: int) -> None:
        with changed:
            counts[module] = done, total
            changed.notify()

    try:
        while waiting or running:
            while waiting and len(running) < (os.cpu_count() or 1):
                module = waiting.pop(0)
                running[module] = _Maker(module, paths[module], told)
            with changed:
                changed.wait(0.1)
                done, total = (sum(column) for column in zip((0, 0), *counts.values(), strict=True))
            report(done, total)
            for module in [module for module, maker in running.items() if maker.ended()]:
                running.pop(module).check()
    finally:
        for maker in running.values():
            maker.kill()


class _Maker:
    """A process that makes one object file, and tells how far it is."""

    def __init__(self, module: str, path: Path, told: Callable[[str, int, int], None]) -> None:
        self._module = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", "p4switch.native.build", module, str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            start_new_session=True,  # Ctrl-C is this process's to answer
        )
        self._said: list[str] = []
        self._reader = threading.Thread(target=self._read, args=(told,), daemon=True)
        self._reader.start()

    def _read(self, told: Callable[[str, int, int], None]) -> None:
        for line in self._process.stdout or ():
            words = line.split()
            if len(words) == 3 and words[0] == "compiled":
                told(self._module, int(words[1]), int(words[2]))
            else:
                self._said.append(line)

    def ended(self) -> bool:
        return self._process.poll() is not None

    def check(self) -> None:
        self._reader.join()
        if self._process.returncode != 0:
            raise CompilationError(f"{self._module}: could not be compiled:\n{''.join(self._said)}")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time; a killed one lets the others go on."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def read(path: Path) -> bytes | None:
    """Object code with the hash that was written behind it; None where there is none, or where it is damaged."""
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    code, digest = stored[:-32], stored[-32:]
    return code if hashlib.sha256(code).digest() == digest else None


def write(path: Path, code: bytes) -> None:
    """Keep object code, with its hash: all of it or nothing.

    Raises:
        OSError: it cannot be written.
    """
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(code + hashlib.sha256(code).digest())
        Path(temporary).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(temporary).unlink()
        raise
