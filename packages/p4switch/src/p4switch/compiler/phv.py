"""The buffer between ingress and egress: what of a packet is kept, and where."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from p4switch import abi
from p4switch.program.actions import (
    AddHeader,
    Assertion,
    Assign,
    AssignHeader,
    Calculation,
    Clone,
    Conditional,
    Count,
    ExecuteMeter,
    FieldInput,
    Hash,
    HeaderInput,
    JumpIfZero,
    LearnList,
    MoveHeaders,
    OneOf,
    Pipeline,
    Primitive,
    Random,
    Recirculate,
    RegisterRead,
    RegisterWrite,
    RemoveHeader,
    Several,
    Truncate,
)
from p4switch.program.expressions import LENGTH_FIELD, LENGTH_WIDTH, Expr, FieldRef, HeaderEqual, Valid, walk
from p4switch.program.program import Program
from p4switch.state.layout import cell_bytes, cell_kind

# What is kept of a packet that leaves the straight path: fields that the program lists.


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


INGRESS_LENGTH: Final = 0
PACKET_LENGTH: Final = 8
PAYLOAD_LENGTH: Final = 16
RECIRCULATE: Final = 24
TRUNCATE: Final = 32
FIRST_FIELD: Final = 64
"""Byte offsets in the buffer: int64 numbers (the last two for programs that leave the straight path), then fields,
then the payload."""

ALIGNMENT: Final = 64


class Needs:
    """Fields and validity bits that a piece of program may read."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.fields: set[FieldRef] = set()
        self.headers: set[str] = set()

    def expression(self, expr: Expr | None) -> None:
        """What an expression reads."""
        for node in walk(expr) if expr is not None else ():
            match node:
                case FieldRef():
                    self.fields.add(node)
                case Valid(header):
                    self.headers.add(header)
                case HeaderEqual(left=one, right=other):
                    self.header(one)
                    self.header(other)
                case _:
                    pass

    def header(self, name: str) -> None:
        """All of a header."""
        self.headers.add(name)
        for field in self._program.headers[name].type.fields:
            self.fields.add(FieldRef(name, field.name, field.width, field.signed))

    def _length(self, header: str) -> None:
        """The length of a header's varbit field."""
        if LENGTH_FIELD in self._program.headers[header].type.by_name:
            self.fields.add(FieldRef(header, LENGTH_FIELD, LENGTH_WIDTH))

    def calculation(self, calculation: Calculation) -> None:
        """Inputs of a hash."""
        for item in calculation.inputs:
            match item:
                case FieldInput(field):
                    self.fields.add(field)
                    self.headers.add(field.header)
                    self._length(field.header)
                case HeaderInput(header):
                    self.header(header)
                case _:
                    pass

    def primitive(self, primitive: Primitive) -> None:
        """What a primitive reads, and what it may leave as it was."""
        match primitive:
            case Assign(value=value):
                self.expression(value)
            case AssignHeader(target=target, origin=origin):
                self.header(origin)
                self.header(target)
            case AddHeader(header=header) | RemoveHeader(header=header):
                self.headers.add(header)
                self._length(header)
            case Random(target=target, low=low, high=high):
                self.expression(low)
                self.expression(high)
                self.fields.add(target)
            case MoveHeaders(targets=targets):
                for header in targets:
                    self.header(header)
            case Several(primitives=steps):
                for step in steps:
                    self.primitive(step)
            case OneOf(cases=cases):
                for chosen, step in cases:
                    self.expression(chosen)
                    self.primitive(step)
            case Count(index=index):
                self.expression(index)
            case RegisterRead(target=target, index=index):
                self.expression(index)
                self.fields.add(target)
            case RegisterWrite(index=index, value=value):
                self.expression(index)
                self.expression(value)
            case Hash(base=base, size=size, calculation=name):
                self.expression(base)
                self.expression(size)
                self.calculation(self._program.calculations[name])
            case JumpIfZero(condition=condition):
                self.expression(condition)
            case ExecuteMeter(index=index, target=target):
                self.expression(index)
                self.fields.add(target)
            case Clone(session=session, field_list=listed):
                self.expression(session)
                self.fields.update(self._program.field_lists[listed].fields)
            case Recirculate(field_list=listed):
                self.fields.update(self._program.field_lists[listed].fields)
            case Truncate(length=length):
                self.expression(length)
            case Assertion(condition=holds):
                self.expression(holds)
            case _:
                pass

    def pipeline(self, pipeline: Pipeline) -> None:
        """What the conditions, keys and actions of a pipeline read."""
        for node in pipeline.nodes.values():
            if isinstance(node, Conditional):
                self.expression(node.condition)
                continue
            for key in node.keys:
                self.expression(key.target)
            selector = None if node.profile is None else self._program.profiles[node.profile].selector
            if selector is not None:
                self.calculation(selector)
            for primitive in primitives_of(self._program, node.actions):
                self.primitive(primitive)

    def checksum_updates(self) -> None:
        """What the updates of checksums read; the target keeps its value where the condition fails."""
        for checksum in self._program.checksums:
            if checksum.update:
                self.expression(checksum.condition)
                self.calculation(self._program.calculations[checksum.calculation])
                self.fields.add(checksum.target)


def primitives_of(program: Program, actions: Iterable[int]) -> Iterator[Primitive]:
    """The primitives of actions given by id."""
    for ident in actions:
        for primitive in program.actions[ident].primitives:
            yield from _within(primitive)


def _within(primitive: Primitive) -> Iterator[Primitive]:
    match primitive:
        case Several(primitives=steps):
            for step in steps:
                yield from _within(step)
        case OneOf(cases=cases):
            yield primitive  # for its conditions
            for _, step in cases:
                yield from _within(step)
        case _:
            yield primitive


@dataclass(frozen=True)
class PhvLayout:
    """Byte offsets in the PHV buffer.

    Attributes:
        fields: of each field that egress or the deparser may read, as state.layout lays out cells.
        valid: of the validity byte of each header whose validity they may read.
        payload: where the payload starts; the fields end there.
        bytes: what a frame of abi.MAX_FRAME_BYTES needs.
    """

    fields: dict[FieldRef, int]
    valid: dict[str, int]
    payload: int

    @property
    def bytes(self) -> int:
        """Size of the buffer."""
        return self.payload + abi.MAX_FRAME_BYTES

    @classmethod
    def of(cls, program: Program) -> "PhvLayout":
        """The layout for a program; wide header fields always have a place, since ingress keeps them there."""
        needs = Needs(program)
        needs.pipeline(program.egress)
        needs.checksum_updates()
        for header in program.deparser:
            needs.header(header)
        fields = needs.fields | set(wide_header_fields(program))
        at, placed, valid = FIRST_FIELD, dict[FieldRef, int](), dict[str, int]()
        for field in sorted(fields, key=lambda f: (-cell_bytes(f.width), f.header, f.name)):
            size = cell_bytes(field.width)
            align = min(ALIGNMENT, 1 << (size - 1).bit_length())
            at = -(-at // align) * align
            placed[field] = at
            at += size
        for header in sorted(needs.headers):
            if not program.headers[header].metadata:
                valid[header] = at
                at += 1
        return cls(placed, valid, -(-at // ALIGNMENT) * ALIGNMENT)


def wide_header_fields(program: Program) -> list[FieldRef]:
    """Header fields that are kept as lanes, in memory."""
    return [
        FieldRef(header.name, f.name, f.width, f.signed)
        for header in program.headers.values()
        if not header.metadata
        for f in header.type.fields
        if cell_kind(f.width) == "lanes"
    ]
