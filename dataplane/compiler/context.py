"""What all lowering of one function shares."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from p4reduce.dataplane.compiler.llvm_types import I64, POINTER, Builder, Value, byte_offset, number
from p4reduce.dataplane.compiler.storage import FieldStorage
from p4reduce.dataplane.model.limits import MAX_STEPS
from p4reduce.dataplane.model.program import Program
from p4reduce.dataplane.state.layout import StateLayout


@dataclass
class FunctionContext:
    """A function under construction.

    Attributes:
        state: the function's pointer to the device's cells.
        ingress_length: bytes of the frame as it came in, i64; what counters count.
        packet_length: slot (i64) of BMv2's packet length, which setValid and setInvalid change.
        exit_flag: slot (i1), set by ``exit``.
        notes: slots of PathNotes (paths.py), None in programs that do not leave the straight path.
        now: microseconds, i64; None in programs without meters.
        steps: slot (i64) of the steps that may come again, None as long as the function has none.
        endless: the block for packets that take too many; whoever builds the function fills it.
        payload: gives address and length (i64) of the bytes that the parser did not extract.
    """

    program: Program
    layout: StateLayout
    builder: Builder
    storage: FieldStorage
    state: Value
    ingress_length: Value
    packet_length: Value
    exit_flag: Value
    payload: Callable[[], tuple[Value, Value]]
    notes: Any = None
    now: Value = None
    steps: Value = None
    endless: Value = None

    def step(self) -> None:
        """Counts a step that may come again for the same packet; leaves the function's way at limits.MAX_STEPS."""
        b = self.builder
        if self.steps is None:
            self.steps, self.endless = self.storage.slot(I64, number(64, 0)), self.block("endless")
        taken = b.add(b.load(self.steps, typ=I64), number(64, 1))
        b.store(taken, self.steps)
        goes_on = self.block("few_steps")
        b.cbranch(b.icmp_unsigned(">", taken, number(64, MAX_STEPS)), self.endless, goes_on)
        b.position_at_end(goes_on)

    def block(self, name: str) -> Value:
        """A new block at the end of the function."""
        return self.builder.append_basic_block(name)

    def cell_address(self, cell: int) -> Value:
        """Where a cell of the device's state lies."""
        return byte_offset(self.builder, self.state, 8 * cell)

    def state_number(self, cell: int) -> Value:
        """A cell that does not change while a packet is processed, as i64."""
        return self._invariant(self.builder.load(self.cell_address(cell), align=8, typ=I64))

    def state_pointer(self, cell: int) -> Value:
        """A cell that does not change while a packet is processed, as a pointer."""
        return self._invariant(self.builder.load(self.cell_address(cell), align=8, typ=POINTER))

    def _invariant(self, load: Value) -> Value:
        load.set_metadata("invariant.load", self.builder.module.add_metadata([]))
        return load

    def add_to(self, pointer: Value, amount: Value) -> None:
        """``*pointer += amount``, 64 bits."""
        old = self.builder.load(pointer, align=8, typ=I64)
        self.builder.store(self.builder.add(old, amount), pointer, align=8)
