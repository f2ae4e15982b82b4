"""Machine code in memory: it can be linked wherever there is room, and is freed with its last user."""

import gc
import re
import resource
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

from p4switch.compiler import compile_program
from p4switch.compiler import jit as jit_module
from p4switch.device import Device
from p4switch.program import Program, load_program
from tests.support.bmv2_json import ProgramJson, assign, const, field
from tests.support.executors.twins import ROOT


def executable_bytes() -> int:
    """Return the bytes of anonymous executable memory; neighbouring mappings may merge, so bytes are counted."""
    total = 0
    for line in Path("/proc/self/maps").read_text(encoding="ascii").splitlines():
        ends, rights, *_ = parts = line.split()
        if "x" in rights and len(parts) == 5:
            first, last = (int(end, 16) for end in ends.split("-"))
            total += last - first
    return total


def test_the_key_of_kept_code_covers_all_that_the_compiler_imports() -> None:
    compiler = Path(jit_module.__file__).parent
    named = {
        name
        for source in compiler.glob("*.py")
        for name in re.findall(r"^from p4switch\.(\w+)", source.read_text("utf-8"), re.MULTILINE)
    }
    folders = {name for name in named if (compiler.parent / name).is_dir()}
    assert folders - {"native"} <= set(jit_module.COMPILED_FROM)  # objects.version and its source are in it
    assert all((compiler.parent / name / "__init__.py").exists() for name in jit_module.COMPILED_FROM)


def counting_program(number: int) -> Program:
    program = ProgramJson()
    program.header("a", [("x", 32)])
    program.call([assign(field("a", "x"), const(number)), assign(field("standard_metadata", "egress_spec"), const(2))])
    return load_program(program.build())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="fills the address space as Linux lays it out")
@pytest.mark.parametrize("path", ["tests/data/ten_lines.json", "p4src/compiled/p4reduce-256.json"])
def test_code_is_linked_where_free_pages_lie_gigabytes_apart(path: str) -> None:
    command = [sys.executable, "-m", "tests.support.executors.fragmented", str(ROOT / path), "0305000a"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    interpreted = Device(load_program(ROOT / path), executor="interpreted")
    assert done.stdout == f"{interpreted.inject(1, bytes.fromhex('0305000a'))}\n"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_code_is_freed_with_the_last_device_and_program() -> None:
    gc.collect()
    before = executable_bytes()
    devices = [Device(counting_program(1000 + n)) for n in range(20)]
    assert [d.inject(1, bytes(4))[0][1][-2:] for d in devices] == [(1000 + n).to_bytes(2, "big") for n in range(20)]
    grown = executable_bytes() - before
    assert grown >= 20 * resource.getpagesize()
    kept = devices[7]
    devices.clear()
    gc.collect()
    assert executable_bytes() <= before + grown // 20
    assert kept.inject(1, bytes(4)) == [(2, (1007).to_bytes(4, "big"))]


def test_devices_of_one_program_share_their_code() -> None:
    one, other = Device(counting_program(1100)), Device(counting_program(1100))
    assert one.code is other.code
    assert one.code is compile_program(one.program)


def test_a_program_keeps_its_code_between_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    program = counting_program(1101)
    code = weakref.ref(Device(program).code)
    gc.collect()
    monkeypatch.setattr(jit_module, "_load", lambda _: pytest.fail("linked again"))
    assert Device(program).code is code()
