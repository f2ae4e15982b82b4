"""Table entries that order the batches of a group of jobs."""

from importlib import resources
from pathlib import Path

import finsy as fy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from p4reduce.base.errors import ControllerError
from p4reduce.control_plane.connection import JobGroup, batch_class, batch_entries, group_size, lag_entry
from p4reduce.control_plane.entries import describe, key

GROUP = JobGroup(64, 8, cell=3, generation=9, base=2, most=3)


def test_entries_fit_the_program():
    info = Path(str(resources.files("p4reduce.p4src") / "compiled/p4reduce-64.p4info.txt"))
    schema = fy.P4Schema(info)
    for entry in (lag_entry(GROUP), *batch_entries(GROUP, 5)):
        entry.encode(schema)
    assert describe(lag_entry(GROUP)) == (
        "traffic_class[hdr.inc.job=64/65528] -> by_lag(group=3, generation=9, base=2, most=3)"
    )


@given(st.integers(0, 2**31), st.integers(1, 8))
def test_sixteen_entries_that_later_ones_replace(oldest, span):
    entries = batch_entries(GROUP, oldest, span)
    assert len({key(entry) for entry in entries}) == 16
    assert {key(entry) for entry in entries} == {key(entry) for entry in batch_entries(GROUP, oldest + 4, span)}


@given(st.integers(0, 6), st.integers(0, 6), st.integers(1, 8))
def test_older_batches_never_have_lower_classes_and_all_classes_are_used(base, most, span):
    if base + most > 7:
        return
    group = JobGroup(0, 1, 0, 1, base, most)
    classes = [batch_class(group, ahead, push, span) for ahead in range(8) for push in (0, 1)]
    assert classes == sorted(classes, reverse=True)
    assert classes[0] == base + most
    assert classes[2 * span :] == [base] * (16 - 2 * span)
    if 2 * span > most:
        assert set(classes) == set(range(base, base + most + 1))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"first": 4}, "group of jobs"),
        ({"size": 6}, "group of jobs"),
        ({"first": 65536}, "group of jobs"),
        ({"cell": 256}, "cell"),
        ({"base": 5}, "classes"),
        ({"base": -1}, "classes"),
    ],
)
def test_groups_that_cannot_be(change, named):
    given_fields = {"first": 64, "size": 8, "cell": 3, "generation": 9, "base": 2, "most": 3, **change}
    with pytest.raises(ControllerError, match=named):
        JobGroup(**given_fields)
    with pytest.raises(ControllerError, match="span"):
        batch_entries(GROUP, 0, 9)


def test_group_sizes():
    assert [group_size(jobs) for jobs in (1, 2, 3, 8, 9)] == [1, 2, 4, 8, 16]
