"""Machine code of P4 programs, with a cache on disk."""

import contextlib
import ctypes
import hashlib
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from p4switch import abi
from p4switch.compiler.data import KeptLayout, PhvLayout
from p4switch.native import objects
from p4switch.native.objects import Linked, link, read, target_machine, write
from p4switch.program.actions import LearnList
from p4switch.program.program import Program
from p4switch.state import DeviceState

CACHE_VARIABLE: Final = "P4REDUCE_CACHE"
"""Environment variable: the cache's directory, in place of $XDG_CACHE_HOME/p4reduce."""

COMPILED_FROM: Final = ("compiler", "program", "state", "tables")
"""Folders whose sources determine the machine code of a program."""

_MOST_FILES: Final = 128
"""Largest number of files in the cache; each holds 10 to 50 kB."""

_QUOTED: Final = re.compile(r'([%@])"([-a-zA-Z$._][-a-zA-Z$._0-9]*)"')

_COMPILED: WeakValueDictionary[str, "CompiledProgram"] = WeakValueDictionary()
"""Compiled programs by fingerprint; equal programs share their code."""

_OF_PROGRAM: WeakKeyDictionary[Program, "CompiledProgram"] = WeakKeyDictionary()
"""Machine code of each live program, so that devices made one after another link it only once."""


@dataclass(frozen=True, eq=False)
class CompiledProgram:
    """Machine code of a program, in memory while this object lives; every device of the program refers to it.

    It must not refer to the program, because _OF_PROGRAM would then keep both forever.

    Attributes:
        code: keeps the machine code in memory.
        ingress_address, egress_address: addresses of the functions that abi.py describes.
        phv_bytes: size of the buffer between the two functions.
        out_bytes: size of the buffer for a frame that leaves.
        kept: layout of the buffer at abi.KEPT_ADDRESS.
        leaves_path: see Program.
    """

    code: Linked
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
    """Compiles a program, or takes its code from this process's memory or from the cache on disk.

    Raises:
        UnsupportedConstruct: the compiler does not support a part of the program.
    """
    compiled = _OF_PROGRAM.get(program) or _COMPILED.get(program.fingerprint)
    if compiled is None:
        compiled = _load(program)
    _COMPILED[program.fingerprint] = _OF_PROGRAM[program] = compiled
    return compiled


def optimized_assembly(program: Program) -> str:
    """Returns the machine code of a program as assembly text."""
    text: str = target_machine().emit_assembly(_optimized(program))
    return text


def module_text(program: Program) -> str:
    """Returns the LLVM IR that the compiler gives to LLVM; the same on every machine.

    Names have no quotes where LLVM needs none.

    Raises:
        UnsupportedConstruct: the compiler does not support a part of the program.
    """
    from p4switch.compiler.pipelines import build_module  # noqa: PLC0415  (as below)

    lines = [_QUOTED.sub(r"\1\2", line.rstrip()) for line in str(build_module(program)).splitlines()]
    return "\n".join(lines).strip() + "\n"


def _load(program: Program) -> CompiledProgram:
    path = _cache_path(program)
    code = read(path)
    if code is None:
        code = target_machine().emit_object(_optimized(program))
        _keep(path, code)
    else:
        with contextlib.suppress(OSError):
            os.utime(path)  # marks it as used, for _forget_oldest
    linked = link(code, (abi.INGRESS_NAME, abi.EGRESS_NAME))
    headers = sum(program.headers[name].most_bytes for name in program.deparser)
    return CompiledProgram(
        linked,
        linked.addresses[abi.INGRESS_NAME],
        linked.addresses[abi.EGRESS_NAME],
        PhvLayout.of(program).bytes,
        abi.MAX_FRAME_BYTES + headers,
        KeptLayout.of(program),
        program.leaves_path,
    )


def _optimized(program: Program) -> Any:
    from p4switch.compiler.pipelines import build_module  # noqa: PLC0415  (only if the code is not in the cache)

    module = objects.parsed(build_module(program))
    objects.optimize(module)
    return module


# --- the cache on disk


def cache_directory() -> Path:
    """Returns the folder in which machine code is kept between runs."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "p4reduce"


@cache
def _compiler_version() -> str:
    """Returns a hash of what determines the code besides the program: compiler sources, LLVM, processor."""
    digest = hashlib.sha256()
    root = Path(__file__).resolve().parents[1]
    for folder in COMPILED_FROM:
        for source in sorted((root / folder).glob("*.py")):
            digest.update(source.read_bytes())
    for source in (root / "abi.py", Path(objects.__file__)):
        digest.update(source.read_bytes())
    digest.update(objects.version().encode())
    return digest.hexdigest()


def _cache_path(program: Program) -> Path:
    key = hashlib.sha256(f"{program.fingerprint} {_compiler_version()}".encode()).hexdigest()
    return cache_directory() / "code" / f"{key}.o"


def _keep(path: Path, code: bytes) -> None:
    """Writes object code to the cache; ignores a cache that cannot be written."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, code)
        _forget_oldest(path.parent)


def _forget_oldest(folder: Path) -> None:
    """Deletes all but the files used last; otherwise code of other versions and processors would stay forever."""
    kept = sorted(folder.glob("*.o"), key=lambda file: file.stat().st_mtime_ns, reverse=True)
    for file in kept[_MOST_FILES:]:
        file.unlink(missing_ok=True)


# Running compiled programs from Python, one packet at a time.


_INGRESS: Final = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
)
_EGRESS: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class CompiledExecutor:
    """Runs machine code as an Executor; see traffic.py."""

    def __init__(self, code: CompiledProgram, state: DeviceState) -> None:
        self._state = state
        self._phv_bytes = code.phv_bytes
        self._ingress = _INGRESS(code.ingress_address)
        self._egress = _EGRESS(code.egress_address)
        self._code = code  # must stay in memory: CFUNCTYPE holds addresses only
        self._layout = code.kept
        self._kept = np.zeros(max(code.kept_bytes, 1), dtype=np.uint8)
        self._cloned = np.zeros(code.phv_bytes if code.leaves_path else 1, dtype=np.uint8)
        self._out = np.zeros(code.out_bytes, dtype=np.uint8)

    def ingress(self, frame: bytes, io: NDArray[np.int64], kept: object = None) -> NDArray[np.uint8]:
        """See Executor."""
        if isinstance(kept, np.ndarray):
            self._kept[:] = kept
        io[abi.KEPT_ADDRESS] = self._kept.ctypes.data
        phv = np.empty(self._phv_bytes, dtype=np.uint8)
        used = self._ingress(self._state.address, frame, len(frame), io.ctypes.data, phv.ctypes.data)
        if used < 0:
            raise ValueError(f"a frame of {len(frame)} bytes is too long")
        return phv

    def egress(self, phv: object, io: NDArray[np.int64]) -> bytes | None:
        """See Executor."""
        if not isinstance(phv, np.ndarray):
            raise TypeError(f"{type(phv).__name__} is not what ingress of this executor gives")
        io[abi.KEPT_ADDRESS], io[abi.CLONE_ADDRESS] = self._kept.ctypes.data, self._cloned.ctypes.data
        length = self._egress(self._state.address, phv.ctypes.data, io.ctypes.data, self._out.ctypes.data)
        return None if length < 0 else self._out[:length].tobytes()

    def kept(self) -> NDArray[np.uint8]:
        """See Executor."""
        return self._kept.copy()

    def cloned(self) -> NDArray[np.uint8]:
        """See Executor."""
        return self._cloned.copy()

    def digest(self, learn_list: LearnList) -> tuple[int, ...]:
        """See Executor."""
        return self._layout.values(self._kept, learn_list)
