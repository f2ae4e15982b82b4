"""Jobs that compute and communicate in turns on shared links: bits as a fluid."""

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
    """Return the end times of every job's iterations.

    Flows share a link like frames of one size in a FIFO queue: equally, or by weights. A job whose frames come from
    ``copies`` flows gets that many shares (max-min over flows, by progressive filling). The flows of a job advance
    together: a tree or a ring moves at the pace of its slowest link.

    Parameters
    ----------
    compute, latency : float64 (jobs,)
        Seconds of an iteration before communication, and after its last bit was sent.
    stream : float64 (jobs,)
        Bits of one of its flows per iteration, divided by the flow's weight.
    starts : int64 (jobs + 1,)
        First index of each job's links in ``links`` and ``bits``.
    links, bits : int64, float64
        Links of each job, and its bits on each per iteration.
    capacity : float64 (links,)
        Rate of each link, bit/s.
    begin : float64 (jobs,)
        Start time of each job's first iteration, s.
    rounds : int
        Number of iterations per job; all jobs continue until the last one has so many; later ends are not returned.

    Returns
    -------
    float64 (jobs, rounds)
        End times, s.
    """
    jobs, count = len(compute), len(capacity)
    ends = np.zeros((jobs, rounds))
    done = np.zeros(jobs, np.int64)
    sending = np.zeros(jobs, np.bool_)
    wake = begin + compute
    left = np.zeros(jobs)  # share of the iteration's bits that is left
    rate = np.zeros(jobs)  # share per second
    free, weight = np.zeros(count), np.zeros(count)
    fixed = np.zeros(jobs, np.bool_)
    now, behind = 0.0, jobs
    while behind > 0:
        # rates: max-min over the flows of the sending jobs
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
