"""Fields of variable length that begin within a byte, or belong to a stack element with a run-time index.

BMv2's recordings (tests/data/bmv2/unaligned.recorded.json) cover the former; the latter crash BMv2 1.15.
"""

import pytest

from p4switch.device import Device
from p4switch.program import load_program
from p4switch.traffic import ExecutorName
from tests.support.paths import DATA

PROGRAM = load_program(DATA / "bmv2/unaligned.json")
WHOLE, TO_FIRST, TO_INDEX, CHANGE = 0x03, 0x08, 0x10, 0x04


@pytest.fixture(params=["compiled", "interpreted"])
def device(request: pytest.FixtureRequest) -> Device:
    executor: ExecutorName = request.param
    return Device(PROGRAM, executor=executor)


def packet(op: int, headers: str, length: int = 24) -> bytes:
    return bytes((length, op)) + bytes.fromhex(headers.replace(" ", ""))


ODD = "abc12 abcdef 123"
"""header in hex: 12 bits, 8 bits, 24 bits of variable length, 9 and 3 bits"""


def test_bits_around_a_field_of_variable_length_are_found_and_kept(device: Device) -> None:
    half = "7 cafe42 e"  # 4 bits, 24 bits of variable length, 4 bits
    frame = packet(CHANGE, f"{half} {ODD}")
    # half.first 7 + 1, half.last e + 3 = 1 (4 bits); odd.first abc + 1, odd.third 0x24 - 1, odd.last 3 + 1.
    changed = packet(CHANGE, "8 cafe42 1 abd12 abcdef 11c")
    assert device.inject(1, frame) == [(2, changed)]


@pytest.mark.parametrize("length", [0, 8, 64])
def test_every_length_is_sent_as_it_came(device: Device, length: int) -> None:
    frame = packet(0, "7" + "5a" * (length // 8) + "e" + "abc12" + "c3" * (length // 8) + "123" + "0405", length)
    assert device.inject(1, frame) == [(2, frame)]


@pytest.mark.parametrize(("index", "first"), [(0, "a0 1111"), (1, "a0 222222")])
def test_a_field_of_an_element_that_the_packet_names_is_read(device: Device, index: int, first: str) -> None:
    op = WHOLE | TO_FIRST | index << 6
    sent = device.inject(1, packet(op, f"{ODD} a0 1111 a1 222222 a2 33 99"))
    assert sent == [(2, packet(op, f"{ODD} {first} a1 222222 a2 33 99"))]


@pytest.mark.parametrize(("index", "elements"), [(0, "a0 33 a1 222222"), (1, "a0 1111 a1 33")])
def test_a_field_of_an_element_that_the_packet_names_is_written(device: Device, index: int, elements: str) -> None:
    op = WHOLE | TO_INDEX | index << 6
    sent = device.inject(1, packet(op, f"{ODD} a0 1111 a1 222222 a2 33 99"))
    assert sent == [(2, packet(op, f"{ODD} {elements} a2 33 99"))]
