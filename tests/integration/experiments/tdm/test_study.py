"""The quick study, as ``make tdm-quick`` has it, and what it is made of."""

from dataclasses import replace
from pathlib import Path

import pytest
from scripts.tdm import _write

from p4reduce.experiments.tdm.claims import bars
from p4reduce.experiments.tdm.ecmp import hashed_path
from p4reduce.experiments.tdm.study import claims, run_study
from p4reduce.topologies import fat_tree


def test_a_small_study_holds_what_it_claims(tmp_path: Path) -> None:
    study = run_study(quick=True, seeds=(1,), bar=lambda _title: lambda _label, _done, _total: None)
    must = claims(study)
    assert [one.text for one in must if not one.holds] == []
    _write(tmp_path, study, must, bars({"ours": [1.0]}))
    assert "communicate" in (tmp_path / "gantt.svg").read_text("utf-8")
    assert "packets / model" in (tmp_path / "report.html").read_text("utf-8")
    # Each claim can fail.
    study.rows[0] = replace(study.rows[0], exact=False, as_predicted=False, dark_lost=1, round_s=9.9)
    study.ecmp[0] = replace(study.ecmp[0], exact=False)
    study.kept = [replace(one, dark_lost=1) for one in study.kept]
    assert not any(one.holds for one in claims(study))


@pytest.mark.parametrize(("polarized", "cores"), [(True, 4), (False, 16)])
def test_without_the_switch_in_the_hash_flows_share_few_cores(polarized: bool, cores: int) -> None:
    topology = fat_tree(8)
    paths = {hashed_path(topology, "edge1-1", "edge5-2", f"flow {n}", polarized=polarized) for n in range(400)}
    assert {len(path) for path in paths} == {5}
    assert len({path[2] for path in paths}) == cores
