"""The LLVM module of a program: its two functions; abi.py says what they take and give."""

from llvmlite import ir

from p4reduce.dataplane.compiler.egress import EgressBuilder
from p4reduce.dataplane.compiler.ingress import IngressBuilder
from p4reduce.dataplane.compiler.llvm_types import (
    Value,
)
from p4reduce.dataplane.compiler.phv import PhvLayout
from p4reduce.dataplane.model.program import Program
from p4reduce.dataplane.state.layout import StateLayout


def build_module(program: Program) -> Value:
    """The LLVM module of a program, not optimized.

    Raises:
        UnsupportedConstruct: the program is beyond the compiler.
    """
    module = ir.Module(name="p4reduce")  # LLVM would read a name with line breaks as code
    layout, buffer = StateLayout(program), PhvLayout.of(program)
    IngressBuilder(program, layout, buffer, module).build()
    EgressBuilder(program, layout, buffer, module).build()
    return module
