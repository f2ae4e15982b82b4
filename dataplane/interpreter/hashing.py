"""Hash calculations, bit for bit as in BMv2 (behavioral-model, src/bm_sim/calculations.cpp)."""

import binascii
import zlib

from p4reduce.dataplane.interpreter.headers import field_bits, header_bits
from p4reduce.dataplane.interpreter.phv import Phv
from p4reduce.dataplane.model import Program
from p4reduce.dataplane.model.externs import Calculation, ConstInput, FieldInput, HashAlgorithm, HeaderInput

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
