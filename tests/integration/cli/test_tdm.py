"""``p4reduce tdm`` as a command."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from p4reduce.base.records import from_json
from p4reduce.cli.main import app
from p4reduce.control_plane.tdm.schedule import Schedule

NETWORK = "oxc:pods=3,hosts=2,ports=1,rate=25G,delta=640us"
JOBS = """jobs:
- {name: a, kind: rar, bytes: 6M, compute: 4ms, workers: 4}
- {name: b, kind: ps, bytes: 5M, compute: 3ms, workers: 4}
"""


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.yaml"
    path.write_text(JOBS)
    return path


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_run_on_packets_and_its_chart(jobs: Path, tmp_path: Path) -> None:
    chart = tmp_path / "gantt.svg"
    done = call("tdm", "run", "-t", NETWORK, jobs, "--rounds", 1, "--svg", chart, "--json")
    assert done.exit_code == 0, done.output
    [played] = json.loads(done.stdout)["played"]
    assert played["exact"]
    assert (played["dark_lost"], played["misrouted"], played["differing"]) == (0, 0, [])
    drawn = chart.read_text("utf-8")
    assert "a communicate" in drawn


def test_the_model_takes_the_time_of_packets(jobs: Path) -> None:
    rounds = []
    for time in ("virtual", "flow"):
        done = call(
            "tdm", "compare", "-t", NETWORK, jobs, "--policies", "tdm,no-tdm", "--time", time, "--rounds", 1, "--json"
        )
        assert done.exit_code == 0, done.output
        rounds.append([played["round_s"] for played in json.loads(done.stdout)["played"]])
    assert rounds[1] == pytest.approx(rounds[0], rel=0.02)
    assert "exact" not in json.loads(done.stdout)["played"][0]  # sums were not checked


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((NETWORK, "--time", "flow", "--loss", "0.01"), "--loss needs packets"),
        ((NETWORK, "--time", "flow", "--keep", "gates"), "--keep gates needs packets"),
        ((NETWORK, "--time", "flow", "--policy", "eps-ecmp"), "eps-ecmp needs packets"),
        (("star:hosts=3",), "no optical network"),
        ((NETWORK, "--policy", "fastest"), "fastest"),
        ((NETWORK, "--keep", "hope"), "--keep: 'hope' is none of"),
        (("oxc:pods=3,hosts=2,ports=0",), "ports"),
    ],
)
def test_what_cannot_be_is_one_line(arguments: tuple[str, ...], said: str, jobs: Path) -> None:
    done = call("tdm", "run", "-t", arguments[0], jobs, *arguments[1:])
    assert done.exit_code == 2, done.output
    assert said in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize("policy", ["tdm", "seed", "pairs", "no-tdm"])
def test_a_plan_and_its_chart(policy: str, jobs: Path, tmp_path: Path) -> None:
    chart = tmp_path / "gantt.svg"
    done = call("tdm", "plan", "-t", NETWORK, jobs, "--policy", policy, "--svg", chart, "--json")
    assert done.exit_code == 0, done.output
    schedule = from_json(Schedule, done.stdout, "stdout")
    assert [plan.job for plan in schedule.jobs] == ["a", "b"]
    assert "a trains" in chart.read_text("utf-8")


def test_a_trace() -> None:
    done = call("tdm", "trace", "--jobs", 20, "--gpus", 32, "--loads", "1", "--policies", "exclusive,pairs", "--json")
    assert done.exit_code == 0, done.output
    assert [row["policy"] for row in json.loads(done.stdout)] == ["exclusive", "pairs"]
    assert call("tdm", "trace", "--trace", "google").exit_code == 2
    assert call("tdm", "trace", "--loads", "0").exit_code == 2
