"""The study's sample, and the calibration on packets."""

import json
from dataclasses import replace

import pytest

from studies.frame import StudyResult, Work, run_study
from studies.pages import study_main
from studies.placement.calibration import POINTS, CalibrationRow, calibrate
from studies.placement.forecasts import InferenceRow
from studies.placement.settings import QUICK, UNIFORM
from studies.placement.study import STUDY


@pytest.mark.soak  # make study NAME=placement does so, too
def test_the_sample_holds_and_leaves_its_files(tmp_path, capsys):
    assert study_main(STUDY, ["--quick", "--jobs", "1", "--out", str(tmp_path), "--json"]) == 0  # no seeds that decide
    said = json.loads(capsys.readouterr().out)
    written = json.loads((tmp_path / "result.json").read_text())
    assert said["points"] == written["points"]
    assert len(written["bars"]) == 12
    missed = [bar["bar"].rpartition(": ")[2] for bar in written["bars"] if not bar["holds"]]
    assert missed == ["what training loses", "JCT below that by the last reading"], "as docs/placement.md says"
    for name in (
        "clusters.csv",
        "clusters-points.csv",
        "calibration.csv",
        "knobs.csv",
        "forecasts.csv",
        "inference.csv",
        "telemetry.csv",
        "figures/policies.svg",
    ):
        assert (tmp_path / name).stat().st_size > 0
    oracle, nothing, dense, rare, told, digests = written["points"]["telemetry"]
    assert (oracle["ratio"], oracle["core"], nothing["bytes_per_s"]) == (1, 0, 0)
    assert dense["bytes_per_s"] == pytest.approx(100 * rare["bytes_per_s"], rel=0.2)
    assert dense["age_s"] < 0.02
    assert 0.5 < rare["age_s"] < 1.5
    assert rare["bytes_per_s"] == pytest.approx(told["bytes_per_s"], rel=0.05)  # the reader applies the thresholds
    assert rare["told_per_s"] > told["told_per_s"]
    assert min(dense["core"], rare["core"]) > 0
    assert 0 < digests["bytes_per_s"] < dense["bytes_per_s"] / 50  # digests are sent only on changes
    assert 0 < digests["age_s"] < 0.2
    page = (tmp_path / "report.html").read_text()
    assert page.count("src=") == page.count('src="data:image/png') == 6


@pytest.mark.parametrize("point", POINTS[4:9:2], ids=lambda point: point.name)
def test_the_model_is_within_its_bar_of_packets(point):
    assert calibrate(point).error <= 0.1


def test_help_names_the_scenarios(capsys):
    with pytest.raises(SystemExit) as ended:
        study_main(STUDY, ["--help"])
    assert ended.value.code == 0
    assert "background 90 %" in " ".join(capsys.readouterr().out.split())


def test_bars_can_fail():
    settings = replace(QUICK, scenarios=(UNIFORM,), cluster_jobs=6, orders=())
    result = run_study(STUDY, settings, Work(parts=["clusters"]))
    assert [one.holds for one in result.verdicts] == [True]
    rows = {
        "clusters": [
            replace(row, jct_s=2 * row.jct_s) if row.policy == "ina-aware" else row for row in result.rows("clusters")
        ],
        "calibration": [CalibrationRow("off", 0, 1.0, 1.2, 0.2)],
        "inference": [InferenceRow("here", 1.0, True, 1, 10.0, 25.0, 10.0, 20.0, 1.0)],
    }
    points = {part.name: part.points(rows[part.name]) for part in STUDY.chosen(list(rows))}
    worse = StudyResult(STUDY, settings, {}, rows, points)
    assert [one.holds for one in worse.verdicts] == [False, False, False, False]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--scenarios", "nowhere"], "--scenarios: 'nowhere' is none of ring; uniform"),
        (["--policies", "best"], "there is no placement 'best'"),
        (["--loads", "0"], "--loads: 0: each must be above 0"),
        (["--parts", "knobs,dials"], "--parts: 'dials' is none of clusters, calibration, knobs"),
        (["--cluster-jobs", "0"], "--cluster-jobs: 0 is below 1"),
    ],
)
def test_wrong_flags_are_named(capsys, flags, said):
    assert study_main(STUDY, flags) == 2
    assert said in capsys.readouterr().err
