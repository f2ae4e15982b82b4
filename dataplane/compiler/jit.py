"""From LLVM IR to machine code in memory, with a cache on disk."""

import contextlib
import hashlib
import os
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakValueDictionary, finalize

import llvmlite
import llvmlite.binding as llvm

from p4reduce.dataplane import abi
from p4reduce.dataplane.compiler.functions import EGRESS_NAME, INGRESS_NAME, build_module
from p4reduce.dataplane.compiler.paths import KeptLayout
from p4reduce.dataplane.compiler.phv import PhvLayout
from p4reduce.dataplane.model.program import Program

CACHE_VARIABLE: Final = "P4REDUCE_CACHE"
"""Environment variable: the cache's directory, in place of $XDG_CACHE_HOME/p4reduce."""

_MOST_FILES: Final = 128
"""Files in the cache; one holds 10 to 50 kB."""

_COMPILED: WeakValueDictionary[str, "CompiledProgram"] = WeakValueDictionary()
"""By fingerprint: programs that were loaded twice have their code once."""

_OF_PROGRAM: WeakKeyDictionary[Program, "CompiledProgram"] = WeakKeyDictionary()
"""Keeps code as long as its program: who makes one device after the other links once."""


@dataclass(frozen=True, eq=False)
class CompiledProgram:
    """Machine code of a program; in memory as long as this object, which every device of the program holds.

    It has no reference to the program: _OF_PROGRAM would then keep both for ever.

    Attributes:
        ingress_address, egress_address: of the functions that abi.py describes.
        phv_bytes: size of the buffer between them.
        out_bytes: size of the buffer for a frame that leaves.
        kept: what lies where in the buffer at abi.KEPT_ADDRESS.
        leaves_path: see Program.
    """

    ingress_address: int
    egress_address: int
    phv_bytes: int
    out_bytes: int
    kept: KeptLayout
    leaves_path: bool

    @property
    def kept_bytes(self) -> int:
        """Size of the buffer at abi.KEPT_ADDRESS."""
        return self.kept.bytes


def compile_program(program: Program) -> CompiledProgram:
    """Compiles a program, or takes it from this process's memory or the cache on disk.

    Raises:
        UnsupportedConstruct: the program is beyond the compiler.
    """
    compiled = _OF_PROGRAM.get(program) or _COMPILED.get(program.fingerprint)
    if compiled is None:
        compiled = _load(program)
    _COMPILED[program.fingerprint] = _OF_PROGRAM[program] = compiled
    return compiled


def optimized_assembly(program: Program) -> str:
    """The machine code as text, for reading."""
    machine = _target_machine()
    text: str = machine.emit_assembly(_optimized(build_module(program), machine))
    return text


def _load(program: Program) -> CompiledProgram:
    path = _cache_path(program)
    code = _read(path)
    if code is None:
        machine = _target_machine()
        code = machine.emit_object(_optimized(build_module(program), machine))
        _write(path, code)
    linker, library = _linked(code)
    headers = sum(program.headers[name].most_bytes for name in program.deparser)
    compiled = CompiledProgram(
        library[INGRESS_NAME],
        library[EGRESS_NAME],
        PhvLayout.of(program).bytes,
        abi.MAX_FRAME_BYTES + headers,
        KeptLayout.of(program),
        program.leaves_path,
    )
    finalize(compiled, _unlink, linker, library).atexit = False  # then drivers may still run it
    return compiled


def _linked(code: bytes) -> tuple[Any, Any]:
    """Object code in memory: a linker of its own, so that nothing is left of it once it is freed, and its functions.

    JITLink puts all sections of a program into one mapping. LLVM's older linker maps each where there is room, in a
    process with hundreds of threads gigabytes apart, and then ends the process: code reaches its constants by 32 bits.
    """
    linker = llvm.create_lljit_compiler(_target_machine(), use_jit_link=True)
    library = (
        llvm.JITLibraryBuilder()
        .add_object_img(code)
        .add_current_process()
        .export_symbol(INGRESS_NAME)
        .export_symbol(EGRESS_NAME)
        .link(linker, "p4reduce")
    )
    return linker, library


def _unlink(linker: Any, library: Any) -> None:
    """Frees code; nothing may run it any more."""
    library.close()
    linker.close()


@cache
def _target_machine() -> Any:
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


def _optimized(module: Any, machine: Any) -> Any:
    """LLVM's O2 pipeline with both vectorizers, for this machine."""
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    parsed = llvm.parse_assembly(str(module))
    parsed.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = True
    options.slp_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(parsed, builder)
    return parsed


# --- the cache on disk


def cache_directory() -> Path:
    """Where machine code is kept between runs."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "p4reduce"


@cache
def _compiler_version() -> str:
    """A hash of everything that decides about the code, but the program: sources, LLVM, CPU."""
    digest = hashlib.sha256()
    root = Path(__file__).resolve().parents[1]
    for folder in ("compiler", "model", "state", "tables"):
        for source in sorted((root / folder).glob("*.py")):
            digest.update(source.read_bytes())
    digest.update((root / "abi.py").read_bytes())
    for text in (llvmlite.__version__, str(llvm.llvm_version_info), llvm.get_host_cpu_name()):
        digest.update(text.encode())
    digest.update(llvm.get_host_cpu_features().flatten().encode())
    return digest.hexdigest()


def _cache_path(program: Program) -> Path:
    key = hashlib.sha256(f"{program.fingerprint} {_compiler_version()}".encode()).hexdigest()
    return cache_directory() / "code" / f"{key}.o"


def _read(path: Path) -> bytes | None:
    """The cached object code; None where there is none, or where it is damaged."""
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    code, digest = stored[:-32], stored[-32:]
    return code if hashlib.sha256(code).digest() == digest else None


def _write(path: Path, code: bytes) -> None:
    """Keeps object code, with its hash; a cache that cannot be written is no error."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(code + hashlib.sha256(code).digest())
            Path(temporary).replace(path)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            raise
        _forget_oldest(path.parent)


def _forget_oldest(folder: Path) -> None:
    """Keeps the newest files: sources, compilers and CPUs change, and nothing else would ever delete what they left."""
    kept = sorted(folder.glob("*.o"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in kept[_MOST_FILES:]:
        file.unlink(missing_ok=True)
