"""Object files, one for each module with entries: found on disk, or made by processes of their own."""

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

import llvmlite
import llvmlite.binding as llvm

if TYPE_CHECKING:
    from p4switch.native.compiler import Entry


# LLVM: from its text to machine code in memory. Object code from here may be kept on disk for this very processor.


@cache
def target_machine() -> Any:
    """The processor that runs this, with code that may lie anywhere."""
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
    """A hash of what decides about machine code beside its source: LLVM and the processor."""
    digest = hashlib.sha256()
    for text in (llvmlite.__version__, str(llvm.llvm_version_info), llvm.get_host_cpu_name()):
        digest.update(text.encode())
    digest.update(llvm.get_host_cpu_features().flatten().encode())
    return digest.hexdigest()


def parsed(module: Any) -> Any:
    """A module of llvmlite's for this processor, as LLVM's."""
    machine = target_machine()
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    found = llvm.parse_assembly(str(module))
    found.verify()
    return found


def optimize(module: Any) -> None:
    """Run LLVM's O2 pipeline, with both vectorizers, on a module of LLVM's."""
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = True
    options.slp_vectorization = True
    builder = llvm.create_pass_builder(target_machine(), options)
    builder.getModulePassManager().run(module, builder)


@dataclass(frozen=True, eq=False)
class Linked:
    """Object code in memory, for as long as this object; ``addresses`` has the functions that were asked for."""

    addresses: Mapping[str, int]


def link(code: bytes, names: Iterable[str]) -> Linked:
    """Bring object code into memory: a linker of its own, so that nothing is left of it once it is freed.

    JITLink puts all sections of a program into one mapping. LLVM's older linker maps each where there is room, in a
    process with hundreds of threads gigabytes apart, and then ends the process: code reaches its constants by 32 bits.
    """
    linker = llvm.create_lljit_compiler(target_machine(), use_jit_link=True)
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    names = tuple(names)
    for name in names:
        builder.export_symbol(name)
    library = builder.link(linker, "p4reduce")
    linked = Linked({name: library[name] for name in names})
    finalize(linked, _unlink, linker, library).atexit = False  # then drivers may still run it
    return linked


def _unlink(linker: Any, library: Any) -> None:
    """Frees code; nothing may run it any more."""
    library.close()
    linker.close()


Report = Callable[[int, int], None]
"""``report(done, total)``: functions that are compiled, and those that there are; from the thread that compiles"""
Watch = Callable[[], AbstractContextManager[Report]]
"""entered when something has to be compiled"""


class CompilationError(RuntimeError):
    """The process that compiles has failed; the text is what it said."""


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
            _loaded[module] = link(code, [entry.symbol for entry in _entries[module]])
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
    """Make object files in as many processes at once as there are processors; the first failure ends all.

    Modules of one folder share functions, and thereby a process.
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
    """A process that makes object files of one folder, and tells how far it is."""

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
            start_new_session=True,  # Ctrl-C is this process's to answer
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
