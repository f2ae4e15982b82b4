"""The built-in priority policies: classes, orders, paces and time shifts of jobs."""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.control_plane.priorities.policy import (
    JOB_CLASSES,
    Classes,
    JobFacts,
    LaneDirection,
    Order,
    Paces,
    Shifts,
    Situation,
    by_flow,
    one_by_one,
    register_priority_policy,
    tied,
)
from p4switch.base.values import PS_PER_US

# `aalo`: without any knowledge, the job that has sent least in this iteration comes first.
#
# As in PIAS (NSDI'15) and Aalo (SIGCOMM'15), queues have thresholds that grow by a factor, and each is first come,
# first served.


FIRST_BYTES: Final = 32 * 1024
"""bytes in the highest queue"""
FACTOR: Final = 4
"""factor between thresholds: 32 KiB, 128 KiB, 512 KiB, 2 MiB, 8 MiB"""


@register_priority_policy("aalo", within=True)
def aalo(situation: Situation) -> Classes:
    """Fewest bytes sent in the current iteration first, by exponential thresholds (PIAS, Aalo); needs no knowledge."""
    return Classes({flow: _class(job.attained) for job in situation.jobs for flow in job.flows})


def _class(attained: int) -> int:
    threshold, value = FIRST_BYTES, JOB_CLASSES[-1]
    while attained >= threshold and value > JOB_CLASSES[0]:
        threshold, value = threshold * FACTOR, value - 1
    return value


# `pull-push`, `batch`, `batch-relative`: orders by the kind of frames, whatever their job.


@register_priority_policy("pull-push")
def pull_push(situation: Situation) -> Order:
    """Parameters before gradients, for all jobs."""
    return by_flow(situation, lambda _job, flow: flow.kind is LaneDirection.PUSH)


@register_priority_policy("batch")
def batch(situation: Situation) -> Order:
    """Lowest batch number first and, within a batch, pull before push: rank 2 * batch + [push]."""
    return by_flow(situation, lambda job, flow: 2 * (job.newest - flow.lag) + (flow.kind is LaneDirection.PUSH))


@register_priority_policy("batch-relative")
def batch_relative(situation: Situation) -> Order:
    """As `batch`, but batches count from the oldest one of each job, so that jobs that began earlier are not last."""
    return by_flow(
        situation, lambda job, flow: 2 * (job.newest - flow.lag - job.oldest) + (flow.kind is LaneDirection.PUSH)
    )


# `cassini`: flows of periodic jobs are delayed, once, so that they overlap as little as possible (NSDI'24, section 4).
#
# Time is a circle of the least common multiple of periods, divided into steps of 5 degrees of the shortest period. Jobs
# are placed one by one, those with most communication first, then each again while that lowers the excess: the number
# of jobs above one that want a link in a step, over all links and steps.


STEPS: Final = 72
"""number of steps of the shortest period"""
MOST_STEPS: Final = 72 * 16
"""largest number of steps of the circle; without a common multiple that small, it is the longest period"""
PASSES: Final = 4

Steps = NDArray[np.int64]


@register_priority_policy("cassini")
def cassini(situation: Situation) -> Shifts:
    """No order: delays the flows of periodic jobs once, so that they overlap as little as possible (CASSINI).

    Jobs without a known period are not delayed, and other jobs do not take them into account.
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
    """Return the step of the circle at which the flow of each job begins."""
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
    """Return 1 at the steps of the circle in which a job sends, else 0, int64 (around,)."""
    return np.asarray((np.arange(around) - start) % period < length, np.int64)


def _best(others: Steps, around: int, period: int, length: int) -> int:
    """Return the first start with the least excess."""
    busy = (others >= 1).sum(axis=0)
    costs = [int((busy * _pattern(around, period, length, start)).sum()) for start in range(min(period, around))]
    return int(np.argmin(costs))


# Orders without ties between known jobs, each of which makes jobs on one link interleave.


@register_priority_policy("random")
def random(situation: Situation) -> Order:
    """Random order by a hash of seed and job name, so that arrivals and departures do not reorder other jobs."""
    return one_by_one(situation, lambda job: _drawn(situation.seed, job.name))


@register_priority_policy("sjf")
def sjf(situation: Situation) -> Order:
    """Shortest job first: fewest bytes of an iteration on the busiest link."""
    return one_by_one(situation, lambda job: job.bytes)


@register_priority_policy("reversed")
def reversed_(situation: Situation) -> Order:
    """Longest job first: shows the worst effect of a wrong prediction of job sizes."""
    return one_by_one(situation, lambda job: None if job.bytes is None else -job.bytes)


@register_priority_policy("intensity")
def intensity(situation: Situation) -> Order:
    """Highest ratio of computing to communication time first, like Crux's GPU intensity (SIGCOMM'24, section 4.1)."""
    return one_by_one(situation, _negative_intensity)


@register_priority_policy("srpt", within=True)
def srpt(situation: Situation) -> Order:
    """Shortest remaining first: fewest bytes left of the running iteration; with an oracle, a bound for others."""
    return one_by_one(situation, lambda job: None if job.bytes is None else round(job.bytes * (1 - job.sent)))


@register_priority_policy("slack", within=True)
def slack(situation: Situation) -> Order:
    """Least slack first: time until the deadline of the running iteration minus its remaining sending time, in us."""
    return one_by_one(situation, _slack)


def _negative_intensity(job: JobFacts) -> float | None:
    if job.compute_ps is None or not job.communication_ps:
        return None
    return -job.compute_ps / job.communication_ps


def _slack(job: JobFacts) -> int | None:
    if job.deadline_ps is None or job.communication_ps is None:
        return None
    return round((job.deadline_ps - job.communication_ps * (1 - job.sent)) / PS_PER_US)


def _drawn(seed: int, name: str) -> int:
    """Return a number for a name: 64-bit FNV-1a of seed and name, mixed by splitmix64, the same on every machine."""
    mask = (1 << 64) - 1
    value = 0xCBF29CE484222325
    for byte in f"{seed}:{name}".encode():
        value = ((value ^ byte) * 0x100000001B3) & mask
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & mask
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & mask
    return value ^ (value >> 31)


# `fifo` and `fair`: no order between jobs.


@register_priority_policy("fifo")
def fifo(situation: Situation) -> Order:
    """No order: first come, first served, in one queue for all jobs."""
    return tied(situation)


@register_priority_policy("fair")
def fair(situation: Situation) -> Paces:
    """No order: equal shares of common links for all jobs."""
    return Paces({job.name: 1.0 for job in situation.jobs})


SLOPE: Final = 1.75
INTERCEPT: Final = 0.25
"""parameters of the aggressiveness by the share sent (MLTCP, arXiv 2402.09589, section 3)"""


@register_priority_policy("mltcp", within=True)
def mltcp(situation: Situation) -> Paces:
    """No order: a job sends faster, the more of its iteration it has sent, until jobs take turns (MLTCP)."""
    return Paces({job.name: INTERCEPT + SLOPE * job.sent for job in situation.jobs})
