"""Tables: lookups compared with brute force, in Python and in machine code; errors; direct counters."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p4switch.device import Device
from p4switch.program import load_program
from p4switch.tables import (
    DefaultEntry,
    EntryExists,
    Exact,
    InvalidEntry,
    Lpm,
    Match,
    NoSuchEntry,
    Range,
    TableEntry,
    TableFull,
    TableIsConst,
    Ternary,
)
from p4switch.tables.matching import HashIndex
from tests.support.bmv2_json import ProgramJson, assign, const, field, parameter
from tests.support.effort import examples

MISS = 0xFFFF
BIG = 90


def program_with(kinds: list[tuple[str, int]], **more: Any) -> ProgramJson:
    """Return a program with one table whose action writes its arguments into the packet; the default writes MISS."""
    program = ProgramJson()
    total = sum(width for _, width in kinds)
    fields = [(f"k{i}", width) for i, (_, width) in enumerate(kinds)]
    program.header("h", [*fields, ("pad", 8 + -total % 8), ("result", 16), ("wide", 96)])
    wide, narrow = field("h", "wide"), field("h", "result")
    note = program.action("note", [assign(wide, parameter(0)), assign(narrow, parameter(1))], [("w", BIG), ("n", 16)])
    other = program.action("other", [assign(narrow, parameter(0))], [("n", 16)])
    keys = [(kind, field("h", f"k{i}")) for i, (kind, _) in enumerate(kinds)]
    program.table("t", keys, [note, other], default=1, default_data=[MISS], with_counters=True, **more)
    program.sections["counter_arrays"] = [{"name": "hits", "id": 0, "is_direct": True, "binding": "t"}]
    program.call([assign(field("standard_metadata", "egress_spec"), const(1))])
    return program


def device_with(kinds: list[tuple[str, int]], **more: Any) -> Device:
    return Device(load_program(program_with(kinds, **more).build()))


def frame_of(kinds: list[tuple[str, int]], values: list[int]) -> bytes:
    packed = 0
    for (_, width), value in zip(kinds, values, strict=True):
        packed = packed << width | value
    bits = sum(width for _, width in kinds)
    pad = 8 + -bits % 8
    return (packed << pad).to_bytes((bits + pad) // 8, "big") + bytes(14)


def compiled_lookup(device: Device, frame: bytes) -> tuple[int, int]:
    """Return the packet's fields after the table: (result, wide)."""
    [(_, out)] = device.inject(1, frame)
    return int.from_bytes(out[-14:-12], "big"), int.from_bytes(out[-12:], "big")


def fits(match: Match, value: int, width: int) -> bool:
    match match:
        case Exact(v):
            return value == v
        case Lpm(v, prefix):
            return value >> (width - prefix) == v >> (width - prefix)
        case Ternary(v, mask):
            return value & mask == v
        case Range(low, high):
            return low <= value <= high


def best(entries: list[TableEntry], values: list[int], kinds: list[tuple[str, int]]) -> TableEntry | None:
    """Return the matching entry by checking every entry, as the reference."""
    hits = [e for e in entries if all(fits(m, v, w) for m, v, (_, w) in zip(e.match, values, kinds, strict=True))]
    longest = max((sum(m.prefix for m in e.match if isinstance(m, Lpm)) for e in hits), default=0)
    if any(kind in ("ternary", "range") for kind, _ in kinds):
        return max(hits, key=lambda e: e.priority, default=None)
    return next((e for e in hits if sum(m.prefix for m in e.match if isinstance(m, Lpm)) == longest), None)


def random_match(rng: random.Random, kind: str, width: int) -> Match:
    value = rng.choice([rng.getrandbits(width), rng.getrandbits(min(width, 3))])
    if kind == "exact":
        return Exact(value)
    if kind == "lpm":
        prefix = rng.choice([0, 1, width, rng.randint(0, width)])
        return Lpm(value & ~((1 << (width - prefix)) - 1), prefix)
    if kind == "ternary":
        mask = rng.choice([0, (1 << width) - 1, rng.getrandbits(width), 0b111 & ((1 << width) - 1)])
        return Ternary(value & mask, mask)
    low, high = sorted((value, rng.getrandbits(width)))
    return Range(low, high)


SHAPES = [
    [("exact", 9)],
    [("exact", 9), ("exact", 32), ("exact", 16), ("exact", 16)],
    [("exact", 128), ("exact", 3)],
    [("lpm", 32)],
    [("exact", 5), ("lpm", 128), ("exact", 48)],
    [("ternary", 16), ("ternary", 4), ("ternary", 32)],
    [("ternary", 128), ("exact", 7), ("lpm", 16)],
    [("range", 16), ("exact", 8)],
    [("range", 100), ("ternary", 8), ("range", 3)],
]


@pytest.mark.parametrize("kinds", SHAPES, ids=str)
def test_lookups_agree_with_brute_force_under_changes(kinds: list[tuple[str, int]]) -> None:
    rng = random.Random(str(kinds))
    device = device_with(kinds)
    table, entries = device.tables["t"], list[TableEntry]()
    for step in range(300):
        if entries and rng.random() < 0.4:
            table.delete(entries.pop(rng.randrange(len(entries))))
        else:
            match = tuple(random_match(rng, kind, width) for kind, width in kinds)
            has_priority = any(kind in ("ternary", "range") for kind, _ in kinds)
            # Priorities are distinct; another test covers equal ones.
            entry = TableEntry(match, "note", (rng.getrandbits(BIG), step), 1000 + step if has_priority else 0)
            if all(entry.identity != e.identity for e in entries):
                table.insert(entry)
                entries.append(entry)
        if step % 3:
            continue
        values = [rng.getrandbits(width) for _, width in kinds]
        if entries and rng.random() < 0.8:
            model = rng.choice(entries).match
            values = [m.low if isinstance(m, Range) else m.value for m in model]
        expected = best(entries, values, kinds)
        arguments = (0, MISS) if expected is None else expected.arguments
        found = table.lookup(values)
        assert found.hit == (expected is not None)
        assert found.arguments == (arguments if expected else (MISS,))
        assert compiled_lookup(device, frame_of(kinds, values)) == (arguments[1], arguments[0])
    assert list(table.entries()) == entries


@settings(max_examples=examples(25, 60), deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 200)), max_size=300), st.integers(1, 3))
def test_the_hash_index_behaves_like_a_dictionary(steps: list[tuple[bool, int]], words: int) -> None:
    index, model = HashIndex(words), dict[int, int]()
    spread = (1 << (64 * words)) // 211
    for number, (insert, small) in enumerate(steps, start=1):
        key = small * spread
        if insert and key not in model:
            index.insert(key, number)
            model[key] = number
        elif not insert and key in model:
            index.remove(key)
            del model[key]
        elif not insert:
            with pytest.raises(KeyError):
                index.remove(key)
        else:
            with pytest.raises(KeyError):
                index.insert(key, number)
        assert index.find(key) == model.get(key, 0)
    assert len(index) == len(model)
    assert all(index.find(small * spread) == model.get(small * spread, 0) for small in range(201))
    assert index.capacity >= 2 * len(model)


def test_of_equal_priorities_the_older_row_wins() -> None:
    device = device_with([("ternary", 8)])
    table = device.tables["t"]
    for n, mask in enumerate((0x0F, 0xF0, 0xFF)):
        table.insert(TableEntry((Ternary(0, mask),), "other", (n,), 7))
    assert table.lookup([0]).arguments == (0,)
    assert compiled_lookup(device, frame_of([("ternary", 8)], [0]))[0] == 0


def test_default_modify_and_the_direct_counter() -> None:
    device = device_with([("exact", 8)])
    table, frame = device.tables["t"], frame_of([("exact", 8)], [5])
    assert table.default == DefaultEntry("other", (MISS,))
    assert compiled_lookup(device, frame)[0] == MISS
    entry = TableEntry((Exact(5),), "other", (1,))
    table.insert(entry)
    assert compiled_lookup(device, frame)[0] == 1
    table.modify(TableEntry((Exact(5),), "note", (3, 2)))
    assert compiled_lookup(device, frame) == (2, 3)
    assert table.read_counter(entry) == (2, 2 * len(frame))
    assert table.get(entry).action == "note"
    table.write_counter(entry, 7, 9)
    compiled_lookup(device, frame)
    assert table.read_counter(entry) == (8, 9 + len(frame))
    table.delete(entry)
    table.insert(entry)
    assert table.read_counter(entry) == (0, 0)
    table.delete(entry)
    table.set_default("note", (1, 2))
    assert compiled_lookup(device, frame) == (2, 1)
    table.reset_default()
    assert compiled_lookup(device, frame)[0] == MISS


def test_what_a_table_refuses() -> None:
    table = device_with([("exact", 8)], max_size=2).tables["t"]
    table.insert(TableEntry((Exact(1),), "other", (1,)))
    with pytest.raises(EntryExists, match="k0=0x1"):
        table.insert(TableEntry((Exact(1),), "other", (2,)))
    table.insert(TableEntry((Exact(2),), "other", (1,)))
    with pytest.raises(TableFull, match="2 entries"):
        table.insert(TableEntry((Exact(3),), "other", (1,)))
    assert len(table) == 2
    for missing in (table.delete, table.modify, table.read_counter, table.get):
        with pytest.raises(NoSuchEntry):
            missing(TableEntry((Exact(9),), "other", (1,)))


@pytest.mark.parametrize(
    ("kinds", "entry", "message"),
    [
        ([("exact", 8)], TableEntry((Exact(256),), "other", (1,)), "does not fit 8 bits"),
        ([("exact", 8)], TableEntry((Exact(-1),), "other", (1,)), "does not fit 8 bits"),
        ([("exact", 8)], TableEntry((Lpm(1, 8),), "other", (1,)), "Lpm where the key is exact"),
        ([("exact", 8)], TableEntry((), "other", (1,)), "1 keys"),
        ([("exact", 8)], TableEntry((Exact(1),), "nobody", ()), "no action 'nobody'"),
        ([("exact", 8)], TableEntry((Exact(1),), "other", ()), "0 arguments for 1"),
        ([("exact", 8)], TableEntry((Exact(1),), "other", (1 << 16,)), "does not fit 16 bits"),
        ([("exact", 8)], TableEntry((Exact(1),), "other", (1,), 5), "no priority"),
        ([("lpm", 8)], TableEntry((Lpm(1, 4),), "other", (1,)), "behind its prefix"),
        ([("lpm", 8)], TableEntry((Lpm(0, 9),), "other", (1,)), "prefix length 9"),
        ([("ternary", 8)], TableEntry((Ternary(3, 1),), "other", (1,)), "outside the mask"),
        ([("ternary", 8)], TableEntry((Ternary(0, 256),), "other", (1,)), "mask 0x100"),
        ([("range", 8)], TableEntry((Range(3, 2),), "other", (1,)), "empty"),
    ],
)
def test_malformed_entries_say_what_is_wrong(kinds: list[tuple[str, int]], entry: TableEntry, message: str) -> None:
    table = device_with(kinds).tables["t"]
    with pytest.raises(InvalidEntry, match=message):
        table.insert(entry)
    assert len(table) == 0


def test_constant_entries_and_defaults_cannot_be_changed() -> None:
    kinds = [("ternary", 8)]
    constants = [
        {
            "match_key": [{"match_type": "ternary", "key": key, "mask": mask}],
            "action_entry": {"action_id": 1, "action_data": [data]},
            "priority": priority,
        }
        for key, mask, data, priority in (("0x00", "0x00", "0x5", 2), ("0x01", "0x01", "0x6", 1))
    ]
    device = device_with(kinds, entries=constants, const_default=True)
    table = device.tables["t"]
    # BMv2's priority 1 wins over 2.
    assert [compiled_lookup(device, frame_of(kinds, [v]))[0] for v in (0, 1, 3)] == [5, 6, 6]
    entry = next(table.entries())
    for change in (table.insert, table.modify, table.delete):
        with pytest.raises(TableIsConst):
            change(entry)
    with pytest.raises(TableIsConst):
        table.set_default("other", (1,))
    device.reset()
    assert len(table) == 2


def test_a_table_without_a_key_has_a_default_only() -> None:
    device = device_with([])
    frame = bytes(1) + bytes(14)
    assert compiled_lookup(device, frame)[0] == MISS
    device.tables["t"].set_default("other", (4,))
    assert compiled_lookup(device, frame)[0] == 4
    with pytest.raises(InvalidEntry, match="no key"):
        device.tables["t"].insert(TableEntry((), "other", (1,)))
