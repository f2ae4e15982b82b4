"""The reader's data for a policy, ratios to the oracle, and a bar that can fail."""

from itertools import pairwise
from types import SimpleNamespace

import pytest

from p4reduce.topologies import load
from studies.frame import StudyResult
from studies.placement.settings import QUICK
from studies.placement.study import STUDY
from studies.placement.telemetry import TOPOLOGY, Bursting, Reader, TelemetryRow, telemetry_cells

UP = ("leaf1", 4)
"""a link of 100 Mb/s"""


def row(knows, interval, jct, *, core=0.0, seed=1, burst=2.0):
    return TelemetryRow(burst, knows, interval, 0.0, seed, jct, 10.0, core, 1.0, interval, 3)


@pytest.mark.parametrize(
    ("threshold", "told"),
    [
        (0.0, [60, 59, 10, 2, 25, 2]),
        (0.1, [60, 60, 10, 10, 25, 2]),
        (0.59, [60, 60, 60, 60, 60, 60]),
        (0.7, [0, 0, 0, 0, 0, 0]),
    ],
)
def test_the_policy_is_told_of_changes_above_the_threshold(threshold, told):
    reader, known = Reader(SimpleNamespace(topology=load(TOPOLOGY)), None, threshold), []
    for rate in (60, 59, 10, 2, 25, 2):
        reader.tell({UP: rate * 1_000_000})
        known.append(reader.known.get(UP, 0) // 1_000_000)
    assert known == told
    assert reader.told == len([1 for before, after in pairwise([0, *told]) if before != after])


def test_what_is_counted_twice_never_leaves_less_than_nothing():
    reader = Reader(SimpleNamespace(topology=load(TOPOLOGY)), None, 0.0)
    reader.tell({UP: 100})
    reader.tell({UP: -5})
    assert (reader.known, reader.told) == ({UP: 0}, 2)


def test_a_link_of_which_nothing_was_said_is_empty():
    reader = Reader(SimpleNamespace(topology=load(TOPOLOGY)), None, 0.0)
    reader.tell({UP: 0})
    assert (reader.known, reader.told) == ({}, 0)


def test_every_interval_has_a_run_and_long_ones_thresholds():
    cells = telemetry_cells((Bursting(1.0, 5),), (0.01, 0.3), (0.1, 0.5), (0.02,), (1, 2))
    assert len(cells) == len(set(cells)) == 2 * (2 + 2 + 2 + 1)
    assert {cell.interval_s for cell in cells if cell.threshold and cell.knows == "counters"} == {0.3}
    assert {cell.interval_s for cell in cells if cell.knows == "digests"} == {0.02}


def points(rows):
    (part,) = STUDY.chosen(["telemetry"])
    return part.points(rows)


def test_ratios_are_to_the_oracle_of_the_same_seeds():
    rows = [row("oracle", 0.0, 1.0), row("oracle", 0.0, 3.0, seed=2), row("counters", 0.1, 1.5)]
    rows += [row("counters", 0.1, 3.0, seed=2), row("counters", 0.1, 9.0, burst=5.0)]
    oracle, counters, other = points(rows)
    assert (oracle["ratio"], oracle["worst"], oracle.seeds) == (1.0, 1.0, 2)
    assert (counters["ratio"], counters["worst"], counters["jct_s"]) == (1.25, 1.5, 2.25)
    assert other["ratio"] is None  # no oracle exists for it
    assert points([]) == []


@pytest.mark.parametrize(
    ("jct", "core", "holds"),
    [
        ((1.0, 1.005, 1.2), (0.5, 0.05, 0.01), [True, True]),
        ((1.0, 1.02, 1.2), (0.5, 0.05, 0.01), [False, True]),  # the cheap ones are not close
        ((1.0, 1.005, 1.2), (0.5, 0.06, 0.01), [False, True]),
        ((1.0, 1.0, 1.0), (0.5, 0.4, 0.3), [True, False]),  # nothing is cheap
    ],
)
def test_the_bar_wants_one_interval_that_is_close_and_cheap(jct, core, holds):
    rows = [row("oracle", 0.0, 1.0), row("nothing", 0.0, 1.0)]
    rows += [row("counters", at, *pair[:1], core=pair[1]) for at, pair in enumerate(zip(jct, core, strict=True), 1)]
    for some, wanted in ((rows, holds), (rows[:-1], [])):  # two intervals are no sweep
        found = StudyResult(STUDY, QUICK, {}, {"telemetry": some}, {"telemetry": points(some)})
        assert [one.holds for one in found.verdicts] == wanted
