"""``p4reduce confirm``: succeeds if results are equal, and fails if anything differs."""

import csv
import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from p4reduce.cli.commands.run import confirmed
from p4reduce.cli.main import app
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.result import RealRun
from p4reduce.runs.runner import run_experiment

REAL = RealRun("embedded", "udp", "none", 1.0, 1.0, {"workers": 0.0, "switches": 0.0, "session": 0.0}, 0, 0, {})


@pytest.fixture(autouse=True)
def _own_state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_a_collective_is_confirmed(tmp_path):
    flags = ["--links", "udp", "-t", "star:hosts=2", "-p", "steiner", "-l", "64", "-e", "3000", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, ["confirm", "--json", *flags])
    assert result.exit_code == 0, result.stderr
    rows = json.loads(result.stdout)
    assert [row["ran"] for row in rows] == ["virtual time", "embedded, udp"]
    assert all(row["same_bytes"] and row["prediction_differences"] == 0 for row in rows)
    with (tmp_path / "confirm.csv").open() as file:
        assert [row["result_sha256"] for row in csv.DictReader(file)] == [rows[0]["result_sha256"]] * 2


@pytest.fixture(scope="module")
def tensor():
    return run_experiment(Experiment(topology="star:hosts=2", lanes=64, elements=500, plan="steiner"))


@pytest.fixture(scope="module")
def trained():
    def script(communicator):
        communicator.record("loss", 1.0)
        communicator.barrier()

    return run_experiment(Experiment(topology="star:hosts=2", lanes=64), script=script)


def test_other_sums_are_an_error(tensor):
    other = replace(tensor, network=replace(tensor.network, result_sha256="00"), real=REAL)
    assert confirmed([tensor, replace(tensor, real=REAL)])[1] == []
    assert confirmed([tensor, other])[1] == ["steiner, embedded, udp: the results are not the bytes of virtual time"]


def test_another_prediction_is_an_error(tensor):
    other = replace(tensor, network=replace(tensor.network, prediction_differences=["a link"]), real=REAL)
    assert "bytes counted differ from the prediction: a link" in confirmed([tensor, other])[1][0]


@pytest.mark.parametrize("what", ["weights_sha256", "result_sha256", "points"])
def test_another_training_is_an_error(trained, what):
    point = trained.training.points[0]
    values = {"weights_sha256": "00", "result_sha256": "00", "points": [replace(point, value=point.value + 1)]}
    later = replace(trained.training, points=[replace(point, time_s=point.time_s + 1)])
    assert confirmed([trained, replace(trained, training=later, real=REAL)])[1] == []
    other = replace(trained.training, **{what: values[what]})
    assert len(confirmed([trained, replace(trained, training=other, real=REAL)])[1]) == 1
