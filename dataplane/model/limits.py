"""How much a program may ask for. Beyond, it is refused when it is loaded, with the name of what asks for it.

p4c's tests and the programs of this repository stay far below; the limits keep what a hand-made JSON file asks for
within the memory, the stack and the time of the process that runs it.
"""

from typing import Final

MAX_BITS: Final = 1 << 16
"""Bits of a field, a register's cell, a parameter, a constant or a cast: 8 KiB."""

MAX_FIELD_BITS: Final = 1 << 20
"""Bits of all fields of all instances together: machine code may keep them on the stack, 128 KiB."""

MAX_STATE_BYTES: Final = 1 << 34
"""Bytes of all registers, counters, meters and value sets of a device; pages are taken when packets touch them."""

MAX_INDEX: Final = (1 << 32) - 1
"""Cells of an array: an index has 32 bits."""

MAX_DEPTH: Final = 250
"""Operators inside each other; public exercises have up to 129."""

FRAMES: Final = 20 * MAX_DEPTH
"""Python frames that walks over the deepest expression need beyond those of their callers."""

MAX_WEIGHT: Final = 1 << 13
"""Operands and operators of an expression, counted as often as they are written out: choices among the elements of
stacks repeat theirs for each element."""

MAX_WEIGHTS: Final = 1 << 18
"""Those of all expressions of a program."""

MAX_NODES: Final = 1 << 16
"""Tables, conditions, parser states, primitives and headers together."""

MAX_STEPS: Final = 1 << 15
"""Visits of one packet, in one pipeline, to nodes that lie on a cycle, and backward jumps of its actions."""

MAX_NUMBER: Final = (1 << 31) - 1
"""Ids, priorities and error codes: int in BMv2 and P4Runtime."""

MAX_LOOKAHEAD_OFFSET: Final = 1 << 17
"""Bits between the position and what is looked at; a frame is shorter."""

SHIFT_MASK: Final = (1 << 32) - 1
"""BMv2 shifts by an amount modulo 2**32."""

MAX_SHIFT: Final = 1 << 16
"""Shifts by more give the same result in any field, and would only fill the memory."""
