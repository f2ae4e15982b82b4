"""What is kept of a packet that leaves the straight path: fields that the program lists."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from p4reduce.dataplane.model.expressions import FieldRef
from p4reduce.dataplane.model.packet_path import LearnList
from p4reduce.dataplane.model.program import Program
from p4reduce.dataplane.state.layout import cell_bytes, cell_kind

_ALIGNMENT = 8


@dataclass(frozen=True)
class KeptLayout:
    """Where the fields of field lists and digests lie in the buffer at KEPT_ADDRESS."""

    offsets: dict[FieldRef, int]
    bytes: int

    @classmethod
    def of(cls, program: Program) -> "KeptLayout":
        """The layout for a program."""
        offsets, at = dict[FieldRef, int](), 0
        for field in program.kept_fields:
            offsets[field] = at
            at += -(-cell_bytes(field.width) // _ALIGNMENT) * _ALIGNMENT
        return cls(offsets, at)

    def values(self, kept: NDArray[np.uint8], learn_list: LearnList) -> tuple[int, ...]:
        """The elements of a digest, unsigned, from the buffer's bytes."""
        return tuple(self._bits(kept, e) if isinstance(e, FieldRef) else e.value for e in learn_list.elements)

    def _bits(self, kept: NDArray[np.uint8], field: FieldRef) -> int:
        at, size = self.offsets[field], cell_bytes(field.width)
        cell = kept[at : at + size]
        if cell_kind(field.width) == "lanes":
            return int.from_bytes(cell.view(np.uint32).astype(">u4").tobytes(), "big")
        return int.from_bytes(cell.tobytes(), "little")
