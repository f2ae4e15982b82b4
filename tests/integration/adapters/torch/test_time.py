"""Virtual time of DDP's buckets, and their overlap with the backward pass."""

import json

import pytest

from p4reduce.runs.experiment import Experiment
from p4reduce.runs.replay import play
from p4reduce.runs.traces import read
from tests.support.torch_scripts.starting import HERE, LONG, WHY_LONG, WHY_NOT, launched, torchrun

pytest.importorskip("torch", reason=WHY_NOT)
pytestmark = [pytest.mark.torch, pytest.mark.skipif(not LONG, reason=WHY_LONG)]
BUCKET = 1_000_000
"""bytes; smaller collectives belong to DDP's start-up"""


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
    # DDP's start waits for gloo and is longest; of five steps, the one with three sums is the median.
    median = every[sums[2] + 1 : sums[5] + 1]  # only a mark waits for these
    assert network["communication_ps"] == sum(one["communication_ps"] for one in median)


def second_step(folder):
    """Return the second step's buckets: in the first, DDP sums all gradients at once, not knowing their order."""
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
    assert starts[-1] - starts[0] > 0.01e12  # buckets begin as gradients arrive, not after the last one
    together = step[-1]["done_ps"] - starts[0]
    assert together < 0.02e12 + sum(one["communication_ps"] for one in step) / 2
    assert overlapped(tmp_path) > 0.5


def test_measured_computation_overlaps_too(tmp_path):
    """Measured processor time is multiplied by ten, far beyond the time of the sums on any machine."""
    measured = ("--compute", "measured:10")
    launched(
        tmp_path, 2, *measured, "-t", "star8", "--rate", "100G", "--out", str(tmp_path), str(HERE / "buckets.py"), "0"
    )
    step = second_step(tmp_path)
    starts = [one["start_ps"] for one in step]
    assert starts == sorted(set(starts))
    assert overlapped(tmp_path) > 0.5


def overlapped(folder):
    """Return the share of sum time in the second step that overlaps computation, from timeline.json.

    A sum counts for a rank from the moment when the last rank gives its part: before, it waits for a slower rank.
    """
    events = json.loads((folder / "timeline.json").read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    ranks = sorted({event["pid"] for event in spans if event["name"] == "compute"})
    sums = {
        rank: [
            one
            for one in spans
            if one["pid"] == rank and one["name"] == "all_reduce" and one["args"]["bytes"] >= BUCKET
        ][1:]
        for rank in ranks
    }
    given = [max(one["ts"] for one in same) for same in zip(*sums.values(), strict=True)]
    return max(
        _share([(start, one["ts"] + one["dur"]) for start, one in zip(given, sums[rank], strict=True)], computing)
        for rank in ranks
        if (computing := [one for one in spans if one["pid"] == rank and one["name"] == "compute"])
    )


def _share(moving, computing):
    over = sum(
        max(0.0, min(end, one["ts"] + one["dur"]) - max(start, one["ts"])) for start, end in moving for one in computing
    )
    return over / sum(end - start for start, end in moving)


PIPELINE = """
import sys, torch, torch.distributed as dist, p4reduce.torch
dist.init_process_group("p4reduce")
rank, last = dist.get_rank(), dist.get_world_size() - 1
size, batches, both = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "both"
began, at = dist.group.WORLD.time.now, torch.ones(size)
sent = []
for _ in range(batches):
    if rank:
        dist.recv(at, rank - 1)
    p4reduce.torch.compute(0.001)
    if rank < last:
        sent.append(dist.isend(at, rank + 1)) if both else dist.send(at, rank + 1)
    if both:  # gradients of a batch at once, which cross the activations of the next one
        if rank < last:
            dist.recv(at, rank + 1)
        p4reduce.torch.compute(0.002)
        if rank:
            sent.append(dist.isend(at, rank - 1))
for work in sent:
    work.wait()
if not both:
    for _ in range(batches):
        if rank < last:
            dist.recv(at, rank + 1)
        p4reduce.torch.compute(0.002)
        if rank:
            dist.send(at, rank - 1)
print("took", dist.group.WORLD.time.now - began)
dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("ranks", "topology", "size", "batches", "order"),
    [
        (4, "star8", 1_000_000, 4, "phases"),
        (3, "leaf-spine-8", 200_000, 3, "both"),
        (6, "leaf-spine-8", 100_000, 2, "phases"),
        (2, "star8", 1, 3, "phases"),
    ],
)
def test_a_pipeline_takes_the_time_of_its_packets(tmp_path, ranks, topology, size, batches, order):
    """Sends, receives and computation replayed as packets take within 5 % of the script's time."""
    script, network = tmp_path / "script.py", ("-t", topology, "--rate", "10G")
    script.write_text(PIPELINE)
    given = (str(script), str(size), str(batches), order)
    said = launched(tmp_path, ranks, *network, "--record", f"{tmp_path}/trace", *given)
    took = max(float(line.split("took")[1]) for line in said.splitlines() if "took" in line)
    workload = read([tmp_path / "trace"])
    assert len(workload.meetings) == 2 * (ranks - 1) * batches
    packets = play(workload, Experiment(topology=topology, rate="10G", workers=ranks)).total_ps / 1e12
    print(f"time over that of packets: {took / packets:.4f}")
    assert abs(took / packets - 1) < 0.05
    assert took > packets / 2 > 0


EVERY = """
import torch, torch.distributed as dist
dist.init_process_group("p4reduce")
rank, size = dist.get_rank(), dist.get_world_size()
def now(): return dist.group.WORLD.time.now
def took(name, call):
    dist.barrier()
    before = now()
    call()
    print("took", name, rank, now() - before)
big, half = torch.ones(250_000), torch.ones(125_000, dtype=torch.float64)
every = [torch.ones(250_000) for _ in range(size)]
took("gather", lambda: dist.gather(big, every if rank == 0 else None, 0))
took("scatter", lambda: dist.scatter(big, every if rank == 0 else None, 0))
took("max", lambda: dist.all_reduce(big, op=dist.ReduceOp.MAX))
took("int64", lambda: dist.all_reduce(half.long()))
took("float64", lambda: dist.all_reduce(half))
took("reduce", lambda: dist.reduce(half, 0))
took("broadcast", lambda: dist.broadcast(half, 0))
took("reduce_scatter", lambda: dist.reduce_scatter_tensor(torch.ones(31_250, dtype=torch.float64), half))
took("all_gather", lambda: dist.all_gather([torch.ones_like(half) for _ in range(size)], half))
took("list", lambda: dist.all_to_all([torch.ones(100) for _ in every], [torch.ones(100) for _ in every]))
own = [100_000 * (peer != rank) + 10 for peer in range(size)]
took("uneven", lambda: dist.all_to_all_single(torch.ones(sum(own)), torch.ones(sum(own)), own, own))
# At rank 0 all blocks are alike, at the others they are not.
alike = [7 if 0 in (peer, rank) else 11 for peer in range(size)]
took("alike", lambda: dist.all_to_all_single(torch.ones(sum(alike)), torch.ones(sum(alike)), alike, alike))
took("any", lambda: dist.recv(big) if rank == 0 else dist.send(big, 0) if rank == 1 else None)
ends = [dist.P2POp(dist.isend, big, (rank + 1) % size), dist.P2POp(dist.irecv, every[0], (rank - 1) % size)]
took("batch", lambda: [work.wait() for work in dist.batch_isend_irecv(ends)])
pair = dist.new_group([1, 3])
if rank in (1, 3):
    before = dist.group.WORLD.time.now
    dist.all_reduce(half, group=pair)
    (dist.send if rank == 1 else dist.recv)(big, 4 - rank, group=pair)
    print("took pair", rank, dist.group.WORLD.time.now - before)
dist.destroy_process_group()
"""
LEAST = {  # least bytes on the busiest link
    "gather": 3e6, "scatter": 3e6, "max": 1.5e6, "int64": 1.5e6, "float64": 1.5e6, "reduce": 1.5e6, "broadcast": 3e6,
    "reduce_scatter": 7.5e5, "all_gather": 3e6, "list": 1200, "uneven": 1.2e6, "alike": 100, "any": 1e6, "batch": 1e6,
    "pair": 2e6,
}  # fmt: skip


def test_what_gloo_carries_takes_the_time_of_flows(tmp_path):
    """At least the time of the busiest link, and little more: a tenth for headers, one or two microseconds of delay."""
    script = tmp_path / "script.py"
    script.write_text(EVERY)
    said = launched(tmp_path, 4, "-t", "star8", "--rate", "10G", str(script))
    took = {}
    for line in said.splitlines():
        if "took " in line:
            name, _, seconds = line.split("took ")[1].split()
            took[name] = max(took.get(name, 0.0), float(seconds))
    assert took.keys() == LEAST.keys()
    for name, octets in LEAST.items():
        least = octets * 8 / 10e9
        assert least < took[name] < 1.25 * least + 25e-6, (name, took[name], least)
    assert "gloo's flows" in said
