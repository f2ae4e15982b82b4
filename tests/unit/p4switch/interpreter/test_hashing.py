"""Hashes, compared with published check values and results worked out by hand."""

import pytest

from p4switch.interpreter.evaluate import Phv, calculate, digest
from p4switch.program.actions import Calculation, ConstInput, FieldInput, HeaderInput
from p4switch.program.expressions import Field, FieldRef, Header, HeaderType

CHECK = b"123456789"


@pytest.mark.parametrize(
    ("algorithm", "value"),
    [
        ("crc16", 0xBB3D),  # CRC-16/ARC in Greg Cook's catalogue
        ("crc32", 0xCBF43926),  # CRC-32/ISO-HDLC
        ("crcCCITT", 0x29B1),  # CRC-16/IBM-3740
        ("identity", 0x3132333435363738),
        ("xor16", 0x3132 ^ 0x3334 ^ 0x3536 ^ 0x3738 ^ 0x3900),
        ("xor32", 0x31323334 ^ 0x35363738 ^ 0x39000000),
    ],
)
def test_check_values(algorithm, value):
    assert digest(algorithm, CHECK) == value


def test_the_internet_checksum():
    header = bytes.fromhex("45000073000040004011 0000 c0a80001c0a800c7")
    assert digest("csum16", header) == 0xB861
    assert digest("csum16", header[:10] + b"\xb8\x61" + header[12:]) == 0
    assert digest("cksum16", b"\x01") == 0xFEFF
    assert digest("csum16", b"") == 0xFFFF


@pytest.mark.parametrize(
    ("algorithm", "value"),
    [("crc16", 0), ("crc32", 0), ("crcCCITT", 0xFFFF), ("identity", 0), ("xor16", 0), ("xor32", 0)],
)
def test_nothing_hashed(algorithm, value):
    assert digest(algorithm, b"") == value


class FakeProgram:
    """The part of a program that hashing uses."""

    def __init__(self):
        fields = (Field("a", 4, False, 0), Field("b", 12, False, 4))
        self.headers = {"h": Header("h", HeaderType("h_t", fields), False)}


def concatenated(*inputs, payload=False, valid=("h",)):
    phv = Phv({("h", "a"): 0xA, ("h", "b"): 0xBCD}, set(valid), payload=b"\x77")
    return calculate(FakeProgram(), Calculation("c", "identity", inputs, payload), phv)


A, B = FieldInput(FieldRef("h", "a", 4)), FieldInput(FieldRef("h", "b", 12))


def test_inputs_stand_one_behind_the_other():
    assert concatenated(A, B) == 0xABCD
    assert concatenated(B, A) == 0xBCDA
    assert concatenated(HeaderInput("h"), ConstInput(5, 8)) == 0xABCD05


def test_zero_bits_fill_the_last_byte():
    assert concatenated(A) == 0xA0
    assert concatenated(B) == 0xBCD0


def test_the_payload_comes_last():
    assert concatenated(A, payload=True) == 0xA077


def test_invalid_headers_are_left_out():
    assert concatenated(A, ConstInput(0x15, 4), HeaderInput("h"), valid=()) == 0x50
