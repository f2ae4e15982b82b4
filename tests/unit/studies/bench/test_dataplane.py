"""The embedded switch's benchmarks run in a tiny configuration and print their columns; times are not checked."""

import json

import pytest

from p4switch.tables import Exact, Lpm, Ternary
from studies.bench.dataplane import bmv2, packets, tables
from studies.bench.dataplane.bmv2 import roles
from studies.bench.dataplane.packets import CHILDREN, push_frame, root_switch, sha256_of_results
from studies.bench.study import STUDY
from studies.bench.switch import program
from studies.pages import study_main

TINY = ["--lanes", "64", "--slots", "16", "--rounds", "2", "--interpreted-chunks", "1"]


@pytest.fixture
def run(capsys, tmp_path):
    def ask(*arguments: str) -> dict:
        assert study_main(STUDY, ["--json", *TINY, *arguments, "--out", str(tmp_path)]) == 0
        return json.loads(capsys.readouterr().out)["rows"]

    return ask


def test_packets_are_measured_with_every_executor(run):
    rows = run("--parts", "packets")["packets"]
    assert {row["what"] for row in rows} == {
        "store",
        "add",
        "finish, 1 out",
        f"finish, {CHILDREN} out",
        "replay",
        packets.ALL_REDUCE,
        "by hand",
        f"interpreter, {packets.ALL_REDUCE}",
    }
    for row in rows:
        assert row["ns_per_packet"] > 0
        assert row["lanes_per_s"] == pytest.approx(64 * row["packets_per_s"])


@pytest.mark.soak  # make study NAME=bench measures them
def test_memory_and_compilation_come_from_processes_of_their_own(run):
    found = run("--parts", "memory,compilation")
    (memory,) = found["memory"]
    assert memory["slot_bytes"] == 16 * (4 * 64 + 16)
    assert memory["device_bytes"] == pytest.approx(memory["slot_bytes"] + memory["overhead_bytes"])
    (compilation,) = found["compilation"]
    assert min(compilation["cached_s"], compilation["cold_s"]) > 0


def test_tables_and_writes(run):
    found = run("--parts", "tables,writes", "--entries", "10", "--scanned", "200")
    assert [(row["kind"], row["entries"]) for row in found["tables"]] == [("exact", 10), ("lpm", 200), ("ternary", 200)]
    assert [(row["kind"], row["entries_per_request"]) for row in found["writes"]] == [
        (kind, batch) for kind in ("exact", "lpm", "ternary") for batch in (200, 100)
    ]
    assert all(row["seconds"] > 0 for row in found["writes"])


def test_locks(run):
    (row,) = run("--parts", "locks", "--entries", "50")["locks"]
    assert row["entries"] == 50
    assert 0 < row["held_s"] < row["cpu_s"]


def test_people_get_tables_and_the_reason_why_bmv2_is_missing(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(bmv2, "find_bmv2", lambda: None)
    words = ["--parts", "tables,bmv2", "--entries", "10", "--scanned", "20", "--out", str(tmp_path)]
    assert study_main(STUDY, [*TINY, *words]) == 0
    out = capsys.readouterr().out
    assert "ns/lookup" in out
    assert "bmv2: skipped: simple_switch_grpc is neither" in out
    assert not (tmp_path / "cells").exists()  # timings are not cached
    assert "ns_per_lookup" in (tmp_path / "tables.csv").read_text()


@pytest.mark.parametrize("arguments", [["--slots", "48"], ["--rounds", "1"], ["--parts", "nothing"], ["--lanes", "7"],
                                       ["--pairs", "0"], ["--seconds", "nan"], ["--entries", "10,0"]])  # fmt: skip
def test_wrong_options_are_refused(arguments, capsys):
    assert study_main(STUDY, arguments) == 2
    assert f"bench: {arguments[0]}: " in capsys.readouterr().err


def test_the_number_of_slots_replaces_only_the_slots_registers():
    sizes = {name: register.size for name, register in program(64, 128).registers.items()}
    assert sizes == {
        name: 128 if ".slot." in name else register.size for name, register in program(64, 4096).registers.items()
    }
    assert sum(size == 128 for size in sizes.values()) == 9  # states, closings, lanes, RESULTs, gaps


def test_results_depend_on_the_chunks_and_are_those_of_the_interpreter():
    compiled, interpreted = root_switch(64, 16), root_switch(64, 16, "interpreted")
    for child in range(CHILDREN):
        frame = push_frame(child, 64, 16)
        assert compiled.inject(child + 1, frame) == interpreted.inject(child + 1, frame)
    assert sha256_of_results(64, 16, 16, 2) == sha256_of_results(64, 16, 16, 2)
    assert sha256_of_results(64, 16, 16, 2) != sha256_of_results(64, 16, 17, 2)


@pytest.mark.parametrize(("kind", "match"), [("exact", Exact), ("lpm", Lpm), ("ternary", Ternary)])
def test_every_key_of_a_filled_table_hits(kind, match):
    device, keys = tables.filled(kind, 50)
    table = device.tables[tables.TABLES[kind]]
    assert len(table) == len(keys) == 50
    assert all(isinstance(entry.match[0], match) for entry in table.entries())
    assert all(table.lookup([key]).hit for key in keys)


def test_threads_of_bmv2_are_told_apart_by_work_and_order():
    before = dict.fromkeys(range(10, 20), 5)
    spent = {10: 0, 11: 1, 12: 900, 13: 20, 14: 21, 15: 22, 16: 23, 17: 30, 18: 2, 19: 0}
    after = {task: before[task] + spent[task] for task in before}
    assert roles(before, after) == (12, [13, 14, 15, 16])
    after[14] = before[14]
    with pytest.raises(RuntimeError, match="egress threads"):
        roles(before, after)


@pytest.mark.bmv2
@pytest.mark.skipif(bmv2.why_not() is not None, reason=bmv2.why_not() or "")
def test_bmv2_answers_with_the_same_bytes():
    measured = bmv2.measure(64, 16, 1, 8)
    assert measured["packets"] == 8 * CHILDREN
    assert measured["ns_per_packet_egress"] > 0
    assert 0 < measured["ns_per_packet_ingress"] < measured["ns_per_packet_process"]
