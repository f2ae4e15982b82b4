"""The study's sample, from flags to the page."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from p4reduce.group.errors import ClusterError
from studies.pages import POLICY, write_priorities_report
from studies.priorities.figures import write_files
from studies.priorities.study import StudyResult, claims, run_study
from studies.priorities.units import QUICK, StudySettings, layer_units, learning_units, run_layered, run_learning


@pytest.fixture(scope="module")
def result() -> StudyResult:
    return run_study(QUICK)


def test_all_that_must_hold_holds(result: StudyResult) -> None:
    assert len(result.claims) >= 10
    assert [claim.text for claim in result.claims if not claim.holds] == []


def test_files_hold_the_rows_and_the_page_needs_nothing_else(result: StudyResult, tmp_path: Path) -> None:
    files, figures = write_files(result, tmp_path)
    rows = list(csv.DictReader((tmp_path / "runs.csv").open(encoding="utf-8")))
    assert len(rows) == len(result.rows)
    assert {row["knowledge"] for row in rows} == {"oracle", "predicted", "none"}
    assert json.loads((tmp_path / "result.json").read_text("utf-8"))["claims"][0]["holds"] is True
    assert {"load", "interleaving", "sizes", "resends", "fairness"} == set(figures)
    assert all(path.is_file() for path in files)
    page = write_priorities_report(tmp_path / "report.html", result, figures).read_text("utf-8")
    assert POLICY.replace("'", "&#x27;") in page or POLICY in page
    assert page.count("data:image/png;base64,") == len(figures)
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org", "")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"phis": (0.2, 1.0)}, r"phis: \(0\.2, 1\.0\): a share of communication lies between 0 and 1"),
        ({"policies": ("random",)}, "policies: fifo is what all others are compared with; name it too"),
        ({"policies": ("fifo", "sjff")}, "policies: 'sjff' is none of aalo"),
        ({"jitter": 0.5}, "jitter, jitters: each must be at least 0 and below 1/3"),
        ({"queues": (7,)}, r"queues: \(7,\): each must be 1\.\.6"),
        ({"rounds": 2}, "rounds: 2: need at least 4"),
        ({"seeds": (1, 1)}, "seeds: give at least one, and each once"),
    ],
)
def test_settings_that_cannot_be_name_the_field_and_the_fix(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(ClusterError, match=says):
        StudySettings(**wrong)  # type: ignore[arg-type]


def test_layers_and_learning_have_rows_and_claims() -> None:
    """Models far smaller than in the study, over one channel and four; the digits for two rounds."""
    settings = replace(
        QUICK,
        layer_models=("vgg16",),
        layer_ratios=(1.0,),
        layer_channels=(4,),
        layer_scale=8192,
        learning_rounds=2,
        stragglers=(2.0,),
    )
    layers = [row for unit in layer_units(settings) for row in run_layered(unit)]
    assert [(row.channels, row.ratio) for row in layers] == [(1, 1.0), (4, 1.0)]
    assert layers[0].saved == 0 < layers[1].saved
    learning = [row for unit in learning_units(settings)[1:2] for row in run_learning(unit)]
    assert [row.rounds for row in learning] == [1, 2]
    (claim,) = [one for one in claims(settings, (), (), layers, 1) if "layers of vgg16" in one.text]
    assert claim.holds == (layers[1].saved >= 0.15)
    assert "15 %" in claim.text
