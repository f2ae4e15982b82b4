"""Time shifts, compared with intervals laid side by side here."""

import itertools

import pytest

from p4reduce.control_plane.priorities import JobFacts, Situation, decide

LINK = frozenset({("leaf0", 1)})
MS = 1_000_000_000


def job(name: str, period: int, communication: int, after: int = 0) -> JobFacts:
    return JobFacts(name, LINK, period_ps=period, communication_ps=communication, next_ps=after)


def overlap(jobs: list[JobFacts], shifts: dict[str, int], periods: int = 40) -> float:
    """Return the share of communication in which two or more send, over a number of the longest periods."""
    last = periods * max(one.period_ps or 0 for one in jobs)
    edges = []
    for one in jobs:
        start = (one.next_ps or 0) + shifts.get(one.name, 0)
        while start < last:
            edges += [(start, 1), (start + (one.communication_ps or 0), -1)]
            start += one.period_ps or 1
    edges.sort()
    total, double, count = 0, 0, 0
    for (before, change), (after, _) in itertools.pairwise(edges):
        count += change
        total += (after - before) * count
        double += (after - before) * max(0, count - 1)
    return double / total


@pytest.mark.parametrize("count", [2, 3, 4])
def test_equal_jobs_that_fit_do_not_meet(count: int) -> None:
    jobs = [job(f"j{n}", MS, MS // 5) for n in range(count)]
    assert overlap(jobs, {}) > 0.4
    assert overlap(jobs, dict(decide("cassini", Situation(jobs)).shifts)) == 0


def test_where_flows_begin_now_counts() -> None:
    """Flows that are already apart are delayed equally, if at all."""
    jobs = [job("a", MS, MS // 4), job("b", MS, MS // 4, after=MS // 2), job("c", MS, MS // 4, after=MS // 4)]
    assert overlap(jobs, dict(decide("cassini", Situation(jobs)).shifts)) == 0


def test_harmonic_periods_interleave() -> None:
    jobs = [job("a", MS, MS // 4), job("b", 2 * MS, MS // 2), job("c", 2 * MS, MS // 4)]
    assert overlap(jobs, {}) > 0.1
    assert overlap(jobs, dict(decide("cassini", Situation(jobs)).shifts)) < 0.02


def test_jobs_on_other_links_and_without_a_period_stay() -> None:
    jobs = [
        job("a", MS, MS // 2),
        JobFacts("b", frozenset({("leaf1", 1)}), period_ps=MS, communication_ps=MS // 2, next_ps=0),
        JobFacts("c", LINK, bytes=5),
    ]
    assert not decide("cassini", Situation(jobs)).shifts


def test_periods_that_are_far_apart_take_no_more_steps() -> None:
    """1 ps beside 1 s once took a cycle of 10^12 steps."""
    jobs = [job("a", 1, 1), job("b", 10**12, 10**11), job("c", 999_983, 7)]
    shifts = decide("cassini", Situation(jobs)).shifts
    assert all(0 <= shift < 10**12 for shift in shifts.values())


def test_a_shift_is_below_the_period() -> None:
    jobs = [job(f"j{n}", MS + n * 12_345_678, MS // 3, after=-n) for n in range(5)]
    shifts = decide("cassini", Situation(jobs)).shifts
    assert all(0 <= shift < (one.period_ps or 0) for one in jobs for shift in [shifts.get(one.name, 0)])
