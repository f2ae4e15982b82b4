"""Expressions, hashes and checksums in the interpreter. Data are unbounded integers, as in BMv2."""

from __future__ import annotations

import binascii
import operator
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from p4switch import abi
from p4switch.interpreter.trace import Change, ChecksumUpdated, ChecksumVerified, Listener
from p4switch.program import Program
from p4switch.program import program as model
from p4switch.program.errors import MAX_SHIFT, MAX_STEPS, SHIFT_MASK

# The packet header vector, and requests of primitives that send packets off the straight path (behavioral-model,
# simple_switch, primitives.cpp).


_LENGTH_MASK = (1 << 64) - 1
"""Mask of truncation lengths, which BMv2 converts to size_t."""

_SESSION_MASK = abi.CLONE_VALID - 1


@dataclass(slots=True)
class PathRequests:
    """Requests of a packet's primitives, served after the pipeline: the latest of each kind, the smallest truncation.

    Attributes:
        clone: session number + CLONE_VALID, or 0 for none; 0 also means none in field lists and the digest.
        truncate: greatest length of the frame that leaves, in bytes.
    """

    clone: int = 0
    clone_list: int = 0
    resubmit: int = 0
    recirculate: int = 0
    digest: int = 0
    truncate: int = abi.NO_TRUNCATION


def note(primitive: model.PathPrimitive, notes: PathRequests, data: Callable[[model.DataExpr], int]) -> str:
    """Records a primitive's request; returns a description of it for people."""
    match primitive:
        case model.Clone(session, field_list):
            number = data(session) & 0xFFFF
            notes.clone, notes.clone_list = number | abi.CLONE_VALID, field_list
            return f"will be cloned to session {number & _SESSION_MASK}"
        case model.Resubmit(field_list):
            notes.resubmit = field_list
            return "will be resubmitted"
        case model.Recirculate(field_list):
            notes.recirculate = field_list
            return "will be recirculated"
        case model.Truncate(length):
            notes.truncate = min(notes.truncate, data(length) & _LENGTH_MASK)
            return f"will be cut to {notes.truncate} bytes"
        case model.GenerateDigest(learn_list):
            notes.digest = learn_list
            return "a digest will be sent"


class TooManySteps(Exception):
    """A packet took more than MAX_STEPS steps on cycles of a pipeline; it is dropped."""


@dataclass
class Phv:
    """Headers, metadata and payload of one packet, the packet header vector.

    Attributes:
        values: by (header, field), unsigned, in the field's width. Fields of an invalid header keep their values.
        valid: names of the valid headers; metadata are always valid.
        payload: the bytes that the parser did not extract.
        ingress_length: bytes of the frame that came in; counters add this number.
        notes: requests of clone, resubmit, recirculate, truncate and digest.
        steps: repeatable steps taken in the current pipeline; MAX_STEPS limits them.
        packet_length: ingress_length plus headers made valid by setValid(), minus headers made invalid, in bytes.
    """

    values: dict[tuple[str, str], int]
    valid: set[str]
    payload: bytes = b""
    ingress_length: int = 0
    packet_length: int = 0
    exit: bool = field(default=False)
    notes: PathRequests = field(default_factory=PathRequests)
    steps: int = 0

    def step(self) -> None:
        """Counts a step that may be repeated. Raises TooManySteps."""
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise TooManySteps

    @classmethod
    def empty(cls, program: Program, length: int) -> Phv:
        """Returns a packet whose fields are all zero and whose headers are invalid; ``length`` in bytes."""
        values = {(h.name, f.name): 0 for h in program.headers.values() for f in h.type.fields}
        valid = {h.name for h in program.headers.values() if h.metadata}
        return cls(values, valid, ingress_length=length, packet_length=length)

    def copy(self) -> Phv:
        """Returns an independent copy of the packet."""
        return Phv(dict(self.values), set(self.valid), self.payload, self.ingress_length, self.packet_length)

    def load(self, ref: model.FieldRef) -> int:
        """Returns the value of a field; negative if the field is signed and its top bit is set."""
        value = self.values[ref.header, ref.name]
        return value - (1 << ref.width) if ref.signed and value >> (ref.width - 1) else value

    def bits(self, ref: model.FieldRef) -> int:
        """Returns the bits of a field as a non-negative number."""
        return self.values[ref.header, ref.name]

    def store(self, ref: model.FieldRef, value: int) -> None:
        """Sets a field to ``value`` modulo its width."""
        self.values[ref.header, ref.name] = value & ((1 << ref.width) - 1)


# Headers as bits, and operations on whole headers (behavioral-model, src/bm_sim/headers.cpp and stacks.cpp).


def field_bits(field: model.Field, header: str, phv: Phv) -> int:
    """Returns the bits that a field takes in a packet; for a varbit field, its current length."""
    return phv.values[header, model.LENGTH_FIELD] if field.kind == "varbit" else field.on_wire


def header_bits(program: Program, header: str, phv: Phv) -> tuple[int, int]:
    """Returns the concatenated fields of a header as one number, and their number of bits."""
    number, bits = 0, 0
    for member in program.headers[header].type.wire_fields:
        width = field_bits(member, header, phv)
        number, bits = number << width | phv.values[header, member.name], bits + width
    return number, bits


def header_bytes(program: Program, header: str, phv: Phv) -> int:
    """Returns the bytes of a header on the wire."""
    spec = program.headers[header]
    return spec.bytes + (0 if spec.type.varbit is None else phv.values[header, model.LENGTH_FIELD] // 8)


def read_fields(program: Program, header: str, data: bytes, length: int, phv: Phv) -> None:
    """Sets the fields of a header from its bytes; ``length``: bits of its varbit field."""
    number, left = int.from_bytes(data, "big"), 8 * len(data)
    for member in program.headers[header].type.wire_fields:
        width = length if member.kind == "varbit" else member.width
        left -= width
        phv.values[header, member.name] = number >> left & ((1 << width) - 1)
    if program.headers[header].type.varbit is not None:
        phv.values[header, model.LENGTH_FIELD] = length


def make_valid(program: Program, header: str, phv: Phv) -> None:
    """Makes a header valid, and the other members of its union invalid."""
    phv.valid.difference_update(program.headers[header].siblings)
    phv.valid.add(header)


def move_headers(program: Program, move: model.MoveHeaders, phv: Phv) -> tuple[Change, ...]:
    """Shifts the elements of a stack; returns the changes."""
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


def _no_packet(ahead: model.Lookahead) -> int:
    raise AssertionError(f"lookahead outside the parser: {ahead}")


@dataclass(frozen=True, slots=True)
class ValueScope:
    """The values that an expression may refer to.

    Attributes:
        arguments: arguments of the action, by index.
        look: returns bits ahead in the packet (parser only).
    """

    phv: Phv
    arguments: tuple[int, ...] = ()
    look: Callable[[model.Lookahead], int] = _no_packet

    def data(self, expr: model.DataExpr) -> int:
        """Returns the value of a data expression."""
        match expr:
            case model.FieldRef():
                return self.phv.load(expr)
            case model.Const(value):
                return value
            case model.Arith(op, left, right):
                return arith(op, self.data(left), self.data(right))
            case model.Select(condition, then, otherwise):
                return self.data(then if self.truth(condition) else otherwise)
            case model.ToData(operand):
                return int(self.truth(operand))
            case model.Parameter(index):
                return self.arguments[index]
            case model.Invert(operand):
                return ~self.data(operand)
            case model.Cast(op, operand, width):
                return cast(op, self.data(operand), width)
            case model.Valid(header):
                return int(header in self.phv.valid)
            case model.Lookahead():
                return self.look(expr)

    def truth(self, expr: model.BoolExpr) -> bool:
        """Returns the value of a bool expression."""
        match expr:
            case model.Compare(op, left, right):
                return compare(op, self.data(left), self.data(right))
            case model.Logic("and", left, right):
                return self.truth(left) and self.truth(right)
            case model.Logic("or", left, right):
                return self.truth(left) or self.truth(right)
            case model.Logic("==", left, right):
                return self.truth(left) == self.truth(right)
            case model.Logic(_, left, right):
                return self.truth(left) != self.truth(right)
            case model.Not(operand):
                return not self.truth(operand)
            case model.ToBool(operand):
                return self.data(operand) != 0
            case model.BoolConst(value):
                return value
            case model.BoolSelect(condition, then, otherwise):
                return self.truth(then if self.truth(condition) else otherwise)
            case model.HeaderEqual(left_header, right_header):
                return self._headers_equal(left_header, right_header)

    def _headers_equal(self, left: str, right: str) -> bool:
        if left not in self.phv.valid or right not in self.phv.valid:
            return False
        # A varbit field is compared as a number whatever its length, as in BMv2.
        ours = {
            name: v for (header, name), v in self.phv.values.items() if header == left and name != model.LENGTH_FIELD
        }
        return all(self.phv.values[right, name] == value for name, value in ours.items())


def arith(op: str, left: int, right: int) -> int:
    """Returns ``left op right``. Division gives 0 where BMv2 aborts (a divisor below 1, a negative dividend)."""
    match op:
        case "<<":
            return left << min(right & SHIFT_MASK, MAX_SHIFT)
        case ">>":
            return left >> min(right & SHIFT_MASK, MAX_SHIFT)
        case "/":
            return left // right if left >= 0 and right > 0 else 0
        case "%":
            return left % right if left >= 0 and right > 0 else 0
        case _:
            return _OPERATIONS[op](left, right)


_OPERATIONS: Final[Mapping[str, Callable[[int, int], int]]] = {
    "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "+": operator.add, "-": operator.sub, "*": operator.mul,
}  # fmt: skip
_COMPARISONS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def compare(op: str, left: int, right: int) -> bool:
    """Returns whether ``left op right`` holds."""
    return _COMPARISONS[op](left, right)


def cast(op: str, value: int, width: int) -> int:
    """Wraps (two_comp_mod) or saturates a number to a width."""
    half = 1 << (width - 1)
    match op:
        case "two_comp_mod":
            return ((value + half) & ((1 << width) - 1)) - half
        case "usat_cast":
            return min(max(value, 0), (1 << width) - 1)
        case "sat_cast":
            return min(max(value, -half), half - 1)
        case _:
            raise AssertionError(f"unknown cast {op!r}")


# Hash calculations, bit for bit as in BMv2 (behavioral-model, src/bm_sim/calculations.cpp).


_CRC16_POLYNOMIAL = 0xA001
"""x^16 + x^15 + x^2 + 1, reflected."""


def calculate(program: Program, calculation: model.Calculation, phv: Phv) -> int:
    """Returns the hash of a calculation's inputs for a packet."""
    data = input_bytes(program, calculation, phv)
    return digest(calculation.algorithm, data + phv.payload if calculation.payload else data)


def input_bytes(program: Program, calculation: model.Calculation, phv: Phv) -> bytes:
    """Returns the concatenated inputs, without the payload; zero bits fill the last byte."""
    number, bits = 0, 0
    for item in calculation.inputs:
        value, width = 0, 0
        match item:
            case model.FieldInput(field) if field.header in phv.valid:
                spec = program.headers[field.header].type.by_name[field.name]
                value, width = phv.bits(field), field_bits(spec, field.header, phv)
            case model.ConstInput(constant, constant_width):
                value, width = constant & ((1 << constant_width) - 1), constant_width
            case model.HeaderInput(header) if header in phv.valid:
                value, width = header_bits(program, header, phv)
        number, bits = number << width | value, bits + width
    size = (bits + 7) // 8
    return (number << (8 * size - bits)).to_bytes(size, "big")


def digest(algorithm: model.HashAlgorithm, data: bytes) -> int:
    """Returns the hash of bytes as an unsigned number."""
    match algorithm:
        case "csum16" | "cksum16":
            return internet_checksum(data)
        case "crc16" | "crc16_custom":
            return crc16(data)
        case "crc32" | "crc32_custom":
            return zlib.crc32(data)
        case "crcCCITT":
            return binascii.crc_hqx(data, 0xFFFF)
        case "identity":
            return int.from_bytes(data[:8], "big")
        case "xor16":
            return xor_words(data, 2)
        case "xor32":
            return xor_words(data, 4)


def internet_checksum(data: bytes) -> int:
    """Returns the Internet checksum (RFC 1071)."""
    total = sum(_words(data, 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def crc16(data: bytes) -> int:
    """Returns the CRC-16/ARC: reflected, initial value 0, no final xor."""
    remainder = 0
    for octet in data:
        remainder ^= octet
        for _ in range(8):
            remainder = remainder >> 1 ^ (_CRC16_POLYNOMIAL if remainder & 1 else 0)
    return remainder


def xor_words(data: bytes, size: int) -> int:
    """Returns the exclusive or of big-endian words of ``size`` bytes."""
    result = 0
    for word in _words(data, size):
        result ^= word
    return result


def _words(data: bytes, size: int) -> list[int]:
    """Returns big-endian words; zeros fill the last one."""
    padded = data + bytes(-len(data) % size)
    return [int.from_bytes(padded[at : at + size], "big") for at in range(0, len(padded), size)]


# Checksums (behavioral-model, src/bm_sim/checksums.cpp).


def verify_checksums(program: Program, phv: Phv, listener: Listener | None) -> bool:
    """Verifies the checksums of valid headers whose conditions hold; returns whether all of them are right."""
    right = True
    for checksum in program.checksums:
        if not checksum.verify or checksum.target.header not in phv.valid or not _applies(checksum, phv):
            continue
        computed = calculate(program, program.calculations[checksum.calculation], phv)
        in_packet = phv.bits(checksum.target)
        right = right and computed == in_packet
        if listener is not None:
            listener(ChecksumVerified(checksum.name, computed, in_packet))
    return right


def update_checksums(program: Program, phv: Phv, listener: Listener | None) -> None:
    """Computes and stores every checksum to update, even in an invalid header, as BMv2 does."""
    for checksum in program.checksums:
        if checksum.update and _applies(checksum, phv):
            value = calculate(program, program.calculations[checksum.calculation], phv)
            phv.store(checksum.target, value)
            if listener is not None:
                listener(ChecksumUpdated(checksum.name, value))


def _applies(checksum: model.Checksum, phv: Phv) -> bool:
    return checksum.condition is None or ValueScope(phv).truth(checksum.condition)
