"""Bars of planning fail if they are not met."""

from studies.frame import StudyResult
from studies.turns.planning import QUICK, PlanningCell, PlanningRow, run_planning
from studies.turns.study import STUDY


def test_a_bar_that_is_not_met_is_a_no() -> None:
    values = {"ours": (1.0, 1.01), "exact": (1.0, 1.005), "pairs 0.8": (1.2, 1.2), "flips": (1.3, 1.3)}
    rows = [PlanningRow(name, 101 + place, value) for name, own in values.items() for place, value in enumerate(own)]
    found = StudyResult(STUDY, QUICK, {}, {"plan-optima": rows}, {})
    holds = {one.bar: one.holds for one in found.verdicts}
    assert holds == {
        "flips, swaps, restarts over best partition, gangs": False,
        "flips, swaps, restarts over best partition, gangs: worst": False,
        "tdm over joint optimum": False,  # two instances are too few for the mean
        "tdm over joint optimum: worst": True,
        "mean JCT exclusive / pairs, load 0.8": False,
        "flips over best partition, gangs": None,
    }


def test_pairs_of_one_seed() -> None:
    found = {row.figure: row.value for row in run_planning(PlanningCell("pairs", 1, small=True))}
    assert 0.48 <= found["pairs models worst"] <= found["pairs models"] <= 1.0
    assert found["free sigma 0.4"] < found["pairs sigma 0.4"]
