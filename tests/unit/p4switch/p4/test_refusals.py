"""Former tracebacks, and JSON that the loader refused: now refused with the line and a remedy."""

import pytest

from p4switch.p4.compile import compile_text
from p4switch.p4.diagnostics import P4Error
from p4switch.program import load_program
from tests.support.frontend.mistakes import PROGRAM


def refused(text):
    found = compile_text(text, "student.p4")
    assert not found.ok
    (error,) = found.diagnostics.errors
    assert found.sources.place(error.position).file == "student.p4"
    return error.message, found.sources.line(error.position)


@pytest.mark.parametrize("kind", ["bit<0>", "varbit<0>"])
def test_a_field_of_width_0(kind):
    message, line = refused(PROGRAM.replace("struct headers_t", f"header none_t {{ {kind} f; }}\nstruct headers_t"))
    assert "has no bits" in message
    assert kind in line


def test_a_number_of_an_annotation():
    text = PROGRAM.replace("bit<8> hops;", "@field_list(2true) bit<8> hops;")
    text = text.replace("route.apply();", "route.apply(); resubmit_preserving_field_list(2);")
    message, line = refused(text)
    assert message == "'2true' is no number"
    assert "@field_list" in line


@pytest.mark.parametrize("value", ["hdr", "hdr.ipv4", "{ 1, 2 }"])
def test_several_values_where_a_single_one_stands(value):
    call = f"hash(previous, HashAlgorithm.crc16, 16w0, {{ hdr.ipv4.src }}, {value});"
    message, line = refused(PROGRAM.replace("route.apply();", f"route.apply(); {call}"))
    assert "a single value must stand here" in message
    assert call in line


def test_a_switch_in_an_action():
    text = PROGRAM.replace("std.egress_spec = port;", "std.egress_spec = port; switch (port) { 1: { } }")
    message, line = refused(text)
    assert message == "a switch stands in controls, not in actions"
    assert "switch (port)" in line


def test_a_checksum_wider_than_the_target_has():
    text = PROGRAM.replace("bit<8> protocol;", "bit<8> protocol; bit<80> wide;")
    call = "update_checksum(true, { hdr.ipv4.src }, hdr.ipv4.wide, HashAlgorithm.csum16);"
    head = "control MyCompute(inout headers_t hdr, inout metadata_t meta) { apply {"
    message, line = refused(text.replace(head, f"{head} {call}"))
    assert message == "a checksum has at most 64 bits on this target, but this is bit<80>"
    assert call in line


@pytest.mark.parametrize("size", ["1 << 32", "10000000000000000000000"])
def test_a_table_larger_than_the_target_has(size):
    message, line = refused(PROGRAM.replace("size = 1024", f"size = {size}"))
    assert "a table has room for at most 4294967295 entries" in message
    assert size in line


def test_more_entries_than_the_size_of_the_table():
    entries = "size = 1; const entries = { 0x01000000 &&& 0xff000000: drop(); 0x02000000 &&& 0xff000000: drop(); }"
    message, line = refused(PROGRAM.replace("size = 1024;", entries))
    assert message == "the table has room for 1 entries, but the program gives it 2"
    assert "size = 1" in line


def test_two_entries_that_match_the_same():
    entries = "const entries = { 0x01000000 &&& 0xff000000: drop(); 0x01020304 &&& 0xff000000: NoAction(); }"
    message, _ = refused(PROGRAM.replace("size = 1024;", entries))
    assert message == "entry 2 matches what entry 1 does, and BMv2 takes only one of them"


def test_a_priority_beyond_the_target_s():
    entries = "const entries = { @priority(99999999999) 0x01000000 &&& 0xff000000: drop(); }"
    message, _ = refused(PROGRAM.replace("size = 1024;", entries))
    assert message == "a priority is at most 2147483647, but this is 99999999999"


def test_an_id_that_p4info_does_not_hold():
    found = compile_text(PROGRAM.replace("table route", "@id(99999999999) table route"), "student.p4")
    with pytest.raises(P4Error, match="an id has 32 bits, but this is 99999999999"):
        found.p4info()


@pytest.mark.parametrize("kind", ["tuple<bit<8>, bit<8>>", "pair_t"])
def test_a_constructor_may_be_given_several_values(kind):
    """This once ended in a traceback."""
    value = "t[1]" if kind.startswith("tuple") else "t.b"
    inner = f"control Sub(inout headers_t h)({kind} t) {{ apply {{ h.ipv4.ttl = {value}; }} }}\ncontrol MyIngress("
    text = PROGRAM.replace("control MyIngress(", f"struct pair_t {{ bit<8> a; bit<8> b; }}\n{inner}")
    text = text.replace("(16) last;", "(16) last; Sub({1, 77}) sub;").replace("route.apply();", "sub.apply(hdr);")
    json = compile_text(text, "student.p4").require().json
    assert "0x4d" in str(json["actions"])


def test_a_value_set_of_other_widths_than_the_keys():
    text = PROGRAM.replace("struct metadata_t", "struct pair_t { bit<1> a; bit<16> b; }\nstruct metadata_t")
    text = text.replace("state start {", "value_set<pair_t>(4) pairs;\n    state start {")
    select = "select(hdr.ethernet.type, std.ingress_port) {\n            pairs: accept;"
    message, line = refused(text.replace("select(hdr.ethernet.type) {\n            0x0800: parse_ipv4;", select))
    assert message == "this value set has keys of 1, 16 bits, but 'select' has keys of 16, 9"
    assert "pairs: accept" in line


def test_one_control_with_tables_for_both_pipelines():
    """BMv2 has each table in one pipeline."""
    message, _ = refused(PROGRAM.replace("MyEgress(),", "MyIngress(),"))
    assert message == "the table 'MyIngress.route' is in ingress and in egress"


def test_a_variable_of_width_0():
    message, line = refused(PROGRAM.replace("bit<32> previous;", "bit<32> previous; bit<0> none;"))
    assert "a variable of the type bit<0> has no bits" in message
    assert "bit<0> none" in line


def test_a_varbit_wider_than_the_target_s():
    message, _ = refused(PROGRAM.replace("struct headers_t", "header v_t { varbit<100000> v; }\nstruct headers_t"))
    assert message == "varbit<100000> is too wide: the target takes at most 65536 bits"


@pytest.mark.parametrize("operator", ["/", "%"])
def test_negative_numbers_are_not_divided(operator):
    """As with p4c: languages disagree on the result."""
    message, line = refused(PROGRAM.replace("struct headers_t", f"const int K = -5 {operator} 2;\nstruct headers_t"))
    assert message == f"{operator!r} is not defined for negative numbers"
    assert "const int K" in line


def test_a_table_behind_an_exit_leads_to_what_is_there():
    """No packet reaches it, but the loader follows its references."""
    text = PROGRAM.replace("route.apply();", "exit; route.apply(); hdr.ipv4.ttl = 7; if (meta.seen == 1) { drop(); }")
    program = load_program(compile_text(text).require().json or {})
    assert "MyIngress.route" in program.tables


def test_a_package_of_the_name_of_the_target_s():
    """With fewer blocks this once ended in a traceback."""
    block = "control Block();\npackage V1Switch(Block b);\ncontrol Mine() { apply { } }\nV1Switch(Mine()) main;\n"
    message, _ = refused(block)
    assert message == "this V1Switch is not that of v1model"


KEYS = ("hdr.ipv4.dst: lpm;", "hdr.ipv4.dst: ternary;")


def with_entries(entries, properties=""):
    text = PROGRAM.replace(*KEYS)
    return text.replace("size = 1024;", f"size = 1024; {properties} entries = {{ {entries} }}")


@pytest.mark.parametrize(
    ("entries", "properties", "said"),
    [
        ("1: drop(); priority=40: 2: drop();", "", "the first entry has no priority, though a later one has"),
        ("priority=12: 1: drop(); 2: drop(); 3: drop();", "priority_delta = 10;", "this entry has the priority -8;"),
        ("priority=-1: 1: drop();", "", "this entry has the priority -1;"),
        ("priority=2147483648: 1: drop();", "", "this entry has the priority 2147483648;"),
        ("priority=1: 1: drop();", "priority_delta = 0;", "'priority_delta' is at least 1, not 0"),
        ("priority=1: 1: drop();", "largest_priority_wins = 1;", "'largest_priority_wins' is a bool, not int"),
        ("priority=1: 1: drop();", "const", "'const entries' have no priorities"),
    ],
)
def test_priorities_of_entries(entries, properties, said):
    """Priorities follow the specification (section 14.2.1.4)."""
    message, _ = refused(with_entries(entries, properties))
    assert message.startswith(said)


def test_keys_that_need_no_priorities():
    message, _ = refused(with_entries("priority=1: 1: drop();").replace(*reversed(KEYS)))
    assert message == "the keys of the table 'route' need no priorities"


@pytest.mark.parametrize(
    ("properties", "first"),
    [("", 3), ("largest_priority_wins = true;", 3), ("largest_priority_wins = false;", 1)],
)
def test_the_entry_of_the_highest_priority_is_tried_first(properties, first):
    """Entries are in BMv2's order, in which the lower number wins."""
    entries = "priority=10: 1 &&& 1: drop(); priority=20: 2 &&& 2: drop(); priority=30: 4 &&& 4: drop();"
    json = compile_text(with_entries(entries, properties)).require().json
    table = next(t for p in json["pipelines"] for t in p["tables"] if t["name"] == "MyIngress.route")
    masks = [int(entry["match_key"][0]["mask"], 16) for entry in table["entries"]]
    assert masks == ([4, 2, 1] if first == 3 else [1, 2, 4])
    assert [entry["priority"] for entry in table["entries"]] == [1, 2, 3]


@pytest.mark.parametrize("version", ["20000101", "-6419018", "20180100"])
def test_a_version_of_v1model_that_there_is_not(version):
    message, line = refused(f"#define V1MODEL_VERSION {version}\n{PROGRAM}")
    assert message == f"there is no version {version} of v1model"
    assert line == f"#define V1MODEL_VERSION {version}"


@pytest.mark.parametrize(
    ("declared", "used", "kind", "name"),
    [
        ('@name(".drop") action again() { }', "again;", "action", "drop"),
        ('@name("forward") action again() { }', "again;", "action", "MyIngress.forward"),
        ('@name(".MyIngress.drop") action again() { }', "again;", "action", "MyIngress.drop"),
    ],
)
def test_two_actions_of_one_name(declared, used, kind, name):
    """The control plane could not tell them apart (specification, section 18.3)."""
    text = PROGRAM.replace("action drop()", '@name(".drop") action drop()') if name == "drop" else PROGRAM
    text = text.replace("table route", f"{declared}\n    table route").replace(
        "drop; NoAction;", f"drop; {used} NoAction;"
    )
    message, line = refused(text)
    assert message.startswith(f"the {kind} 'again' has the name {name!r} for the control plane, which")
    assert "again()" in line


def test_one_action_in_both_pipelines_is_one():
    text = PROGRAM.replace(
        "control MyIngress(", "action away(inout standard_metadata_t s) { mark_to_drop(s); }\ncontrol MyIngress("
    )
    text = text.replace("drop; NoAction; }", "drop; away(std); NoAction; }")
    egress = "table last { actions = { away(std); } const default_action = away(std); } apply { last.apply(); }"
    text = text.replace("{ apply { } }\ncontrol MyCompute", f"{{ {egress} }}\ncontrol MyCompute")
    assert "last.apply" in text
    assert compile_text(text).ok


@pytest.mark.parametrize(("slice_", "plain"), [("[8+:16]", "[23:8]"), ("[0+:1]", "[0:0]")])
def test_a_slice_of_a_width(slice_, plain):
    """``[low+:width]``, as a value and as a target."""
    statement = "previous{0} = hdr.ipv4.src{0}; route.apply();"
    one, other = (
        compile_text(PROGRAM.replace("route.apply();", statement.format(s))).require().json for s in (slice_, plain)
    )
    assert str(one["actions"]).replace(slice_, plain) == str(other["actions"])


@pytest.mark.parametrize(
    ("slice_", "said"),
    [
        ("[hdr.ipv4.ttl+:4]", "the lower end of a slice must be known when the program is compiled"),
        ("[28+:8]", "bit 35 is beyond bit<32>"),
        ("[3+:0]", "a slice has at least one bit, not 0"),
    ],
)
def test_slices_of_a_width_that_are_refused(slice_, said):
    message, line = refused(
        PROGRAM.replace("route.apply();", f"previous = (bit<32>) hdr.ipv4.src{slice_}; route.apply();")
    )
    assert message == said
    assert slice_ in line


@pytest.mark.parametrize("declared", ["ipv4_t[4] many;", "ipv4_t many[4];"])
def test_the_size_of_a_stack_may_stand_behind_its_name(declared):
    text = PROGRAM.replace("struct headers_t { ", f"struct headers_t {{ {declared} ")
    assert compile_text(text).require().json["header_stacks"][0]["size"] == 4


def test_an_array_of_numbers():
    message, _ = refused(PROGRAM.replace("bit<8> hops;", "bit<8> hops[4];"))
    assert message == "there is no stack of bit<8>"


@pytest.mark.parametrize("applied", ["package", "directly"])
def test_an_annotation_of_a_control_s_type_names_no_instance(applied):
    """As with p4c, the name belongs to the type."""
    text = PROGRAM.replace("control MyIngress(", '@name("Other") control MyIngress(')
    if applied == "directly":
        around = "control Around(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std)"
        apply = "{ apply { MyIngress.apply(hdr, meta, std); } }"
        text = text.replace("control MyEgress(", f"{around} {apply}\ncontrol MyEgress(")
        text = text.replace("MyIngress(), MyEgress()", "Around(), MyEgress()")
    json = compile_text(text).require().json
    prefix = "Around." if applied == "directly" else ""
    assert f"{prefix}MyIngress.route" in {t["name"] for p in json["pipelines"] for t in p["tables"]}


@pytest.mark.parametrize(
    ("body", "ends"),
    [
        ("if (x == 1) { return 3; }", False),
        ("if (x == 1) { return 3; } else { return 4; }", True),
        ("switch (x) { 1: { return 3; } }", False),
        ("switch (x) { 1: { return 3; } default: { return 4; } }", True),
        ("switch (x) { 1: default: { return 4; } }", True),
        ("switch (x) { 1: { return 3; } default: }", False),
    ],
)
def test_a_function_that_may_end_without_a_result(body, ends):
    text = PROGRAM.replace("control MyIngress", f"bit<8> f(in bit<8> x) {{ {body} }}\ncontrol MyIngress", 1)
    text = text.replace("route.apply();", "hdr.ipv4.protocol = f(hdr.ipv4.protocol); route.apply();")
    if ends:
        assert compile_text(text, "student.p4").ok
        return
    message, line = refused(text)
    assert message == "the function 'f' may end without returning bit<8>"
    assert body in line
