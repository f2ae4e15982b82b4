"""``kernel`` and ``entry`` of this folder (see ``p4switch.native``)."""

from pathlib import Path

from p4switch.native.compiler import Compiler

_compiler = Compiler(Path(__file__).parent)
kernel = _compiler.kernel
entry = _compiler.entry
