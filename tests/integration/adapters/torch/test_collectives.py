"""PyTorch's collectives over the switches, in scripts that import no module of this project."""

import json

import pytest

from tests.support.torch_scripts.starting import HERE, LONG, WHY_LONG, WHY_NOT, launched, torchrun

pytest.importorskip("torch", reason=WHY_NOT)


def test_every_collective_under_launch(tmp_path):
    said = launched(tmp_path, 2, "--out", str(tmp_path / "out"), str(HERE / "collectives.py"))
    assert said.count("all as they must be") == 2
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["network"]["prediction_differences"] == []
    operations = {one["operation"] for one in result["network"]["collectives"]}
    assert operations == {"all_reduce", "all_gather", "broadcast", "barrier"}
    events = json.loads((tmp_path / "out" / "timeline.json").read_text())["traceEvents"]
    assert {event["pid"] for event in events if event["ph"] == "X"} == {0, 1}


@pytest.mark.torch
@pytest.mark.skipif(not LONG, reason=WHY_LONG)
@pytest.mark.parametrize("plan", ["steiner", "ring", "ps"])
def test_every_collective_under_torchrun(tmp_path, plan):
    out = tmp_path / "out"
    settings = {"P4REDUCE_OUT": str(out), "P4REDUCE_SET_PLAN": plan, "P4REDUCE_SET_RATE": "10G"}
    said = torchrun(tmp_path, 4, str(HERE / "collectives.py"), **settings)
    assert said.count("all as they must be") == 4
    result = json.loads((out / "result.json").read_text())
    assert result["network"]["plan"] == plan
    assert result["network"]["prediction_differences"] == []
