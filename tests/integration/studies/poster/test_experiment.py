"""The experiment as a whole: the script, its files, and work spread over processes and a Dask cluster."""

import csv
import json
import re
from dataclasses import replace

import pytest

from p4reduce.group.errors import ClusterError
from studies.frame import Work, run_study
from studies.pages import study_main, write_study
from studies.poster.settings import PosterSettings, TrafficScenario
from studies.poster.study import STUDY

RACKS = TrafficScenario("racks", "leaf-spine:leaves=3,spines=2,hosts=3,rate=10G")
TINY = PosterSettings(
    scenarios=(RACKS,),
    policies=("spff", "overlay-mst", "steiner", "exact"),
    sizes=(2, 6),
    tasks=2,
    seeds=(0, 1),
    exact_seeds=1,
    elements=64 * 30,
    lanes=64,
    demand_bps=10**7,
    shares=(0.4,),
    share_seeds=1,
    access_rates=(),
    delays=(),
    lambdas=(),
    flow_factor=2,
    selection_seeds=0,
    swap_networks=(("racks", 0.01),),
    swap_seeds=1,
    swap_detours=(0.1,),
    swap_rounds=(3,),
    swap_thresholds=(0.0,),
)


def run_tiny(settings, **how):
    return run_study(STUDY, settings, Work(**how))


@pytest.mark.soak
def test_the_sample_holds_and_leaves_everything_behind(tmp_path, capsys):
    assert study_main(STUDY, ["--quick", "--jobs", "1", "--out", str(tmp_path), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    written = json.loads((tmp_path / "result.json").read_text())
    assert written == printed
    assert all(bar["holds"] for bar in written["bars"])
    spff = next(
        p for p in written["points"]["policies"] if (p["scenario"], p["policy"], p["size"]) == ("germany50", "spff", 15)
    )
    assert spff["total_ms"] == pytest.approx(2.3, abs=1e-6)
    with (tmp_path / "policies.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 3 * 2 * 6
    (delay,) = {(one["value"], one["scenario"]) for one in written["points"]["sensitivity"]}
    assert delay == ("200us", "germany50")
    assert all(row["first_bytes"] == row["predicted_bytes"] != "0" for row in rows)
    for name in ("fig3a-latency", "fig3b-bandwidth", "communication", "ablation"):
        assert (tmp_path / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (tmp_path / "figures" / f"{name}.svg").read_text()
    page = (tmp_path / "report.html").read_text()
    assert "data:image/png;base64," in page
    assert not re.search(r"(src|href)=\"(?!data:)", page)
    assert "2.30" in page
    assert "-17.4 %" in page


@pytest.mark.soak
def test_a_dask_cluster_of_two_workers_gives_the_same_result():
    distributed = pytest.importorskip("distributed")
    here = run_tiny(TINY)
    assert len(here.as_data()["flow"]) == 3
    assert {(one["capable"], one["chooser"]) for one in here.of("shares")} == {
        (share, chooser) for share in (0.0, 0.4, 1.0) for chooser in ("random", "soar")
    }
    assert all(one.holds for one in here.verdicts[:2])
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    )
    with cluster:
        there = run_tiny(TINY, dask=cluster.scheduler_address)
    assert (there.records, there.as_data()) == (here.records, here.as_data())


def test_processes_give_the_same_result_as_one(tmp_path):
    small = replace(TINY, policies=("spff", "steiner"), tasks=1, shares=(), flow_factor=0, sizes=(3,))
    one, two = run_tiny(small), run_tiny(small, jobs=2, out=tmp_path)
    assert (two.records, two.as_data()) == (one.records, one.as_data())
    files = write_study(two, tmp_path / "page")
    assert {path.name for path in files} >= {"policies.csv", "result.json", "report.html"}
    assert all(path.stat().st_size > 0 for path in files)
    kept = run_tiny(small, out=tmp_path)
    assert kept.records == one.records


def test_a_scheduler_that_is_not_there_is_named():
    pytest.importorskip("distributed")
    with pytest.raises(ClusterError, match=r"--dask tcp://127\.0\.0\.1:9: no scheduler answers"):
        run_tiny(TINY, dask="tcp://127.0.0.1:9")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scenarios", "nowhere"], "--scenarios: 'nowhere'"),
        (["--scenarios", "fat-tree;x"], "--scenarios: 'x' is none of"),
        (["--scenarios", "x=star:hosts=4@0.2:0"], "--scenarios: queue '0' is none of 1..7"),
        (["--policies", "steiner"], "spff"),
        (["--share-choosers", "best"], "share_choosers: 'best'"),
        (["--access-rates", "fast"], "access_rates: 'fast'"),
        (["--delays", "real,long"], "delays: 'long'"),
        (["--lambdas", "0,2"], "lambdas"),
        (["--sensitivity-tasks", "0"], "sensitivity_tasks"),
        (["--policies", "spff,best"], "--policies: 'best'"),
        (["--sizes", "many"], "--sizes"),
        (["--scenarios", "fat-tree", "--sizes", "16"], "need 17 hosts"),
    ],
)
def test_flags_that_cannot_be_used_are_refused(arguments, message, tmp_path, capsys):
    assert study_main(STUDY, [*arguments, "--jobs", "1", "--seeds", "0", "--out", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
