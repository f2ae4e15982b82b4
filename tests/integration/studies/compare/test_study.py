"""The comparison's sample, and small versions of the papers' figures."""

from dataclasses import replace

import pytest

from p4reduce.group.errors import ClusterError
from studies.compare.cells import (
    QUICK,
    CompareSettings,
    PaperCell,
    Setting,
    SystemCell,
    cells,
    network_of,
    run_cell,
    run_paper,
)
from studies.compare.study import STUDY, tables
from studies.frame import Work, run_study

RACKS = "leaf-spine:leaves=2,spines=2,hosts=2,servers=2"


def test_the_sample_holds_and_says_where_each_is_fastest():
    settings = replace(QUICK, systems=("steiner", "ring", "switchml", "atp"))  # test_systems.py has the others
    result = run_study(STUDY, settings, Work(parts=["systems"]))
    points = {(one["axis"], one["loss"], one["jobs"], one["system"]): one for one in result.points["systems"]}
    assert {point["system"] for point in result.of("systems", deployed=0.0)} == {"ring", "atp"}  # no switch aggregates
    for system in ("steiner", "switchml"):
        assert 1 <= points["loss", 0, 1, system]["over_best"] < 1.3
        assert points["loss", 0.01, 1, system]["over_best"] > points["loss", 0, 1, system]["over_best"]
        assert points["jobs", 0, 2, system]["jain"] > 0.95
    ((_, _, rows),) = tables(result)
    assert [row[0] for row in rows] == ["64 KiB", "loss 1.0%, 64 KiB", "64 KiB, 2 jobs", "0% of switches, 64 KiB"]
    assert rows[-1][2] == "none runs"


def test_switchml_shows_its_papers_figure():
    rows = list(run_paper(PaperCell("SwitchML", 32, 1)))
    (payload,) = [row.value for row in rows if row.x == 256]
    assert 1.1 < payload < (86 + 256) / 256 / ((86 + 1024) / 1024) + 0.02
    losses = {row.x: row.value for row in rows if row.x < 1}
    assert losses[0.01] > losses[0.0001] >= 1


def test_panamas_windows_spare_short_flows_and_its_trees_the_jobs():
    found = {(row.figure.partition(",")[0], row.x): row.value for row in run_paper(PaperCell("PANAMA", 32, 1))}
    assert found["short flows' mean beside PANAMA", 2] < 0.7 * found["short flows' mean beside SwitchML", 2]
    assert found["time of the jobs with PANAMA", 2] < 0.9 * found["time of the jobs with PANAMA", 1]
    assert found["short flows' mean beside nothing", 0] < found["short flows' mean beside PANAMA", 2]


def test_deployments_are_drawn_for_each_seed():
    half = Setting("deployment", deployed=0.5)
    drawn = {network_of(RACKS, half, seed) for seed in range(10)}
    assert len(drawn) > 3
    assert network_of(RACKS, half, 3) == network_of(RACKS, half, 3)
    assert network_of(RACKS, Setting("loss"), 3).endswith("capable=all")
    assert network_of(RACKS, Setting("deployment", deployed=0), 3).endswith("capable=none")


def test_chance_has_several_seeds():
    settings = CompareSettings(seeds=(1, 2))
    made = list(cells(settings))
    assert {cell.seed for cell in made if not cell.setting.draws} == {1}
    assert {cell.seed for cell in made if cell.setting.draws} == {1, 2}


def test_jobs_of_several_trees_share_a_network_and_trees_keep_apart():
    """Two jobs of one tree each get different spines; three lossy jobs of three trees each have exact sums."""
    both = Setting("jobs", kib=64, jobs=2)
    assert next(run_cell(SystemCell(RACKS, both, "steiner", 1))).over_best < 1.3
    assert next(run_cell(SystemCell(RACKS, replace(both, loss=0.01), "striped", 1))).slots >= 4 * 64


def test_a_plan_that_cannot_be_has_no_row():
    assert list(run_cell(SystemCell(RACKS, Setting("deployment", deployed=0.0, kib=4), "switchml", 1))) == []


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"systems": ("steiner", "nccl")}, "systems: 'nccl' is none of steiner"),
        ({"seeds": ()}, "seeds: give at least one"),
        ({"seeds": (1, 1)}, "and each once"),
        ({"paper_kib": 1}, "paper_kib: 1: need at least 4"),
    ],
)
def test_settings_that_cannot_be_name_the_field_and_the_fix(wrong, says):
    with pytest.raises(ClusterError, match=says):
        CompareSettings(**wrong)
