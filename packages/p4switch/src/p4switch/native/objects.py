"""Object files, one for each module with entries: found on disk, or made by separate processes."""

import contextlib
import fcntl
import hashlib
import importlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import finalize

if TYPE_CHECKING:
    from p4switch.native.compiler import Entry


class LateModule:
    """Imports a module when one of its names is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._name), name)


# Many processes that import this run no machine code: ranks, whose sums are the coordinator's work.
llvmlite: Any = LateModule("llvmlite")
llvm: Any = LateModule("llvmlite.binding")


# LLVM: from IR text to machine code in memory. Object code from here may be kept on disk for this very processor.


@cache
def target_machine() -> Any:
    """Return LLVM's target for this processor, for position-independent code."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
        reloc="pic",
        codemodel="small",
    )


@cache
def version() -> str:
    """Return a hash of what machine code depends on besides its source: LLVM and the processor."""
    digest = hashlib.sha256()
    for text in (llvmlite.__version__, str(llvm.llvm_version_info), llvm.get_host_cpu_name()):
        digest.update(text.encode())
    digest.update(llvm.get_host_cpu_features().flatten().encode())
    return digest.hexdigest()


def parsed(module: Any) -> Any:
    """Return a module of llvmlite as an LLVM module for this processor."""
    machine = target_machine()
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    assembly = llvm.parse_assembly(str(module))
    assembly.verify()
    return assembly


def optimize(module: Any) -> None:
    """Run LLVM's O2 pipeline, with both vectorizers, on an LLVM module."""
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = True
    options.slp_vectorization = True
    builder = llvm.create_pass_builder(target_machine(), options)
    builder.getModulePassManager().run(module, builder)


@dataclass(frozen=True, eq=False)
class Linked:
    """Object code that stays in memory as long as this object; ``addresses`` holds the requested functions."""

    addresses: Mapping[str, int]


def link(code: bytes, names: Iterable[str]) -> Linked:
    """Load object code into memory with a separate linker, so that freeing it leaves nothing behind.

    JITLink puts all sections of a program into one mapping. LLVM's older linker maps each section where there is room.
    With hundreds of threads these lie gigabytes apart, and LLVM ends the process: code reaches constants by 32-bit
    offsets.
    """
    linker = llvm.create_lljit_compiler(target_machine(), use_jit_link=True)
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    names = tuple(names)
    for name in names:
        builder.export_symbol(name)
    library = builder.link(linker, "p4reduce")
    linked = Linked({name: library[name] for name in names})
    finalize(linked, _unlink, linker, library).atexit = False  # so that drivers may still run it at exit
    return linked


def _unlink(linker: Any, library: Any) -> None:
    """Frees code, which must not run any more."""
    library.close()
    linker.close()


Report = Callable[[int, int], None]
"""``report(done, total)``: functions compiled so far, and functions known; called by the thread that compiles"""
Watch = Callable[[], AbstractContextManager[Report]]
"""entered when something has to be compiled; yields the function that receives progress"""


class CompilationError(RuntimeError):
    """The compiling process has failed; the text is its output."""


_entries: Final[dict[str, list["Entry"]]] = {}
_loaded: Final[dict[str, Linked]] = {}
_lock: Final = threading.RLock()


@contextmanager
def _say() -> Iterator[Report]:
    sys.stderr.write("compiling machine code (once, some ten seconds) …\n")
    yield lambda _done, _total: None


_watch: list[Watch] = [_say]


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Show compilation by ``watch`` within the context; the default is one line on stderr."""
    _watch.append(watch)
    try:
        yield
    finally:
        _watch.remove(watch)


def register(entry: "Entry") -> None:
    """Record an entry of a module that is being imported."""
    _entries.setdefault(entry.__module__, []).append(entry)


def entries_of(module: str) -> list["Entry"]:
    """Return the entries of an imported module."""
    return _entries.get(module, [])


def addresses(module: str, folder: Path) -> Mapping[str, int]:
    """Return the addresses of a module's C functions, by symbol.

    Raises:
        CompilationError: the object file is missing and cannot be made, or cannot be read.
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
            _loaded[module] = link(code, [entry.symbol for entry in _entries[module]])
        return _loaded[module].addresses


def prepare(*modules: str) -> None:
    """Make the missing object files of these modules and of all modules imported so far.

    A process that needs one of them needs the others, too, and they are made at the same time.

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
        for module in missing:  # the same order everywhere, so that two processes never wait for each other
            stack.enter_context(_alone(paths[module].with_suffix(".lock")))
        _compile({module: paths[module] for module in missing if read(paths[module]) is None}, report)


def _compile(paths: Mapping[str, Path], report: Report) -> None:
    """Runs one process per folder, as many at once as there are processors; the first failure ends all.

    The modules of a folder share functions, and so one process.
    """
    waiting: dict[Path, dict[str, Path]] = {}
    for module, path in sorted(paths.items()):
        waiting.setdefault(path.parent, {})[module] = path
    counts: dict[Path, tuple[int, int]] = {}
    changed = threading.Condition()
    running: dict[Path, _Maker] = {}

    def told(folder: Path, done: int, total: int) -> None:
        with changed:
            counts[folder] = done, total
            changed.notify()

    try:
        while waiting or running:
            while waiting and len(running) < (os.cpu_count() or 1):
                folder = max(waiting, key=lambda folder: len(waiting[folder]))
                running[folder] = _Maker(folder, waiting.pop(folder), told)
            with changed:
                changed.wait(0.1)
                done, total = (sum(column) for column in zip((0, 0), *counts.values(), strict=True))
            report(done, total)
            for folder in [folder for folder, maker in running.items() if maker.ended()]:
                running.pop(folder).check()
    finally:
        for maker in running.values():
            maker.kill()


class _Maker:
    """A process that makes the object files of one folder, and reports its progress."""

    def __init__(self, folder: Path, paths: Mapping[str, Path], told: Callable[[Path, int, int], None]) -> None:
        self._folder = folder
        self._modules = ", ".join(paths)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "p4switch.native.build", *(str(word) for pair in paths.items() for word in pair)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            start_new_session=True,  # this process handles Ctrl-C
        )
        self._said: list[str] = []
        self._reader = threading.Thread(target=self._read, args=(told,), daemon=True)
        self._reader.start()

    def _read(self, told: Callable[[Path, int, int], None]) -> None:
        for line in self._process.stdout or ():
            words = line.split()
            if len(words) == 3 and words[0] == "compiled":
                told(self._folder, int(words[1]), int(words[2]))
            else:
                self._said.append(line)

    def ended(self) -> bool:
        return self._process.poll() is not None

    def check(self) -> None:
        self._reader.join()
        if self._process.returncode != 0:
            raise CompilationError(f"{self._modules}: could not be compiled:\n{''.join(self._said)}")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Holds a lock file, so that one process works at a time; if it is killed, the lock is free again."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def read(path: Path) -> bytes | None:
    """Return object code whose stored hash is right; None if the file is missing or damaged."""
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    code, digest = stored[:-32], stored[-32:]
    return code if hashlib.sha256(code).digest() == digest else None


def write(path: Path, code: bytes) -> None:
    """Write object code with its hash, whole or not at all.

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
