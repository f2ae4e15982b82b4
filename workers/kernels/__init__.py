"""Compiled code of endpoints, which handles frames and lanes. One folder above is the Python that sets them up."""

from pathlib import Path

from p4switch.native.compiler import Compiler

_compiler = Compiler(Path(__file__).parents[1])
kernel = _compiler.kernel
entry = _compiler.entry
