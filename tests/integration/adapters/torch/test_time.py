"""How long DDP's buckets take in virtual time, and that they overlap the backward pass."""

import json

import pytest

from tests.support.torch_scripts.starting import HERE, LONG, WHY_LONG, WHY_NOT, launched

pytest.importorskip("torch", reason=WHY_NOT)
pytestmark = [pytest.mark.torch, pytest.mark.skipif(not LONG, reason=WHY_LONG)]
BUCKET = 1_000_000
"""bytes; smaller collectives are DDP's own, at its start"""


def second_step(folder):
    """Its buckets: in the first step DDP sums all gradients at once, since it does not know their order yet."""
    collectives = json.loads((folder / "result.json").read_text())["network"]["collectives"]
    found = [one for one in collectives if one["operation"] == "all_reduce" and 4 * one["elements"] >= BUCKET]
    assert sum(one["elements"] for one in found[1:]) == found[0]["elements"]
    return found[1:]


def test_default_buckets_take_the_bound(tmp_path):
    launched(tmp_path, 2, "-t", "star8", "--rate", "100G", "--out", str(tmp_path), str(HERE / "buckets.py"), "0")
    buckets = second_step(tmp_path)
    assert len(buckets) >= 4
    ratio = sum(one["communication_ps"] for one in buckets) / sum(one["bound_ps"] for one in buckets)
    print(f"time over bound: {ratio:.4f} of {len(buckets)} buckets")
    assert ratio <= 1.01


def test_buckets_overlap_the_backward_pass(tmp_path):
    launched(tmp_path, 2, "-t", "star8", "--rate", "100G", "--out", str(tmp_path), str(HERE / "buckets.py"), "0.02")
    step = second_step(tmp_path)
    starts = [one["start_ps"] for one in step]
    assert starts == sorted(set(starts))
    assert starts[-1] - starts[0] > 0.01e12  # they begin as gradients come, not when all are there
    together = step[-1]["done_ps"] - starts[0]
    assert together < 0.02e12 + sum(one["communication_ps"] for one in step) / 2
    assert overlapped(tmp_path) > 0.5


def test_measured_computation_overlaps_too(tmp_path):
    """Of processor time as it was, ten times over: far longer than the sums, on any machine."""
    measured = ("--compute", "measured:10")
    launched(
        tmp_path, 2, *measured, "-t", "star8", "--rate", "100G", "--out", str(tmp_path), str(HERE / "buckets.py"), "0"
    )
    step = second_step(tmp_path)
    starts = [one["start_ps"] for one in step]
    assert starts == sorted(set(starts))
    assert overlapped(tmp_path) > 0.5


def overlapped(folder):
    """The share of rank 0's sums in the second step, by time, that its computation goes on beside; of timeline.json."""
    events = json.loads((folder / "timeline.json").read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X" and event["pid"] == 0]
    computing = [one for one in spans if one["name"] == "compute"]
    moving = [one for one in spans if one["name"] == "all_reduce" and one["args"]["bytes"] >= BUCKET][1:]
    over = sum(
        max(0.0, min(a["ts"] + a["dur"], b["ts"] + b["dur"]) - max(a["ts"], b["ts"])) for a in computing for b in moving
    )
    return over / sum(one["dur"] for one in moving)
