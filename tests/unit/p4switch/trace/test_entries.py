"""Entries files: their syntax and error messages."""

import json

import pytest

from p4switch.base.values import ValueProblem, parse_number, show
from p4switch.device import Device
from p4switch.program import load_program
from p4switch.tables import DefaultEntry, Exact, Lpm, Range, TableEntry, Ternary
from p4switch.trace.entries import FILE_LIMIT, EntriesError, load_entries, parse_entries
from tests.support.p4runtime.configs import json_path

PROGRAM = load_program(json_path("entities"))
INGRESS = "EntitiesIngress."


def entry(table, match, action="forward", params="{port: 4}", more=""):
    return f"tables:\n  - table: {table}\n    match: {match}\n    action: {action}\n    params: {params}\n{more}"


def only(text):
    (placed,) = parse_entries(text, PROGRAM).tables
    return placed.entry


@pytest.mark.parametrize(
    ("text", "width", "value"),
    [
        ("0", 1, 0),
        ("511", 9, 511),
        ("007", 9, 7),
        ("0x1_ff", 9, 511),
        ("0b101", 3, 5),
        ("10.128.0.1", 32, 0x0A800001),
        ("02:00:0a:80:00:01", 48, 0x02000A800001),
        ("10-20-30-40-50-10", 48, 0x102030405010),
    ],
)
def test_notations(text, width, value):
    assert parse_number(text, width) == value


@pytest.mark.parametrize(
    ("text", "width", "said"),
    [
        ("512", 9, "does not fit 9 bits: the largest value is 511"),
        ("10.0.0.1", 48, "is an IPv4 address (32 bits), but 48 bits are wanted"),
        ("02:00:00:00:00:01", 32, "is a MAC address (48 bits)"),
        ("10.0.0.256", 32, "is no IPv4 address"),
        ("-1", 8, "is no number"),
        ("1.5", 8, "is no number"),
        ("0b12", 8, "is no number"),
        ("1" * 5000, 2048, "is no number"),
        ("TODO", 8, "still says TODO"),
        ("", 8, "is no number: write a decimal number"),
    ],
)
def test_wrong_values_are_explained(text, width, said):
    with pytest.raises(ValueProblem) as problem:
        parse_number(text, width)
    assert said in str(problem.value)
    assert len(str(problem.value)) < 200


def test_values_are_shown_as_people_write_them():
    assert show(0x0A800001, "hdr.ipv4.src", 32) == "10.128.0.1"
    assert show(0x0A800001, "parent_ip", 32) == "10.128.0.1"
    assert show(1, "ethernet.dst", 48) == "00:00:00:00:00:01"
    assert show(5, "timestamp", 48) == "5"
    assert show(70_000, "length", 32) == "0x11170"
    assert show(0x800, "ether_type", 16) == "0x800"
    wide = show(1 << 2016 | 7, "w0", 2048)
    assert wide == "0x00000001 00000000 00000000 ... 00000007 (2048 bits)"


@pytest.mark.parametrize(
    ("table", "match", "expected"),
    [
        ("exact_table", "{dst: 02:00:00:00:00:01, ingress_port: 3}", (Exact(0x020000000001), Exact(3))),
        ("exact_table", "{hdr.ethernet.dst: 10:20:30:40:50:10, ingress_port: 0x3}", (Exact(0x102030405010), Exact(3))),
        ("lpm_table", "{dst: 02:00:00:00:00:01/8}", (Lpm(0x020000000000, 8),)),
        ("lpm_table", "{dst: {value: 02:00:00:00:00:00, prefix: 8}}", (Lpm(0x020000000000, 8),)),
        ("lpm_table", "{}", (Lpm(0, 0),)),
        ("lpm_table", "{dst: 5}", (Lpm(5, 48),)),
    ],
)
def test_keys(table, match, expected):
    assert only(entry(table, match)).match == expected


def test_ternary_and_range_keys_have_priorities():
    tables = {name.removeprefix(INGRESS): t for name, t in PROGRAM.tables.items()}
    ternary, ranged = tables["ternary_table"], tables["range_table"]
    t_key, r_key = ternary.keys[0].name, ranged.keys[0].name
    other = ranged.keys[1].name
    found = only(entry("ternary_table", f"{{{t_key}: 0x1ff &&& 0x0f}}", "NoAction", "{}", "    priority: 7\n"))
    assert found == TableEntry((Ternary(0x0F, 0x0F), Ternary(0, 0)), "NoAction", (), 7)
    found = only(entry("range_table", f"{{{r_key}: 1..9, {other}: 1}}", "NoAction", "{}", "    priority: 7\n"))
    assert found.match == (Range(1, 9), Exact(1))
    for text, said in (
        (entry("ternary_table", "{}", "NoAction", "{}"), "priority is missing"),
        (entry("ternary_table", "{}", "NoAction", "{}", "    priority: 0\n"), "must be 1 or more"),
        (entry("range_table", f"{{{r_key}: 9..1, {other}: 1}}", "NoAction", "{}", "    priority: 1\n"), "is empty"),
        (entry("range_table", f"{{{other}: 1}}", "NoAction", "{}", "    priority: 1\n"), "is missing"),
        (entry("exact_table", "{dst: 1, ingress_port: 1}", more="    priority: 1\n"), "is exact and has none"),
    ):
        with pytest.raises(EntriesError, match=said):
            parse_entries(text, PROGRAM)


def test_everything_goes_into_a_device(tmp_path):
    file = tmp_path / "entries.yaml"
    file.write_text(
        entry(
            "exact_table",
            "{dst: 1, ingress_port: 2}",
            more="  - table: exact_table\n    default: true\n    action: drop\n",
        )
        + "multicast:\n  - {group: 7, replicas: [{port: 1, rid: 1}, {port: 1, rid: 2}, {port: 3}]}\n"
        + "registers:\n  - {register: narrow, index: 0, value: 0x29}\n"
    )
    device = Device(PROGRAM, executor="interpreted")
    load_entries(file, PROGRAM).apply(device)
    table = device.tables[INGRESS + "exact_table"]
    assert list(table.entries()) == [TableEntry((Exact(1), Exact(2)), INGRESS + "forward", (4,))]
    assert table.default == DefaultEntry(INGRESS + "drop", ())
    assert device.multicast.get(7) == ((1, 1), (1, 2), (3, 0))
    assert device.registers[INGRESS + "narrow"].read(0) == 0x29


def test_json_says_the_same(tmp_path):
    file = tmp_path / "entries.json"
    file.write_text(
        json.dumps(
            {
                "tables": [
                    {
                        "table": "exact_table",
                        "match": {"dst": 1, "ingress_port": 2},
                        "action": "forward",
                        "params": {"port": 4},
                        "default": False,
                    }
                ]
            }
        )
    )
    (placed,) = load_entries(file, PROGRAM).tables
    assert placed.entry == TableEntry((Exact(1), Exact(2)), INGRESS + "forward", (4,))


GOOD = "{dst: 1, ingress_port: 2}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (entry("exact_tabel", GOOD), "there is no table 'exact_tabel': did you mean 'exact_table'?"),
        (entry("exact_table", GOOD, action="forwrad"), "did you mean 'forward'?"),
        (entry("exact_table", "{dst: 1}"), "is missing: the key of table exact_table is"),
        (entry("exact_table", "{dst: 1, hdr.ethernet.dst: 1, ingress_port: 2}"), "is given twice; keep one"),
        (entry("exact_table", "{dst: 1, dst: 1, ingress_port: 2}"), "'dst' is given twice"),
        (entry("exact_table", "{dst: 1, ingress_port: 512}"), "does not fit 9 bits"),
        (entry("exact_table", "{dst: 1 &&& 1, ingress_port: 2}"), "is no number"),
        (entry("exact_table", GOOD, params="{prot: 4}"), "has no parameter 'prot': it takes port"),
        (entry("exact_table", GOOD, params="{}"), "port missing: action forward needs port"),
        (entry("exact_table", GOOD, params="{port: [1]}"), "params.port must be a single value"),
        (entry("exact_table", GOOD, more="    prio: 1\n"), "prio is not known here"),
        ("tables:\n  - {table: exact_table}\n", "action is missing; add it"),
        ("tables: {a: 1}\n", "must be a list"),
        ("tablse: []\n", "tablse is not known here"),
        ("multicast: [{group: 0, replicas: []}]", "0 means no multicast"),
        ("multicast: [{group: 1, replicas: [{port: 1}, {port: 1}]}]", "give each a rid of its own"),
        ("multicast: [{group: 1, replicas: [{port: 1}]}, {group: 1, replicas: []}]", "is there already"),
        ("registers: [{register: narrow, index: 99999, value: 1}]", "is not in 0.."),
        ("registers: [{register: nix, index: 0, value: 1}]", "there is no register 'nix'"),
        ("", "is empty"),
        ("- 1", "is a list"),
        ("tables: [", "is not YAML"),
        ("a: &x 1\ntables: *x", "aliases (*name) are not allowed"),
        ("[" * 3000 + "]" * 3000, "nested too deeply"),
        ("!!python/object/apply:os.getcwd []", "is a list"),
    ],
)
def test_errors_name_the_file_the_entry_and_the_fix(text, said):
    with pytest.raises(EntriesError) as error:
        parse_entries(text, PROGRAM, "my.yaml")
    assert str(error.value).startswith("my.yaml")
    assert said in str(error.value)


def test_errors_name_line_and_table():
    text = (
        entry("exact_table", GOOD) + "  - table: exact_table\n    match: {dst: x, ingress_port: 1}\n    action: drop\n"
    )
    with pytest.raises(EntriesError, match=r"^my\.yaml, line 6: tables\[1\] \(table exact_table\): match"):
        parse_entries(text, PROGRAM, "my.yaml")


def test_all_problems_are_told_at_once_but_not_too_many():
    item = "  - {table: nix, action: nix}\n"
    with pytest.raises(EntriesError) as error:
        parse_entries("tables:\n" + 13 * item, PROGRAM, "my.yaml")
    lines = str(error.value).splitlines()
    assert len(lines) == 11
    assert lines[-1] == "... and 3 more"


def test_an_entry_that_the_device_refuses_is_named():
    item = "  - {table: exact_table, match: {dst: 1, ingress_port: 2}, action: drop}\n"
    entries = parse_entries("tables:\n" + item + item, PROGRAM, "my.yaml")
    with pytest.raises(EntriesError, match=r"my\.yaml, line 3: tables\[1\] .*there is an entry"):
        entries.apply(Device(PROGRAM, executor="interpreted"))


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(EntriesError, match=r"nix\.yaml: No such file"):
        load_entries(tmp_path / "nix.yaml", PROGRAM)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(EntriesError, match="is not UTF-8"):
        load_entries(tmp_path / "binary.yaml", PROGRAM)
    (tmp_path / "big.yaml").write_bytes(b" " * (FILE_LIMIT + 1))
    with pytest.raises(EntriesError, match="larger than"):
        load_entries(tmp_path / "big.yaml", PROGRAM)
