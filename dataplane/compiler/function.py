"""What the two functions of a program share."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from llvmlite import ir

from p4reduce.dataplane import abi
from p4reduce.dataplane.compiler import paths
from p4reduce.dataplane.compiler.context import FunctionContext
from p4reduce.dataplane.compiler.data import DataLowering
from p4reduce.dataplane.compiler.llvm_types import (
    I1,
    I64,
    POINTER,
    Value,
    byte_offset,
    number,
    resize,
)
from p4reduce.dataplane.compiler.phv import PhvLayout
from p4reduce.dataplane.compiler.storage import FieldStorage
from p4reduce.dataplane.model.externs import Checksum
from p4reduce.dataplane.model.program import Program
from p4reduce.dataplane.state.layout import StateLayout


class FunctionBuilder(ABC):
    """What both functions share."""

    def __init__(self, program: Program, layout: StateLayout, buffer: PhvLayout, module: Value) -> None:
        self._program = program
        self._layout = layout
        self._buffer = buffer
        self._module = module

    def _function(self, name: str, arguments: list[tuple[str, Value]]) -> Value:
        """A function of (name, type) arguments that returns i64; what its pointers point to does not overlap."""
        kind = ir.FunctionType(I64, [t for _, t in arguments])
        function = ir.Function(self._module, kind, name)
        function.attributes.add("nounwind")
        for argument, (label, argument_type) in zip(function.args, arguments, strict=True):
            argument.name = label
            if argument_type is POINTER:
                argument.add_attribute("noalias")
        return function

    @abstractmethod
    def _payload(self) -> tuple[Value, Value]:
        """Address and length (i64) of the bytes that the parser did not extract."""

    def _context(self, builder: Value, state: Value, ingress_length: Value, packet_length: Value) -> FunctionContext:
        storage = FieldStorage(self._program, builder)
        length = storage.slot(I64, number(64, 0))
        context = FunctionContext(
            program=self._program,
            layout=self._layout,
            builder=builder,
            storage=storage,
            state=state,
            ingress_length=ingress_length,
            packet_length=length,
            exit_flag=storage.slot(I1, number(1, 0)),
            payload=self._payload,
            notes=paths.PathNotes.make(storage) if self._program.leaves_path else None,
        )
        start = context.block("start")
        builder.branch(start)
        builder.position_at_end(start)
        builder.store(packet_length, length)
        return context

    def _finish_endless(self, context: FunctionContext, io: Value, cells: Mapping[int, int], result: int) -> None:
        """Where packets go that take too many steps, if any can: they are counted, and nothing is left of them."""
        if context.endless is None:
            return
        b = context.builder
        b.position_at_end(context.endless)
        context.add_to(context.cell_address(context.layout.endless_packets), number(64, 1))
        for cell, value in cells.items():
            if cell >= abi.OUT_CLONE and not self._program.leaves_path:
                continue
            b.store(number(64, value), byte_offset(b, io, 8 * cell), align=8)
        b.ret(number(64, result))

    def _set_intrinsic(self, context: FunctionContext, name: str, value: Value) -> None:
        """Sets a field that the target writes, if the program has it; ``value`` is an i64."""
        field = self._program.intrinsic(name)
        if field is not None:
            context.storage.store(field, resize(context.builder, value, field.width))

    def _io(self, context: FunctionContext, io: Value, cell: int) -> Value:
        return context.builder.load(byte_offset(context.builder, io, 8 * cell), align=8, typ=I64)


def checksum_applies(context: FunctionContext, checksum: Checksum, unless: Value) -> Value:
    """Whether a checksum's condition holds, and ``unless``."""
    if checksum.condition is None:
        return unless
    data = DataLowering(context, f"checksum {checksum.name!r}")
    return context.builder.and_(unless, data.condition(checksum.condition))
