"""How long DDP's buckets take in virtual time, and that they overlap the backward pass."""

import json

import pytest

from tests.support.torch_scripts.starting import HERE, LONG, WHY_LONG, WHY_NOT, launched, torchrun

pytest.importorskip("torch", reason=WHY_NOT)
pytestmark = [pytest.mark.torch, pytest.mark.skipif(not LONG, reason=WHY_LONG)]
BUCKET = 1_000_000
"""bytes; smaller collectives are DDP's own, at its start"""


STEPS = """
import p4reduce.torch, torch, torch.distributed as dist
dist.init_process_group("p4reduce")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1000, 10))
p4reduce.torch.step()  # what DDP does at its start is in no step of the training
for step in range(1, 5):
    for _ in range(step):  # no sequence repeats
        model(torch.ones(1, 1000)).sum().backward()
    p4reduce.torch.step()
dist.destroy_process_group()
"""


@pytest.mark.parametrize("start", ["torchrun", "launch"])
def test_steps_that_a_script_marks_are_those_of_the_result(tmp_path, start):
    script, out = tmp_path / "script.py", tmp_path / "out"
    script.write_text(STEPS)
    if start == "launch":
        assert "calls of comm.step(): 5" in launched(tmp_path, 2, "--out", str(out), str(script))
    else:
        torchrun(tmp_path, 2, str(script), P4REDUCE_OUT=str(out))
    result = json.loads((out / "result.json").read_text())
    network, every = result["network"], result["network"]["collectives"]
    assert (result["experiment"]["repeat"], network["steps"], network["steps_by"]) == (5, 5, "marks")
    sums = [at for at, one in enumerate(every) if one["operation"] == "all_reduce"]
    assert len(sums) == 1 + 2 + 3 + 4
    median = every[sums[0] + 1 : sums[2] + 1]  # the step of two backward passes: nothing but a mark waits for these
    assert network["communication_ps"] == sum(one["communication_ps"] for one in median)


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
