"""Endpoints as compiled code: what happens to frames and lanes. Python that sets them up stands one folder above."""

from pathlib import Path

from p4switch.native.compiler import Compiler

_compiler = Compiler(Path(__file__).parents[1])
kernel = _compiler.kernel
entry = _compiler.entry
