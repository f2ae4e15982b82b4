"""``kernel`` and ``entry`` of ``p4reduce.workers`` (see ``p4switch.native``)."""

from pathlib import Path

from p4switch.native.compiler import Compiler

_compiler = Compiler(Path(__file__).parents[1])
kernel = _compiler.kernel
entry = _compiler.entry
