"""Steps of a packet: values before and after are the frame's, and no step shows compiler-generated names."""

import re

import pytest

from p4switch import compile_p4
from p4switch.device import Device
from p4switch.program import load_program
from p4switch.trace import Packet, Recorder, TextFormat, parse_entries
from p4switch.trace.record import cut
from p4switch.trace.steps import MOST_STEPS, copied, steps_of, what_if
from p4switch.trace.to_text import NOTHING, SourceLines, of_folder
from tests.support.labs import SOLUTIONS
from tests.support.p4runtime.configs import COMPILED, json_path
from tests.unit.p4switch.trace.test_text import inc  # noqa: F401  (a fixture)

PROGRAM = """
#include <core.p4>
#include <v1model.p4>
header e_t { bit<48> dst; bit<48> src; bit<16> kind; }
header n_t { bit<8> left; bit<8> sum; }
struct headers { e_t e; n_t n; }
struct meta_t { bit<8> seen; }
parser P(packet_in p, out headers h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.e); transition select(h.e.kind) { 0x1234: number; default: accept; } }
    state number { p.extract(h.n); transition accept; }
}
control V(inout headers h, inout meta_t m) { apply { } }
control I(inout headers h, inout meta_t m, inout standard_metadata_t s) {
    register<bit<8>>(4) total;
    action out_by(bit<9> port) { s.egress_spec = port; }
    action refuse() { mark_to_drop(s); }
    table where { key = { h.e.dst: exact; } actions = { out_by; refuse; } default_action = refuse(); }
    apply {
        if (h.n.isValid()) {
            bit<8> old;
            total.read(old, (bit<32>)h.n.left);
            m.seen = old + h.n.sum;
            total.write((bit<32>)h.n.left, m.seen);
            h.n.sum = m.seen;
            where.apply();
        } else {
            h.n.setValid();
            h.n.left = 7;
            s.mcast_grp = 1;
        }
    }
}
control E(inout headers h, inout meta_t m, inout standard_metadata_t s) {
    apply { if (s.egress_port == 2) { h.e.src = 2; } }
}
control C(inout headers h, inout meta_t m) { apply { } }
control D(packet_out p, in headers h) { apply { p.emit(h.e); p.emit(h.n); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
ENTRIES = """
tables: [{table: where, match: {h.e.dst: 1}, action: out_by, params: {port: 3}}]
multicast: [{group: 1, replicas: [{port: 1, rid: 1}, {port: 2, rid: 2}]}]
registers: [{register: total, index: 1, value: 5}]
"""


def frame(dst, kind, rest=""):
    return bytes.fromhex(f"{dst:012x}{9:012x}{kind:04x}{rest}")


@pytest.fixture
def switch(tmp_path):
    (tmp_path / "my.p4").write_text(PROGRAM)
    program = compile_p4(tmp_path / "my.p4")
    device = Device(program, executor="interpreted")
    parse_entries(ENTRIES, program).apply(device)
    text = TextFormat(program, SourceLines([tmp_path]), NOTHING, all_writes=False)
    return device, lambda port, data: steps_of(Recorder(device).run(Packet(data, port)), text)


def folded(steps):
    """Return the values after each step, as the page computes them."""
    found = []
    for step in steps:
        start = step.get("restart", len(found) - 1)
        values = dict(found[start]) if start >= 0 else {}
        values.update({name: after for name, _, after in step["rows"]})
        found.append(values)
    return found


def of_kind(steps, kind):
    return [step for step in steps if step["kind"] == kind]


def test_a_packet_is_told_in_words(switch):
    _, run = switch
    steps = run(4, frame(1, 0x1234, "0103"))
    says = [step["says"] for step in steps]
    assert says[0] == "A frame of 16 bytes comes in by port 4."
    assert "Header n is taken from the frame, 2 bytes from byte 14." in says
    assert "State start looks at 0x1234: state number is next." in says
    (table,) = of_kind(steps, "table")
    assert table["table"]["key"] == [["h.e.dst", "00:00:00:00:00:01"]] or table["table"]["key"][0][0].endswith("e.dst")
    assert table["table"]["entry"] is not None
    assert table["table"]["arguments"] == [["port", "3"]]
    read, write = (step["register"] for step in of_kind(steps, "register"))
    assert (read["index"], read["before"], read["after"]) == (1, "5", "5")
    assert (write["index"], write["before"], write["after"]) == (1, "5", "8")
    assert "16 bytes leave by port 3." in of_kind(steps, "emit")[0]["says"]
    assert steps[-1]["says"].startswith("To port 3, by I.out_by")
    assert folded(steps)[-1]["n.sum"] == "8"


def test_registers_are_what_packets_before_left(switch):
    _, run = switch
    run(4, frame(1, 0x1234, "0103"))
    read = of_kind(run(4, frame(9, 0x1234, "0101")), "register")[0]["register"]
    assert read["before"] == "8"


def test_a_miss_and_a_cell_that_is_not_there(switch):
    _, run = switch
    steps = run(4, frame(9, 0x1234, "0901"))
    assert of_kind(steps, "table")[0]["table"]["entry"] is None
    assert "no entry matches" in of_kind(steps, "table")[0]["says"]
    assert [step["says"] for step in of_kind(steps, "error")] == [
        "The program names cell 9, which does not exist: nothing happens."
    ] * 2
    assert steps[-1]["says"].startswith("Dropped")


def test_copies_begin_with_the_values_at_the_end_of_ingress(switch):
    _, run = switch
    steps = run(4, frame(1, 0x0800))
    values = folded(steps)
    assert any(step["says"] == "The program adds header n." for step in steps)
    copies = {step["copy"]: at for at, step in enumerate(steps) if step["stage"] == "deparser"}
    assert sorted(copies) == [1, 2]
    assert values[copies[1]]["e.src"] == "00:00:00:00:00:09"
    assert values[copies[2]]["e.src"] == "00:00:00:00:00:02"
    assert "ports 1 and 2" in of_kind(steps, "verdict")[0]["says"]


def test_a_frame_that_is_too_short(switch):
    _, run = switch
    steps = run(0, b"\x01\x02")
    assert "PacketTooShort" in of_kind(steps, "error")[0]["says"]


def test_the_values_at_the_end_are_those_of_the_frame_that_left(inc):  # noqa: F811
    text, traces = inc
    copies = 0
    for trace in traces:
        steps = steps_of(trace, text)
        values = folded(steps)
        ends = [at for at, step in enumerate(steps) if step["kind"] == "emit"]
        assert len(ends) == len(trace.sent)
        for at, sent in zip(ends, trace.sent, strict=True):
            copies += 1
            for header, fields in cut(sent.frame, [name for name, _ in sent.headers.fields], text.program).fields:
                for name, value in fields:
                    if name != "checksum":  # recomputed in the deparser, which is a separate step
                        full = f"{header}.{name}"
                        assert values[at][full] == text.value(full, value, text.field_width(full)), (trace.note, full)
    assert copies > 5


def test_no_step_names_a_temporary(inc):  # noqa: F811
    text, traces = inc
    for trace in traces:
        for step in steps_of(trace, text):
            told = step["says"] + " ".join(row[0] for row in step["rows"])
            assert not re.search(r"\btmp(_\d+)?\b|_tmp|\bscalars\b|\bnode_\d+|tbl_", told), step


def test_a_register_is_written_as_it_was_and_as_it_is(inc):  # noqa: F811
    text, traces = inc
    cells = {}
    for trace in traces:
        for step in steps_of(trace, text):
            if box := step.get("register"):
                place = box["name"], box["index"]
                assert box["before"] == cells.get(place, box["before"]), step["says"]
                cells[place] = box["after"]
    assert len(cells) > 3


def test_a_packet_that_goes_on_for_ever_ends(inc, monkeypatch):  # noqa: F811
    text, traces = inc
    monkeypatch.setattr("p4switch.trace.steps.MOST_STEPS", 10)
    steps = steps_of(traces[0], text)
    assert len(steps) <= 12
    assert any("10 steps are shown" in step["says"] for step in steps)
    assert MOST_STEPS > 500


def test_what_is_tried_on_a_copy_changes_nothing():
    program = load_program(json_path("p4reduce-64"))
    device = Device(program, executor="interpreted")
    from p4switch.trace import load_entries

    load_entries(SOLUTIONS / "01" / "leaf1.yaml", program).apply(device)
    register = next(iter(device.registers.values()))
    register.write(3, 77)
    twin = copied(device, "compiled")
    assert next(iter(twin.registers.values())).read(3) == 77
    found = what_if(device, 1, b"\0" * 64, [COMPILED.parent.parent], of_folder(COMPILED.parent), 5)
    assert found["steps"][0]["stage"] == "parser"
    assert register.read(3) == 77
    register.write(3, 0)
    next(iter(twin.registers.values())).take(register)
    assert next(iter(twin.registers.values())).read(3) == 0
