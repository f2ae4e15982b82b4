"""The packet header vector: what a packet's program works on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from p4switch import abi
from p4switch.interpreter.trace import Change
from p4switch.program import Program
from p4switch.program.actions import (
    Clone,
    GenerateDigest,
    MoveHeaders,
    PathPrimitive,
    Recirculate,
    Resubmit,
    Truncate,
)
from p4switch.program.errors import MAX_STEPS
from p4switch.program.expressions import LENGTH_FIELD, DataExpr, Field, FieldRef

# Primitives that send packets off the straight way, and meters (behavioral-model, simple_switch, primitives.cpp).


_LENGTH_MASK = (1 << 64) - 1
"""BMv2 takes a length as a size_t."""

_SESSION_MASK = abi.CLONE_VALID - 1


@dataclass(slots=True)
class PathNotes:
    """What the primitives of a packet have left for the time after the pipeline; the latest counts.

    Attributes:
        clone: 0, or the session's number + CLONE_VALID; field lists and the digest: 0 for none.
        truncate: bytes.
    """

    clone: int = 0
    clone_list: int = 0
    resubmit: int = 0
    recirculate: int = 0
    digest: int = 0
    truncate: int = abi.NO_TRUNCATION


def note(primitive: PathPrimitive, notes: PathNotes, data: Callable[[DataExpr], int]) -> str:
    """Carries out a primitive; returns a text for people."""
    match primitive:
        case Clone(session, field_list):
            number = data(session) & 0xFFFF
            notes.clone, notes.clone_list = number | abi.CLONE_VALID, field_list
            return f"will be cloned to session {number & _SESSION_MASK}"
        case Resubmit(field_list):
            notes.resubmit = field_list
            return "will be resubmitted"
        case Recirculate(field_list):
            notes.recirculate = field_list
            return "will be recirculated"
        case Truncate(length):
            notes.truncate = min(notes.truncate, data(length) & _LENGTH_MASK)
            return f"will be cut to {notes.truncate} bytes"
        case GenerateDigest(learn_list):
            notes.digest = learn_list
            return "a digest will be sent"


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


# Headers as bits, and what happens to whole headers (behavioral-model, src/bm_sim/headers.cpp and stacks.cpp).


def field_bits(field: Field, header: str, phv: Phv) -> int:
    """Bits that a field takes in a packet: of a varbit field, as many as it holds now."""
    return phv.values[header, LENGTH_FIELD] if field.kind == "varbit" else field.on_wire


def header_bits(program: Program, header: str, phv: Phv) -> tuple[int, int]:
    """The fields of a header one behind the other, as one number, and how many bits they are."""
    number, bits = 0, 0
    for member in program.headers[header].type.wire_fields:
        width = field_bits(member, header, phv)
        number, bits = number << width | phv.values[header, member.name], bits + width
    return number, bits


def header_bytes(program: Program, header: str, phv: Phv) -> int:
    """Bytes of a header on the wire."""
    spec = program.headers[header]
    return spec.bytes + (0 if spec.type.varbit is None else phv.values[header, LENGTH_FIELD] // 8)


def read_fields(program: Program, header: str, data: bytes, length: int, phv: Phv) -> None:
    """Sets the fields of a header from its bytes; ``length``: bits of its varbit field."""
    number, left = int.from_bytes(data, "big"), 8 * len(data)
    for member in program.headers[header].type.wire_fields:
        width = length if member.kind == "varbit" else member.width
        left -= width
        phv.values[header, member.name] = number >> left & ((1 << width) - 1)
    if program.headers[header].type.varbit is not None:
        phv.values[header, LENGTH_FIELD] = length


def make_valid(program: Program, header: str, phv: Phv) -> None:
    """Makes a header valid, and those that share a union with it invalid."""
    phv.valid.difference_update(program.headers[header].siblings)
    phv.valid.add(header)


def move_headers(program: Program, move: MoveHeaders, phv: Phv) -> tuple[Change, ...]:
    """Shifts the elements of a stack."""
    values, valid = dict(phv.values), set(phv.valid)
    changes = []
    for target, origin in zip(move.targets, move.origins, strict=True):
        for member in program.headers[target].type.fields:
            phv.values[target, member.name] = values[origin, member.name]
            if target != origin and member.kind != "length":
                changes.append(
                    Change(f"{target}.{member.name}", values[target, member.name], values[origin, member.name])
                )
        is_valid = origin in valid and target not in move.cleared
        (phv.valid.add if is_valid else phv.valid.discard)(target)
        changes.append(Change(f"{target}.isValid()", int(target in valid), int(is_valid)))
    return tuple(changes)
