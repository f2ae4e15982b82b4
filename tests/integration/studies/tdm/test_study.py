"""The quick study, as ``make tdm-quick`` has it, and what it is made of."""

from dataclasses import replace
from pathlib import Path

import pytest

from p4reduce.topologies import fat_tree
from studies.pages import write_tdm_report
from studies.tdm.figures import TdmResult, claims, run_sweeps, write_files
from studies.tdm.study import hashed_path, run_study, whole


def test_a_small_study_holds_what_it_claims(tmp_path: Path) -> None:
    study = run_study(quick=True, seeds=(1,), bar=lambda _title: lambda _label, _done, _total: None)
    must = claims(study)
    assert [one.text for one in must if not one.holds] == []
    sweeps = run_sweeps(quick=True, seeds=(1,), factors=study.factors)
    result = TdmResult(study, {"ours": [1.0]}, sweeps)
    _, figures = write_files(result, tmp_path)
    write_tdm_report(tmp_path / "report.html", result, figures)
    assert {"model", "packets", "ratio", "flows"} == set(figures)
    assert "flow model against packets" in (tmp_path / "bars.csv").read_text("utf-8")
    assert "communicate" in (tmp_path / "gantt.svg").read_text("utf-8")
    assert "packets / formulas" in (tmp_path / "report.html").read_text("utf-8")
    # Each claim can fail.
    study.rows[0] = replace(study.rows[0], exact=False, as_predicted=False, dark_lost=1, round_s=9.9, flow_error=1.0)
    study.ecmp[0] = replace(study.ecmp[0], exact=False)
    study.kept = [replace(one, dark_lost=1) for one in study.kept]
    assert not any(one.holds for one in claims(study))


def test_every_instance_of_the_whole_study_fills_its_gpus_twice() -> None:
    for case in whole(range(1, 11)):
        assert sum(job.units for job in case.jobs()) == 2 * case.network.all_gpus
        assert all(case.least <= job.units <= case.most for job in case.jobs())


@pytest.mark.parametrize(("polarized", "cores"), [(True, 4), (False, 16)])
def test_without_the_switch_in_the_hash_flows_share_few_cores(polarized: bool, cores: int) -> None:
    topology = fat_tree(8)
    paths = {hashed_path(topology, "edge1-1", "edge5-2", f"flow {n}", polarized=polarized) for n in range(400)}
    assert {len(path) for path in paths} == {5}
    assert len({path[2] for path in paths}) == cores
