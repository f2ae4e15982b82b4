"""The packet header vector: what a packet's program works on."""

from __future__ import annotations

from dataclasses import dataclass, field

from p4reduce.dataplane.interpreter.paths import PathNotes
from p4reduce.dataplane.model import Program
from p4reduce.dataplane.model.expressions import FieldRef
from p4reduce.dataplane.model.limits import MAX_STEPS


class TooManySteps(Exception):
    """A packet went round in a pipeline more often than limits.MAX_STEPS; it is dropped."""


@dataclass
class Phv:
    """Headers, metadata and payload of one packet.

    Attributes:
        values: field by (header, name), unsigned, in the field's width. A field of an invalid header keeps its value.
        valid: names of the valid headers; metadata always are.
        payload: the bytes that the parser did not extract.
        ingress_length: bytes of the frame that came in; counters add this.
        notes: what clone, resubmit, recirculate, truncate and digest have left.
        steps: what limits.MAX_STEPS limits, in the present pipeline.
        packet_length: the same, plus headers made valid by setValid(), minus those made invalid.
    """

    values: dict[tuple[str, str], int]
    valid: set[str]
    payload: bytes = b""
    ingress_length: int = 0
    packet_length: int = 0
    exit: bool = field(default=False)
    notes: PathNotes = field(default_factory=PathNotes)
    steps: int = 0

    def step(self) -> None:
        """Counts a step that may come again. Raises TooManySteps."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise TooManySteps

    @classmethod
    def empty(cls, program: Program, length: int) -> Phv:
        """All fields zero, no header valid; ``length`` in bytes."""
        values = {(h.name, f.name): 0 for h in program.headers.values() for f in h.type.fields}
        valid = {h.name for h in program.headers.values() if h.metadata}
        return cls(values, valid, ingress_length=length, packet_length=length)

    def copy(self) -> Phv:
        """A packet of its own."""
        return Phv(dict(self.values), set(self.valid), self.payload, self.ingress_length, self.packet_length)

    def load(self, ref: FieldRef) -> int:
        """The value of a field, negative where it is signed and its top bit is set."""
        value = self.values[ref.header, ref.name]
        return value - (1 << ref.width) if ref.signed and value >> (ref.width - 1) else value

    def bits(self, ref: FieldRef) -> int:
        """The bits of a field, as a natural number."""
        return self.values[ref.header, ref.name]

    def store(self, ref: FieldRef, value: int) -> None:
        """Sets a field to ``value`` modulo its width."""
        self.values[ref.header, ref.name] = value & ((1 << ref.width) - 1)
