"""Traces of real trainings: DDP, FSDP and a pipeline, recorded and replayed unchanged."""

import json

import pytest

from p4reduce.runs.experiment import Experiment
from p4reduce.runs.replay import play
from p4reduce.runs.traces import read
from tests.support.torch_scripts.starting import HERE, LONG, WHY_LONG, WHY_NOT, launched

pytest.importorskip("torch", reason=WHY_NOT)
pytestmark = [pytest.mark.torch, pytest.mark.skipif(not LONG, reason=WHY_LONG)]
NETWORK = {"topology": "star8", "rate": "10G"}
INSTALLING_US = 1000
"""installation of a job, which a replay does before it begins"""


@pytest.mark.parametrize(("kind", "jobs"), [("ddp", 1), ("fsdp1", 1), ("fsdp2", 2), ("pipeline", None)])
def test_a_training_is_played_as_it_was(tmp_path, kind, jobs):
    """``jobs``: most that are installed; None: messages are flows in a launch, but packets in a replay."""
    script = (str(HERE / "trained.py"), kind)
    network = ("-t", NETWORK["topology"], "--rate", NETWORK["rate"])
    launched(
        tmp_path,
        3,
        *network,
        "--compute",
        "measured",
        "--out",
        f"{tmp_path}/out",
        "--record",
        f"{tmp_path}/trace",
        *script,
    )
    workload = read([tmp_path / "trace"])
    operations = {one.communication.operation for one in workload.meetings}
    expected = {"ddp": {"all_reduce"}, "pipeline": {"all_reduce", "send"}}.get(kind, {"all_gather", "reduce_scatter"})
    assert operations >= expected
    played = {plan: play(workload, Experiment(plan=plan, workers=3, **NETWORK)) for plan in ("steiner", "ring")}
    assert all(one.network.prediction_differences == [] for one in played.values())
    events = json.loads((tmp_path / "out" / "timeline.json").read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    took = max(one["ts"] + one["dur"] for one in spans) - min(one["ts"] for one in spans)
    replayed = played["steiner"].total_ps / 1e6
    if jobs is None:
        assert replayed > max(rank.compute_ps for rank in played["steiner"].ranks) / 1e6
        result = json.loads((tmp_path / "out" / "result.json").read_text())
        assert result["replay"]["total_ps"] / 1e6 == pytest.approx(replayed, rel=0.01)  # files have microseconds
        assert result["replay"]["bound_ps"] <= result["replay"]["total_ps"]
    else:
        assert took - jobs * INSTALLING_US - 0.01 * took < replayed < 1.01 * took
