"""Packets through constructs.p4 and entities.p4, compared with frames worked out by hand."""

import numpy as np
import pytest

from p4switch import abi
from p4switch.device import Device
from p4switch.interpreter import Interpreter
from p4switch.program import load_program
from tests.support.p4runtime.configs import json_path

INT_MIN = -(1 << 31)


def signed(value, width=32):
    return value & ((1 << width) - 1)


def operands(kind=0, shift=0, a=0, b=0, c=0, d=0, e=0, f=0, g=0, h=0, x=0, y=0):
    """Return the header of constructs.p4, 53 bytes."""
    number = 0
    widths = (8, 8, 32, 32, 32, 32, 7, 9, 5, 3, 128, 128)
    for width, value in zip(widths, (kind, shift, a, b, c, d, e, f, g, h, x, y), strict=True):
        number = number << width | signed(value, width)
    return number.to_bytes(53, "big")


STATUS = 11


@pytest.fixture
def device():
    return Device(load_program(json_path("constructs")), executor="interpreted")


def run(device, frame, port=0):
    """Return the only frame that leaves, by port 3, as (status header, rest)."""
    ((out_port, out),) = device.inject(port, frame)
    assert out_port == 3
    return out[:STATUS], out[STATUS:]


def numbers(out):
    """Return the header numbers_t after the operands, as unsigned fields by name."""
    names = "sum difference product saturated_sum saturated_difference left right signed_sum signed_saturated_sum "
    names += "signed_saturated_difference signed_right signed_product"
    fields = [(name, 32) for name in names.split()]
    fields += [(name, 128) for name in ("wide_sum", "wide_product", "wide_shift", "wide_logic")]
    fields += [("joined", 16), ("slices", 16), ("extended", 16), ("comparisons", 8), ("choice", 8)]
    rest = int.from_bytes(out[53 : 53 + 120], "big")
    values = {}
    for name, width in reversed(fields):
        values[name] = rest & ((1 << width) - 1)
        rest >>= width
    return values


def calculated(device, **fields):
    # kind 0x81: accepted without further headers if h has the bits of 5, then calculate and compare.
    return numbers(run(device, operands(kind=0x81, h=5, **fields))[1])


def test_unsigned_arithmetic_wraps_and_saturates(device):
    found = calculated(device, a=0xFFFFFFFF, b=2, shift=4)
    assert found["sum"] == 1
    assert found["difference"] == 0xFFFFFFFD
    assert found["product"] == 0xFFFFFFFE
    assert found["saturated_sum"] == 0xFFFFFFFF
    assert found["saturated_difference"] == 0xFFFFFFFD
    assert found["left"] == 0xFFFFFFF0
    assert found["right"] == 0x0FFFFFFF
    assert calculated(device, a=1, b=2)["saturated_difference"] == 0


def test_shifts_by_the_width_and_more(device):
    found = calculated(device, a=0xFFFFFFFF, c=-1, d=0, shift=32)
    assert (found["left"], found["right"], found["signed_right"]) == (0, 0, 0xFFFFFFFF)
    assert calculated(device, a=1, shift=255, x=1)["wide_shift"] == 0


@pytest.mark.parametrize(
    ("c", "d", "results"),
    [
        (INT_MIN, -1, (0x7FFFFFFF, INT_MIN, INT_MIN + 1, INT_MIN)),
        (0x7FFFFFFF, 1, (INT_MIN, 0x7FFFFFFF, 0x7FFFFFFE, 0x7FFFFFFF)),
        (-5, 3, (-2, -2, -8, -15)),
        (INT_MIN, 1, (INT_MIN + 1, INT_MIN + 1, INT_MIN, INT_MIN)),
    ],
)
def test_signed_arithmetic(device, c, d, results):
    """Sum, saturated sum, saturated difference, product."""
    found = calculated(device, c=c, d=d)
    names = ("signed_sum", "signed_saturated_sum", "signed_saturated_difference", "signed_product")
    assert [found[name] for name in names] == [signed(value) for value in results]


def test_signed_shift_fills_with_the_sign(device):
    assert calculated(device, c=-8, shift=1)["signed_right"] == signed(-4)


def test_wide_arithmetic(device):
    x, y, full = 0x0123456789ABCDEF << 64 | 0xFEDCBA9876543210, 3 << 124, (1 << 128) - 1
    found = calculated(device, x=x, y=y, shift=8)
    assert found["wide_sum"] == x + y & full
    assert found["wide_product"] == x * y & full
    assert found["wide_shift"] == (x << 8 & full) | y >> 8
    assert found["wide_logic"] == x & ~y  # and x |-| y is 0, as y is larger
    assert found["slices"] == (x >> 93 & 0xFF) << 8 | y & 0xFF


def test_concatenation_and_sign_extension(device):
    found = calculated(device, e=0x55, f=0x123, g=-3)
    assert found["joined"] == 0x55 << 9 | 0x123
    assert found["extended"] == signed(-3, 16)


def test_comparisons_and_choice(device):
    # a < b, c < d, a == b, c >= d, x > y, g < 0, a and b not 0, first == second (both invalid: equal in P4)
    assert calculated(device, a=1, b=2, c=-1, d=1, x=2, y=1, g=-1)["comparisons"] == 0b1100_1111
    assert calculated(device)["comparisons"] == 0b0011_0001
    assert calculated(device)["choice"] == 0x81  # h = 5 > 3: kind


# --- parser


def status_of(device, frame, port=0):
    """Return (parser error as numbered in egress, checksum_error, peeked, packet_length)."""
    status, _ = run(device, frame, port)
    error, flags, peeked, length = (int.from_bytes(status[i:j], "big") for i, j in ((0, 4), (4, 5), (5, 7), (7, 9)))
    return error, flags >> 7, peeked, length


NO_ERROR, TOO_SHORT, FORBIDDEN, TOO_MANY = range(4)


def test_a_frame_without_its_first_header_is_dropped(device):
    assert device.inject(0, operands()[:-1]) == []
    assert device.inject(0, b"") == []


def test_a_header_that_does_not_fit_is_left_in_the_payload(device):
    frame = operands(kind=0x80) + b"\x12"  # parse_first wants two bytes
    status, rest = run(device, frame)
    assert status[3] == TOO_SHORT
    assert rest == frame


def test_verify_ends_parsing_with_its_error(device):
    assert status_of(device, operands(kind=0xFF) + bytes(8))[0] == FORBIDDEN
    # kind 0: first and second word are taken, then compared.
    assert status_of(device, operands() + b"\x00\x05\x00\x04")[0] == TOO_MANY
    assert status_of(device, operands() + b"\x00\x04\x00\x05")[0] == NO_ERROR


def test_advance_skips_bytes_and_they_are_lost(device):
    # kind 0x40, h <= 3: skips e[1:0] bytes, then takes the first word.
    frame = operands(kind=0x40, e=2, h=0)
    _, rest = run(device, frame + b"\xaa\xbb\x11\x22\x33")
    assert rest == frame + b"\x11\x22\x33"
    assert status_of(device, frame + b"\xaa")[0] == TOO_SHORT


def test_lookahead_takes_nothing(device):
    frame = operands(kind=0x40, h=7) + b"\x12\x34\x56"
    error, _, peeked, _ = status_of(device, frame)
    assert (error, peeked) == (NO_ERROR, 0x1234)
    assert run(device, frame)[1] == frame
    assert status_of(device, frame[:54])[0] == TOO_SHORT


def test_select_by_mask_range_and_metadata(device):
    # first <= 100 and port 1, or port 2: a third word is taken, and its checksum is then updated.
    words = b"\x00\x64\x01\x00\xff\xff"
    changed = (0xFFFF - 0x64).to_bytes(2, "big")  # csum16 over b (0) and the first word
    assert run(device, operands() + words, port=1)[1][-2:] == changed
    assert run(device, operands() + b"\x00\x65" + words[2:], port=1)[1][-2:] == b"\xff\xff"
    assert run(device, operands() + b"\x00\x65" + words[2:], port=2)[1][-2:] == (0xFFFF - 0x65).to_bytes(2, "big")


def test_checksums_are_verified_where_the_header_is_valid(device):
    # csum16 over a, e, f and the first word stands in the second word.
    total = 0x1234 + 0x5678 + (3 << 9 | 5) + 7
    right = (0xFFFF - total).to_bytes(2, "big")
    frame = operands(a=0x12345678, e=3, f=5) + b"\x00\x07"
    assert status_of(device, frame + right)[1] == 0
    assert status_of(device, frame + b"\xff\xff")[1] == 1
    assert status_of(device, operands(kind=0x80, a=0x12345678) + b"\x00\x07\xff\xff")[1] == 0


# --- headers, exit, registers, counters


def test_packet_length_grows_with_headers_made_valid(device):
    frame = operands(kind=0x80, h=5)
    assert status_of(device, frame)[3] == 53
    assert status_of(device, operands(kind=0x81, h=5))[3] == 53 + 120
    io = np.zeros(abi.IO_CELLS, dtype=np.int64)
    Interpreter(device.program, device.state).ingress(operands(kind=0x81, h=5), io)
    assert io[abi.EG_LENGTH] == 53 + 120


def test_set_valid_zeroes_an_invalid_header_and_leaves_a_valid_one(device):
    device.multicast.set(2, [(3, 0)])
    # kind bit 2: second.setValid(), second ^= 0x00ff, multicast to group h.
    assert run(device, operands(kind=0x84, h=2) + b"\x11\x22")[1][-4:] == b"\x11\x22\x00\xff"
    words = b"\x00\x01\x11\x22"
    assert run(device, operands(kind=0x04, h=2) + words)[1][-4:] == b"\x00\x01\x11\xdd"


def test_assigning_a_header_copies_validity(device):
    # kind[5:3] = 2: second := first, third invalid, first += 1, shift += 1.
    _, rest = run(device, operands(kind=0x90) + b"\x00\x09\x77")
    assert rest[53:] == b"\x00\x0a\x00\x09\x77"
    _, rest = run(device, operands(kind=0x90, h=5) + b"\x77")
    assert rest == operands(kind=0x90, h=5, shift=1) + b"\x77"


def test_exit_ends_the_pipeline_after_the_action(device):
    # kind[5:3] = 1: leave_early; bit 0 would have calculated.
    status, rest = run(device, operands(kind=0x89, h=5))
    assert status[4] & 0x40
    assert len(rest) == 53


def test_registers_and_counters(device):
    # kind[5:3] = 3: b := sums[h], sums[h] += a, y := wides[h], wides[h] ^= x; the counter has 4 cells, wides 3.
    frame = operands(kind=0x98, a=5, h=1, x=9)
    assert run(device, frame + b"\0\0")[1][:53] == operands(kind=0x98, a=5, h=1, x=9, shift=5)
    assert run(device, frame + b"\0\0")[1][:53] == operands(kind=0x98, a=5, b=5, h=1, x=9, y=9, shift=5)
    assert device.registers["ConstructsIngress.sums"].read(1) == 10
    assert device.registers["ConstructsIngress.wides"].read(1) == 0
    assert device.counters["ConstructsIngress.kinds"].read(1) == (2, 2 * 55)


def test_cells_out_of_range_do_nothing(device):
    frame = operands(kind=0x98, a=5, b=77, h=7, x=9, y=88)
    _, rest = run(device, frame)
    # sums has 8 cells: b := 0; wides and the counter have fewer: y keeps what p4c's temporary held.
    assert rest[:53] == operands(kind=0x98, a=5, b=0, h=7, x=9, y=0, shift=5)
    assert device.registers["ConstructsIngress.sums"].read(7) == 5
    assert [device.counters["ConstructsIngress.kinds"].read(i) for i in range(4)] == [(0, 0)] * 4


# --- egress


def test_egress_leaves_what_ingress_gave_as_it_is(device):
    interpreter, io = Interpreter(device.program, device.state), np.zeros(abi.IO_CELLS, dtype=np.int64)
    phv = interpreter.ingress(operands(kind=0x80) + b"\x00\x01", io)
    io[abi.EG_PORT] = 3
    first = interpreter.egress(phv, io)
    assert interpreter.egress(phv, io) == first
    io[abi.EG_RID] = 9
    assert interpreter.egress(phv, io) is None
    io[abi.EG_RID] = 0
    assert interpreter.egress(phv, io) == first


def test_instance_type_is_that_of_the_copy(device):
    device.multicast.set(2, [(3, 0)])
    assert run(device, operands(kind=0x84, h=2) + b"\0\0")[0][4] & 7 == abi.INSTANCE_REPLICATION
    assert run(device, operands(kind=0x80) + b"\0\0")[0][4] & 7 == abi.INSTANCE_NORMAL


def test_egress_takes_only_what_ingress_gave(device):
    with pytest.raises(TypeError, match="egress takes what ingress returned"):
        Interpreter(device.program, device.state).egress(b"", np.zeros(abi.IO_CELLS, dtype=np.int64))
