"""The fabric's benchmarks run in a tiny configuration and print their columns; times are not checked."""

import json
import sys

import numpy as np
import pytest

from p4reduce.network.virtual import VirtualNetwork
from p4reduce.network.virtual.synthetic import route_all
from p4reduce.topologies import star
from p4switch.native.memory import SEGMENTS
from studies.bench import exchange, fabric
from studies.bench.fabric import BenchTree
from studies.bench.study import STUDY
from studies.bench.veth import BenchLab
from studies.pages import study_main

TINY = ["--json", "--lanes", "64", "--switches", "2", "--frames", "600", "--best-of", "1", "--elements", "4096"]


@pytest.fixture
def run(capsys, tmp_path):
    def ask(parts: str) -> dict:
        assert study_main(STUDY, [*TINY, "--parts", *parts.split(), "--out", str(tmp_path)]) == 0
        return json.loads(capsys.readouterr().out)

    return ask


def test_rates_of_trees_racks_and_forwarding(run):
    found = run("tree,racks,forwarding")["rows"]
    for part, switches in (("tree", 5), ("racks", 2), ("forwarding", 2)):
        for row in found[part]:
            assert row["switches"] == switches
            assert row["M_passes_per_s"] == pytest.approx(1e3 / row["ns_per_pass"])
            assert row["M_copies_per_s"] > 0
    # On the whole as much leaves as arrives: sums of four go up, results of one to four go down.
    assert found["tree"][0]["M_copies_per_s"] == pytest.approx(found["tree"][0]["M_passes_per_s"])


def test_the_large_all_reduce_is_checked_and_counted(run):
    (row,) = run("large")["rows"]["large"]
    assert (row["elements"], row["workers"]) == (4096, 16)
    assert row["virtual_s"] > 0
    assert row["beyond_tensors_MB"] > 0


def test_a_tree_sums_and_notices_wrong_sums():
    tree = BenchTree(64, 640)
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


def test_threads_are_compared_with_one_and_another_result_is_noticed(run, monkeypatch):
    rows = run("threads --threaded 4 --threads 2")["rows"]["threads"]
    assert [row["network"] for row in rows] == list(fabric.THREADED)
    assert all(row["by_clock"] > 0 and row["by_processor"] > 0 for row in rows)
    answers = iter((b"one", b"other"))
    network = rows_of_nothing()
    monkeypatch.setattr(fabric, "_forwarding", lambda *_: (network, lambda: next(answers)))
    with pytest.raises(RuntimeError, match="2 threads make another result than one"):
        fabric.threads("forwarding", 4, 64, 600, 1, 2)


def rows_of_nothing():
    """Return the rows of a network without events."""
    return VirtualNetwork(star(2), route_all(star(2)))


@pytest.mark.skipif(exchange.why_not() is not None, reason=exchange.why_not() or "")
def test_processes_exchange_windows(run):
    rows = run("exchange --windows 20")["rows"]["exchange"]
    assert [row["frames"] for row in rows] == list(exchange.FRAMES)
    assert all(0 < row["least_us"] <= row["median_us"] <= row["p99_us"] and row["passes"] > 0 for row in rows)


def test_it_is_said_why_processes_exchange_nothing(run, monkeypatch):
    monkeypatch.setattr(exchange.importlib.util, "find_spec", lambda _name: None)
    assert "pip install mpi4py" in run("exchange")["skipped"]["exchange"]


@pytest.mark.parametrize("together", [1, SEGMENTS])
def test_udp_ports_take_datagrams_one_by_one_and_together(together):
    with BenchLab(2, 64, udp=together) as lab:
        found = lab.run(lab.pushes(), 0.05, first=0)
    assert found.lost == 0
    assert found.frames == found.copies > 0


def test_the_reason_is_given_where_ns3_is_missing(run, monkeypatch):
    monkeypatch.setenv(fabric.VARIABLE, "/nowhere/python")
    assert "/nowhere/python" in run("ns3")["skipped"]["ns3"]


@pytest.mark.skipif(fabric.why_not() is not None, reason=fabric.why_not() or "")
def test_ns3_delivers_every_packet():
    assert fabric.measure(100, 276)["M_hops_per_s"] > 0


def test_ns3_is_asked_of_this_python_unless_another_is_named(monkeypatch):
    monkeypatch.delenv(fabric.VARIABLE, raising=False)
    assert fabric.python() == sys.executable
