"""Interruption against saving: trials in which the orchestrator swaps a running task's tree, or does not."""

from dataclasses import replace

import pytest

from p4reduce.group.errors import ClusterError
from studies.frame import StudyResult
from studies.poster import swaps
from studies.poster.settings import PosterSettings, TrafficScenario
from studies.poster.study import STUDY
from studies.poster.swaps import SwapCell, run_swaps, swap_cells

RACKS = TrafficScenario("racks", "leaf-spine:leaves=4,spines=3,hosts=2,rate=10G")
SETTINGS = PosterSettings(
    scenarios=(RACKS,),
    sizes=(6,),
    seeds=(0, 1),
    elements=64 * 60,
    lanes=64,
    swap_networks=(("racks", 0.0), ("elsewhere", 0.0), ("racks", 0.01)),
    swap_seeds=1,
    swap_detours=(0.2,),
    swap_rounds=(4,),
    swap_thresholds=(0.0, 1e9),
)


@pytest.fixture(scope="module", params=[0.0, 0.01])
def found(request):
    return run_swaps(SwapCell(SETTINGS, RACKS, request.param, 0))


def test_the_threshold_decides_and_the_weights_stay_the_same(found):
    assert found.differences == ()
    never, swapped, kept = found.rows
    assert [row.threshold for row in found.rows] == [None, 0.0, 1e9]
    assert [row.decision for row in found.rows] == ["keep", "swap", "keep"]
    assert swapped.saving_bytes == kept.saving_bytes > 0
    assert swapped.remaining_rounds == 3
    assert (kept.link_bytes, kept.finished_ps) == (never.link_bytes, never.finished_ps)
    assert (kept.saved_bytes, kept.later_ps, kept.interruption_ps, kept.resent_frames) == (0, 0, 0, 0)


def test_a_swap_is_counted_in_bytes_frames_and_time(found):
    never, swapped, _ = found.rows
    assert swapped.interruption_ps > 0
    assert swapped.resent_frames >= swapped.in_flight > 0
    assert swapped.saved_bytes == never.link_bytes - swapped.link_bytes
    if not swapped.loss:
        # The counted saving falls short of the expected one: the swap's round began on the old tree.
        assert 0 < swapped.saving_bytes - swapped.saved_bytes <= swapped.cost_bytes
        assert swapped.resent_bytes <= swapped.cost_bytes


def test_wrong_weights_are_found(monkeypatch):
    """A trial with other gradients must not pass."""
    run, number = swaps._run, []

    def other(cell, trial, detour):
        number.append(trial)
        task = replace(trial.task, name="other") if len(number) == 2 else trial.task
        return run(cell, replace(trial, task=task), detour)

    monkeypatch.setattr(swaps, "_run", other)
    found = run_swaps(SwapCell(SETTINGS, RACKS, 0.0, 0))
    (difference,) = found.differences
    assert difference.endswith("threshold 0.0: other weights than without a swap")


def test_only_networks_of_the_experiment_are_tried():
    assert [(cell.scenario.name, cell.loss, cell.seed) for cell in swap_cells(SETTINGS)] == [
        ("racks", 0.0, 0),
        ("racks", 0.01, 0),
    ]


def test_trials_are_drawn(found):
    (part,) = STUDY.chosen(["swaps"])
    (chart,) = [one for one in STUDY.charts if one.name == "swaps"]
    result = StudyResult(STUDY, SETTINGS, {}, {"swaps": found.rows}, {"swaps": part.points(found.rows)})
    assert len(chart.draw(result).axes) == 3
    assert chart.draw(StudyResult(STUDY, SETTINGS, {}, {}, {})) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"swap_rounds": (1,)}, "swap_rounds"), ({"swap_networks": (("racks", 1.0),)}, "swap_networks: racks")],
)
def test_settings_that_cannot_be_are_refused(changes, message):
    with pytest.raises(ClusterError, match=message):
        replace(SETTINGS, **changes)
