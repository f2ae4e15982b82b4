"""Run of one mutant: it is loaded, filled with entries and given frames, on both executors."""

import copy
import json
import random
from functools import cache
from typing import Any, Final

from p4switch.device import Device
from p4switch.program import Program, ProgramError, load_program
from p4switch.program.actions import MatchKey
from p4switch.tables import Exact, Lpm, Match, Range, TableEntry, Ternary
from p4switch.tables.matching import TableError
from p4switch.tables.profile import MeterConfig
from tests.support.executors.twins import ROOT
from tests.support.mutants.guarded import GuardedExecutor
from tests.support.mutants.mutate import mutated

BASES: Final = ("ten_lines", "meters", "paths", "entities", "control", "constructs", "groups")
"""Programs in tests/data; ``meters`` is made by this module."""

FRAMES: Final = 6


@cache
def base(name: str) -> Any:
    """Return the JSON of a base program."""
    if name == "meters":
        return _with_meters(base("ten_lines"))
    return json.loads((ROOT / "tests" / "data" / f"{name}.json").read_text(encoding="utf-8"))


def _with_meters(root: Any) -> Any:
    """Return a program with a meter that every action executes, as no program in tests/data has one."""
    root = copy.deepcopy(root)
    meter = {"name": "m", "id": 0, "is_direct": False, "size": 4, "rate_count": 2, "type": "packets"}
    index = {"type": "field", "value": ["label", "port"]}
    target = {"type": "field", "value": ["label", "ttl"]}
    execute = {"op": "execute_meter", "parameters": [{"type": "meter_array", "value": "m"}, index, target]}
    root["meter_arrays"] = [meter]
    for action in root["actions"]:
        action["primitives"].append(copy.deepcopy(execute))
    return root


def mutant(seed: int) -> tuple[str, Any]:
    """Return the base's name and the mutated document of a seed."""
    rng = random.Random(seed)
    name = rng.choice(BASES)
    return name, mutated(base(name), rng)


def run(seed: int) -> str:
    """Return a mutant's outcome: ``refused`` by the loader, ``beyond`` the compiler, or ``same`` answers.

    Raises:
        AssertionError: the executors differ.
        Exception: any other failure.
    """
    _, root = mutant(seed)
    try:
        program = load_program(root)
    except ProgramError:
        return "refused"
    rng = random.Random(~seed)
    compiled, interpreted = (Device(program, executor=name) for name in ("compiled", "interpreted"))
    try:
        runner = GuardedExecutor(compiled)
    except ProgramError:
        return "beyond"
    compiled.__dict__["runner"] = runner
    for device in (compiled, interpreted):
        fill(device, random.Random(seed))
    for number in range(FRAMES):
        frame = frame_of(rng)
        port = rng.choice((0, 1, 2, 511))
        one, other = (d.inject(port, frame, time_us=number * 1000) for d in (compiled, interpreted))
        assert one == other, f"frame {frame.hex()} on port {port}: compiled {one}, interpreted {other}"
    compare(program, compiled, interpreted)
    return "same"


def frame_of(rng: random.Random) -> bytes:
    """Return bytes with many small and repeated values, so that selects and tables match."""
    length = rng.choice((0, 1, 4, 14, 20, 34, 60, 64, 100, 200))
    few = [0, 1, 2, 3, 4, 6, 8, 0x45, 0x10, 0x7F, 0x80, 0xFF, rng.getrandbits(8)]
    return bytes(rng.choice(few) for _ in range(length))


def fill(device: Device, rng: random.Random) -> None:
    """Add entries, groups, sessions and value sets."""
    for group in (1, 2, 3):
        device.multicast.set(group, [(group, 1), (4, 2)])
        device.clone_sessions.set(group, [(group, 0)])
    for meter in device.meters.values():
        for index in range(min(meter.size, 4)):
            meter.write(index, MeterConfig(cir=100 * index, cburst=index, pir=1000, pburst=2))
    for profile in device.profiles.values():
        if not profile.actions:
            continue
        for ident in (1, 2):
            action = rng.choice(profile.actions)
            profile.insert_member(ident, action.name, tuple(rng.getrandbits(p.width) for p in action.parameters))
        if profile.spec.selector is not None:
            profile.insert_group(1, [(1, 1), (2, 2)])
    for value_set in device.value_sets.values():
        members = [rng.getrandbits(value_set.spec.width) for _ in range(min(2, value_set.spec.max_size))]
        value_set.set(members)
    for table in device.tables.values():
        for number in range(3):
            entry = _entry(table, number, rng)
            try:
                table.insert(entry)
            except TableError:
                continue  # constant, full, without a key, or a duplicate entry


def _entry(table: Any, number: int, rng: random.Random) -> TableEntry:
    match = tuple(_match(key, rng) for key in table.spec.keys)
    priority = number + 1 if table.spec.kind in ("ternary", "range") else 0
    if table.spec.profile is not None:
        return TableEntry(match, "", (), priority, member=rng.choice((1, 2)))
    action = rng.choice(table.actions) if table.actions else None
    arguments = () if action is None else tuple(_small(p.width, rng) for p in action.parameters)
    return TableEntry(match, "" if action is None else action.name, arguments, priority)


def _small(width: int, rng: random.Random) -> int:
    return rng.choice((0, 1, 2, rng.getrandbits(width))) & ((1 << width) - 1)


def _match(key: MatchKey, rng: random.Random) -> Match:
    value, ones = _small(key.width, rng), (1 << key.width) - 1
    match key.kind:
        case "exact":
            return Exact(value)
        case "lpm":
            prefix = rng.choice((0, key.width, rng.randrange(key.width + 1)))
            return Lpm(value >> (key.width - prefix) << (key.width - prefix), prefix)
        case "ternary":
            mask = rng.choice((0, ones, rng.getrandbits(key.width)))
            return Ternary(value & mask, mask)
        case _:
            return Range(value, rng.choice((value, ones)))


def compare(program: Program, compiled: Device, interpreted: Device) -> None:
    """Compare counters, meters, registers and error counts."""
    for name, counter in compiled.counters.items():
        assert (counter.cells[:1024] == interpreted.counters[name].cells[:1024]).all(), f"counter {name}"
    for name, meter in compiled.meters.items():
        assert (meter.cells[:1024] == interpreted.meters[name].cells[:1024]).all(), f"meter {name}"
    for name, register in compiled.registers.items():
        for index in range(min(register.size, 64)):
            assert register.read(index) == interpreted.registers[name].read(index), f"register {name}[{index}]"
    for name, table in compiled.tables.items():
        if table.spec.direct_counter is not None:
            for entry in table.entries():
                assert table.read_counter(entry) == interpreted.tables[name].read_counter(entry), f"table {name}"
    for what in ("failed_assertions", "endless_packets", "random_state"):
        assert getattr(compiled.state, what) == getattr(interpreted.state, what), what
