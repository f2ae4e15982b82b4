"""The fabric's benchmarks run, in a tiny configuration, and print what they promise. No time is asserted."""

import json
import sys

import numpy as np
import pytest

from studies.bench import fabric
from studies.bench.fabric import Tree
from studies.bench.study import STUDY
from studies.pages import study_main

TINY = ["--json", "--lanes", "64", "--switches", "2", "--frames", "600", "--best-of", "1", "--elements", "4096"]


@pytest.fixture
def run(capsys, tmp_path):
    def ask(parts: str) -> dict:
        assert study_main(STUDY, [*TINY, "--parts", parts, "--out", str(tmp_path)]) == 0
        return json.loads(capsys.readouterr().out)

    return ask


def test_rates_of_trees_racks_and_forwarding(run):
    found = run("tree,racks,forwarding")["rows"]
    for part, switches in (("tree", 5), ("racks", 2), ("forwarding", 2)):
        for row in found[part]:
            assert row["switches"] == switches
            assert row["M_passes_per_s"] == pytest.approx(1e3 / row["ns_per_pass"])
            assert row["M_copies_per_s"] > 0
    # Whatever comes in leaves, on the whole: sums of four go up, results of one to four go down.
    assert found["tree"][0]["M_copies_per_s"] == pytest.approx(found["tree"][0]["M_passes_per_s"])


def test_the_large_all_reduce_is_checked_and_counted(run):
    (row,) = run("large")["rows"]["large"]
    assert (row["elements"], row["workers"]) == (4096, 16)
    assert row["virtual_s"] > 0
    assert row["beyond_tensors_MB"] > 0


def test_a_tree_sums_and_notices_wrong_sums():
    tree = Tree(64, 640)
    tree.fill()
    expected = tree.tensors.sum(axis=0)
    tree.all_reduce()
    assert all(np.array_equal(tensor, expected) for tensor in tree.tensors)
    passes, copies = tree.counted()
    assert passes == copies
    assert passes % 24 == 0
    tree.check()
    tree.tensors[3, 5] += 1
    with pytest.raises(RuntimeError, match="sums are wrong"):
        tree.check()


def test_the_reason_is_given_where_ns3_is_missing(run, monkeypatch):
    monkeypatch.setenv(fabric.VARIABLE, "/nowhere/python")
    assert "/nowhere/python" in run("ns3")["skipped"]["ns3"]


@pytest.mark.skipif(fabric.why_not() is not None, reason=fabric.why_not() or "")
def test_ns3_delivers_every_packet():
    assert fabric.measure(100, 276)["M_hops_per_s"] > 0


def test_ns3_is_asked_of_this_python_unless_another_is_named(monkeypatch):
    monkeypatch.delenv(fabric.VARIABLE, raising=False)
    assert fabric.python() == sys.executable
