"""Arrivals at flow level: computed by hand, and general properties."""

import pytest

from p4reduce.control_plane.tdm.jobs import TdmError
from p4reduce.control_plane.tdm.pairs import TimesAlone
from p4reduce.play.turns.arrivals import GPUS, MODES, JobArrival, draw_trace, rated, run_trace

STEP = TimesAlone(1.0, 1.0)


def test_first_in_first_out_with_backfilling() -> None:
    jobs = [
        JobArrival(0.0, 3, 10.0, STEP),
        JobArrival(1.0, 4, 10.0, STEP),  # waits for the first
        JobArrival(2.0, 1, 3.0, STEP),  # fits beside the first
    ]
    assert run_trace(jobs, 4, "exclusive").jct_s == [10.0, 19.0, 3.0]


def test_equal_jobs_in_turns_do_not_notice_each_other() -> None:
    jobs = [JobArrival(0.0, 4, 10.0, STEP), JobArrival(1.0, 4, 10.0, STEP), JobArrival(2.0, 4, 10.0, STEP)]
    outcome = run_trace(jobs, 4, "pairs")
    assert outcome.jct_s == [10.0, 10.0, pytest.approx(18.0)]  # the third waits for the first
    assert outcome.paired == 3
    assert outcome.makespan_s == pytest.approx(20.0)


def test_guests_on_different_gpus_of_a_host() -> None:
    jobs = [JobArrival(0.0, 4, 10.0, STEP), JobArrival(1.0, 2, 4.0, STEP), JobArrival(1.0, 2, 4.0, STEP)]
    assert run_trace(jobs, 4, "gated").jct_s == [10.0, 4.0, 4.0]


def test_a_guest_moves_out_when_gpus_are_free() -> None:
    jobs = [JobArrival(0.0, 2, 4.0, STEP), JobArrival(0.0, 2, 20.0, STEP), JobArrival(1.0, 2, 20.0, STEP)]
    free = run_trace(jobs, 4, "free").jct_s
    assert free[1] == pytest.approx(20.0) or free[2] < 40.0
    assert max(free) < 30.0


@pytest.mark.parametrize("policy", MODES)
@pytest.mark.parametrize("load", [0.5, 1.2])
def test_no_job_ends_before_it_could(policy: str, load: float) -> None:
    jobs = draw_trace("helios", 3, jobs=60, gpus=32, load=load)
    outcome = run_trace(jobs, 32, policy)
    for jct, one in zip(outcome.jct_s, jobs, strict=True):
        assert jct >= one.duration_s * (1 - 1e-9)
    work = sum(one.gpus * one.duration_s for one in jobs)
    assert outcome.makespan_s >= work / (32 if policy == "exclusive" else 64) * (1 - 1e-9)


def test_a_trace_is_as_its_parameters_say() -> None:
    jobs = draw_trace("philly", 1, jobs=4000, gpus=1024, load=0.9)
    again = draw_trace("philly", 1, jobs=4000, gpus=1024, load=1.8)
    assert [one.duration_s for one in jobs] == [one.duration_s for one in again]
    assert again[-1].arrival_s == pytest.approx(jobs[-1].arrival_s / 2)
    durations = sorted(one.duration_s for one in jobs)
    assert durations[2000] == pytest.approx(944, rel=0.15)  # exp(6.85)
    assert {one.gpus for one in jobs} == set(GPUS)
    offered = sum(one.gpus * one.duration_s for one in jobs) / 1024 / jobs[-1].arrival_s
    assert offered == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"trace": "google"}, "none of philly"), ({"load": 0.0}, "positive"), ({"jobs": 0}, "positive")],
)
def test_what_is_no_trace(changes: dict[str, object], said: str) -> None:
    fields: dict[str, object] = {"trace": "philly", "seed": 1, "jobs": 5, "gpus": 8, "load": 1.0}
    with pytest.raises(TdmError, match=said):
        draw_trace(**{**fields, **changes})  # type: ignore[arg-type]
    with pytest.raises(TdmError, match="32 units for 8"):
        run_trace([JobArrival(0.0, 32, 1.0, STEP)], 8, "pairs")
    with pytest.raises(TdmError, match="none of exclusive"):
        run_trace([], 8, "best")


def test_nobody_is_slower_than_it_may_be() -> None:
    quick = TimesAlone(0.1, 0.1)
    assert rated(STEP, (), ("gated",)) == (1.0,)
    assert rated(STEP, (STEP, STEP), ("gated",)) == (1.0, 1.0, 1.0)
    assert rated(STEP, (STEP, quick), ("gated",)) is None
    assert rated(STEP, (quick,), ("gated",)) is None
