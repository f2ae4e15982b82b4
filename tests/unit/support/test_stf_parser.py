"""The STF parser."""

import pytest

from tests.support.conformance.stf.numbers import parse_lpm, parse_number, parse_ternary
from tests.support.conformance.stf.parser import parse_stf
from tests.support.conformance.stf.statements import (
    Add,
    CheckCounter,
    Command,
    Expect,
    Packet,
    SetDefault,
    StfError,
    Wait,
)


def one(line):
    (statement,) = parse_stf(line)
    return statement


def test_comments_and_blank_lines_are_nothing_and_lines_are_counted():
    assert parse_stf("# first\n\n  wait  # here\n") == [Wait(3)]


def test_add_with_priority_keys_arguments_and_handle():
    statement = one("add c.t 7 h.a:0x1* extra$0.b:3 c.act(p:1, q:0xff) = A")
    keys = (("h.a", "0x1*"), ("extra$0.b", "3"))
    assert statement == Add("c.t", 7, keys, "c.act", (("p", "1"), ("q", "0xff")), "A", 1)


def test_add_without_priority_or_arguments():
    assert one("ADD t data:1 drop()") == Add("t", None, (("data", "1"),), "drop", (), None, 1)


def test_setdefault():
    assert one("setdefault t a(x:5)") == SetDefault("t", "a", (("x", "5"),), 1)


def test_packet_may_have_spaces():
    assert one("packet 3 01 02ff  A0") == Packet(3, bytes.fromhex("0102ffa0"), 1)


@pytest.mark.parametrize(
    ("line", "pattern", "exact"),
    [
        ("expect 2 0a ** $", "0A**", True),
        ("expect 2 0a*1", "0A*1", False),
        ("expect 2 ff$", "FF", True),
        ("expect 2", None, False),
        ("expect 2 $", "", True),
    ],
)
def test_expect(line, pattern, exact):
    assert one(line) == Expect(2, pattern, exact, 1)


def test_check_counter():
    assert one("check_counter c($A) bytes >= 0x10") == CheckCounter("c", "$A", "bytes", ">=", 16, 1)
    assert one("check_counter c(10)") == CheckCounter("c", "10", "packets", "==", 0, 1)


def test_commands_of_the_command_line():
    assert one("mc_node_create 400 6 7") == Command("mc_node_create", ("400", "6", "7"), 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("wait\nfrobnicate 1", "line 2: unknown command 'frobnicate'"),
        ("add t h.a:1", "without an action"),
        ("add t 1 h.a act()", "not NAME:NUMBER"),
        ("packet x 00", "not a decimal number"),
        ("packet 1 0", "not a row of bytes"),
        ("expect 1 0g", "not hex"),
        ("setdefault t", "expected 'setdefault"),
        ("check_counter c", "expected 'check_counter"),
        ("wait 3", "takes nothing"),
    ],
)
def test_what_is_not_understood_is_an_error_with_its_line(text, message):
    with pytest.raises(StfError, match=message):
        parse_stf(text)


@pytest.mark.parametrize(("text", "value"), [("10", 10), ("0x1F", 31), ("0b101", 5), ("0o17", 15), ("010", 10)])
def test_numbers(text, value):
    assert parse_number(text) == value


@pytest.mark.parametrize("text", ["", "0x", "ten", "0b2", "0x*"])
def test_no_numbers(text):
    with pytest.raises(StfError):
        parse_number(text)


@pytest.mark.parametrize(
    ("text", "value", "mask"),
    [("0x1*2", 0x102, 0xF0F), ("0b1*0", 0b100, 0b101), ("0x12", 0x12, 0xFF), ("0x****", 0, 0), ("0o7*", 0o70, 0o70)],
)
def test_ternary(text, value, mask):
    assert parse_ternary(text) == (value, mask)


def test_a_decimal_has_no_digits_to_mask():
    with pytest.raises(StfError, match="0x, 0b or 0o"):
        parse_ternary("12")


@pytest.mark.parametrize(
    ("text", "value", "prefix"),
    [("0x0a010065", 0x0A010065, 32), ("0x0a******", 0x0A000000, 8), ("0x0a/7", 10, 7), ("10", 10, 4), ("0b1*", 2, 1)],
)
def test_lpm(text, value, prefix):
    assert parse_lpm(text) == (value, prefix)


def test_a_hole_is_no_prefix():
    with pytest.raises(StfError, match="not a prefix"):
        parse_lpm("0x1*2")
