"""Jobs that compute, then communicate, over and over, on links that they share: bits as a fluid."""

from pathlib import Path
from typing import Any, Final

import numpy as np

from p4switch.native.compiler import Compiler, Decorator

kernel: Decorator = Compiler(Path(__file__).parent).kernel
Array = Any
_NEVER: Final = 1e300
_NOTHING: Final = 1e-12


@kernel
def iteration_ends(
    compute: Array,
    latency: Array,
    stream: Array,
    starts: Array,
    links: Array,
    bits: Array,
    capacity: Array,
    begin: Array,
    rounds: int,
) -> Array:
    """When every job ends its iterations.

    Flows share a link as frames of one size do in a FIFO queue, evenly, or by weights: a job whose frames come from
    ``copies`` flows gets as many shares (max-min over flows, by progressive filling). A job's flows advance together: a
    tree or a ring goes at the pace of its slowest link.

    Parameters
    ----------
    compute, latency : float64 (jobs,)
        Seconds of an iteration before it communicates, and after its last bit was sent.
    stream : float64 (jobs,)
        Bits that one of its flows carries in an iteration, over the flow's weight.
    starts : int64 (jobs + 1,)
        Where a job's links begin in ``links`` and ``bits``.
    links, bits : int64, float64
        Links that a job uses, and what it puts on each in an iteration.
    capacity : float64 (links,)
        Bit/s.
    begin : float64 (jobs,)
        When a job's first iteration begins.
    rounds : int
        Iterations of each job; all go on until the last job has so many, and what comes later is not told.

    Returns
    -------
    float64 (jobs, rounds)
        Seconds.
    """
    jobs, count = len(compute), len(capacity)
    ends = np.zeros((jobs, rounds))
    done = np.zeros(jobs, np.int64)
    sending = np.zeros(jobs, np.bool_)
    wake = begin + compute
    left = np.zeros(jobs)  # share of the iteration's bits
    rate = np.zeros(jobs)  # share a second
    free, weight = np.zeros(count), np.zeros(count)
    fixed = np.zeros(jobs, np.bool_)
    now, behind = 0.0, jobs
    while behind > 0:
        # rates: max-min over the flows of those that send
        for place in range(count):
            free[place], weight[place] = capacity[place], 0.0
        waiting = 0
        for job in range(jobs):
            fixed[job] = not sending[job]
            if sending[job]:
                waiting += 1
                for at in range(starts[job], starts[job + 1]):
                    weight[links[at]] += bits[at] / stream[job]
        while waiting > 0:
            level, worst = _NEVER, -1
            for place in range(count):
                if weight[place] > _NOTHING and free[place] / weight[place] < level:
                    level, worst = free[place] / weight[place], place
            if worst < 0:
                break
            for job in range(jobs):
                if fixed[job]:
                    continue
                here = False
                for at in range(starts[job], starts[job + 1]):
                    if links[at] == worst and bits[at] > 0.0:
                        here = True
                if here:
                    fixed[job], rate[job] = True, level / stream[job]
                    waiting -= 1
                    for at in range(starts[job], starts[job + 1]):
                        share = bits[at] / stream[job]
                        free[links[at]] = max(free[links[at]] - level * share, 0.0)
                        weight[links[at]] -= share
            weight[worst] = 0.0
        # the next event
        soonest = _NEVER
        for job in range(jobs):
            at_s = now + left[job] / rate[job] if sending[job] else wake[job]
            soonest = min(soonest, at_s)
        for job in range(jobs):
            if sending[job]:
                left[job] -= (soonest - now) * rate[job]
        now = soonest
        for job in range(jobs):
            if sending[job] and left[job] <= 1e-9:
                sending[job] = False
                end = now + latency[job]
                if done[job] < rounds:
                    ends[job, done[job]] = end
                    done[job] += 1
                    if done[job] == rounds:
                        behind -= 1
                wake[job] = end + compute[job]
            elif not sending[job] and wake[job] <= now + _NOTHING:
                sending[job], left[job] = True, 1.0
    return ends
