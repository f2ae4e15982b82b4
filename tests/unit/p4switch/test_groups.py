"""Header stacks, unions, stacks of unions and varbit fields on both executors (tests/data/groups.p4).

Expected frames are derived from BMv2's sources: stacks.cpp, header_unions.h, headers.cpp, parser.cpp.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from p4switch.device import Device
from p4switch.program import Program, load_program
from tests.support.paths import DATA

Run = Callable[[str], str | None]

FULL = "04" + "5a" * 36
"""A long union member in hex."""


@pytest.fixture(scope="module")
def program() -> Program:
    return load_program(DATA / "groups.json")


@pytest.fixture(params=["compiled", "interpreted"])
def run(request: pytest.FixtureRequest, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return the frame that leaves, in hex; spaces and case in the input do not matter."""
    monkeypatch.setenv("P4REDUCE_CACHE", str(tmp_path))
    device = Device(program, executor=request.param)

    def through(frame: str) -> str:
        [(port, out)] = device.inject(0, bytes.fromhex(frame))
        assert port == 1
        return out.hex(" ")

    return through


def spaced(frame: str) -> str:
    return bytes.fromhex(frame).hex(" ")


def test_a_push_invalidates_the_front_and_drops_the_back(run: Run) -> None:
    assert run("01 00 0107 0108 0100 ff") == "01 00 01 07 01 08 ff"
    assert run("01 00 0107 0100 ff") == "01 00 01 07 01 00 ff"


def test_a_pop_moves_to_the_front(run: Run) -> None:
    assert run("02 00 0107 0108 0100 ff") == "02 00 01 00 ff"
    assert run("02 00 0100 ff") == "02 00 ff"


def test_stacks_of_unions_shift_whole_unions_and_invalidate_none(run: Run) -> None:
    """BMv2's HeaderUnion::mark_invalid does nothing, so elements shifted out reappear at the other end."""
    assert run(f"03 00 0307 {FULL} ff") == spaced(f"03 00 {FULL} 0307 ff")
    assert run(f"04 00 0307 {FULL} ff") == spaced(f"04 00 {FULL} 0307 ff")
    assert run("04 00 0307 ff") == "04 00 03 07 ff"


def test_copies_of_stacks_copy_validity(run: Run) -> None:
    assert run("05 00 0107 0108 0100 ff") == "05 00 01 00 01 08 01 07 ff"
    assert run("05 00 0107 0100 ff") == "05 00 01 00 01 07 ff"


def test_varbit_headers_move_with_their_lengths(run: Run) -> None:
    assert run("06 00 0202aabb01 0200 02 ff") == "06 00 02 00 02 ff"
    assert run("06 00 0202aabb01 0204ccddeeff02 ff") == "06 00 02 04 cc dd ee ff 02 ff"


def test_a_varbit_header_made_valid_again_keeps_its_length_and_loses_its_bits(run: Run) -> None:
    """packet_length loses and regains the header: 2 + 7 + 1 bytes arrived."""
    assert run("07 00 0204aabbccdd01 ff") == "07 0a 00 00 00 00 00 00 00 ff"


def test_headers_that_never_were_valid_are_zero(run: Run) -> None:
    """No varbit bytes: 3 bytes of options in addition to the 3 that arrived."""
    assert run("07 00 ff") == "07 06 00 00 00 ff"


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("0202aabb01", "0202aabb01", "01"),
        ("0202aabb01", "0202aabc01", "00"),
        ("0202aabb01", "0202aabb02", "00"),
        ("0202aabb01", "0201aa01", "00"),
        ("0202aabb01", "", "00"),
        ("", "", "01"),
    ],
)
def test_equality_of_varbit_headers(run: Run, one: str, other: str, equal: str) -> None:
    """p4c treats two invalid headers as equal, and writes that out field by field."""
    assert run(f"08 00 {one} {other} ff") == spaced(f"08 {equal} {one} {other} ff")


def test_a_union_has_one_valid_header(run: Run) -> None:
    assert run(f"09 00 {FULL} 0307 ff") == spaced(f"09 00 {FULL} {FULL} ff")
    assert run("09 00 0308 0307 ff") == "09 00 03 08 03 07 ff"


def test_set_valid_takes_the_place_of_the_other_member(run: Run) -> None:
    assert run(f"0f 00 {FULL} ff") == "0f 00 00 00 ff"
    assert run("0f 00 0307 ff") == "0f 00 03 07 ff"
    assert run("0f 00 ff") == "0f 00 00 00 ff"


def test_unions_are_copied_member_by_member(run: Run) -> None:
    assert run(f"0a 00 {FULL} 0307 ff") == "0a 00 03 07 03 07 ff"
    assert run(f"0a 00 0307 {FULL} ff") == spaced(f"0a 00 {FULL} {FULL} ff")
    assert run(f"0a 00 {FULL} ff") == "0a 00 ff"


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [("0307", "0307", "01"), ("0307", "0308", "00"), (FULL, FULL, "01"), (FULL, "0307", "00"), ("", "", "01")],
)
def test_equality_of_unions(run: Run, one: str, other: str, equal: str) -> None:
    assert run(f"0b 00 {one} {other} ff") == spaced(f"0b {equal} {one} {other} ff")


@pytest.mark.parametrize(
    ("index", "out"), [("00", "0c 00 01 09 01 08 ff"), ("01", "0c 01 01 07 01 09 ff"), ("02", "0c 02 01 07 01 08 ff")]
)
def test_an_index_from_the_packet(run: Run, index: str, out: str) -> None:
    """The third element is invalid: it is written to and not emitted."""
    assert run(f"0c {index} 0107 0108 ff") == out


def test_an_index_past_the_end_writes_nothing(run: Run) -> None:
    """BMv2 crashes here (std::out_of_range)."""
    assert run("0c 03 0107 0108 ff") == "0c 03 01 07 01 08 ff"


def test_egress_shifts_and_the_packet_length_stays(run: Run) -> None:
    assert run("0d 00 0107 0108 ff") == "0d 07 01 08 ff"


@pytest.mark.parametrize(
    ("frame", "out"),
    [
        pytest.param("0e 00 0107 0108 0109 ff", "0e 80 01 07 01 08 01 09 ff", id="full"),
        pytest.param("0e 00 0107 0108 0109 0106", "0e 83 01 07 01 08 01 09 01 06", id="out of bounds"),
        pytest.param("0e 00 0107 01", "0e 01 01 07 01", id="half an element"),
        pytest.param("0e 00 02 29 " + "11" * 42, "0e 04 02 29 " + "11 " * 41 + "11", id="varbit too long"),
        pytest.param("0e 00 02 29 1111", "0e 01 02 29 11 11", id="packet too short before varbit too long"),
        pytest.param("0e 00 02 28 " + "11" * 42, "0e 00 02 28 " + "11 " * 41 + "11", id="longest varbit"),
        pytest.param("0e 00 0200aa 0200bb 0200cc", "0e 03 02 00 aa 02 00 bb 02 00 cc", id="stack of varbits"),
        pytest.param(f"0e 00 0307 0308 {FULL}", spaced(f"0e 03 0307 0308 {FULL}"), id="stack of unions"),
    ],
)
def test_parser_errors(run: Run, frame: str, out: str) -> None:
    assert run(frame) == out


def test_a_hash_takes_as_many_bits_as_a_varbit_field_has(run: Run) -> None:
    assert run("10 00 0203aabbcc01 ff") == f"10 {(0xAABB ^ 0xCC01) & 0xFF:02x} 02 03 aa bb cc 01 ff"
    assert run("10 00 020201020f ff") == f"10 {(0x0102 ^ 0x0F00) & 0xFF:02x} 02 02 01 02 0f ff"
    assert run("10 00 ff") == "10 00 ff"


def test_a_varbit_field_is_assigned_with_its_length(run: Run) -> None:
    assert run("11 00 0202aabb01 0204ccddeeff02 ff") == "11 00 02 02 cc dd ee ff 01 02 04 cc dd ee ff 02 ff"
    assert run("11 00 0202aabb01 020002 ff") == "11 00 02 02 01 02 00 02 ff"
