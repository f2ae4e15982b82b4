"""The study's sample, and its parts."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from p4reduce.topologies import fat_tree
from studies.frame import StudyResult, Work, run_study
from studies.pages import write_study
from studies.turns.packets import hashed_path, round_cells
from studies.turns.planning import QUICK, TurnsSettings
from studies.turns.study import ROUNDS, STUDY


def test_a_small_study_holds_on_packets_and_each_of_its_bars_can_fail(tmp_path: Path) -> None:
    parts = [*ROUNDS, "twins", "windows", "sweep-ratio", "sweep-flows"]
    work = Work(out=tmp_path, parts=parts)
    result = run_study(STUDY, replace(QUICK, seeds=(1,)), work)
    assert len(result.verdicts) >= 10
    assert [one.bar for one in result.verdicts if one.holds is False] == []
    write_study(result, tmp_path)
    assert {path.stem for path in (tmp_path / "figures").glob("*.svg")} == {
        "model", "packets", "twins", "ratio", "flows",
    }  # fmt: skip
    assert "communicate" in (tmp_path / "gantt.svg").read_text("utf-8")
    assert "packets / formulas" in (tmp_path / "report.html").read_text("utf-8")
    data = json.loads((tmp_path / "result.json").read_text("utf-8"))
    assert data["factors"]["tree"]["frames"] == pytest.approx(1.084, abs=0.01)
    # kept cells give the same result
    assert run_study(STUDY, replace(QUICK, seeds=(1,)), work).as_data() == result.as_data()
    wrong: dict[str, Any] = dict(result.records)
    bad = {"exact": False, "as_predicted": False, "dark_lost": 1, "round_s": 9.9, "flow_error": 1.0}
    wrong["gain"] = [replace(row, **bad) for row in wrong["gain"]]
    wrong["twins"] = [replace(row, exact=False) for row in wrong["twins"]]
    wrong["windows"] = [replace(row, dark_lost=1) for row in wrong["windows"]]
    broken = StudyResult(STUDY, result.settings, {}, wrong, {})
    assert not any(one.holds for one in broken.verdicts)
    assert sum(one.holds is False for one in broken.verdicts) == sum(one.holds is True for one in result.verdicts)


def test_every_instance_of_the_whole_study_fills_its_gpus_twice() -> None:
    cells = [cell for part in ROUNDS for cell in round_cells(part, TurnsSettings(seeds=tuple(range(1, 11))))]
    assert len(cells) > 100
    for cell in cells:
        assert sum(job.units for job in cell.jobs()) == 2 * cell.network.all_gpus
        assert all(cell.least <= job.units <= cell.most for job in cell.jobs())


@pytest.mark.parametrize(("polarized", "cores"), [(True, 4), (False, 16)])
def test_without_the_switch_in_the_hash_flows_share_few_cores(polarized: bool, cores: int) -> None:
    topology = fat_tree(8)
    paths = {hashed_path(topology, "edge1-1", "edge5-2", f"flow {n}", polarized=polarized) for n in range(400)}
    assert {len(path) for path in paths} == {5}
    assert len({path[2] for path in paths}) == cores
