"""The compiler from P4 programs to machine code, through LLVM."""

from p4switch.compiler.jit import CompiledExecutor, CompiledProgram, compile_program, module_text, optimized_assembly

__all__ = ["CompiledExecutor", "CompiledProgram", "compile_program", "module_text", "optimized_assembly"]
