"""``p4reduce priorities`` on small jobs, and its errors for invalid files."""

import json
from copy import deepcopy

import pytest
import yaml
from typer.testing import CliRunner

from p4reduce.cli.commands.files import content
from p4reduce.cli.main import app


def run(*arguments):
    return CliRunner().invoke(app, ["priorities", *map(str, arguments)])


@pytest.fixture
def small(tmp_path):
    """A function that writes a small variant of the example into a file."""

    def write(**changes):
        data = yaml.safe_load(content("priorities"))
        data["rounds"] = 4
        for job in data["jobs"]:
            job["elements"] //= 8
        data["jobs"] = data["jobs"][:2]
        data.update(changes)
        path = tmp_path / "jobs.yaml"
        path.write_text(yaml.safe_dump(data))
        return path

    return write


def test_a_table_and_json_say_the_same(small):
    path = small()
    found = run("compare", path, "-p", "fifo,sjf", "--json")
    assert found.exit_code == 0, found.stderr
    rows = json.loads(found.stdout)
    assert [row["policy"] for row in rows] == ["fifo", "sjf"]
    assert [job["class"] for job in rows[1]["jobs"]] == [6, 5]
    assert rows[1]["worst"] == max(job["slowdown"] for job in rows[1]["jobs"])
    assert f"{rows[1]['mean']:.3f}" in run("compare", path, "-p", "sjf").stdout


def test_predictions_say_how_good_they_were(small):
    found = run("compare", small(read_every="10us", control_latency="5us"), "-p", "sjf", "--told", "predicted")
    assert "of a period (median)" in " ".join(found.stdout.split())


def test_every_policy_is_listed_with_what_it_does():
    rows = json.loads(run("policies", "--json").stdout)
    assert {"fifo", "sjf", "cassini", "mltcp"} <= {row["name"] for row in rows}
    assert all(len(row["says"]) > 20 for row in rows)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"jitter": 0.5}, "jitter: Input should be less than 0.333"),
        ({"jiter": 0.1}, "jiter: there is no such field; there are topology, rounds, jitter"),
        ({"jobs": []}, "jobs: Tuple should have at least 1 item"),
        ({"queues": 8}, "queues: Input should be less than or equal to 6"),
        ({"control_latency": "soon"}, "control_latency: "),
        ({"topology": "leaf-spline"}, "leaf-spline"),
    ],
)
def test_what_cannot_be_names_the_field_and_the_fix(small, changes, said):
    found = run("compare", small(**changes))
    assert found.exit_code == 2
    assert said in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1


def test_jobs_that_cannot_be(small):
    job = {"workers": ["h1"], "server": "h2", "elements": 64}
    for entry, said in (
        (job, "jobs.1: give phi, its share of communication alone, or compute; not both"),
        ({**job, "phi": 0.2, "compute": "1us"}, "not both"),
        ({**job, "phi": 1.5}, "jobs.1.phi: Input should be less than 1"),
        ({**job, "phi": 0.2, "elemens": 5}, "jobs.1.elemens: there is no such field"),
        ({**job, "phi": 0.2, "server": "h99"}, "'h99' is no host"),
        ({**job, "phi": 0.2, "server": "h1"}, "h1"),
    ):
        found = run("compare", small(jobs=[entry]))
        assert (found.exit_code, said in found.stderr) == (2, True), found.stderr
    twice = {**job, "phi": 0.2, "name": "a"}
    assert "jobs.2.name: 'a' is taken; names are unique" in run("compare", small(jobs=[twice, deepcopy(twice)])).stderr


def test_files_and_flags_that_cannot_be(small, tmp_path):
    missing = run("compare", tmp_path / "none.yaml")
    assert "'p4reduce example priorities' prints one" in missing.stderr
    assert "--told: 'nobody' is none of oracle, predicted, none" in run("compare", small(), "--told", "nobody").stderr
    assert "there is no priority policy 'sjff'" in run("compare", small(), "-p", "sjff").stderr
    torn = tmp_path / "torn.yaml"
    torn.write_text("jobs: [")
    assert "is not YAML" in run("compare", torn).stderr
