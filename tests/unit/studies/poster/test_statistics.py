"""From rows to figures: calibration, means, savings, bars, the flow-level model."""

from dataclasses import replace

import pytest

from p4reduce.group.errors import ClusterError
from p4reduce.topologies import leaf_spine
from studies.frame import StudyResult
from studies.poster.cells import FINISHED, REJECTED, PolicyRow, calibrate_flow, policy_cells
from studies.poster.settings import POSTER_SAVING, SCENARIOS, PosterSettings, draw_tasks
from studies.poster.study import STUDY, calibrate, derive

MS = 10**9
SETTINGS = PosterSettings(
    scenarios=(SCENARIOS["germany50"],), policies=("spff", "overlay-mst", "steiner", "exact"), sizes=(3, 15)
)


def found(settings, **records):
    """Return the study's evaluation of records."""
    derive(settings, records)
    parts = [part for part in STUDY.parts if part.by and part.name in records]
    return StudyResult(STUDY, settings, {}, records, {part.name: part.points(records[part.name]) for part in parts})


def points(rows, training_ps=None):
    if training_ps is not None:
        rows = [replace(one, training_ps=training_ps) for one in rows]
    (part,) = STUDY.chosen(["policies"])
    return part.points(rows)


def row(policy, communication_ps, size=15, *, bytes_=1000, seed=0, task="task0", **changes):
    made = PolicyRow(
        scenario="germany50",
        capable=1.0,
        chooser="random",
        size=size,
        seed=seed,
        task=task,
        policy=policy,
        status=FINISHED,
        least_bytes=0,
        reason="",
        together=True,
        communication_ps=communication_ps,
        bound_ps=communication_ps,
        ordered_ps=communication_ps,
        bytes=bytes_,
        first_bytes=bytes_,
        predicted_bytes=bytes_,
        resend_bytes=0,
        dropped=0,
        aggregators=1,
        aggregation_ps=communication_ps // 10,
        chunk_ps=1000,
    )
    return replace(made, **changes)


def test_training_is_what_is_left_of_the_target_when_spff_has_communicated():
    rows = [row("spff", 8 * MS // 10), row("spff", MS, task="task1"), row("spff", 10 * MS, size=3)]
    assert calibrate([*rows, row("steiner", MS)], SETTINGS) == 1_400_000_000  # 2.3 ms - 0.9 ms
    assert calibrate([row("spff", 5 * MS)], SETTINGS) == 0
    with pytest.raises(ClusterError, match="nothing to calibrate"):
        calibrate([row("steiner", MS)], SETTINGS)


def test_savings_are_over_tasks_that_both_finished():
    rows = [
        row("spff", 13 * MS // 10, bytes_=1000),
        row("spff", 13 * MS // 10, bytes_=3000, task="task1"),
        row("steiner", MS // 2, bytes_=400),
        row("steiner", 0, task="task1", status=REJECTED),
        row("exact", MS // 2, bytes_=380),
    ]
    by_policy = {point["policy"]: point for point in found(SETTINGS, policies=rows).of("policies")}
    steiner = by_policy["steiner"]
    assert (steiner["tasks"], steiner["rejected"]) == (1, 1)
    assert steiner["total_ms"] == 1.5  # 2.3 ms - 1.3 ms are left for training
    assert steiner["aggregation_ms"] == 0.05
    assert steiner["total_saving"] == pytest.approx(1 - 1.5 / 2.3)
    assert steiner["bytes_saving"] == pytest.approx(0.6)
    assert steiner["over_exact"] == pytest.approx(400 / 380)
    assert by_policy["spff"]["total_ms"] == pytest.approx(2.3)
    assert by_policy["spff"]["total_saving"] == 0


def test_confidence_is_over_seeds():
    times = {("task0", 0): 0, ("task1", 0): 2, ("task0", 1): 2, ("task1", 1): 4}
    rows = [row("spff", ms * MS, seed=seed, task=task) for (task, seed), ms in times.items()]
    (point,) = points([replace(one, bound_ps=MS) for one in rows])
    estimate = point.estimate("communication_ms")
    # Seeds' means 1 and 3: s = sqrt 2, t(0.975, 1) = 12.706.
    assert estimate.high - estimate.value == pytest.approx(12.706, abs=1e-3)


def verdicts(rows, **records):
    return {one.bar: one for one in found(SETTINGS, policies=rows, **records).verdicts}


def test_bars_say_what_does_not_hold():
    assert pytest.approx(0.1739, abs=1e-4) == POSTER_SAVING
    good = [row("spff", MS, bytes_=1000), row("overlay-mst", 2 * MS // 10, bytes_=400), row("steiner", MS // 10)]
    good[2] = replace(good[2], bytes=380, first_bytes=380, predicted_bytes=380)
    made = verdicts(good)
    assert len(made) == 6
    assert all(one.holds for one in made.values())

    def broken(rows, **records):
        return [name for name, one in verdicts(rows, **records).items() if not one.holds]

    (text,) = broken([good[0], replace(good[1], bytes=501, first_bytes=501, predicted_bytes=501), good[2]])
    assert text.startswith("bandwidth of overlay-mst on germany50")
    (text,) = broken([*good[:2], replace(good[2], bytes=1001, first_bytes=1001, predicted_bytes=1001)])
    assert text.startswith("steiner's bytes over those of spff")
    (text,) = broken([replace(good[0], first_bytes=999), *good[1:]])
    assert text.startswith("tasks whose counted bytes are not the predicted ones")
    (text,) = broken(good, differences=["a link differs"])
    assert text.startswith("differences")
    (text,) = broken([replace(good[0], bound_ps=9 * MS // 10), *good[1:]])
    assert text.startswith("communication over its bound")


def test_the_flow_level_model_is_the_bound_times_a_factor_and_states_its_error():
    small = [row("spff", 1100, bound_ps=1000, chunk_ps=10)]
    large = [row("spff", 3500, bound_ps=3000, chunk_ps=10)]
    # 100 chunks, then 300: 1.1 * (1000 + 200 * 10) = 3300 against 3500.
    (model,) = calibrate_flow(small, large, elements=6400, large_elements=19200, lanes=64)
    assert model.factor == pytest.approx(1.1)
    assert model.mean_error == model.worst_error == pytest.approx(1 - 3300 / 3500)
    assert model.predictions_ms["GPT-2"] > 1e4 * model.predictions_ms["LeNet-5"]


def test_tasks_of_smaller_sizes_are_parts_of_larger_ones():
    topology = leaf_spine(8, 2, 4)
    small, large = (draw_tasks(topology, SETTINGS, 5, size) for size in (3, 15))
    assert len(small) == SETTINGS.tasks
    for few, many in zip(small, large, strict=True):
        assert few.server == many.server
        assert few.workers == many.workers[:3]
    assert small == draw_tasks(topology, SETTINGS, 5, 3)
    assert small != draw_tasks(topology, SETTINGS, 6, 3)
    with pytest.raises(ClusterError, match="need 16 hosts"):
        draw_tasks(leaf_spine(2, 1, 2), SETTINGS, 0, 3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policies": ("steiner",)}, "spff"),
        ({"sizes": ()}, "sizes"),
        ({"seeds": (1, 1)}, "seeds"),
        ({"tasks": 0}, "tasks"),
        ({"shares": (1.5,)}, "shares"),
        ({"scenarios": (SCENARIOS["geant"], replace(SCENARIOS["geant"], load=0.1))}, "scenarios: give .* each once"),
        ({"overlap_tasks": 0}, "overlap_tasks"),
        ({"add_ps": -1}, "add_ps"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(ClusterError, match=message):
        replace(SETTINGS, **changes)


def test_the_certified_bound_is_a_mean_over_the_tasks_that_have_one():
    rows = [
        row("spff", MS, bytes_=3000, least_bytes=1000),
        row("exact", MS, bytes_=1100, least_bytes=1000),
        row("exact", MS, bytes_=2600, least_bytes=2000, task="task1"),
        row("exact", MS, bytes_=9000, task="task2"),
    ]
    fixed, exact = points(rows)
    assert (fixed["over_least"], fixed["least_megabytes"]) == (pytest.approx(3.0), pytest.approx(0.001))
    assert (exact["over_least"], exact["least_megabytes"]) == (pytest.approx(1.2), pytest.approx(0.0015))
    assert points([row("spff", MS)])[0]["over_least"] is None


@pytest.mark.parametrize(("least", "holds"), [(1000, True), (1001, False)])
def test_bytes_below_the_certified_bound_are_a_bar_that_does_not_hold(least, holds):
    rows = [row("spff", MS, bytes_=1000, least_bytes=least)]
    (verdict,) = [one for name, one in verdicts(rows).items() if "certified" in name]
    assert verdict.holds is holds


def test_policies_that_only_explain_and_exact_run_for_the_first_seeds_alone():
    settings = replace(SETTINGS, policies=("spff", "mst-routes", "exact"), seeds=(4, 5, 6), exact_seeds=1)
    cells = policy_cells(replace(settings, ablation_seeds=2))
    assert {cell.seed: cell.policies for cell in cells} == {
        4: ("spff", "mst-routes", "exact"),
        5: ("spff", "mst-routes"),
        6: ("spff",),
    }


def test_a_queue_that_is_not_there_is_refused():
    with pytest.raises(ClusterError, match=r"scenario geant: priority: 8 is outside 1\.\.7"):
        replace(SCENARIOS["geant"], priority=8)
