"""P4 programs to machine code, through LLVM."""

from p4reduce.dataplane.compiler.executor import CompiledExecutor
from p4reduce.dataplane.compiler.jit import CompiledProgram, compile_program, optimized_assembly

__all__ = ["CompiledExecutor", "CompiledProgram", "compile_program", "optimized_assembly"]
