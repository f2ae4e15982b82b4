"""Compiled and interpreted programs: parser errors, headers, drops and replication, as in BMv2."""

from collections.abc import Callable

import pytest

from p4switch import abi
from p4switch.device import Device
from p4switch.program import load_program
from tests.support.bmv2_json import Json, ProgramJson, assign, const, field, named, op, primitive

STANDARD = "standard_metadata"
FORWARD = assign(field(STANDARD, "egress_spec"), const(2))


Make = Callable[[ProgramJson], Device]

pytestmark = pytest.mark.usefixtures("cache")


def state(name: str, operations: list[Json], keys: list[Json] = [], transitions: list[Json] | None = None) -> Json:  # noqa: B006
    accept = [{"type": "default", "value": None, "mask": None, "next_state": None}]
    return {
        "name": name,
        "id": 0,
        "parser_ops": operations,
        "transition_key": keys,
        "transitions": transitions or accept,
    }


def extract(header: str) -> Json:
    return {"op": "extract", "parameters": [{"type": "regular", "value": header}]}


def report(program: ProgramJson, *values: tuple[Json, int]) -> None:
    """Emit numbers in a header after all others."""
    fields = [(f"v{i}", width) for i, (_, width) in enumerate(values)]
    program.header("report", fields, parsed=False)
    program.call([primitive("add_header", named("header", "report"))], pipeline="egress")
    program.call([assign(field("report", f"v{i}"), v) for i, (v, _) in enumerate(values)], pipeline="egress")


# --- parser


def test_a_short_packet_keeps_what_was_not_extracted(make: Make) -> None:
    program = ProgramJson()
    program.header("a", [("x", 16)])
    program.header("b", [("y", 32)])
    program.call([FORWARD])
    report(program, (field(STANDARD, "parser_error"), 32), (field("b", "$valid$"), 8))
    device = make(program)
    assert device.inject(1, b"\x01\x02\x03\x04\x05") == [(2, b"\x01\x02" + bytes([0, 0, 0, 1, 0]) + b"\x03\x04\x05")]
    whole = b"\x01\x02\x03\x04\x05\x06"
    assert device.inject(1, whole + b"rest") == [(2, whole + bytes([0, 0, 0, 0, 1]) + b"rest")]
    assert device.inject(1, b"") == [(2, bytes([0, 0, 0, 1, 0]))]


def test_verify_and_advance_end_parsing_with_their_errors(make: Make) -> None:
    program = ProgramJson()
    program.header("a", [("kind", 8), ("skip", 8)])
    program.header("b", [("y", 8)])
    verify = {"op": "verify", "parameters": [op("!=", field("a", "kind"), const(9)), const(42)]}
    advance = {"op": "advance", "parameters": [field("a", "skip")]}
    program.states = [state("start", [extract("a"), verify, advance, extract("b")])]
    program.call([FORWARD])
    report(program, (field(STANDARD, "parser_error"), 8), (field("b", "y"), 8))
    device = make(program)
    # No error, y; verify fails; no whole byte; beyond the end. Skipped bytes are not sent.
    assert device.inject(1, bytes([1, 16, 7, 7, 5, 6])) == [(2, bytes([1, 16, 5, 0, 5, 6]))]
    assert device.inject(1, bytes([9, 16, 7, 7, 5])) == [(2, bytes([9, 16, 42, 0, 7, 7, 5]))]
    assert device.inject(1, bytes([1, 15, 7, 7, 5])) == [(2, bytes([1, 15, 6, 0, 7, 7, 5]))]
    assert device.inject(1, bytes([1, 32, 7, 7, 5])) == [(2, bytes([1, 32, 1, 0, 7, 7, 5]))]


def test_select_takes_the_first_that_fits_and_lookahead_consumes_nothing(make: Make) -> None:
    program = ProgramJson()
    program.header("a", [("x", 4), ("y", 12)])
    program.header("b", [("z", 8)])
    program.struct("m", [("ahead", 12)])
    look = {"type": "lookahead", "value": [4, 12]}
    ahead = {"op": "set", "parameters": [field("m", "ahead"), look]}
    mask = {"type": "hexstr", "value": "0x010200", "mask": "0x030f00", "next_state": "take"}
    key = {"type": "hexstr", "value": "0x030abc", "mask": None, "next_state": "take"}
    default = {"type": "default", "value": None, "mask": None, "next_state": None}
    program.states = [
        state("start", [ahead, extract("a")], [field("a", "x"), field("a", "y")], [mask, key, default]),
        state("take", [extract("b")]),
    ]
    program.call([FORWARD])
    report(program, (field("m", "ahead"), 16), (field("b", "$valid$"), 8))
    device = make(program)
    for frame, ahead_value, taken in (
        ("52ffee", 0x2FF, 1),
        ("3abcee", 0xABC, 1),
        ("3abdee", 0xABD, 0),
        ("62ffee", 0x2FF, 0),
    ):
        [(_, out)] = device.inject(1, bytes.fromhex(frame))
        at = 3 if taken else 2
        assert out[at : at + 3] == ahead_value.to_bytes(2, "big") + bytes([taken])


# --- headers


def test_adding_and_removing_headers(make: Make) -> None:
    program = ProgramJson()
    program.header("a", [("x", 8), ("y", 8)])
    program.header("b", [("z", 16)], parsed=False)
    add = primitive("add_header", named("header", "b"))
    program.call([FORWARD, assign(field("b", "z"), const(0x1234)), add])  # zeroes z
    program.call([add, assign(field("a", "y"), field("b", "z"))])
    program.call([assign(field("b", "z"), const(0xBEEF)), add])  # keeps z: the header is valid
    program.call(
        [
            primitive("remove_header", named("header", "a")),
            assign(field("b", "z"), op("+", field("b", "z"), field("a", "x"))),
        ]
    )
    report(program, (field(STANDARD, "packet_length"), 16), (field("a", "x"), 8))
    # 5 bytes arrived, 2 were added, 2 removed; fields of a removed header can still be read.
    [(port, out)] = make(program).inject(1, b"\x07\x08abc")
    assert (port, out) == (2, bytes([0xBE, 0xF6, 0, 5, 7]) + b"abc")


def test_assigning_headers_copies_validity(make: Make) -> None:
    program = ProgramJson()
    program.header("a", [("x", 8)])
    program.header("b", [("x", 8)], parsed=False)
    program.sections["header_types"] = (built := program.build())["header_types"]
    copy = primitive("assign_header", named("header", "b"), named("header", "a"))
    program.call([FORWARD, copy])
    equal = op("b2d", None, op("==", named("header", "a"), named("header", "b")))
    program.call([primitive("remove_header", named("header", "a"))], pipeline="egress")
    report(program, (equal, 8))
    built = program.build()
    for header in built["headers"]:
        header["header_type"] = "a_t" if header["name"] == "b" else header["header_type"]
    device = Device(load_program(built))
    assert device.inject(1, b"\x07rest") == [(2, bytes([7, 0]) + b"rest")]
    _ = make


def test_unset_fields_read_as_zero_and_a_forgotten_egress_spec_is_port_0(make: Make) -> None:
    program = ProgramJson()
    program.header("a", [("x", 8)])
    program.header("wide", [("w", 512)], parsed=False)
    program.struct("m", [("v", 300)])
    report(program, (field("wide", "w"), 512), (field("m", "v"), 304))
    assert make(program).inject(1, b"\x07") == [(0, b"\x07" + bytes(64 + 38))]


# --- drops, multicast, metadata


def test_mark_to_drop_clears_the_group_but_a_later_group_still_multicasts(make: Make) -> None:
    program = ProgramJson()
    program.header("a", [("group", 16), ("late", 16)])
    group = field(STANDARD, "mcast_grp")
    drop = primitive("mark_to_drop", named("header", STANDARD))
    program.call([assign(group, field("a", "group")), drop, assign(group, field("a", "late"))])
    device = make(program)
    device.multicast.set(7, [(3, 1), (3, 2), (4, 9)])
    assert device.inject(1, bytes([0, 7, 0, 0])) == []
    assert [port for port, _ in device.inject(1, bytes([0, 0, 0, 7]))] == [3, 3, 4]
    assert device.inject(1, bytes([0, 0, 0, 8])) == []  # a group without members


def test_egress_sees_its_copy_and_copies_do_not_disturb_each_other(make: Make) -> None:
    program = ProgramJson()
    program.header("a", [("x", 8)])
    program.header("wide", [("w", 256)])
    program.call([assign(field(STANDARD, "mcast_grp"), const(1))])
    rid, wide = field(STANDARD, "egress_rid"), field("wide", "w")
    program.call(
        [assign(wide, op("^", wide, rid)), assign(field("a", "x"), op("+", field("a", "x"), rid))], pipeline="egress"
    )
    values = [
        (field(STANDARD, name), 16)
        for name in ("egress_port", "egress_rid", "instance_type", "egress_spec", "ingress_port")
    ]
    report(program, *values, (field(STANDARD, "egress_global_timestamp"), 48))
    device = make(program)
    device.multicast.set(1, [(3, 5), (4, 6)])
    frame = bytes([10]) + bytes(range(32))
    for (port, out), expected, expected_rid in zip(device.inject(9, frame, time_us=77), (3, 4), (5, 6), strict=True):
        assert port == expected
        assert out[0] == 10 + expected_rid
        assert int.from_bytes(out[1:33], "big") == int.from_bytes(frame[1:], "big") ^ expected_rid
        numbers = [int.from_bytes(out[33 + 2 * i : 35 + 2 * i], "big") for i in range(5)]
        # egress_spec starts as drop port + 1, cut to 9 bits.
        assert numbers == [port, expected_rid, abi.INSTANCE_REPLICATION, 0, 9]
        assert int.from_bytes(out[43:49], "big") == 77


def test_egress_can_drop(make: Make) -> None:
    program = ProgramJson()
    program.header("a", [("x", 8)])
    program.call([FORWARD])
    program.call([assign(field(STANDARD, "egress_spec"), field("a", "x"))], pipeline="egress")
    program.call(
        [assign(field(STANDARD, "egress_spec"), op("+", field(STANDARD, "egress_spec"), const(256)))], pipeline="egress"
    )
    device = make(program)
    assert device.inject(1, b"\xff") == []
    assert device.inject(1, b"\xfe") == [(2, b"\xfe")]


def test_frames_that_are_too_long_are_refused(make: Make) -> None:
    program = ProgramJson()
    program.header("a", [("x", 8)])
    program.call([FORWARD])
    device = make(program)
    longest = bytes(abi.MAX_FRAME_BYTES)
    assert device.inject(1, longest) == [(2, longest)]
    with pytest.raises(ValueError, match="limit"):
        device.inject(1, longest + b"x")
    with pytest.raises(ValueError, match="port 512"):
        device.inject(512, b"")
