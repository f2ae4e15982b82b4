"""Placement of programs into stages, and programs impossible in one pass: small ones with known answers."""

import dataclasses
from pathlib import Path

import pytest

from p4switch.p4.compile import compile_file, compile_text
from p4switch.program.fits import FitsError, judge, target_of, targets, text, vendor
from p4switch.program.loader import load_program
from tests.support.paths import ROOT

WHOLE = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<32> a; bit<32> b; bit<32> c; bit<32> d; bit<16> i; bit<16> j; }
struct headers { h_t h; }
struct meta { bit<32> x; bit<32> y; bit<32> z; }
parser P(packet_in p, out headers hdr, inout meta m, inout standard_metadata_t s) {
    state start { p.extract(hdr.h); transition accept; }
}
control V(inout headers hdr, inout meta m) { apply { } }
control I(inout headers hdr, inout meta m, inout standard_metadata_t s) {
    action drop() { mark_to_drop(s); }
@BODY@
}
control E(inout headers hdr, inout meta m, inout standard_metadata_t s) { apply { } }
control C(inout headers hdr, inout meta m) { apply { } }
control D(packet_out p, in headers hdr) { apply { p.emit(hdr.h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def fitted(body, target="tofino2", **limits):
    """Return the fit of an ingress with this body."""
    found = compile_text(WHOLE.replace("@BODY@", body), "small.p4").require()
    report = judge(load_program(found.json), dataclasses.replace(target_of(target), **limits))
    return report.pipelines[0]


def tables(count, key="hdr.h.a", writes="m.x", size=64):
    """Return tables that share only their key."""
    return "\n".join(
        f"action set{n}(bit<32> v) {{ {writes} = v; }}\n"
        f"table t{n} {{ key = {{ {key}: exact; }} actions = {{ set{n}; drop; }} default_action = drop(); "
        f"size = {size}; }}"
        for n in range(count)
    )


def applied(count):
    return "apply { " + " ".join(f"t{n}.apply();" for n in range(count)) + " }"


def test_tables_that_match_on_each_others_results_are_one_behind_the_other():
    body = """
    action one(bit<32> v) { m.x = v; }
    action two(bit<32> v) { m.y = v; }
    table t1 { key = { hdr.h.a: exact; } actions = { one; } size = 8; }
    table t2 { key = { m.x: exact; } actions = { two; } size = 8; }
    table t3 { key = { m.y: ternary; } actions = { drop; } size = 8; }
    apply { t1.apply(); t2.apply(); t3.apply(); }"""
    found = fitted(body)
    assert (found.depth, found.stages) == (3, 3)
    assert [(table.name, table.stage) for table in found.tables] == [("I.t1", 0), ("I.t2", 1), ("I.t3", 2)]
    assert found.problems == ()
    assert [place.rpartition(":")[0] for place in found.chain] == [f"stage {n}: small.p4" for n in (0, 1, 1, 2)]


def test_a_result_that_is_computed_with_is_there_a_stage_later():
    body = """
    action one(bit<32> v) { m.x = v; }
    action two() { hdr.h.b = m.x + hdr.h.c; }
    table t1 { key = { hdr.h.a: exact; } actions = { one; } size = 8; }
    table t2 { key = { hdr.h.d: exact; } actions = { two; } size = 8; }
    apply { t1.apply(); t2.apply(); }"""
    assert fitted(body).depth == 2
    assert fitted(body.replace("m.x + hdr.h.c", "hdr.h.d + hdr.h.c")).depth == 1
    assert fitted(body.replace("m.x + hdr.h.c", "(m.x ^ hdr.h.c) + hdr.h.d")).depth == 3
    assert fitted(body.replace("m.x + hdr.h.c", "hdr.h.d[7:0] ++ hdr.h.c[23:0]")).depth == 1  # moved bits


def test_what_is_copied_is_there_at_once():
    copies = "apply { m.x = hdr.h.a; m.y = m.x; hdr.h.b = m.y ^ hdr.h.c; }"
    assert fitted(copies).depth == 1
    chosen = "apply { m.x = hdr.h.a; if (hdr.h.d == 1) { m.x = hdr.h.b; } hdr.h.c = m.x ^ hdr.h.c; }"
    assert fitted(chosen).depth == 2  # the choice is known one stage later


def test_what_a_table_decides_about_may_be_in_its_stage():
    assert fitted(tables(2) + "apply { if (t0.apply().hit) { t1.apply(); } }").depth == 1
    assert fitted(tables(2) + "apply { if (hdr.h.b == 3) { t0.apply(); } else { t1.apply(); } }").depth == 1
    assert fitted(tables(1) + "apply { t0.apply(); if (m.x == 3) { hdr.h.b = 4; } }").depth == 2


def test_a_stage_has_so_many_tables_and_so_much_memory():
    assert fitted(tables(4) + applied(4), tables=4).stages == 1
    assert fitted(tables(5) + applied(5), tables=4).stages == 2
    # 64 bits of key and data, two entries in a word of 128: 64 blocks of 1,024 words.
    wide = fitted(tables(1, size=65_536) + applied(1), sram_blocks=20)
    assert wide.tables[0].sram_blocks == 64
    assert wide.stages == 4
    ternary = tables(1, size=2048).replace("exact", "ternary")
    assert fitted(ternary + applied(1)).tables[0].tcam_blocks == 4
    assert fitted(ternary + applied(1), tcam_blocks=3).stages == 2


REGISTER = "register<bit<32>>(64) r;\n"


def registers(*statements):
    return REGISTER + "apply { bit<32> t; bit<32> u; " + " ".join(statements) + " }"


READ, WRITE = "r.read(t, (bit<32>)hdr.h.i);", "r.write((bit<32>)hdr.h.i, {});"


@pytest.mark.parametrize("value", ["t + 1", "hdr.h.a", "t ^ hdr.h.b"])
def test_a_cell_that_is_read_and_written_at_once_is_in_one_stage(value):
    found = fitted(registers(READ, WRITE.format(value), "hdr.h.c = t;"))
    assert found.problems == ()
    assert found.arrays[0].one_access
    assert len(found.arrays[0].reads) == len(found.arrays[0].writes) == 1
    assert found.depth == 2  # the copy to the header comes after it


@pytest.mark.parametrize(
    ("statements", "said", "lines"),
    [
        ([READ, "t = t ^ hdr.h.a;", "t = t + hdr.h.b;", WRITE.format("t")], "2 operations follow each other", 1),
        ([READ, "r.read(u, (bit<32>)hdr.h.j);", "hdr.h.c = t ^ u;"], "access it more than once", 1),
        ([WRITE.format("hdr.h.a"), READ, "hdr.h.c = t;"], "access it more than once", 1),
        ([READ, "hdr.h.i = 5;", WRITE.format("t")], "two cells of it", 1),
        ([READ, "m.x = t; s0.apply();", WRITE.format("m.y")], "the table I.s0 is looked up", 1),
    ],
)  # fmt: skip
def test_what_one_access_cannot_do(statements, said, lines):
    other = "action keep(bit<32> v) { m.y = v; } table s0 { key = { m.x: exact; } actions = { keep; } size = 8; }\n"
    found = fitted(other + registers(*statements))
    assert [said in problem.what for problem in found.problems] == [True] * lines
    assert all(place.startswith("small.p4:") for place in found.problems[0].where)
    assert not found.arrays[0].one_access


def test_a_loop_comes_to_a_register_again_and_again():
    loop = REGISTER + "action go() { for (bit<8> k = 0; k < 3; k = k + 1) { @ } } apply { go(); }"
    found = fitted(loop.replace("@", "m.x = m.x + hdr.h.a;"))
    assert [problem.what for problem in found.problems] == ["statements in a loop need what they computed before"]
    found = fitted(loop.replace("@", "r.write((bit<32>)k, hdr.h.a);"))
    assert "register I.r: some paths access it more than once" in found.problems[0].what
    assert fitted(loop.replace("@", "") + "").arrays == ()


def test_accesses_on_other_paths_are_one():
    both = "if (hdr.h.a == 1) { " + READ + WRITE.format("t + 1") + " } else { r.write((bit<32>)hdr.h.j, hdr.h.b); }"
    assert fitted(registers(both)).problems == ()


def test_conditions_between_read_and_write():
    chosen = READ + " if (t > hdr.h.a) { " + WRITE.format("hdr.h.a") + " }"
    assert fitted(registers(chosen), register_operations=2).problems == ()
    (problem,) = fitted(registers(chosen), register_operations=2, register_compares=0).problems
    assert "1 conditions are decided; a stage decides 0" in problem.what


def test_registers_that_wait_for_each_other():
    body = """
    register<bit<32>>(64) a; register<bit<32>>(64) b;
    apply {
        bit<32> t; bit<32> u;
        if (hdr.h.a == 1) { a.read(t, 1); b.read(u, t); } else { b.read(u, 2); a.read(t, u); }
        hdr.h.c = t ^ u;
    }"""
    (problem,) = fitted(body).problems
    assert problem.what == "registers I.a, I.b: each waits for what another one holds"
    one_way = body.replace("b.read(u, 2); a.read(t, u);", "a.read(t, 2); b.read(u, 3);")
    assert fitted(one_way).problems == ()
    assert [array.stage for array in fitted(one_way).arrays] == [0, 1]


def test_a_stage_has_so_many_registers():
    def several(count):
        declared = "".join(f"register<bit<32>>(64) r{n};\n" for n in range(count))
        return declared + "apply { " + " ".join(f"r{n}.write((bit<32>)hdr.h.i, hdr.h.a);" for n in range(count)) + " }"

    assert fitted(several(4)).stages == 1
    assert fitted(several(9)).stages == 3
    (problem,) = fitted("register<bit<256>>(64) w; apply { bit<256> t; w.read(t, 0); hdr.h.a = t[31:0]; }").problems
    assert problem.what == "register I.w has cells of 256 bits, the target's have 128: it takes 2 registers"


def test_widths_are_those_of_what_is_added():
    sums = "register<bit<64>>(8) w; apply { bit<64> t; w.read(t, 0); hdr.h.a = t[31:0] + t[63:32]; }"
    assert fitted(sums).problems == ()
    (problem,) = fitted(sums.replace("t[31:0] + t[63:32]", "(bit<32>)(t + t)")).problems
    assert problem.what == "additions and comparisons of up to 64 bits; the target's have 32"


def test_more_stages_than_there_are():
    chain = "apply { " + " ".join(f"m.x = m.x + hdr.h.{'abcd'[n % 4]};" for n in range(13)) + " }"
    assert fitted(chain, "tofino2").problems == ()
    (problem,) = fitted(chain, "tofino").problems
    assert problem.what == "ingress takes 13 stages, the target has 12"


def test_a_pool_of_64_lanes_fits_tofino_2():
    """As docs/p4-front-end.md says."""
    program = load_program(compile_file(ROOT / "tests/data/pool64.p4").require().json)
    ingress, egress = judge(program, target_of("tofino2")).pipelines
    assert (ingress.depth, ingress.stages, ingress.live_bits, egress.stages) == (6, 13, 2306, 0)
    assert ingress.problems == ()
    lanes = [array for array in ingress.arrays if "lanes" in array.name]
    assert sorted(array.stage for array in lanes) == [stage for stage in range(4, 12) for _ in range(4)]


def test_what_of_our_program_no_single_pass_can_do():
    """As docs/p4-front-end.md says."""
    found = compile_file(ROOT / "p4src/p4reduce.p4", {"LANES": "64"}).require()
    ingress, egress = judge(load_program(found.json), target_of("tofino2")).pipelines
    assert (ingress.depth, egress.depth, ingress.live_bits) == (84, 3, 5339)
    named = {array.name.rpartition(".")[2] for array in ingress.arrays if not array.one_access}
    assert named == {"slots", "closings", "numbers", "lanes_0", "newest"}
    (lanes,) = (array for array in ingress.arrays if array.name.endswith("lanes_0"))
    assert len(lanes.reads) + len(lanes.writes) == 14


@pytest.mark.parametrize("path", sorted((ROOT / "tests/conformance/programs").glob("*.p4")), ids=lambda path: path.stem)
def test_every_program_has_stages(path):
    report = judge(load_program(compile_file(path).require().json), target_of("rmt"))
    assert str(path) in text(report)
    for one in report.pipelines:
        assert 0 <= one.depth <= one.stages
        assert all(0 <= table.stage < one.stages for table in one.tables)
        assert all(problem.where for problem in one.problems if "bits of headers" not in problem.what)


def test_bits_that_are_live_at_once():
    body = "apply { m.x = hdr.h.a; m.y = hdr.h.b; hdr.h.a = m.x ^ m.y; }"
    found = fitted(body + "")
    assert 161 <= found.live_bits <= 161 + 64 + 48
    assert "bits of headers and metadata are needed" in fitted(body, phv_bits=100).problems[-1].what


def test_every_target_has_sources():
    assert set(targets()) == {"tofino", "tofino2", "rmt"}
    assert all(target.sources for target in targets().values())
    with pytest.raises(FitsError, match="target: 'x' is none of tofino2, tofino, rmt"):
        target_of("x")


FAKE = """#!/bin/sh
while [ $# -gt 1 ]; do [ "$1" = -o ] && out=$2; shift; done
mkdir -p "$out/pipe/logs"
echo "compiling $1"
echo "Number of stages in table allocation: 7" > "$out/pipe/logs/table_summary.log"
echo "$out" > {note}
exit {code}
"""


@pytest.mark.parametrize("code", [0, 3])
def test_a_vendors_compiler_is_run_and_its_report_read(tmp_path, monkeypatch, code):
    fake = tmp_path / "bf-p4c"
    fake.write_text(FAKE.replace("{note}", str(tmp_path / "note")).replace("{code}", str(code)))
    fake.chmod(0o755)
    monkeypatch.setenv("BFP4C", str(fake))
    source = tmp_path / "my.p4"
    source.touch()
    said = vendor(source, target_of("tofino2"), {"LANES": "64"}, [])
    assert f"ended with exit code {code}" in said
    assert "compiling" in said
    assert "pipe/logs/table_summary.log\nNumber of stages in table allocation: 7" in said
    assert not Path((tmp_path / "note").read_text().strip()).exists()


def test_no_vendors_compiler(tmp_path, monkeypatch):
    monkeypatch.delenv("BFP4C", raising=False)
    assert vendor(tmp_path / "my.p4", target_of("tofino2"), {}, []) == ""
    monkeypatch.setenv("BFP4C", str(tmp_path / "nothing"))
    with pytest.raises(FitsError, match=r"BFP4C: .*nothing: No such file"):
        vendor(tmp_path / "my.p4", target_of("tofino2"), {}, [])


def test_the_text_names_everything_once():
    found = compile_text(WHOLE.replace("@BODY@", registers(READ, WRITE.format("t + 1"))), "small.p4").require()
    said = text(judge(load_program(found.json), target_of("tofino2")))
    assert "small.p4 on Intel Tofino 2: nothing speaks against it" in said
    assert "register I.r: 64 cells of 32 bits" in said
    assert said.count("read small.p4:") == 1
