"""Bytestrings: the tables of valid and invalid encodings of the P4Runtime specification, and more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p4switch.p4runtime import P4RuntimeError, StatusCode
from p4switch.p4runtime.errors import decode, decode_signed, encode, encode_signed


@pytest.mark.parametrize(
    ("width", "value", "data"),
    [
        (8, 99, b"\x63"),
        (16, 99, b"\x00\x63"),
        (16, 99, b"\x63"),
        (16, 12388, b"\x30\x64"),
        (16, 12388, b"\x00\x30\x64"),
        (12, 99, b"\x00\x63"),
        (12, 99, b"\x63"),
        (12, 99, b"\x00\x00\x63"),
        (1, 1, b"\x01"),
        (9, 511, b"\x01\xff"),
        (16, 0, b"\x00"),
        (16, 0, bytes(40)),
    ],
)
def test_bit_values_of_any_length_are_accepted(width, value, data):
    assert decode(data, width, "x") == value


@pytest.mark.parametrize(
    ("width", "data"),
    [
        (8, b"\x01\x63"),
        (8, b""),
        (16, b"\x01\x00\x63"),
        (12, b"\x10\x63"),
        (12, b"\x01\x00\x63"),
        (12, b"\x00\x40\x63"),
        (9, b"\x02\x00"),
        (1, b"\x02"),
    ],
)
def test_bit_values_that_do_not_fit_are_refused(width, data):
    with pytest.raises(P4RuntimeError) as caught:
        decode(data, width, "field 'x'")
    assert caught.value.code is StatusCode.INVALID_ARGUMENT
    assert "field 'x'" in caught.value.message


def test_a_refused_value_does_not_fill_the_message():
    with pytest.raises(P4RuntimeError) as caught:
        decode(b"\xff" * 100_000, 32, "x")
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    ("width", "value", "data"),
    [
        (8, 99, b"\x63"),
        (8, -99, b"\x9d"),
        (8, -99, b"\xff\x9d"),
        (12, -739, b"\xfd\x1d"),
        (16, 0, b"\x00\x00"),
        (16, 0, b"\x00"),
    ],
)
def test_int_values_are_accepted(width, value, data):
    assert decode_signed(data, width, "x") == value


@pytest.mark.parametrize(("width", "data"), [(8, b"\x00\x9d"), (12, b"\x8d\x1d"), (16, b"")])
def test_int_values_that_do_not_fit_are_refused(width, data):
    with pytest.raises(P4RuntimeError):
        decode_signed(data, width, "x")


@given(st.integers(0, 2**300), st.integers(0, 5))
def test_encoding_is_the_shortest_that_decodes_to_the_number(value, padding):
    data = encode(value)
    assert decode(bytes(padding) + data, max(1, value.bit_length()), "x") == value
    assert data == b"\x00" if value == 0 else data[0] != 0


@given(st.integers(-(2**200), 2**200))
def test_signed_encoding_is_the_shortest_that_decodes_to_the_number(value):
    data = encode_signed(value)
    assert decode_signed(data, 202, "x") == value
    assert len(data) == 1 or int.from_bytes(data[1:], "big", signed=True) != value
