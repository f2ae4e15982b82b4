"""`cassini`: flows of periodic jobs are put off, once, so that they meet as little as possible (NSDI'24, section 4).

Time is a circle of the least common multiple of periods, cut into steps of 5 degrees of the shortest period. Jobs are
placed one by one, most communication first, then each again while that lowers the excess: for every link and step, by
how many jobs more than one it is wanted.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.control_plane.priorities.answers import Shifts
from p4reduce.control_plane.priorities.facts import JobFacts, Situation
from p4reduce.control_plane.priorities.policy import register_priority_policy

STEPS: Final = 72
"""of the shortest period"""
MOST_STEPS: Final = 72 * 16
"""of the circle; where periods have no common multiple so small, it is their largest one, in longer steps if need be"""
PASSES: Final = 4

Steps = NDArray[np.int64]


@register_priority_policy("cassini")
def cassini(situation: Situation) -> Shifts:
    """No order: flows of periodic jobs are put off, once, so that they meet as little as possible (CASSINI).

    Jobs without a known period stay where they are, and nobody makes room for them.
    """
    jobs = [job for job in situation.jobs if _periodic(job)]
    if len(jobs) < 2:
        return Shifts({})
    periods = [job.period_ps or 0 for job in jobs]
    step = max(1, min(periods) // STEPS, -(-max(periods) // MOST_STEPS))
    places = _placed(jobs, step)
    anchor = jobs[0]
    origin = (anchor.next_ps or 0) - places[anchor.name] * step
    return Shifts(
        {job.name: (origin + places[job.name] * step - (job.next_ps or 0)) % (job.period_ps or 1) for job in jobs}
    )


def _periodic(job: JobFacts) -> bool:
    return bool(job.period_ps) and bool(job.communication_ps) and job.next_ps is not None


def _placed(jobs: list[JobFacts], step: int) -> dict[str, int]:
    """Where the flow of each job begins on the circle, steps."""
    periods = {job.name: max(1, round((job.period_ps or 0) / step)) for job in jobs}
    around = math.lcm(*periods.values())
    if around > MOST_STEPS:
        around = max(periods.values())
    lengths = {job.name: min(periods[job.name], math.ceil((job.communication_ps or 0) / step)) for job in jobs}
    links = sorted({hop for job in jobs for hop in job.links})
    rows = {job.name: [links.index(hop) for hop in sorted(job.links)] for job in jobs}
    wanted = np.zeros((max(len(links), 1), around), np.int64)
    places: dict[str, int] = {}
    order = sorted(jobs, key=lambda job: (-lengths[job.name], job.name))
    for turn in range(1 + PASSES):
        before = dict(places)
        for job in order:
            name = job.name
            own = rows[name]
            if turn:
                wanted[own] -= _pattern(around, periods[name], lengths[name], places[name])
            places[name] = _best(wanted[own], around, periods[name], lengths[name])
            wanted[own] += _pattern(around, periods[name], lengths[name], places[name])
        if places == before:
            break
    return places


def _pattern(around: int, period: int, length: int, start: int) -> Steps:
    """1 at the steps of the circle in which a job sends, int64 (around,)."""
    return np.asarray((np.arange(around) - start) % period < length, np.int64)


def _best(others: Steps, around: int, period: int, length: int) -> int:
    """The first start with the least excess."""
    busy = (others >= 1).sum(axis=0)
    costs = [int((busy * _pattern(around, period, length, start)).sum()) for start in range(min(period, around))]
    return int(np.argmin(costs))
