"""Values of expressions. Data are unbounded integers, as in BMv2."""

import binascii
import zlib
from collections.abc import Callable
from dataclasses import dataclass

from p4switch.interpreter.phv import Phv, field_bits, header_bits
from p4switch.interpreter.trace import ChecksumUpdated, ChecksumVerified, Listener
from p4switch.program import Program
from p4switch.program.actions import Calculation, Checksum, ConstInput, FieldInput, HashAlgorithm, HeaderInput
from p4switch.program.errors import MAX_SHIFT, SHIFT_MASK
from p4switch.program.expressions import (
    LENGTH_FIELD,
    Arith,
    BoolConst,
    BoolExpr,
    BoolSelect,
    Cast,
    Compare,
    Const,
    DataExpr,
    FieldRef,
    HeaderEqual,
    Invert,
    Logic,
    Lookahead,
    Not,
    Parameter,
    Select,
    ToBool,
    ToData,
    Valid,
)


def _no_packet(ahead: Lookahead) -> int:
    raise AssertionError(f"lookahead outside the parser: {ahead}")


@dataclass(frozen=True, slots=True)
class Scope:
    """What an expression may refer to.

    Attributes:
        arguments: of the action, by index.
        look: bits ahead in the packet (parser only).
    """

    phv: Phv
    arguments: tuple[int, ...] = ()
    look: Callable[[Lookahead], int] = _no_packet

    def data(self, expr: DataExpr) -> int:
        """The value of a data expression."""
        match expr:
            case FieldRef():
                return self.phv.load(expr)
            case Const(value):
                return value
            case Arith(op, left, right):
                return arith(op, self.data(left), self.data(right))
            case Select(condition, then, otherwise):
                return self.data(then if self.truth(condition) else otherwise)
            case ToData(operand):
                return int(self.truth(operand))
            case Parameter(index):
                return self.arguments[index]
            case Invert(operand):
                return ~self.data(operand)
            case Cast(op, operand, width):
                return cast(op, self.data(operand), width)
            case Valid(header):
                return int(header in self.phv.valid)
            case Lookahead():
                return self.look(expr)

    def truth(self, expr: BoolExpr) -> bool:
        """The value of a bool expression."""
        match expr:
            case Compare(op, left, right):
                return compare(op, self.data(left), self.data(right))
            case Logic("and", left, right):
                return self.truth(left) and self.truth(right)
            case Logic("or", left, right):
                return self.truth(left) or self.truth(right)
            case Logic("==", left, right):
                return self.truth(left) == self.truth(right)
            case Logic(_, left, right):
                return self.truth(left) != self.truth(right)
            case Not(operand):
                return not self.truth(operand)
            case ToBool(operand):
                return self.data(operand) != 0
            case BoolConst(value):
                return value
            case BoolSelect(condition, then, otherwise):
                return self.truth(then if self.truth(condition) else otherwise)
            case HeaderEqual(left_header, right_header):
                return self._headers_equal(left_header, right_header)

    def _headers_equal(self, left: str, right: str) -> bool:
        if left not in self.phv.valid or right not in self.phv.valid:
            return False
        # A varbit field is compared as a number, whatever its length, as in BMv2.
        ours = {name: v for (header, name), v in self.phv.values.items() if header == left and name != LENGTH_FIELD}
        return all(self.phv.values[right, name] == value for name, value in ours.items())


def arith(op: str, left: int, right: int) -> int:
    """``left op right``. Where BMv2 aborts (a divisor below 1, a negative dividend), division gives 0."""
    match op:
        case "&":
            return left & right
        case "|":
            return left | right
        case "^":
            return left ^ right
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "<<":
            return left << min(right & SHIFT_MASK, MAX_SHIFT)
        case ">>":
            return left >> min(right & SHIFT_MASK, MAX_SHIFT)
        case "/":
            return left // right if left >= 0 and right > 0 else 0
        case "%":
            return left % right if left >= 0 and right > 0 else 0
        case _:
            raise AssertionError(f"unknown operator {op!r}")


def compare(op: str, left: int, right: int) -> bool:
    """``left op right``."""
    match op:
        case "==":
            return left == right
        case "!=":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right
        case _:
            raise AssertionError(f"unknown comparison {op!r}")


def cast(op: str, value: int, width: int) -> int:
    """Wraps (two_comp_mod) or saturates a number."""
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


def calculate(program: Program, calculation: Calculation, phv: Phv) -> int:
    """The hash of a calculation's inputs for a packet."""
    data = input_bytes(program, calculation, phv)
    return digest(calculation.algorithm, data + phv.payload if calculation.payload else data)


def input_bytes(program: Program, calculation: Calculation, phv: Phv) -> bytes:
    """The inputs one behind the other, without the payload; zero bits fill the last byte."""
    number, bits = 0, 0
    for item in calculation.inputs:
        value, width = 0, 0
        match item:
            case FieldInput(field) if field.header in phv.valid:
                spec = program.headers[field.header].type.by_name[field.name]
                value, width = phv.bits(field), field_bits(spec, field.header, phv)
            case ConstInput(constant, constant_width):
                value, width = constant & ((1 << constant_width) - 1), constant_width
            case HeaderInput(header) if header in phv.valid:
                value, width = header_bits(program, header, phv)
        number, bits = number << width | value, bits + width
    size = (bits + 7) // 8
    return (number << (8 * size - bits)).to_bytes(size, "big")


def digest(algorithm: HashAlgorithm, data: bytes) -> int:
    """The hash of some bytes."""
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
    """RFC 1071."""
    total = sum(_words(data, 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def crc16(data: bytes) -> int:
    """CRC-16/ARC: reflected, starts from 0, no final xor."""
    remainder = 0
    for octet in data:
        remainder ^= octet
        for _ in range(8):
            remainder = remainder >> 1 ^ (_CRC16_POLYNOMIAL if remainder & 1 else 0)
    return remainder


def xor_words(data: bytes, size: int) -> int:
    """Exclusive or of big-endian words of ``size`` bytes."""
    result = 0
    for word in _words(data, size):
        result ^= word
    return result


def _words(data: bytes, size: int) -> list[int]:
    """Big-endian words; zeros fill the last one."""
    padded = data + bytes(-len(data) % size)
    return [int.from_bytes(padded[at : at + size], "big") for at in range(0, len(padded), size)]


# Checksums (behavioral-model, src/bm_sim/checksums.cpp).


def verify_checksums(program: Program, phv: Phv, listener: Listener | None) -> bool:
    """Whether every checksum that is to be verified, and whose header is there, is right."""
    right = True
    for checksum in program.checksums:
        if not checksum.verify or checksum.target.header not in phv.valid or not _applies(checksum, phv):
            continue
        computed = calculate(program, program.calculations[checksum.calculation], phv)
        found = phv.bits(checksum.target)
        right = right and computed == found
        if listener is not None:
            listener(ChecksumVerified(checksum.name, computed, found))
    return right


def update_checksums(program: Program, phv: Phv, listener: Listener | None) -> None:
    """Stores every checksum that is to be updated, also into an invalid header, as BMv2 does."""
    for checksum in program.checksums:
        if checksum.update and _applies(checksum, phv):
            value = calculate(program, program.calculations[checksum.calculation], phv)
            phv.store(checksum.target, value)
            if listener is not None:
                listener(ChecksumUpdated(checksum.name, value))


def _applies(checksum: Checksum, phv: Phv) -> bool:
    return checksum.condition is None or Scope(phv).truth(checksum.condition)
