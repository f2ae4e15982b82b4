"""The study's sample, from flags to the page."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from p4reduce.group.errors import ClusterError
from studies.frame import StudyResult, run_study
from studies.pages import POLICY, write_study
from studies.priorities.cells import (
    QUICK,
    LearningRow,
    StudySettings,
    layer_cells,
    learning_cells,
    run_layered,
    run_learning,
)
from studies.priorities.study import STUDY, bars


@pytest.fixture(scope="module")
def result() -> StudyResult:
    return run_study(STUDY, QUICK)


def test_all_that_must_hold_holds_in_the_sample(result: StudyResult) -> None:
    assert len(result.verdicts) >= 10
    assert [verdict.bar for verdict in result.verdicts if not verdict.holds] == []
    assert not any(verdict.decided for verdict in result.verdicts)  # a seed used in development


def test_files_hold_the_rows_and_the_page_needs_nothing_else(result: StudyResult, tmp_path: Path) -> None:
    files = write_study(result, tmp_path)
    assert {row.knowledge for row in result.rows("sizes")} == {"oracle", "predicted", "none"}
    assert json.loads((tmp_path / "result.json").read_text("utf-8"))["bars"][0]["holds"] is True
    figures = {path.stem for path in (tmp_path / "figures").glob("*.png")}
    assert figures == {"load", "interleaving", "sizes", "resends", "fairness"}
    assert all(path.is_file() for path in files)
    page = (tmp_path / "report.html").read_text("utf-8")
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


def test_layers_and_learning_have_rows_and_bars() -> None:
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
    layers = [row for cell in layer_cells(settings) for row in run_layered(cell)]
    assert [(row.channels, row.ratio) for row in layers] == [(1, 1.0), (4, 1.0)]
    assert layers[0].saved == 0 < layers[1].saved
    learning: list[LearningRow] = [row for cell in learning_cells(settings)[1:2] for row in run_learning(cell)]
    assert [row.rounds for row in learning] == [1, 2]
    (part,) = STUDY.chosen(["layers"])
    found = StudyResult(STUDY, settings, {}, {"layers": layers}, {"layers": part.points(layers)})
    (verdict,) = found.verdicts
    assert "layers of vgg16" in verdict.bar
    assert verdict.limit == ">= 15.0 %"
    assert verdict.holds == (layers[1].saved >= 0.15)
    assert len([bar for bar in bars(found) if bar.values]) == 1
