"""``kernel`` and ``entry`` of ``p4reduce.fabric`` (see ``p4reduce.native``); it has kernels of ``p4reduce.workers``."""

from pathlib import Path

from p4reduce.native.compiler import Compiler

_FOLDER = Path(__file__).parent
_compiler = Compiler(_FOLDER, _FOLDER.parent / "workers")
kernel = _compiler.kernel
entry = _compiler.entry
