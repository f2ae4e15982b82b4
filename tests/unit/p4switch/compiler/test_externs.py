"""Compiled programs: registers, counters, hashes, control inside actions, and the cache of machine code."""

import binascii
import gc
import os
import random
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from p4switch import abi
from p4switch.compiler import compile_program
from p4switch.compiler import jit as jit_module
from p4switch.device import Device
from p4switch.program import UnsupportedConstruct, load_program
from tests.support.bmv2_json import ProgramJson, assign, const, field, named, op, primitive

STANDARD = "standard_metadata"
FORWARD = assign(field(STANDARD, "egress_spec"), const(2))


Make = Callable[[ProgramJson], Device]

pytestmark = pytest.mark.usefixtures("cache")


def test_registers_and_counters_ignore_indices_out_of_range(make: Make) -> None:
    program = ProgramJson()
    program.header("a", [("i", 32), ("v", 40), ("out", 24)])
    program.sections["register_arrays"] = [{"name": "r", "id": 0, "size": 3, "bitwidth": 20}]
    program.sections["counter_arrays"] = [{"name": "n", "id": 0, "size": 3, "is_direct": False}]
    register, index = named("register_array", "r"), field("a", "i")
    program.call([FORWARD, primitive("count", named("counter_array", "n"), index)])
    program.call([primitive("register_write", register, index, field("a", "v"))])
    program.call([primitive("register_read", field("a", "out"), register, index)])
    device = make(program)
    frame = (2).to_bytes(4, "big") + (0xABCDEF123).to_bytes(5, "big") + b"\x01\x02\x03"
    assert device.inject(1, frame)[0][1][-3:] == (0xEF123).to_bytes(3, "big")
    assert device.registers["r"].read(2) == 0xEF123
    assert device.inject(1, (3).to_bytes(4, "big") + frame[4:])[0][1][-3:] == b"\x01\x02\x03"
    assert [device.counters["n"].read(i) for i in range(3)] == [(0, 0), (0, 0), (1, 12)]
    assert [device.registers["r"].read(i) for i in range(3)] == [0, 0, 0xEF123]


@pytest.mark.parametrize(("cell", "held"), [(512, 64), (64, 512), (512, 512), (300, 512), (512, 300), (512, 1024)])
def test_registers_between_widths(make: Make, cell: int, held: int) -> None:
    program = ProgramJson()
    program.header("a", [("v", held), ("pad", 8 - held % 8), ("out", 512)])
    program.sections["register_arrays"] = [{"name": "r", "id": 0, "size": 1, "bitwidth": cell}]
    program.call([FORWARD, primitive("register_write", named("register_array", "r"), const(0), field("a", "v"))])
    program.call([primitive("register_read", field("a", "out"), named("register_array", "r"), const(0))])
    device = make(program)
    value = random.Random(cell * held).getrandbits(held)
    pad = 8 - held % 8
    frame = (value << pad).to_bytes((held + pad) // 8, "big") + bytes(64)
    [(_, out)] = device.inject(1, frame)
    stored = value & ((1 << cell) - 1)
    assert device.registers["r"].read(0) == stored
    assert int.from_bytes(out[-64:], "big") == stored & ((1 << 512) - 1)


def csum16(data: bytes) -> int:
    data += bytes(len(data) % 2)
    total = sum(int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def crc16(data: bytes) -> int:
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xA001 if crc & 1 else 0)
    return crc


def xor16(data: bytes) -> int:
    data += bytes(len(data) % 2)
    result = 0
    for i in range(0, len(data), 2):
        result ^= int.from_bytes(data[i : i + 2], "big")
    return result


HASHES: dict[str, Callable[[bytes], int]] = {
    "csum16": csum16,
    "crc16": crc16,
    "crc32": zlib.crc32,
    "crcCCITT": lambda data: binascii.crc_hqx(data, 0xFFFF),
    "identity": lambda data: int.from_bytes(data[:8], "big"),
    "xor16": xor16,
}


@pytest.mark.parametrize("algorithm", HASHES)
def test_hashes_leave_out_invalid_headers(make: Make, algorithm: str) -> None:
    program = ProgramJson()
    program.header("a", [("x", 12), ("y", 4), ("z", 40)])
    program.header("b", [("w", 24)])
    inputs = [
        {"type": "field", "value": ["a", "x"]},
        {"type": "field", "value": ["b", "w"]},
        {"type": "hexstr", "value": "0xabcd", "bitwidth": 16},
        {"type": "header", "value": "a"},
    ]
    program.sections["calculations"] = [{"name": "c", "id": 0, "algo": algorithm, "input": inputs}]
    program.header("result", [("h", 64)], parsed=False)
    hashed = primitive(
        "modify_field_with_hash_based_offset", field("result", "h"), const(5), named("calculation", "c"), const(1 << 60)
    )
    program.call([FORWARD, primitive("add_header", named("header", "result")), hashed])
    device = make(program)
    rng = random.Random(3)
    for length in (10, 7, 3):  # both headers, a alone, none
        frame = rng.randbytes(length)
        bits = ""
        if length >= 7:
            bits += f"{int.from_bytes(frame[:2], 'big') >> 4:012b}"
        if length >= 10:
            bits += f"{int.from_bytes(frame[7:10], 'big'):024b}"
        bits += f"{0xABCD:016b}"
        if length >= 7:
            bits += f"{int.from_bytes(frame[:7], 'big'):056b}"
        bits += "0" * (-len(bits) % 8)
        expected = HASHES[algorithm](int(bits, 2).to_bytes(len(bits) // 8, "big")) % (1 << 60) + 5
        [(_, out)] = device.inject(1, frame)
        at = {10: 10, 7: 7, 3: 0}[length]
        assert int.from_bytes(out[at : at + 8], "big") == expected


@pytest.mark.parametrize("algorithm", HASHES)
@pytest.mark.parametrize("rest", [0, 1, 2, 7, 100])
def test_hashes_may_go_on_over_the_payload(make: Make, algorithm: str, rest: int) -> None:
    program = ProgramJson()
    program.header("a", [("x", 24), ("pad", 8)])
    program.header("result", [("in", 64), ("out", 64)], parsed=False)
    inputs = [{"type": "field", "value": ["a", "x"]}, {"type": "payload", "value": None}]
    program.sections["calculations"] = [{"name": "c", "id": 0, "algo": algorithm, "input": inputs}]
    program.call([FORWARD, primitive("add_header", named("header", "result"))])
    for target, pipeline in (("in", "ingress"), ("out", "egress")):
        arguments = (field("result", target), const(0), named("calculation", "c"), const(1 << 62))
        program.call([primitive("modify_field_with_hash_based_offset", *arguments)], pipeline=pipeline)
    frame = random.Random(rest).randbytes(4 + rest)
    [(_, out)] = make(program).inject(1, frame)
    expected = HASHES[algorithm](frame[:3] + frame[4:]) % (1 << 62)
    assert [int.from_bytes(out[at : at + 8], "big") for at in (4, 12)] == [expected] * 2


# --- control inside actions


def test_jumps_and_exit(make: Make) -> None:
    program = ProgramJson()
    program.header("a", [("n", 8), ("sum", 16)])
    n, total = field("a", "n"), field("a", "sum")
    loop = [
        primitive("_jump_if_zero", n, const(4)),
        assign(total, op("+", total, n)),
        assign(n, op("-", n, const(1))),
        primitive("_jump", const(0)),
        primitive("_jump_if_zero", op("&", total, const(1)), const(6)),
        primitive("exit"),
        assign(total, op("+", total, const(1000))),
    ]
    program.call([FORWARD])
    program.call(loop)
    program.call([assign(total, op("+", total, const(5)))])
    device = make(program)
    # 1 + 2 + 3 + 4 = 10 is even: no exit. 1 + 2 = 3 is odd: the action runs to its end, what follows does not.
    assert device.inject(1, bytes([4, 0, 0]))[0][1] == b"\x00" + (1015).to_bytes(2, "big")
    assert device.inject(1, bytes([2, 0, 0]))[0][1] == b"\x00" + (1003).to_bytes(2, "big")


def test_failed_assertions_are_counted(make: Make) -> None:
    program = ProgramJson()
    program.header("a", [("x", 8)])
    program.call([FORWARD, primitive("assert", op("==", field("a", "x"), const(1)))])
    device = make(program)
    for x in (1, 2, 3):
        assert device.inject(1, bytes([x])) == [(2, bytes([x]))]
    assert device.state.failed_assertions == 2


def test_an_unbounded_shift_is_refused_by_name() -> None:
    program = ProgramJson()
    program.header("a", [("x", 32), ("y", 32)])
    program.call(
        [assign(field("a", "x"), op("b2d", None, op("<", op("<<", field("a", "x"), field("a", "y")), const(5))))]
    )
    with pytest.raises(UnsupportedConstruct, match="left shift"):
        compile_program(load_program(program.build()))


# --- the cache


def counting_program(number: int) -> ProgramJson:
    program = ProgramJson()
    program.header("a", [("x", 32)])
    program.call([assign(field("a", "x"), const(number)), FORWARD])
    return program


def test_machine_code_is_kept_and_damage_is_noticed(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = load_program(counting_program(77).build())

    def forget() -> None:
        for name in ("_COMPILED", "_OF_PROGRAM"):
            monkeypatch.setattr(jit_module, name, {})

    forget()
    assert Device(program).inject(1, bytes(4)) == [(2, (77).to_bytes(4, "big"))]
    [kept] = (cache / "code").iterdir()
    forget()
    with monkeypatch.context() as patch:
        patch.setattr(jit_module, "_optimized", lambda _: pytest.fail("compiled again"))
        assert Device(program).inject(1, bytes(4)) == [(2, (77).to_bytes(4, "big"))]
    kept.write_bytes(kept.read_bytes()[:-7])
    forget()
    assert Device(program).inject(1, bytes(4)) == [(2, (77).to_bytes(4, "big"))]


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    monkeypatch.setenv("P4REDUCE_CACHE", str(blocked))
    device = Device(load_program(counting_program(78).build()))
    assert device.inject(1, bytes(4)) == [(2, (78).to_bytes(4, "big"))]


def test_the_cache_forgets_the_oldest(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit_module, "_MOST_FILES", 2)
    for number in range(90, 94):
        compile_program(load_program(counting_program(number).build()))
    assert len(list((cache / "code").iterdir())) == 2


def test_code_that_is_used_again_is_not_the_oldest(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit_module, "_MOST_FILES", 2)

    def files(number: int) -> set[Path]:
        """Compile a program, and keep it nowhere but in the cache."""
        compile_program(load_program(counting_program(number).build()))
        gc.collect()
        return set((cache / "code").iterdir())

    (used,) = files(94)
    (other,) = files(95) - {used}
    os.utime(used, (1, 1))
    os.utime(other, (2, 2))
    files(94)
    left = files(96)
    assert used in left
    assert other not in left


def test_programs_live_side_by_side() -> None:
    devices = [Device(load_program(counting_program(n).build())) for n in range(80, 84)]
    outs = [int.from_bytes(d.inject(1, bytes(4))[0][1], "big") for d in devices]
    assert outs == [80, 81, 82, 83]
    assert len({d.ingress_address for d in devices}) == 4
    assert np.all([d.phv_bytes >= abi.MAX_FRAME_BYTES for d in devices])
