"""Headers as bits, and what happens to whole headers (behavioral-model, src/bm_sim/headers.cpp and stacks.cpp)."""

from p4reduce.dataplane.interpreter.phv import Phv
from p4reduce.dataplane.interpreter.trace import Change
from p4reduce.dataplane.model import Program
from p4reduce.dataplane.model.actions import MoveHeaders
from p4reduce.dataplane.model.headers import LENGTH_FIELD, Field


def field_bits(field: Field, header: str, phv: Phv) -> int:
    """Bits that a field takes in a packet: of a varbit field, as many as it holds now."""
    return phv.values[header, LENGTH_FIELD] if field.kind == "varbit" else field.on_wire


def header_bits(program: Program, header: str, phv: Phv) -> tuple[int, int]:
    """The fields of a header one behind the other, as one number, and how many bits they are."""
    number, bits = 0, 0
    for field in program.headers[header].type.wire_fields:
        width = field_bits(field, header, phv)
        number, bits = number << width | phv.values[header, field.name], bits + width
    return number, bits


def header_bytes(program: Program, header: str, phv: Phv) -> int:
    """Bytes of a header on the wire."""
    spec = program.headers[header]
    return spec.bytes + (0 if spec.type.varbit is None else phv.values[header, LENGTH_FIELD] // 8)


def read_fields(program: Program, header: str, data: bytes, length: int, phv: Phv) -> None:
    """Sets the fields of a header from its bytes; ``length``: bits of its varbit field."""
    number, left = int.from_bytes(data, "big"), 8 * len(data)
    for field in program.headers[header].type.wire_fields:
        width = length if field.kind == "varbit" else field.width
        left -= width
        phv.values[header, field.name] = number >> left & ((1 << width) - 1)
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
        for field in program.headers[target].type.fields:
            phv.values[target, field.name] = values[origin, field.name]
            if target != origin and field.kind != "length":
                changes.append(Change(f"{target}.{field.name}", values[target, field.name], values[origin, field.name]))
        is_valid = origin in valid and target not in move.cleared
        (phv.valid.add if is_valid else phv.valid.discard)(target)
        changes.append(Change(f"{target}.isValid()", int(target in valid), int(is_valid)))
    return tuple(changes)
